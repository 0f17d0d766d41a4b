/* buildplan.c - from what a node has to what will be built for it: nothing is run here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/buildplan.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "base/near.h"
#include "base/release.h"
#include "config.h"
#include "detect/find.h"
#include "detect/mpilibs.h"
#include "rebuild/choose.h"
#include "rebuild/modules.h"
#include "rebuild/recipe.h"
#include "rebuild/versions.h"
#include "ringup.h"

enum { MOST_FRAMEWORKS = 8, VARIANTS = 6, SENTENCE = 512 };

/* What people call them, what they are, and for whom there is something to build. */
static const struct {
	const char *typed, *name;
	bool for_ringup, for_horovod;
} known[] = {
	{ "torch", "torch", true, true },
	{ "pytorch", "torch", true, true },
	{ "tensorflow", "tensorflow", false, true },
	{ "tf", "tensorflow", false, true },
	{ "keras", "tensorflow", false, true },
	{ "mxnet", "mxnet", false, true },
};

/* A framework that the plan is for. */
struct target {
	const json_t *fact;
	const char *name, *version;
	char title[80]; /* "torch 2.13.0" */
	int abi;        /* -1: not known   */
	int standard;   /* 0: none         */
	char family[8], compiler[32];
	json_t *entry; /* in the plan; borrowed */
};

struct draft {
	const struct buildplan_how *how;
	const json_t *facts;
	const struct versions *table;
	json_t *plan;
	const json_t *python;
	char series[16]; /* "3.11" */
	struct target at[MOST_FRAMEWORKS];
	int count;
	bool horovod, gpu, possible;
	const json_t *mpi; /* Horovod's */
	struct choice compiler;
};

static void set_text(json_t *o, const char *key, const char *value)
{
	json_object_set_new(o, key, *value ? jsonio_text(value) : json_null());
}

/* Append {@a: the value, @b: a sentence} to the list @key of the plan. */
static void add(struct draft *d, const char *key, const char *a, const char *value,
		const char *b, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
static void add(struct draft *d, const char *key, const char *a, const char *value,
		const char *b, const char *fmt, ...)
{
	char sentence[SENTENCE];
	json_t *o = json_object();
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	json_object_set_new(o, a, jsonio_text(value));
	json_object_set_new(o, b, jsonio_text(sentence));
	json_array_append_new(json_object_get(d->plan, key), o);
}

#define reject(d, what, ...) add(d, "rejected", "what", what, "why", __VA_ARGS__)

/* It cannot be; the first reason is the one that is told. */
static void cannot(struct draft *d, const char *nearest, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void cannot(struct draft *d, const char *nearest, const char *fmt, ...)
{
	char sentence[SENTENCE];
	va_list ap;

	if (!d->possible)
		return;
	d->possible = false;
	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	set_text(d->plan, "why_not", sentence);
	set_text(d->plan, "nearest", nearest);
}

static void differ(struct draft *d, const char *about, const char *probe, const char *table)
{
	json_t *o = json_object();

	set_text(o, "about", about);
	set_text(o, "probe", probe);
	set_text(o, "table", table);
	json_array_append_new(json_object_get(d->plan, "disagreements"), o);
}

/* What is asked for. */

static const char *canonical(const char *typed)
{
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].typed, typed))
			return known[i].name;
	return NULL;
}

static bool is_for(const struct draft *d, const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].name, name))
			return d->horovod ? known[i].for_horovod : known[i].for_ringup;
	return false;
}

static bool is_wanted(const struct draft *d, const char *name)
{
	const char *c;
	int i;

	for (i = 0; i < d->how->framework_count; i++) {
		c = canonical(d->how->frameworks[i]);
		if (c && !strcmp(c, name))
			return true;
	}
	return !d->how->framework_count;
}

int buildplan_check(const struct buildplan_how *how, struct err *e)
{
	struct near n = { 0 };
	size_t i;
	int k;

	if (how->engine && strcmp(how->engine, "ringup") && strcmp(how->engine, "horovod"))
		return fail(e, RINGUP_EINVAL, "no engine '%.40s': ringup or horovod",
			    how->engine);
	for (k = 0; k < how->framework_count; k++) {
		if (canonical(how->frameworks[k]))
			continue;
		for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			near_offer(&n, how->frameworks[k], known[i].typed);
		return fail(e, RINGUP_EINVAL,
			    "nothing is built for '%.40s'%s%s%s: torch, tensorflow or mxnet",
			    how->frameworks[k], n.best ? "; is " : "", n.best ? n.best : "",
			    n.best ? " meant" : "");
	}
	return 0;
}

/* Which Python, and what of it. */

static const json_t *framework_of(const struct draft *d, const json_t *python, const char *name)
{
	return find_of(d->facts, "frameworks", jsonio_string(python, "path"), name);
}

/* How many frameworks of @python could be served; those that are asked for. */
static int count_served(const struct draft *d, const json_t *python)
{
	static const char *const names[] = { "torch", "tensorflow", "mxnet" };
	int n = 0;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_wanted(d, names[i]) && framework_of(d, python, names[i]))
			n += is_for(d, names[i]) ? 16 : 1;
	return n;
}

static void choose_python(struct draft *d)
{
	const json_t *all = json_object_get(d->facts, "pythons"), *o;
	int n, best = -1;
	size_t i;

	for (i = 0; i < json_array_size(all); i++) {
		o = json_array_get(all, i);
		n = count_served(d, o);
		if (n > best) {
			best = n;
			d->python = o;
		}
	}
	for (i = 0; i < json_array_size(all); i++) {
		o = json_array_get(all, i);
		if (o != d->python && count_served(d, o))
			reject(d, jsonio_string(o, "path"),
			       "has frameworks, too; a plan is for one Python: name it with "
			       "--python");
	}
	if (d->python) {
		const char *v = jsonio_string(d->python, "version"), *dot = strchr(v, '.');

		snprintf(d->series, sizeof(d->series), "%.*s",
			 dot ? (int)(dot - v + 1 + (long)strspn(dot + 1, "0123456789"))
			     : (int)strlen(v),
			 v);
		json_object_set_new(d->plan, "python",
				    json_pack("{sO?sO?sO?}", "path",
					      json_object_get(d->python, "path"), "version",
					      json_object_get(d->python, "version"), "prefix",
					      json_object_get(d->python, "prefix")));
	}
}

/* What the table calls this edition of a framework, the most telling first. */
struct variants {
	char word[VARIANTS][24];
	const char *at[VARIANTS + 1];
	int count;
};

static void add_variant(struct variants *v, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void add_variant(struct variants *v, const char *fmt, ...)
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

/* Does the table speak of this edition at all?  Of makers' builds that nobody else has it
 * does not, and of conda's and Debian's only where it says so. */
static bool find_variants(const struct draft *d, const json_t *fact, struct variants *v)
{
	const char *by = jsonio_string(fact, "installer"),
		   *plus = strchr(jsonio_string(fact, "version"), '+');
	const char *cuda = jsonio_string(fact, "cuda");
	int major = 0, minor = 0;

	memset(v, 0, sizeof(*v));
	if (!strcmp(by, "conda")) {
		add_variant(v, "conda");
		return true;
	}
	if (!strcmp(by, "distribution") || !strcmp(by, "debian")) {
		add_variant(v, "debian");
		return true;
	}
	if (plus && strcmp(plus, "+cpu") && strncmp(plus, "+cu", 3))
		return false;
	if (plus)
		add_variant(v, "%.20s", plus + 1);
	else if (sscanf(cuda, "%d.%d", &major, &minor) == 2)
		add_variant(v, "cu%d%d", major % 1000, minor % 1000);
	add_variant(v, "cp%.1s%.4s", d->series,
		    strchr(d->series, '.') ? strchr(d->series, '.') + 1 : "");
	add_variant(v, "%.20s", jsonio_string(fact, "distribution"));
	return true;
}

/* What is known of a distribution's own build is about that alone. */
static const struct version_fact *ask(const struct draft *d, const json_t *fact,
				      const char *attr)
{
	const struct version_fact *f;
	struct variants v;

	if (!d->table || !find_variants(d, fact, &v))
		return NULL;
	f = versions_ask(d->table, jsonio_string(fact, "name"), jsonio_string(fact, "version"),
			 attr, v.at);
	if (f && !*f->variant && strcmp(attr, "cxx_standard") && v.count &&
	    (!strcmp(v.at[0], "conda") || !strcmp(v.at[0], "debian")))
		return NULL;
	return f;
}

/* A probe's word about a framework: probes.frameworks[{location, cxx11_abi, cxx_standard}]. */
static const json_t *probe_of(const struct draft *d, const json_t *fact, const char *key)
{
	const json_t *all = json_object_get(json_object_get(d->facts, "probes"), "frameworks");
	const json_t *o, *v;
	size_t i;

	for (i = 0; i < json_array_size(all); i++) {
		o = json_array_get(all, i);
		v = json_object_get(o, key);
		if (!strcmp(jsonio_string(o, "location"), jsonio_string(fact, "location")) &&
		    json_is_integer(v))
			return v;
	}
	return NULL;
}

static void source(struct target *t, const char *field, const char *by)
{
	char key[32];

	snprintf(key, sizeof(key), "%s_by", field);
	set_text(t->entry, key, by);
}

static void find_abi(struct draft *d, struct target *t)
{
	const json_t *elf = json_object_get(t->fact, "cxx11_abi");
	const json_t *probe = probe_of(d, t->fact, "cxx11_abi");
	const struct version_fact *f = ask(d, t->fact, "cxx11_abi");
	char about[160];

	t->abi = json_is_integer(elf) ? (int)json_integer_value(elf)
		 : probe              ? (int)json_integer_value(probe)
		 : f                  ? atoi(f->value)
				      : -1;
	if (t->abi != 0 && t->abi != 1)
		t->abi = -1;
	json_object_set_new(t->entry, "cxx11_abi",
			    t->abi < 0 ? json_null() : json_integer(t->abi));
	source(t, "cxx11_abi",
	       json_is_integer(elf) ? "elf"
	       : probe              ? "probe"
	       : f                  ? "table"
				    : "");
	snprintf(about, sizeof(about), "C++ ABI of %s", t->title);
	if (f && (json_is_integer(elf) || probe) && t->abi >= 0 && atoi(f->value) != t->abi)
		differ(d, about, t->abi ? "1" : "0", f->value);
	if (json_is_integer(elf) && probe &&
	    json_integer_value(elf) != json_integer_value(probe))
		differ(d, about, t->abi ? "1 (its library)" : "0 (its library)",
		       t->abi ? "0 (what was compiled against it)"
			      : "1 (what was compiled against it)");
}

static void find_maker(struct draft *d, struct target *t)
{
	const char *elf = jsonio_string(t->fact, "compiler");
	const struct version_fact *f = ask(d, t->fact, "compiler");
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
	set_text(t->entry, "compiler", is);
	source(t, "compiler", *elf ? "elf" : *table ? "table" : "");
	if (*elf && *table && f->trust > VERSION_MEMORY &&
	    (strncmp(elf, table, strlen(t->family) + 1) ||
	     atoi(strchrnul(elf, ' ')) != atoi(strchrnul(table, ' ')))) {
		snprintf(about, sizeof(about), "compiler of %s", t->title);
		differ(d, about, elf, table);
	}
}

static void find_standard(struct draft *d, struct target *t)
{
	const json_t *probe = probe_of(d, t->fact, "cxx_standard");
	const json_t *headers = json_object_get(t->fact, "cxx_standard");
	const struct version_fact *f = ask(d, t->fact, "cxx_standard");
	char about[160], was[16], is[16];

	t->standard = probe                      ? (int)json_integer_value(probe)
		      : f                        ? atoi(f->value)
		      : json_is_integer(headers) ? (int)json_integer_value(headers)
						 : 0;
	if (t->standard < 0 || t->standard > 99)
		t->standard = 0;
	json_object_set_new(t->entry, "cxx_standard",
			    t->standard ? json_integer(t->standard) : json_null());
	source(t, "cxx_standard", probe ? "probe" : t->standard ? "table" : "");
	if (probe && f && atoi(f->value) != t->standard) {
		snprintf(about, sizeof(about), "C++ standard of %s", t->title);
		snprintf(was, sizeof(was), "%.8s", f->value);
		snprintf(is, sizeof(is), "%d", t->standard);
		differ(d, about, is, was);
	}
}

static void check_python(struct draft *d, const struct target *t)
{
	const struct version_fact *f = ask(d, t->fact, "python");
	char about[160];

	if (!f || versions_in(d->series, f->value))
		return;
	snprintf(about, sizeof(about), "Python of %s", t->title);
	differ(d, about, d->series, f->value);
}

static void add_target(struct draft *d, const json_t *fact)
{
	struct target *t = &d->at[d->count++];

	t->fact = fact;
	t->name = jsonio_string(fact, "name");
	t->version = jsonio_string(fact, "version");
	snprintf(t->title, sizeof(t->title), "%s%s%s", t->name, *t->version ? " " : "",
		 t->version);
	t->entry = json_pack("{sO?sO?sO?sO?}", "name", json_object_get(fact, "name"), "version",
			     json_object_get(fact, "version"), "location",
			     json_object_get(fact, "location"), "library",
			     json_object_get(fact, "library"));
	find_abi(d, t);
	find_maker(d, t);
	find_standard(d, t);
	check_python(d, t);
	json_array_append_new(json_object_get(d->plan, "frameworks"), t->entry);
}

static void refuse_framework(struct draft *d, const char *name)
{
	char nearest[200], python[PATH_MAX];

	snprintf(python, sizeof(python), "%.300s", jsonio_string(d->python, "path"));
	snprintf(nearest, sizeof(nearest), "%.120s -m pip install %s",
		 *python ? python : "python3", name);
	cannot(d, nearest, "%s is not installed%s%.200s", name,
	       *python ? " for " : ": there is no Python 3", python);
}

static void find_targets(struct draft *d)
{
	static const char *const names[] = { "torch", "tensorflow", "mxnet" };
	const json_t *fact;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char what[96];

		if (!is_wanted(d, names[i]))
			continue;
		fact = d->python ? framework_of(d, d->python, names[i]) : NULL;
		if (!fact && d->how->framework_count) {
			refuse_framework(d, names[i]);
		} else if (fact && is_for(d, names[i])) {
			add_target(d, fact);
		} else if (fact) {
			snprintf(what, sizeof(what), "%s %.60s", names[i],
				 jsonio_string(fact, "version"));
			reject(d, what,
			       "this release of ringup has no adapter to build for it; "
			       "--engine horovod builds one");
			if (d->how->framework_count)
				cannot(d, "ringup plan --engine horovod --for tensorflow",
				       "this release of ringup has no adapter for %s",
				       names[i]);
		}
	}
	if (d->horovod && !d->count)
		cannot(d,
		       "install torch or tensorflow for a Python of this node, then plan again",
		       "there is no framework that horovod could be built for");
}

/* MPI. */

static bool is_open_mpi(const json_t *m)
{
	return !strcmp(jsonio_string(m, "flavour"), "openmpi");
}

static void mpi_title(const json_t *m, char *out, size_t cap)
{
	const char *title = mpilibs_title(jsonio_string(m, "flavour"));
	const char *v = jsonio_string(m, "version");

	snprintf(out, cap, "%.40s%s%.40s", title, *v ? " " : "", v);
}

/* mpicc.openmpi's C++ sister is mpicxx.openmpi. */
static void set_mpicxx(json_t *o, const char *mpicc)
{
	const char *name = strrchr(mpicc, '/');
	const char *p = name ? strstr(name, "mpicc") : NULL;
	char path[PATH_MAX];

	if (p)
		snprintf(path, sizeof(path), "%.*smpicxx%s", (int)(p - mpicc), mpicc, p + 5);
	set_text(o, "mpicxx", p ? path : "");
}

static void add_mpi(struct draft *d, const json_t *m)
{
	static const char *const keys[] = { "flavour", "version", "mpicc",
					    "mpirun",  "library", "header" };
	json_t *o = json_object();
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		set_text(o, keys[i], jsonio_string(m, keys[i]));
	set_mpicxx(o, jsonio_string(m, "mpicc"));
	json_array_append_new(json_object_get(d->plan, "mpi"), o);
}

/* Can anything be compiled against it, by this engine? */
static bool mpi_usable(struct draft *d, const json_t *m, const char *title)
{
	const struct version_fact *f;
	const char *lacks = !*jsonio_string(m, "header")  ? "mpi.h"
			    : !*jsonio_string(m, "mpicc") ? "mpicc"
							  : NULL;

	if (lacks) {
		reject(d, title, "it has no %s; install %s to have it built for", lacks,
		       is_open_mpi(m) ? "libopenmpi-dev" : "its development files");
		return false;
	}
	f = d->table ? versions_ask(d->table, jsonio_string(m, "flavour"),
				    jsonio_string(m, "version"), "bad", NULL)
		     : NULL;
	if (f && !strcmp(f->value, d->horovod ? "horovod" : "ringup")) {
		reject(d, title, "known to be bad for %s: %s", f->value, f->note);
		return false;
	}
	return true;
}

/* Versions of one MPI have a module each: they share neither launchers nor libraries. */
static void add_module(struct draft *d, const json_t *m, const char *title)
{
	char name[MODULES_NAME];

	modules_name(name, m);
	add(d, "build", "what", name, "why", "%s is here, with %s", title,
	    jsonio_string(m, "mpicc"));
}

static void plan_mpi(struct draft *d)
{
	const json_t *all = json_object_get(d->facts, "mpi"), *m;
	char title[100], was[100];
	size_t i;

	for (i = 0; i < json_array_size(all); i++) {
		m = json_array_get(all, i);
		mpi_title(m, title, sizeof(title));
		if (!mpi_usable(d, m, title))
			continue;
		if (d->horovod && d->mpi) {
			mpi_title(d->mpi, was, sizeof(was));
			reject(d, title, "horovod is built for one MPI, and %s is there", was);
			continue;
		}
		d->mpi = m;
		add_mpi(d, m);
		if (!d->horovod)
			add_module(d, m, title);
	}
}

/* CUDA and NCCL. */

static bool same_major(const char *a, const char *b)
{
	return *a && *b && atoi(a) == atoi(b);
}

/* The CUDA that the frameworks were built for; "" for none. */
static const char *cuda_of(const struct draft *d, const struct target **whose)
{
	int i;

	for (i = 0; i < d->count; i++) {
		*whose = &d->at[i];
		if (*jsonio_string(d->at[i].fact, "cuda"))
			return jsonio_string(d->at[i].fact, "cuda");
	}
	return "";
}

static const json_t *choose_toolkit(struct draft *d, const char *want, const char *who)
{
	const json_t *all = json_object_get(json_object_get(d->facts, "cuda"), "toolkits");
	const json_t *best = NULL, *o;
	char what[128];
	size_t i;

	for (i = 0; i < json_array_size(all); i++) {
		o = json_array_get(all, i);
		snprintf(what, sizeof(what), "CUDA %.20s (%.90s)", jsonio_string(o, "version"),
			 jsonio_string(o, "path"));
		if (!*want)
			reject(d, what, "no framework was built for CUDA");
		else if (!*jsonio_string(o, "nvcc"))
			reject(d, what, "it has no nvcc");
		else if (!same_major(jsonio_string(o, "version"), want))
			reject(d, what, "%s was built for CUDA %s", who, want);
		else if (!best || !release_compare(jsonio_string(o, "version"), want) ||
			 (release_compare(jsonio_string(best, "version"), want) &&
			  release_compare(jsonio_string(o, "version"),
					  jsonio_string(best, "version")) > 0))
			best = o;
	}
	return best;
}

static const json_t *choose_nccl(struct draft *d, const char *cuda)
{
	const json_t *all = json_object_get(d->facts, "nccl"), *best = NULL, *o;
	const struct version_fact *f;
	char what[160];
	size_t i;

	for (i = 0; i < json_array_size(all); i++) {
		const char *from, *v;
		bool own;

		o = json_array_get(all, i);
		from = jsonio_string(o, "source");
		v = jsonio_string(o, "version");
		own = d->python && !strcmp(from, jsonio_string(d->python, "path"));
		if (!own && strcmp(from, "system"))
			continue; /* another Python's */
		snprintf(what, sizeof(what), "NCCL %.20s (%.120s)", v,
			 jsonio_string(o, "library"));
		f = d->table && *v ? versions_ask(d->table, "nccl", v, "cuda", NULL) : NULL;
		if (!*jsonio_string(o, "header") || !*jsonio_string(o, "library"))
			reject(d, what, "it has no %s",
			       *jsonio_string(o, "library") ? "nccl.h" : "library");
		else if (f && !versions_in(cuda, f->value))
			reject(d, what, "it is for CUDA %s", f->value);
		else if (!best || own)
			best = o; /* the Python's own is the one that will be loaded */
	}
	return best;
}

static void plan_cuda(struct draft *d)
{
	const struct target *whose = NULL;
	const json_t *kit, *nccl;
	const char *want = d->horovod ? cuda_of(d, &whose) : "";

	if (!d->horovod)
		return;
	kit = choose_toolkit(d, want, whose ? whose->title : "");
	if (!*want)
		return;
	if (!kit) {
		reject(d, "a build for GPUs",
		       "%s was built for CUDA %s, but no toolkit of that series with nvcc is "
		       "here; tensors on GPUs will not be combined",
		       whose->title, want);
		return;
	}
	nccl = choose_nccl(d, jsonio_string(kit, "version"));
	json_object_set_new(d->plan, "cuda",
			    json_pack("{sO?sO?sO?}", "path", json_object_get(kit, "path"),
				      "version", json_object_get(kit, "version"), "nvcc",
				      json_object_get(kit, "nvcc")));
	if (!nccl) {
		reject(d, "a build for GPUs", "there is no NCCL with nccl.h for CUDA %s",
		       jsonio_string(kit, "version"));
		json_object_set_new(d->plan, "cuda", json_null());
		return;
	}
	json_object_set_new(d->plan, "nccl",
			    json_pack("{sO?sO?sO?}", "version",
				      json_object_get(nccl, "version"), "library",
				      json_object_get(nccl, "library"), "header",
				      json_object_get(nccl, "header")));
	d->gpu = true;
}

/* The recipe, asked. */

static bool is_number(const json_t *o, const char *key, int n)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) && json_integer_value(v) == n;
}

static json_t *world_of(const struct draft *d)
{
	json_t *w = json_object();
	const json_t *tools = json_object_get(json_object_get(d->facts, "probes"), "tools");
	const json_t *keras = NULL;
	int i;

	for (i = 0; i < d->count; i++) {
		set_text(w, d->at[i].name, d->at[i].version);
		if (!strcmp(d->at[i].name, "tensorflow"))
			keras = framework_of(d, d->python, "keras");
	}
	set_text(w, "python", jsonio_string(d->python, "version"));
	set_text(w, "keras", jsonio_string(keras, "version"));
	set_text(w, "cmake", jsonio_string(tools, "cmake"));
	if (d->compiler.found)
		set_text(w, d->compiler.family, d->compiler.version);
	json_object_set_new(w, "gpu", json_boolean(d->gpu));
	json_object_set_new(w, "mpi", json_boolean(d->mpi != NULL));
	json_object_set_new(w, "rocm", json_false());
	json_object_set_new(w, "abi0", json_boolean(is_number(d->plan, "cxx11_abi", 0)));
	json_object_set_new(w, "cxx20", json_boolean(is_number(d->plan, "cxx_standard", 20)));
	if (d->mpi)
		set_text(w, jsonio_string(d->mpi, "flavour"), jsonio_string(d->mpi, "version"));
	return w;
}

/* Would the recipe do the same if @key were @other?  Then it knows nothing of the difference.
 */
static bool minds(const struct draft *d, const json_t *world, const char *key,
		  const char *other)
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
	world = world_of(d);
	set_text(world, "gcc", next);
	if (!minds(d, world, "gcc", f->value))
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
static void check_abi(struct draft *d)
{
	char nearest[256];
	int i;

	for (i = 0; d->horovod && i < d->count; i++) {
		const struct target *t = &d->at[i];

		if (t->abi < 0) {
			snprintf(nearest, sizeof(nearest),
				 "%.100s -m pip install --force-reinstall --no-deps %.60s",
				 jsonio_string(d->python, "path"), t->name);
			cannot(d, nearest,
			       "neither its library nor the table tells the C++ ABI of %s",
			       t->title);
		}
		if (i && t->abi >= 0 && d->at[0].abi >= 0 && t->abi != d->at[0].abi) {
			snprintf(nearest, sizeof(nearest),
				 "one build each: --for %s, or --for %s", d->at[0].name,
				 t->name);
			cannot(d, nearest,
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
	cannot(d, nearest, "%s", d->compiler.why);
}

static void plan_compiler(struct draft *d)
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
	set_text(o, "cc", d->compiler.cc);
	set_text(o, "cxx", d->compiler.cxx);
	set_text(o, "family", d->compiler.family);
	set_text(o, "version", d->compiler.version);
	json_object_set_new(o, "installed", json_boolean(d->compiler.installed));
	set_text(o, "why", d->compiler.why);
	json_object_set_new(d->plan, "compiler", o);
	if (!d->compiler.installed)
		add(d, "packages", "name", d->compiler.package, "why", "%s %s: %s",
		    d->compiler.family, d->compiler.version, d->compiler.why);
}

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
		    minds(d, world, t->name, end + 1))
			continue;
		snprintf(nearest, sizeof(nearest), "%.60s %.40s, or --engine ringup", t->name,
			 f->value);
		cannot(d, nearest,
		       "horovod %s is for %s %s, and its recipe has no edits for %s",
		       r->version, t->name, f->value, t->version);
	}
	f = *keras && d->table ? versions_ask(d->table, "keras", keras, "bad", NULL) : NULL;
	if (f && !strcmp(f->value, "horovod") && !minds(d, world, "keras", "2.15.0"))
		cannot(d, "--for torch, or Keras 2", "Keras %s with horovod: %s", keras,
		       f->note);
}

static int apply_recipe(struct draft *d, struct err *e)
{
	const struct recipe *r = d->how->recipe;
	json_t *world = world_of(d), *decided = NULL;
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
			cannot(d, jsonio_string(first, "instead"), "%s",
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
		cannot(d, "--engine ringup",
		       "there is no recipe for horovod; without one its build fails on "
		       "frameworks of today");
		return 0;
	}
	set_text(d->plan, "version", r->version);
	set_build_env(d);
	for (i = 0; i < d->count; i++) {
		snprintf(what, sizeof(what), "horovod %.20s: %s", r->version, d->at[i].name);
		add(d, "build", "what", what, "why", "%s, %s C++ ABI%s", d->at[i].title,
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

	set_text(d->plan, "version", PACKAGE_VERSION);
	if (d->compiler.found)
		set_env(d, "CC", d->compiler.cc);
	if (!d->python) {
		reject(d, "Python package ringup", "there is no Python 3");
		return 0;
	}
	for (i = 0; i < d->count && n < (int)sizeof(serves); i++)
		n += snprintf(serves + n, sizeof(serves) - (size_t)n, "%s%s", i ? ", " : "",
			      d->at[i].title);
	add(d, "build", "what", "Python package ringup", "why", "Python %s (%s): %s",
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
	choose_python(d);
	find_targets(d);
	/* With nothing to build for there is nothing to choose. */
	if (d->count || !d->horovod) {
		plan_mpi(d);
		plan_cuda(d);
		check_abi(d);
		plan_compiler(d);
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
