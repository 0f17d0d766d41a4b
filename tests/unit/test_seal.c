/* test_seal.c - only who knows the secret asks and answers. */
#include "probe/seal.h"

#include <string.h>

#include "tap.h"

int main(void)
{
	struct secret s = { { 1, 2, 3 } }, t = { { 1, 2, 4 } };
	unsigned char packet[SEAL_BYTES], copy[SEAL_BYTES];
	struct seal_key key, other;
	struct seal q, r, a;
	int i, bit, taken = 0;

	seal_derive(&key, &s);
	seal_derive(&other, &t);
	seal_ask(&q, 3, 5);
	seal_ask(&r, 3, 5);
	seal_write(packet, &q, &key);
	ok(seal_read(&a, SEAL_QUESTION, packet, &key) && a.from == 3 && a.to == 5,
	   "a question arrives");
	ok(!seal_read(&a, SEAL_ANSWER, packet, &key), "but not as an answer");
	ok(!seal_read(&a, SEAL_QUESTION, packet, &other), "nor with another secret");
	for (i = 0; i < SEAL_BYTES; i++)
		for (bit = 0; bit < 8; bit++) {
			memcpy(copy, packet, sizeof(copy));
			copy[i] ^= (unsigned char)(1 << bit);
			taken += seal_read(&a, SEAL_QUESTION, copy, &key);
		}
	ok(taken == 0, "nor with any bit changed");
	a = q;
	a.what = SEAL_ANSWER;
	a.from = 5;
	a.to = 3;
	a.size = 1472;
	seal_write(packet, &a, &key);
	memset(&a, 0, sizeof(a));
	ok(seal_read(&a, SEAL_ANSWER, packet, &key) && a.size == 1472 && seal_answers(&a, &q),
	   "the answer belongs to its question");
	ok(!seal_answers(&a, &r), "and to no other");
	return tap_done();
}
