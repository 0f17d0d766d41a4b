/* pins.h - pinned NCCL settings, with which libnccl-env-ringup.so answers NCCL. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_PINS_H
#define HOST_PINS_H

#include <stddef.h>

/*
 * The pins are written by `ringup net fix`: the lines NAME=VALUE of NCCL's file between
 * its two marks.  The plug-in and the prediction of its answers read them with this code,
 * so they cannot differ.  Nothing here allocates or fails: a pin that does not fit is
 * passed over, and a file that cannot be read pins nothing.
 */
#define PINS_FILE   "/etc/nccl.conf"
#define PINS_PLUGIN "libnccl-env-ringup.so"

enum { PINS_MOST = 32, PINS_TEXT = 8192 };

struct pin {
	const char *name, *value; /* in the text of the pins  */
	int line;                 /* of the file, from 1      */
};

struct pins {
	struct pin at[PINS_MOST];
	int n;
	char text[PINS_TEXT];
	size_t used;
};

/* pins_parse - the pins of a file's text; the first line of a name wins, as in NCCL. */
void pins_parse(struct pins *p, const char *text, size_t len);

/* pins_get - the value that @name is pinned to, or NULL. */
const char *pins_get(const struct pins *p, const char *name);

/* A plug-in that contains this text counts as ringup's own. */
#define PINS_MARK "ringup answers NCCL's settings"

#endif
