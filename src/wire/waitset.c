/* waitset.c - wait and notify between the ranks of one host: spin, yield, futex or poll. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/waitset.h"

#include <sched.h>

#include "base/clock.h"
#include "base/futex.h"
#include "wire/wake_fd.h"

enum {
	YIELD_NS = 1000000, /* of yielding before sleeping: several times a wake-up's cost */
	STRANGER_NS = 1000000,
	ONE_LOOK = 1, /* pause, for waits that outlast a context switch */
	TRUST = 128,  /* pauses before a rank checks, where every rank has a processor, that no
		       * foreign process has driven two ranks onto one */
	SKIP_LEAST = 16, /* waits after a yield to a foreign process; doubles with the next */
	SKIP_MOST = 512,
	PART_NS = 100000, /* between two moves, each of which costs about 10 us */
};

static void waiter_wake(struct waiter *s)
{
	__atomic_fetch_add(&s->word, 1, __ATOMIC_SEQ_CST);
	futex_wake(&s->word);
	if (__atomic_load_n(&s->polling, __ATOMIC_SEQ_CST)) {
		const uint64_t name[2] = { __atomic_load_n(&s->wake_fd[0], __ATOMIC_RELAXED),
					   __atomic_load_n(&s->wake_fd[1], __ATOMIC_RELAXED) };

		wake_fd_notify(name);
	}
}

void waitset_wake(const struct waitset *w, int rank)
{
	uint32_t asleep;

	for (int i = 0; i < w->count; i++) {
		asleep = __atomic_load_n(&waitset_at(w, i)->asleep, __ATOMIC_RELAXED);
		if (!asleep)
			continue;
		if (rank == WAITSET_ANY || asleep == WAITSET_ANY ||
		    asleep == (uint32_t)rank + 1)
			waiter_wake(waitset_at(w, i));
	}
}

void waitset_notify_one(const struct waitset *w, int rank)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	waiter_wake(waitset_at(w, rank));
}

void waitset_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

int waitset_pauses_in(int us)
{
	enum { TRY = 256, ROUNDS = 3 };
	int64_t begun, took, least = INT64_MAX;

	/* The shortest round was not interrupted. */
	for (int round = 0; round < ROUNDS; round++) {
		begun = clock_ns();
		for (int i = 0; i < TRY; i++)
			waitset_pause();
		took = clock_ns() - begun;
		least = took < least ? took : least;
	}
	return (int)((int64_t)us * 1000 * TRY / (least > TRY ? least : TRY)) + 1;
}

static void cpu_say(const struct waitset *w, int number)
{
	uint32_t *cpu = &waitset_at(w, w->me)->cpu, now = (uint32_t)number + 1;

	if (__atomic_load_n(cpu, __ATOMIC_RELAXED) != now)
		__atomic_store_n(cpu, now, __ATOMIC_RELAXED);
}

/* Tell the others which processor this thread is on. */
static void cpu_say_here(const struct waitset *w)
{
	cpu_say(w, sched_getcpu());
}

static bool waits_here(const struct waitset *w, int rank)
{
	if (rank != WAITSET_ANY)
		return waitset_shares_cpu(w, rank);
	for (int i = 0; i < w->count; i++)
		if (waitset_shares_cpu(w, i))
			return true;
	return false;
}

int waitset_better_cpu(const struct waitset *w, const cpu_set_t *may)
{
	uint16_t ranks[CPU_SETSIZE] = { 0 };
	uint32_t cpu, here = __atomic_load_n(&waitset_at(w, w->me)->cpu, __ATOMIC_RELAXED) - 1;
	int left, best, above = -1, below = -1;

	for (int i = 0; i < w->count; i++) {
		cpu = __atomic_load_n(&waitset_at(w, i)->cpu, __ATOMIC_RELAXED) - 1;
		if (cpu < CPU_SETSIZE)
			ranks[cpu]++;
	}
	if (here >= CPU_SETSIZE)
		return -1;
	/* Of equal processors the next one after this, so that ranks which leave different
	 * processors do not meet again.  The loop ends with the last processor of @may, since
	 * most numbers have none. */
	for (cpu = 0, left = CPU_COUNT(may); left; cpu++) {
		int *to = cpu > here ? &above : &below;

		if (!CPU_ISSET(cpu, may))
			continue;
		left--;
		if (cpu != here && (*to < 0 || ranks[cpu] < ranks[*to]))
			*to = (int)cpu;
	}
	best = above < 0 || (below >= 0 && ranks[below] < ranks[above]) ? below : above;
	return best >= 0 && ranks[best] + 1 < ranks[here] ? best : -1;
}

/*
 * A foreign process, or the wake-up of this thread, may have driven ranks onto one processor
 * while others are free; and the scheduler does not part threads that sleep in turn.  Then
 * this thread moves, but not too often.
 */
static bool cpu_part(struct waitset *w)
{
	int64_t now = clock_ns();
	cpu_set_t may, one;
	bool gone;
	int cpu;

	if (now - __atomic_load_n(&w->policy.parted_ns, __ATOMIC_RELAXED) < PART_NS)
		return false;
	__atomic_store_n(&w->policy.parted_ns, now, __ATOMIC_RELAXED);
	cpu_say_here(w);
	if (sched_getaffinity(0, sizeof(may), &may))
		return false;
	cpu = waitset_better_cpu(w, &may);
	if (cpu < 0)
		return false;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	/* The ranks that stay have to know before this thread runs over there: else they
	 * would all follow. */
	cpu_say(w, cpu);
	gone = !sched_setaffinity(0, sizeof(one), &one);
	if (gone)
		(void)!sched_setaffinity(0, sizeof(may), &may);
	cpu_say_here(w);
	return gone;
}

/* @away: pauses for a rank that has another processor, where processors are short. */
static bool policy_spin(struct waitset *w, int away, const int *rank, bool (*ready)(void *arg),
			void *arg)
{
	int i, pauses = w->policy.away ? away : w->policy.pauses,
	       trust = w->policy.away ? 0 : TRUST;

	for (i = 0; i < pauses; i++) {
		if (ready(arg))
			return true;
		if (i == trust)
			cpu_say_here(w);
		if (i >= trust && waits_here(w, *rank) && !cpu_part(w))
			return false;
		waitset_pause();
	}
	return false;
}

/* Learn that yielding pays, or (@hurts) that it does not. */
static void policy_learn(struct waitset *w, bool hurts)
{
	int n = __atomic_load_n(&w->policy.distrust, __ATOMIC_RELAXED);

	if (!hurts && !n)
		return;
	n = !hurts ? n / 2 : n < SKIP_LEAST ? SKIP_LEAST : n < SKIP_MOST ? n * 2 : n;
	__atomic_store_n(&w->policy.distrust, n, __ATOMIC_RELAXED);
	if (hurts)
		__atomic_store_n(&w->policy.skips, n, __ATOMIC_RELAXED);
}

/*
 * A yield took long, and the wait is over: a rank had to compute, or a foreign process ran,
 * and all ranks besides.  After the former the next yield is short.
 */
static void policy_suspect(struct waitset *w)
{
	if (__atomic_load_n(&w->policy.distrust, __ATOMIC_RELAXED))
		policy_learn(w, true);
	else
		__atomic_store_n(&w->policy.distrust, 1, __ATOMIC_RELAXED);
}

/* Yields until it is ready, for YIELD_NS, or until a foreign process has the processor. */
static bool policy_yield(struct waitset *w, int away, const int *rank, bool (*ready)(void *arg),
			 void *arg)
{
	int64_t begun = clock_ns(), before = begun, after;
	bool is_ready, is_long;

	do {
		sched_yield();
		is_ready = ready(arg);
		after = clock_ns();
		is_long = after - before > STRANGER_NS;
		if (is_ready && is_long)
			policy_suspect(w);
		else if (is_ready || is_long)
			policy_learn(w, is_long);
		if (is_ready || is_long)
			return is_ready;
		before = after;
		if (away <= ONE_LOOK)
			continue;
		if (policy_spin(w, away, rank, ready, arg))
			return true;
		before = clock_ns();
	} while (before - begun < YIELD_NS);
	return false;
}

static bool policy_try(struct waitset *w, int away, const int *rank, bool (*ready)(void *arg),
		       void *arg)
{
	if (policy_spin(w, away, rank, ready, arg))
		return true;
	if (__atomic_load_n(&w->policy.skips, __ATOMIC_RELAXED)) {
		__atomic_fetch_sub(&w->policy.skips, 1, __ATOMIC_RELAXED);
		return false;
	}
	return policy_yield(w, away, rank, ready, arg);
}

bool waitset_spin(struct waitset *w, const int *rank, bool (*ready)(void *arg), void *arg)
{
	return policy_try(w, w->policy.away, rank, ready, arg);
}

bool waitset_wait(struct waitset *w, int rank, bool (*ready)(void *arg), void *arg,
		  int64_t deadline_ns)
{
	struct waiter *s = waitset_at(w, w->me);
	int away = w->policy.away ? ONE_LOOK : 0;
	bool done;

	if (ready(arg))
		return true;
	if (__atomic_load_n(&w->policy.patient, __ATOMIC_RELAXED) &&
	    policy_try(w, away, &rank, ready, arg))
		return true;
	for (;;) {
		uint32_t seen = __atomic_load_n(&s->word, __ATOMIC_ACQUIRE);

		__atomic_store_n(&s->asleep,
				 rank == WAITSET_ANY ? WAITSET_ANY : (uint32_t)rank + 1,
				 __ATOMIC_RELAXED);
		__atomic_fetch_add(w->sleepers, 1, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		done = ready(arg);
		if (!done)
			futex_wait(&s->word, seen, deadline_ns);
		__atomic_store_n(&s->asleep, 0, __ATOMIC_RELAXED);
		__atomic_fetch_sub(w->sleepers, 1, __ATOMIC_SEQ_CST);
		if (done || ready(arg))
			return true;
		if (deadline_ns != INT64_MAX && clock_ns() >= deadline_ns)
			return false;
	}
}

void waitset_poll(struct waitset *w, const struct wake_fd *wake_fd, bool (*ready)(void *arg),
		  void *arg, struct pollfd *p, int n, int64_t deadline_ns)
{
	struct waiter *s = waitset_at(w, w->me);

	p[n] = (struct pollfd){ wake_fd->fd, POLLIN, 0 };
	__atomic_store_n(&s->wake_fd[0], wake_fd->name[0], __ATOMIC_RELAXED);
	__atomic_store_n(&s->wake_fd[1], wake_fd->name[1], __ATOMIC_RELAXED);
	__atomic_store_n(&s->asleep, WAITSET_ANY, __ATOMIC_RELAXED);
	__atomic_store_n(&s->polling, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(w->sleepers, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!ready(arg))
		(void)poll(p, (nfds_t)n + 1, clock_left_ms(deadline_ns));
	__atomic_store_n(&s->asleep, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->polling, 0, __ATOMIC_RELAXED);
	__atomic_fetch_sub(w->sleepers, 1, __ATOMIC_SEQ_CST);
	if (p[n].revents)
		wake_fd_drain(wake_fd);
}
