/* test_wait.c - a wait ends when it is time to look, or at the deadline, and not before. */
#include "backend/wait.h"
#include "base/clock.h"
#include "tap.h"

enum { MS = 1000000 };

/* Does a wait for nothing but a time last until @ms from now? */
static int lasts(int64_t look_ns, int64_t deadline_ns, int64_t ms)
{
	struct wait_on w = { .look_ns = look_ns };
	int64_t until = clock_ns() + ms * MS;

	return wait_news(&w, deadline_ns) && clock_ns() >= until;
}

int main(void)
{
	struct wait_on w = { .look_ns = 1000ll * MS };
	int64_t now = clock_ns();

	ok(wait_until(&w, now) == now && wait_until(&w, now + 100) == now + 100,
	   "until a deadline that comes first");
	ok(wait_until(&w, INT64_MAX) >= now + 1000ll * MS, "until it is time to look");
	ok(lasts(20 * MS, INT64_MAX, 20), "20 ms without a deadline");
	ok(lasts(1500ll * MS, clock_deadline(30), 30), "a look later than in a second");
	ok(lasts(0, clock_deadline(30), 30), "no look, but a deadline");
	ok(lasts(0, now, 0), "a deadline that is over");
	return tap_done();
}
