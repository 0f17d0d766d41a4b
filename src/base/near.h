/* near.h - "did you mean": the known word that is nearest to a misspelt one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_NEAR_H
#define BASE_NEAR_H

/*
 * The best match so far.  Zero-initialise, offer every known word, read best:
 * NULL if none is close enough to be worth a question.
 */
struct near {
	const char *best;
	int distance; /* of best */
};

/*
 * near_offer - keep @known if it is nearer to @typed than the best so far.
 *
 * Distance counts letters put in, left out, changed, or swapped with their
 * neighbour; case does not matter.  A third of the letters may be wrong.  Words
 * longer than 63 characters are never near.
 *
 * Ownership: keeps the pointer @known.
 */
void near_offer(struct near *n, const char *typed, const char *known);

#endif
