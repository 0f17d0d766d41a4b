/* test_missing.c - the ranks that Horovod's stall inspector misses. */
#include "diagnose/missing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

static void check(const char *message, int rank, const char *value)
{
	size_t n = strlen(message), looked = 0;
	char *copy = malloc(n);
	struct fields f;

	memcpy(copy, message, n);
	fields_init(&f);
	missing_read(copy, copy + n, &f, &looked);
	ok(f.rank == rank && !strcmp(f.value, value) && looked >= n / 2, "%d, %s", rank, value);
	if (f.rank != rank || strcmp(f.value, value) != 0)
		printf("# %d, %s\n", f.rank, f.value);
	free(copy);
}

/* The last of so many ranks is the odd one, if it is looked at. */
static void check_ranks(int ranks, int odd)
{
	static char message[8192];
	size_t n = (size_t)snprintf(message, sizeof(message), "Missing ranks:\n");
	char value[64];

	for (int i = 0; i < ranks; i++)
		n += (size_t)snprintf(message + n, sizeof(message) - n, "%d: [%s]\n", i,
				      i == ranks - 1 ? "grad" : "val");
	if (odd)
		snprintf(value, sizeof(value), "rank %d: grad; the others: val", odd);
	else
		snprintf(value, sizeof(value),
			 "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11: val");
	check(message, odd, value);
}

int main(void)
{
	check_ranks(MISSING_RANKS - 1, MISSING_RANKS - 2);
	check_ranks(MISSING_RANKS, MISSING_RANKS - 1);
	check_ranks(MISSING_RANKS + 1, 0);
	check("waiting for more than 60 seconds.\nMissing ranks:\n3: [loss]\nstep 4\n", 3,
	      "rank 3: loss");
	check("Missing ranks:\n3!: [loss, norm ...]\n", 3, "rank 3: loss, norm ...");
	check("Missing ranks:\n1: [loss]\n3: [loss]\n", 1, "ranks 1, 3: loss");
	check("Missing ranks:\n0: [val]\n1: [grad.0, grad.1]\n2: [val]\n", 1,
	      "rank 1: grad.0, grad.1; the others: val");
	check("Missing ranks:\n0: [grad]\n1: [val]\n2: [val]\n", 0, "rank 0: grad");
	check("Missing ranks:\n0: [a]\n1: [b]\n2: [c]\n", 0, "rank 0: a");
	check("[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:2: [loss]\n", 2, "rank 2: loss");
	check("0: Missing ranks:\n0: 2: [loss]\n", 2, "rank 2: loss");
	check("Missing ranks:\nnone\n", -1, "");
	check("no more", -1, "");
	return tap_done();
}
