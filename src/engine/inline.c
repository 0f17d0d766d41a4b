/* inline.c - small sums between hosts: the data are sent with the announcement. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/inline.h"

#include "coll/copy.h"
#include "coll/reduce.h"
#include "engine/ledger.h"
#include "wire/grid.h"

enum { LOCAL_RANKS = 4096 };

/* Only hosts in a row have their sums added in the order of hosts. */
_Static_assert((int)INLINE_HOSTS <= (int)GRID_RADIX, "one dimension");

void inline_put(const struct ledger *l, uint32_t id, const struct op_signature *s,
		const void *in)
{
	uint32_t round = ledger_round(l, id);
	struct eager_slots at;

	if (!op_signature_can_inline(s) || !ledger_fits(l, id, op_signature_bytes(s)))
		return;
	at = ledger_slots(l, id, round);
	if (s->pre != 1)
		copy_scaled((enum ringup_dtype)s->dtype, ledger_data(&at, l->rank), in,
			    s->count, s->pre);
	else
		copy_bytes(ledger_data(&at, l->rank), in, op_signature_bytes(s));
	ledger_put(&at, l->rank, round, SLOT_DATA);
}

static struct reduce how_to(const struct op_signature *s, int ranks, bool last)
{
	struct reduce how = { .dtype = (enum ringup_dtype)s->dtype,
			      .redop = (enum ringup_redop)s->redop,
			      .divisor = (uint32_t)ranks,
			      .post = last ? s->post : 1 };

	if (!last && how.redop == RINGUP_AVERAGE)
		how.redop = RINGUP_SUM;
	return how;
}

bool inline_sum(const struct ledger *l, int ranks, uint32_t id, void *to)
{
	const struct op_signature *s = &ledger_record(l, id, 0)->signature;
	struct reduce how = how_to(s, ranks, false);
	uint32_t round = ledger_round(l, id);
	const void *src[LOCAL_RANKS];
	struct eager_slots at;

	if (!op_signature_can_inline(s) || !ledger_fits(l, id, op_signature_bytes(s)))
		return false;
	at = ledger_slots(l, id, round);
	for (int r = 0; r < l->ranks; r++) {
		if (ledger_look(&at, r, round) != SLOT_DATA)
			return false;
		src[r] = ledger_data(&at, r);
	}
	if (s->count)
		reduce_many(&how, &to, 1, src, l->ranks, s->count);
	return true;
}

/* The slot for the result. */
static void *result_slot(const struct ledger *l, struct eager_slots *at, uint32_t id)
{
	*at = ledger_slots(l, id, ledger_round(l, id));
	return ledger_data(at, l->ranks);
}

static void publish(const struct ledger *l, const struct eager_slots *at, uint32_t id)
{
	ledger_put(at, l->ranks, ledger_round(l, id), SLOT_DATA);
}

void inline_finish(const struct ledger *l, int ranks, int hosts, uint32_t id, const void *sums,
		   uint64_t step)
{
	const struct op_signature *s = &ledger_record(l, id, 0)->signature;
	const void *src[INLINE_HOSTS];
	struct reduce how = how_to(s, ranks, true);
	struct eager_slots at;
	void *to = result_slot(l, &at, id);

	for (int h = 0; h < hosts; h++)
		src[h] = (const unsigned char *)sums + (uint64_t)h * step;
	if (s->count)
		reduce_many(&how, &to, 1, src, hosts, s->count);
	publish(l, &at, id);
}

void inline_take(const struct ledger *l, uint32_t id, const void *result)
{
	struct eager_slots at;
	void *to = result_slot(l, &at, id);

	copy_bytes(to, result, op_signature_bytes(&ledger_record(l, id, 0)->signature));
	publish(l, &at, id);
}

const void *inline_result(const struct ledger *l, uint32_t id)
{
	uint32_t round = ledger_round(l, id);
	struct eager_slots at;

	if (!ledger_fits(l, id, 0))
		return NULL;
	at = ledger_slots(l, id, round);
	return ledger_look(&at, l->ranks, round) == SLOT_DATA ? ledger_data(&at, l->ranks)
							      : NULL;
}
