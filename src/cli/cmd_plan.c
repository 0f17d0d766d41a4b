/* cmd_plan.c - `ringup plan`: the build planned for this node, its parts and reasons. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/conf.h"
#include "base/err.h"
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
	  "torch, tensorflow, jax or mxnet; may be repeated (all that are installed)" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_FLAG, 'n', "no-probe", NULL, &no_probe,
	  "run no compiler; use only files and the table of versions" },
	{ OPT_STR, 'p', "python", "P", &python, "plan only for this Python or environment" },
	{ OPT_STR, 'r', "root", "DIR", &root, "plan for the tree below this folder" },
	{ 0 },
};

/* Prints two columns with a heading; nothing if the list is empty. */
static int print_pairs(const struct textpairs *list, const char *head, enum out_look look,
		       struct err *e)
{
	const char *const heads[] = { head, "WHY", NULL };
	struct out_table t;

	if (!list->count)
		return 0;
	out_text("\n");
	out_table_init(&t, heads);
	for (int i = 0; i < list->count; i++) {
		out_table_cell(&t, look, "%s", list->at[i].name);
		out_table_cell(&t, OUT_PLAIN, "%s", list->at[i].text);
	}
	return out_table_print(&t, e);
}

static void number_cell(struct out_table *t, int number, int none, const char *by)
{
	if (number != none)
		out_table_cell(t, OUT_PLAIN, "%d (%s)", number, by);
	else
		out_table_cell(t, OUT_PLAIN, "-");
}

static int print_frameworks(const struct buildplan *p, struct err *e)
{
	static const char *const heads[] = { "FOR",      "VERSION",    "C++ ABI",
					     "STANDARD", "BUILT WITH", NULL };
	struct out_table t;

	if (!p->framework_count)
		return 0;
	out_text("\n");
	out_table_init(&t, heads);
	for (int i = 0; i < p->framework_count; i++) {
		const struct buildplan_framework *f = &p->frameworks[i];

		out_table_cell(&t, OUT_GOOD, "%s", f->name);
		out_table_cell(&t, OUT_PLAIN, "%s", *f->version ? f->version : "-");
		number_cell(&t, f->cxx11_abi, -1, f->cxx11_abi_by);
		number_cell(&t, f->cxx_standard, 0, f->cxx_standard_by);
		if (*f->compiler)
			out_table_cell(&t, OUT_PLAIN, "%s (%s)", f->compiler, f->compiler_by);
		else
			out_table_cell(&t, OUT_PLAIN, "-");
	}
	return out_table_print(&t, e);
}

static void print_decision(const struct buildplan *p)
{
	if (!p->possible) {
		out_look(OUT_BAD, "not possible");
		out_text(": %s\n", p->why_not);
		if (*p->nearest)
			out_text("fix: %s\n", p->nearest);
		return;
	}
	out_look(OUT_GOOD, "%s%s%s", p->engine, *p->version ? " " : "", p->version);
	if (*p->python.path)
		out_text(" for Python %s, %s\n", p->python.version, p->python.path);
	else
		out_text(", without Python\n");
}

static void print_compiler(const struct buildplan *p)
{
	const struct buildplan_compiler *c = &p->compiler;

	if (!*c->family)
		return;
	out_text("\nwith %s %s, %s%s", c->family, c->version,
		 *c->cxx && p->cxx11_abi >= 0 ? c->cxx : c->cc,
		 c->installed ? "" : " (to be installed)");
	if (p->cxx_standard)
		out_text(", as C++%d", p->cxx_standard);
	if (p->cxx11_abi >= 0)
		out_text(" of the %s ABI", p->cxx11_abi ? "new" : "old");
	out_text("\n  %s\n", c->why);
	if (p->gpu) {
		out_text("and CUDA %s, %s\n", p->cuda.version, p->cuda.path);
		out_text("and NCCL %s, %s\n", p->nccl.version, p->nccl.library);
	}
}

static void print_env(const struct textpairs *env)
{
	if (env->count)
		out_text("\nbuild environment\n");
	for (int i = 0; i < env->count; i++)
		out_text("  %s=%s\n", env->at[i].name, env->at[i].text);
}

static void print_edits(const struct textpairs *edits)
{
	if (!edits->count)
		return;
	out_text("\nedits of its sources:");
	for (int i = 0; i < edits->count; i++)
		out_text(" %s", edits->at[i].name);
	out_text("\n");
}

static void print_disagreements(const struct buildplan *p)
{
	if (p->disagreement_count)
		out_text("\n");
	for (int i = 0; i < p->disagreement_count; i++) {
		const struct buildplan_disagreement *d = &p->disagreements[i];

		out_look(OUT_WARN, "the table is wrong here");
		out_text(": %s: it says %s, but %s was found\n", d->about, d->table, d->probe);
	}
}

static void print_advisories(const struct textpairs *list)
{
	if (list->count)
		out_text("\n");
	for (int i = 0; i < list->count; i++) {
		out_look(OUT_WARN, "%s", list->at[i].name);
		out_text(": %s\n", list->at[i].text);
	}
}

/* Prints the means of the build. */
static int print_means(const struct buildplan *p, struct err *e)
{
	int rc = print_pairs(&p->packages, "INSTALLS", OUT_BOLD, e);

	if (rc)
		return rc;
	print_edits(&p->edits);
	print_env(&p->env);
	return 0;
}

/* For an impossible plan the means do not matter. */
static int cmd_plan_print_text(const struct buildplan *p, struct err *e)
{
	int rc = 0;

	print_decision(p);
	if (p->possible)
		rc = print_pairs(&p->build, "BUILDS", OUT_BOLD, e);
	if (p->possible && !rc)
		print_compiler(p);
	if (!rc)
		rc = print_frameworks(p, e);
	if (p->possible && !rc)
		rc = print_means(p, e);
	if (!rc)
		rc = print_pairs(&p->rejected, "NOT", OUT_DIM, e);
	if (rc)
		return rc;
	print_disagreements(p);
	if (p->possible)
		print_advisories(&p->advisories);
	return 0;
}

/* Plans without probing for a recorded tree, or with --no-probe. */
static int make(const struct buildplan_how *how, json_t *facts, const struct versions *t,
		bool live, struct buildplan *plan, struct err *e)
{
	struct buildplan_how ask = *how;
	struct packages packages = { 0 };
	int rc;

	if (live && !no_probe)
		return probe_plan(how, facts, t, plan, e);
	if (!live)
		packages_find(&packages, root, t);
	ask.packages = &packages;
	rc = buildplan_make(&ask, facts, t, plan, e);
	packages_free(&packages);
	return rc;
}

static int cmd_plan_run(int argc, char **argv, struct err *e)
{
	const char *where = root ? root : cmd_conf()->root;
	const struct find_how find = { .root = where,
				       .python = python ? python : cmd_conf()->python };
	struct buildplan_how how = { .engine = engine,
				     .frameworks = frameworks.item,
				     .framework_count = frameworks.count };
	struct buildplan plan = { 0 };
	json_t *facts = NULL;
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
		rc = recipe_open(&recipe, e);
		how.recipe = &recipe;
	}
	if (!rc)
		rc = find_all(&find, &facts, e);
	if (!rc)
		rc = make(&how, facts, &t, !where || !*where || !strcmp(where, "/"), &plan, e);
	if (!rc)
		rc = as_json ? out_json(buildplan_json(&plan), e)
			     : cmd_plan_print_text(&plan, e);
	if (!rc && !plan.possible)
		rc = CMD_NO;
	buildplan_free(&plan);
	json_decref(facts);
	recipe_free(&recipe);
	versions_free(&t);
	return rc;
}

const struct cmd cmd_plan = {
	.name = "plan",
	.operands = "",
	.summary = "show the build planned for this node, its compiler, and the reasons",
	.examples = "ringup plan\n"
		    "ringup plan --engine horovod --for torch\n"
		    "ringup plan --json --python /databricks/python3",
	.opts = opts,
	.run = cmd_plan_run,
};
