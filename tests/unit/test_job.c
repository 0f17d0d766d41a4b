/* test_job.c - a program is followed to its end, and nothing of it stays. */
/* needs: waits */
#include "rebuild/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static char heard[256];

static void hear(void *arg, const char *line)
{
	size_t n = strlen(heard);

	(void)arg;
	snprintf(heard + n, sizeof(heard) - n, "[%s]", line);
}

static void keep(void *arg, const char *line)
{
	snprintf(arg, 64, "[%.60s]", line);
}

static int run(const char *script, int64_t limit_ms, int *status, struct err *e)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	struct job job = { .argv = argv,
			   .env = job_env("/tmp", false),
			   .dir = "/",
			   .log_fd = -1,
			   .limit_ms = limit_ms,
			   .line = hear };
	int rc;

	*heard = 0;
	rc = job_run(&job, status, e);
	json_decref((json_t *)(uintptr_t)job.env);
	return rc;
}

/* Is somebody who sleeps for so long still there? */
static bool sleeps(const char *seconds)
{
	char command[64];

	snprintf(command, sizeof(command), "pgrep -f '^sleep %s$' >/dev/null", seconds);
	return !system(command);
}

/* Three at a time: each has its own end, limit and words. */
static void test_all(void)
{
	const char *one[] = { "sh", "-c", "sleep 0.4; echo one; exit 3", NULL };
	const char *two[] = { "sh", "-c", "sleep 0.4; echo two", NULL };
	const char *late[] = { "sh", "-c", "sleep 600 & echo late; sleep 600", NULL };
	const char *none[] = { "/nonexistent", NULL };
	char words[3][64] = { "", "", "" };
	json_t *env = job_env("/tmp", false);
	struct job jobs[3] = {
		{ .argv = one, .env = env, .log_fd = -1, .line = keep, .arg = words[0] },
		{ .argv = two, .env = env, .log_fd = -1, .line = keep, .arg = words[1] },
		{ .argv = late,
		  .limit_ms = 3000,
		  .env = env,
		  .log_fd = -1,
		  .line = keep,
		  .arg = words[2] },
	};
	int status[3], i;
	int64_t since = clock_ns();
	struct err e = { 0 };

	ok(!job_run_all(jobs, 3, status, &e), "three at a time: %s", e.text);
	ok(status[0] == 3 && status[1] == 0 && status[2] == -1, "their ends: %d %d %d",
	   status[0], status[1], status[2]);
	ok(!strcmp(words[0], "[one]") && !strcmp(words[1], "[two]") &&
		   !strcmp(words[2], "[late]"),
	   "their words: %s %s %s", words[0], words[1], words[2]);
	ok(clock_ns() - since < 2000000000000, "the late one keeps nobody");
	jobs[1].argv = none;
	jobs[2].limit_ms = 0;
	since = clock_ns();
	ok(job_run_all(jobs, 3, status, &e) && strstr(e.text, "/nonexistent"),
	   "one cannot be started: %s", e.text);
	for (i = 0; i < 3; i++)
		ok(status[i] == -1, "then none has an end: %d", i);
	ok(clock_ns() - since < 200000000000, "and none runs on");
	json_decref(env);
}

/* Instead of libc's: for once a signal comes while the job is buried, after the last look. */
static bool comes_late;

pid_t waitpid(pid_t pid, int *status, int options)
{
	if (comes_late)
		raise(SIGTERM);
	comes_late = false;
	return wait4(pid, status, options, NULL);
}

static void miss(int signal)
{
	(void)signal;
}

static void test_late_signal(void)
{
	struct err e = { 0 };
	int status;

	signal(SIGTERM, miss);
	job_be_tidy();
	ok(!run("exit 3", 0, &status, &e) && status == 3 && !job_interrupted(),
	   "no signal to end came");
	comes_late = true;
	ok(run("exit 3", 0, &status, &e) == RINGUP_EABORTED && !comes_late &&
		   job_interrupted() == SIGTERM,
	   "one that came after the job's end counts: %s", e.text);
	ok(run("exit 3", 0, &status, &e) == RINGUP_EABORTED, "and no other job is started");
}

int main(void)
{
	struct err e = { 0 };
	char seconds[32], script[128];
	int64_t since;
	int status;

	ok(!run("echo a; echo b >&2; printf c; echo d; exit 3", 0, &status, &e) && status == 3,
	   "its status: %d %s", status, e.text);
	ok(!strcmp(heard, "[a][b][cd]"), "its lines, of both streams: %s", heard);
	ok(!run("kill -9 $$", 0, &status, &e) && status == 137, "its signal: %d", status);
	setenv("PLANTED", "secret", 1);
	ok(!run("echo \"$PLANTED$HOME\"", 0, &status, &e) && !strcmp(heard, "[/tmp]"),
	   "nothing of this environment: %s", heard);
	snprintf(seconds, sizeof(seconds), "9%d", (int)getpid());
	snprintf(script, sizeof(script), "sleep %s & setsid sleep %s & exit 0", seconds,
		 seconds);
	ok(!run(script, 0, &status, &e) && !status, "who goes on in the background");
	ok(!sleeps(seconds), "does not go on");
	snprintf(script, sizeof(script), "setsid sleep %s & sleep %s", seconds, seconds);
	since = clock_ns();
	ok(!run(script, 300, &status, &e) && status == -1, "who takes too long is ended");
	ok(!sleeps(seconds) && clock_ns() - since < 20000000000, "with all it has started");
	ok(run("", 0, &status, &e) == 0, "an empty job");
	test_all();
	test_late_signal();
	return tap_done();
}
