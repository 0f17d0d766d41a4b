/* test_proc.c - children start, report, and never outlive their parent. */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static struct err e;

static char *argv_of(char **argv, char *script)
{
	static char sh[] = "/bin/sh", c[] = "-c";

	argv[0] = sh;
	argv[1] = c;
	argv[2] = script;
	argv[3] = NULL;
	return script;
}

static void test_capture(void)
{
	char hello[] = "echo hello; echo unheard >&2; exit 3", many[] = "yes | head -c 100000";
	char slow[] = "sleep 600 & sleep 600", forks[] = "exec >&-; sleep 600", *argv[4];
	char *out = NULL;
	int status = 0;

	argv_of(argv, hello);
	ok(!proc_capture(argv, 100, 20000, &out, &status, &e) && !strcmp(out, "hello\n"),
	   "stdout is kept");
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 3, "and the status");
	free(out);
	argv_of(argv, many);
	ok(!proc_capture(argv, 10, 20000, &out, &status, &e) && strlen(out) == 10,
	   "what is too much is dropped");
	free(out);
	argv_of(argv, slow);
	ok(proc_capture(argv, 10, 50, &out, &status, &e) == RINGUP_ETIMEDOUT, "%s", e.text);
	argv_of(argv, forks);
	ok(proc_capture(argv, 10, 50, &out, &status, &e) == RINGUP_ETIMEDOUT,
	   "also when it has closed its output");
}

static void test_missing(void)
{
	static char none[] = "/no/such/program";
	char *argv[] = { none, NULL };
	struct proc_how how = { .argv = argv };
	pid_t pid = 0;
	int fd = -1;

	ok(proc_start(&how, &pid, &fd, &e) == RINGUP_ESYSTEM && strstr(e.text, none) &&
		   pid == 0 && fd == -1,
	   "a program that is not there is an error at once: %s", e.text);
	ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "and leaves no child");
	how.dir = "/no/such/folder";
	ok(proc_start(&how, &pid, &fd, &e) == RINGUP_ESYSTEM, "so is a folder: %s", e.text);
}

/* The child sees 0, 1, 2 and keep, and nothing else that we have open. */
static void test_descriptors(void)
{
	char list[] = "ls /proc/self/fd | sort -n | tr '\\n' ' '; echo $HOME; pwd", *argv[4];
	char home[] = "HOME=/h", path[] = "PATH=/usr/bin:/bin", *env[] = { home, path, NULL };
	int out[2], fds[3] = { -1, 0, -1 }, pidfd, status, other;
	struct proc_how how = {
		.argv = argv,
		.envp = env,
		.dir = "/",
		.fds = fds,
		.nfds = 3,
		.session = 1,
	};
	char got[256];
	ssize_t n, len = 0;
	pid_t pid;

	argv_of(argv, list);
	other = fcntl(0, F_DUPFD, 40);
	if (pipe2(out, O_CLOEXEC))
		return;
	fds[1] = out[1];
	how.keep[0] = fcntl(0, F_DUPFD_CLOEXEC, 50);
	ok(!proc_start(&how, &pid, &pidfd, &e), "start: %s", e.text);
	close(out[1]);
	while ((n = read(out[0], got + len, sizeof(got) - 1 - (size_t)len)) > 0)
		len += n;
	got[len] = 0;
	close(out[0]);
	ok(waitpid(pid, &status, 0) == pid && status == 0, "it ends well");
	/* ls has its own descriptor of the folder: 3. */
	ok(!strcmp(got, "0 1 2 3 50 /h\n/\n"), "descriptors, environment and folder: %s", got);
	close(how.keep[0]);
	close(other);
	close(pidfd);
}

/* A process that has started a child is killed; the child must go too. */
static void test_parent_dies(void)
{
	char sleeper[] = "exec sleep 600", *argv[4], byte;
	struct proc_how how = { .argv = argv };
	int said[2], alive[2], fds[3] = { -1, -1, -1 }, pidfd, status;
	struct pollfd p;
	pid_t parent;

	argv_of(argv, sleeper);
	if (pipe2(said, O_CLOEXEC) || pipe2(alive, O_CLOEXEC))
		return;
	parent = fork();
	if (parent == 0) {
		/* The sleeper holds the writing end of alive until it dies. */
		pid_t pid;

		fds[1] = alive[1];
		how.fds = fds;
		how.nfds = 3;
		if (proc_start(&how, &pid, &pidfd, NULL) || write(said[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(alive[1]);
	close(said[1]);
	ok(read(said[0], &byte, 1) == 1, "a grandchild runs");
	kill(parent, SIGKILL);
	waitpid(parent, &status, 0);
	p = (struct pollfd){ alive[0], POLLIN, 0 };
	ok(poll(&p, 1, 20000) == 1 && read(alive[0], &byte, 1) == 0,
	   "and dies with its parent");
	close(said[0]);
	close(alive[0]);
}

static void test_signals(void)
{
	char script[] = "kill -TERM $$; exit 0", *argv[4];
	struct proc_how how = { .argv = argv };
	sigset_t all, old;
	int pidfd, status = 0;
	pid_t pid;

	argv_of(argv, script);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	signal(SIGTERM, SIG_IGN);
	ok(!proc_start(&how, &pid, &pidfd, &e), "start with signals blocked and ignored");
	signal(SIGTERM, SIG_DFL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	ok(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
		   WTERMSIG(status) == SIGTERM,
	   "the child has them back");
	close(pidfd);
}

/* Three that say who they are, and one that is not there. */
static void test_all(void)
{
	static char none[] = "/no/such/program";
	char script[] = "read _ _ _ _ group session _ </proc/self/stat; echo $group $session";
	char *good[4], *bad[] = { none, NULL }, got[256];
	int out[2], fds[3] = { -1, -1, -1 }, pidfd[4], i, status, groups[3], sessions[3];
	struct proc_how how[4];
	pid_t pid[4], session = 0;
	ssize_t n, len = 0;

	argv_of(good, script);
	if (pipe2(out, O_CLOEXEC))
		return;
	fds[1] = out[1];
	for (i = 0; i < 4; i++)
		how[i] = (struct proc_how){ .argv = good, .fds = fds, .nfds = 3 };
	ok(!proc_start_all(how, 3, pid, pidfd, &session, &e), "three at once: %s", e.text);
	close(out[1]);
	while ((n = read(out[0], got + len, sizeof(got) - 1 - (size_t)len)) > 0)
		len += n;
	got[len] = 0;
	close(out[0]);
	ok(sscanf(got, "%d %d %d %d %d %d", &groups[0], &sessions[0], &groups[1], &sessions[1],
		  &groups[2], &sessions[2]) == 6 &&
		   sessions[0] == session && sessions[1] == session && sessions[2] == session,
	   "they share a session");
	ok(groups[0] + groups[1] + groups[2] == pid[0] + pid[1] + pid[2],
	   "and have a group each");
	for (i = 0; i < 3; i++) {
		ok(waitpid(pid[i], &status, 0) == pid[i] && status == 0, "a child of ours");
		close(pidfd[i]);
	}
	ok(waitpid(session, &status, 0) == session, "so was the leader");
	fds[1] = -1;
	how[2].argv = bad;
	ok(proc_start_all(how, 4, pid, pidfd, &session, &e) == RINGUP_ESYSTEM &&
		   strstr(e.text, none) && !pid[2] && pid[0] && pid[1] && pid[3],
	   "one that is not there is named: %s", e.text);
	for (i = 0; i < 4; i++) {
		if (pid[i])
			waitpid(pid[i], &status, 0);
		if (pidfd[i] >= 0)
			close(pidfd[i]);
	}
	waitpid(session, &status, 0);
	ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "nobody is left");
}

/* Its grandchildren end with it, and its time is limited. */
static void test_run(void)
{
	static char sh[] = "sh", c[] = "-c", leaves[] = "sleep 60 & exit 3",
		    stays[] = "sleep 60", nowhere[] = "/nonexistent/program";
	char *quick[] = { sh, c, leaves, NULL }, *slow[] = { sh, c, stays, NULL },
	     *missing[] = { nowhere, NULL };
	struct proc_how how = { .argv = quick };
	int64_t start = clock_ns();
	int status = 0;

	ok(!proc_run(&how, 20000, &status, &e) && WIFEXITED(status) && WEXITSTATUS(status) == 3,
	   "it ended by itself, with its status");
	how.argv = slow;
	ok(proc_run(&how, 100, &status, &e) == RINGUP_ETIMEDOUT && WIFSIGNALED(status), "%s",
	   e.text);
	ok(clock_ns() - start < 30000000000, "nobody waited for the sleepers");
	how.argv = missing;
	ok(proc_run(&how, 100, &status, &e) == RINGUP_ESYSTEM, "%s", e.text);
}

/* Where few files may be open, children start; where too few, that is told. */
static void test_few_files(void)
{
	char out[] = "test -e /proc/self/fd/2", *argv[4];
	int fds[3] = { -1, -1, -1 }, status = -1;
	struct proc_how how = { .argv = argv, .fds = fds, .nfds = 3 };
	struct rlimit was, few;

	e = (struct err){ 0 };
	argv_of(argv, out);
	getrlimit(RLIMIT_NOFILE, &was);
	few = was;
	few.rlim_cur = 24;
	setrlimit(RLIMIT_NOFILE, &few);
	ok(!proc_run(&how, 20000, &status, &e) && WIFEXITED(status) && !WEXITSTATUS(status),
	   "with 24 open files: %s", e.text);
	/* Enough for the pipe of its parent's, and not for what the child moves. */
	few.rlim_cur = (rlim_t)dup(0) + 3;
	close((int)few.rlim_cur - 3);
	setrlimit(RLIMIT_NOFILE, &few);
	ok(proc_run(&how, 20000, &status, &e) == RINGUP_ESYSTEM &&
		   strstr(e.text, "Too many open files"),
	   "with too few: %s", e.text);
	setrlimit(RLIMIT_NOFILE, &was);
}

int main(void)
{
	test_all();
	test_run();
	test_capture();
	test_missing();
	test_few_files();
	test_descriptors();
	test_parent_dies();
	test_signals();
	return tap_done();
}
