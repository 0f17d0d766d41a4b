/* span.h - the ledger of a host that is one of several: what goes up, what comes down. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_SPAN_H
#define ENGINE_SPAN_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/ledger.h"

struct err;
struct topo;

/*
 * The ranks of a host agree in their ledger as ever, but what the last of them has
 * submitted is not ready yet: it goes on a list for the host's leader, its first
 * rank.  The leader tells the other hosts (tree.h), and when it hears that an id is
 * ready everywhere, puts it on the list that all ranks work through.  Only the
 * leader writes that list, and it marks where batches end.
 *
 *	agree_post() ---> up ---> leader ---> other hosts
 *	agree_next() <--- list <-- leader <--- other hosts
 */
struct span_shared {
	alignas(64) uint64_t tail;  /* of the list upwards             */
	alignas(64) uint64_t taken; /* how much of it the leader has seen */
};

struct span {
	struct ledger *ledger;
	int size, hosts; /* of the group, all hosts together */
	int *rank;       /* of each of this host's, in the group */
	struct span_shared *shared;
	uint64_t *up;
	uint64_t *rows; /* by id: of every rank of the group */
	uint64_t seen;  /* the leader's: of the list upwards */
};

/* span_bytes - what it takes of the segment, behind the ledger. */
size_t span_bytes(int size);

/* span_open - let @l, which is open, serve a group of several hosts; its segment has
 * span_bytes() beyond ledger_bytes(). */
int span_open(struct span *s, struct ledger *l, const struct topo *t, struct err *e);

/* span_close - may be zeroed. */
void span_close(struct span *s);

/* ---- any rank, called by agree.c ---- */

/* span_arrived - all ranks of this host have submitted @id; calls the leader. */
void span_arrived(struct span *s, uint32_t id);

/* span_next - the next batch that the leader has published; 0 if there is none. */
int span_next(struct span *s, struct item *items);

/* ---- the leader ---- */

/* span_pending - is there anything for span_take()?  Any thread. */
bool span_pending(const struct span *s);

/* span_take - the next id that all ranks of this host have submitted. */
bool span_take(struct span *s, uint32_t *id);

/* span_changed - has a rank of this host changed what it wants of @id since this was
 * asked the last time? */
bool span_changed(struct span *s, uint32_t id);

/* span_wants - add what the ranks of this host want of @id, which they have all
 * submitted. */
void span_wants(const struct span *s, uint32_t id, struct wants *w);

/* span_collect - put their rows where they belong in @rows, one entry per rank of the
 * group. */
void span_collect(const struct span *s, uint32_t id, uint64_t *rows);

/* span_rows - the rows of the whole group, for the ranks of this host to read: set
 * before span_publish(). */
uint64_t *span_rows(const struct span *s, uint32_t id);

/* span_wake - the ranks of this host shall look: there is something for them. */
void span_wake(const struct span *s);

/* span_publish - @ids are ready on all hosts, and the next batch; wakes whoever it
 * concerns. */
void span_publish(struct span *s, const uint16_t *ids, int count);

#endif
