/* rows.c - a sample as JSON, for users' scripts and for inspecting multi-host jobs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/rows.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonio.h"
#include "hang/look.h"

/* ---- what a row has ---- */

enum kind { NUMBER, LONG, COUNT, FLAG, TEXT, STATE, PHASE };

struct field {
	const char *key;
	enum kind kind;
	size_t at, size; /* size: of a text */
};

#define ROW(key, kind, member)                                 \
	{                                                      \
		key, kind, offsetof(struct row_rank, member),  \
			sizeof(((struct row_rank *)0)->member) \
	}
#define WAIT(key, kind, member)                                \
	{                                                      \
		key, kind, offsetof(struct row_wait, member),  \
			sizeof(((struct row_wait *)0)->member) \
	}

static const struct field of_rank[] = {
	ROW("rank", NUMBER, rank),        ROW("host", TEXT, host),
	ROW("pid", NUMBER, pid),          ROW("state", STATE, state),
	ROW("phase", PHASE, phase),       ROW("since_ms", LONG, since_ms),
	ROW("counts", FLAG, counts),      ROW("progress", COUNT, progress),
	ROW("cpu_ms", COUNT, cpu_ms),     ROW("io_bytes", COUNT, io_bytes),
	ROW("switches", COUNT, switches), ROW("asleep", FLAG, asleep),
	ROW("kernel", TEXT, wchan),       ROW("call", TEXT, call),
	ROW("frame", TEXT, frame),        ROW("where", TEXT, where),
	ROW("doing", TEXT, doing),        ROW("print", COUNT, print),
	ROW("last", TEXT, last),
};

static const struct field of_wait[] = {
	WAIT("rank", NUMBER, rank),         WAIT("group", TEXT, group),
	WAIT("operation", TEXT, what),      WAIT("number", COUNT, number),
	WAIT("since_ms", LONG, since_ms),   WAIT("blocked", FLAG, blocked),
	WAIT("reported", FLAG, reported),   WAIT("message", FLAG, message),
	WAIT("all_hosts", FLAG, all_known), WAIT("peer", NUMBER, peer),
	WAIT("size", NUMBER, size),         WAIT("waiting", NUMBER, waiting),
	WAIT("lacks", NUMBER, missing),
};

enum {
	RANK_FIELDS = sizeof(of_rank) / sizeof(of_rank[0]),
	WAIT_FIELDS = sizeof(of_wait) / sizeof(of_wait[0]),
};

static const char *const states[] = { "unseen", "alive", "gone", "stopped", "disk", "silent" };
static const char *const phases[] = { "unknown", "outside", "blocked", "flying",
				      "meeting", "before",  "left" };
enum {
	STATES = sizeof(states) / sizeof(states[0]),
	PHASES = sizeof(phases) / sizeof(phases[0])
};

/* ---- writing ---- */

static json_t *field_save(const struct field *f, const void *row)
{
	const void *at = (const char *)row + f->at;
	uint64_t n;

	switch (f->kind) {
	case NUMBER:
		return json_integer(*(const int *)at);
	case LONG:
		return json_integer(*(const int64_t *)at);
	case COUNT:
		n = *(const uint64_t *)at;
		return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
	case FLAG:
		return json_boolean(*(const bool *)at);
	case STATE:
		return json_string(states[*(const enum row_state *)at]);
	case PHASE:
		return json_string(phases[*(const enum row_phase *)at]);
	case TEXT:
		break;
	}
	return *(const char *)at ? jsonio_text(at) : json_null();
}

static json_t *row_save(const struct field *f, int n, const void *row)
{
	json_t *o = json_object();

	for (int i = 0; i < n; i++)
		json_object_set_new(o, f[i].key, field_save(&f[i], row));
	return o;
}

void rows_save(const struct look *l, json_t *to)
{
	json_t *rows = json_array(), *waits = json_array(), *o, *who;

	for (int i = 0; i < l->ranks; i++)
		json_array_append_new(rows, row_save(of_rank, RANK_FIELDS, &l->rank[i]));
	for (int i = 0; i < l->waits; i++) {
		const struct row_wait *w = &l->wait[i];

		o = row_save(of_wait, WAIT_FIELDS, w);
		who = json_array();
		for (int k = 0; k < w->missing && k < ROWS_MISSING; k++)
			json_array_append_new(who, json_integer(w->who[k]));
		json_object_set_new(o, "missing", who);
		json_array_append_new(waits, o);
	}
	json_object_set_new(to, "rows", rows);
	json_object_set_new(to, "waits", waits);
}

/* ---- reading ---- */

static bool name_load(const json_t *v, const char *const *names, int n, int *out)
{
	const char *text = json_string_value(v);

	for (int i = 0; text && i < n; i++)
		if (!strcmp(text, names[i])) {
			*out = i;
			return true;
		}
	return false;
}

static void text_load(const json_t *v, char *out, size_t size)
{
	const char *text = json_string_value(v);

	snprintf(out, size, "%s", text ? text : "");
	for (; *out; out++)
		if ((unsigned char)*out < ' ' || *out == 127)
			*out = ' ';
}

/* False: the value is impossible. */
static bool field_load(const struct field *f, const json_t *v, void *row)
{
	void *at = (char *)row + f->at;
	json_int_t n = json_integer_value(v);
	int i = 0;

	if (!v)
		return true;
	switch (f->kind) {
	case NUMBER:
		if (!json_is_integer(v) || n < -1 || n > INT_MAX)
			return false;
		*(int *)at = (int)n;
		return true;
	case LONG:
		*(int64_t *)at = n < -1 ? -1 : n;
		return json_is_integer(v);
	case COUNT:
		*(uint64_t *)at = n < 0 ? 0 : (uint64_t)n;
		return json_is_integer(v);
	case FLAG:
		*(bool *)at = json_is_true(v);
		return true;
	case STATE:
		if (!name_load(v, states, STATES, &i))
			return false;
		*(enum row_state *)at = (enum row_state)i;
		return true;
	case PHASE:
		if (!name_load(v, phases, PHASES, &i))
			return false;
		*(enum row_phase *)at = (enum row_phase)i;
		return true;
	case TEXT:
		text_load(v, at, f->size);
		return true;
	}
	return false;
}

static bool row_load(const struct field *f, int n, const json_t *o, void *row)
{
	for (int i = 0; i < n; i++)
		if (!field_load(&f[i], json_object_get(o, f[i].key), row))
			return false;
	return json_is_object(o);
}

static void rank_load(struct look *l, const json_t *o)
{
	struct row_rank x = { .since_ms = -1 }, *r;

	if (!row_load(of_rank, RANK_FIELDS, o, &x))
		return;
	r = look_find(l, x.rank);
	if (!r)
		r = look_rank(l, x.rank);
	else if (r->state != ROW_UNSEEN)
		return; /* this host knows better */
	if (r)
		*r = x;
}

static void wait_load(struct look *l, const json_t *o)
{
	struct row_wait x = { .peer = -1, .since_ms = -1 }, *w;
	const json_t *who = json_object_get(o, "missing");
	size_t n = json_array_size(who);
	json_int_t rank;

	if (!row_load(of_wait, WAIT_FIELDS, o, &x) || x.missing < (int)n || n > ROWS_MISSING ||
	    x.peer >= ROWS_RANKS)
		return;
	for (size_t i = 0; i < n; i++) {
		rank = json_integer_value(json_array_get(who, i));
		if (rank < 0 || rank >= ROWS_RANKS)
			return;
		x.who[i] = (int)rank;
	}
	if (x.missing && !n)
		x.missing = 0;
	w = look_wait(l, x.rank);
	if (w)
		*w = x;
}

void rows_load(struct look *l, const json_t *from)
{
	const json_t *o;
	size_t i;

	json_array_foreach(json_object_get(from, "rows"), i, o)
		rank_load(l, o);
	json_array_foreach(json_object_get(from, "waits"), i, o)
		wait_load(l, o);
}
