/* op_state.h - struct ringup_op: an operation in flight, made from a request. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_OP_STATE_H
#define ENGINE_OP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "device/staging.h"
#include "engine/request.h"

struct callback;
struct engine;
struct comm;
struct name_entry;

enum op_state { OP_FLYING, OP_CLAIMED, OP_DONE };

/* The part for a send or receive; the lock of p2p.h guards it. */
struct p2p_op {
	bool is_send;
	int peer, tag;          /* as in struct p2p_request                  */
	int source;             /* receive: the rank in the world it matched */
	int *sourcep;           /* receive: as struct p2p_request's source   */
	uint64_t id;            /* of its offer                              */
	uint64_t moved;         /* bytes so far                              */
	uint64_t at;            /* receive: address of the sender's data     */
	struct ringup_op *next; /* in its queue                              */
	uint32_t label;         /* tracepoint.c's: of its path; 0: in no timeline */
	uint32_t number;        /* tracepoint.c's: in its records; 0: there are none */
};

/* The part for data of a device that go through the host's memory: see stage.h. */
struct op_far {
	const void *in; /* as the caller had them; NULL: not read or written */
	void *out, *into;
	uint64_t into_bytes;
	uint64_t bytes; /* at in, then of the result */
	void *near;     /* in place of in, and of out */
	bool copied;    /* in the direction under way */
	struct staging_copy copy;
};

#define OP_NO_FLIGHT   UINT64_MAX       /* nothing is queued, or it has run        */
#define OP_LOST_FLIGHT (UINT64_MAX - 1) /* its group was removed before it had run */

/* An operation in flight.  Operations come from a pool and go back to it. */
struct ringup_op {
	struct engine *engine;    /* never changes                                         */
	struct comm *comm;        /* changes when its group ends: see op_hand_over(); atomic */
	struct name_entry *entry; /* NULL: it is a send or a receive; goes with its group   */
	uint32_t state;           /* enum op_state; atomic                        */
	uint32_t id;              /* the tensor's                                 */
	uint32_t round;           /* eager: of that id                            */
	bool eager;               /* atomic; false once a rank has declined the round */
	bool proxy;               /* of a joined rank: no thread waits for it     */
	bool asked;               /* ranks have asked each other for room: see plan.c */
	bool mixed;               /* ranks have their data in different kinds of memory */
	struct op_far *far;       /* then: this rank's are on a device; else NULL       */
	int status;               /* once it is done                              */
	uint32_t use;             /* changes when it is given back to its pool; atomic */
	struct request ask;       /* the request, without its name            */
	void *result;             /* being gathered; may be ask.into         */
	void *own;                /* freed with the operation                */
	void *ready;              /* a device's mark, until it is complete; or NULL */
	uint64_t flight;          /* on a device: a stream waits for it in op_hold(); atomic */
	void *stream;             /* that stream, if not the request's; or NULL; atomic */
	int64_t since_ns;         /* stall.c: when a look first found it waiting */
	uint32_t warnings;
	struct ringup_op *members;     /* a bundle's: the first of them; see bundle.h */
	struct ringup_op *bundle;      /* a member's: its bundle; else NULL           */
	struct ringup_op *prev, *next; /* in the list in flight, a bundle, or the pool */
	struct ringup_op *block_next;  /* first of a block: the next block */
	struct callback *callback;     /* to run at the end, see op.h; or NULL; atomic */
	struct p2p_op p2p;             /* for a send or receive, which has no entry */
	struct err why;
};

static inline bool op_is_done(const struct ringup_op *op)
{
	return __atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == OP_DONE;
}

static inline bool op_is_eager(const struct ringup_op *op)
{
	return __atomic_load_n(&op->eager, __ATOMIC_ACQUIRE);
}

#endif
