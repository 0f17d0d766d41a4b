/* test_fakenccl.c - the fake NCCL sums, hangs, deadlocks and dies as NCCL does. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "coll/scalar.h"
#include "fakegpu/fakenccl.h"
#include "tap.h"

enum { MOST = 8, COUNT = 257, SOON_US = 50000, STREAMS = 2 };

/* ---- ranks as threads, each with a device ---- */

struct rank {
	int rank, size;
	ncclUniqueId *id; /* of up to two communicators */
	ncclConfig_t *config;
	void (*body)(struct rank *r);
	pthread_barrier_t *all;
	pthread_t thread;
	CUstream stream[STREAMS];
	CUdeviceptr in, out;
	ncclComm_t comm[STREAMS];
	int argument;
};

static int wrong; /* atomic */

static void check(bool cond, const char *what, const struct rank *r)
{
	if (cond)
		return;
	printf("# rank %d: %s (%s)\n", r->rank, what, ncclGetLastError(NULL));
	__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	CUcontext context;
	int i;

	if (cuDevicePrimaryCtxRetain(&context, r->rank) || cuCtxSetCurrent(context))
		abort();
	for (i = 0; i < STREAMS; i++)
		cuStreamCreate(&r->stream[i], 1);
	cuMemAlloc_v2(&r->in, MOST * COUNT * 8);
	cuMemAlloc_v2(&r->out, MOST * COUNT * 8);
	r->body(r);
	cuMemFree_v2(r->in);
	cuMemFree_v2(r->out);
	for (i = 0; i < STREAMS; i++)
		cuStreamDestroy_v2(r->stream[i]);
	cuDevicePrimaryCtxRelease_v2(r->rank);
	return NULL;
}

static void run_with(const char *what, int size, ncclConfig_t *config, int argument,
		     void (*body)(struct rank *r))
{
	ncclUniqueId id[STREAMS];
	pthread_barrier_t all;
	struct rank rank[MOST];
	int i;

	wrong = 0;
	for (i = 0; i < STREAMS; i++)
		if (ncclGetUniqueId(&id[i]))
			abort();
	pthread_barrier_init(&all, NULL, (unsigned int)size);
	for (i = 0; i < size; i++) {
		rank[i] = (struct rank){ .rank = i,
					 .size = size,
					 .id = id,
					 .config = config,
					 .body = body,
					 .all = &all,
					 .argument = argument };
		pthread_create(&rank[i].thread, NULL, rank_main, &rank[i]);
	}
	for (i = 0; i < size; i++)
		pthread_join(rank[i].thread, NULL);
	pthread_barrier_destroy(&all);
	if (argument > 20000)
		ok(!wrong && !fake_nccl_left(), "%s, %d ranks, %d", what, size, argument);
	else
		ok(!wrong && !fake_nccl_left(), "%s, %d ranks", what, size);
}

static void run(const char *what, int size, void (*body)(struct rank *r))
{
	run_with(what, size, NULL, 0, body);
}

static void open_comm(struct rank *r, int which)
{
	check(!ncclCommInitRankConfig(&r->comm[which], r->size, r->id[which], r->rank,
				      r->config),
	      "opens", r);
}

static void all_meet(struct rank *r)
{
	pthread_barrier_wait(r->all);
}

static bool is_soon(CUstream s)
{
	usleep(SOON_US);
	return !cuStreamQuery(s);
}

/* ---- arithmetic ---- */

static const struct {
	ncclDataType_t type;
	size_t bytes;
} types[] = { { ncclInt8, 1 },    { ncclUint8, 1 },   { ncclInt32, 4 },   { ncclUint32, 4 },
	      { ncclInt64, 8 },   { ncclUint64, 8 },  { ncclFloat16, 2 }, { ncclFloat32, 4 },
	      { ncclFloat64, 8 }, { ncclBfloat16, 2 } };

enum { TYPES = sizeof(types) / sizeof(types[0]) };

static void put(ncclDataType_t t, unsigned char *at, int i, int value)
{
	switch (t) {
	case ncclInt8:
	case ncclUint8:
		at[i] = (unsigned char)value;
		break;
	case ncclInt32:
	case ncclUint32:
		((int32_t *)(void *)at)[i] = value;
		break;
	case ncclInt64:
	case ncclUint64:
		((int64_t *)(void *)at)[i] = value;
		break;
	case ncclFloat16:
		((uint16_t *)(void *)at)[i] = f16_narrow((float)value);
		break;
	case ncclBfloat16:
		((uint16_t *)(void *)at)[i] = bf16_narrow((float)value);
		break;
	case ncclFloat32:
		((float *)(void *)at)[i] = (float)value;
		break;
	case ncclFloat64:
		((double *)(void *)at)[i] = (double)value;
		break;
	}
}

/* Element i of a rank: small, so that every type holds every result of up to eight ranks. */
static int value_of(int rank, int i)
{
	return 1 + (rank + i) % 2;
}

static int result_of(ncclRedOp_t op, int size, int i)
{
	int r, x = value_of(0, i);

	for (r = 1; r < size; r++) {
		int y = value_of(r, i);

		x = op == ncclMax    ? (x > y ? x : y)
		    : op == ncclMin  ? (x < y ? x : y)
		    : op == ncclProd ? x * y
				     : x + y;
	}
	return x;
}

/* The streams here do not wait for the default one. */
static void to_gpu(CUdeviceptr to, const void *from, size_t bytes)
{
	if (cuMemcpyHtoD_v2(to, from, bytes) || cuStreamSynchronize(NULL))
		abort();
}

static void fill(struct rank *r, ncclDataType_t t, int count, int first)
{
	_Alignas(16) unsigned char here[MOST * COUNT * 8];
	int i;

	for (i = 0; i < count; i++)
		put(t, here, i, value_of(r->rank, first + i));
	to_gpu(r->in, here, sizeof(here));
}

static bool is_result(struct rank *r, int t, ncclRedOp_t op, int count, int first)
{
	_Alignas(16) unsigned char here[MOST * COUNT * 8], want[MOST * COUNT * 8];
	int i;

	cuMemcpyDtoH_v2(here, r->out, sizeof(here));
	for (i = 0; i < count; i++)
		put(types[t].type, want, i, result_of(op, r->size, first + i));
	return !memcmp(here, want, (size_t)count * types[t].bytes);
}

/* AT(x) is what CUDA's handles of memory are for NCCL. */
#define AT(x) ((void *)(uintptr_t)(x))

static void sums(struct rank *r)
{
	int t, op, n = r->size;

	open_comm(r, 0);
	for (t = 0; t < TYPES; t++)
		for (op = ncclSum; op <= ncclMin; op++) {
			CUstream s = r->stream[(t + op) % STREAMS];

			fill(r, types[t].type, COUNT * n, 0);
			check(!ncclAllReduce(AT(r->in), AT(r->out), COUNT, types[t].type,
					     (ncclRedOp_t)op, r->comm[0], s) &&
				      !cuStreamSynchronize(s) &&
				      is_result(r, t, (ncclRedOp_t)op, COUNT, 0),
			      "a sum", r);
			check(!ncclReduceScatter(AT(r->in), AT(r->out), COUNT, types[t].type,
						 (ncclRedOp_t)op, r->comm[0], s) &&
				      !cuStreamSynchronize(s) &&
				      is_result(r, t, (ncclRedOp_t)op, COUNT, COUNT * r->rank),
			      "a part of a sum", r);
			check(!ncclReduce(AT(r->in), AT(r->out), COUNT, types[t].type,
					  (ncclRedOp_t)op, n - 1, r->comm[0], s) &&
				      !cuStreamSynchronize(s) &&
				      (r->rank < n - 1 ||
				       is_result(r, t, (ncclRedOp_t)op, COUNT, 0)),
			      "a sum at the last rank", r);
		}
	check(!ncclCommDestroy(r->comm[0]), "ends", r);
}

static void averages(struct rank *r)
{
	float in[2] = { (float)r->rank + 1, 8 }, out[2], half = 0.5F;
	int32_t whole[2] = { r->rank, -1 }, got[2];
	ncclRedOp_t op;
	CUstream s = r->stream[0];

	open_comm(r, 0);
	to_gpu(r->in, in, sizeof(in));
	check(!ncclAllReduce(AT(r->in), AT(r->out), 2, ncclFloat32, ncclAvg, r->comm[0], s) &&
		      !cuStreamSynchronize(s) && !cuMemcpyDtoH_v2(out, r->out, sizeof(out)) &&
		      out[0] == (float)(r->size + 1) / 2 && out[1] == 8,
	      "an average", r);
	check(!ncclRedOpCreatePreMulSum(&op, &half, ncclFloat32, ncclScalarHostImmediate,
					r->comm[0]) &&
		      !ncclAllReduce(AT(r->in), AT(r->out), 2, ncclFloat32, op, r->comm[0],
				     s) &&
		      !ncclRedOpDestroy(op, r->comm[0]) && !cuStreamSynchronize(s) &&
		      !cuMemcpyDtoH_v2(out, r->out, sizeof(out)) &&
		      out[1] == 4 * (float)r->size,
	      "a factor", r);
	check(ncclAllReduce(AT(r->in), AT(r->out), 2, ncclFloat32, op, r->comm[0], s) ==
		      ncclInvalidArgument,
	      "which is gone", r);
	to_gpu(r->in, whole, sizeof(whole));
	check(!ncclAllReduce(AT(r->in), AT(r->out), 2, ncclInt32, ncclAvg, r->comm[0], s) &&
		      !cuStreamSynchronize(s) && !cuMemcpyDtoH_v2(got, r->out, sizeof(got)) &&
		      got[0] == r->size * (r->size - 1) / 2 / r->size && got[1] == -1,
	      "an average of integers", r);
	check(!ncclCommDestroy(r->comm[0]), "ends", r);
}

/* Rank r sends 1 + (r + peer) % 3 numbers to each peer. */
static void moves(struct rank *r)
{
	int32_t in[MOST * 4], out[MOST * 4], i, k;
	CUstream s = r->stream[0];

	open_comm(r, 0);
	for (i = 0; i < MOST * 4; i++)
		in[i] = r->rank * 100 + i;
	to_gpu(r->in, in, sizeof(in));
	check(!ncclAllGather(AT(r->in), AT(r->out), 4, ncclInt32, r->comm[0], s) &&
		      !cuStreamSynchronize(s) && !cuMemcpyDtoH_v2(out, r->out, sizeof(out)),
	      "a gather", r);
	for (i = 0; i < r->size * 4; i++)
		check(out[i] == i / 4 * 100 + i % 4, "all blocks", r);
	check(!ncclBroadcast(AT(r->in), AT(r->out), 4, ncclInt32, r->size - 1, r->comm[0], s) &&
		      !cuStreamSynchronize(s) && !cuMemcpyDtoH_v2(out, r->out, 16) &&
		      out[3] == (r->size - 1) * 100 + 3,
	      "a broadcast", r);
	check(!ncclGroupStart(), "a group", r);
	for (i = 0; i < r->size; i++) {
		size_t n = (size_t)(1 + (r->rank + i) % 3);

		check(!ncclSend(AT(r->in + (CUdeviceptr)i * 16), n, ncclInt32, i, r->comm[0],
				s) &&
			      !ncclRecv(AT(r->out + (CUdeviceptr)i * 16), n, ncclInt32, i,
					r->comm[0], s),
		      "sends and receives", r);
	}
	check(!ncclGroupEnd() && !cuStreamSynchronize(s) &&
		      !cuMemcpyDtoH_v2(out, r->out, sizeof(out)),
	      "its end", r);
	for (i = 0; i < r->size; i++)
		for (k = 0; k < 1 + (r->rank + i) % 3; k++)
			check(out[i * 4 + k] == i * 100 + r->rank * 4 + k, "what came", r);
	check(!ncclCommDestroy(r->comm[0]), "ends", r);
}

/* ---- what hangs ---- */

static void end_by_abort(struct rank *r)
{
	check(!ncclCommAbort(r->comm[0]) && !cuStreamSynchronize(r->stream[0]),
	      "an abort lets the stream go on", r);
}

/* argument: 0 another count, 1 another order, 2 a rank that does not come */
static void differs(struct rank *r)
{
	bool last = r->rank == r->size - 1;
	size_t count = last && !r->argument ? COUNT - 1 : COUNT;

	open_comm(r, 0);
	if (r->argument == 1 && last)
		ncclAllGather(AT(r->in), AT(r->out), COUNT, ncclFloat32, r->comm[0],
			      r->stream[0]);
	if (r->argument != 2 || !last)
		check(!ncclAllReduce(AT(r->in), AT(r->out), count, ncclFloat32, ncclSum,
				     r->comm[0], r->stream[0]),
		      "is queued", r);
	if (r->argument == 1 && !last)
		ncclAllGather(AT(r->in), AT(r->out), COUNT, ncclFloat32, r->comm[0],
			      r->stream[0]);
	all_meet(r);
	check(is_soon(r->stream[0]) == (r->argument == 2 && last), "it hangs, without a word",
	      r);
	all_meet(r);
	end_by_abort(r);
}

static void queue_both(struct rank *r, bool turned)
{
	int i;

	open_comm(r, 0);
	open_comm(r, 1);
	for (i = 0; i < 2; i++) {
		int which = turned ? 1 - i : i;

		check(!ncclAllReduce(AT(r->in), AT(r->out), COUNT, ncclFloat32, ncclSum,
				     r->comm[which], r->stream[which]),
		      "is queued", r);
		/* The first is on the device before the second is queued. */
		usleep(SOON_US / 5);
	}
	all_meet(r);
}

/* Two communicators on two streams, in one order on all ranks. */
static void two_comms(struct rank *r)
{
	queue_both(r, false);
	check(!cuStreamSynchronize(r->stream[0]) && !cuStreamSynchronize(r->stream[1]), "ends",
	      r);
	check(!ncclCommDestroy(r->comm[0]) && !ncclCommDestroy(r->comm[1]), "both end", r);
}

static void *abort_main(void *arg)
{
	ncclCommAbort(arg);
	return NULL;
}

/* In another order on the last rank: neither ends.  Freeing one waits for the other's kernel,
 * so both have to be aborted at the same time. */
static void two_orders(struct rank *r)
{
	pthread_t thread[2];
	int i;

	queue_both(r, r->rank == r->size - 1);
	check(!is_soon(r->stream[0]) && cuStreamQuery(r->stream[1]) == CUDA_ERROR_NOT_READY,
	      "a deadlock", r);
	all_meet(r);
	for (i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, abort_main, r->comm[i]);
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	check(!cuCtxSynchronize(), "nothing is left on the device", r);
}

/* ---- not blocking ---- */

static ncclConfig_t config_of(int blocking)
{
	return (ncclConfig_t){ .size = 48,
			       .magic = NCCL_CONFIG_MAGIC,
			       .version = 21800,
			       .blocking = blocking,
			       .cgaClusterSize = NCCL_CONFIG_UNDEFINED,
			       .minCTAs = NCCL_CONFIG_UNDEFINED,
			       .maxCTAs = NCCL_CONFIG_UNDEFINED,
			       .splitShare = NCCL_CONFIG_UNDEFINED };
}

static ncclResult_t settled(ncclComm_t c)
{
	ncclResult_t error = ncclInProgress;

	while (!ncclCommGetAsyncError(c, &error) && error == ncclInProgress)
		usleep(100);
	return error;
}

static ncclResult_t sum(struct rank *r)
{
	return ncclAllReduce(AT(r->in), AT(r->out), COUNT, ncclFloat32, ncclSum, r->comm[0],
			     r->stream[0]);
}

/* Each rank sends to the next one. */
static ncclResult_t send_on(struct rank *r)
{
	int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;

	check(!ncclGroupStart() &&
		      !ncclSend(AT(r->in), 1, ncclFloat32, next, r->comm[0], r->stream[0]) &&
		      !ncclRecv(AT(r->out), 1, ncclFloat32, before, r->comm[0], r->stream[0]),
	      "a group", r);
	return ncclGroupEnd();
}

/* A call that does not block is done when its communicator says so, and is put away by the next
 * one before 2.26. */
static bool is_put_away(struct rank *r)
{
	int n = 0;

	return !settled(r->comm[0]) && !ncclCommCount(r->comm[0], &n) && n == r->size;
}

static void open_apart(struct rank *r)
{
	check(ncclCommInitRankConfig(&r->comm[0], r->size, r->id[0], r->rank, r->config) ==
			      ncclInProgress &&
		      r->comm[0],
	      "begins", r);
}

/* argument: the version, which says which calls are carried out in a thread. */
static void in_progress(struct rank *r)
{
	ncclResult_t some = r->argument >= 22300 ? ncclInProgress : ncclSuccess;
	int n = 0;

	open_apart(r);
	if (r->rank)
		all_meet(r);
	else
		check(ncclCommCount(r->comm[0], &n) == ncclInvalidArgument, "no call yet", r);
	if (!r->rank)
		all_meet(r);
	check(is_put_away(r), "opens", r);
	/* Or of rank 0's call above: the process has one message, and the last one stays. */
	check(strstr(ncclGetLastError(NULL), "no error") ||
		      strstr(ncclGetLastError(NULL), "in progress"),
	      "warns of nothing", r);
	for (int i = 0; i < 2; i++)
		check(sum(r) == some && is_put_away(r) && !cuStreamSynchronize(r->stream[0]),
		      "a sum goes on in a thread", r);
	check(send_on(r) == ncclInProgress && is_put_away(r) &&
		      !cuStreamSynchronize(r->stream[0]),
	      "the first message, too", r);
	check(send_on(r) == some && is_put_away(r) && !cuStreamSynchronize(r->stream[0]),
	      "the second", r);
	check(ncclCommFinalize(r->comm[0]) == ncclInProgress && is_put_away(r), "finalizes", r);
	check(!ncclCommDestroy(r->comm[0]), "ends", r);
}

/* The end waits for what is queued, and comes once. */
static void ends_late(struct rank *r)
{
	ncclResult_t error = ncclSuccess;

	open_apart(r);
	check(is_put_away(r), "opens", r);
	(void)sum(r);
	check(is_put_away(r), "a sum is queued", r);
	check(ncclCommFinalize(r->comm[0]) == ncclInProgress, "finalizes", r);
	usleep(SOON_US);
	check(!ncclCommGetAsyncError(r->comm[0], &error) && error == ncclInProgress,
	      "not before the sum ends", r);
	all_meet(r);
	check(ncclCommDestroy(r->comm[0]) == ncclInvalidArgument && fake_nccl_left() == r->size,
	      "cannot be destroyed", r);
	/* That left a group open. */
	check(!ncclGroupEnd() && ncclGroupEnd() == ncclInvalidUsage, "a group is left", r);
	all_meet(r);
	check(!ncclCommAbort(r->comm[0]), "is aborted", r);
}

static void ends_once(struct rank *r)
{
	ncclResult_t error = ncclSuccess;

	open_apart(r);
	check(is_put_away(r) && ncclCommFinalize(r->comm[0]) == ncclInProgress &&
		      is_put_away(r),
	      "finalizes", r);
	check(ncclCommFinalize(r->comm[0]) == ncclInvalidArgument &&
		      !ncclCommGetAsyncError(r->comm[0], &error) &&
		      error == ncclInvalidArgument,
	      "not twice, and that stays", r);
	check(!ncclCommAbort(r->comm[0]), "is aborted", r);
}

/* Rank 1 hangs in initialization, and all give up; rank 1 has memory by then. */
static void init_hangs(struct rank *r)
{
	ncclResult_t error = ncclSuccess;

	ncclCommInitRankConfig(&r->comm[0], r->size, r->id[0], r->rank, r->config);
	all_meet(r);
	usleep(SOON_US);
	check(!ncclCommGetAsyncError(r->comm[0], &error) && error == ncclInProgress,
	      "is still in progress", r);
	all_meet(r);
	check(!ncclCommAbort(r->comm[0]), "gives up", r);
}

static void init_fails(struct rank *r)
{
	open_apart(r);
	if (r->rank == 1)
		check(settled(r->comm[0]) == ncclSystemError, "fails", r);
	all_meet(r);
	check(!ncclCommAbort(r->comm[0]), "is aborted", r);
}

static void *sum_main(void *arg)
{
	struct rank *r = arg;

	check(sum(r) != ncclSuccess, "a sum ends with its communicator", r);
	return NULL;
}

/* argument: the version.  Ranks hang when they connect for a message, and from 2.22 on for a
 * sum: 2.22 then keeps the caller. */
static void connect_hangs(struct rank *r)
{
	ncclResult_t error = ncclSuccess;
	pthread_t thread;

	open_apart(r);
	check(is_put_away(r), "opens", r);
	if (r->argument < 22200)
		check(!sum(r) && !cuStreamSynchronize(r->stream[0]), "a sum", r);
	if (r->argument >= 22200 && r->argument < 22300) {
		pthread_create(&thread, NULL, sum_main, r);
		usleep(SOON_US);
		check(!ncclCommAbort(r->comm[0]), "is aborted by another thread", r);
		pthread_join(thread, NULL);
		return;
	}
	check((r->argument < 22200 ? send_on(r) : sum(r)) == ncclInProgress, "begins", r);
	usleep(SOON_US);
	check(!ncclCommGetAsyncError(r->comm[0], &error) && error == ncclInProgress,
	      "does not connect", r);
	check(sum(r) == ncclInvalidArgument && !ncclCommGetAsyncError(r->comm[0], &error) &&
		      error == ncclInvalidArgument,
	      "a call in between is refused, and that stays", r);
	all_meet(r);
	check(!ncclCommAbort(r->comm[0]) && !cuStreamQuery(r->stream[0]), "is aborted", r);
}

/* One call of a group is wrong: none is carried out. */
static void poisoned(struct rank *r)
{
	bool blocks = r->config->blocking;
	ncclResult_t error = ncclSuccess;
	float is = 0;

	check(!settled((ncclCommInitRankConfig(&r->comm[0], r->size, r->id[0], r->rank,
					       r->config),
			r->comm[0])),
	      "opens", r);
	cuMemcpyHtoD_v2(r->out, &is, sizeof(is));
	cuMemcpyHtoD_v2(r->in, (float[]){ 1 }, sizeof(is));
	check(!ncclGroupStart() && !sum(r) &&
		      ncclAllReduce(AT(r->in), AT(r->out), 1, (ncclDataType_t)99, ncclSum,
				    r->comm[0], r->stream[0]) == ncclInvalidArgument &&
		      ncclGroupEnd() == ncclInvalidArgument,
	      "is refused", r);
	check(is_soon(r->stream[0]) && !cuMemcpyDtoH_v2(&is, r->out, sizeof(is)) && is == 0,
	      "nothing is carried out", r);
	check(!ncclCommGetAsyncError(r->comm[0], &error) &&
		      error == (blocks ? ncclSuccess : ncclInvalidArgument),
	      "the error stays where a call does not block", r);
	check(sum(r) == (blocks ? ncclSuccess : ncclInvalidArgument), "as in a call", r);
	all_meet(r);
	check(!ncclCommAbort(r->comm[0]), "is aborted", r);
}

/* argument: the version.  What a communicator takes of the GPU's memory, and when. */
static void takes_memory(struct rank *r)
{
	int links = r->argument >= 22200, had = fake_cuda_left().allocations;

	open_comm(r, 0);
	check(fake_cuda_left().allocations == had + 1, "opens", r);
	for (int i = 0; i < 2; i++)
		check(!sum(r) && fake_cuda_left().allocations == had + 1 + links, "a sum", r);
	check(!send_on(r) && fake_cuda_left().allocations == had + 2 + links, "a message", r);
	check(!ncclCommDestroy(r->comm[0]) && fake_cuda_left().allocations == had, "ends", r);
}

static void *finalize_main(void *arg)
{
	struct rank *r = arg;

	check(!ncclCommFinalize(r->comm[0]), "a call returns when its communicator is aborted",
	      r);
	return NULL;
}

/* Only an abort may come while another thread is in a call. */
static void aborted_inside(struct rank *r)
{
	pthread_t thread;

	open_comm(r, 0);
	(void)sum(r);
	pthread_create(&thread, NULL, finalize_main, r);
	usleep(SOON_US);
	check(!ncclCommAbort(r->comm[0]), "is aborted", r);
	pthread_join(thread, NULL);
}

static void blocks_after_all(struct rank *r)
{
	check(!ncclCommInitRankConfig(&r->comm[0], r->size, r->id[0], r->rank, r->config) &&
		      !sum(r) && !ncclCommDestroy(r->comm[0]),
	      "NCCL_COMM_BLOCKING=1 is stronger than a config", r);
}

/* ---- configs ---- */

static ncclResult_t opens_with(struct rank *r, ncclConfig_t config)
{
	ncclUniqueId id;
	ncclComm_t comm = NULL;
	ncclResult_t bad;

	(void)r;
	ncclGetUniqueId(&id);
	bad = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
	if (!bad)
		ncclCommDestroy(comm);
	return bad;
}

static void configs(struct rank *r)
{
	ncclConfig_t old = config_of(1), new = old, c;
	char name[16] = "ringup world", names[2][FAKE_NAME_BYTES];
	ncclUniqueId id;
	ncclComm_t comm;

	new.size = 72;
	new.version = 22700;
	new.trafficClass = new.collnetEnable = new.CTAPolicy = new.shrinkShare = new.nvlsCTAs =
		NCCL_CONFIG_UNDEFINED;
	check(!opens_with(r, old) && !opens_with(r, new), "as 2.18 and 2.27 have them", r);
#define REFUSES(base, field, value, what) \
	c = base;                         \
	c.field = value;                  \
	check(opens_with(r, c) == ncclInvalidArgument, what, r)
	REFUSES(old, size, 72, "the size of another version");
	REFUSES(old, size, 47, "no size of any");
	REFUSES(new, version, 21800, "the version of another size");
	REFUSES(old, magic, 1, "no config");
	REFUSES(old, blocking, 2, "neither yes nor no");
	REFUSES(old, minCTAs, 1, "a least without a most");
	REFUSES(old, maxCTAs, 0, "no multiprocessor");
	REFUSES(old, splitShare, 7, "no flag");
	REFUSES(new, collnetEnable, 2, "no flag of 2.27");
	REFUSES(new, nvlsCTAs, 0, "nothing for NVLS");
#undef REFUSES
	new.commName = name;
	ncclGetUniqueId(&id);
	check(!ncclCommInitRankConfig(&comm, 1, id, 0, &new), "has a name", r);
	strcpy(name, "ringup group 7");
	check(fake_nccl_names(names, 2) == 1 && !strcmp(names[0], "ringup group 7"),
	      "which stays the caller's", r);
	check(!ncclCommDestroy(comm) && !fake_nccl_names(names, 2), "ends", r);
}

/* ---- faults of operations ---- */

static void second_hangs(struct rank *r)
{
	ncclResult_t error = ncclSuccess;
	int i;

	open_comm(r, 0);
	for (i = 0; i < 2; i++)
		ncclAllReduce(AT(r->in), AT(r->out), COUNT, ncclFloat32, ncclSum, r->comm[0],
			      r->stream[i]);
	check(!cuStreamSynchronize(r->stream[0]), "the first is done", r);
	all_meet(r);
	check(!is_soon(r->stream[1]), "the second is not", r);
	check(!ncclCommGetAsyncError(r->comm[0], &error) &&
		      (int)error == (r->rank == 1 ? r->argument : 0),
	      "its error", r);
	all_meet(r);
	check(!ncclCommAbort(r->comm[0]) && !cuStreamSynchronize(r->stream[1]), "is aborted",
	      r);
}

static void same_gpu(struct rank *r)
{
	check(ncclCommInitRank(&r->comm[0], r->size, r->id[0], r->rank) == ncclInvalidUsage &&
		      strstr(ncclGetLastError(NULL), "same GPU"),
	      "two ranks on one GPU", r);
	check(!ncclCommAbort(r->comm[0]), "is no communicator", r);
}

#if FAKE_NCCL_VERSION >= 22800
static void revoked(struct rank *r)
{
	open_comm(r, 0);
	if (r->rank)
		(void)sum(r);
	usleep(SOON_US / 5);
	check(!ncclCommRevoke(r->comm[0], 0) && !cuStreamSynchronize(r->stream[0]),
	      "lets the stream go on", r);
	check(sum(r) == ncclInvalidUsage, "takes no more", r);
	check(ncclCommRevoke(r->comm[0], 0) == ncclInvalidArgument, "once", r);
	check(!ncclCommDestroy(r->comm[0]), "ends", r);
}
#endif

/* Runs @body with FAKE_NCCL=@faults as several versions. */
static void by_version(const char *what, int size, ncclConfig_t *config, const char *more,
		       void (*body)(struct rank *r))
{
	static const int built[] = { 21803, 22105, 22203, 22304, 22501, 22707, 23007 };
	char list[80];
	size_t i;

	for (i = 0; i < sizeof(built) / sizeof(built[0]); i++) {
		snprintf(list, sizeof(list), "version=%d,%s", built[i], more);
		setenv("FAKE_NCCL", list, 1);
		run_with(what, size, config, built[i], body);
	}
	unsetenv("FAKE_NCCL");
}

static void faults(void)
{
	ncclConfig_t config = config_of(0);

	ncclConfig_t blocking = config_of(1);
	int leaked;

	by_version("nothing blocks", 3, &config, "", in_progress);
	by_version("memory", 1, NULL, "", takes_memory);
	by_version("ranks that do not connect", 3, &config, "connect_hang=1", connect_hangs);
	setenv("FAKE_NCCL", "hang=0@1", 1);
	run_with("the end of a communicator at work", 2, &config, 0, ends_late);
	run_with("an abort from another thread", 2, &blocking, 0, aborted_inside);
	unsetenv("FAKE_NCCL");
	run_with("the end of a communicator", 2, &config, 0, ends_once);
	run_with("a group with a wrong call", 2, &config, 0, poisoned);
	run_with("the same, blocking", 2, &blocking, 0, poisoned);
	run("configs", 1, configs);
	setenv("NCCL_COMM_BLOCKING", "1", 1);
	run_with("blocking by the environment", 2, &config, 0, blocks_after_all);
	unsetenv("NCCL_COMM_BLOCKING");
	setenv("FAKE_NCCL", "init_hang=1", 1);
	leaked = fake_nccl_leaked();
	run_with("a rank hangs in initialization", 3, &config, 0, init_hangs);
	ok(fake_nccl_leaked() == leaked + 3, "and each leaves memory behind");
	setenv("FAKE_NCCL", "init_fails=1", 1);
	run_with("a rank fails in initialization", 3, &config, 0, init_fails);
	setenv("FAKE_NCCL", "hang=1@2,abort_blocks=20", 1);
	run_with("an operation hangs", 2, NULL, 0, second_hangs);
	setenv("FAKE_NCCL", "async=1@2:6,late=0:3", 1);
	run_with("an asynchronous error", 2, NULL, ncclRemoteError, second_hangs);
	setenv("FAKE_NCCL", "two_gpus_same,version=22907", 1);
	run("one GPU", 2, same_gpu);
	setenv("FAKE_NCCL", "two_gpus_same,version=23007", 1);
	run("one GPU, not asked for", 2, same_gpu);
	setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);
	run("one GPU, refused by the user", 2, same_gpu);
	setenv("NCCL_MULTI_RANK_GPU_ENABLE", "yes", 1);
	run("one GPU, and no number", 2, same_gpu);
	setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
	run("one GPU, as 2.30 allows it", 2, two_comms);
	unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
	unsetenv("FAKE_NCCL");
}

/* ---- processes ---- */

static char *program;

/* Ranks as processes: rank @dies is killed while the others wait for it. */
static int process_main(char **argv)
{
	int rank = atoi(argv[2]), size = atoi(argv[3]), dies = atoi(argv[4]);
	ncclUniqueId id;
	struct rank r = { .rank = rank, .size = size, .id = &id };
	float one = 1, sum = 0;
	ncclResult_t error;
	CUcontext context;
	CUevent e;
	int i;

	alarm(100);
	for (i = 0; i < FAKE_ID_BYTES; i++) {
		unsigned int byte;

		sscanf(argv[5] + 2 * i, "%2x", &byte);
		id.internal[i] = (char)byte;
	}
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, rank) || cuCtxSetCurrent(context) ||
	    cuMemAlloc_v2(&r.in, 4) || cuStreamCreate(&r.stream[0], 1) || cuEventCreate(&e, 2))
		return 2;
	to_gpu(r.in, &one, 4);
	open_comm(&r, 0);
	ncclAllReduce(AT(r.in), AT(r.in), 1, ncclFloat32, ncclSum, r.comm[0], r.stream[0]);
	cuStreamSynchronize(r.stream[0]);
	cuMemcpyDtoH_v2(&sum, r.in, 4);
	if (sum != (float)size)
		return 3;
	if (rank == dies)
		raise(SIGKILL);
	if (dies >= 0) {
		setenv("FAKE_NCCL", argv[6], 1);
		ncclAllReduce(AT(r.in), AT(r.in), 1, ncclFloat32, ncclSum, r.comm[0],
			      r.stream[0]);
		do
			ncclCommGetAsyncError(r.comm[0], &error);
		while (!error && !usleep(1000));
		if (error != (argv[6][10] ? ncclInternalError : ncclRemoteError) ||
		    cuStreamQuery(r.stream[0]) == CUDA_SUCCESS)
			return 4;
	}
	if (ncclCommAbort(r.comm[0]) || cuStreamSynchronize(r.stream[0]))
		return 5;
	cuEventDestroy_v2(e);
	cuMemFree_v2(r.in);
	cuStreamDestroy_v2(r.stream[0]);
	cuDevicePrimaryCtxRelease_v2(rank);
	if (fake_cuda_left().allocations || fake_cuda_left().contexts || fake_nccl_left())
		return 6;
	/* What the real one's freed memory would do. */
	if (dies < 0 && rank == 0) {
		signal(SIGABRT, SIG_DFL);
		close(2);
		ncclCommCount(r.comm[0], &i);
	}
	return 0;
}

static bool processes(int size, int dies, const char *fault)
{
	char hex[2 * FAKE_ID_BYTES + 1], rank[16], ranks[16], dying[16];
	ncclUniqueId id;
	pid_t child[MOST];
	bool good = true;
	int i, status;

	if (ncclGetUniqueId(&id))
		return false;
	for (i = 0; i < FAKE_ID_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)id.internal[i]);
	for (i = 0; i < size; i++) {
		snprintf(rank, sizeof(rank), "%d", i);
		snprintf(ranks, sizeof(ranks), "%d", size);
		snprintf(dying, sizeof(dying), "%d", dies);
		child[i] = fork();
		if (!child[i]) {
			execl("/proc/self/exe", program, "rank", rank, ranks, dying, hex, fault,
			      (char *)NULL);
			_exit(127);
		}
	}
	for (i = 0; i < size; i++) {
		bool killed;

		waitpid(child[i], &status, 0);
		killed = (dies == i && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
			 (dies < 0 && i == 0 && WIFSIGNALED(status) &&
			  WTERMSIG(status) == SIGABRT);
		if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) || i == dies)) {
			printf("# rank %d: status %x\n", i, (unsigned int)status);
			good = false;
		}
	}
	return good;
}

/* ---- what is deadly ---- */

struct death {
	const char *what, *faults;
	void (*die)(struct rank *r);
	const char *says; /* NULL: it lives */
};

/* Calls @f as a thread, which has ended then. */
static void elsewhere(void *(*f)(void *), struct rank *r)
{
	pthread_t thread;

	pthread_create(&thread, NULL, f, r);
	pthread_join(thread, NULL);
}

static void *open_main(void *arg)
{
	struct rank *r = arg;
	CUcontext context;

	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	open_apart(r);
	return NULL;
}

/* The same, and the thread lives on. */
static void *open_and_stay(void *arg)
{
	struct rank *r = arg;

	open_main(arg);
	all_meet(r);
	sleep(100);
	return NULL;
}

static void stays(struct rank *r)
{
	pthread_t thread;

	pthread_create(&thread, NULL, open_and_stay, r);
	pthread_detach(thread);
	all_meet(r);
}

static void *destroy_main(void *arg)
{
	ncclCommDestroy(((struct rank *)arg)->comm[0]);
	return NULL;
}

static void dies_of_two(struct rank *r)
{
	ncclResult_t error;
	pthread_t thread;

	r->config->blocking = 1;
	open_comm(r, 0);
	(void)sum(r);
	pthread_create(&thread, NULL, destroy_main, r);
	usleep(SOON_US);
	ncclCommGetAsyncError(r->comm[0], &error);
}

static void asks_elsewhere(struct rank *r)
{
	stays(r);
	(void)is_put_away(r);
}

static void asks_after(struct rank *r)
{
	elsewhere(open_main, r);
	(void)is_put_away(r);
}

static void looks_after(struct rank *r)
{
	elsewhere(open_main, r);
	(void)settled(r->comm[0]);
}

static void aborts_elsewhere(struct rank *r)
{
	stays(r);
	usleep(SOON_US);
	ncclCommAbort(r->comm[0]);
}

static void aborts_after(struct rank *r)
{
	elsewhere(open_main, r);
	ncclCommAbort(r->comm[0]);
}

static void leaves_a_job(struct rank *r)
{
	open_apart(r);
	(void)settled(r->comm[0]);
	(void)ncclCommInitRankConfig(&r->comm[1], 1, r->id[1], 0, r->config);
}

static void aborts_twice(struct rank *r)
{
	open_apart(r);
	ncclCommAbort(r->comm[0]);
	ncclCommAbort(r->comm[0]);
}

#if FAKE_NCCL_VERSION >= 22800
static void revokes_early(struct rank *r)
{
	open_apart(r);
	usleep(SOON_US);
	(void)ncclCommRevoke(r->comm[0], 0);
}

static void revokes_at_work(struct rank *r)
{
	open_apart(r);
	(void)is_put_away(r);
	(void)sum(r);
	usleep(SOON_US);
	(void)ncclCommRevoke(r->comm[0], 0);
}
#endif

static const struct death deaths[] = {
	{ "two threads in one communicator", "hang=0@1", dies_of_two, "two threads in NCCL" },
	{ "a look from another thread, in 2.18", "version=21803", looks_after, NULL },
	{ "a call from another thread, in 2.18", "version=21803", asks_elsewhere,
	  "another thread's" },
	{ "a call from another thread, in 2.25", "version=22501", asks_elsewhere,
	  "another thread's" },
	{ "a call from another thread, in 2.27", "version=22707", asks_elsewhere, NULL },
	{ "a call after the thread's end, in 2.25", "version=22501", asks_after, "has ended" },
	{ "a look after the thread's end, in 2.25", "version=22501", looks_after, NULL },
	{ "a look after the thread's end, in 2.26", "version=22605", looks_after, "has ended" },
	{ "a look after the thread's end, in 2.27", "version=22707", looks_after, NULL },
	{ "an abort from another thread, in 2.18", "version=21803,init_hang=0",
	  aborts_elsewhere, "aborted by another thread" },
	{ "an abort from another thread, in 2.19", "version=21904,init_hang=0",
	  aborts_elsewhere, NULL },
	{ "an abort after the thread's end, in 2.25", "version=22501,init_hang=0", aborts_after,
	  "has ended" },
	{ "an abort after the thread's end, in 2.27", "version=22707,init_hang=0", aborts_after,
	  NULL },
	{ "what is not put away, in 2.18", "version=21803", leaves_a_job, NULL },
	{ "what is not put away, in 2.19", "version=21904", leaves_a_job, "was not asked" },
	{ "what is not put away, in 2.25", "version=22501", leaves_a_job, "was not asked" },
	{ "what is not put away, in 2.27", "version=22707", leaves_a_job, NULL },
	{ "a second abort", "", aborts_twice, "used after its end" },
#if FAKE_NCCL_VERSION >= 22800
	{ "a revocation too early", "init_hang=0", revokes_early, "never opened" },
	{ "a revocation of what fails", "init_fails=0", revokes_early, "never opened" },
	{ "a revocation at work", "", revokes_at_work, "nobody has asked" },
#endif
};

static int death_main(const struct death *d)
{
	ncclConfig_t config = config_of(0);
	ncclUniqueId id[2];
	pthread_barrier_t all;
	struct rank r = { .size = 1, .id = id, .config = &config, .all = &all };
	CUcontext context;

	alarm(100);
	setenv("FAKE_NCCL", d->faults, 1);
	pthread_barrier_init(&all, NULL, 2);
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuMemAlloc_v2(&r.in, COUNT * 4) || cuMemAlloc_v2(&r.out, COUNT * 4) ||
	    cuStreamCreate(&r.stream[0], 1) || ncclGetUniqueId(&id[0]) ||
	    ncclGetUniqueId(&id[1]))
		return 2;
	d->die(&r);
	fflush(stdout);
	/* With threads that nobody joins, on purpose. */
	raise(SIGKILL);
	return 3;
}

static void death(int number)
{
	const struct death *d = &deaths[number];
	char text[4096] = "", index[16];
	size_t len = 0;
	ssize_t n;
	int pipes[2], status;
	pid_t child;

	snprintf(index, sizeof(index), "%d", number);
	if (pipe(pipes))
		abort();
	child = fork();
	if (!child) {
		dup2(pipes[1], 2);
		close(pipes[0]);
		close(pipes[1]);
		execl("/proc/self/exe", program, "death", index, (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	while (len < sizeof(text) - 1 &&
	       (n = read(pipes[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	text[strcspn(text, "\n")] = 0;
	close(pipes[0]);
	waitpid(child, &status, 0);
	if (!d->says)
		ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s is no harm: %s",
		   d->what, text);
	else
		ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, d->says),
		   "%s is deadly: %s", d->what, text);
}

/* ---- versions ---- */

static void versions(void)
{
	static const struct {
		const char *folder;
		int version;
		bool revokes;
	} built[] = { { "2.18.3", 21803, false }, { "2.22.3", 22203, false },
		      { "2.25.1", 22501, false }, { "2.27.7", 22707, false },
		      { "2.28.9", 22809, true },  { "2.29.7", 22907, true },
		      { "2.30.7", 23007, true } };
	char path[256];
	size_t i;

	for (i = 0; i < sizeof(built) / sizeof(built[0]); i++) {
		int (*get)(int *) = NULL;
		int version = 0;
		void *lib;

		snprintf(path, sizeof(path), "tests/fakegpu/nccl-%s/libnccl.so.2",
			 built[i].folder);
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!lib)
			printf("# %s\n", dlerror());
		if (lib)
			*(void **)&get = dlsym(lib, "ncclGetVersion");
		ok(get && !get(&version) && version == built[i].version &&
			   (dlsym(lib, "ncclCommRevoke") != NULL) == built[i].revokes,
		   "%s has the calls of its time", built[i].folder);
		if (lib)
			dlclose(lib);
	}
}

/* NCCL_COMM_ID: one id for all communicators, which meet at its address. */
static void given_address(void)
{
	ncclUniqueId id[2];
	char text[32];

	snprintf(text, sizeof(text), "127.0.0.1:%d", 20000 + getpid() % 10000);
	setenv("NCCL_COMM_ID", text, 1);
	ok(!ncclGetUniqueId(&id[0]) && !ncclGetUniqueId(&id[1]) &&
		   !memcmp(&id[0], &id[1], sizeof(id[0])),
	   "one id for all");
	run("ranks meet where it says", 2, moves);
	setenv("NCCL_COMM_ID", "nonsense", 1);
	ok(ncclGetUniqueId(&id[0]) == ncclInvalidArgument, "no address");
	unsetenv("NCCL_COMM_ID");
}

int main(int argc, char **argv)
{
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	int n, sizes = getenv("RINGUP_TEST_LONG") ? MOST : 3;

	if (argc > 6 && !strcmp(argv[1], "rank"))
		return process_main(argv);
	if (argc > 2 && !strcmp(argv[1], "death"))
		return death_main(&deaths[atoi(argv[2])]);
	program = argv[0];
	alarm(250);
	ok(processes(3, -1, ""), "ranks are processes, and a use after the end is deadly");
	ok(processes(3, 1, "peer_error"), "a process dies, the others hang until they abort");
	ok(processes(3, 1, "peer_error=3"), "the same, by another error");
	ok(!ncclGetUniqueId(&id) &&
		   ncclCommInitRank(&comm, 1, id, 0) == ncclUnhandledCudaError && !comm,
	   "without a device no communicator opens");
	if (cuInit(0))
		abort();
	for (n = 1; n <= sizes; n++) {
		run("sums", n, sums);
		run("averages", n, averages);
		run("moves", n, moves);
	}
	run_with("other counts", 3, NULL, 0, differs);
	run_with("another order", 3, NULL, 1, differs);
	run_with("a rank that does not come", 3, NULL, 2, differs);
	given_address();
	run("two communicators in one order", 2, two_comms);
	run("two in different order deadlock", 2, two_orders);
	faults();
	for (n = 0; n < (int)(sizeof(deaths) / sizeof(deaths[0])); n++)
		death(n);
#if FAKE_NCCL_VERSION >= 22800
	run("one that is revoked", 3, revoked);
#endif
	versions();
	ok(fake_cuda_left().allocations == fake_nccl_leaked() && !fake_cuda_left().events &&
		   !fake_cuda_left().streams && !fake_cuda_left().contexts,
	   "nothing is left");
	return tap_done();
}
