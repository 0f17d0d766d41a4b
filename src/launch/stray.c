/* stray.c - find and end processes that a job's ranks have left behind. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/stray.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
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
#include "base/pidstat.h"
#include "ringup.h"

enum { ENVIRON_BYTES = 1 << 20 };

static const char guard_name[] = "ringup-guard";

/* Is @mark one of the NUL-terminated strings in /proc/PID/environ? */
static bool has_mark(pid_t pid, const char *mark)
{
	static char text[ENVIRON_BYTES + 1];
	size_t len = 0, size = strlen(mark) + 1;
	const char *p, *end;
	char path[32];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (len < ENVIRON_BYTES && (n = read(fd, text + len, ENVIRON_BYTES - len)) > 0)
		len += (size_t)n;
	close(fd);
	text[len] = 0;
	end = text + len + 1;
	for (p = text; p + size <= end; p += strlen(p) + 1)
		if (!memcmp(p, mark, size))
			return true;
	return false;
}

static bool is_ours(const struct stray *s, pid_t pid, struct pidstat *p)
{
	if (pidstat_read(pid, p) || p->state == 'Z' || p->state == 'X' || p->start < s->since)
		return false;
	return (s->session && p->session == s->session) || has_mark(pid, s->mark);
}

int stray_signal(const struct stray *s, int sig)
{
	DIR *proc = opendir("/proc");
	struct pidstat p;
	struct dirent *d;
	int found = 0;

	while (proc && (d = readdir(proc))) {
		pid_t pid = isdigit((unsigned char)*d->d_name) ? atoi(d->d_name) : 0;
		int fd;

		if (pid < 2 || pid == getpid() || pid == s->guard)
			continue;
		/* A pidfd first, so that the number cannot become another process's. */
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (fd < 0 && errno != ENOSYS && errno != EPERM)
			continue;
		if (is_ours(s, pid, &p)) {
			found++;
			/* The guard of a job within this one still has to end that job's
			 * processes, and then ends by itself. */
			if (strcmp(p.name, guard_name))
				pidend_signal(fd, pid, sig);
		}
		if (fd >= 0)
			close(fd);
	}
	if (proc)
		closedir(proc);
	return found;
}

/* -- the guard ------------------------------------------------------------ */

/* The launcher is gone: kills the job's processes until none is left, for 2 s at most. */
static void avenge(const struct stray *s)
{
	for (int times = 0; times < 100 && stray_signal(s, SIGKILL); times++)
		clock_sleep_ms(20);
}

/* The guard process.  It reads numbers from a pipe: the ranks' session, or 0: dismissed. */
static void guard(struct stray *s, int fd)
{
	pid_t session;
	sigset_t all;
	ssize_t n;

	setsid();
	prctl(PR_SET_NAME, guard_name);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (fd && dup2(fd, 0) < 0)
		_exit(1);
	/* The guard must not hold pipes open whose end other processes wait for. */
	if (syscall(SYS_close_range, 1, ~0U, 0))
		for (fd = 1; fd < 1024; fd++)
			close(fd);
	for (;;) {
		n = read(0, &session, sizeof(session));
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(session))
			break;
		if (session == 0)
			_exit(0);
		s->session = session;
	}
	s->guard = 0;
	avenge(s);
	_exit(0);
}

static int guard_start(struct stray *s, struct err *e)
{
	int ends[2], why;

	if (pipe2(ends, O_CLOEXEC))
		return fail_os(e, "guard");
	s->guard = fork();
	why = errno;
	if (s->guard == 0)
		guard(s, ends[0]);
	close(ends[0]);
	s->guard_fd = ends[1];
	if (s->guard < 0) {
		s->guard = 0;
		return limits_fail(e, why, "guard");
	}
	return 0;
}

int stray_open(struct stray *s, const char *mark, struct err *e)
{
	struct pidstat me;

	*s = (struct stray){ .mark = mark, .guard_fd = -1 };
	if (!pidstat_read(getpid(), &me))
		s->since = me.start;
	return guard_start(s, e);
}

static void stray_tell(const struct stray *s, pid_t number)
{
	/* stray_keep() replaces a guard that was killed. */
	if (s->guard_fd >= 0 && write(s->guard_fd, &number, sizeof(number)) < 0)
		return;
}

void stray_add(struct stray *s, pid_t session)
{
	s->session = session;
	stray_tell(s, session);
}

int stray_keep(struct stray *s, struct err *e)
{
	int rc;

	if (s->guard <= 0 || waitpid(s->guard, NULL, WNOHANG) != s->guard)
		return 0;
	close(s->guard_fd);
	s->guard_fd = -1;
	rc = guard_start(s, e);
	if (!rc && s->session)
		stray_tell(s, s->session);
	return rc ? rc : 1;
}

void stray_close(struct stray *s)
{
	if (s->guard > 0) {
		stray_tell(s, 0);
		while (waitpid(s->guard, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (s->guard_fd > 0)
		close(s->guard_fd);
	*s = (struct stray){ .guard_fd = -1 };
}
