/* record.h - the record of a trace point, 32 bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include <stdint.h>

#include "base/collectives.h"

/* The kinds of records; each is about the tensor that its label names. */
enum trace_what {
	TRACE_SHAPE,     /* kind: dtype; arg: see record_shape(); word: two dimensions       */
	TRACE_SUBMITTED, /* kind: enum trace_kind; word[0]: the round; rank[3]: its number   */
	TRACE_ARRIVED,   /* ranks that are ready now: rank[0] to rank[1], rank[2] to rank[3] */
	TRACE_TICKS,     /* arg: a set of ranks; kind: groups of four to skip; ago: below    */
	TRACE_READY,     /* arg: 1 if the ranks disagree; word[0]: how many ranks there are  */
	TRACE_BEGIN,     /* arg: tensors in the plan; word[0]: bytes; rank[2]: the carrier's
			    label; rank[3]: the plan's number */
	TRACE_END,       /* that plan has ended, and another follows */
	TRACE_COMPLETE,  /* arg: 1 if it failed; word[0]: rows of the result                 */
	TRACE_FINISHED,  /* the same of an operation without a coordinator: it was ready,
			    began and ended; rank[2]: the carrier's label, rank[3]: how many
			    ranks */
	TRACE_CYCLE,     /* a batch begins; no tensor */
	TRACE_MESSAGE,   /* a message between two ranks has been submitted.  kind: TRACE_SEND or
			    TRACE_RECV; arg: dtype; word[0]: elements; rank[3]: its number, by
			    which its other records are known                          */
	TRACE_MATCHED,   /* both ranks are there, and its data move.  arg: 1 if they disagree;
			    rank[0]: the other rank, -1 if it may not be there yet;
			    rank[2]: the carrier's label                               */
	TRACE_MOVED,     /* the message is complete.  arg: 1 if it failed              */
};

/* Operations and their activities, as Horovod names them; Horovod has no messages.  An activity
 * begins with the back end. */
#define TRACE_OPERATIONS(X)                       \
	COLLECTIVES(X)                            \
	X(ADASUM, adasum, "_ADASUM_ALLREDUCE", 0) \
	X(JOIN, join, "_JOIN", 0)                 \
	X(SEND, send, "_SEND", 0)                 \
	X(RECV, recv, "_RECV", 0)

enum trace_kind {
#define X(kind, word, activity, traits) TRACE_##kind,
	TRACE_OPERATIONS(X) TRACE_KINDS
#undef X
};

/*
 * Four ranks of a set, by their places in it, were ready this many nanoseconds before the
 * record's time; negative: the time is unknown.  A float is exact enough: to nanoseconds up to
 * some milliseconds, to microseconds up to ten seconds.
 */
enum { TRACE_FOUR = 4 };

struct trace_record {
	int64_t ns;     /* clock_ns() */
	uint32_t label; /* of the tensor; 0: none */
	uint8_t what;   /* enum trace_what */
	uint8_t kind;
	uint16_t arg;
	union {
		uint64_t word[2];
		int32_t rank[4];
		float ago[TRACE_FOUR];
	};
};
_Static_assert(sizeof(struct trace_record) == 32, "two records share a cache line");

/* The arg of TRACE_SHAPE: how many dimensions there are, the first of the two in this record,
 * and whether the result has one more in front: its rows, which TRACE_COMPLETE tells. */
enum { TRACE_DIMS = 8, TRACE_ROWS_LEAD = 1 << 15 };

static inline uint16_t record_shape(int dims, int first, int leads)
{
	return (uint16_t)(dims | first << 4 | (leads ? TRACE_ROWS_LEAD : 0));
}

static inline int record_dims(const struct trace_record *r)
{
	return r->arg & 15;
}

static inline int record_first(const struct trace_record *r)
{
	return r->arg >> 4 & 15;
}

#endif
