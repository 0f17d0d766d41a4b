/* comm.h - what a group of ranks has of its own: names, agreement, back end, operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_COMM_H
#define ENGINE_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/lock.h"
#include "engine/heartbeat.h"
#include "engine/ledger.h"
#include "engine/name_table.h"
#include "wire/waitset.h"

struct agree;
struct engine;
struct stall_seen;

enum { COMM_KEPT = 256, COMM_BACKENDS = 4 };

/* A back end that serves a communicator, and its own memory. */
struct provider {
	const struct backend *is;
	void *self;
	uint64_t begun; /* plans so far, on all ranks alike             */
	uint32_t label; /* tracepoint.c's: its name's; 0: none yet; atomic */
};

/*
 * A plan, and the operations that it completes.  While @by is set it is in flight; a plan whose
 * slot is taken is made, and waits for that.
 */
struct run {
	struct provider *by;
	bool started;
	struct plan plan;
	struct piece pieces[BATCH_ITEMS];
	struct ringup_op *ops[BATCH_ITEMS + 1]; /* a bundle is last */
	int op_count;
	const char *bad;     /* the ranks disagree about it: in what way  */
	uint64_t *counts;    /* size entries                              */
	uint64_t *lack;      /* so many: which ranks have no room for a result */
	uint64_t *numbers;   /* what ranks have told each other: see plan_tell() */
	size_t number_count; /* there is room for                         */
	void *spare;         /* in place of a small result without memory; or NULL */
};

/* How small operations travel, if they do so without a plan. */
enum comm_small {
	SMALL_NONE,
	SMALL_EAGER,  /* in eager slots, between the ranks of one host: see eager.h         */
	SMALL_INLINE, /* with what hosts announce to each other: see inline.h */
};

/*
 * A communicator is all that a group of ranks has of its own: which ranks, the memory and
 * the connections they share, an order of operations, and back ends that carry
 * plans out, in this order or, if they have several slots, several at a time.  A rank is in as
 * many communicators as it is in groups; its engine drives them all, so that no two groups can
 * wait for each other.
 *
 * submit ---> agreement ---> batch ---> plans ---> back end ---> complete
 *  (any thread, lock)         (holder of the baton, no lock)
 *
 * Eager operations need none of this: see ledger.h.
 */
struct comm {
	/* Set before execute_open(), by whoever brought the ranks together. */
	struct engine *engine;
	struct topo topo;
	struct waitset *waitset; /* the ranks of this host                         */
	const int *ranks;        /* their numbers in the world; NULL: it is the world */
	uint64_t serial;         /* of the group, the same on all ranks; 0: the world */
	uint32_t *left;          /* shared: 0, or 1 + the first of them that has left; atomic */
	struct agree *agree;     /* on which operations are ready, and in which order */
	struct ledger *ledger;   /* of the ranks of this host */
	enum comm_small small;
	struct provider providers[COMM_BACKENDS]; /* in order of preference          */
	int provider_count;
	unsigned int memory; /* kinds that one of them takes: MEMORY_HOST and so on */
	bool by_host;        /* the first that takes RINGUP_HOST is                 */
	uint64_t fusion_bytes, eager_bytes;
	bool join_sums; /* this rank takes part in sums and barriers only once it has joined */

	/* From here on the engine's own. */
	struct lock lock; /* tensors, the lists of operations, post() */
	struct name_table names;
	struct ringup_op *flying, *pool, *blocks;
	struct name_entry *kept[COMM_KEPT]; /* see submit_eager() */
	uint32_t keeps;                     /* so many so far, those replaced included */
	uint64_t unnamed;                   /* operations without a name so far        */
	uint32_t eager_count;               /* eager ones in flight; atomic            */
	bool joined;                        /* this rank has no more to do; atomic     */
	struct ringup_op *join; /* is not published yet: see submit_join(); atomic */
	int inside;             /* threads that wait in it: see engine.c; atomic */
	bool over;              /* one has left, and what waited has failed; atomic */
	uint64_t batches;       /* begun so far; atomic                    */

	/* The holder of the baton's. */
	struct item items[BATCH_ITEMS];
	int item_count, item_at; /* item_count is read by others; atomic */
	int phase;               /* of an operation that takes several plans */
	struct run *runs;        /* run_count of them: as many as the back ends have slots */
	int run_count;
	struct run *run;     /* that is made next, or has been made last          */
	int running;         /* in flight; atomic                                 */
	bool fenced;         /* nothing else is made before what is in flight has ended */
	uint64_t calls_seen; /* joined: how often others have called; atomic */

	struct stall_seen *seen; /* stall.c's, and how often joined ranks had been called */
	uint64_t calls_looked;

	/* tracepoint.c's and timeline.c's. */
	uint32_t eager, inlined; /* labels of these ways; 0: none yet; atomic */
	int local_set;           /* 1 + the ranks of this host; atomic */
	uint32_t plans;          /* begun while there was a timeline   */
	bool asks;               /* the others of this host when they are ready */

	struct heartbeats links; /* watch.c's, of its mesh's */
};

/* comm_op - this rank's operation that the item is about, or NULL. */
static inline struct ringup_op *comm_op(struct comm *l, const struct item *it)
{
	struct name_entry *t;

	lock_take(&l->lock);
	t = name_table_by_id(&l->names, it->id);
	lock_give(&l->lock);
	return t ? __atomic_load_n(&t->op, __ATOMIC_ACQUIRE) : NULL;
}

#endif
