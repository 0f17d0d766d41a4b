/* fuzz_cipher.c - bytes for a cipher: garbage, or a true stream with changes; in any pieces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "launch/cipher.h"
#include "ringup.h"

enum { PIECES = 3, MOST = 4096 };

static const struct secret key = { { 7 } };

static size_t length_of(int i)
{
	return (size_t)(1 + i * 37);
}

static size_t record(unsigned char *out)
{
	unsigned char text[256];
	size_t len = CIPHER_HEAD;
	struct cipher *c;
	int i;

	fuzz_require(!cipher_new(&key, CIPHER_CLIENT, &c, NULL));
	memcpy(out, cipher_head(c), CIPHER_HEAD);
	for (i = 0; i < PIECES; i++) {
		memset(text, 'a' + i, sizeof(text));
		len += cipher_seal(c, out + len, text, length_of(i));
	}
	cipher_free(c);
	return len;
}

/* How many pieces come out of @bytes, of which @step more are there each time. */
static int parse(const unsigned char *bytes, size_t len, size_t step)
{
	unsigned char *text = malloc(CIPHER_TEXT);
	size_t at = 0, there = 0, used;
	int pieces = 0, rc = 0;
	struct cipher *c;

	fuzz_require(text && !cipher_new(&key, CIPHER_SERVER, &c, NULL));
	while (rc >= 0 && there < len) {
		there = len - there < step ? len : there + step;
		do {
			rc = cipher_open(c, bytes + at, there - at, &used, text, NULL);
			fuzz_require(used <= there - at && (rc <= 0 || used));
			at += used;
			if (rc > 0) {
				fuzz_require(pieces < PIECES &&
					     (size_t)rc == length_of(pieces));
				fuzz_require(text[rc - 1] == 'a' + pieces);
				pieces++;
			}
		} while (rc >= 0 && used);
	}
	fuzz_require(rc >= 0 || rc == RINGUP_EAUTH);
	cipher_free(c);
	free(text);
	return pieces;
}

/* First byte even: the rest is what comes.  Odd: byte i of a true stream is changed by data[i].
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	unsigned char bytes[MOST];
	size_t n, i, first = MOST, end = CIPHER_HEAD;
	int want = 0;

	if (!len || len > MOST)
		return 0;
	if (!(data[0] & 1)) {
		fuzz_require(!parse(data + 1, len - 1, MOST));
		return 0;
	}
	n = record(bytes);
	for (i = 0; i < n && i + 1 < len; i++) {
		bytes[i] ^= data[i + 1];
		if (data[i + 1] && first == MOST)
			first = i;
	}
	/* All pieces before the first change, and none from there on. */
	while (first >= CIPHER_HEAD && want < PIECES &&
	       (end += length_of(want) + CIPHER_MORE) <= first)
		want++;
	fuzz_require(parse(bytes, n, MOST) == want && parse(bytes, n, 7) == want);
	return 0;
}
