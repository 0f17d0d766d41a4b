/* op_signature.h - signature of an operation: type, shape, kind; the same on all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_OP_SIGNATURE_H
#define ENGINE_OP_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backend/backend.h"
#include "coll/reduce.h"

enum {
	OP_SIGNATURE_DIMS = 8,
	OP_SIGNATURE_WIRE = 48 + 8 * OP_SIGNATURE_DIMS,
	OP_SIGNATURE_INLINE_BYTES = 4096
};

/* The kinds of operations: those of plans, a join, and a bundle of several operations that is
 * one to the agreement. */
enum op_kind {
#define X(kind, word, activity, traits) OP_##kind,
	COLLECTIVES(X)
#undef X
		OP_JOIN,
	OP_BUNDLE,
};

enum { OP_KINDS = OP_BUNDLE + 1 };

/* The digest of an allreduce or all-to-all: among all ranks, or to or from the root only. */
enum { OP_ALL, OP_TO_ROOT, OP_FROM_ROOT };

/* The fields that have to agree.  Plain bytes: it lies in shared memory. */
struct op_signature {
	uint64_t count; /* elements; allgather, all-to-all: elements of one row; bundle: see
			   op_signature_member() */
	double pre, post;
	uint64_t digest; /* what else must agree: a reduce-scatter's rows, a hash of a bundle's
			    signatures, OP_TO_ROOT and the like */
	int32_t root;
	uint32_t members;   /* of a bundle; else 0 */
	uint8_t kind;       /* enum op_kind */
	uint8_t dtype;      /* enum ringup_dtype */
	uint8_t redop : 4;  /* enum ringup_redop; OP_JOIN: 1 if it takes part in sums only */
	uint8_t memory : 4; /* enum ringup_memory; a bundle: 0 */
	uint8_t dims;       /* dimensions set in shape; 0: not given   */
	uint32_t beyond; /* a hash of the dimensions beyond shape; 0: there are none; a bundle:
			    of its members' kinds of memory; 0: all are in the host's */
	uint64_t shape[OP_SIGNATURE_DIMS];
};

/* op_signature_init - @count elements of @dtype, unscaled, without a shape.  Field by field:
 * compilers assign a mostly zero struct several times as slowly. */
static inline void op_signature_init(struct op_signature *s, int kind, enum ringup_dtype dtype,
				     uint64_t count)
{
	s->count = count;
	s->pre = s->post = 1;
	s->digest = 0;
	s->root = 0;
	s->members = 0;
	s->kind = (uint8_t)kind;
	s->dtype = (uint8_t)dtype;
	s->redop = 0;
	s->memory = 0;
	s->dims = 0;
	s->beyond = 0;
	memset(s->shape, 0, sizeof(s->shape));
}

/* op_signature_shape - set the shape.  Dimensions beyond OP_SIGNATURE_DIMS are multiplied into
 * the last one, and hashed. */
void op_signature_shape(struct op_signature *s, const uint64_t *shape, int dims);

/*
 * op_signature_member - add @member to the bundle @s, which began with op_signature_init().
 *
 * The bundle's count is the number of bytes of its members side by side, each at a multiple of
 * 8, as far as all ranks know them: for an allgather, just its number of rows; a count
 * that fits nowhere, if a member cannot stand beside others.
 */
void op_signature_member(struct op_signature *s, const struct op_signature *member);

/* op_signature_equal - compares field by field: a wide load of fields that were just stored
 * would have to wait for all these stores. */
static inline bool op_signature_equal(const struct op_signature *a,
				      const struct op_signature *b)
{
	if (a->count != b->count || a->digest != b->digest || a->root != b->root ||
	    a->members != b->members || a->kind != b->kind || a->dtype != b->dtype ||
	    a->redop != b->redop || a->memory != b->memory || a->dims != b->dims ||
	    a->beyond != b->beyond || memcmp(&a->pre, &b->pre, 8) ||
	    memcmp(&a->post, &b->post, 8))
		return false;
	/* Dimensions that are not set are zero. */
	for (int i = 0; i < a->dims && i < OP_SIGNATURE_DIMS; i++)
		if (a->shape[i] != b->shape[i])
			return false;
	return true;
}

/* op_signature_is_mixed - do two signatures differ in the kind of memory and in nothing else?
 */
bool op_signature_is_mixed(const struct op_signature *a, const struct op_signature *b);

/* op_signature_memory_name - "host", "pinned", "CUDA". */
const char *op_signature_memory_name(enum ringup_memory memory);

/* op_signature_is_of_host - are the data in memory that a processor accesses? */
static inline bool op_signature_is_of_host(const struct op_signature *s)
{
	return MEMORY_OF_HOST >> s->memory & 1;
}

/* op_signature_is_for_host - are the data on a device, for an operation that is carried out in
 * the host's memory alone: Adasum, or a reduction to one rank?  See stage.h. */
static inline bool op_signature_is_for_host(const struct op_signature *s)
{
	return !op_signature_is_of_host(s) && s->kind == PLAN_ALLREDUCE &&
	       (s->redop == RINGUP_ADASUM || s->digest == OP_TO_ROOT);
}

/* op_signature_has_rows - does each rank publish a number of its own, which all others need?
 * For a bundle it says whether the rank knows the members: a joined rank does not. */
static inline bool op_signature_has_rows(const struct op_signature *s)
{
	return collective_is(s->kind, COLLECTIVE_TELLS) || s->kind == OP_JOIN ||
	       s->kind == OP_BUNDLE;
}

/* op_signature_eight - @bytes, rounded up to a multiple of 8. */
static inline uint64_t op_signature_eight(uint64_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/* op_signature_bytes - bytes that one rank contributes; 0 if ranks differ in that, and for a
 * bundle. */
static inline uint64_t op_signature_bytes(const struct op_signature *s)
{
	return collective_is(s->kind, COLLECTIVE_EVEN)
		       ? s->count * reduce_dtype_bytes((enum ringup_dtype)s->dtype)
		       : 0;
}

/* op_signature_can_inline - is it small, and of such a kind, that between hosts its data may
 * travel with its announcement? */
bool op_signature_can_inline(const struct op_signature *s);

/* op_signature_part_first - in a reduce-scatter between @ranks ranks, the first element of
 * @rank's part: rows are dealt out evenly; with a remainder the first ranks get one more. */
uint64_t op_signature_part_first(const struct op_signature *s, int ranks, int rank);

/* op_signature_valid - could ringup.h have made this signature, with @size ranks?  For data
 * from a wire. */
bool op_signature_valid(const struct op_signature *s, int size);

/* op_signature_put, op_signature_get - to and from OP_SIGNATURE_WIRE bytes; get checks nothing:
 * call op_signature_valid(). */
void op_signature_put(unsigned char *to, const struct op_signature *s);
void op_signature_get(const unsigned char *from, struct op_signature *s);

/* op_signature_hash - equal for equal signatures, on all hosts. */
uint32_t op_signature_hash(const struct op_signature *s);

/* op_signature_text - "allreduce (sum) of 10 f32, shape [5,2]", "broadcast from rank 1 of 3
 * u8". Here and below, @world has the world rank of each rank of a group; NULL: the group is
 * the world. */
void op_signature_text(const struct op_signature *s, const int *world, char *out, size_t len);

/* op_signature_disagree - the sentence about @name when @of[0..size-1] are not equal, with the
 * signatures of two ranks; no longer than an error. */
void op_signature_disagree(const char *name, const struct op_signature *const *of, int size,
			   const int *world, char *out, size_t len);

/* The signatures of a set of ranks: of its lowest rank, and of the lowest rank with another
 * signature, rather one that differs in more than the kind of memory.  As many as are known: 0,
 * 1 or 2. */
struct op_signatures {
	int count, rank[2];
	struct op_signature signature[2];
};

/* op_signatures_merge, op_signatures_add - merge another set, or a single rank, into @s. */
void op_signatures_merge(struct op_signatures *s, const struct op_signatures *more);
void op_signatures_add(struct op_signatures *s, int rank, const struct op_signature *x);

/* op_signatures_text - the sentence about @name when there are two; as op_signature_disagree().
 */
void op_signatures_text(const struct op_signatures *s, const char *name, const int *world,
			char *out, size_t len);

#endif
