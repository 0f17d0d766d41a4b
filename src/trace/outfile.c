/* outfile.c - append to a JSON array in a file, which is valid after every write. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* PAGE: the smallest page of a file in the kernel's memory; a write within one is not cut
 * short. WINDOW: bytes of the file that are mapped at a time, from a multiple of WINDOW_STEP
 * on. */
enum { PAGE = 4096, WINDOW = 1 << 20, WINDOW_STEP = 1 << 16 };

int outfile_open(struct outfile *f, const char *path, struct err *e)
{
	/* Without O_NONBLOCK a FIFO would wait for its reader. */
	int how = O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, fd;

	*f = (struct outfile){ .fd = -1, .source = -1 };
	/* A file must be readable to be mapped. */
	fd = open(path, O_RDWR | how, 0666);
	if (fd < 0 && errno == EACCES)
		fd = open(path, O_WRONLY | how, 0666);
	if (fd >= 0)
		fd = file_lift(fd);
	if (fd < 0)
		return fail_os(e, "opening it");
	f->fd = fd;
	return 0;
}

int outfile_reopen(struct outfile *f, const char *path)
{
	off_t end = f->end;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0)
		fd = file_lift(fd);
	if (fd < 0)
		return -1;
	*f = (struct outfile){ .fd = fd, .source = -1, .end = end };
	return 0;
}

/* After a failed write: end the array where it ended before. */
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

/* The length of the first element, with the comma in front of it. */
static size_t first_bytes(const char *text, size_t len)
{
	const char *next = len > 1 ? memmem(text + 1, len - 1, ",\n", 2) : NULL;

	return next ? (size_t)(next - text) : len;
}

/* The length of as many elements as fit into @room. */
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

/* Write @len bytes of elements, @blanks behind them, and the bracket: all in one page. */
static int outfile_put(struct outfile *f, const char *text, size_t len, size_t blanks,
		       struct err *e)
{
	char piece[PAGE];

	memcpy(piece, text, len);
	memset(piece + len, ' ', blanks);
	piece[len + blanks] = ']';
	if (write_at(f, piece, len + blanks + 1, f->end, e))
		return e->code;
	f->end += (off_t)(len + blanks);
	return 0;
}

/* ---- from page to page ---- */

/* The mapped file at @at, two bytes of it; NULL if it cannot be mapped. */
static char *window(struct outfile *f, off_t at)
{
	off_t begin = at / WINDOW_STEP * WINDOW_STEP;
	void *map;

	if (!f->map || at < f->map_at || at + 2 > f->map_at + WINDOW) {
		if (f->map)
			munmap(f->map, WINDOW);
		map = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, begin);
		f->map = map == MAP_FAILED ? NULL : map;
		f->map_at = begin;
	}
	return f->map ? f->map + (at - f->map_at) : NULL;
}

/* Make a file of a blank and a bracket, to copy them from; -1: it cannot be made. */
static int make_source(void)
{
	int fd = memfd_create("ringup", MFD_CLOEXEC);

	fd = fd >= 0 ? file_lift(fd) : -1;
	if (fd >= 0 && pwrite(fd, " ]", 2, 0) != 2) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/*
 * Move the bracket from the end of a page to the beginning of the next.
 *
 * These two bytes have to change together.  A kill can come between two pages of a write to a
 * file, but not within a copy to memory that is present.  The kernel copies, by a read into the
 * mapped file: a store would be a SIGBUS if another process had made the file shorter.  If the
 * file cannot be mapped, a write of two bytes has to do.
 */
static int cross(struct outfile *f, struct err *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *at;
	int rc;

	/* The page has to exist before it can be mapped; a blank behind the array is allowed.
	 */
	rc = write_at(f, " ", 1, f->end + 1, e);
	if (rc)
		return rc;
	if (f->source < 0)
		f->source = make_source();
	at = f->source < 0 ? NULL : window(f, f->end);
	if (at)
		madvise(at - (uintptr_t)at % page, 2 * page, MADV_POPULATE_WRITE);
	if (!at || pread(f->source, at, 2, 0) != 2)
		rc = write_at(f, " ]", 2, f->end, e);
	f->end += !rc;
	return rc;
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
	size_t room, n;
	int rc = 0;

	for (; len && !rc; text += n, len -= n) {
		room = PAGE - (size_t)(f->end % PAGE) - 1;
		n = fitting_bytes(text, len, room);
		if (n) {
			/* The next element does not fit into the page. */
			rc = outfile_put(f, text, n, n < len ? room - n : 0, e);
		} else if (first_bytes(text, len) >= PAGE) {
			n = first_bytes(text, len);
			rc = put_long(f, text, n, e);
		} else {
			rc = room ? outfile_put(f, "", 0, room, e) : cross(f, e);
		}
	}
	return rc;
}

void outfile_close(struct outfile *f)
{
	if (f->map)
		munmap(f->map, WINDOW);
	if (f->source >= 0)
		close(f->source);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct outfile){ .fd = -1, .source = -1 };
}
