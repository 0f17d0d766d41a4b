/* test_ranks.c - sets of ranks read well, and fit. */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "wire/ranks.h"

static int reads(const char *set, const char *want)
{
	char out[RANKS_TEXT];
	bool in[64];
	int i, n = (int)strlen(set);

	for (i = 0; i < n; i++)
		in[i] = set[i] == 'x';
	if (!strcmp(ranks_text(out, in, n), want))
		return 1;
	printf("# %s\n", out);
	return 0;
}

int main(void)
{
	char out[RANKS_TEXT];
	bool *many;
	int i;

	ok(reads("....", ""), "none");
	ok(reads("x", "rank 0 of 1"), "the only one");
	ok(reads("..x.", "rank 2 of 4"), "one");
	ok(reads("..xx", "ranks 2, 3 of 4"), "two");
	ok(reads("xxx.", "ranks 0-2 of 4"), "a run");
	ok(reads("x.xxxx.xx", "ranks 0, 2-5, 7, 8 of 9"), "several");
	many = calloc(65536, sizeof(*many));
	if (!many)
		return 99;
	for (i = 0; i < 65536; i += 2)
		many[i] = true;
	ranks_text(out, many, 65536);
	ok(strlen(out) < RANKS_TEXT && strstr(out, ", ... of 65536"), "a great many: %s", out);
	for (i = 0; i < 65536; i++)
		many[i] = i % 100 != 0;
	ranks_text(out, many, 65536);
	ok(strlen(out) < RANKS_TEXT && strstr(out, "... of 65536"), "many runs: %s", out);
	free(many);
	return tap_done();
}
