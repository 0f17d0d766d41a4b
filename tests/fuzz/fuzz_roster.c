/* fuzz_roster.c - any bytes as a hostfile, a node list of Slurm and Spark's executors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "probe/roster.h"

/* Each becomes a word of a command, and is there once. */
static void check(struct roster *r, int rc, const struct err *e)
{
	int i, k;
	size_t at;

	fuzz_require(!rc || *e->text);
	fuzz_require(r->n >= 0 && r->n <= ROSTER_NODES);
	for (i = 0; i < r->n; i++) {
		fuzz_require(*r->name[i] && *r->name[i] != '-');
		for (at = 0; r->name[i][at]; at++)
			fuzz_require(isalnum((unsigned char)r->name[i][at]) ||
				     strchr(".-_:%@", r->name[i][at]));
		for (k = 0; k < i; k++)
			fuzz_require(strcmp(r->name[i], r->name[k]) != 0);
	}
	roster_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static int (*const readers[])(struct roster *, const char *,
				      struct err *) = { roster_text, roster_slurm,
							roster_spark };
	char *text = strndup((const char *)data, len);
	struct roster r = { 0 };
	struct err e;
	size_t i;

	fuzz_require(text);
	for (i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
		e = (struct err){ 0 };
		check(&r, readers[i](&r, text, &e), &e);
	}
	free(text);
	return 0;
}
