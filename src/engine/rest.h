/* rest.h - merges the waits of all plans in flight into one wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_REST_H
#define ENGINE_REST_H

#include <stdbool.h>

#include "backend/wait.h"

struct engine;

struct rest {
	struct wait_on all; /* the only back end's, or that of several together */
	int providers;      /* back ends with plans in flight                   */
	bool again;         /* a back end has yielded: look again               */
};

/*
 * rest_ask - ask all back ends of @g that have plans in flight what they wait for.
 *
 * @r comes zeroed.  With several back ends, @r->all has the descriptors of all and the shortest
 * time, and the caller sets its waitset, rank and ready().  With the baton.
 */
void rest_ask(struct engine *g, struct rest *r);

#endif
