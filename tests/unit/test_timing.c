/* test_timing.c - as many samples as are asked for, or as the time allows. */
#include <string.h>

#include "base/err.h"
#include "bench/measure.h"
#include "bench/timing.h"
#include "ringup.h"
#include "tap.h"

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	(void)ctx;
	memcpy(all, mine, len);
	return 0;
}

static void take(struct measure *m, const char *name, uint64_t bytes, struct timing_options how)
{
	struct task t = { .dtype = RINGUP_F32 };
	struct timing x = { 0 };
	struct err e = { 0 };

	task_find(&t, name);
	task_resize(&t, bytes, 1);
	ok(!timing_take(m, &t, &how, &x, &e), "%s, %llu bytes: %s", name,
	   (unsigned long long)bytes, e.text);
	ok(x.least > 0 && x.least <= x.median && x.median <= x.most, "the median is between");
	ok(x.wrong == (how.check ? 0 : -1), "no element is wrong, or none was compared");
	if (how.samples)
		ok(x.samples == how.samples, "%d samples", x.samples);
	else
		ok(x.samples >= 9, "%d samples, not fewer than three blocks", x.samples);
	ok(bytes < 256 << 10 ? x.calls >= 1 : x.calls == 1, "%d calls a sample", x.calls);
}

int main(void)
{
	struct ringup_init how = { .rank = 0, .size = 1, .exchange = exchange };
	struct measure_options ours = { 0 };
	struct ringup *r = NULL;
	struct measure *m = NULL;
	struct err e = { 0 };
	int rc = ringup_init(&how, &r);

	ok(!rc, "one rank: %s", ringup_error());
	if (!rc)
		rc = measure_open(r, &ours, &m, &e);
	ok(!rc, "ready: %s", e.text);
	if (!rc) {
		take(m, "allreduce", 8, (struct timing_options){ .samples = 1, .check = true });
		take(m, "allreduce", 8, (struct timing_options){ .samples = 40 });
		take(m, "allgather", 1 << 20,
		     (struct timing_options){ .samples = 17, .check = true });
		take(m, "broadcast", 1 << 10, (struct timing_options){ .seconds = 0 });
		take(m, "barrier", 0, (struct timing_options){ .seconds = 0.01 });
	}
	measure_close(m);
	ringup_fini(r);
	return tap_done();
}
