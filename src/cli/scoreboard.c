/* scoreboard.c - the results of a contest as a table, or as lines of JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scoreboard.h"

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
static double task_algbw(const struct task *t, const struct contest_score *s)
{
	return (double)t->bytes / s->median / 1e3;
}

/* -- JSON ----------------------------------------------------------------- */

static json_t *wrong_json(int64_t wrong)
{
	return wrong < 0 ? json_null() : json_integer((json_int_t)wrong);
}

static json_t *peers_json(const struct scoreboard *s, const struct contest_result *r)
{
	json_t *list = json_array();

	for (int i = 1; i < s->count; i++) {
		const struct contest_score *x = &r->score[i];

		if (!x->played)
			continue;
		json_array_append_new(
			list, json_pack("{ss sf sf sf sf sf sf si so}", "name",
					s->players[i].name, "us", x->median, "min_us", x->least,
					"max_us", x->most, "ratio", x->ratio, "ratio_low",
					x->ratio_low, "ratio_high", x->ratio_high, "samples",
					x->samples, "wrong", wrong_json(x->wrong)));
	}
	return list;
}

static json_t *place_json(const struct contest_result *r)
{
	return r->place == PLACEMENT_UNKNOWN ? json_null()
					     : json_string(placement_name(r->place));
}

json_t *scoreboard_json(const struct scoreboard *s, const struct task *t,
			const struct contest_result *r)
{
	const struct contest_score *x = &r->score[0];
	double bw = task_algbw(t, x);

	return json_pack(
		"{ss ss ss sb sb si sb ss sI sI si si si so so sf sf sf sf sf si si so so}",
		"collective", task_name(t), "dtype", dtype_of(t), "op", op_of(t), "in_place",
		t->in_place, "uneven", t->uneven, "members", task_members(t), "alloc",
		s->shared, "backend", s->backend, "bytes", (json_int_t)t->bytes, "count",
		(json_int_t)t->count, "ranks", s->ranks, "nodes", s->nodes, "groups", s->groups,
		"place", place_json(r), "hop_ns",
		r->hop_ns < 0 ? json_null() : json_real(r->hop_ns), "us", x->median, "min_us",
		x->least, "max_us", x->most, "algbw_gbs", bw, "busbw_gbs",
		bw * task_share(t, s->group_ranks), "samples", x->samples, "calls", x->calls,
		"wrong", wrong_json(x->wrong), "peers", peers_json(s, r));
}

static int scoreboard_print_json(const struct scoreboard *s, const struct task *t,
				 const struct contest_result *r, struct err *e)
{
	json_t *row = scoreboard_json(s, t, r);
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

static void print_about(const struct scoreboard *s)
{
	for (int i = 1; i < s->count; i++)
		out_look(OUT_DIM, "%s: %s\n", s->players[i].name, s->players[i].about);
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
	print_about(s);
	out_look(OUT_BOLD, "%9s %11s %5s %8s %6s %6s", "SIZE", "COUNT", "TYPE", "OP", "BUFFER",
		 "PLACE");
	if (s->count == 1)
		out_look(OUT_BOLD, " %9s %9s %9s %8s", "MIN", "MEDIAN", "MAX", "ALGBW");
	else
		out_look(OUT_BOLD, " %9s", "MEDIAN");
	out_look(OUT_BOLD, " %8s %6s", "BUSBW", "WRONG");
	for (int i = 1; i < s->count; i++)
		out_look(OUT_BOLD, "  %13s %7s %13s", s->players[i].name, "RATIO", "QUARTILES");
	out_text("\n");
	return out_end(e);
}

static void print_times(const struct scoreboard *s, const struct task *t,
			const struct contest_score *x)
{
	char least[32], median[32], most[32], wrong[32] = "-";
	double bw = task_algbw(t, x);

	time_text(x->least, least, sizeof(least));
	time_text(x->median, median, sizeof(median));
	time_text(x->most, most, sizeof(most));
	if (x->wrong >= 0)
		snprintf(wrong, sizeof(wrong), "%lld", (long long)x->wrong);
	if (s->count == 1)
		out_text(" %9s %9s %9s %8.2f", least, median, most, bw);
	else
		out_text(" %9s", median);
	out_text(" %8.2f ", bw * task_share(t, s->group_ranks));
	out_look(x->wrong > 0 ? OUT_BAD : OUT_PLAIN, "%6s", wrong);
}

static void print_peer(const struct contest_score *x)
{
	char us[32], quartiles[40], wrong[32];

	if (!x->played) {
		out_text("  %13s %7s %13s", "-", "-", "-");
		return;
	}
	time_text(x->median, us, sizeof(us));
	out_text("  %13s ", us);
	if (x->wrong > 0) {
		/* The speed of a wrong result means nothing. */
		snprintf(wrong, sizeof(wrong), "%lld", (long long)x->wrong);
		out_look(OUT_BAD, "%7s %13s", "WRONG", wrong);
		return;
	}
	snprintf(quartiles, sizeof(quartiles), "%.2f-%.2f", x->ratio_low, x->ratio_high);
	out_look(x->ratio_low > 1    ? OUT_GOOD
		 : x->ratio_high < 1 ? OUT_BAD
				     : OUT_WARN,
		 "%7.2f", x->ratio);
	out_look(OUT_DIM, " %13s", quartiles);
}

static void print_row(const struct scoreboard *s, const struct task *t,
		      const struct contest_result *r)
{
	char size[32];

	size_text(t->bytes, size, sizeof(size));
	out_text("%9s %11llu %5s %8s %6s %6s", size, (unsigned long long)t->count, dtype_of(t),
		 op_of(t), t->in_place ? "in" : "out", placement_name(r->place));
	print_times(s, t, &r->score[0]);
	for (int i = 1; i < s->count; i++)
		print_peer(&r->score[i]);
	out_text("\n");
}

int scoreboard_row(const struct scoreboard *s, const struct task *t,
		   const struct contest_result *r, struct err *e)
{
	int rc = 0;

	if (s->json)
		rc = scoreboard_print_json(s, t, r, e);
	else
		print_row(s, t, r);
	return rc ? rc : out_end(e);
}
