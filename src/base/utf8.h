/* utf8.h - decode UTF-8 from untrusted bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_MOST = 4 }; /* bytes of a character */

/*
 * utf8_decode - the character at @s to *@cp, and its length; 0 if there is none.
 *
 * At most @left bytes are read, and none behind a NUL, so a string may give UTF8_MOST.
 * Overlong forms, surrogates and numbers above U+10FFFF are no characters.
 */
size_t utf8_decode(const char *s, size_t left, uint32_t *cp);

/* utf8_count - characters of @s, which are columns on most terminals; UTF-8 is not checked. */
int utf8_count(const char *s);

/* utf8_is_control - does a terminal obey @c instead of showing it?  C0, DEL and C1. */
bool utf8_is_control(uint32_t c);

#endif
