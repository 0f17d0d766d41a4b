/* fuzz_cache.c - any bytes as the beginning of an entry of the cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

/* The parser is cache.c's own. */
#include "rebuild/cache.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char again[HEAD_BYTES];
	struct head h;
	size_t n = head_parse(&h, (const char *)data, len);

	fuzz_require(n <= len && n < HEAD_BYTES);
	if (n) {
		fuzz_require(is_key(h.key) && is_key(h.sum) && !strpbrk(h.signer, " \t\r\n"));
		/* There is one way to write it. */
		fuzz_require((size_t)head_print(&h, again) == n && !memcmp(again, data, n));
	}
	return 0;
}
