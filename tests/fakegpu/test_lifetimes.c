/* test_lifetimes.c - what ends while another thread waits for it or completes it. */
/* needs: waits */
/* tests: src/engine src/backend src/api */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/gpu_ranks.h"

#include <malloc.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "device/gpu.h"
#include "engine/callback.h"
#include "engine/op_state.h"
#include "engine/p2p.h"
#include "engine/stall.h"
#include "rounds.h"

enum { COUNT = 100, LARGE = 200000, LATE_MS = 60000, SLOW_MS = 300, JOBS = 8 };

/* ---- threads of the library that are late ---- */

/* The linker leads the library here.  Its own threads may be made slow, wherever they ask for
 * the time, or where they have completed an operation that has a callback; those of this test
 * are not. */
int64_t __wrap_clock_ns(void);
int64_t __real_clock_ns(void);
void __wrap_callbacks_push(struct callbacks *c, struct callback *one);
void __real_callbacks_push(struct callbacks *c, struct callback *one);
void __wrap_stall_describe(const struct stall *s, struct comm *c, const struct op_late *late,
			   char *out, size_t len);
void __real_stall_describe(const struct stall *s, struct comm *c, const struct op_late *late,
			   char *out, size_t len);
int __wrap_gpu_reached(struct gpu *g, void *event, struct err *e);
int __real_gpu_reached(struct gpu *g, void *event, struct err *e);
void __wrap_p2p_leave(struct p2p *x);
void __real_p2p_leave(struct p2p *x);

static _Thread_local bool is_mine;
static int slow_us, slow_push_us; /* atomic; 0: they are not */

int64_t __wrap_clock_ns(void)
{
	int us = is_mine ? 0 : __atomic_load_n(&slow_us, __ATOMIC_RELAXED);

	if (us)
		usleep((useconds_t)us);
	return __real_clock_ns();
}

void __wrap_callbacks_push(struct callbacks *c, struct callback *one)
{
	int us = is_mine ? 0 : __atomic_load_n(&slow_push_us, __ATOMIC_RELAXED);

	if (us)
		usleep((useconds_t)us);
	__real_callbacks_push(c, one);
}

static void push_slowly(int us)
{
	__atomic_store_n(&slow_push_us, us, __ATOMIC_RELAXED);
}

static void be_slow(int us)
{
	__atomic_store_n(&slow_us, us, __ATOMIC_RELAXED);
}

static bool await(const int *word, int wanted)
{
	int64_t enough = clock_deadline(LATE_MS);

	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) < wanted && clock_ns() < enough)
		usleep(50);
	return __atomic_load_n(word, __ATOMIC_SEQ_CST) >= wanted;
}

/* ---- requests ---- */

static struct ringup_reduce sum_of(const char *name, void *at, uint64_t count, void *stream)
{
	return (struct ringup_reduce){ .bytes = sizeof(struct ringup_reduce),
				       .name = name,
				       .in = at,
				       .out = at,
				       .count = count,
				       .dtype = RINGUP_F32,
				       .memory = stream ? RINGUP_CUDA : RINGUP_HOST,
				       .stream = stream };
}

static int sum(struct ringup_group *g, const char *name, float *v, uint64_t count,
	       struct ringup_op **opp)
{
	struct ringup_reduce a = sum_of(name, v, count, NULL);

	return ringup_allreduce(g, &a, opp);
}

static struct ringup_group *add_group(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = NULL;
	int ranks[RANKS_MAX];

	for (int i = 0; i < size; i++)
		ranks[i] = i;
	check(!ringup_group_add(r, ranks, size, &g), "a group", rank);
	return g;
}

/* ---- what the last error was about ---- */

/* It was late, and is complete and gone, with its group, when somebody asks what it waited for.
 */
static void asked_too_late(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = add_group(r, rank, size);
	struct ringup_op *op = NULL;
	float v = 1;

	is_mine = true;
	if (!rank) {
		check(!sum(g, "late", &v, 1, &op), "start", rank);
		check(ringup_wait(op, 10) == RINGUP_ETIMEDOUT, "is late", rank);
	}
	check(!ringup_barrier(ringup_world(r), "late by now", NULL), "a barrier", rank);
	check(rank ? !sum(g, "late", &v, 1, NULL) : !ringup_wait(op, -1), "complete", rank);
	check(!ringup_group_remove(g), "is removed", rank);
	if (!rank)
		check(!strstr(ringup_explain(), "late"), "there is nothing to say", rank);
}

static void *jobs(void *arg)
{
	struct rank_seat *s = arg;
	struct ringup_init how = {
		.rank = s->rank, .size = s->room->size, .exchange = rank_exchange, .ctx = s
	};
	struct ringup_op *op = NULL;
	struct ringup *r;
	float v = 1;

	is_mine = true;
	for (int i = 0; i < JOBS; i++) {
		bool first = i % 2 == 0;

		r = NULL;
		check(!ringup_init(&how, &r), "join", s->rank);
		if (!s->rank || !first)
			check(!sum(ringup_world(r), first ? "first" : "second", &v, 1, &op),
			      "start", s->rank);
		if (!s->rank && first)
			check(ringup_wait(op, 10) == RINGUP_ETIMEDOUT, "is late", s->rank);
		if (!s->rank && !first)
			check(!strstr(ringup_explain(), "second"), "that was another one",
			      s->rank);
		if (!first)
			check(!ringup_wait(op, -1), "complete", s->rank);
		pthread_barrier_wait(&s->room->barrier);
		ringup_fini(r);
	}
	return NULL;
}

/* An operation of the next job may have the place of one that was late. */
static void next_job(void)
{
	struct rank_room room = { .size = 2 };
	struct rank_seat seat[2];
	pthread_t thread[2];

	wrong = 0;
	(void)mallopt(M_MMAP_THRESHOLD, 1 << 24);
	(void)mallopt(M_ARENA_MAX, 1);
	pthread_barrier_init(&room.barrier, NULL, 2);
	for (int i = 0; i < 2; i++) {
		seat[i] = (struct rank_seat){ &room, i };
		pthread_create(&thread[i], NULL, jobs, &seat[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&room.barrier);
	ok(!wrong, "what was late in the job before");
}

/* ---- children ---- */

/* Something is in flight that a child has no memory of. */
static void forked(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = add_group(r, rank, size);
	struct ringup_op *op = NULL;
	float v = 1;
	pid_t child;
	int status = 0;

	for (int i = 0; i < 3; i++)
		check(!sum(g, "known", &v, 1, NULL), "known by now", rank);
	if (!rank) {
		check(!sum(g, "known", &v, 1, &op), "start", rank);
		child = fork();
		if (!child) {
			alarm(20);
			_exit(ringup_group_remove(g) != RINGUP_ESHUTDOWN);
		}
		check(child > 0 && waitpid(child, &status, 0) == child && !status,
		      "a child cannot remove it", rank);
	}
	check(!ringup_barrier(ringup_world(r), "forked", NULL), "a barrier", rank);
	check(rank ? !sum(g, "known", &v, 1, NULL) : !ringup_wait(op, -1), "complete", rank);
	check(!ringup_group_remove(g), "is removed", rank);
}

static bool describes_slowly; /* atomic */
static int describing;        /* atomic */

void __wrap_stall_describe(const struct stall *s, struct comm *c, const struct op_late *late,
			   char *out, size_t len)
{
	if (__atomic_load_n(&describes_slowly, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&describing, 1, __ATOMIC_SEQ_CST);
		usleep(SLOW_MS * 1000);
	}
	__real_stall_describe(s, c, late, out, len);
}

static void *ask(void *op)
{
	is_mine = true;
	check(ringup_wait(op, 10) == RINGUP_ETIMEDOUT && strstr(ringup_explain(), "asked"),
	      "is late", 0);
	return NULL;
}

static int job_of_its_own(void)
{
	struct ringup_init how = { .rank = 0, .size = 1 };
	struct ringup *r;

	if (ringup_init(&how, &r))
		return 1;
	ringup_fini(r);
	return 0;
}

/* While a thread asks what an operation waits for, a child begins that has a job of its own. */
static void forked_beside(struct ringup *r, int rank, int size)
{
	struct ringup_op *op = NULL;
	pthread_t thread;
	float v = 1;
	pid_t child;
	int status = 0;

	if (!rank) {
		check(!sum(ringup_world(r), "asked", &v, 1, &op), "start", rank);
		__atomic_store_n(&describes_slowly, true, __ATOMIC_SEQ_CST);
		pthread_create(&thread, NULL, ask, op);
		check(await(&describing, 1), "is asked", rank);
		child = ROUNDS_TSAN ? -1 : fork();
		if (!child) {
			alarm(20);
			_exit(job_of_its_own());
		}
		pthread_join(thread, NULL);
		check(child < 0 || (waitpid(child, &status, 0) == child && !status), "a child",
		      rank);
		__atomic_store_n(&describes_slowly, false, __ATOMIC_SEQ_CST);
	}
	check(!ringup_barrier(ringup_world(r), "forked", NULL), "a barrier", rank);
	check(rank ? !sum(ringup_world(r), "asked", &v, 1, NULL) : !ringup_wait(op, -1),
	      "complete", rank);
	(void)size;
}

/* ---- callbacks ---- */

struct seen {
	struct gpu_seat *seat;
	void *at;
	float value;
	int calls, status;
	bool right;
};

static void note(void *ctx, int status)
{
	struct seen *s = ctx;

	is_mine = true;
	s->status = status;
	if (s->seat) {
		(void)s->seat->d->make_current(s->seat->context);
		s->right = gpu_holds(s->seat, s->at, COUNT, s->value);
	}
	__atomic_fetch_add(&s->calls, 1, __ATOMIC_SEQ_CST);
}

/* A callback comes while another thread completes its operation, which has looked for one. */
static void called_late(struct ringup *r, int rank, int size)
{
	struct seen seen = { .value = (float)size };
	struct ringup_op *op = NULL;
	const uint64_t *count;
	struct ringup_reduce a;
	struct gpu_seat s;

	is_mine = true;
	gpu_sit(&s, rank);
	seen.seat = &s;
	seen.at = gpu_new(&s, COUNT * 4);
	a = sum_of("late", seen.at, COUNT, s.stream);
	/* Trace points have a time. */
	check(!ringup_points_keep(r, &count), "trace points", rank);
	check(!ringup_allreduce(ringup_world(r), &a, NULL) && gpu_sync(&s, 20000), "connected",
	      rank);
	for (int i = 0; i < 3; i++) {
		gpu_fill(&s, seen.at, COUNT, 1);
		check(gpu_sync(&s, 20000) && !ringup_barrier(ringup_world(r), "put", NULL),
		      "ready", rank);
		seen.calls = 0;
		be_slow(5000);
		check(!ringup_allreduce(ringup_world(r), &a, &op), "start", rank);
		while (__atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == OP_FLYING)
			;
		usleep(1000);
		check(!ringup_then(op, note, &seen), "then", rank);
		check(await(&seen.calls, 1) && !seen.status, "is called", rank);
		check(seen.right, "its stream has the result", rank);
		check(!ringup_wait(op, -1), "wait", rank);
		be_slow(0);
	}
	gpu_drop(&s, seen.at);
	gpu_stand(&s);
}

/* A rank leaves as soon as all is complete: the callbacks of that are still to be called. */
static void leaves(struct ringup *r, int rank, int size)
{
	static struct seen seen[RANKS_MAX];
	static float v[RANKS_MAX][LARGE];
	struct ringup_op *op = NULL;

	is_mine = true;
	seen[rank] = (struct seen){ 0 };
	check(!sum(ringup_world(r), "large", v[rank], LARGE, NULL), "known by now", rank);
	check(!sum(ringup_world(r), "large", v[rank], LARGE, &op), "start", rank);
	push_slowly(SLOW_MS * 1000);
	check(!ringup_then(op, note, &seen[rank]), "then", rank);
	while (__atomic_load_n(&op->state, __ATOMIC_ACQUIRE) != OP_DONE)
		usleep(50);
	check(!ringup_wait(op, -1), "complete", rank);
	(void)size;
}

static _Thread_local struct ringup_op *last_wanted;
static int leaving; /* atomic */

/* A rank has said that it leaves, and what its message waits for comes just then. */
void __wrap_p2p_leave(struct p2p *x)
{
	int64_t enough = clock_deadline(SLOW_MS);

	if (last_wanted) {
		__atomic_store_n(&leaving, 1, __ATOMIC_SEQ_CST);
		while (!op_is_done(last_wanted) && clock_ns() < enough)
			usleep(50);
	}
	__real_p2p_leave(x);
}

/* The same, with a message that nobody waits for. */
static void leaves_message(struct ringup *r, int rank, int size)
{
	static struct seen seen;
	static float v[2];
	struct ringup_send a = { .in = &v[0], .count = 1, .dtype = RINGUP_F32, .to = 0 };
	struct ringup_recv b = { .out = &v[1], .count = 1, .dtype = RINGUP_F32, .from = 1 };

	(void)size;
	is_mine = true;
	push_slowly(SLOW_MS * 1000);
	if (!rank)
		check(!ringup_recv(ringup_world(r), &b, &last_wanted) &&
			      !ringup_then(last_wanted, note, &seen),
		      "receive", rank);
	check(!ringup_barrier(ringup_world(r), "posted", NULL), "a barrier", rank);
	if (rank)
		check(await(&leaving, 1) && !ringup_send(ringup_world(r), &a, NULL), "send",
		      rank);
}

/* ---- groups that end ---- */

/* A group is aborted and removed before its sum has run; then somebody waits for that. */
static void given_up(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = add_group(r, rank, size);
	struct ringup_op *op = NULL, *many = NULL;
	struct ringup_reduce a, b[2];
	struct seen seen = { 0 };
	struct gpu_seat s;
	int64_t enough = clock_deadline(LATE_MS);

	is_mine = true;
	gpu_sit(&s, rank);
	a = sum_of("given up", gpu_new(&s, COUNT * 4), COUNT, s.stream);
	for (int i = 0; i < 2; i++)
		b[i] = sum_of("given up, too", gpu_new(&s, COUNT * 4), COUNT, s.stream);
	check(!ringup_allreduce(g, &a, NULL) && gpu_sync(&s, 20000), "the group works", rank);
	check(!ringup_barrier(ringup_world(r), "works", NULL), "a barrier", rank);
	check(!ringup_allreduce(g, &a, &op) && !ringup_allreduce_many(g, b, 2, &many),
	      "are queued", rank);
	while ((!ringup_poll(op) || !ringup_poll(many)) && clock_ns() < enough)
		usleep(100);
	check(!ringup_barrier(ringup_world(r), "queued", NULL), "on all ranks", rank);
	check(rank || !ringup_group_abort(g), "an abort", rank);
	while (!ringup_group_error(g))
		usleep(100);
	check(!ringup_group_remove(g), "is removed", rank);
	check(!ringup_then(many, note, &seen), "then", rank);
	check(ringup_wait(op, -1) == RINGUP_EABORTED && strstr(ringup_error(), "'given up'"),
	      "says what has no result", rank);
	check(ringup_wait(many, -1) == RINGUP_EABORTED &&
		      strstr(ringup_error(), "grouped allreduce 'given up, too'"),
	      "and so do many", rank);
	check(await(&seen.calls, 1) && seen.status == RINGUP_EABORTED, "and a callback", rank);
	gpu_drop(&s, a.out);
	gpu_drop(&s, b[0].out);
	gpu_drop(&s, b[1].out);
	gpu_stand(&s);
}

static int slow_reach_us; /* atomic */

int __wrap_gpu_reached(struct gpu *g, void *event, struct err *e)
{
	int us = __atomic_load_n(&slow_reach_us, __ATOMIC_SEQ_CST);

	if (us)
		usleep((useconds_t)us);
	return __real_gpu_reached(g, event, e);
}

/* The driver takes longer to say whether a sum has run than the end of its group waits. */
static void given_up_in_look(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = add_group(r, rank, size);
	struct ringup_op *op = NULL;
	struct ringup_reduce a;
	struct gpu_seat s;
	int rc;

	is_mine = true;
	gpu_sit(&s, rank);
	a = sum_of("never there", gpu_new(&s, COUNT * 4), COUNT, s.stream);
	check(!ringup_allreduce(g, &a, NULL) && gpu_sync(&s, 20000), "the group works", rank);
	check(!ringup_barrier(ringup_world(r), "works", NULL), "a barrier", rank);
	__atomic_store_n(&slow_reach_us, 2 * SLOW_MS * 1000, __ATOMIC_SEQ_CST);
	check(!ringup_allreduce(g, &a, &op), "start", rank);
	while (!ringup_poll(op))
		usleep(100);
	check(!ringup_barrier(ringup_world(r), "queued", NULL), "on all ranks", rank);
	usleep(50000);
	check(!ringup_group_abort(g), "an abort", rank);
	check(!ringup_barrier(ringup_world(r), "aborted", NULL), "on all ranks", rank);
	usleep(3 * SLOW_MS * 1000);
	__atomic_store_n(&slow_reach_us, 0, __ATOMIC_SEQ_CST);
	rc = ringup_wait(op, -1);
	check(rc == RINGUP_EABORTED, "there is no result", rank);
	check(!ringup_group_remove(g), "is removed", rank);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

struct connecting {
	struct ringup_group *g;
	void *at;
	int rank;
};

static void *connect(void *arg)
{
	struct connecting *x = arg;
	struct ringup_reduce a;
	struct gpu_seat s;

	is_mine = true;
	gpu_sit(&s, x->rank);
	a = sum_of("connects", x->at, COUNT, s.stream);
	check(ringup_allreduce(x->g, &a, NULL) == RINGUP_EABORTED, "is aborted", x->rank);
	gpu_stand(&s);
	return NULL;
}

static int look_us; /* how long it looks */

/* A group is aborted while the thread that connects it looks at another one. */
static void aborted_beside(struct ringup *r, int rank, int size)
{
	static const int two[] = { 0, 1 };
	struct ringup_group *all = add_group(r, rank, size), *pair = NULL;
	struct connecting x = { .g = all, .rank = rank };
	struct ringup_reduce a;
	struct gpu_seat s;
	pthread_t thread;

	is_mine = true;
	gpu_sit(&s, rank);
	check(!ringup_group_add(r, two, 2, &pair), "two ranks", rank);
	x.at = gpu_new(&s, COUNT * 4);
	a = sum_of("pair", gpu_new(&s, COUNT * 4), COUNT, s.stream);
	gpu_fill(&s, a.out, COUNT, 1);
	check(rank > 1 || (!ringup_allreduce(pair, &a, NULL) && gpu_holds(&s, a.out, COUNT, 2)),
	      "two ranks work", rank);
	check(!ringup_barrier(ringup_world(r), "works", NULL), "a barrier", rank);
	pthread_create(&thread, NULL, connect, &x);
	usleep(100000);
	be_slow(look_us);
	usleep((useconds_t)look_us + 100000 + 7000 * (useconds_t)rank);
	check(!ringup_group_abort(all), "an abort", rank);
	pthread_join(thread, NULL);
	be_slow(0);
	check(!ringup_group_remove(all) && !ringup_group_remove(pair), "are removed", rank);
	gpu_drop(&s, x.at);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

/* ---- everything at random ---- */

/* How somebody hears of an operation. */
enum how { WAITS, POLLS, SLICES, CALLED, CALLED_LATE, LEFT, HOWS };

/* What happens meanwhile. */
enum event { REMOVED, ABORTED, JOB_ABORTED, FORKED, NOTHING, EVENTS };

enum { ITEMS = 5, ROUNDS = 4 };

struct item {
	enum how how;
	unsigned seed;
	struct ringup_op *op, *sent;
	struct gpu_seat *near; /* the stream that it was started on; NULL: host memory */
	void *at[2];
	float value;
	int parts, rank, polled;
	uint64_t count;
	bool may_fail;
	struct seen seen;
	pthread_t thread;
};

static unsigned draw(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245 + 12345;
	return *seed / 65536 % n;
}

static void idle(unsigned *seed, unsigned us)
{
	if (draw(seed, 2))
		usleep(draw(seed, us));
}

static void item_call(void *ctx, int status)
{
	struct item *x = ctx;

	is_mine = true;
	x->seen.status = status;
	if (x->near && !status) {
		(void)x->near->d->make_current(x->near->context);
		x->seen.right = gpu_holds(x->near, x->at[0], COUNT, x->value);
	} else if (!status) {
		x->seen.right = *(float *)x->at[0] == x->value;
	}
	__atomic_fetch_add(&x->seen.calls, 1, __ATOMIC_SEQ_CST);
}

static bool is_right(struct item *x, struct gpu_seat *s)
{
	const float *host = x->at[0];

	for (int i = 0; i < x->parts && x->near; i++)
		if (!gpu_holds(s, x->at[i], COUNT, x->value))
			return false;
	for (uint64_t i = 0; i < x->count && !x->near; i++)
		if (host[i] != x->value)
			return false;
	return true;
}

static void item_end(struct item *x, struct gpu_seat *s)
{
	int rc;

	/* Of a stream of this thread's own. */
	if (x->near)
		check(!ringup_result_stream(x->op, s->stream), "a stream", x->rank);
	if (x->how == SLICES)
		while ((rc = ringup_wait_on(x->op, draw(&x->seed, 2))) == RINGUP_ETIMEDOUT)
			check(*ringup_explain(), "it is explained", x->rank);
	else
		rc = ringup_wait(x->op, -1);
	check(!rc || (x->may_fail && rc == RINGUP_EABORTED), "it ends", x->rank);
	check(!x->sent || !ringup_wait(x->sent, -1) || x->may_fail, "it is sent", x->rank);
	check(rc || x->may_fail || is_right(x, s), "its result is right", x->rank);
	if (x->how != CALLED && x->how != CALLED_LATE)
		return;
	check(await(&x->seen.calls, 1), "it is called", x->rank);
	check(x->may_fail || (!x->seen.status && x->seen.right), "with the result", x->rank);
}

static void *item_main(void *arg)
{
	struct item *x = arg;
	struct gpu_seat s;

	is_mine = true;
	gpu_sit(&s, x->rank);
	idle(&x->seed, 2000);
	if (x->how == CALLED || x->how == CALLED_LATE)
		check(!ringup_then(x->op, item_call, x), "then", x->rank);
	if (x->how == CALLED_LATE)
		idle(&x->seed, 4000);
	while (x->how == POLLS && !ringup_poll(x->op))
		idle(&x->seed, 100);
	item_end(x, &s);
	gpu_stand(&s);
	return NULL;
}

/* From each rank to the next one. */
static int item_send(struct item *x, struct ringup_group *g, int i)
{
	int me = ringup_rank(g), size = ringup_size(g);
	struct ringup_send a = { .in = x->at[1],
				 .count = x->count,
				 .dtype = RINGUP_F32,
				 .to = (me + 1) % size,
				 .tag = i };
	struct ringup_recv b = { .out = x->at[0],
				 .count = x->count,
				 .dtype = RINGUP_F32,
				 .from = (me + size - 1) % size,
				 .tag = i };
	int rc;

	*(float *)x->at[0] = 0;
	rc = ringup_recv(g, &b, &x->op);
	return rc ? rc : ringup_send(g, &a, &x->sent);
}

/* The ranks draw the same here. */
static int item_start(struct item *x, struct ringup_group *g, struct gpu_seat *s, int i,
		      unsigned *seed)
{
	static const uint64_t counts[] = { 1, COUNT, LARGE };
	int kind = (int)draw(seed, 6), size = ringup_size(g);
	bool far = kind < 2 || kind == 5;
	struct ringup_reduce a[2];
	char name[16];

	/* Of the last kind, one rank has its data in the host's memory. */
	x->near = far && (kind < 2 || x->rank) ? s : NULL;
	x->parts = 1 + (kind == 1 || kind == 4);
	x->count = far ? COUNT : counts[draw(seed, 3)];
	x->value = kind != 4 ? (float)size : 1;
	snprintf(name, sizeof(name), "item %d", i);
	for (int k = 0; k < x->parts; k++) {
		x->at[k] = x->near ? gpu_new(s, COUNT * 4) : malloc(x->count * sizeof(float));
		if (x->near)
			gpu_fill(s, x->at[k], COUNT, 1);
		for (uint64_t j = 0; j < x->count && !x->near; j++)
			((float *)x->at[k])[j] = 1;
		a[k] = sum_of(name, x->at[k], x->count, x->near ? s->stream : NULL);
	}
	if (kind == 4)
		return item_send(x, g, i);
	return kind == 1 ? ringup_allreduce_many(g, a, 2, &x->op)
			 : ringup_allreduce(g, a, &x->op);
}

static void item_free(struct item *x)
{
	for (int k = 0; k < x->parts; k++)
		if (x->near)
			gpu_drop(x->near, x->at[k]);
		else
			free(x->at[k]);
}

/* A child of a rank can do nothing, and nothing happens to it. */
static void fork_one(struct ringup_group *g, const struct item *x, int rank)
{
	int status = 0;
	pid_t child = ROUNDS_TSAN ? -1 : fork();

	if (!child) {
		alarm(20);
		(void)ringup_explain();
		_exit(ringup_wait(x->op, -1) != RINGUP_ESHUTDOWN || ringup_poll(x->op) != 1 ||
		      ringup_then(x->op, note, NULL) != RINGUP_ESHUTDOWN ||
		      ringup_group_error(g) != RINGUP_ESHUTDOWN ||
		      ringup_group_abort(g) != RINGUP_ESHUTDOWN ||
		      ringup_group_remove(g) != RINGUP_ESHUTDOWN);
	}
	check(child < 0 || (waitpid(child, &status, 0) == child && !status), "a child", rank);
}

static unsigned first_seed;

/* Returns false when the job has ended. */
static bool one_round(struct ringup *r, int rank, int size, unsigned seed)
{
	enum event event = (enum event)draw(&seed, EVENTS);
	int by = (int)draw(&seed, (unsigned)size), rc;
	unsigned mine = seed + 77 * (unsigned)rank + 1;
	struct ringup_group *g = add_group(r, rank, size), *in;
	struct item item[ITEMS];
	struct gpu_seat s;

	gpu_sit(&s, rank);
	memset(item, 0, sizeof(item));
	be_slow((int)draw(&seed, 3) * 100);
	push_slowly((int)draw(&seed, 2) * 1000);
	for (int i = 0; i < ITEMS; i++) {
		/* What ends one group is nothing to the others. */
		in = draw(&seed, 4) ? g : ringup_world(r);
		item[i].may_fail = event == JOB_ABORTED || (event == ABORTED && in == g);
		item[i].rank = rank;
		item[i].how = (enum how)draw(&mine, HOWS);
		item[i].seed = mine + 1000 * (unsigned)i;
		check(!item_start(&item[i], in, &s, i, &seed), "start", rank);
		if (item[i].how != LEFT)
			pthread_create(&item[i].thread, NULL, item_main, &item[i]);
		else if (draw(&mine, 2))
			item[i].polled = ringup_poll(item[i].op);
	}
	/* Else some could not be started. */
	if (event == ABORTED || event == JOB_ABORTED)
		check(!ringup_barrier(ringup_world(r), "started", NULL) || event == JOB_ABORTED,
		      "all are here", rank);
	idle(&mine, 8000);
	if (event == FORKED && item[0].how == LEFT)
		fork_one(g, &item[0], rank);
	if (event == ABORTED && rank == by)
		check(!ringup_group_abort(g), "an abort", rank);
	if (event == JOB_ABORTED && rank == by)
		ringup_abort(r, "by lot");
	do
		rc = event == NOTHING ? 0 : ringup_group_remove(g);
	while (rc == RINGUP_EBUSY);
	check(!rc || event == JOB_ABORTED, "the group goes", rank);
	for (int i = 0; i < ITEMS; i++)
		if (item[i].how == LEFT)
			item_end(&item[i], &s);
		else
			pthread_join(item[i].thread, NULL);
	for (int i = 0; i < ITEMS; i++)
		item_free(&item[i]);
	be_slow(0);
	push_slowly(0);
	gpu_stand(&s);
	return event != JOB_ABORTED;
}

static void at_random(struct ringup *r, int rank, int size)
{
	bool goes_on = true;

	is_mine = true;
	for (unsigned i = 0; i < ROUNDS && goes_on; i++)
		goes_on = one_round(r, rank, size, first_seed * 1000 + i);
}

static void many_jobs(void)
{
	const char *asked = getenv("RINGUP_TEST_SEED");
	int64_t enough = clock_deadline(rounds_are_long() ? 60000 : 2000);
	int bad = 0, jobs = 0;

	wrong = 0;
	first_seed = asked ? (unsigned)atoi(asked) : 1;
	do {
		alarm(250);
		bad += ranks_run(2 + (int)(first_seed % 2), at_random);
		if (wrong || bad)
			break;
		first_seed++;
		jobs++;
	} while (!asked && clock_ns() < enough);
	ok(!wrong && !bad, "%d jobs at random; RINGUP_TEST_SEED=%u", jobs, first_seed);
}

/* A GPU that was given up with its job is closed with the next one. */
static void works(struct ringup *r, int rank, int size)
{
	struct ringup_reduce a;
	struct gpu_seat s;

	gpu_sit(&s, rank);
	a = sum_of("works", gpu_new(&s, COUNT * 4), COUNT, s.stream);
	gpu_fill(&s, a.out, COUNT, 1);
	check(!ringup_allreduce(ringup_world(r), &a, NULL) &&
		      gpu_holds(&s, a.out, COUNT, (float)size),
	      "works", rank);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

int main(int argc, char **argv)
{
	(void)argc;
	gpu_main(argv);
	is_mine = true;
	setenv("RINGUP_DEVICE_MS", "0", 1);
	run("what was late is gone with its group", 2, asked_too_late);
	next_job();
	run("a child of a rank removes a group", 2, forked);
	run("a child begins while a thread asks", 2, forked_beside);
	run("ranks leave while a callback is queued", 2, leaves);
	run("and while that of a message is", 2, leaves_message);
	push_slowly(0);
	setenv("FAKE_NCCL", "hang=1@2", 1);
	run("results that were given up, of a group that is gone", 3, given_up);
	run("a result that is given up while the driver is slow", 2, given_up_in_look);
	setenv("FAKE_NCCL", "late=1:100", 1);
	run("a callback comes while its operation is completed", 2, called_late);
	setenv("FAKE_NCCL", "init_hang=2", 1);
	look_us = 20000;
	run("a group is aborted while its thread looks at another", 3, aborted_beside);
	look_us = 500000; /* longer than the end waits for it */
	run("the same for long", 3, aborted_beside);
	setenv("FAKE_NCCL", "late=1:3", 1);
	many_jobs();
	unsetenv("FAKE_NCCL");
	run("a job without a fault", 3, works);
	ok(gpu_nothing_left(), "nothing is left on the GPU");
	return tap_done();
}
