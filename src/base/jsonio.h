/* jsonio.h - any text into JSON, and checked values out of anybody's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSONIO_H
#define BASE_JSONIO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* jsonio_text - a string; JSON holds UTF-8 only, so each byte that is part of none becomes
 * '?', and nothing grows longer; null if @s is NULL.  The caller's reference, or
 * NULL without memory. */
json_t *jsonio_text(const char *s);

/* jsonio_is_absent - not there, or null. */
bool jsonio_is_absent(const json_t *j);

/* jsonio_string - member @key if it is a string, else ""; belongs to @j. */
const char *jsonio_string(const json_t *j, const char *key);

/* jsonio_get_text - member @key if it is a string that fits; "" where it is absent. */
bool jsonio_get_text(const json_t *j, const char *key, char *out, size_t size);

/* jsonio_get_int - member @key if it is from @least to @most; @otherwise where absent. */
bool jsonio_get_int(const json_t *j, const char *key, int least, int most, int otherwise,
		    int *out);

/* jsonio_read - a file of at most @cap bytes: the caller's reference, or NULL. */
json_t *jsonio_read(const char *path, size_t cap, struct err *e);

#endif
