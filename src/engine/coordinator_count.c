/* coordinator_count.c - counts the hosts of a subtree that are ready, for each tensor. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/coordinator_state.h"
#include "engine/host_queue.h"
#include "engine/ledger.h"
#include "wire/pack.h"

/* The least distance between the sums of hosts: it aligns elements of any type. */
enum { SUMS_ALIGN = 64 };

static uint64_t *name_state_rows(struct coordinator *c, uint32_t id)
{
	struct name_state *x = &c->names[id];

	if (!x->rows)
		x->rows = calloc((size_t)c->size, sizeof(*x->rows));
	return x->rows;
}

void coordinator_gather_signatures(const struct coordinator *c, uint32_t id,
				   struct op_signatures *s)
{
	memset(s, 0, sizeof(*s));
	host_queue_signatures(c->host_queue, id, s);
	for (int k = 0; k < coordinator_children(c); k++)
		op_signatures_merge(s, &coordinator_child(c, k)
						->known[*coordinator_their_id(c, id, k)]
						->signatures);
}

static void put_rows(struct coordinator *c, struct frame_out *o, uint32_t id)
{
	for (int i = 0; i < c->count; i++)
		frame_put(o, c->names[id].rows[c->ranks[i]], 8);
}

void coordinator_flush_ready(struct coordinator *c)
{
	if (c->ready.len > 1)
		coordinator_send(c, 0, &c->ready);
	frame_begin(&c->ready, FRAME_READY);
}

static void send_define(struct coordinator *c, uint32_t id, const struct op_signatures *s)
{
	const char *name = ledger_name(c->ledger, id);
	struct frame_out *o = &c->out;

	frame_begin(o, FRAME_DEFINE);
	frame_put(o, id, 2);
	frame_put(o, (uint64_t)s->count, 1);
	for (int i = 0; i < s->count; i++) {
		frame_put(o, (uint64_t)s->rank[i], 4);
		op_signature_put(o->data + o->len, &s->signature[i]);
		o->len += OP_SIGNATURE_WIRE;
	}
	if (coordinator_has_rows(c, id))
		put_rows(c, o, id);
	frame_add(o, name, c->ledger->entries[id].len);
	coordinator_send(c, 0, o);
}

static void send_ready(struct coordinator *c, uint32_t id)
{
	const struct name_state *x = &c->names[id];
	bool rows = coordinator_has_rows(c, id);
	size_t need = 2 + (rows ? (size_t)c->count * 8 : x->travels ? x->bytes : 0);

	if (c->ready.len + need > sizeof(c->ready.data))
		coordinator_flush_ready(c);
	frame_put(&c->ready, id | (rows ? ITEM_ROWS : x->travels ? ITEM_DATA : 0), 2);
	if (rows)
		put_rows(c, &c->ready, id);
	else if (x->travels)
		frame_add(&c->ready, coordinator_sum_of(x, c->host), x->bytes);
}

/* ---- inline data, which travel with the announcements ---- */

/* Room for the sum of @host, of @bytes; NULL if the data do not travel after all. */
static unsigned char *sum_room(struct coordinator *c, struct name_state *x, int host,
			       uint64_t bytes)
{
	uint64_t step = (bytes + SUMS_ALIGN) / SUMS_ALIGN * SUMS_ALIGN,
		 all = step * (uint64_t)c->hosts;

	x->bare |= !c->carries || (x->summed && bytes != x->bytes);
	if (!x->bare && all > x->room) {
		free(x->sums);
		x->sums = aligned_alloc(SUMS_ALIGN, all);
		x->room = x->sums ? all : 0;
		x->bare = !x->sums;
	}
	if (x->bare)
		return NULL;
	x->summed = true;
	x->bytes = bytes;
	x->step = step;
	return coordinator_sum_of(x, host);
}

void coordinator_keep_own_sum(struct coordinator *c, uint32_t id)
{
	struct name_state *x = &c->names[id];
	const struct op_signature *s = &ledger_record(c->ledger, id, 0)->signature;
	unsigned char *to = NULL;

	if (!x->dirty && op_signature_can_inline(s))
		to = sum_room(c, x, c->host, op_signature_bytes(s));
	x->bare |= !to || !inline_sum(c->ledger, c->size, id, to);
}

static void keep_sum(struct coordinator *c, uint32_t id, int host, const unsigned char *data,
		     uint64_t bytes)
{
	struct name_state *x = &c->names[id];
	unsigned char *to = data ? sum_room(c, x, host, bytes) : NULL;

	if (to)
		memcpy(to, data, bytes);
	x->bare |= !to;
}

/* All hosts are ready: decides whether the data travel, and resets the marks. */
static void decide_travel(struct name_state *x)
{
	x->travels = x->summed && !x->bare && !x->dirty;
	x->summed = x->bare = false;
}

/* All participants of this subtree are ready. */
static int complete(struct coordinator *c, uint32_t id, struct err *e)
{
	struct name_state *x = &c->names[id];
	struct op_signatures w;

	if (coordinator_has_rows(c, id)) {
		if (!name_state_rows(c, id))
			return fail(e, RINGUP_ENOMEM, "no memory for row counts");
		host_queue_collect(c->host_queue, id, x->rows);
	}
	decide_travel(x);
	if (c->is_root) {
		c->offer.half--;
		if (c->offer.open && c->offer.id == id && x->travels)
			coordinator_settle(c, id);
		else
			c->due[c->due_tail++ % LEDGER_IDS] = (uint16_t)id;
		return 0;
	}
	/* First, so that the root does not take this announcement for its answer. */
	if (c->offer.open && !coordinator_answers(c, id))
		coordinator_decline(c);
	x->sent = true;
	c->sent_count++;
	if (!x->dirty) {
		send_ready(c, id);
		if (c->offer.open)
			coordinator_accept_offer(c, c->offer.data);
		return 0;
	}
	coordinator_gather_signatures(c, id, &w);
	x->dirty = w.count > 1;
	send_define(c, id, &w);
	return 0;
}

/* ---- arrivals ---- */

int coordinator_count(struct coordinator *c, uint32_t id, struct err *e)
{
	struct name_state *x = &c->names[id];

	c->offer.half += !x->arrived;
	if (++x->arrived <= coordinator_children(c))
		return x->arrived == 1 && coordinator_any_joined(c)
			       ? coordinator_call(c, id, coordinator_some_signature(c, id), e)
			       : 0;
	x->arrived = 0;
	return complete(c, id, e);
}

/* Holds this host's id for the child's name; the id may have gone to another name meanwhile. */
static int hold(struct coordinator *c, struct known *n, struct err *e)
{
	if (n->age != UINT32_MAX && ledger_hold(c->ledger, n->id, n->age))
		return 0;
	return ledger_find(c->ledger, n->name, n->len, &n->signatures.signature[0], &n->id,
			   &n->age, e);
}

/* A child's subtree is ready for its own id @theirs, with @rows or @data or neither. */
static int arrive(struct coordinator *c, int link, uint32_t theirs, const unsigned char *rows,
		  const unsigned char *data, struct err *e)
{
	const struct link *l = &c->link[link];
	struct known *n = l->known[theirs];
	uint16_t *slot;
	uint64_t *to;
	int rc;

	if (n->flying)
		return fail(e, RINGUP_EPEER, "rank %d announced %.100s twice", l->leader,
			    n->name);
	rc = hold(c, n, e);
	if (rc)
		return rc;
	slot = coordinator_their_id(c, n->id, link - c->first_child);
	if (*slot != NOT_HERE) {
		ledger_drop(c->ledger, n->id);
		return fail(e, RINGUP_EPEER, "rank %d has two numbers for %.100s", l->leader,
			    n->name);
	}
	*slot = c->offer.theirs[n->id] = (uint16_t)theirs;
	n->flying = true;
	keep_sum(c, n->id, c->host + 1 + link - c->first_child, data,
		 op_signature_bytes(&n->signatures.signature[0]));
	to = rows ? name_state_rows(c, n->id) : NULL;
	if (rows && !to)
		return fail(e, RINGUP_ENOMEM, "no memory for row counts");
	for (int i = 0; rows && i < l->count; i++)
		to[l->ranks[i]] = pack_get64(rows + 8 * i);
	if (c->ev.arrived)
		c->ev.arrived(c->ev.ctx, n->id, &n->signatures.signature[0], l->ranks,
			      l->count);
	return coordinator_count(c, n->id, e);
}

static bool is_in_subtree(const struct link *l, uint64_t rank)
{
	for (int i = 0; i < l->count; i++)
		if ((uint64_t)l->ranks[i] == rank)
			return true;
	return false;
}

/* Reads one or two signatures, of ranks of that subtree in ascending order. */
static bool read_signatures(const struct coordinator *c, const struct link *l,
			    struct frame_in *f, struct op_signatures *s)
{
	uint64_t n = frame_get(f, 1), rank;

	memset(s, 0, sizeof(*s));
	if (n < 1 || n > 2)
		return false;
	for (int i = 0; i < (int)n; i++) {
		const unsigned char *p;

		rank = frame_get(f, 4);
		p = frame_bytes(f, OP_SIGNATURE_WIRE);
		if (!p || !is_in_subtree(l, rank) || (i && (int)rank <= s->rank[0]))
			return false;
		op_signature_get(p, &s->signature[i]);
		s->rank[i] = (int)rank;
		if (!op_signature_valid(&s->signature[i], c->size))
			return false;
	}
	s->count = (int)n;
	return true;
}

static struct known *known_as(struct link *l, uint32_t id, const char *name, size_t len)
{
	struct known *n = l->known[id];

	if (n && n->len == len && !memcmp(n->name, name, len))
		return n;
	n = calloc(1, sizeof(*n) + len + 1);
	if (!n)
		return NULL;
	memcpy(n->name, name, len);
	n->len = len;
	n->age = UINT32_MAX;
	free(l->known[id]);
	l->known[id] = n;
	return n;
}

int coordinator_take_define(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	struct link *l = &c->link[link];
	uint32_t id = (uint32_t)frame_get(f, 2);
	const unsigned char *rows = NULL, *name;
	struct known *n;
	struct op_signatures w;
	size_t len;

	if (id >= LEDGER_IDS || !read_signatures(c, l, f, &w))
		return coordinator_malformed(c, link, "definition", e);
	if (op_signature_has_rows(&w.signature[0]))
		rows = frame_bytes(f, (size_t)l->count * 8);
	len = f->left;
	name = frame_bytes(f, len);
	if (!name || !len || len > NAME_BYTES)
		return coordinator_malformed(c, link, "definition", e);
	if (l->known[id] && l->known[id]->flying)
		return fail(e, RINGUP_EPEER, "rank %d renamed a tensor in flight", l->leader);
	n = known_as(l, id, (const char *)name, len);
	if (!n)
		return fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
	n->signatures = w;
	/* Before the arrival is counted; hold() finds this host's id. */
	if (hold(c, n, e))
		return e->code;
	c->names[n->id].dirty = true;
	ledger_drop(c->ledger, n->id);
	return arrive(c, link, id, rows, NULL, e);
}

bool coordinator_may_travel(const struct coordinator *c, const struct known *n)
{
	return c->carries && n->signatures.count == 1 &&
	       op_signature_can_inline(&n->signatures.signature[0]);
}

int coordinator_take_ready(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	struct link *l = &c->link[link];
	int rc = 0;

	while (f->left && !rc) {
		uint32_t item = (uint32_t)frame_get(f, 2), id = item & ITEM_ID;
		const unsigned char *rows = NULL, *data = NULL;

		if (f->bad || item & ITEM_BAD || id >= LEDGER_IDS || !l->known[id] ||
		    !(item & ITEM_ROWS) ==
			    op_signature_has_rows(&l->known[id]->signatures.signature[0]) ||
		    (item & ITEM_DATA && !coordinator_may_travel(c, l->known[id])))
			return coordinator_malformed(c, link, "announcement", e);
		if (item & ITEM_ROWS)
			rows = frame_bytes(f, (size_t)l->count * 8);
		if (item & ITEM_DATA)
			data = frame_bytes(
				f, op_signature_bytes(&l->known[id]->signatures.signature[0]));
		if (f->bad)
			return coordinator_malformed(c, link, "announcement", e);
		rc = arrive(c, link, id, rows, data, e);
	}
	return rc;
}
