/* coordinator_join.c - asks joined ranks to take part in other ranks' operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/coordinator_state.h"
#include "engine/host_queue.h"
#include "engine/ledger.h"

/* Tells a child to call its joined ranks, which answer what other ranks submit. */
static void send_call(struct coordinator *c, int k, uint32_t id, const struct op_signature *s)
{
	struct frame_out *o = &c->out;

	frame_begin(o, FRAME_CALL);
	op_signature_put(o->data + o->len, s);
	o->len += OP_SIGNATURE_WIRE;
	frame_add(o, ledger_name(c->ledger, id), c->ledger->entries[id].len);
	coordinator_send(c, c->first_child + k, o);
}

int coordinator_call(struct coordinator *c, uint32_t id, const struct op_signature *s,
		     struct err *e)
{
	struct name_state *x = &c->names[id];
	uint32_t same, age;
	int rc;

	/* A tensor on offer may be complete over there by the time the call arrives. */
	for (int k = 0; k < coordinator_children(c) && !(c->offer.open && c->offer.id == id);
	     k++)
		if (coordinator_child(c, k)->joined &&
		    *coordinator_their_id(c, id, k) == NOT_HERE)
			send_call(c, k, id, s);
	if (x->own || x->called || !ledger_joined(c->ledger))
		return 0;
	/* Held until all ranks are ready: otherwise the id might go to another name. */
	rc = ledger_find(c->ledger, ledger_name(c->ledger, id), c->ledger->entries[id].len, s,
			 &same, &age, e);
	if (rc)
		return rc;
	x->called = ledger_call_for(c->ledger, id, x->taken, s);
	if (x->called)
		host_queue_wake(c->host_queue);
	else
		ledger_drop(c->ledger, id);
	return 0;
}

bool coordinator_any_joined(const struct coordinator *c)
{
	for (int k = 0; k < coordinator_children(c); k++)
		if (coordinator_child(c, k)->joined)
			return true;
	return ledger_joined(c->ledger);
}

const struct op_signature *coordinator_some_signature(const struct coordinator *c, uint32_t id)
{
	for (int k = 0; k < coordinator_children(c) && !c->names[id].own; k++)
		if (*coordinator_their_id(c, id, k) != NOT_HERE)
			return &coordinator_child(c, k)
					->known[*coordinator_their_id(c, id, k)]
					->signatures.signature[0];
	return &ledger_record(c->ledger, id, 0)->signature;
}

/* A rank has joined: calls for all tensors that are under way. */
static int call_all(struct coordinator *c, struct err *e)
{
	int rc = 0;

	for (uint32_t id = 0; id < LEDGER_IDS && !rc; id++)
		if (c->names[id].arrived)
			rc = coordinator_call(c, id, coordinator_some_signature(c, id), e);
	return rc;
}

bool coordinator_is_behind(const struct coordinator *c)
{
	return ledger_joined(c->ledger) != __atomic_load_n(&c->seen_joined, __ATOMIC_RELAXED);
}

int coordinator_tell_joined(struct coordinator *c, struct err *e)
{
	bool any = coordinator_any_joined(c), here = ledger_joined(c->ledger),
	     more = here && !c->seen_joined;

	__atomic_store_n(&c->seen_joined, here, __ATOMIC_RELAXED);
	if (!c->is_root && any != c->reported_joined) {
		/* Joined ranks have to be called, and a tensor on offer is not called for. */
		if (any && c->offer.open)
			coordinator_decline(c);
		c->reported_joined = any;
		frame_begin(&c->out, FRAME_JOINED);
		frame_put(&c->out, any, 1);
		coordinator_send(c, 0, &c->out);
	}
	return more ? call_all(c, e) : 0;
}

int coordinator_take_joined(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	uint64_t any = frame_get(f, 1);

	if (f->bad || f->left || any > 1)
		return coordinator_malformed(c, link, "word about joining", e);
	c->link[link].joined = any;
	return any ? call_all(c, e) : 0;
}

int coordinator_take_call(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	const unsigned char *p = frame_bytes(f, OP_SIGNATURE_WIRE), *name;
	size_t len = f->left;
	uint32_t id, age;
	struct op_signature w;
	int rc;

	name = frame_bytes(f, len);
	if (!p || !name || !len || len > NAME_BYTES)
		return coordinator_malformed(c, link, "call", e);
	op_signature_get(p, &w);
	if (!op_signature_valid(&w, c->size))
		return coordinator_malformed(c, link, "call", e);
	rc = ledger_find(c->ledger, (const char *)name, len, &w, &id, &age, e);
	if (rc)
		return rc;
	rc = c->names[id].sent ? 0 : coordinator_call(c, id, &w, e);
	ledger_drop(c->ledger, id);
	return rc;
}
