/* test_hash.c - names get different hashes, well spread. */
#include <string.h>

#include "base/hash.h"
#include "tap.h"

enum { NAMES = 20000, BUCKETS = 1024 };

static uint64_t seen[NAMES];

int main(void)
{
	static int bucket[BUCKETS];
	char name[64], shifted[72];
	int i, k, twice = 0, fullest = 0, moved = 0;

	for (i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "module.layer%d.%d.weight", i / 100, i % 100);
		seen[i] = hash_bytes(name, strlen(name));
		for (k = i > 200 ? i - 200 : 0; k < i; k++)
			twice += seen[k] == seen[i];
		if (++bucket[seen[i] % BUCKETS] > fullest)
			fullest = bucket[seen[i] % BUCKETS];
		memcpy(shifted + i % 8, name, sizeof(name));
		moved += hash_bytes(shifted + i % 8, strlen(name)) != seen[i];
	}
	ok(!twice, "neighbours differ");
	ok(fullest < 3 * NAMES / BUCKETS, "no bucket is crowded: %d of %d on average", fullest,
	   NAMES / BUCKETS);
	ok(!moved, "alignment makes no difference");
	ok(hash_bytes("", 0) != hash_bytes("\0", 1) &&
		   hash_bytes("a", 1) != hash_bytes("a\0", 2),
	   "nor do NULs go unnoticed");
	return tap_done();
}
