/* nccl_lib.h - NCCL, libnccl.so.2, which is found when a job starts: the calls in use. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_NCCL_LIB_H
#define BACKEND_NCCL_LIB_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum {
	NCCL_ID_BYTES = 128,
	NCCL_LEAST = 21800,
	NCCL_HAS_NAME = 22700,
	NCCL_KEEPS_NO_JOB = 22700
};

/* Results, types and operations, by their numbers in every NCCL since 2.18. */
enum {
	NCCL_OK = 0,
	NCCL_CUDA = 1,
	NCCL_SYSTEM = 2,
	NCCL_INTERNAL = 3, /* also what follows from another rank's end */
	NCCL_REMOTE = 6,
	NCCL_BUSY = 7,
	NCCL_LATE = 8
};
enum {
	NCCL_I8,
	NCCL_U8,
	NCCL_I32,
	NCCL_U32,
	NCCL_I64,
	NCCL_U64,
	NCCL_F16,
	NCCL_F32,
	NCCL_F64,
	NCCL_BF16
};
enum { NCCL_SUM, NCCL_PRODUCT, NCCL_MAX, NCCL_MIN, NCCL_AVERAGE };

typedef void *nccl_comm;

struct nccl_id {
	char bytes[NCCL_ID_BYTES];
};

/* The beginning of NCCL's configuration.  The library copies as many bytes as size says, and
 * fills in what versions after @version have added. */
struct nccl_config {
	size_t size;
	unsigned int magic, version;
	int blocking, cga_cluster_size, min_ctas, max_ctas;
	const char *net_name;
	int split_share, traffic_class;
	/* From version 2.27 on. */
	const char *comm_name;
	int collnet_enable, cta_policy, shrink_share, nvls_ctas;
};

enum { NCCL_CONFIG_BYTES = 48, NCCL_CONFIG_NAMED = 72, NCCL_UNDEFINED = -2147483647 - 1 };

/* All return one of the results, but for the texts. */
#define NCCL_CALLS(X)                                                                         \
	X(int, version, "ncclGetVersion", (int *version))                                     \
	X(int, make_id, "ncclGetUniqueId", (struct nccl_id * id))                             \
	X(int, init, "ncclCommInitRankConfig",                                                \
	  (nccl_comm * comm, int size, struct nccl_id id, int rank, struct nccl_config *how)) \
	X(int, finalize, "ncclCommFinalize", (nccl_comm comm))                                \
	X(int, destroy, "ncclCommDestroy", (nccl_comm comm))                                  \
	X(int, abort, "ncclCommAbort", (nccl_comm comm))                                      \
	X(int, count, "ncclCommCount", (nccl_comm comm, int *ranks))                          \
	X(int, state, "ncclCommGetAsyncError", (nccl_comm comm, int *result))                 \
	X(const char *, text, "ncclGetErrorString", (int result))                             \
	X(const char *, last, "ncclGetLastError", (nccl_comm comm))                           \
	X(int, group_start, "ncclGroupStart", (void))                                         \
	X(int, group_end, "ncclGroupEnd", (void))                                             \
	X(int, allreduce, "ncclAllReduce",                                                    \
	  (const void *in, void *out, size_t count, int type, int op, nccl_comm comm,         \
	   void *stream))                                                                     \
	X(int, broadcast, "ncclBroadcast",                                                    \
	  (const void *in, void *out, size_t count, int type, int root, nccl_comm comm,       \
	   void *stream))                                                                     \
	X(int, reduce, "ncclReduce",                                                          \
	  (const void *in, void *out, size_t count, int type, int op, int root,               \
	   nccl_comm comm, void *stream))                                                     \
	X(int, allgather, "ncclAllGather",                                                    \
	  (const void *in, void *out, size_t count, int type, nccl_comm comm, void *stream))  \
	X(int, reducescatter, "ncclReduceScatter",                                            \
	  (const void *in, void *out, size_t count, int type, int op, nccl_comm comm,         \
	   void *stream))                                                                     \
	X(int, put, "ncclSend",                                                               \
	  (const void *in, size_t count, int type, int peer, nccl_comm comm, void *stream))   \
	X(int, take, "ncclRecv",                                                              \
	  (void *out, size_t count, int type, int peer, nccl_comm comm, void *stream))

struct nccl_lib {
#define X(type, name, symbol, params) type(*name) params;
	NCCL_CALLS(X)
#undef X
	int number;     /* 22809 is 2.28.9 */
	char path[256]; /* of the file     */
};

/*
 * nccl_lib_get - NCCL, opened by the first call that succeeds; it stays open.
 *
 * It is @wanted, if that is not ""; else the one that the program has loaded already, for a
 * process should have one NCCL; else torch's own, if torch is linked with it; else the wheel's
 * (nvidia-nccl-cuNN) beside another library that the program has loaded from a Python's
 * packages, or conda's; else the one that the loader finds.  NULL,
 * with the reason: there is none, or it is older than 2.18.  Threads: any.
 */
const struct nccl_lib *nccl_lib_get(const char *wanted, struct err *e);

/* nccl_lib_beside - where NCCL is, if it is beside @file, which is in a Python's packages: the
 * wheel's (@which 0), conda's (1); false: there is no further place. */
bool nccl_lib_beside(const char *file, int which, char path[PATH_MAX]);

/* nccl_lib_number - "2.28.9" for 22809; @text has room for NCCL_NUMBER bytes. */
enum { NCCL_NUMBER = 48 };
void nccl_lib_number(int number, char *text);

#endif
