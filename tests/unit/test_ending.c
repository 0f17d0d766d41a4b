/* test_ending.c - a job ends by phases, with the right signals, words and status. */
#include "launch/ending.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "launch/output.h"
#include "tap.h"

enum { HOUR_MS = 3600000 };

static struct ending x;
static struct output *output;
static char done[256]; /* by the owner, in order */

static void note(const char *what, int number)
{
	size_t n = strlen(done);

	snprintf(done + n, sizeof(done) - n, what, number);
}

static void begun(void *ctx)
{
	(void)ctx;
	note(".", 0);
}

static void send(void *ctx, int sig, bool all)
{
	(void)ctx;
	note(all ? "group:%d " : "rank:%d ", sig);
}

static void stopped(void *ctx)
{
	(void)ctx;
	note("stopped ", 0);
}

static void name(void *ctx, bool given_up)
{
	(void)ctx;
	note(given_up ? "given up " : "late ", 0);
}

static void start(int64_t timeout_ms, int64_t grace_ms)
{
	int fd = x.signal_fd;

	ending_init(&x, timeout_ms, grace_ms,
		    (struct ending_owner){
			    .begun = begun,
			    .signal = send,
			    .stopped = stopped,
			    .name = name,
		    });
	x.output = output;
	x.signal_fd = fd;
	done[0] = '\0';
}

/* Has the owner done just @what since it was asked last? */
static bool did(const char *what)
{
	bool same = !strcmp(done, what);

	if (!same)
		printf("# did: %s\n", done);
	done[0] = '\0';
	return same;
}

/* The phase is over; how many ranks there are makes a difference for the words only. */
static void pass(void)
{
	x.next_ns = 0;
	ending_turn(&x, 2);
}

static bool lasts(int64_t least_ms, int64_t most_ms)
{
	int64_t left = clock_left_ms(ending_until(&x));

	return left >= least_ms && left <= most_ms;
}

static void test_failure(void)
{
	start(0, HOUR_MS);
	ending_turn(&x, 2);
	ok(ending_until(&x) == INT64_MAX && did(""), "a job without a limit runs for ever");
	ending_mourn(&x, 7);
	ok(x.phase == ENDING_MOURNING && lasts(0, ENDING_MOURN_MS) && did("."),
	   "a failure: the others are left alone for a while");
	pass();
	ok(x.phase == ENDING_WARNED && lasts(HOUR_MS / 2, HOUR_MS) && did("rank:15 stopped ."),
	   "then they are told to end");
	ending_turn(&x, 2);
	ok(did(""), "and have time to");
	pass();
	ok(x.phase == ENDING_KILLED && lasts(0, ENDING_DEATH_MS) && did("late group:9 ."),
	   "then they are named and killed");
	pass();
	ok(x.phase == ENDING_OVER && did("given up ."), "and in the end given up");
	ending_turn(&x, 2);
	ok(ending_until(&x) == INT64_MAX && did("") && x.status == 7,
	   "the status is that of the failure");
}

static void test_limit(void)
{
	start(HOUR_MS, HOUR_MS);
	ending_turn(&x, 2);
	ok(x.phase == ENDING_RUNNING && lasts(HOUR_MS / 2, HOUR_MS), "there is time");
	x.deadline_ns = 0;
	ending_turn(&x, 2);
	ok(x.phase == ENDING_WARNED && did("rank:15 stopped ."), "the time is over");
	ok(x.status == ENDING_TIMEOUT_STATUS && lasts(HOUR_MS / 2, HOUR_MS), "status, grace");
	start(HOUR_MS, HOUR_MS);
	ending_stop(&x, 3);
	done[0] = '\0';
	x.deadline_ns = 0;
	ending_turn(&x, 2);
	ok(did("") && x.status == 3 && lasts(HOUR_MS / 2, HOUR_MS),
	   "the limit means nothing to a job that ends already");
}

static bool get(int sig)
{
	kill(getpid(), sig);
	return ending_signals(&x);
}

static void test_signals(void)
{
	struct err e = { 0 };

	start(0, HOUR_MS);
	ok(!ending_catch(&x, &e), "signals are caught: %s", e.text);
	ok(!get(SIGUSR1) && did("rank:10 ") && !get(SIGUSR2) && did("rank:12 "), "passed on");
	ok(get(SIGCHLD) && did("") && x.phase == ENDING_RUNNING && !x.status, "a child");
	ok(!get(SIGTERM) && did("rank:15 .") && x.phase == ENDING_WARNED && x.status == 143 &&
		   lasts(HOUR_MS / 2, HOUR_MS),
	   "SIGTERM is passed on and ends the job");
	ok(!get(SIGINT) && did("group:9 .") && x.phase == ENDING_KILLED && x.status == 143 &&
		   x.signal == SIGTERM,
	   "a second signal kills, and the first is remembered");

	start(0, HOUR_MS);
	ok(!get(SIGINT) && did("group:2 .") && x.phase == ENDING_ASKED &&
		   lasts(0, ENDING_INTERRUPT_MS),
	   "SIGINT is for all processes, as from a terminal");
	pass();
	ok(did("rank:15 stopped .") && x.phase == ENDING_WARNED &&
		   lasts(0, ENDING_INTERRUPT_MS),
	   "and the wait is short");
	start(0, HOUR_MS);
	ending_mourn(&x, 7);
	get(SIGHUP);
	ok(x.status == 7 && x.phase == ENDING_WARNED, "a failure before keeps its status");
}

/* The reader of stderr takes nothing. */
static void test_flush(void)
{
	static const char zeros[4096];
	struct err e = { 0 };
	int i, stderr_fd = dup(2), p[2];

	if (stderr_fd < 0 || pipe2(p, O_CLOEXEC | O_NONBLOCK)) {
		ok(0, "descriptors");
		return;
	}
	while (write(p[1], zeros, sizeof(zeros)) > 0)
		;
	dup2(p[1], 2);
	ok(!output_open(&output, 1, OUTPUT_RANK, NULL, &e), "output: %s", e.text);
	start(0, HOUR_MS);
	for (i = 0; i < 4; i++)
		output_say(output, "nobody reads this");
	kill(getpid(), SIGTERM);
	ending_flush(&x);
	ok(!output_is_idle(output), "a signal ends the patience with a reader");
	while (read(p[0], (char[4096]){ 0 }, 4096) > 0)
		;
	ending_flush(&x);
	ok(output_is_idle(output), "a reader that reads gets all");
	dup2(stderr_fd, 2);
	output_close(output);
	close(stderr_fd);
	close(p[0]);
	close(p[1]);
}

static void test_words(void)
{
	char text[64];

	ending_describe(CLD_EXITED, 3, text, sizeof(text));
	ok(!strcmp(text, "exited with status 3") && ending_status(CLD_EXITED, 3) == 3, "exit");
	ending_describe(CLD_KILLED, 9, text, sizeof(text));
	ok(!strcmp(text, "was killed by signal 9 (Killed)") &&
		   ending_status(CLD_KILLED, 9) == 137,
	   "signal");
	ending_describe(CLD_DUMPED, 6, text, sizeof(text));
	ok(!strcmp(text, "was killed by signal 6 (Aborted), core dumped"), "core");
}

int main(void)
{
	struct err e = { 0 };

	alarm(250);
	x.signal_fd = -1;
	ok(!output_open(&output, 1, OUTPUT_RANK, NULL, &e), "output: %s", e.text);
	test_failure();
	test_limit();
	test_signals();
	output_close(output);
	test_flush();
	test_words();
	ending_fini(&x);
	return tap_done();
}
