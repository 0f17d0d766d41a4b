/* recipe.c - recipes for building foreign engines: parse one, decide what of it applies. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/recipe.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "base/release.h"
#include "rebuild/jsonrecord.h"
#include "ringup.h"

enum { RECIPE_BYTES = 1 << 18, RECIPE_ITEMS = 256, WORLD_WORD = 64 };

/* Conditions. */

static const char operators[] = "<>=!";

/* Evaluates one word: `name`, `!name`, `name OP version`; *@ok is false if it is malformed. */
static bool word_holds(const char *word, const struct textpairs *world, bool *ok)
{
	bool negated = *word == '!';
	char name[WORLD_WORD], op[3] = "";
	const char *at = word + negated, *is;
	size_t n = strcspn(at, operators), m;
	int order;

	m = strspn(at + n, operators);
	*ok = n && n < sizeof(name) && m < sizeof(op) && !(negated && m) && (!m || at[n + m]);
	if (!*ok)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)n, at);
	snprintf(op, sizeof(op), "%.*s", (int)m, at + n);
	is = world ? textpool_get(world, name) : NULL;
	if (!m)
		return negated ? !is : is != NULL;
	*ok = !strcmp(op, "<") || !strcmp(op, ">") || !strcmp(op, "<=") || !strcmp(op, ">=") ||
	      !strcmp(op, "==") || !strcmp(op, "!=");
	if (!*ok || !is || !*is)
		return false;
	order = release_compare(is, at + n + m);
	if (!strcmp(op, "=="))
		return order == 0;
	if (!strcmp(op, "!="))
		return order != 0;
	return (order < 0 && *op == '<') || (order > 0 && *op == '>') || (!order && op[1]);
}

/* Do all words hold?  *@ok tells whether each of them is well-formed. */
static bool words_hold(const char *when, const struct textpairs *world, bool *ok)
{
	char word[2 * WORLD_WORD];
	bool all = true;
	size_t n;

	*ok = true;
	for (when = when ? when : ""; *ok && *when; when += n) {
		when += strspn(when, " \t");
		n = strcspn(when, " \t");
		if (!n)
			break;
		*ok = n < sizeof(word);
		if (!*ok)
			return false;
		snprintf(word, sizeof(word), "%.*s", (int)n, when);
		if (!word_holds(word, world, ok))
			all = false;
	}
	return *ok && all;
}

bool recipe_holds(const char *when, const struct textpairs *world)
{
	bool ok;

	return words_hold(when, world, &ok);
}

void recipe_tell(struct textpool *pool, struct textpairs *world, const char *name,
		 const char *version)
{
	if (version && *version)
		textpool_set(pool, world, name, version);
}

static bool is_condition(const char *when)
{
	bool ok;

	words_hold(when, NULL, &ok);
	return ok;
}

/* Reading. */

struct reading {
	struct recipe *r;
	struct recipe_edit *edit; /* whose lines come next */
	int line;
	struct err *e;
};

static int line_refuse(struct reading *in, const char *why)
{
	return fail(in->e, RINGUP_EINVAL, "%s: line %d: %s", in->r->path, in->line, why);
}

static int word_keep(struct reading *in, const char **to, const char *from)
{
	if (*to)
		return line_refuse(in, "said twice");
	if (!*from)
		return line_refuse(in, "says nothing");
	*to = textpool_keep(&in->r->pool, from);
	return 0;
}

/* True for a path that stays within the sources. */
static bool is_inside(const char *path)
{
	const char *p;

	if (!path || !*path || *path == '/' || strlen(path) >= PATH_MAX / 2)
		return false;
	for (p = path; *p; p += strcspn(p, "/"), p += *p == '/') {
		size_t n = strcspn(p, "/");

		if (!n || (n == 1 && *p == '.') || (n == 2 && !strncmp(p, "..", 2)))
			return false;
	}
	return true;
}

/* Appends one of the @n things of @size bytes at *@list. */
static void *item_add(struct reading *in, void *list, int *n, size_t size)
{
	void *one = *n < RECIPE_ITEMS ? textpool_more(&in->r->pool, list, n, size) : NULL;

	if (!one)
		line_refuse(in, *n < RECIPE_ITEMS ? "no memory" : "too many of these");
	return one;
}

/* Cuts @text at @mark; the rest, blanks removed on both sides, or NULL. */
static char *line_cut(char *text, const char *mark)
{
	char *at = strstr(text, mark), *end = at;

	if (!at)
		return NULL;
	while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = 0;
	at += strlen(mark);
	return at + strspn(at, " \t");
}

/* Parses "A<mark>B [when W]". */
static int recipe_read_line(struct reading *in, struct recipe_line **list, int *n, char *text,
			    const char *mark)
{
	struct recipe_line *l = item_add(in, list, n, sizeof(*l));
	char *when = line_cut(text, " when "), *b = line_cut(text, mark);
	int rc;

	if (!l)
		return in->e->code;
	if (!b)
		return line_refuse(in, "a part is missing");
	rc = word_keep(in, &l->a, text);
	if (!rc)
		rc = word_keep(in, &l->b, b);
	if (!rc && when)
		rc = word_keep(in, &l->when, when);
	if (!rc && !is_condition(l->when))
		rc = line_refuse(in, "this condition is none");
	return rc;
}

static int read_env(struct reading *in, char *text)
{
	struct recipe *r = in->r;
	int rc = recipe_read_line(in, &r->envs, &r->nenvs, text, "=");
	const char *name = rc ? NULL : r->envs[r->nenvs - 1].a;

	if (!rc && (strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != strlen(name) ||
		    isdigit((unsigned char)*name)))
		rc = line_refuse(in, "no name of a variable");
	return rc;
}

static int read_add(struct reading *in, char *text)
{
	struct recipe *r = in->r;
	int rc = recipe_read_line(in, &r->adds, &r->nadds, text, " from ");

	if (!rc && (!is_inside(r->adds[r->nadds - 1].a) || !is_inside(r->adds[r->nadds - 1].b)))
		rc = line_refuse(in, "a path that leads elsewhere");
	return rc;
}

/* Parses "WHEN: TEXT". */
static int read_bad(struct reading *in, char *text)
{
	struct recipe *r = in->r;
	int rc = recipe_read_line(in, &r->bads, &r->nbads, text, ": ");

	if (!rc && !is_condition(r->bads[r->nbads - 1].a))
		rc = line_refuse(in, "this condition is none");
	return rc;
}

static int read_edit(struct reading *in, char *text)
{
	struct recipe *r = in->r;

	for (int i = 0; i < r->nedits; i++)
		if (!strcmp(r->edits[i].name, text))
			return line_refuse(in, "an edit of this name was there already");
	in->edit = item_add(in, &r->edits, &r->nedits, sizeof(*in->edit));
	if (!in->edit)
		return in->e->code;
	return word_keep(in, &in->edit->name, text);
}

static int read_match(struct reading *in, char *text)
{
	regex_t ere;

	if (regcomp(&ere, text, REG_EXTENDED))
		return line_refuse(in, "this is no extended regular expression");
	regfree(&ere);
	return word_keep(in, &in->edit->match, text);
}

static int read_times(struct reading *in, const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < 1 || n > 1000)
		return line_refuse(in, "times: a number from 1 to 1000");
	in->edit->times = (int)n;
	return 0;
}

static int read_part(struct reading *in, const char *key, char *text)
{
	struct recipe_edit *d = in->edit;

	if (!d)
		return line_refuse(in, "indented, but belongs to no edit");
	if (!strcmp(key, "file"))
		return is_inside(text) ? word_keep(in, &d->file, text)
				       : line_refuse(in, "a path that leads elsewhere");
	if (!strcmp(key, "when"))
		return is_condition(text) ? word_keep(in, &d->when, text)
					  : line_refuse(in, "this condition is none");
	if (!strcmp(key, "match"))
		return read_match(in, text);
	if (!strcmp(key, "times"))
		return read_times(in, text);
	if (!strcmp(key, "why") || !strcmp(key, "with"))
		return word_keep(in, key[1] == 'h' ? &d->why : &d->with, text);
	return line_refuse(in, "an edit has file, when, why, match, with and times");
}

static int read_directive(struct reading *in, const char *key, char *text)
{
	struct recipe *r = in->r;

	in->edit = NULL;
	if (!strcmp(key, "name"))
		return word_keep(in, &r->name, text);
	if (!strcmp(key, "version"))
		return word_keep(in, &r->version, text);
	if (!strcmp(key, "index"))
		return word_keep(in, &r->index, text);
	if (!strcmp(key, "file"))
		return is_inside(text) && !strchr(text, '/')
			       ? word_keep(in, &r->file, text)
			       : line_refuse(in, "no name of a file");
	if (!strcmp(key, "sha256"))
		return word_keep(in, &r->sha256, text);
	if (!strcmp(key, "needs"))
		return word_keep(in, &r->needs, text);
	if (!strcmp(key, "env"))
		return read_env(in, text);
	if (!strcmp(key, "add"))
		return read_add(in, text);
	if (!strcmp(key, "bad"))
		return read_bad(in, text);
	if (!strcmp(key, "advisory"))
		return recipe_read_line(in, &r->advisories, &r->nadvisories, text, ": ");
	if (!strcmp(key, "edit"))
		return read_edit(in, text);
	return line_refuse(in, "no directive");
}

static int read_text(struct reading *in, char *text)
{
	bool indented = *text == ' ' || *text == '\t';
	char *key = text + strspn(text, " \t"), *rest = key + strcspn(key, " \t");

	if (!*key || *key == '#')
		return 0;
	if (*rest)
		*rest++ = 0;
	rest += strspn(rest, " \t");
	for (size_t n = strlen(rest); n && (rest[n - 1] == ' ' || rest[n - 1] == '\t'); n--)
		rest[n - 1] = 0;
	return indented ? read_part(in, key, rest) : read_directive(in, key, rest);
}

/* Refuses a recipe that lacks a part. */
static int recipe_check(struct reading *in)
{
	const struct recipe *r = in->r;

	in->line = 0;
	if (!r->name || !r->version || !r->index || !r->file || !r->sha256)
		return fail(in->e, RINGUP_EINVAL,
			    "%s: a recipe has name, version, index, file and sha256", r->path);
	if (strlen(r->sha256) != 64 || strspn(r->sha256, "0123456789abcdef") != 64)
		return fail(in->e, RINGUP_EINVAL, "%s: sha256 is none", r->path);
	for (int i = 0; i < r->nedits; i++) {
		const struct recipe_edit *d = &r->edits[i];

		if (!d->file || !d->match || !d->with || !d->why || !d->times)
			return fail(in->e, RINGUP_EINVAL,
				    "%s: edit %s needs file, why, match, with and times",
				    r->path, d->name);
	}
	return 0;
}

int recipe_parse(struct recipe *r, const char *path, const char *text, size_t len,
		 struct err *e)
{
	struct reading in = { .r = r, .e = e };
	char *copy = strndup(text, len), *at, *next;
	int rc = 0;

	*r = (struct recipe){ 0 };
	r->path = textpool_keep(&r->pool, path);
	if (copy && strlen(copy) != len)
		rc = fail(e, RINGUP_EINVAL, "%s: not a text", path);
	for (at = copy; !rc && at && *at; at = next) {
		next = strchr(at, '\n');
		if (next)
			*next++ = 0;
		in.line++;
		rc = read_text(&in, at);
	}
	if (!copy || r->pool.is_short)
		rc = fail(e, RINGUP_ENOMEM, "%s: no memory", path);
	free(copy);
	return rc ? rc : recipe_check(&in);
}

int recipe_load(struct recipe *r, const char *path, struct err *e)
{
	char *text;
	size_t len;
	int rc;

	*r = (struct recipe){ 0 };
	rc = file_read(NULL, path, RECIPE_BYTES, &text, &len, e);
	if (rc)
		return rc;
	rc = recipe_parse(r, path, text, len, e);
	free(text);
	return rc;
}

void recipe_free(struct recipe *r)
{
	textpool_free(&r->pool);
	*r = (struct recipe){ 0 };
}

/* Finding. */

static int is_recipe(const struct dirent *d)
{
	const char *dot = strrchr(d->d_name, '.');

	return dot && !strcmp(dot, ".recipe") && strrchr(d->d_name, '-');
}

/* The files are called NAME-VERSION.recipe. */
int recipe_find(struct recipe *r, const char *name, const char *version, struct err *e)
{
	char folder[PATH_MAX], path[PATH_MAX] = "", best[RECIPE_WORD] = "", there[128] = "";
	struct dirent **found = NULL;
	size_t at = 0;
	int n = 0;

	*r = (struct recipe){ 0 };
	version = version ? version : "";
	if (!data_find(folder, "recipes", NULL))
		n = scandir(folder, &found, is_recipe, versionsort);
	for (int i = 0; i < n; i++) {
		char *its = found[i]->d_name, *dash = strrchr(its, '-');

		*dash = *strrchr(its, '.') = 0;
		if (at < sizeof(there))
			at += (size_t)snprintf(there + at, sizeof(there) - at, "%s%s %s",
					       at ? ", " : "", its, dash + 1);
		if (!strcmp(its, name) && (!*version || !strcmp(dash + 1, version)) &&
		    release_compare(dash + 1, best) > 0 &&
		    snprintf(path, sizeof(path), "%s/%s-%s.recipe", folder, its, dash + 1) <
			    (int)sizeof(path))
			snprintf(best, sizeof(best), "%s", dash + 1);
		free(found[i]);
	}
	free(found);
	return *best ? recipe_load(r, path, e)
		     : fail(e, RINGUP_EINVAL,
			    "there is no recipe for %.60s%s%.40s; there is one for %s", name,
			    *version ? " " : "", version, *there ? there : "nothing");
}

/* Deciding. */

/* Adds the lines whose condition holds. */
static void lines_decide(const struct recipe_line *l, int n, const struct textpairs *world,
			 struct textpool *pool, struct textpairs *out)
{
	for (int i = 0; i < n; i++)
		if (recipe_holds(l[i].when, world))
			textpool_add(pool, out, l[i].a, l[i].b);
}

/* Splits "REASON; WAY OUT". */
static void bad_add(struct textpool *pool, struct textpairs *out, const char *text)
{
	const char *semicolon = strstr(text, "; ");
	char *why = strndup(text, semicolon ? (size_t)(semicolon - text) : strlen(text));

	textpool_add(pool, out, why, semicolon ? semicolon + 2 : "");
	pool->is_short |= !why;
	free(why);
}

void recipe_decide(const struct recipe *r, const struct textpairs *world, struct textpool *pool,
		   struct recipe_decision *out)
{
	*out = (struct recipe_decision){ 0 };
	lines_decide(r->adds, r->nadds, world, pool, &out->adds);
	lines_decide(r->advisories, r->nadvisories, world, pool, &out->advisories);
	for (int i = 0; i < r->nedits; i++)
		if (recipe_holds(r->edits[i].when, world))
			textpool_add(pool, &out->edits, r->edits[i].name, r->edits[i].why);
	for (int i = 0; i < r->nenvs; i++)
		if (recipe_holds(r->envs[i].when, world))
			textpool_set(pool, &out->env, r->envs[i].a, r->envs[i].b);
	for (int i = 0; i < r->nbads; i++)
		if (recipe_holds(r->bads[i].a, world))
			bad_add(pool, &out->bad, r->bads[i].b);
}

json_t *recipe_json(const struct recipe_decision *d)
{
	return json_pack(
		"{so so so so so}", "edits", jsonrecord_pairs(&d->edits, "name", "why"), "adds",
		jsonrecord_pairs(&d->adds, "to", "from"), "env", jsonrecord_map(&d->env), "bad",
		jsonrecord_pairs(&d->bad, "why", "instead"), "advisories",
		jsonrecord_pairs(&d->advisories, "id", "text"));
}
