/* fixfile.c - ringup's block in a settings file: insert or remove it, keep all other bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/fixfile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

enum { FILE_CAP = 1 << 20 };

static const char begins[] = "# >>> ringup", ends[] = "# <<< ringup";
static const char about[] = "# by `ringup net fix`; `ringup net fix --undo` removes it\n";
static const char hidden[] = "#ringup: "; /* in front of a line that --force silenced */

static int fixfile_no_memory(struct err *e)
{
	return fail(e, RINGUP_ENOMEM, "no memory for the settings' files");
}

static size_t line_length(const char *s)
{
	size_t len = strcspn(s, "\n");

	return len + (s[len] == '\n');
}

static bool starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

/* Did --force silence this line?  It silences settings, never comments or our block. */
static bool is_hidden(const char *line)
{
	const char *rest = line + sizeof(hidden) - 1;

	return starts(line, hidden) && *rest != '#' && memchr(rest, '=', line_length(rest));
}

/* Our block in a text, and the state that its first line records. */
struct block {
	const char *begin, *end; /* NULL: there is none */
	bool made;               /* the file is ours as well           */
	bool newline;            /* the line above had no end          */
	int folders;             /* created for the file               */
};

static int find_block(const char *text, struct block *b, const char *path, struct err *e)
{
	const char *s, *word;
	char first[128];

	memset(b, 0, sizeof(*b));
	for (s = text; s && *s; s += line_length(s)) {
		if (starts(s, ends)) {
			if (!b->begin || b->end)
				break;
			b->end = s + line_length(s);
		} else if (starts(s, begins)) {
			if (b->begin)
				break;
			b->begin = s;
		}
	}
	if ((s && *s) || (b->begin && !b->end))
		return fail(e, RINGUP_EINVAL,
			    "%s: the lines between \"%s\" and \"%s\" are damaged; repair or "
			    "remove them",
			    path, begins, ends);
	if (!b->begin)
		return 0;
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(b->begin, "\n"), b->begin);
	b->made = strstr(first, " made") != NULL;
	b->newline = strstr(first, " newline") != NULL;
	word = strstr(first, " folders:");
	b->folders = word ? atoi(word + 9) : 0;
	return 0;
}

static char *slice(const char *from, const char *to)
{
	return strndup(from, (size_t)(to - from));
}

/* The file without our block; with @undo, as it was before ringup. */
static char *without(const char *text, const struct block *b, bool undo)
{
	char *out = NULL;
	size_t size, len;
	FILE *f = open_memstream(&out, &size);
	const char *s = text;

	if (!f)
		return NULL;
	for (; s && *s; s += len) {
		if (s == b->begin) {
			len = (size_t)(b->end - b->begin);
			continue;
		}
		len = line_length(s);
		if (undo && b->begin && is_hidden(s)) {
			s += sizeof(hidden) - 1;
			len -= sizeof(hidden) - 1;
		}
		/* The end of the line above the block may be ours. */
		fwrite(s, 1, len - (b->newline && s + len == b->begin && !*b->end), f);
	}
	return fclose(f) ? NULL : out;
}

/* Parses NAME and VALUE of one line by its file's syntax; false: it sets nothing. */
static bool fixfile_parse(enum fix_grammar g, const char *line, size_t len, char **name,
			  char **value)
{
	const char *end = line + len, *eq;

	if (len && end[-1] == '\n')
		end--;
	eq = memchr(line, '=', (size_t)(end - line));
	if (!eq)
		return false;
	if (g != FIX_NCCL) {
		while (isblank((unsigned char)*line))
			line++;
		if (g >= FIX_SHELL && starts(line, "export"))
			for (line += 6; isblank((unsigned char)*line); line++)
				;
	}
	*name = line <= eq ? slice(line, eq) : strdup("");
	for (eq++; g != FIX_NCCL && eq < end && isspace((unsigned char)*eq); eq++)
		;
	for (; g != FIX_NCCL && eq < end && isspace((unsigned char)end[-1]); end--)
		;
	if (g >= FIX_SHELL && end - eq >= 2 && (*eq == '"' || *eq == '\'') && end[-1] == *eq) {
		eq++;
		end--;
	}
	*value = slice(eq, end);
	if (*name && g == FIX_MCA)
		(*name)[strcspn(*name, " \t")] = 0;
	return true;
}

/* Does this line contradict @rules? */
static bool differs(enum fix_grammar g, const char *line, size_t len,
		    const struct fix_rule *rules)
{
	char *name = NULL, *value = NULL;
	bool bad = false;

	if (!fixfile_parse(g, line, len, &name, &value))
		return false;
	for (int i = 0; name && value && rules[i].name; i++)
		if (!strcmp(rules[i].name, name))
			bad = !((rules[i].accept[0] && !strcmp(rules[i].accept[0], value)) ||
				(rules[i].accept[1] && !strcmp(rules[i].accept[1], value)));
	free(name);
	free(value);
	return bad;
}

/* Copies the text, and silences or reports lines that contradict.  A silenced line stays
 * silenced as long as it contradicts. */
static void copy_lines(const struct fix_file *file, const char *text, const struct fix_ask *ask,
		       FILE *f)
{
	const char *s = text;
	size_t len;

	for (int number = 1; *s; s += len, number++) {
		bool was_hidden = is_hidden(s);

		s += was_hidden ? sizeof(hidden) - 1 : 0;
		len = line_length(s);
		if (differs(file->grammar, s, len, ask->rules)) {
			if (ask->force || was_hidden)
				fputs(hidden, f);
			else
				ask->conflict(ask->arg, file->path, number, s);
		}
		fwrite(s, 1, len, f);
	}
}

static void write_block(const struct block *b, const char *settings, FILE *f)
{
	fputs(begins, f);
	if (b->made)
		fputs(" made", f);
	if (b->newline)
		fputs(" newline", f);
	if (b->folders)
		fprintf(f, " folders:%d", b->folders);
	fprintf(f, "\n%s%s%s\n", about, settings, ends);
}

int fixfile_folders(const char *root, const char *path)
{
	char dir[256];
	char *slash;
	int n = 0;

	snprintf(dir, sizeof(dir), "%s", path);
	while ((slash = strrchr(dir, '/')) && slash != dir) {
		*slash = 0;
		if (file_exists(root, dir))
			break;
		n++;
	}
	return n;
}

static char *compose(const struct fix_file *file, struct block b, const char *text,
		     const struct fix_ask *ask)
{
	size_t size, len = strlen(text);
	char *out = NULL;
	FILE *f = open_memstream(&out, &size);
	/* In NCCL's file the first line of a name counts, in all others the last. */
	bool on_top = file->grammar == FIX_NCCL;

	if (!f)
		return NULL;
	b.newline = !on_top && len && text[len - 1] != '\n';
	if (on_top)
		write_block(&b, ask->settings, f);
	copy_lines(file, text, ask, f);
	if (b.newline)
		fputc('\n', f);
	if (!on_top)
		write_block(&b, ask->settings, f);
	return fclose(f) ? NULL : out;
}

/* Builds file->after, the wanted contents; NULL there if the file is to be removed. */
static int rewrite(struct fix_file *file, const struct block *b, const struct fix_ask *ask,
		   struct err *e)
{
	bool undo = !ask->settings, keep;
	char *text = without(file->before, b, undo);
	int rc = 0;

	keep = text && (!undo || *text || !b->made);
	if (text && !undo)
		file->after = compose(file, *b, text, ask);
	else if (keep)
		file->after = strdup(text);
	if (!text || (keep && !file->after))
		rc = fixfile_no_memory(e);
	free(text);
	return rc;
}

int fixfile_plan(struct fix_file *file, const char *root, const struct fix_ask *ask,
		 struct err *e)
{
	struct block b;
	size_t len;
	int rc;

	if (!file_exists(root, file->path)) {
		if (!ask->settings)
			return 0;
		b = (struct block){ .made = true,
				    .folders = fixfile_folders(root, file->path) };
	} else {
		rc = file_read(root, file->path, FILE_CAP, &file->before, &len, e);
		if (!rc && strlen(file->before) != len)
			rc = fail(e, RINGUP_EINVAL, "%s: not a text file", file->path);
		if (!rc)
			rc = find_block(file->before, &b, file->path, e);
		if (rc)
			return rc;
	}
	file->folders = b.folders;
	return rewrite(file, &b, ask, e);
}

/* The start of the line above @s. */
static const char *line_above(const char *text, const char *s)
{
	for (s--; s > text && s[-1] != '\n'; s--)
		;
	return s;
}

static bool fixfile_is_listed(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

/* Goes from the last line to the first, since the last of a name is in force. */
static int shell_settings(const struct fix_file *file, const char *const *names,
			  struct netconf *c, struct err *e)
{
	const char *s = file->after + strlen(file->after);
	char *name, *value;
	int rc = 0;

	while (!rc && s > file->after) {
		s = line_above(file->after, s);
		if (!fixfile_parse(file->grammar, s, line_length(s), &name, &value))
			continue;
		if (name && value && fixfile_is_listed(names, name))
			rc = netconf_add(c, name, value, file->path, e);
		free(name);
		free(value);
	}
	return rc;
}

int fixfile_settings(const struct fix_file *file, const char *const *names, struct netconf *c,
		     struct err *e)
{
	if (!file->after)
		return 0;
	if (file->grammar == FIX_NCCL)
		return netconf_nccl(c, file->after, file->path, names, e);
	if (file->grammar == FIX_MCA)
		return netconf_mca(c, file->after, file->path, names, e);
	return shell_settings(file, names, c, e);
}

bool fixfile_changes(const struct fix_file *f)
{
	if (!f->before || !f->after)
		return f->before != f->after;
	return strcmp(f->before, f->after) != 0;
}

void fixfile_free(struct fix_file *file)
{
	free(file->before);
	free(file->after);
	memset(file, 0, sizeof(*file));
}
