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

static void in_progress(struct rank *r)
{
	int n = 0;

	check(ncclCommInitRankConfig(&r->comm[0], r->size, r->id[0], r->rank, r->config) ==
			      ncclInProgress &&
		      r->comm[0],
	      "begins", r);
	if (r->rank)
		all_meet(r);
	else
		check(ncclCommCount(r->comm[0], &n) == ncclInvalidArgument, "no call yet", r);
	if (!r->rank)
		all_meet(r);
	check(!settled(r->comm[0]) && !ncclCommCount(r->comm[0], &n) && n == r->size, "opens",
	      r);
	check(ncclAllReduce(AT(r->in), AT(r->out), COUNT, ncclFloat32, ncclSum, r->comm[0],
			    r->stream[0]) == ncclInProgress,
	      "the first operation goes on in a thread", r);
	check(!settled(r->comm[0]) && !cuStreamSynchronize(r->stream[0]), "and is queued", r);
	check(!ncclAllReduce(AT(r->in), AT(r->out), COUNT, ncclFloat32, ncclSum, r->comm[0],
			     r->stream[0]) &&
		      !cuStreamSynchronize(r->stream[0]),
	      "the second at once", r);
	check(!ncclCommFinalize(r->comm[0]) && !ncclCommDestroy(r->comm[0]), "ends", r);
}

/* Rank 1 hangs in initialization, and all give up. */
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
		ncclAllReduce(AT(r->in), AT(r->out), COUNT, ncclFloat32, ncclSum, r->comm[0],
			      r->stream[0]);
	usleep(SOON_US / 5);
	check(!ncclCommRevoke(r->comm[0], 0) && !cuStreamSynchronize(r->stream[0]),
	      "lets the stream go on", r);
	check(ncclAllReduce(AT(r->in), AT(r->out), COUNT, ncclFloat32, ncclSum, r->comm[0],
			    r->stream[0]) == ncclInvalidUsage,
	      "takes no more", r);
	check(!ncclCommDestroy(r->comm[0]), "ends", r);
}
#endif

static void faults(void)
{
	ncclConfig_t config = config_of(0);

	run_with("nothing blocks", 3, &config, 0, in_progress);
	setenv("FAKE_NCCL", "init_hang=1", 1);
	run_with("a rank hangs in initialization", 3, &config, 0, init_hangs);
	setenv("FAKE_NCCL", "hang=1@2,abort_blocks=20", 1);
	run_with("an operation hangs", 2, NULL, 0, second_hangs);
	setenv("FAKE_NCCL", "async=1@2:6,late=0:3", 1);
	run_with("an asynchronous error", 2, NULL, ncclRemoteError, second_hangs);
	setenv("FAKE_NCCL", "two_gpus_same,version=22907", 1);
	run("one GPU", 2, same_gpu);
	setenv("FAKE_NCCL", "two_gpus_same,version=23007", 1);
	run("one GPU, not asked for", 2, same_gpu);
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
		setenv("FAKE_NCCL", "peer_error", 1);
		ncclAllReduce(AT(r.in), AT(r.in), 1, ncclFloat32, ncclSum, r.comm[0],
			      r.stream[0]);
		do
			ncclCommGetAsyncError(r.comm[0], &error);
		while (!error && !usleep(1000));
		if (error != ncclRemoteError || cuStreamQuery(r.stream[0]) == CUDA_SUCCESS)
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

static bool processes(int size, int dies)
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
			execl("/proc/self/exe", program, "rank", rank, ranks, dying, hex,
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

/* ---- versions ---- */

static void versions(void)
{
	static const struct {
		const char *folder;
		int version;
		bool revokes;
	} built[] = { { "2.18.3", 21803, false },
		      { "2.27.7", 22707, false },
		      { "2.28.9", 22809, true },
		      { "2.29.7", 22907, true },
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

int main(int argc, char **argv)
{
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	int n, sizes = getenv("RINGUP_TEST_LONG") ? MOST : 3;

	if (argc > 5 && !strcmp(argv[1], "rank"))
		return process_main(argv);
	program = argv[0];
	alarm(250);
	ok(processes(3, -1), "ranks are processes, and a use after the end is deadly");
	ok(processes(3, 1), "a process dies, the others hang until they abort");
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
	run("two communicators in one order", 2, two_comms);
	run("two in different order deadlock", 2, two_orders);
	faults();
#if FAKE_NCCL_VERSION >= 22800
	run("one that is revoked", 3, revoked);
#endif
	versions();
	ok(!fake_cuda_left().allocations && !fake_cuda_left().events &&
		   !fake_cuda_left().streams && !fake_cuda_left().contexts,
	   "nothing is left");
	return tap_done();
}
