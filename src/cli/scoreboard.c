/* scoreboard.c - results of a benchmark as a table, or as lines of JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scoreboard.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/out.h"
#include "coll/reduce.h"
#include "ringup.h"

/* "none" if it does not apply, as readers of such tables expect. */
static const char *op_of(const struct task *t)
{
	return task_combines(t) ? reduce_redop_name(t->redop) : "none";
}

static const char *dtype_of(const struct task *t)
{
	return t->what == TASK_BARRIER ? "none" : reduce_dtype_name(t->dtype);
}

/* 10^9 bytes a second. */
static double task_algbw(const struct task *t, const struct timing *s)
{
	return (double)t->bytes / s->median / 1e3;
}

/* -- JSON ----------------------------------------------------------------- */

static json_t *row_json(const struct scoreboard *s, const struct task *t,
			const struct timing *x)
{
	double bw = task_algbw(t, x);

	return json_pack("{ss ss ss sb sb si sb ss sI sI si si si sf sf sf sf sf si si so}",
			 "collective", task_name(t), "dtype", dtype_of(t), "op", op_of(t),
			 "in_place", t->in_place, "uneven", t->uneven, "members",
			 task_members(t), "alloc", s->shared, "backend", s->backend, "bytes",
			 (json_int_t)t->bytes, "count", (json_int_t)t->count, "ranks", s->ranks,
			 "nodes", s->nodes, "groups", s->groups, "us", x->median, "min_us",
			 x->least, "max_us", x->most, "algbw_gbs", bw, "busbw_gbs",
			 bw * task_share(t, s->group_ranks), "samples", x->samples, "calls",
			 x->calls, "wrong",
			 x->wrong < 0 ? json_null() : json_integer((json_int_t)x->wrong));
}

static int scoreboard_print_json(const struct scoreboard *s, const struct task *t,
				 const struct timing *x, struct err *e)
{
	json_t *row = row_json(s, t, x);
	char *text = row ? json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;

	json_decref(row);
	if (!text)
		return fail(e, RINGUP_ENOMEM, "no memory for a line of JSON");
	out_text("%s\n", text);
	free(text);
	return 0;
}

/* -- text ----------------------------------------------------------------- */

/* "512K" if that is exact. */
static void size_text(uint64_t bytes, char *out, size_t size)
{
	static const char units[] = "\0KMG";
	int unit = 0;

	while (unit < 3 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(out, size, "%llu%c", (unsigned long long)bytes, units[unit]);
}

/* Four significant digits, without an exponent. */
static void time_text(double us, char *out, size_t size)
{
	snprintf(out, size,
		 us < 10     ? "%.3f"
		 : us < 100  ? "%.2f"
		 : us < 1000 ? "%.1f"
			     : "%.0f",
		 us);
}

int scoreboard_head(const struct scoreboard *s, const struct task *t, struct err *e)
{
	char form[TASK_FORM];

	if (s->json)
		return 0;
	task_form(t, form);
	out_text("%s, %d ranks on %d node%s%s", task_name(t), s->ranks, s->nodes,
		 s->nodes == 1 ? "" : "s", form);
	if (s->groups > 1)
		out_text(", in %d groups", s->groups);
	if (s->shared)
		out_text(", buffers of ringup_alloc()");
	out_text(", back end %s; times in us of the slowest rank\n", s->backend);
	out_look(OUT_BOLD, "%9s %11s %5s %8s %6s %9s %9s %9s %8s %8s %6s", "SIZE", "COUNT",
		 "TYPE", "OP", "BUFFER", "MIN", "MEDIAN", "MAX", "ALGBW", "BUSBW", "WRONG");
	out_text("\n");
	return out_end(e);
}

static void print_row(const struct scoreboard *s, const struct task *t, const struct timing *x)
{
	char size[32], least[32], median[32], most[32], wrong[32] = "-";
	double bw = task_algbw(t, x);

	size_text(t->bytes, size, sizeof(size));
	time_text(x->least, least, sizeof(least));
	time_text(x->median, median, sizeof(median));
	time_text(x->most, most, sizeof(most));
	if (x->wrong >= 0)
		snprintf(wrong, sizeof(wrong), "%lld", (long long)x->wrong);
	out_text("%9s %11llu %5s %8s %6s %9s %9s %9s %8.2f %8.2f ", size,
		 (unsigned long long)t->count, dtype_of(t), op_of(t),
		 t->in_place ? "in" : "out", least, median, most, bw,
		 bw * task_share(t, s->group_ranks));
	out_look(x->wrong > 0 ? OUT_BAD : OUT_PLAIN, "%6s", wrong);
	out_text("\n");
}

int scoreboard_row(const struct scoreboard *s, const struct task *t, const struct timing *x,
		   struct err *e)
{
	int rc = 0;

	if (s->json)
		rc = scoreboard_print_json(s, t, x, e);
	else
		print_row(s, t, x);
	return rc ? rc : out_end(e);
}
