/* grid.c - the topology between hosts: a grid, and which hosts are connected. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/grid.h"

/* The prime factors of @n in falling order, or -1 if one is too large. */
static int factors(int n, int *out)
{
	int k = 0;

	for (int p = GRID_PRIME; p > 1; p--)
		for (; n % p == 0 && (p == 2 || p % 2) && p != 9; n /= p)
			out[k++] = p;
	return n == 1 ? k : -1;
}

void grid_init(struct grid *g, int hosts)
{
	int prime[GRID_DIMS], used[GRID_DIMS] = { 0 }, n, i, k, stride = 1;

	*g = (struct grid){ .hosts = hosts, .cells = hosts };
	while ((n = factors(g->cells, prime)) < 0)
		g->cells--;
	/* Combine prime factors up to GRID_RADIX, so that there are few dimensions. */
	for (i = 0; i < n; i++) {
		int radix = prime[i];

		if (used[i])
			continue;
		for (k = i + 1; k < n; k++)
			if (!used[k] && radix * prime[k] <= GRID_RADIX) {
				used[k] = 1;
				radix *= prime[k];
			}
		g->radix[g->dims] = radix;
		g->stride[g->dims++] = stride;
		stride *= radix;
	}
}

bool grid_linked(const struct grid *g, int a, int b)
{
	int differ = 0;

	if (a == b)
		return false;
	if (g->hosts <= GRID_COMPLETE)
		return true;
	if (a >= g->cells || b >= g->cells)
		return grid_leaner(g, a) == b || grid_leaner(g, b) == a;
	for (int d = 0; d < g->dims; d++)
		differ += grid_digit(g, a, d) != grid_digit(g, b, d);
	return differ == 1;
}

/* The number of @host with dimension 0 as the most significant digit. */
static int reversed(const struct grid *g, int host)
{
	int at = 0;

	for (int d = 0; d < g->dims; d++)
		at = at * g->radix[d] + grid_digit(g, host, d);
	return at;
}

int grid_place(const struct grid *g, int host)
{
	int on = host < g->cells ? host : host - g->cells;
	int at = reversed(g, on), before = 0, i;

	for (i = 0; i < g->hosts - g->cells; i++)
		before += reversed(g, i) < at;
	return at + before + (host >= g->cells);
}

int grid_host(const struct grid *g, int place)
{
	int host;

	for (host = 0; host < g->hosts && grid_place(g, host) != place; host++)
		;
	return host;
}
