/* conform.c - a rank that compares a GPU's collectives with the host's, bit by bit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "asks.h"
#include "base/collectives.h"
#include "frameworks/xla_api.h"
#include "ringup.h"

/*
 * usage: conform all | schedule SEED ROUNDS | fault [SECONDS] | late [SECONDS] | aborts |
 *                capture | jax LIBRARY | idle [SECONDS] | pace [BYTES]
 *
 * A rank of a job with RINGUP_BACKEND=nccl.  It opens CUDA's driver by its name, so it runs
 * with the real libraries as with tests/fakegpu, which LD_LIBRARY_PATH chooses.
 *
 *	all       every collective, type, operation and scale, against the host's memory
 *	schedule  ROUNDS sums in three groups of ranks, each rank in an order of its own
 *	fault     sums until one fails, and tells how, as tests/fault/loop does
 *	late      the same, and the GPU of the last rank stands still for SECONDS
 *	aborts    one of several groups is aborted
 *	capture   a stream that is being captured is refused, and goes on
 *	jax       what XLA calls in libringup_jax.so for arrays on a GPU, as XLA calls it
 *	idle      some sums, then none: tells the processor time that this took, in ms
 *	pace      sums of up to BYTES by ringup, and by NCCL without it: are the goals reached?
 *
 * Each rank prints what it has found; the exit status is 1 if anything was wrong.
 */

enum { COUNT = 5003, RANKS = 64, TENSORS = 37, WIDEST = 8, IN_FLIGHT = 12 };

/* ---- CUDA's driver ---- */

static struct {
	int (*init)(unsigned int);
	int (*count)(int *);
	int (*retain)(void **, int);
	int (*release)(int);
	int (*use)(void *);
	int (*alloc)(uint64_t *, size_t);
	int (*free)(uint64_t);
	int (*down)(void *, uint64_t, size_t);
	int (*up)(uint64_t, const void *, size_t);
	int (*set)(uint64_t, unsigned char, size_t, void *);
	int (*stream)(void **, unsigned int);
	int (*sync)(void *);
	int (*end)(void *);
	int (*call)(void *, void (*)(void *), void *);
	int (*capture)(void *, int);
	int (*captured)(void *, void **);
} cuda;

static void must(int bad, const char *what)
{
	if (!bad)
		return;
	printf("%s: %d, %s\n", what, bad, ringup_error());
	fflush(stdout);
	_exit(2);
}

static void cuda_open(void)
{
	static const struct {
		void *at;
		const char *name;
	} calls[] = {
		{ &cuda.init, "cuInit" },
		{ &cuda.count, "cuDeviceGetCount" },
		{ &cuda.retain, "cuDevicePrimaryCtxRetain" },
		{ &cuda.release, "cuDevicePrimaryCtxRelease_v2" },
		{ &cuda.use, "cuCtxSetCurrent" },
		{ &cuda.alloc, "cuMemAlloc_v2" },
		{ &cuda.free, "cuMemFree_v2" },
		{ &cuda.down, "cuMemcpyDtoH_v2" },
		{ &cuda.up, "cuMemcpyHtoD_v2" },
		{ &cuda.set, "cuMemsetD8Async" },
		{ &cuda.stream, "cuStreamCreate" },
		{ &cuda.sync, "cuStreamSynchronize" },
		{ &cuda.end, "cuStreamDestroy_v2" },
		{ &cuda.call, "cuLaunchHostFunc" },
		{ &cuda.capture, "cuStreamBeginCapture_v2" },
		{ &cuda.captured, "cuStreamEndCapture" },
	};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *call;

	must(!lib, "no libcuda.so.1");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		call = dlsym(lib, calls[i].name);
		must(!call, calls[i].name);
		memcpy(calls[i].at, &call, sizeof(call));
	}
}

static void *gpu_new(size_t bytes)
{
	uint64_t at = 0;

	must(cuda.alloc(&at, bytes ? bytes : 1), "cuMemAlloc");
	return (void *)(uintptr_t)at;
}

static uint64_t gpu_at(const void *at)
{
	return (uintptr_t)at;
}

/* From pageable memory the call may return before the copy has ended, and no other stream here
 * waits for the default one. */
static int up(uint64_t to, const void *from, size_t bytes)
{
	int bad = cuda.up(to, from, bytes);

	return bad ? bad : cuda.sync(NULL);
}

/* ---- this rank ---- */

static struct ringup *job;
static struct ringup_group *world;
static int rank, size, device, checks, wrong;
static void *stream;

static void check(bool good, const char *fmt, const char *a, const char *b, const char *c)
{
	checks++;
	if (good)
		return;
	if (wrong++ > 20)
		return;
	printf("rank %d: ", rank);
	printf(fmt, a, b, c);
	printf(": %s\n", ringup_error());
	fflush(stdout);
}

static uint64_t state;

static uint64_t drawn(void)
{
	state = state * 6364136223846793005U + 1442695040888963407U;
	return state >> 33;
}

/* ---- data ---- */

static const struct {
	const char *name;
	enum ringup_dtype type;
	size_t bytes;
} types[] = {
#define X(name, bytes) { #name, RINGUP_##name, bytes },
	RINGUP_DTYPES(X)
#undef X
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

static const char *const ops[] = { "sum", "average", "min", "max", "product", "adasum" };

enum { OPS = sizeof(ops) / sizeof(ops[0]) - 1 }; /* without Adasum, which is for floats */

static bool is_floating(int t)
{
	enum ringup_dtype d = types[t].type;

	return d == RINGUP_F16 || d == RINGUP_BF16 || d == RINGUP_F32 || d == RINGUP_F64;
}

/* 1, 2 and -1 in a floating type: all results are whole and exact, in any order of sums. */
static void put_floating(int t, unsigned char *at, int which)
{
	static const uint16_t f16[] = { 0x3c00, 0x4000, 0xbc00 };
	static const uint16_t bf16[] = { 0x3f80, 0x4000, 0xbf80 };
	static const float f32[] = { 1, 2, -1 };
	static const double f64[] = { 1, 2, -1 };

	if (types[t].type == RINGUP_F16)
		memcpy(at, &f16[which], 2);
	else if (types[t].type == RINGUP_BF16)
		memcpy(at, &bf16[which], 2);
	else if (types[t].type == RINGUP_F32)
		memcpy(at, &f32[which], 4);
	else
		memcpy(at, &f64[which], 8);
}

/* Integers have any bits: sums and products wrap on both sides. */
static void data_fill(int t, unsigned char *at, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (is_floating(t)) {
			put_floating(t, at + i * types[t].bytes, (int)(drawn() % 3));
			continue;
		}
		for (size_t k = 0; k < types[t].bytes; k++)
			at[i * types[t].bytes + k] = (unsigned char)drawn();
		if (types[t].type == RINGUP_BOOL && drawn() % 2)
			at[i] = 0;
	}
}

static unsigned char here[2 * RANKS * COUNT * WIDEST], host[2 * RANKS * COUNT * WIDEST],
	back[2 * RANKS * COUNT * WIDEST];
static void *gpu_in, *gpu_out;

static bool is_equal(const void *gpu, const void *want, size_t bytes)
{
	/* Also without a result: the next operation's data replace this one's. */
	must(cuda.sync(stream), "cuStreamSynchronize");
	if (!bytes)
		return true;
	must(cuda.down(back, gpu_at(gpu), bytes), "cuMemcpyDtoH");
	return !memcmp(back, want, bytes);
}

/* The streams of half of the operations: none, or this rank's. */
static void *some_stream(void)
{
	return checks % 2 ? stream : NULL;
}

/* ---- reductions ---- */

static const struct {
	double pre, post;
} scales[] = { { 0, 0 }, { 0.5, 4 }, { 3, 0 } };

enum { SCALES = sizeof(scales) / sizeof(scales[0]) };

static bool scales_exactly(int t, int op, int scale)
{
	bool half = types[t].type == RINGUP_F16 || types[t].type == RINGUP_BF16;

	/* Divided by 3, 5, 6 or 7 the sums are rounded, and then scaled in another order. */
	if (is_floating(t) && op == RINGUP_AVERAGE && scale)
		return false;
	/* The product of eight sixes has more digits than these. */
	return !half || op != RINGUP_PRODUCT || scales[scale].pre != 3;
}

static void one_sum(int t, int op, int scale, uint64_t count, bool in_place)
{
	size_t bytes = count * types[t].bytes;
	struct ringup_reduce a =
		ASK_REDUCE("sum", here, host, count, .dtype = types[t].type,
			   .redop = (enum ringup_redop)op, .pre = scales[scale].pre,
			   .post = scales[scale].post);
	int rc;

	data_fill(t, here, count);
	if (bytes)
		must(up(gpu_at(gpu_in), here, bytes), "cuMemcpyHtoD");
	rc = ringup_allreduce(world, &a, NULL);
	must(rc, "the host's sum");
	a.name = "sum of a GPU's";
	a.in = gpu_in;
	a.out = in_place ? gpu_in : gpu_out;
	a.memory = RINGUP_CUDA;
	a.stream = some_stream();
	rc = ringup_allreduce(world, &a, NULL);
	check(!rc && is_equal(a.out, host, bytes), "%s of %s, %s", ops[op], types[t].name,
	      scale ? "scaled" : "not scaled");
}

static void sums(void)
{
	static const uint64_t counts[] = { 0, 1, 3, 4096, COUNT };

	for (int t = 0; t < TYPES; t++)
		for (int op = 0; op < OPS; op++)
			for (int scale = 0; scale < SCALES; scale++) {
				if (types[t].type == RINGUP_BOOL &&
				    (op == RINGUP_AVERAGE || scale))
					continue;
				if (!scales_exactly(t, op, scale))
					continue;
				for (int i = 0; i < 5; i++)
					one_sum(t, op, scale, counts[i], i % 2);
			}
}

/* A reduction that is only carried out in the host's memory: it takes a GPU's all the same. */
static void to_root(int t, int root, bool in_place)
{
	struct ringup_reduce a = ASK_REDUCE("to root", here, host, COUNT,
					    .dtype = types[t].type, .redop = RINGUP_MAX);
	size_t bytes = rank == root ? COUNT * types[t].bytes : 0;
	int rc;

	data_fill(t, here, COUNT);
	must(up(gpu_at(gpu_in), here, COUNT * types[t].bytes), "cuMemcpyHtoD");
	must(ringup_reduce_to(world, &a, root, NULL), "the host's reduction to a root");
	a.name = "to root of a GPU's";
	a.in = gpu_in;
	a.out = in_place ? gpu_in : gpu_out;
	a.memory = RINGUP_CUDA;
	a.stream = some_stream();
	rc = ringup_reduce_to(world, &a, root, NULL);
	check(!rc && is_equal(a.out, host, bytes), "max of %s%s%s", types[t].name,
	      " to one rank", "");
}

/* Many tensors in one call; the widths of types differ, so they are not all fused. */
static void many(int t)
{
	struct ringup_reduce a[TENSORS], g[TENSORS];
	uint64_t first = 0;
	bool good = true;

	data_fill(t, here, COUNT);
	must(up(gpu_at(gpu_in), here, COUNT * types[t].bytes), "cuMemcpyHtoD");
	for (int i = 0; i < TENSORS; i++) {
		uint64_t n = 1 + (uint64_t)(i * 7) % 113;

		a[i] = (struct ringup_reduce)ASK_REDUCE("many", here + first * types[t].bytes,
							host + first * types[t].bytes, n,
							.dtype = types[t].type);
		g[i] = a[i];
		g[i].name = "many of a GPU's";
		g[i].in = (unsigned char *)gpu_in + first * types[t].bytes;
		g[i].out = (unsigned char *)gpu_out + first * types[t].bytes;
		g[i].memory = RINGUP_CUDA;
		g[i].stream = some_stream();
		first += n;
	}
	must(ringup_allreduce_many(world, a, TENSORS, NULL), "the host's sums");
	good = !ringup_allreduce_many(world, g, TENSORS, NULL) &&
	       is_equal(gpu_out, host, first * types[t].bytes);
	check(good, "%s%s%s", "many tensors of ", types[t].name, "");
}

/* Operations that are not waited for, so that the engine fuses them. */
static void fused(int t)
{
	struct ringup_op *op[TENSORS];
	char name[32];
	uint64_t each = COUNT / TENSORS;
	size_t bytes = each * types[t].bytes;
	bool good = true;

	data_fill(t, here, COUNT);
	must(up(gpu_at(gpu_in), here, COUNT * types[t].bytes), "cuMemcpyHtoD");
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < TENSORS; i++) {
			unsigned char *in = round ? gpu_in : here,
				      *out = round ? gpu_out : host;
			struct ringup_reduce a = ASK_REDUCE(
				name, in + (size_t)i * bytes, out + (size_t)i * bytes, each,
				.dtype = types[t].type,
				.redop = is_floating(t) ? RINGUP_SUM : RINGUP_AVERAGE,
				.memory = round ? RINGUP_CUDA : RINGUP_HOST);

			if (types[t].type == RINGUP_BOOL)
				a.redop = RINGUP_MAX;
			snprintf(name, sizeof(name), "fused %d %d", round, i);
			must(ringup_allreduce(world, &a, &op[i]), "a sum");
		}
		for (int i = 0; i < TENSORS; i++)
			good &= !ringup_wait(op[i], -1);
	}
	check(good && is_equal(gpu_out, host, bytes * TENSORS), "%s%s%s", "fused tensors of ",
	      types[t].name, "");
}

/* ---- moves ---- */

static void broadcasts(int t)
{
	for (int root = 0; root < size; root++) {
		struct ringup_bcast b = ASK_BCAST("broadcast", here, host, COUNT,
						  .dtype = types[t].type, .root = root);
		size_t bytes = COUNT * types[t].bytes;

		data_fill(t, here, COUNT);
		must(up(gpu_at(gpu_in), here, bytes), "cuMemcpyHtoD");
		must(ringup_broadcast(world, &b, NULL), "the host's broadcast");
		b.name = "broadcast of a GPU's";
		b.in = gpu_in;
		b.out = gpu_out;
		b.memory = RINGUP_CUDA;
		b.stream = some_stream();
		check(!ringup_broadcast(world, &b, NULL) && is_equal(gpu_out, host, bytes),
		      "%s%s%s", "broadcast of ", types[t].name, "");
	}
}

/* rows: the same on all ranks; or different, and some bring none. */
static void gathers(int t, bool uneven)
{
	uint64_t counts[RANKS], got[RANKS], rows = uneven ? (uint64_t)rank * 3 % 7 : 5, all = 0;
	void *to = host, *out = NULL;
	struct ringup_gather a =
		ASK_GATHER("gather", here, rows, 11, &to, counts, .dtype = types[t].type,
			   .into = host, .into_bytes = sizeof(host) / 2);
	int rc;

	data_fill(t, here, rows * 11);
	if (rows)
		must(up(gpu_at(gpu_in), here, rows * 11 * types[t].bytes), "cuMemcpyHtoD");
	must(ringup_allgather(world, &a, NULL), "the host's gather");
	a.name = "gather of a GPU's";
	a.in = gpu_in;
	a.out = &out;
	a.counts = got;
	a.into = gpu_out;
	a.memory = RINGUP_CUDA;
	a.stream = some_stream();
	rc = ringup_allgather(world, &a, NULL);
	for (int r = 0; r < size; r++)
		all += counts[r];
	check(!rc && out == gpu_out && !memcmp(got, counts, sizeof(*got) * (size_t)size) &&
		      is_equal(gpu_out, host, all * 11 * types[t].bytes),
	      "%s gather of %s%s", uneven ? "uneven" : "even", types[t].name, "");
}

/* One rank has too little room for the result: all are told so, and go on. */
static void no_room(void)
{
	uint64_t counts[RANKS], room = (uint64_t)size * 2 * sizeof(int32_t);
	void *out = NULL;
	struct ringup_gather a = ASK_GATHER(
		"no room", gpu_in, 2, 1, &out, counts, .dtype = RINGUP_I32, .into = gpu_out,
		.into_bytes = rank == size - 1 ? room - 1 : room, .memory = RINGUP_CUDA);
	char why[64];
	int rc;

	snprintf(why, sizeof(why), "rank %d has no room for the result on its GPU", size - 1);
	for (int i = 0; i < 2; i++) {
		if (i && !rank) {
			a.memory = RINGUP_HOST;
			a.in = here;
			a.into = host;
		}
		rc = ringup_allgather(world, &a, NULL);
		check((rc == RINGUP_ENOMEM && strstr(ringup_error(), why)) || (i && size == 1),
		      "%s%s%s", "no room in into", i ? ", mixed memory" : "", "");
		if (!rc && out != a.into)
			ringup_free(out);
	}
}

static void exchanges(int t, bool uneven)
{
	uint64_t splits[RANKS], counts[RANKS], got[RANKS], rows = 0, all = 0;
	void *to = host, *out = NULL;
	struct ringup_exchange a = ASK_EXCHANGE(
		"exchange", here, 0, 5, &to, counts, .dtype = types[t].type,
		.splits = uneven ? splits : NULL, .into = host, .into_bytes = sizeof(host) / 2);
	int rc;

	for (int r = 0; r < size; r++) {
		splits[r] = uneven ? (uint64_t)(rank * 5 + r * 3) % 4 : 2;
		rows += splits[r];
	}
	a.rows = rows;
	data_fill(t, here, rows * 5);
	if (rows)
		must(up(gpu_at(gpu_in), here, rows * 5 * types[t].bytes), "cuMemcpyHtoD");
	must(ringup_alltoall(world, &a, NULL), "the host's exchange");
	a.name = "exchange of a GPU's";
	a.in = gpu_in;
	a.out = &out;
	a.counts = got;
	a.into = gpu_out;
	a.memory = RINGUP_CUDA;
	a.stream = some_stream();
	rc = ringup_alltoall(world, &a, NULL);
	for (int r = 0; r < size; r++)
		all += counts[r];
	check(!rc && out == gpu_out && !memcmp(got, counts, sizeof(*got) * (size_t)size) &&
		      is_equal(gpu_out, host, all * 5 * types[t].bytes),
	      "%s exchange of %s%s", uneven ? "uneven" : "even", types[t].name, "");
}

static void scatters(int t, int op, uint64_t rows, double pre)
{
	uint64_t mine = rows / (uint64_t)size + ((uint64_t)rank < rows % (uint64_t)size);
	struct ringup_scatter a =
		ASK_SCATTER("scatter", here, rows, 7, host, .dtype = types[t].type,
			    .redop = (enum ringup_redop)op, .pre = pre);

	if (types[t].type == RINGUP_BOOL && (op == RINGUP_AVERAGE || pre != 0))
		return;
	if (is_floating(t) && op == RINGUP_AVERAGE && pre != 0)
		return;
	data_fill(t, here, rows * 7);
	if (rows)
		must(up(gpu_at(gpu_in), here, rows * 7 * types[t].bytes), "cuMemcpyHtoD");
	must(ringup_reducescatter(world, &a, NULL), "the host's scatter");
	a.name = "scatter of a GPU's";
	a.in = gpu_in;
	a.out = gpu_out;
	a.memory = RINGUP_CUDA;
	a.stream = some_stream();
	check(!ringup_reducescatter(world, &a, NULL) &&
		      is_equal(gpu_out, host, mine * 7 * types[t].bytes),
	      "reduce-scatter, %s of %s%s", ops[op], types[t].name, "");
}

/* ---- the rest ---- */

/* The other ranks join, and scale what is neutral, as rank 0 does its tensor. */
static void joins(int t)
{
	struct ringup_reduce a =
		ASK_REDUCE("joined", here, host, COUNT, .dtype = types[t].type);
	size_t bytes = COUNT * types[t].bytes;
	int last = -1, rc = 0;

	data_fill(t, here, COUNT);
	must(up(gpu_at(gpu_in), here, bytes), "cuMemcpyHtoD");
	for (int i = 0; i < 2 * OPS && !rank; i++) {
		a.redop = (enum ringup_redop)(i / 2);
		a.pre = i % 2 ? -1 : 0;
		if (types[t].type == RINGUP_BOOL && (a.redop == RINGUP_AVERAGE || a.pre != 0))
			continue;
		a.name = "joined";
		a.in = here;
		a.out = host;
		a.memory = RINGUP_HOST;
		must(ringup_allreduce(world, &a, NULL), "the host's, with joined ranks");
		a.name = "joined, a GPU's";
		a.in = gpu_in;
		a.out = gpu_out;
		a.memory = RINGUP_CUDA;
		rc = ringup_allreduce(world, &a, NULL);
		check(!rc && is_equal(gpu_out, host, bytes), "%s of %s%s", ops[i / 2],
		      types[t].name,
		      i % 2 ? ", scaled, with ranks that have joined"
			    : ", with ranks that have joined");
	}
	must(ringup_join(world, &last, NULL), "join");
}

/* NCCL leaves a NaN out of a minimum or maximum, as docs/gpu.md says; the host does not. */
static void nans(void)
{
	const float nan = __builtin_nanf("");
	float in = rank ? nan : 3, out = 0;
	struct ringup_reduce a =
		ASK_REDUCE("NaN", &in, &out, 1, .dtype = RINGUP_F32, .redop = RINGUP_MIN);

	must(up(gpu_at(gpu_in), &in, sizeof(in)), "cuMemcpyHtoD");
	for (int i = 0; i < 2; i++) {
		a.redop = i ? RINGUP_MAX : RINGUP_MIN;
		a.in = &in;
		a.out = &out;
		a.memory = RINGUP_HOST;
		must(ringup_allreduce(world, &a, NULL), "the host's, of a NaN");
		check(size == 1 || out != out, "%s%s%s", "the host keeps a NaN", "", "");
		a.in = gpu_in;
		a.out = gpu_out;
		a.memory = RINGUP_CUDA;
		must(ringup_allreduce(world, &a, NULL), "a GPU's, of a NaN");
		out = 3;
		check(is_equal(gpu_out, &out, sizeof(out)), "%s%s%s", "a GPU leaves a NaN out",
		      "", "");
	}
}

/* An address between two elements is an error of the call, and the GPU goes on.  Bytes that are
 * only moved may lie there. */
static void misaligned(void)
{
	unsigned char *in = (unsigned char *)gpu_in + 1, *out = (unsigned char *)gpu_out + 1;
	struct ringup_reduce sum = ASK_REDUCE("misaligned", in, gpu_out, 9, .dtype = RINGUP_F16,
					      .memory = RINGUP_CUDA);
	struct ringup_bcast root = ASK_BCAST("misaligned root", in, out, 9, .dtype = RINGUP_F64,
					     .memory = RINGUP_CUDA);
	struct ringup_scatter part = ASK_SCATTER("misaligned part", gpu_in, 9, 1, out,
						 .dtype = RINGUP_I32, .memory = RINGUP_CUDA);

	check(ringup_allreduce(world, &sum, NULL) == RINGUP_EINVAL &&
		      strstr(ringup_error(), "aligned"),
	      "%s%s%s", "a misaligned sum", "", "");
	check(ringup_reducescatter(world, &part, NULL) == RINGUP_EINVAL &&
		      strstr(ringup_error(), "aligned"),
	      "%s%s%s", "a misaligned part", "", "");
	must(cuda.set(gpu_at(gpu_in), 1 + (unsigned char)rank, 9 * 8 + 1, NULL) ||
		     cuda.sync(NULL),
	     "memset");
	memset(host, size, 9 * 8);
	root.root = size - 1;
	check(!ringup_broadcast(world, &root, NULL) && is_equal(out, host, 9 * 8), "%s%s%s",
	      "a misaligned broadcast", "", "");
}

/* Are the @count floats of the result all @value? */
static void came(const void *out, float value, uint64_t count, const char *what)
{
	const float *got = (const float *)(void *)host;
	uint64_t i;

	if (rank)
		must(cuda.down(host, gpu_at(out), count * sizeof(float)), "cuMemcpyDtoH");
	for (i = 0; i < count && got[i] == value; i++)
		;
	check(i == count, "%s%s%s", "mixed memory: ", what, "");
}

/* Rank 0 has its tensors in the host's memory, the others on GPUs. */
static void mixed(void)
{
	enum { ROW = 50 };
	enum ringup_memory memory = rank ? RINGUP_CUDA : RINGUP_HOST;
	void *in = rank ? gpu_in : here, *out = rank ? gpu_out : host, *got = NULL;
	uint64_t counts[RANKS], rows = (uint64_t)size;
	struct ringup_reduce sum = { .bytes = sizeof(sum),
				     .name = "mixed",
				     .in = in,
				     .out = out,
				     .count = COUNT,
				     .dtype = RINGUP_F32,
				     .memory = memory };
	struct ringup_bcast root = { .bytes = sizeof(root),
				     .name = "mixed root",
				     .in = in,
				     .out = out,
				     .count = COUNT,
				     .dtype = RINGUP_F32,
				     .memory = memory };
	struct ringup_gather all = { .bytes = sizeof(all),
				     .name = "mixed rows",
				     .in = in,
				     .rows = 1 + (uint64_t)rank % 2,
				     .row = ROW,
				     .dtype = RINGUP_F32,
				     .out = &got,
				     .counts = counts,
				     .into = out,
				     .into_bytes = sizeof(host),
				     .memory = memory };
	struct ringup_exchange swap = { .bytes = sizeof(swap),
					.name = "mixed exchange",
					.in = in,
					.rows = rows,
					.row = ROW,
					.dtype = RINGUP_F32,
					.out = &got,
					.counts = counts,
					.into = out,
					.into_bytes = sizeof(host),
					.memory = memory };
	struct ringup_scatter part = { .bytes = sizeof(part),
				       .name = "mixed part",
				       .in = in,
				       .rows = rows,
				       .row = ROW,
				       .out = out,
				       .dtype = RINGUP_F32,
				       .memory = memory };

	for (int i = 0; i < COUNT; i++)
		((float *)(void *)here)[i] = 1;
	must(up(gpu_at(gpu_in), here, COUNT * sizeof(float)), "cuMemcpyHtoD");
	for (int i = 0; i < 2; i++) {
		check(!ringup_allreduce(world, &sum, NULL), "%s%s%s", "mixed sum", "", "");
		came(out, (float)size, COUNT, "sum");
		root.root = i * (size - 1);
		check(!ringup_broadcast(world, &root, NULL), "%s%s%s", "mixed root", "", "");
		came(out, 1, COUNT, "root");
		check(!ringup_allgather(world, &all, NULL), "%s%s%s", "mixed rows", "", "");
		came(out, 1, (rows + rows / 2) * ROW, "rows");
		check(!ringup_alltoall(world, &swap, NULL), "%s%s%s", "mixed exchange", "", "");
		came(out, 1, rows * ROW, "exchange");
		check(!ringup_reducescatter(world, &part, NULL), "%s%s%s", "mixed part", "",
		      "");
		came(out, (float)size, ROW, "part");
	}
}

/* For each collective, what is done with each type. */
static void all_allreduce(int t)
{
	many(t);
	fused(t);
}

static void all_broadcast(int t)
{
	broadcasts(t);
}

static void all_allgather(int t)
{
	gathers(t, false);
	gathers(t, true);
}

static void all_alltoall(int t)
{
	exchanges(t, false);
	exchanges(t, true);
}

static void all_reducescatter(int t)
{
	for (int op = 0; op < OPS; op++) {
		scatters(t, op, 3 * (uint64_t)size, 0);
		scatters(t, op, 3 * (uint64_t)size + 1, 0.5);
		scatters(t, op, 1, 0);
	}
}

static int all(void)
{
	sums();
	for (int t = 0; t < TYPES; t++) {
		for (int i = 0; i < 2; i++) {
			if (is_floating(t))
				one_sum(t, RINGUP_ADASUM, 0, i ? COUNT : 0, i);
			to_root(t, i * (size - 1), i);
		}
#define X(kind, word, activity, traits) all_##word(t);
		COLLECTIVES_MOVE(X)
#undef X
		if (size > 1)
			joins(t);
	}
	mixed();
	no_room();
	nans();
	misaligned();
	must(ringup_barrier(world, "end", NULL), "a barrier");
	return 0;
}

/* ---- three groups in random order ---- */

struct flight {
	struct ringup_op *op;
	float *gpu;
	float want;
	int round;
	void *stream; /* its own: one for all would wait for sums that others have not begun */
};

static void land(struct flight *f)
{
	float got[2] = { 0, 0 };
	int rc;

	if (!f->op)
		return;
	rc = ringup_wait(f->op, -1);
	f->op = NULL;
	/* With a stream it is complete when it is queued there. */
	if (!rc)
		must(cuda.sync(f->stream), "cuStreamSynchronize");
	if (!rc)
		must(cuda.down(got, gpu_at(f->gpu), sizeof(got)), "cuMemcpyDtoH");
	check(!rc && got[0] == f->want && got[1] == f->want, "%s%s%s", "a sum of a schedule",
	      "", "");
}

/* Each rank has its own order of the groups within a round, and waits whenever it likes, but
 * only for sums of earlier rounds: two ranks that wait for each other's next call deadlock
 * anywhere. */
static int schedule(uint64_t seed, int rounds)
{
	struct ringup_group *group[3] = { world, NULL, NULL };
	int first[RANKS], second[RANKS], n = 0, m = 0;
	struct flight flight[IN_FLIGHT] = { { NULL, NULL, 0, 0, NULL } };
	float two[2];
	int at = 0;

	for (int r = 0; r < size; r++) {
		if (r < size - 1 || size < 3)
			first[n++] = r;
		if (r > 0 || size < 3)
			second[m++] = r;
	}
	must(ringup_group_add(job, first, n, &group[1]), "a group");
	must(ringup_group_add(job, second, m, &group[2]), "a group");
	for (int i = 0; i < IN_FLIGHT; i++) {
		flight[i].gpu = gpu_new(sizeof(two));
		must(cuda.stream(&flight[i].stream, 1), "cuStreamCreate");
	}
	state = seed * 7919 + (uint64_t)rank;
	for (int round = 0; round < rounds; round++) {
		int order[3] = { 0, 1, 2 };

		for (int i = 2; i > 0; i--) {
			int k = (int)(drawn() % (uint64_t)(i + 1)), keep = order[i];

			order[i] = order[k];
			order[k] = keep;
		}
		for (int i = 0; i < 3; i++) {
			struct ringup_group *g = group[order[i]];
			struct flight *f = &flight[at++ % IN_FLIGHT];
			char name[32];
			struct ringup_reduce a = ASK_REDUCE(
				name, NULL, NULL, 2, .dtype = RINGUP_F32, .memory = RINGUP_CUDA,
				.stream = drawn() % 2 ? f->stream : NULL);

			if (ringup_rank(g) < 0)
				continue;
			land(f);
			snprintf(name, sizeof(name), "s%d.%d", order[i], round % 8);
			two[0] = two[1] = (float)(round % 100 + 1);
			must(up(gpu_at(f->gpu), two, sizeof(two)), "cuMemcpyHtoD");
			a.in = a.out = f->gpu;
			f->want = (float)((round % 100 + 1) * ringup_size(g));
			must(ringup_allreduce(g, &a, &f->op), "a sum");
			f->round = round;
			while (drawn() % 4 == 0) {
				f = &flight[drawn() % IN_FLIGHT];
				if (f->round < round)
					land(f);
			}
		}
	}
	for (int i = 0; i < IN_FLIGHT; i++) {
		land(&flight[i]);
		must(cuda.free(gpu_at(flight[i].gpu)) || cuda.end(flight[i].stream), "the end");
	}
	must(ringup_group_remove(group[2]), "the end of a group");
	must(ringup_group_remove(group[1]), "the end of a group");
	return 0;
}

/* ---- a fault ---- */

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void tell(const char *what, const char *more)
{
	printf("%s %d %d %lld%s%s\n", what, rank, (int)getpid(), (long long)now(),
	       *more ? " " : "", more);
	fflush(stdout);
}

/* The next generation of an elastic job computes on the same GPUs. */
static int again(void)
{
	struct ringup_reduce a = { .bytes = sizeof(a),
				   .name = "again",
				   .in = gpu_in,
				   .out = gpu_in,
				   .count = COUNT,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_CUDA,
				   .stream = stream };
	float *sum = (float *)(void *)here;
	char text[32];

	for (int i = 0; i < COUNT; i++)
		sum[i] = 1;
	must(up(gpu_at(gpu_in), here, COUNT * sizeof(float)), "cuMemcpyHtoD");
	must(ringup_allreduce(world, &a, NULL) || cuda.sync(stream) ||
		     cuda.down(here, gpu_at(gpu_in), COUNT * sizeof(float)),
	     "a sum of the next generation");
	check(sum[0] == (float)size && sum[COUNT - 1] == (float)size, "%s%s%s", "it is right",
	      "", "");
	snprintf(text, sizeof(text), "%d of %d", wrong, size);
	tell("again", text);
	return 0;
}

static void stand_still(void *seconds)
{
	usleep((useconds_t)(*(double *)seconds * 1e6));
}

/* The error is the last line, as tests/fault/loop.c has it, and says how long the operation
 * took; the program's stream goes on.  After some sums the stream of the last rank stands still
 * for @late seconds, and so its part of the next sum does not run. */
static int fault(double seconds, double late)
{
	struct ringup_reduce a = ASK_REDUCE("gradient", gpu_in, gpu_in, COUNT,
					    .dtype = RINGUP_F32, .memory = RINGUP_CUDA);
	int64_t most = now() + (int64_t)(seconds * 1e9);
	int64_t since = 0;
	char text[1024];
	int rc = 0;

	if (ringup_generation(job) > 1)
		return again();
	must(cuda.set(gpu_at(gpu_in), 0, COUNT * sizeof(float), NULL) || cuda.sync(NULL),
	     "memset");
	for (int done = 0; !rc && now() < most; done++) {
		a.stream = done % 2 ? stream : NULL;
		if (late > 0 && done == 21 && rank == size - 1)
			must(cuda.call(stream, stand_still, &late), "cuLaunchHostFunc");
		since = now();
		rc = ringup_allreduce(world, &a, NULL);
		if (!rc && done == 10)
			tell("ready", "");
		usleep(1000);
	}
	snprintf(text, sizeof(text), "%d %s [%lld ms]", rc, rc ? ringup_error() : "no fault",
		 (long long)(now() - since) / 1000000);
	tell("error", text);
	must(cuda.sync(stream), "the stream after the error");
	if (!ringup_generation(job))
		return !rc;
	ringup_fini(job);
	must(ringup_init(NULL, &job), "the next generation");
	world = ringup_world(job);
	rank = ringup_rank(world);
	size = ringup_size(world);
	return again();
}

/* Rank 0 is late in one group, and another rank aborts it: all hear of it, other groups go on.
 */
static int aborts(void)
{
	struct ringup_group *late = NULL, *other = NULL;
	struct ringup_reduce far = { .bytes = sizeof(far),
				     .name = "far",
				     .in = gpu_in,
				     .out = gpu_in,
				     .count = COUNT,
				     .dtype = RINGUP_F32,
				     .memory = RINGUP_CUDA,
				     .stream = stream };
	struct ringup_reduce near = { .bytes = sizeof(near),
				      .name = "near",
				      .in = here,
				      .out = here,
				      .count = COUNT,
				      .dtype = RINGUP_F32 };
	struct ringup_op *op[2];
	int ranks[RANKS], rc = 0;
	int64_t since;

	for (int i = 0; i < size; i++)
		ranks[i] = i;
	must(ringup_group_add(job, ranks, size, &late) ||
		     ringup_group_add(job, ranks, size, &other),
	     "groups");
	must(ringup_allreduce(late, &far, NULL) || ringup_allreduce(late, &near, NULL),
	     "sums of the group");
	for (int i = 0; i < 2 && rank; i++)
		must(ringup_allreduce(late, i ? &far : &near, &op[i]), "begun");
	usleep(100000);
	since = now();
	if (rank == size - 1)
		must(ringup_group_abort(late), "ringup_group_abort");
	while (!(rc = ringup_group_error(late)) && now() - since < 5000000000)
		usleep(1000);
	check(rc == RINGUP_EABORTED && strstr(ringup_error(), "has aborted group"), "%s%s%s",
	      "the group's error", "", "");
	for (int i = 0; i < 2 && rank; i++)
		check(ringup_wait(op[i], 5000) == RINGUP_EABORTED, "%s%s%s", "ends with it", "",
		      "");
	check(ringup_allreduce(late, &near, NULL) == RINGUP_EABORTED, "%s%s%s", "for good", "",
	      "");
	for (int i = 0; i < 20; i++)
		must(ringup_allreduce(other, i % 2 ? &far : &near, NULL), "another group");
	check(!ringup_group_error(other) && !ringup_group_error(world), "%s%s%s",
	      "the others have none", "", "");
	must(ringup_group_remove(late) || ringup_group_add(job, ranks, size, &late) ||
		     ringup_allreduce(late, &far, NULL) || ringup_allreduce(late, &near, NULL),
	     "a new group");
	return 0;
}

/* A CUDA graph cannot have a collective: that is an error of the call, which leaves the capture
 * whole, and the stream can be used afterwards. */
static int capture(void)
{
	struct ringup_reduce a =
		ASK_REDUCE("captured", gpu_in, gpu_out, COUNT, .dtype = RINGUP_F32,
			   .memory = RINGUP_CUDA, .stream = stream);
	const float *sum = (const float *)(void *)here;
	void *graph = NULL;
	int rc;

	for (int i = 0; i < COUNT; i++)
		((float *)(void *)here)[i] = 1;
	must(up(gpu_at(gpu_in), here, COUNT * sizeof(float)), "cuMemcpyHtoD");
	for (int i = 0; i < 3; i++) {
		must(ringup_allreduce(world, &a, NULL) || cuda.sync(stream) ||
			     cuda.down(here, gpu_at(gpu_out), COUNT * sizeof(float)),
		     "a sum");
		check(sum[0] == (float)size && sum[COUNT - 1] == (float)size, "%s%s%s",
		      "a sum around a capture", "", "");
		must(cuda.capture(stream, 0), "cuStreamBeginCapture");
		rc = ringup_allreduce(world, &a, NULL);
		check(rc == RINGUP_EINVAL && strstr(ringup_error(), "captur"), "%s%s%s",
		      "a stream that is being captured", "", "");
		check(!cuda.captured(stream, &graph), "%s%s%s", "the capture is whole", "", "");
	}
	must(ringup_barrier(world, "end", NULL), "a barrier");
	return 0;
}

/* ---- as XLA calls it ---- */

static char xla_said[1024]; /* the text of the last error */

static struct xla_error *xla_error_create(struct xla_error_args *a)
{
	snprintf(xla_said, sizeof(xla_said), "%d %s", a->code, a->message);
	return (struct xla_error *)xla_said;
}

static struct xla_error *xla_stream_get(struct xla_stream_args *a)
{
	a->stream = stream;
	return NULL;
}

typedef struct xla_error *xla_call(struct xla_frame *);

/* A call of @word with an array of @rows rows of five numbers, of which @got come back. */
static struct xla_error *xla_carry_out(void *lib, const char *word, int64_t rows, int64_t got,
				       bool tells_stream)
{
	struct xla_api api = { .size = tells_stream ? offsetof(struct xla_api, type_register)
						    : offsetof(struct xla_api, stream_get),
			       .error_create = xla_error_create,
			       .stream_get = xla_stream_get };
	int64_t in_dims[] = { rows, 5 }, out_dims[] = { got, 5 }, root = size - 1;
	/* XLA has no memory for an empty array. */
	struct xla_buffer in = {
		.dtype = XLA_S32, .data = rows ? gpu_in : NULL, .rank = 2, .dims = in_dims
	};
	struct xla_buffer out = {
		.dtype = XLA_S32, .data = got ? gpu_out : NULL, .rank = 2, .dims = out_dims
	};
	struct xla_buffer *ins[] = { &in }, *outs[] = { &out };
	struct xla_scalar number = { XLA_S64, &root };
	struct xla_text name = { "step", 4 }, names[] = { { "name", 4 }, { "root_rank", 9 } };
	struct xla_text *told[] = { &names[0], &names[1] };
	void *values[] = { &name, &number };
	int types_told[] = { XLA_STRING, XLA_SCALAR };
	struct xla_frame f = { .api = &api,
			       .stage = XLA_EXECUTE,
			       .arguments = { .count = 1, .buffers = ins },
			       .results = { .count = 1, .buffers = outs },
			       .attributes = { .count = 2,
					       .types = types_told,
					       .names = told,
					       .values = values } };
	char symbol[64];
	xla_call *call;

	snprintf(symbol, sizeof(symbol), "ringup_jax_cuda_%s", word);
	*(void **)&call = dlsym(lib, symbol);
	must(!call, symbol);
	return call(&f);
}

/* The stream writes the argument just before the call, and is waited for just after it. */
static int jax(const char *path)
{
	static const struct {
		const char *word;
		int rows, got; /* times size, if negative */
	} calls[] = { { "allreduce", 100, 100 },  { "broadcast", 100, 100 },
		      { "allgather", 2, -2 },     { "alltoall", -3, -3 },
		      { "reducescatter", -4, 4 }, { "allreduce", 0, 0 },
		      { "broadcast", 0, 0 },      { "allgather", 0, 0 },
		      { "alltoall", 0, 0 },       { "reducescatter", 0, 0 } };
	void *lib = dlopen(path, RTLD_NOW), (*attach)(struct ringup *);
	const int32_t *out = (const int32_t *)(void *)host, unit = 0x01010101;
	int rc;
	int32_t sum = unit * (size * (size + 1) / 2);

	must(!lib, dlerror());
	*(void **)&attach = dlsym(lib, "ringup_jax_attach");
	attach(job);
	for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(calls[0]); i++) {
		const char *word = calls[i / 2].word;
		int64_t rows = calls[i / 2].rows, got = calls[i / 2].got;
		bool good = true;

		rows = rows < 0 ? -rows * size : rows;
		got = got < 0 ? -got * size : got;
		must(cuda.set(gpu_at(gpu_in), (unsigned char)(rank + 1), (size_t)rows * 20,
			      stream),
		     "memset");
		good = !xla_carry_out(lib, word, rows, got, true);
		must(cuda.sync(stream) || cuda.down(host, gpu_at(gpu_out), (size_t)got * 20),
		     "cuMemcpyDtoH");
		for (int64_t k = 0; k < got * 5 && good; k++) {
			bool blocks =
				word[0] == 'a' && word[3] != 'r'; /* allgather, alltoall */
			int32_t from = unit * (int32_t)(1 + k / (got * 5 / size));

			good = out[k] == (blocks ? from : word[0] == 'b' ? unit * size : sum);
		}
		check(good, "JAX's %s%s%s", word, ": ", xla_said);
	}
	check(xla_carry_out(lib, "allreduce", 9, 9, false) &&
		      strstr(xla_said, "does not provide its CUDA stream"),
	      "%s%s%s", "a jaxlib without streams: ", xla_said, "");
	/* When all have theirs, one rank does not come: the others hear why, as XLA's ABORTED.
	 */
	rc = ringup_barrier(world, "all have theirs", NULL);
	must(rc && (rank == size - 1 || rc != RINGUP_EABORTED), "a barrier");
	if (rank == size - 1)
		ringup_abort(job, "enough");
	else
		check(xla_carry_out(lib, "allreduce", 9, 9, true) &&
			      !strncmp(xla_said, "10 ", 3) && strstr(xla_said, "enough") &&
			      strstr(xla_said, "[ringup EABORTED]"),
		      "%s%s%s", "an error for XLA: ", xla_said, "");
	attach(NULL);
	return 0;
}

/* Some sums, then nothing for a while: tells the processor time that this took. */
static int idle(double seconds)
{
	struct ringup_reduce a =
		ASK_REDUCE("gradient", gpu_in, gpu_in, COUNT, .dtype = RINGUP_F32,
			   .memory = RINGUP_CUDA, .stream = stream);
	struct timespec before, after;
	char text[32];

	for (int i = 0; i < 20; i++)
		must(ringup_allreduce(world, &a, NULL), "a sum");
	must(cuda.sync(stream), "cuStreamSynchronize");
	must(ringup_barrier(world, "quiet", NULL), "a barrier");
	usleep(300000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	usleep((useconds_t)(seconds * 1e6));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	snprintf(text, sizeof(text), "%.3f",
		 (double)(after.tv_sec - before.tv_sec) * 1e3 +
			 (double)(after.tv_nsec - before.tv_nsec) / 1e6);
	tell("idle", text);
	must(ringup_barrier(world, "end", NULL), "a barrier");
	return 0;
}

/* ---- beside NCCL itself ---- */

/* Of NCCL only what an allreduce needs, by its own numbers. */
struct nccl_id {
	char bytes[128];
};

static struct {
	int (*make_id)(struct nccl_id *);
	int (*init)(void **, int, struct nccl_id, int);
	int (*allreduce)(const void *, void *, size_t, int, int, void *, void *);
	int (*destroy)(void *);
} nccl;

enum { NCCL_F32 = 7, NCCL_SUM = 0, PACE_MOST = 256 << 20, PACES = 100, MI = 1 << 20 };

static void *nccl_open(void)
{
	static const struct {
		void *at;
		const char *name;
	} calls[] = {
		{ &nccl.make_id, "ncclGetUniqueId" },
		{ &nccl.init, "ncclCommInitRank" },
		{ &nccl.allreduce, "ncclAllReduce" },
		{ &nccl.destroy, "ncclCommDestroy" },
	};
	void *lib = dlopen("libnccl.so.2", RTLD_NOW), *call, *comm = NULL;
	struct nccl_id id;
	struct ringup_bcast b = ASK_BCAST("id", &id, &id, sizeof(id), .dtype = RINGUP_U8);

	must(!lib, "no libnccl.so.2");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		call = dlsym(lib, calls[i].name);
		must(!call, calls[i].name);
		memcpy(calls[i].at, &call, sizeof(call));
	}
	if (!rank)
		must(nccl.make_id(&id), "ncclGetUniqueId");
	must(ringup_broadcast(world, &b, NULL), "the id");
	must(nccl.init(&comm, size, id, rank), "ncclCommInitRank");
	return comm;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The median in microseconds of one sum and the wait for it, of a few. */
static double pace(void *comm, void *in, void *out, size_t bytes, int times)
{
	struct ringup_reduce a =
		ASK_REDUCE("pace", in, out, bytes / sizeof(float), .dtype = RINGUP_F32,
			   .memory = RINGUP_CUDA, .stream = stream);
	double took[PACES];

	for (int i = -3; i < times; i++) {
		int64_t since;

		must(ringup_barrier(world, "pace", NULL), "a barrier");
		since = now();
		if (comm)
			must(nccl.allreduce(in, out, a.count, NCCL_F32, NCCL_SUM, comm, stream),
			     "ncclAllReduce");
		else
			must(ringup_allreduce(world, &a, NULL), "a sum");
		must(cuda.sync(stream), "cuStreamSynchronize");
		if (i >= 0)
			took[i] = (double)(now() - since) / 1e3;
	}
	qsort(took, (size_t)times, sizeof(*took), by_value);
	return took[times / 2];
}

static void goal(const char *what, double most, double limit)
{
	printf("goal: %s: %s, %.3g at most\n", what, most < limit ? "reached" : "missed", most);
}

/* Of each size by turns: ringup, and NCCL without it.  Not in place: alone, NCCL would then
 * have nothing to do. */
static int paces(size_t most)
{
	void *comm = nccl_open(), *in = gpu_new(most), *out = gpu_new(most);
	double added = 0, percent = 0;

	must(cuda.set(gpu_at(in), 0, most, NULL) || cuda.sync(NULL), "memset");
	for (size_t bytes = 8; bytes <= most; bytes *= bytes < MI / 4 ? 8 : 4) {
		int times = bytes < MI ? PACES : PACES / 5;
		double ours = pace(NULL, in, out, bytes, times),
		       raw = pace(comm, in, out, bytes, times);
		double more = bytes < MI ? ours - raw : 100 * (ours / raw - 1);

		if (bytes < MI && more > added)
			added = more;
		if (bytes >= MI && more > percent)
			percent = more;
		if (!rank)
			printf("pace: %zu bytes: ringup %.1f us, NCCL %.1f us, added %.1f us, "
			       "ratio "
			       "%.3f\n",
			       bytes, ours, raw, ours - raw, ours / raw);
	}
	if (!rank)
		goal("less than 5 us more than NCCL, below 1 MiB", added, 5);
	if (!rank && most >= MI)
		goal("less than 3 % more than NCCL, from 1 MiB on", percent, 3);
	must(nccl.destroy(comm), "ncclCommDestroy");
	must(cuda.free(gpu_at(in)) || cuda.free(gpu_at(out)), "cuMemFree");
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";
	int count = 0, rc = 2;
	void *context = NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	must(ringup_init(NULL, &job), "ringup_init");
	world = ringup_world(job);
	rank = ringup_rank(world);
	size = ringup_size(world);
	cuda_open();
	must(cuda.init(0) || cuda.count(&count) || !count, "cuInit");
	device = ringup_local_rank(job) % count;
	must(cuda.retain(&context, device) || cuda.use(context) || cuda.stream(&stream, 1),
	     "CUDA");
	if (!ringup_accepts(world, RINGUP_CUDA)) {
		printf("rank %d: no back end takes CUDA's memory\n", rank);
		return 3;
	}
	gpu_in = gpu_new(sizeof(here));
	gpu_out = gpu_new(sizeof(here));
	state = (uint64_t)rank + 1;
	if (!strcmp(what, "all"))
		rc = all();
	else if (!strcmp(what, "schedule") && argc == 4)
		rc = schedule(strtoull(argv[2], NULL, 10), atoi(argv[3]));
	else if (!strcmp(what, "fault"))
		rc = fault(argc > 2 ? atof(argv[2]) : 60, 0);
	else if (!strcmp(what, "late"))
		rc = fault(60, argc > 2 ? atof(argv[2]) : 3);
	else if (!strcmp(what, "capture"))
		rc = capture();
	else if (!strcmp(what, "aborts"))
		rc = aborts();
	else if (!strcmp(what, "jax") && argc == 3)
		rc = jax(argv[2]);
	else if (!strcmp(what, "pace"))
		rc = paces(argc > 2 ? strtoull(argv[2], NULL, 10) : PACE_MOST);
	else if (!strcmp(what, "idle"))
		rc = idle(argc > 2 ? atof(argv[2]) : 1);
	ringup_fini(job);
	must(cuda.free(gpu_at(gpu_in)) || cuda.free(gpu_at(gpu_out)), "cuMemFree");
	must(cuda.end(stream) || cuda.release(device), "the end");
	if (checks)
		printf("rank %d of %d on GPU %d: %d checks, %d wrong\n", rank, size, device,
		       checks, wrong);
	return rc ? rc : wrong != 0;
}
