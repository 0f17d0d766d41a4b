/* pin.c - write one interface into the settings of all libraries, and take it out again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/pin.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/batch.h"
#include "base/err.h"
#include "base/file.h"
#include "host/netconf.h"
#include "ringup.h"

enum { FILE_CAP = 1 << 20 };

static const char begins[] = "# >>> ringup", ends[] = "# <<< ringup";
static const char about[] = "# by `ringup net pin`; `ringup net pin --undo` takes it out\n";
static const char hidden[] = "#ringup: "; /* in front of a line that --force silenced */

static const char profile[] = "/etc/profile.d/ringup.sh";
static const char debian_mca[] = "/etc/openmpi/openmpi-mca-params.conf";
static const char spark_conf[] = "/databricks/spark/conf";
static const char spark_env[] = "/databricks/spark/conf/spark-env.sh";

/* A setting that may say nothing else than one of two values; NULL: nothing. */
struct rule {
	const char *name;
	const char *accept[2];
};

static int no_memory(struct err *e)
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

/* Our block in a text, and what its first line remembers. */
struct block {
	const char *begin, *end; /* NULL: there is none */
	bool made;               /* the file is ours as well           */
	bool newline;            /* the line above had no end          */
	int folders;             /* that were made for the file        */
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
		return fail(
			e, RINGUP_EINVAL,
			"%s: the lines between \"%s\" and \"%s\" are damaged; mend or remove "
			"them by hand",
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

/* The file without our block; with @undo, as it was before us. */
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
		if (undo && starts(s, hidden)) {
			s += sizeof(hidden) - 1;
			len -= sizeof(hidden) - 1;
		}
		/* The end of the line above the block may be ours. */
		fwrite(s, 1, len - (b->newline && s + len == b->begin && !*b->end), f);
	}
	return fclose(f) ? NULL : out;
}

/* "NAME" and "VALUE" of one line, as its readers take it; false: says nothing. */
static bool parse(enum pin_grammar g, const char *line, size_t len, char **name, char **value)
{
	const char *end = line + len, *eq;

	if (len && end[-1] == '\n')
		end--;
	eq = memchr(line, '=', (size_t)(end - line));
	if (!eq)
		return false;
	if (g != PIN_NCCL) {
		while (isblank((unsigned char)*line))
			line++;
		if (g == PIN_SHELL && starts(line, "export"))
			for (line += 6; isblank((unsigned char)*line); line++)
				;
	}
	*name = line <= eq ? slice(line, eq) : strdup("");
	for (eq++; g != PIN_NCCL && eq < end && isspace((unsigned char)*eq); eq++)
		;
	for (; g != PIN_NCCL && eq < end && isspace((unsigned char)end[-1]); end--)
		;
	if (g == PIN_SHELL && end - eq >= 2 && (*eq == '"' || *eq == '\'') && end[-1] == *eq) {
		eq++;
		end--;
	}
	*value = slice(eq, end);
	if (*name && g == PIN_MCA)
		(*name)[strcspn(*name, " \t")] = 0;
	return true;
}

/* Does this line say something else than @rules want? */
static bool differs(enum pin_grammar g, const char *line, size_t len, const struct rule *rules)
{
	char *name = NULL, *value = NULL;
	bool bad = false;
	int i;

	if (!parse(g, line, len, &name, &value))
		return false;
	for (i = 0; name && value && rules[i].name; i++)
		if (!strcmp(rules[i].name, name))
			bad = !((rules[i].accept[0] && !strcmp(rules[i].accept[0], value)) ||
				(rules[i].accept[1] && !strcmp(rules[i].accept[1], value)));
	free(name);
	free(value);
	return bad;
}

static void conflict(struct pin *p, const char *path, int number, const char *line)
{
	char text[PIN_TEXT];

	snprintf(text, sizeof(text), "%s:%d: %.*s", path, number, (int)strcspn(line, "\n"),
		 line);
	if (p->nconflicts < PIN_CONFLICTS)
		memcpy(p->conflict[p->nconflicts++], text, sizeof(text));
}

/* Copy the text; silence the lines that differ, or report them.  What was silenced
 * once stays so as long as it differs. */
static void copy_lines(struct pin *p, const struct pin_file *file, const char *text,
		       const struct rule *rules, bool force, FILE *f)
{
	const char *s = text;
	size_t len;
	int number;

	for (number = 1; *s; s += len, number++) {
		bool was_hidden = starts(s, hidden);

		s += was_hidden ? sizeof(hidden) - 1 : 0;
		len = line_length(s);
		if (differs(file->grammar, s, len, rules)) {
			if (force || was_hidden)
				fputs(hidden, f);
			else
				conflict(p, file->path, number, s);
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

/* How many folders above root + path are missing? */
static int missing_folders(const char *root, const char *path)
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

static char *compose(struct pin *p, const struct pin_file *file, struct block b,
		     const char *text, const char *settings, const struct rule *rules,
		     bool force)
{
	size_t size, len = strlen(text);
	char *out = NULL;
	FILE *f = open_memstream(&out, &size);
	/* NCCL believes the first line of a name; everybody else the last. */
	bool on_top = file->grammar == PIN_NCCL;

	if (!f)
		return NULL;
	b.newline = !on_top && len && text[len - 1] != '\n';
	if (on_top)
		write_block(&b, settings, f);
	copy_lines(p, file, text, rules, force, f);
	if (b.newline)
		fputc('\n', f);
	if (!on_top)
		write_block(&b, settings, f);
	return fclose(f) ? NULL : out;
}

/* Plan one file; @settings NULL: undo. */
static int plan(struct pin *p, const char *root, const char *path, enum pin_grammar g,
		const char *settings, const struct rule *rules, bool force, struct err *e)
{
	struct pin_file *file = &p->file[p->n];
	struct block b;
	size_t len;
	char *text;
	int rc = 0;

	memset(file, 0, sizeof(*file));
	snprintf(file->path, sizeof(file->path), "%s", path);
	file->grammar = g;
	if (strlen(path) >= sizeof(file->path))
		return fail(e, RINGUP_EINVAL, "%s: path too long", path);
	if (file_exists(root, path))
		rc = file_read(root, path, FILE_CAP, &file->before, &len, e);
	else if (!settings)
		return 0;
	p->n++;
	if (!rc && file->before && strlen(file->before) != len)
		rc = fail(e, RINGUP_EINVAL, "%s: not a text file", path);
	if (!rc)
		rc = find_block(file->before, &b, path, e);
	if (rc)
		return rc;
	if (!file->before) {
		b.made = true;
		b.folders = missing_folders(root, path);
	}
	text = without(file->before, &b, !settings);
	file->folders = b.folders;
	if (text && settings)
		file->after = compose(p, file, b, text, settings, rules, force);
	else if (text && (*text || !b.made))
		file->after = strdup(text);
	if (!text || (!file->after && (settings || *text || !b.made)))
		rc = no_memory(e);
	free(text);
	return rc;
}

/* Does a folder exist in which Open MPI would look for its file? */
static bool has_folder(const char *root, const char *path)
{
	return missing_folders(root, path) == 0;
}

static int plan_pin(struct pin *p, const char *root, const char *name, const char *mca,
		    bool force, struct err *e)
{
	char exact[32], nccl[64], params[160], shell[320];
	bool by_file = has_folder(root, mca);
	const struct rule nccl_rules[] = { { "NCCL_SOCKET_IFNAME", { exact, name } }, { 0 } };
	/* An include and an exclude list together close the TCP transport. */
	const struct rule mca_rules[] = { { "btl_tcp_if_include", { name, NULL } },
					  { "oob_tcp_if_include", { name, NULL } },
					  { "btl_tcp_if_exclude", { NULL, NULL } },
					  { "oob_tcp_if_exclude", { NULL, NULL } },
					  { 0 } };
	const struct rule shell_rules[] = { { "GLOO_SOCKET_IFNAME", { name, NULL } },
					    { "HOROVOD_GLOO_IFACE", { name, NULL } },
					    /* Variables beat the files. */
					    { "NCCL_SOCKET_IFNAME", { exact, name } },
					    { "OMPI_MCA_btl_tcp_if_include", { name, NULL } },
					    { "OMPI_MCA_oob_tcp_if_include", { name, NULL } },
					    { "OMPI_MCA_btl_tcp_if_exclude", { NULL, NULL } },
					    { "OMPI_MCA_oob_tcp_if_exclude", { NULL, NULL } },
					    { 0 } };
	int rc;

	snprintf(exact, sizeof(exact), "=%s", name);
	snprintf(nccl, sizeof(nccl), "NCCL_SOCKET_IFNAME=%s\n", exact);
	snprintf(params, sizeof(params), "btl_tcp_if_include = %s\noob_tcp_if_include = %s\n",
		 name, name);
	snprintf(shell, sizeof(shell),
		 "export GLOO_SOCKET_IFNAME=%s\nexport HOROVOD_GLOO_IFACE=%s\n", name, name);
	if (!by_file)
		snprintf(shell + strlen(shell), sizeof(shell) - strlen(shell),
			 "export OMPI_MCA_btl_tcp_if_include=%s\n"
			 "export OMPI_MCA_oob_tcp_if_include=%s\n",
			 name, name);
	rc = plan(p, root, "/etc/nccl.conf", PIN_NCCL, nccl, nccl_rules, force, e);
	if (!rc && by_file)
		rc = plan(p, root, mca, PIN_MCA, params, mca_rules, force, e);
	if (!rc)
		rc = plan(p, root, profile, PIN_SHELL, shell, shell_rules, force, e);
	if (!rc && file_exists(root, spark_conf))
		rc = plan(p, root, spark_env, PIN_SHELL, shell, shell_rules, force, e);
	return rc;
}

static int plan_undo(struct pin *p, const char *root, const char *mca, struct err *e)
{
	int rc;

	rc = plan(p, root, "/etc/nccl.conf", PIN_NCCL, NULL, NULL, false, e);
	if (!rc)
		rc = plan(p, root, debian_mca, PIN_MCA, NULL, NULL, false, e);
	if (!rc && strcmp(mca, debian_mca) != 0)
		rc = plan(p, root, mca, PIN_MCA, NULL, NULL, false, e);
	if (!rc)
		rc = plan(p, root, profile, PIN_SHELL, NULL, NULL, false, e);
	if (!rc)
		rc = plan(p, root, spark_env, PIN_SHELL, NULL, NULL, false, e);
	return rc;
}

int pin_plan(struct pin *p, const char *root, const char *interface, bool force, struct err *e)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._-@";
	char mca[PATH_MAX];

	memset(p, 0, sizeof(*p));
	netconf_mca_file(mca, root);
	if (!interface)
		return plan_undo(p, root, mca, e);
	/* A comma or a quote in a name means something to the files' readers. */
	if (!*interface || strlen(interface) >= 16 || interface[strspn(interface, plain)] ||
	    !isalpha((unsigned char)*interface))
		return fail(
			e, RINGUP_EINVAL,
			"'%.32s' cannot be written into settings: a name of letters, digits, "
			". _ - and @ that begins with a letter can",
			interface);
	return plan_pin(p, root, interface, mca, force, e);
}

void pin_free(struct pin *p)
{
	int i;

	for (i = 0; i < p->n; i++) {
		free(p->file[i].before);
		free(p->file[i].after);
	}
	memset(p, 0, sizeof(*p));
}

bool pin_changes(const struct pin_file *f)
{
	if (!f->before || !f->after)
		return f->before != f->after;
	return strcmp(f->before, f->after) != 0;
}

int pin_apply(const struct pin *p, const char *root, struct err *e)
{
	struct batch b = { 0 };
	int i, rc = 0;

	for (i = 0; !rc && i < p->n; i++) {
		const struct pin_file *f = &p->file[i];

		if (!pin_changes(f))
			continue;
		if (f->after)
			rc = batch_write(&b, root, f->path, 0644, f->after, strlen(f->after),
					 e);
		else
			rc = batch_remove(&b, root, f->path, f->folders, e);
	}
	if (!rc)
		rc = batch_commit(&b, e);
	batch_end(&b);
	return rc;
}
