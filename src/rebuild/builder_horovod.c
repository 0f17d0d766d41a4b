/* builder_horovod.c - the engine horovod: builds upstream's sources with a recipe. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/hash.h"
#include "rebuild/fetch.h"
#include "rebuild/upstream.h"

static int horovod_foresee(const struct rebuild_how *how, const json_t *facts,
			   const struct buildplan *plan, struct rebuild_said *said,
			   struct err *e)
{
	struct recipe recipe = { 0 };
	/* A dry run shows the advisories; only a real build requires that they are accepted. */
	int rc = how->dry_run ? 0 : upstream_check_advisories(how, &plan->advisories, said, e);

	if (!rc)
		rc = recipe_open(&recipe, e);
	if (!rc && fetch_foresee(&recipe, how->source, how->offline && !how->cache, e))
		rc = rebuild_blame(said, how->source ? REASON_SOURCE : REASON_NETWORK, e);
	recipe_free(&recipe);
	return rc ? rc : upstream_foresee(facts, plan, said, e);
}

/* Makes a folder of this user's, for one build of this Python at a time, and removes the
 * contents that a killed run left. */
static int horovod_open_dir(struct upstream *u, struct err *e)
{
	snprintf(u->dir, sizeof(u->dir), "%.*s/ringup-rebuild-%ld-%08llx", PATH_MAX - 64,
		 rebuild_place(), (long)geteuid(),
		 (unsigned long long)hash_bytes(u->python, strlen(u->python)) & 0xffffffff);
	if (mkdir(u->dir, 0755) && errno != EEXIST)
		return fail_os(e, "%s", u->dir);
	if (rebuild_lock(u->said, u->dir, &u->lock, e))
		return e->code;
	/* The new folder needs a lock of its own. */
	folder_remove(u->dir, NULL);
	close(u->lock);
	u->lock = -1;
	if (mkdir(u->dir, 0755))
		return fail_os(e, "%s", u->dir);
	if (rebuild_lock(u->said, u->dir, &u->lock, e))
		return e->code;
	snprintf(u->home, sizeof(u->home), "%.*s/home", PATH_MAX - 64, u->dir);
	snprintf(u->nest, sizeof(u->nest), "%.*s/nest", PATH_MAX - 64, u->dir);
	snprintf(u->out, sizeof(u->out), "%.*s/out", PATH_MAX - 64, u->dir);
	/* No other user works in a folder that the builder can write to. */
	if (mkdir(u->home, 0700) || mkdir(u->nest, 0755) ||
	    (u->builder.changes && chown(u->nest, u->builder.uid, u->builder.gid)))
		return fail_os(e, "%s", u->nest);
	return 0;
}

static int horovod_open_log_in(struct upstream *u, const char *dir, struct err *e)
{
	char when[32];
	time_t now = time(NULL);
	struct tm tm;

	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	snprintf(u->said->log, sizeof(u->said->log), "%.*s/rebuild-%s-%d.log", PATH_MAX - 128,
		 dir, when, (int)getpid());
	if (file_write(NULL, u->said->log, 0644, "", 0, e))
		return e->code;
	u->log_fd = open(u->said->log, O_WRONLY | O_APPEND | O_CLOEXEC);
	return u->log_fd < 0 ? fail_os(e, "%s", u->said->log) : 0;
}

/* Opens a log in this user's folder; if that is not writable, beside the build folder. */
static int horovod_open_log(struct upstream *u, struct err *e)
{
	struct passwd *pw = getpwuid(geteuid());
	char dir[PATH_MAX];
	int rc = 1;

	snprintf(dir, sizeof(dir), "/var/log/ringup");
	if (geteuid() != 0)
		snprintf(dir, sizeof(dir), "%.*s/.local/state/ringup", PATH_MAX - 128,
			 pw ? pw->pw_dir : "/nonexistent");
	if (geteuid() == 0 || pw)
		rc = horovod_open_log_in(u, dir, e);
	if (!rc)
		return 0;
	snprintf(dir, sizeof(dir), "%.*s-log", PATH_MAX - 128, u->dir);
	return horovod_open_log_in(u, dir, e);
}

static void horovod_close(struct upstream *u)
{
	journal_close(&u->journal);
	if (u->lock >= 0) {
		folder_remove(u->dir, NULL);
		close(u->lock);
	}
	if (u->log_fd >= 0)
		close(u->log_fd);
	textpool_free(&u->pool);
	recipe_free(&u->recipe);
}

static int horovod_open(struct upstream *u, const struct rebuild_how *how,
			const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	int rc;

	*u = (struct upstream){ .how = how,
				.plan = plan,
				.said = said,
				.python = plan->python.path,
				.journal = { .lock = -1 },
				.lock = -1,
				.log_fd = -1 };
	if (!*u->python)
		return rebuild_refuse(said, REASON_TOOLS, e,
				      "no Python environment to build for; name one with "
				      "--python");
	rc = recipe_open(&u->recipe, e);
	return rc ? rc : upstream_ask(u, e);
}

static int horovod_build(const struct rebuild_how *how, const json_t *facts,
			 const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	char prefix[PATH_MAX], site[PATH_MAX];
	struct upstream u;
	int rc = horovod_open(&u, how, plan, said, e);

	u.facts = facts;
	rebuild_step(how, "check", 0, 0);
	upstream_cmake(u.cmake, sizeof(u.cmake));
	if (!rc)
		rc = upstream_decide(&u, e);
	if (!rc) {
		u.builder = job_builder(u.python);
		/* Open MPI's mpicxx complains where even the loopback is missing. */
		if (upstream_mpi(&u))
			u.builder.offline = false;
		if (!geteuid() && !u.builder.changes)
			rebuild_note(said, "built as root, because no other user can run %s",
				     u.python);
		upstream_key(&u, u.key);
		rc = horovod_open_dir(&u, e);
	}
	if (!rc)
		rc = upstream_check(&u, e);
	if (!rc)
		rc = journal_open(&u.journal, u.told.site, e);
	if (!rc && u.journal.was_unfinished)
		rebuild_note(said, "a rebuild that was killed has been undone");
	if (!rc)
		rc = horovod_open_log(&u, e);
	if (!rc)
		rc = upstream_wheel(&u, e);
	if (!rc)
		rc = upstream_needs(&u, e);
	if (!rc)
		rc = upstream_stage(&u, prefix, site, e);
	if (!rc)
		rc = upstream_stamp(&u, site, e);
	if (!rc)
		rc = upstream_verify(&u, site, e);
	if (!rc)
		rc = upstream_prove(&u, site, e);
	if (!rc)
		rc = upstream_replace(&u, prefix, site, e);
	horovod_close(&u);
	return rc;
}

static int horovod_look(const struct rebuild_how *how, const json_t *facts,
			const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	struct upstream u;
	int rc = horovod_open(&u, how, plan, said, e);

	u.facts = facts;
	upstream_cmake(u.cmake, sizeof(u.cmake));
	if (!rc)
		rc = upstream_decide(&u, e);
	snprintf(u.dir, sizeof(u.dir), "%.*s", PATH_MAX - 1, rebuild_place());
	if (!rc)
		rc = upstream_check(&u, e);
	horovod_close(&u);
	return rc;
}

static int horovod_undo(const struct rebuild_how *how, const json_t *facts,
			const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	struct upstream u;
	int rc = horovod_open(&u, how, plan, said, e);

	u.facts = facts;
	if (!rc)
		rc = journal_open(&u.journal, u.told.site, e);
	if (!rc)
		rc = u.journal.was_unfinished ? 0 : journal_undo(&u.journal, e);
	if (!rc)
		snprintf(said->site, sizeof(said->site), "%s", u.told.site);
	horovod_close(&u);
	return rc;
}

const struct builder builder_horovod = {
	.name = "horovod",
	.summary = "upstream's, from its sources",
	.foresee = horovod_foresee,
	.look = horovod_look,
	.build = horovod_build,
	.undo = horovod_undo,
};
