/* job.c - run long external programs: unprivileged, logged, limited, with no processes left. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/job.h"

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
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/argv.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"
#include "launch/stray.h"
#include "ringup.h"

/* is_tidy: signals end jobs, not this process.  caught: the signal that came, or 0. */
static bool is_tidy;
static int caught;

/* An unused user id, of the range that systemd gives to services while they run. */
enum { NOBODY = 64717, MAX_ARGS = 64, LINE = 4096, ASK_MS = 20000 };

/* Writes the command prefix that switches user and network to @argv; returns its length. */
static int words_for(const struct job_user *w, const char **argv, char ids[2][32])
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
	/* setpriv searches PATH with rights that its program lacks; env does not. */
	argv[n++] = "env";
	return n;
}

/* Does @argv succeed when @w runs it? */
static bool works(const struct job_user *w, const char *const *argv)
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

struct job_user job_owner(const char *python)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s", python);
	if (geteuid() != 0 || stat(dirname(path), &st) || !st.st_uid)
		return (struct job_user){ 0 };
	return (struct job_user){ .uid = st.st_uid, .gid = st.st_gid, .changes = true };
}

int job_become(const char *python, struct err *e)
{
	struct job_user user = job_owner(python);
	struct passwd *pw;

	if (!user.changes)
		return 0;
	pw = getpwuid(user.uid);
	if ((pw ? initgroups(pw->pw_name, user.gid) : setgroups(0, NULL)) || setgid(user.gid) ||
	    setuid(user.uid))
		return fail_os(e,
			       "%s belongs to user %ld, and root cannot continue as that user",
			       python, (long)user.uid);
	return 0;
}

struct job_user job_builder(const char *python)
{
	struct job_user user = { .uid = NOBODY, .gid = NOBODY, .changes = true };
	const char *try[] = { python, "-I", "-c", "", NULL };

	if (geteuid() != 0 || !works(&user, try))
		return (struct job_user){ 0 };
	user.offline = true;
	if (!works(&user, try))
		user.offline = false;
	return user;
}

static void env_inherit(json_t *env, const char *const *names)
{
	for (const char *value; *names; names++) {
		value = conf_env(*names);
		if (value)
			json_object_set_new(env, *names, json_string(value));
	}
}

json_t *job_env(const char *home, bool net)
{
	static const char *const always[] = { "PATH", "LD_LIBRARY_PATH", NULL };
	static const char *const nets[] = {
		"http_proxy",         "https_proxy",     "no_proxy",      "HTTP_PROXY",
		"HTTPS_PROXY",        "NO_PROXY",        "SSL_CERT_FILE", "SSL_CERT_DIR",
		"REQUESTS_CA_BUNDLE", "PIP_CERT",        "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL",
		"PIP_FIND_LINKS",     "PIP_CONFIG_FILE", "PIP_NO_INDEX",  NULL
	};
	/* Killed ranks leave shared files in /dev/shm; MPICH's own are always there, but UCX
	 * can replace them. */
	static const char *const homes[] = { "HOME",
					     "TMPDIR",
					     "OMPI_MCA_btl_vader_backing_directory",
					     "OMPI_MCA_btl_sm_backing_directory",
					     "UCX_POSIX_DIR",
					     NULL };
	static const char *const ones[] = {
		"MPIR_CVAR_NOLOCAL", "PIP_DISABLE_PIP_VERSION_CHECK",
		"PIP_NO_INPUT",      "PYTHONUNBUFFERED",
		"PYTHONNOUSERSITE",  NULL
	};
	json_t *env = json_object();

	env_inherit(env, always);
	if (net)
		env_inherit(env, nets);
	for (int i = 0; homes[i]; i++)
		json_object_set_new(env, homes[i], json_string(home));
	for (int i = 0; ones[i]; i++)
		json_object_set_new(env, ones[i], json_string("1"));
	json_object_set_new(env, "LC_ALL", json_string("C.UTF-8"));
	return env;
}

/* Makes "NAME=value" of each member, and the mark that identifies strays. */
static void env_make(struct argv *list, const json_t *env, const char *mark)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)env, name, value)
		if (json_is_string(value))
			argv_add(list, "%s=%s", name, json_string_value(value));
	argv_put(list, mark, NULL);
}

/* One job while it runs. */
struct running {
	const struct job *job;
	const char *argv[MAX_ARGS];
	char ids[2][32];
	int fds[3], out; /* out: the read end of its output, or -1 */
	struct argv env;
	int64_t deadline;
	bool has_ended, is_late;
	char line[LINE]; /* its unfinished line of output */
	size_t len;
};

/* Logs @n bytes of output and cuts them into lines. */
static void job_take(struct running *w, const char *from, size_t n)
{
	if (w->job->log_fd >= 0)
		file_put(w->job->log_fd, from, n);
	for (size_t i = 0; w->job->line && i < n; i++) {
		if (from[i] != '\n' && from[i] != '\r') {
			if (w->len < sizeof(w->line) - 1)
				w->line[w->len++] = from[i];
			continue;
		}
		w->line[w->len] = 0;
		w->len = 0;
		w->job->line(w->job->arg, w->line);
	}
}

/* Handles events of @w: output to read (@said), the process's end (@ended). */
static void attend(struct running *w, bool said, bool ended)
{
	char part[1 << 14];
	ssize_t n = said ? read(w->out, part, sizeof(part)) : 0;

	if (n > 0) {
		job_take(w, part, (size_t)n);
	} else if (ended) {
		/* A process that still holds the pipe is a stray. */
		w->has_ended = true;
	} else if (said) {
		close(w->out);
		w->out = -1;
	}
}

/* Kills late jobs; returns the time in ms until the next is late, or -1. */
static int look_at_clock(struct running *all, int n, const pid_t *pid)
{
	int left, least = -1;

	for (int i = 0; i < n; i++) {
		if (all[i].has_ended)
			continue;
		left = clock_left_ms(all[i].deadline);
		if (left == 0) {
			all[i].has_ended = all[i].is_late = true;
			kill(-pid[i], SIGKILL);
		} else if (least < 0 || (left > 0 && left < least)) {
			least = left;
		}
	}
	return least;
}

static bool is_any_left(const struct running *all, int n)
{
	int i;

	for (i = 0; i < n && all[i].has_ended; i++)
		;
	return i < n;
}

/* Takes a signal off the descriptor @signals; false if there is none. */
static bool is_told_to_end(int signals)
{
	struct signalfd_siginfo what;

	if (read(signals, &what, sizeof(what)) != (ssize_t)sizeof(what))
		return false;
	caught = (int)what.ssi_signo;
	return true;
}

/* Waits until each job has ended or is late, or this process gets a signal to end. */
static void job_follow(struct running *all, int n, const pid_t *pid, const int *pidfd,
		       int signals)
{
	struct pollfd p[2 * JOB_MOST + 1];
	int left, got;

	for (;;) {
		left = look_at_clock(all, n, pid);
		if (!is_any_left(all, n))
			return;
		for (int i = 0; i < n; i++) {
			bool runs = !all[i].has_ended;

			p[2 * i] = (struct pollfd){ runs ? all[i].out : -1, POLLIN, 0 };
			p[2 * i + 1] = (struct pollfd){ runs ? pidfd[i] : -1, POLLIN, 0 };
		}
		p[2 * n] = (struct pollfd){ signals, POLLIN, 0 };
		got = poll(p, (nfds_t)(2 * n + 1), left);
		if (got > 0 && p[2 * n].revents && is_told_to_end(signals))
			return;
		for (int i = 0; i < n && got > 0; i++)
			if (p[2 * i].revents || p[2 * i + 1].revents)
				attend(&all[i], p[2 * i].revents, p[2 * i + 1].revents);
	}
}

static int job_prepare(struct running *w, const struct job *job, const char *mark,
		       struct proc_how *how, struct err *e)
{
	int out[2], n = words_for(&job->user, w->argv, w->ids), i;

	*how = (struct proc_how){ .argv = (char *const *)(uintptr_t)w->argv,
				  .dir = job->dir,
				  .fds = w->fds,
				  .nfds = 3 };
	w->job = job;
	w->out = w->fds[0] = w->fds[1] = w->fds[2] = -1;
	w->deadline = clock_deadline(job->limit_ms ? job->limit_ms : -1);
	for (i = 0; job->argv[i] && n < MAX_ARGS - 1; i++)
		w->argv[n++] = job->argv[i];
	env_make(&w->env, job->env, mark);
	how->envp = w->env.word;
	if (w->env.failed)
		return fail(e, RINGUP_ENOMEM, "%s: no memory for an environment", job->argv[0]);
	if (pipe2(out, O_CLOEXEC))
		return fail_os(e, "%s", job->argv[0]);
	w->out = out[0];
	w->fds[1] = w->fds[2] = out[1];
	return 0;
}

static void release(struct running *all, int n)
{
	for (int i = 0; i < n; i++) {
		argv_free(&all[i].env);
		if (all[i].job && all[i].out >= 0)
			close(all[i].out);
	}
	free(all);
}

/* Ends all jobs and their descendants; @session is the parent of all. */
static void end_all(struct stray *strays, int n, const pid_t *pid, pid_t session, int *wait)
{
	for (int i = 0; i < 100 && stray_signal(strays, SIGKILL); i++)
		clock_sleep_ms(20);
	for (int i = 0; i < n; i++)
		while (pid[i] > 0 && waitpid(pid[i], &wait[i], 0) < 0 && errno == EINTR)
			;
	while (session > 0 && waitpid(session, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Blocks the ending signals; they wait in *@signals until all is cleaned up. */
static int hold_signals(sigset_t *was, int *signals, struct err *e)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGHUP);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &ends, was))
		return fail_os(e, "signals");
	*signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	return *signals < 0 ? fail_os(e, "signalfd") : 0;
}

static void release_signals(const sigset_t *was, int signals)
{
	/* A signal that came after the last look counts as well. */
	if (signals >= 0) {
		is_told_to_end(signals);
		close(signals);
	}
	sigprocmask(SIG_SETMASK, was, NULL);
}

void job_be_tidy(void)
{
	is_tidy = true;
}

int job_interrupted(void)
{
	return caught;
}

int job_run_all(const struct job *jobs, int n, int *status, struct err *e)
{
	struct running *all = calloc((size_t)n, sizeof(*all));
	struct proc_how how[JOB_MOST];
	int pidfd[JOB_MOST], wait[JOB_MOST] = { 0 }, signals = -1, i, rc;
	pid_t pid[JOB_MOST] = { 0 }, session = 0;
	struct stray strays;
	sigset_t was;
	char mark[64];

	for (i = 0; i < n; i++)
		status[i] = pidfd[i] = -1;
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for %d jobs", n);
	snprintf(mark, sizeof(mark), "RINGUP_JOB=rebuild-%d-%lld", (int)getpid(),
		 (long long)clock_ns());
	sigprocmask(SIG_SETMASK, NULL, &was);
	rc = stray_open(&strays, mark, e);
	if (!rc && caught)
		rc = fail(e, RINGUP_EABORTED, "%s", strsignal(caught));
	if (!rc && is_tidy)
		rc = hold_signals(&was, &signals, e);
	for (i = 0; i < n && !rc; i++)
		rc = job_prepare(&all[i], &jobs[i], mark, &how[i], e);
	if (!rc)
		rc = proc_start_all(how, n, pid, pidfd, &session, e);
	for (i = 0; i < n; i++)
		if (all[i].job && all[i].fds[1] >= 0)
			close(all[i].fds[1]);
	if (session > 0)
		stray_add(&strays, session);
	if (!rc)
		job_follow(all, n, pid, pidfd, signals);
	end_all(&strays, n, pid, session, wait);
	stray_close(&strays);
	for (i = 0; i < n; i++) {
		if (pidfd[i] >= 0)
			close(pidfd[i]);
		if (!rc && !all[i].is_late)
			status[i] = WIFEXITED(wait[i]) ? WEXITSTATUS(wait[i])
						       : 128 + WTERMSIG(wait[i]);
	}
	release(all, n);
	release_signals(&was, signals);
	if (!rc && caught)
		rc = fail(e, RINGUP_EABORTED, "%s", strsignal(caught));
	return rc;
}

void job_keep_first(void *arg, const char *line)
{
	char *first = arg;

	if (!*first)
		snprintf(first, JOB_LINE, "%s", line);
}

int job_run(const struct job *job, int *status, struct err *e)
{
	return job_run_all(job, 1, status, e);
}
