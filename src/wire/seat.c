/* seat.c - where a rank waits, and how it is woken. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/seat.h"

#include <pthread.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/forks.h"
#include "base/futex.h"
#include "base/pidstat.h"
#include "ringup.h"

enum {
	LINGER_NS = 1000000, /* giving way, before sleeping: several times what waking takes */
	STRANGER_NS = 1000000,
	ONE_LOOK = 1, /* pause, for what takes longer than to change places */
	TRUST = 128,  /* pauses: with a processor for every rank, until then each has its own;
		       * but a stranger may have driven two of them onto one */
	SKIP_LEAST = 16, /* waits, after a yield to a stranger; twice as many after the next */
	SKIP_MOST = 512,
	PART_NS = 100000,     /* between two moves, each of which costs about 10 us */
	SETTLE_MS = 100,      /* many times what is written between two looks whether to stop */
	UNSETTLED_MS = 10000, /* the most, for a thread that runs but gets no processor */
};

/* What this process knocks with, at whosever door. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int knocker = -1;

static void make_knocker(void)
{
	knocker = file_lift(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

static socklen_t knob_address(struct sockaddr_un *a, const uint64_t name[2])
{
	static const char prefix[] = "\0ringup-seat-"; /* a leading NUL: no file */
	size_t n = sizeof(prefix) - 1;

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path, prefix, n);
	snprintf(a->sun_path + n, sizeof(a->sun_path) - n, "%016llx%016llx",
		 (unsigned long long)name[0], (unsigned long long)name[1]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 32);
}

static void knock(const struct seat *s)
{
	const uint64_t name[2] = { __atomic_load_n(&s->knob[0], __ATOMIC_RELAXED),
				   __atomic_load_n(&s->knob[1], __ATOMIC_RELAXED) };
	struct sockaddr_un a;
	socklen_t len = knob_address(&a, name);

	pthread_once(&once, make_knocker);
	/* If its queue is full, it wakes from what is in there. */
	(void)!sendto(knocker, "k", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&a, len);
}

static void wake(struct seat *s)
{
	__atomic_fetch_add(&s->bell, 1, __ATOMIC_SEQ_CST);
	futex_wake(&s->bell);
	if (__atomic_load_n(&s->dozing, __ATOMIC_SEQ_CST))
		knock(s);
}

void seat_wake(const struct row *w, int who)
{
	uint32_t asleep;
	int i;

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

int seat_pauses_in(int us)
{
	enum { TRY = 256, ROUNDS = 3 };
	int64_t begun, took, least = INT64_MAX;
	int round, i;

	/* The shortest is the one that was not interrupted. */
	for (round = 0; round < ROUNDS; round++) {
		begun = clock_ns();
		for (i = 0; i < TRY; i++)
			seat_pause();
		took = clock_ns() - begun;
		least = took < least ? took : least;
	}
	return (int)((int64_t)us * 1000 * TRY / (least > TRY ? least : TRY)) + 1;
}

static void say_cpu(const struct row *w, int number)
{
	uint32_t *cpu = &seat_at(w, w->me)->cpu, now = (uint32_t)number + 1;

	if (__atomic_load_n(cpu, __ATOMIC_RELAXED) != now)
		__atomic_store_n(cpu, now, __ATOMIC_RELAXED);
}

/* Tell the others which processor this thread is on. */
static void say_where(const struct row *w)
{
	say_cpu(w, sched_getcpu());
}

static bool is_here(const struct row *w, int who)
{
	int i;

	if (who != SEAT_ANYBODY)
		return seat_shares(w, who);
	for (i = 0; i < w->count; i++)
		if (seat_shares(w, i))
			return true;
	return false;
}

int seat_better_cpu(const struct row *w, const cpu_set_t *may)
{
	uint16_t ranks[CPU_SETSIZE] = { 0 };
	uint32_t cpu, here = __atomic_load_n(&seat_at(w, w->me)->cpu, __ATOMIC_RELAXED) - 1;
	int i, left, best, above = -1, below = -1;

	for (i = 0; i < w->count; i++) {
		cpu = __atomic_load_n(&seat_at(w, i)->cpu, __ATOMIC_RELAXED) - 1;
		if (cpu < CPU_SETSIZE)
			ranks[cpu]++;
	}
	if (here >= CPU_SETSIZE)
		return -1;
	/* Of equal ones the next from here on, so that those who leave different processors
	 * do not meet again.  There are more that could be than there are: not all are looked
	 * at. */
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
 * A stranger, or whoever woke us, may have driven ranks together that have room elsewhere;
 * and the scheduler leaves alone those who sleep in turn.  Then go, but not too often.
 */
static bool part(struct row *w)
{
	int64_t now = clock_ns();
	cpu_set_t may, one;
	bool gone;
	int cpu;

	if (now - __atomic_load_n(&w->parted_ns, __ATOMIC_RELAXED) < PART_NS)
		return false;
	__atomic_store_n(&w->parted_ns, now, __ATOMIC_RELAXED);
	say_where(w);
	if (sched_getaffinity(0, sizeof(may), &may))
		return false;
	cpu = seat_better_cpu(w, &may);
	if (cpu < 0)
		return false;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	/* Those who stay have to know before this thread has its turn over there: or they
	 * would all follow, one after the other. */
	say_cpu(w, cpu);
	gone = !sched_setaffinity(0, sizeof(one), &one);
	if (gone)
		(void)!sched_setaffinity(0, sizeof(may), &may);
	say_where(w);
	return gone;
}

/* @away: pauses for a rank that has another processor, where they are short. */
static bool spin(struct row *w, int away, const int *who, bool (*ready)(void *arg), void *arg)
{
	int i, pauses = w->away ? away : w->pauses, trust = w->away ? 0 : TRUST;

	for (i = 0; i < pauses; i++) {
		if (ready(arg))
			return true;
		if (i == trust)
			say_where(w);
		if (i >= trust && is_here(w, *who) && !part(w))
			return false;
		seat_pause();
	}
	return false;
}

/* Yielding pays, or (@hurts) it does not. */
static void learn(struct row *w, bool hurts)
{
	int n = __atomic_load_n(&w->distrust, __ATOMIC_RELAXED);

	if (!hurts && !n)
		return;
	n = !hurts ? n / 2 : n < SKIP_LEAST ? SKIP_LEAST : n < SKIP_MOST ? n * 2 : n;
	__atomic_store_n(&w->distrust, n, __ATOMIC_RELAXED);
	if (hurts)
		__atomic_store_n(&w->skips, n, __ATOMIC_RELAXED);
}

/*
 * A yield took long, and it is ready: a sibling had to compute, or a stranger ran and all
 * siblings besides.  After the former the next yield is short.
 */
static void suspect(struct row *w)
{
	if (__atomic_load_n(&w->distrust, __ATOMIC_RELAXED))
		learn(w, true);
	else
		__atomic_store_n(&w->distrust, 1, __ATOMIC_RELAXED);
}

/* Give way until it is ready, for a while, or until a stranger has taken the processor. */
static bool give_way(struct row *w, int away, const int *who, bool (*ready)(void *arg),
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
			suspect(w);
		else if (is_ready || is_long)
			learn(w, is_long);
		if (is_ready || is_long)
			return is_ready;
		before = after;
		if (away <= ONE_LOOK)
			continue;
		if (spin(w, away, who, ready, arg))
			return true;
		before = clock_ns();
	} while (before - begun < LINGER_NS);
	return false;
}

static bool linger(struct row *w, int away, const int *who, bool (*ready)(void *arg), void *arg)
{
	if (spin(w, away, who, ready, arg))
		return true;
	if (__atomic_load_n(&w->skips, __ATOMIC_RELAXED)) {
		__atomic_fetch_sub(&w->skips, 1, __ATOMIC_RELAXED);
		return false;
	}
	return give_way(w, away, who, ready, arg);
}

bool seat_linger(struct row *w, const int *who, bool (*ready)(void *arg), void *arg)
{
	return linger(w, w->away, who, ready, arg);
}

bool seat_wait(struct row *w, int who, bool (*ready)(void *arg), void *arg, int64_t deadline_ns)
{
	struct seat *s = seat_at(w, w->me);
	int away = w->away ? ONE_LOOK : 0;
	bool done;

	if (ready(arg))
		return true;
	if (__atomic_load_n(&w->patient, __ATOMIC_RELAXED) && linger(w, away, &who, ready, arg))
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

int seat_knob_open(struct seat_knob *k, struct err *e)
{
	struct sockaddr_un a;
	socklen_t len;

	randombytes_buf(k->name, sizeof(k->name));
	len = knob_address(&a, k->name);
	k->fd = file_lift(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (k->fd < 0)
		k->fd = 0;
	if (!k->fd || bind(k->fd, (struct sockaddr *)&a, len))
		return fail_os(e, "socket to wake a sleeper");
	return 0;
}

void seat_knob_close(struct seat_knob *k)
{
	if (k->fd > 0)
		close(k->fd);
	k->fd = 0;
}

/* What strangers send is bounded; what is left wakes the next sleep early. */
static void empty(int knob)
{
	char byte;
	int i;

	for (i = 0; i < 16 && recv(knob, &byte, 1, MSG_DONTWAIT) >= 0; i++)
		;
}

void seat_doze(struct row *w, const struct seat_knob *k, bool (*ready)(void *arg), void *arg,
	       struct pollfd *p, int n, int64_t deadline_ns)
{
	struct seat *s = seat_at(w, w->me);

	p[n] = (struct pollfd){ k->fd, POLLIN, 0 };
	__atomic_store_n(&s->knob[0], k->name[0], __ATOMIC_RELAXED);
	__atomic_store_n(&s->knob[1], k->name[1], __ATOMIC_RELAXED);
	__atomic_store_n(&s->asleep, SEAT_ANYBODY, __ATOMIC_RELAXED);
	__atomic_store_n(&s->dozing, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(w->sleepers, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!ready(arg))
		(void)poll(p, (nfds_t)n + 1, clock_left_ms(deadline_ns));
	__atomic_store_n(&s->asleep, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->dozing, 0, __ATOMIC_RELAXED);
	__atomic_fetch_sub(w->sleepers, 1, __ATOMIC_SEQ_CST);
	if (p[n].revents)
		empty(k->fd);
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

/* own_thread - this thread's number; the kernel is asked once for each thread and process. */
static uint32_t own_thread(void)
{
	static _Thread_local uint32_t thread, forks;

	if (!thread || forks != forks_seen()) {
		thread = (uint32_t)syscall(SYS_gettid);
		forks = forks_seen();
	}
	return thread;
}

bool seat_go_abroad(const struct row *w, const uint32_t *abort)
{
	uint32_t *abroad = &seat_at(w, w->me)->abroad;

	/* Either we see that all is over, or who has ended it sees us. */
	__atomic_store_n(abroad, own_thread(), __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(abort, __ATOMIC_RELAXED))
		return true;
	seat_come_home(w);
	return false;
}

void seat_come_home(const struct row *w)
{
	__atomic_store_n(&seat_at(w, w->me)->abroad, 0, __ATOMIC_RELEASE);
}

void seat_gone(const struct row *w, int rank)
{
	__atomic_store_n(&seat_at(w, rank)->abroad, 0, __ATOMIC_RELEASE);
}

/* Has the thread ended, or been stopped?  One that only waits for a processor has not. */
static bool has_stopped(uint32_t thread)
{
	struct pidstat p;

	return pidstat_read((pid_t)thread, &p) || strchr("TtZX", p.state);
}

void seat_settle(const struct row *w)
{
	int64_t look = clock_deadline(SETTLE_MS), enough = clock_deadline(UNSETTLED_MS);
	uint32_t thread;
	int r;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (r = 0; r < w->count; r++)
		while (r != w->me &&
		       (thread = __atomic_load_n(&seat_at(w, r)->abroad, __ATOMIC_ACQUIRE))) {
			if (clock_ns() < look)
				sched_yield();
			else if (has_stopped(thread) || clock_ns() >= enough)
				break;
			else
				clock_sleep_ms(1);
		}
}
