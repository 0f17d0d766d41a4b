/* fleet.c - the rank daemons of a job's hosts, as the launcher starts and drives them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/fleet.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/build.h"
#include "base/clock.h"
#include "base/data.h"
#include "base/err.h"
#include "base/proc.h"
#include "launch/parent.h"
#include "launch/rankd.h"
#include "launch/rankenv.h"
#include "ringup.h"
#include "wire/cause.h"

enum { END_MS = 1000, WORDS_MS = 500 };

void fleet_open(struct fleet *f, const struct fleet_options *how, struct fleet_owner owner)
{
	*f = (struct fleet){ .how = how, .owner = owner };
	f->ping_ns = clock_deadline(RANKD_PING_MS);
}

int fleet_add(struct fleet *f, const char *name, struct err *e)
{
	struct fleet_host *h = array_more(&f->host, &f->count, sizeof(*h));

	if (!h)
		return fail(e, RINGUP_ENOMEM, "no memory for %d hosts", f->count + 1);
	*h = (struct fleet_host){
		.starter = { .pidfd = -1, .fd = -1, .errors = -1 },
		.order = { .stream = { .in = -1, .out = -1 } },
		.is_local = !f->how->parent && hostlist_is_local(name),
	};
	snprintf(h->name, sizeof(h->name), "%s", name);
	snprintf(h->self, sizeof(h->self), "%s", name);
	return f->count - 1;
}

static bool is_open(const struct fleet_host *h)
{
	return h->state == FLEET_STARTING || h->state == FLEET_UP;
}

static void host_lose(struct fleet *f, struct fleet_host *h, const char *why)
{
	char text[512];

	if (!is_open(h))
		return;
	snprintf(text, sizeof(text), "%s", why);
	h->state = FLEET_LOST;
	starter_hang_up(&h->starter);
	starter_end(&h->starter, 0);
	order_close(&h->order);
	f->owner.lost(f->owner.ctx, (int)(h - f->host), text);
}

/* Keeps the last line of stderr: ssh's reason for giving up, or a shell's missing command. */
static void host_hear_errors(struct fleet_host *h)
{
	char text[1024], *line, *end;
	ssize_t n = 1;

	while (h->starter.errors >= 0 &&
	       (n = read(h->starter.errors, text, sizeof(text) - 1)) > 0) {
		text[n] = 0;
		for (line = text; (end = strpbrk(line, "\r\n")); line = end + 1) {
			*end = 0;
			if (*line)
				order_text(h->last_line, sizeof(h->last_line), line,
					   strlen(line));
		}
		if (*line)
			order_text(h->last_line, sizeof(h->last_line), line, strlen(line));
	}
	if (n == 0 && h->starter.errors >= 0) {
		close(h->starter.errors);
		h->starter.errors = -1;
	}
}

static bool has(const char *text, const char *part)
{
	return strcasestr(text, part) != NULL;
}

/* The cure for a message of ssh or of the shell on that host. */
static const char *remedy(const char *last_line)
{
	if (has(last_line, "permission denied") || has(last_line, "too many authentication"))
		return "; give that host this user's key (ssh-copy-id), or name another with "
		       "--ssh-identity-file";
	if (has(last_line, "host key verification"))
		return "; connect once manually and accept the host's key";
	if (has(last_line, "unknown command"))
		return "; another version of ringup is installed there: install the same "
		       "version on all hosts";
	if (has(last_line, "command not found") || has(last_line, "no such file") ||
	    has(last_line, "not found"))
		return "; install ringup there, at the same path as here";
	if (has(last_line, "could not resolve") || has(last_line, "name or service not known"))
		return "; is the name right?";
	if (has(last_line, "no route") || has(last_line, "timed out") ||
	    has(last_line, "unreachable"))
		return "; is it up, and does a firewall let ssh through?";
	if (has(last_line, "connection refused"))
		return "; does sshd run there, on that port (--ssh-port)?";
	return "";
}

/* Standard error may come a moment after the end of the connection. */
static void host_hear_out(struct fleet_host *h)
{
	int64_t enough = clock_deadline(WORDS_MS);

	host_hear_errors(h);
	while (h->starter.errors >= 0 && clock_left_ms(enough)) {
		struct pollfd p = { h->starter.errors, POLLIN, 0 };

		poll(&p, 1, clock_left_ms(enough));
		host_hear_errors(h);
	}
}

static void host_ended(struct fleet *f, struct fleet_host *h, const struct err *e)
{
	const char *last_line;
	char text[512];

	host_hear_out(h);
	last_line = *h->last_line ? h->last_line : h->order.noise;
	if (h->state == FLEET_STARTING && *last_line)
		snprintf(text, sizeof(text), "%s%s", last_line, remedy(last_line));
	else if (h->state == FLEET_STARTING)
		snprintf(text, sizeof(text), "ringup does not start there");
	else
		snprintf(text, sizeof(text), "%s%s%s", e->text, *last_line ? ": " : "",
			 last_line);
	host_lose(f, h, text);
}

static void host_say(struct fleet *f, struct fleet_host *h, enum order_kind kind,
		     const uint32_t *numbers, int n, const void *data, size_t len)
{
	struct err e = { 0 };

	if (is_open(h) && order_say(&h->order, kind, numbers, n, data, len, &e) < 0)
		host_ended(f, h, &e);
}

/* The secret, then strings: see rankd.c. */
static int host_set_up(struct fleet *f, struct fleet_host *h, bool reads, struct err *e)
{
	const struct fleet_options *how = f->how;
	size_t len = SECRET_BYTES, n;
	uint32_t flags = reads;
	unsigned char *data, *p;
	const char *interface = how->interface ? how->interface : "";
	char *const *word;

	len += strlen(how->cwd) + 1 + strlen(interface) + 1;
	for (word = how->argv; *word; word++)
		len += strlen(*word) + 1;
	data = malloc(len);
	if (!data)
		return fail(e, RINGUP_ENOMEM, "no memory for a command");
	memcpy(data, how->secret->key, SECRET_BYTES);
	p = data + SECRET_BYTES;
	n = strlen(how->cwd) + 1;
	p = (unsigned char *)memcpy(p, how->cwd, n) + n;
	n = strlen(interface) + 1;
	p = (unsigned char *)memcpy(p, interface, n) + n;
	for (word = how->argv; *word; word++) {
		n = strlen(*word) + 1;
		p = (unsigned char *)memcpy(p, *word, n) + n;
	}
	host_say(f, h, ORDER_SETUP, &flags, 1, data, len);
	explicit_bzero(data, SECRET_BYTES);
	free(data);
	return 0;
}

/* -- ranks of this process ------------------------------------------------------ */

static void here_ended(void *ctx, int id, int code, int status, const char *remark)
{
	struct fleet *f = ctx;

	f->owner.ended(f->owner.ctx, id, code, status, remark);
}

static void here_noted(void *ctx, const struct cause_note *note, const char *why)
{
	struct fleet *f = ctx;

	f->owner.noted(f->owner.ctx, note, why);
}

static int here_begin(struct fleet *f, struct fleet_host *h, struct err *e)
{
	cpu_set_t set;
	int rc;

	f->crew = (struct crew){ .owner = { here_ended, here_noted, f }, .argv = f->how->argv };
	snprintf(f->crew.mark, CREW_VAR, "%s", f->how->mark);
	rc = crew_open(&f->crew, f->how->secret, e);
	if (rc)
		return rc;
	h->cores = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
	h->state = FLEET_UP;
	f->owner.up(f->owner.ctx, (int)(h - f->host));
	return 0;
}

/* A rank gets the launcher's standard input, unless a terminal would stop it for reading in the
 * background. */
static int here_stdin(void)
{
	int flags = fcntl(STDIN_FILENO, F_GETFL);

	/* A closed stdin has been replaced by a write-only descriptor: see out_start(). */
	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY)
		return -1;
	if (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) != getpgrp())
		return -1;
	return STDIN_FILENO;
}

static int here_queue(struct fleet *f, int worker, char **env, bool reads, struct err *e)
{
	struct crew_start *s = array_more(&f->queue, &f->queued, sizeof(*s));

	if (!s)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", f->queued + 1);
	*s = (struct crew_start){ .id = worker, .env = env };
	s->fds[0] = reads ? here_stdin() : -1;
	return f->owner.pipes(f->owner.ctx, worker, &s->fds[1], &s->fds[2], e);
}

static void queue_drop(struct fleet *f)
{
	for (int i = 0; i < f->queued; i++)
		rankenv_free((char **)(uintptr_t)f->queue[i].env);
	free(f->queue);
	f->queue = NULL;
	f->queued = 0;
}

void fleet_launch(struct fleet *f)
{
	struct err e = { 0 };
	int i, rc;

	if (!f->queued)
		return;
	rc = crew_start(&f->crew, f->queue, f->queued, &e);
	for (i = 0; i < f->queued && f->queue[i].pid; i++)
		;
	if (rc)
		fail_in(&e, "cannot start rank %d of %d", i == f->queued ? i - 1 : i,
			f->queued);
	for (i = 0; i < f->queued; i++)
		if (f->queue[i].pid)
			f->owner.started(f->owner.ctx, f->queue[i].id, f->queue[i].pid);
	for (i = 0; i < f->queued; i++)
		if (!f->queue[i].pid)
			f->owner.failed(f->owner.ctx, f->queue[i].id, &e);
	queue_drop(f);
}

int fleet_reap(struct fleet *f, struct err *e)
{
	return f->how->is_here && f->count ? crew_reap(&f->crew, e) : 0;
}

/* -- daemons -------------------------------------------------------------------- */

/* Start the daemon of this host; @reads: with the launcher's standard input as RANKD_STDIN_FD.
 */
static int local_begin(struct fleet_host *h, bool reads, struct err *e)
{
	char self[PATH_MAX] = "";
	const char *argv[] = { self, "rankd", NULL };
	int talk[2], fds[4], rc;
	struct proc_how p = { .argv = (char *const *)(uintptr_t)argv,
			      .fds = fds,
			      .nfds = reads ? 4 : 3,
			      .session = 1 };

	if (data_program(self, e))
		return e->code;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk))
		return fail_os(e, "socketpair");
	fds[0] = fds[1] = talk[1];
	fds[2] = STDERR_FILENO;
	fds[3] = STDIN_FILENO;
	rc = proc_start(&p, &h->starter.pid, &h->starter.pidfd, e);
	close(talk[1]);
	if (rc) {
		close(talk[0]);
		h->starter.pid = 0;
		return rc;
	}
	h->starter.fd = talk[0];
	return 0;
}

int fleet_begin(struct fleet *f, int i, struct err *e)
{
	struct fleet_host *h = &f->host[i];
	bool reads = h->is_local && f->how->gives_stdin && !f->stdin_given;
	struct secret key;
	int rc;

	if (is_open(h))
		return 0;
	if (f->how->is_here)
		return here_begin(f, h, e);
	h->starter = (struct starter){ .pidfd = -1, .fd = -1, .errors = -1 };
	*h->last_line = 0;
	h->unread = 0;
	if (f->how->parent)
		rc = h->starter.fd = parent_connect(f->how->parent, h->name, &key, e);
	else if (h->is_local)
		rc = local_begin(h, reads, e);
	else
		rc = starter_begin(&h->starter, &f->how->start, h->name, e);
	if (rc < 0)
		return fail_in(e, "%s", h->name);
	if (reads)
		f->stdin_given = true;
	h->state = FLEET_STARTING;
	h->late_ns = clock_deadline(f->how->start_ms);
	order_open(&h->order, h->starter.fd, h->starter.fd, true);
	if (f->how->parent) {
		/* The end of a connection is noticed at the next write or read. */
		rc = order_seal(&h->order, &key, SHAKE_CLIENT, e);
		secret_wipe(&key);
		if (rc < 0 && rc != RINGUP_EPEER)
			return fail_in(e, "%s", h->name);
	}
	return host_set_up(f, h, reads, e);
}

static void host_start(struct fleet *f, struct fleet_host *h, int worker, char *const *env,
		       bool reads)
{
	uint32_t number[2] = { (uint32_t)worker, reads };
	size_t len = 0, n;
	char *const *p;
	char *data, *at;

	for (p = env; *p; p++)
		len += strlen(*p) + 1;
	at = data = malloc(len);
	if (!data) {
		host_lose(f, h, "no memory for an environment");
		return;
	}
	for (p = env; *p; p++, at += n) {
		n = strlen(*p) + 1;
		memcpy(at, *p, n);
	}
	host_say(f, h, ORDER_START, number, 2, data, len);
	free(data);
}

void fleet_start(struct fleet *f, int h, int worker, char **env, bool reads)
{
	struct err e = { 0 };

	if (!f->how->is_here) {
		host_start(f, &f->host[h], worker, env, reads);
		rankenv_free(env);
	} else if (here_queue(f, worker, env, reads, &e)) {
		f->owner.failed(f->owner.ctx, worker, &e);
	}
}

void fleet_signal(struct fleet *f, int h, uint32_t worker, int sig, enum order_whom whom)
{
	uint32_t number[3] = { worker, (uint32_t)sig, whom };

	if (f->how->is_here)
		crew_signal(&f->crew, (int)worker, sig, whom);
	else if (f->host[h].state == FLEET_UP)
		host_say(f, &f->host[h], ORDER_SIGNAL, number, 3, NULL, 0);
}

void fleet_signal_all(struct fleet *f, int sig, enum order_whom whom)
{
	for (int i = 0; i < f->count; i++)
		fleet_signal(f, i, ORDER_ALL, sig, whom);
}

void fleet_notice(struct fleet *f, uint32_t generation, unsigned bits)
{
	uint32_t number[2] = { generation, bits };

	for (int i = 0; i < f->count; i++)
		host_say(f, &f->host[i], ORDER_NOTICE, number, 2, NULL, 0);
}

static void host_acknowledge(struct fleet *f, struct fleet_host *h)
{
	uint32_t n = h->unread;

	h->unread = 0;
	if (n)
		host_say(f, h, ORDER_READ, &n, 1, NULL, 0);
}

void fleet_hold(struct fleet *f, bool held)
{
	f->held = held;
	for (int i = 0; i < f->count && !held; i++)
		host_acknowledge(f, &f->host[i]);
}

void fleet_finish(struct fleet *f)
{
	for (int i = 0; i < f->count; i++) {
		struct fleet_host *h = &f->host[i];

		if (f->how->is_here)
			h->state = FLEET_DONE;
		if (h->state == FLEET_STARTING) {
			/* This daemon has started no rank. */
			h->state = FLEET_DONE;
			starter_hang_up(&h->starter);
			continue;
		}
		if (h->state == FLEET_UP && !h->finishing)
			host_say(f, h, ORDER_FINISH, NULL, 0, NULL, 0);
		h->finishing = true;
	}
}

bool fleet_is_done(const struct fleet *f)
{
	for (int i = 0; i < f->count; i++)
		if (f->host[i].state == FLEET_UP)
			return false;
	return true;
}

/* -- frames of daemons -------------------------------------------------------- */

static const char *const breach = "it violates the protocol";

static void take_hello(struct fleet *f, struct fleet_host *h, const unsigned char *data,
		       size_t len)
{
	uint32_t number[5];
	const unsigned char *end;
	char text[256];
	int64_t ahead;

	if (!order_numbers(&data, &len, number, 5) || h->state != FLEET_STARTING) {
		host_lose(f, h, breach);
		return;
	}
	if (strcmp(h->order.version, build_version()) != 0) {
		snprintf(text, sizeof(text),
			 "ringup %.31s is installed there, ringup %s here: install the same "
			 "version on all hosts",
			 h->order.version, build_version());
		host_lose(f, h, text);
		return;
	}
	ahead = (int64_t)((uint64_t)number[2] << 32 | number[1]) - (int64_t)time(NULL);
	if (ahead > FLEET_CLOCK_S || ahead < -FLEET_CLOCK_S) {
		snprintf(
			text, sizeof(text),
			"its clock is %lld s %s this one's: set it (chronyc makestep, ntpdate)",
			(long long)(ahead < 0 ? -ahead : ahead),
			ahead < 0 ? "behind" : "ahead of");
		host_lose(f, h, text);
		return;
	}
	h->cores = (int)number[0];
	h->port = (int)(number[4] & 0xffff);
	end = memchr(data, 0, len);
	if (end && end > data && (size_t)(end - data) < sizeof(h->self))
		order_text(h->self, sizeof(h->self), data, (size_t)(end - data));
	if (end)
		order_text(h->address, sizeof(h->address), end + 1,
			   len - (size_t)(end + 1 - data));
	h->state = FLEET_UP;
	f->owner.up(f->owner.ctx, (int)(h - f->host));
}

static void take_failed(struct fleet *f, struct fleet_host *h, const unsigned char *data,
			size_t len)
{
	uint32_t number[2];
	struct err why = { 0 };
	char text[sizeof(why.text)];

	if (!order_numbers(&data, &len, number, 2) || (int)number[1] >= 0) {
		host_lose(f, h, breach);
		return;
	}
	order_text(text, sizeof(text), data, len);
	fail(&why, (int)number[1], "%s: %s", h->name, text);
	f->owner.failed(f->owner.ctx, (int)number[0], &why);
}

static void take_output(struct fleet *f, struct fleet_host *h, const unsigned char *data,
			size_t len)
{
	uint32_t number[2];

	if (!order_numbers(&data, &len, number, 2) || number[1] > (f->how->parent ? 2 : 1)) {
		host_lose(f, h, breach);
		return;
	}
	h->unread += (uint32_t)len;
	f->owner.output(f->owner.ctx, (int)number[0], (int)number[1], (const char *)data, len);
	if (!f->held)
		host_acknowledge(f, h);
}

static void take_exit(struct fleet *f, struct fleet_host *h, const unsigned char *data,
		      size_t len)
{
	uint32_t number[3];
	char remark[200] = "";

	if (!order_numbers(&data, &len, number, 3) || len >= sizeof(remark)) {
		host_lose(f, h, breach);
		return;
	}
	order_text(remark, sizeof(remark), data, len);
	f->owner.ended(f->owner.ctx, (int)number[0], (int)number[1], (int)number[2], remark);
}

static void take_note(struct fleet *f, struct fleet_host *h, const unsigned char *data,
		      size_t len)
{
	uint32_t number[7];
	struct cause_note note;
	char why[CAUSE_TEXT];

	if (!order_numbers(&data, &len, number, 7) || len >= sizeof(why)) {
		host_lose(f, h, breach);
		return;
	}
	order_text(why, sizeof(why), data, len);
	note = (struct cause_note){ .number = number[0],
				    .pid = number[1],
				    .kind = number[2],
				    .has_met_here = number[3],
				    .rank = (int32_t)number[4],
				    .stillness = number[5],
				    .code = (int32_t)number[6] };
	f->owner.noted(f->owner.ctx, &note, why);
}

static void take_word(struct fleet *f, struct fleet_host *h, int kind,
		      const unsigned char *data, size_t len)
{
	uint32_t number[2];

	if (kind == ORDER_HELLO) {
		take_hello(f, h, data, len);
	} else if (h->state != FLEET_UP) {
		host_lose(f, h, breach);
	} else if (kind == ORDER_STARTED && order_numbers(&data, &len, number, 2)) {
		f->owner.started(f->owner.ctx, (int)number[0], (pid_t)number[1]);
	} else if (kind == ORDER_FAILED) {
		take_failed(f, h, data, len);
	} else if (kind == ORDER_OUTPUT) {
		take_output(f, h, data, len);
	} else if (kind == ORDER_EXIT) {
		take_exit(f, h, data, len);
	} else if (kind == ORDER_NOTE) {
		take_note(f, h, data, len);
	} else if (kind == ORDER_BYE && h->finishing) {
		h->state = FLEET_DONE;
	} else {
		host_lose(f, h, breach);
	}
}

static void host_late(struct fleet *f, struct fleet_host *h)
{
	char text[512];

	if (*h->last_line)
		snprintf(text, sizeof(text), "%s%s", h->last_line, remedy(h->last_line));
	else
		snprintf(text, sizeof(text),
			 "no answer after %lld s; is it up? (--start-timeout)",
			 (long long)(f->how->start_ms / 1000));
	host_lose(f, h, text);
}

static void host_serve(struct fleet *f, int i)
{
	struct fleet_host *h = &f->host[i];
	const unsigned char *data;
	struct err e = { 0 };
	size_t len;
	int kind = 0, rc;

	if (stream_events(&h->order.stream) && stream_flush(&h->order.stream, &e) < 0) {
		host_ended(f, h, &e);
		return;
	}
	host_hear_errors(h);
	rc = stream_read(&h->order.stream, &e);
	while (is_open(h) && (kind = order_next(&h->order, &data, &len, &e)) > 0) {
		take_word(f, h, kind, data, len);
		h = &f->host[i];
	}
	if (is_open(h) && (kind < 0 || rc == RINGUP_EAUTH))
		host_lose(f, h, e.text);
	else if (is_open(h) && rc)
		host_ended(f, h, &e);
	else if (h->state == FLEET_STARTING && clock_ns() >= h->late_ns)
		host_late(f, h);
}

/* -- the loop ---------------------------------------------------------------- */

size_t fleet_poll_count(const struct fleet *f)
{
	return 2 * (size_t)f->count;
}

size_t fleet_poll(const struct fleet *f, struct pollfd *p)
{
	size_t n = 0;

	for (int i = 0; i < f->count; i++) {
		const struct fleet_host *h = &f->host[i];

		if (!is_open(h))
			continue;
		if (f->how->is_here) {
			p[n++] = (struct pollfd){ f->crew.cause.in > 0 ? f->crew.cause.in : -1,
						  POLLIN, 0 };
			continue;
		}
		p[n++] =
			(struct pollfd){ h->order.stream.in,
					 (short)(POLLIN | stream_events(&h->order.stream)), 0 };
		if (h->starter.errors >= 0)
			p[n++] = (struct pollfd){ h->starter.errors, POLLIN, 0 };
	}
	return n;
}

int64_t fleet_until(const struct fleet *f)
{
	int64_t until = f->how->is_here ? INT64_MAX : f->ping_ns;

	for (int i = 0; i < f->count; i++)
		if (f->host[i].state == FLEET_STARTING && f->host[i].late_ns < until)
			until = f->host[i].late_ns;
	return until;
}

static bool is_ready(const struct fleet_host *h)
{
	struct pollfd p = { h->order.stream.in,
			    (short)(POLLIN | stream_events(&h->order.stream)), 0 };

	return poll(&p, 1, 0) > 0 || (h->state == FLEET_STARTING && clock_ns() >= h->late_ns);
}

void fleet_serve(struct fleet *f)
{
	bool ping = clock_ns() >= f->ping_ns;

	if (f->how->is_here) {
		crew_notes(&f->crew);
		return;
	}
	if (ping)
		f->ping_ns = clock_deadline(RANKD_PING_MS);
	for (int i = 0; i < f->count; i++) {
		if (ping)
			host_say(f, &f->host[i], ORDER_PING, NULL, 0, NULL, 0);
		if (is_open(&f->host[i])) {
			host_hear_errors(&f->host[i]);
			if (is_ready(&f->host[i]))
				host_serve(f, i);
		}
	}
}

void fleet_close(struct fleet *f)
{
	int64_t enough = clock_deadline(END_MS);

	for (int i = 0; i < f->count; i++)
		starter_hang_up(&f->host[i].starter);
	for (int i = 0; i < f->count; i++) {
		starter_end(&f->host[i].starter, enough);
		order_close(&f->host[i].order);
	}
	queue_drop(f);
	if (f->how && f->how->is_here)
		crew_close(&f->crew);
	free(f->host);
	*f = (struct fleet){ 0 };
}
