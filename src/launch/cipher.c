/* cipher.c - authenticated encryption of a connection (libsodium's secretstream). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/cipher.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "wire/pack.h"

enum { LENGTH = 4, MAC = crypto_secretstream_xchacha20poly1305_ABYTES };

_Static_assert(CIPHER_HEAD == crypto_secretstream_xchacha20poly1305_HEADERBYTES &&
		       CIPHER_MORE == LENGTH + MAC &&
		       SECRET_BYTES == crypto_secretstream_xchacha20poly1305_KEYBYTES,
	       "libsodium's sizes");

struct cipher {
	crypto_secretstream_xchacha20poly1305_state out, in;
	unsigned char head[CIPHER_HEAD];
	unsigned char in_key[SECRET_BYTES];
	bool begun, broken; /* the other side's head has come; something wrong has */
};

int cipher_new(const struct secret *key, enum cipher_side side, struct cipher **cp,
	       struct err *e)
{
	static const char purpose[] = "ringup cipher: to the server, to the client";
	unsigned char keys[2][SECRET_BYTES];
	struct cipher *c;

	if (sodium_init() < 0)
		return fail(e, RINGUP_ESYSTEM, "libsodium finds no random numbers here");
	c = calloc(1, sizeof(*c));
	if (!c)
		return fail(e, RINGUP_ENOMEM, "no memory for a cipher");
	secret_hkdf(keys, sizeof(keys), (struct secret_part){ key->key, SECRET_BYTES },
		    (struct secret_part){ "", 0 },
		    (struct secret_part[]){ { purpose, sizeof(purpose) }, { NULL, 0 } });
	crypto_secretstream_xchacha20poly1305_init_push(&c->out, c->head,
							keys[side == CIPHER_SERVER]);
	memcpy(c->in_key, keys[side == CIPHER_CLIENT], SECRET_BYTES);
	sodium_memzero(keys, sizeof(keys));
	*cp = c;
	return 0;
}

void cipher_free(struct cipher *c)
{
	if (c)
		sodium_memzero(c, sizeof(*c));
	free(c);
}

const unsigned char *cipher_head(const struct cipher *c)
{
	return c->head;
}

size_t cipher_seal(struct cipher *c, unsigned char *out, const void *text, size_t len)
{
	pack_put32(out, (uint32_t)len);
	crypto_secretstream_xchacha20poly1305_push(&c->out, out + LENGTH, NULL, text, len, out,
						   LENGTH, 0);
	return len + CIPHER_MORE;
}

static int cipher_break(struct cipher *c, struct err *e)
{
	c->broken = true;
	return fail(e, RINGUP_EAUTH,
		    "the other side has not sent this: it does not know the "
		    "key, or something in between changes what it sends");
}

static int head_take(struct cipher *c, const unsigned char *data, size_t len, size_t *usedp,
		     struct err *e)
{
	if (len < CIPHER_HEAD)
		return 0;
	if (crypto_secretstream_xchacha20poly1305_init_pull(&c->in, data, c->in_key))
		return cipher_break(c, e);
	c->begun = true;
	*usedp = CIPHER_HEAD;
	return 0;
}

int cipher_open(struct cipher *c, const unsigned char *data, size_t len, size_t *usedp,
		unsigned char *text, struct err *e)
{
	unsigned char tag;
	size_t n;

	*usedp = 0;
	if (c->broken)
		return cipher_break(c, e);
	if (!c->begun)
		return head_take(c, data, len, usedp, e);
	if (len < LENGTH)
		return 0;
	n = pack_get32(data);
	if (n == 0 || n > CIPHER_TEXT)
		return cipher_break(c, e);
	if (len < n + CIPHER_MORE)
		return 0;
	if (crypto_secretstream_xchacha20poly1305_pull(&c->in, text, NULL, &tag, data + LENGTH,
						       n + MAC, data, LENGTH) ||
	    tag != 0)
		return cipher_break(c, e);
	*usedp = n + CIPHER_MORE;
	return (int)n;
}
