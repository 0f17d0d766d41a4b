/* cut.h - pipelining between hosts: cuts a plan into chunks, and finds their elements. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_CUT_H
#define BACKEND_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "wire/grid.h"

struct err;

/*
 * A chunk is a vector of elements that fits a slot.  Allreduce and broadcast: a
 * part of the concatenated pieces.  The others have a stream per host: the blocks
 * that its ranks contribute or receive, one rank after the other; every chunk
 * takes the same fraction of each stream, in the order of grid_place().  An
 * all-to-all has such a stream from each host to each host; its chunk consists
 * of two halves, outgoing and incoming elements, and, where not all hosts are
 * connected, of areas for elements to be passed on (see relay.h).
 *
 * So an element's place in a chunk depends on the tensors fused with it; its sum
 * does not (see sweep.h).
 */
struct cut_blocks {
	uint64_t *total;       /* elements of each host's stream                  */
	uint64_t *offset;      /* where each rank's block begins in its stream    */
	uint64_t *user;        /* where it begins in this rank's buffer           */
	const uint64_t *count; /* [r * stride]: of rank r                         */
	uint64_t stride;
};

struct cut {
	const struct topo *topo;
	const struct grid *grid;
	uint64_t slot_bytes,
		stage_bytes; /* room for a chunk, and for the summands that come in */
	int *place;          /* of each host                         */
	/* The fields below belong to the plan that was cut last. */
	const struct plan *plan;
	size_t bytes;         /* of an element                                    */
	bool wide;            /* partial sums are f32                             */
	uint64_t chunks;      /* at least one, which may be empty                 */
	uint64_t chunk_count; /* allreduce, broadcast: elements of a full chunk   */
	uint64_t half;        /* all-to-all: where the second half begins         */
	bool relays;          /* all-to-all: not all hosts are connected          */
	uint64_t *piece_start;
	int piece_room;
	struct cut_blocks out, in; /* all-to-all has both, others use the first   */
	uint64_t *memory;          /* of the above */
	uint64_t *pairs;           /* all-to-all: elements, [from * hosts + to]   */
	uint64_t *relayed;         /* behind pairs: room for a number per host    */
	uint64_t *start, *into;    /* of chunk vector_of - 1 */
	uint64_t vector_of;
};

int cut_open(struct cut *c, const struct topo *t, const struct grid *g, uint64_t slot_bytes,
	     uint64_t stage_bytes, struct err *e);
void cut_close(struct cut *c);

/* cut_plan - cut @p, for @rails ranks of each host that carry chunks in turn. */
int cut_plan(struct cut *c, const struct plan *p, int rails, struct err *e);

/* cut_vector - the blocks of chunk @k, hosts + 1 entries, as in struct sweep; *intop: the
 * incoming ones of an all-to-all.  Valid until the call for another chunk. */
const uint64_t *cut_vector(struct cut *c, uint64_t k, const uint64_t **intop);

/* cut_elements - how many chunk @k has. */
uint64_t cut_elements(struct cut *c, uint64_t k);

/* cut_part - how many of @total elements are in chunk @k. */
uint64_t cut_part(const struct cut *c, uint64_t total, uint64_t k);

/* An iterator over a chunk's elements in this rank's buffers, a run at a time. */
struct cut_walk {
	struct cut *cut;
	uint64_t chunk;
	bool taking; /* elements that this rank receives; else contributes */
	int i;
	uint64_t at, end;
	/* The run. */
	uint64_t first, count;   /* elements of the chunk                       */
	const unsigned char *in; /* NULL if empty, or if out is meant   */
	unsigned char *out;
};

/* cut_walk - prepare to walk elements [first, end) of chunk @k; end is cut to its size.
 * cut_next - the next run; false if there is none. */
void cut_walk(struct cut *c, struct cut_walk *w, uint64_t k, bool taking, uint64_t first,
	      uint64_t end);
bool cut_next(struct cut_walk *w);

#endif
