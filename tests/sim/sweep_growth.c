/* sweep_growth.c - how messages, hops and bytes grow with the hosts: the real steps. */
#include <stdlib.h>
#include <string.h>

#include "coll/sweep.h"
#include "tap.h"

/*
 * All hosts' steps are taken in lock step, as the back end takes them: a message of
 * round r leaves when its sender has all it waits for in the rounds before.  A hop is
 * one message that another had to wait for; the most hops in a row are what a small
 * operation takes, in latencies.  A host's sends leave one after the other, so "slots"
 * counts those, too: the critical path when sending a message takes as long as a hop.
 */
enum { SMALL = 64, LARGE = 1 << 20 };

struct growth {
	int dims, links;
	int most_messages; /* that any host sends */
	int hops, slots;
	double most_bytes; /* that any host sends, in vectors */
};

static struct step **steps;
static int *count_of;

static const struct step *find_send(int from, int to, int round, int *before)
{
	int i;

	for (i = 0, *before = 0; i < count_of[from]; i++) {
		const struct step *t = &steps[from][i];

		if (t->kind != STEP_SEND || t->round != round)
			continue;
		++*before;
		if (t->peer == to)
			return t;
	}
	return NULL;
}

static int most(int a, int b)
{
	return a > b ? a : b;
}

/* When each host is through with each round, in hops and in slots. */
static void walk(const struct grid *g, struct growth *w)
{
	int n = g->hosts, rounds = 2 * g->dims + 2, round, h, i, before;
	int *hops = calloc((size_t)n, sizeof(int)), *slots = calloc((size_t)n, sizeof(int));
	int *hops_now = calloc((size_t)n, sizeof(int)),
	    *slots_now = calloc((size_t)n, sizeof(int));

	for (round = 0; round < rounds; round++) {
		memcpy(hops_now, hops, (size_t)n * sizeof(int));
		memcpy(slots_now, slots, (size_t)n * sizeof(int));
		for (h = 0; h < n; h++)
			for (i = 0; i < count_of[h]; i++) {
				const struct step *t = &steps[h][i];

				if (t->round != round || t->kind == STEP_SEND ||
				    !find_send(t->peer, h, round, &before))
					continue;
				hops_now[h] = most(hops_now[h], hops[t->peer] + 1);
				slots_now[h] = most(slots_now[h], slots[t->peer] + before);
			}
		memcpy(hops, hops_now, (size_t)n * sizeof(int));
		memcpy(slots, slots_now, (size_t)n * sizeof(int));
	}
	for (h = 0; h < n; h++) {
		w->hops = most(w->hops, hops[h]);
		w->slots = most(w->slots, slots[h]);
	}
	free(hops);
	free(slots);
	free(hops_now);
	free(slots_now);
}

static struct growth simulate(int hosts, enum sweep_kind kind, bool whole, uint64_t count)
{
	uint64_t *start = calloc((size_t)hosts + 1, sizeof(*start));
	struct sweep s = { kind, whole, 0, start, NULL };
	struct growth w = { 0 };
	struct grid g;
	int h, i, place, inside = 0;

	grid_init(&g, hosts);
	w.dims = g.dims;
	for (place = 0; place < hosts; place++) {
		inside += kind == SWEEP_ALLGATHER || grid_host(&g, place) < g.cells;
		start[place + 1] = count * (uint64_t)inside /
				   (uint64_t)(kind == SWEEP_ALLGATHER ? hosts : g.cells);
	}
	steps = calloc((size_t)hosts, sizeof(*steps));
	count_of = calloc((size_t)hosts, sizeof(*count_of));
	for (h = 0; h < hosts; h++) {
		uint64_t sent = 0;
		int messages = 0;

		steps[h] = calloc((size_t)sweep_most(&g), sizeof(struct step));
		count_of[h] = sweep_steps(&g, h, &s, steps[h]);
		for (i = 0; i < count_of[h]; i++)
			if (steps[h][i].kind == STEP_SEND) {
				messages++;
				sent += steps[h][i].count;
			}
		w.most_messages = most(w.most_messages, messages);
		if ((double)sent / (double)count > w.most_bytes)
			w.most_bytes = (double)sent / (double)count;
	}
	for (h = 0; h < hosts; h++) {
		int links = 0;

		for (i = 0; i < hosts && h < 8; i++)
			links += grid_linked(&g, h, i);
		w.links = most(w.links, links);
	}
	walk(&g, &w);
	for (h = 0; h < hosts; h++)
		free(steps[h]);
	free(steps);
	free(count_of);
	free(start);
	return w;
}

static int log2_up(int n)
{
	int k = 0;

	while (1 << k < n)
		k++;
	return k;
}

int main(void)
{
	static const int sizes[] = { 2, 3, 4, 8, 16, 17, 64, 100, 256, 1000, 1024 };
	int latency = 1, messages = 1, bytes = 1, links = 1, casts = 1;
	size_t k;

	printf("# allreduce, per rail         small                     large\n");
	printf("# hosts  dims  links   hops  slots  messages    hops  messages  bytes/vector"
	       "   broadcast hops\n");
	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		int n = sizes[k], lg = log2_up(n);
		struct growth small = simulate(n, SWEEP_ALLREDUCE, true, SMALL);
		struct growth large = simulate(n, SWEEP_ALLREDUCE, false, LARGE);
		struct growth cast = simulate(n, SWEEP_BROADCAST, true, SMALL);

		printf("# %5d %5d %6d %6d %6d %9d %7d %9d %13.3f %16d\n", n, small.dims,
		       small.links, small.hops, small.slots, small.most_messages, large.hops,
		       large.most_messages, large.most_bytes, cast.hops);
		/* Leaning costs a hop before and one after. */
		latency &= small.hops <= (lg + 2) / 3 + 3;
		messages &=
			small.most_messages <= 4 * lg + 8 && large.most_messages <= 8 * lg + 14;
		/* 2 (n-1)/n vectors is the least; what leans goes through one host twice. */
		bytes &= large.most_bytes <= 3.01;
		links &= n <= GRID_COMPLETE || small.links <= 4 * lg;
		casts &= cast.hops <= (lg + 2) / 3 + 3;
	}
	ok(latency, "hops of a small sum grow with the logarithm of the hosts");
	ok(casts, "and those of a small broadcast");
	ok(messages, "so does the number of messages, also of large sums");
	ok(bytes, "no host sends more than three vectors, however many there are");
	ok(links, "beyond %d hosts, connections grow with the logarithm", GRID_COMPLETE);
	return tap_done();
}
