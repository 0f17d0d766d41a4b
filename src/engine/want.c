/* want.c - what a rank asks for under a name; all ranks must ask for the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/want.h"

#include <stdio.h>
#include <string.h>

#include "coll/reduce.h"

void want_shape(struct want *w, const uint64_t *shape, int dims)
{
	int i;

	w->dims = (uint8_t)(dims < WANT_DIMS ? dims : WANT_DIMS);
	for (i = 0; i < dims; i++)
		if (i < WANT_DIMS)
			w->shape[i] = shape[i];
		else
			w->shape[WANT_DIMS - 1] *= shape[i];
}

bool want_equal(const struct want *a, const struct want *b)
{
	/* What lies beyond the dimensions that are set is zero. */
	return !memcmp(a, b, offsetof(struct want, shape)) &&
	       !memcmp(a->shape, b->shape, a->dims * sizeof(a->shape[0]));
}

uint64_t want_bytes(const struct want *w)
{
	if (w->kind == PLAN_ALLGATHER || w->kind == PLAN_BARRIER)
		return 0;
	return w->count * reduce_dtype_bytes((enum ringup_dtype)w->dtype);
}

bool want_valid(const struct want *w, int size)
{
	return w->kind <= PLAN_BARRIER && w->dtype < RINGUP_DTYPE_COUNT &&
	       w->redop < RINGUP_REDOP_COUNT && w->root >= 0 && w->root < size &&
	       w->count <= UINT64_MAX / 16 && w->dims <= WANT_DIMS;
}

void want_text(const struct want *w, char *out, size_t len)
{
	const char *type = reduce_dtype_name((enum ringup_dtype)w->dtype);
	unsigned long long count = w->count;
	int n = 0, i;

	switch (w->kind) {
	case PLAN_ALLREDUCE:
		n = snprintf(out, len, "%s of %llu %s",
			     reduce_redop_name((enum ringup_redop)w->redop), count, type);
		break;
	case PLAN_BROADCAST:
		n = snprintf(out, len, "broadcast from rank %d of %llu %s", w->root, count,
			     type);
		break;
	case PLAN_ALLGATHER:
		n = snprintf(out, len, "allgather of rows of %llu %s", count, type);
		break;
	default:
		n = snprintf(out, len, "barrier");
	}
	for (i = 0; i < w->dims && n > 0 && (size_t)n < len; i++)
		n += snprintf(out + n, len - (size_t)n, "%s%llu%s", i ? "," : " [",
			      (unsigned long long)w->shape[i], i + 1 < w->dims ? "" : "]");
	if (n > 0 && (size_t)n < len && (w->pre != 1 || w->post != 1))
		snprintf(out + n, len - (size_t)n, " scaled by %g before and %g after", w->pre,
			 w->post);
}

void want_disagree(const char *name, const struct want *const *of, int size, char *out,
		   size_t len)
{
	char first[256], other[256], more[48] = "";
	int r, odd = 0, differ = 0;

	for (r = size - 1; r > 0; r--)
		if (!want_equal(of[0], of[r])) {
			odd = r;
			differ++;
		}
	want_text(of[0], first, sizeof(first));
	want_text(of[odd], other, sizeof(other));
	if (differ > 1)
		snprintf(more, sizeof(more), "; %d more differ from rank 0", differ - 1);
	snprintf(out, len, "%.200s: rank 0 wants a %s, rank %d a %s%s", name, first, odd, other,
		 more);
}
