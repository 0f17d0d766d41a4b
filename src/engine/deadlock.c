/* deadlock.c - detect and end jobs whose ranks all wait for each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/deadlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "engine/agree.h"
#include "engine/callers.h"
#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/coordinator.h"
#include "engine/eager.h"
#include "engine/engine_state.h"
#include "engine/execute.h"
#include "engine/heartbeat.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/op_text.h"
#include "engine/p2p.h"
#include "engine/stall.h"
#include "engine/tree.h"
#include "ringup.h"
#include "wire/ranks.h"

enum {
	MS = 1000000,
	FRESH_TICKS = 4, /* how long a report counts */
	SURE_TICKS = 2,  /* time until all must be reported again */
	SHOWN = 3,       /* things waited for that the sentence names */
	PAIRS = 400,     /* of first and last rank, in a report */
};

/* Used instead of a group's serial, to distinguish these reports from stall.c's. */
#define DEADLOCK_MARK UINT64_MAX

/* A report as sent over the wire: little-endian, no holes; pairs of first and last rank, by
 * their numbers in the world, follow. */
struct report {
	uint64_t mark;
	struct liveness_wait wait;
	uint32_t pairs, zero;
};
_Static_assert(sizeof(struct report) + (size_t)PAIRS * 8 <= COORDINATOR_REPORT,
	       "a report fits");

int deadlock_open(struct deadlock *d, const struct heartbeat_rules *r, int size, struct err *e)
{
	pthread_mutex_init(&d->lock, NULL);
	d->size = size;
	d->tick_ns = (int64_t)r->tick_ms * MS;
	d->grace_ns = (int64_t)r->deadlock_ms * MS;
	d->heard_ns = calloc((size_t)size, sizeof(*d->heard_ns));
	d->where = calloc((size_t)size, sizeof(*d->where));
	return d->heard_ns && d->where
		       ? 0
		       : fail(e, RINGUP_ENOMEM, "no memory to look for deadlocks");
}

void deadlock_close(struct deadlock *d)
{
	if (d->size)
		pthread_mutex_destroy(&d->lock);
	free(d->heard_ns);
	free(d->where);
	memset(d, 0, sizeof(*d));
}

/* ---- does this rank stand still? ---- */

struct own_look {
	struct engine *g;
	struct caller waits[CALLERS];
	int count, found;
	bool moves;   /* it carries something out, or can */
	bool unknown; /* another thread has a lock */
	uint64_t state;
	struct liveness_wait wait; /* of the first that waits */
};

static void tell_wait(const struct comm *c, const struct ringup_op *op, struct liveness_wait *w)
{
	char peer[24];

	memset(w, 0, sizeof(*w));
	w->group = c->serial;
	if (!op->entry) {
		w->kind = OP_KINDS;
		snprintf(peer, sizeof(peer), op->p2p.peer < 0 ? "any rank" : "rank %d",
			 op->p2p.peer);
		snprintf(w->name, sizeof(w->name), "%s %s with tag %d",
			 op->p2p.is_send ? "send to" : "receive from", peer, op->p2p.tag);
		return;
	}
	w->kind = op->ask.signature.kind;
	w->like = op_signature_hash(&op->ask.signature);
	snprintf(w->name, sizeof(w->name), "%s", op_text_name(op));
}

static void look_at_wait(struct own_look *look, const struct comm *c,
			 const struct ringup_op *op, int i)
{
	uint64_t is[3] = { (uint64_t)(uintptr_t)op, op->use,
			   op->entry ? 0 : p2p_moved(look->g->p2p, op) };

	if (look->waits[i].op != op || look->waits[i].use != op->use || op_is_done(op))
		return;
	look->moves |= op_is_eager(op) && eager_missing(c, op->id, op->round) < 0;
	look->state += hash_bytes(is, sizeof(is));
	look->found++;
	if (!i)
		tell_wait(c, op, &look->wait);
}

/* The holder of the lock may be waiting for a frozen rank, so this does not wait for it. */
static void look_at_comm(struct comm *c, void *arg)
{
	struct own_look *look = arg;
	const struct ringup_op *op;

	look->moves |= execute_ready(c);
	if (look->moves)
		return;
	if (!lock_try(&c->lock)) {
		look->unknown = true;
		return;
	}
	for (op = c->flying; op; op = op->next)
		for (int i = 0; i < look->count; i++)
			look_at_wait(look, c, op, i);
	lock_give(&c->lock);
}

static void publish(struct liveness *l, const struct own_look *look, int64_t still_ns)
{
	uint32_t was = __atomic_load_n(&l->still_ms, __ATOMIC_RELAXED);

	if (!still_ns) {
		__atomic_store_n(&l->still_ms, 0, __ATOMIC_SEQ_CST);
		return;
	}
	if (!was)
		l->wait = look->wait;
	__atomic_store_n(&l->still_ms, (uint32_t)(still_ns / MS) + 1, __ATOMIC_RELEASE);
}

/* A rank that was stopped for a while counts no more than the time from look to look. */
static int64_t time_between(struct deadlock *d, int64_t now_ns)
{
	int64_t since = d->looked_ns ? now_ns - d->looked_ns : 0;

	d->looked_ns = now_ns;
	return since < 2 * d->tick_ns ? since : 2 * d->tick_ns;
}

static void look_at_own(struct deadlock *d, struct engine *g, bool silence, int64_t now_ns)
{
	struct own_look look = { .g = g };
	int64_t since = time_between(d, now_ns);

	look.count = callers_waiting(&g->callers, now_ns, look.waits);
	look.moves = !look.count || silence || p2p_is_ready(g->p2p);
	if (!look.moves)
		comms_visit(g, look_at_comm, &look);
	if (look.unknown && !look.moves)
		return;
	if (look.moves || look.found < look.count || look.state != d->state)
		d->still_ns = 0;
	else
		d->still_ns += since;
	d->state = look.state;
	publish(&g->liveness[g->waitset->me], &look, d->still_ns);
}

/* ---- does this host? ---- */

/* Copies what each rank of the host waits for; false if one is not blocked. */
static bool host_waits(const struct deadlock *d, const struct engine *g,
		       struct liveness_wait *waits)
{
	for (int i = 0; i < g->waitset->count; i++) {
		const struct liveness *l = &g->liveness[i];
		uint32_t ms = __atomic_load_n(&l->still_ms, __ATOMIC_ACQUIRE);

		if (ms < d->grace_ns / MS || liveness_has_left(l))
			return false;
		waits[i] = l->wait;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&l->still_ms, __ATOMIC_RELAXED) < ms)
			return false;
	}
	return true;
}

static bool is_same(const struct liveness_wait *a, const struct liveness_wait *b)
{
	return a->group == b->group && a->kind == b->kind && a->like == b->like &&
	       !strncmp(a->name, b->name, sizeof(a->name));
}

/* Reports the ranks that wait for what rank @i of this host waits for, from that one on; marks
 * them as done. */
static void report_from(struct deadlock *d, struct engine *g, const int *rank_of,
			const struct liveness_wait *waits, bool *done, int i)
{
	const struct comm *world = comms_at(g, 0);
	struct {
		struct report head;
		uint32_t pair[PAIRS][2];
	} x = { .head = { .mark = DEADLOCK_MARK, .wait = waits[i] } };
	uint32_t n = 0, w;

	for (; i < g->waitset->count; i++) {
		if (done[i] || !is_same(&waits[i], &x.head.wait))
			continue;
		w = (uint32_t)rank_of[i];
		if (n && x.pair[n - 1][1] + 1 == w)
			x.pair[n - 1][1]++;
		else if (n == PAIRS)
			break;
		else
			x.pair[n][0] = x.pair[n][1] = w, n++;
		done[i] = true;
	}
	x.head.pairs = n;
	if (world->topo.hosts > 1)
		tree_report(world->agree->tree, &x, sizeof(x.head) + n * sizeof(x.pair[0]));
	else
		(void)deadlock_take(d, &x, sizeof(x.head) + n * sizeof(x.pair[0]));
}

static void look_at_host(struct deadlock *d, struct engine *g, const int *rank_of)
{
	size_t count = (size_t)g->waitset->count;
	struct liveness_wait *waits = calloc(count, sizeof(*waits));
	bool *done = calloc(count, sizeof(*done));

	/* Without memory now, a later look may have some. */
	if (waits && done && host_waits(d, g, waits))
		for (size_t i = 0; i < count; i++)
			if (!done[i])
				report_from(d, g, rank_of, waits, done, (int)i);
	free(waits);
	free(done);
}

/* ---- does the world? ---- */

static bool is_fresh(const struct deadlock *d, int rank, int64_t now_ns)
{
	return d->heard_ns[rank] && now_ns - d->heard_ns[rank] <= FRESH_TICKS * d->tick_ns;
}

/* The place of @w on the board; the last one also serves what finds no other. */
static int board_place(struct deadlock *d, const struct liveness_wait *w, int64_t now_ns)
{
	bool used[DEADLOCK_BOARD] = { false };
	int i;

	for (int r = 0; r < d->size; r++)
		if (is_fresh(d, r, now_ns))
			used[d->where[r]] = true;
	for (i = 0; i < DEADLOCK_BOARD; i++)
		if (used[i] && is_same(&d->board[i], w))
			return i;
	for (i = 0; i < DEADLOCK_BOARD - 1 && used[i]; i++)
		;
	d->board[i] = *w;
	return i;
}

bool deadlock_take(struct deadlock *d, const void *data, size_t len)
{
	const unsigned char *p = data;
	int64_t now = clock_ns();
	struct report r;
	uint32_t pair[2], i;
	int place;

	if (len < sizeof(r.mark) ||
	    memcmp(p, &(uint64_t){ DEADLOCK_MARK }, sizeof(r.mark)) != 0)
		return false;
	if (!d->size || len < sizeof(r))
		return true;
	memcpy(&r, p, sizeof(r));
	r.wait.name[sizeof(r.wait.name) - 1] = 0;
	if (r.pairs > PAIRS || len != sizeof(r) + r.pairs * sizeof(pair) ||
	    r.wait.kind > OP_KINDS)
		return true;
	pthread_mutex_lock(&d->lock);
	place = board_place(d, &r.wait, now);
	for (i = 0; i < r.pairs; i++) {
		memcpy(pair, p + sizeof(r) + i * sizeof(pair), sizeof(pair));
		for (; pair[0] <= pair[1] && pair[0] < (uint32_t)d->size; pair[0]++) {
			d->where[pair[0]] = (unsigned char)place;
			d->heard_ns[pair[0]] = now;
		}
	}
	pthread_mutex_unlock(&d->lock);
	return true;
}

/* ---- the sentence ---- */

/* Lists the places of the board that are in use, in the order of their first ranks; returns how
 * many. */
static int list_places(const struct deadlock *d, int *place)
{
	bool used[DEADLOCK_BOARD] = { false };
	int n = 0;

	for (int r = 0; r < d->size; r++) {
		if (!used[d->where[r]])
			place[n++] = d->where[r];
		used[d->where[r]] = true;
	}
	return n;
}

static const char *cure(const struct deadlock *d, const int *place, int places)
{
	int messages = 0;
	const char *renamed = NULL;

	for (int i = 0; i < places; i++) {
		const struct liveness_wait *a = &d->board[place[i]], *b;

		if (!strcmp(a->name, NAME_GROUP))
			return "add process sets on all ranks at the same point, or pass them "
			       "to "
			       "hvd.init(process_sets=[...])";
		messages += a->kind == OP_KINDS;
		for (int k = 0; k < i && a->kind != OP_KINDS; k++) {
			b = &d->board[place[k]];
			if (a->group == b->group && a->kind == b->kind && a->like == b->like)
				renamed = stall_match(a->name);
		}
	}
	if (renamed)
		return renamed;
	return messages == places ? "order sends and receives so that one can complete"
				  : "start the same operations on all ranks";
}

/* Cuts @what, "allreduce NAME", to @room bytes: the end of a name tells more than its start. */
static void fit(char *what, size_t room)
{
	size_t len = strlen(what), keep = strcspn(what, " ") + 1;

	if (len <= room || len < keep || room < keep + 8)
		return;
	memcpy(what + keep, "...", 3);
	memmove(what + keep + 3, what + len - (room - keep - 3), room - keep - 2);
}

/* "ranks 0, 2 for allreduce one, " in @room bytes; returns its length. */
static size_t tell_place(const struct deadlock *d, int place, bool *in, char *out, size_t room)
{
	char who[RANKS_TEXT], text[OP_TEXT_WHAT], what[OP_TEXT_WHAT];
	size_t n;

	for (int r = 0; r < d->size; r++)
		in[r] = d->where[r] == place;
	ranks_text(who, in, d->size);
	who[strlen(who) - strlen(strstr(who, " of "))] = 0;
	n = (size_t)snprintf(out, room + 1, "%.48s for ", who);
	snprintf(what, sizeof(what), "%s",
		 op_text_what(d->board[place].kind, d->board[place].name, text));
	fit(what, room - n - 2);
	n += (size_t)snprintf(out + n, room + 1 - n, "%s, ", what);
	return n < room ? n : room;
}

/* All ranks hear it as an error, which has no more room. */
static void tell(const struct deadlock *d, char *out, size_t len)
{
	int place[DEADLOCK_BOARD], places = list_places(d, place);
	int shown = places < SHOWN ? places : SHOWN;
	const char *what_to_do = cure(d, place, places);
	bool *in = calloc((size_t)d->size, sizeof(*in));
	size_t at, room;

	at = (size_t)snprintf(out, len,
			      "deadlock: all %d ranks have waited for %g s: ", d->size,
			      (double)d->grace_ns / 1e9);
	room = (len - at - strlen(what_to_do) - 16) / (size_t)shown;
	for (int i = 0; i < shown && in; i++)
		at += tell_place(d, place[i], in, out + at, room);
	snprintf(out + at - 2, len - at + 2, "%s; %s", places > shown ? ", and so on" : "",
		 what_to_do);
	free(in);
}

/* At rank 0: are all ranks reported, and have they all been reported again after a while?  A
 * report alone may be older than what has moved since. */
static bool look_at_world(struct deadlock *d, int64_t now_ns, char *why, size_t len)
{
	int64_t oldest = INT64_MAX;
	bool all = true, sure;

	pthread_mutex_lock(&d->lock);
	for (int r = 0; r < d->size && all; r++) {
		all = is_fresh(d, r, now_ns);
		clock_sooner(&oldest, d->heard_ns[r]);
	}
	if (!all)
		d->all_ns = 0;
	else if (!d->all_ns)
		d->all_ns = now_ns;
	sure = all && oldest - d->all_ns >= SURE_TICKS * d->tick_ns;
	if (sure)
		tell(d, why, len);
	pthread_mutex_unlock(&d->lock);
	return sure;
}

void deadlock_look(struct deadlock *d, struct engine *g, const int *rank_of, bool silence,
		   int64_t now_ns)
{
	const struct comm *world = comms_at(g, 0);
	char why[sizeof(((struct err *)0)->text)];

	if (!d->grace_ns || d->size < 2)
		return;
	look_at_own(d, g, silence, now_ns);
	if (world->topo.local_rank == 0 && d->still_ns >= d->grace_ns)
		look_at_host(d, g, rank_of);
	if (world->topo.rank == 0 && look_at_world(d, now_ns, why, sizeof(why)))
		notify_alarm(g, -1, RINGUP_EDEADLOCK, why);
}
