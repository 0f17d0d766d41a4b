/* comm.h - a communicator of a group of ranks: names, agreement, back ends, operations. */
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

/* A back end that serves a communicator, and that back end's own memory. */
struct provider {
	const struct backend *backend;
	void *self;
	uint64_t begun; /* plans so far, on all ranks alike             */
	uint32_t label; /* tracepoint.c's, for its name; 0: none yet; atomic */
};

/*
 * A plan, and the operations that it completes.  While @provider is set, the plan is in flight;
 * it waits to be started while another plan has its slot.
 */
struct run {
	struct provider *provider;
	bool started;
	struct ringup_op *staged; /* no plan runs, but this one's data are copied; or NULL */
	struct plan plan;
	struct piece pieces[BATCH_ITEMS];
	struct ringup_op *ops[BATCH_ITEMS + 1]; /* a bundle is last */
	int op_count;
	const char *bad;     /* in what way the ranks disagree about it; else NULL */
	uint64_t *counts;    /* size entries                              */
	uint64_t *no_room;   /* size entries: why a rank has no room for a result; see plan.c */
	uint64_t *numbers;   /* exchanged between ranks: see plan_tell()  */
	size_t number_count; /* room in numbers                           */
	void *spare;         /* in place of a small result without memory; or NULL */
};

/* The state of a device plan in the order across groups: see turns.h. */
enum turns_state { TURNS_NONE, TURNS_PROPOSED, TURNS_NUMBERED, TURNS_BEGUN };

struct turns {
	bool wanted; /* from here on this communicator's plans have numbers */
	enum turns_state state;
	uint64_t number;  /* the proposal, then the number */
	struct plan plan; /* the allgather */
	struct piece piece;
	struct provider *provider;
	uint64_t *all, *counts; /* size entries each */
};

/* The path of small operations that take no plan. */
enum comm_small {
	SMALL_NONE,
	SMALL_EAGER,  /* in eager slots, between the ranks of one host: see eager.h         */
	SMALL_INLINE, /* inline with the announcements between hosts: see inline.h */
};

/*
 * A communicator is the state of one group of ranks: the ranks, the memory and the connections
 * that they share, an order of operations, and back ends that carry out plans, in this order
 * or, with several slots, several at a time.  A rank is in as many communicators as it is in
 * groups; its engine drives them all, so that no two groups can wait for each other.
 *
 * submit ---> agreement ---> batch ---> plans ---> back end ---> complete
 *  (any thread, lock)         (holder of the baton, no lock)
 *
 * Eager operations need none of this: see ledger.h.
 */
struct comm {
	/* Set before execute_open(), when the ranks have met. */
	struct engine *engine;
	struct topo topo;
	struct waitset *waitset; /* the ranks of this host                         */
	const int *ranks;        /* their world ranks; NULL: this is the world */
	uint64_t serial;         /* of the group, the same on all ranks; 0: the world */
	uint32_t *left;          /* shared: 0, or 1 + the first rank that has left; atomic */
	struct agree *agree;     /* negotiation: which operations are ready, in which order */
	struct ledger *ledger;   /* of the ranks of this host */
	enum comm_small small;
	struct provider providers[COMM_BACKENDS]; /* in order of preference          */
	int provider_count;
	unsigned int memory; /* kinds that a provider takes: MEMORY_HOST and so on */
	bool by_host;        /* whether the first provider for RINGUP_HOST is by_host */
	uint64_t fusion_bytes, eager_bytes;
	bool join_sums; /* this rank takes part in sums and barriers only once it has joined */

	/* From here on the engine's own. */
	struct lock lock; /* tensors, the lists of operations, post() */
	struct name_table names;
	struct ringup_op *flying, *pool, *blocks;
	struct name_entry *kept[COMM_KEPT]; /* see submit_eager() */
	uint32_t keeps;                     /* names kept so far, replaced ones included */
	uint64_t unnamed;                   /* operations without a name so far        */
	uint64_t messages;                  /* begun since observer.c last counted them */
	uint32_t eager_count;               /* eager ones in flight; atomic            */
	bool joined;                        /* this rank has joined; atomic */
	bool device_open;                   /* see op_open_device(); atomic */
	struct ringup_op *join;             /* not published yet: see submit_join(); atomic */
	int inside;                         /* threads that wait in it: see engine.c; atomic */
	bool over;        /* a rank has left, and operations in flight failed; atomic */
	uint64_t batches; /* begun so far; atomic                    */

	/* Owned by the holder of the baton. */
	struct item items[BATCH_ITEMS];
	int item_count, item_at; /* other threads read item_count; atomic */
	int phase;               /* of an operation that takes several plans */
	struct run *runs;        /* run_count of them: as many as the back ends have slots */
	int run_count;
	struct run *run;     /* to be made next, or made last */
	int running;         /* plans in flight; atomic */
	struct turns turns;  /* of its plans on a device, among other groups' */
	bool fenced;         /* no other plan is made before those in flight have ended */
	uint64_t calls_seen; /* joined: calls of other ranks so far; atomic */

	uint32_t *counted;       /* observer.c's, by id: rounds counted so far */
	uint32_t recorded;       /* likewise: rounds that its records have     */
	struct stall_seen *seen; /* stall.c's; calls_looked: calls of joined ranks then */
	uint64_t calls_looked;

	/* tracepoint.c's and timeline.c's. */
	uint32_t eager, inlined; /* labels of these paths; 0: none yet; atomic */
	int local_set;           /* 1 + the trace's set of this host's ranks; atomic */
	uint32_t plans;          /* begun while there was a timeline   */
	bool asks;               /* asks this host's other ranks for arrival times */

	struct heartbeats links; /* watch.c's, for the connections of topo.mesh */
};

/* comm_is_here - is @rank of the group on this host? */
static inline bool comm_is_here(const struct comm *c, int rank)
{
	return !c->topo.host_of || c->topo.host_of[rank] == c->topo.host;
}

/* comm_op - this rank's operation for @it, or NULL. */
static inline struct ringup_op *comm_op(struct comm *c, const struct item *it)
{
	struct name_entry *t;

	lock_take(&c->lock);
	t = name_table_by_id(&c->names, it->id);
	lock_give(&c->lock);
	return t ? __atomic_load_n(&t->op, __ATOMIC_ACQUIRE) : NULL;
}

#endif
