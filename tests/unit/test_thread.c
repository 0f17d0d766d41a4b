/* test_thread.c - a thread takes no signals, and bears a limit that is lowered for a moment. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#include "tap.h"

/* How many signals that can be blocked are not, in the thread that asks. */
static int count_open(void)
{
	sigset_t mask;
	int i, n = 0;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	for (i = 1; i < 32; i++)
		n += i != SIGKILL && i != SIGSTOP && !sigismember(&mask, i);
	return n;
}

static void *look(void *arg)
{
	*(int *)arg = count_open();
	return arg;
}

/* Instead of libc's: the first @failures calls fail, as above the limit of open files. */
static int failures, calls;

int poll(struct pollfd *p, nfds_t n, int ms)
{
	struct timespec wait = { ms / 1000, ms % 1000 * 1000000L };

	if (calls++ < failures) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_ppoll, p, n, ms < 0 ? NULL : &wait, NULL, (size_t)8);
}

static void blind(void)
{
	struct pollfd p = { .events = POLLIN };
	int64_t begun;
	int fd[2];

	if (pipe(fd) || write(fd[1], "x", 1) != 1)
		return;
	p.fd = fd[0];
	failures = 3;
	ok(thread_poll(&p, 1, -1) == 1 && calls == 4,
	   "poll(2) that fails for a moment is tried again");
	failures = 1 << 30;
	calls = 0;
	begun = clock_ns();
	ok(thread_poll(&p, 1, -1) < 0 && errno == EINVAL, "and is given up");
	ok(calls > 40 && calls < 250, "after many tries, but not without pauses: %d", calls);
	ok(clock_ns() - begun >= THREAD_BLIND_MS * 1000000LL, "but not before its time");
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
	int before, inside = -1;
	pthread_t thread;
	void *back = NULL;
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &one, NULL);
	before = count_open();
	ok(!thread_start(&thread, look, &inside) && !pthread_join(thread, &back) &&
		   back == &inside,
	   "a thread runs and is joined");
	ok(inside == 0, "all signals are blocked in it");
	ok(count_open() == before && before == 28, "and here those that were");
	blind();
	return tap_done();
}
