/* recipe.c - the recipe for building Horovod: read it, and select the parts that apply. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "rebuild/jsonrecord.h"
#include "ringup.h"

enum { RECIPE_BYTES = 1 << 18, WORLD_WORD = 64 };

/* Conditions. */

static const char operators[] = "<>=!";

/* Evaluates one word: `name`, `!name`, `name OP version`. */
static bool word_holds(const char *word, const struct textpairs *world)
{
	char name[WORLD_WORD], op[3];
	size_t n, m;
	const char *is;
	int order;

	if (*word == '!')
		return !world || !textpool_get(world, word + 1);
	n = strcspn(word, operators);
	m = strspn(word + n, operators);
	snprintf(name, sizeof(name), "%.*s", (int)n, word);
	snprintf(op, sizeof(op), "%.*s", (int)m, word + n);
	is = world ? textpool_get(world, name) : NULL;
	if (!is || !m || !*is)
		return is && !m;
	order = release_compare(is, word + n + m);
	if (!strcmp(op, "!="))
		return order != 0;
	return (order < 0 && *op == '<') || (order > 0 && *op == '>') || (!order && op[1]);
}

bool recipe_holds(const char *when, const struct textpairs *world)
{
	char word[2 * WORLD_WORD];
	size_t n;

	for (when = when ? when : ""; *when; when += n) {
		when += strspn(when, " \t");
		n = strcspn(when, " \t");
		snprintf(word, sizeof(word), "%.*s", (int)n, when);
		if (n && !word_holds(word, world))
			return false;
	}
	return true;
}

void recipe_tell(struct textpool *pool, struct textpairs *world, const char *name,
		 const char *version)
{
	if (version && *version)
		textpool_set(pool, world, name, version);
}

/* Reading. */

int recipe_parse(struct recipe *r, const char *path, const char *text, size_t len,
		 struct err *e)
{
	json_error_t why;

	*r = (struct recipe){ .root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why) };
	snprintf(r->path, sizeof(r->path), "%s", path);
	if (!r->root)
		return fail(e, RINGUP_EINVAL, "%s: line %d: %s", path, why.line, why.text);
	return json_unpack(r->root, "{ss ss ss ss ss ss}", "name", &r->name, "version",
			   &r->version, "index", &r->index, "file", &r->file, "sha256",
			   &r->sha256, "needs", &r->needs)
		       ? fail(e, RINGUP_EINVAL, "%s: a part is missing", path)
		       : 0;
}

int recipe_open(struct recipe *r, struct err *e)
{
	char path[PATH_MAX];
	int rc = data_find(path, "recipes/horovod-0.28.1.json", e);

	*r = (struct recipe){ 0 };
	return rc ? rc : recipe_load(r, path, e);
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
	json_decref(r->root);
	*r = (struct recipe){ 0 };
}

/* Deciding. */

/* Adds the pairs of texts @name and @text of the objects whose condition holds. */
static void list_decide(const struct recipe *r, const char *list, const char *name,
			const char *text, const struct textpairs *world, struct textpool *pool,
			struct textpairs *out)
{
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(r->root, list), i, o)
		if (recipe_holds(jsonio_string(o, "when"), world))
			textpool_set(pool, out, jsonio_string(o, name), jsonio_string(o, text));
}

void recipe_decide(const struct recipe *r, const struct textpairs *world, struct textpool *pool,
		   struct recipe_decision *out)
{
	*out = (struct recipe_decision){ 0 };
	list_decide(r, "adds", "to", "from", world, pool, &out->adds);
	list_decide(r, "advisories", "id", "text", world, pool, &out->advisories);
	list_decide(r, "edits", "name", "why", world, pool, &out->edits);
	list_decide(r, "env", "name", "value", world, pool, &out->env);
	list_decide(r, "bad", "why", "instead", world, pool, &out->bad);
}

json_t *recipe_json(const struct recipe_decision *d)
{
	return json_pack(
		"{so so so so so}", "edits", jsonrecord_pairs(&d->edits, "name", "why"), "adds",
		jsonrecord_pairs(&d->adds, "to", "from"), "env", jsonrecord_map(&d->env), "bad",
		jsonrecord_pairs(&d->bad, "why", "instead"), "advisories",
		jsonrecord_pairs(&d->advisories, "id", "text"));
}
