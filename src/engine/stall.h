/* stall.h - tensors that some ranks have submitted and others have not. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_STALL_H
#define ENGINE_STALL_H

#include <stdint.h>

struct engine;
struct pulse_rules;
struct watch_peer;

/*
 * A rank that never submits a tensor is alive and well; the others wait for it,
 * and would for ever.  After a while each such tensor is reported, with those who
 * wait and those who are missing, then again after twice that time, and so on; if
 * asked, the job ends.
 *
 * Submitting costs nothing for it: an operation's age counts from the first time
 * that it was seen here, so it is up to one tick younger than it is.  Of the ranks
 * of a host that wait, the first one speaks.
 *
 * One thread, the watch's.
 */
struct stall {
	int64_t warn_ns, abort_ns; /* INT64_MAX: never */
	const struct watch_peer *peer;
	int size; /* of the world */
};

void stall_init(struct stall *s, const struct pulse_rules *r, const struct watch_peer *peer,
		int size);

/* stall_look - warn of, or end the job for, what has waited too long at @now_ns. */
void stall_look(struct stall *s, struct engine *g, int64_t now_ns);

#endif
