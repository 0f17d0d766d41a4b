/* callers.h - the threads that start operations, and what each is waiting in. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_CALLERS_H
#define ENGINE_CALLERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ringup_op;

/*
 * A rank can start nothing new while each of its threads that ever started an operation is
 * blocked in a wait without a deadline: see deadlock.h.  So each thread has a record from its
 * first operation on.  A wait in slices, between which a caller looks for signals, counts as
 * one wait.
 */
enum { CALLERS = 16 };

struct caller {
	pid_t tid;                  /* atomic                                          */
	uint32_t use;               /* of op; atomic                                   */
	const struct ringup_op *op; /* that it waits for; NULL: it does not; atomic    */
	int64_t until_ns; /* between two slices: it waits if it is back by then; INT64_MAX: it
			   * is inside; 0: it is inside, and has a deadline; atomic */
};

struct callers {
	uint64_t serial; /* never used again in this process; 0: not open        */
	uint32_t count;  /* may be larger than CALLERS; atomic */
	struct caller of[CALLERS];
};

/* This thread's record, of the callers that it looked up last. */
struct callers_mine {
	uint64_t serial;
	struct caller *at; /* NULL: there are too many threads */
};
extern _Thread_local struct callers_mine callers_mine;

/* callers_open - no thread has called yet. */
void callers_open(struct callers *s);

/* callers_note - this thread starts an operation.  Without a system call once it is known. */
void callers_enter(struct callers *s) __attribute__((cold));
static inline void callers_note(struct callers *s)
{
	if (__builtin_expect(callers_mine.serial != s->serial, 0))
		callers_enter(s);
}

/* callers_begin - this thread begins to wait for @op; @endless: without a deadline. callers_end
 * - it stops; @slice: it says that it will be back soon. */
void callers_begin(struct callers *s, const struct ringup_op *op, uint32_t use, bool endless);
void callers_end(struct callers *s, bool slice);

/*
 * callers_waiting - are all threads that have called, and still live, waiting without end at
 * @now_ns?
 *
 * Writes them to @out and returns how many; 0: not all, or there are too many to know.
 */
int callers_waiting(const struct callers *s, int64_t now_ns, struct caller *out);

#endif
