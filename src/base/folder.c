/* folder.c - make folders with their parents, walk trees, remove them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

int folder_make(const char *path, mode_t mode, struct err *e)
{
	char full[PATH_MAX];
	struct stat st;
	char *p;

	if (!*path || snprintf(full, sizeof(full), "%s", path) >= (int)sizeof(full))
		return fail(e, RINGUP_EINVAL, "%.80s: not a path", path);
	for (p = full + 1;; p++) {
		if (*p && *p != '/')
			continue;
		if (p[-1] != '/') {
			char was = *p;
			int why;

			*p = 0;
			why = mkdir(full, mode) ? errno : 0;
			if (why && stat(full, &st)) {
				errno = why;
				return fail_os(e, "%s", full);
			}
			*p = was;
		}
		if (!*p)
			break;
	}
	if (stat(full, &st))
		return fail_os(e, "%s", full);
	return S_ISDIR(st.st_mode) ? 0 : fail(e, RINGUP_EINVAL, "%s is not a folder", full);
}

bool folder_is_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *entry;
	bool is_empty = d;

	while (is_empty && (entry = readdir(d)))
		is_empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	if (d)
		closedir(d);
	return is_empty;
}

/* The error of an entry that could not be read; 0 if it has been removed meanwhile. */
static int unseen(const FTSENT *it, struct err *e)
{
	if (it->fts_errno == ENOENT)
		return 0;
	errno = it->fts_errno;
	return fail_os(e, "%s", it->fts_path);
}

static FTS *folder_begin(const char *path, int more, struct err *e)
{
	char *const paths[] = { (char *)path, NULL };
	FTS *f = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | more, NULL);

	if (!f)
		fail_os(e, "%s", path);
	return f;
}

static int remove_one(const FTSENT *it, struct err *e)
{
	int rc;

	switch (it->fts_info) {
	case FTS_D:
		return 0;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		return unseen(it, e);
	case FTS_DP:
		rc = rmdir(it->fts_accpath);
		break;
	default:
		rc = unlink(it->fts_accpath);
	}
	return rc && errno != ENOENT ? fail_os(e, "%s", it->fts_path) : 0;
}

int folder_remove(const char *path, struct err *e)
{
	FTS *f = folder_begin(path, FTS_XDEV, e);
	FTSENT *it;
	int rc = f ? 0 : RINGUP_ESYSTEM;

	while (!rc && (it = fts_read(f)))
		rc = remove_one(it, e);
	if (f)
		fts_close(f);
	return rc;
}

int folder_copy_file(const char *from, const char *to, mode_t mode, struct err *e)
{
	int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), out = -1, rc = 0;
	char part[1 << 16];
	ssize_t n = 1;

	if (in < 0)
		return fail_os(e, "%s", from);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (out < 0)
		rc = fail_os(e, "%s", to);
	while (!rc && n > 0) {
		n = read(in, part, sizeof(part));
		if (n < 0)
			rc = fail_os(e, "%s", from);
		else if (n && file_put(out, part, n))
			rc = fail_os(e, "%s", to);
	}
	close(in);
	if (out >= 0 && close(out) && !rc)
		rc = fail_os(e, "%s", to);
	return rc;
}

static int copy_link(const char *from, const char *to, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlink(from, target, sizeof(target) - 1);

	if (n < 0)
		return fail_os(e, "%s", from);
	target[n] = 0;
	return symlink(target, to) ? fail_os(e, "%s", to) : 0;
}

/* Owner, mode and times; an owner is root's to give, and for others it is theirs. */
static int copy_status(const struct stat *st, const char *to, struct err *e)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };

	if (lchown(to, st->st_uid, st->st_gid) && errno != EPERM)
		return fail_os(e, "%s", to);
	if (!S_ISLNK(st->st_mode) && chmod(to, st->st_mode & 07777))
		return fail_os(e, "%s", to);
	return utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW) ? fail_os(e, "%s", to) : 0;
}

static int copy_one(const FTSENT *it, const char *to, struct err *e)
{
	int rc = 0;

	switch (it->fts_info) {
	case FTS_D: /* its status once it is full: it may not be writable */
		return mkdir(to, 0700) ? fail_os(e, "%s", to) : 0;
	case FTS_DP:
		break;
	case FTS_F:
		rc = folder_copy_file(it->fts_accpath, to, 0600, e);
		break;
	case FTS_SL:
	case FTS_SLNONE:
		rc = copy_link(it->fts_accpath, to, e);
		break;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		errno = it->fts_errno;
		return fail_os(e, "%s", it->fts_path);
	default:
		return fail(e, RINGUP_EINVAL, "%s is not a file, a folder or a link",
			    it->fts_path);
	}
	return rc ? rc : copy_status(it->fts_statp, to, e);
}

int folder_copy(const char *from, const char *to, struct err *e)
{
	FTS *f = folder_begin(from, 0, e);
	char path[PATH_MAX];
	FTSENT *it;
	int rc = f ? 0 : RINGUP_ESYSTEM;

	while (!rc && (it = fts_read(f)))
		if (snprintf(path, sizeof(path), "%s%s", to, it->fts_path + strlen(from)) >=
		    (int)sizeof(path))
			rc = fail(e, RINGUP_EINVAL, "%.80s: too long a path", it->fts_path);
		else
			rc = copy_one(it, path, e);
	if (f)
		fts_close(f);
	return rc;
}

int folder_walk(const char *path, folder_see *see, void *arg, struct err *e)
{
	FTS *f = folder_begin(path, 0, e);
	FTSENT *it;
	int rc = f ? 0 : RINGUP_ESYSTEM;

	while (!rc && (it = fts_read(f))) {
		if (it->fts_info == FTS_DNR || it->fts_info == FTS_ERR ||
		    it->fts_info == FTS_NS) {
			errno = it->fts_errno;
			rc = fail_os(e, "%s", it->fts_path);
		} else if (it->fts_level > 0 && it->fts_info != FTS_DP) {
			rc = see(arg, it->fts_path + strlen(path) + 1, it->fts_statp, e);
			if (rc == FOLDER_PRUNE) {
				fts_set(f, it, FTS_SKIP);
				rc = 0;
			}
		}
	}
	if (f)
		fts_close(f);
	return rc;
}

int folder_claim(const char *path, struct err *e)
{
	if (!mkdir(path, 0755) || (errno == EEXIST && folder_is_empty(path)))
		return 0;
	if (errno == EEXIST)
		return fail(e, RINGUP_EINVAL, "%s already exists and is not an empty folder",
			    path);
	return fail_os(e, "%s", path);
}
