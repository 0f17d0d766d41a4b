/* cmd_timeline_merge.c - `ringup timeline merge`: merge the timelines of all ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "base/argv.h"
#include "base/data.h"
#include "base/err.h"
#include "cli/cmd.h"

static const char *output;
static int as_json;

static const struct opt opts[] = {
	{ OPT_STR, 'o', "output", "FILE", &output, "write the merged timeline to FILE" },
	{ OPT_FLAG, 0, "json", NULL, &as_json, "print the clock offsets as one JSON object" },
	{ 0 },
};

/* Becomes the Python that merges; returns if that fails. */
static int cmd_timeline_merge_run(int argc, char **argv, struct err *e)
{
	struct argv words = { 0 };
	char script[PATH_MAX];
	char *const *list;

	if (!output || !*output)
		return cmd_misuse(e, "no output file: name it with -o FILE");
	if (data_find(script, "compat/python/ringup/merge.py", e))
		return e->code;
	argv_put(&words, "python3", "-I", script, NULL);
	if (as_json)
		argv_put(&words, "--json", NULL);
	argv_put(&words, "--", output, NULL);
	for (int i = 0; i < argc; i++)
		argv_put(&words, argv[i], NULL);
	list = argv_words(&words, e);
	fflush(stdout);
	if (list) {
		execvp(list[0], list);
		fail_os(e, "python3");
	}
	argv_free(&words);
	return e->code;
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
