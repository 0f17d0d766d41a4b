/* jsonio.h - write any text as JSON, and read checked values from untrusted JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSONIO_H
#define BASE_JSONIO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* jsonio_text - a JSON string of @s; each byte that is not part of UTF-8 becomes '?', so
 * the length stays; JSON's null if @s is NULL.  The caller's reference, or NULL without
 * memory. */
json_t *jsonio_text(const char *s);

/* jsonio_is_absent - is @j missing (NULL), or JSON's null? */
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
