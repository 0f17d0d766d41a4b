/* nccl_state.h - the state of the back end nccl, which its files share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_NCCL_STATE_H
#define BACKEND_NCCL_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/nccl_lib.h"
#include "base/clock.h"
#include "base/err.h"
#include "device/gpu.h"

enum { NCCL_FLIGHTS = 64, NCCL_NAME = 64 };

/* Bytes of the reason why a rank cannot use NCCL, which it sends to the other ranks. */
enum { NCCL_WHY = 216 };

/* What is queued on the GPU and has not been seen to end. */
struct nccl_flight {
	void *begun; /* an event in front of it, if it waits for other streams; or NULL */
	void *event; /* behind it */
	int64_t since_ns;
	enum plan_kind kind;
	char name[NCCL_NAME];
};

struct nccl;

/* Where a part of a plan begins: at an element of a piece. */
struct nccl_place {
	int piece;
	uint64_t at;
};

/* What the job's thread does for a group: carry out its plan, end its communicator, and look at
 * what it has in the air: is there something? */
struct nccl_work {
	int (*carry_out)(struct nccl *n, struct err *e);
	void (*end)(struct nccl *n);
	bool (*look)(struct nccl *n);
};

/* A task of the job's thread for one group. */
enum nccl_task {
	NCCL_IDLE,
	NCCL_POSTED,  /* waits for the thread             */
	NCCL_AT_WORK, /* the thread has it                */
	NCCL_DONE,    /* its result is in failed          */
};

/*
 * One group.  NCCL allows one thread at a time in a communicator, and before 2.27 keeps what is
 * under way in that thread's memory.  So the job's thread (nccl_thread.c) makes all calls of
 * NCCL but ncclCommAbort(), and queues what is on the GPU: no other thread of this library
 * waits for the driver or for NCCL.
 */
struct nccl {
	/* From open() on; the topology may be gone before close(). */
	const struct nccl_lib *lib;
	const uint32_t *alarm;
	int rank, size, start_ms, device_ms;
	int place; /* among the ranks of the host, in the world */
	struct nccl_id id;
	char group[40]; /* its name in NCCL's tools, which keep the pointer */
	struct nccl_thread *thread;
	const struct nccl_work *work;
	/* Under the thread's lock: the next group of the job, and of the tasks that are posted.
	 */
	struct nccl *next, *waits;
	unsigned int looked; /* the round of looks that it was in */

	int device; /* this rank's GPU, by the first operation; -1: not known yet; atomic */

	/* The task: under the lock, but for what its thread has while it is at work. */
	enum nccl_task task;
	const struct plan *plan; /* NULL: to end the communicator */
	struct err failed;       /* code 0: it is done            */
	uint64_t flown_by;       /* the number of the plan's flight, when it is done */
	bool lands;              /* a piece has no stream: done when it has run      */
	int64_t since_ns;

	struct gpu *gpu; /* NULL: not opened yet; atomic */

	/* The job's thread. */
	nccl_comm comm;    /* NULL: there is none yet, or its end has begun; atomic */
	int64_t inside_ns; /* when the thread entered NCCL for it; 0: it is not there; atomic */
	bool grouped;      /* its calls are in a group of NCCL's */
	bool connected;    /* atomic */
	void *room;        /* memory of the GPU, for tensors that are combined */
	struct nccl_place place_now, place_next; /* nccl_move.c's */

	pthread_mutex_t lock; /* held for moments, never across a call of NCCL or the driver */
	bool over; /* atomic: the communicator ends, so the job's thread stops at once */
	struct nccl_flight flight[NCCL_FLIGHTS];
	uint64_t flown, landed; /* flights so far; atomic */
	struct err trouble;     /* an error of NCCL's that may be a rank's; code 0: none */
	int64_t trouble_ns;     /* when it was found                                   */
	uint64_t said;          /* nccl_move.c's: of NCCL's last message, before the task */
	struct err verdict;     /* what the watch thread is to say; code 0: nothing    */

	pthread_mutex_t holds; /* flights do not land while a stream is told to wait for one */

	bool ended, late; /* nccl_end.c's, under the lock */
};

/* nccl_failed - what NCCL says about result @rc of @what: RINGUP_EPEER, if a rank or its
 * network may be the reason.  nccl_forget - what NCCL has said before is of no interest. */
void nccl_forget(struct nccl *n);
int nccl_failed(const struct nccl *n, int rc, const char *what, struct err *e);

/* nccl_fail_over - the end of @n has begun. */
int nccl_fail_over(const struct nccl *n, struct err *e);

/* nccl_is_over - has the end begun?  The job's thread asks wherever it waits. */
static inline bool nccl_is_over(const struct nccl *n)
{
	return __atomic_load_n(&n->over, __ATOMIC_ACQUIRE);
}

static inline nccl_comm nccl_comm_of(const struct nccl *n)
{
	return __atomic_load_n(&n->comm, __ATOMIC_ACQUIRE);
}

/* nccl_enter - before the job's thread calls NCCL for @n: false if @n is over, because its
 * communicator may then be gone.  nccl_leave - after the call. */
static inline void nccl_leave(struct nccl *n)
{
	__atomic_store_n(&n->inside_ns, 0, __ATOMIC_SEQ_CST);
}

static inline bool nccl_enter(struct nccl *n)
{
	__atomic_store_n(&n->inside_ns, clock_ns(), __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&n->over, __ATOMIC_SEQ_CST))
		return true;
	nccl_leave(n);
	return false;
}

/* ---- nccl_move.c, by the job's thread, which visits the GPU ---- */

/*
 * nccl_move_room - takes the GPU's memory in which tensors are combined.
 *
 * Tensors that do not fit there together are reduced in parts, the same on all ranks.  So an
 * allreduce needs no more, but on a rank that has joined: it cannot fail on one rank while
 * others wait for it.
 *
 * nccl_move_begin - queues the kernels before NCCL's, and NCCL's, which may still be busy then;
 * nccl_move_end - queues the kernels after NCCL's: 1 if another part comes, and @p is to begin
 * again.  nccl_move_first - @p is at its first part.
 */
int nccl_move_room(struct nccl *n, struct err *e);
void nccl_move_first(struct nccl *n);
int nccl_move_begin(struct nccl *n, const struct plan *p, struct err *e);
int nccl_move_end(struct nccl *n, const struct plan *p, struct err *e);

/* ---- nccl_queue.c, by the job's thread ---- */

/* nccl_queue - carry out the plan of @n: when it returns, all of it is queued on the GPU.
 * nccl_settled - what NCCL was asked last: 0 when it is done, or an error. */
int nccl_queue(struct nccl *n, struct err *e);
int nccl_settled(struct nccl *n, int64_t deadline_ns, const char *what, struct err *e);

/* nccl_fail_apart - NCCL has not connected the ranks in time. */
int nccl_fail_apart(const struct nccl *n, struct err *e);

/* nccl_use_gpu - the GPU @device of this rank, which the first thread that needs it opens. */
int nccl_use_gpu(struct nccl *n, int device, struct gpu **gp, struct err *e);

/* nccl_look - look at what is in the air: does some of it still fly?  Sets trouble and verdict.
 */
bool nccl_look(struct nccl *n);

/* nccl_note_trouble - NCCL reports an error that a rank's death may explain: see VERDICT_MS.
 * nccl_is_in_trouble - has it, or has something else failed?  Any thread. */
void nccl_note_trouble(struct nccl *n, const struct err *e);
bool nccl_is_in_trouble(struct nccl *n);

/* ---- nccl_thread.c ---- */

/* nccl_thread_join - @n becomes a group of its job's thread, which the first one starts;
 * @local_rank is its place on its host, among the ranks of the group;
 * nccl_thread_leave - the last one ends it; false if the thread does not come back from @n. */
int nccl_thread_join(struct nccl *n, const struct nccl_work *work, int local_rank,
		     struct err *e);
bool nccl_thread_leave(struct nccl *n);

/* nccl_thread_post - gives the thread a task: @p, or to end @n if that is NULL.
 * nccl_thread_task - how far the thread is with it.
 * nccl_thread_visit - calls @f for each group of the job of @n. */
void nccl_thread_post(struct nccl *n, const struct plan *p);
enum nccl_task nccl_thread_task(struct nccl *n);
void nccl_thread_visit(struct nccl *n, void (*f)(struct nccl *));

/* nccl_thread_pause - the thread, which works for @n, waits a little for what it has waited for
 * since @since_ns; meanwhile it looks at what is in the air. */
void nccl_thread_pause(struct nccl *n, int64_t since_ns);

/* nccl_thread_is_at - does the thread look at @n, or work for it? */
bool nccl_thread_is_at(const struct nccl *n);

/* nccl_thread_device - the GPU of another group of the job; -1: none has one yet. */
int nccl_thread_device(const struct nccl *n);

/* nccl_thread_rest - the thread is, or is no longer, in a call that may take long. */
void nccl_thread_rest(struct nccl *n, bool rests);

/* nccl_thread_late - for how long, in ms, the thread has been in one call of NCCL or the
 * driver. */
int64_t nccl_thread_late(const struct nccl *n);

/* ---- nccl_end.c ---- */

/*
 * nccl_end_abort - end the communicators of all groups of this job at once, each in a thread of
 * its own, since one may wait for another's kernels; then wait for that of @n.  Without an
 * alarm of the job, end that of @n alone.
 *
 * nccl_end_close - end that of @n in agreement with the other ranks, or, late, without.
 * nccl_end_agreed - the job's thread's part of it.
 *
 * Both return false if NCCL has not come back in time; what it has in use then stays.
 * nccl_end_stuck - has that happened in this process?
 */
bool nccl_end_abort(struct nccl *n);
bool nccl_end_close(struct nccl *n);
void nccl_end_agreed(struct nccl *n);
bool nccl_end_stuck(void);

#endif
