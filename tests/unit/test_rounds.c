/* test_rounds.c - each meets every other once, and nobody two at a time. */
#include "probe/rounds.h"

#include <string.h>

#include "tap.h"

enum { MOST = 65 };

static bool is_right(int n)
{
	static int met[MOST][MOST];
	bool busy[MOST];
	int round, k, a, b, pairs = 0;

	memset(met, 0, sizeof(met));
	for (round = 0; round < rounds_count(n); round++) {
		memset(busy, 0, sizeof(busy));
		for (k = 0; k < (n + 1) / 2; k++) {
			if (!rounds_pair(n, round, k, &a, &b))
				continue;
			if (a < 0 || a >= b || b >= n || busy[a] || busy[b] || met[a][b]++)
				return false;
			busy[a] = busy[b] = true;
			pairs++;
		}
	}
	return pairs == n * (n - 1) / 2;
}

int main(void)
{
	int n, right = 0;

	for (n = 2; n <= MOST; n++)
		right += is_right(n);
	ok(right == MOST - 1, "from 2 to %d nodes", MOST);
	ok(rounds_count(16) == 15 && rounds_count(5) == 5 && rounds_count(1) == 0,
	   "as many rounds as there have to be");
	return tap_done();
}
