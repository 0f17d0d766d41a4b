/* seat.h - where a rank waits, and how it is woken. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SEAT_H
#define WIRE_SEAT_H

#include <poll.h>
#include <sched.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/*
 * Each rank has a seat.  Seats of ranks that share memory lie side by side in
 * the segment, so any of them can wake any other; a rank on its own has one in
 * private memory.
 *
 * Whoever changes something that others may be waiting for stores it, and then
 * calls seat_ring(): a full fence and one load while everybody is awake.  A
 * sleeper announces itself, fences, looks once more and only then sleeps, so
 * of the two at least one sees the other.
 *
 * All fields are accessed by atomics only.
 */
enum { SEAT_SLOTS = 4, SEAT_ARRIVALS = 2, SEAT_ORDERS = 40 };

struct seat {
	alignas(64) uint32_t bell; /* futex: changes when the sleeper shall look again */
	uint32_t asleep;           /* 0, or 1 + the rank it waits for, or SEAT_ANYBODY */
	uint32_t driving;          /* somebody in this rank carries operations out */
	alignas(64) uint32_t kick; /* futex: its progress thread sleeps here         */
	uint32_t engine_asleep;
	uint32_t left;               /* the rank has taken its leave: its end is no failure */
	uint32_t beat;               /* changes while the process runs; 0: not yet  */
	uint32_t cpu;                /* 1 + the processor it last waited on; 0: unknown */
	alignas(64) uint64_t in;     /* chunks that this rank has put into its slots  */
	uint64_t offers[SEAT_SLOTS]; /* in slot i there is no data, but offer number ... */
	uint64_t arrived[SEAT_ARRIVALS]; /* when it came to one of the last large moves */
	alignas(64) uint64_t out;        /* chunks that this rank has finished with       */
	/* Of each of its slots: ranks that have read what all of them read. */
	alignas(64) uint32_t readers[SEAT_SLOTS];
	alignas(64) uint64_t took; /* between hosts: chunks whose results it has   */
	uint32_t dozing;           /* it sleeps in poll(2), see seat_doze()        */
	uint64_t knob[2];          /* and the name of the socket that wakes it there */
	uint32_t abroad; /* its thread that is writing to what belongs to others, or 0 */
	alignas(64) uint64_t
		orders[SEAT_ORDERS]; /* how two ranks shall move things; see node_way.c */
};

enum { SEAT_ANYBODY = 0x7fffffff };

/*
 * The ranks that share memory, as one of them sees them.  A process has one seat
 * to sleep on, whatever groups its rank is in: then the row of a group says which
 * seats of the host belong to its ranks.
 */
struct row {
	struct seat *seats; /* of all ranks of the host          */
	uint32_t *sleepers; /* how many of them are asleep       */
	int count, me;      /* ranks of this row; its own        */
	const int *seat_of; /* of each rank; NULL: rank i has seat i */
	int pauses;         /* how long to spin before giving way        */
	int away;           /* more ranks than processors: how long to spin for a rank
			     * that has another processor; 0: there are enough */
	int skips;          /* waits that will not yield, since one took long; atomic */
	int distrust;       /* how many the last long one cost, less since; 1: it may have
			     * been a sibling's; atomic */
	int64_t parted_ns;  /* when one went to another processor; atomic */
	bool patient; /* false: sleep at once; for a thread that nobody waits for; atomic */
};

/* seat_at - where a rank of the row sleeps. */
static inline struct seat *seat_at(const struct row *w, int rank)
{
	return &w->seats[w->seat_of ? w->seat_of[rank] : rank];
}

/* seat_ring - wake those who wait for rank @who of the row (or, with
 * SEAT_ANYBODY, everybody); what they wait for has been stored already.
 * seat_wake - its long way, if anybody sleeps. */
void seat_wake(const struct row *w, int who) __attribute__((cold));

static inline void seat_ring(const struct row *w, int who)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(w->sleepers, __ATOMIC_RELAXED))
		seat_wake(w, who);
}

/* seat_ring_one - make one rank look again, whatever it waits for. */
void seat_ring_one(const struct row *w, int rank);

/* seat_ring_asleep - the same if it sleeps; what it shall see has been stored already.  A full
 * fence and one load while it is awake. */
static inline void seat_ring_asleep(const struct row *w, int rank)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&seat_at(w, rank)->asleep, __ATOMIC_RELAXED))
		seat_ring_one(w, rank);
}

/*
 * seat_wait - wait until @ready(@arg) says true.
 *
 * Pauses, then gives way to other processes, then sleeps.  A rank on our own processor
 * cannot go on before we give way, so where processors are short we do that at once, unless
 * another one has fewer ranks: then this thread moves there, every 0.1 ms at most.  We do so
 * for whoever runs elsewhere, too: what is waited for here takes longer than to change
 * places, and others on our processor may have to move data of their own.
 * A yield that took longer than a millisecond in vain, or two of them in a row, went to a
 * stranger and not to a sibling: then the next waits skip yielding, more of them each time it
 * happens again.
 *
 * @who: whose ring shall wake it, a rank of the row or SEAT_ANYBODY.
 * Threads: one per row at a time (the holder of the baton).
 * Returns false at @deadline_ns.
 */
bool seat_wait(struct row *w, int who, bool (*ready)(void *arg), void *arg,
	       int64_t deadline_ns);

/* seat_shares - was @rank last seen on the processor that this one was? */
static inline bool seat_shares(const struct row *w, int rank)
{
	return rank != w->me &&
	       __atomic_load_n(&seat_at(w, rank)->cpu, __ATOMIC_RELAXED) ==
		       __atomic_load_n(&seat_at(w, w->me)->cpu, __ATOMIC_RELAXED);
}

/* seat_is_here - does @rank, as far as we know, wait for this thread's processor?  Where
 * there are enough, no. */
static inline bool seat_is_here(const struct row *w, int rank)
{
	return w->away && seat_shares(w, rank);
}

/*
 * seat_better_cpu - a processor of @may where at least two ranks of the row fewer were last
 * seen than on this thread's, or -1.
 */
int seat_better_cpu(const struct row *w, const cpu_set_t *may);

/* seat_linger - the first part of seat_wait(), for what is short: pauses, for a rank that has
 * another processor, too, then timed yields, but no sleep.  @ready may change *@who; if
 * seat_is_here() for one of several, that is whom to name.  Returns whether it has become
 * ready.  Threads: as many as like. */
bool seat_linger(struct row *w, const int *who, bool (*ready)(void *arg), void *arg);

/* A descriptor on which poll(2) hears the bell of a rank; fd 0: there is none. */
struct seat_knob {
	int fd;
	uint64_t name[2];
};

/*
 * seat_knob_open - make one.
 *
 * While a rank dozes, others of its host wake it by a datagram to a random name that
 * stands in its seat.  Strangers who find the name can wake it, too, and no more.
 */
int seat_knob_open(struct seat_knob *k, struct err *e);
void seat_knob_close(struct seat_knob *k);

/*
 * seat_doze - like seat_wait(), without pausing and giving way, in poll(2).
 *
 * @p holds @n descriptors to wait for and room for one more.  Returns when one of
 * them has something, the bell rang, @ready(@arg) said true or @deadline_ns has passed.
 */
void seat_doze(struct row *w, const struct seat_knob *k, bool (*ready)(void *arg), void *arg,
	       struct pollfd *p, int n, int64_t deadline_ns);

/*
 * seat_go_abroad - before this rank writes to what belongs to others, some microseconds' worth;
 *                  false if *@abort: then they may have it back already, and it must not.
 * seat_come_home - after that.
 * seat_gone      - the process of @rank has ended, wherever it was: it writes no more.
 * seat_settle    - *@abort was set: wait until no other rank is abroad.  Then buffers are their
 *                  owners' again.  After 0.1 s no more for a rank that is stopped there, and
 *                  writes no more; for one that only gets no processor, some seconds.
 */
bool seat_go_abroad(const struct row *w, const uint32_t *abort);
void seat_come_home(const struct row *w);
void seat_gone(const struct row *w, int rank);
void seat_settle(const struct row *w);

/* seat_pauses - how long to spin before giving way. */
static inline int seat_pauses(const struct row *w)
{
	return w->pauses;
}

/* seat_pauses_in - how many pauses take about @us microseconds on this processor. */
int seat_pauses_in(int us);

/* seat_pause - what a spinning loop does between two looks. */
void seat_pause(void);

/* seat_kick - wake the progress thread of @rank if nobody there is driving. */
void seat_kick(const struct row *w, int rank);

#endif
