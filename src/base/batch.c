/* batch.c - a transaction on files: several are replaced together or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

/* Resolves links in @full; refuses one that leaves @root: it would change another machine. */
static int batch_follow(char full[PATH_MAX], const char *root, struct err *e)
{
	char real[PATH_MAX], base[PATH_MAX];
	struct stat st;
	size_t len;

	if (lstat(full, &st) || !S_ISLNK(st.st_mode))
		return 0;
	if (!realpath(full, real))
		return fail_os(e, "%s: a symbolic link", full);
	if (!realpath(root && *root ? root : "/", base))
		return fail_os(e, "%s", root);
	len = strcmp(base, "/") ? strlen(base) : 0;
	if (strncmp(real, base, len) || real[len] != '/')
		return fail(e, RINGUP_EINVAL, "%s is a symbolic link that leads out of %s",
			    full, base);
	memcpy(full, real, strlen(real) + 1);
	return 0;
}

/* Removes empty folders only: another process may have put a file there meanwhile. */
static void drop_folders(const char *path, int count)
{
	char dir[PATH_MAX];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	for (; count > 0; count--) {
		slash = strrchr(dir, '/');
		if (!slash || slash == dir)
			return;
		*slash = 0;
		if (rmdir(dir))
			return;
	}
}

static int batch_fill(int fd, const char *data, size_t len)
{
	return file_put(fd, data, len) ? -1 : fsync(fd);
}

/* A sibling whose name no program takes for settings: ".nccl.conf.ringup-4711". */
static char *sibling(const char *full)
{
	const char *slash = strrchr(full, '/');
	char *part;

	if (asprintf(&part, "%.*s.%s.ringup-%ld", (int)(slash - full) + 1, full, slash + 1,
		     (long)getpid()) < 0)
		return NULL;
	return part;
}

static void folder_of(const char *path, char dir[PATH_MAX])
{
	char *slash;

	snprintf(dir, PATH_MAX, "%s", path);
	slash = strrchr(dir, '/');
	slash[slash == dir] = 0;
}

/* Opens a file without a name, or, where the file system has no such files, the sibling. */
static int open_part(const struct batch_file *f)
{
	char dir[PATH_MAX];
	int fd;

	folder_of(f->path, dir);
	fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd;
	unlink(f->part);
	return open(f->part, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
}

/* Give the contents their sibling's name, unless they have it. */
static int name_part(const struct batch_file *f)
{
	char from[64];
	struct stat st;

	if (fstat(f->fd, &st) || st.st_nlink)
		return st.st_nlink ? 0 : -1;
	/* An older one is of a killed process that had this number. */
	unlink(f->part);
	snprintf(from, sizeof(from), "/proc/self/fd/%d", f->fd);
	return linkat(AT_FDCWD, from, AT_FDCWD, f->part, AT_SYMLINK_FOLLOW);
}

static int stage(struct batch_file *f, mode_t mode, const void *data, size_t len, struct err *e)
{
	struct stat st;

	f->is_new = stat(f->path, &st) != 0;
	if (!f->is_new && !S_ISREG(st.st_mode))
		return fail(e, RINGUP_EINVAL, "%s: not a regular file", f->path);
	f->fd = open_part(f);
	if (f->fd < 0)
		return fail_os(e, "%s", f->path);
	if (!f->is_new && (st.st_uid != geteuid() || st.st_gid != getegid()) &&
	    fchown(f->fd, st.st_uid, st.st_gid))
		return fail_os(e, "%s: its owner", f->path);
	if (fchmod(f->fd, f->is_new ? mode : st.st_mode & 07777) ||
	    batch_fill(f->fd, data, len))
		return fail_os(e, "%s", f->path);
	return 0;
}

static struct batch_file *batch_add(struct batch *b, const char *root, const char *path,
				    int *rc, struct err *e)
{
	struct batch_file *f = &b->file[b->n];
	char full[PATH_MAX];

	if (b->n == BATCH_FILES) {
		*rc = fail(e, RINGUP_EINVAL, "%s: more than %d files at a time", path,
			   BATCH_FILES);
		return NULL;
	}
	*rc = file_path(full, root, path, e);
	if (!*rc && *full != '/')
		*rc = fail(e, RINGUP_EINVAL, "%s: not an absolute path", full);
	if (!*rc)
		*rc = batch_follow(full, root, e);
	if (*rc)
		return NULL;
	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->path = strdup(full);
	f->part = f->path ? sibling(full) : NULL;
	if (!f->part) {
		free(f->path);
		*rc = fail(e, RINGUP_ENOMEM, "%s: no memory", full);
		return NULL;
	}
	b->n++;
	return f;
}

int batch_write(struct batch *b, const char *root, const char *path, mode_t mode,
		const void *data, size_t len, struct err *e)
{
	int rc;
	struct batch_file *f = batch_add(b, root, path, &rc, e);

	if (!f)
		return rc;
	rc = file_parents(f->path, &f->folders, e);
	return rc ? rc : stage(f, mode, data, len, e);
}

int batch_remove(struct batch *b, const char *root, const char *path, int folders,
		 struct err *e)
{
	char dir[PATH_MAX];
	int rc;
	struct batch_file *f = batch_add(b, root, path, &rc, e);

	if (!f)
		return rc;
	f->is_gone = true;
	f->folders = folders;
	folder_of(f->path, dir);
	return faccessat(AT_FDCWD, dir, W_OK, AT_EACCESS) ? fail_os(e, "%s", f->path) : 0;
}

/* Exchanges old and new, so that the old contents are kept until the end. */
static int swap(struct batch_file *f)
{
	char old[PATH_MAX + 8];
	int rc;

	if (f->is_gone)
		return rename(f->path, f->part);
	if (name_part(f))
		return -1;
	if (f->is_new)
		return rename(f->part, f->path);
	rc = renameat2(AT_FDCWD, f->part, AT_FDCWD, f->path, RENAME_EXCHANGE);
	if (!rc || (errno != EINVAL && errno != ENOSYS))
		return rc;
	/* A file system without exchange: keep the old by a second name. */
	snprintf(old, sizeof(old), "%s.old", f->part);
	if (link(f->path, old))
		return -1;
	if (rename(f->part, f->path)) {
		unlink(old);
		return -1;
	}
	if (!rename(old, f->part))
		return 0;
	rename(old, f->path);
	return -1;
}

static void swap_back(struct batch_file *f)
{
	if (f->is_new)
		unlink(f->path);
	else
		/* With and without an exchange, part has the old contents. */
		rename(f->part, f->path);
	f->done = false;
}

/* Fails with the reason why the file at @path cannot be replaced: errno, and what caused it. */
static int fail_replace(struct err *e, const char *path)
{
	int why = errno, flags = 0, fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	bool is_fixed =
		fd >= 0 && !ioctl(fd, FS_IOC_GETFLAGS, &flags) && flags & FS_IMMUTABLE_FL;

	if (fd >= 0)
		close(fd);
	if (why == EPERM && is_fixed)
		return fail(e, RINGUP_ESYSTEM,
			    "%s has the immutable attribute; chattr -i %s removes it", path,
			    path);
	if (why == EBUSY)
		return fail(e, RINGUP_ESYSTEM,
			    "%s is a mount of its own and cannot be replaced; a container gets "
			    "such files from its host",
			    path);
	errno = why;
	return fail_os(e, "%s", path);
}

int batch_commit(struct batch *b, struct err *e)
{
	int i, rc = 0;

	for (i = 0; !rc && i < b->n; i++) {
		if (swap(&b->file[i]))
			rc = fail_replace(e, b->file[i].path);
		else
			b->file[i].done = true;
		if (!rc && file_sync_parent(b->file[i].path))
			rc = fail_os(e, "%s: folder", b->file[i].path);
	}
	while (rc && i-- > 0)
		if (b->file[i].done)
			swap_back(&b->file[i]);
	return rc;
}

void batch_end(struct batch *b)
{
	struct batch_file *f;

	for (int i = b->n - 1; i >= 0; i--) {
		f = &b->file[i];
		if (f->fd >= 0)
			close(f->fd);
		unlink(f->part);
		/* Folders made for a file that was not written, or left empty by a removal. */
		if (f->done == f->is_gone)
			drop_folders(f->path, f->folders);
		free(f->path);
		free(f->part);
	}
	memset(b, 0, sizeof(*b));
}
