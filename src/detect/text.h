/* text.h - make untrusted bytes printable: valid UTF-8, no control characters. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_TEXT_H
#define DETECT_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Names, versions and paths on a node are untrusted.  Control characters act on a terminal and
 * JSON admits only UTF-8, so all text from files passes these functions before it is shown or
 * stored.
 */

/* text_clean - copy @in to @out of @cap bytes, cut at a character's end; '?' replaces bytes
 * that are not UTF-8, control characters and marks that change the direction of writing. */
void text_clean(char *out, size_t cap, const char *in);

/* text_json - a JSON string of text_clean(@in); null if @in is NULL or empty. */
json_t *text_json(const char *in);

/* text_is_version - is @s a valid version, harmless to a shell: letters, digits and . + ! _ -
 * only, starting with a digit or 'v', shorter than 64? */
bool text_is_version(const char *s);

/* text_copy - @len bytes of @in, or as many as fit, NUL-terminated in @out. */
void text_copy(char *out, size_t cap, const char *in, size_t len);

/* text_set - as much of the string @in as fits, NUL-terminated in @out. */
void text_set(char *out, size_t cap, const char *in);

/*
 * text_assigned - the value of `@name = "..."` in Python source of @len bytes.
 *
 * Only at the start of a line, with an annotation or without, single or double quotes.  False
 * if there is none, if it is None, or if it does not fit.
 */
bool text_assigned(const char *data, size_t len, const char *name, char *out, size_t cap);

/* text_keyed - the string after the quoted @key in Python or JSON text, as in ('key', 'value')
 * or "key": "value". */
bool text_keyed(const char *data, size_t len, const char *key, char *out, size_t cap);

/* text_defined - the value of `#define @name ...`, without quotes. */
bool text_defined(const char *data, size_t len, const char *name, char *out, size_t cap);

/* text_field - the rest of a line that starts with "@name:" (or @name and @sep), blanks removed
 * on both sides. */
bool text_field(const char *data, size_t len, const char *name, char sep, char *out,
		size_t cap);

#endif
