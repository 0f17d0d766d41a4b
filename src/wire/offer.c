/* offer.c - rank 0's text in the launcher's store: the meeting point's address and the key. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/offer.h"

#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* The first bytes of an offer, before its kind, bytes and text. */
static const char mark[2] = { 'r', '1' };

enum { HEAD = sizeof(mark) + 1 + SECRET_BYTES };

void offer_print(const struct offer *o, char *line)
{
	unsigned char raw[HEAD + OFFER_TEXT_BYTES];
	size_t len = strnlen(o->text, sizeof(o->text) - 1);

	memcpy(raw, mark, sizeof(mark));
	raw[sizeof(mark)] = (unsigned char)o->kind;
	memcpy(raw + sizeof(mark) + 1, o->bytes, SECRET_BYTES);
	memcpy(raw + HEAD, o->text, len);
	sodium_bin2hex(line, OFFER_LINE_BYTES, raw, HEAD + len);
	sodium_memzero(raw, sizeof(raw));
}

int offer_parse(const char *line, struct offer *o, struct err *e)
{
	unsigned char raw[HEAD + OFFER_TEXT_BYTES - 1];
	const char *end = line;
	size_t len = 0;
	int rc = 0, kind;

	*o = (struct offer){ 0 };
	if (sodium_hex2bin(raw, sizeof(raw), line, strlen(line), NULL, &len, &end) || *end ||
	    len < HEAD || memcmp(raw, mark, sizeof(mark)) || memchr(raw + HEAD, 0, len - HEAD))
		rc = fail(e, RINGUP_EMISMATCH,
			  "rank 0 does not say where to meet as this version of ringup does");
	kind = rc ? OFFER_FAILED : raw[sizeof(mark)];
	if (!rc && kind != OFFER_KEY && kind != OFFER_NONCE && kind != OFFER_FAILED)
		rc = fail(e, RINGUP_EMISMATCH, "rank 0 runs another version of ringup");
	if (!rc) {
		o->kind = (enum offer_kind)kind;
		memcpy(o->bytes, raw + sizeof(mark) + 1, SECRET_BYTES);
		memcpy(o->text, raw + HEAD, len - HEAD);
	}
	sodium_memzero(raw, sizeof(raw));
	return rc;
}

static void derive(const char *text, const unsigned char nonce[SECRET_BYTES],
		   struct secret *key)
{
	secret_hkdf(key->key, sizeof(key->key), (struct secret_part){ text, strlen(text) },
		    (struct secret_part){ nonce, SECRET_BYTES },
		    (struct secret_part[]){ { "ringup offer", 12 }, { NULL, 0 } });
}

int offer_make(struct offer *o, const char *secret, struct secret *key, struct err *e)
{
	struct secret fresh;
	int rc = secret_new(&fresh, e);

	if (rc)
		return rc;
	memcpy(o->bytes, fresh.key, sizeof(o->bytes));
	o->kind = *secret ? OFFER_NONCE : OFFER_KEY;
	if (*secret)
		derive(secret, o->bytes, key);
	else
		*key = fresh;
	secret_wipe(&fresh);
	return 0;
}

int offer_take(const struct offer *o, const char *secret, struct secret *key, struct err *e)
{
	if (o->kind == OFFER_FAILED)
		return fail(e, RINGUP_EPEER, "rank 0 cannot start: %s", o->text);
	if ((o->kind == OFFER_NONCE) != (*secret != 0))
		return fail(e, RINGUP_EAUTH,
			    "rank 0 has %s RINGUP_SECRET and this rank has %s: set it to the "
			    "same text on all ranks, or on none",
			    *secret ? "no" : "a", *secret ? "one" : "none");
	if (*secret)
		derive(secret, o->bytes, key);
	else
		memcpy(key->key, o->bytes, sizeof(key->key));
	return secret_check(key, e);
}
