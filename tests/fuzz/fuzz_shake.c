/* fuzz_shake.c - bytes for the handshake: garbage, or a conversation with changes. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "wire/shake.h"

/* The same numbers for each input, so that a failure can be repeated. */
static uint32_t state;

static uint32_t next_number(void)
{
	state = state * 1664525 + 1013904223;
	return state >> 8;
}

static void fill_numbers(void *out, size_t len)
{
	unsigned char *p = out;

	while (len--)
		*p++ = (unsigned char)next_number();
}

static const char *name(void)
{
	return "repeatable";
}

static randombytes_implementation repeatable = {
	.implementation_name = name,
	.random = next_number,
	.buf = fill_numbers,
};

/* First byte: the role.  The rest: what the other side says, in pieces. */
static void feed(const uint8_t *data, size_t len, const struct secret *s)
{
	unsigned char out[SHAKE_HELLO + SHAKE_PROOF];
	int rc = SHAKE_MORE;
	struct err e;
	struct shake h;
	size_t n;

	shake_init(&h, data[0] & 2 ? SHAKE_CLIENT : SHAKE_SERVER, SHAKE_RING, 2, 3, s);
	for (data++, len--; len && rc == SHAKE_MORE; data += n, len -= n) {
		shake_give(&h, out);
		n = shake_wants(&h) < len ? shake_wants(&h) : len;
		n = n > 1 && data[0] & 1 ? n / 2 : n;
		rc = shake_take(&h, data, n, &e);
		if (rc == SHAKE_PROVED)
			shake_answer(&h, (signed char)data[0] <= 0 ? (signed char)data[0] : 0);
		if (!n)
			break;
	}
	shake_wipe(&h);
}

/* What one side says goes to the other, after what the input does to it. */
static int carry(struct shake *from, struct shake *to, const uint8_t *edit, size_t len,
		 size_t *at, int *changed)
{
	unsigned char out[SHAKE_HELLO + SHAKE_PROOF];
	size_t n = shake_give(from, out), i;
	int rc = SHAKE_MORE;
	struct err e;

	for (i = 0; i < n; i++, ++*at)
		if (*at < len && edit[*at]) {
			out[i] ^= edit[*at];
			*changed = 1;
		}
	for (i = 0; i < n && rc == SHAKE_MORE;) {
		size_t take = shake_wants(to);

		take = take < n - i ? take : n - i;
		if (!take)
			break;
		rc = shake_take(to, out + i, take, &e);
		i += take;
	}
	return rc;
}

/* A true conversation, in which byte i is changed by data[i]. */
static void converse(const uint8_t *data, size_t len, const struct secret *s)
{
	struct shake client, server;
	int turn, changed = 0, a = SHAKE_MORE, b = SHAKE_MORE;
	size_t at = 0;

	shake_init(&client, SHAKE_CLIENT, SHAKE_CONTROL, 1, 0, s);
	shake_init(&server, SHAKE_SERVER, SHAKE_CONTROL, 0, SHAKE_NO_RANK, s);
	for (turn = 0; turn < 2; turn++) {
		if (b == SHAKE_MORE)
			b = carry(&client, &server, data, len, &at, &changed);
		if (b == SHAKE_PROVED)
			shake_answer(&server, 0);
		if (a == SHAKE_MORE)
			a = carry(&server, &client, data, len, &at, &changed);
	}
	/* Whoever is sure must be right to be. */
	fuzz_require(changed ? a != SHAKE_DONE : a == SHAKE_DONE && b == SHAKE_PROVED);
	fuzz_require(a != SHAKE_DONE ||
		     !memcmp(client.keys.send, server.keys.recv, sizeof(client.keys.send)));
	shake_wipe(&client);
	shake_wipe(&server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct secret s = { { 1, 2, 3 } };
	static int is_set;

	if (!is_set++ && (randombytes_set_implementation(&repeatable) || sodium_init() < 0))
		abort();
	state = 1;
	if (!len)
		return 0;
	if (data[0] & 1)
		converse(data + 1, len - 1, &s);
	else
		feed(data, len, &s);
	return 0;
}
