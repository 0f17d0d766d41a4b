/* buildplan.c - from what a node has to what will be built for it: nothing is run here. */
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

/* Engine horovod: the recipe, and what its build is told. */

static void set_env(struct draft *d, const char *name, const char *value)
{
	if (*value)
		json_object_set_new(json_object_get(d->plan, "env"), name, jsonio_text(value));
}

static void take_edits(struct draft *d, const json_t *edits)
{
	json_t *o;
	size_t i;

	json_array_foreach(edits, i, o) {
		json_t *name = json_object_get(o, "name");

		json_array_append(json_object_get(d->plan, "edits"), name ? name : o);
	}
}

/* Upstream's own limits hold where the recipe does nothing about them. */
static void check_known(struct draft *d, const json_t *world)
{
	const struct recipe *r = d->how->recipe;
	const struct version_fact *f;
	const char *keras = jsonio_string(world, "keras"), *end;
	int i;

	for (i = 0; d->table && i < d->count; i++) {
		const struct target *t = &d->at[i];
		char nearest[160];

		/* The attribute is called like the framework. */
		f = versions_ask(d->table, "horovod", r->version, t->name, NULL);
		end = f ? strrchr(f->value, '-') : NULL;
		if (!end || !end[1] || !*t->version || versions_in(t->version, f->value) ||
		    draft_minds(d, world, t->name, end + 1))
			continue;
		snprintf(nearest, sizeof(nearest), "%.60s %.40s, or --engine ringup", t->name,
			 f->value);
		draft_cannot(d, nearest,
			     "horovod %s is for %s %s, and its recipe has no edits for %s",
			     r->version, t->name, f->value, t->version);
	}
	f = *keras && d->table ? versions_ask(d->table, "keras", keras, "bad", NULL) : NULL;
	if (f && !strcmp(f->value, "horovod") && !draft_minds(d, world, "keras", "2.15.0"))
		draft_cannot(d, "--for torch, or Keras 2", "Keras %s with horovod: %s", keras,
			     f->note);
}

static int apply_recipe(struct draft *d, struct err *e)
{
	const struct recipe *r = d->how->recipe;
	json_t *world = draft_world(d), *decided = NULL;
	const json_t *first;
	int rc = recipe_decide(r, world, &decided, e);

	if (!rc) {
		json_object_set(d->plan, "adds", json_object_get(decided, "adds"));
		json_object_set(d->plan, "advisories", json_object_get(decided, "advisories"));
		json_object_update(json_object_get(d->plan, "env"),
				   json_object_get(decided, "env"));
		take_edits(d, json_object_get(decided, "edits"));
		first = json_array_get(json_object_get(decided, "bad"), 0);
		if (first)
			draft_cannot(d, jsonio_string(first, "instead"), "%s",
				     jsonio_string(first, "why"));
		check_known(d, world);
	}
	json_decref(decided);
	json_decref(world);
	return rc;
}

static void set_build_env(struct draft *d)
{
	static const struct {
		const char *name, *word;
	} all[] = { { "torch", "PYTORCH" },
		    { "tensorflow", "TENSORFLOW" },
		    { "mxnet", "MXNET" } };
	char name[40], home[PATH_MAX];
	const char *slash;
	size_t i;
	int k;

	set_env(d, "CC", d->compiler.cc);
	set_env(d, "CXX", d->compiler.cxx);
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		bool has = false;

		for (k = 0; k < d->count; k++)
			has |= !strcmp(d->at[k].name, all[i].name);
		snprintf(name, sizeof(name), "HOROVOD_WITH%s_%s", has ? "" : "OUT",
			 all[i].word);
		set_env(d, name, "1");
	}
	set_env(d, "HOROVOD_WITH_GLOO", "1");
	set_env(d, d->mpi ? "HOROVOD_WITH_MPI" : "HOROVOD_WITHOUT_MPI", "1");
	if (!d->gpu)
		return;
	set_env(d, "HOROVOD_GPU_OPERATIONS", "NCCL");
	set_env(d, "HOROVOD_CUDA_HOME",
		jsonio_string(json_object_get(d->plan, "cuda"), "path"));
	/* torch guesses from where nvcc is first in PATH. */
	set_env(d, "CUDA_HOME", jsonio_string(json_object_get(d->plan, "cuda"), "path"));
	set_env(d, "CUDAHOSTCXX", d->compiler.cxx);
	snprintf(home, sizeof(home), "%s",
		 jsonio_string(json_object_get(d->plan, "nccl"), "header"));
	slash = strstr(home, "/include/nccl.h");
	if (slash) {
		home[slash - home] = 0;
		set_env(d, "HOROVOD_NCCL_HOME", home);
	}
}

static int plan_horovod(struct draft *d, struct err *e)
{
	const struct recipe *r = d->how->recipe;
	char what[160];
	int i;

	if (!r) {
		draft_cannot(d, "--engine ringup",
			     "there is no recipe for horovod; without one its build fails on "
			     "frameworks of today");
		return 0;
	}
	draft_set(d->plan, "version", r->version);
	set_build_env(d);
	for (i = 0; i < d->count; i++) {
		snprintf(what, sizeof(what), "horovod %.20s: %s", r->version, d->at[i].name);
		draft_add(d, "build", "what", what, "why", "%s, %s C++ ABI%s", d->at[i].title,
			  d->at[i].abi ? "new" : "old",
			  d->gpu && *jsonio_string(d->at[i].fact, "cuda") ? ", with NCCL" : "");
	}
	return apply_recipe(d, e);
}

/* Engine ringup. */

static int plan_ringup(struct draft *d)
{
	char serves[200] = "";
	int i, n = 0;

	draft_set(d->plan, "version", PACKAGE_VERSION);
	if (d->compiler.found)
		set_env(d, "CC", d->compiler.cc);
	if (!d->python) {
		draft_reject(d, "Python package ringup", "there is no Python 3");
		return 0;
	}
	for (i = 0; i < d->count && n < (int)sizeof(serves); i++)
		n += snprintf(serves + n, sizeof(serves) - (size_t)n, "%s%s", i ? ", " : "",
			      d->at[i].title);
	draft_add(d, "build", "what", "Python package ringup", "why", "Python %s (%s): %s",
		  jsonio_string(d->python, "version"), jsonio_string(d->python, "path"),
		  *serves ? serves : "no framework that it could serve is there yet");
	return 0;
}

static json_t *blank(const char *engine)
{
	return json_pack(
		"{ss sn sn s[] sn sn sn sn sn s[] s[] s[] s{} s[] s[] s[] s[] s[] sb sn sn}",
		"engine", engine, "version", "python", "frameworks", "compiler", "cxx_standard",
		"cxx11_abi", "cuda", "nccl", "mpi", "packages", "build", "env", "edits", "adds",
		"advisories", "rejected", "disagreements", "possible", 1, "why_not", "nearest");
}

int buildplan_check(const struct buildplan_how *how, struct err *e)
{
	return draft_check(how, e);
}

int buildplan_make(const struct buildplan_how *how, const json_t *facts,
		   const struct versions *t, json_t **planp, struct err *e)
{
	struct draft *d = calloc(1, sizeof(*d));
	int rc = buildplan_check(how, e);

	if (rc || !d) {
		free(d);
		return rc ? rc : fail(e, RINGUP_ENOMEM, "plan");
	}
	d->how = how;
	d->facts = facts;
	d->table = t;
	d->possible = true;
	d->horovod = how->engine && !strcmp(how->engine, "horovod");
	d->plan = blank(d->horovod ? "horovod" : "ringup");
	draft_choose_python(d);
	draft_find_targets(d);
	/* With nothing to build for there is nothing to choose. */
	if (d->count || !d->horovod) {
		draft_plan_mpi(d);
		draft_plan_cuda(d);
		draft_check_abi(d);
		draft_plan_compiler(d);
		rc = d->horovod ? plan_horovod(d, e) : plan_ringup(d);
	}
	json_object_set_new(d->plan, "possible", json_boolean(d->possible));
	/* jansson hands NULL on; a part that is missing is memory that was. */
	if (!rc && json_object_size(d->plan) != 21)
		rc = fail(e, RINGUP_ENOMEM, "plan");
	if (rc)
		json_decref(d->plan);
	else
		*planp = d->plan;
	free(d);
	return rc;
}
