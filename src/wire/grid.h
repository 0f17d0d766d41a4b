/* grid.h - the topology between hosts: a grid, and which hosts are connected. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_GRID_H
#define WIRE_GRID_H

#include <stdbool.h>

/*
 * Hosts are put into a grid of as many dimensions as it takes: up to 8 hosts in
 * a row, 64 in a square, 512 in a cube.  A collective goes along one dimension
 * after the other, so that the number of messages grows with the logarithm of
 * the number of hosts.  A dimension is up to GRID_RADIX long, and longer only
 * for a prime number up to GRID_PRIME.  Where no such factors are, the last few
 * hosts stay outside; each of them leans on a host that is inside.
 *
 * Host number = digit 0 + radix 0 * (digit 1 + radix 1 * (...)), so neighbours in
 * dimension 0 have neighbouring numbers.  All of this is pure: it depends on the
 * number of hosts only, and all ranks find the same.
 */
enum { GRID_RADIX = 8, GRID_PRIME = 13, GRID_DIMS = 31 };

/* The most hosts that are connected each with each; more are so only along dimensions. */
enum { GRID_COMPLETE = 64 };

struct grid {
	int hosts;
	int cells; /* hosts inside; host cells + i leans on host i */
	int dims;
	int radix[GRID_DIMS];
	int stride[GRID_DIMS]; /* difference of host numbers along a dimension */
};

void grid_init(struct grid *g, int hosts);

/* grid_digit - the coordinate of @host, which is inside, along dimension @d. */
static inline int grid_digit(const struct grid *g, int host, int d)
{
	return host / g->stride[d] % g->radix[d];
}

/* grid_member - the host with coordinate @digit in the line through @host along @d. */
static inline int grid_member(const struct grid *g, int host, int d, int digit)
{
	return host + (digit - grid_digit(g, host, d)) * g->stride[d];
}

/* grid_leaner - the host that leans on @host, or -1. */
static inline int grid_leaner(const struct grid *g, int host)
{
	return host < g->hosts - g->cells ? g->cells + host : -1;
}

/* grid_linked - have these two hosts a connection for data? */
bool grid_linked(const struct grid *g, int a, int b);

/* grid_place, grid_host - hosts in another order: those that share their first
 * digits are neighbours, and each is followed by the host that leans on it. */
int grid_place(const struct grid *g, int host);
int grid_host(const struct grid *g, int place);

#endif
