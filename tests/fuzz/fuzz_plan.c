/* fuzz_plan.c - any bytes as a table of versions, and as the facts of a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/release.h"
#include "fuzz/fuzz.h"
#include "rebuild/buildplan.h"
#include "rebuild/packages.h"
#include "rebuild/recipe.h"
#include "rebuild/versions.h"

static const char recipe_text[] =
	"{\"name\":\"horovod\",\"version\":\"0.28.1\",\"index\":\"horovod==0.28.1\","
	"\"file\":\"horovod-0.28.1.tar.gz\",\"sha256\":\"0\",\"needs\":\"\","
	"\"advisories\":[],\"adds\":[],\"edits\":[],"
	"\"env\":[{\"name\":\"X\",\"value\":\"1\",\"when\":\"gcc>=12\"}],"
	"\"bad\":[{\"when\":\"keras>=3 !gpu\",\"why\":\"no\",\"instead\":\"yes\"}]}";

/* Whatever is accepted can be asked, and gives what fits. */
static void ask_all(const struct versions *t)
{
	const struct version_fact *f, *got;
	int i;

	for (i = 0; i < t->count; i++) {
		const char *variants[] = { NULL, NULL };

		f = &t->at[i];
		variants[0] = f->variant;
		/* An open or reversed range, or one of no versions, holds no end. */
		if (!strcmp(f->min, "-") || !release_within(f->min, f->min, f->max))
			continue;
		got = versions_ask(t, f->subject, f->min, f->attr, variants);
		fuzz_require(got);
		fuzz_require(!strcmp(got->attr, f->attr));
		fuzz_require(strcmp(got->variant, f->variant) || got->trust >= f->trust);
		fuzz_require(release_within(f->min, got->min, got->max));
	}
}

/* A plan is whole, and says why where it cannot be. */
static void check(const struct buildplan *plan)
{
	json_t *json = buildplan_json(plan);

	fuzz_require(plan->possible == !*plan->why_not);
	fuzz_require(!*plan->compiler.family || *plan->compiler.why);
	fuzz_require(json_object_size(json) == 21);
	json_decref(json);
}

static void plan_all(const json_t *facts, const struct versions *t, const struct recipe *r)
{
	static const char *const engines[] = { "ringup", "horovod" };
	static const char *const torch[] = { "torch" };
	struct buildplan_how how = { .machine = "x86_64" };
	struct buildplan plan;
	int i;

	for (i = 0; i < 4; i++) {
		how.engine = engines[i % 2];
		how.recipe = i < 2 ? r : NULL;
		how.frameworks = i < 2 ? NULL : torch;
		how.framework_count = i < 2 ? 0 : 1;
		fuzz_require(!buildplan_make(&how, facts, t, &plan, NULL));
		check(&plan);
		buildplan_free(&plan);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data, *nul = memchr(text, 0, len);
	size_t first = nul ? (size_t)(nul - text) : len;
	struct versions t;
	struct recipe r = { 0 };
	char name[32], release[32];
	struct packages names = { 0 };
	json_t *facts;
	bool good = !versions_parse(&t, "table", text, first, NULL);

	if (good)
		ask_all(&t);
	facts = nul ? json_loadb(nul + 1, len - first - 1, 0, NULL) : NULL;
	if (json_is_object(facts) && good &&
	    !recipe_parse(&r, "recipe", recipe_text, sizeof(recipe_text) - 1, NULL))
		plan_all(facts, &t, &r);
	packages_parse_os(text, first, name, release);
	fuzz_require(!strpbrk(name, "/. ;") && !strpbrk(release, "/ ;"));
	if (len) {
		char *copy = strndup(text, len);

		if (copy)
			packages_parse_names(&names, "apt", copy);
		free(copy);
	}
	packages_free(&names);
	json_decref(facts);
	recipe_free(&r);
	versions_free(&t);
	return 0;
}
