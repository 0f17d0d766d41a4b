/* fuzz_dist.c - any bytes as METADATA, RECORD, a folder's name, and small text files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/release.h"
#include "detect/dist.h"
#include "detect/text.h"
#include "fuzz/fuzz.h"

/* Whatever is taken for a version is fit to print and to compare. */
static void check_version(const char *version)
{
	fuzz_require(!*version || text_is_version(version));
	fuzz_require(!release_compare(version, version));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data;
	char out[64], name[NAME_MAX + 1];
	struct metadata m;
	struct dist d;
	uint64_t size;

	fuzz_require(!dist_parse_metadata(text, len, &m) || (*m.name && *m.version));
	check_version(m.version);
	dist_parse_record(text, len, "torch/lib/libc10.so", &size);
	text_copy(name, sizeof(name), len ? text : "", len);
	if (dist_parse_folder(name, &d))
		check_version(d.version);
	if (dist_parse_conda(name, &d))
		check_version(d.version);
	text_assigned(text, len, "cuda", out, sizeof(out));
	text_keyed(text, len, "cuda_version", out, sizeof(out));
	text_defined(text, len, "CUDA_VERSION", out, sizeof(out));
	text_field(text, len, "home", '=', out, sizeof(out));
	text_clean(out, sizeof(out), name);
	fuzz_require(!strpbrk(out, "\033\n\177"));
	return 0;
}
