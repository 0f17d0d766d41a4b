/* star.c - agreement over connections: rank 0 counts, and announces batches. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/star.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "ringup.h"
#include "wire/chan.h"
#include "wire/mesh.h"

/*
 * Frames, all numbers little-endian:
 *
 *	DEFINE  id:4 want:112 rows:8 name...     rank -> 0: ready, and this is it
 *	READY   id:4 rows:8                     rank -> 0: ready, as the last time
 *	RUN     more:1 then items               0 -> rank: the next batch, or a part
 *	LEAVE   rank:4                          either way
 *	ALARM   code:4 sentence...              either way
 *	PING                                    either way
 *
 * An item is id:4, kind:1 and, by kind, nothing (PLAIN), rows:8 of every rank
 * (ROWS), or length:2 and a sentence (BAD).
 */
enum frame { FRAME_DEFINE = 1, FRAME_READY, FRAME_RUN, FRAME_LEAVE, FRAME_ALARM, FRAME_PING };
enum item_kind { ITEM_PLAIN, ITEM_ROWS, ITEM_BAD };

enum { SENTENCE = 400, MAX_IDS = 8192 };

/* One tensor name, on rank 0. */
struct topic {
	char *name;
	size_t len;
	uint64_t hash;
	int arrived;
	bool dirty, queued;
	int users;         /* ranks that have a number for it */
	uint32_t *id;      /* of every rank                */
	bool *here;        /* which ranks are ready        */
	struct want *want; /* of every rank                */
	uint64_t *rows;
	struct topic *next; /* on the list of ready ones   */
	char bad[SENTENCE];
};

/* A rank's number for a topic, on rank 0. */
struct numbers {
	struct topic **topic;
	uint32_t room;
};

/* A batch that has arrived, or is arriving. */
struct batch {
	struct item items[BATCH_ITEMS];
	int count;
	char *text;     /* what bad and rows point into */
	uint64_t *rows; /* BATCH_ITEMS * size           */
	bool whole;
	struct batch *next;
};

struct star {
	struct mesh *mesh;
	struct star_events ev;
	pthread_mutex_t lock;
	struct own_id {
		char *name; /* for DEFINE */
		size_t len;
		uint32_t age;
		uint32_t busy; /* operations in flight; atomic */
	} * own;               /* the numbers that this rank has given out: MAX_IDS */
	uint32_t ids, hand;
	struct batch *first, *last; /* batches for next(); last may be partial */
	uint32_t ready;             /* whole batches, for star_ready()         */
	/* Rank 0 only. */
	struct topic **table; /* open addressing by name */
	size_t table_size, topics;
	struct numbers *numbers; /* of every rank */
	struct topic *due, **due_end;
	bool running; /* a batch has been announced and not carried out here */
	unsigned char frame[CHAN_BYTES];
};

static unsigned char *put(unsigned char *p, uint64_t v, int bytes)
{
	while (bytes--) {
		*p++ = (unsigned char)v;
		v >>= 8;
	}
	return p;
}

static uint64_t get(const unsigned char *p, int bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | p[bytes];
	return v;
}

static int grow(void **p, uint32_t *room, uint32_t need, size_t size)
{
	uint32_t want = *room ? *room : 64;
	void *more;

	if (need <= *room)
		return 0;
	while (want < need)
		want *= 2;
	more = realloc(*p, want * size);
	if (!more)
		return -1;
	memset((char *)more + *room * size, 0, (want - *room) * size);
	*p = more;
	*room = want;
	return 0;
}

/* ---- rank 0: counting ---- */

static void topic_free(struct topic *t)
{
	if (!t)
		return;
	free(t->name);
	free(t->id);
	free(t->here);
	free(t->want);
	free(t->rows);
	free(t);
}

static struct topic *topic_new(const char *name, size_t len, uint64_t hash, int size)
{
	struct topic *t = calloc(1, sizeof(*t));
	size_t n = (size_t)size;

	if (!t)
		return NULL;
	t->name = malloc(len + 1);
	t->id = calloc(n, sizeof(*t->id));
	t->here = calloc(n, sizeof(*t->here));
	t->want = calloc(n, sizeof(*t->want));
	t->rows = calloc(n, sizeof(*t->rows));
	if (!t->name || !t->id || !t->here || !t->want || !t->rows) {
		topic_free(t);
		return NULL;
	}
	memcpy(t->name, name, len);
	t->name[len] = 0;
	t->len = len;
	t->hash = hash;
	t->dirty = true;
	return t;
}

static int table_grow(struct star *s)
{
	size_t size = s->table_size ? s->table_size * 2 : 1024, i, at;
	struct topic **table = calloc(size, sizeof(struct topic *));

	if (!table)
		return -1;
	for (i = 0; i < s->table_size; i++) {
		if (!s->table[i])
			continue;
		for (at = s->table[i]->hash % size; table[at]; at = (at + 1) % size)
			;
		table[at] = s->table[i];
	}
	free(s->table);
	s->table = table;
	s->table_size = size;
	return 0;
}

static struct topic *topic_get(struct star *s, const char *name, size_t len)
{
	uint64_t hash = hash_bytes(name, len);
	size_t at;

	if (s->topics * 2 >= s->table_size && table_grow(s))
		return NULL;
	for (at = hash % s->table_size; s->table[at]; at = (at + 1) % s->table_size)
		if (s->table[at]->hash == hash && s->table[at]->len == len &&
		    !memcmp(s->table[at]->name, name, len))
			return s->table[at];
	s->table[at] = topic_new(name, len, hash, s->mesh->size);
	s->topics += s->table[at] != NULL;
	return s->table[at];
}

/* A rank has given its number to another name.  Linear probing: what follows in
 * the same run may have to move up. */
static void topic_put(struct star *s, struct topic *t)
{
	size_t at = t->hash % s->table_size, home;
	struct topic *u;

	if (--t->users)
		return;
	while (s->table[at] != t)
		at = (at + 1) % s->table_size;
	s->table[at] = NULL;
	s->topics--;
	for (at = (at + 1) % s->table_size; (u = s->table[at]); at = (at + 1) % s->table_size) {
		s->table[at] = NULL;
		for (home = u->hash % s->table_size; s->table[home];
		     home = (home + 1) % s->table_size)
			;
		s->table[home] = u;
	}
	topic_free(t);
}

static void topic_compare(struct star *s, struct topic *t)
{
	const struct want *of[4096];
	int r, same = 1;

	for (r = 0; r < s->mesh->size; r++) {
		of[r] = &t->want[r];
		same &= want_equal(of[0], of[r]);
	}
	t->dirty = !same;
	t->bad[0] = 0;
	if (!same)
		want_disagree(t->name, of, s->mesh->size, t->bad, sizeof(t->bad));
}

/* @rank is ready for @t. */
static int topic_arrive(struct star *s, struct topic *t, int rank, uint64_t rows, struct err *e)
{
	if (t->here[rank])
		return fail(e, RINGUP_EPEER, "rank %d submitted %.100s twice", rank, t->name);
	t->here[rank] = true;
	t->rows[rank] = rows;
	if (++t->arrived < s->mesh->size)
		return 0;
	t->arrived = 0;
	memset(t->here, 0, (size_t)s->mesh->size * sizeof(*t->here));
	if (t->dirty)
		topic_compare(s, t);
	t->next = NULL;
	t->queued = true;
	*s->due_end = t;
	s->due_end = &t->next;
	return 0;
}

static int count_define(struct star *s, int rank, uint32_t id, const struct want *w,
			uint64_t rows, const char *name, size_t len, struct err *e)
{
	struct numbers *n = &s->numbers[rank];
	struct topic *t, *old;

	if (id >= MAX_IDS || !len || len > NAME_BYTES || !want_valid(w, s->mesh->size))
		return fail(e, RINGUP_EPEER, "rank %d sent a malformed announcement", rank);
	if (grow((void **)&n->topic, &n->room, id + 1, sizeof(struct topic *)))
		return fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
	t = topic_get(s, name, len);
	if (!t)
		return fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
	old = n->topic[id];
	if (old != t) {
		t->users++;
		n->topic[id] = t;
		if (old && (old->queued || old->here[rank]))
			return fail(e, RINGUP_EPEER, "rank %d renamed a tensor in flight",
				    rank);
		if (old)
			topic_put(s, old);
	}
	t->id[rank] = id;
	t->want[rank] = *w;
	t->dirty = true;
	return topic_arrive(s, t, rank, rows, e);
}

static int count_ready(struct star *s, int rank, uint32_t id, uint64_t rows, struct err *e)
{
	struct numbers *n = &s->numbers[rank];

	if (id >= n->room || !n->topic[id])
		return fail(e, RINGUP_EPEER, "rank %d announced a tensor it never defined",
			    rank);
	return topic_arrive(s, n->topic[id], rank, rows, e);
}

/* ---- batches, as every rank receives them ---- */

static void batch_free(struct batch *b)
{
	if (!b)
		return;
	free(b->text);
	free(b->rows);
	free(b);
}

static struct batch *batch_open(struct star *s)
{
	struct batch *b;

	if (s->last && !s->last->whole)
		return s->last;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->text = malloc((size_t)BATCH_ITEMS * SENTENCE);
	b->rows = calloc((size_t)BATCH_ITEMS * (size_t)s->mesh->size, sizeof(*b->rows));
	if (!b->text || !b->rows) {
		batch_free(b);
		return NULL;
	}
	if (s->last)
		s->last->next = b;
	else
		s->first = b;
	s->last = b;
	return b;
}

/* Take in one RUN frame; returns 1 if it completed a batch. */
static int batch_read(struct star *s, const unsigned char *p, size_t len, struct err *e)
{
	struct batch *b = batch_open(s);
	const unsigned char *end = p + len;
	size_t rows_bytes = (size_t)s->mesh->size * 8;
	bool more;
	int r;

	if (!b)
		return fail(e, RINGUP_ENOMEM, "no memory for a batch");
	if (len < 1)
		return fail(e, RINGUP_EPEER, "rank 0 sent a malformed batch");
	more = *p++;
	while (p < end) {
		struct item *it = &b->items[b->count];
		enum item_kind kind;
		size_t n;

		if (b->count == BATCH_ITEMS || end - p < 5)
			return fail(e, RINGUP_EPEER, "rank 0 sent a malformed batch");
		it->id = (uint32_t)get(p, 4);
		kind = p[4];
		p += 5;
		if (it->id >= s->ids || kind > ITEM_BAD)
			return fail(e, RINGUP_EPEER, "rank 0 sent a malformed batch");
		if (kind == ITEM_ROWS) {
			uint64_t *rows = b->rows + (size_t)b->count * (size_t)s->mesh->size;

			if ((size_t)(end - p) < rows_bytes)
				return fail(e, RINGUP_EPEER, "rank 0 sent a malformed batch");
			for (r = 0; r < s->mesh->size; r++, p += 8)
				rows[r] = get(p, 8);
			it->rows = rows;
		} else if (kind == ITEM_BAD) {
			char *text = b->text + (size_t)b->count * SENTENCE;

			n = end - p < 2 ? SENTENCE : (size_t)get(p, 2);
			if (n >= SENTENCE || (size_t)(end - p) < n + 2)
				return fail(e, RINGUP_EPEER, "rank 0 sent a malformed batch");
			memcpy(text, p + 2, n);
			text[n] = 0;
			p += 2 + n;
			it->bad = text;
		}
		b->count++;
	}
	b->whole = !more;
	if (b->whole)
		__atomic_fetch_add(&s->ready, 1, __ATOMIC_RELEASE);
	return b->whole;
}

/* ---- rank 0: announcing ---- */

static size_t item_bytes(const struct star *s, const struct topic *t)
{
	if (t->bad[0])
		return 7 + strlen(t->bad);
	return want_has_rows(&t->want[0]) ? 5 + (size_t)s->mesh->size * 8 : 5;
}

static unsigned char *put_item(const struct star *s, unsigned char *p, const struct topic *t,
			       int rank)
{
	size_t n;
	int r;

	p = put(p, t->id[rank], 4);
	if (t->bad[0]) {
		n = strlen(t->bad);
		p = put(p, ITEM_BAD, 1);
		p = put(p, n, 2);
		memcpy(p, t->bad, n);
		return p + n;
	}
	if (!want_has_rows(&t->want[0]))
		return put(p, ITEM_PLAIN, 1);
	p = put(p, ITEM_ROWS, 1);
	for (r = 0; r < s->mesh->size; r++)
		p = put(p, t->rows[r], 8);
	return p;
}

/* Send the topics from @t up to @end to one rank, in as many frames as it takes. */
static int announce_to(struct star *s, int rank, const struct topic *t, const struct topic *end,
		       struct err *e)
{
	while (t != end) {
		unsigned char *p = s->frame;
		int rc;

		p = put(p, FRAME_RUN, 1);
		p = put(p, 0, 1);
		for (; t != end; t = t->next) {
			if ((size_t)(p - s->frame) + item_bytes(s, t) > sizeof(s->frame))
				break;
			p = put_item(s, p, t, rank);
		}
		s->frame[1] = t != end;
		if (rank == 0)
			rc = batch_read(s, s->frame + 1, (size_t)(p - s->frame) - 1, e);
		else
			rc = chan_send(s->mesh->control[rank], s->frame, (size_t)(p - s->frame),
				       e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Make a batch of what is due, if nothing is running. */
static int announce(struct star *s, struct err *e)
{
	struct topic *first = s->due, *end = first;
	int r, n, rc;

	if (s->mesh->rank || s->running || !first)
		return 0;
	for (n = 0; end && n < BATCH_ITEMS; n++) {
		end->queued = false;
		end = end->next;
	}
	s->due = end;
	if (!end)
		s->due_end = &s->due;
	s->running = true;
	for (r = s->mesh->size - 1; r >= 0; r--) {
		rc = announce_to(s, r, first, end, e);
		if (rc)
			return rc;
	}
	s->ev.news(s->ev.ctx);
	return 0;
}

/* ---- the vtable ---- */

/* A number for another name; MAX_IDS if all are in use. */
static uint32_t free_id(struct star *s)
{
	uint32_t tries, id;

	if (s->ids < MAX_IDS)
		return s->ids++;
	for (tries = 0; tries < MAX_IDS; tries++) {
		id = s->hand++ % MAX_IDS;
		if (!__atomic_load_n(&s->own[id].busy, __ATOMIC_ACQUIRE))
			return id;
	}
	return MAX_IDS;
}

static int star_find(void *self, const char *name, size_t len, const struct want *w,
		     uint32_t *idp, uint32_t *age, struct err *e)
{
	struct star *s = self;
	char *copy = malloc(len + 1);
	uint32_t id;

	(void)w;
	if (!copy)
		return fail(e, RINGUP_ENOMEM, "no memory for another tensor name");
	memcpy(copy, name, len);
	copy[len] = 0;
	pthread_mutex_lock(&s->lock);
	id = free_id(s);
	if (id < MAX_IDS) {
		struct own_id *o = &s->own[id];

		free(o->name);
		o->name = copy;
		o->len = len;
		*age = ++o->age;
		*idp = id;
		__atomic_fetch_add(&o->busy, 1, __ATOMIC_RELAXED);
	} else {
		free(copy);
	}
	pthread_mutex_unlock(&s->lock);
	return id < MAX_IDS ? 0
			    : fail(e, RINGUP_ENOMEM, "more than %d names in flight", MAX_IDS);
}

/* Under the engine's lock, as find() is: nobody takes the number meanwhile. */
static bool star_hold(void *self, uint32_t id, uint32_t age)
{
	struct own_id *o = &((struct star *)self)->own[id];

	if (o->age != age)
		return false;
	__atomic_fetch_add(&o->busy, 1, __ATOMIC_RELAXED);
	return true;
}

static void star_drop(void *self, uint32_t id)
{
	__atomic_fetch_sub(&((struct star *)self)->own[id].busy, 1, __ATOMIC_RELEASE);
}

/* A broken connection is star_poll()'s to tell, with the reason. */
static void tell_zero(struct star *s, uint32_t id, const struct want *w, uint64_t rows,
		      bool changed)
{
	unsigned char *p = s->frame;
	struct err e;

	p = put(p, changed ? FRAME_DEFINE : FRAME_READY, 1);
	p = put(p, id, 4);
	if (changed) {
		want_put(p, w);
		p += WANT_WIRE;
	}
	p = put(p, rows, 8);
	if (changed) {
		memcpy(p, s->own[id].name, s->own[id].len);
		p += s->own[id].len;
	}
	chan_send(s->mesh->control[0], s->frame, (size_t)(p - s->frame), &e);
}

static int star_post(void *self, uint32_t id, const struct want *w, uint64_t rows, bool changed,
		     bool *last, struct err *e)
{
	struct star *s = self;
	int rc = 0;

	/* Whether it was the last, rank 0's news() tells. */
	*last = false;
	pthread_mutex_lock(&s->lock);
	if (s->mesh->rank)
		tell_zero(s, id, w, rows, changed);
	else if (changed)
		rc = count_define(s, 0, id, w, rows, s->own[id].name, s->own[id].len, e);
	else
		rc = count_ready(s, 0, id, rows, e);
	if (!rc)
		rc = announce(s, e);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static bool star_ready(void *self)
{
	return __atomic_load_n(&((struct star *)self)->ready, __ATOMIC_ACQUIRE);
}

static int star_next(void *self, uint64_t cap, struct item *items)
{
	struct star *s = self;
	int n = 0;

	/* Rank 0 cut the batch; the cap would have to be asked there. */
	(void)cap;
	pthread_mutex_lock(&s->lock);
	if (s->first && s->first->whole) {
		n = s->first->count;
		memcpy(items, s->first->items, (size_t)n * sizeof(*items));
		__atomic_fetch_sub(&s->ready, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void star_done(void *self)
{
	struct star *s = self;
	struct batch *b;
	struct err e;

	pthread_mutex_lock(&s->lock);
	b = s->first;
	s->first = b->next;
	if (!s->first)
		s->last = NULL;
	batch_free(b);
	s->running = false;
	/* A connection that breaks here is noticed by star_poll() as well. */
	announce(s, &e);
	pthread_mutex_unlock(&s->lock);
}

const struct agree agree_star = {
	.name = "star",
	.find = star_find,
	.hold = star_hold,
	.drop = star_drop,
	.post = star_post,
	.ready = star_ready,
	.next = star_next,
	.done = star_done,
};

/* ---- connections ---- */

int star_open(struct star **sp, struct mesh *m, const struct star_events *ev, struct err *e)
{
	struct star *s = calloc(1, sizeof(*s));

	if (s) {
		s->numbers = calloc((size_t)m->size, sizeof(*s->numbers));
		s->own = calloc(MAX_IDS, sizeof(*s->own));
	}
	if (!s || !s->numbers || !s->own) {
		if (s) {
			free(s->numbers);
			free(s->own);
		}
		free(s);
		return fail(e, RINGUP_ENOMEM, "no memory for the control plane");
	}
	s->mesh = m;
	s->ev = *ev;
	s->due_end = &s->due;
	pthread_mutex_init(&s->lock, NULL);
	*sp = s;
	return 0;
}

void star_close(struct star *s)
{
	struct batch *b;
	uint32_t i;
	size_t k;
	int r;

	if (!s)
		return;
	while ((b = s->first)) {
		s->first = b->next;
		batch_free(b);
	}
	for (i = 0; i < s->ids; i++)
		free(s->own[i].name);
	free(s->own);
	for (k = 0; k < s->table_size; k++)
		topic_free(s->table[k]);
	free(s->table);
	for (r = 0; r < s->mesh->size; r++)
		free(s->numbers[r].topic);
	free(s->numbers);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int broadcast_frame(struct star *s, const unsigned char *frame, size_t len, int except)
{
	struct err e;
	int r, rc = 0;

	for (r = 0; r < s->mesh->size; r++)
		if (r != except && s->mesh->control[r])
			rc |= chan_send(s->mesh->control[r], frame, len, &e) < 0;
	return rc;
}

static int take_frame(struct star *s, int rank, const unsigned char *p, size_t len,
		      struct err *e)
{
	enum frame type = len ? p[0] : 0;
	struct want w;
	char why[SENTENCE];
	int rc;

	if (type == FRAME_DEFINE && !s->mesh->rank && len > 5 + WANT_WIRE + 8) {
		want_get(p + 5, &w);
		rc = count_define(s, rank, (uint32_t)get(p + 1, 4), &w,
				  get(p + 5 + WANT_WIRE, 8), (const char *)p + 13 + WANT_WIRE,
				  len - 13 - WANT_WIRE, e);
		return rc ? rc : announce(s, e);
	}
	if (type == FRAME_READY && !s->mesh->rank && len == 13) {
		rc = count_ready(s, rank, (uint32_t)get(p + 1, 4), get(p + 5, 8), e);
		return rc ? rc : announce(s, e);
	}
	if (type == FRAME_RUN && s->mesh->rank) {
		rc = batch_read(s, p + 1, len - 1, e);
		if (rc > 0)
			s->ev.news(s->ev.ctx);
		return rc < 0 ? rc : 0;
	}
	if (type == FRAME_LEAVE && len == 5) {
		int who = s->mesh->rank ? (int)get(p + 1, 4) : rank;

		if (who < 0 || who >= s->mesh->size)
			return fail(e, RINGUP_EPEER, "rank %d sent a malformed farewell", rank);
		if (!s->mesh->rank)
			broadcast_frame(s, p, len, rank);
		s->ev.left(s->ev.ctx, who);
		return 0;
	}
	if (type == FRAME_ALARM && len >= 5) {
		size_t n = len - 5 < sizeof(why) - 1 ? len - 5 : sizeof(why) - 1;

		memcpy(why, p + 5, n);
		why[n] = 0;
		if (!s->mesh->rank)
			broadcast_frame(s, p, len, rank);
		s->ev.alarm(s->ev.ctx, -(int)get(p + 1, 4), why);
		return 0;
	}
	/* That it came is all it says. */
	if (type == FRAME_PING && len == 1)
		return 0;
	return fail(e, RINGUP_EPEER, "rank %d sent a malformed frame", rank);
}

int star_poll(struct star *s, int rank, struct err *e)
{
	struct chan *c = s->mesh->control[rank];
	struct err unsent = { 0 };
	const void *data;
	int rc;

	pthread_mutex_lock(&s->lock);
	chan_flush(c, &unsent);
	/* Who closes may have said why before: read that first. */
	while ((rc = chan_recv(c, &data, e)) > 0)
		if (take_frame(s, rank, data, (size_t)rc, e)) {
			rc = e->code;
			break;
		}
	pthread_mutex_unlock(&s->lock);
	if (!rc && unsent.code < 0) {
		*e = unsent;
		rc = unsent.code;
	}
	return rc;
}

int star_unsent(struct star *s, int rank)
{
	struct err e;
	int rc;

	pthread_mutex_lock(&s->lock);
	rc = chan_flush(s->mesh->control[rank], &e);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void star_leave(struct star *s)
{
	unsigned char frame[5];

	put(frame, FRAME_LEAVE, 1);
	put(frame + 1, (uint32_t)s->mesh->rank, 4);
	pthread_mutex_lock(&s->lock);
	broadcast_frame(s, frame, sizeof(frame), -1);
	pthread_mutex_unlock(&s->lock);
}

void star_ping(struct star *s)
{
	static const unsigned char frame[1] = { FRAME_PING };

	pthread_mutex_lock(&s->lock);
	broadcast_frame(s, frame, sizeof(frame), -1);
	pthread_mutex_unlock(&s->lock);
}

void star_alarm(struct star *s, int code, const char *why)
{
	unsigned char frame[5 + SENTENCE];
	size_t n = strlen(why);

	if (n > SENTENCE - 1)
		n = SENTENCE - 1;
	put(frame, FRAME_ALARM, 1);
	put(frame + 1, (uint32_t)-code, 4);
	memcpy(frame + 5, why, n);
	pthread_mutex_lock(&s->lock);
	broadcast_frame(s, frame, 5 + n, -1);
	pthread_mutex_unlock(&s->lock);
}
