/* coordinator_offer.c - with two hosts, sends the root's sum early to save a message delay. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/coordinator_state.h"
#include "engine/host_queue.h"
#include "engine/ledger.h"

/* The most chances that the root passes over after declined offers. */
enum { MOST_SKIPPED = 63 };

/*
 * A batch takes two messages: up, and down again.  With two hosts the root can save the delay
 * of one for a small tensor, if nothing else is under way: when its own host is ready, it sends
 * that host's sum as an offer that this tensor be the next batch, and announces nothing else
 * until the child has answered.  The child's announcement of that tensor, with data, accepts
 * the offer, even if it was sent before the offer came; any other announcement after the offer
 * has come is preceded by a frame that declines it.  So both leaders can tell from the order of
 * the frames whether the offer was accepted:
 *
 *	root				child
 *	OFFER n         -----\ /----- READY n, data
 *	coordinator_settle()  <----/ \----> coordinator_accept_offer()
 *
 * A child with no announcement on its way keeps the offer until its own ranks are ready, and
 * is then done.  A child that waits for another tensor declines at once: the root holds back
 * all other batches meanwhile.  So does a child with a joined rank, since no rank is called
 * for a tensor on offer.
 */

bool coordinator_answers(const struct coordinator *c, uint32_t id)
{
	const struct name_state *x = &c->names[id];

	return c->offer.id == id && x->travels && c->offer.bytes == x->bytes;
}

void coordinator_decline(struct coordinator *c)
{
	c->offer.open = false;
	frame_begin(&c->out, FRAME_DECLINE);
	coordinator_send(c, 0, &c->out);
}

/* Runs a batch of one tensor that only the ranks of this host do not know yet. */
static void run_here(struct coordinator *c, uint32_t id)
{
	uint16_t one = (uint16_t)id;

	coordinator_finish(c, id);
	host_queue_publish(c->host_queue, &one, 1);
}

void coordinator_accept_offer(struct coordinator *c, const unsigned char *data)
{
	uint32_t id = c->offer.id;
	struct name_state *x = &c->names[id];

	/* The root waits for this announcement. */
	coordinator_flush_ready(c);
	c->offer.open = false;
	c->sent_count--;
	memcpy(coordinator_sum_of(x, 0), data, x->bytes);
	ledger_judge(c->ledger, id, NULL, false);
	inline_finish(c->ledger, c->size, c->hosts, id, x->sums, x->step);
	run_here(c, id);
}

void coordinator_settle(struct coordinator *c, uint32_t id)
{
	c->offer.open = false;
	c->offer.next_skip = 0;
	c->running++;
	coordinator_judge(c, id);
	run_here(c, id);
}

/* The child's entry for @id, if it certainly has the same meaning there; else NULL. */
static const struct known *known_to_child(const struct coordinator *c, uint32_t id)
{
	uint16_t theirs = c->offer.theirs[id];
	const struct known *n =
		theirs == NOT_HERE ? NULL : coordinator_child(c, 0)->known[theirs];

	return n && n->id == id && n->age == c->ledger->entries[id].age &&
			       coordinator_may_travel(c, n) &&
			       op_signature_equal(&n->signatures.signature[0],
						  &ledger_record(c->ledger, id, 0)->signature)
		       ? n
		       : NULL;
}

/* Is @id the only tensor under way? */
bool coordinator_may_offer(struct coordinator *c, uint32_t id)
{
	const struct name_state *x = &c->names[id];

	if (!c->is_root || c->hosts != 2 || c->offer.open || c->running ||
	    c->due_head != c->due_tail || c->offer.half != 1 || !x->arrived || !x->own ||
	    !x->summed || x->bare || x->dirty || coordinator_child(c, 0)->joined ||
	    !known_to_child(c, id))
		return false;
	return c->offer.skip ? c->offer.skip-- == 0 : true;
}

void coordinator_send_offer(struct coordinator *c, uint32_t id)
{
	const struct name_state *x = &c->names[id];

	c->offer.open = true;
	c->offer.id = id;
	frame_begin(&c->out, FRAME_OFFER);
	frame_put(&c->out, c->offer.theirs[id], 2);
	frame_add(&c->out, coordinator_sum_of(x, c->host), x->bytes);
	coordinator_send(c, c->first_child, &c->out);
}

int coordinator_take_offer(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	struct offer *o = &c->offer;
	uint32_t id = (uint32_t)frame_get(f, 2);
	size_t len = f->left;
	const unsigned char *data = frame_bytes(f, len);

	if (!data || id >= LEDGER_IDS || len > OP_SIGNATURE_INLINE_BYTES || o->open ||
	    c->hosts != 2)
		return coordinator_malformed(c, link, "offer", e);
	o->open = true;
	o->id = id;
	o->bytes = len;
	if (c->names[id].sent && coordinator_answers(c, id))
		coordinator_accept_offer(c, data);
	else if (c->sent_count || c->reported_joined)
		coordinator_decline(c);
	else
		memcpy(o->data, data, len);
	return 0;
}

int coordinator_take_decline(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	struct offer *o = &c->offer;

	if (f->left || !o->open)
		return coordinator_malformed(c, link, "answer", e);
	o->open = false;
	o->next_skip = o->next_skip < MOST_SKIPPED ? 2 * o->next_skip + 1 : MOST_SKIPPED;
	o->skip = o->next_skip;
	return coordinator_child(c, 0)->joined && c->names[o->id].arrived
		       ? coordinator_call(c, o->id, coordinator_some_signature(c, o->id), e)
		       : 0;
}
