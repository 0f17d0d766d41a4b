/* inline.h - small sums between hosts: the data travel with the announcement. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_INLINE_H
#define ENGINE_INLINE_H

#include <stdbool.h>
#include <stdint.h>

struct ledger;
struct op_signature;

/*
 * What is small, and was agreed before, needs no plan of a back end.  Each rank puts its
 * share into its slot (ledger.h), as within one host.  When all of a host's are there the
 * leader adds them up, and what it announces to the other hosts carries the sum; who knows
 * that all are ready then has all sums, too (coordinator.h).  The result goes into one more
 * slot, behind those of the ranks, where they find it when the batch comes to it.
 *
 * The order of the sums is that of backend_tcp, for hosts in a row: bits do not tell how
 * they have travelled.
 */
enum { INLINE_HOSTS = 8 };

/* inline_put - put this rank's share of the operation on @id, which is @w, into its slot, if
 * that may travel.  Comes between ledger_begin() and agree_post(). */
void inline_put(const struct ledger *l, uint32_t id, const struct op_signature *w,
		const void *in);

/* ---- the leader; all ranks of this host have submitted @id ---- */

/* inline_sum - what they have put there, added up; false if one of them has not.  @ranks: of
 * all hosts. */
bool inline_sum(const struct ledger *l, int ranks, uint32_t id, void *to);

/* inline_finish - @sums are those of all @hosts, each @step bytes behind the one before: the
 * result. */
void inline_finish(const struct ledger *l, int ranks, int hosts, uint32_t id, const void *sums,
		   uint64_t step);

/* inline_take - the result comes from another leader.  As many bytes as the signature says. */
void inline_take(const struct ledger *l, uint32_t id, const void *result);

/* ---- any rank ---- */

/* inline_result - that of this rank's last operation on @id, or NULL: it did not travel. */
const void *inline_result(const struct ledger *l, uint32_t id);

#endif
