/* release.c - compare version numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/release.h"

#include <ctype.h>
#include <string.h>

/* The number at *@s, which is moved behind it and one dot. */
static long release_take(const char **s)
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
		long x = release_take(&a), y = release_take(&b);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

/* Like release_compare(), but compares only as many numbers as @bound has. */
static int compare_prefix(const char *v, const char *bound)
{
	while (isdigit((unsigned char)*bound)) {
		long x = release_take(&v), y = release_take(&bound);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

bool release_within(const char *v, const char *min, const char *max)
{
	if (strcmp(min, "-") && (!*v || compare_prefix(v, min) < 0))
		return false;
	return !strcmp(max, "-") || (*v && compare_prefix(v, max) <= 0);
}
