/* upstream.c - the engine horovod: upstream's sources, by a recipe, for what is installed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/upstream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/hash.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "rebuild/fetch.h"
#include "ringup.h"

/* Deciding. */

const struct buildplan_mpi *upstream_mpi(const struct upstream *u)
{
	int i;

	for (i = 0; i < u->plan->mpi_count; i++) {
		const struct buildplan_mpi *m = &u->plan->mpi[i];

		if (*m->mpicxx &&
		    (strcmp(m->flavour, "openmpi") || release_compare(m->version, "5") < 0))
			return m;
	}
	return NULL;
}

static struct textpairs upstream_world(struct upstream *u)
{
	const struct buildplan *p = u->plan;
	struct textpairs world = { 0 };
	int i;

	for (i = 0; i < p->framework_count; i++)
		recipe_tell(&u->pool, &world, p->frameworks[i].name, p->frameworks[i].version);
	/* Keras counts where TensorFlow is served, and then whichever there is. */
	if (buildplan_framework(p, "tensorflow"))
		recipe_tell(&u->pool, &world, "keras",
			    jsonio_string(json_object_get(u->told, "packages"), "keras"));
	recipe_tell(&u->pool, &world, "python", jsonio_string(u->told, "full"));
	recipe_tell(&u->pool, &world, p->compiler.family, p->compiler.version);
	recipe_tell(&u->pool, &world, "cmake", u->cmake);
	if (p->gpu)
		textpool_set(&u->pool, &world, "gpu", "");
	if (upstream_mpi(u))
		textpool_set(&u->pool, &world, "mpi", "");
	if (!p->cxx11_abi)
		textpool_set(&u->pool, &world, "abi0", "");
	if (p->cxx_standard >= 20)
		textpool_set(&u->pool, &world, "cxx20", "");
	return world;
}

static bool is_among(const char *words, const char *id)
{
	size_t n;

	for (; *words; words += n + (words[n] != 0)) {
		n = strcspn(words, " ,\t\n");
		if (n == strlen(id) && !strncasecmp(words, id, n))
			return true;
	}
	return false;
}

static bool is_accepted(const struct rebuild_how *how, const char *id)
{
	int i;

	for (i = 0; i < how->accepted_count; i++)
		if (is_among(how->accepted[i], id))
			return true;
	return false;
}

static int advisories_check(const struct rebuild_how *how, const struct textpairs *advisories,
			    struct rebuild_said *said, struct err *e)
{
	int i;

	for (i = 0; i < advisories->count; i++) {
		const char *id = advisories->at[i].name;

		if (is_accepted(how, id))
			continue;
		snprintf(said->hint, sizeof(said->hint), "--accept %.80s", id);
		return rebuild_refuse(said, REASON_ADVISORY, e,
				      "%s (%s): if you can live with that, say --accept %s", id,
				      advisories->at[i].text, id);
	}
	return 0;
}

/* Again what has been foreseen, for now Python has told what it really has. */
static int upstream_decide(struct upstream *u, struct err *e)
{
	struct textpairs world = upstream_world(u);

	recipe_decide(&u->recipe, &world, &u->pool, &u->decided);
	if (u->pool.is_short)
		return fail(e, RINGUP_ENOMEM, "no memory to decide on %s", u->recipe.name);
	if (u->decided.bad.count)
		return rebuild_refuse(u->said, REASON_IMPOSSIBLE, e, "%s: %s",
				      u->decided.bad.at[0].name, u->decided.bad.at[0].text);
	return u->how->dry_run ? 0
			       : advisories_check(u->how, &u->decided.advisories, u->said, e);
}

static int foresee(const struct rebuild_how *how, const json_t *facts,
		   const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	struct recipe recipe = { 0 };
	/* A dry run shows what is known; whether that is accepted is asked when it matters. */
	int rc = how->dry_run ? 0 : advisories_check(how, &plan->advisories, said, e);

	if (!rc)
		rc = recipe_find(&recipe, "horovod", plan->version, e);
	if (!rc && fetch_foresee(&recipe, how->source, how->offline && !how->cache, e))
		rc = rebuild_blame(said, how->source ? REASON_SOURCE : REASON_NETWORK, e);
	recipe_free(&recipe);
	return rc ? rc : upstream_foresee(facts, plan, said, e);
}

/* Working. */

static void note_why(struct upstream *u, const char *line)
{
	static const char *const marks[] = {
		"fatal error: ", " error: ", "CMake Error", "ERROR: ", "Error: ", "Killed", NULL
	};
	int i;

	for (i = 0; !*u->why && marks[i]; i++)
		if (strstr(line, marks[i]))
			snprintf(u->why, sizeof(u->why), "%.*s", (int)sizeof(u->why) - 1,
				 line + strspn(line, " "));
}

/* "[ 42%] Building CXX object dir/CMakeFiles/x.dir/y.cc.o" */
static void follow_build(void *arg, const char *line)
{
	struct upstream *u = arg;
	const char *object = strstr(line, "Building "),
		   *name = object ? strrchr(object, '/') : NULL;
	const char *at = line + strspn(line, " ");
	char what[128];
	int done;

	if (*at == '[' && sscanf(at, "[%d%%]", &done) == 1) {
		if (name)
			snprintf(what, sizeof(what), "compile %.*s",
				 (int)(strlen(name + 1) > 2 ? strlen(name + 1) - 2 : 0),
				 name + 1);
		else
			snprintf(what, sizeof(what), "%s",
				 strstr(line, "Linking") ? "link" : "compile");
		rebuild_step(u->how, what, done, 100);
	} else if (!strncmp(at, "-- ", 3)) {
		rebuild_step(u->how, "configure", 0, 0);
	}
	note_why(u, line);
}

static void follow(void *arg, const char *line)
{
	note_why(arg, line);
}

/* A disk, or a compiler that the kernel has killed for its memory. */
static bool is_room_gone(const char *why)
{
	return strstr(why, "No space left on device") || strstr(why, "Disk quota exceeded") ||
	       strstr(why, "Killed");
}

int upstream_work(struct upstream *u, const char *const *argv, const json_t *env,
		  const struct errand_who *who, int64_t limit_ms, enum reason reason,
		  const char *failed, struct err *e)
{
	struct errand job = { .argv = argv,
			      .env = env,
			      .dir = u->dir,
			      .who = *who,
			      .log_fd = u->log_fd,
			      .limit_ms = limit_ms,
			      .line = reason == REASON_COMPILE ? follow_build : follow,
			      .arg = u };
	int status, rc, i;

	for (i = 0; argv[i]; i++)
		dprintf(u->log_fd, "%s%s", i ? " " : "+ ", argv[i]);
	dprintf(u->log_fd, "\n");
	*u->why = 0;
	rc = errand_run(&job, &status, e);
	if (rc || !status)
		return rc;
	if (status == -1)
		return rebuild_refuse(u->said, REASON_TIMEOUT, e,
				      "%s: not finished after %lld s", failed,
				      (long long)limit_ms / 1000);
	return rebuild_refuse(u->said, is_room_gone(u->why) ? REASON_SPACE : reason, e,
			      "%s%s%s", failed, *u->why ? ": " : "", u->why);
}

/* Before and after. */

/* The lock on @u's folder; u->lock is set only when it is held: then what is in there is ours.
 */
static int lock_dir(struct upstream *u, struct err *e)
{
	int fd = open(u->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	struct stat st;

	if (fd < 0)
		return fail_os(e, "%s", u->dir);
	if (fstat(fd, &st))
		rc = fail_os(e, "%s", u->dir);
	else if (st.st_uid != geteuid())
		rc = rebuild_refuse(u->said, REASON_RIGHTS, e,
				    "%s belongs to somebody else; remove it", u->dir);
	else if (flock(fd, LOCK_EX | LOCK_NB))
		rc = rebuild_refuse(u->said, REASON_BUSY, e,
				    "another ringup rebuild for %s is at work; wait for it",
				    u->python);
	if (rc)
		close(fd);
	else
		u->lock = fd;
	return rc;
}

static const char *work_place(void)
{
	const char *tmp = conf_env("TMPDIR");

	return tmp && *tmp == '/' ? tmp : "/tmp";
}

/* A folder of this user's, for one build of this Python at a time; what a killed one has left
 * in it goes. */
static int open_dir(struct upstream *u, struct err *e)
{
	snprintf(u->dir, sizeof(u->dir), "%.*s/ringup-rebuild-%ld-%08llx", PATH_MAX - 64,
		 work_place(), (long)geteuid(),
		 (unsigned long long)hash_bytes(u->python, strlen(u->python)) & 0xffffffff);
	if (mkdir(u->dir, 0755) && errno != EEXIST)
		return fail_os(e, "%s", u->dir);
	if (lock_dir(u, e))
		return e->code;
	/* The new one is another folder, and another lock. */
	folder_remove(u->dir, NULL);
	close(u->lock);
	u->lock = -1;
	if (mkdir(u->dir, 0755))
		return fail_os(e, "%s", u->dir);
	if (lock_dir(u, e))
		return e->code;
	snprintf(u->home, sizeof(u->home), "%.*s/home", PATH_MAX - 64, u->dir);
	snprintf(u->nest, sizeof(u->nest), "%.*s/nest", PATH_MAX - 64, u->dir);
	snprintf(u->out, sizeof(u->out), "%.*s/out", PATH_MAX - 64, u->dir);
	/* What the builder can write, nobody else works in. */
	if (mkdir(u->home, 0700) || mkdir(u->nest, 0755) ||
	    (u->builder.changes && chown(u->nest, u->builder.uid, u->builder.gid)))
		return fail_os(e, "%s", u->nest);
	return 0;
}

static int open_log_in(struct upstream *u, const char *dir, struct err *e)
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

/* Where this user's logs are; if that cannot be written, beside where the build works. */
static int open_log(struct upstream *u, struct err *e)
{
	struct passwd *pw = getpwuid(geteuid());
	char dir[PATH_MAX];
	int rc = 1;

	snprintf(dir, sizeof(dir), "/var/log/ringup");
	if (geteuid() != 0)
		snprintf(dir, sizeof(dir), "%.*s/.local/state/ringup", PATH_MAX - 128,
			 pw ? pw->pw_dir : "/nonexistent");
	if (geteuid() == 0 || pw)
		rc = open_log_in(u, dir, e);
	if (!rc)
		return 0;
	snprintf(dir, sizeof(dir), "%.*s-log", PATH_MAX - 128, u->dir);
	return open_log_in(u, dir, e);
}

static void close_all(struct upstream *u)
{
	journal_close(&u->journal);
	if (u->lock >= 0) {
		folder_remove(u->dir, NULL);
		close(u->lock);
	}
	if (u->log_fd >= 0)
		close(u->log_fd);
	textpool_free(&u->pool);
	json_decref(u->told);
	recipe_free(&u->recipe);
}

static int open_all(struct upstream *u, const struct rebuild_how *how,
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
				      "there is no Python to build for; name one by "
				      "--python");
	rc = recipe_find(&u->recipe, "horovod", plan->version, e);
	return rc ? rc : upstream_ask(u, &u->told, e);
}

static int build(const struct rebuild_how *how, const json_t *facts,
		 const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	char prefix[PATH_MAX], site[PATH_MAX];
	struct upstream u;
	int rc = open_all(&u, how, plan, said, e);

	u.facts = facts;
	rebuild_step(how, "check", 0, 0);
	upstream_cmake(u.cmake, sizeof(u.cmake));
	if (!rc)
		rc = upstream_decide(&u, e);
	if (!rc) {
		u.builder = errand_builder(u.python);
		/* Open MPI's mpicxx complains where there is not even a loopback. */
		if (upstream_mpi(&u))
			u.builder.offline = false;
		if (!geteuid() && !u.builder.changes)
			rebuild_note(said, "built as root, for nobody else can run %s",
				     u.python);
		upstream_key(&u, u.key);
		rc = open_dir(&u, e);
	}
	if (!rc)
		rc = upstream_check(&u, e);
	if (!rc)
		rc = journal_open(&u.journal, jsonio_string(u.told, "site"), e);
	if (!rc && u.journal.was_unfinished)
		rebuild_note(said, "a rebuild that was killed has been undone");
	if (!rc)
		rc = open_log(&u, e);
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
	close_all(&u);
	return rc;
}

static int look(const struct rebuild_how *how, const json_t *facts,
		const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	struct upstream u;
	int rc = open_all(&u, how, plan, said, e);

	u.facts = facts;
	upstream_cmake(u.cmake, sizeof(u.cmake));
	if (!rc)
		rc = upstream_decide(&u, e);
	snprintf(u.dir, sizeof(u.dir), "%.*s", PATH_MAX - 1, work_place());
	if (!rc)
		rc = upstream_check(&u, e);
	close_all(&u);
	return rc;
}

static int undo(const struct rebuild_how *how, const json_t *facts,
		const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	struct upstream u;
	int rc = open_all(&u, how, plan, said, e);

	u.facts = facts;
	if (!rc)
		rc = journal_open(&u.journal, jsonio_string(u.told, "site"), e);
	if (!rc)
		rc = u.journal.was_unfinished ? 0 : journal_undo(&u.journal, e);
	if (!rc)
		snprintf(said->site, sizeof(said->site), "%s", jsonio_string(u.told, "site"));
	close_all(&u);
	return rc;
}

const struct builder builder_horovod = {
	.name = "horovod",
	.summary = "upstream's, from its sources",
	.foresee = foresee,
	.look = look,
	.build = build,
	.undo = undo,
};
