/* rounds.h - who meets whom in which round, so that pairs do not disturb each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_ROUNDS_H
#define PROBE_ROUNDS_H

#include <stdbool.h>

/* rounds_count - rounds in which each of @n meets every other once. */
int rounds_count(int n);

/* rounds_pair - the pair at @k (of (n + 1) / 2) in @round; false if the opponent of *@a is
 * nobody, which is so once a round where @n is odd. */
bool rounds_pair(int n, int round, int k, int *a, int *b);

#endif
