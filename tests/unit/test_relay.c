/* test_relay.c - an all-to-all of many hosts, all in one process: who gets what. */
#include <stdlib.h>
#include <string.h>

#include "backend/cut.h"
#include "backend/relay.h"
#include "base/err.h"
#include "coll/sweep.h"
#include "ringup.h"
#include "tap.h"

enum { MAX_HOSTS = 140, MAX_RANKS = 2 * MAX_HOSTS, MAX_STEPS = 256, MOST = 100 };

static int hosts, ranks, host_of[MAX_RANKS];
static struct grid grid;
static uint64_t matrix[MAX_RANKS * MAX_RANKS], slot_bytes;
static struct rank {
	struct topo topo;
	struct cut cut;
	struct plan plan;
	struct piece piece;
	uint32_t *in, *out;
} rank[MAX_RANKS];
static unsigned char *vector[MAX_HOSTS];
static struct step step[MAX_HOSTS][MAX_STEPS];
static int steps[MAX_HOSTS];

/* Element @k of what @from has for @to. */
static uint32_t value(int from, int to, uint64_t k)
{
	return (uint32_t)(from * 1000003 + to * 1009 + (int)k);
}

static void make_rank(int r)
{
	struct rank *me = &rank[r];
	uint64_t sent = 0, got = 0, k;
	int i;

	for (i = 0; i < ranks; i++) {
		sent += matrix[r * ranks + i];
		got += matrix[i * ranks + r];
	}
	me->in = malloc((sent + 1) * sizeof(uint32_t));
	me->out = calloc(got + 1, sizeof(uint32_t));
	for (i = 0, sent = 0; i < ranks; i++)
		for (k = 0; k < matrix[r * ranks + i]; k++)
			me->in[sent++] = value(r, i, k);
	me->topo = (struct topo){
		.rank = r, .size = ranks, .host = host_of[r], .hosts = hosts, .host_of = host_of
	};
	me->piece = (struct piece){ .in = me->in, .out = me->out };
	me->plan = (struct plan){ .kind = PLAN_ALLTOALL,
				  .dtype = RINGUP_I32,
				  .pieces = 1,
				  .piece = &me->piece,
				  .matrix = matrix };
}

static bool is_right(int r)
{
	uint64_t k, at = 0;
	int i;

	for (i = 0; i < ranks; i++)
		for (k = 0; k < matrix[i * ranks + r]; k++)
			if (rank[r].out[at++] != value(i, r, k))
				return false;
	return true;
}

/* What the ranks do with the vector of their host. */
static void move(uint64_t k, bool taking)
{
	struct cut_walk w;
	int r;

	for (r = 0; r < ranks; r++) {
		unsigned char *v = vector[host_of[r]];

		cut_walk(&rank[r].cut, &w, k, taking, 0, UINT64_MAX);
		while (cut_next(&w))
			memcpy(taking ? w.out : v + w.first * 4,
			       taking ? v + w.first * 4 : w.in, w.count * 4);
	}
}

static int first_of(int host)
{
	int r = 0;

	while (host_of[r] != host)
		r++;
	return r;
}

static const struct step *sent(int from, int to, int round)
{
	int i;

	for (i = 0; i < steps[from]; i++)
		if (step[from][i].kind == STEP_SEND && step[from][i].round == round &&
		    step[from][i].peer == to)
			return &step[from][i];
	return NULL;
}

/* Each message goes to whom its sender is connected to, and he expects it. */
static bool deliver(int round)
{
	uint64_t room = slot_bytes / 4;
	int h, i;

	for (h = 0; h < hosts; h++)
		for (i = 0; i < steps[h]; i++) {
			const struct step *t = &step[h][i], *other;

			if (t->kind == STEP_SEND || t->round != round)
				continue;
			other = sent(t->peer, h, round);
			if (!other || other->count != t->count ||
			    !grid_linked(&grid, h, t->peer) || t->first + t->count > room ||
			    other->first + t->count > room)
				return false;
			memcpy(vector[h] + t->first * 4, vector[t->peer] + other->first * 4,
			       t->count * 4);
		}
	return true;
}

static bool carry(uint64_t k)
{
	bool good = true;
	int h, round;

	for (h = 0; h < hosts; h++) {
		memset(vector[h], 0xee, slot_bytes);
		steps[h] = relay_steps(&rank[first_of(h)].cut, k, step[h]);
		good &= steps[h] <= sweep_most(&grid) && steps[h] <= MAX_STEPS;
	}
	move(k, false);
	for (round = 0; round < 2 * grid.dims + 2 && good; round++) {
		for (h = 0; h < hosts; h++)
			relay_fill(&rank[first_of(h)].cut, k, round, vector[h]);
		good = deliver(round);
	}
	move(k, true);
	return good;
}

/* @n hosts, those below @twice with two ranks; returns how many chunks it took, or 0. */
static uint64_t exchange(int n, int twice, uint64_t bytes)
{
	struct err e;
	uint64_t k, chunks;
	int r, h;
	bool good = true;

	hosts = n;
	ranks = 0;
	slot_bytes = bytes;
	grid_init(&grid, n);
	for (h = 0; h < n; h++) {
		host_of[ranks++] = h;
		if (h < twice)
			host_of[ranks++] = h;
		vector[h] = malloc(bytes);
	}
	for (r = 0; r < ranks * ranks; r++)
		matrix[r] = rand() % 3 ? 0 : (uint64_t)(rand() % MOST);
	for (r = 0; r < ranks; r++) {
		make_rank(r);
		good &= !cut_open(&rank[r].cut, &rank[r].topo, &grid, bytes, bytes, &e) &&
			!cut_plan(&rank[r].cut, &rank[r].plan, 1, &e);
		good &= rank[r].cut.chunks == rank[0].cut.chunks;
	}
	chunks = good ? rank[0].cut.chunks : 0;
	for (k = 0; k < chunks && good; k++)
		good = carry(k);
	for (r = 0; r < ranks; r++) {
		good = good && is_right(r);
		cut_close(&rank[r].cut);
		free(rank[r].in);
		free(rank[r].out);
	}
	for (h = 0; h < n; h++)
		free(vector[h]);
	return good ? chunks : 0;
}

int main(void)
{
	/* In a plane, with two that lean, with one; in a cube, with two that lean. */
	static const int many[] = { 65, 66, 68, 71, 72, 128, 135, 139 };
	size_t i;

	for (i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		uint64_t one = exchange(many[i], 0, 1 << 20);
		uint64_t more = exchange(many[i], many[i] / 3, 16384);

		ok(one == 1, "%d hosts, all at once", many[i]);
		ok(more > 1, "%d hosts, some with two ranks, %llu chunks", many[i],
		   (unsigned long long)more);
	}
	return tap_done();
}
