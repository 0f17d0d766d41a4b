/* test_stack.c - ringup's programs and threads have enough stack, whatever the limit is. */
#include "base/stack.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "ringup.h"

#include "rounds.h"
#include "tap.h"

enum { FRAME = 400 << 10 };

/* Touches a frame that is larger than the limits below. */
static int use_stack(int argc, char **argv)
{
	volatile char frame[FRAME];

	for (int i = FRAME - 1; i >= 0; i -= 512)
		frame[i] = (char)argc;
	frame[0] = (char)argc;
	return argv ? frame[0] : 0;
}

static void *use_thread(void *arg)
{
	*(int *)arg = use_stack(7, (char **)arg);
	return arg;
}

/* A thread's default is read when a program starts, so this program starts anew. */
static int limited(char **argv)
{
	pthread_t thread;
	int got = 0;

	if (stack_run(use_stack, 5, argv) != 5 || thread_start(&thread, use_thread, &got))
		return 1;
	pthread_join(thread, NULL);
	return got != 7;
}

static int start(const char *self, rlim_t bytes)
{
	struct rlimit r = { bytes, bytes };
	int status = -1;
	pid_t p = fork();

	if (!p) {
		if (!setrlimit(RLIMIT_STACK, &r))
			execl(self, self, "limited", NULL);
		_exit(2);
	}
	waitpid(p, &status, 0);
	return status;
}

static int check(rlim_t bytes, struct err *e)
{
	struct rlimit r;

	getrlimit(RLIMIT_STACK, &r);
	r.rlim_cur = bytes;
	setrlimit(RLIMIT_STACK, &r);
	return stack_check(e);
}

int main(int argc, char **argv)
{
	struct err e = { 0 };

	if (argc > 1)
		return limited(argv);
	ok(stack_run(use_stack, 9, argv) == 9, "without a limit that matters");
	if (!ROUNDS_TSAN) { /* which needs more stack than these */
		ok(!start(argv[0], 128 << 10), "below 128 KiB");
		ok(!start(argv[0], STACK_BYTES - 4096), "just below what is enough");
		ok(!start(argv[0], STACK_BYTES), "just enough");
	}
	ok(!check(STACK_LEAST_BYTES, &e), "a caller that brings what is needed");
	ok(check(STACK_LEAST_BYTES - 1024, &e) == RINGUP_ESYSTEM &&
		   strstr(e.text, "may grow to 127 KiB") && strstr(e.text, "needs 128") &&
		   strstr(e.text, "ulimit -s 8192"),
	   "and one that does not: %s", e.text);
	return tap_done();
}
