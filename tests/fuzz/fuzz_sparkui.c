/* fuzz_sparkui.c - any bytes as what Spark's web interface answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "fuzz/fuzz.h"

/* The reader of the list of applications is a static function. */
#include "probe/sparkui.c"

/* The id becomes part of a path, and each host a word of a command. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = strndup((const char *)data, len), id[ID] = "";
	struct roster r = { 0 };
	struct err e = { 0 };
	int rc;

	fuzz_require(text);
	rc = application_read("http://driver:4040", text, id, &e);
	fuzz_require(!rc == (*id != 0) && !rc == !*e.text);
	for (size_t i = 0; id[i]; i++)
		fuzz_require(isalnum((unsigned char)id[i]) || id[i] == '-' || id[i] == '_');
	rc = roster_spark(&r, text, &e);
	fuzz_require(!rc || *e.text);
	for (int i = 0; i < r.n; i++)
		fuzz_require(*r.name[i] && *r.name[i] != '-' && !strpbrk(r.name[i], "/ ;&|$`"));
	roster_free(&r);
	free(text);
	return 0;
}
