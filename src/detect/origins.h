/* origins.h - tell from a symbol's name which package should define it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_ORIGINS_H
#define DETECT_ORIGINS_H

/* A package's symbols, why one may be undefined, and the remedy. */
struct origin {
	const char *prefix;  /* of the symbols                                   */
	const char *library; /* that defines them, up to its version; or NULL    */
	const char *why;
	const char *todo; /* a command, or words                              */
};

/* origins_of - the package of the symbol @name; NULL: unknown. */
const struct origin *origins_of(const char *name);

/* origins_owned - the first package that defines its symbols in @library, a name such as
 * "libnccl.so.2", and is surely the only one to; NULL: none. */
const struct origin *origins_owned(const char *library);

#endif
