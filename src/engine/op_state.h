/* op_state.h - an operation in flight: what a request becomes, for all that handle one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_OP_STATE_H
#define ENGINE_OP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/request.h"

struct callback;
struct engine;
struct comm;
struct name_entry;

enum op_state { OP_FLYING, OP_CLAIMED, OP_DONE };

/* What only a send or receive has; see p2p.h, whose lock guards it. */
struct p2p_op {
	bool is_send;
	int peer, tag;          /* as in struct p2p_request                  */
	int source;             /* receive: the rank in the world it matched */
	int *sourcep;           /* receive: as struct p2p_request's source   */
	uint64_t id;            /* of its offer                              */
	uint64_t moved;         /* bytes so far                              */
	uint64_t at;            /* receive: address of the sender's data     */
	struct ringup_op *next; /* in the queue that it is in        */
	uint32_t label;         /* tracepoint.c's: where it goes; 0: in no timeline */
	uint32_t number;        /* tracepoint.c's: its records have it; 0: there are none */
};

/* An operation in flight.  Operations come from a pool and go back to it. */
struct ringup_op {
	struct engine *engine;    /* never another one                                     */
	struct comm *comm;        /* until its group goes: see op_hand_over(); atomic    */
	struct name_entry *entry; /* NULL: it is a send or a receive                       */
	uint32_t state;           /* enum op_state; atomic                        */
	uint32_t id;              /* the tensor's                                 */
	uint32_t round;           /* eager: of that id                            */
	bool eager;               /* atomic; goes to false if a rank has changed its mind */
	bool proxy;               /* of a rank that has joined: nobody waits for it */
	bool asked;               /* all ranks, whether they have room: see plan.c */
	int status;               /* once it is done                              */
	struct request ask;       /* as it was asked; the name is not kept    */
	void *result;             /* being gathered; may be ask.into         */
	void *own;                /* freed with the operation                */
	int64_t since_ns;         /* stall.c: when it was first seen waiting, and told of */
	uint32_t warnings;
	struct ringup_op *members;     /* a bundle's: the first of them; see bundle.h */
	struct ringup_op *bundle;      /* a member's: what it is in; else NULL        */
	struct ringup_op *prev, *next; /* of all in flight, of a bundle, or of the pool */
	struct ringup_op *block_next;  /* first of a block: the next block */
	struct callback *callback;     /* NULL; or what to run at the end, see op.h; atomic */
	struct p2p_op p2p;             /* of a send or receive, which has no tensor */
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
