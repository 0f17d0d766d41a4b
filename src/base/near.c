/* near.c - the known word that somebody meant. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/near.h"

#include <ctype.h>
#include <string.h>

enum { NEAR_CHARS = 63 };

static int least(int a, int b)
{
	return a < b ? a : b;
}

static int is_same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Damerau and Levenshtein, neighbours only; both words are short. */
static int distance(const char *a, int la, const char *b, int lb)
{
	int d[3][NEAR_CHARS + 1]; /* the row of letter i, and the two before it */
	int i, j;

	for (j = 0; j <= lb; j++)
		d[0][j] = j;
	for (i = 1; i <= la; i++) {
		int *row = d[i % 3], *above = d[(i + 2) % 3], *top = d[(i + 1) % 3];

		row[0] = i;
		for (j = 1; j <= lb; j++) {
			row[j] = above[j - 1] + !is_same(a[i - 1], b[j - 1]);
			row[j] = least(row[j], least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) &&
			    is_same(a[i - 2], b[j - 1]))
				row[j] = least(row[j], top[j - 2] + 1);
		}
	}
	return d[la % 3][lb];
}

void near_offer(struct near *n, const char *typed, const char *known)
{
	size_t la = strlen(typed), lb = strlen(known);
	int d;

	if (!la || la > NEAR_CHARS || lb > NEAR_CHARS)
		return;
	d = distance(typed, (int)la, known, (int)lb);
	if (d > ((int)la + 2) / 3 || d >= (int)lb || (n->best && d >= n->distance))
		return;
	n->best = known;
	n->distance = d;
}
