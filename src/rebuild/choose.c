/* choose.c - choose a compiler: judge each candidate, then take the best that fits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/choose.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonio.h"
#include "base/release.h"
#include "rebuild/packages.h"
#include "rebuild/probe.h"
#include "rebuild/versions.h"

enum { MOST = 96, REASON = 300 };

/* The criteria by which compilers that fit are compared. */
enum rank { HERE, MAKER, RUNTIME, FAMILY, NEAR, VERSION, RANKS };

static const char *const loses[RANKS] = {
	[HERE] = "would need installing, and a suitable one is installed",
	[MAKER] = "is not what a framework was built with, and the one taken is",
	[RUNTIME] = "has an older libstdc++ than a framework was built with",
	[FAMILY] = "gcc goes first: its libstdc++ is what the frameworks load",
	[NEAR] = "another one is nearer to the frameworks', or is the node's own",
	[VERSION] = "another version is preferred",
};

struct candidate {
	const char *family, *version, *cc, *cxx, *package;
	bool installed, is_default;
	char why_not[REASON]; /* empty: it fits */
	long rank[RANKS];     /* smaller is better; the first difference decides */
};

static int major_of(const char *version)
{
	return atoi(version);
}

static void candidate_refuse(struct candidate *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void candidate_refuse(struct candidate *c, const char *fmt, ...)
{
	va_list ap;

	if (*c->why_not)
		return;
	va_start(ap, fmt);
	vsnprintf(c->why_not, sizeof(c->why_not), fmt, ap);
	va_end(ap);
}

/* The table's value for this compiler, or "". */
static const char *table_value(const struct choose_how *how, const struct candidate *c,
			       const char *attr)
{
	const struct version_fact *f =
		how->table ? versions_ask(how->table, c->family, c->version, attr, NULL) : NULL;

	return f ? f->value : "";
}

static bool is_gcc(const struct candidate *c)
{
	return !strcmp(c->family, "gcc");
}

/* True for gcc before 5, which only has the old C++ ABI. */
static bool is_ancient(const char *family, const char *version)
{
	return !strcmp(family, "gcc") && *version && major_of(version) < 5;
}

/* Refuses cross compilers, such as aarch64-linux-gnu-g++ on another machine. */
static void judge_target(const struct choose_how *how, struct candidate *c)
{
	const char *path = *c->cxx ? c->cxx : c->cc, *name = strrchr(path, '/');
	const char *triple = name ? strstr(name, "-linux-") : NULL;
	size_t n = how->machine ? strlen(how->machine) : 0;

	if (triple && n && (strncmp(name + 1, how->machine, n) || name[1 + n] != '-'))
		candidate_refuse(c, "compiles for %.*s, not for %s",
				 (int)strcspn(name + 1, "-"), name + 1, how->machine);
}

static void judge_limits(const struct choose_how *how, struct candidate *c)
{
	for (int i = 0; i < how->limit_count; i++) {
		const struct choose_limit *l = &how->limits[i];

		if (strcmp(l->family, c->family) || !*c->version)
			continue;
		if (!release_within(c->version, "-", l->max))
			candidate_refuse(c, "%s supports %s up to %s", l->who, l->family,
					 l->max);
		else if (!release_within(c->version, l->min, "-"))
			candidate_refuse(c, "%s supports %s from %s", l->who, l->family,
					 l->min);
	}
}

static void judge_abi(const struct choose_how *how, struct candidate *c)
{
	for (int i = 0; i < how->maker_count; i++) {
		const struct choose_maker *m = &how->makers[i];

		if (is_ancient(m->family, m->version) && !is_ancient(c->family, c->version))
			candidate_refuse(c,
					 "%s was built with gcc %s, whose std::function has "
					 "another layout: only gcc 4 is compatible",
					 m->framework, m->version);
		else if (*m->family && !is_ancient(m->family, m->version) &&
			 is_ancient(c->family, c->version))
			candidate_refuse(c,
					 "%s was built with %s %s, and gcc before 5 has an "
					 "incompatible libstdc++",
					 m->framework, m->family, m->version);
	}
	if (how->abi == 1 && is_ancient(c->family, c->version))
		candidate_refuse(c, "only has the old C++ ABI");
}

/* Refuses a compiler whose objects would lack symbols where the result is loaded. */
static void judge_runtime(const struct choose_how *how, struct candidate *c)
{
	const char *wants = table_value(how, c, "glibcxx");

	/* Toolsets link what the system's libstdc++ lacks; a package has its own libstdc++. */
	if (!*how->glibcxx || !*wants || !c->installed || strstr(c->cxx, "/opt/rh/"))
		return;
	if (release_compare(wants, how->glibcxx) > 0)
		candidate_refuse(c,
				 "its objects need GLIBCXX_%s, and the libstdc++ of that "
				 "Python only has %s",
				 wants, how->glibcxx);
}

/* Refuses by the results of probe compilations. */
static void judge_probe(const struct choose_how *how, struct candidate *c)
{
	const struct probe_compiler *p = probe_of_compiler(how->probes, c->cxx);

	if (!p || !*c->cxx)
		return;
	if (*p->failed) {
		candidate_refuse(c, "does not work: %s", p->failed);
		return;
	}
	if (how->abi >= 0 && p->abi[how->abi] >= 0 && p->abi[how->abi] != how->abi)
		candidate_refuse(
			c,
			"ignores -D_GLIBCXX_USE_CXX11_ABI=%d: its objects have the %s C++ ABI",
			how->abi, how->abi ? "old" : "new");
	if (how->standard < PROBE_STANDARDS && p->refuses[how->standard])
		candidate_refuse(c, "does not compile the frameworks' headers as C++%d",
				 how->standard);
}

static void candidate_judge(const struct choose_how *how, struct candidate *c)
{
	const char *newest;

	if (how->cxx && !*c->cxx && c->installed)
		candidate_refuse(c, "only compiles C: no C++ compiler next to %s", c->cc);
	judge_target(how, c);
	judge_limits(how, c);
	if (!how->cxx)
		return;
	judge_abi(how, c);
	newest = table_value(how, c, "cxx_standard");
	if (how->standard && *newest && atoi(newest) < how->standard)
		candidate_refuse(c, "has no reliable C++%d", how->standard);
	judge_runtime(how, c);
	judge_probe(how, c);
}

static bool is_maker(const struct candidate *c, const struct choose_maker *m)
{
	if (strcmp(c->family, m->family) || major_of(c->version) != major_of(m->version))
		return false;
	/* Before gcc 5, minor versions differ as much as major ones do later. */
	return major_of(m->version) >= 5 || release_within(c->version, m->version, "-");
}

static void candidate_rank(const struct choose_how *how, struct candidate *c)
{
	long far = -1, older = 0, made = 1;
	const char *has = table_value(how, c, "glibcxx");

	for (int i = 0; i < how->maker_count; i++) {
		const struct choose_maker *m = &how->makers[i];
		long d = labs((long)major_of(c->version) - major_of(m->version));

		if (is_maker(c, m))
			made = 0;
		if (!strcmp(c->family, m->family) && (far < 0 || d < far))
			far = d;
		if (*has && *m->glibcxx && release_compare(has, m->glibcxx) < 0)
			older = 1;
	}
	c->rank[HERE] = !c->installed;
	c->rank[MAKER] = made;
	c->rank[RUNTIME] = older;
	c->rank[FAMILY] = !is_gcc(c);
	/* With no version to be near to: the node's default, else the newest. */
	c->rank[NEAR] = far >= 0 ? far : !c->is_default;
	c->rank[VERSION] = far >= 0 ? major_of(c->version) : -(long)major_of(c->version);
}

/* The first rank in which they differ; VERSION if in none. */
static enum rank rank_differ(const struct candidate *a, const struct candidate *b)
{
	enum rank i = 0;

	while (i < VERSION && a->rank[i] == b->rank[i])
		i++;
	return i;
}

static bool choose_is_better(const struct candidate *a, const struct candidate *b)
{
	enum rank i = rank_differ(a, b);

	return a->rank[i] < b->rank[i];
}

/* Gathers installed compilers, then those in packages; returns the number of the former. */
static int candidates_gather(const struct choose_how *how, const json_t *here,
			     struct candidate *at, int *count)
{
	const json_t *o;
	int n = 0, installed;

	for (size_t i = 0; i < json_array_size(here) && n < MOST; i++) {
		o = json_array_get(here, i);
		at[n] = (struct candidate){
			.family = jsonio_string(o, "family"),
			.version = jsonio_string(o, "version"),
			.cc = jsonio_string(o, "cc"),
			.cxx = jsonio_string(o, "cxx"),
			.package = "",
			.installed = true,
			.is_default = json_is_true(json_object_get(o, "default")),
		};
		n += *at[n].family != 0;
	}
	installed = n;
	for (int k = 0; how->packages && k < how->packages->count && n < MOST; k++) {
		const struct packages_compiler *p = &how->packages->at[k];

		at[n++] = (struct candidate){ .family = p->family,
					      .version = p->version,
					      .cc = p->cc,
					      .cxx = p->cxx,
					      .package = p->package };
	}
	*count = n;
	return installed;
}

/* Does the node also have this compiler installed? */
static bool is_here(const struct candidate *at, int n, const struct candidate *c)
{
	for (int i = 0; i < n; i++)
		if (at[i].installed && !strcmp(at[i].family, c->family) && *at[i].cxx &&
		    major_of(at[i].version) == major_of(c->version))
			return true;
	return false;
}

static void candidate_reject(const struct candidate *c, const char *why, struct textpool *pool,
			     struct textpairs *rejected)
{
	const char *path = *c->cxx ? c->cxx : c->cc;
	char what[PATH_MAX + 64];

	snprintf(what, sizeof(what), "%s %s%s%s%s", c->family, c->version, *path ? " (" : "",
		 c->installed ? path : c->package, *path || !c->installed ? ")" : "");
	if (!c->installed)
		snprintf(what, sizeof(what), "%s %s (package %s)", c->family, c->version,
			 c->package);
	textpool_add(pool, rejected, what, why);
}

/* Says why: it is a framework's own compiler, or the nearest to one. */
static void choice_explain(const struct choose_how *how, const struct candidate *c,
			   struct choice *out)
{
	const struct choose_maker *m = NULL;

	for (int i = 0; i < how->maker_count; i++) {
		if (is_maker(c, &how->makers[i])) {
			snprintf(out->why, sizeof(out->why), "%s was built with %s %s%s",
				 how->makers[i].framework, how->makers[i].family,
				 how->makers[i].version,
				 c->installed ? "" : ", and this node has no suitable one");
			return;
		}
		if (!m && *how->makers[i].family)
			m = &how->makers[i];
	}
	if (!how->cxx)
		snprintf(out->why, sizeof(out->why), "%s",
			 c->installed ? "only C is needed, and this is the node's own compiler"
				      : "only C is needed, and no C compiler is installed");
	else if (m)
		snprintf(out->why, sizeof(out->why),
			 "%s was built with %s %s, which is not installed; %s %s has the same "
			 "C++ ABI and is within all limits",
			 m->framework, m->family, m->version, c->family, c->version);
	else
		snprintf(
			out->why, sizeof(out->why),
			"the compiler of the frameworks is unknown; %s %s is within all limits",
			c->family, c->version);
}

static void choice_explain_none(const struct choose_how *how, const struct candidate *at, int n,
				struct choice *out)
{
	int used;

	if (!n) {
		snprintf(out->why, sizeof(out->why), "no %s compiler", how->cxx ? "C++" : "C");
		snprintf(out->nearest, sizeof(out->nearest), "install one: apt-get install %s",
			 how->cxx ? "g++" : "gcc");
		return;
	}
	used = snprintf(out->why, sizeof(out->why), "no compiler fits: ");
	for (int i = 0; i < n && used < (int)sizeof(out->why); i++)
		if (i < 3)
			used += snprintf(out->why + used, sizeof(out->why) - (size_t)used,
					 "%s%s %s %s", i ? "; " : "", at[i].family,
					 at[i].version, at[i].why_not);
}

void choose_compiler(const struct choose_how *how, const json_t *facts, struct textpool *pool,
		     struct textpairs *rejected, struct choice *out)
{
	struct candidate *at = calloc(MOST, sizeof(*at)), *best = NULL;
	int here, n = 0;

	memset(out, 0, sizeof(*out));
	if (!at)
		return;
	here = candidates_gather(how, json_object_get(facts, "compilers"), at, &n);
	for (int i = 0; i < n; i++) {
		candidate_judge(how, &at[i]);
		candidate_rank(how, &at[i]);
		if (!*at[i].why_not && (!best || choose_is_better(&at[i], best)))
			best = &at[i];
	}
	if (best) {
		*out = (struct choice){ .found = true,
					.installed = best->installed,
					.family = best->family,
					.version = best->version,
					.cc = best->cc,
					.cxx = best->cxx,
					.package = best->package };
		choice_explain(how, best, out);
	} else {
		choice_explain_none(how, at, n, out);
	}
	for (int i = 0; i < n; i++) {
		/* For C any compiler will do, so no reasons are given for the others. */
		if (&at[i] == best || (best && !how->cxx) ||
		    (i >= here && is_here(at, here, &at[i])))
			continue;
		candidate_reject(&at[i],
				 *at[i].why_not ? at[i].why_not
						: loses[rank_differ(&at[i], best)],
				 pool, rejected);
	}
	free(at);
}
