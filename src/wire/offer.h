/* offer.h - rank 0's text in the launcher's store: the meeting point's address and the key. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_OFFER_H
#define WIRE_OFFER_H

#include "wire/secret.h"

struct err;

enum offer_kind {
	OFFER_KEY = 'k',    /* the key itself: a program that can read it can join    */
	OFFER_NONCE = 'n',  /* the key is made of this and of RINGUP_SECRET           */
	OFFER_FAILED = 'f', /* rank 0 has failed, and @text says why                  */
};

enum {
	OFFER_TEXT_BYTES = 192,
	/* The line's length in hexadecimal digits, with its NUL. */
	OFFER_LINE_BYTES = 2 * (3 + SECRET_BYTES + OFFER_TEXT_BYTES),
};

struct offer {
	enum offer_kind kind;
	unsigned char bytes[SECRET_BYTES]; /* the key or the nonce           */
	char text[OFFER_TEXT_BYTES];       /* an address and port; or an error */
};

/* offer_print - as a line of hexadecimal digits, to @line of OFFER_LINE_BYTES. */
void offer_print(const struct offer *o, char *line);

/* offer_parse - read such a line, which is not to be trusted.  RINGUP_EMISMATCH: this
 * version does not write such lines. */
int offer_parse(const char *line, struct offer *o, struct err *e);

/*
 * offer_make - rank 0's: choose the key of this meeting, which goes to @key.
 *
 * @secret is RINGUP_SECRET, or "".  @o->text is the caller's to fill.
 */
int offer_make(struct offer *o, const char *secret, struct secret *key, struct err *e);

/*
 * offer_take - the key of this meeting, as another rank finds it in rank 0's offer.
 *
 * Returns 0, RINGUP_EAUTH if one of the two has a RINGUP_SECRET and the other has none, or
 * the failure of rank 0.
 */
int offer_take(const struct offer *o, const char *secret, struct secret *key, struct err *e);

#endif
