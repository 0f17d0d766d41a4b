/* observe.c - observation page: a rank's state, which other processes of its user can read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/observe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "ringup.h"

enum {
	BYTES = sizeof(struct observe_page) + OBSERVE_RANKS * sizeof(struct observe_peer),
	TRIES = 50,  /* a millisecond apart: a rank writes for a few microseconds */
	FDS = 65536, /* descriptors of a process that are looked at */
};

#define NAME "ringup-observe"

void observe_open(struct observe *o)
{
	void *at = MAP_FAILED;
	int fd = file_lift(memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING));

	*o = (struct observe){ 0 };
	/* Unwritten pages take no memory. */
	if (fd >= 0 && !ftruncate(fd, BYTES) && !fchmod(fd, 0400) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		log_info("no page for ringup hang: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return;
	}
	/* A child of fork() is no rank. */
	madvise(at, BYTES, MADV_DONTFORK);
	o->fd = fd;
	o->page = at;
	o->peers = (void *)(o->page + 1);
	o->page->version = OBSERVE_VERSION;
	o->page->bytes = sizeof(*o->page);
	o->page->pid = getpid();
	o->page->rank = -1;
	o->page->started_ns = clock_ns();
	/* Last: a reader that sees it sees all above. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(o->page->magic, OBSERVE_MAGIC, sizeof(o->page->magic));
}

void observe_close(struct observe *o)
{
	if (o->page)
		munmap(o->page, BYTES);
	if (o->fd > 0)
		close(o->fd);
	*o = (struct observe){ 0 };
}

/* ---- reading ---- */

static bool get(int fd, void *to, size_t len, size_t at)
{
	return pread(fd, to, len, (off_t)at) == (ssize_t)len;
}

/* Copies the page while the rank does not write. */
static int copy(int fd, struct observe_page *p, struct err *e)
{
	uint32_t before, after;

	for (int i = 0; i < TRIES; i++) {
		if (!get(fd, &before, sizeof(before), offsetof(struct observe_page, seq)) ||
		    !get(fd, p, sizeof(*p), 0) ||
		    !get(fd, &after, sizeof(after), offsetof(struct observe_page, seq)))
			return fail(e, RINGUP_EINVAL, "the observation page is too short");
		if (before == after && !(before & 1))
			return 0;
		clock_sleep_ms(1);
	}
	return fail(e, RINGUP_EBUSY, "the rank does not finish writing its observation page");
}

static void end_text(char *text, size_t size)
{
	text[size - 1] = 0;
}

static bool is_rank(int32_t rank, int32_t least)
{
	return rank >= least && rank < OBSERVE_RANKS;
}

static bool is_sound(struct observe_page *p)
{
	bool sound = is_rank(p->rank, -1) && p->size >= 0 && p->size <= OBSERVE_RANKS &&
		     p->waits >= 0 && p->waits <= OBSERVE_WAITS && p->more >= 0 &&
		     p->phase <= OBSERVE_LEFT && p->rank < (p->size ? p->size : 1);

	end_text(p->host, sizeof(p->host));
	end_text(p->part, sizeof(p->part));
	end_text(p->backend, sizeof(p->backend));
	end_text(p->release, sizeof(p->release));
	sound = sound && p->records >= 0 && p->records <= OBSERVE_RECORDS;
	for (int i = 0; i < OBSERVE_RECORDS; i++)
		end_text(p->record[i].what, sizeof(p->record[i].what));
	for (int i = 0; sound && i < p->waits; i++) {
		struct observe_wait *w = &p->wait[i];

		end_text(w->what, sizeof(w->what));
		sound = w->missing >= 0 && w->missing <= OBSERVE_RANKS && w->waiting >= 0 &&
			is_rank(w->peer, -1) && w->size >= 0;
		for (int k = 0; sound && k < w->missing && k < OBSERVE_MISSING; k++)
			sound = is_rank(w->who[k], 0) && w->who[k] < p->size;
	}
	return sound;
}

int observe_read(int fd, struct observed *x, struct err *e)
{
	struct observe_page *p = &x->page;
	size_t bytes;
	int rc;

	memset(x, 0, sizeof(*x));
	if (!get(fd, p, offsetof(struct observe_page, seq), 0) ||
	    memcmp(p->magic, OBSERVE_MAGIC, sizeof(p->magic)) != 0)
		return fail(e, RINGUP_EINVAL, "no observation page");
	if (p->version != OBSERVE_VERSION || p->bytes != sizeof(*p))
		return fail(e, RINGUP_EMISMATCH,
			    "its observation page has version %u, but this ringup reads "
			    "version %d: "
			    "use the job's own ringup",
			    p->version, OBSERVE_VERSION);
	rc = copy(fd, p, e);
	if (rc)
		return rc;
	if (!is_sound(p))
		return fail(e, RINGUP_EINVAL, "its observation page is damaged");
	if (p->phase == OBSERVE_MEETING || !p->size)
		return 0;
	bytes = (size_t)p->size * sizeof(*x->peers);
	x->peers = malloc(bytes);
	if (!x->peers)
		return fail(e, RINGUP_ENOMEM, "no memory for an observation page");
	if (!get(fd, x->peers, bytes, sizeof(*p))) {
		observe_free(x);
		return fail(e, RINGUP_EINVAL, "the observation page is too short");
	}
	for (int i = 0; i < p->size; i++) {
		end_text(x->peers[i].host, sizeof(x->peers[i].host));
		if (!is_rank(x->peers[i].as, 0))
			x->peers[i].as = i;
	}
	return 0;
}

void observe_free(struct observed *x)
{
	free(x->peers);
	x->peers = NULL;
}

int observe_find(pid_t pid, void (*see)(void *arg, int fd), void *arg)
{
	static const char name[] = "/memfd:" NAME;
	char path[48], link[64];
	struct dirent *d;
	DIR *dir;
	int fd, found = 0, left = FDS;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno == EACCES || errno == EPERM ? -1 : 0;
	while ((d = readdir(dir)) && left--) {
		if (*d->d_name == '.')
			continue;
		n = readlinkat(dirfd(dir), d->d_name, link, sizeof(link));
		if (n < (ssize_t)sizeof(name) - 1 || memcmp(link, name, sizeof(name) - 1) != 0)
			continue;
		fd = openat(dirfd(dir), d->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		see(arg, fd);
		close(fd);
		found++;
	}
	closedir(dir);
	return found;
}
