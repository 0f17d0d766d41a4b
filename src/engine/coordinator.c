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
	int (*take)(struct coordinator *t, int link, struct frame_in *f, struct err *e);
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

int coordinator_take(struct coordinator *t, int link, const void *frame, size_t len,
		     struct err *e)
{
	struct frame_in f = { frame, len, false };
	uint64_t kind = frame_get(&f, 1);
	const struct kind *k = kind < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[kind] : NULL;

	if (!k || !k->take || !(link < t->first_child ? k->from_parent : k->from_child))
		return coordinator_malformed(t, link, "frame", e);
	return k->take(t, link, &f, e);
}

int coordinator_turn(struct coordinator *t, struct err *e)
{
	uint32_t id, last = LEDGER_IDS;
	int rc = 0;

	while (!rc && host_queue_take(t->host_queue, &id)) {
		if (host_queue_changed(t->host_queue, id))
			t->topics[id].dirty = true;
		t->topics[id].own = true;
		t->topics[id].taken++;
		coordinator_keep_own_sum(t, id);
		rc = coordinator_count(t, id, e);
		last = id;
	}
	if (!rc)
		rc = coordinator_tell_joined(t, e);
	if (!t->is_root)
		coordinator_flush_ready(t);
	else
		coordinator_announce(t);
	if (!rc && last < LEDGER_IDS && coordinator_may_offer(t, last))
		coordinator_send_offer(t, last);
	return rc;
}

int coordinator_links(const struct coordinator *t)
{
	return t->links;
}

int coordinator_leader(const struct coordinator *t, int link)
{
	return t->link[link].leader;
}

bool coordinator_gone(const struct coordinator *t, int link)
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

static bool allocate(struct coordinator *t, const struct topo *topo, int fanout)
{
	int64_t first = (int64_t)topo->host * fanout + 1, last = first + fanout, h;
	size_t n;

	last = last < topo->hosts ? last : topo->hosts;
	t->first_child = !t->is_root;
	t->links = t->first_child + (last > first ? (int)(last - first) : 0);
	n = (size_t)LEDGER_IDS * (size_t)coordinator_children(t);
	t->link = calloc((size_t)t->links + 1, sizeof(*t->link));
	t->topics = calloc(LEDGER_IDS, sizeof(*t->topics));
	t->theirs = malloc(n * sizeof(*t->theirs) + 1);
	t->ranks = subtree(topo, topo->host, fanout, &t->count);
	if (!t->link || !t->topics || !t->theirs || !t->ranks)
		return false;
	for (size_t i = 0; i < n; i++)
		t->theirs[i] = NOT_HERE;
	memset(t->offer.theirs, 0xff, sizeof(t->offer.theirs));
	if (!t->is_root)
		t->link[0].leader = leader_of(topo, (topo->host - 1) / fanout);
	for (h = first; h < last; h++)
		if (!open_child(coordinator_child(t, (int)(h - first)), topo, (int)h, fanout))
			return false;
	return true;
}

int coordinator_open(struct coordinator **tp, struct host_queue *s, const struct topo *topo,
		     int fanout, uint64_t cap, const struct coordinator_events *ev,
		     struct err *e)
{
	struct coordinator *t;

	if (topo->size > COORDINATOR_RANKS)
		return fail(e, RINGUP_EINVAL, "%d ranks: more than %d cannot agree", topo->size,
			    COORDINATOR_RANKS);
	t = calloc(1, sizeof(*t));
	if (!t)
		return fail(e, RINGUP_ENOMEM, "no memory for the control plane");
	t->ledger = s->ledger;
	t->host_queue = s;
	t->ev = *ev;
	t->size = topo->size;
	t->hosts = topo->hosts;
	t->host = topo->host;
	t->is_root = topo->host == 0;
	t->carries = t->hosts > 1 && t->hosts <= INLINE_HOSTS && t->hosts <= fanout + 1;
	t->cap = cap;
	frame_begin(&t->ready, FRAME_READY);
	if (!allocate(t, topo, fanout)) {
		coordinator_close(t);
		return fail(e, RINGUP_ENOMEM, "no memory for the control plane");
	}
	*tp = t;
	return 0;
}

static void close_link(struct link *l)
{
	for (int id = 0; l->known && id < LEDGER_IDS; id++)
		free(l->known[id]);
	free(l->known);
	free(l->ranks);
}

void coordinator_close(struct coordinator *t)
{
	if (!t)
		return;
	for (int i = 0; t->link && i < t->links; i++)
		close_link(&t->link[i]);
	for (int i = 0; t->topics && i < LEDGER_IDS; i++) {
		free(t->topics[i].rows);
		free(t->topics[i].sums);
	}
	free(t->link);
	free(t->topics);
	free(t->theirs);
	free(t->ranks);
	free(t);
}
