/* sweep.c - algorithms between hosts: along one dimension of a grid after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/sweep.h"

/*
 * Rounds: 0 is for the hosts that lean, 1 .. dims go up the dimensions (reduce,
 * scatter), dims + 1 .. 2 dims down again (gather), the last is for hosts that lean.
 *
 * After dimensions 0 .. d-1, a host works on the blocks of the hosts that
 * share these digits with it: its share at depth d.
 */
struct out {
	const struct grid *grid;
	const struct sweep *sweep;
	int host;
	struct step *step;
	int count;
};

struct range {
	uint64_t first, end;
};

int sweep_most(const struct grid *g)
{
	int lines = 0;

	for (int d = 0; d < g->dims; d++)
		lines += g->radix[d] - 1;
	return 4 * lines + 2 * g->hosts * (g->hosts <= GRID_COMPLETE) + 4;
}

static void emit(struct out *o, enum step_kind kind, int round, int peer, struct range r)
{
	o->step[o->count++] = (struct step){ kind, round, peer, r.first, r.end - r.first };
}

static struct range everything(const struct out *o)
{
	return (struct range){ o->sweep->start[0], o->sweep->start[o->grid->hosts] };
}

static struct range sweep_block(const struct out *o, int host)
{
	int place = grid_place(o->grid, host);

	return (struct range){ o->sweep->start[place], o->sweep->start[place + 1] };
}

/* The share of @host at @depth: blocks of hosts with the same digits 0 .. depth-1. */
static struct range share(const struct out *o, int host, int depth)
{
	const struct grid *g = o->grid;
	int low = host, high = host, place;

	if (o->sweep->whole)
		return everything(o);
	for (int d = depth; d < g->dims; d++) {
		low = grid_member(g, low, d, 0);
		high = grid_member(g, high, d, g->radix[d] - 1);
	}
	place = grid_place(g, grid_leaner(g, high) < 0 ? high : grid_leaner(g, high));
	return (struct range){ o->sweep->start[grid_place(g, low)],
			       o->sweep->start[place + 1] };
}

/* Do the two differ in no dimension from @d on? */
static bool same_from(const struct grid *g, int a, int b, int d)
{
	for (; d < g->dims; d++)
		if (grid_digit(g, a, d) != grid_digit(g, b, d))
			return false;
	return true;
}

static bool combines(const struct sweep *s)
{
	return s->kind == SWEEP_ALLREDUCE || s->kind == SWEEP_REDUCESCATTER;
}

/* Sends to each host of the line along @d its share at @depth, the next host first. */
static void send_line(struct out *o, int round, int d, int depth)
{
	const struct grid *g = o->grid;

	for (int k = 1; k < g->radix[d]; k++) {
		int peer = grid_member(g, o->host, d,
				       (grid_digit(g, o->host, d) + k) % g->radix[d]);

		emit(o, STEP_SEND, round, peer, share(o, peer, depth));
	}
}

static void reduce_up(struct out *o, int d)
{
	int peer;

	send_line(o, d + 1, d, d + 1);
	for (int k = 0; k < o->grid->radix[d]; k++) {
		peer = grid_member(o->grid, o->host, d, k);
		if (peer != o->host)
			emit(o, STEP_RECV_REDUCE, d + 1, peer, share(o, o->host, d + 1));
	}
}

static void scatter_up(struct out *o, int d, int root)
{
	const struct grid *g = o->grid;

	if (same_from(g, o->host, root, d))
		send_line(o, d + 1, d, d + 1);
	else if (same_from(g, o->host, root, d + 1))
		emit(o, STEP_RECV, d + 1, grid_member(g, o->host, d, grid_digit(g, root, d)),
		     share(o, o->host, d + 1));
}

static void gather_down(struct out *o, int d)
{
	const struct grid *g = o->grid;
	int round = 2 * g->dims - d, k, peer;

	for (k = 1; k < g->radix[d]; k++) {
		peer = grid_member(g, o->host, d,
				   (grid_digit(g, o->host, d) + k) % g->radix[d]);
		emit(o, STEP_SEND, round, peer, share(o, o->host, d + 1));
	}
	for (k = 0; k < g->radix[d]; k++) {
		peer = grid_member(g, o->host, d, k);
		if (peer != o->host)
			emit(o, STEP_RECV, round, peer, share(o, peer, d + 1));
	}
}

/* The step of a host that leans, or its other half, on the host it leans on. */
static void lean(struct out *o, bool last)
{
	const struct sweep *s = o->sweep;
	const struct grid *g = o->grid;
	bool outside = o->host >= g->cells;
	int peer = outside ? o->host - g->cells : grid_leaner(g, o->host);
	int leaner = outside ? o->host : peer, round = last ? 2 * g->dims + 1 : 0;
	struct range r = everything(o);

	if (peer < 0 || (s->kind == SWEEP_BROADCAST && last == (leaner == s->root)))
		return;
	if (s->kind == (last ? SWEEP_REDUCESCATTER : SWEEP_ALLGATHER))
		r = sweep_block(o, leaner);
	if (outside != last)
		emit(o, STEP_SEND, round, peer, r);
	else
		emit(o, combines(s) && !last ? STEP_RECV_REDUCE : STEP_RECV, round, peer, r);
}

static void exchange(struct out *o)
{
	int n = o->grid->hosts, peer, place;

	for (int k = 1; k < n; k++) {
		peer = (o->host + k) % n;
		emit(o, STEP_SEND, 1, peer, sweep_block(o, peer));
	}
	for (peer = 0; peer < n; peer++) {
		place = grid_place(o->grid, peer);
		if (peer != o->host)
			emit(o, STEP_RECV, 1, peer,
			     (struct range){ o->sweep->into[place],
					     o->sweep->into[place + 1] });
	}
}

int sweep_steps(const struct grid *g, int host, const struct sweep *s, struct step *out)
{
	struct out o = { g, s, host, out, 0 };
	int root = s->root < g->cells ? s->root : s->root - g->cells;
	bool gathers = s->kind != SWEEP_REDUCESCATTER && !s->whole;

	if (s->kind == SWEEP_EXCHANGE) {
		exchange(&o);
		return o.count;
	}
	lean(&o, false);
	for (int d = 0; d < g->dims && host < g->cells; d++) {
		if (combines(s))
			reduce_up(&o, d);
		else if (s->kind == SWEEP_BROADCAST)
			scatter_up(&o, d, root);
	}
	for (int d = g->dims - 1; d >= 0 && host < g->cells && gathers; d--)
		gather_down(&o, d);
	lean(&o, true);
	return o.count;
}
