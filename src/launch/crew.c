/* crew.c - a job's ranks on this host: start, signal and reap them, and clean up after them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/crew.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/pidstat.h"
#include "base/proc.h"
#include "launch/ending.h"
#include "ringup.h"
#include "wire/secret.h"

struct crew_rank {
	int id;
	pid_t pid;
	char stopped; /* its state when it was killed because it was stopped; or 0 */
};

/* The children of this process; ends with 0; NULL if /proc does not tell. */
static int *children(void)
{
	char path[64];
	int *list = NULL, *more, count = 0, pid, n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	while (f && n >= 0) {
		n = fscanf(f, "%d", &pid);
		more = realloc(list, sizeof(*list) * (size_t)(count + 1));
		if (!more)
			break;
		list = more;
		list[count++] = n == 1 ? pid : 0;
		if (n != 1)
			break;
	}
	if (f)
		fclose(f);
	return list;
}

int crew_open(struct crew *c, const struct secret *secret, struct err *e)
{
	int n = 0, rc;

	prctl(PR_SET_DUMPABLE, 0);
	c->older = children();
	oom_mark(&c->oom, "");
	c->secret_fd = rc = secret_to_fd(secret, e);
	if (rc < 0)
		return rc;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return fail_os(e, "subreaper");
	rc = stray_open(&c->stray, c->mark, e);
	if (rc)
		return rc;
	if (c->is_daemon && getsid(0) == getpid())
		stray_add(&c->stray, getpid());
	/* Without the pipe, the first observed exit counts as the cause. */
	if (cause_create(&c->cause, e)) {
		log_warn("%s; the first rank seen to end is named instead", e->text);
		e->code = 0;
	}
	if (c->is_daemon)
		snprintf(c->vars[n++], CREW_VAR, "%s", c->mark);
	snprintf(c->vars[n++], CREW_VAR, "RINGUP_SECRET_FD=%d", c->secret_fd);
	if (c->notice_fd > 0)
		snprintf(c->vars[n++], CREW_VAR, "RINGUP_NOTICE_FD=%d", c->notice_fd);
	if (c->cause.out > 0)
		snprintf(c->vars[n++], CREW_VAR, "RINGUP_CAUSE_FD=%d", c->cause.out);
	return 0;
}

void crew_close(struct crew *c)
{
	stray_close(&c->stray);
	if (c->session > 0)
		while (waitpid(c->session, NULL, 0) < 0 && errno == EINTR)
			;
	cause_close(&c->cause);
	if (c->secret_fd > 0)
		close(c->secret_fd);
	free(c->older);
	free(c->ranks);
	c->ranks = NULL;
	c->older = NULL;
	c->count = c->secret_fd = 0;
}

/* -- start ------------------------------------------------------------------- */

/* @env and the crew's own variables; the texts stay where they are.  Frees with free(). */
static char **with_vars(const struct crew *c, char *const *env, const char *report)
{
	size_t n = 0;
	char **all;

	while (env[n])
		n++;
	all = malloc((n + CREW_VARS + 2) * sizeof(*all));
	if (!all)
		return NULL;
	memcpy(all, env, n * sizeof(*all));
	for (int i = 0; i < CREW_VARS && *c->vars[i]; i++)
		all[n++] = (char *)(uintptr_t)c->vars[i];
	if (*report)
		all[n++] = (char *)(uintptr_t)report;
	all[n] = NULL;
	return all;
}

/* One by one into this session, or all into a new one: see proc_start_all(). */
static int start_as(struct crew *c, const struct proc_how *how, int n, pid_t *pid, int *pidfd,
		    struct err *e)
{
	int rc = 0;

	if (!c->is_daemon) {
		rc = proc_start_all(how, n, pid, pidfd, &c->session, e);
		if (c->session > 0)
			stray_add(&c->stray, c->session);
		return rc;
	}
	for (int i = 0; i < n && !rc; i++)
		rc = proc_start(&how[i], &pid[i], &pidfd[i], e);
	return rc;
}

static void note_started(struct crew *c, struct crew_start *r, pid_t pid, int pidfd)
{
	if (pidfd >= 0)
		close(pidfd);
	r->pid = pid;
	if (pid)
		c->ranks[c->count++] = (struct crew_rank){ .id = r->id, .pid = pid };
}

int crew_start(struct crew *c, struct crew_start *r, int n, struct err *e)
{
	size_t size = (size_t)n;
	struct crew_rank *more = realloc(c->ranks, ((size_t)c->count + size) * sizeof(*more));
	struct proc_how *how = calloc(size, sizeof(*how));
	char(*report)[CREW_VAR] = calloc(size, sizeof(*report)), **env;
	pid_t *pid = calloc(size, sizeof(*pid));
	int *pidfd = calloc(size, sizeof(*pidfd)), i, rc = 0;

	if (more)
		c->ranks = more;
	if (!more || !how || !report || !pid || !pidfd)
		rc = fail(e, RINGUP_ENOMEM, "no memory for %d ranks", n);
	for (i = 0; i < n && !rc; i++) {
		pidfd[i] = -1;
		if (r[i].report > 0)
			snprintf(report[i], CREW_VAR, "RINGUP_REPORT_FD=%d", r[i].report);
		env = with_vars(c, r[i].env, report[i]);
		how[i] = (struct proc_how){
			.argv = c->argv,
			.envp = env,
			.fds = r[i].fds,
			.nfds = 3,
			.keep = { c->secret_fd, c->cause.out, c->notice_fd, c->keep,
				  r[i].report },
			.group = 1,
		};
		if (!env)
			rc = fail(e, RINGUP_ENOMEM, "no memory for an environment");
	}
	if (!rc)
		rc = start_as(c, how, n, pid, pidfd, e);
	for (i = 0; how && i < n; i++) {
		if (pid && pidfd && more)
			note_started(c, &r[i], pid[i], pid[i] ? pidfd[i] : -1);
		free((void *)(uintptr_t)how[i].envp);
	}
	free(how);
	free(report);
	free(pid);
	free(pidfd);
	return rc;
}

/* -- signals ----------------------------------------------------------------- */

static struct crew_rank *rank_find(const struct crew *c, int id)
{
	for (int i = 0; i < c->count; i++)
		if (c->ranks[i].id == id)
			return &c->ranks[i];
	return NULL;
}

pid_t crew_pid(const struct crew *c, int id)
{
	const struct crew_rank *r = rank_find(c, id);

	return r ? r->pid : 0;
}

static void rank_signal(struct crew_rank *r, int sig, enum order_whom whom)
{
	char state;

	if (whom == ORDER_IF_STOPPED) {
		state = ending_kill_stopped(r->pid);
		r->stopped = state ? state : r->stopped;
		return;
	}
	if (whom == ORDER_GROUP)
		kill(-r->pid, sig);
	/* The rank itself may have left its group. */
	if (whom == ORDER_RANK || getpgid(r->pid) != r->pid)
		kill(r->pid, sig);
}

void crew_signal(struct crew *c, int id, int sig, enum order_whom whom)
{
	for (int i = 0; i < c->count; i++)
		if (id < 0 || c->ranks[i].id == id)
			rank_signal(&c->ranks[i], sig, whom);
}

void crew_why_alive(const struct crew *c, int id, char *out, size_t size)
{
	struct pidstat s = { .state = '?' };
	char path[64], *where = NULL;
	pid_t pid = crew_pid(c, id);
	size_t len;

	*out = 0;
	if (!pid)
		return;
	/* The rank may have become another user's process. */
	if (kill(pid, SIGKILL)) {
		snprintf(out, size, ": %s", strerror(errno));
		return;
	}
	pidstat_read(pid, &s);
	snprintf(path, sizeof(path), "/proc/%d/wchan", (int)pid);
	if (file_read("", path, 128, &where, &len, NULL) || !strcmp(where, "0")) {
		free(where);
		where = NULL;
	}
	snprintf(out, size, ": it hangs in the kernel (state %c%s%s)", s.state,
		 where && *where ? ", in " : "", where ? where : "");
	free(where);
}

/* -- ends -------------------------------------------------------------------- */

void crew_notes(struct crew *c)
{
	struct cause_note note;
	const char *why;

	while (cause_next(&c->cause, &note, &why))
		c->owner.noted(c->owner.ctx, &note, why);
}

/* Reaps the rank if it has ended. */
static bool rank_reap(struct crew *c, int i)
{
	struct crew_rank r = c->ranks[i];
	siginfo_t how = { 0 };
	char remark[192] = "";
	bool failed;

	if (waitid(P_PID, (id_t)r.pid, &how, WEXITED | WNOHANG | WNOWAIT) || !how.si_pid)
		return false;
	failed = how.si_code != CLD_EXITED || how.si_status;
	if (failed && c->is_daemon)
		kill(-r.pid, SIGKILL);
	while (waitpid(r.pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->count--;
	memmove(&c->ranks[i], &c->ranks[i + 1], (size_t)(c->count - i) * sizeof(*c->ranks));
	if (r.stopped)
		ending_remark(r.stopped, remark, sizeof(remark));
	else if (failed)
		oom_since(&c->oom, "", remark, sizeof(remark));
	crew_notes(c);
	c->owner.ended(c->owner.ctx, r.id, how.si_code, how.si_status, remark);
	return true;
}

static bool is_in(const int *list, int pid)
{
	for (; list && *list; list++)
		if (*list == pid)
			return true;
	return false;
}

static bool is_rank(const struct crew *c, int pid)
{
	for (int i = 0; i < c->count; i++)
		if (c->ranks[i].pid == pid)
			return true;
	return false;
}

/*
 * Orphans of the ranks have become this process's children: reaps those that have
 * ended, sends @sig (0: nothing) to the others and counts them.
 */
static int orphans_reap(const struct crew *c, int sig)
{
	int *list = children(), *p, alive = 0;

	if (!list)
		return stray_signal(&c->stray, sig);
	for (p = list; *p; p++) {
		if (is_rank(c, *p) || is_in(c->older, *p) || *p == c->stray.guard ||
		    *p == c->session || waitpid(*p, NULL, WNOHANG) != 0)
			continue;
		alive++;
		/* With older children, an orphan may be one of theirs. */
		if (sig && c->older && !*c->older)
			kill(*p, sig);
	}
	free(list);
	return alive;
}

int crew_reap(struct crew *c, struct err *e)
{
	int rc = stray_keep(&c->stray, e);

	for (int i = 0; i < c->count;)
		i += !rank_reap(c, i);
	orphans_reap(c, 0);
	return rc;
}

int crew_sweep(struct crew *c, bool has_time)
{
	int sig = !has_time ? SIGKILL : c->warned ? 0 : SIGTERM, alive = orphans_reap(c, sig);

	c->warned = true;
	if (alive)
		stray_signal(&c->stray, sig);
	return alive;
}
