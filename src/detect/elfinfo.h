/* elfinfo.h - read from a shared library how it was built: compiler, C++ ABI, versions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_ELFINFO_H
#define DETECT_ELFINFO_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum { ELFINFO_NEEDED = 48 };

struct elfinfo {
	char compiler[32]; /* "gcc 13.3.1", "clang 18.1.8"; empty: not recorded     */
	int cxx11_abi;     /* value of _GLIBCXX_USE_CXX11_ABI, 1 or 0; -1: no name in the
			    * file shows it */
	/* The newest symbol versions that it needs, without "GLIBC_"; empty: none. */
	char glibc[16], glibcxx[16], cxxabi[16];
	int needed_count;
	char needed[ELFINFO_NEEDED][64]; /* DT_NEEDED, valid names only */
};

/*
 * elfinfo_read - read the evidence from the shared library open at @fd.
 *
 * The ABI shows in names that belong to the library itself: @spaces lists its C++ namespaces as
 * they are mangled ("3c10"), ending with NULL.  A foreign name proves nothing: old-ABI builds
 * contain new-ABI pieces of libstdc++.  Names may be defined or undefined; both were compiled
 * in.
 *
 * .comment lists several compilers if start files or archives came from elsewhere.  clang wins
 * over gcc, whose start files every clang build has; among several gccs the newest wins, since
 * linked archives are older.
 *
 * Only headers, the dynamic section, its strings and .comment are read, in bounded pieces with
 * pread(2): a library of 500 MB costs the same as a small one, and a library that is truncated
 * meanwhile is an error, not SIGBUS.
 *
 * Returns 0 or RINGUP_EINVAL (not a 64-bit little-endian ELF file, or its parts contradict each
 * other) or RINGUP_ESYSTEM; @out is then zeroed but for cxx11_abi, which is -1.
 */
int elfinfo_read(int fd, const char *const *spaces, struct elfinfo *out, struct err *e);

/* elfinfo_is_own - is the mangled name @s, of @len bytes, in one of the namespaces @spaces? */
bool elfinfo_is_own(const char *s, size_t len, const char *const *spaces);

#endif
