/* op_signature.c - signature of an operation: type, shape, kind; the same on all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/op_signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/kinds.h"
#include "coll/reduce.h"
#include "wire/pack.h"
#include "wire/ranks.h"

/* The most elements that can still be counted in bytes, at most 16 each. */
#define COUNT_MOST (UINT64_MAX / 16)

void op_signature_shape(struct op_signature *s, const uint64_t *shape, int dims)
{
	unsigned char bytes[16];
	uint64_t beyond = 0;
	int i;

	s->dims = (uint8_t)(dims < OP_SIGNATURE_DIMS ? dims : OP_SIGNATURE_DIMS);
	for (i = 0; i < dims && i < OP_SIGNATURE_DIMS; i++)
		s->shape[i] = shape[i];
	for (; i < dims; i++) {
		pack_put64(bytes, beyond);
		pack_put64(bytes + 8, shape[i]);
		beyond = hash_bytes(bytes, sizeof(bytes));
		s->shape[OP_SIGNATURE_DIMS - 1] *= shape[i];
	}
	s->beyond = (uint32_t)beyond;
}

bool op_signature_is_mixed(const struct op_signature *a, const struct op_signature *b)
{
	struct op_signature x = *a, y = *b;

	x.memory = y.memory = 0;
	/* A bundle's count depends on the kinds of memory, and its digest on all else. */
	if (x.kind == OP_BUNDLE) {
		x.beyond = y.beyond = 0;
		x.count = y.count = 0;
	}
	return op_signature_equal(&x, &y) && !op_signature_equal(a, b);
}

/* Partial sums of half precision are f32, twice as long; they take a plan instead. */
bool op_signature_can_inline(const struct op_signature *s)
{
	switch ((enum op_kind)s->kind) {
	case OP_BARRIER:
		return true;
	case OP_ALLREDUCE:
		return s->redop != RINGUP_ADASUM && op_signature_is_of_host(s) &&
		       !reduce_is_half((enum ringup_dtype)s->dtype) &&
		       op_signature_bytes(s) <= OP_SIGNATURE_INLINE_BYTES;
	case OP_BROADCAST:
	case OP_ALLGATHER:
	case OP_REDUCESCATTER:
	case OP_ALLTOALL:
	case OP_JOIN:
	case OP_BUNDLE:
		break;
	}
	return false;
}

uint64_t op_signature_part_first(const struct op_signature *s, int ranks, int rank)
{
	uint64_t rows = s->digest, size = (uint64_t)ranks, r = (uint64_t)rank;
	uint64_t more = rows % size;

	return rows ? s->count / rows * (rows / size * r + (r < more ? r : more)) : 0;
}

bool op_signature_valid(const struct op_signature *s, int size)
{
	return s->kind < OP_KINDS && s->dtype < DTYPE_COUNT && s->redop < REDOP_COUNT &&
	       s->memory < MEMORY_COUNT && s->root >= 0 && s->root < size &&
	       s->count <= COUNT_MOST && s->dims <= OP_SIGNATURE_DIMS &&
	       (s->kind == OP_BUNDLE) == (s->members > 0);
}

void op_signature_put(unsigned char *to, const struct op_signature *s)
{
	uint64_t pre, post;

	memcpy(&pre, &s->pre, 8);
	memcpy(&post, &s->post, 8);
	pack_put64(to, s->count);
	pack_put64(to + 8, pre);
	pack_put64(to + 16, post);
	pack_put64(to + 24, s->digest);
	pack_put32(to + 32, (uint32_t)s->root);
	pack_put32(to + 36, s->members);
	to[40] = s->kind;
	to[41] = s->dtype;
	to[42] = (unsigned char)(s->redop | s->memory << 4);
	to[43] = s->dims;
	pack_put32(to + 44, s->beyond);
	for (int i = 0; i < OP_SIGNATURE_DIMS; i++)
		pack_put64(to + 48 + 8 * i, s->shape[i]);
}

void op_signature_get(const unsigned char *from, struct op_signature *s)
{
	uint64_t pre = pack_get64(from + 8), post = pack_get64(from + 16);

	memset(s, 0, sizeof(*s));
	s->count = pack_get64(from);
	memcpy(&s->pre, &pre, 8);
	memcpy(&s->post, &post, 8);
	s->digest = pack_get64(from + 24);
	s->root = (int32_t)pack_get32(from + 32);
	s->members = pack_get32(from + 36);
	s->kind = from[40];
	s->dtype = from[41];
	s->redop = from[42] & 15;
	s->memory = from[42] >> 4;
	s->dims = from[43];
	s->beyond = pack_get32(from + 44);
	for (int i = 0; i < OP_SIGNATURE_DIMS; i++)
		s->shape[i] = pack_get64(from + 48 + 8 * i);
}

static uint64_t bundled_size(const struct op_signature *member)
{
	if (!op_signature_is_of_host(member))
		return COUNT_MOST;
	switch ((enum op_kind)member->kind) {
	case OP_ALLREDUCE:
	case OP_REDUCESCATTER:
		return member->redop == RINGUP_ADASUM
			       ? COUNT_MOST
			       : op_signature_eight(op_signature_bytes(member));
	case OP_ALLGATHER:
		return sizeof(uint64_t);
	case OP_BROADCAST:
	case OP_ALLTOALL:
	case OP_BARRIER:
	case OP_JOIN:
	case OP_BUNDLE:
		break;
	}
	return COUNT_MOST;
}

void op_signature_member(struct op_signature *s, const struct op_signature *member)
{
	unsigned char bytes[OP_SIGNATURE_WIRE + 8];
	struct op_signature what = *member;
	uint64_t room = bundled_size(member);

	/* Ranks may differ in the kinds of memory: see stage.h. */
	if (s->beyond || member->memory) {
		pack_put64(bytes, (uint64_t)s->beyond << 32 | s->members);
		pack_put64(bytes + 8, member->memory);
		s->beyond = (uint32_t)hash_bytes(bytes, 16) | 1;
	}
	what.memory = 0;
	pack_put64(bytes, s->digest);
	op_signature_put(bytes + 8, &what);
	/* The unset end of the shape is zeros, and the number of dimensions is hashed. */
	s->digest = hash_bytes(bytes,
			       sizeof(bytes) - 8 * (size_t)(OP_SIGNATURE_DIMS - member->dims));
	s->count = room > COUNT_MOST - s->count ? COUNT_MOST : s->count + room;
	s->members++;
}

/* Two factors that differ have different texts. */
static void factor_text(double x, char out[32])
{
	snprintf(out, 32, "%g", x);
	if (strtod(out, NULL) != x)
		snprintf(out, 32, "%.17g", x);
}

const char *op_signature_memory_name(enum ringup_memory memory)
{
	static const char *const names[MEMORY_COUNT] = {
		[RINGUP_HOST] = "host", [RINGUP_PINNED] = "pinned", [RINGUP_CUDA] = "CUDA"
	};

	return memory < MEMORY_COUNT ? names[memory] : "unknown";
}

uint32_t op_signature_hash(const struct op_signature *s)
{
	unsigned char bytes[OP_SIGNATURE_WIRE];

	op_signature_put(bytes, s);
	return (uint32_t)hash_bytes(bytes, sizeof(bytes));
}

void op_signature_text(const struct op_signature *s, const int *world, char *out, size_t len)
{
	char pre[32], post[32], where[32] = "";
	const char *type = reduce_dtype_name((enum ringup_dtype)s->dtype);
	unsigned long long count = s->count;
	int n = 0;

	switch ((enum op_kind)s->kind) {
	case OP_ALLREDUCE:
		if (s->digest == OP_TO_ROOT)
			snprintf(where, sizeof(where), " to rank %d",
				 ranks_in_world(world, s->root));
		n = snprintf(out, len, "%s (%s)%s of %llu %s", *where ? "reduce" : "allreduce",
			     reduce_redop_name((enum ringup_redop)s->redop), where, count,
			     type);
		break;
	case OP_BUNDLE:
		n = snprintf(out, len, "group of %u tensors", s->members);
		break;
	case OP_REDUCESCATTER:
		n = snprintf(out, len, "reduce-scatter (%s) of %llu rows, %llu %s",
			     reduce_redop_name((enum ringup_redop)s->redop),
			     (unsigned long long)s->digest, count, type);
		break;
	case OP_ALLTOALL:
		if (s->digest)
			n = snprintf(out, len, "%s rank %d of rows of %llu %s",
				     s->digest == OP_TO_ROOT ? "gather to" : "scatter from",
				     ranks_in_world(world, s->root), count, type);
		else
			n = snprintf(out, len, "all-to-all of rows of %llu %s", count, type);
		break;
	case OP_JOIN:
		n = snprintf(out, len, "join%s",
			     s->redop ? ", so only sums may continue (unless RINGUP_JOIN=all)"
				      : "");
		break;
	case OP_BROADCAST:
		n = snprintf(out, len, "broadcast from rank %d of %llu %s",
			     ranks_in_world(world, s->root), count, type);
		break;
	case OP_ALLGATHER:
		n = snprintf(out, len, "allgather of rows of %llu %s", count, type);
		break;
	case OP_BARRIER:
		n = snprintf(out, len, "barrier");
		break;
	}
	if (!n)
		n = snprintf(out, len, "operation %u of %llu %s", s->kind, count, type);
	for (int i = 0; i < s->dims && n > 0 && (size_t)n < len; i++)
		n += snprintf(out + n, len - (size_t)n, "%s%llu%s", i ? "," : ", shape [",
			      (unsigned long long)s->shape[i],
			      i + 1 < s->dims ? ""
			      : s->beyond     ? " in more dimensions]"
					      : "]");
	if (n > 0 && (size_t)n < len && (s->pre != 1 || s->post != 1)) {
		factor_text(s->pre, pre);
		factor_text(s->post, post);
		n += snprintf(out + n, len - (size_t)n, " scaled by %s before and %s after",
			      pre, post);
	}
	if (n > 0 && (size_t)n < len && s->memory)
		snprintf(out + n, len - (size_t)n, " in %s memory",
			 op_signature_memory_name((enum ringup_memory)s->memory));
}

/* The start of the sentence; the name of an unnamed operation is empty. */
static const char *called(const char *name)
{
	return *name ? name : "one without a name";
}

static const char *article(const char *text)
{
	return *text && strchr("aeiou", *text) ? "an" : "a";
}

/* Makes the whole sentence fit into an error.  What the ranks want matters more than the whole
 * of a long name, the end of which tells more than its middle. */
static void compose(const char *name, const char *wanted, char *out, size_t len)
{
	enum { LEAST = 40 };
	const size_t most = sizeof(((struct err *)NULL)->text) - sizeof(": ");
	size_t n, room = strlen(wanted) + LEAST < most ? most - strlen(wanted) : LEAST;

	name = called(name);
	n = strlen(name);
	if (n <= room)
		snprintf(out, len, "%s: %s", name, wanted);
	else
		snprintf(out, len, "%.*s...%s: %s", (int)(room - 3 - room / 2), name,
			 name + n - room / 2, wanted);
}

void op_signature_disagree(const char *name, const struct op_signature *const *of, int size,
			   const int *world, char *out, size_t len)
{
	char first[256], other[256], wanted[600], more[48] = "";
	int odd = 0, differ = 0;

	for (int r = size - 1; r > 0; r--)
		if (!op_signature_equal(of[0], of[r])) {
			/* A kind of memory alone is no reason. */
			if (!odd || !op_signature_is_mixed(of[0], of[r]) ||
			    op_signature_is_mixed(of[0], of[odd]))
				odd = r;
			differ++;
		}
	op_signature_text(of[0], world, first, sizeof(first));
	op_signature_text(of[odd], world, other, sizeof(other));
	if (differ > 1)
		snprintf(more, sizeof(more), "; %d more differ from rank %d", differ - 1,
			 ranks_in_world(world, 0));
	snprintf(wanted, sizeof(wanted), "rank %d wants %s %s, rank %d %s %s%s",
		 ranks_in_world(world, 0), article(first), first, ranks_in_world(world, odd),
		 article(other), other, more);
	compose(name, wanted, out, len);
}

static void put_lowest(struct op_signatures *s, int rank, const struct op_signature *x)
{
	if (s->count && op_signature_equal(&s->signature[0], x))
		return;
	if (s->count == 2 && (op_signature_is_mixed(&s->signature[0], x) ||
			      !op_signature_is_mixed(&s->signature[0], &s->signature[1])))
		return;
	s->count -= s->count == 2;
	s->rank[s->count] = rank;
	s->signature[s->count++] = *x;
}

void op_signatures_merge(struct op_signatures *s, const struct op_signatures *more)
{
	struct op_signatures all = { 0 };
	int i = 0, k = 0;

	while (i < s->count || k < more->count)
		if (k == more->count || (i < s->count && s->rank[i] < more->rank[k])) {
			put_lowest(&all, s->rank[i], &s->signature[i]);
			i++;
		} else {
			put_lowest(&all, more->rank[k], &more->signature[k]);
			k++;
		}
	*s = all;
}

void op_signatures_add(struct op_signatures *s, int rank, const struct op_signature *x)
{
	struct op_signatures one = { .count = 1, .rank = { rank }, .signature = { *x } };

	op_signatures_merge(s, &one);
}

void op_signatures_text(const struct op_signatures *s, const char *name, const int *world,
			char *out, size_t len)
{
	char first[256], other[256], wanted[600];

	op_signature_text(&s->signature[0], world, first, sizeof(first));
	op_signature_text(&s->signature[1], world, other, sizeof(other));
	snprintf(wanted, sizeof(wanted), "rank %d wants %s %s, rank %d %s %s",
		 ranks_in_world(world, s->rank[0]), article(first), first,
		 ranks_in_world(world, s->rank[1]), article(other), other);
	compose(name, wanted, out, len);
}
