/* hash.c - a hash for tables (Fowler, Noll, Vo: FNV-1a). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

uint64_t hash_bytes(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = 14695981039346656037u;

	while (len--)
		h = (h ^ *p++) * 1099511628211u;
	return h;
}
