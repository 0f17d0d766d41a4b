/* elflink.h - read a shared library's link data: needed libraries, versions, symbols. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_ELFLINK_H
#define DETECT_ELFLINK_H

#include <stdbool.h>
#include <stddef.h>

#include "detect/elffile.h"

struct err;

enum { ELFLINK_NEEDED = 64, ELFLINK_VERSIONS = 1024, ELFLINK_SYMBOL = 2048 };

/* A symbol version that has to be in the library whose DT_NEEDED name is @file. */
struct elfwant {
	char file[64], version[64];
};

struct elflink {
	struct elffile file;
	int needed_count;
	char needed[ELFLINK_NEEDED][256]; /* DT_NEEDED, in its order              */
	char rpath[1024], runpath[1024];  /* as written; one is empty               */
	size_t want_count, give_count;
	struct elfwant wants[ELFLINK_VERSIONS]; /* without the weak ones          */
	char gives[ELFLINK_VERSIONS][64];
};

/*
 * elflink_open - read the link data of the library open at @fd.
 *
 * @fd is borrowed for as long as symbols are asked for.  Reading is bounded, and errors are
 * those of elffile_open(); also RINGUP_ENOMEM.  *@out is the caller's to free().
 */
int elflink_open(int fd, struct elflink **out, struct err *e);

/* elflink_undefined - call @see for each symbol that another library has to define, without
 * weak ones, until it returns false. */
void elflink_undefined(const struct elflink *l, bool (*see)(void *arg, const char *name),
		       void *arg);

/* elflink_defines - does it define @symbol?  Also true if its tables cannot tell. */
bool elflink_defines(const struct elflink *l, const char *symbol);

#endif
