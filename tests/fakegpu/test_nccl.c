/* test_nccl.c - collectives of GPU memory by NCCL have the bits of the host's engine. */
/* tests: src/backend src/device src/engine tests/fakegpu */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/gpu_ranks.h"

#include "base/kinds.h"
#include "coll/reduce.h"
#include "fakegpu/orders.h"
#include "rounds.h"

enum { COUNT = 1000, MOST = 170, RANKS_MOST = 8, ROW = 5, ROWS_MOST = COUNT / ROW };

/* Small whole numbers.  Every type has all sums of eight ranks, which the host forms in f32 and
 * NCCL in the tensor's type.  So it has products of small(), which are 36 at most. */
static int small(size_t i, int rank, bool product)
{
	static const int sums[] = { 1, 2, 3, 4, 5 }, products[] = { 1, 2, 3, 1, 1 };
	size_t at = (i * 7 + (size_t)rank * 3) % 5;

	return product ? products[at] : sums[at];
}

static void fill(enum ringup_dtype t, void *at, size_t count, int rank, bool product)
{
	for (size_t i = 0; i < count; i++) {
		int v = small(i, rank, product);
		float f = (float)v;

		switch (t) {
		case RINGUP_U8:
		case RINGUP_I8:
			((int8_t *)at)[i] = (int8_t)v;
			break;
		case RINGUP_BOOL:
			((uint8_t *)at)[i] = v > 3 ? (uint8_t)v : 0;
			break;
		case RINGUP_U16:
		case RINGUP_I16:
			((int16_t *)at)[i] = (int16_t)(v * 5000);
			break;
		case RINGUP_I32:
			((int32_t *)at)[i] = v - 3;
			break;
		case RINGUP_I64:
			((int64_t *)at)[i] = v - 3;
			break;
		case RINGUP_F16:
		case RINGUP_BF16:
			reduce_narrow(t, (uint16_t *)at + i, &f, 1);
			break;
		case RINGUP_F32:
			((float *)at)[i] = f;
			break;
		case RINGUP_F64:
			((double *)at)[i] = f;
			break;
			break;
		}
	}
}

/* ---- sums and the like ---- */

struct kind {
	enum ringup_dtype dtype;
	enum ringup_redop redop;
	double pre, post;
};

static bool differs(const void *a, const void *b, size_t bytes, const struct kind *k, int rank)
{
	if (!memcmp(a, b, bytes))
		return false;
	printf("# rank %d: %s of %s, times %g, then %g\n", rank, reduce_redop_name(k->redop),
	       reduce_dtype_name(k->dtype), k->pre, k->post);
	return true;
}

/* @many tensors as one operation or one alone, on the GPU and on the host. */
static void reduce_both(struct ringup *r, struct gpu_seat *s, const struct kind *k, int many,
			bool in_place, int rank)
{
	static __thread unsigned char host_in[MOST][COUNT * 8], host_out[MOST][COUNT * 8],
		got[COUNT * 8];
	size_t each = reduce_dtype_bytes(k->dtype);
	struct ringup_reduce host[MOST], far[MOST];
	struct ringup_op *op = NULL;
	int i, rc;

	for (i = 0; i < many; i++) {
		size_t count = many > 3 ? 1 + (size_t)i % 7 : COUNT - (size_t)i * 100;

		fill(k->dtype, host_in[i], count, rank + i, k->redop == RINGUP_PRODUCT);
		host[i] = (struct ringup_reduce){ .bytes = sizeof(struct ringup_reduce),
						  .name = "host",
						  .in = host_in[i],
						  .out = host_out[i],
						  .count = count,
						  .dtype = k->dtype,
						  .redop = k->redop,
						  .pre = k->pre,
						  .post = k->post };
		far[i] = host[i];
		far[i].name = "gpu";
		far[i].memory = s->memory;
		far[i].stream = gpu_of(s);
		far[i].in = gpu_new(s, count * each);
		far[i].out = in_place ? (void *)(uintptr_t)far[i].in : gpu_new(s, count * each);
		gpu_put_bytes(s, (void *)(uintptr_t)far[i].in, host_in[i], count * each);
	}
	rc = many > 1 ? ringup_allreduce_many(ringup_world(r), far, many, &op)
		      : ringup_allreduce(ringup_world(r), far, &op);
	check(!rc, "starts", rank);
	check(!ringup_wait(op, -1), "ends", rank);
	rc = many > 1 ? ringup_allreduce_many(ringup_world(r), host, many, NULL)
		      : ringup_allreduce(ringup_world(r), host, NULL);
	check(!rc, "on the host", rank);
	for (i = 0; i < many; i++) {
		size_t bytes = far[i].count * each;

		check(gpu_get_bytes(s, got, far[i].out, bytes), "the stream goes on", rank);
		check(!differs(got, host_out[i], bytes, k, rank), "the host's bits", rank);
		gpu_drop(s, (void *)(uintptr_t)far[i].in);
		if (!in_place)
			gpu_drop(s, far[i].out);
	}
}

static void reduces(struct ringup *r, int rank, int size)
{
	struct gpu_seat s;

	(void)size;
	gpu_sit(&s, rank);
	check(ringup_accepts(ringup_world(r), RINGUP_CUDA) == 1, "takes a GPU's memory", rank);
	for (int t = 0; t < DTYPE_COUNT; t++)
		for (int o = 0; o < RINGUP_ADASUM; o++) {
			struct kind k = { (enum ringup_dtype)t, (enum ringup_redop)o, 1, 1 };

			if (t == RINGUP_BOOL && o == RINGUP_AVERAGE)
				continue;
			reduce_both(r, &s, &k, 1, o % 2, rank);
			reduce_both(r, &s, &k, 3, o % 2, rank);
			if (t == RINGUP_BOOL)
				continue;
			k.pre = 2;
			k.post = 0.5;
			reduce_both(r, &s, &k, 1, t % 2, rank);
			reduce_both(r, &s, &k, 2, t % 2, rank);
		}
	/* More pieces than one launch takes. */
	reduce_both(r, &s, &(struct kind){ RINGUP_F32, RINGUP_SUM, 1, 1 }, MOST, true, rank);
	gpu_stand(&s);
}

/* The sum of f16 would be infinite, its average is not: alone, fused, and scattered.  NCCL adds
 * up in f16, so the value is a power of two: every partial sum of up to eight is exact. */
static void averages_far(struct ringup *r, int rank, int size)
{
	enum { MUCH = 32768 };
	struct ringup_group *g = ringup_world(r);
	struct gpu_seat s;
	uint16_t host[COUNT], want;
	float much = MUCH;
	struct ringup_reduce a[2];
	struct ringup_scatter part;
	void *far;

	gpu_sit(&s, rank);
	far = gpu_new(&s, sizeof(host));
	reduce_narrow(RINGUP_F16, &want, &much, 1);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++)
			host[i] = want;
		gpu_put_bytes(&s, far, host, sizeof(host));
		for (int i = 0; i < 2; i++)
			a[i] = (struct ringup_reduce){ .bytes = sizeof(a[i]),
						       .name = "average",
						       .in = (uint16_t *)far + i * size,
						       .out = (uint16_t *)far + i * size,
						       .count = (uint64_t)size,
						       .dtype = RINGUP_F16,
						       .redop = RINGUP_AVERAGE,
						       .memory = s.memory,
						       .stream = gpu_of(&s) };
		part = (struct ringup_scatter){ .bytes = sizeof(part),
						.name = "part",
						.in = far,
						.out = far,
						.rows = (uint64_t)size,
						.row = 1,
						.dtype = RINGUP_F16,
						.redop = RINGUP_AVERAGE,
						.memory = s.memory,
						.stream = gpu_of(&s) };
		check(!(!round       ? ringup_allreduce(g, a, NULL)
			: round == 1 ? ringup_allreduce_many(g, a, 2, NULL)
				     : ringup_reducescatter(g, &part, NULL)),
		      "an average of large numbers", rank);
		check(gpu_get_bytes(&s, host, far, 2 * sizeof(host[0])) && host[0] == want,
		      "is large", rank);
	}
	gpu_drop(&s, far);
	gpu_stand(&s);
}

/* ---- what moves blocks ---- */

_Static_assert((RANKS_MOST - 1) * 28 <= ROWS_MOST, "a block is in the tensor");

static void on_both(struct gpu_seat *s, void *far, void *host, int rank, int what)
{
	fill(RINGUP_F32, host, COUNT, rank * 5 + what, false);
	gpu_put_bytes(s, far, host, COUNT * sizeof(float));
}

static void same(struct gpu_seat *s, const void *far, const float *host, size_t count,
		 const char *what, int rank)
{
	float *got = malloc(count * sizeof(float));

	check(gpu_get_bytes(s, got, far, count * sizeof(float)) &&
		      !memcmp(got, host, count * sizeof(float)),
	      what, rank);
	free(got);
}

static void broadcasts(struct ringup *r, struct gpu_seat *s, int rank, int size)
{
	float host[COUNT];
	void *far = gpu_new(s, sizeof(host)), *out = gpu_new(s, sizeof(host));

	for (int root = 0; root < size; root++)
		for (int i = 0; i < 2; i++) {
			struct ringup_bcast b = { .bytes = sizeof(struct ringup_bcast),
						  .name = "host",
						  .in = host,
						  .out = host,
						  .count = COUNT,
						  .dtype = RINGUP_F32,
						  .root = root };

			on_both(s, far, host, rank, root);
			check(!ringup_broadcast(ringup_world(r), &b, NULL), "host", rank);
			b.name = "gpu";
			b.in = rank == root ? far : NULL;
			b.out = i ? out : far;
			b.memory = s->memory;
			b.stream = gpu_of(s);
			check(!ringup_broadcast(ringup_world(r), &b, NULL), "gpu", rank);
			same(s, b.out, host, COUNT, "root's elements", rank);
		}
	gpu_drop(s, far);
	gpu_drop(s, out);
}

static void gathers(struct ringup *r, struct gpu_seat *s, int rank, int size, bool even)
{
	float host[COUNT];
	size_t room = COUNT * sizeof(float) * (size_t)size;
	void *far = gpu_new(s, sizeof(host)), *all = gpu_new(s, room), *got = NULL,
	     *here = NULL;
	uint64_t counts[RANKS_MAX], total = 0;
	struct ringup_gather a = { .bytes = sizeof(struct ringup_gather),
				   .name = "host",
				   .in = host,
				   .rows = even ? 100 : (uint64_t)(rank * 28),
				   .row = ROW,
				   .dtype = RINGUP_F32,
				   .out = &here,
				   .counts = counts };

	on_both(s, far, host, rank, 0);
	check(!ringup_allgather(ringup_world(r), &a, NULL), "host", rank);
	for (int i = 0; i < size; i++)
		total += counts[i] * a.row;
	a.name = "gpu";
	a.in = far;
	a.out = &got;
	a.into = all;
	a.into_bytes = room;
	a.memory = s->memory;
	a.stream = gpu_of(s);
	check(!ringup_allgather(ringup_world(r), &a, NULL) && got == all, "gpu", rank);
	same(s, all, here, total, even ? "blocks" : "ragged blocks", rank);
	ringup_free(here);
	gpu_drop(s, far);
	gpu_drop(s, all);
}

static void exchanges(struct ringup *r, struct gpu_seat *s, int rank, int size, bool even)
{
	float host[COUNT];
	size_t room = COUNT * sizeof(float) * (size_t)size;
	void *far = gpu_new(s, sizeof(host)), *all = gpu_new(s, room), *got = NULL,
	     *here = NULL;
	uint64_t counts[RANKS_MAX], splits[RANKS_MAX], total = 0, rows = 0;
	struct ringup_exchange a = { .bytes = sizeof(struct ringup_exchange),
				     .name = "host",
				     .in = host,
				     .row = ROW,
				     .dtype = RINGUP_F32,
				     .out = &here,
				     .splits = splits,
				     .counts = counts };

	for (int i = 0; i < size; i++)
		rows += splits[i] = even ? 10 : (uint64_t)((rank + 2 * i) % 4);
	a.rows = rows;
	on_both(s, far, host, rank, 1);
	check(!ringup_alltoall(ringup_world(r), &a, NULL), "host", rank);
	for (int i = 0; i < size; i++)
		total += counts[i] * a.row;
	a.name = "gpu";
	a.in = far;
	a.out = &got;
	a.into = all;
	a.into_bytes = room;
	a.memory = s->memory;
	a.stream = gpu_of(s);
	check(!ringup_alltoall(ringup_world(r), &a, NULL) && got == all, "gpu", rank);
	same(s, all, here, total, even ? "exchanged" : "exchanged, ragged", rank);
	ringup_free(here);
	gpu_drop(s, far);
	gpu_drop(s, all);
}

static void scatters(struct ringup *r, struct gpu_seat *s, const struct kind *k, uint64_t rows,
		     bool in_place, int rank)
{
	static __thread unsigned char host[COUNT * 8], part[COUNT * 8], got[COUNT * 8];
	size_t each = reduce_dtype_bytes(k->dtype);
	uint64_t n = (uint64_t)ringup_size(ringup_world(r));
	uint64_t mine = rows / n + ((uint64_t)rank < rows % n);
	void *far = gpu_new(s, COUNT * each), *out = gpu_new(s, COUNT * each);
	struct ringup_scatter a = { .bytes = sizeof(struct ringup_scatter),
				    .name = "host",
				    .in = host,
				    .rows = rows,
				    .row = 3,
				    .out = part,
				    .dtype = k->dtype,
				    .redop = k->redop,
				    .pre = k->pre,
				    .post = k->post };

	fill(k->dtype, host, COUNT, rank, false);
	gpu_put_bytes(s, far, host, COUNT * each);
	check(!ringup_reducescatter(ringup_world(r), &a, NULL), "host", rank);
	a.name = "gpu";
	a.in = far;
	a.out = in_place ? far : out;
	a.memory = s->memory;
	a.stream = gpu_of(s);
	check(!ringup_reducescatter(ringup_world(r), &a, NULL), "gpu", rank);
	check(gpu_get_bytes(s, got, a.out, mine * 3 * each) &&
		      !differs(got, part, mine * 3 * each, k, rank),
	      "this rank's rows", rank);
	gpu_drop(s, far);
	gpu_drop(s, out);
}

static void moves(struct ringup *r, int rank, int size)
{
	static const struct kind kinds[] = {
		{ RINGUP_F32, RINGUP_SUM, 1, 1 },   { RINGUP_F32, RINGUP_AVERAGE, 1, 1 },
		{ RINGUP_F64, RINGUP_SUM, 2, 0.5 }, { RINGUP_I32, RINGUP_AVERAGE, 1, 1 },
		{ RINGUP_I16, RINGUP_MAX, 1, 1 },   { RINGUP_BOOL, RINGUP_SUM, 1, 1 }
	};
	struct gpu_seat s;

	gpu_sit(&s, rank);
	broadcasts(r, &s, rank, size);
	for (int even = 0; even < 2; even++) {
		gathers(r, &s, rank, size, even);
		exchanges(r, &s, rank, size, even);
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			scatters(r, &s, &kinds[i],
				 (uint64_t)(10 * size) + (even ? 0 : (uint64_t)size / 2), i % 2,
				 rank);
	}
	gpu_stand(&s);
}

/* ---- streams, joins, groups, what is refused ---- */

/* Without a stream the result is there when the operation is complete. */
static void waits(struct ringup *r, int rank, int size)
{
	struct gpu_seat s;
	float host[COUNT], sum = 0;
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "no stream",
				   .count = COUNT,
				   .dtype = RINGUP_F32 };

	gpu_sit(&s, rank);
	a.memory = s.memory;
	a.in = a.out = gpu_new(&s, sizeof(host));
	for (int i = 0; i < COUNT; i++)
		host[i] = (float)(rank + 1);
	for (int i = 0; i < size; i++)
		sum += (float)(i + 1);
	gpu_put_bytes(&s, a.out, host, sizeof(host));
	check(gpu_sync(&s, 10000), "written", rank);
	check(!ringup_allreduce(ringup_world(r), &a, NULL), "a sum", rank);
	check(gpu_get_bytes(&s, host, a.out, sizeof(host)) && host[0] == sum &&
		      host[COUNT - 1] == sum,
	      "is there", rank);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

static CUresult naps(void *arg)
{
	(void)arg;
	usleep(50000);
	return CUDA_SUCCESS;
}

/* CU_STREAM_PER_THREAD is another stream in each thread that names it: work of the caller's is
 * awaited, and the result is there when the operation is complete. */
static void of_a_thread(struct ringup *r, int rank, int size)
{
	CUresult (*enqueue)(CUstream, CUresult(*)(void *), void *, int);
	struct gpu_seat s, mine;
	float host[COUNT];
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "stream of a thread",
				   .count = COUNT,
				   .dtype = RINGUP_F32,
				   .stream = DRIVER_STREAM_OF_THREAD };

	*(void **)&enqueue =
		dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_cuda_enqueue");
	gpu_sit(&s, rank);
	mine = s;
	mine.stream = DRIVER_STREAM_OF_THREAD;
	a.memory = s.memory;
	a.in = a.out = gpu_new(&s, sizeof(host));
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < COUNT; i++)
			host[i] = (float)round;
		if (enqueue)
			check(!enqueue(mine.stream, naps, NULL, 1), "work before it", rank);
		gpu_put_bytes(&mine, a.out, host, sizeof(host));
		check(!ringup_allreduce(ringup_world(r), &a, NULL), "a sum", rank);
		check(gpu_get_bytes(&s, host, a.out, sizeof(host)) &&
			      host[0] == (float)(round * size) && host[COUNT - 1] == host[0],
		      "is there, for all streams", rank);
	}
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

static int captures; /* atomic: rank 0 does */

/* A stream is captured after an operation is submitted on it, and waits for nothing until the
 * capture has ended. */
static void outlasts_capture(struct ringup *r, int rank, int size)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*begin)(driver_handle stream, int mode),
		(*end)(driver_handle stream, void **graph);
	struct ringup_op *op = NULL;
	struct gpu_seat s;
	float host[COUNT];
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "before a capture",
				   .count = COUNT,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_CUDA };
	void *graph = NULL;
	int rc;

	*(void **)&begin = dlsym(cuda, "cuStreamBeginCapture_v2");
	*(void **)&end = dlsym(cuda, "cuStreamEndCapture");
	gpu_sit(&s, rank);
	a.in = a.out = gpu_new(&s, sizeof(host));
	a.stream = s.stream;
	for (int i = 0; i < COUNT; i++)
		host[i] = 1;
	gpu_put_bytes(&s, a.out, host, sizeof(host));
	/* The GPU is open from here on. */
	check(!ringup_allreduce(ringup_world(r), &a, NULL) && gpu_sync(&s, 10000), "a sum",
	      rank);
	while (rank && !__atomic_load_n(&captures, __ATOMIC_ACQUIRE))
		usleep(1000);
	check(!ringup_allreduce(ringup_world(r), &a, &op), "another", rank);
	if (!rank) {
		check(!begin(s.stream, CAPTURE_THREAD_LOCAL), "a capture", rank);
		__atomic_store_n(&captures, 1, __ATOMIC_RELEASE);
	}
	rc = ringup_wait(op, -1);
	/* Unless the result is there already. */
	check(!rc || (!rank && rc == RINGUP_EINVAL &&
		      strstr(ringup_error(), "is being captured")),
	      "the stream that is captured cannot wait for it", rank);
	if (!rank) {
		check(!end(s.stream, &graph), "and the capture unbroken", rank);
		__atomic_store_n(&captures, 0, __ATOMIC_RELEASE);
	}
	check(!ringup_allreduce(ringup_world(r), &a, NULL), "the job goes on", rank);
	check(gpu_get_bytes(&s, host, a.out, sizeof(host)) &&
		      host[0] == (float)(size * size * size),
	      "and is right", rank);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

static void joins(struct ringup *r, int rank, int size)
{
	struct gpu_seat s;
	float host[COUNT];
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "joined",
				   .count = COUNT,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_HOST };
	int last = -1, done = 0;

	gpu_sit(&s, rank);
	a.memory = s.memory;
	a.in = a.out = gpu_new(&s, sizeof(host));
	a.stream = gpu_of(&s);
	for (enum ringup_redop op = RINGUP_SUM; rank && op < RINGUP_ADASUM; op++) {
		float want = op == RINGUP_PRODUCT || op == RINGUP_MAX || op == RINGUP_MIN
				     ? 2
				     : 2.0F * (float)(size - 1);

		for (int i = 0; i < COUNT; i++)
			host[i] = 2;
		for (int i = 2; i < size && op == RINGUP_PRODUCT; i++)
			want *= 2;
		if (op == RINGUP_AVERAGE)
			want /= (float)size;
		a.redop = op;
		gpu_put_bytes(&s, a.out, host, sizeof(host));
		check(!ringup_allreduce(ringup_world(r), &a, NULL), "a sum without rank 0",
		      rank);
		check(gpu_get_bytes(&s, host, a.out, sizeof(host)) && host[0] == want &&
			      host[COUNT - 1] == want,
		      reduce_redop_name(op), rank);
		done++;
	}
	check(done == (rank ? RINGUP_ADASUM : 0), "all of them", rank);
	check(!ringup_join(ringup_world(r), &last, NULL), "all have joined", rank);
	gpu_drop(&s, a.out);
	gpu_stand(&s);
}

/* A stream that is being captured into a graph; before and afterwards it serves. */
static void refuses_capture(struct ringup *r, struct gpu_seat *s, const struct ringup_reduce *a,
			    int rank)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*begin)(driver_handle stream, int mode),
		(*end)(driver_handle stream, void **graph);
	struct ringup_op *op = NULL;
	void *graph = NULL;

	*(void **)&begin = dlsym(cuda, "cuStreamBeginCapture_v2");
	*(void **)&end = dlsym(cuda, "cuStreamEndCapture");
	/* A capture of this thread's only: others' ranks are threads of this process, too. */
	check(gpu_sync(s, 10000) && !begin(s->stream, CAPTURE_THREAD_LOCAL), "a capture begins",
	      rank);
	check(ringup_allreduce(ringup_world(r), a, &op) == RINGUP_EINVAL &&
		      strstr(ringup_error(), "is being captured"),
	      "no part of a graph", rank);
	(void)end(s->stream, &graph);
	check(!ringup_allreduce(ringup_world(r), a, NULL), "after the capture", rank);
}

/* CUDA's default stream waits for the others, but for those made not to, and for no capture. */
static void refuses_default(struct ringup *r, struct gpu_seat *s, struct ringup_reduce a,
			    int rank)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*begin)(driver_handle stream, int mode),
		(*end)(driver_handle stream, void **graph);
	driver_handle other = NULL;
	struct ringup_op *op = NULL;
	void *graph = NULL;

	*(void **)&begin = dlsym(cuda, "cuStreamBeginCapture_v2");
	*(void **)&end = dlsym(cuda, "cuStreamEndCapture");
	a.stream = (void *)1;
	check(gpu_sync(s, 10000) && !s->d->stream_new(&other, 0, 0) &&
		      !begin(other, CAPTURE_THREAD_LOCAL),
	      "a capture begins", rank);
	check(ringup_allreduce(ringup_world(r), &a, &op) == RINGUP_EINVAL &&
		      strstr(ringup_error(), "default stream waits for, is being captured"),
	      "no part of it", rank);
	check(!end(other, &graph), "which goes on", rank);
	check(!ringup_allreduce(ringup_world(r), &a, NULL), "after it", rank);
	(void)s->d->stream_free(other);
}

/* A result that is not memory of this rank's GPU. */
static void refuses_results(struct ringup *r, struct gpu_seat *s, int rank, int size)
{
	float host[4] = { 0 };
	void *far = gpu_new(s, sizeof(host) * (size_t)size), *other = NULL;
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "result",
				   .in = far,
				   .out = host,
				   .count = 4,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_CUDA,
				   .stream = s->stream };
	struct ringup_bcast b = { .bytes = sizeof(struct ringup_bcast),
				  .name = "result",
				  .in = far,
				  .out = host,
				  .count = 4,
				  .dtype = RINGUP_F32,
				  .root = rank,
				  .memory = RINGUP_CUDA };
	struct ringup_scatter c = { .bytes = sizeof(struct ringup_scatter),
				    .name = "result",
				    .in = far,
				    .rows = (uint64_t)size,
				    .row = 4,
				    .out = host,
				    .dtype = RINGUP_F32,
				    .memory = RINGUP_CUDA };
	struct gpu_seat next;
	int count = 0;

	check(ringup_allreduce(ringup_world(r), &a, NULL) == RINGUP_EINVAL &&
		      strstr(ringup_error(), "is not GPU memory"),
	      "a sum into the host's memory", rank);
	check(ringup_broadcast(ringup_world(r), &b, NULL) == RINGUP_EINVAL &&
		      strstr(ringup_error(), "is not GPU memory"),
	      "a root's copy in the host's memory", rank);
	check(ringup_reducescatter(ringup_world(r), &c, NULL) == RINGUP_EINVAL &&
		      strstr(ringup_error(), "is not GPU memory"),
	      "a part in the host's memory", rank);
	if (!s->d->count(&count) && count > size) {
		gpu_sit(&next, size);
		a.out = other = gpu_new(&next, sizeof(host));
		check(ringup_allreduce(ringup_world(r), &a, NULL) == RINGUP_EINVAL &&
			      strstr(ringup_error(), "the tensor is on GPU"),
		      "a sum into another GPU's memory", rank);
		gpu_drop(&next, other);
		gpu_stand(&next);
		(void)s->d->make_current(s->context);
	}
	/* A rank without rows has no result. */
	c.in = far;
	c.rows = 1;
	c.out = rank ? (void *)host : far;
	check(!ringup_reducescatter(ringup_world(r), &c, NULL), "no rows, no result", rank);
	gpu_drop(s, far);
}

static void refuses(struct ringup *r, int rank, int size)
{
	struct gpu_seat s;
	float host[4] = { 0 };
	void *far;
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "refused",
				   .in = host,
				   .out = host,
				   .count = 4,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_CUDA };

	gpu_sit(&s, rank);
	check(ringup_allreduce(ringup_world(r), &a, NULL) == RINGUP_EINVAL &&
		      strstr(ringup_error(), "is not GPU memory"),
	      "the host's memory as a GPU's", rank);
	a.in = a.out = far = gpu_new(&s, sizeof(host));
	a.stream = s.stream;
	check(!ringup_allreduce(ringup_world(r), &a, NULL), "then goes on", rank);
	refuses_capture(r, &s, &a, rank);
	refuses_default(r, &s, a, rank);
	refuses_results(r, &s, rank, size);
	a.memory = rank ? RINGUP_CUDA : RINGUP_HOST;
	a.in = a.out = rank ? far : host;
	a.stream = rank ? s.stream : NULL;
	a.count = rank == size - 1 ? 3 : 4;
	a.name = "lengths";
	check(size == 1 || (ringup_allreduce(ringup_world(r), &a, NULL) == RINGUP_EMISMATCH &&
			    strstr(ringup_error(), "of 3 f32")),
	      "lengths differ, and kinds of memory", rank);
	gpu_drop(&s, far);
	gpu_stand(&s);
}

static void full(bool is)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void (*set)(bool is);

	*(void **)&set = dlsym(cuda, "fake_cuda_full");
	if (set)
		set(is);
}

/* What the GPU's room does not take is summed in parts, though the GPU is full by then. */
static void sums_much(struct ringup *r, struct gpu_seat *s, enum ringup_dtype type,
		      const size_t *counts, int many, int size, int rank)
{
	size_t each = reduce_dtype_bytes(type), most = 0;
	struct ringup_reduce a[3] = { 0 };
	unsigned char *host;

	for (int i = 0; i < many; i++)
		most = counts[i] > most ? counts[i] : most;
	host = malloc(most * each);
	for (int i = 0; i < many; i++) {
		for (size_t k = 0; k < counts[i]; k++) {
			float f = (float)(k % 7 + (size_t)i);
			int16_t n = (int16_t)f;

			memcpy(host + k * each, each == 2 ? (void *)&n : (void *)&f, each);
		}
		a[i] = (struct ringup_reduce){ .bytes = sizeof(a[i]),
					       .name = "much",
					       .in = gpu_new(s, counts[i] * each),
					       .count = counts[i],
					       .dtype = type,
					       .memory = s->memory,
					       .stream = gpu_of(s) };
		a[i].out = (void *)(uintptr_t)a[i].in;
		gpu_put_bytes(s, a[i].out, host, counts[i] * each);
	}
	check(!ringup_barrier(ringup_world(r), "all have theirs", NULL), "memory", rank);
	full(true);
	check(!ringup_allreduce_many(ringup_world(r), a, many, NULL), "much", rank);
	check(!ringup_barrier(ringup_world(r), "all have summed", NULL), "summed", rank);
	full(false);
	for (int i = 0; i < many; i++) {
		size_t bad = 0;

		check(gpu_get_bytes(s, host, a[i].out, counts[i] * each), "is back", rank);
		for (size_t k = 0; k < counts[i]; k++) {
			float f = (float)((k % 7 + (size_t)i) * (size_t)size);
			int16_t n = (int16_t)f;

			bad += memcmp(host + k * each, each == 2 ? (void *)&n : (void *)&f,
				      each) != 0;
		}
		check(!bad, "is right", rank);
		gpu_drop(s, a[i].out);
	}
	free(host);
}

/* A rank that has joined makes the one call that others make for a tensor in place. */
static void joins_much(struct ringup *r, struct gpu_seat *s, size_t count, int rank)
{
	float *host = malloc(count * sizeof(float));
	struct ringup_reduce a = { .bytes = sizeof(a),
				   .name = "much, joined",
				   .count = count,
				   .dtype = RINGUP_F32,
				   .memory = s->memory,
				   .stream = gpu_of(s) };
	int last = -1;

	if (rank) {
		for (size_t i = 0; i < count; i++)
			host[i] = 2;
		a.in = a.out = gpu_new(s, count * sizeof(float));
		gpu_put_bytes(s, a.out, host, count * sizeof(float));
		check(!ringup_allreduce(ringup_world(r), &a, NULL), "without rank 0", rank);
		check(gpu_get_bytes(s, host, a.out, count * sizeof(float)) && host[0] == 2 &&
			      host[count - 1] == 2,
		      "is right", rank);
		gpu_drop(s, a.out);
	}
	check(!ringup_join(ringup_world(r), &last, NULL), "all have joined", rank);
	free(host);
}

static void parts(struct ringup *r, int rank, int size)
{
	enum { ROOM = 64 << 20 };
	static const size_t all[] = { ROOM / 4 - 4, 4, 1 }, less[] = { ROOM / 4 - 4, 4 },
			    wide[] = { ROOM / 4 + 3, 5 };
	struct gpu_seat s;

	gpu_sit(&s, rank);
	reduce_both(r, &s, &(struct kind){ RINGUP_F32, RINGUP_SUM, 1, 1 }, 1, true, rank);
	sums_much(r, &s, RINGUP_F32, all, 3, size, rank);
	if (getenv("RINGUP_TEST_LONG")) {
		sums_much(r, &s, RINGUP_F32, less, 2, size, rank);
		sums_much(r, &s, RINGUP_I16, wide, 2, size, rank);
		joins_much(r, &s, ROOM / 4 + 5, rank);
	} else {
		joins_much(r, &s, 5, rank);
	}
	gpu_stand(&s);
}

/* What goes through the host's memory is pinned there. */
static void stages(struct ringup *r, int rank, int size)
{
	enum { MUCH = 300000 };
	float *host = calloc(MUCH, sizeof(float));
	struct gpu_seat s;
	struct ringup_reduce a = { .bytes = sizeof(a),
				   .name = "staged",
				   .count = MUCH,
				   .dtype = RINGUP_F32,
				   .redop = RINGUP_ADASUM };
	uint64_t (*pageable)(void), before;

	*(void **)&pageable =
		dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_cuda_pageable");
	gpu_sit(&s, rank);
	a.memory = s.memory;
	a.stream = gpu_of(&s);
	a.in = a.out = gpu_new(&s, MUCH * sizeof(float));
	for (int i = 0; i < MUCH; i++)
		host[i] = 1;
	gpu_put_bytes(&s, a.out, host, MUCH * sizeof(float));
	check(gpu_sync(&s, 10000), "written", rank);
	check(!ringup_barrier(ringup_world(r), "all", NULL), "all have", rank);
	before = pageable ? pageable() : 0;
	check(!ringup_allreduce(ringup_world(r), &a, NULL), "an Adasum", rank);
	check(!ringup_barrier(ringup_world(r), "all", NULL), "on all ranks", rank);
	check(!pageable || pageable() == before, "copies from and to pinned memory", rank);
	check(!ringup_barrier(ringup_world(r), "all", NULL), "all have looked", rank);
	/* Of equal vectors it is their average. */
	check(gpu_get_bytes(&s, host, a.out, MUCH * sizeof(float)) && host[0] == 1 &&
		      host[MUCH - 1] == 1,
	      "is right", rank);
	(void)size;
	gpu_drop(&s, a.out);
	gpu_stand(&s);
	free(host);
}

/* One name, with another kind of memory on each rank in each round. */
static void changes(struct ringup *r, int rank, int size)
{
	enum { SOME = 8, TURNS = 60 };
	struct gpu_seat s;
	float host[2 * SOME];
	struct ringup_reduce a[2];
	int at = 0;
	void *far;

	gpu_sit(&s, rank);
	far = gpu_new(&s, sizeof(host));
	for (int round = 0; round < TURNS; round++) {
		for (int i = 0; i < 2 * SOME; i++)
			host[i] = (float)round;
		gpu_put_bytes(&s, far, host, sizeof(host));
		for (int i = 0; i < 2; i++) {
			/* All in the host's memory now and then: small sums need no plan there.
			 */
			bool is_far = round % 4 && (round + rank + i) % 3;

			at += is_far;
			a[i] = (struct ringup_reduce){
				.bytes = sizeof(a[i]),
				.name = "turns",
				.in = (is_far ? (float *)far : host) + i * SOME,
				.count = SOME,
				.dtype = RINGUP_F32,
				.memory = is_far ? RINGUP_CUDA : RINGUP_HOST,
				.stream = is_far ? s.stream : NULL
			};
			a[i].out = (void *)(uintptr_t)a[i].in;
		}
		check(!(round % 2 ? ringup_allreduce_many(ringup_world(r), a, 2, NULL)
				  : ringup_allreduce(ringup_world(r), a, NULL)),
		      "a sum", rank);
		for (int i = 0; i <= round % 2; i++) {
			float got[SOME];

			if (a[i].memory == RINGUP_CUDA)
				check(gpu_get_bytes(&s, got, a[i].out, sizeof(got)), "is back",
				      rank);
			else
				memcpy(got, a[i].out, sizeof(got));
			check(got[0] == (float)(round * size) &&
				      got[SOME - 1] == (float)(round * size),
			      "is right", rank);
		}
	}
	check(at > TURNS / 2, "often on the GPU", rank);
	gpu_drop(&s, far);
	gpu_stand(&s);
}

/* The result is used on another stream than the one that wrote the data. */
static void elsewhere(struct ringup *r, int rank, int size)
{
	enum { SOME = 20000, TURNS = 30 };
	static __thread float host[SOME], got[SOME];
	struct gpu_seat s, other;
	struct ringup_op *op;
	void *far;

	gpu_sit(&s, rank);
	gpu_sit(&other, rank);
	far = gpu_new(&s, sizeof(host));
	for (int round = 0; round < TURNS; round++) {
		struct ringup_reduce a = { .bytes = sizeof(a),
					   .name = "elsewhere",
					   .in = far,
					   .out = far,
					   .count = SOME,
					   .dtype = RINGUP_F32,
					   .memory = RINGUP_CUDA,
					   .stream = s.stream };

		for (int i = 0; i < SOME; i++)
			host[i] = (float)round + 1;
		gpu_put_bytes(&s, far, host, sizeof(host));
		check(!ringup_allreduce(ringup_world(r), &a, &op), "starts", rank);
		check(!ringup_result_stream(op, other.stream), "takes the stream", rank);
		check(!ringup_wait(op, -1), "is queued", rank);
		check(gpu_get_bytes(&other, got, far, sizeof(got)), "is back", rank);
		check(got[0] == (float)((round + 1) * size) && got[SOME - 1] == got[0],
		      "the other stream sees the result", rank);
	}
	gpu_drop(&s, far);
	(void)other.d->stream_free(other.stream);
	(void)other.d->release(other.number);
	gpu_stand(&s);
}

/* The data of one rank are in the host's memory: those of the others go there, too. */
static void mixes(int size)
{
	for (gpu_near = 0; gpu_near < size; gpu_near += size - 1) {
		run("sums, mixed", size, reduces);
		run("averages of large f16, mixed", size, averages_far);
		run("blocks, mixed", size, moves);
		run("no stream, mixed", size, waits);
		run("ranks that have joined, mixed", size, joins);
	}
	gpu_near = -1;
	run("kinds of memory that change", size, changes);
}

static void all(int size)
{
	run("sums", size, reduces);
	run("averages of large f16", size, averages_far);
	run("blocks", size, moves);
	run("no stream", size, waits);
	run("a result for another stream", size, elsewhere);
	run("the stream of a thread", size, of_a_thread);
	if (size > 1)
		run("a capture that comes later", size, outlasts_capture);
	if (size > 1)
		run("ranks that have joined", size, joins);
	run("what is refused", size, refuses);
	if (size > 2)
		run("groups in any order", size, orders);
}

int main(int argc, char **argv)
{
	int most = getenv("RINGUP_TEST_LONG") ? RANKS_MOST : 3;

	(void)argc;
	gpu_main(argv);
	/* Three groups and the world, by three to eight ranks: a hundred thousand operations in
	 * all, fewer under ThreadSanitizer. */
	if (most == RANKS_MOST)
		order_rounds = ROUNDS_TSAN ? 200 : 4200;
	for (int size = 1; size <= most; size++)
		all(size);
	for (int size = 2; size <= 3; size++)
		mixes(size);
	run("more than the room takes", 2, parts);
	run("copies through the host", 2, stages);
	order_rounds = ROUNDS;
	setenv("RINGUP_BACKEND", "nccl,tcp", 1);
	all(3);
	mixes(3);
	ok(gpu_nothing_left(), "nothing is left on the GPU");
	return tap_done();
}
