/* rest.h - the news that all plans in flight wait for, as one thing to wait for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_REST_H
#define ENGINE_REST_H

#include <stdbool.h>

#include "backend/wait.h"

struct engine;

struct rest {
	struct wait_on all; /* the only back end's, or that of several together */
	int providers;      /* back ends that have plans in flight              */
	bool again;         /* one of them has given way: look again            */
};

/*
 * rest_ask - ask all back ends of @g that have plans in flight what they wait for.
 *
 * @r comes zeroed.  Of several back ends, @r->all has the descriptors of all and the shortest
 * time, and its waitset, rank and ready() are the caller's to set.  With the baton.
 */
void rest_ask(struct engine *g, struct rest *r);

#endif
