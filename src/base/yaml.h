/* yaml.h - a reader of a YAML subset for settings: sections of keys with one value each. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include <stddef.h>

struct err;

enum {
	YAML_FILE_BYTES = 65536, /* a longer file is refused */
	YAML_KEY_BYTES = 64,
	YAML_VALUE_BYTES = 1024,
};

/* One value and its place; valid during the call of yaml_visit. */
struct yaml_item {
	const char *section; /* "" for a key that stands on its own */
	const char *key, *value;
	int is_quoted; /* 'true' is a word, true is a boolean     */
	int line;
};

/* A negative return ends the reading and becomes that of yaml_read(). */
typedef int yaml_visit(void *ctx, const struct yaml_item *item, struct err *e);

/*
 * yaml_read - call @visit for each value of @text, from top to bottom.
 *
 * Understood are "key: value" in the first column, "section:" there with indented lines
 * "key: value" below it, plain and quoted values, comments, blank lines and one "---" in front.
 * A key without a value, or with the value null or ~, is left out.  All else that YAML has
 * (lists, braces, anchors, tags, blocks of text, tabs) is an error that names the line.
 *
 * Returns 0, RINGUP_EINVAL, or what @visit returned.
 */
int yaml_read(const char *text, size_t len, yaml_visit *visit, void *ctx, struct err *e);

#endif
