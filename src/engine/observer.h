/* observer.h - fills the observation page of this rank (wire/observe.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_OBSERVER_H
#define ENGINE_OBSERVER_H

#include <stdint.h>

struct engine;
struct heartbeat_peer;
struct observe;
struct stall;

/*
 * The watch's thread fills the page at each of its ticks, from what the engine keeps anyway:
 * the operations in flight, the ledger's rounds, the callers.  So no operation does anything
 * for it. What it tells of time is sampled: a rank that was found waiting at 30 of 100 ticks
 * has waited for about 30 % of the time.
 */

/* observer_meet - the ranks have met: @peers of a world of @size; @as: their numbers in a
 * larger job, or NULL. */
void observer_meet(struct observe *o, const struct engine *g,
		   const struct heartbeat_peer *peers, const int *as);

/* observer_look - one look at @now_ns, by the watch's thread. */
void observer_look(struct observe *o, struct engine *g, struct stall *s, int64_t now_ns);

#endif
