/* fuzz_stamp.c - any bytes as the stamp of a build, and as the facts of a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "detect/text.h"
#include "fuzz/fuzz.h"
#include "rebuild/stamp.h"

/* What a stamp says is shown as it is. */
static void check_text(const char *text)
{
	char clean[8192];

	text_clean(clean, sizeof(clean), text);
	fuzz_require(!strcmp(clean, text));
}

/* A stamp and the facts, with a NUL between. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data, *nul = memchr(data, 0, len);
	size_t first = nul ? (size_t)(nul - text) : len, i;
	json_t *stamp, *facts, *all, *one;
	struct err e = { 0 };
	int rc = stamp_parse(text, first, &stamp, &e);

	fuzz_require(rc <= 0 && !rc == !*e.text && !rc == !!stamp);
	facts = nul && !rc ? json_loadb(nul + 1, len - first - 1, 0, NULL) : NULL;
	if (!rc) {
		all = stamp_diff(stamp, facts, "");
		json_array_foreach(all, i, one) {
			check_text(jsonio_string(one, "what"));
			check_text(jsonio_string(one, "was"));
		}
		json_decref(all);
	}
	json_decref(facts);
	json_decref(stamp);
	return 0;
}
