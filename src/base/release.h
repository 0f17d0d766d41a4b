/* release.h - compare version numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RELEASE_H
#define BASE_RELEASE_H

#include <stdbool.h>

/*
 * release_compare - negative, 0 or positive, by the numbers between dots.
 *
 * A missing number counts as 0, and a suffix (rc1, +cu126, .dev2025) is
 * ignored: for "is this 2.10 or later" a candidate of 2.10 is 2.10.  The
 * empty string is older than all.
 */
int release_compare(const char *a, const char *b);

/*
 * release_within - is @v from @min to @max, both included?
 *
 * A bound stands for all that begins with its numbers: 2.15.1 is within "2.15"
 * as @max, and 2.150 is not.  "-" is open.  The empty version is within
 * nothing but "-" to "-".
 */
bool release_within(const char *v, const char *min, const char *max);

#endif
