/* placement.c - measure how far apart the processors of a sample are. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/placement.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/futex.h"
#include "base/thread.h"
#include "ringup.h"

enum { ROUNDS = 8, TRIPS = 16, GIVE_UP_MS = 50 };

/* Limit between threads that share a cache and threads that do not; nothing measured on any
 * processor lies between 70 and 150. */
#define NEAR_NS 100

struct placement {
	_Alignas(128) _Atomic uint32_t ball;
	_Alignas(128) _Atomic uint32_t turn; /* of the probes; odd: the threads have to end */
	_Alignas(128) _Atomic uint32_t done; /* threads that have finished this turn      */
	_Atomic int64_t best_ns;             /* of a round                                */
	_Atomic bool late;
	bool alone;
	int started;
	struct side {
		struct placement *p;
		pthread_t thread;
		uint32_t mine; /* 0 serves, 1 returns */
		int cpu;
	} side[2];
};

/* Waits for the ball with our number; false if the other thread is not there. */
static bool placement_receive(struct placement *p, uint32_t want, int64_t until)
{
	unsigned spins = 0;

	while (atomic_load_explicit(&p->ball, memory_order_acquire) != want) {
		if (atomic_load_explicit(&p->late, memory_order_relaxed))
			return false;
		if (++spins % 4096 == 0 && clock_ns() > until) {
			atomic_store_explicit(&p->late, true, memory_order_relaxed);
			return false;
		}
	}
	return true;
}

/* Runs one of the two sides of a probe.  The least of several rounds counts, since interrupts
 * may lengthen the others; the first also waits for the other side to wake. */
static void placement_play(struct side *s)
{
	struct placement *p = s->p;
	int64_t until = clock_deadline(GIVE_UP_MS), begun, ns;
	uint32_t ball = s->mine;

	for (int round = 0; round < ROUNDS; round++) {
		begun = clock_ns();
		for (int i = 0; i < TRIPS; i++, ball += 2) {
			if (!placement_receive(p, ball, until))
				return;
			atomic_store_explicit(&p->ball, ball + 1, memory_order_release);
		}
		ns = clock_ns() - begun;
		if (s->mine == 0 && ns < atomic_load(&p->best_ns))
			atomic_store(&p->best_ns, ns);
	}
}

static void *placement_serve(void *arg)
{
	struct side *s = arg;
	struct placement *p = s->p;
	uint32_t seen = 0;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)s->cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (;;) {
		uint32_t now = atomic_load(&p->turn);

		if (now % 2)
			return NULL;
		if (now == seen) {
			futex_wait((uint32_t *)&p->turn, seen, INT64_MAX);
			continue;
		}
		seen = now;
		placement_play(s);
		atomic_fetch_add(&p->done, 1);
		futex_wake((uint32_t *)&p->done);
	}
}

static bool choose(struct placement *p)
{
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		return false;
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET((size_t)i, &set))
			continue;
		p->side[n ? 1 : 0].cpu = i;
		n++;
	}
	return n > 1;
}

int placement_open(struct placement **pp, struct err *e)
{
	struct placement *p = aligned_alloc(128, sizeof(*p));

	if (!p)
		return fail(e, RINGUP_ENOMEM, "a probe of the processors");
	memset(p, 0, sizeof(*p));
	p->alone = !choose(p);
	for (int i = 0; i < 2 && !p->alone; i++) {
		p->side[i].p = p;
		p->side[i].mine = (uint32_t)i;
		if (thread_start(&p->side[i].thread, placement_serve, &p->side[i])) {
			placement_close(p);
			return fail(e, RINGUP_ESYSTEM, "no thread to probe a processor");
		}
		p->started++;
	}
	*pp = p;
	return 0;
}

void placement_close(struct placement *p)
{
	if (!p)
		return;
	atomic_fetch_add(&p->turn, 1);
	futex_wake((uint32_t *)&p->turn);
	for (int i = 0; i < p->started; i++)
		pthread_join(p->side[i].thread, NULL);
	free(p);
}

double placement_probe(struct placement *p)
{
	uint32_t done;

	if (p->alone)
		return -1;
	atomic_store(&p->ball, 0);
	atomic_store(&p->done, 0);
	atomic_store(&p->best_ns, INT64_MAX);
	atomic_store(&p->late, false);
	atomic_fetch_add(&p->turn, 2);
	futex_wake((uint32_t *)&p->turn);
	while ((done = atomic_load(&p->done)) < 2)
		futex_wait((uint32_t *)&p->done, done, INT64_MAX);
	if (atomic_load(&p->best_ns) == INT64_MAX)
		return -1;
	return (double)atomic_load(&p->best_ns) / (2 * TRIPS);
}

enum placement_kind placement_kind(double ns)
{
	return ns < 0 ? PLACEMENT_UNKNOWN : ns < NEAR_NS ? PLACEMENT_NEAR : PLACEMENT_FAR;
}

enum placement_kind placement_both(enum placement_kind a, enum placement_kind b)
{
	if (a == PLACEMENT_UNKNOWN)
		return b;
	if (b == PLACEMENT_UNKNOWN)
		return a;
	return a == b ? a : PLACEMENT_MIXED;
}

const char *placement_name(enum placement_kind kind)
{
	static const char *const names[] = { "near", "far", "mixed", "-" };

	return names[kind];
}
