/* test_quiesce.c - after an abort no rank writes to memory of others. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tap.h"
#include "wire/quiesce.h"
#include "wire/segment.h"
#include "wire/waitset.h"

static struct waiter waiters[2];
static uint32_t sleepers;
static uint64_t written; /* atomic */
static int naps, yields; /* how often this program has slept and yielded; atomic */

/* libc's, for this program. */
int clock_nanosleep(clockid_t clock, int how, const struct timespec *t, struct timespec *left)
{
	__atomic_fetch_add(&naps, 1, __ATOMIC_RELAXED);
	return syscall(SYS_clock_nanosleep, clock, how, t, left) ? errno : 0;
}

int sched_yield(void)
{
	__atomic_fetch_add(&yields, 1, __ATOMIC_RELAXED);
	return (int)syscall(SYS_sched_yield);
}

static uint32_t left; /* of the head of a segment */

static struct waitset set_of(int me)
{
	return (struct waitset){
		.waiters = waiters, .sleepers = &sleepers, .count = 2, .me = me
	};
}

/* Writes to the other's memory until the abort. */
static void *write_often(void *arg)
{
	const struct waitset set = set_of(1);
	uint32_t *aborted = arg;

	while (quiesce_enter(&set, aborted, &left)) {
		__atomic_fetch_add(&written, 1, __ATOMIC_RELAXED);
		quiesce_leave(&set);
	}
	return NULL;
}

static void test_abort(void)
{
	const struct waitset set = set_of(0);
	int i, late = 0;
	uint32_t aborted;
	pthread_t writer;
	uint64_t seen;

	for (i = 0; i < 300; i++) {
		/* The job, or this group alone. */
		uint32_t *word = i % 2 ? &aborted : &left;

		aborted = left = 0;
		written = 0;
		pthread_create(&writer, NULL, write_often, &aborted);
		while (__atomic_load_n(&written, __ATOMIC_RELAXED) < 10)
			sched_yield();
		__atomic_store_n(word, SEGMENT_ABORTED, __ATOMIC_RELAXED);
		quiesce_wait(&set);
		seen = __atomic_load_n(&written, __ATOMIC_RELAXED);
		pthread_join(writer, NULL);
		late += written != seen;
	}
	left = 0;
	ok(!late, "after the abort and the wait no rank writes to memory of others: %d did",
	   late);
}

/* A rank that writes for longer than the wait spins, though nothing has stopped it. */
static void *write_slowly(void *arg)
{
	const struct waitset set = set_of(1);
	uint32_t *aborted = arg, quiet = 0;
	int64_t until;

	quiesce_enter(&set, &quiet, &left);
	__atomic_store_n(aborted, 1, __ATOMIC_SEQ_CST);
	for (until = clock_deadline(300); clock_ns() < until;)
		;
	__atomic_fetch_add(&written, 1, __ATOMIC_RELAXED);
	quiesce_leave(&set);
	return NULL;
}

static void test_slow(void)
{
	const struct waitset set = set_of(0);
	uint32_t aborted = 0;
	pthread_t writer;

	written = 0;
	pthread_create(&writer, NULL, write_slowly, &aborted);
	while (!__atomic_load_n(&aborted, __ATOMIC_SEQ_CST))
		sched_yield();
	quiesce_wait(&set);
	ok(__atomic_load_n(&written, __ATOMIC_RELAXED) == 1,
	   "a rank that writes and waits for a processor is waited for");
	pthread_join(writer, NULL);
}

/* A process that @how stops while it writes. */
static void not_waited_for(const char *what, int how)
{
	const struct waitset set = set_of(0);
	pid_t child = fork();
	int before;

	if (!child) {
		raise(how);
		_exit(1);
	}
	while (waitid(P_PID, (id_t)child, &(siginfo_t){ 0 }, WSTOPPED | WEXITED | WNOWAIT))
		;
	waiters[1].writing = (uint32_t)child;
	before = naps;
	quiesce_wait(&set);
	ok(naps == before, "%s: slept %d times", what, naps - before);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	waiters[1].writing = 0;
}

static void test_gone(void)
{
	const struct waitset set = set_of(0);
	int before;

	not_waited_for("a rank that is stopped while it writes is not waited for", SIGSTOP);
	not_waited_for("nor one that has died there", SIGKILL);
	waiters[1].writing = (uint32_t)syscall(SYS_gettid);
	quiesce_gone(&set, 1);
	before = yields;
	quiesce_wait(&set);
	ok(yields == before, "one that is known to have ended is not, at all");
}

int main(void)
{
	alarm(250);
	test_abort();
	test_slow();
	test_gone();
	return tap_done();
}
