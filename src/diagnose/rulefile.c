/* rulefile.c - signatures that a user writes, in files of lines "key: value". */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/rulefile.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/num.h"
#include "diagnose/fields.h"
#include "diagnose/origin.h"
#include "ringup.h"

enum { FILE_CAP = 4 << 20, ID = 16, MOST_RULES = 10000 };

static const struct {
	const char *name;
	enum signature_kind kind;
} kinds[] = {
	{ "death", SIGNATURE_DEATH },     { "setting", SIGNATURE_SETTING },
	{ "address", SIGNATURE_ADDRESS }, { "exit", SIGNATURE_EXIT },
	{ "path", SIGNATURE_PATH },       { "error", SIGNATURE_ERROR },
	{ "result", SIGNATURE_RESULT },   { "note", SIGNATURE_NOTE },
	{ "echo", SIGNATURE_ECHO },       { "fact", SIGNATURE_FACT },
};

static const struct {
	const char *name;
	unsigned flag;
} flags[] = {
	{ "box", SIGNATURE_BOX },       { "shared", SIGNATURE_SHARED },
	{ "well", SIGNATURE_WELL },     { "unless-well", SIGNATURE_UNLESS_WELL },
	{ "later", SIGNATURE_LATER },   { "reason", SIGNATURE_REASON },
	{ "vague", SIGNATURE_VAGUE },   { "bare", SIGNATURE_BARE },
	{ "shell", SIGNATURE_SHELL },   { "done", SIGNATURE_DONE },
	{ "behind", SIGNATURE_BEHIND }, { "again", SIGNATURE_AGAIN },
	{ "waits", SIGNATURE_WAITS },   { "final", SIGNATURE_FINAL },
	{ "table", SIGNATURE_TABLE },   { "missing", SIGNATURE_MISSING },
	{ "kills", SIGNATURE_KILLS },   { "still", SIGNATURE_STILL },
};

/* ---- what a signature has to be ---- */

/* Is each field known, and what follows {*} literal? */
static bool is_well_formed(const char *text)
{
	static const char fields[] = " ip port host if rank loopback docker linklocal endpoint "
				     "local errno word value status signal * ** ";
	const char *p = text, *close;
	char name[16];

	for (; (p = strpbrk(p, "{\n")) && *p == '{'; p = close + 1) {
		close = strpbrk(p, "}\n");
		if (!close || *close != '}' || close - p > 12)
			return false;
		snprintf(name, sizeof(name), " %.*s ", (int)(close - p - 1), p + 1);
		if (!strstr(fields, name) ||
		    (p[1] == '*' && (close[1] == '{' || close[1] == '\n')))
			return false;
	}
	return true;
}

static const char *check_texts(const char *texts)
{
	const char *eol;

	if (!*texts)
		return "it has no text";
	for (const char *p = texts; *p; p = eol + 1) {
		eol = strchr(p, '\n');
		if (*p == ' ' || strcspn(p, "{\n") < SIGNATURE_ANCHOR)
			return "a text must begin with 7 literal characters, the first not "
			       "blank";
		if (memmem(p, (size_t)(eol - p), "  ", 2))
			return "a blank in a text matches any number of blanks: write only one";
		if (!is_well_formed(p))
			return "a text has an unknown field, or nothing literal after {*}";
	}
	return NULL;
}

const char *rulefile_check(const struct signature *s)
{
	const char *why = check_texts(s->texts);
	size_t n = strlen(s->id);

	if (!n || n >= ID ||
	    strspn(s->id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") !=
		    n)
		return "an id must have 1 to 15 letters, digits and dashes";
	if (why)
		return why;
	if (!*s->cause || s->cause[strlen(s->cause) - 1] == '.')
		return "the rule needs a cause, without a full stop";
	if (!*s->remedy && s->kind != SIGNATURE_FACT && s->kind != SIGNATURE_ECHO)
		return "it needs a fix";
	if (strpbrk(s->command, "$`\\\"';|&<>()*?~!"))
		return "run must be one command without special characters of the shell";
	return NULL;
}

/* ---- reading ---- */

/* The rule under way. */
struct draft {
	char *id, *library, *texts, *cause, *remedy, *command, *explains;
	enum signature_kind kind;
	unsigned flags;
	long line;
};

static void draft_free(struct draft *d)
{
	free(d->id);
	free(d->library);
	free(d->texts);
	free(d->cause);
	free(d->remedy);
	free(d->command);
	free(d->explains);
	memset(d, 0, sizeof(*d));
}

static int set(char **field, const char *value, struct err *e)
{
	free(*field);
	*field = strdup(value);
	return *field ? 0 : fail(e, RINGUP_ENOMEM, "no memory for rules");
}

static int append_text(char **texts, const char *value, struct err *e)
{
	size_t old = *texts ? strlen(*texts) : 0, len = strlen(value);
	char *more = realloc(*texts, old + len + 2);

	if (!more)
		return fail(e, RINGUP_ENOMEM, "no memory for rules");
	memcpy(more + old, value, len);
	memcpy(more + old + len, "\n", 2);
	*texts = more;
	return 0;
}

static int read_kind(struct draft *d, const char *value, struct err *e)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(value, kinds[i].name)) {
			d->kind = kinds[i].kind;
			return 0;
		}
	return fail(e, RINGUP_EINVAL,
		    "kind \"%.32s\" is not one of death, setting, address, exit, path, error, "
		    "result, note, echo and fact",
		    value);
}

static int read_flags(struct draft *d, char *value, struct err *e)
{
	char *rest = value, *word;
	size_t i;

	while ((word = strsep(&rest, " \t,"))) {
		for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
			if (!strcmp(word, flags[i].name))
				break;
		if (*word && i == sizeof(flags) / sizeof(flags[0]))
			return fail(e, RINGUP_EINVAL, "unknown flag \"%.32s\"", word);
		d->flags |= *word ? flags[i].flag : 0;
	}
	return 0;
}

static int read_key(struct draft *d, const char *key, char *value, struct err *e)
{
	if (!d->id)
		return fail(e, RINGUP_EINVAL, "a rule begins with a line \"rule: ID\"");
	if (!strcmp(key, "library"))
		return set(&d->library, value, e);
	if (!strcmp(key, "kind"))
		return read_kind(d, value, e);
	if (!strcmp(key, "flags"))
		return read_flags(d, value, e);
	if (!strcmp(key, "text"))
		return append_text(&d->texts, value, e);
	if (!strcmp(key, "cause"))
		return set(&d->cause, value, e);
	if (!strcmp(key, "fix"))
		return set(&d->remedy, value, e);
	if (!strcmp(key, "run"))
		return set(&d->command, value, e);
	if (!strcmp(key, "explains"))
		return set(&d->explains, value, e);
	return fail(
		e, RINGUP_EINVAL,
		"\"%.32s\" is not one of rule, library, kind, flags, text, cause, fix, run and "
		"explains",
		key);
}

/* Moves a text into the rule; an absent one is "", on the heap as the others. */
static const char *given(char **text)
{
	char *p = *text ? *text : strdup("");

	*text = NULL;
	return p ? p : "";
}

static int put_rule(struct rulefile *r, struct draft *d, struct err *e)
{
	struct signature s = { d->id,
			       d->library ? d->library : "user",
			       d->kind,
			       d->flags,
			       d->texts ? d->texts : "",
			       d->cause ? d->cause : "",
			       d->remedy ? d->remedy : "",
			       d->command ? d->command : "" };
	const char *why = d->id ? rulefile_check(&s) : NULL;
	struct signature *list;
	char **explains;

	if (!d->id)
		return 0;
	for (int i = 0; !why && i < r->n; i++)
		why = strcmp(r->list[i].id, d->id) ? NULL : "duplicate rule id";
	if (!why && signature_find(d->id))
		why = "a built-in rule already has this id";
	if (why || r->n == MOST_RULES)
		return fail(e, RINGUP_EINVAL, "rule %s: %s", d->id,
			    why ? why : "too many rules");
	list = reallocarray(r->list, (size_t)r->n + 1, sizeof(*list));
	r->list = list ? list : r->list;
	explains = reallocarray(r->explains, (size_t)r->n + 1, sizeof(*explains));
	r->explains = explains ? explains : r->explains;
	if (!list || !explains || (!d->library && set(&d->library, "user", e)))
		return fail(e, RINGUP_ENOMEM, "no memory for rules");
	explains[r->n] = d->explains;
	d->explains = NULL;
	list[r->n++] =
		(struct signature){ given(&d->id),     given(&d->library), d->kind,
				    d->flags,          given(&d->texts),   given(&d->cause),
				    given(&d->remedy), given(&d->command) };
	draft_free(d);
	return 0;
}

static int read_line(struct rulefile *r, struct draft *d, char *line, struct err *e)
{
	char *value = strchr(line, ':');
	size_t n;

	line += strspn(line, " \t");
	if (!*line || *line == '#' || *line == '\r')
		return 0;
	if (!value)
		return fail(e, RINGUP_EINVAL, "not of the form \"key: value\"");
	*value++ = 0;
	value += strspn(value, " \t");
	/* A text may end with a blank. */
	for (n = strlen(value); n && (unsigned char)value[n - 1] <= ' ' &&
				(value[n - 1] == '\r' || strcmp(line, "text") != 0);
	     n--)
		value[n - 1] = 0;
	if (strcmp(line, "rule") != 0)
		return read_key(d, line, value, e);
	if (put_rule(r, d, e))
		return e->code;
	draft_free(d);
	d->kind = SIGNATURE_ERROR;
	return set(&d->id, value, e);
}

int rulefile_read(struct rulefile *r, const char *path, struct err *e)
{
	struct draft d = { .kind = SIGNATURE_ERROR };
	char *text = NULL, *rest, *line, where[300];
	long number = 0;
	size_t len;
	int rc = file_read("", path, FILE_CAP, &text, &len, e);

	if (rc)
		return fail_in(e, "%s", path);
	for (rest = text; !rc && (line = strsep(&rest, "\n")); number++)
		rc = read_line(r, &d, line, e);
	if (!rc)
		rc = put_rule(r, &d, e);
	draft_free(&d);
	free(text);
	snprintf(where, sizeof(where), "%.250s:%ld", path, number);
	return rc ? fail_in(e, "%s", where) : 0;
}

int rulefile_use(const struct rulefile *r, struct err *e)
{
	return signature_extend(r->list, r->n, r->explains, e);
}

void rulefile_free(struct rulefile *r)
{
	signature_extend(NULL, 0, NULL, NULL);
	for (int i = 0; i < r->n; i++) {
		const struct signature *s = &r->list[i];
		const char *const owned[] = { s->id,    s->library, s->texts,
					      s->cause, s->remedy,  s->command };

		for (size_t k = 0; k < sizeof(owned) / sizeof(owned[0]); k++)
			free((char *)(uintptr_t)owned[k]);
		free(r->explains[i]);
	}
	free(r->list);
	free(r->explains);
	memset(r, 0, sizeof(*r));
}

/* ---- writing ---- */

void rulefile_print(FILE *out, const struct signature *s)
{
	const char *eol;

	fprintf(out, "rule: %s\nlibrary: %s\n", s->id, s->library);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].kind == s->kind)
			fprintf(out, "kind: %s\n", kinds[i].name);
	if (s->flags)
		fprintf(out, "flags:");
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (s->flags & flags[i].flag)
			fprintf(out, " %s", flags[i].name);
	if (s->flags)
		fprintf(out, "\n");
	for (const char *p = s->texts; *p; p = eol + 1) {
		eol = strchr(p, '\n');
		fprintf(out, "text: %.*s\n", (int)(eol - p), p);
	}
	fprintf(out, "cause: %s\n", s->cause);
	if (*s->remedy)
		fprintf(out, "fix: %s\n", s->remedy);
	if (*s->command)
		fprintf(out, "run: %s\n", s->command);
}

/* Skips marks, dates and levels: the message begins after the last of them. */
static const char *find_message(const char *line)
{
	const char *p = line, *colon;
	struct origin_mark mark;
	int rank;

	origin_mark(&mark, line, line + strlen(line));
	p = mark.host ? mark.host + mark.len : line;
	while (*p && strchr(") ]|/", *p))
		p++;
	p = fields_unmark(p, p + strlen(p), &rank);
	p += strspn(p, " ");
	/* "ERROR 11-12 11:02:01 [core.py:708] x", "[E1112 10:00:00.1 x.cpp:1] x" */
	if ((colon = strstr(p, "] ")) && colon - p < 80)
		p = colon + 2;
	return p + strspn(p, " ");
}

void rulefile_stub(char *out, size_t size, const char *line)
{
	const char *p = find_message(line);
	size_t n = 0;

	*out = 0;
	p += strcspn(p, "0123456789{}") < SIGNATURE_ANCHOR
		     ? strcspn(p, "0123456789{}") +
			       strspn(p + strcspn(p, "0123456789{}"), "0123456789{}.:- ")
		     : 0;
	/* What stands before the part of a long line that is left out. */
	for (; *p && *p != '{' && *p != '}' && strncmp(p, " ... ", 5) != 0 && n + 16 < size;
	     p++) {
		if (num_is_digit(*p)) {
			n += (size_t)snprintf(out + n, size - n, "{errno}");
			while (num_is_digit(p[1]))
				p++;
		} else if (*p != ' ' || (n && out[n - 1] != ' ')) {
			out[n++] = *p;
			out[n] = 0;
		}
	}
	while (n && out[n - 1] == ' ')
		out[--n] = 0;
	if (strcspn(out, "{") < SIGNATURE_ANCHOR)
		*out = 0;
}
