/* finder.c - host discovery: run the user's script periodically, and read its hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/finder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/proc.h"
#include "ringup.h"

void finder_open(struct finder *f, const char *script, int slots, int64_t every_ms)
{
	*f = (struct finder){
		.script = script,
		.slots = slots,
		.every_ms = every_ms > FINDER_SOONEST_MS ? every_ms : FINDER_SOONEST_MS,
		.pidfd = -1,
		.fd = -1,
	};
}

static int script_begin(struct finder *f, struct err *e)
{
	const char *argv[] = { "sh", "-c", f->script, NULL };
	int ends[2], fds[3] = { -1, -1, STDERR_FILENO }, rc;
	struct proc_how how = {
		.argv = (char *const *)(uintptr_t)argv, .fds = fds, .nfds = 3, .session = 1
	};

	if (pipe2(ends, O_CLOEXEC))
		return fail_os(e, "pipe");
	fds[1] = ends[1];
	rc = proc_start(&how, &f->pid, &f->pidfd, e);
	close(ends[1]);
	if (rc) {
		close(ends[0]);
		f->pid = 0;
		return rc;
	}
	f->fd = ends[0];
	fcntl(f->fd, F_SETFL, O_NONBLOCK);
	f->len = 0;
	f->late_ns = clock_deadline(FINDER_LIMIT_MS);
	return 0;
}

/* End the script and the processes that it has started.  Returns its wait status. */
static int script_end(struct finder *f)
{
	int status = 0;

	kill(-f->pid, SIGKILL);
	while (waitpid(f->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (f->fd >= 0)
		close(f->fd);
	close(f->pidfd);
	f->pid = 0;
	f->fd = f->pidfd = -1;
	return status;
}

static int output_take(struct finder *f, struct err *e)
{
	ssize_t n;

	if (!f->text)
		f->text = malloc(FINDER_BYTES + 1);
	if (!f->text)
		return fail(e, RINGUP_ENOMEM, "no memory for its output");
	for (;;) {
		n = read(f->fd, f->text + f->len, FINDER_BYTES - f->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return 1;
		f->len += (size_t)n;
		if (f->len == FINDER_BYTES)
			return fail(e, RINGUP_EINVAL, "it prints more than %d bytes",
				    FINDER_BYTES);
	}
}

static bool has_ended(const struct finder *f)
{
	struct pollfd p = { f->pidfd, POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

/* Reads output; 1 when the script has ended and its output is complete. */
static int script_go_on(struct finder *f, struct err *e)
{
	bool ended = has_ended(f);
	int status, rc = f->fd < 0 ? 1 : output_take(f, e);

	if (rc == 1 && f->fd >= 0) {
		close(f->fd);
		f->fd = -1;
	}
	if (rc >= 0 && !ended) {
		if (clock_ns() < f->late_ns)
			return 0;
		rc = fail(e, RINGUP_ETIMEDOUT, "it has not ended after %d s",
			  FINDER_LIMIT_MS / 1000);
	}
	status = script_end(f);
	if (rc < 0)
		return rc;
	if (WIFSIGNALED(status))
		return fail(e, RINGUP_ESYSTEM, "it was killed by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status))
		return fail(e, RINGUP_ESYSTEM, "it ended with status %d", WEXITSTATUS(status));
	f->text[f->len] = 0;
	return 1;
}

static int hosts_take(struct finder *f, struct err *e)
{
	struct hostlist l = { 0 };
	int rc = hostlist_script(&l, f->text, f->slots, e);

	/* An API that fails briefly prints nothing, although the hosts still run the job. */
	if (!rc && f->hosts.count && !hostlist_slots(&l))
		rc = fail(e, RINGUP_EINVAL, "it printed no host");
	if (rc) {
		hostlist_fini(&l);
		return rc;
	}
	hostlist_fini(&f->hosts);
	f->hosts = l;
	return 1;
}

int finder_serve(struct finder *f, struct err *e)
{
	struct err why = { 0 };
	int rc = 0;

	if (!f->pid && clock_ns() < f->next_ns)
		return 0;
	if (!f->pid) {
		rc = script_begin(f, &why);
		f->next_ns = clock_deadline(f->every_ms);
	}
	if (!rc)
		rc = script_go_on(f, &why);
	if (rc > 0)
		rc = hosts_take(f, &why);
	if (rc > 0)
		f->failing = false;
	if (rc >= 0 || f->failing)
		return rc > 0;
	f->failing = true;
	return fail(e, why.code, "host discovery script %.80s: %s", f->script, why.text);
}

size_t finder_poll(const struct finder *f, struct pollfd *p)
{
	size_t n = 0;

	/* A finder that was never opened has zeros, and 0 is the standard input. */
	if (!f->pid)
		return 0;
	p[n++] = (struct pollfd){ f->pidfd, POLLIN, 0 };
	if (f->fd >= 0)
		p[n++] = (struct pollfd){ f->fd, POLLIN, 0 };
	return n;
}

int64_t finder_until(const struct finder *f)
{
	if (!f->script)
		return INT64_MAX;
	return f->pid ? f->late_ns : f->next_ns;
}

void finder_close(struct finder *f)
{
	if (f->pid)
		script_end(f);
	free(f->text);
	hostlist_fini(&f->hosts);
	*f = (struct finder){ 0 };
}
