/* outfile.c - a JSON array in a file, which is whole after every write. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

/* Of the file in the kernel's memory, at the least: what a write does at once. */
enum { PAGE = 4096 };

int outfile_open(struct outfile *f, const char *path, struct err *e)
{
	/* Without O_NONBLOCK a FIFO would wait for its reader. */
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);

	*f = (struct outfile){ .fd = -1 };
	if (fd >= 0)
		fd = file_lift(fd);
	if (fd < 0)
		return fail_os(e, "opening it");
	f->fd = fd;
	return 0;
}

/* What was there before: the bracket is overwritten, but its place is the file's. */
static void take_back(const struct outfile *f)
{
	if (ftruncate(f->fd, f->end ? f->end + 1 : 0) == 0 && f->end &&
	    pwrite(f->fd, "]", 1, f->end) != 1)
		errno = EIO;
}

static int write_at(const struct outfile *f, const char *text, size_t len, off_t at,
		    struct err *e)
{
	size_t done = 0;
	ssize_t n;
	int why;

	while (done < len) {
		n = pwrite(f->fd, text + done, len - done, at + (off_t)done);
		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		why = n ? errno : ENOSPC;
		take_back(f);
		errno = why;
		return fail_os(e, "writing");
	}
	return 0;
}

/* The bytes of the first element, with what is in front of it. */
static size_t first_bytes(const char *text, size_t len)
{
	const char *next = len > 1 ? memmem(text + 1, len - 1, ",\n", 2) : NULL;

	return next ? (size_t)(next - text) : len;
}

/* The bytes of as many elements as fit into @room. */
static size_t fitting_bytes(const char *text, size_t len, size_t room)
{
	size_t fits = 0, n;

	while (fits < len) {
		n = first_bytes(text + fits, len - fits);
		if (fits + n > room)
			break;
		fits += n;
	}
	return fits;
}

/* Write @len bytes of elements and the bracket, behind @blanks that fill a page. */
static int put(struct outfile *f, const char *text, size_t len, size_t blanks, struct err *e)
{
	char piece[2 * PAGE];

	memset(piece, ' ', blanks);
	memcpy(piece + blanks, text, len);
	piece[blanks + len] = ']';
	if (write_at(f, piece, blanks + len + 1, f->end, e))
		return e->code;
	f->end += (off_t)(blanks + len);
	return 0;
}

/* The next element, which is longer than a page. */
static int put_long(struct outfile *f, const char *text, size_t len, struct err *e)
{
	char *piece = malloc(len + 1);
	int rc;

	if (!piece)
		return fail(e, RINGUP_ENOMEM, "no memory for an event of %zu bytes", len);
	memcpy(piece, text, len);
	piece[len] = ']';
	rc = write_at(f, piece, len + 1, f->end, e);
	free(piece);
	if (!rc)
		f->end += (off_t)len;
	return rc;
}

int outfile_append(struct outfile *f, const char *text, size_t len, struct err *e)
{
	size_t room, n, blanks;
	int rc = 0;

	for (; len && !rc; text += n, len -= n) {
		room = PAGE - (size_t)(f->end % PAGE);
		blanks = 0;
		/* The bracket is in the page, too. */
		n = fitting_bytes(text, len, room - 1);
		if (!n && f->end) {
			blanks = room;
			n = fitting_bytes(text, len, PAGE - 1);
		}
		if (n) {
			rc = put(f, text, n, blanks, e);
		} else {
			n = first_bytes(text, len);
			rc = put_long(f, text, n, e);
		}
	}
	return rc;
}

void outfile_close(struct outfile *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}
