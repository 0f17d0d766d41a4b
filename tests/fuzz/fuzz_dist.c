/* fuzz_dist.c - any bytes as METADATA, RECORD, a requirement, a folder's name, small texts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/release.h"
#include "detect/dist.h"
#include "detect/requires.h"
#include "detect/text.h"
#include "fuzz/fuzz.h"

/* Whatever is taken for a version is fit to print and to compare. */
static void check_version(const char *version)
{
	fuzz_require(!*version || text_is_version(version));
	fuzz_require(!release_compare(version, version));
}

/* What is required is a name and clauses, which any version can be compared with. */
static void check_requirement(const char *text)
{
	struct requirement r;

	if (!requires_parse(text, "3.11", &r))
		return;
	fuzz_require(*r.name && strlen(r.name) < sizeof(r.name));
	fuzz_require(strlen(r.versions) < sizeof(r.versions));
	fuzz_require(requires_compare("2.13.0", r.versions) <= REQUIRES_OTHER);
	requires_compare(text, r.versions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data;
	char out[64], name[NAME_MAX + 1], required[1000];
	struct metadata m;
	struct dist d;
	uint64_t size;

	fuzz_require(!dist_parse_metadata(text, len, &m) || (*m.name && *m.version));
	check_version(m.version);
	dist_parse_record(text, len, "torch/lib/libc10.so", &size);
	text_copy(name, sizeof(name), len ? text : "", len);
	text_copy(required, sizeof(required), len ? text : "", len);
	check_requirement(required);
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
