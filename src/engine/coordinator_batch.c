/* coordinator_batch.c - sends batches of tensors that are ready everywhere down the tree. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "backend/backend.h"
#include "engine/coordinator_state.h"
#include "engine/host_queue.h"
#include "engine/ledger.h"
#include "wire/pack.h"

static void put_item(struct coordinator *t, struct frame_out *o, uint32_t id, uint32_t theirs)
{
	const char *bad = ledger_verdict(t->ledger, id);
	size_t len = bad ? strlen(bad) : 0;

	if (bad) {
		frame_put(o, theirs | ITEM_BAD, 2);
		frame_put(o, len, 2);
		frame_add(o, bad, len);
	} else if (coordinator_has_rows(t, id)) {
		frame_put(o, theirs | ITEM_ROWS, 2);
		for (int r = 0; r < t->size; r++)
			frame_put(o, host_queue_rows(t->host_queue, id)[r], 8);
	} else if (t->topics[id].travels) {
		frame_put(o, theirs | ITEM_DATA, 2);
		frame_add(o, inline_result(t->ledger, id), t->topics[id].bytes);
	} else {
		frame_put(o, theirs, 2);
	}
}

static void send_run(struct coordinator *t, int k, const uint16_t *ids, int n)
{
	size_t most = 2 + SENTENCE + 2;

	if (most < 2 + (size_t)t->size * 8)
		most = 2 + (size_t)t->size * 8;
	if (most < 2 + OP_SIGNATURE_INLINE_BYTES)
		most = 2 + OP_SIGNATURE_INLINE_BYTES;
	frame_begin(&t->out, FRAME_RUN);
	frame_put(&t->out, 0, 1);
	for (int i = 0; i < n; i++) {
		if (t->out.len + most > sizeof(t->out.data)) {
			t->out.data[1] = 1;
			coordinator_send(t, t->first_child + k, &t->out);
			frame_begin(&t->out, FRAME_RUN);
			frame_put(&t->out, 0, 1);
		}
		put_item(t, &t->out, ids[i], *coordinator_their_id(t, ids[i], k));
	}
	coordinator_send(t, t->first_child + k, &t->out);
}

void coordinator_finish(struct coordinator *t, uint32_t id)
{
	for (int k = 0; k < coordinator_children(t); k++) {
		uint16_t *theirs = coordinator_their_id(t, id, k);

		coordinator_child(t, k)->known[*theirs]->flying = false;
		*theirs = NOT_HERE;
		ledger_drop(t->ledger, id);
	}
	if (t->topics[id].called)
		ledger_drop(t->ledger, id);
	t->topics[id].sent = t->topics[id].own = t->topics[id].called = false;
	t->topics[id].travels = false;
}

/* Children first: their ranks are a message away, this host's ranks hear at once. */
static void coordinator_run(struct coordinator *t, const uint16_t *ids, int n)
{
	for (int k = 0; k < coordinator_children(t); k++)
		send_run(t, k, ids, n);
	for (int i = 0; i < n; i++)
		coordinator_finish(t, ids[i]);
	host_queue_publish(t->host_queue, ids, n);
}

void coordinator_judge(struct coordinator *t, uint32_t id)
{
	struct topic *x = &t->topics[id];
	char bad[SENTENCE];
	struct op_signatures w;

	if (x->dirty) {
		coordinator_gather_signatures(t, id, &w);
		x->dirty = w.count > 1;
	}
	if (x->dirty)
		op_signatures_text(&w, ledger_name(t->ledger, id), t->ledger->world, bad,
				   sizeof(bad));
	ledger_judge(t->ledger, id, x->dirty ? bad : NULL);
	if (!x->dirty && coordinator_has_rows(t, id))
		memcpy(host_queue_rows(t->host_queue, id), x->rows,
		       (size_t)t->size * sizeof(*x->rows));
	if (x->travels)
		inline_finish(t->ledger, t->size, t->hosts, id, x->sums, x->step);
}

/* The number of due tensors in the next batch; *@full: more would not fit. */
static int cut(const struct coordinator *t, bool *full)
{
	uint64_t sum = 0, at = t->due_head;
	int n = 0;

	for (*full = false; at != t->due_tail && !*full; at++) {
		uint16_t id = t->due[at % LEDGER_IDS];

		sum += op_signature_bytes(&ledger_record(t->ledger, id, 0)->signature);
		*full = n && sum > t->cap;
		n += !*full;
		*full |= n == BATCH_ITEMS || sum >= t->cap;
	}
	return n;
}

/* While a batch is under way, the next one is announced only if it is full: so the data path
 * need not wait for a large batch, and small ones are merged into one. */
void coordinator_announce(struct coordinator *t)
{
	uint16_t ids[BATCH_ITEMS];
	bool full;
	int n;

	while (!t->offer.open && (n = cut(t, &full)) && t->running < (full ? 2 : 1)) {
		for (int i = 0; i < n; i++) {
			ids[i] = t->due[t->due_head++ % LEDGER_IDS];
			coordinator_judge(t, ids[i]);
		}
		t->running++;
		coordinator_run(t, ids, n);
	}
}

void coordinator_done(struct coordinator *t)
{
	if (!t->is_root)
		return;
	t->running--;
	coordinator_announce(t);
}

/* Reads one tensor of a batch; its rows, data or verdict go to this host's shared memory. */
static bool read_item(struct coordinator *t, struct frame_in *f)
{
	uint32_t item = (uint32_t)frame_get(f, 2), id = item & ITEM_ID;
	const unsigned char *p;
	char bad[SENTENCE];
	size_t len;

	if (f->bad || id >= LEDGER_IDS || !t->topics[id].sent || t->batch_count == BATCH_ITEMS)
		return false;
	if (item & ITEM_BAD) {
		len = (size_t)frame_get(f, 2);
		p = frame_bytes(f, len);
		if (!p || !len || len >= sizeof(bad) || item & ITEM_ROWS)
			return false;
		memcpy(bad, p, len);
		bad[len] = 0;
	} else if (!(item & ITEM_ROWS) == coordinator_has_rows(t, id)) {
		return false;
	} else if (item & ITEM_DATA) {
		p = t->topics[id].travels ? frame_bytes(f, t->topics[id].bytes) : NULL;
		if (!p)
			return false;
		inline_take(t->ledger, id, p);
	} else if (item & ITEM_ROWS) {
		p = frame_bytes(f, (size_t)t->size * 8);
		for (int r = 0; p && r < t->size; r++)
			host_queue_rows(t->host_queue, id)[r] = pack_get64(p + 8 * r);
	}
	if (f->bad)
		return false;
	ledger_judge(t->ledger, id, item & ITEM_BAD ? bad : NULL);
	t->topics[id].sent = false;
	t->sent_count--;
	t->batch[t->batch_count++] = (uint16_t)id;
	return true;
}

int coordinator_take_run(struct coordinator *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t more = frame_get(f, 1);

	while (f->left)
		if (!read_item(t, f))
			return coordinator_malformed(t, link, "batch", e);
	if (more > 1 || f->bad || !t->batch_count)
		return coordinator_malformed(t, link, "batch", e);
	if (more)
		return 0;
	coordinator_run(t, t->batch, t->batch_count);
	t->batch_count = 0;
	return 0;
}
