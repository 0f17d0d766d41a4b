/* tensor.h - the tensors of this rank, by name and by number, and operations on them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_TENSOR_H
#define ENGINE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "engine/want.h"

struct lane;
struct ringup_op;

/* A name that this rank has used. */
struct tensor {
	char *name;
	size_t len;
	uint64_t hash;
	uint32_t id, age;     /* as the agreement calls it; UINT32_MAX: not yet */
	struct want want;     /* of its last operation                         */
	bool known;           /* want is set                                   */
	bool verified;        /* all ranks have wanted the same the last time  */
	bool kept;            /* id is held between operations, too            */
	bool again;           /* and want has gone the short way: see submit_again() */
	struct ringup_op *op; /* in flight, or NULL; atomic                   */
	uint32_t label, told; /* for a timeline: its name there, and which one has its shape */
};

enum op_state { OP_FLYING, OP_CLAIMED, OP_DONE };

/* What a caller asks for. */
struct request {
	const char *name; /* NULL: by order */
	size_t name_len;  /* 0: it ends with a NUL */
	struct want want;
	const void *in;
	void *out;
	uint64_t rows;                  /* allgather, join */
	void **outp;                    /* allgather, all-to-all */
	void *into;                     /* the same: the caller's memory for the result ... */
	uint64_t into_bytes;            /* if it fits */
	uint64_t *counts;               /* allgather, all-to-all: rows of, or from, each rank */
	const uint64_t *splits;         /* all-to-all: rows for each rank; copied */
	const struct request *members;  /* a bundle's: want.members of them; copied */
	const struct ringup_op *copies; /* the same, once they have been copied */
	int *last;                      /* join: the rank that was the last to */
};

/* tensor_ask - a request: nothing but a name, and where data are and go; the want is not set.
 */
static inline void tensor_ask(struct request *q, const char *name, const void *in, void *out)
{
	q->name = name;
	q->name_len = 0;
	q->in = in;
	q->out = out;
	q->rows = 0;
	q->outp = NULL;
	q->into = NULL;
	q->into_bytes = 0;
	q->counts = NULL;
	q->splits = NULL;
	q->members = NULL;
	q->copies = NULL;
	q->last = NULL;
}

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
};

/* An operation in flight.  Operations come from a pool and go back to it. */
struct ringup_op {
	struct engine *engine; /* never another one                                     */
	struct lane *lane;     /* until its group goes: see lane_hand_over(); atomic    */
	struct tensor *tensor; /* NULL: it is a send or a receive                       */
	uint32_t state;        /* enum op_state; atomic                        */
	uint32_t id;           /* the tensor's                                 */
	uint32_t round;        /* eager: of that id                            */
	bool eager;            /* atomic; goes to false if a rank has changed its mind */
	bool ghost;            /* of a rank that has joined: nobody waits for it */
	bool asked;            /* all ranks, whether they have room: see plan.c */
	int status;            /* once it is done                              */
	struct request ask;    /* as it was asked; the name is not kept    */
	void *result;          /* being gathered; may be ask.into         */
	void *own;             /* freed with the operation                */
	int64_t since_ns;      /* stall.c: when it was first seen waiting, and told of */
	uint32_t warnings;
	struct ringup_op *members;     /* a bundle's: the first of them; see bundle.h */
	struct ringup_op *bundle;      /* a member's: what it is in; else NULL        */
	struct ringup_op *prev, *next; /* of all in flight, of a bundle, or of the pool */
	struct ringup_op *block_next;  /* first of a block: the next block */
	struct callback *callback;     /* NULL; or what to run at the end, see op.h; atomic */
	struct p2p_op p2p;             /* of a send or receive, which has no tensor */
	struct err why;
};

enum {
	TENSORS_RECENT = 64,
	TENSORS_UNNAMED = 1024, /* without a name: as many may be in flight at once */
};

struct tensors {
	struct tensor **table; /* open addressing by name */
	size_t table_size, count;
	struct tensor **by_id;
	uint32_t ids;
	/* Who calls again mostly has the name at the same place: so it is found by that. */
	struct tensor *recent[TENSORS_RECENT];
	/* The same of one without a name: by its turn. */
	struct tensor *unnamed[TENSORS_UNNAMED];
};

/* tensors_recent - where to look for it: neighbouring addresses lie apart. */
static inline size_t tensors_recent(const char *name)
{
	return (uintptr_t)name * 0x9e3779b97f4a7c15u >> 32 & (TENSORS_RECENT - 1);
}

/* tensors_get - the tensor called @name; made, with id UINT32_MAX, if it is new.
 * NULL if there is no memory. */
struct tensor *tensors_get(struct tensors *t, const char *name, size_t len);

/* tensors_unnamed - the same for the @turn-th without a name. */
struct tensor *tensors_unnamed(struct tensors *t, uint64_t turn);

/* tensors_again - the same for a name that ends with a NUL, if it has been asked for at
 * this address lately; else NULL. */
static inline struct tensor *tensors_again(const struct tensors *t, const char *name)
{
	struct tensor *x = t->recent[tensors_recent(name)];

	/* Other names begin with a NUL. */
	return x && *name && !strcmp(x->name, name) ? x : NULL;
}

/* tensors_number - let @x, and no longer what had this number before, be found by
 * @id.  The latter is forgotten altogether: its name has no number any more. */
int tensors_number(struct tensors *t, struct tensor *x, uint32_t id);

/* tensors_by_id - NULL if there is none. */
struct tensor *tensors_by_id(const struct tensors *t, uint32_t id);

void tensors_free(struct tensors *t);

#endif
