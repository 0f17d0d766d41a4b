/* test_pidend.c - the end of a process makes a descriptor readable, with pidfds and without. */
/* tests: src/base/proc.c */
/* needs: waits */
#include "base/pidend.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "rounds.h"

#include "tap.h"

enum { CHILDREN = 40, LIMIT_MS = 20000 };

static int count(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static pid_t start(void)
{
	pid_t p = fork();

	if (p)
		return p;
	for (;;)
		pause();
}

static bool is_readable(int fd, int ms)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return thread_poll(&p, 1, ms) == 1 && p.revents & POLLIN;
}

static void check_end(const char *how)
{
	pid_t p = start();
	int fd = pidend_open(p);

	ok(fd > 2 && !is_readable(fd, 100), "%s: a process lives", how);
	ok(!pidend_has_ended(p), "%s: and is said to", how);
	ok(!pidend_signal(fd, p, SIGKILL) && is_readable(fd, LIMIT_MS), "%s: it is killed",
	   how);
	ok(pidend_has_ended(p), "%s: a zombie has ended", how);
	close(fd);
	fd = pidend_open(p);
	ok(fd > 2 && is_readable(fd, LIMIT_MS), "%s: also when asked then", how);
	close(fd);
	waitpid(p, NULL, 0);
	ok(pidend_open(p) < 0 && errno == ESRCH && pidend_has_ended(p),
	   "%s: none of that number", how);
}

/* Their descriptors become readable when theirs end, and not when others do. */
static void check_many(const char *how)
{
	int fd[CHILDREN], i, wrong = 0;
	pid_t p[CHILDREN];

	for (i = 0; i < CHILDREN; i++)
		fd[i] = pidend_open(p[i] = start());
	for (i = 0; i < CHILDREN; i += 2)
		kill(p[i], SIGKILL);
	for (i = 0; i < CHILDREN; i += 2)
		wrong += !is_readable(fd[i], LIMIT_MS);
	for (i = 1; i < CHILDREN; i += 2)
		wrong += is_readable(fd[i], 0);
	ok(!wrong, "%s: %d of %d end: %d wrong", how, CHILDREN / 2, CHILDREN, wrong);
	for (i = 0; i < CHILDREN; i++) {
		kill(p[i], SIGKILL);
		waitpid(p[i], NULL, 0);
		close(fd[i]);
	}
}

static bool refuse_pidfds(int why)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_send_signal, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)why),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog all = { sizeof(rules) / sizeof(*rules), rules };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}

/* The thread that looks is gone when nobody waits, and with it the pipes. */
static void check_rest(int tasks, int files)
{
	int64_t until = clock_deadline(LIMIT_MS);

	while (count("/proc/self/task") > tasks + ROUNDS_TSAN && clock_left_ms(until))
		clock_sleep_ms(5);
	/* ThreadSanitizer may have started one of its own. */
	ok(count("/proc/self/task") <= tasks + ROUNDS_TSAN, "no thread is left");
	ok(count("/proc/self/fd") == files, "nor a descriptor");
}

/* A child that was made while the thread looked has one of its own. */
static void check_fork(void)
{
	pid_t sleeper = start(), child;
	int fd = pidend_open(sleeper), status = 0;

	child = fork();
	if (!child) {
		pid_t own = start();
		int other = pidend_open(own);

		kill(own, SIGKILL);
		_exit(!is_readable(other, LIMIT_MS));
	}
	waitpid(child, &status, 0);
	ok(!status && !is_readable(fd, 0), "a child watches its own, and the parent goes on");
	kill(sleeper, SIGKILL);
	ok(is_readable(fd, LIMIT_MS), "which sees its end");
	waitpid(sleeper, NULL, 0);
	close(fd);
}

/* Neither pidfds nor /proc: what is left are waitid(2) of a child, and kill(2). */
static void check_without_proc(void)
{
	int status = 0, fd;
	pid_t child = fork(), p;

	if (!child) {
		if (unshare(CLONE_NEWNS) ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", "/proc", "tmpfs", 0, NULL))
			_exit(77);
		p = start();
		fd = pidend_open(p);
		if (is_readable(fd, 100) || pidend_has_ended(p))
			_exit(1);
		kill(p, SIGKILL);
		if (!is_readable(fd, LIMIT_MS) || !pidend_has_ended(p))
			_exit(2);
		waitpid(p, NULL, 0);
		_exit(!pidend_has_ended(p) || pidend_open(p) >= 0 ? 3 : 0);
	}
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		ok(1, "without /proc # SKIP needs root, to hide it");
	else
		ok(!status, "without /proc; step %d", WEXITSTATUS(status));
}

int main(void)
{
	int files = count("/proc/self/fd"); /* with that of the folder, and as "." and ".." */
	int tasks = count("/proc/self/task");

	check_end("pidfd");
	check_many("pidfd");
	if (!refuse_pidfds(ENOSYS)) {
		ok(1, "without pidfds # SKIP no seccomp filter here");
		return tap_done();
	}
	check_end("none");
	check_many("none");
	/* ThreadSanitizer ends a child of a process with threads that starts one. */
	if (!ROUNDS_TSAN) {
		check_fork();
		check_without_proc();
	}
	check_rest(tasks, files);
	if (refuse_pidfds(EPERM))
		check_end("forbidden");
	return tap_done();
}
