/* inline.h - small sums between hosts: the data are sent with the announcement. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_INLINE_H
#define ENGINE_INLINE_H

#include <stdbool.h>
#include <stdint.h>

struct ledger;
struct op_signature;

/*
 * A small sum that was agreed before needs no plan of a back end.  Each rank puts its share
 * into its slot (ledger.h), as within one host.  When all ranks of a host have done so, the
 * leader reduces them, and its announcement to the other hosts carries the sum; a leader that
 * knows that all hosts are ready then has all sums, too (coordinator.h).  The result goes into
 * one more slot, behind those of the ranks, which read it when they come to the batch.
 *
 * Sums are added in the order of backend_tcp, for hosts in a row: the bits of a result do not
 * depend on the path.
 */
enum { INLINE_HOSTS = 8 };

/* inline_put - put this rank's share of the operation on @id, of signature @s, into its slot,
 * if it may travel.  Comes between ledger_begin() and agree_post(). */
void inline_put(const struct ledger *l, uint32_t id, const struct op_signature *s,
		const void *in);

/* ---- the leader; all ranks of this host have submitted @id ---- */

/* inline_sum - reduce the ranks' shares to @to; false if a rank has put none.  @ranks: of all
 * hosts. */
bool inline_sum(const struct ledger *l, int ranks, uint32_t id, void *to);

/* inline_finish - reduce @sums of all @hosts, @step bytes apart, to the result, and publish it
 * on this host. */
void inline_finish(const struct ledger *l, int ranks, int hosts, uint32_t id, const void *sums,
		   uint64_t step);

/* inline_take - publish the result of another leader, as many bytes as the signature says. */
void inline_take(const struct ledger *l, uint32_t id, const void *result);

/* ---- any rank ---- */

/* inline_result - the result of this rank's last operation on @id; NULL: it did not travel. */
const void *inline_result(const struct ledger *l, uint32_t id);

#endif
