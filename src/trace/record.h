/* record.h - what a trace point says, in 32 bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include <stdint.h>

/* What a record tells of the tensor that its label names. */
enum trace_what {
	TRACE_SHAPE,     /* kind: dtype; arg: see record_shape(); word: two dimensions        */
	TRACE_SUBMITTED, /* kind: enum trace_kind; word[0]: the round                        */
	TRACE_ARRIVED,   /* rank[0..1] and rank[2..3]: from the first to the last, ready now  */
	TRACE_TICKS,     /* arg: a set of ranks; kind: fours to skip; ago: see below          */
	TRACE_READY,     /* arg: 1 if the ranks disagree; word[0]: how many ranks there are  */
	TRACE_BEGIN,     /* arg: tensors in the plan; word[0]: bytes; rank[2]: the carrier's
			    label; rank[3]: the plan's number */
	TRACE_END,       /* of that plan, and there are more */
	TRACE_COMPLETE,  /* arg: 1 if it failed; word[0]: rows of the result                 */
	TRACE_FINISHED,  /* the same of what needs no agreement: it was ready, began and ended
			    meanwhile; rank[2]: the carrier's label, rank[3]: how many ranks */
	TRACE_CYCLE,     /* a batch begins; no tensor */
};

/* Operations, as Horovod names them. */
enum trace_kind {
	TRACE_ALLREDUCE,
	TRACE_ALLGATHER,
	TRACE_BROADCAST,
	TRACE_ALLTOALL,
	TRACE_REDUCESCATTER,
	TRACE_ADASUM,
	TRACE_JOIN,
	TRACE_BARRIER,
	TRACE_KINDS
};

/*
 * Four ranks of a set, by their places in it, were ready so many nanoseconds before the
 * record's time; negative: nobody knows when.  A float, so that what matters is exact:
 * nanoseconds of a microsecond, microseconds of ten seconds.
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

/* Of a shape's arg: its dimensions, the first of the two that this record has, and whether the
 * result has a dimension more in front, which is its rows. */
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
