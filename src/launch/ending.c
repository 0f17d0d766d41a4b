/* ending.c - the phases in which a job ends, after a failure, a signal or the time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/ending.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/pidstat.h"
#include "launch/output.h"

void ending_init(struct ending *x, int64_t timeout_ms, int64_t grace_ms,
		 struct ending_owner owner)
{
	*x = (struct ending){
		.owner = owner,
		.timeout_ms = timeout_ms,
		.grace_ms = grace_ms,
		.next_ns = INT64_MAX,
		.deadline_ns = timeout_ms ? clock_deadline(timeout_ms) : INT64_MAX,
		.signal_fd = -1,
	};
}

int ending_catch(struct ending *x, struct err *e)
{
	static const int wanted[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
				      SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD };
	sigset_t set;

	/* Background jobs of a shell script ignore SIGINT, and an ignored signal never
	 * arrives, so all are reset; but SIGHUP stays ignored, for nohup(1). */
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		sigaddset(&set, wanted[i]);
		if (wanted[i] != SIGHUP)
			signal(wanted[i], SIG_DFL);
	}
	/* For a closed pipe and the limit for files, the error of write(2) suffices. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return fail_os(e, "signals");
	x->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return x->signal_fd < 0 ? fail_os(e, "signalfd") : 0;
}

void ending_fini(struct ending *x)
{
	if (x->signal_fd >= 0)
		close(x->signal_fd);
	x->signal_fd = -1;
}

/* -- phases ---------------------------------------------------------------- */

static void phase_enter(struct ending *x, enum ending_phase phase, int64_t ms)
{
	x->phase = phase;
	x->next_ns = clock_deadline(ms);
	if (x->owner.begun)
		x->owner.begun(x->owner.ctx);
}

static void ranks_warn(struct ending *x, int64_t grace_ms)
{
	x->owner.signal(x->owner.ctx, SIGTERM, false);
	x->owner.stopped(x->owner.ctx);
	phase_enter(x, ENDING_WARNED, grace_ms);
}

void ending_mourn(struct ending *x, int status)
{
	x->status = status;
	phase_enter(x, ENDING_MOURNING, ENDING_MOURN_MS);
}

void ending_stop(struct ending *x, int status)
{
	x->status = status;
	ranks_warn(x, x->grace_ms);
}

void ending_kill(struct ending *x)
{
	x->owner.signal(x->owner.ctx, SIGKILL, true);
	phase_enter(x, ENDING_KILLED, ENDING_DEATH_MS);
}

static void phase_end(struct ending *x, int running)
{
	switch (x->phase) {
	case ENDING_RUNNING:
		output_say(x->output, "not finished after %lld s: ending the job",
			   (long long)(x->timeout_ms / 1000));
		ending_stop(x, ENDING_TIMEOUT_STATUS);
		break;
	case ENDING_MOURNING:
		output_say(x->output, "ending the other %s", running > 1 ? "ranks" : "rank");
		ranks_warn(x, x->grace_ms);
		break;
	case ENDING_ASKED:
		/* A shell script waits for its child; a program that ignores SIGINT
		 * may still heed SIGTERM. */
		ranks_warn(x, ENDING_INTERRUPT_MS);
		break;
	case ENDING_WARNED:
		x->owner.name(x->owner.ctx, false);
		ending_kill(x);
		break;
	case ENDING_KILLED:
		x->owner.name(x->owner.ctx, true);
		phase_enter(x, ENDING_OVER, -1);
		break;
	case ENDING_OVER:
		break;
	}
}

int64_t ending_until(const struct ending *x)
{
	return x->phase == ENDING_RUNNING ? x->deadline_ns : x->next_ns;
}

void ending_turn(struct ending *x, int running)
{
	if (clock_ns() >= ending_until(x))
		phase_end(x, running);
}

/* -- signals to the launcher ----------------------------------------------- */

static void signal_obey(struct ending *x, int sig, unsigned sender)
{
	if (x->signal) {
		ending_kill(x);
		return;
	}
	/* The log has to say how the job ended.  Ctrl-C has no sender, nor has a signal of
	 * another namespace of processes. */
	if (!x->status && sender)
		output_say(x->output, "got signal %d (%s) from process %u: ending the job", sig,
			   strsignal(sig), sender);
	else if (!x->status)
		output_say(x->output, "got signal %d (%s): ending the job", sig,
			   strsignal(sig));
	x->signal = sig;
	if (!x->status)
		x->status = 128 + sig;
	x->owner.signal(x->owner.ctx, sig, sig == SIGINT);
	if (sig == SIGINT)
		phase_enter(x, ENDING_ASKED, ENDING_INTERRUPT_MS);
	else
		phase_enter(x, ENDING_WARNED, x->grace_ms);
}

static void stop_and_go(struct ending *x)
{
	x->owner.signal(x->owner.ctx, SIGSTOP, true);
	raise(SIGSTOP);
	x->owner.signal(x->owner.ctx, SIGCONT, true);
}

bool ending_signals(struct ending *x)
{
	struct signalfd_siginfo s;
	bool child = false;

	while (read(x->signal_fd, &s, sizeof(s)) == sizeof(s)) {
		if (s.ssi_signo == SIGCHLD)
			child = true;
		else if (s.ssi_signo == SIGTSTP)
			stop_and_go(x);
		else if (s.ssi_signo == SIGUSR1 || s.ssi_signo == SIGUSR2)
			x->owner.signal(x->owner.ctx, (int)s.ssi_signo, false);
		else
			signal_obey(x, (int)s.ssi_signo, s.ssi_pid);
	}
	return child;
}

/* -- the last output ------------------------------------------------------- */

void ending_flush(struct ending *x)
{
	int64_t until = x->signal ? clock_deadline(ENDING_STRAY_MS) : INT64_MAX;

	output_finish(x->output);
	output_move(x->output);
	while (!output_is_idle(x->output) && clock_left_ms(until)) {
		struct pollfd p[3]; /* stdout, stderr and signals: no rank writes any more */
		size_t n = output_poll(x->output, p);
		struct signalfd_siginfo s;

		p[n++] = (struct pollfd){ x->signal_fd, POLLIN, 0 };
		poll(p, n, clock_left_ms(until));
		output_move(x->output);
		while (read(x->signal_fd, &s, sizeof(s)) == sizeof(s))
			if (s.ssi_signo == SIGINT || s.ssi_signo == SIGTERM ||
			    s.ssi_signo == SIGHUP || s.ssi_signo == SIGQUIT)
				return;
	}
}

int ending_status(int code, int status)
{
	return code == CLD_EXITED ? status : 128 + status;
}

void ending_describe(int code, int status, char *out, size_t size)
{
	if (code == CLD_EXITED)
		snprintf(out, size, "exited with status %d", status);
	else
		snprintf(out, size, "was killed by signal %d (%s)%s", status, strsignal(status),
			 code == CLD_DUMPED ? ", core dumped" : "");
}

char ending_stopped(pid_t pid)
{
	struct pidstat s;

	return !pidstat_read(pid, &s) && (s.state == 'T' || s.state == 't') ? s.state : 0;
}

char ending_kill_stopped(pid_t pid)
{
	char state = ending_stopped(pid);

	if (!state)
		return 0;
	kill(-pid, SIGKILL);
	if (getpgid(pid) != pid)
		kill(pid, SIGKILL);
	return state;
}

void ending_remark(char state, char *out, size_t size)
{
	snprintf(out, size, ", since it was stopped (state %c)", state);
}
