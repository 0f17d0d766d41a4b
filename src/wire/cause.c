/* cause.c - root cause of a failure: ranks tell the launcher which rank they blame, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/cause.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"
#include "wire/discover.h"

enum { CAUSE_ROOM = 65536, CAUSE_PIPE_BYTES = 1 << 20 };

_Static_assert(sizeof(struct cause_note) + CAUSE_TEXT <= PIPE_BUF, "a note is written at once");

int cause_open(struct cause *c, int fd, int number, struct err *e)
{
	struct stat st;
	int flags;

	*c = (struct cause){ 0 };
	if (number < 0)
		return fail(e, RINGUP_EINVAL, "rank %d is negative", number);
	if (fstat(fd, &st))
		return fail_os(e, "RINGUP_CAUSE_FD=%d", fd);
	flags = fcntl(fd, F_GETFL);
	if (!S_ISFIFO(st.st_mode) || flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return fail(e, RINGUP_EINVAL,
			    "RINGUP_CAUSE_FD=%d: not the descriptor that the launcher left "
			    "open",
			    fd);
	c->fd = fd;
	c->number = (uint32_t)number;
	return 0;
}

/* The launcher may be gone: then write(2) raises a signal, which the program must not see. */
static void write_quietly(int fd, const void *data, size_t len)
{
	const struct timespec now = { 0 };
	sigset_t pipe, pending, before;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	if (sigpending(&pending) || pthread_sigmask(SIG_BLOCK, &pipe, &before))
		return;
	if (write(fd, data, len) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A note that does not fit into the pipe is lost: then the launcher has not read for long. */
static void note_write(const struct cause *c, struct cause_note *note, const char *why)
{
	unsigned char data[sizeof(*note) + CAUSE_TEXT];
	int saved = errno;

	note->number = c->number;
	note->pid = (uint32_t)getpid();
	note->has_met_here = c->has_met_here;
	note->len = (uint32_t)strnlen(why, CAUSE_TEXT - 1);
	memcpy(data, note, sizeof(*note));
	memcpy(data + sizeof(*note), why, note->len);
	write_quietly(c->fd, data, sizeof(*note) + note->len);
	errno = saved;
}

void cause_join(struct cause *c)
{
	struct cause_note note = { .kind = CAUSE_JOIN, .rank = -1 };

	if (!c->fd || c->joined)
		return;
	c->joined = true;
	note_write(c, &note, "");
}

void cause_blame(struct cause *c, int rank, enum alarm_stillness stillness,
		 const struct err *why)
{
	struct cause_note note = {
		.kind = CAUSE_BLAME, .rank = rank, .stillness = stillness, .code = why->code
	};

	if (!c->fd || !c->joined || c->left || rank == (int)c->number ||
	    __atomic_exchange_n(&c->blamed, true, __ATOMIC_RELAXED))
		return;
	note_write(c, &note, why->text);
}

void cause_leave(struct cause *c)
{
	struct cause_note note = { .kind = CAUSE_LEAVE, .rank = -1 };

	if (!c->fd || !c->joined || c->left)
		return;
	c->left = true;
	note_write(c, &note, "");
}

/* -- the launcher's side ---------------------------------------------------- */

int cause_create(struct cause_pipe *p, struct err *e)
{
	int ends[2];

	*p = (struct cause_pipe){ 0 };
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return fail_os(e, "pipe for causes of failures");
	p->in = file_lift(ends[0]);
	p->out = file_lift(ends[1]);
	/* With the usual size, notes of a thousand ranks that fail at once would not fit. */
	(void)!fcntl(p->out, F_SETPIPE_SZ, CAUSE_PIPE_BYTES);
	p->buffer = malloc(CAUSE_ROOM);
	if (p->buffer && p->in > 0 && p->out > 0)
		return 0;
	cause_close(p);
	return fail(e, RINGUP_ENOMEM, "no memory for causes of failures");
}

void cause_close(struct cause_pipe *p)
{
	if (p->in > 0)
		close(p->in);
	if (p->out > 0)
		close(p->out);
	free(p->buffer);
	*p = (struct cause_pipe){ 0 };
}

/* Reads more unless a whole note is buffered; false at the end of the available bytes. */
static bool pipe_read(struct cause_pipe *p)
{
	ssize_t n;

	memmove(p->buffer, p->buffer + p->used, p->len - p->used);
	p->len -= p->used;
	p->used = 0;
	do {
		n = read(p->in, p->buffer + p->len, CAUSE_ROOM - p->len);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		p->len += (size_t)n;
	return n > 0;
}

bool cause_next(struct cause_pipe *p, struct cause_note *note, const char **whyp)
{
	size_t left, whole;

	if (!p->in)
		return false;
	for (;;) {
		left = p->len - p->used;
		whole = sizeof(*note);
		if (left >= whole) {
			memcpy(note, p->buffer + p->used, sizeof(*note));
			/* No rank has written this, so nothing tells where the next note is. */
			if (note->len >= CAUSE_TEXT || note->kind < CAUSE_JOIN ||
			    note->kind > CAUSE_LEAVE) {
				p->used = p->len;
				continue;
			}
			whole += note->len;
		}
		if (left >= whole)
			break;
		if (!pipe_read(p))
			return false;
	}
	memcpy(p->why, p->buffer + p->used + sizeof(*note), note->len);
	p->why[note->len] = 0;
	p->used += whole;
	*whyp = p->why;
	return true;
}

void cause_begin(struct cause_seen *s)
{
	*s = (struct cause_seen){ .rank = -1 };
}

void cause_forget(struct cause_seen *s)
{
	free(s->why);
	cause_begin(s);
}

/* A process that is in no job any more begins anew, and so does another process. */
static void take_join(struct cause_seen *s, const struct cause_note *note)
{
	if (note->pid != s->pid || !s->open)
		cause_forget(s);
	s->joined = true;
	s->left = false;
	s->has_met_here |= note->has_met_here != 0;
	s->pid = note->pid;
	s->open++;
}

void cause_take(struct cause_seen *s, const struct cause_note *note, const char *why)
{
	if (note->kind == CAUSE_JOIN) {
		take_join(s, note);
	} else if (note->pid != s->pid || !s->open) {
		return;
	} else if (note->kind == CAUSE_LEAVE) {
		s->open--;
		s->left = !s->open;
	} else if (!s->code || (s->rank < 0 && note->rank >= 0)) {
		free(s->why);
		s->why = strdup(why);
		s->rank = note->rank >= 0 && note->rank < DISCOVER_RANKS ? note->rank : -1;
		s->stillness = note->stillness <= ALARM_FROZEN
				       ? (enum alarm_stillness)note->stillness
				       : ALARM_MOVES;
		s->code = note->code;
	}
}
