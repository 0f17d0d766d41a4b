/* rounds.h - a round-robin schedule of pairs that do not disturb each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_ROUNDS_H
#define PROBE_ROUNDS_H

#include <stdbool.h>

/* rounds_count - rounds in which each of @n nodes meets every other once. */
int rounds_count(int n);

/* rounds_pair - the pair at @k (of (n + 1) / 2) in @round; false if *@a pauses, which each node
 * does in one round where @n is odd. */
bool rounds_pair(int n, int round, int k, int *a, int *b);

#endif
