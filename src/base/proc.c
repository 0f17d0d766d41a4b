/* proc.c - child processes that never outlive their parent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/newcalls.h"
#include "base/pidend.h"
#include "ringup.h"

/* In the child: sends errno to the parent through the pipe that exec would have
 * closed, and exits. */
static void give_up(int report)
{
	int why = errno;

	if (write(report, &why, sizeof(why)) < 0)
		_exit(127);
	_exit(127);
}

static void reset_signals(void)
{
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Descriptors that the caller inherited must not reach the child. */
static void close_others_on_exec(int from)
{
	if (!syscall(SYS_close_range, from, ~0U, CLOSE_RANGE_CLOEXEC))
		return;
	/* Linux before 5.11 lacks the call; few programs have higher descriptors. */
	for (int fd = from; fd < 4096; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Move the wanted descriptors up, out of each other's way, then into place. */
static int place_fds(const struct proc_how *how, int *report)
{
	int high[16], i, base = how->nfds, moved;

	if (how->nfds > 16) {
		errno = EINVAL;
		return -1;
	}
	moved = fcntl(*report, F_DUPFD_CLOEXEC, base);
	if (moved < 0)
		return -1;
	*report = moved;
	for (i = 0; i < how->nfds; i++) {
		int fd = how->fds[i];
		int made = fd < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : fd;

		high[i] = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, base);
		if (high[i] < 0)
			return -1;
	}
	for (i = 0; i < how->nfds; i++)
		if (dup2(high[i], i) < 0)
			return -1;
	close_others_on_exec(how->nfds > 3 ? how->nfds : 3);
	for (i = 0; i < (int)(sizeof(how->keep) / sizeof(*how->keep)); i++)
		if (how->keep[i] > 2 && fcntl(how->keep[i], F_SETFD, 0))
			return -1;
	return 0;
}

/* @report: the end of a pipe that exec closes. */
static void child(const struct proc_how *how, pid_t parent, int report)
{
	char **env = (char **)(uintptr_t)how->envp;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		give_up(report);
	if (getppid() != parent)
		_exit(127);
	reset_signals();
	if (place_fds(how, &report))
		give_up(report);
	if (how->dir && chdir(how->dir))
		give_up(report);
	if (env)
		execvpe(how->argv[0], how->argv, env);
	else
		execvp(how->argv[0], how->argv);
	give_up(report);
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Reads @size bytes, which the pipe delivers at once, as written; false otherwise. */
static bool read_all(int fd, void *to, size_t size)
{
	ssize_t n;

	do
		n = read(fd, to, size);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)size;
}

/* Waits until the new process @pid runs its program, or reports why not.  Closes @report. */
static int await_exec(const struct proc_how *how, int report, pid_t pid, int *pidfd,
		      struct err *e)
{
	int why;
	bool failed = read_all(report, &why, sizeof(why));

	close(report);
	if (failed) {
		reap(pid);
		errno = why;
		return fail_os(e, "%s", how->argv[0]);
	}
	*pidfd = pidend_open(pid);
	if (*pidfd < 0) {
		limits_fail(e, errno, "%s: watch it", how->argv[0]);
		kill(pid, SIGKILL);
		reap(pid);
		return RINGUP_ESYSTEM;
	}
	return 0;
}

int proc_start(const struct proc_how *how, pid_t *pid, int *pidfd, struct err *e)
{
	pid_t me = getpid(), p;
	int report[2], rc;

	if (pipe2(report, O_CLOEXEC))
		return fail_os(e, "%s", how->argv[0]);
	p = fork();
	if (p == 0) {
		if (how->session && setsid() < 0)
			give_up(report[1]);
		if (how->group)
			setpgid(0, 0);
		child(how, me, report[1]);
	}
	close(report[1]);
	if (p < 0) {
		limits_fail(e, errno, "%s", how->argv[0]);
		close(report[0]);
		return RINGUP_ESYSTEM;
	}
	rc = await_exec(how, report[0], p, pidfd, e);
	if (!rc)
		*pid = p;
	return rc;
}

/* The session's leader: creates the children as its siblings, and ends. */
static void lead_session(const struct proc_how *how, int n, pid_t parent, int (*report)[2],
			 int tell)
{
	pid_t p;

	setsid();
	for (int i = 0; i < n; i++) {
		/* Like fork(), but the child's parent is this process's own. */
		p = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
		if (p == 0) {
			setpgid(0, 0);
			child(&how[i], parent, report[i][1]);
		}
		if (p < 0)
			p = -errno;
		if (write(tell, &p, sizeof(p)) < 0)
			break;
	}
	_exit(0);
}

static int open_reports(int (*report)[2], int n, struct err *e)
{
	for (int i = 0; i < n; i++)
		if (pipe2(report[i], O_CLOEXEC)) {
			report[i][0] = report[i][1] = -1;
			return fail_os(e, "pipe");
		}
	return 0;
}

static void close_ends(int (*report)[2], int n, int end)
{
	for (int i = 0; i < n; i++)
		if (report[i][end] >= 0)
			close(report[i][end]);
}

/* Reads the children's numbers from the leader; waits until each runs its program, or fails. */
static int await_execs(const struct proc_how *how, int n, int leader, int (*report)[2],
		       pid_t *pid, int *pidfd, struct err *e)
{
	int made, r, rc = 0;
	pid_t p = 0;

	for (made = 0; made < n && read_all(leader, &p, sizeof(p)) && p > 0; made++)
		pid[made] = p;
	if (made < n) {
		rc = limits_fail(e, p < 0 ? -p : EAGAIN, "process %d of %d, %s", made + 1, n,
				 how[made].argv[0]);
	}
	for (int i = 0; i < made; i++) {
		r = await_exec(&how[i], report[i][0], pid[i], &pidfd[i], rc ? NULL : e);
		report[i][0] = -1;
		if (!r)
			continue;
		pid[i] = 0;
		rc = rc ? rc : r;
	}
	return rc;
}

int proc_start_all(const struct proc_how *how, int n, pid_t *pid, int *pidfd, pid_t *session,
		   struct err *e)
{
	int(*report)[2] = malloc((size_t)n * sizeof(*report)), tell[2], i, why, rc;
	pid_t me = getpid();

	*session = 0;
	for (i = 0; i < n; i++) {
		pid[i] = 0;
		pidfd[i] = -1;
		if (report)
			report[i][0] = report[i][1] = -1;
	}
	if (!report)
		return fail(e, RINGUP_ENOMEM, "no memory for %d processes", n);
	rc = open_reports(report, n, e);
	if (!rc && pipe2(tell, O_CLOEXEC))
		rc = fail_os(e, "pipe");
	if (!rc) {
		*session = fork();
		why = errno;
		if (*session == 0)
			lead_session(how, n, me, report, tell[1]);
		close(tell[1]);
		close_ends(report, n, 1);
		if (*session < 0)
			rc = limits_fail(e, why, "%s", how->argv[0]);
		else
			rc = await_execs(how, n, tell[0], report, pid, pidfd, e);
		close(tell[0]);
	} else {
		close_ends(report, n, 1);
	}
	close_ends(report, n, 0);
	free(report);
	return rc;
}

/* Read @fd to its end or to the deadline; 1 if it ended. */
static int drain(int fd, char *out, size_t cap, int64_t deadline)
{
	char spill[4096];
	size_t len = 0;

	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };
		int left = clock_left_ms(deadline);
		ssize_t n;

		if (left == 0)
			break;
		if (poll(&p, 1, left) <= 0)
			continue;
		n = len < cap ? read(fd, out + len, cap - len) : read(fd, spill, sizeof(spill));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0) {
			out[len] = 0;
			return 1;
		}
		if (len < cap)
			len += (size_t)n;
	}
	out[len] = 0;
	return 0;
}

int proc_capture(char *const *argv, size_t cap, int64_t timeout_ms, char **outp, int *status,
		 struct err *e)
{
	int64_t deadline = clock_deadline(timeout_ms);
	int out[2], fds[3] = { -1, -1, -1 }, pidfd = -1, ended, rc;
	struct proc_how how = { .argv = argv, .fds = fds, .nfds = 3, .session = 1 };
	struct pollfd gone;
	char *text;
	pid_t pid;

	text = malloc(cap + 1);
	if (!text)
		return fail(e, RINGUP_ENOMEM, "%s: output", argv[0]);
	if (pipe2(out, O_CLOEXEC)) {
		free(text);
		return fail_os(e, "%s", argv[0]);
	}
	fds[1] = out[1];
	rc = proc_start(&how, &pid, &pidfd, e);
	close(out[1]);
	if (rc) {
		close(out[0]);
		free(text);
		return rc;
	}
	ended = drain(out[0], text, cap, deadline);
	close(out[0]);
	/* The program may have closed its output and gone on. */
	gone = (struct pollfd){ pidfd, POLLIN, 0 };
	if (!ended || poll(&gone, 1, clock_left_ms(deadline)) <= 0) {
		kill(-pid, SIGKILL);
		ended = 0;
	}
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	close(pidfd);
	if (!ended) {
		free(text);
		return fail(e, RINGUP_ETIMEDOUT, "%s: not finished after %lld ms", argv[0],
			    (long long)timeout_ms);
	}
	*outp = text;
	return 0;
}

int proc_run(const struct proc_how *how, int64_t timeout_ms, int *status, struct err *e)
{
	struct proc_how own = *how;
	int64_t deadline = clock_deadline(timeout_ms);
	struct pollfd gone;
	bool ended = false;
	int pidfd, rc;
	pid_t pid;

	own.session = 1;
	rc = proc_start(&own, &pid, &pidfd, e);
	if (rc)
		return rc;
	gone = (struct pollfd){ pidfd, POLLIN, 0 };
	do
		ended = poll(&gone, 1, clock_left_ms(deadline)) > 0;
	while (!ended && clock_left_ms(deadline));
	/* Before it is reaped, so that its number still is its own. */
	kill(-pid, SIGKILL);
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	close(pidfd);
	if (!ended)
		return fail(e, RINGUP_ETIMEDOUT, "%s: not finished after %lld ms", how->argv[0],
			    (long long)timeout_ms);
	return 0;
}
