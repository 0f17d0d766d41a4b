/* test_recipe.c - recipes are read strictly and decided on by what is there. */
#include "rebuild/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "tap.h"

#define HEAD                                               \
	"name x\nversion 1\nindex x==1\nfile x-1.tar.gz\n" \
	"sha256 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
#define EDIT "edit a\n\tfile b/c\n\twhy it is so\n\tmatch ^a(b*)$\n\twith \\1\n\ttimes 2\n"

static int parse(struct recipe *r, const char *text, struct err *e)
{
	fail_none(e);
	return recipe_parse(r, "x-1.recipe", text, strlen(text), e);
}

static void check_conditions(void)
{
	static const struct {
		const char *when;
		bool want;
	} rows[] = {
		{ "", true },
		{ "torch", true },
		{ "!torch", false },
		{ "jax", false },
		{ "!jax", true },
		{ "torch>=2.1", true },
		{ "torch>=2.13.0", true },
		{ "torch>2.13", false },
		{ "torch<2.2", false },
		{ "torch<2.14 python>=3.11", true },
		{ "torch<2.14 python>=3.12", false },
		{ "torch==2.13", true },
		{ "torch!=2.13", false },
		{ "torch<=2.13", true },
		{ "jax>=1", false },
		{ "jax!=1", false },
		{ "gpu", false },
		{ "!gpu", true },
		{ "mpi", true },
		{ "mpi>=1", false },
		{ "  torch \t !gpu ", true },
		{ "torch >= 2", false },
	};
	struct textpair at[] = { { "torch", "2.13.0+cpu" },
				 { "python", "3.11.7" },
				 { "mpi", "" } };
	const struct textpairs world = { at, 3 };
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ok(recipe_holds(rows[i].when, &world) == rows[i].want, "'%s' is %s",
		   rows[i].when, rows[i].want ? "so" : "not so");
	ok(recipe_holds(NULL, NULL) && !recipe_holds("torch", NULL), "and without a world");
}

static void check_refused(void)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "name x\n", "has name" },
		{ HEAD "name y\n", "twice" },
		{ HEAD "color red\n", "no directive" },
		{ HEAD "\tfile a\n", "belongs to no edit" },
		{ HEAD "edit a\n\tfile ../b\n", "leads elsewhere" },
		{ HEAD "edit a\n\tfile /b\n", "leads elsewhere" },
		{ HEAD "edit a\n\tfile b/../../c\n", "leads elsewhere" },
		{ HEAD "edit a\n\tmatch (\n", "regular expression" },
		{ HEAD "edit a\n\ttimes 0\n", "times" },
		{ HEAD "edit a\n\ttimes 2x\n", "times" },
		{ HEAD "edit a\n\twhen torch>\n", "condition" },
		{ HEAD "edit a\n\twhen torch=>1\n", "condition" },
		{ HEAD "edit a\n\twhen !torch>1\n", "condition" },
		{ HEAD "edit a\n\tfile b\n", "edit a needs" },
		{ HEAD EDIT EDIT, "already" },
		{ HEAD "env a b\n", "part is missing" },
		{ HEAD "env lower=b\n", "name of a variable" },
		{ HEAD "env 1A=b\n", "name of a variable" },
		{ HEAD "add a from ../b\n", "leads elsewhere" },
		{ HEAD "bad torch>: no; yes\n", "condition" },
		{ HEAD "env A=b when >1\n", "condition" },
		{ "name x\nversion 1\nindex x\nfile a/b\n", "no name of a file" },
		{ "name x\nversion 1\nindex x\nfile y\nsha256 12\n", "sha256 is none" },
	};
	struct recipe r;
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ok(parse(&r, rows[i].text, &e) && strstr(e.text, rows[i].why),
		   "refused, since '%s': %s", rows[i].why, e.text);
		recipe_free(&r);
	}
	ok(recipe_parse(&r, "x", "a\0b", 3, &e), "what is no text is refused");
	recipe_free(&r);
}

static void check_decided(void)
{
	static const char text[] = HEAD EDIT
		"edit b\n\tfile b\n\twhen torch>=2\n\twhy so\n\tmatch a\n\twith b\n\ttimes 1\n"
		"env A=b c when torch\nenv B=c when !torch\n"
		"add a/b from c when torch<2\n# a comment\n\n"
		"bad torch>=3: too new; use an older one\nadvisory CVE-1: dangerous: very\n";
	struct textpair two_at = { "torch", "2.0" }, three_at = { "torch", "3" };
	const struct textpairs two = { &two_at, 1 }, three = { &three_at, 1 };
	struct recipe_decision d, other;
	struct textpool pool = { 0 };
	struct recipe r;
	struct err e;
	json_t *json;
	char *shown;

	ok(!parse(&r, text, &e), "a recipe is read: %s", e.text);
	recipe_decide(&r, &two, &pool, &d);
	ok(d.edits.count == 2 && d.env.count == 1 && !d.adds.count && !d.bad.count &&
		   d.advisories.count == 1,
	   "edits, variables, files and advisories that apply");
	ok(!strcmp(textpool_get(&d.env, "A"), "b c"), "a value may have blanks");
	json = recipe_json(&d);
	shown = json_dumps(json, JSON_COMPACT);
	ok(!strcmp(shown, "{\"edits\":[{\"name\":\"a\",\"why\":\"it is so\"},{\"name\":\"b\","
			  "\"why\":\"so\"}],\"adds\":[],\"env\":{\"A\":\"b c\"},\"bad\":[],"
			  "\"advisories\":[{\"id\":\"CVE-1\",\"text\":\"dangerous: very\"}]}"),
	   "as keys of the cache hash it: %s", shown);
	free(shown);
	json_decref(json);
	recipe_decide(&r, &three, &pool, &other);
	ok(other.bad.count == 1 && !strcmp(other.bad.at[0].name, "too new") &&
		   !strcmp(other.bad.at[0].text, "use an older one"),
	   "what is bad has a reason and a way out");
	recipe_decide(&r, NULL, &pool, &d);
	ok(d.edits.count == 1 && d.env.count == 1, "without a world, what is always so");
	textpool_free(&pool);
	recipe_free(&r);
}

/* The recipes of this repository. */
static void check_ours(void)
{
	struct textpair at[] = { { "torch", "2.13.0" },
				 { "python", "3.12.1" },
				 { "cmake", "4.1" },
				 { "keras", "3.15" } };
	const struct textpairs world = { at, 4 };
	struct textpool pool = { 0 };
	struct recipe_decision d;
	struct recipe r;
	struct err e = { 0 };

	ok(!recipe_find(&r, "horovod", NULL, &e), "one is for horovod: %s", e.text);
	recipe_decide(&r, &world, &pool, &d);
	ok(d.edits.count > 10 && !d.bad.count, "it has edits for torch 2.13");
	textpool_free(&pool);
	recipe_free(&r);
	ok(recipe_find(&r, "horovod", "0.1", &e) && strstr(e.text, "0.28.1"),
	   "none for 0.1, but: %s", e.text);
	recipe_free(&r);
}

/* One more recipe is one more file: nothing names those there are. */
static void check_another(void)
{
	static const char *const files[] = { "x-1.9.recipe", "x-1.10.recipe", "y-2.recipe",
					     "x-3.text" };
	char dir[] = "/tmp/test_recipe.XXXXXX", path[128], text[512];
	struct recipe r;
	struct err e = { 0 };
	size_t i;

	ok(mkdtemp(dir) != NULL, "a folder for recipes");
	for (i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "%sneeds %s\n", HEAD, files[i]);
		snprintf(path, sizeof(path), "/recipes/%s", files[i]);
		if (file_write(dir, path, 0644, text, strlen(text), &e))
			ok(0, "%s", e.text);
	}
	setenv("RINGUP_TEST_DATA", dir, 1);
	ok(!recipe_find(&r, "x", NULL, &e) && !strcmp(r.needs, "x-1.10.recipe"),
	   "the newest by its numbers: %s", e.text);
	recipe_free(&r);
	ok(!recipe_find(&r, "x", "1.9", &e) && !strcmp(r.needs, "x-1.9.recipe"),
	   "the one that is asked for: %s", e.text);
	recipe_free(&r);
	ok(recipe_find(&r, "x", "3", &e) && strstr(e.text, "for x 1.9, x 1.10, y 2"),
	   "none, but: %s", e.text);
	recipe_free(&r);
	ok(!folder_remove(dir, &e), "nothing is left %s", e.text);
}

int main(void)
{
	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	check_conditions();
	check_refused();
	check_decided();
	check_ours();
	check_another();
	return tap_done();
}
