/* rootfs.c - access to the files of a node, live or recorded, that collects problems. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/newcalls.h"
#include "detect/text.h"
#include "ringup.h"

enum { MAX_PROBLEMS = 256, MAX_NAMES = 65536, MAX_TRIES = 10000 };

/* A rename or mount anywhere makes the kernel fail a walk over ".." with EAGAIN: try again. */
static int open_at(const struct rootfs *t, const char *path, int flags)
{
	struct open_how how = { .flags = (unsigned)(flags | O_CLOEXEC),
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };

	int fd = -1, tries;

	if (t->fd < 0)
		return open(path, flags | O_CLOEXEC);
	for (tries = 0; fd < 0 && tries < MAX_TRIES; tries++) {
		fd = (int)syscall(SYS_openat2, t->fd, *path ? path : ".", &how, sizeof(how));
		if (fd < 0 && errno != EAGAIN)
			break;
	}
	return fd;
}

/* The real path of a descriptor; needs /proc, as much else does. */
static bool path_of(int fd, char *out)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX - 1);
	if (n <= 0)
		return false;
	out[n] = 0;
	return *out == '/';
}

int rootfs_open(struct rootfs *t, const char *root, json_t *problems, struct err *e)
{
	int fd;

	*t = (struct rootfs){ .fd = -1, .problems = problems };
	if (!root || !*root || !strcmp(root, "/"))
		return 0;
	t->fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->fd < 0)
		return fail_os(e, "root %s", root);
	fd = open_at(t, "/", O_PATH);
	if (fd < 0) {
		fail_os(e, "root %s: openat2 (Linux 5.6 or later)", root);
		rootfs_close(t);
		return RINGUP_ESYSTEM;
	}
	close(fd);
	if (!path_of(t->fd, t->root))
		snprintf(t->root, sizeof(t->root), "%s", root);
	return 0;
}

void rootfs_close(struct rootfs *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

bool rootfs_is_live(const struct rootfs *t)
{
	return t->fd < 0;
}

void rootfs_problem(struct rootfs *t, const char *path, const char *fmt, ...)
{
	char reason[512];
	json_t *new, *old;
	size_t i;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	if (json_array_size(t->problems) >= MAX_PROBLEMS)
		return;
	new = json_object();
	json_object_set_new(new, "path", text_json(path));
	json_object_set_new(new, "reason", text_json(reason));
	json_array_foreach(t->problems, i, old) {
		if (json_equal(old, new)) {
			json_decref(new);
			return;
		}
	}
	json_array_append_new(t->problems, new);
}

/* Absence is the ordinary case; so is a parent that is a file. */
static void complain(struct rootfs *t, const char *path)
{
	if (errno != ENOENT && errno != ENOTDIR)
		rootfs_problem(t, path, "%s", strerror(errno));
}

int rootfs_fd(struct rootfs *t, const char *path, size_t *size)
{
	/* O_NONBLOCK: a FIFO in this place must not hang us. */
	int fd = open_at(t, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0) {
		complain(t, path);
		return -1;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		rootfs_problem(t, path, "not a regular file");
		close(fd);
		return -1;
	}
	if (size)
		*size = (size_t)st.st_size;
	return fd;
}

/* Reads to the end rather than to st_size, which is 0 in /proc. */
static char *slurp(int fd, size_t hint, size_t cap, size_t *len)
{
	size_t room = hint + 1;
	char *data = malloc(room + 1), *more;
	ssize_t n;

	for (*len = 0; data;) {
		n = read(fd, data + *len, room - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		*len += (size_t)n;
		if (n == 0) {
			data[*len] = 0;
			return data;
		}
		if (*len > cap) {
			errno = EFBIG;
			break;
		}
		if (*len < room)
			continue;
		room = 2 * room + 4096;
		more = realloc(data, room + 1);
		if (!more)
			break;
		data = more;
	}
	free(data);
	return NULL;
}

char *rootfs_read(struct rootfs *t, const char *path, size_t cap, size_t *len)
{
	size_t size;
	int fd = rootfs_fd(t, path, &size);
	char *data;

	if (fd < 0)
		return NULL;
	errno = EFBIG;
	data = size > cap ? NULL : slurp(fd, size, cap, len);
	if (!data && errno == EFBIG)
		rootfs_problem(t, path, "larger than %zu bytes; ignored", cap);
	else if (!data)
		rootfs_problem(t, path, "%s", strerror(errno));
	close(fd);
	return data;
}

static int rootfs_by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool rootfs_keep(struct names *n, size_t *room, const char *name)
{
	char **more;

	if (n->count == *room) {
		*room = *room ? 2 * *room : 64;
		more = realloc(n->at, *room * sizeof(*more));
		if (!more)
			return false;
		n->at = more;
	}
	n->at[n->count] = strdup(name);
	return n->at[n->count] && ++n->count;
}

struct names rootfs_names(struct rootfs *t, const char *path, const char *prefix)
{
	struct names n = { 0 };
	size_t room = 0, len = strlen(prefix);
	struct dirent *d;
	DIR *dir;
	int fd = open_at(t, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		complain(t, path);
		if (fd >= 0)
			close(fd);
		return n;
	}
	while ((d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") ||
		    strncmp(d->d_name, prefix, len))
			continue;
		if (n.count == MAX_NAMES || !rootfs_keep(&n, &room, d->d_name)) {
			rootfs_problem(t, path, "more than %zu entries; the rest is ignored",
				       n.count);
			break;
		}
	}
	closedir(dir);
	if (n.count)
		qsort(n.at, n.count, sizeof(*n.at), rootfs_by_name);
	return n;
}

void rootfs_names_free(struct names *n)
{
	while (n->count)
		free(n->at[--n->count]);
	free(n->at);
	n->at = NULL;
}

static bool is_kind(struct rootfs *t, const char *path, mode_t kind)
{
	int fd = open_at(t, path, O_PATH);
	struct stat st;
	bool yes;

	if (fd < 0) {
		complain(t, path);
		return false;
	}
	yes = !fstat(fd, &st) && (st.st_mode & S_IFMT) == kind;
	close(fd);
	return yes;
}

bool rootfs_is_dir(struct rootfs *t, const char *path)
{
	return is_kind(t, path, S_IFDIR);
}

bool rootfs_is_file(struct rootfs *t, const char *path)
{
	return is_kind(t, path, S_IFREG);
}

bool rootfs_real(struct rootfs *t, const char *path, char *out)
{
	size_t len = strlen(t->root);
	int fd = open_at(t, path, O_PATH);
	bool good = false;

	if (fd < 0) {
		complain(t, path);
	} else {
		good = path_of(fd, out);
		close(fd);
	}
	if (!good) {
		snprintf(out, PATH_MAX, "%s", path);
		return false;
	}
	if (len && !strncmp(out, t->root, len) && (out[len] == '/' || !out[len])) {
		memmove(out, out + len, strlen(out + len) + 1);
		if (!*out)
			text_set(out, PATH_MAX, "/");
	}
	return true;
}

bool rootfs_join(char *out, const char *dir, const char *name)
{
	int n = snprintf(out, PATH_MAX, "%s%s%s", strcmp(dir, "/") ? dir : "", *name ? "/" : "",
			 name);

	if (n < PATH_MAX)
		return true;
	*out = 0;
	return false;
}
