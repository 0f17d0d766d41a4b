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
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "launch/crew.h"
#include "launch/order.h"
#include "launch/output.h"
#include "launch/rankenv.h"
#include "nicpick/own.h"
#include "ringup.h"
#include "wire/cause.h"
#include "wire/notice.h"
#include "wire/secret.h"

enum { READ_BYTES = 32768, DRAIN_TIMES = 64, STRAY_MS = 500, DEATH_MS = 2000, STREAMS = 3 };

/* The output of a rank; it may continue after the rank has ended. */
struct worker {
	uint32_t id;     /* as the launcher numbers its processes             */
	int fd[STREAMS]; /* its stdout, stderr and report; -1: closed         */
};

struct rankd {
	const struct rankd_task *task; /* or NULL */
	const struct conf *conf;
	struct order order;
	struct worker *worker;
	int count;
	struct pollfd *poll;
	struct crew crew;
	struct notice notice;
	struct output *log;   /* of what ranks print, on stderr; or NULL */
	unsigned char *setup; /* the text of argv and cwd */
	char **words;
	char *cwd;
	int signal_fd;
	int port_fd; /* keeps the port of the greeting free for rank 0 */
	bool has_stdin;
	uint64_t unread;   /* bytes of output that the launcher has not passed on */
	int64_t heard_ns;  /* when the launcher last sent a frame */
	bool is_paused;    /* the launcher has stopped the job, and itself        */
	bool finish, lost; /* ORDER_FINISH has arrived; the launcher is gone         */
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
	n = (size_t)snprintf(a->crew.mark, CREW_VAR, "RINGUP_DAEMON=%d.", (int)getpid());
	for (size_t i = 0; i < sizeof(random); i++, n += 2)
		snprintf(a->crew.mark + n, CREW_VAR - n, "%02x", random[i]);
	return 0;
}

/* The secret, then strings: the working directory, the interface between hosts, the command. */
static int take_setup(struct rankd *a, const unsigned char *data, size_t len, struct err *e)
{
	struct secret s;
	uint32_t flags;
	int rc;

	if (a->setup || !order_numbers(&data, &len, &flags, 1) || len < SECRET_BYTES)
		return fail(e, RINGUP_EINVAL, "the launcher violates the protocol");
	memcpy(s.key, data, SECRET_BYTES);
	rc = daemon_name(a, e);
	if (!rc)
		rc = crew_open(&a->crew, &s, e);
	secret_wipe(&s);
	if (rc)
		return rc;
	data += SECRET_BYTES;
	len -= SECRET_BYTES;
	a->setup = malloc(len + 1);
	if (a->setup)
		memcpy(a->setup, data, len);
	a->words = a->setup ? order_strings(a->setup, len) : NULL;
	if (!a->words || !a->words[0] || !a->words[1] || !a->words[2])
		return fail(e, RINGUP_EINVAL, "the launcher violates the protocol");
	a->cwd = a->words[0];
	a->crew.argv = a->task ? a->task->argv : a->words + 2;
	a->has_stdin = flags & 1;
	return say_hello(a, a->words[1], e);
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

/* Starts the rank of worker @w.  Below a task's rank lies the daemon's environment, and it has
 * a pipe for reports. */
static int worker_start(struct rankd *a, struct worker *w, char **env, bool reads, pid_t *pid,
			struct err *e)
{
	struct crew_start r = { .id = (int)w->id, .env = env };
	int far[STREAMS], rc = 0;
	char **whole = NULL;

	if (make_pipes(w, far, a->task ? STREAMS : 2))
		rc = fail_os(e, "pipe for the output of a rank");
	if (!rc && a->task)
		rc = rankenv_overlay(conf_environ(), env, &whole, e);
	if (!rc) {
		r.fds[0] = reads ? RANKD_STDIN_FD : -1;
		r.fds[1] = far[0];
		r.fds[2] = far[1];
		r.report = far[2];
		r.env = whole ? whole : env;
		rc = crew_start(&a->crew, &r, 1, e);
	}
	rankenv_free(whole);
	close_streams(far);
	if (rc)
		close_streams(w->fd);
	*pid = r.pid;
	return rc;
}

static int grow(struct rankd *a)
{
	size_t n = (size_t)a->count + 1;
	struct worker *more = realloc(a->worker, n * sizeof(*more));
	struct pollfd *poll;

	if (more)
		a->worker = more;
	poll = more ? realloc(a->poll, (STREAMS * n + 5) * sizeof(*poll)) : NULL;
	if (poll)
		a->poll = poll;
	return poll ? 0 : -1;
}

static int take_start(struct rankd *a, const unsigned char *data, size_t len, struct err *e)
{
	struct err why = { 0 };
	uint32_t number[2];
	struct worker *w;
	char **env;
	pid_t pid = 0;
	int rc;

	if (!a->setup || !order_numbers(&data, &len, number, 2))
		return fail(e, RINGUP_EINVAL, "the launcher violates the protocol");
	env = order_strings(data, len);
	if (!env || grow(a)) {
		free(env);
		return fail(e, RINGUP_ENOMEM, "no memory for a rank");
	}
	w = &a->worker[a->count];
	*w = (struct worker){ .id = number[0] };
	rc = !a->task && chdir(a->cwd)
		     ? fail_os(&why, "%s", a->cwd)
		     : worker_start(a, w, env, (number[1] & 1) && a->has_stdin, &pid, &why);
	free(env);
	if (rc) {
		rankd_say(a, ORDER_FAILED, (uint32_t[]){ number[0], (uint32_t)rc }, 2, why.text,
			  strlen(why.text));
		return 0;
	}
	a->count++;
	return rankd_say(a, ORDER_STARTED, (uint32_t[]){ number[0], (uint32_t)pid }, 2, NULL,
			 0);
}

static int take_signal(struct rankd *a, const unsigned char *data, size_t len, struct err *e)
{
	uint32_t number[3];

	if (!order_numbers(&data, &len, number, 3) || number[1] > 64 ||
	    number[2] > ORDER_IF_STOPPED)
		return fail(e, RINGUP_EINVAL, "the launcher violates the protocol");
	/* ORDER_ALL is -1. */
	crew_signal(&a->crew, (int)number[0], (int)number[1], number[2]);
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
	return fail(e, RINGUP_EINVAL, "the launcher violates the protocol");
}

static int take_orders(struct rankd *a, struct err *e)
{
	const unsigned char *data;
	size_t len;
	int rc;

	rc = stream_read(&a->order.stream, e);
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

static void rank_noted(void *ctx, const struct cause_note *note, const char *why)
{
	uint32_t numbers[] = { note->number,         note->pid,
			       note->kind,           note->has_met_here,
			       (uint32_t)note->rank, note->stillness,
			       (uint32_t)note->code };

	rankd_say(ctx, ORDER_NOTE, numbers, 7, why, note->len);
}

static void rank_ended(void *ctx, int id, int code, int status, const char *remark)
{
	uint32_t number[3] = { (uint32_t)id, (uint32_t)code, (uint32_t)status };
	struct rankd *a = ctx;

	for (int i = 0; i < a->count; i++)
		if (a->worker[i].id == (uint32_t)id)
			output_drain_worker(a, &a->worker[i]);
	rankd_say(a, ORDER_EXIT, number, 3, remark, strlen(remark));
}

/* Forgets workers whose output has ended; crew has those that run. */
static void forget_ended(struct rankd *a)
{
	int n = 0;

	for (int i = 0; i < a->count; i++)
		if (a->worker[i].fd[0] >= 0 || a->worker[i].fd[1] >= 0 ||
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
	bool child = false;

	while (read(a->signal_fd, &s, sizeof(s)) == sizeof(s)) {
		child |= s.ssi_signo == SIGCHLD;
		a->lost |= s.ssi_signo != SIGCHLD;
	}
	if (child && a->setup)
		crew_reap(&a->crew, NULL);
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
	int n = 5, rc = 0;

	p[0] = (struct pollfd){ a->order.stream.in, POLLIN, 0 };
	p[1] = (struct pollfd){ stream_events(&a->order.stream) ? a->order.stream.out : -1,
				POLLOUT, 0 };
	p[2] = (struct pollfd){ a->signal_fd, POLLIN, 0 };
	p[3] = (struct pollfd){ a->task ? a->task->lifeline : -1, POLLIN, 0 };
	p[4] = (struct pollfd){ a->crew.cause.in > 0 ? a->crew.cause.in : -1, POLLIN, 0 };
	for (int i = 0; i < a->count && a->unread < RANKD_WINDOW_BYTES; i++)
		for (int k = 0; k < STREAMS; k++)
			if (a->worker[i].fd[k] >= 0)
				p[n++] = (struct pollfd){ a->worker[i].fd[k], POLLIN, 0 };
	if (poll(p, (nfds_t)n, clock_left_ms(until)) < 0 && errno != EINTR)
		return fail_os(e, "poll");
	if (p[1].revents && stream_flush(&a->order.stream, NULL) < 0)
		a->lost = true;
	if (p[3].revents)
		read_lifeline(a);
	for (int i = 0; i < a->count && a->unread < RANKD_WINDOW_BYTES; i++)
		for (int k = 0; k < STREAMS; k++)
			output_pull(a, &a->worker[i], k);
	crew_notes(&a->crew);
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

	if (!a->setup)
		return;
	crew_signal(&a->crew, -1, SIGKILL, ORDER_GROUP);
	crew_reap(&a->crew, NULL);
	while ((crew_sweep(&a->crew, clock_left_ms(patience)) || a->crew.count) &&
	       clock_left_ms(enough)) {
		clock_sleep_ms(5);
		crew_reap(&a->crew, NULL);
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
	while (!a->lost && stream_events(&a->order.stream) && clock_left_ms(enough)) {
		struct pollfd p = { a->order.stream.out, POLLOUT, 0 };

		poll(&p, 1, clock_left_ms(enough));
		if (stream_flush(&a->order.stream, NULL) < 0)
			a->lost = true;
	}
}

/* Writes the last lines of the log, if its reader still exists. */
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
	crew_close(&a->crew);
	notice_close(&a->notice);
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
	struct rankd a = { .task = task, .conf = conf, .signal_fd = -1, .port_fd = -1 };
	int64_t silence_ns = (task ? RANKD_TASK_SILENCE_MS : RANKD_SILENCE_MS) * 1000000ll;
	int rc;

	/* Ranks of one host share a session: see proc_start_all(). */
	setsid();
	order_open(&a.order, in, out, false);
	rc = take_signals(&a, e);
	if (!rc)
		rc = notice_create(&a.notice, e);
	a.crew = (struct crew){ .owner = { rank_ended, rank_noted, &a },
				.notice_fd = a.notice.fd,
				.keep = task ? task->keep : 0,
				.is_daemon = true };
	if (!rc && grow(&a))
		rc = fail(e, RINGUP_ENOMEM, "no memory for ranks");
	if (!rc && task)
		rc = order_seal(&a.order, task->key, SHAKE_SERVER, e);
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
