/* op_signature.c - signature of an operation: type, shape, kind; the same on all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/op_signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "coll/reduce.h"
#include "wire/pack.h"
#include "wire/ranks.h"

/* The most elements that can still be counted in bytes, at most 16 each. */
#define COUNT_MOST (UINT64_MAX / 16)

void op_signature_shape(struct op_signature *w, const uint64_t *shape, int dims)
{
	unsigned char bytes[16];
	uint64_t beyond = 0;
	int i;

	w->dims = (uint8_t)(dims < OP_SIGNATURE_DIMS ? dims : OP_SIGNATURE_DIMS);
	for (i = 0; i < dims && i < OP_SIGNATURE_DIMS; i++)
		w->shape[i] = shape[i];
	for (; i < dims; i++) {
		pack_put64(bytes, beyond);
		pack_put64(bytes + 8, shape[i]);
		beyond = hash_bytes(bytes, sizeof(bytes));
		w->shape[OP_SIGNATURE_DIMS - 1] *= shape[i];
	}
	w->beyond = (uint32_t)beyond;
}

/* Partial sums of half precision are f32, twice as long; they take a plan instead. */
bool op_signature_can_inline(const struct op_signature *w)
{
	if (w->kind == PLAN_BARRIER)
		return true;
	return w->kind == PLAN_ALLREDUCE && w->redop != RINGUP_ADASUM &&
	       op_signature_is_of_host(w) && !reduce_is_half((enum ringup_dtype)w->dtype) &&
	       op_signature_bytes(w) <= OP_SIGNATURE_INLINE_BYTES;
}

uint64_t op_signature_part_first(const struct op_signature *w, int ranks, int rank)
{
	uint64_t rows = w->digest, size = (uint64_t)ranks, r = (uint64_t)rank;
	uint64_t more = rows % size;

	return rows ? w->count / rows * (rows / size * r + (r < more ? r : more)) : 0;
}

bool op_signature_valid(const struct op_signature *w, int size)
{
	return w->kind < OP_KINDS && w->dtype < RINGUP_DTYPE_COUNT &&
	       w->redop < RINGUP_REDOP_COUNT && w->memory < RINGUP_MEMORY_COUNT &&
	       w->root >= 0 && w->root < size && w->count <= COUNT_MOST &&
	       w->dims <= OP_SIGNATURE_DIMS && (w->kind == OP_BUNDLE) == (w->members > 0);
}

void op_signature_put(unsigned char *to, const struct op_signature *w)
{
	uint64_t pre, post;

	memcpy(&pre, &w->pre, 8);
	memcpy(&post, &w->post, 8);
	pack_put64(to, w->count);
	pack_put64(to + 8, pre);
	pack_put64(to + 16, post);
	pack_put64(to + 24, w->digest);
	pack_put32(to + 32, (uint32_t)w->root);
	pack_put32(to + 36, w->members);
	to[40] = w->kind;
	to[41] = w->dtype;
	to[42] = (unsigned char)(w->redop | w->memory << 4);
	to[43] = w->dims;
	pack_put32(to + 44, w->beyond);
	for (int i = 0; i < OP_SIGNATURE_DIMS; i++)
		pack_put64(to + 48 + 8 * i, w->shape[i]);
}

void op_signature_get(const unsigned char *from, struct op_signature *w)
{
	uint64_t pre = pack_get64(from + 8), post = pack_get64(from + 16);

	memset(w, 0, sizeof(*w));
	w->count = pack_get64(from);
	memcpy(&w->pre, &pre, 8);
	memcpy(&w->post, &post, 8);
	w->digest = pack_get64(from + 24);
	w->root = (int32_t)pack_get32(from + 32);
	w->members = pack_get32(from + 36);
	w->kind = from[40];
	w->dtype = from[41];
	w->redop = from[42] & 15;
	w->memory = from[42] >> 4;
	w->dims = from[43];
	w->beyond = pack_get32(from + 44);
	for (int i = 0; i < OP_SIGNATURE_DIMS; i++)
		w->shape[i] = pack_get64(from + 48 + 8 * i);
}

static uint64_t beside(const struct op_signature *member)
{
	if (!op_signature_is_of_host(member))
		return COUNT_MOST;
	switch (member->kind) {
	case PLAN_ALLREDUCE:
	case PLAN_REDUCESCATTER:
		return member->redop == RINGUP_ADASUM
			       ? COUNT_MOST
			       : op_signature_eight(op_signature_bytes(member));
	case PLAN_ALLGATHER:
		return sizeof(uint64_t);
	default:
		return COUNT_MOST;
	}
}

void op_signature_member(struct op_signature *w, const struct op_signature *member)
{
	unsigned char bytes[OP_SIGNATURE_WIRE + 8];
	uint64_t room = beside(member);

	pack_put64(bytes, w->digest);
	op_signature_put(bytes + 8, member);
	/* The unset end of the shape is zeros, and the number of dimensions is hashed. */
	w->digest = hash_bytes(bytes,
			       sizeof(bytes) - 8 * (size_t)(OP_SIGNATURE_DIMS - member->dims));
	w->count = room > COUNT_MOST - w->count ? COUNT_MOST : w->count + room;
	w->members++;
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
	static const char *const names[RINGUP_MEMORY_COUNT] = {
		[RINGUP_HOST] = "host", [RINGUP_PINNED] = "pinned", [RINGUP_CUDA] = "CUDA"
	};

	return memory < RINGUP_MEMORY_COUNT ? names[memory] : "unknown";
}

void op_signature_text(const struct op_signature *w, const int *world, char *out, size_t len)
{
	char pre[32], post[32], where[32] = "";
	const char *type = reduce_dtype_name((enum ringup_dtype)w->dtype);
	unsigned long long count = w->count;
	int n = 0;

	switch (w->kind) {
	case PLAN_ALLREDUCE:
		if (w->digest == OP_TO_ROOT)
			snprintf(where, sizeof(where), " to rank %d",
				 ranks_in_world(world, w->root));
		n = snprintf(out, len, "%s%s of %llu %s",
			     reduce_redop_name((enum ringup_redop)w->redop), where, count,
			     type);
		break;
	case OP_BUNDLE:
		n = snprintf(out, len, "group of %u tensors", w->members);
		break;
	case PLAN_REDUCESCATTER:
		n = snprintf(out, len, "reduce-scatter (%s) of %llu rows, %llu %s",
			     reduce_redop_name((enum ringup_redop)w->redop),
			     (unsigned long long)w->digest, count, type);
		break;
	case PLAN_ALLTOALL:
		if (w->digest)
			n = snprintf(out, len, "%s rank %d of rows of %llu %s",
				     w->digest == OP_TO_ROOT ? "gather to" : "scatter from",
				     ranks_in_world(world, w->root), count, type);
		else
			n = snprintf(out, len, "all-to-all of rows of %llu %s", count, type);
		break;
	case OP_JOIN:
		n = snprintf(out, len, "join%s",
			     w->redop
				     ? ", beside which only sums go on (unless RINGUP_JOIN=all)"
				     : "");
		break;
	case PLAN_BROADCAST:
		n = snprintf(out, len, "broadcast from rank %d of %llu %s",
			     ranks_in_world(world, w->root), count, type);
		break;
	case PLAN_ALLGATHER:
		n = snprintf(out, len, "allgather of rows of %llu %s", count, type);
		break;
	case PLAN_BARRIER:
		n = snprintf(out, len, "barrier");
		break;
	default:
		n = snprintf(out, len, "collective %u", (unsigned int)w->kind);
	}
	for (int i = 0; i < w->dims && n > 0 && (size_t)n < len; i++)
		n += snprintf(out + n, len - (size_t)n, "%s%llu%s", i ? "," : " [",
			      (unsigned long long)w->shape[i],
			      i + 1 < w->dims ? ""
			      : w->beyond     ? " in more dimensions]"
					      : "]");
	if (n > 0 && (size_t)n < len && (w->pre != 1 || w->post != 1)) {
		factor_text(w->pre, pre);
		factor_text(w->post, post);
		n += snprintf(out + n, len - (size_t)n, " scaled by %s before and %s after",
			      pre, post);
	}
	if (n > 0 && (size_t)n < len && w->memory)
		snprintf(out + n, len - (size_t)n, " in %s memory",
			 op_signature_memory_name((enum ringup_memory)w->memory));
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

static void put_lowest(struct op_signatures *w, int rank, const struct op_signature *x)
{
	if (w->count == 2 || (w->count && op_signature_equal(&w->signature[0], x)))
		return;
	w->rank[w->count] = rank;
	w->signature[w->count++] = *x;
}

void op_signatures_merge(struct op_signatures *w, const struct op_signatures *more)
{
	struct op_signatures all = { 0 };
	int i = 0, k = 0;

	while (i < w->count || k < more->count)
		if (k == more->count || (i < w->count && w->rank[i] < more->rank[k])) {
			put_lowest(&all, w->rank[i], &w->signature[i]);
			i++;
		} else {
			put_lowest(&all, more->rank[k], &more->signature[k]);
			k++;
		}
	*w = all;
}

void op_signatures_add(struct op_signatures *w, int rank, const struct op_signature *x)
{
	struct op_signatures one = { .count = 1, .rank = { rank }, .signature = { *x } };

	op_signatures_merge(w, &one);
}

void op_signatures_text(const struct op_signatures *w, const char *name, const int *world,
			char *out, size_t len)
{
	char first[256], other[256], wanted[600];

	op_signature_text(&w->signature[0], world, first, sizeof(first));
	op_signature_text(&w->signature[1], world, other, sizeof(other));
	snprintf(wanted, sizeof(wanted), "rank %d wants %s %s, rank %d %s %s",
		 ranks_in_world(world, w->rank[0]), article(first), first,
		 ranks_in_world(world, w->rank[1]), article(other), other);
	compose(name, wanted, out, len);
}
