/* turns.c - plans of several groups on one device begin in the same order on all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/turns.h"

#include <stdlib.h>

#include "backend/wait.h"
#include "base/err.h"
#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/provider.h"

int turns_open(struct comm *c, bool wanted, struct err *e)
{
	struct turns *o = &c->turns;
	size_t size = (size_t)c->topo.size;

	o->wanted = wanted;
	o->all = calloc(2 * size, sizeof(*o->all));
	if (!o->all)
		return fail(e, RINGUP_ENOMEM, "no memory for the order of %d ranks",
			    c->topo.size);
	o->counts = o->all + size;
	for (size_t i = 0; i < size; i++)
		o->counts[i] = 1;
	return 0;
}

void turns_close(struct comm *c)
{
	free(c->turns.all);
	c->turns.all = c->turns.counts = NULL;
}

/* The greatest number that this rank has proposed or heard. */
static uint64_t *turns_clock(struct comm *c)
{
	return &c->engine->turns_clock;
}

/* Begins the allgather of the ranks' proposals. */
static int turns_propose(struct comm *c, struct err *e)
{
	struct turns *o = &c->turns;
	uint64_t *mine = &o->all[c->topo.rank];

	*mine = o->number = ++*turns_clock(c);
	o->piece = (struct piece){ .in = mine, .out = o->all, .count = 1 };
	o->plan = (struct plan){ .kind = PLAN_ALLGATHER,
				 .dtype = RINGUP_I64,
				 .pre = 1,
				 .post = 1,
				 .piece = &o->piece,
				 .pieces = 1,
				 .count = 1,
				 .counts = o->counts };
	o->provider = provider_for(c, &o->plan);
	if (!o->provider)
		return fail(e, RINGUP_ENOBACKEND,
			    "no back end can order the plans of several groups");
	o->plan.serial = o->provider->begun++;
	o->state = TURNS_PROPOSED;
	return o->provider->backend->start(o->provider->self, &o->plan, e);
}

static int turns_hear(struct comm *c, struct err *e)
{
	struct turns *o = &c->turns;
	uint64_t *clock = turns_clock(c);
	int rc = o->provider->backend->step(o->provider->self, &o->plan, e);

	if (rc <= 0)
		return rc;
	for (int r = 0; r < c->topo.size; r++)
		if (o->all[r] > o->number)
			o->number = o->all[r];
	if (o->number > *clock)
		*clock = o->number;
	o->state = TURNS_NUMBERED;
	return 1;
}

/* Has another group of this rank a plan that comes before that of @c, or may? */
static bool turns_is_behind(const struct comm *c)
{
	struct engine *g = c->engine;
	const struct turns *o = &c->turns;
	bool behind = false;
	int i, end = comms_enter(g);

	for (i = 0; i < end && !behind; i++) {
		const struct comm *other = comms_at(g, i);

		if (!other || other == c || other->turns.state == TURNS_NONE)
			continue;
		behind = other->turns.number != o->number ? other->turns.number < o->number
							  : other->serial < c->serial;
	}
	comms_exit(g, end);
	return behind;
}

int turns_take(struct comm *c, struct err *e)
{
	struct turns *o = &c->turns;
	int rc = 1;

	if (o->state == TURNS_NONE)
		rc = turns_propose(c, e) ? e->code : 1;
	if (rc > 0 && o->state == TURNS_PROPOSED)
		rc = turns_hear(c, e);
	if (rc <= 0 || turns_is_behind(c))
		return rc < 0 ? rc : 0;
	o->state = TURNS_BEGUN;
	return 1;
}

void turns_done(struct comm *c)
{
	c->turns.state = TURNS_NONE;
}

bool turns_is_open(const struct comm *c)
{
	return c->turns.state == TURNS_PROPOSED || c->turns.state == TURNS_NUMBERED;
}

bool turns_wait(struct comm *c, struct wait_on *w, bool *again)
{
	struct turns *o = &c->turns;
	bool waits;

	*again = false;
	/* Another group's plan comes first: its back end is asked what it waits for. */
	if (o->state != TURNS_PROPOSED)
		return false;
	waits = o->provider->backend->wait(o->provider->self, w);
	*again = !waits;
	return waits;
}
