/* contender.c - a player that consists of other processes: start, orders, end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/contender.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/proc.h"
#include "bench/bind.h"
#include "ringup.h"

enum { LEAVE_MS = 15000, TERM_MS = 3000, KILL_MS = 2000, ANSWER_MS = 300000 };
enum { ROOM = 32 + PLAYER_SAMPLES * 24 };

/* One rank of a contender. */
struct line {
	int fd, pidfd; /* -1: none */
	pid_t pid;
	size_t len;
	char *text; /* ROOM bytes, the text received so far */
};

struct contender {
	char name[PLAYER_NAME], about[PLAYER_ABOUT];
	int ranks, stop_fd;
	bool pin;
	pid_t pid;
	int pidfd;
	bool lost; /* its answers are not awaited */
	struct line *line;
	struct pollfd *polls;
};

/* -- the door ------------------------------------------------------------- */

int contender_listen(struct contender_door *d, struct err *e)
{
	const char *tmp = conf_env("TMPDIR");
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	d->fd = -1;
	if (!tmp || !*tmp || strlen(tmp) + sizeof("/ringup-bench.XXXXXX") > sizeof(d->dir))
		tmp = "/tmp";
	snprintf(d->dir, sizeof(d->dir), "%s/ringup-bench.XXXXXX", tmp);
	if (!mkdtemp(d->dir)) {
		fail_os(e, "a directory in %s", tmp);
		d->dir[0] = 0;
		return RINGUP_ESYSTEM;
	}
	snprintf(d->path, sizeof(d->path), "%s/door", d->dir);
	memcpy(a.sun_path, d->path, strlen(d->path));
	d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->fd < 0 || bind(d->fd, (struct sockaddr *)&a, sizeof(a)) || listen(d->fd, 1024))
		return fail_os(e, "%s", d->path);
	return 0;
}

void contender_hush(struct contender_door *d)
{
	struct dirent *entry;
	DIR *dir;

	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	dir = *d->dir ? opendir(d->dir) : NULL;
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
	rmdir(d->dir);
	d->dir[0] = 0;
}

/* -- lines ---------------------------------------------------------------- */

static void hang_up(struct line *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

/* Reads available bytes: 1 if a line is complete (its end becomes a NUL), 0 not yet. */
static int contender_read_line(struct line *l, struct err *e)
{
	ssize_t n = read(l->fd, l->text + l->len, ROOM - 1 - l->len);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return fail(e, RINGUP_EPEER, "it has ended");
	if (n < 0)
		return fail_os(e, "connection");
	l->len += (size_t)n;
	l->text[l->len] = 0;
	end = strchr(l->text, '\n');
	if (!end)
		return l->len < ROOM - 1 ? 0 : fail(e, RINGUP_EINVAL, "an endless answer");
	*end = 0;
	l->len = 0;
	return 1;
}

static int send_all(struct contender *c, const char *text, struct err *e)
{
	size_t len = strlen(text);

	/* Orders are short and the last one has been read: the socket has room for them. */
	for (int i = 0; i < c->ranks; i++) {
		if (send(c->line[i].fd, text, len, MSG_NOSIGNAL) == (ssize_t)len)
			continue;
		if (errno == EPIPE || errno == ECONNRESET)
			return fail(e, RINGUP_EPEER, "rank %d: it has ended", i);
		return fail_os(e, "rank %d", i);
	}
	return 0;
}

/* Waits until every rank has answered with a line. */
static int hear_all(struct contender *c, struct err *e)
{
	int64_t deadline = clock_deadline(ANSWER_MS);
	int waiting = c->ranks, i, rc;

	for (i = 0; i < c->ranks; i++)
		c->polls[i] = (struct pollfd){ c->line[i].fd, POLLIN, 0 };
	c->polls[i] = (struct pollfd){ c->stop_fd, POLLIN, 0 };
	while (waiting) {
		if (poll(c->polls, (nfds_t)c->ranks + 1, clock_left_ms(deadline)) == 0)
			return fail(e, RINGUP_ETIMEDOUT, "no answer in %d s", ANSWER_MS / 1000);
		if (c->polls[c->ranks].revents)
			return fail(e, RINGUP_EABORTED, "interrupted");
		for (i = 0; i < c->ranks; i++) {
			if (!c->polls[i].revents || c->polls[i].fd < 0)
				continue;
			rc = contender_read_line(&c->line[i], e);
			if (rc < 0)
				return fail_in(e, "rank %d", i);
			if (rc) {
				c->polls[i].fd = -1;
				waiting--;
			}
		}
	}
	return 0;
}

/* -- playing -------------------------------------------------------------- */

/* Parses "ok WRONG US...": @us keeps the slowest rank's times. */
static int take_times(const char *text, const struct dose *d, double *us, int64_t *wrong,
		      struct err *e)
{
	char *end;
	long long n = strtoll(text + 3, &end, 10);

	if (n < 0 || *wrong < 0)
		*wrong = -1;
	else
		*wrong += n;
	for (int i = 0; i < d->samples; i++) {
		const char *at = end;
		double x = strtod(at, &end);

		if (end == at)
			return fail(e, RINGUP_EINVAL, "%d samples of %d", i, d->samples);
		us[i] = x > us[i] ? x : us[i];
	}
	return 0;
}

/* Sends @line to all ranks and waits for all answers. */
static int order(struct contender *c, const char *line, struct err *e)
{
	int rc = send_all(c, line, e);

	return rc ? rc : hear_all(c, e);
}

static int contender_play(void *self, const struct task *t, const struct dose *d, double *us,
			  int64_t *wrong, struct err *e)
{
	struct contender *c = self;
	char line[TASK_LINE_BYTES];
	int rc;

	*wrong = 0;
	memset(us, 0, (size_t)d->samples * sizeof(*us));
	rc = task_write(t, d, line, e);
	if (!rc)
		rc = order(c, line, e);
	for (int i = 0; i < c->ranks && !rc; i++) {
		const char *text = c->line[i].text;

		if (!strncmp(text, "ok ", 3))
			rc = take_times(text, d, us, wrong, e);
		else if (!strncmp(text, "no ", 3)) {
			fail(e, RINGUP_EINVAL, "%.200s", text + 3);
			return 1;
		} else
			rc = fail(e, RINGUP_EPEER, "rank %d: %.200s", i,
				  !strncmp(text, "fail ", 5) ? text + 5 : text);
	}
	c->lost = c->lost || rc < 0;
	return rc;
}

static int rest(void *self, struct err *e)
{
	struct contender *c = self;
	int rc = order(c, "rest\n", e);

	c->lost = c->lost || rc < 0;
	return rc;
}

struct player contender_player(struct contender *c)
{
	struct player p = { .play = contender_play, .rest = rest, .self = c };

	memcpy(p.name, c->name, sizeof(p.name));
	memcpy(p.about, c->about, sizeof(p.about));
	return p;
}

/* -- start ---------------------------------------------------------------- */

/* Admits a connection if its process is this user's, and keeps a pidfd to end it. */
static int contender_admit(int fd, struct line *l)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.uid != getuid()) {
		close(fd);
		return -1;
	}
	l->fd = fd;
	l->len = 0;
	l->pid = who.pid;
	l->pidfd = (int)syscall(SYS_pidfd_open, who.pid, 0);
	return 0;
}

static int hello(struct contender *c, struct line *l, struct err *e)
{
	int rank, size, at = 0;

	if (sscanf(l->text, "hello %d %d %n", &rank, &size, &at) < 2 || !at)
		return fail(e, RINGUP_EINVAL, "a rank said \"%.60s\"", l->text);
	if (size != c->ranks || rank < 0 || rank >= size)
		return fail(e, RINGUP_EINVAL, "rank %d of %d, expected %d ranks", rank, size,
			    c->ranks);
	if (rank == 0)
		snprintf(c->about, sizeof(c->about), "%s", l->text + at);
	if (c->line[rank].fd >= 0)
		return fail(e, RINGUP_EINVAL, "two ranks %d", rank);
	/* Both entries keep their own text buffer; only the other fields move. */
	c->line[rank].fd = l->fd;
	c->line[rank].pidfd = l->pidfd;
	l->fd = l->pidfd = -1;
	return c->pin ? bind_process(l->pid, rank, e) : 0;
}

/* Reads a whole line from a new connection. */
static int first_words(struct contender *c, struct line *l, int64_t deadline, struct err *e)
{
	struct pollfd p[2] = { { l->fd, POLLIN, 0 }, { c->stop_fd, POLLIN, 0 } };
	int rc = 0;

	while (!rc) {
		if (poll(p, 2, clock_left_ms(deadline)) == 0)
			return fail(e, RINGUP_ETIMEDOUT, "a rank has connected and is silent");
		if (p[1].revents)
			return fail(e, RINGUP_EABORTED, "interrupted");
		rc = contender_read_line(l, e);
	}
	return rc < 0 ? fail_in(e, "a rank that has connected") : hello(c, l, e);
}

static int contender_gather(struct contender *c, const struct contender_how *how, struct err *e)
{
	int64_t deadline = clock_deadline(how->timeout_ms);
	struct line l = { .fd = -1, .pidfd = -1, .text = malloc(ROOM) };
	int came = 0, fd, rc = l.text ? 0 : fail(e, RINGUP_ENOMEM, "an answer");

	while (!rc && came < c->ranks) {
		struct pollfd p[3] = { { how->door->fd, POLLIN, 0 },
				       { c->pidfd, POLLIN, 0 },
				       { c->stop_fd, POLLIN, 0 } };

		if (poll(p, 3, clock_left_ms(deadline)) == 0)
			rc = fail(e, RINGUP_ETIMEDOUT, "%d of %d ranks came in %d s", came,
				  c->ranks, how->timeout_ms / 1000);
		else if (p[2].revents)
			rc = fail(e, RINGUP_EABORTED, "interrupted");
		else if (p[1].revents)
			rc = fail(e, RINGUP_EPEER, "ended before its ranks came");
		if (rc || !p[0].revents)
			continue;
		fd = accept4(how->door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 || contender_admit(fd, &l))
			continue;
		rc = first_words(c, &l, deadline, e);
		came++;
	}
	hang_up(&l);
	if (l.pidfd >= 0)
		close(l.pidfd);
	free(l.text);
	return rc;
}

int contender_start(const struct contender_how *how, struct contender **cp, struct err *e)
{
	struct contender *c = calloc(1, sizeof(*c));
	int fds[3] = { -1, STDERR_FILENO, STDERR_FILENO }, i, rc;
	struct proc_how p = { .argv = how->argv, .fds = fds, .nfds = 3, .session = 1 };

	if (!c)
		return fail(e, RINGUP_ENOMEM, "%s", how->name);
	c->ranks = how->ranks;
	c->pin = how->pin;
	c->stop_fd = how->stop_fd;
	c->pidfd = -1;
	snprintf(c->name, sizeof(c->name), "%s", how->name);
	c->line = calloc((size_t)c->ranks, sizeof(*c->line));
	c->polls = calloc((size_t)c->ranks + 1, sizeof(*c->polls));
	for (i = 0; c->line && i < c->ranks; i++)
		c->line[i] = (struct line){ .fd = -1, .pidfd = -1, .text = malloc(ROOM) };
	for (i = 0; c->line && i < c->ranks && c->line[i].text; i++)
		;
	rc = i < c->ranks || !c->polls ? fail(e, RINGUP_ENOMEM, "%s", how->name) : 0;
	if (!rc)
		rc = proc_start(&p, &c->pid, &c->pidfd, e);
	if (!rc)
		rc = contender_gather(c, how, e);
	if (rc) {
		c->lost = true;
		contender_end(c);
		return fail_in(e, "%s", how->name);
	}
	*cp = c;
	return 0;
}

/* -- end ------------------------------------------------------------------ */

static bool has_ended(int pidfd, int64_t deadline)
{
	struct pollfd p = { pidfd, POLLIN, 0 };

	while (poll(&p, 1, clock_left_ms(deadline)) < 0 && errno == EINTR)
		;
	return p.revents != 0;
}

static void kill_rank(const struct line *l)
{
	if (l->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0);
}

static void await_launcher(struct contender *c)
{
	bool ended = has_ended(c->pidfd, clock_deadline(c->lost ? 0 : LEAVE_MS));

	if (!ended) {
		kill(c->pid, SIGTERM);
		ended = has_ended(c->pidfd, clock_deadline(TERM_MS));
	}
	if (!ended)
		kill(-c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(c->pidfd);
}

void contender_end(struct contender *c)
{
	if (!c)
		return;
	for (int i = 0; c->line && i < c->ranks; i++)
		hang_up(&c->line[i]);
	if (c->pidfd >= 0)
		await_launcher(c);
	for (int i = 0; c->line && i < c->ranks; i++) {
		kill_rank(&c->line[i]);
		if (c->line[i].pidfd >= 0) {
			has_ended(c->line[i].pidfd, clock_deadline(KILL_MS));
			close(c->line[i].pidfd);
		}
		free(c->line[i].text);
	}
	free(c->line);
	free(c->polls);
	free(c);
}
