/* ringup.h - the public interface; the only installed header. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RINGUP_H
#define RINGUP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RINGUP_EXPORT __attribute__((visibility("default")))
#define RINGUP_API    __attribute__((visibility("default"), warn_unused_result))

/*
 * Status codes.  Zero is success, every failure is negative.  The list is the
 * only definition: ringup_strerror(), the manual and the Python exception
 * classes are generated from it.
 */
#define RINGUP_STATUSES(X)                                               \
	X(EINVAL, -1, "invalid argument")                                \
	X(ENOMEM, -2, "out of memory")                                   \
	X(EBUSY, -3, "an operation with this name is already in flight") \
	X(EMISMATCH, -4, "ranks disagree about the operation")           \
	X(EPEER, -5, "a peer is gone")                                   \
	X(ESHUTDOWN, -6, "the job is not running, or a rank has left")   \
	X(ENOBACKEND, -7, "no back end accepts the operation")           \
	X(ESYSTEM, -8, "the operating system refused")                   \
	X(ETIMEDOUT, -9, "not in time")                                  \
	X(EAUTH, -10, "the other side does not know the job's secret")   \
	X(EABORTED, -11, "the job was aborted")                          \
	X(EDEADLOCK, -12, "all ranks wait for each other")

enum ringup_status {
	RINGUP_OK = 0,
#define X(name, code, text) RINGUP_##name = code,
	RINGUP_STATUSES(X)
#undef X
};

/* Element types, and their sizes in bytes. */
#define RINGUP_DTYPES(X) \
	X(U8, 1)         \
	X(I8, 1)         \
	X(U16, 2)        \
	X(I16, 2)        \
	X(I32, 4)        \
	X(I64, 8)        \
	X(F16, 2)        \
	X(BF16, 2)       \
	X(F32, 4)        \
	X(F64, 8)        \
	X(BOOL, 1)

enum ringup_dtype {
#define X(name, bytes) RINGUP_##name,
	RINGUP_DTYPES(X)
#undef X
};

/*
 * Integers: sums and products wrap; an average is the sum divided by the number of ranks,
 * truncated, as in C and Horovod.  For bool, sum and maximum mean "or", product and minimum
 * mean "and"; averages are not supported, and any nonzero byte is true.  Adasum (Maleki et al.,
 * 2020) needs a floating-point type.
 */
enum ringup_redop {
	RINGUP_SUM,
	RINGUP_AVERAGE,
	RINGUP_MIN,
	RINGUP_MAX,
	RINGUP_PRODUCT,
	RINGUP_ADASUM
};

/*
 * Kinds of memory: host memory, host memory registered with a device (cudaHostAlloc), and the
 * memory of a CUDA device.  If no back end of the group supports a kind, the operation fails
 * with RINGUP_ENOBACKEND before any data are read; see ringup_accepts().  RINGUP_CUDA needs
 * RINGUP_BACKEND=nccl, which is new and has not run on a GPU yet.  Ranks may pass different
 * kinds: device data then go through host memory and back, which takes longer.  So do those of
 * Adasum and of ringup_reduce_to().  For a gathered result in RINGUP_CUDA the caller must
 * provide the memory (into).  What is reduced in RINGUP_CUDA, and its result, are aligned to
 * the element; other data need not be.
 */
enum ringup_memory { RINGUP_HOST, RINGUP_PINNED, RINGUP_CUDA };

/*
 * Each collective has two forms.  With a pointer to a handle (@opp), it starts the operation
 * and returns immediately.  With NULL it blocks until the operation has completed, and returns
 * what ringup_wait() would.  A blocking call has no handle to allocate or free, so it is
 * cheaper than a call and a wait; this is why one function serves both forms.
 *
 * A NULL handle or a NULL description of an operation is RINGUP_EINVAL; functions that return a
 * pointer then return NULL, and void functions do nothing.
 *
 * Wait for each handle once.  An operation that is never waited for still runs, but its memory
 * is freed only by ringup_fini().
 */

/*
 * The first field of each description is its size: bytes = sizeof(struct ringup_NAME).  Later
 * versions add fields at the end.  The library reads no byte beyond that size, and treats
 * fields that the program does not have as 0.  A program compiled for a later version gets
 * RINGUP_EINVAL if it sets a field that this library does not have.
 *
 * bytes = 0 means the fields before memory, or, in a struct without memory, those of ringup
 * 0.2.0; later fields are then not read.  Arrays of descriptions need bytes, with the same
 * value in each.
 */

struct ringup;       /* this process as one rank of a job        */
struct ringup_group; /* a set of ranks; a Horovod "process set"  */
struct ringup_op;    /* one collective in flight                 */

/*
 * How to find the other ranks.  Zero-initialise, then set what you need.
 *
 * With size 0, rank and size come from the launcher's environment variables:
 * ringup run, mpirun (Open MPI, MPICH), srun, torchrun, horovodrun; a process without a
 * launcher is rank 0 of 1.  Under mpirun or srun, ranks of several hosts meet through the
 * launcher's PMI or PMIx; the process then stays connected to the launcher until it exits.  A
 * program that uses MPI itself calls MPI_Init() first.
 *
 * exchange is an allgather of small byte strings: called on every rank in the
 * same order, it writes the len bytes of each rank, in rank order, to all
 * (size * len bytes) and returns 0, or not 0 on failure.  A torch Store, Spark's allGather and
 * MPI_Allgather fit.  A program that can read the exchanged bytes can join the job, unless
 * RINGUP_SECRET is set, to the same text on all ranks: the secret is not exchanged.  NULL means
 * ringup's own rendezvous.
 *
 * groups: the same on all ranks; they exist when ringup_init() returns, and
 * ringup_group_get() finds them as 1, 2 ...  struct ringup_set is an element of an array, and
 * never changes.
 *
 * join_sums: 1 limits a rank that has joined to sums and barriers, as in Horovod; see
 * ringup_join().  The same on all ranks; RINGUP_JOIN overrides it.
 *
 * part and part_ranks: for timelines, if the job is a part of a larger one, such as a process
 * group: its name, the same on all ranks, and the numbers of its size ranks in the larger job.
 * Events then have these numbers and that name, and are in the file of this process's rank in
 * the larger job.  Both NULL: it is a job of its own.
 */
struct ringup_set {
	const int *ranks;
	int count;
};

struct ringup_init {
	size_t bytes; /* sizeof(struct ringup_init), or 0; see above */
	int rank, size;
	int (*exchange)(void *ctx, const void *mine, size_t len, void *all);
	void *ctx;
	const struct ringup_set *groups;
	int group_count;
	int join_sums;
	const char *part;
	const int *part_ranks;
};

/* What to reduce, and how.  Zero-initialise, then set what you need. */
struct ringup_reduce {
	size_t bytes;     /* sizeof(struct ringup_reduce), or 0; see above */
	const char *name; /* matches this call with the other ranks';
			   * NULL: matched by order among unnamed calls */
	const void *in;   /* count elements of dtype                    */
	void *out;        /* count elements; may equal in               */
	uint64_t count;
	enum ringup_dtype dtype;
	enum ringup_redop redop;
	double pre, post;          /* scale before and after; 0 means 1          */
	const uint64_t *shape;     /* dims numbers, with product count; ranks compare them */
	int dims;                  /* 0: ranks compare count only           */
	enum ringup_memory memory; /* where in and out are                  */
	void *stream; /* RINGUP_CUDA: the stream that writes in and reads out.  The operation
		       * begins after the work queued on it; work queued after ringup_wait()
		       * or in ringup_then() sees the result; see ringup_result_stream().
		       * For CUDA's default stream pass CU_STREAM_LEGACY, (void *)1.  NULL:
		       * in is already written, and the operation is complete when its
		       * result is; also for CU_STREAM_PER_THREAD, (void *)2, after the
		       * calling thread's work */
};

/* What to broadcast.  in is read on root only and may be NULL elsewhere. */
struct ringup_bcast {
	size_t bytes;     /* sizeof(struct ringup_bcast), or 0; see above */
	const char *name; /* as in struct ringup_reduce                 */
	const void *in;   /* root: count elements of dtype              */
	void *out;        /* count elements; on root may equal in or be NULL */
	uint64_t count;
	enum ringup_dtype dtype;
	int root;
	const uint64_t *shape; /* as in struct ringup_reduce            */
	int dims;
	enum ringup_memory memory; /* as in struct ringup_reduce             */
	void *stream;              /* as in struct ringup_reduce             */
};

/*
 * What to gather: the blocks of all ranks, one after the other in rank order.
 * A block is rows rows of row elements; rows may differ between ranks, also be
 * 0, row must not.
 *
 * into is memory of the caller for the result, which saves the pages of a new allocation: if
 * all blocks fit into its into_bytes, *out becomes into, which stays the caller's; else *out is
 * allocated by the library.  in may lie in into at the place of its own block; if it lies
 * elsewhere in into, because other ranks brought more or fewer rows than expected, the library
 * allocates, too.
 */
struct ringup_gather {
	size_t bytes;     /* sizeof(struct ringup_gather), or 0; see above */
	const char *name; /* as in struct ringup_reduce                 */
	const void *in;   /* rows * row elements                        */
	uint64_t rows, row;
	enum ringup_dtype dtype;
	void **out;            /* set to all blocks; ringup_free() it, if it is not into */
	uint64_t *counts;      /* set to the rows of each rank: size entries */
	const uint64_t *shape; /* of a row; as in struct ringup_reduce  */
	int dims;
	void *into;                /* memory for the result, or NULL         */
	uint64_t into_bytes;       /* its size                               */
	enum ringup_memory memory; /* as in struct ringup_reduce             */
	void *stream;              /* as in struct ringup_reduce             */
};

/*
 * What to exchange: rows from every rank to every rank.  splits are the numbers of rows for
 * rank 0, 1 ...; NULL: equal numbers, so that rows must be a multiple of the number of ranks.
 * into as in struct ringup_gather, but no part of it overlaps in.
 */
struct ringup_exchange {
	size_t bytes;     /* sizeof(struct ringup_exchange), or 0; see above */
	const char *name; /* as in struct ringup_reduce                 */
	const void *in;   /* rows * row elements, those for rank 0 first */
	uint64_t rows, row;
	const uint64_t *splits; /* size entries, together rows; copied   */
	enum ringup_dtype dtype;
	void **out;            /* set to the rows from rank 0, 1 ...; as a gather's */
	uint64_t *counts;      /* set to the rows from each rank: size entries */
	const uint64_t *shape; /* of a row; as in struct ringup_reduce  */
	int dims;
	void *into; /* as in struct ringup_gather             */
	uint64_t into_bytes;
	enum ringup_memory memory; /* as in struct ringup_reduce             */
	void *stream;              /* as in struct ringup_reduce             */
};

/*
 * What to reduce and scatter: row by row, evenly; with a remainder the first ranks get one row
 * more.  out does not overlap in, or equals in, or lies at the place of this rank's rows in it.
 */
struct ringup_scatter {
	size_t bytes;     /* sizeof(struct ringup_scatter), or 0; see above */
	const char *name; /* as in struct ringup_reduce                 */
	const void *in;   /* rows * row elements                        */
	uint64_t rows, row;
	void *out; /* this rank's rows: rows / size, or one more, times row elements */
	enum ringup_dtype dtype;
	enum ringup_redop redop;
	double pre, post;      /* as in struct ringup_reduce             */
	const uint64_t *shape; /* of a row; as in struct ringup_reduce  */
	int dims;
	enum ringup_memory memory; /* as in struct ringup_reduce             */
	void *stream;              /* as in struct ringup_reduce             */
};

/* A receive from any rank of the group: the first message to arrive. */
#define RINGUP_ANY_SOURCE (-1)

/* What to send to one rank.  Zero-initialise, then set what you need. */
struct ringup_send {
	size_t bytes;   /* sizeof(struct ringup_send), or 0; see above */
	const void *in; /* count elements of dtype                         */
	uint64_t count;
	enum ringup_dtype dtype;
	int to;  /* a rank of the group, which may be this one      */
	int tag; /* matched with the receive's; any number          */
};

/* What to receive from one rank, which sends the same number of elements of the same type. */
struct ringup_recv {
	size_t bytes; /* sizeof(struct ringup_recv), or 0; see above */
	void *out;    /* count elements of dtype                    */
	uint64_t count;
	enum ringup_dtype dtype;
	int from; /* a rank of the group, or RINGUP_ANY_SOURCE   */
	int tag;
	int *source; /* set to the sender, a rank of the group; or NULL */
};

/*
 * ringup_version - the version of the library that is running, "0.2.0".
 *
 * Returns a static string.
 */
RINGUP_EXPORT const char *ringup_version(void);

/*
 * ringup_strerror - describe a status code in words.
 *
 * Returns a static string, never NULL, also for codes that do not exist.
 */
RINGUP_EXPORT const char *ringup_strerror(int status);

/*
 * ringup_error - the message of this thread's last failure.
 *
 * It says what failed, why, and which rank caused it: "allreduce 'grad/fc1': rank 1 (process 7
 * on node-b) died".
 * Returns a string that is valid until the next call of this library in the same thread; empty
 * if nothing has failed.
 */
RINGUP_EXPORT const char *ringup_error(void);

/*
 * ringup_explain - after RINGUP_ETIMEDOUT, ask the other hosts what the operation waits for.
 *
 * Names the operation, and the ranks that had not started it at the deadline, are stopped, or
 * do not answer.  If another rank has ended the job meanwhile, it says why.  After any other
 * failure it returns ringup_error().
 *
 * Ownership:  as ringup_error(), which returns the same message from then on.
 * Threads:    the one whose call timed out.
 * Blocking:   at most 0.5 s, for the answers of other hosts.
 */
RINGUP_EXPORT const char *ringup_explain(void);

/*
 * ringup_init - join the job.
 *
 * Meets the other ranks, maps the memory that ranks of one host share, connects hosts, and
 * starts two threads that sleep until they are needed.  A third comes with the first message
 * between two ranks of different hosts, others with ringup_then().
 *
 * Ownership:  *@how is copied; @how may be NULL, which means all zeroes.
 *	       *@rp belongs to the caller until ringup_fini().
 * Threads:    any one thread; contexts are independent of each other.
 * Blocking:   until all ranks have called it, at most RINGUP_START_TIMEOUT_MS.
 *
 * In an elastic job (ringup run --min-np) the launcher decides which ranks meet: rank and size
 * come from the meeting, not from the environment, and the call waits for as long as the
 * launcher does.  A rank whose operations fail with RINGUP_EPEER or RINGUP_ESHUTDOWN calls
 * ringup_fini() and ringup_init() again and meets the remaining ranks as the next generation;
 * rank 0 is always a rank of the previous generation, and ranks keep their order.
 * A process is one rank of an elastic job at a time.
 *
 * Returns 0 and sets *@rp; or leaves it untouched and returns
 *   RINGUP_EINVAL     rank is not in 0..size-1, or the environment contradicts
 *		       itself
 *   RINGUP_EAUTH      a process without the job's secret answered
 *   RINGUP_EMISMATCH  ranks run different versions of this library, or ask for
 *		       different groups
 *   RINGUP_ETIMEDOUT  not all ranks arrived
 *   RINGUP_ESHUTDOWN  the elastic job has ended, or continues without this rank
 *   RINGUP_EBUSY      this process already is a rank of the elastic job
 *   RINGUP_ESYSTEM    out of memory or descriptors, or the network failed
 */
RINGUP_API int ringup_init(const struct ringup_init *how, struct ringup **rp);

/*
 * ringup_fini - leave the job.
 *
 * Collectives that are still in flight fail with RINGUP_ESHUTDOWN, here and on the other ranks,
 * and end the job; messages that are not complete fail on both sides, and those that are can
 * still be received.  A rank that ends without it is reported as dead.
 *
 * Ownership:  frees @r, its groups and operations; @r may be NULL.
 * Threads:    one thread, while no other is inside the library with @r.
 * Blocking:   until other hosts have received the messages sent to them: at most RINGUP_LOST_MS
 *	       for a receiver that accepts none, and 20 s more for its kernel to confirm; if
 *	       this is the first rank of its host and ranks have connected through it, until
 *	       those have left: at most RINGUP_LOST_MS; for all else at most a second.
 */
RINGUP_EXPORT void ringup_fini(struct ringup *r);

/*
 * ringup_abort - fail all current and future operations on all ranks.
 *
 * They return RINGUP_EABORTED, and ringup_error() includes @why.
 *
 * Ownership:  @why is copied.
 * Threads:    any, at any time, also while other threads wait.
 * Blocking:   never.
 */
RINGUP_EXPORT void ringup_abort(struct ringup *r, const char *why);

/*
 * ringup_alarm_fd - a descriptor for poll(2) that becomes readable when the job has failed.
 *
 * A thread of the program thus learns within half a second that a rank has died, has aborted
 * the job or has missed a deadline, even if this rank has no operation in flight.  A rank that
 * leaves with ringup_fini() is not a failure.  The descriptor stays readable; do not read from
 * it.  If the job has already failed, it is readable immediately.
 *
 * Ownership:  the library's, which closes it in ringup_fini(); a copy by dup(2) stays open.
 * Threads:    any.
 * Blocking:   never.
 *
 * Returns the descriptor; RINGUP_EINVAL for NULL, RINGUP_ESHUTDOWN in a child of fork(),
 * RINGUP_ESYSTEM.
 */
RINGUP_API int ringup_alarm_fd(struct ringup *r);

/* The result of ringup_hosts_changed(). */
enum ringup_hosts { RINGUP_HOSTS_REMOVED = 1, RINGUP_HOSTS_ADDED = 2 };

/*
 * ringup_hosts_changed - should the ranks of an elastic job meet again?
 *
 * After this rank has joined, hosts may be removed from the job, or new hosts may be ready to
 * join.  The ranks should then agree on a suitable point, call ringup_fini() and ringup_init()
 * again, and form the next generation.  Ranks of different hosts may see a change at different
 * times.
 *
 * Threads:    any.
 * Blocking:   never; no system call.
 *
 * Returns 0 if nothing has changed, or the job is not elastic; else the sum of
 * RINGUP_HOSTS_REMOVED and RINGUP_HOSTS_ADDED.
 *
 * Horovod: HostUpdateResult, state.check_host_updates().
 */
RINGUP_EXPORT int ringup_hosts_changed(const struct ringup *r);

/*
 * ringup_state_synced - declare whether this process has the state of an elastic job.
 *
 * The state is what the ranks synchronize when they meet: weights, the step.  A program calls
 * it with 0 after ringup_init() and with 1 when the state has been synchronized.  The launcher
 * learns it at the next rendezvous: rank 0 of the next generation is a process that has the
 * state, and the launcher never ends the only such process.  A program that never calls it is
 * assumed to have the state when it leaves its first generation.
 *
 * Threads:    any.
 * Blocking:   never; no system call.
 *
 * Horovod: state.sync() of hvd.elastic, which does not notify the launcher.
 */
RINGUP_EXPORT void ringup_state_synced(int synced);

/* ringup_generation - the generation of an elastic job, counted from 1: each meeting of its
 * ranks begins one, with new ranks and sizes; 0 if the job is not elastic. */
RINGUP_EXPORT int ringup_generation(const struct ringup *r);

/* ringup_world - the group of all ranks; valid until ringup_fini(). */
RINGUP_EXPORT struct ringup_group *ringup_world(struct ringup *r);

/*
 * ringup_group_add - create a group of ranks with its own collectives.
 *
 * All ranks of the job must call it, members or not, in the same order and with the same
 * distinct @ranks, listed in any order.  A rank may be in any number of groups, and operations
 * of several groups may be in flight at the same time.
 *
 * Ownership:  @ranks is copied; *@gp is freed by ringup_group_remove(), or
 *	       ringup_fini().
 * Threads:    one at a time.
 * Blocking:   until all ranks have called it.
 *
 * Returns 0 and sets *@gp, on all ranks; on a rank outside the group ringup_rank() is -1, and
 * the group cannot be used there.  Or returns
 *   RINGUP_EINVAL     no ranks, a rank twice, or a rank that does not exist
 *   RINGUP_EMISMATCH  ranks ask for different groups
 *   RINGUP_ENOMEM, RINGUP_ESYSTEM, or what a collective returns
 *
 * Horovod: hvd.add_process_set(); NCCL: ncclCommSplit(); MPI: MPI_Comm_create().
 */
RINGUP_API int ringup_group_add(struct ringup *r, const int *ranks, int count,
				struct ringup_group **gp);

/*
 * ringup_group_remove - end a group.
 *
 * All ranks of the job must call it, in the same order.
 *
 * Ownership:  frees @g; complete operations in it still need their ringup_wait().
 * Threads:    one at a time.
 * Blocking:   until all ranks have called it.
 *
 * Returns 0; or the group stays, and it returns RINGUP_EBUSY if any rank has operations in
 * flight in it, RINGUP_EMISMATCH if ranks remove different ones, RINGUP_EINVAL for the world,
 * or what a collective returns.
 *
 * Horovod: hvd.remove_process_set().
 */
RINGUP_API int ringup_group_remove(struct ringup_group *g);

/*
 * ringup_group_abort - fail all current and future operations of a group on all its ranks.
 *
 * They return RINGUP_EABORTED, and ringup_error() names the rank that has aborted the group.
 * On a GPU this ends the group's NCCL communicator, including a hung kernel.  Other groups
 * continue; ringup_group_add() creates a new one.  For the world it equals ringup_abort().
 *
 * Threads:    any, also while other threads wait.
 * Blocking:   never.
 * Ownership:  @g still needs ringup_group_remove().
 *
 * Returns 0; RINGUP_EINVAL for NULL or if this rank is not in the group, RINGUP_ESHUTDOWN in a
 * child of fork().
 *
 * NCCL: ncclCommAbort(), but on all ranks.
 */
RINGUP_API int ringup_group_abort(struct ringup_group *g);

/*
 * ringup_group_error - has a group failed, even if no operation of this rank has failed yet?
 *
 * A rank may have died, left or aborted the job or the group, and NCCL or a GPU may have failed
 * after an operation was complete on its stream.
 *
 * Threads:    any, also while other threads wait.
 * Blocking:   never.
 * Ownership:  nothing changes hands.
 *
 * Returns 0 if it has not; or what its next operation would return, and ringup_error() says
 * why; RINGUP_EINVAL for NULL or if this rank is not in the group, RINGUP_ESHUTDOWN in a child
 * of fork().
 *
 * NCCL: ncclCommGetAsyncError().
 */
RINGUP_API int ringup_group_error(struct ringup_group *g);

/* ringup_group_id - the group's number, the same on all ranks: 0 is the world, then groups are
 * counted as they are added; ringup_group_get - the group with that number, or NULL. */
RINGUP_EXPORT int ringup_group_id(const struct ringup_group *g);
RINGUP_EXPORT struct ringup_group *ringup_group_get(struct ringup *r, int id);

/* ringup_group_member - the rank in the world of a group's rank, or -1. */
RINGUP_EXPORT int ringup_group_member(const struct ringup_group *g, int rank);

/* ringup_rank, ringup_size - this process's rank in a group, or -1; the group's size. */
RINGUP_EXPORT int ringup_rank(const struct ringup_group *g);
RINGUP_EXPORT int ringup_size(const struct ringup_group *g);

/*
 * Where the ranks are.  Ranks of one host, identified by machine, boot and namespaces rather
 * than by name, are local to each other; hosts are numbered by their lowest rank.  homogeneous:
 * every host has the same number of ranks.
 */
RINGUP_EXPORT int ringup_local_rank(const struct ringup *r);
RINGUP_EXPORT int ringup_local_size(const struct ringup *r);
RINGUP_EXPORT int ringup_host_rank(const struct ringup *r);
RINGUP_EXPORT int ringup_host_count(const struct ringup *r);
RINGUP_EXPORT int ringup_is_homogeneous(const struct ringup *r);

/* ringup_backend - the back end of @g's collectives: "self", "node", "mpi", "tcp". */
RINGUP_EXPORT const char *ringup_backend(const struct ringup_group *g);

/*
 * ringup_accepts - does a back end of @g support this kind of memory?
 *
 * Threads:    any.
 * Blocking:   never.
 *
 * Returns 1 if one does, else 0; the same on all ranks.
 */
RINGUP_EXPORT int ringup_accepts(const struct ringup_group *g, enum ringup_memory memory);

/*
 * ringup_allreduce - reduce a tensor over all ranks of a group.
 *
 * Starts the reduction described by @a and returns immediately.  When it has
 * completed, out on every rank holds, for each element i,
 *
 *	out[i] = post * redop(pre * in_0[i], ..., pre * in_n-1[i])
 *
 * and all ranks hold equal bits.  Sums of f16 and bf16 are accumulated in f32.
 *
 * Ranks need not call in the same order.  Calls are matched by name, so a
 * rank that is late delays this operation and no other.  Operations that are
 * ready together may be run as one.
 *
 * Ownership:  *@a is copied.  The caller keeps in and out alive and does not touch them until
 *	       ringup_wait() has returned.  *@opp belongs to the caller until ringup_wait(),
 *	       which frees it.
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   never; with @opp NULL until completion.
 *
 * Returns 0 and sets *@opp; or leaves *@opp untouched and returns
 *   RINGUP_EINVAL     name is empty or longer than 511 bytes, dtype or redop
 *		       is not one of the enumerated values, a pointer is NULL
 *		       though count is not 0, or in and out overlap without
 *		       being equal, or shape does not describe count elements,
 *		       or data in RINGUP_CUDA are not aligned to the element
 *   RINGUP_EBUSY      this rank has an operation called name in flight in @g, or 1024 without
 *		       a name, or has joined
 *   RINGUP_ESHUTDOWN  a rank of @g has left; RINGUP_EPEER, RINGUP_EABORTED: the job has
 *		       failed
 *   RINGUP_ENOMEM     out of memory, or 8192 names are in flight in @g: wait for some of
 *		       them
 *
 * A disagreement between ranks (different dtype, count or shape under one name) is
 * found later; ringup_wait() then returns RINGUP_EMISMATCH on every rank, with
 * both sides' values, before any data is touched.
 *
 * Horovod: hvd.allreduce_async(); NCCL: ncclAllReduce(); MPI: MPI_Iallreduce().
 */
RINGUP_API int ringup_allreduce(struct ringup_group *g, const struct ringup_reduce *a,
				struct ringup_op **opp);

/*
 * ringup_allreduce_within - run an allreduce, with a time limit for the call.
 *
 * The blocking form of ringup_allreduce() for callers that must return now and then, such as
 * interpreters, which handle signals.
 *
 * Ownership:  as in ringup_allreduce().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   until completion, or for @timeout_ms milliseconds; negative means
 *	       forever.
 *
 * Returns 0, or what ringup_allreduce() and ringup_wait() do.  With RINGUP_ETIMEDOUT,
 * and only then, *@opp is set: the operation continues.
 *
 * Horovod: hvd.allreduce(); NCCL: ncclAllReduce(); MPI: MPI_Allreduce().
 */
RINGUP_API int ringup_allreduce_within(struct ringup_group *g, const struct ringup_reduce *a,
				       int64_t timeout_ms, struct ringup_op **opp);

/*
 * ringup_broadcast - copy a tensor from one rank of a group to all others.
 *
 * Starts the copy described by @b and returns immediately.
 *
 * Ownership:  as in ringup_allreduce().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allreduce(); RINGUP_EINVAL also if root is not a rank.
 *
 * Horovod: hvd.broadcast_async(); NCCL: ncclBroadcast(); MPI: MPI_Ibcast().
 */
RINGUP_API int ringup_broadcast(struct ringup_group *g, const struct ringup_bcast *b,
				struct ringup_op **opp);

/*
 * ringup_allgather - gather the blocks of all ranks on every rank.
 *
 * Starts the allgather described by @a and returns immediately.
 *
 * Ownership:  as in ringup_allreduce(), with into as out; *out and counts are written before
 *	       ringup_wait() returns 0, and *out then belongs to the caller, which passes it to
 *	       ringup_free() unless it is into.  On failure *out and counts are undefined, and
 *	       must not be freed.
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allreduce().
 *
 * Horovod: hvd.allgather_async(); NCCL: ncclAllGather(); MPI: MPI_Iallgatherv().
 */
RINGUP_API int ringup_allgather(struct ringup_group *g, const struct ringup_gather *a,
				struct ringup_op **opp);

/*
 * ringup_alltoall - send rows to every rank, and receive rows from every rank.
 *
 * Ownership:  as in ringup_allgather().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allreduce(); RINGUP_EINVAL also if in and into overlap.
 *
 * Horovod: hvd.alltoall_async(); MPI: MPI_Ialltoallv().
 */
RINGUP_API int ringup_alltoall(struct ringup_group *g, const struct ringup_exchange *a,
			       struct ringup_op **opp);

/*
 * ringup_reduce_to - reduce a tensor over all ranks of a group, to one of them.
 *
 * As ringup_allreduce(), but out is written on rank @root only; other ranks' out is ignored.
 *
 * Ownership:  as in ringup_allreduce().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allreduce(); RINGUP_EINVAL also if root is not a rank.  Ranks that pass
 * different roots get RINGUP_EMISMATCH from ringup_wait().
 *
 * torch: dist.reduce(); NCCL: ncclReduce(); MPI: MPI_Ireduce().
 */
RINGUP_API int ringup_reduce_to(struct ringup_group *g, const struct ringup_reduce *a, int root,
				struct ringup_op **opp);

/*
 * ringup_gather_to - gather the blocks of all ranks on one rank.
 *
 * As ringup_allgather(), but only rank @root gets out and counts; out, counts and into of other
 * ranks are ignored.
 *
 * Ownership:  as in ringup_allgather().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allgather(); RINGUP_EINVAL also if root is not a rank, or in and into
 * overlap.  Ranks that pass different roots get RINGUP_EMISMATCH from ringup_wait().
 *
 * torch: dist.gather(); MPI: MPI_Igatherv().
 */
RINGUP_API int ringup_gather_to(struct ringup_group *g, const struct ringup_gather *a, int root,
				struct ringup_op **opp);

/*
 * ringup_scatter_from - scatter the rows of one rank over all ranks.
 *
 * As ringup_alltoall(), but only rank @root has rows: in, rows and splits of other ranks are
 * ignored.  root's splits are the numbers of rows that each rank gets; counts[root] is set to
 * this rank's number of rows, and all other entries to 0.
 *
 * Ownership:  as in ringup_alltoall().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_alltoall(); RINGUP_EINVAL also if root is not a rank.  Ranks that pass
 * different roots get RINGUP_EMISMATCH from ringup_wait().
 *
 * torch: dist.scatter(); MPI: MPI_Iscatterv().
 */
RINGUP_API int ringup_scatter_from(struct ringup_group *g, const struct ringup_exchange *a,
				   int root, struct ringup_op **opp);

/*
 * ringup_reducescatter - reduce a tensor over all ranks, and give each rank a part.
 *
 * Ownership:  as in ringup_allreduce().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allreduce(); RINGUP_EINVAL also if redop is RINGUP_ADASUM, or if out
 * overlaps in other than as struct ringup_scatter allows.
 *
 * Horovod: hvd.reducescatter_async(); NCCL: ncclReduceScatter();
 * MPI: MPI_Ireduce_scatter().
 */
RINGUP_API int ringup_reducescatter(struct ringup_group *g, const struct ringup_scatter *a,
				    struct ringup_op **opp);

/*
 * ringup_allreduce_many - reduce several tensors, all of them or none.
 *
 * @a describes @count tensors as for ringup_allreduce(), each with its own dtype, shape, redop
 * and scale.  The name of the first is the name of all; the other names are ignored.  No
 * reduction starts before all ranks have submitted all tensors, no other operation runs in
 * between, and all complete together, with one handle.  Tensors of the same dtype, redop and
 * scale run as their concatenation.
 *
 * If ranks disagree about a tensor, no data change, and ringup_error() names it, counted
 * from 0: "grads[2]: rank 0 wants an allreduce (sum) of 3 f32, rank 1 an allgather of rows of
 * 4 f32".  If one fails later, all fail, and their outs are undefined.
 *
 * Ownership:  @a is copied; the memory that it points to is treated as in
 *	       ringup_allreduce().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allreduce(); RINGUP_EINVAL also if @count is not positive.
 *
 * Horovod: hvd.grouped_allreduce_async(); NCCL: ncclGroupStart().
 */
RINGUP_API int ringup_allreduce_many(struct ringup_group *g, const struct ringup_reduce *a,
				     int count, struct ringup_op **opp);

/*
 * ringup_allgather_many - gather several tensors, all of them or none.
 *
 * As ringup_allreduce_many(): @a describes @count of them as for ringup_allgather(), each with
 * its own rows, row, dtype and shape.
 *
 * Ownership:  as in ringup_allgather() for each: all outs are set, or none is.
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allgather(); RINGUP_EINVAL also if @count is not positive.
 *
 * Horovod: hvd.grouped_allgather_async().
 */
RINGUP_API int ringup_allgather_many(struct ringup_group *g, const struct ringup_gather *a,
				     int count, struct ringup_op **opp);

/*
 * ringup_reducescatter_many - reduce several tensors, and give each rank a part of each, or
 * of none.
 *
 * As ringup_allreduce_many(): @a describes @count of them as for ringup_reducescatter(), each
 * with its own rows, row, dtype, shape, redop and scale.
 *
 * Ownership:  as in ringup_reducescatter() for each.
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_reducescatter(); RINGUP_EINVAL also if @count is not positive.
 *
 * Horovod: hvd.grouped_reducescatter_async().
 */
RINGUP_API int ringup_reducescatter_many(struct ringup_group *g, const struct ringup_scatter *a,
					 int count, struct ringup_op **opp);

/*
 * ringup_send - send elements to one rank of a group, which receives them with ringup_recv().
 *
 * Messages are independent of collectives: either may be started while the other waits, and
 * sends and receives in flight do not wait for each other.  Two ranks of different hosts
 * connect when one first sends to the other, or waits for it; the first ranks of the hosts
 * between them pass the request on, so they must not have left.
 *
 * Messages between two ranks in one group with one tag arrive in the order in which they were
 * sent; messages with other tags may overtake them.
 *
 * A send of up to 64 KiB completes as soon as the library has the data, even if the other rank
 * never receives them, unless 1 MiB from this rank is already waiting there.  So two ranks may
 * both send first and receive afterwards.  A larger send, or one beyond that limit, completes
 * when the other rank has received it; two ranks that exchange so much data must start one of
 * the operations, run the other, and then wait for the first.
 *
 * Ownership:  *@a is copied.  The caller keeps in alive and does not touch it until
 *	       ringup_wait() has returned.  *@opp as in ringup_allreduce().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns 0 and sets *@opp; or leaves *@opp untouched and returns
 *   RINGUP_EINVAL     to is not a rank of the group, this rank is not in it, dtype is not one
 *		       of the enumerated values, or in is NULL though count is not 0
 *   RINGUP_EBUSY      this rank has joined
 *   RINGUP_ESHUTDOWN  the other rank has left
 *   RINGUP_EPEER      a rank has died; RINGUP_EABORTED: one has ended the job
 *   RINGUP_ENOMEM     out of memory
 *
 * If the matching receive has another count or dtype, ringup_wait() returns RINGUP_EMISMATCH
 * with the values of both sides, unless the send had already completed.
 *
 * torch: dist.isend(); NCCL: ncclSend(); MPI: MPI_Isend().
 */
RINGUP_API int ringup_send(struct ringup_group *g, const struct ringup_send *a,
			   struct ringup_op **opp);

/*
 * ringup_recv - receive elements that one rank of a group sends with ringup_send().
 *
 * Takes the oldest message of that rank with that tag; with RINGUP_ANY_SOURCE the message with
 * that tag that arrived first, and sets source to its sender.  Messages that a rank sent before
 * it left can still be received; a rank that leaves does not affect messages of other ranks.
 *
 * Ownership:  *@a is copied.  out and *source belong to the operation until ringup_wait() has
 *	       returned, and are undefined if that was not 0.  *@opp as in ringup_allreduce().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_send().  With RINGUP_EMISMATCH the message is lost.
 *
 * torch: dist.irecv(); NCCL: ncclRecv(); MPI: MPI_Irecv().
 */
RINGUP_API int ringup_recv(struct ringup_group *g, const struct ringup_recv *a,
			   struct ringup_op **opp);

/*
 * ringup_join - declare that this rank has no more data; take part without data until all
 * ranks have joined.
 *
 * Until the join completes, this rank adds zeros to other ranks' sums (averages are still
 * divided by the size of the group), contributes the neutral element to minima, maxima and
 * products, contributes no rows, and drops the rows that it receives.  Only these operations
 * fail, on all ranks: a broadcast or scatter from this rank, integer products with a pre of
 * magnitude 2 or more (no integer then gives 1), floating-point products whose factor has no
 * inverse in their type, and sums whose factor is infinite in their type.  With join_sums of
 * struct ringup_init, or RINGUP_JOIN=sums, every operation except an allreduce or a barrier
 * fails on all ranks.  After such an error, later operations work.  If @last is not NULL,
 * *@last is set to the rank that joined last; between hosts, if several ranks joined after the
 * same operation, to one of them.
 *
 * Operations that this rank started earlier complete even if other ranks have joined.  Until
 * the join completes, this rank cannot start other operations.
 *
 * Ownership:  *@last belongs to the operation until ringup_wait().
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allreduce().
 *
 * Horovod: hvd.join().
 */
RINGUP_API int ringup_join(struct ringup_group *g, int *last, struct ringup_op **opp);

/*
 * ringup_barrier - complete when every rank of a group has started it.
 *
 * Ownership:  *@opp belongs to the caller until ringup_wait(); @name may be
 *	       NULL, see struct ringup_reduce.
 * Threads:    callable from any thread, also concurrently.
 * Blocking:   as ringup_allreduce().
 *
 * Returns as ringup_allreduce().
 *
 * Horovod: hvd.barrier(); MPI: MPI_Ibarrier().
 */
RINGUP_API int ringup_barrier(struct ringup_group *g, const char *name, struct ringup_op **opp);

/*
 * ringup_poll - has an operation completed?
 *
 * Ownership:  @op stays the caller's; a completed one still needs
 *	       ringup_wait(), which then returns immediately.
 * Threads:    any.
 * Blocking:   never.
 *
 * Returns 1 if it has, with success or not, else 0.
 */
RINGUP_API int ringup_poll(struct ringup_op *op);

/*
 * ringup_wait - block until an operation has completed, then free it.
 *
 * The waiting thread runs the operation itself if possible.
 *
 * Ownership:  frees @op, unless RINGUP_ETIMEDOUT is returned.
 * Threads:    any thread; one waiter per operation.
 * Blocking:   until completion, or for @timeout_ms milliseconds; negative
 *	       means forever.
 *
 * Returns 0; or
 *   RINGUP_EMISMATCH  the ranks disagree; nothing was touched and the next
 *		       operation works
 *   RINGUP_EPEER      a rank died; ringup_error() names it and the operation
 *   RINGUP_ESHUTDOWN  a rank left; RINGUP_EABORTED: a rank aborted the job, or an
 *		       operation has stalled for longer than RINGUP_STALL_ABORT_MS
 *   RINGUP_ENOMEM     a rank had no memory for the result, or in RINGUP_CUDA too small an
 *		       into.  From 4 MiB on, and in RINGUP_CUDA, every rank fails; below,
 *		       only that rank, and the others have their results.  ringup_error()
 *		       names it, and the next operation works
 *   RINGUP_EDEADLOCK  all ranks have waited for each other for RINGUP_DEADLOCK_MS: each
 *		       thread that ever started an operation, without a deadline
 *   RINGUP_ETIMEDOUT  not completed yet; @op is still in flight
 *
 * After RINGUP_ETIMEDOUT call ringup_explain() to learn which ranks have not started it.
 */
RINGUP_API int ringup_wait(struct ringup_op *op, int64_t timeout_ms);

/*
 * ringup_wait_on - one slice of a wait without a deadline.
 *
 * For a caller that waits as long as necessary, but must check for signals now and then.  After
 * RINGUP_ETIMEDOUT it calls again within 5 s.  All these slices count as one wait without a
 * deadline, so that the job can end with RINGUP_EDEADLOCK.
 *
 * Ownership:  as ringup_wait().
 * Threads:    as ringup_wait().
 * Blocking:   until completion, or for @slice_ms milliseconds.
 *
 * Returns what ringup_wait() does.
 */
RINGUP_API int ringup_wait_on(struct ringup_op *op, int64_t slice_ms);

/*
 * ringup_result_stream - choose the stream that sees the result of an operation.
 *
 * For data in RINGUP_CUDA whose result is used on another stream than the one that wrote them.
 * Call it before ringup_wait(): what is queued on @stream after that sees the result, and the
 * request's own stream does not wait for it.  Without data in RINGUP_CUDA, or if the request
 * has no stream, it has no effect.
 *
 * Ownership:  @op and @stream stay the caller's.
 * Threads:    the one that will wait for @op, before it does.
 * Blocking:   never.
 *
 * Returns 0, or RINGUP_EINVAL: @op or @stream is NULL.
 */
RINGUP_API int ringup_result_stream(struct ringup_op *op, void *stream);

/*
 * ringup_then - call a function when an operation is complete.
 *
 * @fn is called once, with @ctx and the result of ringup_wait(), and ringup_error() then says
 * why it failed; it is also called if the operation was complete before.  It runs in a thread
 * of the library for callbacks only, so it may start operations and wait for them: meanwhile
 * other callbacks run in other threads, at most 64 at a time.  If the data are in RINGUP_CUDA,
 * what @fn queues on the request's stream sees the result, and so does what it queues on the
 * stream that ringup_result_stream() has chosen before ringup_then().
 *
 * Ownership:  @op stays the caller's and still needs ringup_wait(), which may come before,
 *	       while or after @fn runs, also in it.  @ctx is the caller's until @fn returns.
 * Threads:    any, before the operation has been waited for.
 * Blocking:   never.  ringup_fini() makes the calls that are left (RINGUP_ESHUTDOWN), and
 *	       returns when all have returned: so @fn must not call it.
 *
 * Returns 0; or RINGUP_EBUSY if the operation already has a callback, RINGUP_EINVAL for NULL,
 * RINGUP_ESHUTDOWN in a child of fork(), RINGUP_ENOMEM or RINGUP_ESYSTEM if there is no memory
 * or thread: @fn is not called then.
 *
 * torch: Work.get_future().then().
 */
RINGUP_API int ringup_then(struct ringup_op *op, void (*fn)(void *ctx, int status), void *ctx);

/* For ringup_timeline_start(). */
#define RINGUP_TIMELINE_CYCLES 1 /* also mark where batches begin      */
#define RINGUP_TIMELINE_ALL    2 /* every rank that calls writes a file */

/*
 * ringup_timeline_start - record all operations in a file, from now on.
 *
 * The file is a Chrome trace with Horovod's events, for chrome://tracing and Perfetto, and is
 * valid JSON at any time.  Only rank 0 writes one, and the call does nothing on other ranks;
 * with RINGUP_TIMELINE_ALL in @flags every calling rank writes one, to @path with "." and its
 * rank appended, or with its rank in place of "%r".  "%r" in @path implies that flag.
 * `ringup timeline merge` makes one file of them.
 *
 * If this file is being written already, recording goes on, with RINGUP_TIMELINE_CYCLES as now
 * given in @flags; a recording to another file is ended first.  If another job of this process
 * writes it, both do, and the names of the later one's events end with "(job 2)", or with its
 * part of struct ringup_init.
 *
 * Ownership:  @path is copied; it is relative to the current directory of the process.
 * Threads:    any, also while other threads start operations.
 * Blocking:   until the file has been begun, and the previous one written.
 *
 * Returns 0; RINGUP_ESYSTEM if the file cannot be written, RINGUP_EINVAL for an invalid path or
 * invalid flags, RINGUP_ESHUTDOWN in a child of fork(), RINGUP_ENOMEM: an earlier recording
 * goes on then, unless no thread could be started to write.  A later failure, such as a full
 * disk, is logged once and ends the recording, never the job.
 *
 * Horovod: hvd.start_timeline(); the setting RINGUP_TIMELINE does it in ringup_init().
 */
RINGUP_API int ringup_timeline_start(struct ringup *r, const char *path, int flags);

/*
 * ringup_timeline_stop - end the recording; does nothing if there is none.
 *
 * ringup_fini() does so, too.
 *
 * Ownership:  the file is the caller's.
 * Threads:    any, also while other threads start operations.
 * Blocking:   until all earlier events are in the file.
 *
 * Returns 0; or RINGUP_ESHUTDOWN in a child of fork().
 *
 * Horovod: hvd.stop_timeline().
 */
RINGUP_API int ringup_timeline_stop(struct ringup *r);

/*
 * The times at which an operation of this rank reached its trace points, in nanoseconds since
 * 1970; 0: not reached, or no longer known.  Later versions add fields at the end; see
 * ringup_points_get().
 */
struct ringup_points {
	int64_t submitted; /* this rank has started it                          */
	int64_t ready;     /* all ranks of the group have, or both of a message */
	int64_t begun;     /* its data begin to move                            */
	int64_t complete;  /* it is complete                                    */
	int failed;        /* 1: with a failure                                 */
};

/*
 * ringup_points_keep - remember the trace points of operations from now on, for a flight
 * recorder.
 *
 * Operations are numbered in the order in which this rank starts them, and *@countp is set to
 * the address of the number of the latest.  At least the latest 4096 are remembered; while a
 * timeline is written, as many as it has room for.
 *
 * Ownership:  **@countp is the library's, which changes it atomically, until ringup_fini().
 * Threads:    any, also while other threads start operations.
 * Blocking:   as ringup_timeline_start().
 *
 * Returns 0; RINGUP_EINVAL for NULL, RINGUP_ESHUTDOWN in a child of fork(), RINGUP_ENOMEM.
 */
RINGUP_API int ringup_points_keep(struct ringup *r, const uint64_t **countp);

/*
 * ringup_points_get - the points of the operations @first to @first + @count - 1.
 *
 * @each is sizeof(struct ringup_points), as the program was compiled.  The library writes the
 * fields that both know, and 0 to the rest of each entry.
 *
 * Ownership:  @out is the caller's and has @count entries, all of which are written.
 * Threads:    any, also while other threads start operations.
 * Blocking:   as ringup_timeline_start().
 *
 * Returns 0; RINGUP_EINVAL for NULL, a @first of 0, an @each that no version has, or a @count
 * beyond 2^32 - 1; RINGUP_ESHUTDOWN in a child of fork(), RINGUP_ENOMEM.
 */
RINGUP_API int ringup_points_get(struct ringup *r, uint64_t first, uint64_t count,
				 struct ringup_points *out, size_t each);

/*
 * ringup_alloc - memory that the other ranks of this host can access.
 *
 * An allreduce whose in and out lie in such memory on all ranks of a host copies nothing within
 * it; all other functions treat it like any other memory.  Other ranks need not allocate it,
 * and it may be allocated before ringup_init() and after ringup_fini().  It is zeroed, and
 * aligned to 64 bytes; as with malloc(), pages come when they are first touched.
 *
 * A child of fork() sees the same memory, not a copy of it.  When an operation has failed,
 * another rank may still write to its out for a moment.
 *
 * Ownership:  the caller's, until ringup_free(); no operation may be using it then.
 * Threads:    any.
 * Blocking:   never.
 *
 * Returns NULL if there is no memory.
 */
RINGUP_EXPORT void *ringup_alloc(size_t bytes);

/* ringup_free - free memory of ringup_alloc(), or an *out that the library has allocated; NULL
 * is harmless. */
RINGUP_EXPORT void ringup_free(void *p);

#ifdef __cplusplus
}
#endif
#endif
