/* test_measure.c - a measurement is plausible, checked, and the same on one rank alone. */
#include <string.h>

#include "base/err.h"
#include "bench/measure.h"
#include "ringup.h"
#include "tap.h"

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	(void)ctx;
	memcpy(all, mine, len);
	return 0;
}

static void names(void)
{
	int i;

	for (i = 0; i <= MEASURE_BARRIER; i++)
		ok(measure_find(measure_name((enum measure_what)i)) == i, "%s",
		   measure_name((enum measure_what)i));
	ok(measure_find("alltoall") < 0 && measure_find("") < 0, "nothing else");
}

int main(void)
{
	struct ringup_init how = { .rank = 0, .size = 1, .exchange = exchange };
	struct ringup *r = NULL;
	struct measured t;
	struct err e = { 0 };
	int i, rc;

	names();
	rc = ringup_init(&how, &r);
	ok(rc == 0, "one rank: %s", ringup_error());
	for (i = 0; !rc && i <= MEASURE_BARRIER; i++) {
		struct measure m = {
			(enum measure_what)i, RINGUP_F16, RINGUP_AVERAGE, 1000, 7, true,
		};
		const char *name = measure_name(m.what);

		rc = measure_run(r, &m, &t, &e);
		ok(rc == 0, "%s: %s", name, rc ? e.text : "measured");
		ok(t.wrong == 0 && t.samples == 7 && t.calls >= 1, "%s: 7 samples, none wrong",
		   name);
		ok(t.min > 0 && t.min <= t.median && t.median <= t.max, "%s: times in order",
		   name);
		ok(i == MEASURE_BARRIER ? t.bytes == 0 && t.algbw == 0
					: t.bytes == 1000 && t.count == 500 && t.algbw > 0,
		   "%s: %llu bytes", name, (unsigned long long)t.bytes);
	}
	ringup_fini(r);
	return tap_done();
}
