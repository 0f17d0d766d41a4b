/* upstream.c - a Horovod build's decisions by the recipe, and how its programs are run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/upstream.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/release.h"
#include "ringup.h"

/* Deciding. */

const struct buildplan_mpi *upstream_mpi(const struct upstream *u)
{
	for (int i = 0; i < u->plan->mpi_count; i++) {
		const struct buildplan_mpi *m = &u->plan->mpi[i];

		if (*m->mpicxx &&
		    (strcmp(m->flavour, "openmpi") || release_compare(m->version, "5") < 0))
			return m;
	}
	return NULL;
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
	for (int i = 0; i < how->accepted_count; i++)
		if (is_among(how->accepted[i], id))
			return true;
	return false;
}

int upstream_check_advisories(const struct rebuild_how *how, const struct textpairs *advisories,
			      struct rebuild_said *said, struct err *e)
{
	for (int i = 0; i < advisories->count; i++) {
		const char *id = advisories->at[i].name;

		if (is_accepted(how, id))
			continue;
		snprintf(said->hint, sizeof(said->hint), "--accept %.80s", id);
		return rebuild_refuse(said, REASON_ADVISORY, e,
				      "%s (%s): to build it anyway, use --accept %s", id,
				      advisories->at[i].text, id);
	}
	return 0;
}

/* Repeats the foreseen decision, now with Python's own answers. */
int upstream_decide(struct upstream *u, struct err *e)
{
	struct textpairs world = buildplan_world(&u->pool, u->plan, u->told.full, u->told.keras,
						 u->cmake, upstream_mpi(u) != NULL);

	recipe_decide(&u->recipe, &world, &u->pool, &u->decided);
	if (u->pool.is_short)
		return fail(e, RINGUP_ENOMEM, "no memory to decide on %s", u->recipe.name);
	if (u->decided.bad.count)
		return rebuild_refuse(u->said, REASON_IMPOSSIBLE, e, "%s: %s",
				      u->decided.bad.at[0].name, u->decided.bad.at[0].text);
	return u->how->dry_run
		       ? 0
		       : upstream_check_advisories(u->how, &u->decided.advisories, u->said, e);
}

/* Working. */

static void note_why(struct upstream *u, const char *line)
{
	static const char *const marks[] = {
		"fatal error: ", " error: ", "CMake Error", "ERROR: ", "Error: ", "Killed", NULL
	};

	for (int i = 0; !*u->why && marks[i]; i++)
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

static void upstream_follow(void *arg, const char *line)
{
	note_why(arg, line);
}

/* True for a full disk, or a compiler that the kernel killed for memory. */
static bool is_room_gone(const char *why)
{
	return strstr(why, "No space left on device") || strstr(why, "Disk quota exceeded") ||
	       strstr(why, "Killed");
}

int upstream_work(struct upstream *u, const char *const *argv, const json_t *env,
		  const struct job_user *user, int64_t limit_ms, enum reason reason,
		  const char *failed, struct err *e)
{
	json_t *plain =
		env ? NULL : job_env(user ? u->nest : u->home, reason == REASON_NETWORK);
	struct job job = { .argv = argv,
			   .env = env ? env : plain,
			   .dir = u->dir,
			   .user = user ? *user : (struct job_user){ 0 },
			   .log_fd = u->log_fd,
			   .limit_ms = limit_ms ? limit_ms : UPSTREAM_PREPARE_MS,
			   .line = reason == REASON_COMPILE ? follow_build : upstream_follow,
			   .arg = u };
	int status, rc;

	for (int i = 0; argv[i]; i++)
		dprintf(u->log_fd, "%s%s", i ? " " : "+ ", argv[i]);
	dprintf(u->log_fd, "\n");
	*u->why = 0;
	rc = job_run(&job, &status, e);
	json_decref(plain);
	if (rc || !status)
		return rc;
	if (status == -1)
		return rebuild_refuse(u->said, REASON_TIMEOUT, e,
				      "%s: not finished after %lld s", failed,
				      (long long)job.limit_ms / 1000);
	return rebuild_refuse(u->said, is_room_gone(u->why) ? REASON_SPACE : reason, e,
			      "%s%s%s", failed, *u->why ? ": " : "", u->why);
}
