/* nest.h - for tests: check that a file is a Chrome trace whose events nest, and read it. */
#ifndef NEST_H
#define NEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEST_LANES = 4096, NEST_DEPTH = 8 };

/* The events of one thread of one process. */
struct nest_lane {
	long pid, tid;
	double last;
	int depth;
	const char *open[NEST_DEPTH];
};

struct nest_place {
	double ts;
	size_t at;
};

static inline int nest_by_time(const void *a, const void *b)
{
	const struct nest_place *x = a, *y = b;

	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static inline const char *nest_string(const json_t *event, const char *key)
{
	const char *s = json_string_value(json_object_get(event, key));

	return s ? s : "";
}

static inline struct nest_lane *nest_lane_of(struct nest_lane *all, long pid, long tid)
{
	int i;

	for (i = 0; i < NEST_LANES; i++) {
		if (!all[i].pid)
			all[i] = (struct nest_lane){ .pid = pid, .tid = tid };
		if (all[i].pid == pid && all[i].tid == tid)
			return &all[i];
	}
	return NULL;
}

/* One event after the other, in order of time; says what is wrong. */
static inline const char *nest_event(struct nest_lane *all, const json_t *event)
{
	const char *phase = nest_string(event, "ph");
	long pid = (long)json_integer_value(json_object_get(event, "pid"));
	long tid = (long)json_integer_value(json_object_get(event, "tid"));
	struct nest_lane *l;

	if (*phase == 'i' || *phase == 'M')
		return NULL;
	if (pid <= 0 || !strchr("BEX", *phase))
		return "an event of no process, or of no known phase";
	if (*phase == 'X')
		return json_integer_value(json_object_get(event, "dur")) == 0 ? NULL : "long";
	l = nest_lane_of(all, pid, tid);
	if (!l)
		return "too many processes for this test";
	if (*phase == 'E')
		return l->depth-- ? NULL : "an end without a beginning";
	if (l->depth == NEST_DEPTH || !*nest_string(event, "name"))
		return "too deep, or without a name";
	l->open[l->depth++] = nest_string(event, "name");
	return NULL;
}

/* nest_check - NULL if @trace is well formed, else what is not; *@open: intervals that do not
 * end. */
static inline const char *nest_check(const json_t *trace, int *open)
{
	size_t n = json_array_size(trace), i, count = 0;
	struct nest_lane *all = calloc(NEST_LANES, sizeof(*all));
	struct nest_place *place = calloc(n + 1, sizeof(*place));
	const char *bad = json_is_array(trace) && n ? NULL : "no array with anything in it";

	*open = 0;
	for (i = 0; i < n && !bad; i++) {
		const json_t *event = json_array_get(trace, i);
		const json_t *ts = json_object_get(event, "ts");

		if (*nest_string(event, "ph") == 'M')
			continue;
		if (!json_is_number(ts) || json_number_value(ts) < 0)
			bad = "an event without a time";
		place[count++] = (struct nest_place){ json_number_value(ts), i };
	}
	qsort(place, count, sizeof(*place), nest_by_time);
	for (i = 0; i < count && !bad; i++)
		bad = nest_event(all, json_array_get(trace, place[i].at));
	for (i = 0; i < NEST_LANES && !bad; i++)
		*open += all[i].depth;
	free(all);
	free(place);
	return bad;
}

/* nest_load - the file, and that it is well formed; the caller's reference, or NULL with a
 * word. */
static inline json_t *nest_load(const char *path, int *open)
{
	json_error_t why;
	json_t *trace = json_load_file(path, 0, &why);
	const char *bad;

	if (!trace) {
		printf("# %s: line %d: %s\n", path, why.line, why.text);
		return NULL;
	}
	bad = nest_check(trace, open);
	if (!bad)
		return trace;
	printf("# %s: %s\n", path, bad);
	json_decref(trace);
	return NULL;
}

/* nest_pid - of the process called @name, or -1.  nest_count - events of that phase, name ("":
 * any) and process (-1: any). */
static inline long nest_pid(const json_t *trace, const char *name)
{
	const json_t *event;
	size_t i;

	json_array_foreach(trace, i, event)
		if (!strcmp(nest_string(event, "name"), "process_name") &&
		    !strcmp(nest_string(json_object_get(event, "args"), "name"), name))
			return (long)json_integer_value(json_object_get(event, "pid"));
	return -1;
}

static inline int nest_count(const json_t *trace, const char *phase, const char *name, long pid)
{
	const json_t *event;
	size_t i;
	int n = 0;

	json_array_foreach(trace, i, event)
		n += !strcmp(nest_string(event, "ph"), phase) &&
		     (!*name || !strcmp(nest_string(event, "name"), name)) &&
		     (pid < 0 ||
		      json_integer_value(json_object_get(event, "pid")) == (json_int_t)pid);
	return n;
}

/* nest_arg - the text of that argument in the last event that has it, or "". */
static inline const char *nest_arg(const json_t *trace, long pid, const char *key)
{
	const char *found = "", *s;
	const json_t *event;
	size_t i;

	json_array_foreach(trace, i, event) {
		s = nest_string(json_object_get(event, "args"), key);
		if (*s && json_integer_value(json_object_get(event, "pid")) == (json_int_t)pid)
			found = s;
	}
	return found;
}

#endif
