/* requires.h - read what a distribution requires, and compare it with what is installed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_REQUIRES_H
#define DETECT_REQUIRES_H

#include <stdbool.h>

#include "detect/dist.h"

/* One requirement that holds on this kind of node: "protobuf", ">=3.20.3,<5". */
struct requirement {
	char name[64]; /* as in struct dist */
	char versions[256];
};

/* How a version compares with a requirement. */
enum requires_fit {
	REQUIRES_FITS,
	REQUIRES_OLDER, /* than all that are allowed                       */
	REQUIRES_NEWER, /* than all that are allowed                       */
	REQUIRES_OTHER, /* excluded, or not the one that is allowed        */
};

/*
 * requires_each - call @see for each requirement of @d that holds for a Python of @series on
 * Linux and this type of processor, without those of extras, until it returns false.
 */
typedef bool requires_see(void *arg, const struct requirement *r);
void requires_each(struct rootfs *fs, const struct dist *d, const char *series,
		   requires_see *see, void *arg);

/* requires_each_extra - the same with those of all extras. */
void requires_each_extra(struct rootfs *fs, const struct dist *d, const char *series,
			 requires_see *see, void *arg);

/* The pure functions. */

/* requires_parse - parse the text after "Requires-Dist: "; false if it is malformed, or does
 * not hold here. */
bool requires_parse(const char *text, const char *series, struct requirement *out);

/* requires_compare - compare @version with @versions, such as "!=4.21.0,<5.0.0dev,>=3.20.3".  A
 * clause that cannot be understood is fulfilled. */
enum requires_fit requires_compare(const char *version, const char *versions);

#endif
