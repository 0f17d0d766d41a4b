/* manifest.h - the manifest of a cache entry: paths, sizes and SHA-256 of its files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_MANIFEST_H
#define REBUILD_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/*
 * A text, since init-scripts/lib/cache.bash reads it too:
 *
 *	ringup-cache/1
 *	key 64 hexadecimal digits
 *	signer base64 line of the public key
 *	file 644|755 SIZE SHA-256 PATH	(strictly ascending by PATH, byte by byte)
 *	link TARGET PATH                (after the files, ascending as well)
 *	end COUNT
 *
 * Paths are relative, of printable ASCII without blank and backslash; no component is "." or
 * "..", and no path occurs twice or lies below a file or a link.  The target of a link is
 * relative and does not leave the tree: "../" stands only in front.
 */
enum {
	MANIFEST_KEY_BYTES = 65,    /* 64 digits and the NUL             */
	MANIFEST_SIGNER_BYTES = 65, /* SIGNKEY_ID_BYTES                  */
	MANIFEST_MOST = 50000,      /* files and links of an entry       */
	MANIFEST_LARGEST = 8 << 20, /* bytes of the text                 */
	MANIFEST_PATH_BYTES = 1024
};
/* Limit on the bytes of all files of an entry. */
#define MANIFEST_TOTAL ((uint64_t)64 << 30)

struct manifest_item {
	const char *path;
	const char *target; /* of a link; NULL: a file        */
	bool program;       /* an executable file             */
	uint64_t size;      /* of a file                      */
	unsigned char sum[32];
};

struct manifest {
	char key[MANIFEST_KEY_BYTES];
	char signer[MANIFEST_SIGNER_BYTES];
	struct manifest_item *item;
	int items;
	uint64_t total;
};

/* manifest_is_key - is @text 64 lower-case hexadecimal digits? */
bool manifest_is_key(const char *text);

/*
 * manifest_parse - check @text in full and parse it.
 *
 * Ownership: *@m for manifest_free(), also after a failure.
 * Returns 0, or RINGUP_EINVAL with the wrong line, or RINGUP_ENOMEM.
 */
int manifest_parse(struct manifest *m, const char *text, size_t len, struct err *e);

/* manifest_add - append @item; the strings are copied.  RINGUP_EINVAL for a path, target or
 * size that manifest_parse() would refuse. */
int manifest_add(struct manifest *m, const struct manifest_item *item, struct err *e);

/* manifest_text - sort @m and format it: *@textp for free(). */
int manifest_text(struct manifest *m, char **textp, size_t *lenp, struct err *e);

void manifest_free(struct manifest *m);

#endif
