/* agree.h - negotiation: which tensors are ready on all ranks, and in which order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_AGREE_H
#define ENGINE_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/ledger.h"

struct host_queue;
struct tree;

/*
 * There is no cycle time.  A rank publishes a tensor when it submits it; the last rank to do so
 * puts it on the one list that all ranks of the host work through; the tensors on the list when
 * a batch ends are the next batch.  All ranks see the same batches.
 *
 * On one host the ledger is all.  With several, the last rank of each host tells its leader, by
 * the host queue; the leaders agree, by the tree, and each puts batches on the list of its
 * host.  Which of these parts exist is decided when a group is opened, and asked here alone.
 *
 * Ids for names are the ledger's own: see ledger_find().
 */
struct agree {
	struct ledger *ledger;         /* of the ranks of this host                     */
	struct host_queue *host_queue; /* to and from its leader; NULL: no other hosts  */
	struct tree *tree;             /* NULL: no other hosts, or this rank leads none */
};

/* agree_post - this rank is ready for the round that it has begun (ledger_begin()).  @changed:
 * @s differs from the last time, or there was none.  @awaits: the caller has the baton, and
 * keeps it until the operation is complete.  Under the engine's lock. */
enum arrival agree_post(struct agree *a, uint32_t id, const struct op_signature *s,
			uint64_t rows, bool changed, bool awaits);

/* agree_ready - is there a next batch?  Cheap, any thread. */
bool agree_ready(const struct agree *a);

/* agree_next - fill @items with the next batch: at most BATCH_ITEMS, and no more once
 * they reach @cap bytes.  Returns how many; 0 if there is none yet.  agree_done - the batch has
 * been carried out.  Both by the holder of the baton. */
int agree_next(struct agree *a, uint64_t cap, struct item *items);
void agree_done(struct agree *a);

/* agree_tell - this host's news go to other hosts, though no batch is asked for. */
void agree_tell(struct agree *a);

/* agree_attend - the holder of the baton has nothing to do but wait: between agree_attend(true)
 * and agree_attend(false) it calls agree_poll() at each look, also just before it sleeps.  So
 * the thread that waits for a frame also receives it. */
void agree_attend(struct agree *a, bool on);
void agree_poll(struct agree *a);

/* agree_join_number - the number that orders joins: the rank with the greatest is the last to
 * join.  Between hosts it is @batches, which is equal for all joins after the same batch. */
uint64_t agree_join_number(struct agree *a, uint64_t batches);

#endif
