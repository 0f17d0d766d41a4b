/* waitset.h - wait and notify between the ranks of one host: spin, yield, futex or poll. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_WAITSET_H
#define WIRE_WAITSET_H

#include <poll.h>
#include <sched.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

struct wake_fd;

/*
 * Each rank has a waiter.  Waiters of ranks that share memory lie side by side in
 * the segment, so any rank can wake any other; a rank on its own has one in
 * private memory.
 *
 * A rank that changes something that others may be waiting for stores it, and then
 * calls waitset_notify(): a full fence and one load while all ranks are awake.  A
 * sleeper announces itself, fences, looks once more and only then sleeps, so
 * at least one of the two ranks sees the other.
 *
 * All fields are accessed by atomics only.
 */
struct waiter {
	alignas(64) uint32_t word;    /* futex: changes when the sleeper shall look again */
	uint32_t asleep;              /* 0, or 1 + the rank it waits for, or WAITSET_ANY */
	uint32_t polling;             /* it sleeps in poll(2), see waitset_poll()        */
	uint64_t wake_fd[2];          /* then: the name of the socket that wakes it     */
	alignas(64) uint32_t cpu;     /* 1 + the processor it last waited on; 0: unknown */
	alignas(64) uint32_t writing; /* its thread that writes to memory of others, or 0: see
				       * quiesce.h */
};

enum { WAITSET_ANY = 0x7fffffff };

/* How long a thread spins, and whether it yields, before it sleeps; learned from earlier waits.
 */
struct wait_policy {
	int pauses;        /* how long to spin before yielding          */
	int away;          /* more ranks than processors: how long to spin for a rank
			    * that has another processor; 0: there are enough */
	int skips;         /* waits that will not yield, since a yield took long; atomic */
	int distrust;      /* skips set by the last long yield, halved by short ones; 1: a
			    * long yield in which a rank may have run; atomic */
	int64_t parted_ns; /* when cpu_part() last looked for a processor; atomic */
	bool patient; /* false: sleep at once; for a thread that no caller awaits; atomic */
};

/*
 * Ranks that share memory, as one of them sees them.  A process has one waiter to sleep on,
 * for all groups of its rank: so the set of a group tells which waiters of the host belong
 * to its ranks.
 */
struct waitset {
	struct waiter *waiters; /* of all ranks of the host          */
	uint32_t *sleepers;     /* how many of them are asleep       */
	int count, me;          /* ranks of this set; this rank      */
	const int *place_of; /* of each rank, its waiter's index; NULL: that of rank i is i */
	struct wait_policy policy;
};

/* waitset_place - the index in @waiters of a rank of the set. */
static inline int waitset_place(const struct waitset *w, int rank)
{
	return w->place_of ? w->place_of[rank] : rank;
}

/* waitset_at - the waiter of a rank of the set. */
static inline struct waiter *waitset_at(const struct waitset *w, int rank)
{
	return &w->waiters[waitset_place(w, rank)];
}

/* waitset_notify - wake the ranks that wait for rank @rank of the set (or, with
 * WAITSET_ANY, all of them); what they wait for has been stored already.
 * waitset_wake - its slow path, if any rank sleeps. */
void waitset_wake(const struct waitset *w, int rank) __attribute__((cold));

static inline void waitset_notify(const struct waitset *w, int rank)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(w->sleepers, __ATOMIC_RELAXED))
		waitset_wake(w, rank);
}

/* waitset_notify_one - make one rank look again, whatever it waits for. */
void waitset_notify_one(const struct waitset *w, int rank);

/* waitset_notify_asleep - the same if the rank sleeps; what it waits for has been stored.  A
 * full fence and one load while it is awake. */
static inline void waitset_notify_asleep(const struct waitset *w, int rank)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&waitset_at(w, rank)->asleep, __ATOMIC_RELAXED))
		waitset_notify_one(w, rank);
}

/*
 * waitset_wait - wait until @ready(@arg) returns true.
 *
 * Pauses, then yields the processor, then sleeps.  A rank on the processor of this
 * thread cannot go on before the thread yields, so where processors are short it yields
 * at once, unless another processor has fewer ranks: then this thread moves there, every
 * 0.1 ms at most.  It yields also if the awaited rank runs elsewhere: these waits outlast
 * a context switch, and other ranks on this processor may have to move data of their own.
 * A yield that took longer than a millisecond in vain, or two long ones in a row, went to
 * a foreign process and not to a rank: then the next waits skip yielding, more of them each
 * time it happens again.
 *
 * @rank: the rank of the set whose notification wakes this one, or WAITSET_ANY.
 * Threads: one per set at a time (the holder of the baton).
 * Returns false at @deadline_ns.
 */
bool waitset_wait(struct waitset *w, int rank, bool (*ready)(void *arg), void *arg,
		  int64_t deadline_ns);

/* waitset_shares_cpu - was @rank last seen on the processor that this one was? */
static inline bool waitset_shares_cpu(const struct waitset *w, int rank)
{
	return rank != w->me &&
	       __atomic_load_n(&waitset_at(w, rank)->cpu, __ATOMIC_RELAXED) ==
		       __atomic_load_n(&waitset_at(w, w->me)->cpu, __ATOMIC_RELAXED);
}

/* waitset_is_here - does @rank, as far as is known, wait for this thread's processor?  False
 * where there are enough processors. */
static inline bool waitset_is_here(const struct waitset *w, int rank)
{
	return w->policy.away && waitset_shares_cpu(w, rank);
}

/*
 * waitset_better_cpu - a processor of @may with at least two ranks of the set fewer, as last
 * seen, than this thread's; or -1.
 */
int waitset_better_cpu(const struct waitset *w, const cpu_set_t *may);

/* waitset_spin - the first part of waitset_wait(), for short waits: pauses, also for a rank
 * that has another processor, then timed yields, but no sleep.  @ready may change *@rank; if
 * waitset_is_here() for one of several ranks, it names that one.  Returns whether it has
 * become ready.  Threads: any number. */
bool waitset_spin(struct waitset *w, const int *rank, bool (*ready)(void *arg), void *arg);

/*
 * waitset_poll - like waitset_wait(), without spinning and yielding, in poll(2).
 *
 * @p holds @n descriptors to wait for and room for one more.  Returns when one of
 * them is ready, a notification came, @ready(@arg) is true or @deadline_ns has passed.
 */
void waitset_poll(struct waitset *w, const struct wake_fd *wake_fd, bool (*ready)(void *arg),
		  void *arg, struct pollfd *p, int n, int64_t deadline_ns);

/* waitset_pauses - how long to spin before yielding. */
static inline int waitset_pauses(const struct waitset *w)
{
	return w->policy.pauses;
}

/* waitset_pauses_in - the number of pauses that take about @us us on this processor. */
int waitset_pauses_in(int us);

/* waitset_pause - the processor's pause instruction, for each turn of a spinning loop. */
void waitset_pause(void);

#endif
