/* seal.h - authenticated requests and replies of probes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_SEAL_H
#define PROBE_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/secret.h"

/*
 * Both are SEAL_BYTES long, so an agent cannot be used to amplify traffic:
 * magic (8), what (1), zero (1), from (2), to (2), zero (2), size (4), nonce (12), MAC (32).
 * The MAC is HMAC-SHA256 of the rest under a key derived from the secret of this check, so
 * @from of an answer proves the node, and the nonce ties the answer to its question.
 */
enum { SEAL_BYTES = 64, SEAL_NONCE = 12 };

enum seal_what { SEAL_QUESTION = 'Q', SEAL_ANSWER = 'A' };

struct seal_key {
	unsigned char key[32];
};

struct seal {
	enum seal_what what;
	uint16_t from, to; /* nodes, by number */
	uint32_t size; /* of an answer by UDP: the size at which the question arrived, in bytes;
			* by TCP: the IPv4 address that it came from, or 0 */
	unsigned char nonce[SEAL_NONCE];
};

void seal_derive(struct seal_key *k, const struct secret *s);

/* seal_ask - a question with a fresh nonce. */
void seal_ask(struct seal *s, int from, int to);

void seal_write(unsigned char out[SEAL_BYTES], const struct seal *s, const struct seal_key *k);

/* seal_read - false unless @in is whole, authentic and of kind @what. */
bool seal_read(struct seal *s, enum seal_what what, const unsigned char in[SEAL_BYTES],
	       const struct seal_key *k);

/* seal_answers - is @a the answer to @q, from any node? */
bool seal_answers(const struct seal *a, const struct seal *q);

#endif
