/* fuzz_yaml.c - any bytes as a file of settings in YAML. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/err.h"
#include "base/yaml.h"
#include "fuzz/fuzz.h"

static int last_line;

/* What is handed over is short, whole and in order. */
static int check_item(void *ctx, const struct yaml_item *item, struct err *e)
{
	const char *p;

	(void)ctx;
	(void)e;
	fuzz_require(strlen(item->section) < YAML_KEY_BYTES);
	fuzz_require(*item->key && strlen(item->key) < YAML_KEY_BYTES);
	fuzz_require(strlen(item->value) < YAML_VALUE_BYTES);
	for (p = item->value; *p; p++)
		fuzz_require((unsigned char)*p >= ' ' && *p != 127);
	fuzz_require(item->line > last_line);
	last_line = item->line;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err e = { 0 };
	char *text = malloc(len + !len);
	int rc;

	fuzz_require(text);
	memcpy(text, data, len);
	last_line = 0;
	rc = yaml_read(text, len, check_item, NULL, &e);
	fuzz_require(rc <= 0 && !rc == !*e.text);
	free(text);
	return 0;
}
