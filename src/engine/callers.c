/* callers.c - the threads that start operations, and what each is waiting in. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/callers.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/forks.h"

enum { BACK_MS = 5000 /* from one slice of a wait to the next, at most */ };

_Thread_local struct callers_mine callers_mine;

/* The number of this thread; a child of fork() has another. */
static pid_t callers_tid(void)
{
	static _Thread_local pid_t tid;
	static _Thread_local uint32_t forks;

	if (!tid || forks != forks_count()) {
		tid = (pid_t)syscall(SYS_gettid);
		forks = forks_count();
	}
	return tid;
}

void callers_open(struct callers *s)
{
	static uint64_t serial;

	memset(s, 0, sizeof(*s));
	s->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
}

void callers_enter(struct callers *s)
{
	pid_t tid = callers_tid();
	uint32_t i, count = __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);

	for (i = 0; i < count && i < CALLERS; i++)
		if (__atomic_load_n(&s->of[i].tid, __ATOMIC_RELAXED) == tid)
			break;
	if (i == count || i >= CALLERS)
		i = count < CALLERS ? __atomic_fetch_add(&s->count, 1, __ATOMIC_ACQ_REL)
				    : CALLERS;
	/* One thread too many, and it is not known any more what all do. */
	if (i >= CALLERS)
		__atomic_store_n(&s->count, CALLERS + 1, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&s->of[i].tid, tid, __ATOMIC_RELEASE);
	callers_mine.serial = s->serial;
	callers_mine.at = i < CALLERS ? &s->of[i] : NULL;
}

void callers_begin(struct callers *s, const struct ringup_op *op, uint32_t use, bool endless)
{
	struct caller *me = callers_mine.serial == s->serial ? callers_mine.at : NULL;

	if (!me)
		return;
	__atomic_store_n(&me->use, use, __ATOMIC_RELAXED);
	__atomic_store_n(&me->until_ns, endless ? INT64_MAX : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&me->op, op, __ATOMIC_RELEASE);
}

void callers_end(struct callers *s, bool slice)
{
	struct caller *me = callers_mine.serial == s->serial ? callers_mine.at : NULL;

	if (!me)
		return;
	if (slice)
		__atomic_store_n(&me->until_ns, clock_deadline(BACK_MS), __ATOMIC_RELAXED);
	else
		__atomic_store_n(&me->op, NULL, __ATOMIC_RELAXED);
}

int callers_waiting(const struct callers *s, int64_t now_ns, struct caller *out)
{
	uint32_t count = __atomic_load_n(&s->count, __ATOMIC_ACQUIRE);
	struct caller x;
	int n = 0;

	for (uint32_t i = 0; i < count && count <= CALLERS; i++) {
		x.tid = __atomic_load_n(&s->of[i].tid, __ATOMIC_ACQUIRE);
		x.op = __atomic_load_n(&s->of[i].op, __ATOMIC_ACQUIRE);
		x.use = __atomic_load_n(&s->of[i].use, __ATOMIC_RELAXED);
		x.until_ns = __atomic_load_n(&s->of[i].until_ns, __ATOMIC_RELAXED);
		if (x.op && x.until_ns >= now_ns)
			out[n++] = x;
		else if (!x.tid || !syscall(SYS_tgkill, getpid(), x.tid, 0) || errno != ESRCH)
			return 0;
	}
	return n;
}
