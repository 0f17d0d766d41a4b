/* buildplan.c - turn the facts about a node into a build plan: runs no program. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/buildplan.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "config.h"
#include "rebuild/draft.h"
#include "rebuild/recipe.h"
#include "rebuild/versions.h"
#include "ringup.h"

/* Engine horovod: the recipe, and the environment of its build. */

static void env_set(struct draft *d, const char *name, const char *value)
{
	if (*value)
		textpool_set(&d->plan->pool, &d->plan->env, name, value);
}

/* Applies upstream's own limits, except where the recipe lifts them. */
static void upstream_check_known(struct draft *d, const struct textpairs *world)
{
	const struct recipe *r = d->how->recipe;
	const struct version_fact *f;
	const char *keras = textpool_get(world, "keras"), *end;

	for (int i = 0; d->table && i < d->count; i++) {
		const struct buildplan_framework *t = d->at[i].plan;
		char nearest[160];

		/* The attribute has the framework's name. */
		f = versions_ask(d->table, "horovod", r->version, t->name, NULL);
		end = f ? strrchr(f->value, '-') : NULL;
		if (!end || !end[1] || !*t->version || versions_in(t->version, f->value) ||
		    draft_minds(d, world, t->name, end + 1))
			continue;
		snprintf(nearest, sizeof(nearest), "%.60s %.40s, or --engine ringup", t->name,
			 f->value);
		draft_cannot(d, nearest,
			     "horovod %s supports %s %s, and its recipe has no edits for %s",
			     r->version, t->name, f->value, t->version);
	}
	f = keras && d->table ? versions_ask(d->table, "keras", keras, "bad", NULL) : NULL;
	if (f && !strcmp(f->value, "horovod") && !draft_minds(d, world, "keras", "2.15.0"))
		draft_cannot(d, "--for torch, or Keras 2", "Keras %s with horovod: %s", keras,
			     f->note);
}

static void recipe_apply(struct draft *d)
{
	struct textpairs world = draft_world(d);
	struct buildplan *p = d->plan;
	struct recipe_decision decided;

	recipe_decide(d->how->recipe, &world, &p->pool, &decided);
	p->edits = decided.edits;
	p->adds = decided.adds;
	p->advisories = decided.advisories;
	for (int i = 0; i < decided.env.count; i++)
		textpool_set(&p->pool, &p->env, decided.env.at[i].name, decided.env.at[i].text);
	if (decided.bad.count)
		draft_cannot(d, decided.bad.at[0].text, "%s", decided.bad.at[0].name);
	upstream_check_known(d, &world);
}

static void env_set_gpu(struct draft *d)
{
	const char *header = d->plan->nccl.header, *slash = strstr(header, "/include/nccl.h");
	char home[PATH_MAX];

	env_set(d, "HOROVOD_GPU_OPERATIONS", "NCCL");
	env_set(d, "HOROVOD_CUDA_HOME", d->plan->cuda.path);
	/* torch otherwise takes the first nvcc in PATH. */
	env_set(d, "CUDA_HOME", d->plan->cuda.path);
	env_set(d, "CUDAHOSTCXX", d->plan->compiler.cxx);
	if (slash) {
		snprintf(home, sizeof(home), "%.*s", (int)(slash - header), header);
		env_set(d, "HOROVOD_NCCL_HOME", home);
	}
}

static void env_set_build(struct draft *d)
{
	static const struct {
		const char *name, *word;
	} all[] = { { "torch", "PYTORCH" },
		    { "tensorflow", "TENSORFLOW" },
		    { "mxnet", "MXNET" } };
	char name[40];

	env_set(d, "CC", d->plan->compiler.cc);
	env_set(d, "CXX", d->plan->compiler.cxx);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		snprintf(name, sizeof(name), "HOROVOD_WITH%s_%s",
			 buildplan_framework(d->plan, all[i].name) ? "" : "OUT", all[i].word);
		env_set(d, name, "1");
	}
	env_set(d, "HOROVOD_WITH_GLOO", "1");
	env_set(d, d->plan->mpi_count ? "HOROVOD_WITH_MPI" : "HOROVOD_WITHOUT_MPI", "1");
	if (d->plan->gpu)
		env_set_gpu(d);
}

static void horovod_plan(struct draft *d)
{
	const struct recipe *r = d->how->recipe;
	char what[160];

	if (!r) {
		draft_cannot(d, "--engine ringup",
			     "no recipe for Horovod, which does not build with current "
			     "frameworks without one");
		return;
	}
	d->plan->version = draft_keep(d, r->version);
	env_set_build(d);
	for (int i = 0; i < d->count; i++) {
		const struct target *t = &d->at[i];

		snprintf(what, sizeof(what), "horovod %.20s: %s", r->version, t->plan->name);
		draft_add(d, &d->plan->build, what, "%s, %s C++ ABI%s", t->title,
			  t->plan->cxx11_abi ? "new" : "old",
			  d->plan->gpu && *jsonio_string(t->fact, "cuda") ? ", with NCCL" : "");
	}
	recipe_apply(d);
}

/* Engine ringup. */

static void ringup_plan(struct draft *d)
{
	char serves[200] = "";
	int n = 0;

	d->plan->version = PACKAGE_VERSION;
	if (d->compiler.found)
		env_set(d, "CC", d->plan->compiler.cc);
	if (!d->python) {
		draft_reject(d, "Python package ringup", "no Python 3 is installed");
		return;
	}
	for (int i = 0; i < d->count && n < (int)sizeof(serves); i++)
		n += snprintf(serves + n, sizeof(serves) - (size_t)n, "%s%s", i ? ", " : "",
			      d->at[i].title);
	draft_add(d, &d->plan->build, "Python package ringup", "Python %s (%s): %s",
		  d->plan->python.version, d->plan->python.path,
		  *serves ? serves : "no supported framework is installed yet");
}

int buildplan_make(const struct buildplan_how *how, const json_t *facts,
		   const struct versions *t, struct buildplan *plan, struct err *e)
{
	bool horovod = how->engine && !strcmp(how->engine, "horovod");
	struct draft *d = calloc(1, sizeof(*d));
	int rc = buildplan_check(how, e);

	buildplan_blank(plan, horovod ? "horovod" : "ringup");
	if (rc || !d) {
		free(d);
		return rc ? rc : fail(e, RINGUP_ENOMEM, "plan");
	}
	*d = (struct draft){
		.how = how, .facts = facts, .table = t, .plan = plan, .horovod = horovod
	};
	draft_choose_python(d);
	draft_find_targets(d);
	/* Without a target there is nothing to choose. */
	if (d->count || !horovod) {
		draft_plan_mpi(d);
		draft_plan_cuda(d);
		draft_check_abi(d);
		draft_plan_compiler(d);
		(horovod ? horovod_plan : ringup_plan)(d);
	}
	free(d);
	return plan->pool.is_short ? fail(e, RINGUP_ENOMEM, "plan") : 0;
}

void buildplan_free(struct buildplan *plan)
{
	textpool_free(&plan->pool);
	*plan = (struct buildplan){ 0 };
}

struct textpairs buildplan_world(struct textpool *pool, const struct buildplan *p,
				 const char *python, const char *keras, const char *cmake,
				 bool mpi)
{
	struct textpairs world = { 0 };

	for (int i = 0; i < p->framework_count; i++)
		recipe_tell(pool, &world, p->frameworks[i].name, p->frameworks[i].version);
	if (buildplan_framework(p, "tensorflow"))
		recipe_tell(pool, &world, "keras", keras);
	recipe_tell(pool, &world, "python", python);
	recipe_tell(pool, &world, "cmake", cmake);
	recipe_tell(pool, &world, p->compiler.family, p->compiler.version);
	if (p->gpu)
		textpool_set(pool, &world, "gpu", "");
	if (mpi)
		textpool_set(pool, &world, "mpi", "");
	if (!p->cxx11_abi)
		textpool_set(pool, &world, "abi0", "");
	if (p->cxx_standard >= 20)
		textpool_set(pool, &world, "cxx20", "");
	return world;
}

const struct buildplan_framework *buildplan_framework(const struct buildplan *plan,
						      const char *name)
{
	for (int i = 0; i < plan->framework_count; i++)
		if (!strcmp(plan->frameworks[i].name, name))
			return &plan->frameworks[i];
	return NULL;
}
