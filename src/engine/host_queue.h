/* host_queue.h - with several hosts: the queue between the ranks of a host and their leader. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_HOST_QUEUE_H
#define ENGINE_HOST_QUEUE_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/ledger.h"

struct err;
struct progress;
struct topo;

/*
 * The ranks of a host agree in their ledger as usual, but an id that all of them have submitted
 * is not ready yet: it goes on a list for the host's leader, its first rank.  The leader tells
 * the other hosts (tree.h), and when an id is ready on all hosts, puts it on the list that all
 * ranks work through.  Only the leader writes that list, and it marks where batches end.
 *
 *	agree_post() ---> up ---> leader ---> other hosts
 *	agree_next() <--- list <-- leader <--- other hosts
 */
struct host_queue_shared {
	alignas(64) uint64_t tail;  /* of the list upwards             */
	alignas(64) uint64_t taken; /* entries that the leader has seen */
};

struct host_queue {
	struct ledger *ledger;
	struct progress *progress; /* of all ranks of the host */
	int size, hosts;           /* of the group, all hosts together */
	int *rank;                 /* group rank of each rank of this host */
	struct host_queue_shared *shared;
	uint64_t *up;
	uint64_t *rows; /* by id: of every rank of the group */
	uint64_t seen;  /* the leader's: entries seen of the list upwards */
};

/* host_queue_bytes - bytes that it takes in the segment, behind the ledger. */
size_t host_queue_bytes(int size);

/* host_queue_open - let @l, which is open, serve a group of several hosts; its segment has
 * host_queue_bytes() beyond ledger_bytes().  @progress: of all ranks of the host. */
int host_queue_open(struct host_queue *s, struct ledger *l, struct progress *progress,
		    const struct topo *t, struct err *e);

/* host_queue_close - @s may be zeroed. */
void host_queue_close(struct host_queue *s);

/* ---- any rank, called by agree.c ---- */

/* host_queue_arrived - all ranks of this host have submitted @id; calls the leader. */
void host_queue_arrived(struct host_queue *s, uint32_t id);

/* host_queue_next - the next batch that the leader has published; 0 if there is none. */
int host_queue_next(struct host_queue *s, struct item *items);

/* ---- the leader ---- */

/* host_queue_pending - is there anything for host_queue_take()?  Any thread. */
bool host_queue_pending(const struct host_queue *s);

/* host_queue_take - the next id that all ranks of this host have submitted. */
bool host_queue_take(struct host_queue *s, uint32_t *id);

/* host_queue_changed - has a rank of this host changed its signature of @id since the last call
 * for @id? */
bool host_queue_changed(struct host_queue *s, uint32_t id);

/* host_queue_signatures - add the signatures of this host's ranks, which have all submitted
 * @id. */
void host_queue_signatures(const struct host_queue *s, uint32_t id, struct op_signatures *w);

/* host_queue_collect - copy the rows of this host's ranks to @rows, which has an entry per rank
 * of the group. */
void host_queue_collect(const struct host_queue *s, uint32_t id, uint64_t *rows);

/* host_queue_rows - the rows of the whole group, for this host's ranks to read: set before
 * host_queue_publish(). */
uint64_t *host_queue_rows(const struct host_queue *s, uint32_t id);

/* host_queue_wake - make the ranks of this host look for work. */
void host_queue_wake(const struct host_queue *s);

/* host_queue_publish - @ids are ready on all hosts, and are the next batch; wakes the ranks of
 * this host. */
void host_queue_publish(struct host_queue *s, const uint16_t *ids, int count);

#endif
