/* test_cipher.c - what was sealed is opened by the other side, in order, or is refused. */
#include "launch/cipher.h"

#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

enum { PIECES = 4, ROOM = 4096 };

static const struct secret key = { { 1, 2, 3 } }, other = { { 1, 2, 4 } };
static const char *const text[PIECES] = { "the secret", "x", "two", "the last" };

/* A direction of a connection, as bytes. */
struct stream {
	unsigned char bytes[ROOM];
	size_t at[PIECES + 1], len; /* where pieces begin */
};

static void record(struct stream *s, const struct secret *k, enum cipher_side side)
{
	struct cipher *c;
	int i;

	*s = (struct stream){ .len = CIPHER_HEAD };
	if (cipher_new(k, side, &c, NULL))
		return;
	memcpy(s->bytes, cipher_head(c), CIPHER_HEAD);
	for (i = 0; i < PIECES; i++) {
		s->at[i] = s->len;
		s->len += cipher_seal(c, s->bytes + s->len, text[i], strlen(text[i]));
	}
	s->at[PIECES] = s->len;
	cipher_free(c);
}

/* How many pieces come out, each the right one; the code that ends it in *@rc. */
static int hear(const unsigned char *bytes, size_t len, enum cipher_side side, int *rc)
{
	static unsigned char out[CIPHER_TEXT];
	struct err e = { 0 };
	struct cipher *c;
	size_t used = 1, at;
	int n = 0;

	*rc = cipher_new(&key, side, &c, &e);
	for (at = 0; *rc >= 0 && used; at += used) {
		*rc = cipher_open(c, bytes + at, len - at, &used, out, &e);
		if (*rc <= 0)
			continue;
		if (n == PIECES || (size_t)*rc != strlen(text[n]) ||
		    memcmp(out, text[n], (size_t)*rc) != 0)
			break;
		n++;
	}
	if (*rc < 0 &&
	    (cipher_open(c, bytes, len, &used, out, NULL) != RINGUP_EAUTH || used || !*e.text))
		n = -1;
	cipher_free(c);
	return n;
}

static void test_whole(void)
{
	struct stream s, again;
	int rc;

	record(&s, &key, CIPHER_CLIENT);
	ok(hear(s.bytes, s.len, CIPHER_SERVER, &rc) == PIECES && !rc, "all pieces arrive");
	ok(!memmem(s.bytes, s.len, text[0], strlen(text[0])), "and cannot be read in between");
	record(&again, &key, CIPHER_CLIENT);
	ok(memcmp(s.bytes, again.bytes, s.len) != 0,
	   "the same is sealed in another way each time");
	ok(hear(s.bytes, s.at[2] + 5, CIPHER_SERVER, &rc) == 2 && !rc,
	   "a piece that is not whole yet waits");
}

static void test_wrong_keys(void)
{
	struct stream s;
	int rc;

	record(&s, &other, CIPHER_CLIENT);
	ok(!hear(s.bytes, s.len, CIPHER_SERVER, &rc) && rc == RINGUP_EAUTH,
	   "what another connection has sent is refused");
	record(&s, &key, CIPHER_CLIENT);
	ok(!hear(s.bytes, s.len, CIPHER_CLIENT, &rc) && rc == RINGUP_EAUTH,
	   "what this side has sent itself is refused");
}

/* Each byte of the stream, changed in one bit: nothing from its piece on is taken. */
static void test_changes(void)
{
	struct stream s;
	size_t i;
	int rc, n, wrong = 0, piece;

	record(&s, &key, CIPHER_CLIENT);
	for (i = 0; i < s.len; i++) {
		for (piece = 0; piece < PIECES && s.at[piece + 1] <= i; piece++)
			;
		s.bytes[i] ^= (unsigned char)(1 << i % 8);
		n = hear(s.bytes, s.len, CIPHER_SERVER, &rc);
		/* A piece that claims to be longer than what has come waits for the rest. */
		wrong += n != (i < CIPHER_HEAD ? 0 : piece) ||
			 (rc != RINGUP_EAUTH && (i < CIPHER_HEAD || i - s.at[piece] >= 4));
		s.bytes[i] ^= (unsigned char)(1 << i % 8);
	}
	ok(!wrong, "no changed byte is taken: %d", wrong);
}

/* The pieces of @order, numbers from 0 on, are what comes. */
static int hear_order(const struct stream *s, const char *order, int *rc)
{
	unsigned char bytes[ROOM];
	size_t len = CIPHER_HEAD, n;

	memcpy(bytes, s->bytes, CIPHER_HEAD);
	for (; *order; order++, len += n) {
		n = s->at[*order - '0' + 1] - s->at[*order - '0'];
		memcpy(bytes + len, s->bytes + s->at[*order - '0'], n);
	}
	return hear(bytes, len, CIPHER_SERVER, rc);
}

static void test_order(void)
{
	struct stream s;
	int rc;

	record(&s, &key, CIPHER_CLIENT);
	ok(hear_order(&s, "0123", &rc) == 4 && !rc, "pieces in their order");
	ok(hear_order(&s, "00123", &rc) == 1 && rc == RINGUP_EAUTH, "one that is repeated");
	ok(hear_order(&s, "0213", &rc) == 1 && rc == RINGUP_EAUTH,
	   "two that have changed places");
	ok(hear_order(&s, "013", &rc) == 2 && rc == RINGUP_EAUTH, "one that is left out");
	ok(hear_order(&s, "123", &rc) == 0 && rc == RINGUP_EAUTH, "the first is left out");
}

int main(void)
{
	test_whole();
	test_wrong_keys();
	test_changes();
	test_order();
	return tap_done();
}
