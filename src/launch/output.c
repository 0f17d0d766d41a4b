/* output.c - forward the ranks' output, line by line, with the rank in front. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/folder.h"
#include "ringup.h"

enum {
	FULL_BYTES = 1 << 20, /* waiting bytes at which ranks are read no more   */
	READ_BYTES = 65536,
	SAFE_BYTES = 4096, /* a pipe that is ready takes this without blocking  */
};

/* A destination of lines: the launcher's stdout or stderr. */
struct sink {
	int fd;
	char *data; /* not written yet: len bytes from start on */
	size_t start, len, room;
	size_t most; /* to write at a time                       */
	bool is_dead, has_colour;
	bool is_returned; /* the cursor is in front of what was written last   */
	int error;        /* errno of the write that failed; 0: none has */
};

/* A source of lines: one stream of one rank. */
struct stream {
	int rank;    /* in front of its lines; -1: it has none yet       */
	int number;  /* of its folder                                    */
	int fd, far; /* fd to read from; far: the rank's end; -1: closed */
	int file;    /* -1: none                                         */
	struct sink *sink;
	char *line; /* the part that has no end yet */
	size_t len, room;
	bool is_returned; /* what was passed on last has ended with '\r' */
};

struct output {
	int size;
	unsigned prefix; /* of OUTPUT_* */
	int digits;      /* of a rank in the name of a folder */
	bool is_log;     /* both streams of all ranks go to the first sink */
	char dir[PATH_MAX];
	struct sink sinks[2];
	int error; /* errno of the first file or stream that could not be written; 0: none */
	char lost[160];         /* the name of that file or stream */
	struct stream *streams; /* 2 * size: rank 0's stdout, its stderr, rank 1's... */
};

/* -- sinks ---------------------------------------------------------------- */

static void sink_open(struct sink *s, int fd)
{
	const char *term = conf_env("TERM"), *plain = conf_env("NO_COLOR");
	struct stat st;

	s->fd = fd;
	s->is_dead = fstat(fd, &st) != 0;
	s->most = !s->is_dead && S_ISREG(st.st_mode) ? FULL_BYTES : SAFE_BYTES;
	s->has_colour = isatty(fd) && (!plain || !*plain) && term && strcmp(term, "dumb");
}

/* Without memory output is dropped, and the job goes on. */
static void sink_put(struct sink *s, const char *data, size_t len)
{
	char *more;

	if (s->is_dead || !len)
		return;
	if (s->start && s->start + s->len + len > s->room) {
		memmove(s->data, s->data + s->start, s->len);
		s->start = 0;
	}
	if (s->len + len > s->room) {
		more = realloc(s->data, 2 * (s->len + len));
		if (!more)
			return;
		s->data = more;
		s->room = 2 * (s->len + len);
	}
	memcpy(s->data + s->start + s->len, data, len);
	s->len += len;
}

static void sink_write(struct sink *s)
{
	while (s->len && !s->is_dead) {
		struct pollfd p = { s->fd, POLLOUT, 0 };
		size_t len = s->len < s->most ? s->len : s->most;
		ssize_t n;

		if (poll(&p, 1, 0) <= 0)
			return;
		n = write(s->fd, s->data + s->start, len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return;
		if (n < 0) {
			/* A reader that has gone away, or a full disk, must not
			 * end the ranks. */
			s->is_dead = true;
			s->len = 0;
			s->error = errno == EPIPE ? 0 : errno;
			return;
		}
		s->start += (size_t)n;
		s->len -= (size_t)n;
	}
	if (!s->len)
		s->start = 0;
}

/* True if stdout and stderr are the same file: then their lines must not mix. */
static bool is_same_place(int a, int b)
{
	struct stat x, y;

	return !fstat(a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* -- streams -------------------------------------------------------------- */

/* Writes the time as asctime() does: "Thu Nov 26 17:00:00 2026". */
static void put_time(const struct output *o, const struct stream *s)
{
	const char *space = o->prefix & OUTPUT_TAG ? "" : " ";
	time_t now = time(NULL);
	struct tm t;
	char text[64];
	size_t n;

	if (!localtime_r(&now, &t))
		return;
	n = strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &t);
	sink_put(s->sink, text, n);
	sink_put(s->sink, space, strlen(space));
}

/* Erases the line behind the cursor on a terminal, because the next line may be shorter. */
static void put_fresh(struct sink *s)
{
	if (s->is_returned && s->has_colour)
		sink_put(s, "\033[K", 3);
	s->is_returned = false;
}

static void put_prefix(const struct output *o, const struct stream *s)
{
	bool is_stderr = (s - o->streams) % 2;
	const char *behind = !(o->prefix & OUTPUT_TAG) ? " "
			     : is_stderr               ? "<stderr>:"
						       : "<stdout>:";
	char text[64], number[16] = "new";
	int n;

	if (!o->prefix)
		return;
	put_fresh(s->sink);
	if (s->rank >= 0)
		snprintf(number, sizeof(number), "%d", s->rank);
	if (o->prefix & OUTPUT_TIME)
		put_time(o, s);
	if (s->sink->has_colour)
		n = snprintf(text, sizeof(text), "\033[%dm[%s]\033[0m%s",
			     31 + (s->rank < 0 ? 0 : s->rank) % 6, number, behind);
	else
		n = snprintf(text, sizeof(text), "[%s]%s", number, behind);
	sink_put(s->sink, text, (size_t)n);
}

/* Passes on the line so far, which will not be completed. */
static void end_line(const struct output *o, struct stream *s)
{
	if (!s->len)
		return;
	put_prefix(o, s);
	sink_put(s->sink, s->line, s->len);
	if (o->prefix)
		sink_put(s->sink, "\n", 1);
	s->len = 0;
	s->is_returned = false;
}

static void output_keep(const struct output *o, struct stream *s, const char *data, size_t len)
{
	while (len) {
		size_t n = len;
		char *more;

		if (n > OUTPUT_LINE_BYTES - s->len)
			n = OUTPUT_LINE_BYTES - s->len;
		if (s->len + n > s->room) {
			more = realloc(s->line, s->len + n);
			if (!more)
				return;
			s->line = more;
			s->room = s->len + n;
		}
		memcpy(s->line + s->len, data, n);
		s->len += n;
		data += n;
		len -= n;
		if (s->len == OUTPUT_LINE_BYTES)
			end_line(o, s);
	}
}

/* The end of a line, or of a piece of it that '\r' ends, as progress bars have; NULL if none.
 */
static const char *piece_end(const char *data, size_t len)
{
	const char *line = memchr(data, '\n', len);
	const char *piece = memchr(data, '\r', line ? (size_t)(line - data) : len);

	return piece ? piece : line;
}

/* Passes on the line, or the piece, so far; it ends with @len bytes at @end. */
static void put_piece(const struct output *o, struct stream *s, const char *end, size_t len)
{
	bool is_returned = len == 1 && *end == '\r';

	/* A bar's first '\r' has no prefix, and neither has the text between '\r' and '\n'. */
	if (o->prefix && !s->len && is_returned)
		return;
	if (s->len || !s->is_returned)
		put_prefix(o, s);
	if (s->len)
		sink_put(s->sink, s->line, s->len);
	sink_put(s->sink, end, len);
	s->len = 0;
	s->is_returned = s->sink->is_returned = is_returned;
}

static void output_split(const struct output *o, struct stream *s, const char *data, size_t len)
{
	const char *end;

	while (len && (end = piece_end(data, len))) {
		size_t n = (size_t)(end - data);
		size_t mark = *end == '\r' && n + 1 < len && end[1] == '\n' ? 2 : 1;

		output_keep(o, s, data, n);
		put_piece(o, s, end, mark);
		data += n + mark;
		len -= n + mark;
	}
	output_keep(o, s, data, len);
}

/* Output is lost from here on: the job goes on, and the launcher's exit status reports it. */
static void output_lost(struct output *o, const char *where, int error)
{
	if (o->error)
		return;
	o->error = error;
	snprintf(o->lost, sizeof(o->lost), "%.159s", where);
}

static void copy_to_file(struct output *o, struct stream *s, const char *data, size_t len)
{
	while (len && s->file >= 0) {
		ssize_t n = write(s->file, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			output_lost(o, o->dir, errno);
			close(s->file);
			s->file = -1;
			output_say(o, "the output of rank %d is no longer written to %s: %s",
				   s->number, o->dir, strerror(errno));
			return;
		}
		data += n;
		len -= (size_t)n;
	}
}

static void close_stream(struct stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* Read once; true if there may be more. */
static bool pull(struct output *o, struct stream *s)
{
	char data[READ_BYTES];
	ssize_t n;

	if (s->fd < 0)
		return false;
	n = read(s->fd, data, sizeof(data));
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		end_line(o, s);
		close_stream(s);
		return false;
	}
	copy_to_file(o, s, data, (size_t)n);
	output_split(o, s, data, (size_t)n);
	return true;
}

/* -- files ---------------------------------------------------------------- */

static int open_file(struct stream *s, const char *dir, int digits, const char *name,
		     struct err *e)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/rank.%0*d", dir, digits, s->number) >=
	    (int)sizeof(path) - 8)
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", dir);
	if (mkdir(path, 0777) && errno != EEXIST)
		return fail_os(e, "%s", path);
	/* There is room: 8 bytes were left for it above. */
	memcpy(path + strlen(path), name, strlen(name) + 1);
	s->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return s->file < 0 ? fail_os(e, "%s", path) : 0;
}

/* -- the whole ------------------------------------------------------------ */

static int streams_add(struct output *o, int size, struct err *e)
{
	struct stream *more =
		realloc(o->streams, 2 * (size_t)(size ? size : 1) * sizeof(*more));
	int i, rc = 0;

	if (!more)
		return fail(e, RINGUP_ENOMEM, "no memory for the output of %d ranks", size);
	o->streams = more;
	for (i = 2 * o->size; i < 2 * size; i++)
		more[i] = (struct stream){
			.rank = i / 2,
			.number = i / 2,
			.fd = -1,
			.far = -1,
			.file = -1,
			.sink = &o->sinks[o->is_log || is_same_place(1, 2) ? 0 : i % 2],
		};
	i = 2 * o->size;
	o->size = size > o->size ? size : o->size;
	for (; *o->dir && !rc && i < 2 * size; i++)
		rc = open_file(&more[i], o->dir, o->digits, i % 2 ? "/stderr" : "/stdout", e);
	return rc;
}

int output_open(struct output **op, int size, unsigned prefix, const char *dir, struct err *e)
{
	struct output *o = calloc(1, sizeof(*o));
	int rc = 0;

	if (!o)
		return fail(e, RINGUP_ENOMEM, "no memory for the output of %d ranks", size);
	o->prefix = prefix;
	o->digits = prefix & OUTPUT_TAG && size ? snprintf(NULL, 0, "%d", size - 1) : 1;
	sink_open(&o->sinks[0], STDOUT_FILENO);
	sink_open(&o->sinks[1], STDERR_FILENO);
	if (dir) {
		snprintf(o->dir, sizeof(o->dir), "%s", dir);
		rc = folder_make(dir, 0777, e);
	}
	if (!rc)
		rc = streams_add(o, size, e);
	if (rc) {
		output_close(o);
		return rc;
	}
	*op = o;
	return 0;
}

int output_open_log(struct output **op, int fd, struct err *e)
{
	struct output *o = calloc(1, sizeof(*o));

	if (!o)
		return fail(e, RINGUP_ENOMEM, "no memory for the output of ranks");
	o->prefix = OUTPUT_TAG;
	o->is_log = true;
	sink_open(&o->sinks[0], fd);
	*op = o;
	return 0;
}

int output_grow(struct output *o, int size, struct err *e)
{
	return size > o->size ? streams_add(o, size, e) : 0;
}

void output_label(struct output *o, int i, int rank)
{
	o->streams[2 * i].rank = o->streams[2 * i + 1].rank = rank;
}

void output_feed(struct output *o, int i, int stream, const char *data, size_t len)
{
	struct stream *s = &o->streams[2 * i + stream];

	copy_to_file(o, s, data, len);
	output_split(o, s, data, len);
}

void output_end(struct output *o, int i)
{
	end_line(o, &o->streams[2 * i]);
	end_line(o, &o->streams[2 * i + 1]);
}

bool output_is_full(const struct output *o)
{
	return o->sinks[0].len >= FULL_BYTES || o->sinks[1].len >= FULL_BYTES;
}

static int make_pipe(struct stream *s, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return fail_os(e, "pipe for the output of rank %d", s->rank);
	s->fd = ends[0];
	s->far = ends[1];
	if (fcntl(s->fd, F_SETFL, O_NONBLOCK))
		return fail_os(e, "pipe for the output of rank %d", s->rank);
	return 0;
}

int output_pipes(struct output *o, int rank, int *out, int *err, struct err *e)
{
	struct stream *s = &o->streams[2 * rank];
	int rc = make_pipe(&s[0], e);

	if (!rc)
		rc = make_pipe(&s[1], e);
	*out = s[0].far;
	*err = s[1].far;
	return rc;
}

void output_started(struct output *o, int rank)
{
	for (int i = 2 * rank; i < 2 * rank + 2; i++) {
		if (o->streams[i].far >= 0)
			close(o->streams[i].far);
		o->streams[i].far = -1;
	}
}

void output_say(struct output *o, const char *fmt, ...)
{
	struct sink *s = &o->sinks[is_same_place(1, 2) ? 0 : 1];
	char text[1024] = "ringup run: ";
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - n - 1, fmt, ap);
	va_end(ap);
	fail_clean(text);
	n = strlen(text);
	text[n++] = '\n';
	put_fresh(s);
	sink_put(s, text, n);
}

size_t output_poll_count(const struct output *o)
{
	return 2 * (size_t)o->size + 2;
}

size_t output_poll(const struct output *o, struct pollfd *p)
{
	size_t n = 0;

	for (int i = 0; i < 2; i++)
		if (o->sinks[i].len)
			p[n++] = (struct pollfd){ o->sinks[i].fd, POLLOUT, 0 };
	for (int i = 0; i < 2 * o->size; i++)
		if (o->streams[i].fd >= 0 && o->streams[i].sink->len < FULL_BYTES)
			p[n++] = (struct pollfd){ o->streams[i].fd, POLLIN, 0 };
	return n;
}

void output_move(struct output *o)
{
	for (int i = 0; i < 2 * o->size; i++)
		if (o->streams[i].sink->len < FULL_BYTES)
			pull(o, &o->streams[i]);
	for (int i = 0; i < 2; i++) {
		sink_write(&o->sinks[i]);
		if (!o->sinks[i].error)
			continue;
		output_lost(o, i ? "stderr" : "stdout", o->sinks[i].error);
		o->sinks[i].error = 0;
		/* On stderr, if it is not the stream that failed. */
		if (!i)
			output_say(o, "the ranks' further output on stdout is lost: %s",
				   strerror(o->error));
	}
	sink_write(&o->sinks[1]);
}

int output_check(const struct output *o, struct err *e)
{
	if (!o || !o->error)
		return 0;
	errno = o->error;
	return fail_os(e, "the output of the ranks is incomplete: cannot write to %s", o->lost);
}

void output_drain(struct output *o, int rank)
{
	/* A pipe holds a megabyte at most; a child of the rank may go on for ever. */
	for (int i = 2 * rank; i < 2 * rank + 2; i++) {
		int times = 0;

		while (times++ < 64 && pull(o, &o->streams[i]))
			;
	}
}

void output_finish(struct output *o)
{
	for (int i = 0; i < o->size; i++)
		output_drain(o, i);
	for (int i = 0; i < 2 * o->size; i++) {
		end_line(o, &o->streams[i]);
		close_stream(&o->streams[i]);
	}
}

bool output_is_idle(const struct output *o)
{
	return !o->sinks[0].len && !o->sinks[1].len;
}

void output_close(struct output *o)
{
	if (!o)
		return;
	for (int i = 0; i < 2 * o->size; i++) {
		struct stream *s = &o->streams[i];

		output_started(o, i / 2);
		close_stream(s);
		if (s->file >= 0)
			close(s->file);
		free(s->line);
	}
	free(o->sinks[0].data);
	free(o->sinks[1].data);
	free(o->streams);
	free(o);
}
