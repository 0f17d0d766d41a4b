/* compilers.h - find the C and C++ compilers on a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_COMPILERS_H
#define DETECT_COMPILERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct pythons;
struct rootfs;

/*
 * compilers_find - find gcc and clang in the program folders, PATH and conda's.
 *
 * Entries are {family, version, cc, cxx, default}; gcc, g++ and gcc-12 of one compiler are one
 * entry, with the most specific names.  The version is that of the compiler's own folder; if
 * that is only "12" and the node is live, gcc is asked (1 ms each, at most 8).  A g++ without
 * its cc1plus is a problem, since it compiles nothing.
 */
json_t *compilers_find(struct rootfs *fs, const struct pythons *py);

/* compilers_parse_name - "g++-12" is family gcc, C++, "12"; false for other programs. */
bool compilers_parse_name(const char *name, const char **family, bool *is_cxx, char *version,
			  size_t cap);

#endif
