/* starter.c - start an agent on another node, with ssh, mpirun or srun. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/starter.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/data.h"
#include "base/err.h"
#include "base/proc.h"
#include "ringup.h"

enum { TERM_MS = 300, COMMAND = 2048 };

/* ssh must neither ask for a password nor wait long for a host that does not answer. */
static const char *const ssh[] = {
	"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "LogLevel=ERROR"
};
static const char *const mpirun[] = { "mpirun", "-np", "1", "--host" };
static const char *const srun[] = { "srun", "-N1", "-n1", "--overlap", "--input=0", "-w" };

/* Words under construction. */
struct line {
	char **argv;
	int n;
	char *buf;
	size_t left;
	bool full;
};

static void starter_add(struct line *l, const char *text, size_t len)
{
	if (l->n + 1 >= STARTER_WORDS || len + 1 > l->left) {
		l->full = true;
		return;
	}
	l->argv[l->n++] = memcpy(l->buf, text, len);
	l->buf[len] = 0;
	l->buf += len + 1;
	l->left -= len + 1;
}

static void add_list(struct line *l, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		starter_add(l, words[i], strlen(words[i]));
}

static void add_ssh(struct line *l, const struct starter_options *how)
{
	char port[16];

	add_list(l, ssh, sizeof(ssh) / sizeof(*ssh));
	if (how->keeps_alive)
		add_list(l,
			 (const char *const[]){ "-o", "ServerAliveInterval=5", "-o",
						"ServerAliveCountMax=3" },
			 4);
	if (how->port) {
		snprintf(port, sizeof(port), "%d", how->port);
		add_list(l, (const char *const[]){ "-p", port }, 2);
	}
	if (how->identity)
		add_list(l, (const char *const[]){ "-i", how->identity }, 2);
}

/* Adds the user's own words; true if the node was among them. */
static bool add_shell(struct line *l, const char *words, const char *node)
{
	char word[COMMAND];
	bool named = false;
	const char *at;
	size_t len;

	for (; *(words += strspn(words, " \t")); words += len) {
		len = strcspn(words, " \t");
		at = memmem(words, len, "%h", 2);
		if (!at) {
			starter_add(l, words, len);
			continue;
		}
		named = true;
		snprintf(word, sizeof(word), "%.*s%s%.*s", (int)(at - words), words, node,
			 (int)(words + len - at - 2), at + 2);
		starter_add(l, word, strlen(word));
	}
	return named;
}

/* ssh hands its words to a shell, other starters do not: no quoting suits both. */
static bool is_plain(const char *path)
{
	const char *p;

	for (p = path; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("/._+-:@%=,", *p))
			return false;
	return *path && *path != '-';
}

int starter_words(const struct starter_options *how, const char *node,
		  char *argv[STARTER_WORDS], char *buf, size_t size, struct err *e)
{
	struct line l = { argv, 0, buf, size, false };
	char self[PATH_MAX] = "";
	bool named = false;

	if (!how->ringup && data_program(self, e))
		return e->code;
	if (!is_plain(how->ringup ? how->ringup : self))
		return fail(e, RINGUP_EINVAL,
			    "--ringup %.80s: use only letters, digits and /._+-:@%%=",
			    how->ringup ? how->ringup : self);
	if (how->kind == STARTER_MPIRUN)
		add_list(&l, mpirun, sizeof(mpirun) / sizeof(*mpirun));
	else if (how->kind == STARTER_SRUN)
		add_list(&l, srun, sizeof(srun) / sizeof(*srun));
	else if (how->shell)
		named = add_shell(&l, how->shell, node);
	else
		add_ssh(&l, how);
	if (!named)
		starter_add(&l, node, strlen(node));
	starter_add(&l, how->ringup ? how->ringup : self,
		    strlen(how->ringup ? how->ringup : self));
	if (how->command[0])
		add_list(&l, how->command, how->command[1] ? 2 : 1);
	else
		add_list(&l, (const char *const[]){ "net", "agent" }, 2);
	argv[l.n] = NULL;
	return l.full ? fail(e, RINGUP_EINVAL, "the command to start agents is too long") : 0;
}

int starter_begin(struct starter *s, const struct starter_options *how, const char *node,
		  struct err *e)
{
	char buf[4 * COMMAND], *argv[STARTER_WORDS];
	int talk[2], errors[2], fds[3],
		rc = starter_words(how, node, argv, buf, sizeof(buf), e);
	struct proc_how p = { .argv = argv, .fds = fds, .nfds = 3, .session = 1 };

	*s = (struct starter){ .pidfd = -1, .fd = -1, .errors = -1 };
	if (rc)
		return rc;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk))
		return fail_os(e, "socketpair");
	if (pipe2(errors, O_CLOEXEC)) {
		close(talk[0]);
		close(talk[1]);
		return fail_os(e, "pipe");
	}
	fds[0] = fds[1] = talk[1];
	fds[2] = errors[1];
	rc = proc_start(&p, &s->pid, &s->pidfd, e);
	close(talk[1]);
	close(errors[1]);
	s->fd = talk[0];
	s->errors = errors[0];
	fcntl(s->fd, F_SETFL, O_NONBLOCK);
	fcntl(s->errors, F_SETFL, O_NONBLOCK);
	if (rc)
		s->pid = 0;
	return rc;
}

void starter_hang_up(struct starter *s)
{
	if (s->fd >= 0)
		shutdown(s->fd, SHUT_WR);
}

static bool is_gone(const struct starter *s, int64_t deadline_ns)
{
	struct pollfd p = { s->pidfd, POLLIN, 0 };

	return poll(&p, 1, clock_left_ms(deadline_ns)) > 0;
}

void starter_end(struct starter *s, int64_t deadline_ns)
{
	if (s->pid) {
		if (!is_gone(s, deadline_ns)) {
			kill(-s->pid, SIGTERM);
			if (!is_gone(s, clock_deadline(TERM_MS)))
				kill(-s->pid, SIGKILL);
		}
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (s->pidfd >= 0)
		close(s->pidfd);
	if (s->fd >= 0)
		close(s->fd);
	if (s->errors >= 0)
		close(s->errors);
	*s = (struct starter){ .pidfd = -1, .fd = -1, .errors = -1 };
}
