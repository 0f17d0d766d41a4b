/* seat.c - where a rank waits, and how it is woken. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/seat.h"

#include <sched.h>

#include "base/clock.h"
#include "base/futex.h"

enum { YIELDS = 20, STRANGER_NS = 1000000, SKIP_WAITS = 500 };

static void wake(struct seat *s)
{
	__atomic_fetch_add(&s->bell, 1, __ATOMIC_SEQ_CST);
	futex_wake(&s->bell);
}

void seat_ring(const struct row *w, int who)
{
	uint32_t asleep;
	int i;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(w->sleepers, __ATOMIC_RELAXED))
		return;
	for (i = 0; i < w->count; i++) {
		asleep = __atomic_load_n(&seat_at(w, i)->asleep, __ATOMIC_RELAXED);
		if (!asleep)
			continue;
		if (who == SEAT_ANYBODY || asleep == SEAT_ANYBODY ||
		    asleep == (uint32_t)who + 1)
			wake(seat_at(w, i));
	}
}

void seat_ring_one(const struct row *w, int rank)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	wake(seat_at(w, rank));
}

void seat_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

bool seat_linger(struct row *w, bool (*ready)(void *arg), void *arg)
{
	int64_t before, after;
	int i, pauses = seat_pauses(w);

	for (i = 0; i < pauses; i++) {
		if (ready(arg))
			return true;
		seat_pause();
	}
	if (__atomic_load_n(&w->hurt, __ATOMIC_RELAXED)) {
		__atomic_fetch_sub(&w->hurt, 1, __ATOMIC_RELAXED);
		return false;
	}
	before = clock_ns();
	for (i = 0; i < YIELDS; i++) {
		sched_yield();
		if (ready(arg))
			return true;
		after = clock_ns();
		if (after - before > STRANGER_NS) {
			__atomic_store_n(&w->hurt, SKIP_WAITS, __ATOMIC_RELAXED);
			return false;
		}
		before = after;
	}
	return false;
}

bool seat_wait(struct row *w, int who, bool (*ready)(void *arg), void *arg, int64_t deadline_ns)
{
	struct seat *s = seat_at(w, w->me);
	bool done;

	if (ready(arg))
		return true;
	if (w->patient && seat_linger(w, ready, arg))
		return true;
	for (;;) {
		uint32_t seen = __atomic_load_n(&s->bell, __ATOMIC_ACQUIRE);

		__atomic_store_n(&s->asleep,
				 who == SEAT_ANYBODY ? SEAT_ANYBODY : (uint32_t)who + 1,
				 __ATOMIC_RELAXED);
		__atomic_fetch_add(w->sleepers, 1, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		done = ready(arg);
		if (!done)
			futex_wait(&s->bell, seen, deadline_ns);
		__atomic_store_n(&s->asleep, 0, __ATOMIC_RELAXED);
		__atomic_fetch_sub(w->sleepers, 1, __ATOMIC_SEQ_CST);
		if (done || ready(arg))
			return true;
		if (deadline_ns != INT64_MAX && clock_ns() >= deadline_ns)
			return false;
	}
}

void seat_kick(const struct row *w, int rank)
{
	struct seat *s = seat_at(w, rank);

	if (__atomic_load_n(&s->driving, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&s->kick, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->engine_asleep, __ATOMIC_SEQ_CST))
		futex_wake(&s->kick);
}
