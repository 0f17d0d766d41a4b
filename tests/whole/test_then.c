/* test_then.c - completion callbacks: once, in threads of their own, also while others wait. */
/* tests: src/engine/callback.c src/engine/op.c */
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#include "ranks.h"

enum { MANY = 200, LARGE = 200000, LATE_MS = 120000 };

/* What a callback has seen. */
struct seen {
	struct ringup_group *g;
	struct ringup_op *op;
	int calls, status;
	float value;
	pthread_t thread;
	char error[256];
};

static void note(void *ctx, int status)
{
	struct seen *s = ctx;

	s->status = status;
	s->thread = pthread_self();
	snprintf(s->error, sizeof(s->error), "%s", ringup_error());
	__atomic_fetch_add(&s->calls, 1, __ATOMIC_SEQ_CST);
}

/* Without a call into the library. */
static bool await(const int *word, int wanted)
{
	int64_t enough = clock_deadline(LATE_MS);

	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) < wanted && clock_ns() < enough)
		clock_sleep_ms(1);
	return __atomic_load_n(word, __ATOMIC_SEQ_CST) >= wanted;
}

static int stage; /* what ranks tell each other beside the library; atomic */

/* Returns when @size ranks have called it. */
static void reach_stage(int size)
{
	__atomic_fetch_add(&stage, 1, __ATOMIC_SEQ_CST);
	check(await(&stage, size), "all are here", -1);
}

static int sum(struct ringup_group *g, const char *name, float *v, uint64_t count,
	       struct ringup_op **opp)
{
	struct ringup_reduce a = {
		.name = name, .in = v, .out = v, .count = count, .dtype = RINGUP_F32
	};

	return ringup_allreduce(g, &a, opp);
}

/* Nobody waits: small ones that are known, and large ones. */
static void unwaited(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	static const uint64_t counts[] = { 1, LARGE };
	struct seen s = { 0 };
	struct ringup_op *op;
	float *v;
	int k, round;

	for (k = 0; k < 2; k++)
		for (round = 0; round < 10; round++) {
			v = calloc(counts[k], sizeof(*v));
			v[0] = (float)(rank + 1);
			s.calls = 0;
			check(!sum(g, k ? "large" : "small", v, counts[k], &op), "start", rank);
			check(!ringup_then(op, note, &s), "then", rank);
			check(await(&s.calls, 1) && !s.status, "called", rank);
			check(v[0] == (float)(size * (size + 1) / 2), "complete by then", rank);
			check(!pthread_equal(s.thread, pthread_self()), "elsewhere", rank);
			check(!ringup_wait(op, 0) && s.calls == 1, "once", rank);
			free(v);
		}
}

/* Before and after it is complete, waited for or not. */
static void at_any_time(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct seen s = { 0 };
	struct ringup_op *op;
	float v = 1;
	int k;

	for (k = 0; k < 100; k++) {
		v = 1;
		s.calls = 0;
		check(!sum(g, "x", &v, 1, &op), "start", rank);
		while (k % 2 && !ringup_poll(op))
			clock_sleep_ms(0);
		check(!ringup_then(op, note, &s), "then", rank);
		check(ringup_then(op, note, &s) == RINGUP_EBUSY, "one is enough", rank);
		check(!ringup_wait(op, -1) && v == (float)size, "wait", rank);
		check(await(&s.calls, 1), "called", rank);
	}
	check(ringup_then(NULL, note, &s) == RINGUP_EINVAL, "no operation", rank);
}

/* A callback that starts an operation and waits for it, and for the callback of that. */
static void start_more(void *ctx, int status)
{
	struct seen *s = ctx, inner = { .g = s->g };
	float v = 1;

	check(!status, "status", -1);
	check(!sum(s->g, "inner", &v, 1, &inner.op), "start in a callback", -1);
	check(!ringup_then(inner.op, note, &inner), "then in a callback", -1);
	check(await(&inner.calls, 1), "a callback runs while another waits for it", -1);
	check(!ringup_wait(inner.op, -1), "wait in a callback", -1);
	s->value = v;
	__atomic_fetch_add(&s->calls, 1, __ATOMIC_SEQ_CST);
}

static void nested(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct seen s = { .g = g };
	struct ringup_op *op;
	float v = 1;
	int k;

	for (k = 0; k < 5; k++) {
		s.calls = 0;
		check(!sum(g, "outer", &v, 1, &op), "start", rank);
		check(!ringup_then(op, start_more, &s), "then", rank);
		check(await(&s.calls, 1) && s.value == (float)size, "called", rank);
		check(!ringup_wait(op, -1), "wait", rank);
	}
}

/* Each of many that are in flight at once; another thread waits for something else. */
static void many(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	static float v[RANKS_MAX][MANY];
	struct seen s[MANY] = { { 0 } };
	struct ringup_op *op[MANY];
	char name[16];
	float one;
	int k;

	for (k = 0; k < MANY; k++) {
		snprintf(name, sizeof(name), "n%d", k);
		v[rank][k] = (float)k;
		check(!sum(g, name, &v[rank][k], 1, &op[k]), "start", rank);
		check(!ringup_then(op[k], note, &s[k]), "then", rank);
		one = 1;
		check(!sum(g, "beside", &one, 1, NULL) && one == (float)size, "beside", rank);
	}
	for (k = 0; k < MANY; k++) {
		check(await(&s[k].calls, 1) && v[rank][k] == (float)(k * size), "called", rank);
		check(!ringup_wait(op[k], -1), "wait", rank);
	}
}

static void of_messages(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct seen s = { 0 };
	struct ringup_op *op;
	int v = rank, got = -1;
	struct ringup_send a = {
		.in = &v, .count = 1, .dtype = RINGUP_I32, .to = (rank + 1) % size
	};
	struct ringup_recv b = {
		.out = &got, .count = 1, .dtype = RINGUP_I32, .from = (rank + size - 1) % size
	};

	check(!ringup_recv(g, &b, &op), "receive", rank);
	check(!ringup_then(op, note, &s), "then", rank);
	check(!ringup_barrier(g, NULL, NULL), "barrier", rank);
	check(!ringup_send(g, &a, NULL), "send", rank);
	check(await(&s.calls, 1) && got == (rank + size - 1) % size, "called", rank);
	check(!ringup_wait(op, 0), "wait", rank);
}

/* Of what fails when the job ends, each callback is called; nobody has waited. */
static void at_the_end(struct ringup *r, int rank, int size)
{
	static struct seen s[RANKS_MAX][3];
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op;
	int got;
	struct ringup_recv b = {
		.out = &got, .count = 1, .dtype = RINGUP_I32, .from = (rank + 1) % size
	};
	static float v[RANKS_MAX][LARGE];
	int i;

	memset(s[rank], 0, sizeof(s[rank]));
	check(!ringup_recv(g, &b, &op) && !ringup_then(op, note, &s[rank][0]), "receive", rank);
	/* Each its own, so that none is ever complete. */
	check(!sum(g, rank ? "a" : "b", v[rank], 1, &op) && !ringup_then(op, note, &s[rank][1]),
	      "small", rank);
	check(!sum(g, rank ? "c" : "d", v[rank], LARGE, &op) &&
		      !ringup_then(op, note, &s[rank][2]),
	      "large", rank);
	reach_stage(size);
	if (rank == 0)
		ringup_abort(r, "had enough");
	else
		for (i = 0; i < 3; i++)
			check(await(&s[rank][i].calls, 1) &&
				      s[rank][i].status == RINGUP_EABORTED &&
				      strstr(s[rank][i].error, "had enough"),
			      "told why", rank);
}

static struct seen last[RANKS_MAX];
static int busy[RANKS_MAX];

static void sleep_a_bit(void *ctx, int status)
{
	(void)status;
	clock_sleep_ms(20);
	__atomic_store_n((int *)ctx, 0, __ATOMIC_SEQ_CST);
}

/* ringup_fini() calls what is left, and returns when all have returned. */
static void with_fini(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	static float v[RANKS_MAX], w[RANKS_MAX];
	struct ringup_op *op;

	memset(&last[rank], 0, sizeof(last[rank]));
	busy[rank] = 1;
	check(!sum(g, "both", &v[rank], 1, &op), "start", rank);
	check(!ringup_wait(op, -1), "wait", rank);
	check(!sum(g, "both", &v[rank], 1, &op), "start", rank);
	check(!ringup_then(op, sleep_a_bit, &busy[rank]), "then", rank);
	check(!ringup_wait(op, -1), "wait", rank);
	check(!sum(g, rank ? "a" : "b", &w[rank], 1, &op), "start", rank);
	check(!ringup_then(op, note, &last[rank]), "then", rank);
	reach_stage(size);
}

static void finis(const char *what, int size)
{
	int i, bad;

	stage = 0;
	run(what, size, with_fini);
	for (i = bad = 0; i < size; i++)
		bad += busy[i] || last[i].calls != 1 || last[i].status != RINGUP_ESHUTDOWN;
	ok(!bad, "%s: all have been called by then", what);
}

static void run_all(const char *where)
{
	printf("# %s\n", where);
	run("callbacks that nobody waits with", 3, unwaited);
	run("callbacks at any time", 2, at_any_time);
	run("callbacks in callbacks", 3, nested);
	run("many callbacks", 3, many);
	run("callbacks of messages", 3, of_messages);
	stage = 0;
	run("callbacks when the job ends", 2, at_the_end);
	finis("callbacks when a rank leaves", 2);
}

int main(void)
{
	run_all("one host");
	setenv("RINGUP_BACKEND", "tcp", 1);
	run_all("each rank a host of its own");
	return tap_done();
}
