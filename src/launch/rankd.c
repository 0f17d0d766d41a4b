/* rankd.c - the rank daemon: starts a host's ranks for the launcher of the job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/rankd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/proc.h"
#include "host/oom.h"
#include "launch/order.h"
#include "launch/output.h"
#include "launch/rankenv.h"
#include "launch/stray.h"
#include "nicpick/own.h"
#include "ringup.h"
#include "wire/cause.h"
#include "wire/notice.h"
#include "wire/secret.h"

enum { READ_BYTES = 32768, DRAIN_TIMES = 64, STRAY_MS = 500, DEATH_MS = 2000, STREAMS = 3 };

/* A rank, as the launcher numbers its processes. */
struct worker {
	uint32_t id;
	pid_t pid;       /* 0: it has ended, but its output has not */
	int fd[STREAMS]; /* its stdout, stderr and report; -1: closed */
};

struct rankd {
	const struct rankd_task *task; /* or NULL */
	const struct conf *conf;
	struct order order;
	struct worker *worker;
	int count;
	struct pollfd *poll;
	struct stray stray;
	struct notice notice;
	struct cause cause;
	struct oom oom;
	struct output *log;   /* of what ranks print, on stderr; or NULL */
	unsigned char *setup; /* the text of argv and cwd */
	char **words;
	char *cwd, *const *argv;
	char mark[64]; /* in the environment of its ranks, and of no others */
	int secret_fd, signal_fd;
	int port_fd; /* keeps the port of the greeting free for rank 0 */
	bool has_stdin;
	uint64_t unread;   /* bytes of output that the launcher has not passed on */
	int64_t heard_ns;  /* when the launcher last sent a frame */
	bool is_paused;    /* the launcher has stopped the job, and itself        */
	bool finish, lost; /* ORDER_FINISH has come; the launcher is gone         */
};

/* -- orders of the launcher -------------------------------------------------- */

static int rankd_say(struct rankd *a, enum order_kind kind, const uint32_t *numbers, int n,
		     const void *data, size_t len)
{
	if (order_say(&a->order, kind, numbers, n, data, len, NULL) < 0)
		a->lost = true;
	return 0;
}

/* The address on which the ranks of other hosts reach this one, or "": the launcher then takes
 * the host's name.  @interface: the launcher's setting, or "". */
static void address_find(const struct rankd *a, const char *interface, char *out, size_t size)
{
	struct conf conf = *a->conf;
	struct err why = { 0 };

	if (*interface)
		conf.interface = interface;
	if (own_address(&conf, false, out, size, &why))
		*out = 0;
}

static int say_hello(struct rankd *a, const char *interface, struct err *e)
{
	int64_t now = (int64_t)time(NULL);
	cpu_set_t set;
	char text[192] = "";
	int port = 0, cores = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
	int rc = rankenv_port(&a->port_fd, &port, e);
	size_t n;

	if (rc)
		return rc;
	gethostname(text, 63);
	n = strlen(text) + 1;
	address_find(a, interface, text + n, sizeof(text) - n);
	return rankd_say(a, ORDER_HELLO,
			 (uint32_t[]){ (uint32_t)cores, (uint32_t)now, (uint32_t)(now >> 32),
				       (uint32_t)getpid(), (uint32_t)port },
			 5, text, n + strlen(text + n));
}

/* Makes the mark of this daemon's ranks, so that other daemons of the host leave them alone. */
static int daemon_name(struct rankd *a, struct err *e)
{
	unsigned char random[8];
	size_t n;

	if (getentropy(random, sizeof(random)))
		return fail_os(e, "random numbers");
	n = (size_t)snprintf(a->mark, sizeof(a->mark), "RINGUP_DAEMON=%d.", (int)getpid());
	for (size_t i = 0; i < sizeof(random); i++, n += 2)
		snprintf(a->mark + n, sizeof(a->mark) - n, "%02x", random[i]);
	return 0;
}

/* The secret, then strings: the working directory, the interface between hosts, the command. */
static int take_setup(struct rankd *a, const unsigned char *data, size_t len, struct err *e)
{
	struct secret s;
	uint32_t flags;
	int rc;

	if (a->setup || !order_numbers(&data, &len, &flags, 1) || len < SECRET_BYTES)
		return fail(e, RINGUP_EINVAL, "the launcher does not keep to the protocol");
	memcpy(s.key, data, SECRET_BYTES);
	prctl(PR_SET_DUMPABLE, 0);
	a->secret_fd = secret_to_fd(&s, e);
	secret_wipe(&s);
	if (a->secret_fd < 0)
		return a->secret_fd;
	data += SECRET_BYTES;
	len -= SECRET_BYTES;
	a->setup = malloc(len + 1);
	if (a->setup)
		memcpy(a->setup, data, len);
	a->words = a->setup ? order_strings(a->setup, len) : NULL;
	if (!a->words || !a->words[0] || !a->words[1] || !a->words[2])
		return fail(e, RINGUP_EINVAL, "the launcher does not keep to the protocol");
	a->cwd = a->words[0];
	a->argv = a->task ? a->task->argv : a->words + 2;
	a->has_stdin = flags & 1;
	oom_mark(&a->oom, "");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return fail_os(e, "subreaper");
	rc = daemon_name(a, e);
	if (!rc)
		rc = stray_open(&a->stray, a->mark, e);
	if (!rc && getsid(0) == getpid())
		stray_add(&a->stray, getpid());
	return rc ? rc : say_hello(a, a->words[1], e);
}

/* @count: of the streams that the ranks of this daemon have. */
static int make_pipes(struct worker *w, int far[STREAMS], int count)
{
	int i, ends[2];

	for (i = 0; i < STREAMS; i++)
		w->fd[i] = far[i] = -1;
	for (i = 0; i < count; i++) {
		if (pipe2(ends, O_CLOEXEC))
			return -1;
		w->fd[i] = ends[0];
		far[i] = ends[1];
		if (fcntl(ends[0], F_SETFL, O_NONBLOCK))
			return -1;
	}
	return 0;
}

static void close_streams(int fd[STREAMS])
{
	for (int i = 0; i < STREAMS; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
		fd[i] = -1;
	}
}

/* The environment of a rank: the launcher's list, and descriptors of this host.  The texts of
 * the latter lie in @text. */
static char **environment(struct rankd *a, const unsigned char *data, size_t len,
			  char text[3][48])
{
	char **list = order_strings(data, len), **more;
	size_t n = 0;

	while (list && list[n])
		n++;
	more = list ? realloc(list, (n + 5) * sizeof(*more)) : NULL;
	if (!more) {
		free(list);
		return NULL;
	}
	snprintf(text[0], 48, "RINGUP_SECRET_FD=%d", a->secret_fd);
	snprintf(text[1], 48, "RINGUP_NOTICE_FD=%d", a->notice.fd);
	more[n++] = text[0];
	more[n++] = text[1];
	if (a->cause.fd > 0) {
		snprintf(text[2], 48, "RINGUP_CAUSE_FD=%d", a->cause.fd);
		more[n++] = text[2];
	}
	more[n++] = a->mark;
	more[n] = NULL;
	return more;
}

/* Start a rank of a task: with the daemon's environment below the launcher's list @env, and
 * with the pipe @report. */
static int worker_start_task(struct rankd *a, struct proc_how *how, char **env, int report,
			     pid_t *pid, int *pidfd, struct err *e)
{
	char **whole, text[48];
	size_t n = 0;
	int rc = rankenv_overlay(conf_environ(), env, &whole, e);

	if (rc)
		return rc;
	while (whole[n])
		n++;
	how->envp = calloc(n + 2, sizeof(*whole));
	if (how->envp) {
		memcpy((void *)(uintptr_t)how->envp, whole, n * sizeof(*whole));
		snprintf(text, sizeof(text), "RINGUP_REPORT_FD=%d", report);
		((char **)(uintptr_t)how->envp)[n] = text;
		how->keep[3] = report;
		how->keep[4] = a->task->keep;
		rc = proc_start(how, pid, pidfd, e);
	} else {
		rc = fail(e, RINGUP_ENOMEM, "no memory for an environment");
	}
	free((void *)(uintptr_t)how->envp);
	rankenv_free(whole);
	return rc;
}

static int worker_start(struct rankd *a, struct worker *w, char **env, bool reads,
			struct err *e)
{
	int far[STREAMS], fds[3], pidfd = -1, rc;
	struct proc_how how = {
		.argv = a->argv,
		.envp = env,
		.dir = a->task ? NULL : a->cwd,
		.fds = fds,
		.nfds = 3,
		.keep = { a->secret_fd, a->notice.fd, a->cause.fd },
		.group = 1,
	};

	if (make_pipes(w, far, a->task ? STREAMS : 2)) {
		rc = fail_os(e, "pipe for the output of a rank");
	} else {
		fds[0] = reads ? RANKD_STDIN_FD : -1;
		fds[1] = far[0];
		fds[2] = far[1];
		rc = a->task ? worker_start_task(a, &how, env, far[2], &w->pid, &pidfd, e)
			     : proc_start(&how, &w->pid, &pidfd, e);
	}
	close_streams(far);
	if (pidfd >= 0)
		close(pidfd);
	if (rc)
		close_streams(w->fd);
	return rc;
}

static int grow(struct rankd *a)
{
	size_t n = (size_t)a->count + 1;
	struct worker *more = realloc(a->worker, n * sizeof(*more));
	struct pollfd *poll;

	if (more)
		a->worker = more;
	poll = more ? realloc(a->poll, (STREAMS * n + 4) * sizeof(*poll)) : NULL;
	if (poll)
		a->poll = poll;
	return poll ? 0 : -1;
}

static int take_start(struct rankd *a, const unsigned char *data, size_t len, struct err *e)
{
	struct err why = { 0 };
	char text[3][48], **env;
	uint32_t number[2];
	struct worker *w;
	int rc;

	if (!a->setup || !order_numbers(&data, &len, number, 2))
		return fail(e, RINGUP_EINVAL, "the launcher does not keep to the protocol");
	env = environment(a, data, len, text);
	if (!env || grow(a)) {
		free(env);
		return fail(e, RINGUP_ENOMEM, "no memory for a rank");
	}
	w = &a->worker[a->count];
	*w = (struct worker){ .id = number[0] };
	rc = !a->task && chdir(a->cwd)
		     ? fail_os(&why, "%s", a->cwd)
		     : worker_start(a, w, env, (number[1] & 1) && a->has_stdin, &why);
	free(env);
	if (rc) {
		rankd_say(a, ORDER_FAILED, (uint32_t[]){ number[0], (uint32_t)rc }, 2, why.text,
			  strlen(why.text));
		return 0;
	}
	a->count++;
	return rankd_say(a, ORDER_STARTED, (uint32_t[]){ number[0], (uint32_t)w->pid }, 2, NULL,
			 0);
}

static void worker_signal(const struct worker *w, int sig, bool all)
{
	if (!w->pid)
		return;
	if (all)
		kill(-w->pid, sig);
	if (!all || getpgid(w->pid) != w->pid)
		kill(w->pid, sig);
}

static int take_signal(struct rankd *a, const unsigned char *data, size_t len, struct err *e)
{
	uint32_t number[3];

	if (!order_numbers(&data, &len, number, 3) || number[1] > 64)
		return fail(e, RINGUP_EINVAL, "the launcher does not keep to the protocol");
	for (int i = 0; i < a->count; i++)
		if (number[0] == ORDER_ALL || number[0] == a->worker[i].id)
			worker_signal(&a->worker[i], (int)number[1], number[2]);
	if (number[1] == SIGSTOP || number[1] == SIGCONT)
		a->is_paused = number[1] == SIGSTOP;
	return 0;
}

static int take_order(struct rankd *a, int kind, const unsigned char *data, size_t len,
		      struct err *e)
{
	uint32_t number[2];

	switch (kind) {
	case ORDER_SETUP:
		return take_setup(a, data, len, e);
	case ORDER_START:
		return take_start(a, data, len, e);
	case ORDER_SIGNAL:
		return take_signal(a, data, len, e);
	case ORDER_NOTICE:
		if (!order_numbers(&data, &len, number, 2))
			break;
		notice_set(&a->notice, number[0], number[1]);
		return 0;
	case ORDER_READ:
		if (!order_numbers(&data, &len, number, 1) || number[0] > a->unread)
			break;
		a->unread -= number[0];
		return 0;
	case ORDER_FINISH:
		a->finish = true;
		return 0;
	case ORDER_PING:
		return 0;
	default:
		break;
	}
	return fail(e, RINGUP_EINVAL, "the launcher does not keep to the protocol");
}

static int take_orders(struct rankd *a, struct err *e)
{
	const unsigned char *data;
	size_t len;
	int rc;

	rc = order_read(&a->order, e);
	if (rc) {
		a->lost = true;
		return rc == RINGUP_EAUTH ? rc : 0;
	}
	a->heard_ns = clock_ns();
	while ((rc = order_next(&a->order, &data, &len, e)) > 0) {
		rc = take_order(a, rc, data, len, e);
		if (rc)
			return rc;
	}
	return rc;
}

/* -- ranks ------------------------------------------------------------------- */

/* Copies output to the daemon's stderr, a log, line by line; what a slow reader leaves no room
 * for is lost, and so is all without memory. */
static void copy_output(struct rankd *a, const struct worker *w, int stream, const char *data,
			size_t len)
{
	if (output_is_full(a->log) || output_grow(a->log, (int)w->id + 1, NULL))
		return;
	output_feed(a->log, (int)w->id, stream, data, len);
	output_move(a->log);
}

/* Read once; true if there may be more. */
static bool output_pull(struct rankd *a, struct worker *w, int stream)
{
	uint32_t number[2] = { w->id, (uint32_t)stream };
	char data[READ_BYTES];
	ssize_t n;

	if (w->fd[stream] < 0)
		return false;
	n = read(w->fd[stream], data, sizeof(data));
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		close(w->fd[stream]);
		w->fd[stream] = -1;
		return false;
	}
	if (a->log && stream < 2)
		copy_output(a, w, stream, data, (size_t)n);
	a->unread += (uint64_t)n;
	rankd_say(a, ORDER_OUTPUT, number, 2, data, (size_t)n);
	return true;
}

static void output_drain_worker(struct rankd *a, struct worker *w)
{
	for (int i = 0; i < STREAMS; i++)
		for (int times = 0; times < DRAIN_TIMES && output_pull(a, w, i); times++)
			;
}

/* Reports a rank's end; kills a failed rank's process group: it would disturb a successor. */
static void worker_ended(struct rankd *a, struct worker *w, const siginfo_t *how)
{
	/* In a job that is not elastic the number of a worker is that of its rank. */
	uint32_t number[4] = { w->id, (uint32_t)how->si_code, (uint32_t)how->si_status,
			       cause_pack(cause_read(&a->cause, (int)w->id)) };
	char memory[192] = "";

	if (how->si_code != CLD_EXITED || how->si_status)
		kill(-w->pid, SIGKILL);
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	output_drain_worker(a, w);
	if (how->si_code != CLD_EXITED)
		oom_since(&a->oom, "", memory, sizeof(memory));
	rankd_say(a, ORDER_EXIT, number, 4, memory, strlen(memory));
}

static struct worker *worker_of(struct rankd *a, pid_t pid)
{
	for (int i = 0; i < a->count; i++)
		if (a->worker[i].pid == pid)
			return &a->worker[i];
	return NULL;
}

/* Reaps ranks that have ended, and their orphans, which have become this process's children. */
static void reap(struct rankd *a)
{
	struct worker *w;
	siginfo_t how;

	stray_keep(&a->stray, NULL);
	for (;;) {
		how.si_pid = 0;
		if (waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT) || !how.si_pid)
			return;
		w = worker_of(a, how.si_pid);
		if (w) {
			worker_ended(a, w, &how);
			continue;
		}
		if (how.si_pid == a->stray.guard)
			return; /* for the next call to replace */
		waitpid(how.si_pid, NULL, WNOHANG);
	}
}

static int running(const struct rankd *a)
{
	int n = 0;

	for (int i = 0; i < a->count; i++)
		n += a->worker[i].pid != 0;
	return n;
}

static void forget_ended(struct rankd *a)
{
	int n = 0;

	for (int i = 0; i < a->count; i++)
		if (a->worker[i].pid || a->worker[i].fd[0] >= 0 || a->worker[i].fd[1] >= 0 ||
		    a->worker[i].fd[2] >= 0)
			a->worker[n++] = a->worker[i];
	a->count = n;
}

/* -- the loop ---------------------------------------------------------------- */

static int take_signals(struct rankd *a, struct err *e)
{
	static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		sigaddset(&set, wanted[i]);
		signal(wanted[i], SIG_DFL);
	}
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return fail_os(e, "signals");
	a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return a->signal_fd < 0 ? fail_os(e, "signalfd") : 0;
}

/* Signals other than SIGCHLD end this daemon, and so its ranks. */
static void read_signals(struct rankd *a)
{
	struct signalfd_siginfo s;

	while (read(a->signal_fd, &s, sizeof(s)) == sizeof(s))
		if (s.ssi_signo != SIGCHLD)
			a->lost = true;
	reap(a);
}

/* Nothing is written to the lifeline: it ends with the process that holds its other end. */
static void read_lifeline(struct rankd *a)
{
	char ignored[64];
	ssize_t n = read(a->task->lifeline, ignored, sizeof(ignored));

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		a->lost = true;
}

static int rankd_turn(struct rankd *a, int64_t until, struct err *e)
{
	struct pollfd *p = a->poll;
	int n = 4, rc = 0;

	p[0] = (struct pollfd){ a->order.in, POLLIN, 0 };
	p[1] = (struct pollfd){ order_events(&a->order) ? a->order.out : -1, POLLOUT, 0 };
	p[2] = (struct pollfd){ a->signal_fd, POLLIN, 0 };
	p[3] = (struct pollfd){ a->task ? a->task->lifeline : -1, POLLIN, 0 };
	for (int i = 0; i < a->count && a->unread < RANKD_WINDOW_BYTES; i++)
		for (int k = 0; k < STREAMS; k++)
			if (a->worker[i].fd[k] >= 0)
				p[n++] = (struct pollfd){ a->worker[i].fd[k], POLLIN, 0 };
	if (poll(p, (nfds_t)n, clock_left_ms(until)) < 0 && errno != EINTR)
		return fail_os(e, "poll");
	if (p[1].revents && order_flush(&a->order, NULL) < 0)
		a->lost = true;
	if (p[3].revents)
		read_lifeline(a);
	for (int i = 0; i < a->count && a->unread < RANKD_WINDOW_BYTES; i++)
		for (int k = 0; k < STREAMS; k++)
			output_pull(a, &a->worker[i], k);
	read_signals(a);
	forget_ended(a);
	if (p[0].revents && !a->lost)
		rc = take_orders(a, e);
	return rc;
}

/* End all ranks: by SIGTERM first if the launcher is there, else by SIGKILL at once. */
static void end_ranks(struct rankd *a)
{
	int64_t patience = clock_deadline(a->lost ? 0 : STRAY_MS);
	int64_t enough = clock_deadline(STRAY_MS + DEATH_MS);
	int sig = a->lost ? SIGKILL : SIGTERM;

	if (!a->setup)
		return;
	for (int i = 0; i < a->count; i++)
		worker_signal(&a->worker[i], SIGKILL, true);
	while ((stray_signal(&a->stray, sig) || running(a)) && clock_left_ms(enough)) {
		sig = clock_left_ms(patience) ? 0 : SIGKILL;
		clock_sleep_ms(5);
		reap(a);
	}
}

static void say_bye(struct rankd *a)
{
	int64_t enough = clock_deadline(DEATH_MS);

	for (int i = 0; i < a->count; i++) {
		output_drain_worker(a, &a->worker[i]);
		for (int k = 0; k < STREAMS; k++)
			if (a->worker[i].fd[k] >= 0)
				close(a->worker[i].fd[k]);
	}
	a->count = 0;
	rankd_say(a, ORDER_BYE, NULL, 0, NULL, 0);
	while (!a->lost && order_events(&a->order) && clock_left_ms(enough)) {
		struct pollfd p = { a->order.out, POLLOUT, 0 };

		poll(&p, 1, clock_left_ms(enough));
		if (order_flush(&a->order, NULL) < 0)
			a->lost = true;
	}
}

/* The last lines of the log, for a reader that is there. */
static void end_log(struct rankd *a)
{
	int64_t enough = clock_deadline(STRAY_MS);

	output_finish(a->log);
	for (output_move(a->log); !output_is_idle(a->log) && clock_left_ms(enough);
	     output_move(a->log)) {
		struct pollfd p = { STDERR_FILENO, POLLOUT, 0 };

		poll(&p, 1, clock_left_ms(enough));
	}
	output_close(a->log);
}

static void rankd_close(struct rankd *a)
{
	if (a->log)
		end_log(a);
	stray_close(&a->stray);
	notice_close(&a->notice);
	cause_close(&a->cause);
	if (a->secret_fd >= 0)
		close(a->secret_fd);
	if (a->signal_fd >= 0)
		close(a->signal_fd);
	if (a->port_fd >= 0)
		close(a->port_fd);
	order_close(&a->order);
	free(a->words);
	free(a->setup);
	free(a->worker);
	free(a->poll);
}

int rankd_run(int in, int out, const struct rankd_task *task, const struct conf *conf,
	      struct err *e)
{
	struct rankd a = {
		.task = task, .conf = conf, .secret_fd = -1, .signal_fd = -1, .port_fd = -1
	};
	int64_t silence_ns = (task ? RANKD_TASK_SILENCE_MS : RANKD_SILENCE_MS) * 1000000ll;
	int rc;

	/* Ranks of one host share a session: see proc_start_all(). */
	setsid();
	order_open(&a.order, in, out, false);
	rc = take_signals(&a, e);
	if (!rc)
		rc = notice_create(&a.notice, e);
	/* Without the file the first end that is seen counts as the cause. */
	if (!rc && cause_create(&a.cause, e)) {
		log_warn("%s; so the first rank that is seen to end is named", e->text);
		e->code = 0;
	}
	if (!rc && grow(&a))
		rc = fail(e, RINGUP_ENOMEM, "no memory for ranks");
	if (!rc && task)
		rc = order_seal(&a.order, task->key, CIPHER_SERVER, e);
	if (!rc && task && task->copies)
		rc = output_open_log(&a.log, STDERR_FILENO, e);
	if (rc >= 0)
		rc = order_greet(&a.order, e);
	a.heard_ns = clock_ns();
	while (!rc && !a.finish && !a.lost) {
		int64_t late = a.is_paused ? INT64_MAX : a.heard_ns + silence_ns;

		rc = rankd_turn(&a, late, e);
		if (clock_ns() >= late)
			a.lost = true;
	}
	end_ranks(&a);
	if (!a.lost)
		say_bye(&a);
	rankd_close(&a);
	return rc < 0 ? rc : 0;
}
