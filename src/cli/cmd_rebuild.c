/* cmd_rebuild.c - `ringup rebuild`: build an engine for the installed software and test it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "rebuild/buildplan.h"
#include "rebuild/cache.h"
#include "rebuild/job.h"
#include "rebuild/rebuild.h"

static int as_json, dry_run, undo, offline, without_mpi, jobs, minutes = 60;
static const char *engine = "ringup", *python, *source, *cache_dir;
static struct opt_list frameworks, accepted;

static const struct opt opts[] = {
	{ OPT_LIST, 'a', "accept", "ID", &accepted,
	  "accept this advisory, such as CVE-2024-10190; may be repeated" },
	{ OPT_STR, 'c', "cache", "DIR", &cache_dir,
	  "share builds with other nodes through this folder" },
	{ OPT_FLAG, 'n', "dry-run", NULL, &dry_run, "show the steps without running them" },
	{ OPT_STR, 'e', "engine", "ENGINE", &engine, "ringup or horovod (ringup)" },
	{ OPT_LIST, 'f', "for", "FRAMEWORK", &frameworks,
	  "torch, tensorflow, jax or mxnet; may be repeated (all that are installed)" },
	{ OPT_INT, 0, "jobs", "N", &jobs,
	  "number of parallel compilers (as processors and memory allow)" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_FLAG, 'o', "offline", NULL, &offline, "do not use the network" },
	{ OPT_STR, 'p', "python", "P", &python, "rebuild for this Python or environment" },
	{ OPT_STR, 's', "source", "PATH", &source,
	  "take the sources from a release file or folder, not from pip" },
	{ OPT_INT, 't', "timeout", "MINUTES", &minutes, "stop a build after this time (@)" },
	{ OPT_FLAG, 'u', "undo", NULL, &undo, "restore the previous state" },
	{ OPT_FLAG, 0, "without-mpi", NULL, &without_mpi,
	  "leave MPI out, even if it is installed" },
	{ 0 },
};

/* Progress: a live line on a terminal, else a line for each step. */

struct progress {
	int64_t since;
	char what[160];
	bool is_live;
};

static void show_step(void *arg, const char *what, int done, int of)
{
	struct progress *p = arg;
	int seconds = (int)((clock_ns() - p->since) / 1000000000);

	if (p->is_live) {
		if (of)
			fprintf(stderr, "\r\033[K%3d s  %3d %%  %.100s", seconds, done, what);
		else
			fprintf(stderr, "\r\033[K%3d s         %.100s", seconds, what);
		fflush(stderr);
		return;
	}
	/* A log does not need a line for each source; "compile" is one step. */
	if (of)
		what = "compile";
	if (strcmp(p->what, what) != 0)
		out_note("%3d s  %s\n", seconds, what);
	snprintf(p->what, sizeof(p->what), "%s", what);
}

static void end_progress(const struct progress *p)
{
	if (p->is_live)
		fputs("\r\033[K", stderr);
}

/* Output. */

static void print_proofs(const json_t *proofs)
{
	const json_t *one;
	size_t i;

	json_array_foreach(proofs, i, one) {
		const char *error = jsonio_string(one, "error");

		out_look(*error ? OUT_BAD : OUT_GOOD, "%s", *error ? "not proved" : "proved");
		out_text(": %s %s, trained by two ranks over %s%s%s\n",
			 jsonio_string(one, "framework"), jsonio_string(one, "version"),
			 jsonio_string(one, "way"), *error ? ": " : "", error);
	}
}

/* Prints the notes that have not been printed yet. */
static void print_notes(const json_t *notes)
{
	static size_t printed;

	for (; printed < json_array_size(notes); printed++)
		out_note("ringup rebuild: %s\n",
			 json_string_value(json_array_get(notes, printed)));
}

static void print_pairs(const struct textpairs *list, const char *verb)
{
	for (int i = 0; i < list->count; i++)
		out_text("%s %s: %s\n", verb, list->at[i].name, list->at[i].text);
}

static void print_names(const struct textpairs *list, const char *verb)
{
	int i;

	for (i = 0; i < list->count; i++)
		out_text("%s%s", i ? ", " : verb, list->at[i].name);
	if (i)
		out_text("\n");
}

static void print_dry(const struct buildplan *plan)
{
	out_text("would build %s %s", plan->engine, plan->version);
	if (*plan->python.path)
		out_text(" for %s", plan->python.path);
	if (*plan->compiler.cc)
		out_text(" with %s %s", plan->compiler.family, plan->compiler.version);
	out_text("\n");
	print_pairs(&plan->packages, "would install");
	print_pairs(&plan->build, "would make");
	print_names(&plan->edits, "would edit: ");
	print_pairs(&plan->advisories, "known");
}

static json_t *report(const struct buildplan *plan, const struct rebuild_said *result,
		      const struct err *why, bool nothing)
{
	enum reason reason = result->reason ? result->reason : reason_of(why, REASON_SYSTEM);
	const char *outcome = why->code ? "failed"
			      : nothing ? "nothing"
			      : undo    ? "undone"
			      : dry_run ? "possible"
					: "done";

	return json_pack("{ss ss ss so so so so so sb sb sO? sO? so}", "schema",
			 "ringup.rebuild/1", "engine", engine, "result", outcome, "reason",
			 out_string_or_null(why->code ? reason_word(reason) : NULL), "error",
			 out_string_or_null(why->code ? why->text : NULL), "hint",
			 out_string_or_null(!why->code      ? NULL
					    : *result->hint ? result->hint
							    : reason_hint(reason)),
			 "log", out_string_or_null(result->log), "site",
			 out_string_or_null(result->site), "dry_run", dry_run, "from_cache",
			 result->is_from_cache, "proofs", result->proofs, "notes",
			 result->notes, "plan",
			 plan->engine ? buildplan_json(plan) : json_null());
}

static int conclude(const struct buildplan *plan, const struct rebuild_said *result,
		    const struct err *why, bool nothing, struct err *e)
{
	bool failed = why->code != 0;

	if (as_json) {
		if (out_json(report(plan, result, why, nothing), e))
			return e->code;
		if (failed && !result->reason)
			return fail(e, why->code, "%s", why->text);
		return failed || nothing ? CMD_NO : CMD_YES;
	}
	print_proofs(result->proofs);
	print_notes(result->notes);
	if (failed)
		out_note("ringup rebuild: %s\n", why->text);
	if (*result->log)
		out_note("log: %s\n", result->log);
	if (failed)
		out_note("the previous engine is still in place, unchanged\n");
	else if (nothing)
		out_text("nothing to undo\n");
	else if (undo)
		out_text("undone: the previous engine is back in %s\n", result->site);
	else if (!dry_run)
		out_text("%s %s is in place%s%s%s\n", engine, plan->version,
			 *result->site ? " in " : "", result->site,
			 result->is_from_cache ? ", from the cache" : "");
	return failed || nothing ? CMD_NO : CMD_YES;
}

static int check_usage(struct err *e)
{
	if (!rebuild_builder(engine))
		return cmd_misuse(e, "--engine=%.40s: ringup or horovod", engine);
	if (!strcmp(engine, "ringup") && (source || accepted.count))
		return cmd_misuse(e, "--source and --accept need --engine horovod");
	if (jobs < 0 || minutes < 1)
		return cmd_misuse(e, "--jobs and --timeout must be at least 1");
	if (undo && (dry_run || source || frameworks.count || cache_dir || accepted.count))
		return cmd_misuse(
			e, "--undo may be combined with --engine, --python and --json only");
	return 0;
}

static int cmd_rebuild_run(int argc, char **argv, struct err *e)
{
	struct progress progress = { .since = clock_ns(), .is_live = isatty(STDERR_FILENO) };
	struct rebuild_said result = { 0 };
	const char *const always[] = { cmd_conf()->accept };
	struct cache_how cache;
	struct rebuild_how how = {
		.engine = engine,
		.python = python,
		.frameworks = frameworks.item,
		.framework_count = frameworks.count,
		.source = source,
		.accepted = accepted.count ? accepted.item : always,
		.accepted_count = accepted.count ? accepted.count : 1,
		.jobs = jobs,
		.offline = offline,
		.without_mpi = without_mpi,
		.dry_run = dry_run,
		.limit_ms = (int64_t)minutes * 60000,
		.prove_ms = cmd_conf()->prove_ms,
		.step = show_step,
		.arg = &progress,
	};
	struct buildplan plan = { 0 };
	json_t *facts = NULL;
	struct err why = { 0 };
	int rc = check_usage(e);

	(void)argc;
	(void)argv;
	if (rc)
		return rc;
	cache_conf(&cache, cmd_conf());
	if (cache_dir)
		cache.dir = cache_dir;
	if (cache.dir && *cache.dir)
		how.cache = &cache;
	if (undo)
		rc = rebuild_undo(&how, &result, &why);
	else
		rc = rebuild_plan(&how, &facts, &plan, &result, &why);
	if (!rc && !undo)
		rc = rebuild_check(&plan, &result, &why);
	if (!rc && dry_run)
		rc = rebuild_look(&how, facts, &plan, &result, &why);
	/* Losses are reported before they happen. */
	if (!rc && !as_json && json_array_size(result.notes)) {
		end_progress(&progress);
		print_notes(result.notes);
	}
	if (!rc && !undo && !dry_run)
		rc = rebuild_run(&how, facts, &plan, &result, &why);
	end_progress(&progress);
	if (!rc && dry_run && !as_json)
		print_dry(&plan);
	if (rc < 0 && !result.reason && !as_json && !job_interrupted())
		rc = fail(e, rc, "%s", why.text);
	else
		rc = conclude(&plan, &result, &why, rc == 1, e);
	json_decref(facts);
	buildplan_free(&plan);
	rebuild_free(&result);
	/* All is cleaned up and reported: the parent process shall see the signal. */
	if (job_interrupted()) {
		fflush(stdout);
		raise(job_interrupted());
	}
	return rc;
}

const struct cmd cmd_rebuild = {
	.name = "rebuild",
	.operands = "",
	.summary = "build an engine for the installed frameworks and test it by training",
	.examples = "ringup rebuild --engine horovod --dry-run\n"
		    "ringup rebuild --engine horovod --for torch --accept CVE-2024-10190\n"
		    "ringup rebuild --engine horovod --source horovod-0.28.1.tar.gz --offline\n"
		    "ringup rebuild --engine horovod --undo",
	.opts = opts,
	.run = cmd_rebuild_run,
};
