/* errand.c - a program sent to do something long, as nobody in particular, and followed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/errand.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"
#include "launch/stray.h"
#include "ringup.h"

/* An identity of nobody: of the range that systemd gives to services while they run. */
enum { NOBODY = 64717, MAX_ARGS = 64, LINE = 4096, ASK_MS = 20000 };

/* The words that change who runs what follows them, into @argv; how many. */
static int words_for(const struct errand_who *w, const char **argv, char ids[2][32])
{
	int n = 0;

	if (w->offline) {
		argv[n++] = "unshare";
		argv[n++] = "--net";
	}
	if (!w->changes)
		return n;
	snprintf(ids[0], 32, "--reuid=%ld", (long)w->uid);
	snprintf(ids[1], 32, "--regid=%ld", (long)w->gid);
	argv[n++] = "setpriv";
	argv[n++] = ids[0];
	argv[n++] = ids[1];
	argv[n++] = "--clear-groups";
	argv[n++] = "--no-new-privs";
	argv[n++] = "--pdeathsig=KILL";
	/* setpriv finds its program with rights that the program then lacks; env does not. */
	argv[n++] = "env";
	return n;
}

/* Does @argv, run by @w, end well? */
static bool works(const struct errand_who *w, const char *const *argv)
{
	const char *all[MAX_ARGS];
	char ids[2][32], *out = NULL;
	struct err e = { 0 };
	int n = words_for(w, all, ids), status = -1;

	while (*argv && n < MAX_ARGS - 1)
		all[n++] = *argv++;
	all[n] = NULL;
	if (proc_capture((char *const *)(uintptr_t)all, 4096, ASK_MS, &out, &status, &e))
		return false;
	free(out);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

int errand_become(const char *python, struct err *e)
{
	char path[PATH_MAX];
	struct passwd *pw;
	struct stat st;

	snprintf(path, sizeof(path), "%s", python);
	if (geteuid() != 0 || stat(dirname(path), &st) || !st.st_uid)
		return 0;
	pw = getpwuid(st.st_uid);
	if ((pw ? initgroups(pw->pw_name, st.st_gid) : setgroups(0, NULL)) ||
	    setgid(st.st_gid) || setuid(st.st_uid))
		return fail_os(e, "%s belongs to user %ld, as whom root has to go on", python,
			       (long)st.st_uid);
	return 0;
}

struct errand_who errand_builder(const char *python)
{
	struct errand_who who = { .uid = NOBODY, .gid = NOBODY, .changes = true };
	const char *try[] = { python, "-I", "-c", "", NULL };

	if (geteuid() != 0 || !works(&who, try))
		return (struct errand_who){ 0 };
	who.offline = true;
	if (!works(&who, try))
		who.offline = false;
	return who;
}

json_t *errand_env(const char *home, bool net)
{
	static const char *const always[] = { "PATH", "LD_LIBRARY_PATH", NULL };
	static const char *const nets[] = {
		"http_proxy",         "https_proxy",     "no_proxy",      "HTTP_PROXY",
		"HTTPS_PROXY",        "NO_PROXY",        "SSL_CERT_FILE", "SSL_CERT_DIR",
		"REQUESTS_CA_BUNDLE", "PIP_CERT",        "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL",
		"PIP_FIND_LINKS",     "PIP_CONFIG_FILE", "PIP_NO_INDEX",  NULL
	};
	json_t *env = json_object();
	const char *value;
	int i;

	for (i = 0; always[i]; i++) {
		value = conf_env(always[i]);
		if (value)
			json_object_set_new(env, always[i], json_string(value));
	}
	for (i = 0; net && nets[i]; i++) {
		value = conf_env(nets[i]);
		if (value)
			json_object_set_new(env, nets[i], json_string(value));
	}
	json_object_set_new(env, "HOME", json_string(home));
	json_object_set_new(env, "TMPDIR", json_string(home));
	/* Open MPI's ranks leave what they share in /dev/shm when they are killed. */
	json_object_set_new(env, "OMPI_MCA_btl_vader_backing_directory", json_string(home));
	json_object_set_new(env, "OMPI_MCA_btl_sm_backing_directory", json_string(home));
	json_object_set_new(env, "LC_ALL", json_string("C.UTF-8"));
	json_object_set_new(env, "PIP_DISABLE_PIP_VERSION_CHECK", json_string("1"));
	json_object_set_new(env, "PIP_NO_INPUT", json_string("1"));
	json_object_set_new(env, "PYTHONUNBUFFERED", json_string("1"));
	json_object_set_new(env, "PYTHONNOUSERSITE", json_string("1"));
	return env;
}

static void env_free(char **env)
{
	char **p;

	for (p = env; p && *p; p++)
		free(*p);
	free(env);
}

/* "NAME=value" of each member, and the mark by which strays are known. */
static char **env_make(const json_t *env, const char *mark)
{
	char **list = calloc(json_object_size(env) + 2, sizeof(*list));
	const char *name;
	json_t *value;
	int n = 0;

	if (!list)
		return NULL;
	json_object_foreach((json_t *)(uintptr_t)env, name, value)
		if (json_is_string(value) &&
		    asprintf(&list[n], "%s=%s", name, json_string_value(value)) >= 0)
			n++;
	list[n] = strdup(mark);
	return list;
}

/* Cut what comes into lines. */
struct lines {
	const struct errand *job;
	char text[LINE];
	size_t len;
};

static void take(struct lines *l, const char *from, size_t n)
{
	size_t i;

	for (i = 0; l->job->line && i < n; i++) {
		if (from[i] != '\n' && from[i] != '\r') {
			if (l->len < sizeof(l->text) - 1)
				l->text[l->len++] = from[i];
			continue;
		}
		l->text[l->len] = 0;
		l->len = 0;
		l->job->line(l->job->arg, l->text);
	}
}

/* Until the program has ended; -1: not within its limit. */
static int follow(const struct errand *job, int fd, int pidfd)
{
	int64_t deadline = clock_deadline(job->limit_ms ? job->limit_ms : -1);
	struct lines l = { .job = job };
	char part[1 << 14];
	bool is_open = true;

	for (;;) {
		struct pollfd p[2] = { { is_open ? fd : -1, POLLIN, 0 }, { pidfd, POLLIN, 0 } };
		int left = clock_left_ms(deadline), got;
		ssize_t n;

		if (left == 0)
			return -1;
		got = poll(p, 2, left);
		if (got < 0 && errno != EINTR)
			return -1;
		if (got <= 0)
			continue;
		n = p[0].revents ? read(fd, part, sizeof(part)) : 0;
		if (n > 0) {
			take(&l, part, (size_t)n);
			if (job->log_fd >= 0)
				file_put(job->log_fd, part, (size_t)n);
		} else if (p[1].revents) {
			/* Whoever still holds the pipe is a stray. */
			return 0;
		} else if (p[0].revents) {
			is_open = false;
		}
	}
}

int errand_run(const struct errand *job, int *status, struct err *e)
{
	const char *argv[MAX_ARGS];
	char mark[64], ids[2][32];
	struct stray strays;
	int out[2], fds[3], n = words_for(&job->who, argv, ids), i, pidfd = -1, rc, how_ended;
	struct proc_how how = { .argv = (char *const *)(uintptr_t)argv,
				.dir = job->dir,
				.fds = fds,
				.nfds = 3,
				.session = 1 };
	char **env;
	pid_t pid;

	for (i = 0; job->argv[i] && n < MAX_ARGS - 1; i++)
		argv[n++] = job->argv[i];
	argv[n] = NULL;
	*status = -1;
	snprintf(mark, sizeof(mark), "RINGUP_JOB=rebuild-%d-%lld", (int)getpid(),
		 (long long)clock_ns());
	rc = stray_open(&strays, mark, e);
	if (rc)
		return rc;
	env = env_make(job->env, mark);
	how.envp = env;
	if (!env || pipe2(out, O_CLOEXEC)) {
		env_free(env);
		stray_close(&strays);
		return fail_os(e, "%s", job->argv[0]);
	}
	fds[0] = -1;
	fds[1] = fds[2] = out[1];
	rc = proc_start(&how, &pid, &pidfd, e);
	close(out[1]);
	env_free(env);
	if (rc) {
		close(out[0]);
		stray_close(&strays);
		return rc;
	}
	stray_add(&strays, pid);
	how_ended = follow(job, out[0], pidfd);
	if (how_ended)
		kill(-pid, SIGKILL);
	close(out[0]);
	close(pidfd);
	for (i = 0; i < 100 && stray_signal(&strays, SIGKILL); i++)
		clock_sleep_ms(20);
	while (waitpid(pid, &i, 0) < 0 && errno == EINTR)
		;
	stray_close(&strays);
	if (!how_ended)
		*status = WIFEXITED(i) ? WEXITSTATUS(i) : 128 + WTERMSIG(i);
	return 0;
}
