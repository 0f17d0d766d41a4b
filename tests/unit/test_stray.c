/* test_stray.c - what belongs to a job is found, and nothing else. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/pidstat.h"
#include "launch/stray.h"
#include "tap.h"

static char mark[64];

/* A process with one variable in its environment, in a session of its own. */
static pid_t sleeper(const char *variable, int outlives_us)
{
	char *argv[] = { (char[]){ "sleep" }, (char[]){ "300" }, NULL };
	char *env[] = { (char[]){ "A=B" }, NULL, (char[]){ "C=D" }, NULL };
	char name[64];
	pid_t pid;
	int ready[2];
	char c;

	snprintf(name, sizeof(name), "%s", variable);
	env[1] = name;
	if (pipe2(ready, 02000000))
		return -1;
	pid = fork();
	if (pid == 0) {
		if (!outlives_us)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		setsid();
		execvpe(argv[0], argv, env);
		_exit(127);
	}
	close(ready[1]);
	/* The end of the pipe is closed by exec. */
	if (read(ready[0], &c, 1) != 0)
		pid = -1;
	close(ready[0]);
	return pid;
}

static int is_dead(pid_t pid)
{
	int i;

	for (i = 0; i < 6000; i++) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return 1;
		clock_sleep_ms(10);
	}
	return 0;
}

static int is_alive(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == 0;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void finding(void)
{
	struct stray s;
	struct err e = { 0 };
	pid_t ours, other, longer, member;

	ok(stray_open(&s, mark, &e) == 0, "a guard is set %s", e.text);
	ours = sleeper(mark, 0);
	other = sleeper("RINGUP_JOB=another", 0);
	strcat(mark, "x");
	longer = sleeper(mark, 0);
	mark[strlen(mark) - 1] = 0;
	member = sleeper("NOTHING=", 0);
	ok(ours > 0 && other > 0 && longer > 0 && member > 0, "four processes");
	ok(stray_signal(&s, 0) == 1, "one has the mark");
	stray_add(&s, member);
	ok(stray_signal(&s, 0) == 2, "one is in a rank's session");
	ok(stray_signal(&s, SIGKILL) == 2 && is_dead(ours) && is_dead(member),
	   "both are killed");
	ok(is_alive(other) && is_alive(longer), "the others live");
	ok(stray_signal(&s, SIGKILL) == 0, "no more are found");
	stray_close(&s);
	stray_close(&s);
	end(other);
	end(longer);
}

/* A launcher that starts one process of its job and waits. */
static void launch(int up, int dismiss)
{
	struct stray s;
	struct err e;
	pid_t pid;

	alarm(250);
	if (stray_open(&s, mark, &e))
		_exit(1);
	pid = sleeper(mark, 1);
	if (dismiss)
		stray_close(&s);
	if (write(up, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	pause();
}

static void guarding(int dismiss)
{
	pid_t launcher, left = 0, spared = sleeper("RINGUP_JOB=another", 0);
	struct pidstat p = { 0 };
	int up[2], i;

	ok(spared > 0 && !pipe(up), "another job");
	fflush(stdout);
	launcher = fork();
	if (launcher == 0)
		launch(up[1], dismiss);
	close(up[1]);
	ok(read(up[0], &left, sizeof(left)) == sizeof(left) && !pidstat_read(left, &p),
	   "a launcher starts a process");
	close(up[0]);
	kill(launcher, SIGKILL);
	waitpid(launcher, NULL, 0);
	for (i = 0; i < (dismiss ? 20 : 6000) && pidstat_is_alive(left, p.start); i++)
		clock_sleep_ms(10);
	ok(pidstat_is_alive(left, p.start) == dismiss,
	   dismiss ? "which outlives it if the guard has been dismissed"
		   : "which the guard ends when the launcher is killed");
	if (pidstat_is_alive(left, p.start))
		kill(left, SIGKILL);
	ok(is_alive(spared), "the other job lives on");
	end(spared);
}

int main(void)
{
	snprintf(mark, sizeof(mark), "RINGUP_JOB=test_stray.%d", (int)getpid());
	finding();
	guarding(0);
	/* The first guard may still be looking. */
	strcat(mark, ".2");
	guarding(1);
	return tap_done();
}
