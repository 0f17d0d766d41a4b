/* rest.c - merges the waits of all plans in flight into one wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/rest.h"

#include <stdlib.h>
#include <string.h>

#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/turns.h"

enum { LOOK_NS = 1000000 }; /* interval without memory for all descriptors */

/* Joins the descriptors of several back ends; without memory, waits for some, for LOOK_NS. */
static void rest_add_fds(struct engine *g, struct wait_on *all, const struct wait_on *one)
{
	int n = all->fds + one->fds + 1;
	bool is_here = all->fd && all->fd == g->poll;
	struct pollfd *more;

	if (n > g->poll_room) {
		more = realloc(g->poll, (size_t)n * 2 * sizeof(*more));
		if (!more) {
			all->look_ns = LOOK_NS;
			return;
		}
		g->poll = more;
		g->poll_room = n * 2;
	}
	/* Descriptors that are already there survive realloc(). */
	if (all->fds && !is_here)
		memcpy(g->poll, all->fd, (size_t)all->fds * sizeof(*g->poll));
	if (one->fds)
		memcpy(g->poll + all->fds, one->fd, (size_t)one->fds * sizeof(*g->poll));
	all->fd = g->poll;
	all->fds += one->fds;
}

static void rest_add(struct engine *g, struct rest *r, const struct wait_on *one)
{
	if (!r->providers++) {
		r->all = *one;
		return;
	}
	if (one->fds || r->all.fds)
		rest_add_fds(g, &r->all, one);
	if (!r->all.wake_fd)
		r->all.wake_fd = one->wake_fd;
	if (one->look_ns && (!r->all.look_ns || one->look_ns < r->all.look_ns))
		r->all.look_ns = one->look_ns;
}

/* Asks the back ends of @c that have plans in flight. */
static void rest_ask_comm(struct comm *c, struct rest *r)
{
	struct wait_on one = { 0 };
	bool again;
	int k;

	if (turns_is_open(c)) {
		if (turns_wait(c, &one, &again))
			rest_add(c->engine, r, &one);
		r->again |= again;
		return;
	}

	for (int i = 0; i < c->provider_count && c->running; i++) {
		struct provider *v = &c->providers[i];

		for (k = 0; k < c->run_count && c->runs[k].provider != v; k++)
			;
		if (k == c->run_count)
			continue;
		memset(&one, 0, sizeof(one));
		if (v->backend->wait(v->self, &one))
			rest_add(c->engine, r, &one);
		else
			r->again = true;
	}
}

void rest_ask(struct engine *g, struct rest *r)
{
	struct comm *c;
	int i, end = comms_enter(g);

	for (i = 0; i < end; i++)
		if ((c = comms_at(g, i)))
			rest_ask_comm(c, r);
	comms_exit(g, end);
}
