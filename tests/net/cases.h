/* cases.h - run recorded machines through a picker and compare with the real library. */
#ifndef CASES_H
#define CASES_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "host/snapshot.h"
#include "nicpick/picker.h"
#include "tap.h"

/*
 * A file of cases holds what a real library did in a network namespace:
 *
 *	machine  a snapshot, as `ringup net record` writes it
 *	file     text of the library's own file of settings, if there was one; for
 *	         NCCL the one that NCCL_CONF_FILE names
 *	expect   for each role one of
 *		picks       [interface, address], in order
 *		addresses   in order
 *		pairs       [interface, address], sorted
 *		interfaces  as a sorted set
 *		refuses     true, and perhaps the result that it returned or exited with
 */

static int cases_by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All picks of @r, sorted by their names. */
static void cases_pairs(const struct pick_role *r, char *out, size_t size)
{
	char pairs[256][IFACE_NAME + IFACE_TEXT + 1];
	const char *sorted[256];
	size_t len = 0;
	int i, n = r->npicks < 256 ? r->npicks : 256;

	for (i = 0; i < n; i++) {
		snprintf(pairs[i], sizeof(pairs[i]), "%s/%s", r->picks[i].interface,
			 r->picks[i].address);
		sorted[i] = pairs[i];
	}
	qsort(sorted, (size_t)n, sizeof(sorted[0]), cases_by_text);
	*out = 0;
	for (i = 0; i < n; i++)
		len += (size_t)snprintf(out + len, size - len, "%s ", sorted[i]);
}

/* The sorted set of interfaces of @r, as "a b c". */
static void cases_interfaces(const struct pick_role *r, char *out, size_t size)
{
	const char *names[256];
	size_t len = 0;
	int i, n = 0;

	for (i = 0; i < r->npicks && n < 256; i++)
		names[n++] = r->picks[i].interface;
	qsort(names, (size_t)n, sizeof(names[0]), cases_by_text);
	*out = 0;
	for (i = 0; i < n; i++)
		if (!i || strcmp(names[i], names[i - 1]))
			len += (size_t)snprintf(out + len, size - len, "%s ", names[i]);
}

static void cases_addresses(const struct pick_role *r, int with_name, char *out, size_t size)
{
	size_t len = 0;
	int i;

	*out = 0;
	for (i = 0; i < r->npicks; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%s%s ",
					with_name ? r->picks[i].interface : "",
					with_name ? "/" : "", r->picks[i].address);
}

static void cases_join(const json_t *list, char *out, size_t size)
{
	const json_t *x;
	size_t i, len = 0;

	*out = 0;
	json_array_foreach(list, i, x) {
		if (json_is_array(x))
			len += (size_t)snprintf(out + len, size - len, "%s/%s ",
						json_string_value(json_array_get(x, 0)),
						json_string_value(json_array_get(x, 1)));
		else
			len += (size_t)snprintf(out + len, size - len, "%s ",
						json_string_value(x));
	}
}

static void cases_role(const char *id, const struct pick_role *r, const json_t *expect)
{
	char got[4096], want[4096];

	if (json_is_true(json_object_get(expect, "refuses"))) {
		const json_t *result = json_object_get(expect, "result");

		ok(*r->error && !r->npicks &&
			   (!result ||
			    (r->has_result && r->result == (int)json_integer_value(result))),
		   "%s %s: refuses with %d (%s)", id, r->name, r->result, r->error);
		return;
	}
	if (json_object_get(expect, "interfaces")) {
		cases_interfaces(r, got, sizeof(got));
		cases_join(json_object_get(expect, "interfaces"), want, sizeof(want));
	} else if (json_object_get(expect, "pairs")) {
		cases_pairs(r, got, sizeof(got));
		cases_join(json_object_get(expect, "pairs"), want, sizeof(want));
	} else if (json_object_get(expect, "addresses")) {
		cases_addresses(r, 0, got, sizeof(got));
		cases_join(json_object_get(expect, "addresses"), want, sizeof(want));
	} else {
		cases_addresses(r, 1, got, sizeof(got));
		cases_join(json_object_get(expect, "picks"), want, sizeof(want));
	}
	ok(!*r->error && *want && !strcmp(got, want), "%s %s: %s is %s(%s)", id, r->name, got,
	   want, r->error);
}

static int cases_told(const struct picked *p)
{
	int i;

	for (i = 0; i < p->nfates; i++)
		if (!*p->fates[i].rule)
			return 0;
	return 1;
}

typedef int cases_grammar(struct netconf *, const char *, const char *, const char *const *,
			  struct err *);

/* The machine of case @c, on which @k is of @version. */
static int cases_machine(struct snapshot *s, const struct picker *k, const json_t *c,
			 const char *version, cases_grammar *grammar, struct err *e)
{
	const char *file = json_string_value(json_object_get(c, "file"));
	int rc = snapshot_parse(s, json_object_get(c, "machine"), e), first;

	if (!rc && version)
		rc = netconf_set_version(&s->settings, k->name, version, e);
	if (rc || !file)
		return rc;
	rc = netconf_add(&s->settings, "NCCL_CONF_FILE", "file", "environment", e);
	first = s->settings.nrows;
	if (!rc)
		rc = grammar(&s->settings, file, "file", k->settings, e);
	for (; first < s->settings.nrows; first++)
		s->settings.rows[first].via = NETCONF_GIVEN;
	return rc;
}

static void cases_one(const struct picker *k, const json_t *c, const char *version,
		      cases_grammar *grammar)
{
	const char *id = json_string_value(json_object_get(c, "id"));
	const json_t *expect = json_object_get(c, "expect");
	struct snapshot s;
	struct picked p = { 0 };
	struct err e = { 0 };
	int i, rc = cases_machine(&s, k, c, version, grammar, &e);

	if (!rc)
		rc = picker_run(k, &s.ifaces, &s.settings, &p, &e);
	ok(rc == 0, "%s: answered%s", id, e.text);
	for (i = 0; i < p.nroles; i++)
		if (json_object_get(expect, p.roles[i].name))
			cases_role(id, &p.roles[i], json_object_get(expect, p.roles[i].name));
	ok(cases_told(&p), "%s: every interface is told why", id);
	picker_free(&p);
	snapshot_free(&s);
}

static json_t *cases_load(const char *file)
{
	const char *srcdir = getenv("srcdir");
	char path[4096];
	json_error_t why;
	json_t *all;

	snprintf(path, sizeof(path), "%s/tests/net/cases/%s", srcdir ? srcdir : ".", file);
	all = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
	ok(all, "%s is JSON %s", path, all ? "" : why.text);
	return all;
}

/* cases_run - all cases of tests/net/cases/FILE; returns how many there were. */
static int cases_run(const struct picker *k, const char *file, cases_grammar *grammar)
{
	json_t *all = cases_load(file), *list = json_object_get(all, "cases"), *c;
	const char *version = json_string_value(json_object_get(all, "version"));
	size_t i, n = json_array_size(list);

	json_array_foreach(list, i, c)
		cases_one(k, c, version, grammar);
	json_decref(all);
	return (int)n;
}

#endif
