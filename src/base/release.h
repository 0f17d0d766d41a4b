/* release.h - the order of version numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RELEASE_H
#define BASE_RELEASE_H

/*
 * release_compare - negative, 0 or positive, by the numbers between dots.
 *
 * What is missing counts as 0 and what follows the numbers (rc1, +cu126,
 * .dev2025) is not looked at: for "is this 2.10 or later" a candidate of 2.10
 * is 2.10.  The empty string is older than all.
 */
int release_compare(const char *a, const char *b);

#endif
