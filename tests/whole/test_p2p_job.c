/* test_p2p_job.c - messages between two ranks: order, tags, sizes, groups, ends. */
/* tests: src/engine/p2p.c src/engine/p2p_far.c src/engine/p2p_match.c src/engine/p2p_stream.c
 * src/engine/p2p_ring.c */
#include <stdbool.h>

#include "base/clock.h"

#include "base/kinds.h"
#include "family.h"
#include "ranks.h"

enum {
	RING_FLOATS = 100000,
	FLOOD = 64,
	FLOOD_FLOATS = 8192,
	SWAP_BYTES = 60000,
	THREADS = 4,
	LATE_MS = 120000
};

static int do_send(struct ringup_group *g, int to, int tag, const void *in, uint64_t count,
		   enum ringup_dtype dtype, struct ringup_op **opp)
{
	struct ringup_send a = {
		.in = in, .count = count, .dtype = dtype, .to = to, .tag = tag
	};

	return ringup_send(g, &a, opp);
}

static int do_recv(struct ringup_group *g, int from, int tag, void *out, uint64_t count,
		   enum ringup_dtype dtype, struct ringup_op **opp)
{
	struct ringup_recv a = {
		.out = out, .count = count, .dtype = dtype, .from = from, .tag = tag
	};

	return ringup_recv(g, &a, opp);
}

/* Element i of what @rank sends as its message number @n. */
static float element(int rank, int n, uint64_t i)
{
	return (float)((uint64_t)(rank * 7 + n * 131) + i % 1000);
}

static float *make(int rank, int n, uint64_t count)
{
	float *v = malloc((count + 1) * sizeof(*v));
	uint64_t i;

	for (i = 0; v && i < count; i++)
		v[i] = element(rank, n, i);
	return v;
}

static bool is_from(const float *v, int rank, int n, uint64_t count)
{
	uint64_t i;

	for (i = 0; i < count; i++)
		if (v[i] != element(rank, n, i))
			return false;
	return true;
}

static const uint64_t sizes[] = { 0,     1,     2,      15,     250,    4096,
				  16384, 16385, 100000, 262144, 700001, 3000000 };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Even ranks send and receive, odd ones the other way round. */
static void all_sizes(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	int other = rank ^ 1, k, turn;
	float *in, *out;

	for (k = 0; k < SIZES && other < size; k++) {
		in = make(rank, k, sizes[k]);
		out = calloc(sizes[k] + 1, sizeof(*out));
		for (turn = 0; turn < 2; turn++)
			if ((rank & 1) == turn)
				check(!do_send(g, other, k, in, sizes[k], RINGUP_F32, NULL),
				      "send", rank);
			else
				check(!do_recv(g, other, k, out, sizes[k], RINGUP_F32, NULL),
				      "receive", rank);
		check(is_from(out, other, k, sizes[k]) && out[sizes[k]] == 0, "as it was sent",
		      rank);
		free(in);
		free(out);
	}
	/* Between hosts nobody is connected by way of who has left. */
	check(!ringup_barrier(g, NULL, NULL), "barrier", rank);
}

/* Each sends to the next and receives from the one before, all at once. */
static void ring(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	int next = (rank + 1) % size, before = (rank + size - 1) % size, k;
	float *in = make(rank, 0, RING_FLOATS), *out = make(-1, 0, RING_FLOATS);
	struct ringup_op *op[2];

	for (k = 0; k < 20; k++) {
		memset(out, 0, RING_FLOATS * sizeof(*out));
		check(!do_send(g, next, 5, in, RING_FLOATS, RINGUP_F32, &op[0]), "send", rank);
		check(!do_recv(g, before, 5, out, RING_FLOATS, RINGUP_F32, &op[1]), "receive",
		      rank);
		check(!ringup_wait(op[0], -1), "sent", rank);
		check(!ringup_wait(op[1], -1), "received", rank);
		check(is_from(out, before, 0, RING_FLOATS), "of the one before", rank);
	}
	free(in);
	free(out);
}

/* Both send first, and only then receive: what is small does not wait for the other. */
static void swap(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	unsigned char in[SWAP_BYTES], out[SWAP_BYTES];
	int k;

	memset(in, rank + 1, sizeof(in));
	for (k = 0; k < 50; k++) {
		memset(out, 0, sizeof(out));
		check(!do_send(g, (rank + 1) % size, k, in, SWAP_BYTES, RINGUP_U8, NULL),
		      "send", rank);
		check(!do_recv(g, (rank + size - 1) % size, k, out, SWAP_BYTES, RINGUP_U8,
			       NULL),
		      "receive", rank);
		check(out[0] == (rank + size - 1) % size + 1 && out[SWAP_BYTES - 1] == out[0],
		      "the other's", rank);
	}
}

/* Later tags first; of one tag in order, small and large mixed. */
static void tags(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	static const uint64_t count[] = { 10, 40000, 3, 90000, 1 };
	struct ringup_op *op[10];
	float *in[10], *out;
	int k, tag;

	if (rank > 1)
		return;
	(void)size;
	for (k = 0; k < 10 && !rank; k++) {
		in[k] = make(0, k, count[k % 5]);
		check(!do_send(g, 1, k / 5 ? -7 : 1 << 30, in[k], count[k % 5], RINGUP_F32,
			       &op[k]),
		      "send", rank);
	}
	for (k = 0; k < 10 && rank; k++) {
		tag = k / 5 ? 1 << 30 : -7;
		out = calloc(count[k % 5], sizeof(*out));
		check(!do_recv(g, 0, tag, out, count[k % 5], RINGUP_F32, NULL), "receive",
		      rank);
		check(is_from(out, 0, (k + 5) % 10, count[k % 5]), "in order of its tag", rank);
		free(out);
	}
	for (k = 0; k < 10 && !rank; k++) {
		check(!ringup_wait(op[k], -1), "sent", rank);
		free(in[k]);
	}
}

static void any_source(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	int seen[RANKS_MAX] = { 0 }, k, v, source, told;
	struct ringup_recv a = { .out = &v,
				 .count = 1,
				 .dtype = RINGUP_I32,
				 .from = RINGUP_ANY_SOURCE,
				 .tag = 9,
				 .source = &source };

	for (k = 0; k < 5 * (size - 1) && !rank; k++) {
		source = v = -1;
		check(!ringup_recv(g, &a, NULL), "receive", rank);
		check(source > 0 && source < size && v == source * 100 + seen[source],
		      "from whom it says, in order", rank);
		if (source > 0 && source < size)
			seen[source]++;
	}
	for (k = 0; k < 5 && rank; k++) {
		told = rank * 100 + k;
		check(!do_send(g, 0, 9, &told, 1, RINGUP_I32, NULL), "send", rank);
	}
}

static void mismatch(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	static const uint64_t count[] = { 100, 50000 };
	float *v = calloc(60000, sizeof(*v));
	int k, rc;

	(void)size;
	for (k = 0; k < 2; k++) {
		if (rank == 0) {
			rc = do_send(g, 1, k, v, count[k], RINGUP_F32, NULL);
			check(rc == (k ? RINGUP_EMISMATCH : 0), "the sender", rank);
			check(!k || strstr(ringup_explain(),
					   "rank 1 with tag 1: rank 1 receives 50001 f32"),
			      "says what the receiver wants", rank);
		} else if (rank == 1) {
			rc = do_recv(g, 0, k, v, count[k] + 1, RINGUP_F32, NULL);
			check(rc == RINGUP_EMISMATCH, "the receiver", rank);
			check(strstr(ringup_explain(),
				     k ? "receive of 50001 f32 from rank 0 with "
					 "tag 1: rank 0 sends 50000 f32"
				       : "receive of 101 f32 from rank 0 with "
					 "tag 0: rank 0 sends 100 f32") != NULL,
			      "names both", rank);
		}
	}
	if (rank == 0)
		check(!do_send(g, 1, 7, v, 3, RINGUP_F32, NULL), "the next send", rank);
	if (rank == 1) {
		check(do_recv(g, 0, 7, v, 3, RINGUP_I32, NULL) == RINGUP_EMISMATCH,
		      "another type", rank);
		check(!do_send(g, 0, 8, v, 60000, RINGUP_F32, NULL), "and the next", rank);
	}
	if (rank == 0)
		check(!do_recv(g, 1, 8, v, 60000, RINGUP_F32, NULL), "receive", rank);
	free(v);
}

static void groups(struct ringup *r, int rank, int size)
{
	struct ringup_group *world = ringup_world(r), *last = NULL;
	int ranks[2] = { size - 2, size - 1 }, v = 0, w = 0, x;

	check(!ringup_group_add(r, ranks, 2, &last), "group", rank);
	if (rank == size - 2) {
		x = 1;
		check(!do_send(world, size - 1, 3, &x, 1, RINGUP_I32, NULL), "send", rank);
		x = 2;
		check(!do_send(last, 1, 3, &x, 1, RINGUP_I32, NULL), "send", rank);
		check(do_send(last, 2, 3, &x, 1, RINGUP_I32, NULL) == RINGUP_EINVAL,
		      "no such rank", rank);
		/* Never received: it goes with the group. */
		check(!do_send(last, 1, 4, &x, 1, RINGUP_I32, NULL), "send", rank);
	} else if (rank == size - 1) {
		struct ringup_recv a = { .out = &v,
					 .count = 1,
					 .dtype = RINGUP_I32,
					 .from = RINGUP_ANY_SOURCE,
					 .tag = 3,
					 .source = &w };

		check(!ringup_recv(last, &a, NULL) && v == 2 && w == 0, "of the group", rank);
		check(!ringup_recv(world, &a, NULL) && v == 1 && w == size - 2, "of the world",
		      rank);
	} else {
		check(do_send(last, 0, 3, &v, 1, RINGUP_I32, NULL) == RINGUP_EINVAL,
		      "not a member", rank);
	}
	check(!ringup_group_remove(last), "remove", rank);
}

/* More than a receiver keeps: in order all the same. */
static void flood(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op[FLOOD];
	float *v[FLOOD];
	int k;

	if (rank > 1)
		return;
	(void)size;
	for (k = 0; k < FLOOD; k++) {
		v[k] = rank ? calloc(FLOOD_FLOATS, sizeof(float)) : make(0, k, FLOOD_FLOATS);
		if (!rank)
			check(!do_send(g, 1, 0, v[k], FLOOD_FLOATS, RINGUP_F32, &op[k]), "send",
			      rank);
	}
	for (k = 0; k < FLOOD; k++) {
		if (rank)
			check(!do_recv(g, 0, 0, v[k], FLOOD_FLOATS, RINGUP_F32, NULL) &&
				      is_from(v[k], 0, k, FLOOD_FLOATS),
			      "in order", rank);
		else
			check(!ringup_wait(op[k], -1), "sent", rank);
		free(v[k]);
	}
}

/* A message goes on while its ranks wait in a collective. */
static void beside_collectives(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	uint64_t count = 1500000;
	float *in = make(rank, 1, count), *out = calloc(count, sizeof(*out)), one;
	struct ringup_reduce sum = {
		.name = "sum", .in = &one, .out = &one, .count = 1, .dtype = RINGUP_F32
	};
	struct ringup_op *op;
	int k;

	for (k = 0; k < 5; k++) {
		one = 1;
		if (rank == 0) {
			check(!do_send(g, 1, k, in, count, RINGUP_F32, &op), "send", rank);
			check(!ringup_allreduce(g, &sum, NULL), "sum", rank);
			check(!ringup_wait(op, -1), "sent", rank);
		} else {
			if (rank == 1)
				check(!do_recv(g, 0, k, out, count, RINGUP_F32, NULL) &&
					      is_from(out, 0, 1, count),
				      "receive", rank);
			check(!ringup_allreduce(g, &sum, NULL), "sum", rank);
		}
		check(one == (float)size, "all of them", rank);
	}
	free(in);
	free(out);
}

static void to_itself(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	static const uint64_t count[] = { 0, 5, 50000 };
	struct ringup_op *op[2];
	float *in, *out;
	int k, first;

	(void)size;
	for (k = 0; k < 3; k++)
		for (first = 0; first < 2; first++) {
			in = make(rank, k, count[k]);
			out = calloc(count[k] + 1, sizeof(*out));
			if (first)
				check(!do_send(g, rank, k, in, count[k], RINGUP_F32, &op[0]),
				      "send", rank);
			check(!do_recv(g, rank, k, out, count[k], RINGUP_F32, &op[1]),
			      "receive", rank);
			if (!first)
				check(!do_send(g, rank, k, in, count[k], RINGUP_F32, &op[0]),
				      "send", rank);
			check(!ringup_wait(op[0], -1) && !ringup_wait(op[1], -1), "wait", rank);
			check(is_from(out, rank, k, count[k]), "its own", rank);
			free(in);
			free(out);
		}
}

static void in_time(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op;
	int v = 0;

	if (rank == 1) {
		check(!do_recv(g, 0, 1, &v, 1, RINGUP_I32, &op), "receive", rank);
		check(!ringup_poll(op), "not yet", rank);
		check(ringup_wait(op, 20) == RINGUP_ETIMEDOUT, "not in time", rank);
		check(!ringup_barrier(g, "late", NULL), "barrier", rank);
		check(!ringup_wait(op, -1) && v == 4, "later", rank);
	} else {
		check(!ringup_barrier(g, "late", NULL), "barrier", rank);
		v = 4;
		if (rank == 0)
			check(!do_send(g, 1, 1, &v, 1, RINGUP_I32, NULL), "send", rank);
	}
	(void)size;
}

/* Nobody waits for what was started, and it is carried out all the same. */
static void polled(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	uint64_t count = 500000;
	float *v = rank ? calloc(count, sizeof(*v)) : make(0, 2, count);
	struct ringup_op *op = NULL;

	(void)size;
	if (rank == 0)
		check(!do_send(g, 1, 1, v, count, RINGUP_F32, &op), "send", rank);
	if (rank == 1)
		check(!do_recv(g, 0, 1, v, count, RINGUP_F32, &op), "receive", rank);
	while (op && !ringup_poll(op))
		clock_sleep_ms(1);
	if (op)
		check(!ringup_wait(op, -1) && is_from(v, 0, 2, count), "whole", rank);
	free(v);
}

struct talker {
	struct ringup_group *g;
	int rank, tag;
};

static void *talk(void *arg)
{
	struct talker *t = arg;
	int other = t->rank ^ 1, k;
	uint64_t count = t->tag % 2 ? 30 : 30000;
	float *in = make(t->rank, t->tag, count), *out = calloc(count, sizeof(*out));
	struct ringup_op *op;

	for (k = 0; k < 40; k++) {
		check(!do_send(t->g, other, t->tag, in, count, RINGUP_F32, &op), "send",
		      t->rank);
		check(!do_recv(t->g, other, t->tag, out, count, RINGUP_F32, NULL) &&
			      is_from(out, other, t->tag, count),
		      "of its tag", t->rank);
		check(!ringup_wait(op, -1), "sent", t->rank);
	}
	free(in);
	free(out);
	return NULL;
}

static void threads(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct talker talker[THREADS];
	pthread_t thread[THREADS];
	int i;

	for (i = 0; (rank ^ 1) < size && i < THREADS; i++) {
		talker[i] = (struct talker){ g, rank, i };
		pthread_create(&thread[i], NULL, talk, &talker[i]);
	}
	for (i = 0; (rank ^ 1) < size && i < THREADS; i++)
		pthread_join(thread[i], NULL);
	check(!ringup_barrier(g, NULL, NULL), "barrier", rank);
}

static void wrong_arguments(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float v = 0;

	check(do_send(g, size, 0, &v, 1, RINGUP_F32, NULL) == RINGUP_EINVAL, "no such rank",
	      rank);
	check(do_send(g, -1, 0, &v, 1, RINGUP_F32, NULL) == RINGUP_EINVAL, "to any", rank);
	check(do_recv(g, -2, 0, &v, 1, RINGUP_F32, NULL) == RINGUP_EINVAL, "from none", rank);
	check(do_send(g, 0, 0, NULL, 1, RINGUP_F32, NULL) == RINGUP_EINVAL, "no data", rank);
	check(do_recv(g, 0, 0, NULL, 1, RINGUP_F32, NULL) == RINGUP_EINVAL, "no room", rank);
	check(do_recv(g, 0, 0, &v, 1, DTYPE_COUNT, NULL) == RINGUP_EINVAL, "no type", rank);
	check(strstr(ringup_explain(), "ringup_recv: ") != NULL, "says where", rank);
}

static int stage; /* what ranks tell each other beside the library; atomic */

static bool await_stage(int wanted)
{
	int64_t enough = clock_deadline(LATE_MS);

	while (__atomic_load_n(&stage, __ATOMIC_SEQ_CST) < wanted && clock_ns() < enough)
		clock_sleep_ms(1);
	return __atomic_load_n(&stage, __ATOMIC_SEQ_CST) >= wanted;
}

static void reach_stage(void)
{
	__atomic_fetch_add(&stage, 1, __ATOMIC_SEQ_CST);
}

/* The last thing that ranks do: one ends the job, others wait for messages, small and large. */
static void aborted(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float *v = calloc(50000, sizeof(*v));
	struct ringup_op *op = NULL, *large = NULL;

	if (rank) {
		check(!do_recv(g, 0, 1, v, 1, RINGUP_F32, &op), "receive", rank);
		check(!do_send(g, 0, 1, v, 50000, RINGUP_F32, &large), "send", rank);
	}
	reach_stage();
	check(await_stage(size), "all wait", rank);
	if (rank == 0)
		ringup_abort(r, "enough");
	else
		check(ringup_wait(op, -1) == RINGUP_EABORTED &&
			      ringup_wait(large, -1) == RINGUP_EABORTED &&
			      strstr(ringup_explain(), "enough"),
		      "it ends", rank);
	check(do_send(g, 0, 1, v, 1, RINGUP_F32, NULL) == RINGUP_EABORTED, "for good", rank);
	free(v);
}

/* The last rank sends and leaves: what it has sent can be received, and no more; others go on.
 */
static void left(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	int v = 5, k;
	char who[64];

	if (rank == size - 1) {
		for (k = 0; k < size - 1; k++)
			check(!do_send(g, k, 1, &v, 1, RINGUP_I32, NULL), "send", rank);
		return;
	}
	v = 0;
	check(do_recv(g, size - 1, 2, &v, 1, RINGUP_I32, NULL) == RINGUP_ESHUTDOWN,
	      "it does not send that", rank);
	snprintf(who, sizeof(who), "rank %d has left the job", size - 1);
	check(strstr(ringup_explain(), who) != NULL, "says who", rank);
	check(do_send(g, size - 1, 1, &v, 1, RINGUP_I32, NULL) == RINGUP_ESHUTDOWN,
	      "nor does it receive", rank);
	check(!do_recv(g, size - 1, 1, &v, 1, RINGUP_I32, NULL) && v == 5, "what it had sent",
	      rank);
	check(do_recv(g, size - 1, 1, &v, 1, RINGUP_I32, NULL) == RINGUP_ESHUTDOWN, "once",
	      rank);
	if (rank > 1)
		return;
	check(!do_send(g, !rank, 3, &rank, 1, RINGUP_I32, NULL), "others", rank);
	check(!do_recv(g, RINGUP_ANY_SOURCE, 3, &v, 1, RINGUP_I32, NULL) && v == !rank, "go on",
	      rank);
	check(!do_send(g, !rank, 4, &v, 1, RINGUP_I32, NULL) &&
		      !do_recv(g, !rank, 4, &v, 1, RINGUP_I32, NULL),
	      "both", rank);
}

/* Rank 0 leaves with sends that nobody has received, and receives that nobody has sent; what it
 * had sent in whole can be received, before and after the others, and the others go on. */
static void left_untaken(struct ringup *r, int rank, int size)
{
	enum { LARGE = 50000 };
	struct ringup_group *g = ringup_world(r);
	static float given[LARGE]; /* the library's, until rank 0 has left */
	float *v = calloc(LARGE, sizeof(*v));
	struct ringup_op *op[3];
	int small[2] = { 5, 6 }, k;

	if (rank == 0) {
		check(!do_send(g, 1, 1, &small[0], 1, RINGUP_I32, NULL) &&
			      !do_send(g, 1, 2, given, LARGE, RINGUP_F32, &op[0]) &&
			      !do_send(g, 1, 1, &small[1], 1, RINGUP_I32, NULL) &&
			      !do_send(g, 1, 3, given, LARGE, RINGUP_F32, &op[1]) &&
			      !do_recv(g, 1, 4, given, 1, RINGUP_F32, &op[2]),
		      "start", rank);
		free(v);
		return;
	}
	/* Ranks 1 and 2 connect by way of rank 0, which has left by then. */
	if (rank == 2)
		clock_sleep_ms(100);
	if (rank == 1) {
		/* Once it is told that rank 0 has left, all that rank 0 had sent is here. */
		check(do_recv(g, 0, 9, v, 1, RINGUP_F32, NULL) == RINGUP_ESHUTDOWN, "it left",
		      rank);
		check(do_recv(g, 0, 2, v, LARGE, RINGUP_F32, NULL) == RINGUP_ESHUTDOWN &&
			      strstr(ringup_explain(), "rank 0 has left the job"),
		      "what it had only offered", rank);
		for (k = 0; k < 2; k++)
			check(!do_recv(g, 0, 1, &small[0], 1, RINGUP_I32, NULL) &&
				      small[0] == 5 + k,
			      "what it had sent", rank);
		check(do_recv(g, RINGUP_ANY_SOURCE, 3, v, LARGE, RINGUP_F32, NULL) ==
			      RINGUP_ESHUTDOWN,
		      "from any rank", rank);
		check(do_send(g, 0, 4, v, 1, RINGUP_F32, NULL) == RINGUP_ESHUTDOWN,
		      "what it waited for", rank);
	}
	check(!do_send(g, 3 - rank, 5, &rank, 1, RINGUP_I32, NULL) &&
		      !do_recv(g, 3 - rank, 5, &k, 1, RINGUP_I32, NULL) && k == 3 - rank,
	      "others go on", rank);
	free(v);
	(void)size;
}

/* Who waits for any rank hears when none is left. */
static void all_left(struct ringup *r, int rank, int size)
{
	int v, k;

	for (k = 0; k < 2 && !rank; k++) {
		check(do_recv(ringup_world(r), RINGUP_ANY_SOURCE, 1, &v, 1, RINGUP_I32, NULL) ==
			      RINGUP_ESHUTDOWN,
		      "nobody is there", rank);
		check(strstr(ringup_explain(), " left the job") != NULL, "says so", rank);
	}
	(void)size;
}

/* All ranks to all others, at once, a small and a large one. */
static void all_pairs(struct ringup *r, int rank, int size)
{
	static const uint64_t count[] = { 40, 60000 };
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op[RANKS_MAX][2][2];
	float *in[2], *out[RANKS_MAX][2];
	int k, other;

	for (k = 0; k < 2; k++)
		in[k] = make(rank, k, count[k]);
	for (other = 0; other < size; other++)
		for (k = 0; k < 2; k++) {
			out[other][k] = calloc(count[k], sizeof(float));
			check(!do_send(g, other, k, in[k], count[k], RINGUP_F32,
				       &op[other][k][0]) &&
				      !do_recv(g, other, k, out[other][k], count[k], RINGUP_F32,
					       &op[other][k][1]),
			      "start", rank);
		}
	for (other = 0; other < size; other++)
		for (k = 0; k < 2; k++) {
			check(!ringup_wait(op[other][k][0], -1) &&
				      !ringup_wait(op[other][k][1], -1) &&
				      is_from(out[other][k], other, k, count[k]),
			      "from each", rank);
			free(out[other][k]);
		}
	free(in[0]);
	free(in[1]);
}

/* One rank of a job of processes, on any hosts. */
static int launched(void)
{
	struct ringup *r = NULL;
	int rank, size;

	alarm(250);
	if (ringup_init(NULL, &r)) {
		fprintf(stderr, "%s\n", ringup_explain());
		return 1;
	}
	rank = ringup_rank(ringup_world(r));
	size = ringup_size(ringup_world(r));
	all_pairs(r, rank, size);
	all_sizes(r, rank, size);
	ring(r, rank, size);
	any_source(r, rank, size);
	groups(r, rank, size);
	left(r, rank, size);
	printf("rank %d of %d, %s: %d wrong\n", rank, size, ringup_backend(ringup_world(r)),
	       wrong);
	ringup_fini(r);
	return wrong != 0;
}

/* ---- ranks as processes, of which one dies ---- */

enum { DEAD = 1 };

static int await_dead(void)
{
	static float v[100000];
	struct ringup_op *op[3];
	struct ringup *r = NULL;
	struct ringup_group *g;
	int i, bad = 0;

	if (family_join(&r))
		return 1;
	g = ringup_world(r);
	/* All are connected by then. */
	if (do_send(g, (family_rank + 1) % 3, 1, v, 1, RINGUP_F32, NULL) ||
	    do_recv(g, (family_rank + 2) % 3, 1, v, 1, RINGUP_F32, NULL) ||
	    ringup_barrier(g, NULL, NULL))
		return 1;
	/* Nobody is in the barrier any more. */
	__atomic_fetch_add(&family->note[0], 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&family->note[0], __ATOMIC_SEQ_CST) < 3)
		clock_sleep_ms(1);
	if (family_rank == DEAD)
		_exit(0);
	if (do_recv(g, DEAD, 7, v, 1, RINGUP_F32, &op[0]) ||
	    do_send(g, DEAD, 8, v, 100000, RINGUP_F32, &op[1]) ||
	    do_recv(g, RINGUP_ANY_SOURCE, 9, v, 5, RINGUP_F32, &op[2])) {
		/* It was known before all had started. */
		bad = strstr(ringup_explain(), "rank 1 (process ") == NULL;
		ringup_fini(r);
		return bad;
	}
	for (i = 0; i < 3; i++)
		if (ringup_wait(op[i], -1) != RINGUP_EPEER ||
		    !strstr(ringup_explain(), "rank 1 (process ")) {
			printf("# rank %d: operation %d: %s\n", family_rank, i,
			       ringup_explain());
			bad = 1;
		}
	ringup_fini(r);
	return bad;
}

static void run_death(const char *where)
{
	int status[3];

	family_run(3, await_dead, status);
	ok(!status[0] && !status[2], "%s: who waits for a rank that dies hears who it was",
	   where);
	family_end();
}

static void run_all(const char *where)
{
	printf("# %s\n", where);
	stage = 0;
	run("messages of all sizes", 2, all_sizes);
	run("messages of all sizes", 5, all_sizes);
	run("a ring", 4, ring);
	run("both send first", 3, swap);
	run("tags", 2, tags);
	run("from any rank", 4, any_source);
	run("sizes and types that differ", 2, mismatch);
	run("groups", 3, groups);
	run("more than is kept", 2, flood);
	run("beside collectives", 3, beside_collectives);
	run("to itself", 2, to_itself);
	run("to itself", 1, to_itself);
	run("late", 2, in_time);
	run("polled", 2, polled);
	run("threads", 4, threads);
	run("wrong arguments", 2, wrong_arguments);
	run("an abort", 3, aborted);
	stage = 0;
	run("a rank that leaves", 4, left);
	run("a rank that leaves with messages under way", 3, left_untaken);
	run("all others leave", 4, all_left);
	run("all to all others", 5, all_pairs);
	run_death(where);
}

int main(void)
{
	if (getenv("RINGUP_RANK"))
		return launched();
	run_all("one host, the kernel copies");
	setenv("RINGUP_SINGLE_COPY", "off", 1);
	run("without the kernel's copies: all sizes", 2, all_sizes);
	run("without the kernel's copies: a ring", 4, ring);
	run("without the kernel's copies: beside collectives", 3, beside_collectives);
	run("without the kernel's copies: threads", 2, threads);
	stage = 0;
	run("without the kernel's copies: an abort", 2, aborted);
	unsetenv("RINGUP_SINGLE_COPY");
	setenv("RINGUP_BACKEND", "tcp", 1);
	run_all("each rank a host of its own");
	return tap_done();
}
