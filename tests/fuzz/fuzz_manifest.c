/* fuzz_manifest.c - any bytes as the manifest of an entry of the cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "rebuild/manifest.h"

/* Below the folder, whatever links there are: nothing climbs but in front of a target. */
static void check_path(const char *path)
{
	fuzz_require(*path && *path != '/' && strlen(path) < MANIFEST_PATH_BYTES);
	fuzz_require(strcmp(path, "..") && strncmp(path, "../", 3) && !strstr(path, "/../"));
	fuzz_require(strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/.."));
	fuzz_require(!strpbrk(path, " \t\r\n\\\033"));
}

static int depth(const char *path)
{
	int n = 0;

	for (; (path = strchr(path, '/')); path++)
		n++;
	return n;
}

static void check_item(const struct manifest_item *it)
{
	const char *target = it->target;
	int ups = 0;

	check_path(it->path);
	for (; target && !strncmp(target, "../", 3); target += 3)
		ups++;
	if (target)
		check_path(target);
	fuzz_require(ups <= depth(it->path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct manifest m;
	char *text;
	size_t n;
	int i;

	if (!manifest_parse(&m, (const char *)data, len, NULL)) {
		fuzz_require(manifest_is_key(m.key) && m.items <= MANIFEST_MOST);
		for (i = 0; i < m.items; i++)
			check_item(&m.item[i]);
		/* There is one way to write it. */
		fuzz_require(!manifest_text(&m, &text, &n, NULL));
		fuzz_require(n == len && !memcmp(text, data, len));
		free(text);
	}
	manifest_free(&m);
	return 0;
}
