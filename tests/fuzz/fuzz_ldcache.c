/* fuzz_ldcache.c - any bytes as the loader's cache, and as the file of pins. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "detect/ldcache.h"
#include "fuzz/fuzz.h"
#include "host/pins.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *path = ldcache_find(data, len, "libx.so");
	const char *from = (const char *)data;
	static struct pins pins;
	int i;

	/* A path ends within the file. */
	fuzz_require(!path || (path >= from && path + strlen(path) < from + len));
	pins_parse(&pins, from, len);
	fuzz_require(pins.n >= 0 && pins.n <= PINS_MOST && pins.used <= sizeof(pins.text));
	for (i = 0; i < pins.n; i++) {
		fuzz_require(!strncmp(pins.at[i].name, "NCCL_", 5));
		fuzz_require(pins_get(&pins, pins.at[i].name) == pins.at[i].value);
		fuzz_require(!strchr(pins.at[i].value, '\n'));
	}
	return 0;
}
