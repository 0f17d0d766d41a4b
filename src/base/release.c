/* release.c - the order of version numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/release.h"

#include <ctype.h>

/* The number at *@s, which is moved behind it and one dot. */
static long take(const char **s)
{
	long n = 0;

	while (isdigit((unsigned char)**s)) {
		if (n < 100000000)
			n = 10 * n + (**s - '0');
		++*s;
	}
	if (**s == '.' && isdigit((unsigned char)(*s)[1]))
		++*s;
	return n;
}

int release_compare(const char *a, const char *b)
{
	if (!*a || !*b)
		return !!*a - !!*b;
	while (isdigit((unsigned char)*a) || isdigit((unsigned char)*b)) {
		long x = take(&a), y = take(&b);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}
