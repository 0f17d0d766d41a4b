/* test_recipe.c - the recipe is read, and decided on by what is there. */
#include "rebuild/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tap.h"

#define HEAD                                                                        \
	"'name':'x','version':'1','index':'x==1','file':'x-1.tar.gz','sha256':'0'," \
	"'needs':'numpy'"
#define EDIT "{'name':'a','file':'b/c','why':'it is so','match':'^a','with':'b','times':2}"
#define REST "'advisories':[],'bad':[],'env':[],'adds':[]"

/* Parses @text, in which ' stands for ". */
static int parse(struct recipe *r, const char *text, struct err *e)
{
	char copy[2048];

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	fail_none(e);
	return recipe_parse(r, "x-1.json", copy, strlen(copy), e);
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
	static const char *const rows[] = {
		"",
		"[]",
		"{" HEAD "," REST ",'edits':[],'edits':[]}",
		"{'name':1," REST ",'edits':[]}",
		"{" HEAD "," REST ",'edits':[" EDIT "]",
	};
	struct recipe r;
	struct err e;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ok(parse(&r, rows[i], &e), "refused: %s", e.text);
		recipe_free(&r);
	}
}

static void check_decided(void)
{
	static const char text[] =
		"{" HEAD ",'edits':[" EDIT
		",{'name':'b','file':'b','when':'torch>=2','why':'so',"
		"'match':'a','with':'b','times':1}],"
		"'env':[{'name':'A','value':'b c','when':'torch'},"
		"{'name':'B','value':'c','when':'!torch'}],"
		"'adds':[{'to':'a/b','from':'c','when':'torch<2'}],"
		"'bad':[{'when':'torch>=3','why':'too new','instead':'use an older one'}],"
		"'advisories':[{'id':'CVE-1','text':'dangerous: very'}]}";
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

/* The recipe of this repository. */
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

	ok(!recipe_open(&r, &e), "one is for horovod: %s", e.text);
	recipe_decide(&r, &world, &pool, &d);
	ok(d.edits.count > 10 && !d.bad.count, "it has edits for torch 2.13");
	textpool_free(&pool);
	recipe_free(&r);
}

int main(void)
{
	setenv("RINGUP_TEST_DATA", "share/ringup", 0);
	check_conditions();
	check_refused();
	check_decided();
	check_ours();
	return tap_done();
}
