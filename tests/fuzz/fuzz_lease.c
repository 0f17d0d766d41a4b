/* fuzz_lease.c - any bytes as the owner of a lock that nodes share. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

/* The parser is lease.c's own. */
#include "rebuild/lease.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct lease_watch w = { 0 };
	struct owner o;
	const char *p;

	parse_owner(&o, (const char *)data, len);
	fuzz_require(memchr(o.token, 0, sizeof(o.token)) && memchr(o.host, 0, sizeof(o.host)));
	fuzz_require(memchr(o.identity, 0, sizeof(o.identity)) && o.pid >= 0);
	/* Nobody is waited for without an end, and nobody is taken for dead at once. */
	fuzz_require(o.life_ms >= SHORTEST_MS && o.life_ms <= LONGEST_MS);
	/* What is shown is fit for a terminal. */
	name_owner(&w, &o);
	for (p = w.who; *p; p++)
		fuzz_require((unsigned char)*p >= ' ' && *p != 127);
	return 0;
}
