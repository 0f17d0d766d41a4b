/* test_trace.c - records of many threads in one file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "nest.h"
#include "ringup.h"
#include "rounds.h"
#include "tap.h"
#include "trace/ring.h"

enum { THREADS = 4 };

static char dir[] = "/tmp/ringup-trace-XXXXXX";
static char path[64], other[64];
static struct trace trace;
static const struct trace_origin from = { .size = 1, .host = "h", .clock = "k" };

/* ---- a ring alone ---- */

static void test_ring(void)
{
	struct ring *q = aligned_alloc(64, sizeof(*q));
	struct trace_record r = { 0 };
	uint64_t at = 0;
	int i, n = 0, bad = 0, calls = 0;

	memset(q, 0, sizeof(*q));
	for (i = 0; i < RING_RECORDS + 3; i++) {
		r.label = (uint32_t)i;
		n += ring_put(q, &r);
		calls += i < RING_RECORDS && ring_is_half_full(q);
	}
	ok(n == RING_RECORDS && ring_dropped(q) == 3, "a full ring drops and counts");
	ok(calls == 2, "it says when it is half full, and full: %d", calls);
	for (i = 0; i < 100; i++)
		bad += !ring_first(q, at) || ring_first(q, at++)->label != (uint32_t)i;
	ring_take(q, at);
	for (i = 0; i < 101; i++) {
		r.label = 100000 + (uint32_t)i;
		n += ring_put(q, &r);
	}
	ok(n == RING_RECORDS + 100 && ring_dropped(q) == 4, "what is taken makes room");
	for (i = 0; ring_first(q, at); i++, at++)
		bad += ring_first(q, at)->label !=
		       (uint32_t)(i < RING_RECORDS - 100 ? 100 + i
							 : 100000 + i - RING_RECORDS + 100);
	ok(!bad && i == RING_RECORDS, "in order, around the end: %d are not", bad);
	free(q);
}

/* ---- kept records ---- */

static struct trace kept;

/* Numbers count from 1 on; each has two records here. */
static void keep_operation(uint32_t label)
{
	struct trace_record r = {
		.ns = clock_ns(), .label = label, .what = TRACE_SUBMITTED, .kind = TRACE_BARRIER
	};

	r.rank[3] = (int32_t)trace_number(&kept);
	trace_put(&kept, &r);
	r.ns = clock_ns();
	r.what = TRACE_COMPLETE;
	trace_put(&kept, &r);
}

static void test_keep(void)
{
	static struct ringup_points p[RING_RECORDS];
	struct err e = { 0 };
	int i, known = 0;

	ok(!trace_points(&kept, 1, 2, p, &e) && !p[1].submitted, "nothing is kept at first");
	ok(!trace_keep(&kept, &e) && trace_on(&kept) && !trace_writes(&kept),
	   "records are kept without a file");
	for (i = 0; i < RING_RECORDS; i++)
		keep_operation(1);
	ok(!trace_points(&kept, 1, RING_RECORDS, p, &e), "and can be asked for");
	for (i = 0; i < RING_RECORDS; i++)
		known += p[i].submitted && p[i].complete >= p[i].submitted;
	/* Of the oldest half the records have been overwritten, and one may be at any time. */
	ok(known == RING_RECORDS / 2 - 1 && p[RING_RECORDS - 1].complete &&
		   !p[RING_RECORDS / 2 - 1].submitted,
	   "the latest of them: %d", known);
	ok(!trace_start(&kept, path, TRACE_ON, &from, &e) && trace_writes(&kept),
	   "a file may be written meanwhile");
	keep_operation(trace_label(&kept, 0, "both", 4));
	trace_stop(&kept);
	ok(trace_on(&kept) == TRACE_KEEP, "after which they are still kept");
	keep_operation(1);
	ok(!trace_points(&kept, RING_RECORDS + 1, 2, p, &e) && p[0].complete && p[1].complete,
	   "those in the file, too");
	trace_close(&kept);
	ok(!trace_on(&kept), "until the end");
	unlink(path);
}

static uint32_t over; /* atomic */

static void *keep_on(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		keep_operation(2);
	return NULL;
}

/* What is asked for while records are put is whole, or is not there. */
static void test_look(void)
{
	static struct ringup_points p[2000];
	const int looks = rounds_of(40);
	struct err e = { 0 };
	pthread_t thread;
	int i, k, bad = 0;
	uint64_t last;

	over = 0;
	if (trace_keep(&kept, &e) || pthread_create(&thread, NULL, keep_on, NULL))
		exit(1);
	for (i = 0; i < looks; i++) {
		last = __atomic_load_n(&kept.numbers, __ATOMIC_RELAXED);
		last = last > 2000 ? last - 2000 : 1;
		bad += trace_points(&kept, last, 2000, p, &e) != 0;
		for (k = 0; k < 2000; k++)
			bad += p[k].complete && (!p[k].submitted ||
						 p[k].complete < p[k].submitted || p[k].failed);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	trace_close(&kept);
	ok(!bad, "also while they are put: %d are torn", bad);
}

/* ---- files ---- */

static void put(enum trace_what what, uint32_t label, int round)
{
	struct trace_record r = { .ns = clock_ns(), .label = label, .what = (uint8_t)what };

	r.word[0] = (uint64_t)round;
	if (trace_on(&trace))
		trace_put(&trace, &r);
}

static void operation(uint32_t label, int round)
{
	put(TRACE_SUBMITTED, label, round);
	put(TRACE_READY, label, 1);
	put(TRACE_COMPLETE, label, 0);
}

static int start(const char *file, uint32_t on)
{
	struct err e;
	int rc = trace_start(&trace, file, on, &from, &e);

	if (rc)
		printf("# %s\n", e.text);
	return rc;
}

static uint32_t label(const char *name)
{
	return trace_label(&trace, 0, name, strlen(name));
}

static json_t *stop_and_load(int *open)
{
	trace_stop(&trace);
	return nest_load(path, open);
}

static void test_file(void)
{
	struct err e = { 0 };
	json_t *j;
	int open = 0;

	put(TRACE_SUBMITTED, 1, 1);
	ok(!trace_on(&trace) && !trace.recorder, "it is off, and takes nothing");
	ok(trace_start(&trace, "/nonexistent/t.json", TRACE_ON, &from, &e) &&
		   !trace_on(&trace) && strstr(e.text, "timeline /nonexistent/t.json: "),
	   "a file that cannot be made: %s", e.text);
	ok(!start(path, TRACE_ON) && trace_on(&trace), "it is on");
	j = nest_load(path, &open);
	ok(j && json_array_size(j) == 2, "the file is whole from the beginning");
	json_decref(j);
	operation(label("a"), 1);
	ok(!start(path, TRACE_ON) && trace_session(&trace) == 1, "the same again goes on");
	ok(trace_start(&trace, "/nonexistent/t.json", TRACE_ON, &from, &e) && trace_on(&trace),
	   "another that cannot be made changes nothing");
	operation(label("a"), 2);
	put(TRACE_SUBMITTED, label("b"), 1);
	j = stop_and_load(&open);
	ok(j && nest_count(j, "B", "NEGOTIATE_ALLREDUCE", nest_pid(j, "a")) == 2 && open == 1,
	   "all that was put before the end is in it, also what has not ended");
	ok(!nest_count(j, "i", "", -1), "cycles were not asked for");
	json_decref(j);
	trace_stop(&trace);
	put(TRACE_SUBMITTED, 1, 1);
	ok(!trace_on(&trace), "ended twice is ended");
}

static void test_again(void)
{
	json_t *j;
	int open = 0, i, bad = 0;

	for (i = 0; i < 5; i++) {
		bad += start(i & 1 ? other : path, TRACE_ON | TRACE_CYCLES);
		operation(label("again"), i);
		if (i == 2)
			bad += start(other, TRACE_ON);
		trace_stop(&trace);
		j = nest_load(i && i != 4 ? other : path, &open);
		bad += !j || open;
		bad += i != 2 && nest_count(j, "B", "ALLREDUCE", nest_pid(j, "again")) != 1;
		json_decref(j);
	}
	ok(!bad, "started and ended five times, in one file or another: %d are wrong", bad);
}

/* A file that is waited for, for what comes by itself. */
static bool appears(const char *name)
{
	int64_t until = clock_deadline(60000);
	json_t *j;
	int n = 0, open;

	while (!n && clock_ns() < until) {
		j = nest_load(path, &open);
		n = nest_count(j, "i", name, -1);
		json_decref(j);
		clock_sleep_ms(1);
	}
	return n > 0;
}

static void test_cycles(void)
{
	int open;
	json_t *j;

	start(path, TRACE_ON | TRACE_CYCLES);
	ok(appears("CYCLE_START"), "while nothing happens, cycles are marked all the same");
	put(TRACE_CYCLE, 0, 0);
	j = stop_and_load(&open);
	ok(j && nest_count(j, "i", "CYCLE_START", -1) >= 2, "as is each batch");
	json_decref(j);
}

static void test_full(void)
{
	int64_t until = clock_deadline(60000);
	struct rlimit was, small;
	json_t *j;
	int open;

	getrlimit(RLIMIT_FSIZE, &was);
	signal(SIGXFSZ, SIG_IGN);
	small = was;
	small.rlim_cur = 20000;
	setrlimit(RLIMIT_FSIZE, &small);
	start(path, TRACE_ON);
	while (trace_on(&trace) && clock_ns() < until)
		operation(label("full"), 0);
	setrlimit(RLIMIT_FSIZE, &was);
	ok(!trace_on(&trace), "a full disk ends the recording");
	j = stop_and_load(&open);
	ok(j, "and the file is whole");
	json_decref(j);
	start(path, TRACE_ON);
	operation(label("full"), 0);
	j = stop_and_load(&open);
	ok(nest_count(j, "B", "ALLREDUCE", -1) == 1, "another recording can be begun");
	json_decref(j);
}

/* ---- threads ---- */

static int each;

static void *many(void *arg)
{
	char name[16];
	uint32_t mine;
	int i;

	snprintf(name, sizeof(name), "t%d", (int)(intptr_t)arg);
	mine = label(name);
	for (i = 0; i < each; i++)
		operation(mine, i);
	return NULL;
}

static double dropped(const json_t *j)
{
	const json_t *event;
	double n = 0;
	size_t i;

	json_array_foreach(j, i, event)
		if (!strcmp(nest_string(event, "name"), "DROPPED_EVENTS"))
			n = json_number_value(json_object_get(json_object_get(event, "args"),
							      "dropped_events"));
	return n;
}

static void test_threads(void)
{
	pthread_t t[THREADS];
	json_t *j;
	int i, n = 0, open;

	each = rounds_few(20000, 8000);
	start(path, TRACE_ON);
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, many, (void *)(intptr_t)i);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	j = stop_and_load(&open);
	n = nest_count(j, "B", "ALLREDUCE", -1);
	ok(j && n <= THREADS * each && n + (int)dropped(j) >= THREADS * each,
	   "of %d operations, %d are in the file, and %.0f records are told to be missing",
	   THREADS * each, n, dropped(j));
	json_decref(j);
}

static void *one(void *arg)
{
	operation(label("short"), (int)(intptr_t)arg);
	return NULL;
}

static void test_short_threads(void)
{
	enum { MANY = 3 * TRACE_THREADS };
	pthread_t t;
	json_t *j;
	int i, open;

	start(path, TRACE_ON);
	for (i = 0; i < MANY; i++) {
		pthread_create(&t, NULL, one, (void *)(intptr_t)i);
		pthread_join(t, NULL);
	}
	j = stop_and_load(&open);
	ok(nest_count(j, "B", "ALLREDUCE", nest_pid(j, "short")) == MANY && !dropped(j),
	   "threads that end leave their rings to others");
	json_decref(j);
}

static pthread_barrier_t together;

static void *hold_ring(void *arg)
{
	put(TRACE_SUBMITTED, label("held"), 0);
	pthread_barrier_wait(&together);
	return arg;
}

static void test_too_many_threads(void)
{
	enum { MANY = TRACE_THREADS + 10 };
	pthread_t t[MANY];
	json_t *j;
	int i, open;

	pthread_barrier_init(&together, NULL, MANY);
	start(path, TRACE_ON);
	for (i = 0; i < MANY; i++)
		pthread_create(&t[i], NULL, hold_ring, NULL);
	for (i = 0; i < MANY; i++)
		pthread_join(t[i], NULL);
	j = stop_and_load(&open);
	ok(j && dropped(j) >= 10, "those for which there is no ring are counted: %.0f",
	   dropped(j));
	json_decref(j);
	pthread_barrier_destroy(&together);
}

/* ---- the end of the process ---- */

static off_t size_of(const char *file)
{
	struct stat st;

	return stat(file, &st) ? -1 : st.st_size;
}

/* Dies after it has seen the file grow so many times. */
static void die_after(int writes)
{
	off_t was;

	if (start(path, TRACE_ON | TRACE_CYCLES))
		_exit(1);
	while (writes--) {
		was = size_of(path);
		while (size_of(path) == was)
			operation(label("doomed"), 0);
	}
	kill(getpid(), SIGKILL);
	_exit(1);
}

static void test_kill(void)
{
	int n, status, open, bad = 0;
	json_t *j;
	pid_t pid;

	for (n = 0; n < 6; n++) {
		pid = fork();
		if (!pid)
			die_after(n);
		waitpid(pid, &status, 0);
		j = nest_load(path, &open);
		bad += !WIFSIGNALED(status) || !j;
		json_decref(j);
	}
	ok(!bad, "killed while it writes, it leaves a whole file: %d do not", bad);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/t.json", dir);
	snprintf(other, sizeof(other), "%s/other.json", dir);
	test_ring();
	test_keep();
	test_look();
	/* First: a child has no threads of ours. */
	test_kill();
	test_file();
	test_again();
	test_cycles();
	test_full();
	test_threads();
	test_short_threads();
	test_too_many_threads();
	trace_close(&trace);
	ok(!trace.recorder && !trace_on(&trace), "closed, it is as it was");
	unlink(path);
	unlink(other);
	rmdir(dir);
	return tap_done();
}
