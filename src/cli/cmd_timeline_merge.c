/* cmd_timeline_merge.c - `ringup timeline merge`: merge the timelines of all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "trace/merge.h"

static const char *output;
static int as_json;

static const struct opt opts[] = {
	{ OPT_STR, 'o', "output", "FILE", &output, "where to write the merged timeline" },
	{ OPT_FLAG, 0, "json", NULL, &as_json,
	  "what was found of the clocks, as one JSON object" },
	{ 0 },
};

static const char *how_text(const struct merge_file *f)
{
	static const char *const texts[] = {
		[MERGE_SAME] = "same",
		[MERGE_ROUNDS] = "operations",
		[MERGE_WALL] = "wall",
	};

	return texts[f->how];
}

static int show_table(const struct merge *m, struct err *e)
{
	static const char *const heads[] = { "RANK",  "HOST",  "EVENTS", "CLOCK",
					     "AHEAD", "DOUBT", NULL };
	struct out_table t;

	out_table_init(&t, heads);
	for (int k = 0; k < m->files; k++) {
		const struct merge_file *f = &m->file[k];

		out_table_cell(&t, OUT_PLAIN, "%d", f->rank);
		out_table_cell(&t, OUT_PLAIN, "%s", *f->host ? f->host : "-");
		out_table_cell(&t, OUT_PLAIN, "%llu", (unsigned long long)f->events);
		out_table_cell(&t, f->how == MERGE_WALL ? OUT_WARN : OUT_PLAIN, "%s",
			       how_text(f));
		if (f->how == MERGE_SAME)
			out_table_cell(&t, OUT_PLAIN, "-");
		else
			out_table_cell(&t, OUT_PLAIN, "%.1f us", f->ahead_us);
		if (f->how == MERGE_ROUNDS)
			out_table_cell(&t, OUT_PLAIN, "%.1f us", f->doubt_us);
		else
			out_table_cell(&t, OUT_PLAIN, "-");
	}
	return out_table_print(&t, e);
}

static int show_json(const struct merge *m, struct err *e)
{
	json_t *files = json_array();

	for (int k = 0; k < m->files; k++) {
		const struct merge_file *f = &m->file[k];

		json_array_append_new(files,
				      json_pack("{s:o, s:i, s:o, s:I, s:b, s:s, s:f, s:f}",
						"path", out_string(f->path), "rank", f->rank,
						"host", out_string_or_null(f->host), "events",
						(json_int_t)f->events, "cut", f->cut, "clock",
						how_text(f), "ahead_us", f->ahead_us,
						"doubt_us", f->doubt_us));
	}
	return out_json(
		json_pack("{s:I, s:o}", "events", (json_int_t)m->events, "files", files), e);
}

static void warn_of(const struct merge *m)
{
	for (int k = 0; k < m->files; k++) {
		const struct merge_file *f = &m->file[k];

		if (f->cut)
			out_note("%s: its end is missing; what is there is used\n", f->path);
		if (f->how == MERGE_WALL)
			out_note("%s: placed by the wall clock of %s, for want of operations "
				 "that "
				 "agree; record with RINGUP_TIMELINE_ALL=1\n",
				 f->path, *f->host ? f->host : "its host");
	}
}

static int cmd_timeline_merge_run(int argc, char **argv, struct err *e)
{
	struct merge m;
	int rc;

	if (!output || !*output)
		return cmd_misuse(e, "where to? -o FILE says it");
	rc = merge_read(&m, (const char *const *)argv, argc, e);
	if (!rc)
		rc = merge_write(&m, output, e);
	if (!rc) {
		warn_of(&m);
		rc = as_json ? show_json(&m, e) : show_table(&m, e);
	}
	merge_free(&m);
	return rc;
}

const struct cmd cmd_timeline_merge = {
	.name = "merge",
	.operands = "FILE...",
	.summary = "merge the timelines of several ranks, on one clock",
	.examples = "ringup timeline merge -o all.json t.json.*",
	.opts = opts,
	.min = 1,
	.max = -1,
	.run = cmd_timeline_merge_run,
};
