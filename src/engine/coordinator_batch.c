/* coordinator_batch.c - sends batches of tensors that are ready everywhere down the tree. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "backend/backend.h"
#include "engine/coordinator_state.h"
#include "engine/host_queue.h"
#include "engine/ledger.h"
#include "wire/pack.h"

static void put_item(struct coordinator *c, struct frame_out *o, uint32_t id, uint32_t theirs)
{
	const char *bad = ledger_verdict(c->ledger, id);
	bool mixed = ledger_is_mixed(c->ledger, id), rows = coordinator_has_rows(c, id);
	size_t len = bad ? strlen(bad) : 0;

	rows = rows && (!bad || mixed);
	frame_put(o,
		  theirs | (rows ? ITEM_ROWS : 0) |
			  (mixed                  ? ITEM_MIXED
			   : bad                  ? ITEM_BAD
			   : c->names[id].travels ? ITEM_DATA
						  : 0),
		  2);
	if (bad) {
		frame_put(o, len, 2);
		frame_add(o, bad, len);
	} else if (c->names[id].travels) {
		frame_add(o, inline_result(c->ledger, id), c->names[id].bytes);
	}
	for (int r = 0; rows && r < c->size; r++)
		frame_put(o, host_queue_rows(c->host_queue, id)[r], 8);
}

static void send_run(struct coordinator *c, int k, const uint16_t *ids, int n)
{
	size_t most = 2 + SENTENCE + 2 + (size_t)c->size * 8;

	if (most < 2 + OP_SIGNATURE_INLINE_BYTES)
		most = 2 + OP_SIGNATURE_INLINE_BYTES;
	frame_begin(&c->out, FRAME_RUN);
	frame_put(&c->out, 0, 1);
	for (int i = 0; i < n; i++) {
		if (c->out.len + most > sizeof(c->out.data)) {
			c->out.data[1] = 1;
			coordinator_send(c, c->first_child + k, &c->out);
			frame_begin(&c->out, FRAME_RUN);
			frame_put(&c->out, 0, 1);
		}
		put_item(c, &c->out, ids[i], *coordinator_their_id(c, ids[i], k));
	}
	coordinator_send(c, c->first_child + k, &c->out);
}

void coordinator_finish(struct coordinator *c, uint32_t id)
{
	for (int k = 0; k < coordinator_children(c); k++) {
		uint16_t *theirs = coordinator_their_id(c, id, k);

		coordinator_child(c, k)->known[*theirs]->flying = false;
		*theirs = NOT_HERE;
		ledger_drop(c->ledger, id);
	}
	if (c->names[id].called)
		ledger_drop(c->ledger, id);
	c->names[id].sent = c->names[id].own = c->names[id].called = false;
	c->names[id].travels = false;
}

/* Children first: their ranks are a message away, this host's ranks hear at once. */
static void coordinator_run(struct coordinator *c, const uint16_t *ids, int n)
{
	for (int k = 0; k < coordinator_children(c); k++)
		send_run(c, k, ids, n);
	for (int i = 0; i < n; i++)
		coordinator_finish(c, ids[i]);
	host_queue_publish(c->host_queue, ids, n);
}

void coordinator_judge(struct coordinator *c, uint32_t id)
{
	struct name_state *x = &c->names[id];
	char bad[SENTENCE];
	struct op_signatures w = { 0 };
	bool mixed;

	if (x->dirty) {
		coordinator_gather_signatures(c, id, &w);
		x->dirty = w.count > 1;
	}
	if (x->dirty)
		op_signatures_text(&w, ledger_name(c->ledger, id), c->ledger->world, bad,
				   sizeof(bad));
	mixed = x->dirty && op_signature_is_mixed(&w.signature[0], &w.signature[1]);
	ledger_judge(c->ledger, id, x->dirty ? bad : NULL, mixed);
	if ((!x->dirty || mixed) && coordinator_has_rows(c, id))
		memcpy(host_queue_rows(c->host_queue, id), x->rows,
		       (size_t)c->size * sizeof(*x->rows));
	if (x->travels)
		inline_finish(c->ledger, c->size, c->hosts, id, x->sums, x->step);
}

/* The number of due tensors in the next batch; *@full: more would not fit. */
static int cut(const struct coordinator *c, bool *full)
{
	uint64_t sum = 0, at = c->due_head;
	int n = 0;

	for (*full = false; at != c->due_tail && !*full; at++) {
		uint16_t id = c->due[at % LEDGER_IDS];

		sum += op_signature_bytes(&ledger_record(c->ledger, id, 0)->signature);
		*full = n && sum > c->cap;
		n += !*full;
		*full |= n == BATCH_ITEMS || sum >= c->cap;
	}
	return n;
}

/* While a batch is under way, the next one is announced only if it is full: so the data path
 * need not wait for a large batch, and small ones are merged into one. */
void coordinator_announce(struct coordinator *c)
{
	uint16_t ids[BATCH_ITEMS];
	bool full;
	int n;

	while (!c->offer.open && (n = cut(c, &full)) && c->running < (full ? 2 : 1)) {
		for (int i = 0; i < n; i++) {
			ids[i] = c->due[c->due_head++ % LEDGER_IDS];
			coordinator_judge(c, ids[i]);
		}
		c->running++;
		coordinator_run(c, ids, n);
	}
}

void coordinator_done(struct coordinator *c)
{
	if (!c->is_root)
		return;
	c->running--;
	coordinator_announce(c);
}

/* Reads one tensor of a batch; its rows, data or verdict go to this host's shared memory. */
static bool read_item(struct coordinator *c, struct frame_in *f)
{
	uint32_t item = (uint32_t)frame_get(f, 2), id = item & ITEM_ID;
	const unsigned char *p;
	bool mixed = (item & ITEM_MIXED) == ITEM_MIXED;
	char bad[SENTENCE];
	size_t len;

	if (f->bad || id >= LEDGER_IDS || !c->names[id].sent || c->batch_count == BATCH_ITEMS)
		return false;
	if (item & ITEM_BAD) {
		len = (size_t)frame_get(f, 2);
		p = frame_bytes(f, len);
		if (!p || !len || len >= sizeof(bad))
			return false;
		memcpy(bad, p, len);
		bad[len] = 0;
	}
	if (!(item & ITEM_ROWS) ==
	    (coordinator_has_rows(c, id) && (!(item & ITEM_BAD) || mixed)))
		return false;
	if (item & ITEM_DATA && !mixed) {
		p = c->names[id].travels ? frame_bytes(f, c->names[id].bytes) : NULL;
		if (!p)
			return false;
		inline_take(c->ledger, id, p);
	} else if (item & ITEM_ROWS) {
		p = frame_bytes(f, (size_t)c->size * 8);
		for (int r = 0; p && r < c->size; r++)
			host_queue_rows(c->host_queue, id)[r] = pack_get64(p + 8 * r);
	}
	if (f->bad)
		return false;
	ledger_judge(c->ledger, id, item & ITEM_BAD ? bad : NULL, mixed);
	c->names[id].sent = false;
	c->sent_count--;
	c->batch[c->batch_count++] = (uint16_t)id;
	return true;
}

int coordinator_take_run(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	uint64_t more = frame_get(f, 1);

	while (f->left)
		if (!read_item(c, f))
			return coordinator_malformed(c, link, "batch", e);
	if (more > 1 || f->bad || !c->batch_count)
		return coordinator_malformed(c, link, "batch", e);
	if (more)
		return 0;
	coordinator_run(c, c->batch, c->batch_count);
	c->batch_count = 0;
	return 0;
}
