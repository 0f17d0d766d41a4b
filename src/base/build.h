/* build.h - the version, with a suffix that identifies this build's sources. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

/*
 * build_version - "0.2.0+1a2b3c4d": the version, and the start of the SHA-256 of the library's
 * sources.
 *
 * Ranks compare it when they meet, so a job never mixes sources that might not speak the same
 * protocol.  The compiler and its options do not count.
 */
const char *build_version(void);

#endif
