/* test_sweep.c - every host ends with what it should, for many grids, in one process. */
#include <stdlib.h>
#include <string.h>

#include "coll/sweep.h"
#include "rounds.h"
#include "tap.h"

enum { MAX_HOSTS = 70, MAX_COUNT = 400, MAX_STEPS = 400 };

/*
 * Elements are numbers that remember how they came about: combining is neither
 * commutative nor associative, so one wrong order shows.
 */
static uint64_t v[MAX_HOSTS][MAX_COUNT], old[MAX_HOSTS][MAX_COUNT];
static struct step steps[MAX_HOSTS][MAX_STEPS];
static int count_of[MAX_HOSTS], hosts;
static uint64_t start[MAX_HOSTS + 1], into[MAX_HOSTS][MAX_HOSTS + 1];

static uint64_t mine(int host, uint64_t i)
{
	return 1000003ULL * (uint64_t)(host + 1) + i * 7919;
}

static uint64_t join(uint64_t a, uint64_t b)
{
	return (a * 6364136223846793005ULL + 1) ^ (b * 1442695040888963407ULL);
}

static const struct step *sent(int from, int to, int round)
{
	int i;

	for (i = 0; i < count_of[from]; i++)
		if (steps[from][i].kind == STEP_SEND && steps[from][i].round == round &&
		    steps[from][i].peer == to)
			return &steps[from][i];
	return NULL;
}

/* The sum of one element of one round, in the order of the hosts. */
static uint64_t sum_of(int host, int round, uint64_t j)
{
	uint64_t sum = 0;
	int peer, i, any = 0;

	for (peer = 0; peer < hosts; peer++) {
		int has = peer == host;

		for (i = 0; i < count_of[host] && !has; i++) {
			const struct step *t = &steps[host][i];

			has = t->kind == STEP_RECV_REDUCE && t->round == round &&
			      t->peer == peer && j >= t->first && j < t->first + t->count;
		}
		if (has)
			sum = any++ ? join(sum, old[peer][j]) : old[peer][j];
	}
	return sum;
}

/* All hosts in lock step: a round reads what there was when it began. */
static int run(const struct grid *g, const struct sweep *s, const uint64_t *to)
{
	int h, i, round, sends = 0, receives = 0;
	uint64_t j;

	hosts = g->hosts;
	for (h = 0; h < g->hosts; h++) {
		struct sweep own = *s;

		own.into = to ? into[h] : NULL;
		count_of[h] = sweep_steps(g, h, &own, steps[h]);
		if (count_of[h] > sweep_most(g) || count_of[h] > MAX_STEPS)
			return 0;
		for (i = 0; i < count_of[h]; i++) {
			sends += steps[h][i].kind == STEP_SEND;
			receives += steps[h][i].kind != STEP_SEND;
			if (!grid_linked(g, h, steps[h][i].peer))
				return 0;
			if (i && steps[h][i].round < steps[h][i - 1].round)
				return 0;
		}
	}
	for (round = 0; round < 2 * g->dims + 2; round++) {
		memcpy(old, v, (size_t)hosts * sizeof(v[0]));
		for (h = 0; h < g->hosts; h++)
			for (i = 0; i < count_of[h]; i++) {
				const struct step *t = &steps[h][i], *other;

				if (t->round != round || t->kind == STEP_SEND)
					continue;
				other = sent(t->peer, h, round);
				if (!other || other->count != t->count ||
				    (!to && other->first != t->first))
					return 0;
				for (j = 0; j < t->count; j++)
					v[h][t->first + j] =
						t->kind == STEP_RECV
							? old[t->peer][other->first + j]
							: sum_of(h, round, t->first + j);
			}
	}
	return sends == receives;
}

/* What the contributions add up to, whoever does it. */
static uint64_t expected(const struct grid *g, uint64_t j)
{
	uint64_t x[MAX_HOSTS];
	int d, h, k, n = g->cells;

	for (h = 0; h < n; h++) {
		x[h] = mine(h, j);
		if (grid_leaner(g, h) >= 0)
			x[h] = join(x[h], mine(grid_leaner(g, h), j));
	}
	for (d = 0; d < g->dims; d++, n /= g->radix[d - 1])
		for (h = 0; h < n / g->radix[d]; h++) {
			uint64_t sum = x[h * g->radix[d]];

			for (k = 1; k < g->radix[d]; k++)
				sum = join(sum, x[h * g->radix[d] + k]);
			x[h] = sum;
		}
	return x[0];
}

static uint64_t cut(const struct grid *g, int even)
{
	int i;

	start[0] = 0;
	for (i = 0; i < g->hosts; i++)
		start[i + 1] = start[i] + (even ? 2 : (uint64_t)(rand() % 3 * (rand() % 3)));
	return start[g->hosts];
}

static void fill(int n)
{
	int h;
	uint64_t j;

	for (h = 0; h < n; h++)
		for (j = 0; j < MAX_COUNT; j++)
			v[h][j] = mine(h, j);
}

static int sum_is_right(const struct grid *g, bool whole, bool scatter)
{
	struct sweep s = { scatter ? SWEEP_REDUCESCATTER : SWEEP_ALLREDUCE, whole, 0, start,
			   NULL };
	uint64_t count = cut(g, rand() % 2), j;
	int h;

	fill(g->hosts);
	if (!run(g, &s, NULL))
		return 0;
	for (h = 0; h < g->hosts; h++) {
		int place = grid_place(g, h);

		for (j = scatter ? start[place] : 0; j < (scatter ? start[place + 1] : count);
		     j++)
			if (v[h][j] != expected(g, j))
				return 0;
	}
	return 1;
}

static int gather_is_right(const struct grid *g)
{
	struct sweep s = { SWEEP_ALLGATHER, false, 0, start, NULL };
	uint64_t j;
	int h, k;

	cut(g, 0);
	fill(g->hosts);
	if (!run(g, &s, NULL))
		return 0;
	for (h = 0; h < g->hosts; h++)
		for (k = 0; k < g->hosts; k++)
			for (j = start[grid_place(g, k)]; j < start[grid_place(g, k) + 1]; j++)
				if (v[h][j] != mine(k, j))
					return 0;
	return 1;
}

static int broadcast_is_right(const struct grid *g, int root, bool whole)
{
	struct sweep s = { SWEEP_BROADCAST, whole, root, start, NULL };
	uint64_t count = cut(g, rand() % 2), j;
	int h;

	fill(g->hosts);
	if (!run(g, &s, NULL))
		return 0;
	for (h = 0; h < g->hosts; h++)
		for (j = 0; j < count; j++)
			if (v[h][j] != mine(root, j))
				return 0;
	return 1;
}

/* Blocks of (from + to) % 3 elements. */
static int exchange_is_right(const struct grid *g)
{
	static uint64_t out[MAX_HOSTS][MAX_HOSTS + 1];
	struct sweep s = { .kind = SWEEP_EXCHANGE };
	int a, b, n = g->hosts, i, round_trip = 1;
	uint64_t j;

	for (a = 0; a < n; a++)
		for (out[a][0] = 0, into[a][0] = 200, i = 0; i < n; i++) {
			b = grid_host(g, i);
			out[a][i + 1] = out[a][i] + (uint64_t)(a + 2 * b) % 3;
			into[a][i + 1] = into[a][i] + (uint64_t)(b + 2 * a) % 3;
		}
	fill(n);
	for (a = 0; a < n; a++) {
		s.start = out[a];
		s.into = into[a];
		count_of[a] = sweep_steps(g, a, &s, steps[a]);
	}
	memcpy(old, v, sizeof(v));
	for (a = 0; a < n; a++)
		for (i = 0; i < count_of[a]; i++) {
			const struct step *t = &steps[a][i], *other;

			if (t->kind == STEP_SEND)
				continue;
			other = sent(t->peer, a, t->round);
			if (!other || other->count != t->count)
				return 0;
			for (j = 0; j < t->count; j++)
				v[a][t->first + j] = old[t->peer][other->first + j];
		}
	for (a = 0; a < n; a++)
		for (i = 0; i < n; i++) {
			b = grid_host(g, i);
			for (j = 0; b != a && j < into[a][i + 1] - into[a][i]; j++)
				round_trip &= v[a][into[a][i] + j] ==
					      mine(b, out[b][grid_place(g, a)] + j);
		}
	return round_trip;
}

int main(void)
{
	int n, i;

	for (n = 1; n <= MAX_HOSTS; n++) {
		struct grid g;
		int good = 1;

		/* Everything up to 20, then a sample that has leaners. */
		if (n > 20 && n != 23 && n != 34 && n != 64 && n != 67 && n != 69 && n != 70)
			continue;
		grid_init(&g, n);
		for (i = 0; i < rounds_of(4); i++)
			good &= sum_is_right(&g, false, false) &&
				sum_is_right(&g, true, false) && sum_is_right(&g, false, true);
		ok(good, "%d hosts: sums, the same whatever the way", n);
		for (good = 1, i = 0; i < rounds_of(4); i++)
			good &= gather_is_right(&g);
		ok(good, "%d hosts: blocks of different size, also empty", n);
		for (good = 1, i = 0; i<n; i += n> 20 ? 7 : 1)
			good &= broadcast_is_right(&g, i, false) &&
				broadcast_is_right(&g, i, true);
		ok(good, "%d hosts: broadcast from each", n);
		if (n > 1 && n <= GRID_COMPLETE)
			ok(exchange_is_right(&g), "%d hosts: exchange", n);
	}
	return tap_done();
}
