/* relay.c - all-to-all on a grid where not all hosts are connected: blocks are relayed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/relay.h"

#include <string.h>

#include "coll/copy.h"

/*
 * The blocks on host h at depth d have senders with the same digits as h from d on, and
 * receivers with the same digits before d.  A host that leans is right behind the one it
 * leans on.  Received blocks are in the order of senders, then receivers; blocks to send
 * along dimension d are first sorted by the receiver's digit d.
 */
enum { PUT, TAKEN, SENDING, CAME }; /* areas; CAME + d: blocks received for depth d */

enum { RADIX_MOST = GRID_RADIX > GRID_PRIME ? GRID_RADIX : GRID_PRIME };

/* Hosts inside the grid: first, first + step ... below end. */
struct line {
	int first, step, end;
};

static int stride(const struct grid *g, int d)
{
	return d < g->dims ? g->stride[d] : g->cells;
}

static struct line senders(const struct grid *g, int host, int depth)
{
	int low = host - host % stride(g, depth);

	return (struct line){ low, 1, low + stride(g, depth) };
}

static struct line receivers(const struct grid *g, int host, int depth)
{
	return (struct line){ host % stride(g, depth), stride(g, depth), g->cells };
}

static int cell(const struct grid *g, int host)
{
	return host < g->cells ? host : host - g->cells;
}

static int digit(const struct grid *g, int host, int d)
{
	return grid_digit(g, cell(g, host), d);
}

/* The host behind @host, or -1. */
static int behind(const struct grid *g, const struct line *l, int host)
{
	int next = cell(g, host) + l->step;

	if (host < g->cells && grid_leaner(g, host) >= 0)
		return grid_leaner(g, host);
	return next < l->end ? next : -1;
}

static uint64_t relay_block(const struct cut *c, uint64_t k, int from, int to)
{
	return cut_part(c, c->pairs[(size_t)from * (size_t)c->grid->hosts + (size_t)to], k);
}

/* A walk over the blocks on this host at a depth. */
struct walk {
	const struct grid *grid;
	struct line senders, receivers;
	int from, to;
};

static struct walk walk(const struct cut *c, int depth)
{
	const struct grid *g = c->grid;
	int host = c->topo->host;
	struct walk w = { g, senders(g, host, depth), receivers(g, host, depth), 0, -1 };

	w.from = w.senders.first;
	return w;
}

static bool next(struct walk *w)
{
	w->to = w->to < 0 ? w->receivers.first : behind(w->grid, &w->receivers, w->to);
	if (w->to >= 0)
		return true;
	w->from = behind(w->grid, &w->senders, w->from);
	w->to = w->receivers.first;
	return w->from >= 0;
}

/* Elements at depth @d for each digit d of the receivers. */
static void to_digits(const struct cut *c, uint64_t k, int d, uint64_t *sum)
{
	struct walk w = walk(c, d);

	memset(sum, 0, RADIX_MOST * sizeof(*sum));
	while (next(&w))
		sum[digit(c->grid, w.to, d)] += relay_block(c, k, w.from, w.to);
}

/* Elements at depth @d + 1 from each digit d of the senders. */
static void from_digits(const struct cut *c, uint64_t k, int d, uint64_t *sum)
{
	struct walk w = walk(c, d + 1);

	memset(sum, 0, RADIX_MOST * sizeof(*sum));
	while (next(&w))
		sum[digit(c->grid, w.from, d)] += relay_block(c, k, w.from, w.to);
}

static uint64_t sum_below(const uint64_t *sum, int n)
{
	uint64_t all = 0;

	while (n-- > 0)
		all += sum[n];
	return all;
}

int relay_areas(const struct grid *g)
{
	return CAME + g->dims + 1;
}

uint64_t relay_busiest(const struct cut *c, uint64_t *load, uint64_t *pairsp)
{
	const struct grid *g = c->grid;
	uint64_t most = 0;
	int d, n = g->hosts;

	for (*pairsp = 0, d = 0; d <= g->dims; d++) {
		struct line s = senders(g, 0, d), r = receivers(g, 0, d);
		int tcp_from = 0, tcp_to = 0;

		memset(load, 0, (size_t)n * sizeof(*load));
		for (int from = 0; from < n; from++)
			for (int to = 0; to < n; to++)
				load[cell(g, to) % stride(g, d) +
				     cell(g, from) / stride(g, d) * stride(g, d)] +=
					c->pairs[(size_t)from * (size_t)n + (size_t)to];
		for (int to = 0; to < n; to++)
			most = load[to] > most ? load[to] : most;
		/* Leaning hosts lean on the first hosts, so no host has more pairs than 0. */
		for (int from = s.first; from >= 0; from = behind(g, &s, from))
			tcp_from++;
		for (int to = r.first; to >= 0; to = behind(g, &r, to))
			tcp_to++;
		if ((uint64_t)tcp_from * (uint64_t)tcp_to > *pairsp)
			*pairsp = (uint64_t)tcp_from * (uint64_t)tcp_to;
	}
	return most;
}

static struct step *emit(struct step *s, enum step_kind kind, int round, int peer,
			 uint64_t first, uint64_t count)
{
	*s = (struct step){ kind, round, peer, first, count };
	return s + 1;
}

/* The elements that @host sends, or gets. */
static uint64_t all_of(const struct cut *c, uint64_t k, int host, bool sends)
{
	uint64_t sum = 0;

	for (int h = 0; h < c->grid->hosts; h++)
		sum += sends ? relay_block(c, k, host, h) : relay_block(c, k, h, host);
	return sum;
}

static struct step *along(const struct cut *c, uint64_t k, int d, struct step *s)
{
	const struct grid *g = c->grid;
	int host = c->topo->host, own = grid_digit(g, host, d), i;
	uint64_t sum[RADIX_MOST], first = SENDING * c->half;

	to_digits(c, k, d, sum);
	sum[own] = 0; /* stays */
	for (i = 1; i < g->radix[d]; i++) {
		int to = (own + i) % g->radix[d];

		s = emit(s, STEP_SEND, d + 1, grid_member(g, host, d, to),
			 first + sum_below(sum, to), sum[to]);
	}
	from_digits(c, k, d, sum);
	for (i = 0, first = (uint64_t)(CAME + d + 1) * c->half; i < g->radix[d]; i++) {
		if (i != own)
			s = emit(s, STEP_RECV, d + 1, grid_member(g, host, d, i), first,
				 sum[i]);
		first += sum[i];
	}
	return s;
}

int relay_steps(struct cut *c, uint64_t k, struct step *out)
{
	const struct grid *g = c->grid;
	int host = c->topo->host, last = 2 * g->dims + 1, d;
	int leaner = host < g->cells ? grid_leaner(g, host) : host;
	int peer = host < g->cells ? leaner : host - g->cells;
	bool leans = peer != leaner;
	struct step *s = out;

	if (leaner >= 0)
		s = emit(s, leans ? STEP_SEND : STEP_RECV, 0, peer, leans ? 0 : CAME * c->half,
			 all_of(c, k, leaner, true));
	for (d = 0; d < g->dims && !leans; d++)
		s = along(c, k, d, s);
	if (leaner >= 0)
		s = emit(s, leans ? STEP_RECV : STEP_SEND, last, peer,
			 (leans ? TAKEN : SENDING) * c->half, all_of(c, k, leaner, false));
	return (int)(s - out);
}

/* Sets where each host's block begins among those that @host sends, or gets, by place. */
static void by_place(struct cut *c, uint64_t k, int host, bool sends, uint64_t first)
{
	uint64_t *at = c->relayed, sum, size;
	int h, n = c->grid->hosts;

	for (h = 0; h < n; h++)
		at[c->place[h]] =
			sends ? relay_block(c, k, host, h) : relay_block(c, k, h, host);
	for (sum = first, h = 0; h < n; h++, sum += size) {
		size = at[h];
		at[h] = sum;
	}
}

static void fill_along(struct cut *c, uint64_t k, int d, unsigned char *vector)
{
	const struct grid *g = c->grid;
	const uint64_t *put = cut_vector(c, k, NULL);
	int own = grid_digit(g, c->topo->host, d), i, leaner = grid_leaner(g, c->topo->host);
	uint64_t sum[RADIX_MOST], to[RADIX_MOST], from = (uint64_t)(CAME + d) * c->half;
	struct walk w = walk(c, d);

	to_digits(c, k, d, sum);
	sum[own] = 0;
	for (i = 0; i < g->radix[d]; i++)
		to[i] = SENDING * c->half + sum_below(sum, i);
	from_digits(c, k, d, sum);
	to[own] = (uint64_t)(CAME + d + 1) * c->half + sum_below(sum, own);
	if (!d && leaner >= 0)
		by_place(c, k, leaner, true, from);
	while (next(&w)) {
		uint64_t n = relay_block(c, k, w.from, w.to), at = from;

		i = digit(g, w.to, d);
		if (!d)
			at = (w.from == leaner ? c->relayed : put)[c->place[w.to]];
		copy_bytes(vector + to[i] * c->bytes, vector + at * c->bytes, n * c->bytes);
		to[i] += n;
		from += n;
	}
}

/* Sorts the blocks for this host's ranks, and those for the host that leans on it. */
static void fill_last(struct cut *c, uint64_t k, unsigned char *vector)
{
	const struct grid *g = c->grid;
	int leaner = grid_leaner(g, c->topo->host);
	const uint64_t *into;
	uint64_t from = (uint64_t)(CAME + g->dims) * c->half;
	struct walk w = walk(c, g->dims);

	(void)cut_vector(c, k, &into);
	if (leaner >= 0)
		by_place(c, k, leaner, false, SENDING * c->half);
	while (next(&w)) {
		uint64_t n = relay_block(c, k, w.from, w.to);
		uint64_t to = (w.to == leaner ? c->relayed : into)[c->place[w.from]];

		copy_bytes(vector + to * c->bytes, vector + from * c->bytes, n * c->bytes);
		from += n;
	}
}

void relay_fill(struct cut *c, uint64_t k, int round, unsigned char *vector)
{
	if (c->topo->host >= c->grid->cells)
		return;
	if (round > 0 && round <= c->grid->dims)
		fill_along(c, k, round - 1, vector);
	else if (round == 2 * c->grid->dims + 1)
		fill_last(c, k, vector);
}
