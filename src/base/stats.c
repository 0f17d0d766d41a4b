/* stats.c - medians and quantiles. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void stats_sort(double *x, int n)
{
	qsort(x, (size_t)n, sizeof(*x), by_size);
}

double stats_median(double *x, int n)
{
	stats_sort(x, n);
	return stats_quantile(x, n, 0.5);
}

double stats_quantile(const double *x, int n, double q)
{
	double at = q * (n - 1);
	int i = (int)at;

	if (i + 1 >= n)
		return x[n - 1];
	return x[i] + (at - i) * (x[i + 1] - x[i]);
}
