/* strike.c - send a signal to processes, say when, and when others were gone. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, PATIENCE_MS = 60000 };

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/*
 * strike SIGNAL PID... [-- PID...]
 *
 * Prints the nanoseconds of CLOCK_MONOTONIC at the first signal, and, if there are
 * processes behind the --, at the end of the last of those.  Signal 0 sends nothing.
 * The end of the first may end others, and their parent may reap them at once: only the first
 * has to be there.
 */
int main(int argc, char **argv)
{
	struct pollfd fds[MOST];
	long long struck;
	int i, n = 0, split = argc, bad = 0;

	if (argc < 2)
		return 2;
	for (i = 2; i < argc; i++)
		if (!strcmp(argv[i], "--"))
			split = i;
	/* 0 and -1 would be half the machine. */
	for (i = 2; i < argc; i++)
		if (i != split && atoi(argv[i]) <= 1)
			return 2;
	for (i = split + 1; i < argc && n < MOST; i++) {
		int fd = (int)syscall(SYS_pidfd_open, (pid_t)atoi(argv[i]), 0);

		if (fd >= 0)
			fds[n++] = (struct pollfd){ fd, POLLIN, 0 };
	}
	struck = now();
	for (i = 2; i < split; i++)
		bad |= kill((pid_t)atoi(argv[i]), atoi(argv[1])) && (i == 2 || errno != ESRCH);
	printf("%lld", struck);
	for (i = 0; i < n && !bad; i++)
		bad |= poll(&fds[i], 1, PATIENCE_MS) != 1;
	if (split < argc)
		printf(" %lld", now());
	printf("\n");
	return bad ? 1 : 0;
}
