/* test_release.c - version numbers have their order. */
#include "base/release.h"
#include "tap.h"

int main(void)
{
	static const struct {
		const char *a, *b;
		int want;
	} rows[] = {
		{ "2.10", "2.9", 1 },
		{ "2.1", "2.1.0", 0 },
		{ "2.1.0+cu121", "2.1", 0 },
		{ "2.0.1", "2.1", -1 },
		{ "10", "9.9.9", 1 },
		{ "", "0", -1 },
		{ "", "", 0 },
		{ "2.10.0rc1", "2.10", 0 },
		{ "2.2.dev1", "2.2", 0 },
		{ "3.4.30", "3.4.4", 1 },
		{ "9999999999999999999", "1", 1 },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int got = release_compare(rows[i].a, rows[i].b);

		ok((got > 0) - (got < 0) == rows[i].want, "%s against %s", rows[i].a,
		   rows[i].b);
		got = release_compare(rows[i].b, rows[i].a);
		ok((got > 0) - (got < 0) == -rows[i].want, "and turned round");
	}
	return tap_done();
}
