/* near.c - "did you mean": the known word that is nearest to a misspelt one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/near.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NEAR_CHARS = 63 };

static int int_least(int a, int b)
{
	return a < b ? a : b;
}

static int near_is_same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Damerau-Levenshtein distance, swaps of neighbours only; both words are short.  Results above
 * @most need not be exact: after two rows above it all later ones are above it, too. */
static int words_distance(const char *a, int la, const char *b, int lb, int most)
{
	int d[3][NEAR_CHARS + 1]; /* the row of letter i, and the two before it */
	int lowest = 0, before;

	for (int j = 0; j <= lb; j++)
		d[0][j] = j;
	for (int i = 1; i <= la; i++) {
		int *row = d[i % 3], *above = d[(i + 2) % 3], *top = d[(i + 1) % 3];

		before = lowest;
		row[0] = lowest = i;
		for (int j = 1; j <= lb; j++) {
			row[j] = above[j - 1] + !near_is_same(a[i - 1], b[j - 1]);
			row[j] = int_least(row[j], int_least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && near_is_same(a[i - 1], b[j - 2]) &&
			    near_is_same(a[i - 2], b[j - 1]))
				row[j] = int_least(row[j], top[j - 2] + 1);
			lowest = int_least(lowest, row[j]);
		}
		if (lowest > most && before > most)
			return most + 1;
	}
	return d[la % 3][lb];
}

void near_offer(struct near *n, const char *typed, const char *known)
{
	size_t la = strlen(typed), lb = strlen(known);
	int d, most = ((int)la + 2) / 3;

	if (!la || la > NEAR_CHARS || lb > NEAR_CHARS || abs((int)la - (int)lb) > most)
		return;
	d = words_distance(typed, (int)la, known, (int)lb, most);
	if (d > most || d >= (int)lb || (n->best && d >= n->distance))
		return;
	n->best = known;
	n->distance = d;
}
