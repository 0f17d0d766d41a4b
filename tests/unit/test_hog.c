/* test_hog.c - a hog burns its processor, and is gone when it is told to. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/hog.h"
#include "tap.h"

static double children_s(void)
{
	struct rusage u;

	getrusage(RUSAGE_CHILDREN, &u);
	return (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6;
}

int main(void)
{
	double before = children_s();
	struct hog *h = NULL;
	struct err e = { 0 };

	ok(hog_start(3, &h, &e) == 0, "three hogs: %s", e.text);
	ok(waitpid(-1, NULL, WNOHANG) == 0, "they run");
	clock_sleep_ms(200);
	hog_stop(h);
	ok(waitpid(-1, NULL, WNOHANG) < 0, "they are gone");
	ok(children_s() - before > 0.01, "and have used a processor for %.0f ms",
	   (children_s() - before) * 1e3);
	hog_stop(NULL);
	return tap_done();
}
