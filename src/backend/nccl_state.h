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
#include "base/err.h"
#include "device/gpu.h"

enum { NCCL_FLIGHTS = 64, NCCL_NAME = 64 };

/* What is queued on the GPU and has not been seen to end. */
struct nccl_flight {
	void *event; /* behind it */
	int64_t since_ns;
	enum plan_kind kind;
	char name[NCCL_NAME];
};

/* What the plan in flight does next. */
enum nccl_stage {
	STAGE_CONNECT, /* the ranks' communicator is being made   */
	STAGE_QUEUE,   /* to queue it                             */
	STAGE_LAUNCH,  /* NCCL is queueing it                     */
	STAGE_FINISH,  /* to queue what comes after NCCL          */
	STAGE_HOLD,    /* to have the streams wait for it         */
	STAGE_RUN,     /* a piece has no stream: until it has run */
};

struct nccl {
	/* From open() on; the topology may be gone before close(). */
	const struct nccl_lib *lib;
	const uint32_t *alarm, *left; /* left: see struct segment_head; or NULL */
	int rank, size, local_rank, start_ms, device_ms;
	struct nccl_id id;
	char group[40]; /* its name in NCCL's tools */
	struct nccl *next;
	bool listed;

	int device; /* this rank's GPU, by the first operation; -1: not known yet; atomic */

	struct gpu *gpu; /* NULL: not opened yet; atomic */

	/* The thread that makes progress. */
	nccl_comm comm;
	enum nccl_stage stage;
	bool connected;
	int64_t deadline_ns; /* of the connection        */
	void *event;         /* behind the plan in flight */
	void *room;          /* memory of the GPU for tensors that are combined */
	size_t room_bytes;
	int looks;
	int held; /* pieces whose streams wait already */

	/* The watch thread, too, under the lock. */
	pthread_mutex_t lock;
	bool has_lock, over; /* over: the communicator is not to be asked any more */
	struct nccl_flight flight[NCCL_FLIGHTS];
	unsigned int flown, landed; /* flights so far */
	struct err trouble;         /* an error of NCCL's that may be a rank's; code 0: none */
	int64_t trouble_ns;         /* when it was found */
	struct nccl_end *end;       /* nccl_end.c's */
};

/* nccl_failed - what NCCL says about result @rc of @what: RINGUP_EPEER, if a rank or its
 * network may be the reason. */
int nccl_failed(const struct nccl *n, int rc, const char *what, struct err *e);

/* nccl_move_begin - queues the kernels before NCCL's, and NCCL's, which may still be busy then;
 * nccl_move_end - queues the kernels after NCCL's. */
int nccl_move_begin(struct nccl *n, const struct plan *p, struct err *e);
int nccl_move_end(struct nccl *n, const struct plan *p, struct err *e);

/* nccl_end_list - the communicators of a job end together: @n is one of them.  nccl_end_unlist
 * - it has ended. */
void nccl_end_list(struct nccl *n);
void nccl_end_unlist(struct nccl *n);

/*
 * nccl_end_abort - end the communicators of all groups of this job at once, each in a thread of
 * its own, since one may wait for another's kernels; then wait for that of @n.  If a rank has
 * aborted this group alone, the others' go on.
 *
 * nccl_end_close - end that of @n in agreement with the other ranks, or, late, without.
 *
 * Both return false if NCCL has not come back in time; what it has in use then stays.
 */
bool nccl_end_abort(struct nccl *n);
bool nccl_end_close(struct nccl *n);

#endif
