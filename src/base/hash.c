/* hash.c - a hash for tables, eight bytes at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>

/* Odd, and with no pattern in its bits: 2^64 divided by the golden ratio. */
static const uint64_t factor = 0x9e3779b97f4a7c15u;

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * factor;
	return h ^ h >> 32;
}

uint64_t hash_bytes(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = len, v;

	for (; len >= sizeof(v); p += sizeof(v), len -= sizeof(v)) {
		memcpy(&v, p, sizeof(v));
		h = mix(h, v);
	}
	v = 0;
	memcpy(&v, p, len);
	return mix(mix(h, v), factor);
}
