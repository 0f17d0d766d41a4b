/* coordinator.c - counts the tensors that are ready on all hosts, and orders them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/coordinator.h"

#include <stdlib.h>
#include <string.h>

#include "engine/coordinator_state.h"
#include "engine/host_queue.h"
#include "engine/ledger.h"

/* The handler of each kind of frame, and the neighbours that may send it. */
static const struct kind {
	bool from_child, from_parent;
	int (*take)(struct coordinator *c, int link, struct frame_in *f, struct err *e);
} kinds[] = {
	[FRAME_DEFINE] = { true, false, coordinator_take_define },
	[FRAME_READY] = { true, false, coordinator_take_ready },
	[FRAME_RUN] = { false, true, coordinator_take_run },
	[FRAME_LEAVE] = { true, true, coordinator_take_leave },
	[FRAME_ALARM] = { true, true, coordinator_take_alarm },
	[FRAME_PING] = { true, true, coordinator_take_ping },
	[FRAME_JOINED] = { true, false, coordinator_take_joined },
	[FRAME_CALL] = { false, true, coordinator_take_call },
	[FRAME_REPORT] = { true, false, coordinator_take_report },
	[FRAME_OFFER] = { false, true, coordinator_take_offer },
	[FRAME_DECLINE] = { true, false, coordinator_take_decline },
	[FRAME_INVITE] = { true, true, coordinator_take_invite },
};

int coordinator_take(struct coordinator *c, int link, const void *frame, size_t len,
		     struct err *e)
{
	struct frame_in f = { frame, len, false };
	uint64_t kind = frame_get(&f, 1);
	const struct kind *k = kind < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[kind] : NULL;

	if (!k || !k->take || !(link < c->first_child ? k->from_parent : k->from_child))
		return coordinator_malformed(c, link, "frame", e);
	return k->take(c, link, &f, e);
}

int coordinator_turn(struct coordinator *c, struct err *e)
{
	uint32_t id, last = LEDGER_IDS;
	int rc = 0;

	while (!rc && host_queue_take(c->host_queue, &id)) {
		if (host_queue_changed(c->host_queue, id))
			c->names[id].dirty = true;
		c->names[id].own = true;
		c->names[id].taken++;
		coordinator_keep_own_sum(c, id);
		rc = coordinator_count(c, id, e);
		last = id;
	}
	if (!rc)
		rc = coordinator_tell_joined(c, e);
	if (!c->is_root)
		coordinator_flush_ready(c);
	else
		coordinator_announce(c);
	if (!rc && last < LEDGER_IDS && coordinator_may_offer(c, last))
		coordinator_send_offer(c, last);
	return rc;
}

int coordinator_links(const struct coordinator *c)
{
	return c->links;
}

int coordinator_leader(const struct coordinator *c, int link)
{
	return c->link[link].leader;
}

bool coordinator_gone(const struct coordinator *c, int link)
{
	return c->link[link].gone;
}

void coordinator_link_closed(struct coordinator *c, int link)
{
	c->link[link].closed = true;
}

bool coordinator_has_invited(const struct coordinator *c)
{
	return c->has_invited;
}

bool coordinator_has_children(const struct coordinator *c)
{
	for (int k = c->first_child; k < c->links; k++)
		if (!c->link[k].closed)
			return true;
	return false;
}

/* ---- life ---- */

static bool is_below(int host, int top, int fanout)
{
	while (host > top)
		host = (host - 1) / fanout;
	return host == top;
}

/* The ranks of host @top and of the hosts below it. */
static int *subtree(const struct topo *t, int top, int fanout, int *count)
{
	int *ranks = calloc((size_t)t->size, sizeof(*ranks)), r;

	*count = 0;
	for (r = 0; ranks && r < t->size; r++)
		if (is_below(t->host_of[r], top, fanout))
			ranks[(*count)++] = r;
	return ranks;
}

static int leader_of(const struct topo *t, int host)
{
	int r = 0;

	while (t->host_of[r] != host)
		r++;
	return r;
}

static bool open_child(struct link *l, const struct topo *t, int host, int fanout)
{
	l->leader = leader_of(t, host);
	l->ranks = subtree(t, host, fanout, &l->count);
	l->known = calloc(LEDGER_IDS, sizeof(struct known *));
	return l->ranks && l->known;
}

static bool allocate(struct coordinator *c, const struct topo *topo, int fanout)
{
	int64_t first = (int64_t)topo->host * fanout + 1, last = first + fanout, h;
	size_t n;

	last = last < topo->hosts ? last : topo->hosts;
	c->first_child = !c->is_root;
	c->links = c->first_child + (last > first ? (int)(last - first) : 0);
	n = (size_t)LEDGER_IDS * (size_t)coordinator_children(c);
	c->link = calloc((size_t)c->links + 1, sizeof(*c->link));
	c->names = calloc(LEDGER_IDS, sizeof(*c->names));
	c->theirs = malloc(n * sizeof(*c->theirs) + 1);
	c->ranks = subtree(topo, topo->host, fanout, &c->count);
	if (!c->link || !c->names || !c->theirs || !c->ranks)
		return false;
	for (size_t i = 0; i < n; i++)
		c->theirs[i] = NOT_HERE;
	memset(c->offer.theirs, 0xff, sizeof(c->offer.theirs));
	if (!c->is_root)
		c->link[0].leader = leader_of(topo, (topo->host - 1) / fanout);
	for (h = first; h < last; h++)
		if (!open_child(coordinator_child(c, (int)(h - first)), topo, (int)h, fanout))
			return false;
	return true;
}

int coordinator_open(struct coordinator **tp, struct host_queue *s, const struct topo *topo,
		     int fanout, uint64_t cap, const struct coordinator_events *ev,
		     struct err *e)
{
	struct coordinator *c;

	if (topo->size > COORDINATOR_RANKS)
		return fail(e, RINGUP_EINVAL, "%d ranks: more than %d cannot agree", topo->size,
			    COORDINATOR_RANKS);
	c = calloc(1, sizeof(*c));
	if (!c)
		return fail(e, RINGUP_ENOMEM, "no memory for the control plane");
	c->ledger = s->ledger;
	c->host_queue = s;
	c->ev = *ev;
	c->size = topo->size;
	c->hosts = topo->hosts;
	c->host = topo->host;
	c->is_root = topo->host == 0;
	c->carries = c->hosts > 1 && c->hosts <= INLINE_HOSTS && c->hosts <= fanout + 1;
	c->cap = cap;
	frame_begin(&c->ready, FRAME_READY);
	if (!allocate(c, topo, fanout)) {
		coordinator_close(c);
		return fail(e, RINGUP_ENOMEM, "no memory for the control plane");
	}
	*tp = c;
	return 0;
}

static void close_link(struct link *l)
{
	for (int id = 0; l->known && id < LEDGER_IDS; id++)
		free(l->known[id]);
	free(l->known);
	free(l->ranks);
}

void coordinator_close(struct coordinator *c)
{
	if (!c)
		return;
	for (int i = 0; c->link && i < c->links; i++)
		close_link(&c->link[i]);
	for (int i = 0; c->names && i < LEDGER_IDS; i++) {
		free(c->names[i].rows);
		free(c->names[i].sums);
	}
	free(c->link);
	free(c->names);
	free(c->theirs);
	free(c->ranks);
	free(c);
}
