/* merge.c - merge the timelines of several ranks into one, with clocks aligned. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/merge.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"

enum {
	MOST_PROCESSES = 1 << 22, /* of a file: tensors                            */
	MOST_ROUNDS = 1 << 20,    /* of a file that are used to align clocks       */
	MOST_FILES = 8192,
};

/* When a rank submitted a round of a tensor, and when it knew that all had, by its clock. */
struct merge_round {
	uint32_t tensor;
	uint64_t round;
	double submitted, ready;
};

static int merge_no_memory(struct err *e)
{
	return fail(e, RINGUP_ENOMEM, "no memory to merge timelines");
}

/* ---- events ---- */

struct event {
	json_t *json;
	char phase;
	const char *name; /* "": none */
	const json_t *args;
	double ts;
	json_int_t process; /* -1: none */
};

static int malformed(const struct events *v, const char *what, struct err *e)
{
	return fail(e, RINGUP_EINVAL, "%.100s: event %llu: no %s", v->path,
		    (unsigned long long)v->count, what);
}

/* Read the next event: 1, 0 after the last, or an error.  @x->json is the caller's reference.
 */
static int next_event(struct events *v, struct event *x, struct err *e)
{
	const char *phase, *name;
	const json_t *ts, *pid;
	int rc = events_next(v, &x->json, e);

	if (rc <= 0)
		return rc;
	phase = json_string_value(json_object_get(x->json, "ph"));
	name = json_string_value(json_object_get(x->json, "name"));
	ts = json_object_get(x->json, "ts");
	pid = json_object_get(x->json, "pid");
	x->phase = phase && phase[0] && !phase[1] ? phase[0] : 0;
	x->name = name ? name : "";
	x->args = json_object_get(x->json, "args");
	x->ts = json_is_number(ts) ? json_number_value(ts) : 0;
	x->process = json_is_integer(pid) ? json_integer_value(pid) : -1;
	if (!x->phase)
		rc = malformed(v, "phase", e);
	else if (x->phase != 'M' && (!json_is_number(ts) || !isfinite(x->ts)))
		rc = malformed(v, "time", e);
	else if (pid && (x->process < 0 || x->process >= MOST_PROCESSES))
		rc = malformed(v, "process that could be a tensor", e);
	if (rc < 0)
		json_decref(x->json);
	return rc;
}

/* ---- looking through ---- */

/* The round of a tensor that has begun and not ended, while a file is read. */
struct open_round {
	uint64_t round;
	double submitted;
	bool is_open, has_submitted;
};

static double number_in(const json_t *args, const char *key)
{
	const json_t *v = json_object_get(args, key);

	return json_is_number(v) && isfinite(json_number_value(v)) ? json_number_value(v) : 0;
}

static char *text_in(const json_t *args, const char *key)
{
	const char *s = json_string_value(json_object_get(args, key));

	return strdup(s ? s : "");
}

/* The first event has the rank, the host and the clock of the file. */
static int take_origin(struct merge_file *f, const struct events *v, const struct event *x,
		       int place, struct err *e)
{
	const json_t *rank = json_object_get(x->args, "rank");

	if (x->phase != 'M' ||
	    !json_is_number(json_object_get(x->args, "start_time_since_epoch_in_micros")))
		return fail(e, RINGUP_EINVAL,
			    "%.100s: not a timeline: it does not say when it began", v->path);
	f->epoch_us = number_in(x->args, "start_time_since_epoch_in_micros");
	f->start_us = number_in(x->args, "start_ns") / 1000;
	f->host = text_in(x->args, "host");
	f->clock = text_in(x->args, "clock");
	if (!f->host || !f->clock)
		return merge_no_memory(e);
	f->rank = place;
	if (!rank)
		return 0;
	if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
	    json_integer_value(rank) > INT32_MAX)
		return malformed(v, "rank that could be one", e);
	f->rank = (int)json_integer_value(rank);
	return 0;
}

static int grow_processes(struct merge_file *f, struct open_round **open, size_t process,
			  struct err *e)
{
	size_t n = f->processes ? f->processes : 64;
	struct open_round *rounds;
	uint32_t *more;

	while (n <= process)
		n *= 2;
	if (n == f->processes)
		return 0;
	more = realloc(f->tensor, n * sizeof(*more));
	if (!more)
		return merge_no_memory(e);
	f->tensor = more;
	rounds = realloc(*open, n * sizeof(*rounds));
	if (!rounds)
		return merge_no_memory(e);
	*open = rounds;
	memset(more + f->processes, 0, (n - f->processes) * sizeof(*more));
	memset(rounds + f->processes, 0, (n - f->processes) * sizeof(*rounds));
	f->processes = n;
	return 0;
}

/* The number of a tensor in the merged file: from 1 on, as names come. */
static uint32_t number_of(struct merge *m, const char *name)
{
	const json_t *known = json_object_get(m->names, name);
	size_t n = json_object_size(m->names) + 1;

	if (known)
		return (uint32_t)json_integer_value(known);
	return json_object_set_new(m->names, name, json_integer((json_int_t)n)) ? 0
										: (uint32_t)n;
}

static int add_round(struct merge_file *f, uint32_t tensor, const struct open_round *o,
		     double ready, struct err *e)
{
	size_t room = f->room ? f->room * 2 : 1024;
	struct merge_round *more;

	if (f->rounds == MOST_ROUNDS)
		return 0;
	if (f->rounds == f->room) {
		more = realloc(f->round, room * sizeof(*more));
		if (!more)
			return merge_no_memory(e);
		f->round = more;
		f->room = room;
	}
	f->round[f->rounds++] =
		(struct merge_round){ tensor, o->round, f->start_us + o->submitted,
				      f->start_us + ready };
	return 0;
}

static int take_tensor_event(struct merge_file *f, struct open_round *o, uint32_t tensor,
			     const struct event *x, struct err *e)
{
	const json_t *round = json_object_get(x->args, "round");
	char *end;

	if (x->phase == 'B' && !strncmp(x->name, "NEGOTIATE_", 10)) {
		*o = (struct open_round){ .is_open = json_is_integer(round),
					  .round = (uint64_t)json_integer_value(round) };
	} else if (x->phase == 'X' && o->is_open && strtol(x->name, &end, 10) == f->rank &&
		   !*end) {
		o->submitted = x->ts;
		o->has_submitted = true;
	} else if (x->phase == 'E' && o->is_open) {
		o->is_open = false;
		if (o->has_submitted)
			return add_round(f, tensor, o, x->ts, e);
	}
	return 0;
}

static int take_event(struct merge *m, struct merge_file *f, struct open_round **open,
		      const struct event *x, struct err *e)
{
	const char *name;
	int rc;

	if (x->process <= 0)
		return 0;
	rc = grow_processes(f, open, (size_t)x->process, e);
	if (rc)
		return rc;
	if (x->phase == 'M' && !strcmp(x->name, "process_name")) {
		name = json_string_value(json_object_get(x->args, "name"));
		f->tensor[x->process] = number_of(m, name ? name : "?");
		return f->tensor[x->process] ? 0 : merge_no_memory(e);
	}
	return take_tensor_event(f, &(*open)[x->process], f->tensor[x->process], x, e);
}

static int look_through(struct merge *m, struct merge_file *f, int place, struct err *e)
{
	struct open_round *open = NULL;
	struct events v;
	struct event x;
	int rc = events_open(&v, f->path, e), more;

	while (!rc && (more = next_event(&v, &x, e)) != 0) {
		if (more < 0) {
			rc = more;
			break;
		}
		if (v.count == 1)
			rc = take_origin(f, &v, &x, place, e);
		else
			rc = take_event(m, f, &open, &x, e);
		json_decref(x.json);
	}
	if (!rc && !v.count)
		rc = fail(e, RINGUP_EINVAL, "%.100s: not a timeline: it is empty", f->path);
	f->events = v.count;
	f->cut = v.cut;
	free(open);
	events_close(&v);
	return rc;
}

/* ---- clocks ---- */

static int by_round(const void *a, const void *b)
{
	const struct merge_round *x = a, *y = b;

	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	return x->round < y->round ? -1 : x->round > y->round;
}

static bool same_clock(const struct merge_file *a, const struct merge_file *b)
{
	return a == b || (*a->clock && !strcmp(a->clock, b->clock));
}

/* The rounds of all ranks of one clock: when the last of them submitted, and when the first
 * knew that all had.  Sorted; the caller's to free(). */
static int rounds_of(const struct merge *m, const struct merge_file *of,
		     struct merge_round **outp, size_t *count, struct err *e)
{
	struct merge_round *all;
	size_t n = 0, to, i;
	int k;

	for (k = 0; k < m->files; k++)
		n += same_clock(of, &m->file[k]) ? m->file[k].rounds : 0;
	all = calloc(n ? n : 1, sizeof(*all));
	if (!all)
		return merge_no_memory(e);
	for (n = 0, k = 0; k < m->files; k++)
		for (i = 0; same_clock(of, &m->file[k]) && i < m->file[k].rounds; i++)
			all[n++] = m->file[k].round[i];
	qsort(all, n, sizeof(*all), by_round);
	for (to = 0, i = 0; i < n; i++) {
		if (to && !by_round(&all[to - 1], &all[i])) {
			all[to - 1].submitted = fmax(all[to - 1].submitted, all[i].submitted);
			all[to - 1].ready = fmin(all[to - 1].ready, all[i].ready);
		} else {
			all[to++] = all[i];
		}
	}
	*outp = all;
	*count = to;
	return 0;
}

/* Bounds for how far the second clock is ahead, by the rounds that both have. */
static void compare_rounds(const struct merge_round *ours, size_t n,
			   const struct merge_round *theirs, size_t count, double *least,
			   double *most)
{
	size_t i = 0, k = 0;
	int order;

	*least = -DBL_MAX;
	*most = DBL_MAX;
	while (i < n && k < count) {
		order = by_round(&ours[i], &theirs[k]);
		if (!order) {
			*least = fmax(*least, theirs[k].submitted - ours[i].ready);
			*most = fmin(*most, theirs[k].ready - ours[i].submitted);
		}
		i += order <= 0;
		k += order >= 0;
	}
}

static int settle_clock(const struct merge *m, struct merge_file *f, struct err *e)
{
	const struct merge_file *first = &m->file[0];
	struct merge_round *ours = NULL, *theirs = NULL;
	double least = 0, most = 0;
	size_t n = 0, count = 0;
	int rc;

	if (same_clock(first, f)) {
		f->how = MERGE_SAME;
		return 0;
	}
	rc = rounds_of(m, first, &ours, &n, e);
	if (!rc)
		rc = rounds_of(m, f, &theirs, &count, e);
	if (!rc)
		compare_rounds(ours, n, theirs, count, &least, &most);
	free(ours);
	free(theirs);
	if (rc)
		return rc;
	if (least > -DBL_MAX && most < DBL_MAX && least <= most) {
		f->how = MERGE_ROUNDS;
		f->ahead_us = least / 2 + most / 2;
		f->doubt_us = most / 2 - least / 2;
	} else {
		f->how = MERGE_WALL;
		f->ahead_us = first->epoch_us - first->start_us - (f->epoch_us - f->start_us);
	}
	return 0;
}

/* The file's beginning by the first file's clock. */
static double begins(const struct merge_file *f)
{
	return f->start_us - f->ahead_us;
}

static int settle_clocks(struct merge *m, struct err *e)
{
	int q, rc = 0;

	for (int k = 0; k < m->files && !rc; k++) {
		/* All files of one clock have the same offset. */
		for (q = 1; q < k && !same_clock(&m->file[q], &m->file[k]); q++)
			;
		if (q < k) {
			m->file[k].how = m->file[q].how;
			m->file[k].ahead_us = m->file[q].ahead_us;
			m->file[k].doubt_us = m->file[q].doubt_us;
		} else {
			rc = settle_clock(m, &m->file[k], e);
		}
	}
	m->first_us = rc ? 0 : begins(&m->file[0]);
	for (int k = 1; k < m->files && !rc; k++)
		m->first_us = fmin(m->first_us, begins(&m->file[k]));
	return rc;
}

static int by_rank(const void *a, const void *b)
{
	const struct merge_file *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

int merge_read(struct merge *m, const char *const *paths, int count, struct err *e)
{
	int rc = 0;

	memset(m, 0, sizeof(*m));
	if (count < 1 || count > MOST_FILES)
		return fail(e, RINGUP_EINVAL, "%d timelines: from 1 to %d", count, MOST_FILES);
	m->file = calloc((size_t)count, sizeof(*m->file));
	m->names = json_object();
	if (!m->file || !m->names)
		return merge_no_memory(e);
	m->files = count;
	for (int k = 0; k < count && !rc; k++) {
		m->file[k].path = paths[k];
		rc = look_through(m, &m->file[k], k, e);
	}
	if (rc)
		return rc;
	qsort(m->file, (size_t)count, sizeof(*m->file), by_rank);
	for (int k = 1; k < count; k++)
		if (m->file[k].rank == m->file[k - 1].rank)
			return fail(e, RINGUP_EINVAL, "%.80s and %.80s are both of rank %d",
				    m->file[k - 1].path, m->file[k].path, m->file[k].rank);
	return settle_clocks(m, e);
}

/* ---- writing ---- */

struct writer {
	struct merge *m;
	FILE *to;
	bool *introduced;  /* by tensor (0: none) and file */
	const char **name; /* of each tensor */
};

static int merge_put(struct writer *w, json_t *event, struct err *e)
{
	size_t flags = JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(16) | JSON_ENSURE_ASCII;
	int rc = 0;

	fputs(w->m->events++ ? ",\n" : "[\n", w->to);
	if (!event)
		return merge_no_memory(e);
	if (json_dumpf(event, w->to, flags))
		rc = fail(e, RINGUP_ESYSTEM, "writing");
	json_decref(event);
	return rc;
}

static int put_metadata(struct writer *w, const char *what, uint32_t process, int thread,
			json_t *args, struct err *e)
{
	json_t *j = json_pack("{s:s, s:s, s:i, s:i}", "name", what, "ph", "M", "pid",
			      (int)process, "tid", thread);

	if (j && thread < 0)
		json_object_del(j, "tid");
	if (!j || json_object_set_new(j, "args", args)) {
		json_decref(j);
		return merge_no_memory(e);
	}
	return merge_put(w, j, e);
}

/* Name a tensor, and this rank in it, before their first event. */
static int introduce(struct writer *w, const struct merge_file *f, uint32_t tensor,
		     struct err *e)
{
	size_t files = (size_t)w->m->files, row = tensor * (files + 1);
	bool *all = &w->introduced[row],
	     *mine = &w->introduced[row + 1 + (size_t)(f - w->m->file)];
	char text[32];
	int rc = 0;

	if (!*all && tensor)
		rc = put_metadata(w, "process_name", tensor, -1,
				  json_pack("{s:s}", "name", w->name[tensor]), e);
	if (!*all && tensor && !rc)
		rc = put_metadata(w, "process_sort_index", tensor, -1,
				  json_pack("{s:i}", "sort_index", (int)tensor), e);
	*all = true;
	if (*mine || rc)
		return rc;
	*mine = true;
	snprintf(text, sizeof(text), "rank %d", f->rank);
	rc = put_metadata(w, "thread_name", tensor, f->rank, json_pack("{s:s}", "name", text),
			  e);
	return rc ? rc
		  : put_metadata(w, "thread_sort_index", tensor, f->rank,
				 json_pack("{s:i}", "sort_index", f->rank), e);
}

static int put_event(struct writer *w, const struct merge_file *f, const struct event *x,
		     struct err *e)
{
	size_t process = x->process > 0 ? (size_t)x->process : 0;
	uint32_t tensor = process < f->processes ? f->tensor[process] : 0;
	double ts = x->ts + begins(f) - w->m->first_us;
	int rc;

	if (x->phase == 'M')
		return 0;
	/* Nanoseconds are enough. */
	ts = round(ts * 1000) / 1000;
	rc = introduce(w, f, tensor, e);
	if (rc)
		return rc;
	if (json_object_set_new(x->json, "ts", json_real(ts)) ||
	    json_object_set_new(x->json, "pid", json_integer(tensor)) ||
	    json_object_set_new(x->json, "tid", json_integer(f->rank)) ||
	    (x->phase == 'i' && json_object_set_new(x->json, "s", json_string("t"))))
		return merge_no_memory(e);
	return merge_put(w, json_incref(x->json), e);
}

static int put_file(struct writer *w, const struct merge_file *f, struct err *e)
{
	struct events v;
	struct event x;
	int rc = events_open(&v, f->path, e), more;

	while (!rc && (more = next_event(&v, &x, e)) != 0) {
		if (more < 0) {
			rc = more;
			break;
		}
		rc = put_event(w, f, &x, e);
		json_decref(x.json);
		/* The file may have grown since its clock was settled. */
		if (v.count == f->events)
			break;
	}
	events_close(&v);
	return rc;
}

int merge_print(struct merge *m, FILE *f, struct err *e)
{
	size_t tensors = json_object_size(m->names) + 1;
	struct writer w = { .m = m, .to = f };
	const struct merge_file *first = &m->file[0];
	double wall = first->epoch_us - first->start_us + m->first_us;
	const char *name;
	json_t *number;
	int rc = 0;

	m->events = 0;
	w.introduced = calloc(tensors * ((size_t)m->files + 1), sizeof(*w.introduced));
	w.name = calloc(tensors, sizeof(*w.name));
	if (!w.introduced || !w.name)
		rc = merge_no_memory(e);
	if (!rc)
		json_object_foreach(m->names, name, number)
			w.name[json_integer_value(number)] = name;
	if (!rc)
		rc = put_metadata(&w, "process_name", 0, -1,
				  json_pack("{s:s, s:I}", "name", "ranks",
					    "start_time_since_epoch_in_micros",
					    (json_int_t)(fabs(wall) < 9e18 ? wall : 0)),
				  e);
	for (int k = 0; k < m->files && !rc; k++)
		rc = put_file(&w, &m->file[k], e);
	fputs("\n]\n", f);
	free(w.introduced);
	free(w.name);
	if (!rc && ferror(f))
		rc = fail(e, RINGUP_ESYSTEM, "writing: %s", strerror(errno));
	return rc;
}

int merge_write(struct merge *m, const char *path, struct err *e)
{
	size_t len = strlen(path) + 32;
	char *part = malloc(len);
	FILE *f;
	int rc;

	if (!part)
		return merge_no_memory(e);
	snprintf(part, len, "%s.%ld.part", path, (long)getpid());
	f = fopen(part, "we");
	if (!f) {
		rc = fail_os(e, "%s", part);
		free(part);
		return rc;
	}
	rc = merge_print(m, f, e);
	if (fclose(f) && !rc)
		rc = fail_os(e, "writing");
	if (!rc && rename(part, path))
		rc = fail_os(e, "renaming it");
	if (rc) {
		unlink(part);
		fail_in(e, "%.100s", path);
	}
	free(part);
	return rc;
}

void merge_free(struct merge *m)
{
	for (int k = 0; k < m->files; k++) {
		free(m->file[k].host);
		free(m->file[k].clock);
		free(m->file[k].tensor);
		free(m->file[k].round);
	}
	free(m->file);
	json_decref(m->names);
	memset(m, 0, sizeof(*m));
}
