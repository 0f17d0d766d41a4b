/* trial.c - import frameworks as a job would, each in a child of its own, with a time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/trial.h"

#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "detect/text.h"
#include "host/cores.h"
#include "rebuild/job.h"
#include "ringup.h"

/* A system group without members has nobody in it: Debian's staff. */
enum { FIRST_USER_GROUP = 1000 };

static const char mark_begin[] = "ringup-import begins";
static const char mark_fault[] = "ringup-import fault ";

/* What the child runs.  It leaves by _exit(): what a framework does at its end is no import. */
static const char code[] =
	"import os, sys\n"
	"name = sys.argv.pop()\n"
	"os.write(2, b'\\nringup-import begins\\n')\n"
	"what = ''\n"
	"try:\n"
	"    import importlib\n"
	"    m = importlib.import_module(name)\n"
	"    if not getattr(m, '__file__', None):\n"
	"        what = 'it is a folder without __init__.py: ' + ', '.join(m.__path__)\n"
	"except BaseException as e:\n"
	"    what = type(e).__name__ + ': ' + ' '.join(str(e).split())\n"
	"if what:\n"
	"    os.write(2, ('\\nringup-import fault ' + what + '\\n').encode('utf-8', "
	"'replace'))\n"
	"os._exit(1 if what else 0)\n";

/* What a child has said. */
struct hearing {
	bool has_begun, has_fault;
	char text[TRIAL_TEXT];
};

static void hear(void *arg, const char *line)
{
	struct hearing *h = arg;
	size_t mark = sizeof(mark_fault) - 1;

	if (!strcmp(line, mark_begin)) {
		h->has_begun = true;
	} else if (!strncmp(line, mark_fault, mark)) {
		h->has_fault = true;
		text_clean(h->text, sizeof(h->text), line + mark);
	} else if (!h->has_fault && (strstr(line, "Error: ") || strstr(line, "error: "))) {
		text_clean(h->text, sizeof(h->text), line);
	}
}

/* May anyone but root and the user @uid write to @path?  Then in @why. */
static bool is_open(const char *path, uid_t uid, char why[TRIAL_TEXT])
{
	struct stat st;
	struct group *g;

	if (stat(path, &st))
		return false;
	if (st.st_uid && st.st_uid != uid) {
		snprintf(why, TRIAL_TEXT, "%.400s belongs to user %ld", path, (long)st.st_uid);
		return true;
	}
	g = st.st_mode & S_IWGRP && st.st_gid ? getgrgid(st.st_gid) : NULL;
	if (st.st_mode & S_IWOTH || (st.st_mode & S_IWGRP && st.st_gid && !uid &&
				     (st.st_gid >= FIRST_USER_GROUP || !g || *g->gr_mem))) {
		snprintf(why, TRIAL_TEXT, "other users may write to %.400s", path);
		return true;
	}
	return false;
}

/* The same of the folders that the environment adds to those. */
static bool is_environment_open(char why[TRIAL_TEXT])
{
	static const char *const lists[] = { "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE",
					     "LD_LIBRARY_PATH" };
	const char *home = conf_env("HOME"), *at;
	char dir[PATH_MAX];
	size_t n;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (at = conf_env(lists[i]); at && *at; at += n + (at[n] == ':')) {
			n = strcspn(at, ":");
			text_copy(dir, sizeof(dir), at, n);
			if (is_open(dir, 0, why))
				return true;
		}
	snprintf(dir, sizeof(dir), "%s/.local", home ? home : "");
	return is_open(dir, 0, why);
}

/* The same of @program, its real path, and the folders of both. */
static bool is_program_open(const char *program, uid_t uid, char why[TRIAL_TEXT])
{
	char real[PATH_MAX], bin[PATH_MAX];

	snprintf(bin, sizeof(bin), "%s", program);
	if (!realpath(bin, real))
		snprintf(real, sizeof(real), "%s", bin);
	return is_open(real, uid, why) || is_open(dirname(real), uid, why) ||
	       is_open(dirname(bin), uid, why);
}

bool trial_is_safe(const char *program)
{
	const struct job_user user = job_owner(program);
	char why[TRIAL_TEXT];

	return geteuid() || !is_program_open(program, user.changes ? user.uid : 0, why);
}

/* The same of all that the child would run code from. */
static bool is_unsafe(const struct trial *t, const struct job_user *user, char why[TRIAL_TEXT])
{
	uid_t uid = user->changes ? user->uid : 0;
	json_t *site;
	size_t i;

	if (geteuid())
		return false;
	if (is_program_open(t->python, uid, why) || is_open(t->location, uid, why))
		return true;
	json_array_foreach(t->sites, i, site)
		if (is_open(json_string_value(site), uid, why))
			return true;
	return !user->changes && is_environment_open(why);
}

/* The environment of the child: this process's, or for another user what builds get. */
static json_t *environment(const struct job_user *user)
{
	json_t *env = user->changes ? job_env("/", false) : json_object();

	for (char **p = conf_environ(); !user->changes && *p; p++) {
		char name[256];
		size_t n = strcspn(*p, "=");

		if (!n || !(*p)[n] || n >= sizeof(name))
			continue;
		text_copy(name, sizeof(name), *p, n);
		json_object_set_new(env, name, json_string(*p + n + 1));
	}
	json_object_set_new(env, "PYTHONDONTWRITEBYTECODE", json_string("1"));
	return env;
}

static void conclude_child(struct trial *t, const struct hearing *h, int status)
{
	t->result = status == 0 ? TRIAL_WORKS : TRIAL_FAILS;
	if (status < 0) {
		t->result = TRIAL_LATE;
	} else if (status && !h->has_begun) {
		t->result = TRIAL_DOWN;
		snprintf(t->text, sizeof(t->text), "%s",
			 *h->text ? h->text : "it says nothing");
	} else if (status > 128 && !h->has_fault) {
		snprintf(t->text, sizeof(t->text), "it is killed by signal %d, %s",
			 status - 128, strsignal(status - 128));
	} else if (status) {
		snprintf(t->text, sizeof(t->text), "%s",
			 *h->text ? h->text : "it ends the process");
	}
}

/* Runs @n children at once; those that were not safe to run have a result. */
static int run_some(struct trial *const *some, int n, struct err *e)
{
	const char *argv[JOB_MOST][5];
	struct hearing heard[JOB_MOST] = { 0 };
	struct job jobs[JOB_MOST] = { 0 };
	int status[JOB_MOST], rc;

	for (int i = 0; i < n; i++) {
		const char *words[5] = { some[i]->python, "-c", code, some[i]->module, NULL };

		memcpy(argv[i], words, sizeof(words));
		jobs[i] = (struct job){ .argv = argv[i],
					.dir = "/",
					.user = job_owner(some[i]->python),
					.log_fd = -1,
					.limit_ms = TRIAL_SECONDS * 1000,
					.line = hear,
					.arg = &heard[i] };
		jobs[i].env = environment(&jobs[i].user);
	}
	rc = job_run_all(jobs, n, status, e);
	for (int i = 0; i < n; i++) {
		json_decref((json_t *)(uintptr_t)jobs[i].env);
		if (!rc)
			conclude_child(some[i], &heard[i], status[i]);
	}
	return rc;
}

/* The same; if one of them does not start at all, each alone. */
static int run_batch(struct trial *const *some, int n, struct err *e)
{
	struct err why = { 0 };
	int rc = run_some(some, n, &why);

	if (rc == RINGUP_EABORTED) {
		*e = why;
	} else if (rc && n == 1) {
		some[0]->result =
			strstr(why.text, strerror(EAGAIN)) || strstr(why.text, strerror(ENOMEM))
				? TRIAL_UNTRIED
				: TRIAL_DOWN;
		text_clean(some[0]->text, TRIAL_TEXT, why.text);
		rc = 0;
	} else if (rc) {
		rc = 0;
		for (int i = 0; i < n && !rc; i++)
			rc = run_batch(&some[i], 1, e);
	}
	return rc;
}

int trial_run(struct trial *all, int n, struct err *e)
{
	unsigned char mask[CORES_MASK_BYTES];
	struct trial *some[JOB_MOST];
	int most, taken = 0, rc = 0;

	cores_mask(mask);
	most = cores_count(mask);
	most = most > JOB_MOST ? JOB_MOST : most < 1 ? 1 : most;
	for (int i = 0; i < n && !rc; i++) {
		const struct job_user user = job_owner(all[i].python);

		if (is_unsafe(&all[i], &user, all[i].text))
			all[i].result = TRIAL_UNSAFE;
		else
			some[taken++] = &all[i];
		if (taken == most || (taken && i == n - 1)) {
			rc = run_batch(some, taken, e);
			taken = 0;
		}
	}
	return rc;
}
