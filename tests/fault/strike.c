/* strike.c - send a signal to processes, and say when. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* strike SIGNAL PID... - prints the nanoseconds of CLOCK_MONOTONIC at the first
 * one; strike 0 only does that. */
int main(int argc, char **argv)
{
	struct timespec t;
	int i, bad = 0;

	if (argc < 2)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &t);
	for (i = 2; i < argc; i++)
		bad |= kill((pid_t)atoi(argv[i]), atoi(argv[1]));
	printf("%lld\n", t.tv_sec * 1000000000ll + t.tv_nsec);
	return bad ? 1 : 0;
}
