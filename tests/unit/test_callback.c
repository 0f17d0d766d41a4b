/* test_callback.c - callbacks run once, also those that wait for each other. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/callback.h"
#include "ringup.h"
#include "tap.h"

enum { MANY = 500, CHAIN = 20, LATE_MS = 60000 };

static struct callbacks callbacks;
static int order[MANY], next, status_of[MANY], prepared; /* next: atomic */

struct numbered {
	int number;
};

static void prepare(const struct err *why)
{
	__atomic_fetch_add(&prepared, why->code ? !strcmp(why->text, "why") : 1,
			   __ATOMIC_SEQ_CST);
}

static void count(void *ctx, int status)
{
	struct numbered *n = ctx;

	status_of[n->number] = status;
	order[__atomic_fetch_add(&next, 1, __ATOMIC_SEQ_CST)] = n->number;
}

static void push(void (*fn)(void *ctx, int status), void *ctx, int status)
{
	struct callback *c = calloc(1, sizeof(*c));

	c->fn = fn;
	c->ctx = ctx;
	if (status)
		fail(&c->why, status, "why");
	callbacks_push(&callbacks, c);
}

/* The first waits for the second, that for the third ... */
static int reached;

static void wait_for_next(void *ctx, int status)
{
	struct numbered *n = ctx;
	int64_t enough = clock_deadline(LATE_MS);

	(void)status;
	__atomic_fetch_add(&reached, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&reached, __ATOMIC_SEQ_CST) < CHAIN && clock_ns() < enough)
		clock_sleep_ms(1);
	n->number = __atomic_load_n(&reached, __ATOMIC_SEQ_CST);
}

/* Pushed by a callback, when the end has begun. */
static void push_one_more(void *ctx, int status)
{
	(void)status;
	push(count, ctx, 0);
}

int main(void)
{
	static struct numbered n[MANY], chain[CHAIN], last;
	struct err e;
	int i, good;

	alarm(120);
	callbacks_stop(&callbacks);
	ok(1, "none to stop");
	callbacks_open(&callbacks);
	callbacks.prepare = prepare;
	ok(!callbacks_start(&callbacks, &e) && !callbacks_start(&callbacks, &e),
	   "start, twice");
	for (i = 0; i < MANY; i++) {
		n[i].number = i;
		push(count, &n[i], i % 2 ? RINGUP_EPEER : 0);
	}
	callbacks_stop(&callbacks);
	ok(next == MANY, "all have run at the end");
	for (good = 1, i = 0; i < MANY; i++)
		good &= status_of[i] == (i % 2 ? RINGUP_EPEER : 0);
	ok(good, "each with its status");
	ok(prepared > 0, "and the error is set before");

	callbacks_open(&callbacks);
	ok(!callbacks_start(&callbacks, &e), "start again");
	for (i = 0; i < CHAIN; i++)
		push(wait_for_next, &chain[i], 0);
	push(push_one_more, &last, 0);
	next = 0;
	callbacks_stop(&callbacks);
	for (good = 1, i = 0; i < CHAIN; i++)
		good &= chain[i].number == CHAIN;
	ok(good, "callbacks that wait for each other run at the same time");
	ok(next == 1, "one that a callback has pushed runs, too");
	return tap_done();
}
