/* want.h - what a rank asks for under a name; all ranks must ask for the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_WANT_H
#define ENGINE_WANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backend/backend.h"
#include "coll/reduce.h"

enum { WANT_DIMS = 8, WANT_WIRE = 48 + 8 * WANT_DIMS, WANT_INLINE_BYTES = 4096 };

/* What an operation may be: the kinds of plans, a rank that has no more to do, and several
 * operations that are one to those who agree. */
enum { WANT_JOIN = PLAN_KINDS, WANT_BUNDLE, WANT_KINDS };

/* The digest of an allreduce or an all-to-all: between all ranks, or with root at one end. */
enum { WANT_ALL, WANT_TO_ROOT, WANT_FROM_ROOT };

/* The fields that have to agree.  Plain bytes: it lies in shared memory. */
struct want {
	uint64_t count; /* elements; allgather, all-to-all: elements of one row; bundle: see
			   want_member() */
	double pre, post;
	uint64_t digest; /* what else must agree: a reduce-scatter's rows, a hash of what a
			    bundle's members want, WANT_TO_ROOT and the like */
	int32_t root;
	uint32_t members;   /* of a bundle; else 0 */
	uint8_t kind;       /* enum plan_kind, WANT_JOIN or WANT_BUNDLE */
	uint8_t dtype;      /* enum ringup_dtype */
	uint8_t redop : 4;  /* enum ringup_redop; WANT_JOIN: 1 if it takes part in sums only */
	uint8_t memory : 4; /* enum ringup_memory; a bundle: any of its members' that is no
			       host's */
	uint8_t dims;       /* of shape that are set; 0: nobody told   */
	uint32_t beyond;    /* a hash of the dimensions that are not in shape; 0: all are */
	uint64_t shape[WANT_DIMS];
};

/* want_init - @count elements of @dtype, unscaled, of no shape.  Field by field: what
 * compilers make of a whole that is mostly zero takes several times as long. */
static inline void want_init(struct want *w, int kind, enum ringup_dtype dtype, uint64_t count)
{
	w->count = count;
	w->pre = w->post = 1;
	w->digest = 0;
	w->root = 0;
	w->members = 0;
	w->kind = (uint8_t)kind;
	w->dtype = (uint8_t)dtype;
	w->redop = 0;
	w->memory = 0;
	w->dims = 0;
	w->beyond = 0;
	memset(w->shape, 0, sizeof(w->shape));
}

/* want_shape - set the shape.  What has more dimensions than we keep has the
 * others multiplied into the last, and a hash of them. */
void want_shape(struct want *w, const uint64_t *shape, int dims);

/*
 * want_member - @member comes into the bundle @w, which began as want_init() leaves it.
 *
 * The bundle's count is how many bytes its members take side by side, each from a multiple of 8
 * on, as far as all ranks know: of an allgather, the number of rows; more than anybody has
 * room for, if there is a member that cannot stand beside others.
 */
void want_member(struct want *w, const struct want *member);

/* want_equal - field by field: one load of what several stores have just written
 * would have to wait for all of them. */
static inline bool want_equal(const struct want *a, const struct want *b)
{
	int i;

	if (a->count != b->count || a->digest != b->digest || a->root != b->root ||
	    a->members != b->members || a->kind != b->kind || a->dtype != b->dtype ||
	    a->redop != b->redop || a->memory != b->memory || a->dims != b->dims ||
	    a->beyond != b->beyond || memcmp(&a->pre, &b->pre, 8) ||
	    memcmp(&a->post, &b->post, 8))
		return false;
	/* What lies beyond the dimensions that are set is zero. */
	for (i = 0; i < a->dims && i < WANT_DIMS; i++)
		if (a->shape[i] != b->shape[i])
			return false;
	return true;
}

/* want_memory_name - "host", "pinned", "CUDA". */
const char *want_memory_name(enum ringup_memory memory);

/* want_is_of_host - does a processor read and write the data? */
static inline bool want_is_of_host(const struct want *w)
{
	return MEMORY_OF_HOST >> w->memory & 1;
}

/* want_has_rows - does each rank tell a number of its own, which all others need?  A
 * bundle's is whether the rank knows its members: who has joined does not. */
static inline bool want_has_rows(const struct want *w)
{
	return w->kind == PLAN_ALLGATHER || w->kind == WANT_JOIN || w->kind == WANT_BUNDLE;
}

/* want_eight - @bytes, and what there is until the next multiple of 8. */
static inline uint64_t want_eight(uint64_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/* want_bytes - how much data one rank contributes; 0 where that differs between ranks, and of
 * a bundle. */
static inline uint64_t want_bytes(const struct want *w)
{
	switch (w->kind) {
	case PLAN_ALLREDUCE:
	case PLAN_BROADCAST:
	case PLAN_REDUCESCATTER:
		return w->count * reduce_dtype_bytes((enum ringup_dtype)w->dtype);
	default:
		return 0;
	}
}

/* want_can_inline - is it so small, and of such a kind, that between hosts its data may travel
 * with its announcement? */
bool want_can_inline(const struct want *w);

/* want_part_first - in a reduce-scatter between @ranks ranks, the first element of @rank's
 * part: rows are dealt out evenly, and the first ranks get one more where that does not work
 * out. */
uint64_t want_part_first(const struct want *w, int ranks, int rank);

/* want_valid - could this have come from ringup.h?  Asked of what came over a
 * wire, with @size ranks. */
bool want_valid(const struct want *w, int size);

/* want_put, want_get - as WANT_WIRE bytes on a wire, and back; get believes nothing:
 * ask want_valid(). */
void want_put(unsigned char *to, const struct want *w);
void want_get(const unsigned char *from, struct want *w);

/* want_text - "sum of 10 f32 [5,2]", "broadcast from rank 1 of 3 u8".  Here and below, @world
 * has what the world calls each rank of a group; NULL: the group is the world. */
void want_text(const struct want *w, const int *world, char *out, size_t len);

/* want_disagree - the sentence about @name when @of[0..size-1] are not equal: no longer than an
 * error, as long as what two of them want is. */
void want_disagree(const char *name, const struct want *const *of, int size, const int *world,
		   char *out, size_t len);

/* What a set of ranks wants: its lowest rank, and the lowest that wants something
 * else.  As many as are known: 0, 1 or 2. */
struct wants {
	int count, rank[2];
	struct want want[2];
};

/* wants_merge, wants_add - take another set's, or a single rank's, into @w. */
void wants_merge(struct wants *w, const struct wants *more);
void wants_add(struct wants *w, int rank, const struct want *x);

/* wants_text - the sentence about @name when there are two; as want_disagree(). */
void wants_text(const struct wants *w, const char *name, const int *world, char *out,
		size_t len);

#endif
