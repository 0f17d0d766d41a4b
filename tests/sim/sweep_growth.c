/* sweep_growth.c - how messages, hops and bytes grow with the hosts: the real steps. */
#include <stdlib.h>
#include <string.h>

#include "backend/cut.h"
#include "backend/relay.h"
#include "base/err.h"
#include "coll/sweep.h"
#include "tap.h"

/*
 * All hosts' steps are taken in lock step, as the back end takes them: a message of
 * round r leaves when its sender has all it waits for in the rounds before.  A hop is
 * one message that another had to wait for; the most hops in a row are what a small
 * operation takes, in latencies.  A host's sends leave one after the other, so "slots"
 * counts those, too: the critical path when sending a message takes as long as a hop.
 */
enum { SMALL = 64, LARGE = 1 << 20, MOST = 1024 };

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
	static int hops[MOST], slots[MOST], hops_now[MOST], slots_now[MOST];

	memset(hops, 0, sizeof(hops));
	memset(slots, 0, sizeof(slots));
	for (round = 0; round < rounds; round++) {
		memcpy(hops_now, hops, sizeof(hops));
		memcpy(slots_now, slots, sizeof(slots));
		for (h = 0; h < n; h++)
			for (i = 0; i < count_of[h]; i++) {
				const struct step *t = &steps[h][i];

				if (t->round != round || t->kind == STEP_SEND ||
				    !find_send(t->peer, h, round, &before))
					continue;
				hops_now[h] = most(hops_now[h], hops[t->peer] + 1);
				slots_now[h] = most(slots_now[h], slots[t->peer] + before);
			}
		memcpy(hops, hops_now, sizeof(hops));
		memcpy(slots, slots_now, sizeof(slots));
	}
	for (h = 0; h < n; h++) {
		w->hops = most(w->hops, hops[h]);
		w->slots = most(w->slots, slots[h]);
	}
}

/* A vector's blocks: one per host, or for a sum per host inside the grid. */
static void cut_up(const struct grid *g, enum sweep_kind kind, uint64_t count, uint64_t *start)
{
	bool all = kind == SWEEP_ALLGATHER || kind == SWEEP_REDUCESCATTER;
	int place, inside = 0;

	for (place = 0; place < g->hosts; place++) {
		inside += all || grid_host(g, place) < g->cells;
		start[place + 1] =
			count * (uint64_t)inside / (uint64_t)(all ? g->hosts : g->cells);
	}
}

/* What all hosts' steps come to; @count elements are a vector. */
static struct growth count_up(const struct grid *g, uint64_t count)
{
	struct growth w = { .dims = g->dims };
	int h, i;

	for (h = 0; h < g->hosts; h++) {
		uint64_t sent = 0;
		int messages = 0, links = 0;

		for (i = 0; i < count_of[h]; i++)
			if (steps[h][i].kind == STEP_SEND) {
				messages++;
				sent += steps[h][i].count;
			}
		w.most_messages = most(w.most_messages, messages);
		if ((double)sent / (double)count > w.most_bytes)
			w.most_bytes = (double)sent / (double)count;
		for (i = 0; i < g->hosts && h < 8; i++)
			links += grid_linked(g, h, i);
		w.links = most(w.links, links);
	}
	walk(g, &w);
	return w;
}

static void begin(struct grid *g, int hosts)
{
	int h;

	grid_init(g, hosts);
	steps = calloc((size_t)hosts, sizeof(*steps));
	count_of = calloc((size_t)hosts, sizeof(*count_of));
	for (h = 0; h < hosts; h++)
		steps[h] = calloc((size_t)sweep_most(g), sizeof(struct step));
}

static void end(int hosts)
{
	int h;

	for (h = 0; h < hosts; h++)
		free(steps[h]);
	free(steps);
	free(count_of);
}

static struct growth simulate(int hosts, enum sweep_kind kind, bool whole, uint64_t count)
{
	uint64_t *start = calloc((size_t)hosts + 1, sizeof(*start));
	struct sweep s = { kind, whole, 0, start, start };
	struct growth w;
	struct grid g;
	int h;

	begin(&g, hosts);
	cut_up(&g, kind, count, start);
	for (h = 0; h < hosts; h++)
		count_of[h] = sweep_steps(&g, h, &s, steps[h]);
	w = count_up(&g, count);
	end(hosts);
	free(start);
	return w;
}

/* Each host has @count elements for each; a vector is what one has for all others. */
static struct growth exchange(int hosts, uint64_t count)
{
	size_t n = (size_t)hosts, i;
	int *host_of = calloc(n, sizeof(*host_of)), h;
	uint64_t *matrix = calloc(n * n, sizeof(*matrix));
	struct topo topo = { .size = hosts, .hosts = hosts, .host_of = host_of };
	struct piece piece = { 0 };
	struct plan plan = { .kind = PLAN_ALLTOALL,
			     .dtype = RINGUP_U8,
			     .pieces = 1,
			     .piece = &piece,
			     .matrix = matrix };
	struct growth w = { 0 };
	struct cut cut;
	struct grid g;
	struct err e;

	for (i = 0; i < n * n; i++)
		matrix[i] = count;
	for (h = 0; h < hosts; h++)
		host_of[h] = h;
	begin(&g, hosts);
	if (!cut_open(&cut, &topo, &g, 1u << 30, 1, &e) && !cut_plan(&cut, &plan, 1, &e)) {
		for (h = 0; h < hosts; h++) {
			topo.host = h;
			count_of[h] = relay_steps(&cut, 0, steps[h]);
		}
		w = count_up(&g, count * (n - 1));
	}
	cut_close(&cut);
	end(hosts);
	free(host_of);
	free(matrix);
	return w;
}

static int log2_up(int n)
{
	int k = 0;

	while (1 << k < n)
		k++;
	return k;
}

/* What has one way there, or back, or is passed on. */
static void parts(const int *sizes, size_t count)
{
	int messages = 1, bytes = 1, hops = 1;
	size_t k;

	printf("# hosts   allgather: hops  messages  bytes   reduce-scatter: hops  messages  "
	       "bytes"
	       "   all-to-all: hops  messages  bytes\n");
	for (k = 0; k < count; k++) {
		int n = sizes[k], lg = log2_up(n);
		bool relays = n > GRID_COMPLETE;
		struct growth gather = simulate(n, SWEEP_ALLGATHER, false, LARGE);
		struct growth scatter = simulate(n, SWEEP_REDUCESCATTER, false, LARGE);
		/* Up to so many each sends to each. */
		struct growth to_all = { .hops = 1, .most_messages = n - 1, .most_bytes = 1 };

		if (relays)
			to_all = exchange(n, SMALL);
		printf("# %5d %17d %9d %6.3f %22d %9d %6.3f %18d %9d %6.3f\n", n, gather.hops,
		       gather.most_messages, gather.most_bytes, scatter.hops,
		       scatter.most_messages, scatter.most_bytes, to_all.hops,
		       to_all.most_messages, to_all.most_bytes);
		messages &= gather.most_messages <= 4 * lg + 8 &&
			    scatter.most_messages <= 4 * lg + 8 &&
			    (!relays || to_all.most_messages <= 4 * lg + 8);
		hops &= gather.hops <= (lg + 2) / 3 + 3 && scatter.hops <= (lg + 2) / 3 + 3 &&
			to_all.hops <= (lg + 2) / 3 + 3;
		bytes &= gather.most_bytes <= 3.01 && scatter.most_bytes <= 3.01 &&
			 to_all.most_bytes <= 2 * (lg + 2) / 3 + 2;
	}
	ok(hops, "hops of parts grow with the logarithm of the hosts");
	ok(messages, "so do messages, of an all-to-all where not all are connected");
	ok(bytes, "no host sends more than three vectors, in an all-to-all one per dimension");
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
	parts(sizes, sizeof(sizes) / sizeof(sizes[0]));
	ok(links, "beyond %d hosts, connections grow with the logarithm", GRID_COMPLETE);
	return tap_done();
}
