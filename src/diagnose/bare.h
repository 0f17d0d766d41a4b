/* bare.h - match system messages, such as strerror(3)'s, in lines of any program. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_BARE_H
#define DIAGNOSE_BARE_H

#include <stdbool.h>

struct signature;

/*
 * bare_fits - does the line from @line to @eol complain of the match of @s in it?
 *
 * "No route to host" also stands in debugging output, which is no complaint: a level below
 * error rules a line out, any level if @s is no cause.  @behind is the end of a text that is
 * wholly literal and so has to end the line; else NULL.  With SIGNATURE_SHELL the line has to
 * be a shell's: "sh: 1: x: not found".
 */
bool bare_fits(const struct signature *s, const char *line, const char *eol,
	       const char *behind);

#endif
