/* test_tcp.c - rings over sockets: ranks are threads, results are known in advance. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/err.h"
#include "coll/reduce.h"
#include "tap.h"
#include "wire/mesh.h"

extern const struct backend backend_tcp;

enum { MAX_RANKS = 8, MAX_PIECES = 5, PLANS = 40 };

static uint32_t abort_word;

/* What all ranks know about one plan; the rest follows from it. */
struct task {
	struct plan p;
	uint64_t counts[MAX_RANKS]; /* allgather: of each rank; else of each piece */
	bool in_place;
	unsigned int seed;
};

struct rank {
	pthread_t thread;
	int rank, size;
	int prev, next; /* sockets */
	const struct task *tasks;
	int count;
	int rc, wrong;
	struct err e;
};

/* Small whole numbers, so that sums do not depend on their order. */
static double value(const struct task *t, int rank, uint64_t i)
{
	int v = (int)((i * 7 + (uint64_t)rank * 13 + t->seed) % 17) - 8;

	if (t->p.redop == RINGUP_PRODUCT)
		v = v % 3;
	return t->p.dtype == RINGUP_U8 && v < 0 ? -v : v;
}

static void put(enum ringup_dtype t, void *at, uint64_t i, double x)
{
	float f;

	switch (t) {
	case RINGUP_U8:
	case RINGUP_I8:
		((uint8_t *)at)[i] = (uint8_t)(int64_t)x;
		break;
	case RINGUP_I32:
		((int32_t *)at)[i] = (int32_t)x;
		break;
	case RINGUP_I64:
		((int64_t *)at)[i] = (int64_t)x;
		break;
	case RINGUP_F16:
	case RINGUP_BF16: /* whose conversion has tests of its own */
		f = (float)x;
		reduce_narrow(t, (uint16_t *)at + i, &f, 1);
		break;
	case RINGUP_F32:
		((float *)at)[i] = (float)x;
		break;
	default:
		((double *)at)[i] = x;
	}
}

static bool is_integer(enum ringup_dtype t)
{
	return t <= RINGUP_I64;
}

/* Wrapped to the type, since integers do. */
static double wrapped(enum ringup_dtype t, double x)
{
	return t == RINGUP_U8 ? (uint8_t)(int64_t)x : t == RINGUP_I8 ? (int8_t)(int64_t)x : x;
}

static double result(const struct task *t, int size, uint64_t i)
{
	double r = value(t, 0, i) * t->p.pre;
	int k;

	for (k = 1; k < size; k++) {
		double x = value(t, k, i) * t->p.pre;

		switch (t->p.redop) {
		case RINGUP_MIN:
			r = x < r ? x : r;
			break;
		case RINGUP_MAX:
			r = x > r ? x : r;
			break;
		case RINGUP_PRODUCT:
			r *= x;
			break;
		default:
			r += x;
		}
	}
	r = wrapped(t->p.dtype, r);
	if (t->p.redop == RINGUP_AVERAGE)
		r = is_integer(t->p.dtype) ? trunc(r / size) : r / size;
	if (t->p.redop == RINGUP_AVERAGE && t->p.dtype != RINGUP_F64)
		r = (float)r;
	return r * t->p.post;
}

static int differs(const struct task *t, const void *got, const void *want, uint64_t count)
{
	return memcmp(got, want, count * reduce_dtype_bytes(t->p.dtype)) != 0;
}

/* Room for one element more, so that nothing is empty for malloc(). */
static void *room(const struct task *t, uint64_t count)
{
	return calloc(count + 1, reduce_dtype_bytes(t->p.dtype));
}

static int finish(struct rank *r, void *me, const struct plan *p)
{
	int64_t deadline = clock_deadline(60000);
	int rc = backend_tcp.start(me, p, &r->e);

	while (rc == 0) {
		rc = backend_tcp.step(me, &r->e);
		if (rc == 0 && clock_ns() > deadline)
			rc = fail(&r->e, RINGUP_ETIMEDOUT, "a minute");
		else if (rc == 0)
			backend_tcp.block(me, deadline);
	}
	return rc;
}

static int allreduce(struct rank *r, void *me, const struct task *t)
{
	struct piece piece[MAX_PIECES];
	struct plan p = t->p;
	void *want[MAX_PIECES];
	uint64_t at = 0, j;
	int i, rc, wrong = 0;

	for (i = 0; i < p.pieces; i++) {
		uint64_t count = t->counts[i];
		void *in = room(t, count), *out = t->in_place ? in : room(t, count);

		want[i] = room(t, count);
		for (j = 0; j < count; j++) {
			put(p.dtype, in, j, value(t, r->rank, at + j));
			put(p.dtype, want[i], j, result(t, r->size, at + j));
		}
		piece[i] = (struct piece){ in, out, count };
		at += count;
	}
	p.piece = piece;
	p.count = at;
	rc = finish(r, me, &p);
	for (i = 0; i < p.pieces; i++) {
		wrong |= differs(t, piece[i].out, want[i], piece[i].count);
		if (!t->in_place)
			free(piece[i].out);
		free((void *)(uintptr_t)piece[i].in);
		free(want[i]);
	}
	r->wrong |= wrong;
	return rc;
}

static int broadcast(struct rank *r, void *me, const struct task *t)
{
	uint64_t count = t->counts[0], j;
	void *in = room(t, count), *out = room(t, count), *want = room(t, count);
	bool is_root = r->rank == t->p.root;
	struct piece piece = { is_root ? in : NULL, out, count };
	struct plan p = t->p;
	int rc;

	for (j = 0; j < count; j++) {
		put(p.dtype, in, j, value(t, p.root, j));
		put(p.dtype, want, j, value(t, p.root, j));
	}
	if (is_root && t->in_place)
		piece.out = in;
	p.piece = &piece;
	p.count = count;
	rc = finish(r, me, &p);
	r->wrong |= differs(t, piece.out, want, count);
	free(in);
	free(out);
	free(want);
	return rc;
}

static int allgather(struct rank *r, void *me, const struct task *t)
{
	uint64_t total = 0, j;
	size_t size = reduce_dtype_bytes(t->p.dtype);
	struct plan p = t->p;
	struct piece piece;
	void *in, *out, *want;
	uint64_t mine = 0;
	int i, rc;

	for (i = 0; i < r->size; i++) {
		mine = i == r->rank ? total : mine;
		total += t->counts[i];
	}
	in = room(t, t->counts[r->rank]);
	out = room(t, total);
	want = room(t, total);
	for (total = 0, i = 0; i < r->size; i++)
		for (j = 0; j < t->counts[i]; j++)
			put(p.dtype, want, total++, value(t, i, j));
	if (t->in_place) {
		free(in);
		in = (unsigned char *)out + mine * size;
	}
	for (j = 0; j < t->counts[r->rank]; j++)
		put(p.dtype, in, j, value(t, r->rank, j));
	piece = (struct piece){ in, out, t->counts[r->rank] };
	p.piece = &piece;
	p.count = piece.count;
	p.counts = t->counts;
	rc = finish(r, me, &p);
	r->wrong |= differs(t, out, want, total);
	if (!t->in_place)
		free(in);
	free(out);
	free(want);
	return rc;
}

static int run_task(struct rank *r, void *me, const struct task *t)
{
	switch (t->p.kind) {
	case PLAN_ALLREDUCE:
		return allreduce(r, me, t);
	case PLAN_BROADCAST:
		return broadcast(r, me, t);
	case PLAN_ALLGATHER:
		return allgather(r, me, t);
	default:
		return finish(r, me, &t->p);
	}
}

static void leave(struct rank *r)
{
	if (r->size > 1 && r->next >= 0) {
		close(r->prev);
		close(r->next);
	}
	r->prev = r->next = -1;
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	struct mesh m = { r->rank, r->size, r->prev, r->next, NULL };
	struct team team = {
		.rank = r->rank, .size = r->size, .hosts = 1, .mesh = &m, .abort = &abort_word
	};
	void *me = calloc(1, backend_tcp.size);
	int i;

	r->rc = backend_tcp.open(me, &team, &r->e);
	for (i = 0; i < r->count && r->rc >= 0 && !r->wrong; i++) {
		r->rc = run_task(r, me, &r->tasks[i]);
		if (r->wrong || r->rc < 0)
			printf("# rank %d of %d: plan %d (kind %d, %s, %s) %s\n", r->rank,
			       r->size, i, r->tasks[i].p.kind,
			       reduce_dtype_name(r->tasks[i].p.dtype),
			       reduce_redop_name(r->tasks[i].p.redop), r->e.text);
	}
	backend_tcp.close(me);
	free(me);
	if (!r->count)
		leave(r);
	return NULL;
}

/* A ring of socket pairs; a small buffer makes for many partial sends. */
static void connect_ring(struct rank *r, int n, int buffer)
{
	int i, pair[2];

	memset(r, 0, (size_t)n * sizeof(*r));
	for (i = 0; i < n; i++) {
		r[i].rank = i;
		r[i].size = n;
		if (n == 1 ||
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
			continue;
		if (buffer)
			setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
		r[i].next = pair[0];
		r[(i + 1) % n].prev = pair[1];
	}
}

static void start_all(struct rank *r, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (pthread_create(&r[i].thread, NULL, run_rank, &r[i]))
			exit(99);
}

/* They keep their connections until the last one is done, so that nobody is blamed
 * for having failed himself. */
static void join_all(struct rank *r, int n)
{
	int i;

	for (i = 0; i < n; i++)
		pthread_join(r[i].thread, NULL);
	for (i = 0; i < n; i++)
		leave(&r[i]);
}

static bool all_good(struct rank *r, int n, const struct task *tasks, int count, int buffer)
{
	bool good = true;
	int i;

	connect_ring(r, n, buffer);
	for (i = 0; i < n; i++) {
		r[i].tasks = tasks;
		r[i].count = count;
	}
	start_all(r, n);
	join_all(r, n);
	for (i = 0; i < n; i++)
		good &= r[i].rc == 1 && !r[i].wrong;
	return good;
}

static struct task random_task(int n)
{
	static const double scales[] = { 1, 1, 0.5, 2 };
	struct task t = { .p = { .pre = 1, .post = 1, .pieces = 1 },
			  .seed = (unsigned int)rand() };
	int i;

	t.p.kind = (enum plan_kind)(rand() % 6 < 3 ? PLAN_ALLREDUCE : rand() % 4);
	t.p.dtype = (enum ringup_dtype)(rand() % RINGUP_DTYPE_COUNT);
	t.in_place = rand() % 2;
	for (i = 0; i < MAX_RANKS; i++)
		t.counts[i] = (uint64_t)(rand() % 3 ? rand() % 12 : rand() % 3000);
	if (t.p.kind == PLAN_ALLREDUCE) {
		t.p.redop = (enum ringup_redop)(rand() % REDUCE_OPS);
		t.p.pieces = 1 + rand() % MAX_PIECES;
		if (!is_integer(t.p.dtype)) {
			t.p.pre = scales[rand() % 4];
			t.p.post = scales[rand() % 4];
		}
	} else if (t.p.kind == PLAN_BROADCAST) {
		t.p.root = rand() % n;
	} else if (t.p.kind == PLAN_BARRIER) {
		t.p.pieces = 0;
	}
	return t;
}

static void random_plans(void)
{
	struct task tasks[PLANS];
	struct rank r[MAX_RANKS];
	int n, i, round;

	for (n = 1; n <= MAX_RANKS; n++) {
		bool good = true;

		for (round = 0; round < 3; round++) {
			for (i = 0; i < PLANS; i++)
				tasks[i] = random_task(n);
			good &= all_good(r, n, tasks, PLANS, round ? 0 : 4096);
		}
		ok(good, "%d ranks: %d plans of all kinds, one after the other", n, 3 * PLANS);
	}
}

static void each_combination(void)
{
	struct task tasks[RINGUP_DTYPE_COUNT * REDUCE_OPS];
	struct rank r[MAX_RANKS];
	int t, op, k = 0;

	for (t = 0; t < RINGUP_DTYPE_COUNT; t++)
		for (op = 0; op < REDUCE_OPS; op++)
			tasks[k++] = (struct task){
				.p = { PLAN_ALLREDUCE, (enum ringup_dtype)t,
				       (enum ringup_redop)op, 1, 1, 0, NULL, 2, 0, NULL },
				.counts = { 1, 997 },
				.seed = 5,
			};
	ok(all_good(r, 2, tasks, k, 0), "2 ranks, every type and operation");
	ok(all_good(r, 3, tasks, k, 0), "3 ranks, every type and operation");
}

static void large(void)
{
	static const struct {
		enum ringup_dtype dtype;
		uint64_t count;
		int ranks;
	} rows[] = { { RINGUP_F32, 2 << 20, 2 },
		     { RINGUP_F32, (2 << 20) + 1, 4 },
		     { RINGUP_F16, (4 << 20) + 70001, 3 },
		     { RINGUP_BF16, 8 << 20, 2 } };
	struct rank r[MAX_RANKS];
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct task tasks[3] = { { .p = { PLAN_ALLREDUCE, rows[i].dtype, RINGUP_AVERAGE,
						  1, 1, 0, NULL, 1, 0, NULL },
					   .counts = { rows[i].count } },
					 { .p = { PLAN_BROADCAST, rows[i].dtype, RINGUP_SUM, 1,
						  1, 1, NULL, 1, 0, NULL },
					   .counts = { rows[i].count } },
					 { .p = { PLAN_ALLGATHER, rows[i].dtype, RINGUP_SUM, 1,
						  1, 0, NULL, 1, 0, NULL },
					   .counts = { rows[i].count, 1, 0, 70000 } } };

		ok(all_good(r, rows[i].ranks, tasks, 3, 0), "%d ranks, %llu x %s",
		   rows[i].ranks, (unsigned long long)rows[i].count,
		   reduce_dtype_name(rows[i].dtype));
	}
}

/* Numbers whose sum depends on the order: all ranks must still have the same bits. */
static void same_bits(void)
{
	enum { N = 3, COUNT = 1000 };
	static float data[N][COUNT];
	struct rank r[N];
	void *me[N];
	struct mesh m[N];
	struct team team[N];
	struct piece piece[N];
	struct plan p[N];
	struct err e = { 0 };
	int64_t deadline = clock_deadline(20000);
	int i, j, done = 0, left[N];

	connect_ring(r, N, 0);
	for (i = 0; i < N; i++) {
		for (j = 0; j < COUNT; j++)
			data[i][j] = (float)rand() / 1e3f - 1e6f;
		m[i] = (struct mesh){ i, N, r[i].prev, r[i].next, NULL };
		team[i] = (struct team){
			.rank = i, .size = N, .hosts = 1, .mesh = &m[i], .abort = &abort_word
		};
		piece[i] = (struct piece){ data[i], data[i], COUNT };
		p[i] = (struct plan){ .kind = PLAN_ALLREDUCE,
				      .dtype = RINGUP_F32,
				      .pre = 1,
				      .post = 1,
				      .piece = &piece[i],
				      .pieces = 1,
				      .count = COUNT };
		me[i] = calloc(1, backend_tcp.size);
		left[i] = 1;
		if (backend_tcp.open(me[i], &team[i], &e) ||
		    backend_tcp.start(me[i], &p[i], &e))
			left[i] = 0;
	}
	/* All ranks in one thread: step() must never block. */
	while (done < N && clock_ns() < deadline)
		for (i = 0; i < N; i++)
			if (left[i] && backend_tcp.step(me[i], &e)) {
				left[i] = 0;
				done++;
			}
	ok(done == N && !memcmp(data[0], data[1], sizeof(data[0])) &&
		   !memcmp(data[0], data[2], sizeof(data[0])),
	   "all ranks hold equal bits, and step() does not block");
	for (i = 0; i < N; i++) {
		backend_tcp.close(me[i]);
		close(r[i].prev);
		close(r[i].next);
		free(me[i]);
	}
}

static void closed_neighbour(void)
{
	struct task t = { .p = { PLAN_ALLREDUCE, RINGUP_F32, RINGUP_SUM, 1, 1, 0, NULL, 1, 0,
				 NULL },
			  .counts = { 1 << 20 } };
	struct rank r[3];
	int i;

	connect_ring(r, 3, 0);
	for (i = 0; i < 3; i++) {
		r[i].tasks = &t;
		r[i].count = i == 1 ? 0 : 1; /* rank 1 leaves at once */
	}
	start_all(r, 3);
	join_all(r, 3);
	ok(r[0].rc == RINGUP_EPEER && strstr(r[0].e.text, "rank 1"), "the rank before it: %s",
	   r[0].e.text);
	ok(r[2].rc == RINGUP_EPEER && strstr(r[2].e.text, "rank 1"), "the rank after it: %s",
	   r[2].e.text);
}

static void disagreement(void)
{
	struct task a = { .p = { PLAN_ALLREDUCE, RINGUP_F32, RINGUP_SUM, 1, 1, 0, NULL, 1, 0,
				 NULL },
			  .counts = { 100 } };
	struct task b[2] = { a, a };
	struct rank r[2];
	int i, mismatches = 0;

	b[0].p.dtype = RINGUP_I32;
	connect_ring(r, 2, 0);
	r[0].tasks = &a;
	r[1].tasks = b;
	r[0].count = r[1].count = 1;
	start_all(r, 2);
	join_all(r, 2);
	for (i = 0; i < 2; i++) {
		mismatches += r[i].rc == RINGUP_EMISMATCH;
		ok(r[i].rc == RINGUP_EMISMATCH || r[i].rc == RINGUP_EPEER, "%s", r[i].e.text);
	}
	ok(mismatches > 0, "a disagreement is found, not summed");
}

static void abort_wakes(void)
{
	struct piece piece = { NULL, NULL, 0 };
	struct plan p = { .kind = PLAN_BARRIER, .pre = 1, .post = 1, .piece = &piece };
	struct rank r[2];
	struct mesh m;
	struct team team = {
		.rank = 0, .size = 2, .hosts = 1, .mesh = &m, .abort = &abort_word
	};
	void *me = calloc(1, backend_tcp.size);
	struct err e = { 0 };
	int64_t begun;

	connect_ring(r, 2, 0);
	m = (struct mesh){ 0, 2, r[0].prev, r[0].next, NULL };
	ok(!backend_tcp.open(me, &team, &e) && !backend_tcp.start(me, &p, &e) &&
		   backend_tcp.step(me, &e) == 0,
	   "a barrier waits for the other rank");
	__atomic_store_n(&abort_word, 1, __ATOMIC_RELEASE);
	begun = clock_ns();
	backend_tcp.block(me, INT64_MAX);
	ok(clock_ns() - begun < 5000000000LL, "block() returns once the job is aborted");
	__atomic_store_n(&abort_word, 0, __ATOMIC_RELEASE);
	backend_tcp.block(me, clock_ns());
	ok(clock_ns() - begun < 5000000000LL, "and at its deadline");
	backend_tcp.close(me);
	free(me);
	close(r[0].prev);
	close(r[0].next);
	close(r[1].prev);
	close(r[1].next);
}

int main(void)
{
	random_plans();
	each_combination();
	large();
	same_bits();
	closed_neighbour();
	disagreement();
	abort_wakes();
	return tap_done();
}
