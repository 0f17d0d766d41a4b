/* test_tcp.c - ranks of several hosts as threads, results are known in advance. */
/* tests: src/backend/tcp.c src/backend/tcp_in_flight.c src/backend/tcp_sum.c
 * src/backend/relay.c src/backend/cut.c */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/err.h"
#include "block.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "rounds.h"
#include "tap.h"
#include "wire/mesh.h"
#include "wire/segment.h"

extern const struct backend backend_tcp;

enum { MAX_RANKS = 12, MAX_PIECES = 5, PLANS = 40, SLOTS_AT = 16384 };

static uint32_t abort_word;

/* What all ranks know about one plan; the rest follows from it. */
struct task {
	struct plan p;
	/* Allgather, reduce-scatter: of each rank; all-to-all: any; else of each piece. */
	uint64_t counts[MAX_RANKS];
	bool in_place;
	unsigned int seed;
};

struct rank {
	pthread_t thread;
	int rank, size;
	struct topo topo;
	struct mesh mesh;
	struct segment segment;
	const struct task *tasks;
	int count;
	int rc, wrong;
	struct err e;
};

/* Where the ranks are: a word with the letter of each rank's host. */
static int host_of[MAX_RANKS], local_of[MAX_RANKS];
static void *memory[MAX_RANKS]; /* of each host */
static size_t slot_area = (size_t)SEGMENT_SLOTS * SEGMENT_SLOT_BYTES;

/* Small whole numbers, so that sums do not depend on their order. */
static double value(const struct task *t, int rank, uint64_t i)
{
	int v = (int)((i * 7 + (uint64_t)rank * 13 + t->seed) % 17) - 8;

	if (t->p.redop == RINGUP_PRODUCT)
		v = v % 3;
	return (t->p.dtype == RINGUP_U8 || t->p.dtype == RINGUP_U16) && v < 0 ? -v : v;
}

static void put(enum ringup_dtype t, void *at, uint64_t i, double x)
{
	float f;

	switch (t) {
	case RINGUP_U8:
	case RINGUP_I8:
		((uint8_t *)at)[i] = (uint8_t)(int64_t)x;
		break;
	case RINGUP_U16:
	case RINGUP_I16:
		((uint16_t *)at)[i] = (uint16_t)(int64_t)x;
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
	switch (t) {
	case RINGUP_U8:
		return (uint8_t)(int64_t)x;
	case RINGUP_I8:
		return (int8_t)(int64_t)x;
	case RINGUP_U16:
		return (uint16_t)(int64_t)x;
	case RINGUP_I16:
		return (int16_t)(int64_t)x;
	default:
		return x;
	}
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

/* A rank's part of a task: its buffers, and what shall be in them. */
struct job {
	struct plan p;
	struct piece piece[MAX_PIECES];
	const void *want[MAX_PIECES];
	uint64_t wanted[MAX_PIECES];
	uint64_t matrix[MAX_RANKS * MAX_RANKS];
	void *memory[3 * MAX_PIECES];
	int rooms;
};

/* Room for one element more, so that nothing is empty for malloc(). */
static void *room(struct job *j, uint64_t count)
{
	return j->memory[j->rooms++] = calloc(count + 1, reduce_dtype_bytes(j->p.dtype));
}

static int finish(struct rank *r, void *me, const struct plan *p)
{
	int64_t deadline = clock_deadline(60000);
	int rc = backend_tcp.start(me, p, &r->e);

	while (rc == 0) {
		rc = backend_tcp.step(me, NULL, &r->e);
		if (rc == 0 && clock_ns() > deadline)
			rc = fail(&r->e, RINGUP_ETIMEDOUT, "a minute");
		else if (rc == 0)
			backend_block(&backend_tcp, me, deadline);
	}
	return rc;
}

/* What all kinds but an allreduce have: one piece. */
static void one_piece(struct job *j, void *in, void *out, uint64_t count, const void *want,
		      uint64_t wanted)
{
	j->piece[0] = (struct piece){ .in = in, .out = out, .count = count };
	j->want[0] = want;
	j->wanted[0] = wanted;
	j->p.count = count;
}

static void allreduce(struct job *j, const struct rank *r, const struct task *t)
{
	uint64_t at = 0, k;
	int i;

	for (i = 0; i < t->p.pieces; i++) {
		uint64_t count = t->counts[i];
		void *in = room(j, count), *out = t->in_place ? in : room(j, count);
		void *want = room(j, count);

		for (k = 0; k < count; k++) {
			put(t->p.dtype, in, k, value(t, r->rank, at + k));
			put(t->p.dtype, want, k, result(t, r->size, at + k));
		}
		j->piece[i] = (struct piece){ .in = in, .out = out, .count = count };
		j->want[i] = want;
		j->wanted[i] = count;
		at += count;
	}
	j->p.count = at;
}

static void broadcast(struct job *j, const struct rank *r, const struct task *t)
{
	uint64_t count = t->counts[0], k;
	void *in = room(j, count), *out = room(j, count), *want = room(j, count);
	bool is_root = r->rank == t->p.root;

	for (k = 0; k < count; k++) {
		put(t->p.dtype, in, k, value(t, t->p.root, k));
		put(t->p.dtype, want, k, value(t, t->p.root, k));
	}
	one_piece(j, is_root ? in : NULL, is_root && t->in_place ? in : out, count, want,
		  count);
}

static void allgather(struct job *j, const struct rank *r, const struct task *t)
{
	uint64_t total = 0, mine = 0, own = t->counts[r->rank], k;
	void *in, *out, *want;
	int i;

	for (i = 0; i < r->size; i++) {
		mine = i == r->rank ? total : mine;
		total += t->counts[i];
	}
	out = room(j, total);
	want = room(j, total);
	for (total = 0, i = 0; i < r->size; i++)
		for (k = 0; k < t->counts[i]; k++)
			put(t->p.dtype, want, total++, value(t, i, k));
	in = t->in_place ? (unsigned char *)out + mine * reduce_dtype_bytes(t->p.dtype)
			 : room(j, own);
	for (k = 0; k < own; k++)
		put(t->p.dtype, in, k, value(t, r->rank, k));
	one_piece(j, in, out, own, want, total);
	j->p.counts = t->counts;
}

static uint64_t cell(const struct task *t, int from, int to)
{
	return t->counts[(from * 5 + to * 3) % MAX_RANKS] % 1500;
}

/* Parts of the sum, to each rank its own. */
static void reducescatter(struct job *j, const struct rank *r, const struct task *t)
{
	uint64_t total = 0, skip = 0, own = t->counts[r->rank], k;
	void *in, *want;
	int i;

	for (i = 0; i < r->size; i++) {
		skip = i == r->rank ? total : skip;
		total += t->counts[i];
	}
	in = room(j, total);
	want = room(j, own);
	for (k = 0; k < total; k++)
		put(t->p.dtype, in, k, value(t, r->rank, k));
	for (k = 0; k < own; k++)
		put(t->p.dtype, want, k, result(t, r->size, skip + k));
	one_piece(j, in, t->in_place ? in : room(j, own), total, want, own);
	j->p.counts = t->counts;
}

static void alltoall(struct job *j, const struct rank *r, const struct task *t)
{
	uint64_t sent = 0, got = 0, k;
	void *in, *want;
	int a, b, n = r->size;

	for (a = 0; a < n; a++)
		for (b = 0; b < n; b++) {
			j->matrix[a * n + b] = cell(t, a, b);
			sent += a == r->rank ? cell(t, a, b) : 0;
			got += b == r->rank ? cell(t, a, b) : 0;
		}
	in = room(j, sent > got ? sent : got);
	want = room(j, got);
	for (sent = got = 0, a = 0; a < n; a++) {
		for (k = 0; k < cell(t, r->rank, a); k++)
			put(t->p.dtype, in, sent++, value(t, r->rank + a, k));
		for (k = 0; k < cell(t, a, r->rank); k++)
			put(t->p.dtype, want, got++, value(t, a + r->rank, k));
	}
	one_piece(j, in, t->in_place ? in : room(j, got), sent, want, got);
	j->p.matrix = j->matrix;
}

/* The job stays where it is until it is settled. */
static const struct plan *prepare(struct job *j, const struct rank *r, const struct task *t)
{
	static void (*const kinds[])(struct job *, const struct rank *, const struct task *) = {
#define X(kind, word, activity, traits) word,
		COLLECTIVES_MOVE(X)
#undef X
	};

	*j = (struct job){ .p = t->p };
	j->p.piece = j->piece;
	if (t->p.kind != PLAN_BARRIER)
		kinds[t->p.kind](j, r, t);
	return &j->p;
}

/* Is a result not as it shall be? */
static int settle(struct job *j)
{
	size_t size = reduce_dtype_bytes(j->p.dtype);
	int i, wrong = 0;

	for (i = 0; i < j->p.pieces; i++)
		wrong |= memcmp(j->piece[i].out, j->want[i], j->wanted[i] * size) != 0;
	while (j->rooms)
		free(j->memory[--j->rooms]);
	return wrong;
}

static int run_task(struct rank *r, void *me, const struct task *t)
{
	struct job j;
	int rc = finish(r, me, prepare(&j, r, t));

	r->wrong |= settle(&j);
	return rc;
}

static void leave(struct rank *r)
{
	int i, k;

	for (i = 0; i < r->mesh.links; i++)
		for (k = 0; k < r->mesh.link[i].fds; k++)
			close(r->mesh.link[i].fd[k]);
	r->mesh.links = 0;
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	void *me = calloc(1, backend_tcp.size);
	int i;

	r->rc = backend_tcp.open(me, &r->topo, &r->e);
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

static void share(struct rank *r, int n)
{
	int h = r->topo.host;
	struct segment all;

	if (!memory[h]) {
		segment_lay_out(&all, NULL, 0, n, slot_area, 0);
		memory[h] = aligned_alloc(4096, all.bytes);
		memset(memory[h], 0, all.bytes);
	}
	segment_lay_out(&r->segment, memory[h], r->topo.local_rank, n, slot_area, 0);
	r->segment.waitset.policy = (struct wait_policy){ .pauses = 20, .patient = true };
	r->topo.segment = &r->segment;
}

static void join_ranks(struct rank *a, struct rank *b, int sockets, int buffer)
{
	struct mesh_link *to = &a->mesh.link[a->mesh.links++];
	struct mesh_link *back = &b->mesh.link[b->mesh.links++];
	int k, pair[2];

	*to = (struct mesh_link){ .host = b->topo.host, .rank = b->rank };
	*back = (struct mesh_link){ .host = a->topo.host, .rank = a->rank };
	for (k = 0; k < sockets; k++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
			exit(99);
		if (buffer) {
			setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
			setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
		}
		to->fd[to->fds++] = pair[0];
		back->fd[back->fds++] = pair[1];
	}
}

/* Socket pairs between hosts, memory within; a small buffer makes for many partial sends. */
static int connect_hosts(struct rank *r, const char *word, int sockets, int buffer)
{
	static struct mesh_link links[MAX_RANKS][MAX_RANKS];
	struct mesh_shape shape = { 0, (int)strlen(word), host_of, local_of, 1 };
	int i, j, n = shape.size, hosts = 0, locals[MAX_RANKS] = { 0 };

	memset(r, 0, (size_t)n * sizeof(*r));
	for (i = 0; i < n; i++) {
		host_of[i] = word[i] - 'a';
		local_of[i] = locals[host_of[i]]++;
		hosts = host_of[i] >= hosts ? host_of[i] + 1 : hosts;
	}
	for (i = 0; i < n; i++) {
		r[i].rank = i;
		r[i].size = n;
		r[i].mesh = (struct mesh){
			.rank = i, .size = n, .rails = mesh_rails(&shape), .link = links[i]
		};
		r[i].topo = (struct topo){ .rank = i,
					   .size = n,
					   .host = host_of[i],
					   .hosts = hosts,
					   .local_rank = local_of[i],
					   .local_size = locals[host_of[i]],
					   .host_of = host_of,
					   .local_of = local_of,
					   .mesh = &r[i].mesh,
					   .abort = &abort_word };
		share(&r[i], n);
	}
	for (i = 0; i < n; i++)
		for (j = i + 1; j < n; j++)
			if (mesh_has_data(&shape, i, j))
				join_ranks(&r[i], &r[j], sockets, buffer);
	return n;
}

static void forget_memory(void)
{
	int i;

	for (i = 0; i < MAX_RANKS; i++) {
		free(memory[i]);
		memory[i] = NULL;
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
	forget_memory();
}

static bool all_good(struct rank *r, const char *word, const struct task *tasks, int count,
		     int buffer)
{
	bool good = true;
	int i, n = connect_hosts(r, word, buffer ? 3 : 1, buffer);

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

	t.p.kind = (enum plan_kind)(rand() % 6 < 2 ? PLAN_ALLREDUCE : rand() % PLAN_KINDS);
	t.p.dtype = (enum ringup_dtype)(rand() % RINGUP_BOOL);
	t.in_place = rand() % 2;
	for (i = 0; i < MAX_RANKS; i++)
		t.counts[i] = (uint64_t)(rand() % 3   ? rand() % 12
					 : rand() % 5 ? rand() % 3000
						      : rand() % 60000);
	if (t.p.kind == PLAN_ALLREDUCE || t.p.kind == PLAN_REDUCESCATTER) {
		t.p.redop = (enum ringup_redop)(rand() % REDUCE_OPS);
		if (t.p.kind == PLAN_ALLREDUCE)
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

/* One host, two, even and uneven ones, ranks in any order, hosts that lean. */
static const char *const words[] = {
	"a",        "aa",       "ab",          "aabb",         "abab", "aaab",
	"abb",      "abc",      "aabbcc",      "abcabcc",      "abcd", "abcdabcd",
	"abcdefgh", "aaaaaabb", "abcdefghijk", "aaabbbcccddd",
};

static void random_plans(void)
{
	struct task tasks[PLANS];
	struct rank r[MAX_RANKS];
	int i, round, n, plans = rounds_few(PLANS, 24);
	size_t w;

	for (w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
		bool good = true;

		n = (int)strlen(words[w]);
		for (round = 0; round < 3; round++) {
			for (i = 0; i < plans; i++)
				tasks[i] = random_task(n);
			good &= all_good(r, words[w], tasks, plans, round ? 0 : 4096);
		}
		ok(good, "%s: %d plans of all kinds, one after the other", words[w], 3 * plans);
	}
}

/*
 * Plan after plan in one thread, in memory for a few chunks; and each rank begins the next when
 * it is through with the last, whatever the others are at.  Now these, now those are starved,
 * so that some are chunks and plans behind.
 */
static void in_a_row(const char *word)
{
	enum { ROW = ROUNDS_SANITIZED ? 10 : 30, AREA = 8 * 4096, TRIES = 1000000 };
	static struct job job[MAX_RANKS];
	const size_t usual = slot_area;
	struct task tasks[ROW];
	struct rank r[MAX_RANKS];
	struct err e = { 0 };
	void *me[MAX_RANKS];
	int at[MAX_RANKS] = { 0 }, i, k, n, left, tries, rc, hungry = 0, wrong = 0;

	slot_area = AREA;
	n = connect_hosts(r, word, 2, 4096);
	for (i = 0; i < ROW; i++) {
		tasks[i] = random_task(n);
		for (k = rand() % 2 ? 0 : MAX_RANKS; k < MAX_RANKS; k++)
			tasks[i].counts[k] = (uint64_t)(rand() % 6000);
	}
	for (i = 0; i < n; i++) {
		const struct plan *p = prepare(&job[i], &r[i], &tasks[0]);

		me[i] = calloc(1, backend_tcp.size);
		wrong |= backend_tcp.open(me[i], &r[i].topo, &e) ||
			 backend_tcp.start(me[i], p, &e);
	}
	for (left = n * ROW, tries = 0; left && !wrong && tries < TRIES; tries++) {
		if (rand() % 64 == 0)
			hungry = rand() & rand();
		i = rand() % n;
		if (at[i] == ROW || ((hungry >> i & 1) && rand() % 64))
			continue;
		rc = backend_tcp.step(me[i], NULL, &e);
		if (rc == 0)
			continue;
		if (settle(&job[i]) || rc < 0) {
			printf("# rank %d of %s: plan %d, kind %d, after kind %d %s\n", i, word,
			       at[i], tasks[at[i]].p.kind,
			       at[i] ? (int)tasks[at[i] - 1].p.kind : -1, e.text);
			wrong = 1;
		}
		left--;
		if (++at[i] < ROW)
			wrong |= backend_tcp.start(me[i],
						   prepare(&job[i], &r[i], &tasks[at[i]]), &e);
	}
	ok(!left && !wrong, "%s: %d plans in a row, nobody waits for all", word, ROW);
	for (i = 0; i < n; i++) {
		backend_tcp.close(me[i]);
		free(me[i]);
		if (at[i] < ROW)
			(void)settle(&job[i]);
		leave(&r[i]);
	}
	forget_memory();
	slot_area = usual;
}

static void each_combination(void)
{
	struct task tasks[RINGUP_BOOL * REDUCE_OPS];
	struct rank r[MAX_RANKS];
	int t, op, k = 0;

	for (t = 0; t < RINGUP_BOOL; t++)
		for (op = 0; op < REDUCE_OPS; op++)
			tasks[k++] = (struct task){
				.p = { .kind = PLAN_ALLREDUCE,
				       .dtype = (enum ringup_dtype)t,
				       .redop = (enum ringup_redop)op,
				       .pre = 1,
				       .post = 1,
				       .pieces = 2 },
				.counts = { 1, 997 },
				.seed = 5,
			};
	ok(all_good(r, "ab", tasks, k, 0), "2 hosts, every type and operation");
	ok(all_good(r, "abca", tasks, k, 0), "3 hosts, every type and operation");
}

static void large(void)
{
	static const struct {
		enum ringup_dtype dtype;
		uint64_t count;
		const char *word;
	} rows[] = { { RINGUP_F32, 2 << 20, "ab" },
		     { RINGUP_F32, (2 << 20) + 1, "aabb" },
		     { RINGUP_F32, (2 << 20) + 1, "abab" },
		     { RINGUP_F16, (1 << 20) + 70001, "abc" },
		     { RINGUP_BF16, 1 << 20, "aabbb" } };
	struct rank r[MAX_RANKS];
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t count = (uint64_t)rounds_of((int)rows[i].count);
		struct task tasks[3] = {
			{ .p = { .kind = PLAN_ALLREDUCE,
				 .dtype = rows[i].dtype,
				 .redop = RINGUP_AVERAGE,
				 .pre = 1,
				 .post = 1,
				 .pieces = 1 },
			  .counts = { count } },
			{ .p = { .kind = PLAN_BROADCAST,
				 .dtype = rows[i].dtype,
				 .pre = 1,
				 .post = 1,
				 .root = 1,
				 .pieces = 1 },
			  .counts = { count } },
			{ .p = { .kind = PLAN_ALLGATHER,
				 .dtype = rows[i].dtype,
				 .pre = 1,
				 .post = 1,
				 .pieces = 1 },
			  .counts = { count, 1, 0, 70000 } },
		};

		/* Some sums go past the caches where lines are filled again that way. */
		copy_use_ownership(i % 2 ? COPY_OWNS : COPY_ASKS);
		ok(all_good(r, rows[i].word, tasks, 3, 0), "%s: %llu x %s", rows[i].word,
		   (unsigned long long)count, reduce_dtype_name(rows[i].dtype));
	}
	copy_use_ownership(COPY_OWNERSHIPS);
}

/* All ranks in one thread: step() must never block. */
static int lock_step(struct rank *r, int n, struct plan *p)
{
	void *me[MAX_RANKS];
	struct err e = { 0 };
	int64_t deadline = clock_deadline(120000);
	int i, done = 0, left[MAX_RANKS], rc;

	for (i = 0; i < n; i++) {
		me[i] = calloc(1, backend_tcp.size);
		left[i] = !backend_tcp.open(me[i], &r[i].topo, &e) &&
			  !backend_tcp.start(me[i], &p[i], &e);
	}
	while (done < n && clock_ns() < deadline)
		for (i = 0; i < n; i++) {
			rc = left[i] ? backend_tcp.step(me[i], NULL, &e) : 0;
			if (rc < 0)
				printf("# rank %d: %s\n", i, e.text);
			left[i] &= !rc;
			done += rc == 1;
		}
	for (i = 0; i < n; i++) {
		backend_tcp.close(me[i]);
		free(me[i]);
		leave(&r[i]);
	}
	forget_memory();
	return done == n;
}

enum { BITS = ROUNDS_TSAN ? 20000 : 40000, FILLED = 40000 };

/*
 * Sum @count elements that begin at @first of rank data, behind @before others, into
 * out[rank]: alone, or somewhere in a batch.
 */
static int sum_bits(const char *word, enum ringup_dtype dtype, void *const *data,
		    uint64_t first, uint64_t count, uint64_t before, unsigned char *const *out)
{
	static uint64_t filler[MAX_RANKS][FILLED];
	size_t size = reduce_dtype_bytes(dtype);
	struct rank r[MAX_RANKS];
	struct piece piece[MAX_RANKS][2];
	struct plan p[MAX_RANKS];
	int i, n = connect_hosts(r, word, 1, 0);

	for (i = 0; i < n; i++) {
		piece[i][0] =
			(struct piece){ .in = filler[i], .out = filler[i], .count = before };
		piece[i][1] = (struct piece){ .in = (unsigned char *)data[i] + first * size,
					      .out = out[i] + first * size,
					      .count = count };
		p[i] = (struct plan){ .kind = PLAN_ALLREDUCE,
				      .dtype = dtype,
				      .redop = RINGUP_AVERAGE,
				      .pre = 1,
				      .post = 1,
				      .piece = piece[i],
				      .pieces = 2,
				      .count = before + count };
	}
	return lock_step(r, n, p);
}

/* Numbers whose sum depends on the order: all ranks must have the same bits, whatever
 * is summed together with them, and however it is cut. */
static void same_bits(const char *word, enum ringup_dtype dtype)
{
	static float source[BITS];
	size_t size = reduce_dtype_bytes(dtype), bytes = BITS * size;
	int n = (int)strlen(word), i, j, good = 1, same = 1;
	void *data[MAX_RANKS] = { 0 };
	unsigned char *a[MAX_RANKS] = { 0 }, *b[MAX_RANKS] = { 0 };

	for (i = 0; i < n; i++) {
		data[i] = malloc(bytes);
		a[i] = calloc(1, bytes);
		b[i] = calloc(1, bytes);
		for (j = 0; j < BITS; j++)
			source[j] = (float)rand() / 1e3f - 1e6f * (float)(rand() % 3 - 1);
		if (reduce_is_half(dtype))
			for (j = 0; j < BITS; j++)
				source[j] = (float)rand() / (float)RAND_MAX - 0.5f;
		if (reduce_is_half(dtype))
			reduce_narrow(dtype, data[i], source, BITS);
		else
			memcpy(data[i], source, bytes);
	}
	good &= sum_bits(word, dtype, data, 0, BITS, 0, a);
	good &= sum_bits(word, dtype, data, 0, 100, 0, b);
	good &= sum_bits(word, dtype, data, 100, 7777, 12345, b);
	good &= sum_bits(word, dtype, data, 7877, 1, 33333, b);
	good &= sum_bits(word, dtype, data, 7878, BITS - 7878, 3, b);
	for (i = 0; i < n; i++) {
		same &= !memcmp(a[0], a[i], bytes) && !memcmp(a[0], b[i], bytes);
		free(data[i]);
	}
	for (i = 0; i < n; i++) {
		free(a[i]);
		free(b[i]);
	}
	ok(good, "%s: step() does not block", word);
	ok(same, "%s: all ranks hold equal bits of %s, alone or in any batch", word,
	   reduce_dtype_name(dtype));
}

static void closed_neighbour(void)
{
	struct task t = { .p = { .kind = PLAN_ALLREDUCE,
				 .dtype = RINGUP_F32,
				 .pre = 1,
				 .post = 1,
				 .pieces = 1 },
			  .counts = { 1 << 20 } };
	struct rank r[3];
	int i;

	connect_hosts(r, "abc", 1, 0);
	for (i = 0; i < 3; i++) {
		r[i].tasks = &t;
		r[i].count = i == 1 ? 0 : 1; /* rank 1 leaves at once */
	}
	start_all(r, 3);
	join_all(r, 3);
	for (i = 0; i < 3; i += 2)
		ok(r[i].rc == RINGUP_EPEER && strstr(r[i].e.text, "rank 1"), "%s", r[i].e.text);
}

/* Rank 1 does @b where rank 0 does @a: whoever hears it says @why. */
static void disagree(const struct task *a, const struct task *b, const char *why)
{
	struct task each[2] = { *a, *b };
	struct rank r[2];
	int i, mismatches = 0;

	connect_hosts(r, "ab", 1, 0);
	for (i = 0; i < 2; i++) {
		r[i].tasks = &each[i];
		r[i].count = 1;
	}
	start_all(r, 2);
	join_all(r, 2);
	for (i = 0; i < 2; i++) {
		mismatches += r[i].rc == RINGUP_EMISMATCH && strstr(r[i].e.text, why);
		ok(r[i].rc == RINGUP_EMISMATCH || r[i].rc == RINGUP_EPEER, "%s", r[i].e.text);
	}
	ok(mismatches > 0, "a disagreement is found, not summed: %s", why);
}

static void disagreement(void)
{
	struct task a = { .p = { .kind = PLAN_ALLREDUCE,
				 .dtype = RINGUP_F32,
				 .pre = 1,
				 .post = 1,
				 .pieces = 1 },
			  .counts = { 100 } };
	struct task b = a;

	b.p.dtype = RINGUP_I32;
	disagree(&a, &b, "100 x i32 as number 1");
	b = a;
	b.counts[0] = 99;
	disagree(&a, &b, "99 x f32 as number 1");
	b = a;
	b.p.redop = RINGUP_MAX;
	disagree(&a, &b, "with different operations, roots, scales or blocks");
	b = a;
	b.p.post = 0.5;
	disagree(&a, &b, "with different operations, roots, scales or blocks");
}

/* Whatever a neighbour says, nothing is written where it should not be. */
static void nonsense(void)
{
	static float data[1000];
	struct piece piece = { .in = data, .out = data, .count = 1000 };
	struct plan p = { .kind = PLAN_ALLREDUCE,
			  .dtype = RINGUP_F32,
			  .pre = 1,
			  .post = 1,
			  .piece = &piece,
			  .pieces = 1,
			  .count = 1000 };
	unsigned char head[56];
	struct rank r[2];
	struct err e = { 0 };
	int i, k, rc, refused = 0;

	/* The true head comes from rank 0; rank 1 sends it back with one byte changed. */
	for (i = 0; i < 56; i++) {
		void *me = calloc(1, backend_tcp.size);

		connect_hosts(r, "ab", 1, 0);
		rc = backend_tcp.open(me, &r[0].topo, &e) || backend_tcp.start(me, &p, &e) ||
		     backend_tcp.step(me, NULL, &e);
		rc |= read(r[1].mesh.link[0].fd[0], head, sizeof(head)) != sizeof(head);
		head[i] ^= 0x41;
		rc |= write(r[1].mesh.link[0].fd[0], head, sizeof(head)) != sizeof(head);
		for (k = 0; k < 3 && !rc; k++)
			rc = backend_tcp.step(me, NULL, &e);
		/* A plan to come has to wait, and the last four bytes mean nothing. */
		refused += rc == RINGUP_EMISMATCH || (rc == 0 && i >= 4 && i < 8) || i >= 52;
		backend_tcp.close(me);
		free(me);
		leave(&r[0]);
		leave(&r[1]);
		forget_memory();
	}
	ok(refused == 56, "no head but the right one is accepted (%d of 56): %s", refused,
	   e.text);
}

static void abort_wakes(void)
{
	struct plan p = { .kind = PLAN_BARRIER, .pre = 1, .post = 1 };
	struct rank r[2];
	void *me = calloc(1, backend_tcp.size);
	struct err e = { 0 };
	int64_t begun;

	connect_hosts(r, "ab", 1, 0);
	ok(!backend_tcp.open(me, &r[0].topo, &e) && !backend_tcp.start(me, &p, &e) &&
		   backend_tcp.step(me, NULL, &e) == 0,
	   "a barrier waits for the other rank");
	__atomic_store_n(&abort_word, 1, __ATOMIC_RELEASE);
	begun = clock_ns();
	backend_block(&backend_tcp, me, INT64_MAX);
	ok(clock_ns() - begun < 60000000000LL, "block() returns once the job is aborted");
	__atomic_store_n(&abort_word, 0, __ATOMIC_RELEASE);
	backend_block(&backend_tcp, me, clock_ns());
	ok(clock_ns() - begun < 60000000000LL, "and at its deadline");
	backend_tcp.close(me);
	free(me);
	leave(&r[0]);
	leave(&r[1]);
	forget_memory();
}

int main(void)
{
	size_t w;

	random_plans();
	for (w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		in_a_row(words[w]);
	each_combination();
	large();
	same_bits("ab", RINGUP_F32);
	same_bits("aabb", RINGUP_F32);
	same_bits("aabbc", RINGUP_F32);
	same_bits("abcdefghijk", RINGUP_F32);
	same_bits("aabbb", RINGUP_BF16);
	same_bits("abca", RINGUP_F16);
	closed_neighbour();
	disagreement();
	nonsense();
	abort_wakes();
	return tap_done();
}
