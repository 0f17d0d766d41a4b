/* pins.h - the NCCL settings that are pinned: what libnccl-env-ringup.so answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_PINS_H
#define HOST_PINS_H

#include <stddef.h>

/*
 * They are those that `ringup net fix` has written: the lines NAME=VALUE of NCCL's file
 * between its two marks.  The plug-in and the prediction of what it answers read them with
 * this code, so they cannot differ.  Nothing here allocates or fails: what does not fit is
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

/* What a plug-in that contains it is taken for: ours. */
#define PINS_MARK "ringup answers NCCL's settings"

#endif
