/* keyring.h - the keys of a cache: the private key that signs, and the trusted public keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_KEYRING_H
#define REBUILD_KEYRING_H

#include <stdbool.h>

#include "rebuild/signkey.h"

struct err;

enum { KEYRING_MOST = 8 };

struct keyring {
	struct signkey_private key; /* if can_sign */
	bool can_sign;
	struct signkey_public trust[KEYRING_MOST];
	int trusts;
};

/*
 * keyring_open - read the private key @key, and the public ones in the list @trust.
 *
 * Their form is that of signkey.h; NULL or "": none.  @trust has white space or commas between,
 * and less than KEYRING_MOST different keys.  The public half of @key is trusted as well.
 * Returns 0, or RINGUP_EINVAL or RINGUP_ESYSTEM with the name of the wrong setting;
 * RINGUP_EINVAL if no key is given at all.
 */
int keyring_open(struct keyring *r, const char *key, const char *trust, struct err *e);

/* keyring_close - wipe the private key. */
void keyring_close(struct keyring *r);

#endif
