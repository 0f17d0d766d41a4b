/* ranks.c - format a set of ranks for messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ranks.h"

#include <stdio.h>
#include <string.h>

/* Leaves room for "..., of 2147483647". */
enum { LIST = RANKS_TEXT - 32 };

const char *ranks_text(char *out, const bool *in, int size)
{
	int last, count = 0;
	size_t n = 0;

	for (int i = 0; i < size; i++)
		count += in[i];
	out[0] = 0;
	if (!count)
		return out;
	n += (size_t)sprintf(out, count == 1 ? "rank " : "ranks ");
	for (int first = 0; first < size; first = last + 1) {
		for (last = first; last + 1 < size && in[first] && in[last + 1]; last++)
			;
		if (!in[first])
			continue;
		/* Two neighbours read better with a comma. */
		if (last == first + 1)
			last = first;
		if (n > LIST - 24) {
			n += (size_t)sprintf(out + n, "..., ");
			break;
		}
		n += (size_t)(last == first ? sprintf(out + n, "%d, ", first)
					    : sprintf(out + n, "%d-%d, ", first, last));
	}
	sprintf(out + n - 2, " of %d", size);
	return out;
}
