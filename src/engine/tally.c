/* tally.c - count what is ready on all hosts, up a tree of hosts, and order it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tally.h"

#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/err.h"
#include "engine/frame.h"
#include "engine/ledger.h"
#include "engine/parcel.h"
#include "engine/span.h"
#include "ringup.h"
#include "wire/pack.h"

enum {
	ITEM_ROWS = 1 << 15,
	ITEM_BAD = 1 << 14,
	ITEM_DATA = 1 << 13,
	ITEM_ID = ITEM_DATA - 1,
	NOT_HERE = 0xffff,
	SENTENCE = 400,
	WANTS_WIRE = 3 + 2 * (4 + WANT_WIRE),
};
_Static_assert((int)LEDGER_IDS - 1 <= (int)ITEM_ID, "an id fits below the marks");

/* Sums of several hosts lie so far apart at least: types of any size are aligned. */
enum { SUMS_ALIGN = 64, MOST_SKIPPED = 63 };

/* What a child calls by one of its numbers. */
struct known {
	uint32_t id, age; /* ours, as the ledger gave it */
	bool flying;
	struct wants wants;
	size_t len;
	char name[];
};

/* A neighbour; the parent, if there is one, is link 0. */
struct link {
	int leader;
	bool gone;
	/* Of a child. */
	int *ranks, count; /* in its subtree, ascending */
	bool joined;       /* some of them have nothing more to do */
	struct known **known;
};

/* One of our own numbers. */
struct topic {
	int arrived;
	bool dirty;     /* wants have to be compared, or were not equal */
	bool sent;      /* the parent has been told                    */
	bool own;       /* the ranks of this host are in               */
	bool called;    /* those of this host that have joined have been called: we hold it */
	bool bare;      /* somebody came without data                  */
	bool summed;    /* and somebody, or several, with them         */
	bool travels;   /* all came with data: so does the answer     */
	uint64_t bytes; /* of a host's sum, and from one to the next */
	uint64_t step, room;
	unsigned char *sums;
	uint64_t *rows;
};

/* The root has sent its host's sum first, and waits for the answer; or its child has not
 * answered yet. */
struct offer {
	bool open;
	uint32_t id;
	uint64_t bytes;
	unsigned char data[PARCEL_BYTES];
	int half;                    /* the root: tensors that some hosts are in for        */
	int skip, next_skip;         /* chances that it lets pass after one that was declined */
	uint16_t theirs[LEDGER_IDS]; /* the child's numbers when it used them last   */
};

struct tally {
	struct ledger *ledger;
	struct tally_events ev;
	int size, hosts, host, first_child, links;
	bool is_root, left, alarmed;
	bool carries;         /* data travel with the announcements */
	bool told_joined;     /* to the parent                           */
	uint32_t seen_joined; /* of this host, when we looked; atomic    */
	uint64_t cap;
	int *ranks, count; /* of the own subtree */
	struct link *link;
	struct topic *topics; /* LEDGER_IDS */
	uint16_t *theirs;     /* by id and child: the child's number, or NOT_HERE */
	struct frame_out ready, out;
	uint16_t batch[BATCH_ITEMS]; /* being received */
	int batch_count;
	int sent_count; /* to the parent, and not answered */
	struct offer offer;
	/* The root's. */
	uint16_t due[LEDGER_IDS];
	uint64_t due_head, due_tail;
	int running; /* batches announced and not done */
};

/* ---- frames ---- */

static void send_out(struct tally *t, int link, const struct frame_out *o)
{
	t->ev.send(t->ev.ctx, link, o->data, o->len);
}

static void flood(struct tally *t, int except, const struct frame_out *o)
{
	int k;

	for (k = 0; k < t->links; k++)
		if (k != except)
			send_out(t, k, o);
}

static int malformed(const struct tally *t, int link, const char *what, struct err *e)
{
	return fail(e, RINGUP_EPEER, "rank %d sent a malformed %s", t->link[link].leader, what);
}

/* ---- counting ---- */

static struct link *child(const struct tally *t, int k)
{
	return &t->link[t->first_child + k];
}

static int children(const struct tally *t)
{
	return t->links - t->first_child;
}

static uint16_t *their_id(const struct tally *t, uint32_t id, int k)
{
	return &t->theirs[(size_t)id * (size_t)children(t) + (size_t)k];
}

static bool has_rows(const struct tally *t, uint32_t id)
{
	return want_has_rows(&ledger_record(t->ledger, id, 0)->want);
}

static uint64_t *topic_rows(struct tally *t, uint32_t id)
{
	struct topic *x = &t->topics[id];

	if (!x->rows)
		x->rows = calloc((size_t)t->size, sizeof(*x->rows));
	return x->rows;
}

static void gather_wants(const struct tally *t, uint32_t id, struct wants *w)
{
	int k;

	memset(w, 0, sizeof(*w));
	span_wants(t->ledger, id, w);
	for (k = 0; k < children(t); k++)
		wants_merge(w, &child(t, k)->known[*their_id(t, id, k)]->wants);
}

static void put_rows(struct tally *t, struct frame_out *o, uint32_t id)
{
	int i;

	for (i = 0; i < t->count; i++)
		frame_put(o, t->topics[id].rows[t->ranks[i]], 8);
}

static void flush_ready(struct tally *t)
{
	if (t->ready.len > 1)
		send_out(t, 0, &t->ready);
	frame_begin(&t->ready, FRAME_READY);
}

static void send_define(struct tally *t, uint32_t id, const struct wants *w)
{
	const char *name = ledger_name(t->ledger, id);
	struct frame_out *o = &t->out;
	int i;

	frame_begin(o, FRAME_DEFINE);
	frame_put(o, id, 2);
	frame_put(o, (uint64_t)w->count, 1);
	for (i = 0; i < w->count; i++) {
		frame_put(o, (uint64_t)w->rank[i], 4);
		want_put(o->data + o->len, &w->want[i]);
		o->len += WANT_WIRE;
	}
	if (has_rows(t, id))
		put_rows(t, o, id);
	frame_add(o, name, t->ledger->entries[id].len);
	send_out(t, 0, o);
}

static unsigned char *sum_of(const struct topic *x, int host)
{
	return x->sums + (uint64_t)host * x->step;
}

static void send_ready(struct tally *t, uint32_t id)
{
	const struct topic *x = &t->topics[id];
	bool rows = has_rows(t, id);
	size_t need = 2 + (rows ? (size_t)t->count * 8 : x->travels ? x->bytes : 0);

	if (t->ready.len + need > sizeof(t->ready.data))
		flush_ready(t);
	frame_put(&t->ready, id | (rows ? ITEM_ROWS : x->travels ? ITEM_DATA : 0), 2);
	if (rows)
		put_rows(t, &t->ready, id);
	else if (x->travels)
		frame_add(&t->ready, sum_of(x, t->host), x->bytes);
}

/* ---- data that travel with what is said ---- */

/* Room for the sum of @host, of @bytes; NULL if the data do not travel after all. */
static unsigned char *sum_room(struct tally *t, struct topic *x, int host, uint64_t bytes)
{
	uint64_t step = (bytes + SUMS_ALIGN) / SUMS_ALIGN * SUMS_ALIGN,
		 all = step * (uint64_t)t->hosts;

	x->bare |= !t->carries || (x->summed && bytes != x->bytes);
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
	return sum_of(x, host);
}

static void keep_own_sum(struct tally *t, uint32_t id)
{
	struct topic *x = &t->topics[id];
	const struct want *w = &ledger_record(t->ledger, id, 0)->want;
	unsigned char *to = NULL;

	if (!x->dirty && parcel_kind(w))
		to = sum_room(t, x, t->host, want_bytes(w));
	x->bare |= !to || !parcel_sum(t->ledger, id, to);
}

static void keep_sum(struct tally *t, uint32_t id, int host, const unsigned char *data,
		     uint64_t bytes)
{
	struct topic *x = &t->topics[id];
	unsigned char *to = data ? sum_room(t, x, host, bytes) : NULL;

	if (to)
		memcpy(to, data, bytes);
	x->bare |= !to;
}

/* All are in: do the data travel?  What was noted on the way is for the next time. */
static void decide_travel(struct topic *x)
{
	x->travels = x->summed && !x->bare && !x->dirty;
	x->summed = x->bare = false;
}

static void decline(struct tally *t)
{
	t->offer.open = false;
	frame_begin(&t->out, FRAME_DECLINE);
	send_out(t, 0, &t->out);
}

static bool answers(const struct tally *t, uint32_t id);
static void accept_offer(struct tally *t, const unsigned char *data);
static void settle(struct tally *t, uint32_t id);

/* All of this subtree are in. */
static int complete(struct tally *t, uint32_t id, struct err *e)
{
	struct topic *x = &t->topics[id];
	struct wants w;

	if (has_rows(t, id)) {
		if (!topic_rows(t, id))
			return fail(e, RINGUP_ENOMEM, "no memory for row counts");
		span_collect(t->ledger, id, x->rows);
	}
	decide_travel(x);
	if (t->is_root) {
		t->offer.half--;
		if (t->offer.open && t->offer.id == id && x->travels)
			settle(t, id);
		else
			t->due[t->due_tail++ % LEDGER_IDS] = (uint16_t)id;
		return 0;
	}
	/* First, so that the root knows that this is no answer to it. */
	if (t->offer.open && !answers(t, id))
		decline(t);
	x->sent = true;
	t->sent_count++;
	if (!x->dirty) {
		send_ready(t, id);
		if (t->offer.open)
			accept_offer(t, t->offer.data);
		return 0;
	}
	gather_wants(t, id, &w);
	x->dirty = w.count > 1;
	send_define(t, id, &w);
	return 0;
}

/* ---- ranks that have joined ---- */

/* They answer what others submit; so they have to hear of it. */
static void send_call(struct tally *t, int k, uint32_t id, const struct want *w)
{
	struct frame_out *o = &t->out;

	frame_begin(o, FRAME_CALL);
	want_put(o->data + o->len, w);
	o->len += WANT_WIRE;
	frame_add(o, ledger_name(t->ledger, id), t->ledger->entries[id].len);
	send_out(t, t->first_child + k, o);
}

/* Call, in this subtree, whoever has joined and is not in yet. */
static int call(struct tally *t, uint32_t id, const struct want *w, struct err *e)
{
	struct topic *x = &t->topics[id];
	uint32_t same, age;
	int k, rc;

	for (k = 0; k < children(t); k++)
		if (child(t, k)->joined && *their_id(t, id, k) == NOT_HERE)
			send_call(t, k, id, w);
	if (x->own || x->called || !ledger_joined(t->ledger))
		return 0;
	/* Held until all are in, or it would be another name's by then. */
	rc = agree_ledger.find(t->ledger, ledger_name(t->ledger, id),
			       t->ledger->entries[id].len, w, &same, &age, e);
	if (rc)
		return rc;
	x->called = ledger_call_for(t->ledger, id, w);
	if (x->called)
		span_wake(t->ledger);
	else
		agree_ledger.drop(t->ledger, id);
	return 0;
}

static bool any_joined(const struct tally *t)
{
	int k;

	for (k = 0; k < children(t); k++)
		if (child(t, k)->joined)
			return true;
	return ledger_joined(t->ledger);
}

/* What somebody who is in wants of it. */
static const struct want *some_want(const struct tally *t, uint32_t id)
{
	int k;

	for (k = 0; k < children(t) && !t->topics[id].own; k++)
		if (*their_id(t, id, k) != NOT_HERE)
			return &child(t, k)->known[*their_id(t, id, k)]->wants.want[0];
	return &ledger_record(t->ledger, id, 0)->want;
}

/* Somebody has joined: call for all that is under way. */
static int call_all(struct tally *t, struct err *e)
{
	uint32_t id;
	int rc = 0;

	for (id = 0; id < LEDGER_IDS && !rc; id++)
		if (t->topics[id].arrived)
			rc = call(t, id, some_want(t, id), e);
	return rc;
}

bool tally_is_behind(const struct tally *t)
{
	return ledger_joined(t->ledger) != __atomic_load_n(&t->seen_joined, __ATOMIC_RELAXED);
}

/* The parent has to know whether to call us. */
static int tell_joined(struct tally *t, struct err *e)
{
	bool any = any_joined(t), here = ledger_joined(t->ledger),
	     more = here && !t->seen_joined;

	__atomic_store_n(&t->seen_joined, here, __ATOMIC_RELAXED);
	if (!t->is_root && any != t->told_joined) {
		t->told_joined = any;
		frame_begin(&t->out, FRAME_JOINED);
		frame_put(&t->out, any, 1);
		send_out(t, 0, &t->out);
	}
	return more ? call_all(t, e) : 0;
}

static int take_joined(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t any = frame_get(f, 1);

	if (f->bad || f->left || any > 1)
		return malformed(t, link, "word about joining", e);
	t->link[link].joined = any;
	return any ? call_all(t, e) : 0;
}

static int take_call(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	const unsigned char *p = frame_bytes(f, WANT_WIRE), *name;
	size_t len = f->left;
	uint32_t id, age;
	struct want w;
	int rc;

	name = frame_bytes(f, len);
	if (!p || !name || !len || len > NAME_BYTES)
		return malformed(t, link, "call", e);
	want_get(p, &w);
	if (!want_valid(&w, t->size))
		return malformed(t, link, "call", e);
	rc = agree_ledger.find(t->ledger, (const char *)name, len, &w, &id, &age, e);
	if (rc)
		return rc;
	rc = t->topics[id].sent ? 0 : call(t, id, &w, e);
	agree_ledger.drop(t->ledger, id);
	return rc;
}

static int count(struct tally *t, uint32_t id, struct err *e)
{
	struct topic *x = &t->topics[id];

	t->offer.half += !x->arrived;
	if (++x->arrived <= children(t))
		return x->arrived == 1 && any_joined(t) ? call(t, id, some_want(t, id), e) : 0;
	x->arrived = 0;
	return complete(t, id, e);
}

/* Hold our number for the child's name; it may have gone to another name meanwhile. */
static int hold(struct tally *t, struct known *n, struct err *e)
{
	const struct agree *a = &agree_ledger;

	if (n->age != UINT32_MAX && a->hold(t->ledger, n->id, n->age))
		return 0;
	return a->find(t->ledger, n->name, n->len, &n->wants.want[0], &n->id, &n->age, e);
}

/* A child's subtree is ready for what it calls @theirs, with @rows or @data, or neither. */
static int arrive(struct tally *t, int link, uint32_t theirs, const unsigned char *rows,
		  const unsigned char *data, struct err *e)
{
	const struct link *l = &t->link[link];
	struct known *n = l->known[theirs];
	uint16_t *slot;
	uint64_t *to;
	int i, rc;

	if (n->flying)
		return fail(e, RINGUP_EPEER, "rank %d announced %.100s twice", l->leader,
			    n->name);
	rc = hold(t, n, e);
	if (rc)
		return rc;
	slot = their_id(t, n->id, link - t->first_child);
	if (*slot != NOT_HERE) {
		agree_ledger.drop(t->ledger, n->id);
		return fail(e, RINGUP_EPEER, "rank %d has two numbers for %.100s", l->leader,
			    n->name);
	}
	*slot = t->offer.theirs[n->id] = (uint16_t)theirs;
	n->flying = true;
	keep_sum(t, n->id, t->host + 1 + link - t->first_child, data,
		 want_bytes(&n->wants.want[0]));
	to = rows ? topic_rows(t, n->id) : NULL;
	if (rows && !to)
		return fail(e, RINGUP_ENOMEM, "no memory for row counts");
	for (i = 0; rows && i < l->count; i++)
		to[l->ranks[i]] = pack_get64(rows + 8 * i);
	return count(t, n->id, e);
}

static bool is_in_subtree(const struct link *l, uint64_t rank)
{
	int i;

	for (i = 0; i < l->count; i++)
		if ((uint64_t)l->ranks[i] == rank)
			return true;
	return false;
}

/* One or two wants, of ranks of that subtree in ascending order. */
static bool read_wants(const struct tally *t, const struct link *l, struct frame_in *f,
		       struct wants *w)
{
	uint64_t n = frame_get(f, 1), rank;
	int i;

	memset(w, 0, sizeof(*w));
	if (n < 1 || n > 2)
		return false;
	for (i = 0; i < (int)n; i++) {
		const unsigned char *p;

		rank = frame_get(f, 4);
		p = frame_bytes(f, WANT_WIRE);
		if (!p || !is_in_subtree(l, rank) || (i && (int)rank <= w->rank[0]))
			return false;
		want_get(p, &w->want[i]);
		w->rank[i] = (int)rank;
		if (!want_valid(&w->want[i], t->size))
			return false;
	}
	w->count = (int)n;
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

static int take_define(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	struct link *l = &t->link[link];
	uint32_t id = (uint32_t)frame_get(f, 2);
	const unsigned char *rows = NULL, *name;
	struct known *n;
	struct wants w;
	size_t len;

	if (id >= LEDGER_IDS || !read_wants(t, l, f, &w))
		return malformed(t, link, "definition", e);
	if (want_has_rows(&w.want[0]))
		rows = frame_bytes(f, (size_t)l->count * 8);
	len = f->left;
	name = frame_bytes(f, len);
	if (!name || !len || len > NAME_BYTES)
		return malformed(t, link, "definition", e);
	if (l->known[id] && l->known[id]->flying)
		return fail(e, RINGUP_EPEER, "rank %d renamed a tensor in flight", l->leader);
	n = known_as(l, id, (const char *)name, len);
	if (!n)
		return fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
	n->wants = w;
	/* Before it is counted, but only hold() knows our own number. */
	if (hold(t, n, e))
		return e->code;
	t->topics[n->id].dirty = true;
	agree_ledger.drop(t->ledger, n->id);
	return arrive(t, link, id, rows, NULL, e);
}

/* May a tensor that a child has defined so come with data? */
static bool may_travel(const struct tally *t, const struct known *n)
{
	return t->carries && n->wants.count == 1 && parcel_kind(&n->wants.want[0]);
}

static int take_ready(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	struct link *l = &t->link[link];
	int rc = 0;

	while (f->left && !rc) {
		uint32_t item = (uint32_t)frame_get(f, 2), id = item & ITEM_ID;
		const unsigned char *rows = NULL, *data = NULL;

		if (f->bad || item & ITEM_BAD || id >= LEDGER_IDS || !l->known[id] ||
		    !(item & ITEM_ROWS) == want_has_rows(&l->known[id]->wants.want[0]) ||
		    (item & ITEM_DATA && !may_travel(t, l->known[id])))
			return malformed(t, link, "announcement", e);
		if (item & ITEM_ROWS)
			rows = frame_bytes(f, (size_t)l->count * 8);
		if (item & ITEM_DATA)
			data = frame_bytes(f, want_bytes(&l->known[id]->wants.want[0]));
		if (f->bad)
			return malformed(t, link, "announcement", e);
		rc = arrive(t, link, id, rows, data, e);
	}
	return rc;
}

/* ---- batches ---- */

static void put_item(struct tally *t, struct frame_out *o, uint32_t id, uint32_t theirs)
{
	const char *bad = ledger_verdict(t->ledger, id);
	size_t len = bad ? strlen(bad) : 0;
	int r;

	if (bad) {
		frame_put(o, theirs | ITEM_BAD, 2);
		frame_put(o, len, 2);
		frame_add(o, bad, len);
	} else if (has_rows(t, id)) {
		frame_put(o, theirs | ITEM_ROWS, 2);
		for (r = 0; r < t->size; r++)
			frame_put(o, span_rows(t->ledger, id)[r], 8);
	} else if (t->topics[id].travels) {
		frame_put(o, theirs | ITEM_DATA, 2);
		frame_add(o, parcel_result(t->ledger, id), t->topics[id].bytes);
	} else {
		frame_put(o, theirs, 2);
	}
}

static void send_run(struct tally *t, int k, const uint16_t *ids, int n)
{
	size_t most = 2 + SENTENCE + 2;
	int i;

	if (most < 2 + (size_t)t->size * 8)
		most = 2 + (size_t)t->size * 8;
	if (most < 2 + PARCEL_BYTES)
		most = 2 + PARCEL_BYTES;
	frame_begin(&t->out, FRAME_RUN);
	frame_put(&t->out, 0, 1);
	for (i = 0; i < n; i++) {
		if (t->out.len + most > sizeof(t->out.data)) {
			t->out.data[1] = 1;
			send_out(t, t->first_child + k, &t->out);
			frame_begin(&t->out, FRAME_RUN);
			frame_put(&t->out, 0, 1);
		}
		put_item(t, &t->out, ids[i], *their_id(t, ids[i], k));
	}
	send_out(t, t->first_child + k, &t->out);
}

/* The children may submit it again as soon as they have heard. */
static void finish(struct tally *t, uint32_t id)
{
	int k;

	for (k = 0; k < children(t); k++) {
		uint16_t *theirs = their_id(t, id, k);

		child(t, k)->known[*theirs]->flying = false;
		*theirs = NOT_HERE;
		agree_ledger.drop(t->ledger, id);
	}
	if (t->topics[id].called)
		agree_ledger.drop(t->ledger, id);
	t->topics[id].sent = t->topics[id].own = t->topics[id].called = false;
	t->topics[id].travels = false;
}

/* The others first: our own ranks hear at once, they have a way to go. */
static void run(struct tally *t, const uint16_t *ids, int n)
{
	int i, k;

	for (k = 0; k < children(t); k++)
		send_run(t, k, ids, n);
	for (i = 0; i < n; i++)
		finish(t, ids[i]);
	span_publish(t->ledger, ids, n);
}

/* The root: what do all ranks hear of it? */
static void judge(struct tally *t, uint32_t id)
{
	struct topic *x = &t->topics[id];
	char bad[SENTENCE];
	struct wants w;

	if (x->dirty) {
		gather_wants(t, id, &w);
		x->dirty = w.count > 1;
	}
	if (x->dirty)
		wants_text(&w, ledger_name(t->ledger, id), t->ledger->world, bad, sizeof(bad));
	ledger_judge(t->ledger, id, x->dirty ? bad : NULL);
	if (!x->dirty && has_rows(t, id))
		memcpy(span_rows(t->ledger, id), x->rows, (size_t)t->size * sizeof(*x->rows));
	if (x->travels)
		parcel_finish(t->ledger, id, x->sums, x->step);
}

/* How many of those due make the next batch; *@full: more would not fit. */
static int cut(const struct tally *t, bool *full)
{
	uint64_t sum = 0, at = t->due_head;
	int n = 0;

	for (*full = false; at != t->due_tail && !*full; at++) {
		uint16_t id = t->due[at % LEDGER_IDS];

		sum += want_bytes(&ledger_record(t->ledger, id, 0)->want);
		*full = n && sum > t->cap;
		n += !*full;
		*full |= n == BATCH_ITEMS || sum >= t->cap;
	}
	return n;
}

/* While a batch is under way the next one is announced only if it is full: so the
 * data path need not wait for a large one, and small ones become one. */
static void announce(struct tally *t)
{
	uint16_t ids[BATCH_ITEMS];
	bool full;
	int n, i;

	while (!t->offer.open && (n = cut(t, &full)) && t->running < (full ? 2 : 1)) {
		for (i = 0; i < n; i++) {
			ids[i] = t->due[t->due_head++ % LEDGER_IDS];
			judge(t, ids[i]);
		}
		t->running++;
		run(t, ids, n);
	}
}

void tally_done(struct tally *t)
{
	if (!t->is_root)
		return;
	t->running--;
	announce(t);
}

/* One tensor of a batch; what it carries goes where our ranks read it. */
static bool read_item(struct tally *t, struct frame_in *f)
{
	uint32_t item = (uint32_t)frame_get(f, 2), id = item & ITEM_ID;
	const unsigned char *p;
	char bad[SENTENCE];
	size_t len;
	int r;

	if (f->bad || id >= LEDGER_IDS || !t->topics[id].sent || t->batch_count == BATCH_ITEMS)
		return false;
	if (item & ITEM_BAD) {
		len = (size_t)frame_get(f, 2);
		p = frame_bytes(f, len);
		if (!p || !len || len >= sizeof(bad) || item & ITEM_ROWS)
			return false;
		memcpy(bad, p, len);
		bad[len] = 0;
	} else if (!(item & ITEM_ROWS) == has_rows(t, id)) {
		return false;
	} else if (item & ITEM_DATA) {
		p = t->topics[id].travels ? frame_bytes(f, t->topics[id].bytes) : NULL;
		if (!p)
			return false;
		parcel_take(t->ledger, id, p);
	} else if (item & ITEM_ROWS) {
		p = frame_bytes(f, (size_t)t->size * 8);
		for (r = 0; p && r < t->size; r++)
			span_rows(t->ledger, id)[r] = pack_get64(p + 8 * r);
	}
	if (f->bad)
		return false;
	ledger_judge(t->ledger, id, item & ITEM_BAD ? bad : NULL);
	t->topics[id].sent = false;
	t->sent_count--;
	t->batch[t->batch_count++] = (uint16_t)id;
	return true;
}

static int take_run(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t more = frame_get(f, 1);

	while (f->left)
		if (!read_item(t, f))
			return malformed(t, link, "batch", e);
	if (more > 1 || f->bad || !t->batch_count)
		return malformed(t, link, "batch", e);
	if (more)
		return 0;
	run(t, t->batch, t->batch_count);
	t->batch_count = 0;
	return 0;
}

/* ---- offers ---- */

/*
 * An order takes two ways: up, and down again.  Of two hosts the root can save one of them
 * for a small tensor, if nothing else is under way: when its own host is in, it sends that
 * host's sum as an offer that this be the next batch, and announces nothing else until it
 * has been answered.  What the child says about that tensor, with data, accepts it, even if
 * it was on its way before the offer came; anything else that is said after the offer has
 * come begins with a word that declines it.  So both can tell from the order in which
 * they see frames whether it was accepted:
 *
 *	root				child
 *	OFFER n   ----------\ /---------- READY n, data
 *	settle()  <---------/ \---------> accept_offer()
 *
 * A child that has nothing on its way keeps the offer until its own ranks are in, and is
 * done then.  One that waits for something else declines at once: the root may be
 * waiting for that with what it does not announce.
 */

/* Does what is to be said of @id accept the offer? */
static bool answers(const struct tally *t, uint32_t id)
{
	const struct topic *x = &t->topics[id];

	return t->offer.id == id && x->travels && t->offer.bytes == x->bytes;
}

/* A batch of one tensor of which nobody has to be told but the ranks of this host. */
static void run_here(struct tally *t, uint32_t id)
{
	uint16_t one = (uint16_t)id;

	finish(t, id);
	span_publish(t->ledger, &one, 1);
}

static void accept_offer(struct tally *t, const unsigned char *data)
{
	uint32_t id = t->offer.id;
	struct topic *x = &t->topics[id];

	/* The root is waiting for it. */
	flush_ready(t);
	t->offer.open = false;
	t->sent_count--;
	memcpy(sum_of(x, 0), data, x->bytes);
	ledger_judge(t->ledger, id, NULL);
	parcel_finish(t->ledger, id, x->sums, x->step);
	run_here(t, id);
}

/* The root: the offer of @id is accepted. */
static void settle(struct tally *t, uint32_t id)
{
	t->offer.open = false;
	t->offer.next_skip = 0;
	t->running++;
	judge(t, id);
	run_here(t, id);
}

/* What the child calls @id, if it is sure to be the same there; else NULL. */
static const struct known *known_to_child(const struct tally *t, uint32_t id)
{
	uint16_t theirs = t->offer.theirs[id];
	const struct known *n = theirs == NOT_HERE ? NULL : child(t, 0)->known[theirs];

	return n && n->id == id && n->age == t->ledger->entries[id].age && may_travel(t, n) &&
			       want_equal(&n->wants.want[0],
					  &ledger_record(t->ledger, id, 0)->want)
		       ? n
		       : NULL;
}

/* The root's host is in for @id: is it all that there is? */
static bool may_offer(struct tally *t, uint32_t id)
{
	const struct topic *x = &t->topics[id];

	if (!t->is_root || t->hosts != 2 || t->offer.open || t->running ||
	    t->due_head != t->due_tail || t->offer.half != 1 || !x->arrived || !x->own ||
	    !x->summed || x->bare || x->dirty || child(t, 0)->joined || !known_to_child(t, id))
		return false;
	return t->offer.skip ? t->offer.skip-- == 0 : true;
}

static void send_offer(struct tally *t, uint32_t id)
{
	const struct topic *x = &t->topics[id];

	t->offer.open = true;
	t->offer.id = id;
	frame_begin(&t->out, FRAME_OFFER);
	frame_put(&t->out, t->offer.theirs[id], 2);
	frame_add(&t->out, sum_of(x, t->host), x->bytes);
	send_out(t, t->first_child, &t->out);
}

static int take_offer(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	struct offer *o = &t->offer;
	uint32_t id = (uint32_t)frame_get(f, 2);
	size_t len = f->left;
	const unsigned char *data = frame_bytes(f, len);

	if (!data || id >= LEDGER_IDS || len > PARCEL_BYTES || o->open || t->hosts != 2)
		return malformed(t, link, "offer", e);
	o->open = true;
	o->id = id;
	o->bytes = len;
	if (t->topics[id].sent && answers(t, id))
		accept_offer(t, data);
	else if (t->sent_count)
		decline(t);
	else
		memcpy(o->data, data, len);
	return 0;
}

static int take_decline(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	struct offer *o = &t->offer;

	if (f->left || !o->open)
		return malformed(t, link, "answer", e);
	o->open = false;
	o->next_skip = o->next_skip < MOST_SKIPPED ? 2 * o->next_skip + 1 : MOST_SKIPPED;
	o->skip = o->next_skip;
	return 0;
}

/* ---- endings ---- */

static void pass_leave(struct tally *t, int rank, int except)
{
	if (t->left)
		return;
	t->left = true;
	frame_begin(&t->out, FRAME_LEAVE);
	frame_put(&t->out, (uint64_t)rank, 4);
	flood(t, except, &t->out);
}

void tally_leave(struct tally *t, int rank)
{
	pass_leave(t, rank, -1);
}

void tally_goodbye(struct tally *t)
{
	t->left = true;
	frame_begin(&t->out, FRAME_LEAVE);
	frame_put(&t->out, (uint64_t)t->ledger->span->rank[0], 4);
	flood(t, -1, &t->out);
}

static int take_leave(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t rank = frame_get(f, 4);

	if (f->bad || f->left || rank >= (uint64_t)t->size)
		return malformed(t, link, "farewell", e);
	if ((int)rank == t->link[link].leader)
		t->link[link].gone = true;
	pass_leave(t, (int)rank, link);
	t->ev.left(t->ev.ctx, (int)rank);
	return 0;
}

static void pass_alarm(struct tally *t, int code, const char *why, int except)
{
	size_t len = strnlen(why, SENTENCE - 1);

	if (t->alarmed)
		return;
	t->alarmed = true;
	frame_begin(&t->out, FRAME_ALARM);
	frame_put(&t->out, (uint32_t)-code, 4);
	frame_add(&t->out, why, len);
	flood(t, except, &t->out);
}

void tally_alarm(struct tally *t, int code, const char *why)
{
	pass_alarm(t, code, why, -1);
}

static int take_alarm(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t code = frame_get(f, 4);
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);
	char why[SENTENCE];

	if (!p || !code || code > 1000 || len >= sizeof(why))
		return malformed(t, link, "alarm", e);
	memcpy(why, p, len);
	why[len] = 0;
	pass_alarm(t, -(int)code, why, link);
	t->ev.alarm(t->ev.ctx, -(int)code, why);
	return 0;
}

void tally_ping(struct tally *t)
{
	frame_begin(&t->out, FRAME_PING);
	flood(t, -1, &t->out);
}

/* That it came is all there is to it. */
static int take_ping(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	return f->left ? malformed(t, link, "ping", e) : 0;
}

void tally_report(struct tally *t, const void *data, size_t len)
{
	if (t->is_root) {
		if (t->ev.report)
			t->ev.report(t->ev.ctx, data, len);
		return;
	}
	frame_begin(&t->out, FRAME_REPORT);
	frame_add(&t->out, data, len);
	send_out(t, 0, &t->out);
}

/* Whose it is only the root has to know. */
static int take_report(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);

	if (!p || len > TALLY_REPORT)
		return malformed(t, link, "report", e);
	tally_report(t, p, len);
	return 0;
}

/* ---- all together ---- */

/* Who may send what, and what then happens. */
static const struct kind {
	bool from_child, from_parent;
	int (*take)(struct tally *t, int link, struct frame_in *f, struct err *e);
} kinds[] = {
	[FRAME_DEFINE] = { true, false, take_define },
	[FRAME_READY] = { true, false, take_ready },
	[FRAME_RUN] = { false, true, take_run },
	[FRAME_LEAVE] = { true, true, take_leave },
	[FRAME_ALARM] = { true, true, take_alarm },
	[FRAME_PING] = { true, true, take_ping },
	[FRAME_JOINED] = { true, false, take_joined },
	[FRAME_CALL] = { false, true, take_call },
	[FRAME_REPORT] = { true, false, take_report },
	[FRAME_OFFER] = { false, true, take_offer },
	[FRAME_DECLINE] = { true, false, take_decline },
};

int tally_take(struct tally *t, int link, const void *frame, size_t len, struct err *e)
{
	struct frame_in f = { frame, len, false };
	uint64_t kind = frame_get(&f, 1);
	const struct kind *k = kind < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[kind] : NULL;

	if (!k || !k->take || !(link < t->first_child ? k->from_parent : k->from_child))
		return malformed(t, link, "frame", e);
	return k->take(t, link, &f, e);
}

int tally_turn(struct tally *t, struct err *e)
{
	uint32_t id, last = LEDGER_IDS;
	int rc = 0;

	while (!rc && span_take(t->ledger, &id)) {
		if (span_changed(t->ledger, id))
			t->topics[id].dirty = true;
		t->topics[id].own = true;
		keep_own_sum(t, id);
		rc = count(t, id, e);
		last = id;
	}
	if (!rc)
		rc = tell_joined(t, e);
	if (!t->is_root)
		flush_ready(t);
	else
		announce(t);
	if (!rc && last < LEDGER_IDS && may_offer(t, last))
		send_offer(t, last);
	return rc;
}

int tally_links(const struct tally *t)
{
	return t->links;
}

int tally_leader(const struct tally *t, int link)
{
	return t->link[link].leader;
}

bool tally_gone(const struct tally *t, int link)
{
	return t->link[link].gone;
}

/* ---- life ---- */

static bool is_below(int host, int top, int fanout)
{
	while (host > top)
		host = (host - 1) / fanout;
	return host == top;
}

/* The ranks of the hosts below @top, and there. */
static int *subtree(const struct team *t, int top, int fanout, int *count)
{
	int *ranks = calloc((size_t)t->size, sizeof(*ranks)), r;

	*count = 0;
	for (r = 0; ranks && r < t->size; r++)
		if (is_below(t->host_of[r], top, fanout))
			ranks[(*count)++] = r;
	return ranks;
}

static int leader_of(const struct team *t, int host)
{
	int r = 0;

	while (t->host_of[r] != host)
		r++;
	return r;
}

static bool open_child(struct link *l, const struct team *t, int host, int fanout)
{
	l->leader = leader_of(t, host);
	l->ranks = subtree(t, host, fanout, &l->count);
	l->known = calloc(LEDGER_IDS, sizeof(struct known *));
	return l->ranks && l->known;
}

static bool allocate(struct tally *t, const struct team *team, int fanout)
{
	int64_t first = (int64_t)team->host * fanout + 1, last = first + fanout, h;
	size_t i, n;

	last = last < team->hosts ? last : team->hosts;
	t->first_child = !t->is_root;
	t->links = t->first_child + (last > first ? (int)(last - first) : 0);
	n = (size_t)LEDGER_IDS * (size_t)children(t);
	t->link = calloc((size_t)t->links + 1, sizeof(*t->link));
	t->topics = calloc(LEDGER_IDS, sizeof(*t->topics));
	t->theirs = malloc(n * sizeof(*t->theirs) + 1);
	t->ranks = subtree(team, team->host, fanout, &t->count);
	if (!t->link || !t->topics || !t->theirs || !t->ranks)
		return false;
	for (i = 0; i < n; i++)
		t->theirs[i] = NOT_HERE;
	memset(t->offer.theirs, 0xff, sizeof(t->offer.theirs));
	if (!t->is_root)
		t->link[0].leader = leader_of(team, (team->host - 1) / fanout);
	for (h = first; h < last; h++)
		if (!open_child(child(t, (int)(h - first)), team, (int)h, fanout))
			return false;
	return true;
}

int tally_open(struct tally **tp, struct ledger *l, const struct team *team, int fanout,
	       uint64_t cap, const struct tally_events *ev, struct err *e)
{
	struct tally *t;

	if (team->size > TALLY_RANKS)
		return fail(e, RINGUP_EINVAL, "%d ranks: more than %d cannot agree", team->size,
			    TALLY_RANKS);
	t = calloc(1, sizeof(*t));
	if (!t)
		return fail(e, RINGUP_ENOMEM, "no memory for the control plane");
	t->ledger = l;
	t->ev = *ev;
	t->size = team->size;
	t->hosts = team->hosts;
	t->host = team->host;
	t->is_root = team->host == 0;
	t->carries = t->hosts > 1 && t->hosts <= PARCEL_HOSTS && t->hosts <= fanout + 1;
	t->cap = cap;
	frame_begin(&t->ready, FRAME_READY);
	if (!allocate(t, team, fanout)) {
		tally_close(t);
		return fail(e, RINGUP_ENOMEM, "no memory for the control plane");
	}
	*tp = t;
	return 0;
}

static void close_link(struct link *l)
{
	int id;

	for (id = 0; l->known && id < LEDGER_IDS; id++)
		free(l->known[id]);
	free(l->known);
	free(l->ranks);
}

void tally_close(struct tally *t)
{
	int i;

	if (!t)
		return;
	for (i = 0; t->link && i < t->links; i++)
		close_link(&t->link[i]);
	for (i = 0; t->topics && i < LEDGER_IDS; i++) {
		free(t->topics[i].rows);
		free(t->topics[i].sums);
	}
	free(t->link);
	free(t->topics);
	free(t->theirs);
	free(t->ranks);
	free(t);
}
