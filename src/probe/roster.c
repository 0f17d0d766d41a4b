/* roster.c - the list of a cluster's nodes, read from hostfiles, Slurm or Spark. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/roster.h"

#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "ringup.h"

static bool roster_is_name(const char *name)
{
	const char *p;

	for (p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr(".-_:%@", *p))
			return false;
	return *name && *name != '-' && p - name < ROSTER_NAME;
}

int roster_add(struct roster *r, const char *name, struct err *e)
{
	char(*one)[ROSTER_NAME];

	if (!roster_is_name(name))
		return fail(e, RINGUP_EINVAL, "\"%.60s\" is not the name of a node", name);
	for (int i = 0; i < r->n; i++)
		if (!strcmp(r->name[i], name))
			return 0;
	if (r->n >= ROSTER_NODES)
		return fail(e, RINGUP_EINVAL, "more than %d nodes", ROSTER_NODES);
	one = array_more(&r->name, &r->n, sizeof(*one));
	if (!one)
		return fail(e, RINGUP_ENOMEM, "no memory for %d nodes", r->n + 1);
	snprintf(*one, sizeof(*one), "%s", name);
	return 0;
}

/* MPICH writes HOST:RANKS; a name with more than one colon is an IPv6 address. */
static void cut_count(char *name)
{
	char *colon = strchr(name, ':');

	if (colon && !strchr(colon + 1, ':') &&
	    strspn(colon + 1, "0123456789") == strlen(colon + 1))
		*colon = 0;
}

int roster_text(struct roster *r, const char *text, struct err *e)
{
	static const char blank[] = " \t\r\v\f";
	char name[ROSTER_NAME];
	int rc = 0;
	size_t len;

	for (int line = 1; !rc && *text; line++) {
		text += strspn(text, blank);
		len = strcspn(text, " \t\r\v\f\n#");
		snprintf(name, sizeof(name), "%.*s", (int)len, text);
		cut_count(name);
		if (len >= sizeof(name))
			rc = fail(e, RINGUP_EINVAL, "a name of %zu bytes", len);
		else if (len)
			rc = roster_add(r, name, e);
		if (rc)
			return fail_in(e, "line %d", line);
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return 0;
}

/* Adds the names that @head and the ranges between brackets at @range form, "]" excluded. */
static int add_ranges(struct roster *r, const char *head, const char *range, const char *end,
		      const char *tail, struct err *e)
{
	char name[2 * ROSTER_NAME], *stop;
	unsigned long from, to;
	int rc = 0, width;

	while (!rc && range < end) {
		width = (int)strspn(range, "0123456789");
		from = to = strtoul(range, &stop, 10);
		if (!width || width > 9)
			return fail(e, RINGUP_EINVAL, "\"%.40s\" is not a range of nodes",
				    range);
		if (*stop == '-')
			to = strtoul(stop + 1, &stop, 10);
		if ((*stop != ',' && *stop != ']') || to < from || to - from >= ROSTER_NODES)
			return fail(e, RINGUP_EINVAL, "\"%.40s\" is not a range of nodes",
				    range);
		for (; !rc && from <= to; from++) {
			snprintf(name, sizeof(name), "%s%0*lu%s", head, width, from, tail);
			rc = roster_add(r, name, e);
		}
		range = stop + 1;
	}
	return rc;
}

static int add_word(struct roster *r, const char *word, struct err *e)
{
	const char *open = strchr(word, '['), *close = strchr(word, ']');
	char head[ROSTER_NAME];

	if (!open && !close)
		return roster_add(r, word, e);
	if (!open || !close || close < open || strchr(close, '['))
		return fail(e, RINGUP_EINVAL, "\"%.60s\": unbalanced brackets", word);
	snprintf(head, sizeof(head), "%.*s", (int)(open - word), word);
	return add_ranges(r, head, open + 1, close, close + 1, e);
}

int roster_slurm(struct roster *r, const char *list, struct err *e)
{
	char word[4096];
	size_t len;
	int rc = 0, depth;

	while (!rc && *list) {
		for (len = 0, depth = 0; list[len] && (depth || list[len] != ','); len++)
			depth += list[len] == '[' ? 1 : list[len] == ']' ? -1 : 0;
		if (len >= sizeof(word))
			return fail(e, RINGUP_EINVAL, "a node list of %zu bytes", len);
		memcpy(word, list, len);
		word[len] = 0;
		if (len)
			rc = add_word(r, word, e);
		list += len + (list[len] == ',');
	}
	return rc;
}

/* Adds the host of "host:port", IPv6 in brackets included. */
static int add_host_port(struct roster *r, const char *at, struct err *e)
{
	char name[2 * ROSTER_NAME], *colon;

	if ((size_t)snprintf(name, sizeof(name), "%s", at + (*at == '[')) >= sizeof(name))
		return roster_add(r, at, e);
	colon = *at == '[' ? strchr(name, ']') : strrchr(name, ':');
	if (colon)
		*colon = 0;
	return roster_add(r, name, e);
}

int roster_spark(struct roster *r, const char *text, struct err *e)
{
	json_t *all = json_loads(text, 0, NULL), *workers = json_object_get(all, "workers"),
	       *one;
	const json_t *list = json_is_array(all) ? all : workers;
	const char *at, *host, *state;
	int rc = 0;
	size_t i;

	if (!json_is_array(list))
		rc = fail(e, RINGUP_EINVAL, "not Spark's list of executors");
	json_array_foreach(list, i, one) {
		at = json_string_value(json_object_get(one, "hostPort"));
		host = json_string_value(json_object_get(one, "host"));
		state = json_string_value(json_object_get(one, "state"));
		if (rc || json_is_false(json_object_get(one, "isActive")) ||
		    (state && strcmp(state, "ALIVE") != 0))
			continue;
		if (at)
			rc = add_host_port(r, at, e);
		else if (host)
			rc = roster_add(r, host, e);
	}
	json_decref(all);
	return rc;
}

void roster_free(struct roster *r)
{
	free(r->name);
	memset(r, 0, sizeof(*r));
}
