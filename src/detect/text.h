/* text.h - foreign bytes made fit to print: valid UTF-8, no control characters. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_TEXT_H
#define DETECT_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Names, versions and paths on a node were written by anybody.  A terminal
 * obeys control characters and JSON admits only UTF-8, so nothing read from a
 * file is shown or stored but through here.
 */

/* text_clean - copy @in to @out of @cap bytes, cut at a character's end; bytes
 * that are not UTF-8, control characters and marks that turn the direction of
 * writing become '?'. */
void text_clean(char *out, size_t cap, const char *in);

/* text_json - a JSON string of text_clean(@in); null if @in is NULL or empty. */
json_t *text_json(const char *in);

/* text_is_version - letters, digits and . + ! _ - only, starting with a digit or
 * 'v', shorter than 64: what a version may be, and nothing a shell minds. */
bool text_is_version(const char *s);

/* text_copy - @len bytes of @in, or as many as fit, NUL-terminated in @out. */
void text_copy(char *out, size_t cap, const char *in, size_t len);

/* text_set - as much of the string @in as fits, NUL-terminated in @out. */
void text_set(char *out, size_t cap, const char *in);

/*
 * text_assigned - what `@name = "..."` assigns in Python source of @len bytes.
 *
 * Only at the start of a line, with an annotation or without, single or double
 * quotes.  False if there is none, if it is None, or if it does not fit.
 */
bool text_assigned(const char *data, size_t len, const char *name, char *out, size_t cap);

/* text_keyed - the string that follows the quoted @key in Python or JSON text,
 * as in ('key', 'value') or "key": "value". */
bool text_keyed(const char *data, size_t len, const char *key, char *out, size_t cap);

/* text_defined - what `#define @name ...` says, without quotes. */
bool text_defined(const char *data, size_t len, const char *name, char *out, size_t cap);

/* text_field - what follows "@name:" (or @name and @sep) at the start of a line, up to
 * its end, blanks removed on both sides. */
bool text_field(const char *data, size_t len, const char *name, char sep, char *out,
		size_t cap);

#endif
