/* draft_targets.c - choose the Python of a plan, and find its frameworks' properties. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/draft.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "base/near.h"
#include "detect/lookup.h"
#include "rebuild/probe.h"
#include "rebuild/versions.h"
#include "ringup.h"

enum { VARIANTS = 6 };

/* Names that users type, the frameworks they mean, and the engines that serve these. */
static const struct {
	const char *typed, *name;
	bool for_ringup, for_horovod;
} known[] = {
	{ "torch", "torch", true, true },
	{ "pytorch", "torch", true, true },
	{ "tensorflow", "tensorflow", true, true },
	{ "tf", "tensorflow", true, true },
	{ "keras", "tensorflow", true, true },
	{ "mxnet", "mxnet", false, true },
	{ "jax", "jax", true, false },
};

/* Names in the request. */

static const char *framework_name(const char *typed)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].typed, typed))
			return known[i].name;
	return NULL;
}

static bool is_served(const struct draft *d, const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].name, name))
			return d->horovod ? known[i].for_horovod : known[i].for_ringup;
	return false;
}

static bool is_wanted(const struct draft *d, const char *name)
{
	const char *c;

	for (int i = 0; i < d->how->framework_count; i++) {
		c = framework_name(d->how->frameworks[i]);
		if (c && !strcmp(c, name))
			return true;
	}
	return !d->how->framework_count;
}

int buildplan_check(const struct buildplan_how *how, struct err *e)
{
	struct near n = { 0 };

	if (how->engine && strcmp(how->engine, "ringup") && strcmp(how->engine, "horovod"))
		return fail(e, RINGUP_EINVAL, "no engine '%.40s': ringup or horovod",
			    how->engine);
	for (int k = 0; k < how->framework_count; k++) {
		if (framework_name(how->frameworks[k]))
			continue;
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			near_offer(&n, how->frameworks[k], known[i].typed);
		return fail(
			e, RINGUP_EINVAL,
			"nothing is built for '%.40s'%s%s%s: torch, tensorflow, jax or mxnet",
			how->frameworks[k], n.best ? "; is " : "", n.best ? n.best : "",
			n.best ? " meant" : "");
	}
	return 0;
}

/* The Python and its frameworks. */

const json_t *draft_framework(const struct draft *d, const json_t *python, const char *name)
{
	return lookup_entry(d->facts, "frameworks", jsonio_string(python, "path"), name);
}

/* Rates @python by its wanted frameworks: 16 for each that is served, 1 for each other. */
static int frameworks_count(const struct draft *d, const json_t *python)
{
	static const char *const names[] = { "torch", "tensorflow", "mxnet", "jax" };
	int n = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_wanted(d, names[i]) && draft_framework(d, python, names[i]))
			n += is_served(d, names[i]) ? 16 : 1;
	return n;
}

void draft_choose_python(struct draft *d)
{
	const json_t *all = json_object_get(d->facts, "pythons"), *o;
	int n, best = -1;

	for (size_t i = 0; i < json_array_size(all); i++) {
		o = json_array_get(all, i);
		n = frameworks_count(d, o);
		if (n > best) {
			best = n;
			d->python = o;
		}
	}
	for (size_t i = 0; i < json_array_size(all); i++) {
		o = json_array_get(all, i);
		if (o != d->python && frameworks_count(d, o))
			draft_reject(d, jsonio_string(o, "path"),
				     "also has frameworks; a plan covers one Python: choose it "
				     "with --python");
	}
	if (d->python) {
		const char *v = jsonio_string(d->python, "version"), *dot = strchr(v, '.');

		snprintf(d->series, sizeof(d->series), "%.*s",
			 dot ? (int)(dot - v + 1 + (long)strspn(dot + 1, "0123456789"))
			     : (int)strlen(v),
			 v);
		jsonrecord_read(buildplan_python_fields, &d->plan->python, d->python,
				&d->plan->pool);
	}
}

/* The table's names for this edition of a framework, the most specific first. */
struct variants {
	char word[VARIANTS][24];
	const char *at[VARIANTS + 1];
	int count;
};

static void variant_add(struct variants *v, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void variant_add(struct variants *v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->word[v->count], sizeof(v->word[0]), fmt, ap);
	va_end(ap);
	if (*v->word[v->count] && v->count < VARIANTS) {
		v->at[v->count] = v->word[v->count];
		v->count++;
	}
	v->at[v->count] = NULL;
}

/* Sets @v; false if the table does not cover this edition, by a version suffix other than +cpu
 * and +cuNN.  It covers conda's and Debian's builds only where it says so. */
static bool variants_find(const struct draft *d, const json_t *fact, struct variants *v)
{
	const char *by = jsonio_string(fact, "installer"),
		   *plus = strchr(jsonio_string(fact, "version"), '+');
	const char *cuda = jsonio_string(fact, "cuda");
	int major = 0, minor = 0;

	memset(v, 0, sizeof(*v));
	if (!strcmp(by, "conda")) {
		variant_add(v, "conda");
		return true;
	}
	if (!strcmp(by, "distribution") || !strcmp(by, "debian")) {
		variant_add(v, "debian");
		return true;
	}
	if (plus && strcmp(plus, "+cpu") && strncmp(plus, "+cu", 3))
		return false;
	if (plus)
		variant_add(v, "%.20s", plus + 1);
	else if (sscanf(cuda, "%d.%d", &major, &minor) == 2)
		variant_add(v, "cu%d%d", major % 1000, minor % 1000);
	variant_add(v, "cp%.1s%.4s", d->series,
		    strchr(d->series, '.') ? strchr(d->series, '.') + 1 : "");
	variant_add(v, "%.20s", jsonio_string(fact, "distribution"));
	return true;
}

/* A fact about all variants does not hold for a distribution's build, except cxx_standard. */
const struct version_fact *draft_ask(const struct draft *d, const json_t *fact,
				     const char *attr)
{
	const struct version_fact *f;
	struct variants v;

	if (!d->table || !variants_find(d, fact, &v))
		return NULL;
	f = versions_ask(d->table, jsonio_string(fact, "name"), jsonio_string(fact, "version"),
			 attr, v.at);
	if (f && !*f->variant && strcmp(attr, "cxx_standard") && v.count &&
	    (!strcmp(v.at[0], "conda") || !strcmp(v.at[0], "debian")))
		return NULL;
	return f;
}

static void target_find_abi(struct draft *d, struct target *t)
{
	const struct probe_framework *tried =
		probe_of_framework(d->how->probes, t->plan->location);
	int probe = tried ? tried->cxx11_abi : -1, elf = t->plan->cxx11_abi;
	const struct version_fact *f = draft_ask(d, t->fact, "cxx11_abi");
	char about[160];
	int abi = elf != -1 ? elf : probe != -1 ? probe : f ? atoi(f->value) : -1;

	t->plan->cxx11_abi = abi = abi == 0 || abi == 1 ? abi : -1;
	t->plan->cxx11_abi_by = elf != -1 ? "elf" : probe != -1 ? "probe" : f ? "table" : "";
	snprintf(about, sizeof(about), "C++ ABI of %s", t->title);
	if (f && (elf != -1 || probe != -1) && abi >= 0 && atoi(f->value) != abi)
		draft_differ(d, about, abi ? "1" : "0", f->value);
}

static void target_find_maker(struct draft *d, struct target *t)
{
	const char *elf = t->plan->compiler;
	const struct version_fact *f = draft_ask(d, t->fact, "compiler");
	char table[32] = "", about[160];
	const char *is = elf;

	if (f)
		snprintf(table, sizeof(table), "%s", f->value);
	if (!*is)
		is = table;
	if (!strncmp(is, "gcc ", 4) || !strncmp(is, "clang ", 6)) {
		size_t n = strcspn(is, " ");

		snprintf(t->family, sizeof(t->family), "%.*s", (int)n, is);
		snprintf(t->compiler, sizeof(t->compiler), "%.31s", is + n + 1);
	}
	t->plan->compiler = draft_keep(d, is);
	t->plan->compiler_by = *elf ? "elf" : *table ? "table" : "";
	if (*elf && *table && f->trust > VERSION_MEMORY &&
	    (strncmp(elf, table, strlen(t->family) + 1) ||
	     atoi(strchrnul(elf, ' ')) != atoi(strchrnul(table, ' ')))) {
		snprintf(about, sizeof(about), "compiler of %s", t->title);
		draft_differ(d, about, elf, table);
	}
}

static void target_find_standard(struct draft *d, struct target *t)
{
	const struct probe_framework *tried =
		probe_of_framework(d->how->probes, t->plan->location);
	int probe = tried ? tried->cxx_standard : 0, headers = t->plan->cxx_standard;
	const struct version_fact *f = draft_ask(d, t->fact, "cxx_standard");
	char about[160], was[16], is[16];
	int standard = probe ? probe : f ? atoi(f->value) : headers;

	t->plan->cxx_standard = standard = standard < 0 || standard > 99 ? 0 : standard;
	t->plan->cxx_standard_by = probe ? "probe" : standard ? "table" : "";
	if (probe && f && atoi(f->value) != standard) {
		snprintf(about, sizeof(about), "C++ standard of %s", t->title);
		snprintf(was, sizeof(was), "%.8s", f->value);
		snprintf(is, sizeof(is), "%d", standard);
		draft_differ(d, about, is, was);
	}
}

static void target_check_python(struct draft *d, const struct target *t)
{
	const struct version_fact *f = draft_ask(d, t->fact, "python");
	char about[160];

	if (!f || versions_in(d->series, f->value))
		return;
	snprintf(about, sizeof(about), "Python of %s", t->title);
	draft_differ(d, about, d->series, f->value);
}

static void target_add(struct draft *d, const json_t *fact)
{
	struct target *t = &d->at[d->count++];
	struct buildplan_framework *o = &d->plan->frameworks[d->plan->framework_count++];

	t->fact = fact;
	t->plan = o;
	/* Starts with the library's evidence; probes and table follow. */
	jsonrecord_read(buildplan_framework_fields, o, fact, &d->plan->pool);
	snprintf(t->title, sizeof(t->title), "%s%s%s", o->name, *o->version ? " " : "",
		 o->version);
	target_find_abi(d, t);
	target_find_maker(d, t);
	target_find_standard(d, t);
	target_check_python(d, t);
}

static void framework_refuse(struct draft *d, const char *name)
{
	const char *kind = jsonio_string(d->python, "kind");
	char nearest[200], python[PATH_MAX];

	snprintf(python, sizeof(python), "%.300s", jsonio_string(d->python, "path"));
	/* The system's Python belongs to the distribution. */
	if (!*python || !strcmp(kind, "system"))
		snprintf(nearest, sizeof(nearest),
			 "python3 -m venv /opt/venv; /opt/venv/bin/pip install %s", name);
	else
		snprintf(nearest, sizeof(nearest), "%.120s -m pip install %s", python, name);
	draft_cannot(d, nearest, "%s is not installed%s%.200s", name,
		     *python ? " for " : ": there is no Python 3", python);
}

void draft_find_targets(struct draft *d)
{
	static const char *const names[] = { "torch", "tensorflow", "mxnet", "jax" };
	const json_t *fact;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char what[96];

		if (!is_wanted(d, names[i]))
			continue;
		fact = d->python ? draft_framework(d, d->python, names[i]) : NULL;
		if (!fact && d->how->framework_count) {
			framework_refuse(d, names[i]);
		} else if (fact && is_served(d, names[i])) {
			target_add(d, fact);
		} else if (fact) {
			snprintf(what, sizeof(what), "%s %.60s", names[i],
				 jsonio_string(fact, "version"));
			draft_reject(
				d, what,
				d->horovod ? "Horovod does not support it; --engine ringup does"
					   : "this release of ringup has no adapter for it; "
					     "--engine horovod does");
			if (d->how->framework_count)
				draft_cannot(d,
					     d->horovod ? "ringup plan --engine ringup"
							: "ringup plan --engine horovod",
					     d->horovod ? "Horovod does not support %s"
							: "this release of ringup has no "
							  "adapter for %s",
					     names[i]);
		}
	}
	if (d->horovod && !d->count)
		draft_cannot(d,
			     "install torch or tensorflow in a Python environment, then plan "
			     "again",
			     "no framework that Horovod supports is installed");
}
