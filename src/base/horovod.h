/* horovod.h - the environment variables of Horovod, and their meaning for ringup. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HOROVOD_H
#define BASE_HOROVOD_H

#include <stddef.h>

enum horovod_kind {
	HOROVOD_ALIAS,       /* a setting of ringup             */
	HOROVOD_LAUNCHER,    /* a launcher sets it for its ranks */
	HOROVOD_UNNEEDED,    /* there is nothing to set         */
	HOROVOD_UNSUPPORTED, /* asks for a missing feature      */
	HOROVOD_BUILD,       /* concerns the build of Horovod   */
};

/* One row of horovod.def, where the kinds are explained. */
struct horovod {
	const char *name;
	enum horovod_kind kind;
	const char *quiet, *meaning;
};
extern const struct horovod horovods[]; /* ends with name == NULL */

/* horovod_find - the row of @name, which is @len bytes long, or NULL. */
const struct horovod *horovod_find(const char *name, size_t len);

/* horovod_kind - the kind in a word: "setting", "launcher", "unneeded", "unsupported", "build".
 */
const char *horovod_kind(const struct horovod *h);

/* horovod_meaning - in a sentence, to @out of HOROVOD_TEXT bytes; returns it. */
enum { HOROVOD_TEXT = 256 };
const char *horovod_meaning(const struct horovod *h, char out[HOROVOD_TEXT]);

/* horovod_is - is @var, "NAME=VALUE", a variable of Horovod's, known or not?  Then
 * *@len is the length of its name. */
int horovod_is(const char *var, size_t *len);

/*
 * horovod_tell - log, once in a process, the variables in the environment that ask for a
 * missing feature (a warning), and those that have no effect here (at level info).
 */
void horovod_tell(void);

#endif
