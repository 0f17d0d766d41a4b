/* test_thread.c - a thread takes no signals, and its creator keeps its own. */
#include "base/thread.h"

#include <signal.h>

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
	return tap_done();
}
