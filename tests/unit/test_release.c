/* test_release.c - version numbers have their order. */
#include "base/release.h"
#include "tap.h"

static void test_within(void)
{
	static const struct {
		const char *v, *min, *max;
		bool want;
	} rows[] = {
		{ "2.15.1", "2.15", "2.15", true },
		{ "2.150", "2.15", "2.15", false },
		{ "2.15", "2.15.1", "-", false },
		{ "2.6.0+cu126", "2.6", "2.6", true },
		{ "2.10", "2.2", "2.9", false },
		{ "1.13.0a0+gitunknown", "-", "1.13", true },
		{ "12.4.1", "12.4", "12.5", true },
		{ "12.6", "12.4", "12.5", false },
		{ "3", "3.0", "3.0", true },
		{ "12", "-", "-", true },
		{ "", "-", "-", true },
		{ "", "1", "-", false },
		{ "", "-", "1", false },
		{ "4.8.5", "4.8", "4", true },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ok(release_within(rows[i].v, rows[i].min, rows[i].max) == rows[i].want,
		   "'%s' from %s to %s", rows[i].v, rows[i].min, rows[i].max);
}

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
	test_within();
	return tap_done();
}
