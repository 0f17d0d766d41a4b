/* read.c - read the bytes of a log: a file or a stream, compressed or not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/read.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/proc.h"
#include "ringup.h"

static const struct packing {
	const char *magic;
	size_t len;
	const char *const argv[5];
} packings[] = {
	{ "\x1f\x8b", 2, { "gzip", "-dcq", NULL } },
	{ "BZh", 3, { "bzip2", "-dcq", NULL } },
	{ "\xfd"
	  "7zXZ",
	  5,
	  { "xz", "-dcq", "--threads=1", NULL } },
	{ "\x28\xb5\x2f\xfd", 4, { "zstd", "-dcq", NULL } },
};

/* Reads the first bytes of @fd without taking them. */
static size_t peek(int fd, char *out, size_t size)
{
	int copy[2];
	off_t at = lseek(fd, 0, SEEK_CUR);
	ssize_t n = at < 0 ? -1 : pread(fd, out, size, at);

	if (at >= 0 || pipe2(copy, O_CLOEXEC))
		return n > 0 ? (size_t)n : 0;
	n = tee(fd, copy[1], size, 0);
	if (n > 0)
		n = read(copy[0], out, (size_t)n);
	close(copy[0]);
	close(copy[1]);
	return n > 0 ? (size_t)n : 0;
}

static const struct packing *find_packing(int fd)
{
	char first[8];
	size_t n = peek(fd, first, sizeof(first)), i;

	for (i = 0; i < sizeof(packings) / sizeof(packings[0]); i++)
		if (n >= packings[i].len && !memcmp(first, packings[i].magic, packings[i].len))
			return &packings[i];
	return NULL;
}

/* Starts the unpacking program between our open file and our reading end. */
static int unpack(struct reader *r, const struct packing *k, struct err *e)
{
	int out[2], fds[3], rc;
	struct proc_how how = { .argv = (char *const *)k->argv, .fds = fds, .nfds = 3 };

	if (pipe2(out, O_CLOEXEC))
		return fail_os(e, "pipe");
	fds[0] = r->fd;
	fds[1] = out[1];
	fds[2] = -1;
	rc = proc_start(&how, &r->pid, &r->pidfd, e);
	close(out[1]);
	if (r->fd > 2)
		close(r->fd);
	r->fd = out[0];
	r->program = k->argv[0];
	if (rc)
		r->pid = 0;
	return rc;
}

int read_open(struct reader *r, const char *path, struct err *e)
{
	const struct packing *k;
	struct stat st;

	*r = (struct reader){ .path = path, .fd = -1, .pidfd = -1 };
	r->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : 0;
	if (r->fd < 0)
		return fail_os(e, "open");
	if (!fstat(r->fd, &st) && S_ISDIR(st.st_mode))
		return fail(e, RINGUP_EINVAL, "it is a folder; name the logs inside");
	k = find_packing(r->fd);
	return k ? unpack(r, k, e) : 0;
}

/* UTF-16, as PowerShell writes logs, begins with the mark FEFF; then one byte of two is the
 * letter, and the other is 0 for ASCII. */
static ssize_t narrow(struct reader *r, char *into, ssize_t n)
{
	ssize_t i, out = 0;

	if (!r->is_begun && n > 1 && !memcmp(into, "\xff\xfe", 2))
		r->wide = 1;
	else if (!r->is_begun && n > 1 && !memcmp(into, "\xfe\xff", 2))
		r->wide = 2;
	r->is_begun = true;
	for (i = 0; r->wide && i < n; i++, r->is_second = !r->is_second) {
		if (r->is_second == (r->wide == 2))
			r->letter = into[i];
		else
			r->other = into[i];
		if (r->is_second && memcmp(&r->letter, "\xff", 1) != 0)
			into[out++] = r->other ? '?' : r->letter;
	}
	return r->wide ? out : n;
}

ssize_t read_some(struct reader *r, char *into, size_t room, struct err *e)
{
	ssize_t n, got;

	do {
		do
			got = read(r->fd, into, room);
		while (got < 0 && errno == EINTR);
		n = got > 0 ? narrow(r, into, got) : got;
	} while (got > 0 && !n);
	return n < 0 ? fail_os(e, "read") : n;
}

int read_end(struct reader *r, struct err *e)
{
	int status = 0;

	if (!r->pid)
		return 0;
	while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
		;
	r->pid = 0;
	if (status)
		return fail(e, RINGUP_ESYSTEM, "%s cannot unpack all of it", r->program);
	return 0;
}

void read_close(struct reader *r)
{
	if (r->pid) {
		kill(r->pid, SIGKILL);
		read_end(r, NULL);
	}
	if (r->pidfd >= 0)
		close(r->pidfd);
	if (r->fd > 2)
		close(r->fd);
	*r = (struct reader){ .fd = -1, .pidfd = -1 };
}

long read_lines(const char *p, const char *end)
{
	enum { LANES = 16 };
	typedef unsigned char lanes __attribute__((vector_size(LANES), aligned(1), may_alias));
	lanes sums;
	long lines = 0;

	while (end - p >= LANES) {
		/* A lane of a comparison is 255 where it holds. */
		sums = (lanes){ 0 };
		for (int i = 0; i < 255 && end - p >= LANES; i++, p += LANES)
			sums -= (lanes)(*(const lanes *)p == '\n');
		for (int i = 0; i < LANES; i++)
			lines += sums[i];
	}
	for (; p < end; p++)
		lines += *p == '\n';
	return lines;
}
