/* test_finder.c - needs: waits; a script's hosts, as often as it is asked. */
#include "launch/finder.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static struct finder f;
static struct err e;

/* Until it has an answer, or has failed. */
static int ask(void)
{
	struct pollfd p[2];
	int rc;

	for (;;) {
		rc = finder_serve(&f, &e);
		if (rc)
			return rc;
		poll(p, finder_poll(&f, p), clock_left_ms(finder_until(&f)));
	}
}

/* Until it has run in vain once more. */
static void fail_again(void)
{
	bool ran = false;
	struct pollfd p[2];

	while (!ran || f.pid) {
		ran |= f.pid != 0;
		if (finder_serve(&f, &e))
			return;
		ran |= f.pid != 0;
		if (ran && !f.pid)
			return;
		poll(p, finder_poll(&f, p), clock_left_ms(finder_until(&f)));
	}
}

static void test_answers(void)
{
	ok(finder_poll(&f, (struct pollfd[2]){ 0 }) == 0 && finder_until(&f) == INT64_MAX,
	   "one that was never opened waits for nothing");
	finder_open(&f, "echo a:2; echo b", 4, 20);
	ok(ask() == 1 && f.hosts.count == 2 && f.hosts.host[1].slots == 4, "hosts and slots");
	ok(ask() == 1 && f.hosts.count == 2, "and again");
	ok(f.next_ns - clock_ns() <= 20000000, "and soon once more");
	finder_close(&f);
	finder_open(&f, "true", 4, 20);
	ok(ask() == 1 && f.hosts.count == 0, "no host is an answer before there was one");
	finder_close(&f);
}

static void test_mistakes(void)
{
	finder_open(&f, "exit 3", 1, 20);
	ok(ask() == RINGUP_ESYSTEM && strstr(e.text, "it ended with status 3"), "%s", e.text);
	e = (struct err){ 0 };
	fail_again();
	ok(!e.code && f.failing, "is told once");
	finder_close(&f);
	finder_open(&f, "kill -9 $$", 1, 20);
	ok(ask() == RINGUP_ESYSTEM, "%s", e.text);
	finder_close(&f);
	finder_open(&f, "echo a:x", 1, 20);
	ok(ask() == RINGUP_EINVAL, "%s", e.text);
	finder_close(&f);
	finder_open(&f, "yes", 1, 20);
	ok(ask() == RINGUP_EINVAL && strstr(e.text, "prints more than"), "%s", e.text);
	finder_close(&f);
	finder_open(&f, "sleep 1000", 1, 20);
	finder_serve(&f, &e);
	f.late_ns = clock_ns();
	ok(ask() == RINGUP_ETIMEDOUT, "%s", e.text);
	ok(!f.pid, "and nothing of it runs");
	finder_close(&f);
	finder_open(&f, "echo a:2", 1, 20);
	ask();
	f.script = "echo '# nothing'";
	ok(ask() == RINGUP_EINVAL && strstr(e.text, "it printed no host"), "%s", e.text);
	ok(f.hosts.count == 1, "the hosts before an empty answer stay");
	f.script = "echo a:0";
	fail_again();
	ok(f.hosts.count == 1 && f.failing, "hosts without slots are no hosts");
	f.script = "echo a:2; echo b:1";
	ok(ask() == 1 && f.hosts.count == 2, "until it prints some again");
	finder_close(&f);
}

/* What a script leaves behind may hold its output open. */
static void test_leftovers(void)
{
	finder_open(&f, "sleep 1000 & echo a", 1, 20);
	ok(ask() == 1 && f.hosts.count == 1, "a script that has ended is not waited for");
	finder_close(&f);
}

/* A zeroed one has no descriptor, and standard input is none of its own. */
static void test_nothing_to_wait_for(void)
{
	struct finder none = { 0 };
	struct pollfd p[2];

	ok(!finder_poll(&none, p), "without a script there is nothing to poll");
	finder_open(&f, "echo a", 1, 1000000);
	ok(ask() == 1 && !finder_poll(&f, p), "nor between two runs");
	finder_close(&f);
}

int main(void)
{
	test_nothing_to_wait_for();
	test_answers();
	test_mistakes();
	test_leftovers();
	return tap_done();
}
