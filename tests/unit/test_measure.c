/* test_measure.c - a measurement is plausible, checked, and the same on one rank alone. */
#include <string.h>

#include "base/err.h"
#include "bench/measure.h"
#include "ringup.h"
#include "rounds.h"
#include "tap.h"

enum { SAMPLES = ROUNDS_SANITIZED ? 1 : 4 };

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	(void)ctx;
	memcpy(all, mine, len);
	return 0;
}

static void measure(struct measure *m, const char *name, bool in_place, bool uneven,
		    int members, int calls)
{
	struct task t = { .dtype = RINGUP_F16,
			  .redop = RINGUP_AVERAGE,
			  .in_place = in_place,
			  .uneven = uneven,
			  .members = members };
	struct dose d = { 1, SAMPLES, calls, true };
	double us[SAMPLES] = { 0 }, spent = 0;
	int64_t wrong = -2;
	struct err e = { 0 };
	int i, good = 1;

	task_find(&t, name);
	task_resize(&t, 1000, 1);
	ok(measure_play_all(m, &t, &d, us, &wrong, &spent, &e) == 0 && spent > 0,
	   "%s, %d calls: %s", name, calls, *e.text ? e.text : "measured");
	for (i = 0; i < SAMPLES; i++)
		good &= us[i] > 0;
	ok(good, "%s: %d times", name, SAMPLES);
	ok(wrong == 0, "%s: none wrong", name);
}

int main(void)
{
	struct ringup_init how = { .rank = 0, .size = 1, .exchange = exchange };
	struct measure_options ours = { 0 };
	struct ringup *r = NULL;
	struct measure *m = NULL;
	struct err e = { 0 };
	int i, rc;

	rc = ringup_init(&how, &r);
	ok(rc == 0, "one rank: %s", ringup_error());
	if (!rc)
		rc = measure_open(r, &ours, &m, &e);
	ok(rc == 0, "ready: %s", e.text);
	for (i = 0; !rc && task_names(i); i++) {
		measure(m, task_names(i), false, false, 1, 1);
		measure(m, task_names(i), true, false, 1, 3);
	}
	if (!rc)
		measure_rest(m);
	if (!rc) {
		measure(m, "allreduce", true, false, 1, 1);
		measure(m, "alltoall", false, true, 1, 1);
		measure(m, "allreduce", true, false, 3, 1);
		measure(m, "allgather", false, false, 3, 3);
		measure(m, "reducescatter", false, true, TASK_MEMBERS, 1);
	}
	measure_close(m);
	measure_close(NULL);
	ringup_fini(r);
	return tap_done();
}
