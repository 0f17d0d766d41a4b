/* test_contest.c - turns, ratios and refusals, with players whose times are known. */
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "bench/contest.h"
#include "tap.h"

/* Takes @us for a call, in every third turn four times that; and @cold times that in the first
 * turn and in the first sample of any. */
struct fake {
	double us, cold;
	bool jumps;
	int fails_at; /* which call of play fails; 0: none */
	const char *cannot;
	int64_t wrong;
	int plays, samples, calls;
};

static int play(void *self, const struct task *t, const struct dose *d, double *us,
		int64_t *wrong, struct err *e)
{
	struct fake *f = self;
	int i;

	(void)t;
	f->plays++;
	f->samples += d->samples;
	f->calls = d->calls;
	if (f->cannot) {
		fail(e, -1, "%s", f->cannot);
		return 1;
	}
	if (f->plays == f->fails_at)
		return fail(e, -5, "broken");
	for (i = 0; i < d->samples; i++)
		us[i] = f->us * (f->jumps && f->plays % 3 == 0 ? 4 : 1) *
			(f->cold && (f->plays == 1 || !i) ? f->cold : 1);
	*wrong = f->wrong;
	return 0;
}

static int run_bytes(uint64_t bytes, struct fake *f, int count, int samples,
		     struct contest_result *r, struct err *e)
{
	struct player p[3];
	struct task t = { .dtype = RINGUP_F32 };
	struct contest c = { p, count, &t, NULL, samples, 0.1, 200, true, NULL, NULL };
	int i, n = 0, rc;

	task_find(&t, "allreduce");
	task_resize(&t, bytes, 2);
	for (i = 0; i < count; i++)
		p[i] = (struct player){ .name = "p", .play = play, .self = &f[i] };
	rc = contest_run(&c, r, &n, e);
	return rc ? rc : n;
}

static int run(struct fake *f, int count, int samples, struct contest_result *r, struct err *e)
{
	return run_bytes(1 << 20, f, count, samples, r, e);
}

/* How many calls make a sample, whatever the first ones were like. */
static void test_calls(struct err *e)
{
	struct fake cold[] = { { .us = 10, .cold = 100 } };
	struct fake fast[] = { { .us = 0.1, .cold = 5 } };
	struct fake late[] = { { .us = 300 }, { .us = 36000 } };
	struct contest_result r[PLACEMENT_KINDS];

	ok(run_bytes(8, cold, 1, 3, r, e) == 1 && r[0].score[0].calls == 20,
	   "a cold start does not count: %d calls", r[0].score[0].calls);
	ok(run_bytes(8, fast, 1, 3, r, e) == 1 && r[0].score[0].calls >= 500 &&
		   r[0].score[0].calls <= 1000,
	   "the fast, many: %d", r[0].score[0].calls);
	ok(run_bytes(8, late, 2, 3, r, e) == 1 && r[0].score[0].calls == 8,
	   "several, though one takes long enough: %d", r[0].score[0].calls);
	ok(r[0].score[1].calls == 1, "but not those that would take a second: %d",
	   r[0].score[1].calls);
}

int main(void)
{
	struct contest_result r[PLACEMENT_KINDS];
	struct err e = { 0 };
	struct fake three[] = { { .us = 100 }, { .us = 300, .wrong = -1 }, { .cannot = "no" } };
	struct fake broken[] = { { .us = 100 }, { .us = 100, .fails_at = 4 } };
	struct fake few[] = { { .us = 100, .wrong = 2 } };
	struct fake jumpy[] = { { .us = 100 }, { .us = 200, .jumps = true } };

	log_set_level("error", &e);
	ok(run(three, 3, 0, r, &e) == 1, "one result: %s", e.text);
	ok(r[0].place == PLACEMENT_UNKNOWN && r[0].hop_ns < 0, "no probe, no placement");
	ok(r[0].score[0].median == 100 && r[0].score[0].ratio == 1, "the first is the measure");
	ok(r[0].score[1].median == 300 && r[0].score[1].ratio == 3 &&
		   r[0].score[1].ratio_low == 3 && r[0].score[1].ratio_high == 3,
	   "the other takes three times as long");
	ok(r[0].score[0].wrong == 0 && r[0].score[1].wrong == -1, "looked, and did not look");
	ok(!r[0].score[2].played && three[2].plays == 1, "who cannot is asked once");
	ok(three[0].calls == 1, "a large call is a sample");
	ok(r[0].turns >= 3 && three[0].plays >= r[0].turns && three[1].plays == three[0].plays,
	   "%d turns, the same for both", r[0].turns);

	ok(run(few, 1, 40, r, &e) == 1 && r[0].score[0].samples >= 40 &&
		   r[0].score[0].samples < 56,
	   "as many samples as asked for: %d", r[0].score[0].samples);
	ok(r[0].score[0].wrong == 2L * few[0].plays, "what is wrong adds up");
	few[0].us = 0.5;
	ok(run(jumpy, 2, 160, r, &e) == 1 && r[0].score[1].ratio == 2 &&
		   r[0].score[1].ratio_high > 2 && r[0].score[1].most == 800,
	   "a median, and how far it strays");
	ok(run(broken, 2, 0, r, &e) == -5 && strstr(e.text, "broken"), "a failure: %s", e.text);
	three[0].cannot = "not I";
	ok(run(three, 3, 0, r, &e) < 0 && strstr(e.text, "not I"), "without the first: %s",
	   e.text);
	test_calls(&e);
	return tap_done();
}
