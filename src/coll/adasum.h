/* adasum.h - Adasum: add gradients so that their common direction counts once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLL_ADASUM_H
#define COLL_ADASUM_H

#include <stddef.h>
#include <stdint.h>

#include "ringup.h"

/*
 * Adasum (Maleki et al., 2020) of two vectors is
 *
 *	(1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b
 *
 * the sum if they are orthogonal, the average if they are equal.  A vector whose
 * square is below the root of the smallest normal double, as in Horovod, is
 * added as it is.  More than two are combined in pairs, and so are the results, in
 * the order of the ranks; where their number is odd the last one goes on alone.
 *
 * Products are summed in f64, whatever the type, and in an order that depends on
 * nothing but the count; intermediate results are kept in f32 for f16, bf16 and
 * f32, in f64 for f64.  So all ranks, and all processors, compute the same bits.
 */

/* adasum_scratch_bytes - the scratch memory that adasum() needs; 0: none.  SIZE_MAX if
 * the number overflows. */
size_t adasum_scratch_bytes(enum ringup_dtype dtype, int n, uint64_t count);

/*
 * adasum - @out = the Adasum of @n vectors of @count elements that lie one after
 * the other in @blocks, in rank order.
 *
 * Ownership:  @blocks is only read; @out has @count elements; @scratch has
 *	       adasum_scratch_bytes() and is the caller's before and after.  None
 *	       of them overlap.  All are aligned to the element, @scratch to 8.
 * Threads:    any.  @dtype is a floating type, @n at least 1.
 */
void adasum(enum ringup_dtype dtype, void *out, const void *blocks, int n, uint64_t count,
	    void *scratch);

#endif
