/* context_group.c - how the ranks of a job open and close process sets together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/comms.h"
#include "engine/execute.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/over.h"
#include "engine/request.h"
#include "engine/stall.h"
#include "engine/timeline.h"
#include "wire/ranks.h"

/*
 * Ranks of a group exchange bytes by collectives of the world, in which all ranks take part:
 * those outside the group send nothing.  Each message begins with a byte that says whether its
 * sender has more; the exchange in which no rank has more is the last.
 */
struct crossing {
	struct context *context;
	const struct group *group;
	unsigned char *message; /* buffer for this rank's bytes */
	size_t room;
	bool over;
};

enum crossing_state { CROSS_MORE, CROSS_LAST, CROSS_FAILED };

/* Returns the bytes of all ranks, one after the other, with the lengths in c->counts; a failure
 * is kept for bootstrap_exchange(). */
static void *cross_world(struct context *c, const void *mine, size_t len)
{
	void *all = NULL;
	struct request q = { .name = NAME_GROUP,
			     .in = mine,
			     .rows = len,
			     .outp = &all,
			     .counts = c->counts,
			     .signature = { .count = 1,
					    .pre = 1,
					    .post = 1,
					    .kind = PLAN_ALLGATHER,
					    .dtype = RINGUP_U8 } };

	c->why.code = 0;
	engine_submit(&c->world.comm, &q, INT64_MAX, NULL, &c->why);
	return all;
}

/* Checks that the @sent bytes of @rank at @what are @len bytes, as from the other ranks. */
static int check_length(struct context *c, int rank, uint64_t sent, size_t len,
			const void *what)
{
	if (sent == len)
		return 0;
	if (bootstrap_heard(what, sent, rank, &c->why))
		return c->why.code;
	/* A joined rank answers every operation, with nothing. */
	return fail(&c->why, RINGUP_EMISMATCH, "rank %d %s", rank,
		    sent ? "sent other data" : "has joined and does not take part");
}

static int exchange_in_world(void *ctx, const void *mine, size_t len, void *all)
{
	struct context *c = ctx;
	const uint64_t *counts = c->counts;
	void *got = cross_world(c, mine, len);
	uint64_t at = 0;
	int rc = c->why.code;

	for (int r = 0; r < c->size && !rc; at += counts[r++])
		rc = check_length(c, r, counts[r], len, (char *)got + at);
	if (!rc)
		memcpy(all, got, len * (size_t)c->size);
	free(got);
	return rc;
}

static struct bootstrap world_bootstrap(struct context *c)
{
	return (struct bootstrap){ c->rank, c->size, exchange_in_world, c, &c->why };
}

/* The message of this rank, behind the state byte; NULL without memory. */
static void *crossing_say(struct crossing *x, enum crossing_state state, const void *mine,
			  size_t len)
{
	unsigned char *more = len < x->room ? x->message : realloc(x->message, len + 1);

	if (!more)
		return NULL;
	x->message = more;
	x->room = len < x->room ? x->room : len + 1;
	more[0] = (unsigned char)state;
	if (len)
		memcpy(more + 1, mine, len);
	return more;
}

/* Checks the @sent bytes at @what from @rank of the group, which should be @len bytes. */
static int check_crossing(struct context *c, int rank, const unsigned char *what, uint64_t sent,
			  size_t len)
{
	if (sent && *what == CROSS_FAILED)
		return fail(&c->why, RINGUP_EPEER, "rank %d: %.*s", rank, (int)sent - 1,
			    what + 1);
	return check_length(c, rank, sent ? sent - 1 : 0, len, sent ? what + 1 : what);
}

/* One exchange in the group; @len bytes of each rank go to @all, if it is not NULL. */
static int cross(struct crossing *x, enum crossing_state state, const void *mine, size_t len,
		 void *all)
{
	struct context *c = x->context;
	const uint64_t *counts = c->counts;
	bool is_in = x->group->rank >= 0;
	void *say = is_in ? crossing_say(x, state, mine, len) : NULL;
	unsigned char *got = cross_world(c, say, say ? len + 1 : 0);
	uint64_t at = 0;
	int i = 0, rc = c->why.code;

	/* Without an answer the job is over. */
	x->over = true;
	for (int r = 0; r < c->size && got; at += counts[r++]) {
		if (i == x->group->size || x->group->ranks[i] != r)
			continue;
		x->over &= !counts[r] || got[at] != CROSS_MORE;
		if (!rc && state != CROSS_FAILED && is_in)
			rc = check_crossing(c, r, got + at, counts[r], len);
		if (all && !rc)
			memcpy((char *)all + len * (size_t)i, got + at + 1, len);
		i++;
	}
	free(got);
	if (is_in && !say && !rc)
		rc = fail(&c->why, RINGUP_ENOMEM, "out of memory for a group's exchange");
	return rc;
}

static int exchange_in_group(void *ctx, const void *mine, size_t len, void *all)
{
	return cross(ctx, CROSS_MORE, mine, len, all);
}

/* Takes part until no rank has more to send.  @rc is the outcome on this rank. */
static int crossing_end(struct crossing *x, int rc, struct err *e)
{
	const char *text = rc ? e->text : "";
	int last;

	do {
		last = cross(x, rc ? CROSS_FAILED : CROSS_LAST, text, strlen(text), NULL);
		if (last && !rc) {
			*e = x->context->why;
			rc = e->code;
			text = e->text;
		}
	} while (!x->over);
	free(x->message);
	return rc;
}

/* Writes the ranks of a list as text. */
static void group_text(const struct context *c, const int *ranks, uint64_t count, char *out)
{
	bool *in = calloc((size_t)c->size, sizeof(*in));

	for (uint64_t i = 0; in && i < count; i++)
		if (ranks[i] >= 0 && ranks[i] < c->size)
			in[ranks[i]] = true;
	*out = 0;
	if (in)
		ranks_text(out, in, c->size);
	free(in);
}

/* Ranks ask for different groups, @odd and rank 0 among them: all exchange their lists. */
static int groups_differ(struct context *c, const struct group *g, int odd, struct err *e)
{
	const uint64_t *counts = c->counts;
	uint64_t at = 0;
	int *got = cross_world(c, g->ranks, (size_t)g->size * sizeof(*g->ranks)), r;
	char first[RANKS_TEXT] = "", other[RANKS_TEXT] = "";

	if (c->why.code) {
		*e = c->why;
	} else {
		group_text(c, got, counts[0] / sizeof(*got), first);
		for (r = 0; r < odd; r++)
			at += counts[r] / sizeof(*got);
		group_text(c, got + at, counts[odd] / sizeof(*got), other);
		fail(e, RINGUP_EMISMATCH, "rank 0 asks for a group of %s, rank %d for %s",
		     first, odd, other);
	}
	free(got);
	return e->code;
}

static uint64_t digest_of(const int *ranks, int count)
{
	uint64_t digest = (uint64_t)count;

	for (int i = 0; i < count; i++)
		digest = (digest ^ (uint64_t)ranks[i]) * 0x100000001b3ULL;
	return digest;
}

/* All ranks have the shared memory: opens connections and back ends. */
static int open_comm(struct context *c, struct group *g, struct group_site *s,
		     struct crossing *x, struct err *e)
{
	int rc = g->rank >= 0 ? group_connect(g, s, e) : 0;

	rc = crossing_end(x, rc, e);
	if (rc || g->rank < 0)
		return rc;
	rc = comms_add(&c->engine, &g->comm, e);
	g->open = rc >= 0;
	if (g->open)
		timeline_join(&g->comm);
	return rc < 0 ? rc : 0;
}

static int open_group(struct context *c, struct group *g, struct peer_info *infos,
		      struct segment_door *door, struct err *e)
{
	struct bootstrap world = world_bootstrap(c);
	struct crossing crossing = { .context = c, .group = g };
	struct tree_events events;
	struct bootstrap bootstrap = { g->rank, g->size, exchange_in_group, &crossing,
				       &c->why };
	struct group_site site = { .conf = &c->conf,
				   .engine = &c->engine,
				   .infos = infos,
				   .door = door,
				   .bootstrap = &bootstrap,
				   .place_of = c->world.local_of,
				   .address = c->address,
				   .secret = &c->secret,
				   .events = &events,
				   .watch = &c->watch,
				   .deadline = clock_deadline(c->conf.start_timeout_ms) };
	struct peer_info mine;
	int rc;

	watch_group_events(&c->watch, &events);
	group_peer_info(&mine, &c->conf, door);
	g->comm.serial = c->groups + 1;
	mine.digest = digest_of(g->ranks, g->size);
	rc = bootstrap_exchange(&world, &mine, sizeof(mine), infos, e);
	for (int r = 1; r < c->size && !rc; r++)
		if (infos[r].digest != infos[0].digest)
			rc = groups_differ(c, g, r, e);
	if (rc)
		return rc;
	c->groups++;
	for (int i = 0; i < g->size; i++)
		infos[i] = infos[g->ranks[i]];
	rc = group_locate(g, infos, e);
	if (!rc && g->rank >= 0)
		rc = group_share(g, &site, e);
	rc = bootstrap_agree(&world, rc, e);
	if (!rc)
		rc = bootstrap_agree(&world, open_comm(c, g, &site, &crossing, e), e);
	if (!rc && g->rank >= 0)
		segment_touch(&g->segment);
	return rc;
}

/* Allocates what this rank needs, before the other ranks are asked. */
static int context_prepare(struct context *c, const int *ranks, int count, struct group *g,
			   struct peer_info **infosp, struct segment_door *door, struct err *e)
{
	memset(g, 0, sizeof(*g));
	g->rank = -1;
	g->size = count;
	g->ranks = calloc((size_t)count, sizeof(int));
	*infosp = calloc((size_t)c->size, sizeof(**infosp));
	if (!*infosp || !g->ranks)
		return fail(e, RINGUP_ENOMEM, "no memory for a group of %d ranks", count);
	for (int i = 0; i < count; i++) {
		g->ranks[i] = ranks[i];
		if (ranks[i] == c->rank)
			g->rank = i;
	}
	return segment_door_open(door, e);
}

int context_group_open(struct context *c, const int *ranks, int count, struct group *g,
		       struct err *e)
{
	struct bootstrap world = world_bootstrap(c);
	struct segment_door door = { .fd = -1 };
	struct peer_info *infos;
	int rc = context_prepare(c, ranks, count, g, &infos, &door, e);

	/* A rank that failed says so in place of its peer info, which the others wait for. */
	rc = rc ? bootstrap_agree(&world, rc, e) : open_group(c, g, infos, &door, e);
	segment_door_close(&door);
	free(infos);
	if (rc)
		group_close(g);
	return rc;
}

void context_group_abort(struct context *c, struct group *g)
{
	char why[80];

	if (g == &c->world) {
		snprintf(why, sizeof(why), "rank %d aborted the group of all ranks", c->rank);
		notify_alarm(&c->engine, c->rank, RINGUP_EABORTED, why);
		return;
	}
	over_leave(g->comm.left, g->rank | SEGMENT_ABORTED);
	notify_ranks(g->comm.engine, g->comm.waitset);
}

/* The exchange of ranks before they remove a group. */
struct removal {
	uint64_t serial;
	int64_t flying; /* this rank's operations in flight in it */
};

/* Checks that all ranks remove the same group, and that it is idle; alike on all ranks. */
static int may_remove(const struct removal *all, int size, struct err *e)
{
	for (int r = 1; r < size; r++)
		if (all[r].serial != all[0].serial)
			return fail(e, RINGUP_EMISMATCH,
				    "rank 0 removes the group that was added as number %llu, "
				    "rank %d number %llu",
				    (unsigned long long)all[0].serial, r,
				    (unsigned long long)all[r].serial);
	for (int r = 0; r < size; r++)
		if (all[r].flying)
			return fail(e, RINGUP_EBUSY,
				    "%lld operations of rank %d are in flight in the group",
				    (long long)all[r].flying, r);
	return 0;
}

int context_group_close(struct context *c, struct group *g, struct err *e)
{
	struct bootstrap world = world_bootstrap(c);
	struct removal mine = { g->comm.serial, 0 };
	struct removal *all;
	int rc;

	if (g->rank >= 0)
		mine.flying = execute_flying(&g->comm) + execute_messages(&g->comm);
	all = calloc((size_t)c->size, sizeof(*all));
	rc = all ? 0 : fail(e, RINGUP_ENOMEM, "no memory");
	rc = rc ? bootstrap_agree(&world, rc, e)
		: bootstrap_exchange(&world, &mine, sizeof(mine), all, e);
	if (!rc)
		rc = may_remove(all, c->size, e);
	free(all);
	if (rc)
		return rc;
	if (g->rank >= 0)
		op_hand_over(&g->comm, &c->world.comm);
	group_close(g);
	return 0;
}
