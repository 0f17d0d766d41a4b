/* file.c - read and replace whole files atomically, below a movable root. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"

int file_path(char *out, const char *root, const char *path, struct err *e)
{
	const char *r = root ? root : "";
	size_t len = strlen(r);

	while (len && r[len - 1] == '/')
		len--;
	if (snprintf(out, PATH_MAX, "%.*s%s%s", (int)len, r, *path == '/' || !len ? "" : "/",
		     path) >= PATH_MAX)
		return fail(e, RINGUP_EINVAL, "%.80s...: path too long", path);
	return 0;
}

static int slurp(int fd, const char *full, size_t cap, char **datap, size_t *lenp,
		 struct err *e)
{
	size_t room = 4096, len = 0;
	char *data = malloc(room + 1), *more;
	ssize_t n;

	while (data) {
		n = read(fd, data + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			free(data);
			return fail_os(e, "%s", full);
		}
		if (n == 0) {
			data[len] = 0;
			*datap = data;
			*lenp = len;
			return 0;
		}
		len += (size_t)n;
		if (len > cap) {
			free(data);
			return fail(e, RINGUP_EINVAL, "%s: larger than %zu bytes", full, cap);
		}
		if (len < room)
			continue;
		room *= 2;
		more = realloc(data, room + 1);
		if (!more)
			free(data);
		data = more;
	}
	return fail(e, RINGUP_ENOMEM, "%s: no memory", full);
}

int file_read(const char *root, const char *path, size_t cap, char **datap, size_t *lenp,
	      struct err *e)
{
	char full[PATH_MAX];
	struct stat st;
	int fd, rc;

	rc = file_path(full, root, path, e);
	if (rc)
		return rc;
	/* O_NONBLOCK: opening a FIFO must not hang. */
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fail_os(e, "%s", full);
	if (fstat(fd, &st))
		rc = fail_os(e, "%s", full);
	else if (!S_ISREG(st.st_mode))
		rc = fail(e, RINGUP_EINVAL, "%s: not a regular file", full);
	else
		rc = slurp(fd, full, cap, datap, lenp, e);
	close(fd);
	return rc;
}

bool file_exists(const char *root, const char *path)
{
	char full[PATH_MAX];
	struct stat st;

	return !file_path(full, root, path, NULL) && !lstat(full, &st);
}

int file_parents(char *full, int *made, struct err *e)
{
	char *p;

	for (p = strchr(full + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		if (!mkdir(full, 0755)) {
			if (made)
				++*made;
		} else if (errno != EEXIST) {
			fail_os(e, "%s", full);
			*p = '/';
			return RINGUP_ESYSTEM;
		}
		*p = '/';
	}
	return 0;
}

int file_put(int fd, const void *from, size_t len)
{
	const char *data = from;

	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

int file_lift(int fd)
{
	int high, why;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	why = errno;
	close(fd);
	errno = why;
	return high;
}

int file_sync_parent(const char *full)
{
	char dir[PATH_MAX];
	char *slash;
	int fd, rc;

	snprintf(dir, sizeof(dir), "%s", full);
	slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir] = 0;
	fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	rc = fsync(fd);
	close(fd);
	return rc;
}

int file_write(const char *root, const char *path, mode_t mode, const void *data, size_t len,
	       struct err *e)
{
	char full[PATH_MAX], part[PATH_MAX + 16];
	const char *slash;
	int fd, rc;

	rc = file_path(full, root, path, e);
	if (!rc)
		rc = file_parents(full, NULL, e);
	if (rc)
		return rc;
	slash = strrchr(full, '/');
	snprintf(part, sizeof(part), "%.*s.%s.XXXXXX", slash ? (int)(slash - full) + 1 : 0,
		 full, slash ? slash + 1 : full);
	fd = mkostemp(part, O_CLOEXEC);
	if (fd < 0)
		return fail_os(e, "%s", full);
	if (fchmod(fd, mode) || file_put(fd, data, len) || fsync(fd)) {
		rc = fail_os(e, "%s", full);
		close(fd);
		unlink(part);
		return rc;
	}
	if (close(fd) || rename(part, full)) {
		rc = fail_os(e, "%s", full);
		unlink(part);
		return rc;
	}
	return file_sync_parent(full) ? fail_os(e, "%s: folder", full) : 0;
}

/* Writes to the existing file, or creates the target of a dangling link. */
static int write_into(const char *path, mode_t mode, const void *data, size_t len,
		      struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, mode);
	int rc = 0;

	if (fd < 0)
		return fail_os(e, "%s", path);
	if (file_put(fd, data, len))
		rc = fail_os(e, "%s", path);
	if (close(fd) && !rc)
		rc = fail_os(e, "%s", path);
	return rc;
}

static bool can_write(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

/* The descriptor, 1 or 2, if the file is this process's stdout or stderr; else none. */
static int standard(const struct stat *st)
{
	struct stat own;

	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		if (can_write(fd) && !fstat(fd, &own) && own.st_dev == st->st_dev &&
		    own.st_ino == st->st_ino)
			return fd;
	return -1;
}

int file_save(const char *path, mode_t mode, const void *data, size_t len, struct err *e)
{
	char real[PATH_MAX];
	struct stat st;
	int fd;

	if (lstat(path, &st))
		return file_write(NULL, path, mode, data, len, e);
	fd = stat(path, &st) ? -1 : standard(&st);
	if (fd >= 0)
		return file_put(fd, data, len) ? fail_os(e, "%s", path) : 0;
	if (stat(path, &st) || !S_ISREG(st.st_mode) || !realpath(path, real))
		return write_into(path, mode, data, len, e);
	return file_write(NULL, real, mode & st.st_mode, data, len, e);
}

bool file_identity(int dir, const char *name, struct file_identity *id)
{
	int how = AT_SYMLINK_NOFOLLOW | (*name ? 0 : AT_EMPTY_PATH);
	struct stat st;

	*id = (struct file_identity){ 0 };
#ifdef STATX_BTIME
	struct statx x;

	if (!statx(dir, name, how, STATX_INO | STATX_BTIME, &x)) {
		id->inode = x.stx_ino;
		if (x.stx_mask & STATX_BTIME)
			id->born_ns = x.stx_btime.tv_sec * 1000000000LL + x.stx_btime.tv_nsec;
		return true;
	}
	/* Old kernels lack the call, and some containers refuse it. */
#endif
	if (fstatat(dir, name, &st, how))
		return false;
	id->inode = st.st_ino;
	return true;
}

bool file_is_same(const struct file_identity *a, const struct file_identity *b)
{
	return a->inode == b->inode && (!a->born_ns || !b->born_ns || a->born_ns == b->born_ns);
}

int file_remove(const char *root, const char *path, struct err *e)
{
	char full[PATH_MAX];
	int rc = file_path(full, root, path, e);

	if (rc)
		return rc;
	if (unlink(full) && errno != ENOENT)
		return fail_os(e, "%s", full);
	return 0;
}
