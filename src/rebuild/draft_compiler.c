/* draft_compiler.c - choose the compiler of a plan, within the limits of all its parts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonio.h"
#include "base/release.h"
#include "rebuild/packages.h"
#include "rebuild/probe.h"
#include "rebuild/recipe.h"
#include "rebuild/versions.h"

/* Questions to the recipe. */

struct textpairs draft_world(struct draft *d)
{
	const struct probes *probes = d->how->probes;
	struct buildplan *p = d->plan;
	struct textpairs w = buildplan_world(
		&p->pool, p, p->python.version,
		jsonio_string(draft_framework(d, d->python, "keras"), "version"),
		probes ? probes->cmake : NULL, p->mpi_count > 0);

	if (p->mpi_count)
		recipe_tell(&p->pool, &w, p->mpi->flavour, p->mpi->version);
	return w;
}

/* Compares the recipe's decisions with @name at @world's version and at @other. */
bool draft_minds(const struct draft *draft, const struct textpairs *world, const char *name,
		 const char *other)
{
	struct textpool pool = { 0 };
	struct textpairs changed = { 0 };
	struct recipe_decision d[2];
	json_t *now, *then;
	bool differs;

	for (int i = 0; i < world->count; i++)
		textpool_add(&pool, &changed, world->at[i].name, world->at[i].text);
	textpool_set(&pool, &changed, name, other);
	recipe_decide(draft->how->recipe, world, &pool, &d[0]);
	recipe_decide(draft->how->recipe, &changed, &pool, &d[1]);
	now = recipe_json(&d[0]);
	then = recipe_json(&d[1]);
	differs = pool.is_short || !json_equal(now, then);
	json_decref(now);
	json_decref(then);
	textpool_free(&pool);
	return differs;
}

/* The compiler. */

static void limit_add(const struct draft *d, struct choose_how *c, const char *subject,
		      const char *version, const char *who, const char *const *families)
{
	char attr[16];

	for (int i = 0; families[i]; i++) {
		const char *bound[2] = { "-", "-" };

		for (int k = 0; k < 2; k++) {
			const struct version_fact *f;

			snprintf(attr, sizeof(attr), "%s_%s", families[i], k ? "max" : "min");
			f = versions_ask(d->table, subject, version, attr, NULL);
			if (f)
				bound[k] = f->value;
		}
		if ((*bound[0] == '-' && *bound[1] == '-') || c->limit_count == CHOOSE_LIMITS)
			continue;
		snprintf(c->limits[c->limit_count].family, 8, "%s", families[i]);
		snprintf(c->limits[c->limit_count].min, 32, "%.31s", bound[0]);
		snprintf(c->limits[c->limit_count].max, 32, "%.31s", bound[1]);
		snprintf(c->limits[c->limit_count].who, 64, "%.63s", who);
		c->limit_count++;
	}
}

/* Adds upstream's newest gcc as a limit, unless the recipe lifts it for newer ones. */
static void limit_add_engine(struct draft *d, struct choose_how *c)
{
	static const char *const gcc[] = { "gcc", NULL };
	const struct recipe *r = d->how->recipe;
	const struct version_fact *f =
		r ? versions_ask(d->table, "horovod", r->version, "gcc_max", NULL) : NULL;
	char who[80], next[16];
	struct textpairs world;

	if (!f)
		return;
	snprintf(who, sizeof(who), "horovod %.40s", r->version);
	snprintf(next, sizeof(next), "%d", atoi(f->value) + 1);
	world = draft_world(d);
	textpool_set(&d->plan->pool, &world, "gcc", next);
	if (!draft_minds(d, &world, "gcc", f->value))
		limit_add(d, c, "horovod", r->version, who, gcc);
}

static void limits_gather(struct draft *d, struct choose_how *c)
{
	static const char *const both[] = { "gcc", "clang", NULL };
	char who[80];

	if (!d->table)
		return;
	limit_add_engine(d, c);
	for (int i = 0; i < d->count; i++)
		limit_add(d, c, d->at[i].plan->name, d->at[i].plan->version, d->at[i].title,
			  both);
	if (d->plan->gpu) {
		snprintf(who, sizeof(who), "nvcc of CUDA %.40s", d->plan->cuda.version);
		limit_add(d, c, "cuda", d->plan->cuda.version, who, both);
	}
}

static void makers_gather(struct draft *d, struct choose_how *c)
{
	c->abi = -1;
	for (int i = 0; i < d->count; i++) {
		const struct target *t = &d->at[i];
		struct choose_maker *m = &c->makers[c->maker_count++];

		snprintf(m->framework, sizeof(m->framework), "%s", t->title);
		snprintf(m->family, sizeof(m->family), "%s", t->family);
		snprintf(m->version, sizeof(m->version), "%s", t->compiler);
		snprintf(m->glibcxx, sizeof(m->glibcxx), "%.15s",
			 jsonio_string(json_object_get(t->fact, "needs"), "glibcxx"));
		if (t->plan->cxx11_abi >= 0)
			c->abi = t->plan->cxx11_abi;
		if (t->plan->cxx_standard > c->standard)
			c->standard = t->plan->cxx_standard;
	}
}

/* Refuses frameworks of different ABIs: one build has one set of flags. */
void draft_check_abi(struct draft *d)
{
	char nearest[256];

	for (int i = 0; d->horovod && i < d->count; i++) {
		const struct target *t = &d->at[i];
		int abi = t->plan->cxx11_abi, first = d->at[0].plan->cxx11_abi;

		if (abi < 0) {
			snprintf(nearest, sizeof(nearest),
				 "%.100s -m pip install --force-reinstall --no-deps %.60s",
				 d->plan->python.path, t->plan->name);
			draft_cannot(d, nearest,
				     "the C++ ABI of %s is unknown: neither its library nor "
				     "the table has it",
				     t->title);
		}
		if (i && abi >= 0 && first >= 0 && abi != first) {
			snprintf(nearest, sizeof(nearest),
				 "one build each: --for %s, or --for %s", d->at[0].plan->name,
				 t->plan->name);
			draft_cannot(d, nearest,
				     "%s has the %s C++ ABI and %s the %s: no object works "
				     "with both",
				     d->at[0].title, first ? "new" : "old", t->title,
				     abi ? "new" : "old");
		}
	}
}

/* Finds the first newer CUDA that takes an installed gcc; "" if none does. */
static void cuda_find_nearest(const struct draft *d, char *out, size_t cap)
{
	const json_t *all = json_object_get(d->facts, "compilers"), *o;
	const char *have = d->plan->cuda.version;
	const struct version_fact *f;

	*out = 0;
	for (int k = 0; k < d->table->count; k++) {
		f = &d->table->at[k];
		if (strcmp(f->subject, "cuda") || strcmp(f->attr, "gcc_max") ||
		    *f->min == '-' || release_compare(f->min, have) <= 0)
			continue;
		for (size_t i = 0; i < json_array_size(all); i++) {
			o = json_array_get(all, i);
			if (!strcmp(jsonio_string(o, "family"), "gcc") &&
			    *jsonio_string(o, "cxx") &&
			    release_within(jsonio_string(o, "version"), "-", f->value)) {
				snprintf(out, cap,
					 "CUDA %.20s supports gcc %.20s, which is installed; "
					 "or install "
					 "g++-%d",
					 f->min, jsonio_string(o, "version"),
					 atoi(versions_ask(d->table, "cuda", have, "gcc_max",
							   NULL)
						      ->value));
				return;
			}
		}
	}
}

/* Finds the first later release of a framework that was built with gcc 5 or newer. */
static bool release_find_nearest(const struct draft *d, char *out, size_t cap)
{
	const struct version_fact *f;

	for (int i = 0; i < d->count; i++) {
		const struct target *t = &d->at[i];

		if (strcmp(t->family, "gcc") || !*t->compiler || atoi(t->compiler) >= 5)
			continue;
		for (int k = 0; k < d->table->count; k++) {
			f = &d->table->at[k];
			if (strcmp(f->subject, t->plan->name) || strcmp(f->attr, "compiler") ||
			    *f->variant || !release_within(f->min, t->plan->version, "-") ||
			    !strncmp(f->value, "gcc 4", 5) || *f->min == '-')
				continue;
			snprintf(out, cap,
				 "%s %s was built with %s, which newer compilers match; or use "
				 "--engine ringup, which needs no C++",
				 t->plan->name, f->min, f->value);
			return true;
		}
	}
	return false;
}

static void compiler_refuse(struct draft *d)
{
	char nearest[300] = "";

	if (*d->compiler.nearest)
		snprintf(nearest, sizeof(nearest), "%s", d->compiler.nearest);
	else if (d->table && !release_find_nearest(d, nearest, sizeof(nearest)) && d->plan->gpu)
		cuda_find_nearest(d, nearest, sizeof(nearest));
	if (!*nearest && d->horovod)
		snprintf(nearest, sizeof(nearest),
			 "--engine ringup needs no C++ and works with any compiler");
	draft_cannot(d, nearest, "%s", d->compiler.why);
}

void draft_plan_compiler(struct draft *d)
{
	struct choose_how c = { .table = d->table,
				.probes = d->how->probes,
				.packages = d->how->packages,
				.machine = d->how->machine,
				.abi = -1 };
	const struct choice *got = &d->compiler;
	struct buildplan *p = d->plan;

	/* Modules are C, and only an MPI needs one. */
	if (!d->horovod && !p->mpi_count)
		return;
	c.cxx = d->horovod;
	if (d->horovod) {
		makers_gather(d, &c);
		limits_gather(d, &c);
		if (c.probes && c.probes->glibcxx)
			snprintf(c.glibcxx, sizeof(c.glibcxx), "%.15s", c.probes->glibcxx);
		p->cxx_standard = c.standard;
		p->cxx11_abi = c.abi;
	}
	choose_compiler(&c, d->facts, &p->pool, &p->rejected, &d->compiler);
	if (!got->found) {
		compiler_refuse(d);
		return;
	}
	p->compiler = (struct buildplan_compiler){ .cc = draft_keep(d, got->cc),
						   .cxx = draft_keep(d, got->cxx),
						   .family = draft_keep(d, got->family),
						   .version = draft_keep(d, got->version),
						   .why = draft_keep(d, got->why),
						   .installed = got->installed };
	if (got->installed)
		return;
	p->manager = draft_keep(d, c.packages->manager);
	draft_add(d, &p->packages, got->package, "%s %s: %s", got->family, got->version,
		  got->why);
}
