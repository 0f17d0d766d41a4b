/* explore.h - run a few threads of real code through all their interleavings. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_EXPLORE_H
#define MODEL_EXPLORE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A stateless model checker.  The threads are coroutines of one thread; a
 * source file is included after model/shadow.h, so that each of its atomic
 * accesses comes here.  Before each the explorer decides who goes on; every run
 * takes other decisions, until all have been taken.  Bounded: a run switches
 * between threads that could go on @preemptions times at most (a thread that
 * sleeps or ends is left for nothing), for nearly all bugs need one or two.
 *
 * Memory is that of C11, and so that of arm64, as far as it matters here: a
 * store has a place in the order of stores to its word, and a load may return
 * any store that its thread does not have to know to be outdated, @stale times
 * a run.  So a missing fence (store buffering), a missing release or a missing
 * acquire is found; @stale 0 is sequential consistency.  Not modelled: stores
 * that are carried out before loads that precede them, and accesses that are
 * not atomic: those happen at once.
 *
 * A thread that only looks, again and again, waits for the others to write; if
 * nobody can go on, that is a deadlock and so a bug, as is a sleeper that
 * nobody wakes.
 */
enum { EXPLORE_THREADS = 6 };

struct explore {
	int threads;
	void (*reset)(void);      /* everything as at the start, by plain stores */
	void (*body)(int thread); /* what a thread does                          */
	void (*check)(void);      /* when all have ended; or NULL                */
	int preemptions, stale;   /* bounds, per run                             */
	long runs;                /* give up after so many; 0: one million       */
	/* Bugs to be put in, for tests of the test. */
	bool no_fences;   /* fences do nothing                               */
	const void *lost; /* writes to this word are lost                    */
	const void *torn; /* read-modify-writes of this word are not atomic  */
	const void *weak; /* accesses to this word order nothing else        */
};

struct explored {
	long runs;
	bool all;      /* every decision has been taken: no bound on runs cut it short */
	char bug[160]; /* the first that was found, or ""                        */
};

/* explore_run - stops at the first bug, whose steps it prints if @tell. */
struct explored explore_run(const struct explore *x, bool tell);

/* explore_require - from a body or a check: a bug, unless @good. */
void explore_require(bool good, const char *why);

/* explore_name - what the steps of a bug call a word. */
void explore_name(const void *word, const char *name);

/* explore_idle - a body has looked and found nothing to do: let the others go on. */
void explore_idle(void);

/* What model/shadow.h puts in the place of the compiler's functions. */
uint64_t explore_load(const void *p, size_t size, int order);
void explore_store(void *p, size_t size, uint64_t value, int order);
uint64_t explore_rmw(void *p, size_t size, char op, uint64_t operand, int order);
bool explore_cas(void *p, size_t size, uint64_t *expected, uint64_t desired, int order,
		 int failed);
void explore_fence(int order);
void explore_futex_wait(const uint32_t *word, uint32_t seen, int64_t deadline_ns);
void explore_futex_wake(const uint32_t *word);
int explore_yield(void);
/* The last of @p is a socket on which a knock comes, the only one; deadlines never do. */
int explore_poll(struct pollfd *p, unsigned long n, int ms);
void explore_knock(void);
long explore_unknock(void);
int64_t explore_clock(void);

#endif
