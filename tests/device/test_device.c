/* test_device.c - data no processor reads, streams, and several plans at a time on a device. */
/* tests: src/engine/execute.c src/engine/plan.c src/engine/provider.c src/engine/join.c
 * src/engine/bundle.c */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "device/device.h"

#include "asks.h"
#include "ranks.h"

enum { COUNT = 1000, LATE_MS = 120000 };

static float *filled(float value, size_t count)
{
	float *at = device_malloc(count * sizeof(*at)), *here = device_host(at);
	size_t i;

	for (i = 0; i < count; i++)
		here[i] = value;
	return at;
}

static bool all_are(const void *at, float value, size_t count)
{
	const float *here = device_host(at);
	size_t i;

	for (i = 0; i < count && here[i] == value; i++)
		;
	return i == count;
}

/* ---- every collective ---- */

static void reduces(struct ringup *r, int rank, int size)
{
	float *in = filled((float)rank + 1, COUNT), *out = filled(0, COUNT);
	struct ringup_reduce a =
		ASK_REDUCE("sum", in, out, COUNT, .dtype = RINGUP_F32, .memory = RINGUP_CUDA);
	int i, sum = size * (size + 1) / 2;

	check(!strcmp(ringup_backend(ringup_world(r)),
		      getenv("RINGUP_BACKEND") ? "tcp" : "device"),
	      "the device serves", rank);
	/* The second time nothing is new about it. */
	for (i = 0; i < 3; i++) {
		check(!ringup_allreduce(ringup_world(r), &a, NULL) &&
			      all_are(out, (float)sum, COUNT),
		      "a sum", rank);
		memset(device_host(out), 0, COUNT * sizeof(float));
	}
	/* The same name, with data of the host. */
	{
		float small[2] = { 1, 2 };
		struct ringup_reduce host =
			ASK_REDUCE("sum", small, small, 2, .dtype = RINGUP_F32);

		check(!ringup_allreduce(ringup_world(r), &host, NULL) &&
			      small[0] == (float)size && small[1] == 2 * (float)size,
		      "a sum of the host's", rank);
	}
	device_free(in);
	device_free(out);
}

static void moves(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	uint64_t counts[RANKS_MAX];
	float *one = filled((float)rank, COUNT), *all = filled(-1, COUNT * (size_t)size);
	void *got = NULL;
	struct ringup_bcast b = ASK_BCAST("broadcast", one, one, COUNT, .dtype = RINGUP_F32,
					  .root = size - 1, .memory = RINGUP_CUDA);
	struct ringup_gather a = ASK_GATHER(
		"gather", one, COUNT / 10, 10, &got, counts, .dtype = RINGUP_F32, .into = all,
		.into_bytes = COUNT * (uint64_t)size * sizeof(float), .memory = RINGUP_CUDA);
	struct ringup_exchange x =
		ASK_EXCHANGE("exchange", all, (uint64_t)size, 10, &got, counts,
			     .dtype = RINGUP_F32, .memory = RINGUP_CUDA);
	struct ringup_scatter s = ASK_SCATTER("scatter", all, (uint64_t)size, 10, one,
					      .dtype = RINGUP_F32, .memory = RINGUP_CUDA);
	float *room = filled(-1, (size_t)size * 10);
	int i;

	check(!ringup_allgather(g, &a, NULL) && got == all, "an allgather, into", rank);
	for (i = 0; i < size; i++)
		check(all_are(all + COUNT * i, (float)i, COUNT), "each rank's block", rank);
	x.into = room;
	x.into_bytes = (uint64_t)size * 10 * sizeof(float);
	check(!ringup_alltoall(g, &x, NULL) && got == room && all_are(room, 0, 10),
	      "an all-to-all, into", rank);
	check(!ringup_reducescatter(g, &s, NULL) && all_are(one, 0, 10), "a reduce-scatter",
	      rank);
	memcpy(device_host(one), device_host(all + COUNT * rank), COUNT * sizeof(float));
	check(!ringup_broadcast(g, &b, NULL) && all_are(one, (float)(size - 1), COUNT),
	      "a broadcast", rank);
	device_free(one);
	device_free(all);
	device_free(room);
}

static void bundles(struct ringup *r, int rank, int size)
{
	struct ringup_reduce a[3];
	int i;

	for (i = 0; i < 3; i++) {
		float *at = filled((float)(rank + i), COUNT);

		a[i] = (struct ringup_reduce)ASK_REDUCE(
			"many", at, at, COUNT, .dtype = RINGUP_F32,
			.memory = i ? RINGUP_CUDA : RINGUP_HOST);
	}
	a[0].in = a[0].out = device_host(a[0].out);
	check(!ringup_allreduce_many(ringup_world(r), a, 3, NULL), "a group of tensors", rank);
	for (i = 0; i < 3; i++) {
		check(all_are(a[i].out, (float)(size * (size - 1) / 2 + i * size), COUNT),
		      "each tensor of it", rank);
		free(device_host(a[i].out));
	}
}

/* ---- refusals ---- */

static void refusals(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	float *at = filled(1, COUNT);
	uint64_t counts[RANKS_MAX];
	void *got = NULL;
	struct ringup_reduce a =
		ASK_REDUCE("mixed", at, at, COUNT, .dtype = RINGUP_F32, .memory = RINGUP_CUDA);
	struct ringup_gather no_room = ASK_GATHER("no room", at, COUNT, 1, &got, counts,
						  .dtype = RINGUP_F32, .memory = RINGUP_CUDA);
	int rc;

	if (rank == 0) {
		a.memory = RINGUP_HOST;
		a.in = a.out = device_host(at);
	}
	rc = ringup_allreduce(g, &a, NULL);
	check(rc == RINGUP_EMISMATCH && strstr(ringup_error(), "in CUDA memory"),
	      "kinds of memory differ", rank);
	a.memory = RINGUP_CUDA;
	a.in = a.out = at;
	a.redop = RINGUP_ADASUM;
	a.name = "adasum";
	check(ringup_allreduce(g, &a, NULL) == RINGUP_EINVAL, "no Adasum there", rank);
	a.redop = RINGUP_SUM;
	a.name = "root";
	check(ringup_reduce_to(g, &a, 0, NULL) == RINGUP_EINVAL, "no sum to one rank", rank);
	a.memory = RINGUP_HOST;
	a.stream = &a;
	check(ringup_allreduce(g, &a, NULL) == RINGUP_EINVAL, "no stream of the host", rank);
	a.stream = NULL;
	a.memory = (enum ringup_memory)9;
	check(ringup_allreduce(g, &a, NULL) == RINGUP_EINVAL, "no such memory", rank);
	rc = ringup_allgather(g, &no_room, NULL);
	check(rc == RINGUP_ENOMEM, "no room for what is gathered", rank);
	a.memory = RINGUP_CUDA;
	a.name = "after";
	check(!ringup_allreduce(g, &a, NULL) && all_are(at, (float)size, COUNT),
	      "the job goes on", rank);
	device_free(at);
}

/* ---- streams, and several at a time ---- */

static int gate; /* atomic */

/* What is on the stream before an operation is seen by it. */
static void streams(struct ringup *r, int rank, int size)
{
	struct device_stream *s = device_stream_new();
	float *at = filled(-1, COUNT);
	struct ringup_reduce a = ASK_REDUCE("stream", at, at, COUNT, .dtype = RINGUP_F32,
					    .memory = RINGUP_CUDA, .stream = s);
	struct ringup_op *op = NULL;
	static int begun;

	device_fill(s, at, COUNT, (float)rank + 1, &gate);
	check(!ringup_allreduce(ringup_world(r), &a, &op), "begins", rank);
	check(!ringup_poll(op), "waits for the stream", rank);
	if (__atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST) == size)
		__atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
	check(!ringup_wait(op, -1) && all_are(at, (float)(size * (size + 1) / 2), COUNT),
	      "and sees what was on it", rank);
	device_stream_free(s);
	device_free(at);
}

/* While the first waits for its stream, others begin. */
static void several(struct ringup *r, int rank, int size)
{
	enum { MANY = 8 };
	struct device_stream *s = device_stream_new();
	struct ringup_op *op[MANY] = { NULL };
	float *at[MANY];
	char name[MANY][16];
	int64_t enough = clock_deadline(LATE_MS);
	uint64_t begun;
	static int open;
	int i, most = 0;

	for (i = 0; i < MANY; i++) {
		struct ringup_bcast b = ASK_BCAST(
			name[i], NULL, NULL, COUNT, .dtype = RINGUP_F32, .root = i % size,
			.memory = RINGUP_CUDA, .stream = i ? NULL : s);

		snprintf(name[i], sizeof(name[i]), "several %d", i);
		at[i] = filled((float)(rank * MANY + i), COUNT);
		b.in = b.out = at[i];
		if (!i)
			device_fill(s, at[i], COUNT, rank ? -1.0F : 7.0F, &open);
		check(!ringup_broadcast(ringup_world(r), &b, &op[i]), "begins", rank);
	}
	do {
		for (i = 0; i < MANY; i++)
			(void)!ringup_poll(op[i]);
		device_counts(&begun, &most);
	} while (most < 3 && clock_ns() < enough);
	check(most >= 3, "several are in flight at a time", rank);
	__atomic_store_n(&open, 1, __ATOMIC_RELEASE);
	for (i = MANY - 1; i >= 0; i--)
		check(!ringup_wait(op[i], -1), "is done", rank);
	for (i = 0; i < MANY; i++) {
		float value = i ? (float)(i % size * MANY + i) : 7.0F;

		check(all_are(at[i], value, COUNT), "each is right", rank);
		device_free(at[i]);
	}
	device_stream_free(s);
}

/* ---- disputes and joins among others ---- */

/* Sums that are in flight before a dispute, or begin while it is, change nothing about it. */
static void disputes(struct ringup *r, int rank, int size)
{
	enum { ROUNDS = 20, MANY = 9, BAD = 4 };
	struct ringup_op *op[MANY];
	char name[MANY][24];
	float *at[MANY];
	int round, i, bad = 0;

	for (i = 0; i < MANY; i++)
		at[i] = filled(1, COUNT);
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < MANY; i++) {
			struct ringup_bcast b = ASK_BCAST(
				name[i], at[i], at[i], COUNT - (i == BAD && !rank),
				.dtype = RINGUP_F32, .root = i % size, .memory = RINGUP_CUDA);

			snprintf(name[i], sizeof(name[i]), "%s %d", i == BAD ? "bad" : "good",
				 i);
			/* The next batch is there while this one is in flight. */
			if (i == BAD + 1)
				clock_sleep_ms(round % 3);
			check(!ringup_broadcast(ringup_world(r), &b, &op[i]), "begins", rank);
		}
		for (i = 0; i < MANY; i++) {
			int rc = ringup_wait(op[i], -1);

			bad += i == BAD ? rc != RINGUP_EMISMATCH ||
						  !strstr(ringup_error(),
							  "bad 4: rank 0 wants") ||
						  !strstr(ringup_error(), "999")
					: rc != 0;
			if (bad == 1)
				printf("# %s: %d %s\n", name[i], rc, ringup_error());
		}
	}
	check(!bad, "each has its own result", rank);
	for (i = 0; i < MANY; i++)
		device_free(at[i]);
}

/* Sums that others have begun use memory of a rank that has joined, until the join is complete.
 */
static void joins_among(struct ringup *r, int rank, int size)
{
	enum { ROUNDS = 20, MANY = 6 };
	struct ringup_op *op[MANY], *join = NULL;
	char name[MANY][16];
	float *at[MANY];
	int round, i, bad = 0;

	for (round = 0; round < ROUNDS; round++) {
		bool early = rank == 0 && round % 2;

		for (i = 0; i < MANY && !early; i++) {
			struct ringup_reduce a =
				ASK_REDUCE(name[i], NULL, NULL, COUNT, .dtype = RINGUP_F32,
					   .memory = i % 2 ? RINGUP_CUDA : RINGUP_HOST);

			at[i] = filled((float)(rank + i), COUNT);
			a.in = a.out = i % 2 ? at[i] : device_host(at[i]);
			snprintf(name[i], sizeof(name[i]), "before %d", i);
			check(!ringup_allreduce(ringup_world(r), &a, &op[i]), "begins", rank);
		}
		check(!ringup_join(ringup_world(r), NULL, &join), "joins", rank);
		for (i = 0; i < MANY && !early; i++) {
			int from = round % 2 ? size - 1 : size;

			bad += ringup_wait(op[i], -1) != 0 ||
			       !all_are(at[i], (float)(size * (size - 1) / 2 + i * from),
					COUNT);
			device_free(at[i]);
		}
		check(!ringup_wait(join, -1), "all have joined", rank);
	}
	check(!bad, "sums beside a join", rank);
}

/* ---- others ---- */

/* One that has joined gives zeros of the host's. */
static void joins(struct ringup *r, int rank, int size)
{
	float *at = filled((float)rank, COUNT);
	struct ringup_reduce a =
		ASK_REDUCE("joined", at, at, COUNT, .dtype = RINGUP_F32, .memory = RINGUP_CUDA);
	int last = -1;

	if (rank)
		check(!ringup_allreduce(ringup_world(r), &a, NULL) &&
			      all_are(at, (float)(size * (size - 1) / 2), COUNT),
		      "a sum without rank 0", rank);
	check(!ringup_join(ringup_world(r), &last, NULL) && last > 0, "all have joined", rank);
	device_free(at);
}

/* Back ends of a group exchange something when they open. */
static void groups(struct ringup *r, int rank, int size)
{
	int ranks[RANKS_MAX], i;
	struct ringup_group *g = NULL;
	float *at = filled(1, COUNT);
	struct ringup_reduce a =
		ASK_REDUCE("group", at, at, COUNT, .dtype = RINGUP_F32, .memory = RINGUP_CUDA);

	for (i = 1; i < size; i++)
		ranks[i - 1] = i;
	check(!ringup_group_add(r, ranks, size - 1, &g), "a group", rank);
	check(strcmp(ringup_backend(g), rank ? "none" : "device") != 0, "has a back end", rank);
	if (rank)
		check(!ringup_allreduce(g, &a, NULL) && all_are(at, (float)(size - 1), COUNT),
		      "its sum", rank);
	check(!ringup_group_remove(g), "is removed", rank);
	device_free(at);
}

/* The job ends while a plan is in flight: after the error nothing of it is touched. */
static void ends(struct ringup *r, int rank, int size)
{
	struct device_stream *s = device_stream_new();
	float *at = filled((float)rank, COUNT);
	struct ringup_reduce a =
		ASK_REDUCE("ends", at, at, COUNT, .dtype = RINGUP_F32, .memory = RINGUP_CUDA);
	struct ringup_op *op = NULL;
	int rc;

	(void)size;
	if (rank == 0)
		ringup_abort(r, "enough");
	rc = ringup_allreduce(ringup_world(r), &a, &op);
	if (!rc)
		rc = ringup_wait(op, -1);
	check(rc == RINGUP_EABORTED || rc == RINGUP_ESHUTDOWN, "all hear of it", rank);
	device_stream_free(s);
	device_free(at);
}

static void all(void)
{
	run("sums", 3, reduces);
	run("other collectives", 3, moves);
	run("groups of tensors", 2, bundles);
	run("what is refused", 2, refusals);
	run("streams", 3, streams);
	run("several in flight", 2, several);
	run("a dispute while others are in flight", 3, disputes);
	run("a join while others are in flight", 3, joins_among);
	run("ranks that have joined", 3, joins);
	run("groups of ranks", 3, groups);
	run("an end", 3, ends);
}

int main(void)
{
	all();
	setenv("RINGUP_BACKEND", "tcp", 1);
	all();
	return tap_done();
}
