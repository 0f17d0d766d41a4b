/* lead.h - find the last line that the program itself wrote before a launcher's message. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_LEAD_H
#define DIAGNOSE_LEAD_H

#include <stdbool.h>

/*
 * lead_find - the last line before @at, going back to @start at most, that is not a launcher's;
 * or NULL.  *@stop is its end, *@back the number of lines between.
 *
 * @is_boxed: @at is in a message between two lines of dashes or equal signs.
 */
const char *lead_find(const char *start, const char *at, bool is_boxed, const char **stop,
		      long *back);

#endif
