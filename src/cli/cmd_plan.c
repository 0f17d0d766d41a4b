/* cmd_plan.c - `ringup plan`: what would be built for this node, with what, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "detect/find.h"
#include "rebuild/buildplan.h"
#include "rebuild/packages.h"
#include "rebuild/probe.h"
#include "rebuild/recipe.h"
#include "rebuild/versions.h"

static int as_json, no_probe;
static const char *engine = "ringup", *python, *root;
static struct opt_list frameworks;

static const struct opt opts[] = {
	{ OPT_STR, 'e', "engine", "ENGINE", &engine, "ringup or horovod (ringup)" },
	{ OPT_LIST, 'f', "for", "FRAMEWORK", &frameworks,
	  "torch, tensorflow, jax or mxnet; may be repeated (what is there)" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_FLAG, 'n', "no-probe", NULL, &no_probe, "try no compiler: files and table only" },
	{ OPT_STR, 'p', "python", "P", &python, "for this Python or environment only" },
	{ OPT_STR, 'r', "root", "DIR", &root, "for the tree below this folder; runs nothing" },
	{ 0 },
};

/* One or two columns of an array of objects, with a heading; nothing if it is empty. */
static int print_pairs(const json_t *list, const char *head, const char *a, const char *b,
		       enum out_look look, struct err *e)
{
	const char *const heads[] = { head, "WHY", NULL };
	struct out_table t;
	json_t *o;
	size_t i;

	if (!json_array_size(list))
		return 0;
	out_text("\n");
	out_table_init(&t, heads);
	json_array_foreach(list, i, o) {
		out_table_cell(&t, look, "%s", jsonio_string(o, a));
		out_table_cell(&t, OUT_PLAIN, "%s", jsonio_string(o, b));
	}
	return out_table_print(&t, e);
}

static void number_cell(struct out_table *t, const json_t *o, const char *key, const char *by)
{
	const json_t *v = json_object_get(o, key);

	if (json_is_integer(v))
		out_table_cell(t, OUT_PLAIN, "%d (%s)", (int)json_integer_value(v),
			       jsonio_string(o, by));
	else
		out_table_cell(t, OUT_PLAIN, "-");
}

static int print_frameworks(const json_t *list, struct err *e)
{
	static const char *const heads[] = { "FOR",      "VERSION",    "C++ ABI",
					     "STANDARD", "BUILT WITH", NULL };
	struct out_table t;
	json_t *o;
	size_t i;

	if (!json_array_size(list))
		return 0;
	out_text("\n");
	out_table_init(&t, heads);
	json_array_foreach(list, i, o) {
		const char *compiler = jsonio_string(o, "compiler");

		out_table_cell(&t, OUT_GOOD, "%s", jsonio_string(o, "name"));
		out_table_cell(&t, OUT_PLAIN, "%s",
			       *jsonio_string(o, "version") ? jsonio_string(o, "version")
							    : "-");
		number_cell(&t, o, "cxx11_abi", "cxx11_abi_by");
		number_cell(&t, o, "cxx_standard", "cxx_standard_by");
		if (*compiler)
			out_table_cell(&t, OUT_PLAIN, "%s (%s)", compiler,
				       jsonio_string(o, "compiler_by"));
		else
			out_table_cell(&t, OUT_PLAIN, "-");
	}
	return out_table_print(&t, e);
}

static void print_decision(const json_t *plan)
{
	const json_t *py = json_object_get(plan, "python");

	if (!json_is_true(json_object_get(plan, "possible"))) {
		out_look(OUT_BAD, "not possible");
		out_text(": %s\n", jsonio_string(plan, "why_not"));
		if (*jsonio_string(plan, "nearest"))
			out_text("what is: %s\n", jsonio_string(plan, "nearest"));
		return;
	}
	out_look(OUT_GOOD, "%s%s%s", jsonio_string(plan, "engine"),
		 *jsonio_string(plan, "version") ? " " : "", jsonio_string(plan, "version"));
	if (json_is_object(py))
		out_text(" for Python %s, %s\n", jsonio_string(py, "version"),
			 jsonio_string(py, "path"));
	else
		out_text(", without Python\n");
}

static void print_compiler(const json_t *plan)
{
	const json_t *c = json_object_get(plan, "compiler");
	const json_t *standard = json_object_get(plan, "cxx_standard");
	const json_t *abi = json_object_get(plan, "cxx11_abi");
	const json_t *cuda = json_object_get(plan, "cuda");
	const json_t *nccl = json_object_get(plan, "nccl");
	const char *path = *jsonio_string(c, "cxx") && json_is_integer(abi)
				   ? jsonio_string(c, "cxx")
				   : jsonio_string(c, "cc");

	if (!json_is_object(c))
		return;
	out_text("\nwith %s %s, %s%s", jsonio_string(c, "family"), jsonio_string(c, "version"),
		 path,
		 json_is_true(json_object_get(c, "installed")) ? "" : " (to be installed)");
	if (json_is_integer(standard))
		out_text(", as C++%d", (int)json_integer_value(standard));
	if (json_is_integer(abi))
		out_text(" of the %s ABI", json_integer_value(abi) ? "new" : "old");
	out_text("\n  %s\n", jsonio_string(c, "why"));
	if (json_is_object(cuda))
		out_text("and CUDA %s, %s\n", jsonio_string(cuda, "version"),
			 jsonio_string(cuda, "path"));
	if (json_is_object(nccl))
		out_text("and NCCL %s, %s\n", jsonio_string(nccl, "version"),
			 jsonio_string(nccl, "library"));
}

static void print_env(const json_t *env)
{
	const char *name;
	json_t *value;

	if (!json_object_size(env))
		return;
	out_text("\nthe build sees\n");
	json_object_foreach((json_t *)(uintptr_t)env, name, value)
		out_text("  %s=%s\n", name, json_string_value(value));
}

static void print_edits(const json_t *edits)
{
	json_t *o;
	size_t i;

	if (!json_array_size(edits))
		return;
	out_text("\nedits of its sources:");
	json_array_foreach(edits, i, o)
		out_text(" %s", json_string_value(o));
	out_text("\n");
}

static void print_disagreements(const json_t *list)
{
	json_t *o;
	size_t i;

	if (json_array_size(list))
		out_text("\n");
	json_array_foreach(list, i, o) {
		out_look(OUT_WARN, "the table is wrong here");
		out_text(": %s: it says %s, and %s is what was found\n",
			 jsonio_string(o, "about"), jsonio_string(o, "table"),
			 jsonio_string(o, "probe"));
	}
}

static void print_advisories(const json_t *list)
{
	json_t *o;
	size_t i;

	if (json_array_size(list))
		out_text("\n");
	json_array_foreach(list, i, o) {
		out_look(OUT_WARN, "%s", jsonio_string(o, "id"));
		out_text(": %s\n", jsonio_string(o, "text"));
	}
}

/* How it would be done. */
static int print_means(const json_t *plan, struct err *e)
{
	int rc = print_pairs(json_object_get(plan, "packages"), "INSTALLS", "name", "why",
			     OUT_BOLD, e);

	if (rc)
		return rc;
	print_edits(json_object_get(plan, "edits"));
	print_env(json_object_get(plan, "env"));
	return 0;
}

/* Of what cannot be done nobody asks how. */
static int print_text(const json_t *plan, struct err *e)
{
	bool possible = json_is_true(json_object_get(plan, "possible"));
	int rc = 0;

	print_decision(plan);
	if (possible)
		rc = print_pairs(json_object_get(plan, "build"), "BUILDS", "what", "why",
				 OUT_BOLD, e);
	if (possible && !rc)
		print_compiler(plan);
	if (!rc)
		rc = print_frameworks(json_object_get(plan, "frameworks"), e);
	if (possible && !rc)
		rc = print_means(plan, e);
	if (!rc)
		rc = print_pairs(json_object_get(plan, "rejected"), "NOT", "what", "why",
				 OUT_DIM, e);
	if (rc)
		return rc;
	print_disagreements(json_object_get(plan, "disagreements"));
	if (possible)
		print_advisories(json_object_get(plan, "advisories"));
	return 0;
}

/* Of a tree nothing is run; so is it with --no-probe. */
static int make(const struct buildplan_how *how, json_t *facts, const struct versions *t,
		bool live, json_t **planp, struct err *e)
{
	if (live && !no_probe)
		return probe_plan(how, facts, t, planp, e);
	if (!live)
		json_object_set_new(facts, "packages", packages_find(root, t));
	return buildplan_make(how, facts, t, planp, e);
}

static int run(int argc, char **argv, struct err *e)
{
	const char *where = root ? root : cmd_conf()->root;
	const struct find_how find = { where, python ? python : cmd_conf()->python };
	struct buildplan_how how = { .engine = engine,
				     .frameworks = frameworks.item,
				     .framework_count = frameworks.count };
	json_t *facts = NULL, *plan = NULL;
	struct recipe recipe = { 0 };
	struct versions t = { 0 };
	struct err word = { 0 };
	struct utsname u;
	int rc;

	(void)argc;
	(void)argv;
	if (buildplan_check(&how, &word))
		return cmd_misuse(e, "%s", word.text);
	root = where;
	how.machine = uname(&u) ? NULL : u.machine;
	rc = versions_load(&t, NULL, e);
	if (!rc && !strcmp(engine, "horovod")) {
		rc = recipe_find(&recipe, engine, NULL, e);
		how.recipe = &recipe;
	}
	if (!rc)
		rc = find_all(&find, &facts, e);
	if (!rc)
		rc = make(&how, facts, &t, !where || !*where || !strcmp(where, "/"), &plan, e);
	if (!rc) {
		bool possible = json_is_true(json_object_get(plan, "possible"));

		rc = as_json ? out_json(json_incref(plan), e) : print_text(plan, e);
		if (!rc && !possible)
			rc = CMD_NO;
	}
	json_decref(plan);
	json_decref(facts);
	recipe_free(&recipe);
	versions_free(&t);
	return rc;
}

const struct cmd cmd_plan = {
	.name = "plan",
	.operands = "",
	.summary = "say what would be built for this node, with what, and why",
	.examples = "ringup plan\n"
		    "ringup plan --engine horovod --for torch\n"
		    "ringup plan --json --python /databricks/python3",
	.opts = opts,
	.run = run,
};
