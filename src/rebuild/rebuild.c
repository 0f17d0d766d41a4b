/* rebuild.c - rebuild an engine for the installed software: the request, and the builders. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/rebuild.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "detect/find.h"
#include "rebuild/buildplan.h"
#include "rebuild/job.h"
#include "rebuild/losses.h"
#include "rebuild/packages.h"
#include "rebuild/probe.h"
#include "rebuild/recipe.h"
#include "rebuild/versions.h"
#include "ringup.h"

enum { LOCK_MS = 120000, PACKAGES_MS = 600000 };

/* One line for each engine. */
#define BUILDERS(X) \
	X(ringup)   \
	X(horovod)

#define X(name) extern const struct builder builder_##name;
BUILDERS(X)
#undef X

const struct builder *const builders[] = {
#define X(name) &builder_##name,
	BUILDERS(X) NULL,
#undef X
};

const struct builder *rebuild_builder(const char *engine)
{
	for (int i = 0; builders[i]; i++)
		if (!strcmp(builders[i]->name, engine))
			return builders[i];
	return NULL;
}

/* Is @plan impossible for a reason that no compiler could change? */
static bool is_hopeless(const struct buildplan *plan)
{
	return !plan->possible && (!plan->framework_count || *plan->compiler.family);
}

/* Plans by existing files, and decides whether it is worth probing compilers. */
static int plan_foresee(const struct rebuild_how *how, const struct buildplan_how *ask,
			const json_t *facts, const struct versions *t,
			struct rebuild_said *said, struct err *e)
{
	struct buildplan plan;
	int rc = buildplan_make(ask, facts, t, &plan, e);

	if (!rc && is_hopeless(&plan))
		rc = rebuild_check(&plan, said, e);
	if (!rc)
		rc = rebuild_builder(how->engine)->foresee(how, facts, &plan, said, e);
	buildplan_free(&plan);
	return rc;
}

static void losses_note(const json_t *facts, const struct buildplan *plan,
			struct rebuild_said *said)
{
	json_t *losses = losses_find(facts, plan), *text;
	size_t i;

	json_array_foreach(losses, i, text)
		rebuild_note(said, "%s", json_string_value(text));
	json_decref(losses);
}

int rebuild_plan(const struct rebuild_how *how, json_t **factsp, struct buildplan *plan,
		 struct rebuild_said *said, struct err *e)
{
	struct find_how find = { .python = how->python };
	struct buildplan_how ask = { .engine = how->engine,
				     .frameworks = how->frameworks,
				     .framework_count = how->framework_count,
				     .without_mpi = how->without_mpi };
	struct recipe recipe = { 0 };
	struct versions table = { 0 };
	struct utsname node;
	int rc;

	*factsp = NULL;
	*plan = (struct buildplan){ 0 };
	if (strcmp(how->engine, "ringup") != 0) {
		rc = recipe_open(&recipe, e);
		if (rc)
			goto out;
		ask.recipe = &recipe;
	}
	if (!uname(&node))
		ask.machine = node.machine;
	/* A build is for installed software: its programs get no PYTHONPATH either. */
	if (conf_env("PYTHONPATH") && *conf_env("PYTHONPATH")) {
		rebuild_note(said, "PYTHONPATH is ignored: a framework there would hide the "
				   "installed one, which the build is for");
		unsetenv("PYTHONPATH");
	}
	rebuild_step(how, "detect installed software", 0, 0);
	rc = versions_load(&table, NULL, e);
	if (!rc)
		rc = find_all(&find, factsp, e);
	if (!rc)
		rc = plan_foresee(how, &ask, *factsp, &table, said, e);
	if (rc)
		goto out;
	rebuild_step(how, "plan and test compilers", 0, 0);
	rc = probe_plan(&ask, *factsp, &table, plan, e);
	if (!rc)
		losses_note(*factsp, plan, said);
out:
	if (rc)
		buildplan_free(plan);
	versions_free(&table);
	recipe_free(&recipe);
	return rc;
}

/* Installs the compilers that the plan needs and the node lacks. */
static int packages_get(const struct rebuild_how *how, const struct buildplan *plan,
			struct rebuild_said *said, struct err *e)
{
	static const enum reason reasons[] = {
		[PACKAGES_DONE] = REASON_TOOLS,    [PACKAGES_OFFLINE] = REASON_NETWORK,
		[PACKAGES_LOCKED] = REASON_BUSY,   [PACKAGES_MISSING] = REASON_TOOLS,
		[PACKAGES_DENIED] = REASON_RIGHTS, [PACKAGES_FAILED] = REASON_TOOLS,
	};
	struct packages_how ask = { .manager = plan->manager,
				    .names = &plan->packages,
				    .log_fd = -1,
				    .lock_ms = LOCK_MS,
				    .timeout_ms = PACKAGES_MS,
				    .offline = how->offline };
	enum packages_fate fate;
	int rc;

	if (!plan->packages.count)
		return 0;
	rebuild_step(how, "install compilers", 0, 0);
	rc = packages_install(&ask, &fate, e);
	return rc ? rebuild_blame(said, reasons[fate], e) : 0;
}

int rebuild_check(const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	if (plan->possible)
		return 0;
	snprintf(said->hint, sizeof(said->hint), "%s", plan->nearest);
	return rebuild_refuse(said, REASON_IMPOSSIBLE, e, "%s%s%s", plan->why_not,
			      *plan->nearest ? "; what is possible: " : "", plan->nearest);
}

int rebuild_look(const struct rebuild_how *how, const json_t *facts,
		 const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	const struct builder *b = rebuild_builder(how->engine);
	int rc = *plan->python.path && b->look ? job_become(plan->python.path, e) : 0;

	return rc || !b->look ? rc : b->look(how, facts, plan, said, e);
}

int rebuild_run(const struct rebuild_how *how, const json_t *facts,
		const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	const struct builder *b = rebuild_builder(how->engine);
	int rc;

	job_be_tidy();
	/* All users of that Python read the installed files; root's umask 077, which
	 * ringup-init also has, would keep the others out.  Working folders have private modes
	 * of their own. */
	umask(022);
	rc = packages_get(how, plan, said, e);
	if (!rc && *plan->python.path)
		rc = job_become(plan->python.path, e);
	if (!rc)
		rc = b->build(how, facts, plan, said, e);
	return rc == RINGUP_EBUSY ? rebuild_blame(said, REASON_BUSY, e) : rc;
}

int rebuild_undo(const struct rebuild_how *how, struct rebuild_said *said, struct err *e)
{
	struct find_how find = { .python = how->python };
	json_t *facts = NULL;
	const json_t *python;
	struct buildplan plan;
	int rc = find_all(&find, &facts, e);

	if (rc)
		return rc;
	buildplan_blank(&plan, how->engine);
	python = json_array_get(json_object_get(facts, "pythons"), 0);
	plan.python.path = jsonio_string(python, "path");
	if (json_is_object(python) || !how->python)
		rc = job_become(plan.python.path, e);
	if (!rc)
		rc = rebuild_builder(how->engine)->undo(how, facts, &plan, said, e);
	buildplan_free(&plan);
	json_decref(facts);
	return rc;
}

void rebuild_step(const struct rebuild_how *how, const char *what, int done, int of)
{
	if (how->step)
		how->step(how->arg, what, done, of);
}

void rebuild_note(struct rebuild_said *said, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!said->notes)
		said->notes = json_array();
	json_array_append_new(said->notes, jsonio_text(text));
}

int rebuild_blame(struct rebuild_said *said, enum reason reason, const struct err *e)
{
	if (!said->reason)
		said->reason = reason_of(e, reason);
	return e->code;
}

int rebuild_refuse(struct rebuild_said *said, enum reason reason, struct err *e,
		   const char *fmt, ...)
{
	char text[sizeof(e->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	said->reason = reason;
	return fail(e, RINGUP_EINVAL, "%s", text);
}

const char *rebuild_place(void)
{
	const char *tmp = conf_env("TMPDIR");

	return tmp && *tmp == '/' ? tmp : "/tmp";
}

int rebuild_lock(struct rebuild_said *said, const char *dir, int *lock, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		rc = fail_os(e, "%s", dir);
	else if (st.st_uid != geteuid())
		rc = rebuild_refuse(said, REASON_RIGHTS, e, "another user owns %s; remove it",
				    dir);
	else if (flock(fd, LOCK_EX | LOCK_NB))
		rc = rebuild_refuse(said, REASON_BUSY, e,
				    "another ringup rebuild is running in %s; wait for it",
				    dir);
	if (!rc)
		*lock = fd;
	else if (fd >= 0)
		close(fd);
	return rc;
}

int rebuild_check_space(struct rebuild_said *said, const char *path, int need_mb,
			const char *other, struct err *e)
{
	struct statvfs st;
	long long mb;

	if (statvfs(path, &st))
		return fail_os(e, "%s", path);
	mb = (long long)st.f_bavail * (long long)st.f_frsize >> 20;
	return mb >= need_mb ? 0
			     : rebuild_refuse(said, REASON_SPACE, e,
					      "%.100s has %lld MiB free, but this needs %d: "
					      "free some space%s",
					      path, mb, need_mb, other);
}

int rebuild_may_write(struct rebuild_said *said, const char *site, struct err *e)
{
	int why = access(site, W_OK) ? errno : 0;

	if (!why)
		return 0;
	if (why == EROFS || !geteuid())
		return rebuild_refuse(
			said, REASON_RIGHTS, e,
			"%s is not writable, %s: create a virtual environment elsewhere", site,
			why == EROFS ? "because its file system is read-only"
				     : "not even by root");
	return rebuild_refuse(
		said, REASON_RIGHTS, e,
		"%s is not writable: create a virtual environment, or run this as root", site);
}

void rebuild_free(struct rebuild_said *said)
{
	json_decref(said->proofs);
	json_decref(said->notes);
	*said = (struct rebuild_said){ 0 };
}
