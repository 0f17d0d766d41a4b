/* fuzz_jobdir.c - any text as an offer, and as the name of a file beside it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

/* The parsers are jobdir.c's own. */
#include "wire/jobdir.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char text[OFFER_BYTES + 1], where[JOBDIR_WHERE_BYTES], again[OWNER_BYTES];
	struct owner o = { 0 };
	struct secret s;

	/* As offer_read() reads it: so much and no more, then a NUL. */
	len = len < OFFER_BYTES ? len : OFFER_BYTES;
	memcpy(text, data, len);
	text[len] = 0;
	if (!offer_parse(text, &o, where, &s)) {
		fuzz_require(memchr(where, 0, sizeof(where)) && !strchr(where, '\n'));
		fuzz_require(o.pid > 0);
	}
	memcpy(text, data, len);
	text[len] = 0;
	if (!owner_parse(text, &o)) {
		owner_print(&o, again);
		fuzz_require(!owner_parse(again, &o) && o.pid > 0);
	}
	return 0;
}
