/* pairs.c - the paths of a check as a matrix: from each node to each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/stats.h"
#include "probe/judge.h"
#include "ringup.h"

/* Chooses the nodes to show, in their order: those that a finding names, then the others. */
static void pairs_choose(struct pairs *p, const struct probe_facts *f, char *wanted)
{
	int i, k, room;

	for (i = 0; i < f->nfindings; i++)
		for (k = 0; f->findings[i].nnodes < f->nnodes && k < f->findings[i].nnodes; k++)
			wanted[f->findings[i].nodes[k]] = 1;
	for (room = p->n, i = 0; i < f->nnodes; i++)
		if (wanted[i] && room)
			room--;
		else if (wanted[i])
			wanted[i] = 0;
	for (i = 0; i < f->nnodes && room; i++)
		if (!wanted[i]) {
			wanted[i] = 1;
			room--;
		}
	for (k = 0, i = 0; i < f->nnodes; i++)
		if (wanted[i])
			p->node[k++] = i;
}

/* The address of @node that jobs would use most: ringup's choice, else NULL. */
static const char *main_address(const struct probe_node *n)
{
	for (int i = 0; i < n->nuses; i++)
		if (!strcmp(n->uses[i].library, "ringup"))
			return n->uses[i].address;
	return NULL;
}

/* Leaves out link-local addresses, which always work on the same wire, and addresses of bridges
 * that both nodes have, which never do: neither must hide the other paths. */
static bool is_main(const struct probe_facts *f, const struct probe_path *p)
{
	const char *address = main_address(&f->nodes[p->to]);
	struct iface_ip ip;

	if (address)
		return !strcmp(address, p->address);
	return iface_parse_recorded(&ip, p->address) && iface_is_global(&ip);
}

static void pair_add(struct pair *x, const struct probe_path *p, bool is_main)
{
	x->tried++;
	x->main_tried += is_main;
	if (p->state != FACTS_OPEN) {
		x->failed++;
		/* The main address's state takes precedence. */
		if (is_main && !x->main_failed++)
			x->state = p->state;
		else if (is_main || !x->main_failed)
			x->state = p->state > x->state ? p->state : x->state;
	}
	if (p->latency_median_us >= 0 && (x->us < 0 || p->latency_median_us < x->us))
		x->us = p->latency_median_us;
	if (p->bandwidth_mbs > x->mbs)
		x->mbs = p->bandwidth_mbs;
	x->lost |= p->mtu.segment == 0;
}

/* Marks the pairs that are far from the better quarter. */
static void pairs_mark(struct pairs *p, double *all)
{
	int i, cells = p->n * p->n, us = 0, mbs = 0;
	double *rate = all + cells, good_us, good_mbs;

	for (i = 0; i < cells; i++) {
		if (p->pair[i].us >= 0)
			all[us++] = p->pair[i].us;
		if (p->pair[i].mbs >= 0)
			rate[mbs++] = p->pair[i].mbs;
	}
	stats_sort(all, us);
	stats_sort(rate, mbs);
	good_us = us ? all[us / 4] : 0;
	good_mbs = mbs ? rate[mbs - 1 - mbs / 4] : 0;
	p->us[0] = us ? all[0] : -1;
	p->us[1] = us ? all[us - 1] : -1;
	p->mbs[0] = mbs ? rate[0] : -1;
	p->mbs[1] = mbs ? rate[mbs - 1] : -1;
	for (i = 0; i < cells; i++) {
		struct pair *x = &p->pair[i];

		x->slow = judge_is_slow(x->us, good_us);
		x->weak = x->mbs >= 0 && judge_is_weak(x->mbs, good_mbs);
	}
}

int pairs_make(struct pairs *p, const struct probe_facts *f, int most, struct err *e)
{
	size_t nodes = (size_t)f->nnodes, cells;
	char *wanted = calloc(nodes + 1, 1);
	int *place = calloc(nodes + 1, sizeof(*place)), i, a, b;
	double *all;

	memset(p, 0, sizeof(*p));
	p->n = f->nnodes < most ? f->nnodes : most;
	cells = (size_t)p->n * (size_t)p->n;
	p->pair = calloc(cells + 1, sizeof(*p->pair));
	p->node = calloc(nodes + 1, sizeof(*p->node));
	all = calloc(2 * cells + 1, sizeof(*all));
	if (wanted && place && all && p->pair && p->node) {
		pairs_choose(p, f, wanted);
		for (i = 0; i < p->n; i++)
			place[p->node[i]] = i + 1;
		for (i = 0; i < (int)cells; i++)
			p->pair[i].us = p->pair[i].mbs = -1;
		for (i = 0; i < f->npaths; i++) {
			a = place[f->paths[i].from] - 1;
			b = place[f->paths[i].to] - 1;
			if (a >= 0 && b >= 0)
				pair_add(&p->pair[a * p->n + b], &f->paths[i],
					 is_main(f, &f->paths[i]));
		}
		for (i = 0; i < (int)cells; i++)
			p->pair[i].cut = p->pair[i].main_tried &&
					 p->pair[i].main_failed == p->pair[i].main_tried;
		pairs_mark(p, all);
	}
	i = wanted && place && all && p->pair && p->node;
	free(wanted);
	free(place);
	free(all);
	return i ? 0 : fail(e, RINGUP_ENOMEM, "no memory for the matrix");
}

void pairs_free(struct pairs *p)
{
	free(p->pair);
	free(p->node);
	memset(p, 0, sizeof(*p));
}
