/* coordinator_join.c - calls ranks that have joined for what other ranks submit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/coordinator_state.h"
#include "engine/host_queue.h"
#include "engine/ledger.h"

/* Tells a child to call its joined ranks, which answer what other ranks submit. */
static void send_call(struct coordinator *t, int k, uint32_t id, const struct op_signature *w)
{
	struct frame_out *o = &t->out;

	frame_begin(o, FRAME_CALL);
	op_signature_put(o->data + o->len, w);
	o->len += OP_SIGNATURE_WIRE;
	frame_add(o, ledger_name(t->ledger, id), t->ledger->entries[id].len);
	coordinator_send(t, t->first_child + k, o);
}

int coordinator_call(struct coordinator *t, uint32_t id, const struct op_signature *w,
		     struct err *e)
{
	struct topic *x = &t->topics[id];
	uint32_t same, age;
	int rc;

	/* A tensor on offer may be complete over there by the time the call arrives. */
	for (int k = 0; k < coordinator_children(t) && !(t->offer.open && t->offer.id == id);
	     k++)
		if (coordinator_child(t, k)->joined &&
		    *coordinator_their_id(t, id, k) == NOT_HERE)
			send_call(t, k, id, w);
	if (x->own || x->called || !ledger_joined(t->ledger))
		return 0;
	/* Held until all ranks are ready: otherwise the id might go to another name. */
	rc = ledger_find(t->ledger, ledger_name(t->ledger, id), t->ledger->entries[id].len, w,
			 &same, &age, e);
	if (rc)
		return rc;
	x->called = ledger_call_for(t->ledger, id, x->taken, w);
	if (x->called)
		host_queue_wake(t->host_queue);
	else
		ledger_drop(t->ledger, id);
	return 0;
}

bool coordinator_any_joined(const struct coordinator *t)
{
	for (int k = 0; k < coordinator_children(t); k++)
		if (coordinator_child(t, k)->joined)
			return true;
	return ledger_joined(t->ledger);
}

const struct op_signature *coordinator_some_signature(const struct coordinator *t, uint32_t id)
{
	for (int k = 0; k < coordinator_children(t) && !t->topics[id].own; k++)
		if (*coordinator_their_id(t, id, k) != NOT_HERE)
			return &coordinator_child(t, k)
					->known[*coordinator_their_id(t, id, k)]
					->signatures.signature[0];
	return &ledger_record(t->ledger, id, 0)->signature;
}

/* A rank has joined: calls for all tensors that are under way. */
static int call_all(struct coordinator *t, struct err *e)
{
	int rc = 0;

	for (uint32_t id = 0; id < LEDGER_IDS && !rc; id++)
		if (t->topics[id].arrived)
			rc = coordinator_call(t, id, coordinator_some_signature(t, id), e);
	return rc;
}

bool coordinator_is_behind(const struct coordinator *t)
{
	return ledger_joined(t->ledger) != __atomic_load_n(&t->seen_joined, __ATOMIC_RELAXED);
}

int coordinator_tell_joined(struct coordinator *t, struct err *e)
{
	bool any = coordinator_any_joined(t), here = ledger_joined(t->ledger),
	     more = here && !t->seen_joined;

	__atomic_store_n(&t->seen_joined, here, __ATOMIC_RELAXED);
	if (!t->is_root && any != t->told_joined) {
		/* Joined ranks have to be called, and a tensor on offer is not called for. */
		if (any && t->offer.open)
			coordinator_decline(t);
		t->told_joined = any;
		frame_begin(&t->out, FRAME_JOINED);
		frame_put(&t->out, any, 1);
		coordinator_send(t, 0, &t->out);
	}
	return more ? call_all(t, e) : 0;
}

int coordinator_take_joined(struct coordinator *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t any = frame_get(f, 1);

	if (f->bad || f->left || any > 1)
		return coordinator_malformed(t, link, "word about joining", e);
	t->link[link].joined = any;
	return any ? call_all(t, e) : 0;
}

int coordinator_take_call(struct coordinator *t, int link, struct frame_in *f, struct err *e)
{
	const unsigned char *p = frame_bytes(f, OP_SIGNATURE_WIRE), *name;
	size_t len = f->left;
	uint32_t id, age;
	struct op_signature w;
	int rc;

	name = frame_bytes(f, len);
	if (!p || !name || !len || len > NAME_BYTES)
		return coordinator_malformed(t, link, "call", e);
	op_signature_get(p, &w);
	if (!op_signature_valid(&w, t->size))
		return coordinator_malformed(t, link, "call", e);
	rc = ledger_find(t->ledger, (const char *)name, len, &w, &id, &age, e);
	if (rc)
		return rc;
	rc = t->topics[id].sent ? 0 : coordinator_call(t, id, &w, e);
	ledger_drop(t->ledger, id);
	return rc;
}
