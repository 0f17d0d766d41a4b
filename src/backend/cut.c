/* cut.c - pipelining between hosts: cuts a plan into chunks, and finds their elements. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/cut.h"

#include <stdlib.h>
#include <string.h>

#include "backend/relay.h"
#include "base/err.h"
#include "base/num.h"
#include "coll/reduce.h"
#include "coll/sweep.h"

/* Bytes of a chunk at least, even if more ranks could share the work: messages cost time. */
enum { LEAST_BYTES = 16384, LINE = 64 };

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t ceiling(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* n * k / of, without overflow. */
static uint64_t fraction(uint64_t n, uint64_t k, uint64_t of)
{
	return n / of * k + n % of * k / of;
}

static int host_of(const struct cut *c, int rank)
{
	return c->topo->host_of ? c->topo->host_of[rank] : 0;
}

static bool flat(const struct plan *p)
{
	return !collective_is(p->kind, COLLECTIVE_ROWS);
}

int cut_open(struct cut *c, const struct topo *t, const struct grid *g, uint64_t slot_bytes,
	     uint64_t stage_bytes, struct err *e)
{
	size_t hosts = (size_t)g->hosts, ranks = (size_t)t->size;
	uint64_t *m;

	*c = (struct cut){
		.topo = t, .grid = g, .slot_bytes = slot_bytes, .stage_bytes = stage_bytes
	};
	c->place = calloc(hosts, sizeof(*c->place));
	m = c->memory = calloc(2 * (hosts + 1) + 2 * hosts + 4 * ranks, sizeof(*m));
	if (!c->place || !m)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", t->size);
	for (int h = 0; h < g->hosts; h++)
		c->place[h] = grid_place(g, h);
	c->start = m;
	c->into = m + hosts + 1;
	m = c->into + hosts + 1;
	c->out = (struct cut_blocks){ .total = m,
				      .offset = m + hosts,
				      .user = m + hosts + ranks };
	m = c->out.user + ranks;
	c->in = (struct cut_blocks){ .total = m,
				     .offset = m + hosts,
				     .user = m + hosts + ranks };
	return 0;
}

void cut_close(struct cut *c)
{
	free(c->place);
	free(c->memory);
	free(c->piece_start);
	free(c->pairs);
	memset(c, 0, sizeof(*c));
}

static int place_pieces(struct cut *c, const struct plan *p, struct err *e)
{
	uint64_t at = 0;

	if (p->pieces + 1 > c->piece_room) {
		uint64_t *start =
			realloc(c->piece_start, (size_t)(p->pieces + 1) * sizeof(*start));

		if (!start)
			return fail(e, RINGUP_ENOMEM, "%d pieces", p->pieces);
		c->piece_start = start;
		c->piece_room = p->pieces + 1;
	}
	for (int i = 0; i < p->pieces; i++) {
		c->piece_start[i] = at;
		at += p->piece[i].count;
	}
	c->piece_start[p->pieces] = at;
	return 0;
}

/* Small plans are shared by all rails, and cut so that their stages overlap. */
static void cut_flat(struct cut *c, const struct plan *p, uint64_t room, int rails)
{
	size_t wire = c->wide ? sizeof(float) : c->bytes;
	uint64_t line = LINE / wire, count;

	count = ceiling(p->count, (uint64_t)rails * 2);
	count = most(count, LEAST_BYTES / wire);
	count = num_least(ceiling(count, line) * line, room / line * line);
	c->chunk_count = count;
	c->chunks = most(ceiling(p->count, count), 1);
}

static void place_blocks(struct cut *c, const uint64_t *counts)
{
	struct cut_blocks *b = &c->out;
	uint64_t at = 0;

	b->count = counts;
	b->stride = 1;
	memset(b->total, 0, (size_t)c->grid->hosts * sizeof(*b->total));
	for (int r = 0; r < c->topo->size; r++) {
		b->offset[r] = b->total[host_of(c, r)];
		b->total[host_of(c, r)] += counts[r];
		b->user[r] = at;
		at += counts[r];
	}
}

/* Sets the elements that each host has for each host. */
static int add_pairs(struct cut *c, const uint64_t *matrix, struct err *e)
{
	size_t hosts = (size_t)c->grid->hosts, n = (size_t)c->topo->size, i, j;
	uint64_t *of;

	if (!c->pairs)
		c->pairs = malloc((hosts + 1) * hosts * sizeof(*c->pairs));
	if (!c->pairs)
		return fail(e, RINGUP_ENOMEM, "an all-to-all of %zu hosts", hosts);
	memset(c->pairs, 0, hosts * hosts * sizeof(*c->pairs));
	c->relayed = c->pairs + hosts * hosts;
	for (i = 0; i < n; i++)
		for (j = 0, of = c->pairs + (size_t)host_of(c, (int)i) * hosts; j < n; j++)
			of[host_of(c, (int)j)] += matrix[i * n + j];
	return 0;
}

/* From each rank of this host to each rank, and the other way round; in either
 * direction the sender's rank goes first. */
static void place_matrix(struct cut *c, const uint64_t *matrix)
{
	const struct topo *t = c->topo;
	size_t hosts = (size_t)c->grid->hosts, n = (size_t)t->size, i, j, me = (size_t)t->rank;
	uint64_t at_out = 0, at_in = 0;

	memset(c->out.total, 0, hosts * sizeof(uint64_t));
	memset(c->in.total, 0, hosts * sizeof(uint64_t));
	c->out.count = matrix + me * n;
	c->out.stride = 1;
	c->in.count = matrix + me;
	c->in.stride = n;
	for (i = 0; i < n; i++) {
		uint64_t *in = &c->in.total[host_of(c, (int)i)];

		c->out.user[i] = at_out;
		c->in.user[i] = at_in;
		at_out += matrix[me * n + i];
		at_in += matrix[i * n + me];
		for (j = 0; j < n; j++) {
			uint64_t *out = &c->out.total[host_of(c, (int)j)];

			if (host_of(c, (int)i) == t->host) {
				if (i == me)
					c->out.offset[j] = *out;
				*out += matrix[i * n + j];
			}
			if (host_of(c, (int)j) == t->host) {
				if (j == me)
					c->in.offset[i] = *in;
				*in += matrix[i * n + j];
			}
		}
	}
}

/* The most that any host sends or receives. */
static uint64_t busiest(const struct cut *c)
{
	size_t n = (size_t)c->grid->hosts, h, k;
	uint64_t most_of = 0, out, in;

	for (h = 0; h < n; h++) {
		for (out = in = 0, k = 0; k < n; k++) {
			out += c->pairs[h * n + k];
			in += c->pairs[k * n + h];
		}
		most_of = most(most_of, most(out, in));
	}
	return most_of;
}

static int cut_exchange(struct cut *c, const uint64_t *matrix, uint64_t room, struct err *e)
{
	const struct grid *g = c->grid;
	uint64_t all, pairs;
	int rc = add_pairs(c, matrix, e);

	if (rc)
		return rc;
	place_matrix(c, matrix);
	c->relays = g->hosts > GRID_COMPLETE;
	c->half = room / (c->relays ? (uint64_t)relay_areas(g) : 2);
	all = c->relays ? relay_busiest(c, c->relayed, &pairs) : busiest(c);
	pairs = c->relays ? pairs : (uint64_t)g->hosts;
	if (c->half <= pairs)
		return fail(e, RINGUP_ENOBACKEND, "tcp cannot do an all-to-all of %d hosts",
			    g->hosts);
	c->chunks = most(ceiling(all, c->half - pairs), 1);
	return 0;
}

/* *@mostp: the most summands that any host would receive if all were one chunk. */
static int staged(struct cut *c, uint64_t *mostp, struct err *e)
{
	const struct grid *g = c->grid;
	struct sweep s = { .kind = SWEEP_REDUCESCATTER, .start = c->start };
	struct step *steps = calloc((size_t)sweep_most(g), sizeof(*steps));
	int h, n;

	if (!steps)
		return fail(e, RINGUP_ENOMEM, "steps for %d hosts", g->hosts);
	c->chunks = 1;
	c->vector_of = 0;
	cut_vector(c, 0, NULL);
	for (*mostp = 0, h = 0; h < g->hosts; h++) {
		uint64_t sum = 0;

		n = sweep_steps(g, h, &s, steps);
		for (int i = 0; i < n; i++)
			sum += steps[i].kind == STEP_RECV_REDUCE ? steps[i].count : 0;
		*mostp = most(*mostp, sum);
	}
	free(steps);
	return 0;
}

int cut_plan(struct cut *c, const struct plan *p, int rails, struct err *e)
{
	uint64_t hosts = (uint64_t)c->grid->hosts, room, stage, all = 0;
	bool sums = collective_is(p->kind, COLLECTIVE_REDUCES);
	int rc = 0;

	c->plan = p;
	c->vector_of = 0;
	c->bytes = p->kind == PLAN_BARRIER ? 1 : reduce_dtype_bytes(p->dtype);
	c->wide = sums && reduce_is_half(p->dtype) && p->redop != RINGUP_MIN &&
		  p->redop != RINGUP_MAX;
	room = c->slot_bytes / (c->wide ? sizeof(float) : c->bytes);
	stage = c->stage_bytes / (c->wide ? sizeof(float) : c->bytes);
	if (p->kind == PLAN_BARRIER) {
		c->chunk_count = room;
		c->chunks = 1;
	} else if (flat(p)) {
		rc = place_pieces(c, p, e);
		cut_flat(c, p, room, rails);
	} else if (collective_is(p->kind, COLLECTIVE_SPLITS)) {
		rc = cut_exchange(c, p->matrix, room, e);
	} else {
		place_blocks(c, p->counts);
		for (int r = 0; r < c->topo->size; r++)
			all += p->counts[r];
		c->chunks = most(ceiling(all, room - hosts), 1);
		if (sums) {
			uint64_t pieces = c->chunks;

			rc = staged(c, &all, e);
			c->chunks = most(pieces, ceiling(all, stage - 2 * hosts));
			c->vector_of = 0;
		}
	}
	return rc;
}

static uint64_t flat_elements(const struct cut *c, uint64_t k)
{
	if (c->plan->kind == PLAN_BARRIER)
		return 0;
	return num_least(c->chunk_count, c->plan->count - k * c->chunk_count);
}

/* Shared by the hosts inside the grid, in whole lines as far as possible. */
static void flat_vector(struct cut *c, uint64_t k)
{
	const struct grid *g = c->grid;
	uint64_t count = flat_elements(c, k), line = LINE / c->bytes, at = 0, lines;
	int inside = 0;

	lines = ceiling(count, line);
	for (int place = 0; place < g->hosts; place++)
		c->start[place + 1] = 0;
	for (int h = 0; h < g->cells; h++)
		c->start[c->place[h] + 1] = 1; /* one share */
	c->start[0] = 0;
	for (int place = 1; place <= g->hosts; place++) {
		inside += c->start[place] != 0;
		at = num_least(fraction(lines, (uint64_t)inside, (uint64_t)g->cells) * line,
			       count);
		c->start[place] = at;
	}
}

uint64_t cut_part(const struct cut *c, uint64_t total, uint64_t k)
{
	return fraction(total, k + 1, c->chunks) - fraction(total, k, c->chunks);
}

static void stream_vector(const struct cut *c, const struct cut_blocks *b, uint64_t k,
			  uint64_t first, uint64_t *start)
{
	for (int h = 0; h < c->grid->hosts; h++)
		start[c->place[h] + 1] = cut_part(c, b->total[h], k);
	start[0] = first;
	for (int place = 0; place < c->grid->hosts; place++)
		start[place + 1] += start[place];
}

const uint64_t *cut_vector(struct cut *c, uint64_t k, const uint64_t **intop)
{
	if (intop)
		*intop = c->into;
	if (c->vector_of == k + 1)
		return c->start;
	c->vector_of = k + 1;
	if (flat(c->plan))
		flat_vector(c, k);
	else
		stream_vector(c, &c->out, k, 0, c->start);
	if (collective_is(c->plan->kind, COLLECTIVE_SPLITS))
		stream_vector(c, &c->in, k, c->half, c->into);
	return c->start;
}

uint64_t cut_elements(struct cut *c, uint64_t k)
{
	return flat(c->plan) ? flat_elements(c, k) : cut_vector(c, k, NULL)[c->grid->hosts];
}

/* The last piece that starts at or before element @at. */
static int piece_at(const struct cut *c, uint64_t at)
{
	int low = 0, high = c->plan->pieces - 1;

	while (low < high) {
		int middle = low + (high - low + 1) / 2;

		if (c->piece_start[middle] <= at)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

void cut_walk(struct cut *c, struct cut_walk *w, uint64_t k, bool taking, uint64_t first,
	      uint64_t end)
{
	*w = (struct cut_walk){ .cut = c, .chunk = k, .taking = taking, .at = first };
	w->end = num_least(end, cut_elements(c, k));
	if (flat(c->plan) && w->at < w->end)
		w->i = piece_at(c, k * c->chunk_count + first);
}

static bool next_of_pieces(struct cut_walk *w)
{
	const struct cut *c = w->cut;
	uint64_t at = w->chunk * c->chunk_count + w->at, skip;
	const struct piece *p;

	if (w->at >= w->end)
		return false;
	while (c->piece_start[w->i + 1] <= at)
		w->i++;
	p = &c->plan->piece[w->i];
	skip = (at - c->piece_start[w->i]) * c->bytes;
	w->first = w->at;
	w->count = num_least(w->end - w->at, c->piece_start[w->i + 1] - at);
	w->in = p->in ? (const unsigned char *)p->in + skip : NULL;
	w->out = p->out ? (unsigned char *)p->out + skip : NULL;
	w->at += w->count;
	return true;
}

/* The run of rank @r's block that is in the chunk; false if there is none. */
static bool block_run(struct cut_walk *w, const struct cut_blocks *b, int r,
		      const uint64_t *start)
{
	const struct cut *c = w->cut;
	int h = host_of(c, r);
	uint64_t low = fraction(b->total[h], w->chunk, c->chunks);
	uint64_t high = fraction(b->total[h], w->chunk + 1, c->chunks);
	uint64_t from = most(low, b->offset[r]);
	uint64_t to = num_least(high, b->offset[r] + b->count[(size_t)r * b->stride]);
	const unsigned char *in = c->plan->piece->in;
	unsigned char *out = c->plan->piece->out;
	uint64_t user;

	if (from >= to)
		return false;
	w->first = start[c->place[h]] + (from - low);
	w->count = to - from;
	/* A buffer with one block has it at the beginning. */
	user = from - b->offset[r];
	if (collective_is(c->plan->kind, w->taking ? COLLECTIVE_GROWS : COLLECTIVE_PARTS))
		user += b->user[r];
	w->in = in ? in + user * c->bytes : NULL;
	w->out = out ? out + user * c->bytes : NULL;
	return true;
}

static bool next_of_blocks(struct cut_walk *w)
{
	struct cut *c = w->cut;
	const struct topo *t = c->topo;
	const uint64_t *into, *start = cut_vector(c, w->chunk, &into);
	bool exchange = collective_is(c->plan->kind, COLLECTIVE_SPLITS);
	bool own =
		!collective_is(c->plan->kind, w->taking ? COLLECTIVE_GROWS : COLLECTIVE_PARTS);

	while (w->i < t->size) {
		int r = w->i++;

		if (own && r != t->rank)
			continue;
		/* Blocks from this host's ranks lie in the outgoing half. */
		if (exchange && w->taking && host_of(c, r) != t->host) {
			if (block_run(w, &c->in, r, into))
				return true;
		} else if (exchange && w->taking) {
			if (block_run(w, &c->in, r, start))
				return true;
		} else if (block_run(w, &c->out, r, start)) {
			return true;
		}
	}
	return false;
}

bool cut_next(struct cut_walk *w)
{
	return flat(w->cut->plan) ? next_of_pieces(w) : next_of_blocks(w);
}
