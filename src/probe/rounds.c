/* rounds.c - a round-robin schedule of pairs that do not disturb each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rounds.h"

/* The circle method: one node stays, the others move on by one place each round.  A dummy makes
 * an odd number even. */
static int seats(int n)
{
	return n + n % 2;
}

int rounds_count(int n)
{
	return n < 2 ? 0 : seats(n) - 1;
}

static int player(int n, int round, int seat)
{
	int m = seats(n) - 1;

	return seat == 0 ? m : (round + seat - 1) % m;
}

bool rounds_pair(int n, int round, int k, int *a, int *b)
{
	int x = player(n, round, k), y = player(n, round, seats(n) - 1 - k);

	*a = x < y ? x : y;
	*b = x < y ? y : x;
	return *b < n;
}
