/* seal.c - authenticated requests and replies of probes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/seal.h"

#include <sodium.h>
#include <string.h>

#include "wire/pack.h"

enum { PLAIN = SEAL_BYTES - 32 };

static const unsigned char magic[8] = "ringprob";

void seal_derive(struct seal_key *k, const struct secret *s)
{
	static const char purpose[] = "ringup net check: probes";
	struct secret_part salt = { "", 0 };
	struct secret_part info[] = { { purpose, sizeof(purpose) - 1 }, { NULL, 0 } };

	secret_hkdf(k->key, sizeof(k->key), (struct secret_part){ s->key, sizeof(s->key) },
		    salt, info);
}

void seal_ask(struct seal *s, int from, int to)
{
	memset(s, 0, sizeof(*s));
	s->what = SEAL_QUESTION;
	s->from = (uint16_t)from;
	s->to = (uint16_t)to;
	randombytes_buf(s->nonce, sizeof(s->nonce));
}

static void mac(unsigned char out[32], const unsigned char *plain, const struct seal_key *k)
{
	struct secret_part parts[] = { { plain, PLAIN }, { NULL, 0 } };

	secret_mac(out, k->key, parts);
}

void seal_write(unsigned char out[SEAL_BYTES], const struct seal *s, const struct seal_key *k)
{
	memset(out, 0, SEAL_BYTES);
	memcpy(out, magic, sizeof(magic));
	out[8] = (unsigned char)s->what;
	pack_put16(out + 10, s->from);
	pack_put16(out + 12, s->to);
	pack_put32(out + 16, s->size);
	memcpy(out + 20, s->nonce, SEAL_NONCE);
	mac(out + PLAIN, out, k);
}

bool seal_read(struct seal *s, enum seal_what what, const unsigned char in[SEAL_BYTES],
	       const struct seal_key *k)
{
	unsigned char want[32];

	mac(want, in, k);
	if (memcmp(in, magic, sizeof(magic)) || in[8] != what ||
	    sodium_memcmp(want, in + PLAIN, sizeof(want)))
		return false;
	s->what = what;
	s->from = pack_get16(in + 10);
	s->to = pack_get16(in + 12);
	s->size = pack_get32(in + 16);
	memcpy(s->nonce, in + 20, SEAL_NONCE);
	return true;
}

bool seal_answers(const struct seal *a, const struct seal *q)
{
	return a->to == q->from && !memcmp(a->nonce, q->nonce, SEAL_NONCE);
}
