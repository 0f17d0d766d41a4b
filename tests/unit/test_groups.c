/* test_groups.c - ranks dealt out, and groups spelled out. */
#include <string.h>

#include "base/err.h"
#include "bench/groups.h"
#include "tap.h"

int main(void)
{
	static const char *const bad[] = { "0",
					   "5",
					   "-1",
					   "x",
					   "0,4",
					   "0,-1",
					   "0,0",
					   "0,1/",
					   "0,1//2",
					   "0,1 ,2",
					   "99999999999,1",
					   "2x",
					   "2 ",
					   "99999999999",
					   "1, 0",
					   "-9223372036854775808,1" };
	static struct groups g;
	struct err e = { 0 };
	size_t i;

	ok(groups_parse(&g, "", 4, &e) == 0 && g.count == 0, "none");
	ok(groups_parse(&g, "2", 4, &e) == 0 && g.count == 2 && g.size[0] == 2 &&
		   g.size[1] == 2 && g.ranks[g.first[1]] == 2,
	   "four ranks in two halves");
	ok(groups_parse(&g, "3", 4, &e) == 0 && g.count == 3 &&
		   g.size[0] + g.size[1] + g.size[2] == 4,
	   "four ranks in three groups");
	ok(groups_parse(&g, "0,1/1,2,3/0,3", 4, &e) == 0 && g.count == 3 && g.size[1] == 3 &&
		   g.ranks[g.first[1]] == 1 && g.ranks[g.first[2] + 1] == 3,
	   "three that overlap");
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(groups_parse(&g, bad[i], 4, &e) < 0, "refused: \"%s\"", bad[i]);
	return tap_done();
}
