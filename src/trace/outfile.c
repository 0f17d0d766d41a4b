/* outfile.c - a JSON array in a file, which is whole after every write. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"

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

int outfile_append(struct outfile *f, char *text, size_t len, struct err *e)
{
	size_t all = len + 1, done;
	ssize_t n;
	int why;

	text[len] = ']';
	for (done = 0; done < all; done += (size_t)n) {
		n = pwrite(f->fd, text + done, all - done, f->end + (off_t)done);
		if (n > 0)
			continue;
		if (n < 0 && errno == EINTR) {
			n = 0;
			continue;
		}
		why = n ? errno : ENOSPC;
		take_back(f);
		errno = why;
		return fail_os(e, "writing");
	}
	f->end += (off_t)len;
	return 0;
}

void outfile_close(struct outfile *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}
