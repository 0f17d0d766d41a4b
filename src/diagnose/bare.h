/* bare.h - messages of the system, such as strerror(3) has, on lines of any program. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_BARE_H
#define DIAGNOSE_BARE_H

#include <stdbool.h>

struct signature;

/*
 * bare_fits - does the line from @line to @eol complain of what @s found in it?
 *
 * "No route to host" also stands in lines of debugging, which complain of nothing: a level
 * below error rules a line out, any level where @s is no cause.  A text that is literal to its
 * end, @behind, has to end the line; NULL: it is not.  With SIGNATURE_SHELL the line has to be
 * one that a shell writes: "sh: 1: x: not found".
 */
bool bare_fits(const struct signature *s, const char *line, const char *eol,
	       const char *behind);

#endif
