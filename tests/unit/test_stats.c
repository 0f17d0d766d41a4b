/* test_stats.c - medians and quartiles of few and of many. */
#include "base/stats.h"
#include "tap.h"

int main(void)
{
	double one[] = { 7 }, odd[] = { 9, 1, 5 }, even[] = { 4, 1, 3, 2 }, many[101];
	int i;

	for (i = 0; i <= 100; i++)
		many[i] = (i * 37) % 101;
	ok(stats_median(one, 1) == 7 && stats_quantile(one, 1, 0.25) == 7, "one number is all");
	ok(stats_median(odd, 3) == 5 && odd[0] == 1 && odd[2] == 9, "the one in the middle");
	ok(stats_median(even, 4) == 2.5, "between the two in the middle");
	ok(stats_median(many, 101) == 50, "of many");
	ok(stats_quantile(many, 101, 0.25) == 25 && stats_quantile(many, 101, 0.75) == 75,
	   "quartiles");
	ok(stats_quantile(many, 101, 0) == 0 && stats_quantile(many, 101, 1) == 100,
	   "the ends");
	return tap_done();
}
