/* test_rest.c - what several back ends wait for, as one thing to wait for. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/engine_state.h"
#include "engine/rest.h"
#include "tap.h"

enum { COMMS = 5, FDS = 3 };

/* A back end that waits for descriptors of its own. */
struct waits {
	struct pollfd fd[FDS + 1];
	int64_t look_ns;
	bool gives_way;
};

static bool waits_wait(void *self, struct wait_on *w)
{
	struct waits *v = self;

	w->fd = v->fd;
	w->fds = FDS;
	w->look_ns = v->look_ns;
	return !v->gives_way;
}

static const struct backend waiting = { .name = "waits", .wait = waits_wait };

static struct engine g;
static struct comm comm[COMMS];
static struct waitset set[COMMS];
static struct run run[COMMS];
static struct waits self[COMMS];

static void add(int i)
{
	struct err e = { 0 };
	int k;

	for (k = 0; k < FDS; k++)
		self[i].fd[k] = (struct pollfd){ 100 * i + k, POLLIN, 0 };
	self[i].look_ns = 1000 * (COMMS - i);
	comm[i].engine = &g;
	comm[i].waitset = &set[i];
	comm[i].providers[0] = (struct provider){ .backend = &waiting, .self = &self[i] };
	comm[i].provider_count = 1;
	comm[i].runs = comm[i].run = &run[i];
	comm[i].run_count = 1;
	run[i].provider = &comm[i].providers[0];
	comm[i].running = 1;
	ok(comms_add(&g, &comm[i], &e) == i, "a communicator with a plan in flight");
}

int main(void)
{
	struct rest r = { .providers = 0 };
	int i, k, wrong = 0;

	rest_ask(&g, &r);
	ok(!r.providers && !r.again, "nothing is in flight");
	add(0);
	rest_ask(&g, &r);
	ok(r.providers == 1 && r.all.fd == self[0].fd && r.all.fds == FDS,
	   "one waits as it says");
	for (i = 1; i < COMMS; i++)
		add(i);
	r = (struct rest){ .providers = 0 };
	rest_ask(&g, &r);
	ok(r.providers == COMMS && r.all.fds == COMMS * FDS && g.poll_room > COMMS * FDS,
	   "of several all descriptors, and room for one more");
	for (i = 0; i < COMMS && r.all.fds == COMMS * FDS; i++)
		for (k = 0; k < FDS; k++)
			wrong += r.all.fd[i * FDS + k].fd != 100 * i + k;
	ok(!wrong, "each as its back end told it");
	ok(r.all.look_ns == 1000, "and the shortest time");
	self[2].gives_way = true;
	r = (struct rest){ .providers = 0 };
	rest_ask(&g, &r);
	ok(r.again, "one that has given way wants to be asked again");
	free(g.poll);
	return tap_done();
}
