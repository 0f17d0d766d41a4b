/* trace.c - a rank's trace recorder: trace points, rings, the thread that writes the file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/futex.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "ringup.h"
#include "trace/chrome.h"
#include "trace/label.h"
#include "trace/points.h"
#include "trace/ring.h"
#include "trace/tracefile.h"

/* TAKE: records after which the writer gives their room back to the producer.  PART_BYTES: of a
 * job's name in the file. */
enum { TAKE = 1024, PART_BYTES = 64 };

struct recorder {
	uint64_t serial; /* no other recorder of this process has had it */
	struct trace *trace;
	struct labels labels;
	struct lock lock;                 /* of ring and owner         */
	struct ring *ring[TRACE_THREADS]; /* atomic; NULL after the last */
	int owner[TRACE_THREADS];         /* a thread's number          */
	uint64_t homeless;                /* records of threads without a ring; atomic */
	uint32_t wake;                    /* futex                     */
	bool stop;                        /* atomic                    */
	bool drains;                      /* the writer takes records; atomic */

	/* The writer uses these while it runs, else the thread that starts or stops it. */
	bool runs;
	pthread_t thread;
	char path[PATH_MAX];
	struct tracefile *file; /* NULL: none */
	struct chrome chrome;
	uint64_t dropped;  /* records, before this file was begun   */
	uint64_t reported; /* records that the file says are dropped */
	uint64_t lost;     /* records for which there was no memory  */
	int64_t flushed_ns;
	bool broken; /* the file cannot be written any more; atomic */
};

/* This thread's rings in the recorders that it used last: a process may be a rank of several
 * jobs. */
enum { MINE = 8 };

static _Thread_local struct mine {
	uint64_t serial;
	struct ring *ring;
} mines[MINE];

static uint64_t serials; /* atomic */

/* ---- rings ---- */

static bool is_gone(int thread)
{
	return syscall(SYS_tgkill, getpid(), thread, 0) && errno == ESRCH;
}

/* The ring of @thread, else a free one, else one whose thread has ended; or NULL. */
static struct ring *claim_ring(struct recorder *w, int thread)
{
	int i, place = -1;

	for (i = 0; i < TRACE_THREADS && w->ring[i]; i++)
		if (w->owner[i] == thread)
			return w->ring[i];
	if (i < TRACE_THREADS) {
		place = i;
	} else {
		for (i = 0; i < TRACE_THREADS && place < 0; i++)
			place = is_gone(w->owner[i]) ? i : -1;
	}
	if (place < 0)
		return NULL;
	if (!w->ring[place]) {
		struct ring *q = aligned_alloc(64, sizeof(*q));

		if (!q)
			return NULL;
		/* The records are not cleared: a page takes no memory before it is written. */
		memset(q, 0, offsetof(struct ring, record));
		__atomic_store_n(&w->ring[place], q, __ATOMIC_RELEASE);
	}
	w->owner[place] = thread;
	return w->ring[place];
}

static __attribute__((noinline)) struct ring *find_ring(struct recorder *w)
{
	struct ring *q;

	lock_take(&w->lock);
	q = claim_ring(w, (int)syscall(SYS_gettid));
	lock_give(&w->lock);
	if (q)
		mines[w->serial % MINE] = (struct mine){ w->serial, q };
	return q;
}

static __attribute__((noinline)) void call_writer(struct recorder *w)
{
	__atomic_fetch_add(&w->wake, 1, __ATOMIC_SEQ_CST);
	futex_wake(&w->wake);
}

static struct recorder *recorder_of(const struct trace *t)
{
	return __atomic_load_n(&t->recorder, __ATOMIC_ACQUIRE);
}

void trace_put(const struct trace *t, const struct trace_record *r)
{
	struct recorder *w = recorder_of(t);
	const struct mine *m = &mines[w->serial % MINE];
	struct ring *q = m->serial == w->serial ? m->ring : find_ring(w);

	if (!q)
		__atomic_fetch_add(&w->homeless, 1, __ATOMIC_RELAXED);
	else if (!__atomic_load_n(&w->drains, __ATOMIC_ACQUIRE))
		ring_overwrite(q, r);
	else if (ring_put(q, r) && ring_is_half_full(q))
		call_writer(w);
}

uint32_t trace_label(const struct trace *t, uint64_t group, const char *name, size_t len)
{
	return label_enter(&recorder_of(t)->labels, group, name, len);
}

int trace_ranks(const struct trace *t, const int *ranks, int count)
{
	return label_set(&recorder_of(t)->labels, ranks, count);
}

/* Sets the bits of a recording to a file; TRACE_KEEP stays as it is. */
static void set_file(struct trace *t, uint32_t on)
{
	__atomic_fetch_and(&t->on, TRACE_KEEP, __ATOMIC_RELAXED);
	__atomic_fetch_or(&t->on, on, __ATOMIC_RELEASE);
}

/* ---- writing ---- */

static struct ring *ring_at(const struct recorder *w, int i)
{
	return i < TRACE_THREADS ? __atomic_load_n(&w->ring[i], __ATOMIC_ACQUIRE) : NULL;
}

static uint64_t count_dropped(const struct recorder *w)
{
	uint64_t n = __atomic_load_n(&w->homeless, __ATOMIC_RELAXED) + w->lost;
	struct ring *q;

	for (int i = 0; (q = ring_at(w, i)); i++)
		n += ring_dropped(q);
	return n;
}

static bool is_broken(const struct recorder *w)
{
	return __atomic_load_n(&w->broken, __ATOMIC_RELAXED);
}

static void write_text(struct recorder *w)
{
	struct err e;

	if (w->chrome.len && !is_broken(w) &&
	    tracefile_append(w->file, w->chrome.text, w->chrome.len, &e)) {
		/* A failed timeline must not end the job. */
		__atomic_store_n(&w->broken, true, __ATOMIC_RELAXED);
		set_file(w->trace, 0);
		log_warn("timeline %s: %s; it ends here", w->path, e.text);
	}
	w->chrome.len = 0;
}

/* The next record of a ring, if it is not after @until. */
static const struct trace_record *next_of(const struct ring *q, uint64_t at, int64_t until)
{
	const struct trace_record *r = ring_first(q, at);

	return r && r->ns <= until ? r : NULL;
}

/*
 * Takes all records up to @until, which is now.  A record is put after the record of its cause,
 * whose ring may be another; so the cause is there, too, with an earlier time.
 */
static void take_all(struct recorder *w, int64_t until)
{
	const struct trace_record *first[TRACE_THREADS];
	uint64_t at[TRACE_THREADS];
	int i, n, least;

	for (n = 0; ring_at(w, n); n++) {
		at[n] = w->ring[n]->tail;
		first[n] = next_of(w->ring[n], at[n], until);
	}
	for (;;) {
		for (least = -1, i = 0; i < n; i++)
			if (first[i] && (least < 0 || first[i]->ns < first[least]->ns))
				least = i;
		if (least < 0)
			break;
		chrome_take(&w->chrome, first[least]);
		if (++at[least] % TAKE == 0)
			ring_take(w->ring[least], at[least]);
		first[least] = next_of(w->ring[least], at[least], until);
		if (chrome_is_full(&w->chrome))
			write_text(w);
	}
	for (i = 0; i < n; i++)
		ring_take(w->ring[i], at[i]);
}

/* Write all records; @last: also the negotiations that chrome.c keeps back. */
static void flush(struct recorder *w, bool last)
{
	int64_t now = clock_ns();
	uint64_t dropped;

	take_all(w, now);
	while (!chrome_settle(&w->chrome, last ? now : now - TRACE_FLUSH_MS * 1000000))
		write_text(w);
	/* Without batches there is a marker for each flush, as Horovod's cycles go on. */
	if (trace_on(w->trace) & TRACE_CYCLES && w->chrome.cycle_ns < w->flushed_ns)
		chrome_tick(&w->chrome, now);
	w->flushed_ns = now;
	w->lost += w->chrome.failed;
	w->chrome.failed = false;
	dropped = count_dropped(w) - w->dropped;
	if (dropped != w->reported)
		chrome_dropped(&w->chrome, dropped, now);
	w->reported = dropped;
	write_text(w);
}

static void *write_file(void *arg)
{
	struct recorder *w = arg;
	uint32_t seen;

	for (;;) {
		seen = __atomic_load_n(&w->wake, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&w->stop, __ATOMIC_SEQ_CST) || is_broken(w))
			break;
		futex_wait(&w->wake, seen, clock_deadline(TRACE_FLUSH_MS));
		flush(w, false);
	}
	flush(w, true);
	/* From here on records are overwritten: all that the writer has read comes before. */
	__atomic_store_n(&w->drains, false, __ATOMIC_RELEASE);
	return NULL;
}

/* ---- starting and stopping ---- */

static struct recorder *make_recorder(struct trace *t)
{
	struct recorder *w = recorder_of(t);

	if (w)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->trace = t;
	w->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&t->recorder, w, __ATOMIC_RELEASE);
	return w;
}

static int64_t wall_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* A thread that had not seen the end of the last recording may have put records since. */
static void empty_rings(struct recorder *w)
{
	struct ring *q;

	for (int i = 0; (q = ring_at(w, i)); i++)
		ring_take(q, __atomic_load_n(&q->head, __ATOMIC_ACQUIRE));
}

static int trace_start_thread(struct recorder *w, struct err *e)
{
	int rc = thread_start(&w->thread, write_file, w);

	if (rc)
		return limits_fail(e, rc, "its thread");
	w->runs = true;
	return 0;
}

/* Begin @file, which is open, with its header unless it has one. */
static int begin_file(struct recorder *w, struct tracefile *file,
		      const struct tracefile_place *at, const struct trace_origin *from,
		      struct err *e)
{
	uint32_t host = label_enter(&w->labels, 0, from->host, strlen(from->host)), part = 0;
	struct chrome_origin o = { .rank = from->rank,
				   .merges = from->merges,
				   .size = from->size,
				   .host = label_text(&w->labels, host),
				   .clock = from->clock,
				   .epoch_us = at->epoch_us,
				   .start_ns = at->start_ns,
				   .since_ns = clock_ns(),
				   .processes = at->processes,
				   .job = at->job,
				   .ranks = w->trace->ranks };
	struct chrome c;
	int rc;

	if (from->part) {
		part = label_enter(&w->labels, 0, from->part, strnlen(from->part, PART_BYTES));
		o.part = label_text(&w->labels, part);
	}
	if (chrome_open(&c, &o, &w->labels))
		return fail(e, RINGUP_ENOMEM, "no memory");
	chrome_header(&c);
	rc = tracefile_begin(file, c.text, c.len, e);
	if (rc) {
		chrome_close(&c);
		return rc;
	}
	c.len = 0;
	trace_stop(w->trace);
	w->chrome = c;
	w->file = file;
	w->flushed_ns = o.since_ns;
	w->reported = 0;
	w->dropped = count_dropped(w);
	__atomic_store_n(&w->broken, false, __ATOMIC_RELAXED);
	__atomic_store_n(&w->stop, false, __ATOMIC_RELAXED);
	__atomic_store_n(&w->drains, true, __ATOMIC_SEQ_CST);
	empty_rings(w);
	return 0;
}

/* Close the file after writing the rest. */
static void end_file(struct recorder *w)
{
	chrome_close(&w->chrome);
	tracefile_close(w->file);
	w->file = NULL;
}

int trace_start(struct trace *t, const char *path, uint32_t on, const struct trace_origin *from,
		struct err *e)
{
	struct recorder *w = make_recorder(t);
	struct tracefile_place at;
	struct tracefile *file = NULL;
	int rc;

	if (!w)
		return fail(e, RINGUP_ENOMEM, "no memory for a timeline");
	if (strlen(path) >= sizeof(w->path))
		return fail(e, RINGUP_EINVAL, "the timeline's path is too long: %zu bytes",
			    strlen(path));
	if (w->runs && !is_broken(w) && !strcmp(w->path, path)) {
		set_file(t, on);
		return 0;
	}
	/* A broken recording holds on to a file that may be begun anew. */
	if (w->runs && is_broken(w))
		trace_stop(t);
	rc = tracefile_open(&file, path, from->resumes, from->part ? from->part : "", &at, e);
	if (!rc)
		rc = begin_file(w, file, &at, from, e);
	if (rc) {
		tracefile_close(file);
		return fail_in(e, "timeline %.100s", path);
	}
	snprintf(w->path, sizeof(w->path), "%s", path);
	rc = trace_start_thread(w, e);
	if (rc) {
		__atomic_store_n(&w->drains, false, __ATOMIC_RELEASE);
		end_file(w);
		return fail_in(e, "timeline %.100s", path);
	}
	__atomic_fetch_add(&t->session, 1, __ATOMIC_RELAXED);
	set_file(t, on);
	return 0;
}

void trace_stop(struct trace *t)
{
	struct recorder *w = recorder_of(t);

	if (!w || !w->runs)
		return;
	set_file(t, 0);
	__atomic_store_n(&w->stop, true, __ATOMIC_SEQ_CST);
	call_writer(w);
	pthread_join(w->thread, NULL);
	w->runs = false;
	end_file(w);
}

/* ---- kept records ---- */

int trace_keep(struct trace *t, struct err *e)
{
	if (!make_recorder(t))
		return fail(e, RINGUP_ENOMEM, "no memory for a recorder");
	__atomic_fetch_or(&t->on, TRACE_KEEP, __ATOMIC_RELEASE);
	return 0;
}

/* Sorts by time; records of the same time keep their order in memory, which is a ring's. */
static int by_time(const void *a, const void *b)
{
	const struct trace_record *x = *(const struct trace_record *const *)a;
	const struct trace_record *y = *(const struct trace_record *const *)b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Copy the records of all rings in order of time, to the second half of @room; their number. */
static size_t copy_all(const struct recorder *w, struct trace_record *room, size_t size,
		       const struct trace_record **order)
{
	struct ring *q;
	size_t n = 0;

	for (int k = 0; (q = ring_at(w, k)) && n + RING_RECORDS <= size; k++)
		n += ring_copy(q, room + n);
	for (size_t i = 0; i < n; i++)
		order[i] = &room[i];
	if (n)
		qsort(order, n, sizeof(const struct trace_record *), by_time);
	for (size_t i = 0; i < n; i++)
		room[size + i] = *order[i];
	return n;
}

int trace_points(const struct trace *t, uint64_t first, uint64_t count,
		 struct ringup_points *out, struct err *e)
{
	const struct recorder *w = recorder_of(t);
	const struct trace_record **order = NULL;
	struct trace_record *room = NULL;
	size_t size = 0, n = 0;
	int rc = RINGUP_ENOMEM;

	while (w && ring_at(w, (int)(size / RING_RECORDS)))
		size += RING_RECORDS;
	if (size) {
		room = malloc(2 * size * sizeof(*room));
		order = malloc(size * sizeof(const struct trace_record *));
	}
	if (!size || (room && order)) {
		n = size ? copy_all(w, room, size, order) : 0;
		rc = points_find(size ? room + size : NULL, n, first, count,
				 wall_us() * 1000 - clock_ns(), out);
	}
	free(order);
	free(room);
	return rc ? fail(e, rc, "no memory for the records of operations") : 0;
}

void trace_close(struct trace *t)
{
	struct recorder *w = recorder_of(t);

	if (!w)
		return;
	trace_stop(t);
	for (int i = 0; i < TRACE_THREADS; i++)
		free(w->ring[i]);
	labels_free(&w->labels);
	free(w);
	memset(t, 0, sizeof(*t));
}
