/* fakenccl.h - for tests: the calls of the fake libnccl.so.2, with NCCL's numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAKENCCL_H
#define TESTS_FAKENCCL_H

#include <stddef.h>
#include <stdint.h>

#include "fakegpu/fakecuda.h"

/*
 * A stand-in for NCCL over the fake libcuda, between processes of this machine or threads of
 * one.  It is built once for each family of versions, and has the calls of that version only,
 * but for those that ringup has no use for: registration, windows, split, shrink, grow.
 *
 *  - A collective runs at its turn on the stream, as a kernel of all the device's
 *    multiprocessors, until all ranks have come: so two communicators in different order on
 *    two ranks wait for each other for ever.
 *  - Ranks that disagree about an operation, its count or its order wait for ever, in silence.
 *  - Sums are made in the order of ranks, and each one of f16 and bf16 is rounded.
 *  - With blocking = 0, an initialization and the end of a communicator are in progress when
 *    their call returns; so is every group of calls from 2.23 on, and before that the first
 *    with sends.  A call that comes then is refused, and the communicator keeps that error.
 *  - From 2.22 on, ranks connect, and need memory, for the first collective of a kind; for the
 *    first send always.
 *  - A call that is wrong makes its group fail as a whole; nothing of it is carried out.
 *  - Memory of a communicator is freed as the driver does it: after all work on the device.
 *    That of an initialization that is aborted is never freed.
 *  - Two threads in a communicator at once, unless one of them aborts it, end the process by
 *    abort(3); so does its use after its end.
 *  - What is in progress is put away by the next call of the communicator, from 2.26 on by
 *    ncclCommGetAsyncError(), too.  Before 2.27 it is in the memory of its thread: others may
 *    only abort it, which in 2.18 even then is deadly, and from 2.19 to 2.25 that thread can
 *    begin nothing else before it has been put away.
 *  - The last error is one text for the process, and may be a warning that matters to nobody.
 *  - With NCCL_COMM_ID all communicators have one id, that address, where the rank 0 of each
 *    listens when it is initialized (as 2.28.9 and 2.30.7).
 *
 * Ranks meet over the loopback, or over the interface that NCCL_SOCKET_IFNAME names; those with
 * one address are on one host, where each needs a GPU of its own.
 *
 * FAKE_NCCL is a list, separated by commas; R is a rank of the communicator, N the number of
 * its operation, from 1:
 *	async=R@N:CODE   operation N of rank R hangs; ncclCommGetAsyncError() says CODE
 *	hang=R@N         operation N of rank R hangs
 *	init_hang=R      the initialization of rank R hangs
 *	init_fails=R     it fails: ncclSystemError
 *	connect_hang=R   rank R and its neighbours hang when they connect for an operation
 *	late=R:MS        each operation of rank R begins so many ms later
 *	abort_blocks=MS  ncclCommAbort() takes so many ms more
 *	frees_late       memory is freed at exit, so an abort waits for NCCL's kernels only
 *	two_gpus_same    all ranks are on one GPU, which NCCL refuses before 2.30
 *	peer_error=CODE  a rank whose peer's process has ended hears so (ncclRemoteError)
 *	sms=N            multiprocessors that a kernel of NCCL takes (8)
 *	version=N        ncclGetVersion()
 */

typedef enum {
	ncclSuccess,
	ncclUnhandledCudaError,
	ncclSystemError,
	ncclInternalError,
	ncclInvalidArgument,
	ncclInvalidUsage,
	ncclRemoteError,
	ncclInProgress,
} ncclResult_t;

typedef enum {
	ncclInt8,
	ncclUint8,
	ncclInt32,
	ncclUint32,
	ncclInt64,
	ncclUint64,
	ncclFloat16,
	ncclFloat32,
	ncclFloat64,
	ncclBfloat16,
} ncclDataType_t;

typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg } ncclRedOp_t;
typedef enum { ncclScalarDevice, ncclScalarHostImmediate } ncclScalarResidence_t;

typedef struct fake_comm *ncclComm_t;

enum { FAKE_ID_BYTES = 128 };

typedef struct {
	char internal[FAKE_ID_BYTES];
} ncclUniqueId;

#define NCCL_CONFIG_MAGIC     0xcafebeefU
#define NCCL_CONFIG_UNDEFINED INT32_MIN

/* As far as 2.27 has it; a shorter one is of an older caller. */
typedef struct {
	size_t size;
	unsigned int magic, version;
	int blocking, cgaClusterSize, minCTAs, maxCTAs;
	const char *netName;
	int splitShare, trafficClass;
	const char *commName;
	int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs;
} ncclConfig_t;

FAKE_API ncclResult_t ncclGetVersion(int *version);
FAKE_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
FAKE_API const char *ncclGetErrorString(ncclResult_t result);
FAKE_API const char *ncclGetLastError(ncclComm_t comm);
FAKE_API ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank);
FAKE_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id,
					     int rank, ncclConfig_t *config);
FAKE_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
FAKE_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
FAKE_API ncclResult_t ncclCommAbort(ncclComm_t comm);
FAKE_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
FAKE_API ncclResult_t ncclCommCount(ncclComm_t comm, int *count);
FAKE_API ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device);
FAKE_API ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank);
FAKE_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags); /* 2.28 */
FAKE_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
					       ncclDataType_t type,
					       ncclScalarResidence_t residence,
					       ncclComm_t comm);
FAKE_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
FAKE_API ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
				    ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
				    CUstream s);
FAKE_API ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
				 ncclRedOp_t op, int root, ncclComm_t comm, CUstream s);
FAKE_API ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
				    ncclDataType_t type, int root, ncclComm_t comm, CUstream s);
FAKE_API ncclResult_t ncclBcast(void *at, size_t count, ncclDataType_t type, int root,
				ncclComm_t comm, CUstream s);
FAKE_API ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
				    ncclDataType_t type, ncclComm_t comm, CUstream s);
FAKE_API ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
					ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
					CUstream s);
FAKE_API ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer,
			       ncclComm_t comm, CUstream s);
FAKE_API ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer,
			       ncclComm_t comm, CUstream s);
FAKE_API ncclResult_t ncclAlltoAll(const void *in, void *out, size_t count, ncclDataType_t type,
				   ncclComm_t comm, CUstream s); /* 2.28 */
FAKE_API ncclResult_t ncclGroupStart(void);
FAKE_API ncclResult_t ncclGroupEnd(void);

/* fake_nccl_left - communicators that have been made and not been destroyed or aborted.
 * fake_nccl_leaked - allocations of device memory that aborted initializations have kept.
 * fake_nccl_names - the names of up to @most open communicators; how many. */
enum { FAKE_NAME_BYTES = 64 };
FAKE_API int fake_nccl_left(void);
FAKE_API int fake_nccl_leaked(void);
FAKE_API int fake_nccl_names(char (*names)[FAKE_NAME_BYTES], int most);

#endif
