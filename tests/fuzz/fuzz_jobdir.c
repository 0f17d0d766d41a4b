/* fuzz_jobdir.c - any text as an offer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

/* The parser is jobdir.c's own. */
#include "wire/jobdir.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char text[OFFER_BYTES + 1], where[JOBDIR_WHERE_BYTES], process[PROCESS_BYTES];
	struct secret s;

	/* As offer_read() reads it: so much and no more, then a NUL. */
	len = len < OFFER_BYTES ? len : OFFER_BYTES;
	memcpy(text, data, len);
	text[len] = 0;
	if (!offer_parse(text, process, where, &s)) {
		fuzz_require(memchr(where, 0, sizeof(where)) && !strchr(where, '\n'));
		fuzz_require(memchr(process, 0, sizeof(process)) && !strchr(process, '\n'));
	}
	return 0;
}
