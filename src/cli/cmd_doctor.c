/* cmd_doctor.c - `ringup doctor`: the health of this node on one page. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "doctor/doctor.h"

static int as_json, as_report, check_build, no_import;
static const char *python;
static const char *root;

static const struct opt opts[] = {
	{ OPT_FLAG, 'b', "check-build", NULL, &check_build,
	  "list what each engine supports, as `horovodrun --check-build` does" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_FLAG, 0, "no-import", NULL, &no_import, "import no framework" },
	{ OPT_STR, 'p', "python", "P", &python, "check only this Python or environment" },
	{ OPT_FLAG, 0, "report", NULL, &as_report,
	  "print a report to paste into an issue: versions, settings and findings, no "
	  "secrets" },
	{ OPT_STR, 'r', "root", "DIR", &root, "check the tree below this folder" },
	{ 0 },
};

enum { SECTION_WIDTH = 12 };

static void print_more(const char *head, const char *words)
{
	if (*words)
		out_text("%*s      %s%s\n", SECTION_WIDTH, "", head, words);
}

static void print_finding(const json_t *f, const char *before)
{
	const char *state = jsonio_string(f, "state"), *section = jsonio_string(f, "section");

	out_look(OUT_BOLD, "%-*s", SECTION_WIDTH, strcmp(section, before) ? section : "");
	out_look(!strcmp(state, "good")  ? OUT_GOOD
		 : !strcmp(state, "bad") ? OUT_BAD
					 : OUT_WARN,
		 "%-4s  ", state);
	out_text("%s\n", jsonio_string(f, "text"));
	print_more("why: ", jsonio_string(f, "why"));
	print_more("fix: ", jsonio_string(f, "todo"));
}

static int print_page(const json_t *report)
{
	const json_t *list = json_object_get(report, "findings");
	const char *before = "";
	json_t *f;
	size_t i;
	int bad = 0;

	json_array_foreach(list, i, f) {
		print_finding(f, before);
		before = jsonio_string(f, "section");
		bad += !strcmp(jsonio_string(f, "state"), "bad");
	}
	out_text("\n");
	if (bad)
		out_look(OUT_BAD, "%d problem%s\n", bad, bad == 1 ? "" : "s");
	else
		out_look(OUT_GOOD, "healthy\n");
	return bad ? CMD_NO : CMD_YES;
}

/* A code block, which forums and issue trackers do not reformat. */
static int print_report(const json_t *report)
{
	json_t *o;
	size_t i;
	int answer;

	out_text("```\n");
	json_array_foreach(json_object_get(report, "brief"), i, o)
		out_text("%-*s%s\n", SECTION_WIDTH, jsonio_string(o, "title"),
			 jsonio_string(o, "text"));
	out_text("\n");
	answer = print_page(report);
	out_text("```\n");
	return answer;
}

static void print_answers(const char *title, json_t *answers)
{
	const char *name;
	json_t *v;

	out_text("\n%s:\n", title);
	json_object_foreach(answers, name, v)
		out_text("    [%s] %s\n",
			 json_is_true(v)    ? "X"
			 : json_is_false(v) ? " "
					    : "?",
			 name);
}

static int print_builds(const json_t *report)
{
	const json_t *list = json_object_get(report, "horovod");
	json_t *o;
	size_t i;

	json_array_foreach(list, i, o) {
		out_look(OUT_BOLD, "%s%s %s", i ? "\n" : "", jsonio_string(o, "engine"),
			 jsonio_string(o, "version"));
		out_text(" for %s\n", jsonio_string(o, "python"));
		print_answers("Available Frameworks", json_object_get(o, "frameworks"));
		print_answers("Available Controllers", json_object_get(o, "controllers"));
		print_answers("Available Tensor Operations", json_object_get(o, "operations"));
	}
	if (!json_array_size(list))
		out_text("no Python here has ringup or Horovod; `ringup rebuild` installs "
			 "one\n");
	return json_array_size(list) ? CMD_YES : CMD_NO;
}

static void progress(const char *what)
{
	fprintf(stderr, "\r\033[K%s", what ? what : "");
	fflush(stderr);
}

static int cmd_doctor_run(int argc, char **argv, struct err *e)
{
	const struct doctor_how how = { .root = root ? root : cmd_conf()->root,
					.python = python ? python : cmd_conf()->python,
					.conf = cmd_conf(),
					.brief = as_report,
					.imports = !no_import && !check_build,
					.progress = isatty(STDERR_FILENO) ? progress : NULL };
	json_t *report;
	int rc, answer;

	(void)argc;
	(void)argv;
	rc = doctor_examine(&how, &report, e);
	if (rc)
		return rc;
	if (as_json) {
		answer = json_is_true(json_object_get(report, "healthy")) ? CMD_YES : CMD_NO;
		rc = out_json(report, e);
		return rc ? rc : answer;
	}
	answer = check_build ? print_builds(report)
		 : as_report ? print_report(report)
			     : print_page(report);
	json_decref(report);
	return answer;
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.operands = "",
	.summary = "check whether this node is ready for training",
	.examples = "ringup doctor\n"
		    "ringup doctor --report >report.md\n"
		    "ringup doctor --check-build --python /databricks/python3",
	.opts = opts,
	.run = cmd_doctor_run,
};
