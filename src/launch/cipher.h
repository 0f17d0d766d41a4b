/* cipher.h - authenticated encryption of a connection (libsodium's secretstream). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_CIPHER_H
#define LAUNCH_CIPHER_H

#include <stddef.h>

#include "wire/secret.h"

struct err;

/*
 * Each direction begins with CIPHER_HEAD bytes, a nonce; then come pieces: length of the text
 * (4), the text encrypted, its MAC.  It is libsodium's secretstream (XChaCha20 and Poly1305),
 * whose pieces are chained: one that is changed, repeated, left out, moved, or of the other
 * direction is refused, and so is everything after it.  The key is good for one connection:
 * both sides have put a random number into it, so recorded pieces of another connection are
 * refused, too.
 *
 * The owner judges the end of the connection: a protocol with a last message knows whether
 * the stream was cut short.
 */
struct cipher;

enum {
	CIPHER_HEAD = 24,
	CIPHER_TEXT = 65536, /* bytes of text in a piece, at most   */
	CIPHER_MORE = 21,    /* bytes of a piece besides its text    */
};

enum cipher_side { CIPHER_CLIENT, CIPHER_SERVER };

/* cipher_new - for one side of a connection. */
int cipher_new(const struct secret *key, enum cipher_side side, struct cipher **cp,
	       struct err *e);

/* cipher_free - also wipes the keys; @c may be NULL. */
void cipher_free(struct cipher *c);

/* cipher_head - the CIPHER_HEAD bytes that this side sends first. */
const unsigned char *cipher_head(const struct cipher *c);

/* cipher_seal - the next piece, of 1 to CIPHER_TEXT bytes, into @out; returns its length, which
 * is @len + CIPHER_MORE. */
size_t cipher_seal(struct cipher *c, unsigned char *out, const void *text, size_t len);

/*
 * cipher_open - take the head or the next piece, if it is whole, from received bytes.
 *
 * Sets *@usedp to the number of bytes taken; 0: no whole piece yet.  Returns the number of
 * bytes put into @text, of CIPHER_TEXT; or RINGUP_EAUTH if the other side has not sent this
 * piece, or not at this place, and then each further call fails likewise.
 */
int cipher_open(struct cipher *c, const unsigned char *data, size_t len, size_t *usedp,
		unsigned char *text, struct err *e);

#endif
