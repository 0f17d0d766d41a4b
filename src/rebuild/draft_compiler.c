/* draft_compiler.c - which compiler a plan takes, within the limits of all that it must fit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonio.h"
#include "base/release.h"
#include "rebuild/recipe.h"
#include "rebuild/versions.h"

/* The recipe, asked. */

static bool is_number(const json_t *o, const char *key, int n)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) && json_integer_value(v) == n;
}

json_t *draft_world(const struct draft *d)
{
	json_t *w = json_object();
	const json_t *tools = json_object_get(json_object_get(d->facts, "probes"), "tools");
	const json_t *keras = NULL;
	int i;

	for (i = 0; i < d->count; i++) {
		draft_set(w, d->at[i].name, d->at[i].version);
		if (!strcmp(d->at[i].name, "tensorflow"))
			keras = draft_framework(d, d->python, "keras");
	}
	draft_set(w, "python", jsonio_string(d->python, "version"));
	draft_set(w, "keras", jsonio_string(keras, "version"));
	draft_set(w, "cmake", jsonio_string(tools, "cmake"));
	if (d->compiler.found)
		draft_set(w, d->compiler.family, d->compiler.version);
	json_object_set_new(w, "gpu", json_boolean(d->gpu));
	json_object_set_new(w, "mpi", json_boolean(d->mpi != NULL));
	json_object_set_new(w, "rocm", json_false());
	json_object_set_new(w, "abi0", json_boolean(is_number(d->plan, "cxx11_abi", 0)));
	json_object_set_new(w, "cxx20", json_boolean(is_number(d->plan, "cxx_standard", 20)));
	if (d->mpi)
		draft_set(w, jsonio_string(d->mpi, "flavour"),
			  jsonio_string(d->mpi, "version"));
	return w;
}

/* Would the recipe do the same if @key were @other?  Then it knows nothing of the difference.
 */
bool draft_minds(const struct draft *d, const json_t *world, const char *key, const char *other)
{
	json_t *changed = json_deep_copy(world), *now = NULL, *then = NULL;
	bool differs = true;

	json_object_set_new(changed, key, jsonio_text(other));
	if (!recipe_decide(d->how->recipe, world, &now, NULL) &&
	    !recipe_decide(d->how->recipe, changed, &then, NULL))
		differs = !json_equal(now, then);
	json_decref(now);
	json_decref(then);
	json_decref(changed);
	return differs;
}

/* The compiler. */

static void limit(struct draft *d, struct choose_how *c, const char *subject,
		  const char *version, const char *who, const char *const *families)
{
	char attr[16];
	int i, k;

	for (i = 0; families[i]; i++) {
		const char *bound[2] = { "-", "-" };

		for (k = 0; k < 2; k++) {
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

/* The newest gcc that upstream takes, unless its recipe does something for newer ones. */
static void limit_engine(struct draft *d, struct choose_how *c)
{
	static const char *const gcc[] = { "gcc", NULL };
	const struct recipe *r = d->how->recipe;
	const struct version_fact *f =
		r ? versions_ask(d->table, "horovod", r->version, "gcc_max", NULL) : NULL;
	char who[80], next[16];
	json_t *world;

	if (!f)
		return;
	snprintf(who, sizeof(who), "horovod %.40s", r->version);
	snprintf(next, sizeof(next), "%d", atoi(f->value) + 1);
	world = draft_world(d);
	draft_set(world, "gcc", next);
	if (!draft_minds(d, world, "gcc", f->value))
		limit(d, c, "horovod", r->version, who, gcc);
	json_decref(world);
}

static void gather_limits(struct draft *d, struct choose_how *c)
{
	static const char *const both[] = { "gcc", "clang", NULL };
	char who[80];
	int i;

	if (!d->table)
		return;
	limit_engine(d, c);
	for (i = 0; i < d->count; i++)
		limit(d, c, d->at[i].name, d->at[i].version, d->at[i].title, both);
	if (d->gpu) {
		const char *v = jsonio_string(json_object_get(d->plan, "cuda"), "version");

		snprintf(who, sizeof(who), "nvcc of CUDA %.40s", v);
		limit(d, c, "cuda", v, who, both);
	}
}

static void gather_makers(struct draft *d, struct choose_how *c)
{
	int i;

	c->abi = -1;
	for (i = 0; i < d->count; i++) {
		const struct target *t = &d->at[i];
		struct choose_maker *m = &c->makers[c->maker_count++];

		snprintf(m->framework, sizeof(m->framework), "%s", t->title);
		snprintf(m->family, sizeof(m->family), "%s", t->family);
		snprintf(m->version, sizeof(m->version), "%s", t->compiler);
		snprintf(m->glibcxx, sizeof(m->glibcxx), "%.15s",
			 jsonio_string(json_object_get(t->fact, "needs"), "glibcxx"));
		if (t->abi >= 0)
			c->abi = t->abi;
		if (t->standard > c->standard)
			c->standard = t->standard;
	}
}

/* One set of flags serves all that is built at once. */
void draft_check_abi(struct draft *d)
{
	char nearest[256];
	int i;

	for (i = 0; d->horovod && i < d->count; i++) {
		const struct target *t = &d->at[i];

		if (t->abi < 0) {
			snprintf(nearest, sizeof(nearest),
				 "%.100s -m pip install --force-reinstall --no-deps %.60s",
				 jsonio_string(d->python, "path"), t->name);
			draft_cannot(
				d, nearest,
				"neither its library nor the table tells the C++ ABI of %s",
				t->title);
		}
		if (i && t->abi >= 0 && d->at[0].abi >= 0 && t->abi != d->at[0].abi) {
			snprintf(nearest, sizeof(nearest),
				 "one build each: --for %s, or --for %s", d->at[0].name,
				 t->name);
			draft_cannot(d, nearest,
				     "%s has the %s C++ ABI and %s the %s: no object fits both",
				     d->at[0].title, d->at[0].abi ? "new" : "old", t->title,
				     t->abi ? "new" : "old");
		}
	}
}

/* The first CUDA from that of the plan on that takes @c's best compiler; "" if none does. */
static void nearest_cuda(const struct draft *d, char *out, size_t cap)
{
	const json_t *all = json_object_get(d->facts, "compilers"), *o;
	const char *have = jsonio_string(json_object_get(d->plan, "cuda"), "version");
	const struct version_fact *f;
	size_t i;
	int k;

	*out = 0;
	for (k = 0; k < d->table->count; k++) {
		f = &d->table->at[k];
		if (strcmp(f->subject, "cuda") || strcmp(f->attr, "gcc_max") ||
		    *f->min == '-' || release_compare(f->min, have) <= 0)
			continue;
		for (i = 0; i < json_array_size(all); i++) {
			o = json_array_get(all, i);
			if (!strcmp(jsonio_string(o, "family"), "gcc") &&
			    *jsonio_string(o, "cxx") &&
			    release_within(jsonio_string(o, "version"), "-", f->value)) {
				snprintf(
					out, cap,
					"CUDA %.20s takes gcc %.20s, which is here; or install "
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

/* The first release of a framework that a gcc of today fits. */
static bool nearest_release(const struct draft *d, char *out, size_t cap)
{
	const struct version_fact *f;
	int i, k;

	for (i = 0; i < d->count; i++) {
		const struct target *t = &d->at[i];

		if (strcmp(t->family, "gcc") || !*t->compiler || atoi(t->compiler) >= 5)
			continue;
		for (k = 0; k < d->table->count; k++) {
			f = &d->table->at[k];
			if (strcmp(f->subject, t->name) || strcmp(f->attr, "compiler") ||
			    *f->variant || !release_within(f->min, t->version, "-") ||
			    !strncmp(f->value, "gcc 4", 5) || *f->min == '-')
				continue;
			snprintf(out, cap,
				 "%s %s was built with %s, which newer compilers fit; or use "
				 "--engine ringup, which needs no C++",
				 t->name, f->min, f->value);
			return true;
		}
	}
	return false;
}

static void no_compiler(struct draft *d)
{
	char nearest[300] = "";

	if (*d->compiler.nearest)
		snprintf(nearest, sizeof(nearest), "%s", d->compiler.nearest);
	else if (d->table && !nearest_release(d, nearest, sizeof(nearest)) && d->gpu)
		nearest_cuda(d, nearest, sizeof(nearest));
	if (!*nearest && d->horovod)
		snprintf(nearest, sizeof(nearest),
			 "--engine ringup needs no C++ and fits every compiler");
	draft_cannot(d, nearest, "%s", d->compiler.why);
}

void draft_plan_compiler(struct draft *d)
{
	struct choose_how c = { .table = d->table, .machine = d->how->machine, .abi = -1 };
	json_t *o = json_object();

	/* Modules are C, and only an MPI wants one. */
	if (!d->horovod && !d->mpi) {
		json_decref(o);
		return;
	}
	c.cxx = d->horovod;
	if (d->horovod) {
		gather_makers(d, &c);
		gather_limits(d, &c);
		snprintf(c.glibcxx, sizeof(c.glibcxx), "%.15s",
			 jsonio_string(json_object_get(d->facts, "probes"), "glibcxx"));
		if (c.standard)
			json_object_set_new(d->plan, "cxx_standard", json_integer(c.standard));
		if (c.abi >= 0)
			json_object_set_new(d->plan, "cxx11_abi", json_integer(c.abi));
	}
	choose_compiler(&c, d->facts, json_object_get(d->plan, "rejected"), &d->compiler);
	if (!d->compiler.found) {
		json_decref(o);
		no_compiler(d);
		return;
	}
	draft_set(o, "cc", d->compiler.cc);
	draft_set(o, "cxx", d->compiler.cxx);
	draft_set(o, "family", d->compiler.family);
	draft_set(o, "version", d->compiler.version);
	json_object_set_new(o, "installed", json_boolean(d->compiler.installed));
	draft_set(o, "why", d->compiler.why);
	json_object_set_new(d->plan, "compiler", o);
	if (!d->compiler.installed)
		draft_add(d, "packages", "name", d->compiler.package, "why", "%s %s: %s",
			  d->compiler.family, d->compiler.version, d->compiler.why);
}
