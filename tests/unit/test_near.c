/* test_near.c - slips are recognised, other words are not. */
#include "base/near.h"

#include <string.h>

#include "tap.h"

static const char *const known[] = { "detect", "env", "help", "net", "run", "bench", NULL };

static const char *meant(const char *typed)
{
	struct near n = { 0 };
	int i;

	for (i = 0; known[i]; i++)
		near_offer(&n, typed, known[i]);
	return n.best ? n.best : "";
}

int main(void)
{
	static const char *const table[][2] = {
		{ "detcet", "detect" },
		{ "detec", "detect" },
		{ "DETECT", "detect" },
		{ "rnu", "run" },
		{ "bnech", "bench" },
		{ "hlep", "help" },
		{ "frobnicate", "" },
		{ "", "" },
		{ "x", "" },
		{ "nett", "net" },
	};
	char word[200];
	struct near n = { 0 };
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		ok(!strcmp(meant(table[i][0]), table[i][1]), "'%s' means '%s'", table[i][0],
		   meant(table[i][0]));
	memset(word, 'a', sizeof(word) - 1);
	word[sizeof(word) - 1] = 0;
	near_offer(&n, word, word);
	ok(!n.best, "a word of 199 letters is near nothing");
	word[63] = 0;
	near_offer(&n, word, word);
	ok(n.best == word && n.distance == 0, "one of 63 is near itself");
	return tap_done();
}
