/* jobdir.c - rendezvous through a directory: rank 0 puts the meeting point's address there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/jobdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "ringup.h"
#include "wire/memory.h"

/*
 * An offer is four lines:
 *
 *	ringup offer 2
 *	where 127.0.0.1:41217
 *	process 4242
 *	secret 64 hexadecimal digits
 *
 * It is written to a file of another name first, and renamed.  The process that made either
 * file holds a lock on it as long as it lives, on this host or another; where the file system
 * has no locks, every offer counts as a living process's.
 */
enum { OFFER_BYTES = 512, PROCESS_BYTES = 24, SWEEP_ENTRIES = 4096 };

/* Is the process that made the file in @fd gone? */
static bool is_dead(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_GETLK, &l) && l.l_type == F_UNLCK;
}

/* -- directories ---------------------------------------------------------- */

/* The i-th place where this user's own directory may be. */
static int own_place(int i, char *out)
{
	const char *run = conf_env("XDG_RUNTIME_DIR"), *tmp = conf_env("TMPDIR");
	int n = 0;

	if (i == 0 && run && *run == '/')
		n = snprintf(out, PATH_MAX, "%s/ringup", run);
	else if (i == 1)
		n = snprintf(out, PATH_MAX, "/dev/shm/ringup-%u", (unsigned)geteuid());
	else if (i == 2)
		n = snprintf(out, PATH_MAX, "%s/ringup-%u", tmp && *tmp == '/' ? tmp : "/tmp",
			     (unsigned)geteuid());
	return n > 0 && n < PATH_MAX ? 0 : -1;
}

enum { OWN_PLACES = 3 };

/* Open @path if it is safe; make it first if @make. */
static int open_dir(const char *path, int make, struct err *e)
{
	struct stat st;
	int fd;

	if (make && mkdir(path, 0700) && errno != EEXIST)
		return fail_os(e, "%s", path);
	fd = file_lift(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (fd < 0)
		return fail_os(e, "%s", path);
	if (fstat(fd, &st)) {
		close(fd);
		return fail_os(e, "%s", path);
	}
	if (st.st_uid != geteuid() || st.st_mode & 022) {
		close(fd);
		return fail(e, RINGUP_EINVAL,
			    "%s: unsafe: it must belong to this user and be writable by nobody "
			    "else, but it belongs to user %u and has mode %03o; remove it, or "
			    "set RINGUP_MEET to a folder of this user",
			    path, (unsigned)st.st_uid, (unsigned)st.st_mode & 0777);
	}
	return fd;
}

/* The file's name is a hash of the job's key, so it tells jobs apart and hides the key. */
static int offer_name(const char *key, unsigned round, char *out, size_t size, struct err *e)
{
	unsigned char sum[16];
	char hex[2 * sizeof(sum) + 1];

	int rc = secret_ready(e);

	if (rc)
		return rc;
	crypto_generichash(sum, sizeof(sum), (const unsigned char *)key, strlen(key), NULL, 0);
	sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum));
	snprintf(out, size, "offer-%s-%u", hex, round);
	return 0;
}

/* -- offers --------------------------------------------------------------- */

static int offer_parse(const char *text, char *process, char *where, struct secret *s)
{
	char hex[2 * SECRET_BYTES + 2];
	size_t len;
	int end = 0, rc = -1;

	if (sscanf(text,
		   "ringup offer 2\nwhere %127[^\n]\nprocess %23[^\n]\nsecret %65[^\n]\n%n",
		   where, process, hex, &end) == 3 &&
	    end && !sodium_hex2bin(s->key, SECRET_BYTES, hex, strlen(hex), NULL, &len, NULL) &&
	    len == SECRET_BYTES)
		rc = 0;
	sodium_memzero(hex, sizeof(hex));
	return rc;
}
_Static_assert(JOBDIR_WHERE_BYTES == 128 && PROCESS_BYTES == 24 && SECRET_BYTES == 32,
	       "what sscanf() writes fits");

/* Returns 0, or -1 if there is no such file or it is no offer of a living process of this
 * user's. */
static int offer_read(int dir, const char *name, char *process, char *where, struct secret *s)
{
	char text[OFFER_BYTES + 1];
	struct stat st;
	ssize_t n = -1;
	int fd, rc = -1;

	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    !(st.st_mode & 077) && !is_dead(fd))
		n = read(fd, text, OFFER_BYTES);
	close(fd);
	if (n > 0) {
		text[n] = 0;
		rc = offer_parse(text, process, where, s);
	}
	sodium_memzero(text, sizeof(text));
	return rc;
}

/* Replaces an older offer; j->file has the lock. */
static int offer_write(struct jobdir *j, int dir, const char *where, const struct secret *s,
		       struct err *e)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char part[64], hex[2 * SECRET_BYTES + 1], text[OFFER_BYTES];
	int fd, n, rc;

	snprintf(part, sizeof(part), "new-%08x%08x", randombytes_random(),
		 randombytes_random());
	sodium_bin2hex(hex, sizeof(hex), s->key, SECRET_BYTES);
	n = snprintf(text, sizeof(text), "ringup offer 2\nwhere %s\nprocess %d\nsecret %s\n",
		     where, (int)getpid(), hex);
	sodium_memzero(hex, sizeof(hex));
	rc = memory_permit((uint64_t)n, "an offer to meet", e);
	if (rc)
		goto out;
	fd = file_lift(
		openat(dir, part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
	if (fd < 0) {
		rc = fail_os(e, "%s", part);
		goto out;
	}
	(void)fcntl(fd, F_OFD_SETLK, &lock); /* fails where the file system has no locks */
	if (file_put(fd, text, (size_t)n) || fsync(fd) || !file_identity(fd, "", &j->id) ||
	    renameat(dir, part, dir, j->name)) {
		rc = fail_os(e, "%s", j->name);
		unlinkat(dir, part, 0);
		close(fd);
	} else {
		j->file = fd;
	}
out:
	sodium_memzero(text, sizeof(text));
	return rc;
}

/* Removes the files of ended processes. */
static void sweep(int dir)
{
	int seen = 0, copy = dup(dir), fd;
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *d;

	if (!list) {
		if (copy >= 0)
			close(copy);
		return;
	}
	rewinddir(list);
	while (seen++ < SWEEP_ENTRIES && (d = readdir(list))) {
		if (strncmp(d->d_name, "offer-", 6) && strncmp(d->d_name, "new-", 4))
			continue;
		fd = openat(dir, d->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0 && is_dead(fd))
			unlinkat(dir, d->d_name, 0);
		if (fd >= 0)
			close(fd);
	}
	closedir(list);
}

/* rmdir() fails, as it should, while another job's offer is in the directory. */
static void drop_dir(const struct jobdir *j, const char *path)
{
	if (j->is_own && rmdir(path))
		return;
}

static int publish_in(struct jobdir *j, const char *path, const char *where,
		      const struct secret *s, struct err *e)
{
	char other[JOBDIR_WHERE_BYTES], by[PROCESS_BYTES];
	struct secret theirs;
	int fd, rc = 0;

	/* Another job may remove the directory while it is empty, or a file before its lock. */
	for (int tries = 0; tries < 10; tries++) {
		fd = open_dir(path, 1, e);
		if (fd < 0)
			return fd;
		sweep(fd);
		if (!offer_read(fd, j->name, by, other, &theirs)) {
			sodium_memzero(&theirs, sizeof(theirs));
			close(fd);
			return fail(e, RINGUP_EBUSY,
				    "%s: process %s already is rank 0 of this job", path, by);
		}
		rc = offer_write(j, fd, where, s, e);
		if (!rc) {
			snprintf(j->dir, sizeof(j->dir), "%s", path);
			j->fd = fd;
			j->is_made = true;
			return 0;
		}
		close(fd);
		if (errno != ENOENT)
			break;
	}
	drop_dir(j, path);
	return fail_in(e, "%s", path);
}

int jobdir_publish(struct jobdir *j, const char *dir, const char *key, unsigned round,
		   const char *where, const struct secret *s, struct err *e)
{
	char path[PATH_MAX];
	int rc;

	*j = (struct jobdir){ .is_own = !*dir };
	if (strlen(where) >= JOBDIR_WHERE_BYTES)
		return fail(e, RINGUP_EINVAL, "%.80s...: too long for an address", where);
	rc = offer_name(key, round, j->name, sizeof(j->name), e);
	if (rc)
		return rc;
	if (*dir)
		return publish_in(j, dir, where, s, e);
	for (int i = 0; i < OWN_PLACES; i++) {
		if (own_place(i, path))
			continue;
		rc = publish_in(j, path, where, s, e);
		if (!rc || rc == RINGUP_EBUSY)
			break;
	}
	return rc;
}

/* Checks one place: 1 if it has the offer, 0 if not, or an error. */
static int jobdir_look(const char *path, const char *name, char *where, struct secret *s,
		       struct err *e)
{
	char process[PROCESS_BYTES];
	int fd = open_dir(path, 0, e), found;

	if (fd == RINGUP_ESYSTEM)
		return 0;
	if (fd < 0)
		return fd;
	found = !offer_read(fd, name, process, where, s);
	close(fd);
	return found;
}

static int look_around(const char *dir, const char *name, char *where, struct secret *s,
		       struct err *e)
{
	char path[PATH_MAX];
	int rc = 0;

	if (*dir)
		return jobdir_look(dir, name, where, s, e);
	/* An unsafe place is as unusable to rank 0, so the next one counts. */
	for (int i = 0; i < OWN_PLACES && rc <= 0; i++)
		if (!own_place(i, path))
			rc = jobdir_look(path, name, where, s, NULL);
	return rc > 0;
}

int jobdir_find(const char *dir, const char *key, unsigned round, int64_t deadline_ns,
		char *where, struct secret *s, struct err *e)
{
	int64_t pause_ms = 1;
	char name[80];
	int rc = offer_name(key, round, name, sizeof(name), e);

	while (!rc) {
		rc = look_around(dir, name, where, s, e);
		if (rc)
			return rc > 0 ? 0 : rc;
		if (!clock_left_ms(deadline_ns))
			return fail(e, RINGUP_ETIMEDOUT,
				    "rank 0 has not said in %s where to meet; does it run %s?",
				    *dir ? dir : "this user's runtime directory",
				    *dir ? "there, too" : "on this host, as the same user");
		clock_sleep_ms(pause_ms);
		if (pause_ms < 16)
			pause_ms *= 2;
	}
	return rc;
}

void jobdir_remove(struct jobdir *j)
{
	struct file_identity id;

	if (!j->is_made)
		return;
	if (file_identity(j->fd, j->name, &id) && file_is_same(&id, &j->id))
		unlinkat(j->fd, j->name, 0);
	close(j->file);
	close(j->fd);
	j->is_made = false;
	drop_dir(j, j->dir);
}
