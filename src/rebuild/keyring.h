/* keyring.h - the keys of a cache: the one that signs, and those that are believed. */
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
 * keyring_open - the private key @key, and the public ones in the list @trust.
 *
 * Each as signkey.h has it; NULL or "": none.  @trust has blanks or commas between.  Who
 * signs believes what it has signed.  Returns 0, or RINGUP_EINVAL or RINGUP_ESYSTEM with the
 * setting that is wrong; without any key there is nothing to believe, which is RINGUP_EINVAL.
 */
int keyring_open(struct keyring *r, const char *key, const char *trust, struct err *e);

/* keyring_close - wipe it. */
void keyring_close(struct keyring *r);

#endif
