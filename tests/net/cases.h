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
 *	file     text of the library's own file of settings, if there was one
 *	expect   for each role one of
 *		picks       [interface, address], in order
 *		addresses   in order
 *		interfaces  as a sorted set
 *		refuses     true
 */

static int cases_by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
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
	json_array_foreach(list, i, x)
	{
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
		ok(*r->error && !r->npicks, "%s %s: refuses (%s)", id, r->name, r->error);
		return;
	}
	if (json_object_get(expect, "interfaces")) {
		cases_interfaces(r, got, sizeof(got));
		cases_join(json_object_get(expect, "interfaces"), want, sizeof(want));
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

static void cases_one(const struct picker *k, const json_t *c,
		      int (*grammar)(struct netconf *, const char *, const char *,
				     const char *const *, struct err *))
{
	const char *id = json_string_value(json_object_get(c, "id"));
	const char *file = json_string_value(json_object_get(c, "file"));
	const json_t *expect = json_object_get(c, "expect");
	struct snapshot s;
	struct picked p = { 0 };
	struct err e = { 0 };
	int i, rc;

	rc = snapshot_parse(&s, json_object_get(c, "machine"), &e);
	if (!rc && file)
		rc = grammar(&s.settings, file, "file", k->settings, &e);
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

/* cases_run - all cases of tests/net/cases/FILE; returns how many there were. */
static int cases_run(const struct picker *k, const char *file,
		     int (*grammar)(struct netconf *, const char *, const char *,
				    const char *const *, struct err *))
{
	const char *srcdir = getenv("srcdir");
	char path[4096];
	json_error_t why;
	json_t *all, *list, *c;
	size_t i, n;

	snprintf(path, sizeof(path), "%s/tests/net/cases/%s", srcdir ? srcdir : ".", file);
	all = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
	ok(all, "%s is JSON %s", path, all ? "" : why.text);
	list = json_object_get(all, "cases");
	n = json_array_size(list);
	json_array_foreach(list, i, c) cases_one(k, c, grammar);
	json_decref(all);
	return (int)n;
}

#endif
