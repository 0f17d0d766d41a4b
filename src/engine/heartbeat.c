/* heartbeat.c - when each peer was last heard from, and which are late or lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/heartbeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/pidstat.h"
#include "ringup.h"

enum { TICK_MS = 500, LEAST_TICK_MS = 10, MS = 1000000 };

static uint32_t clamp(int64_t ms)
{
	return ms > INT32_MAX ? INT32_MAX : (uint32_t)ms;
}

static uint32_t heartbeat_least(uint32_t tick_ms, uint32_t limit_ms, uint32_t ticks)
{
	return limit_ms && limit_ms / ticks < tick_ms ? limit_ms / ticks : tick_ms;
}

void heartbeat_rules_make(struct heartbeat_rules *r, const struct conf *c)
{
	uint32_t tick = TICK_MS;

	memset(r, 0, sizeof(*r));
	if (c->liveness) {
		r->freeze_warn_ms = clamp(c->freeze_warn_ms);
		r->freeze_ms = clamp(c->freeze_ms);
		r->lost_warn_ms = clamp(c->lost_warn_ms);
		r->lost_ms = clamp(c->lost_ms);
	}
	if (c->stall_check) {
		r->stall_warn_ms = clamp(c->stall_warn_ms);
		r->stall_abort_ms = clamp(c->stall_abort_ms);
		r->deadlock_ms = clamp(c->deadlock_ms);
	}
	tick = heartbeat_least(tick, r->freeze_warn_ms, 4);
	tick = heartbeat_least(tick, r->freeze_ms, 8);
	tick = heartbeat_least(tick, r->lost_warn_ms, 4);
	tick = heartbeat_least(tick, r->lost_ms, 8);
	tick = heartbeat_least(tick, r->stall_warn_ms, 2);
	tick = heartbeat_least(tick, r->stall_abort_ms, 2);
	tick = heartbeat_least(tick, r->deadlock_ms, 4);
	if (tick < LEAST_TICK_MS)
		tick = LEAST_TICK_MS;
	if (r->freeze_warn_ms || r->freeze_ms || r->lost_warn_ms || r->lost_ms ||
	    r->stall_warn_ms || r->stall_abort_ms || r->deadlock_ms)
		r->tick_ms = tick;
}

int heartbeats_open(struct heartbeats *h, int count, uint32_t warn_ms, uint32_t fail_ms,
		    struct err *e)
{
	*h = (struct heartbeats){
		.count = count,
		.warn_ns = warn_ms ? (int64_t)warn_ms * MS : INT64_MAX,
		.fail_ns = fail_ms ? (int64_t)fail_ms * MS : INT64_MAX,
	};
	h->of = calloc((size_t)count, sizeof(*h->of));
	return h->of ? 0 : fail(e, RINGUP_ENOMEM, "no memory to watch %d ranks", count);
}

void heartbeats_close(struct heartbeats *h)
{
	free(h->of);
	memset(h, 0, sizeof(*h));
}

void heartbeats_look(struct heartbeats *h, int64_t now_ns)
{
	int64_t shortest = h->warn_ns < h->fail_ns ? h->warn_ns : h->fail_ns;
	int64_t pause = h->looked_ns ? now_ns - h->looked_ns : 0;

	h->looked_ns = now_ns;
	if (pause <= shortest / 2)
		return;
	for (int i = 0; i < h->count; i++) {
		struct heartbeat *x = &h->of[i];

		if (!x->heard_ns)
			continue;
		x->heard_ns = x->heard_ns + pause < now_ns ? x->heard_ns + pause : now_ns;
	}
}

void heartbeat_hear(struct heartbeats *h, int who, int64_t now_ns)
{
	h->of[who].heard_ns = now_ns;
}

void heartbeat_see(struct heartbeats *h, int who, uint32_t beat, int64_t now_ns)
{
	if (beat == h->of[who].beat)
		return;
	h->of[who].beat = beat;
	h->of[who].heard_ns = now_ns;
}

int64_t heartbeat_silence_ns(const struct heartbeats *h, int who, int64_t now_ns)
{
	return h->of[who].heard_ns ? now_ns - h->of[who].heard_ns : 0;
}

enum heartbeat_change heartbeat_judge(struct heartbeats *h, int who, int64_t now_ns)
{
	struct heartbeat *x = &h->of[who];
	int64_t silence = heartbeat_silence_ns(h, who, now_ns);

	if (x->lost)
		return HEARTBEAT_STEADY;
	if (silence >= h->fail_ns) {
		x->lost = true;
		return HEARTBEAT_LOST;
	}
	if (silence >= h->warn_ns && !x->late) {
		x->late = true;
		return HEARTBEAT_LATE;
	}
	if (silence < h->warn_ns && x->late) {
		x->late = false;
		return HEARTBEAT_BACK;
	}
	return HEARTBEAT_STEADY;
}

bool heartbeats_echo(struct heartbeats *h, bool late, int64_t pause_ns, int64_t now_ns)
{
	int64_t calm;

	if (late) {
		if (!h->silent_ns)
			h->silent_ns = now_ns - h->warn_ns;
		return true;
	}
	if (h->silent_ns) {
		calm = now_ns + (now_ns - h->silent_ns);
		calm = calm < now_ns + pause_ns ? calm : now_ns + pause_ns;
		h->calm_ns = calm > h->calm_ns ? calm : h->calm_ns;
		h->silent_ns = 0;
	}
	return now_ns < h->calm_ns;
}

void heartbeat_tell(const struct heartbeat_tale *t, char *out, size_t size)
{
	char seen[128] = "";

	if (t->seen_by >= 0)
		snprintf(seen, sizeof(seen), " towards rank %d on %s", t->seen_by, t->seen_on);
	/* The facts come before the guess: the sentence may be cut off. */
	snprintf(out, size, "rank %d (process %d on %s) %s for %.1f s%s%s: %s", t->rank, t->pid,
		 t->host, t->verb, (double)t->silence_ns / 1e9, seen, t->nearend, t->because);
}

void heartbeat_state(int pid, char *out, size_t size)
{
	struct pidstat s;
	const char *what = "it does not run";

	if (pidstat_read(pid, &s)) {
		snprintf(out, size, "it cannot be seen from here");
		return;
	}
	switch (s.state) {
	case 'T':
		what = "it is stopped";
		break;
	case 't':
		what = "a debugger holds it";
		break;
	case 'D':
		what = "it hangs in the kernel";
		break;
	case 'R':
		what = "it gets no processor";
		break;
	case 'Z':
	case 'X':
		what = "it is dead";
		break;
	}
	snprintf(out, size, "%s (state %c)", what, s.state);
}
