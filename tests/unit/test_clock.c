/* test_clock.c - deadlines: now, later, never. */
#include "base/clock.h"

#include <signal.h>
#include <sys/time.h>

#include "tap.h"

static volatile sig_atomic_t rang;

static void on_alarm(int sig)
{
	(void)sig;
	rang = 1;
}

int main(void)
{
	struct itimerval soon = { .it_value = { 0, 5000 } };
	struct sigaction sa = { .sa_handler = on_alarm };
	int64_t a = clock_ns(), b = clock_ns();

	ok(a > 0 && b >= a, "time does not go back");
	ok(clock_deadline(-1) == INT64_MAX, "a negative time is never");
	ok(clock_left_ms(INT64_MAX) == -1, "and never is -1 for poll");
	ok(clock_left_ms(a - 1) == 0, "a deadline that is past leaves nothing");
	ok(clock_left_ms(clock_deadline(0)) == 0, "now is past at once");
	b = clock_left_ms(clock_deadline(60000));
	ok(b > 30000 && b <= 60000, "a minute is at most a minute");
	ok(clock_left_ms(clock_ns() + 1) <= 1, "a nanosecond is not rounded up to much");
	ok(clock_deadline(INT64_MAX / 2) > 0, "a huge time does not overflow");
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	a = clock_ns();
	clock_sleep_ms(30);
	b = clock_ns() - a;
	ok(b >= 30000000, "sleep goes on after a signal");
	/* A sanitizer may deliver it late. */
	for (a = clock_deadline(10000); !rang && clock_left_ms(a);)
		clock_sleep_ms(1);
	ok(rang, "which came");
	return tap_done();
}
