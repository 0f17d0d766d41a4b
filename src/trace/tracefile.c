/* tracefile.c - the timeline files of this process, which its recorders share. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/tracefile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "trace/outfile.h"

/* How many jobs of that name have written a file. */
struct part {
	struct part *next;
	uint32_t jobs;
	char name[];
};

struct tracefile {
	struct tracefile *next;
	pid_t pid; /* of the process that writes it    */
	int users;
	bool resumes;         /* stays in the list without users */
	pthread_mutex_t lock; /* of out                          */
	struct outfile out;
	/* The file as it was left: without users. */
	dev_t device;
	ino_t inode;
	struct part *parts;
	uint32_t processes; /* atomic */
	int64_t start_ns, epoch_us;
	char path[];
};

/* Held while a file is opened or closed. */
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;
static struct tracefile *files;

static struct tracefile *file_find(const char *path)
{
	for (struct tracefile *f = files; f; f = f->next)
		if (f->pid == getpid() && !strcmp(f->path, path))
			return f;
	return NULL;
}

static struct tracefile *file_new(const char *path)
{
	size_t bytes = strlen(path) + 1;
	struct tracefile *f = calloc(1, sizeof(*f) + bytes);

	if (!f)
		return NULL;
	memcpy(f->path, path, bytes);
	f->pid = getpid();
	f->out.fd = f->out.source = -1;
	pthread_mutex_init(&f->lock, NULL);
	f->next = files;
	files = f;
	return f;
}

static void parts_free(struct tracefile *f)
{
	struct part *p;

	while ((p = f->parts)) {
		f->parts = p->next;
		free(p);
	}
}

/* Takes @f, which has no users, out of the list. */
static void file_free(struct tracefile *f)
{
	struct tracefile **p = &files;

	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
	parts_free(f);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* The number of the job that begins to write; 0: no memory. */
static uint32_t part_count(struct tracefile *f, const char *name)
{
	size_t bytes = strlen(name) + 1;
	struct part *p = f->parts;

	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	if (!p) {
		p = calloc(1, sizeof(*p) + bytes);
		if (!p)
			return 0;
		memcpy(p->name, name, bytes);
		p->next = f->parts;
		f->parts = p;
	}
	return ++p->jobs;
}

/* Opens the file of @f again, to go on where it ended. */
static bool file_resume(struct tracefile *f)
{
	struct stat s;
	char last;

	if (!f->out.end || stat(f->path, &s) || !S_ISREG(s.st_mode) || s.st_dev != f->device ||
	    s.st_ino != f->inode || outfile_reopen(&f->out, f->path))
		return false;
	if (pread(f->out.fd, &last, 1, f->out.end) == 1 && last == ']')
		return true;
	outfile_close(&f->out);
	return false;
}

static int file_begin(struct tracefile *f, bool resumes, struct err *e)
{
	struct timespec t;
	int rc;

	if (resumes && f->resumes && file_resume(f))
		return 0;
	rc = outfile_open(&f->out, f->path, e);
	if (rc)
		return rc;
	parts_free(f);
	__atomic_store_n(&f->processes, 0, __ATOMIC_RELAXED);
	clock_gettime(CLOCK_REALTIME, &t);
	f->epoch_us = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
	f->start_ns = clock_ns();
	return 0;
}

static int open_locked(struct tracefile **fp, const char *path, bool resumes, const char *part,
		       struct tracefile_place *at, struct err *e)
{
	struct tracefile *f = file_find(path);
	uint32_t job = 0;
	int rc = 0;

	if (!f)
		f = file_new(path);
	if (!f)
		return fail(e, RINGUP_ENOMEM, "no memory");
	if (!f->users)
		rc = file_begin(f, resumes, e);
	if (!rc)
		job = part_count(f, part);
	if (!rc && !job)
		rc = fail(e, RINGUP_ENOMEM, "no memory");
	f->resumes |= resumes && !rc;
	if (rc && !f->users) {
		outfile_close(&f->out);
		file_free(f);
	}
	if (rc)
		return rc;
	f->users++;
	*at = (struct tracefile_place){ f->start_ns, f->epoch_us, &f->processes, job };
	*fp = f;
	return 0;
}

int tracefile_open(struct tracefile **fp, const char *path, bool resumes, const char *part,
		   struct tracefile_place *at, struct err *e)
{
	int rc;

	pthread_mutex_lock(&control);
	rc = open_locked(fp, path, resumes, part, at, e);
	pthread_mutex_unlock(&control);
	return rc;
}

int tracefile_begin(struct tracefile *f, const char *text, size_t len, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&f->lock);
	if (!f->out.end)
		rc = outfile_append(&f->out, text, len, e);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

int tracefile_append(struct tracefile *f, const char *text, size_t len, struct err *e)
{
	int rc;

	pthread_mutex_lock(&f->lock);
	rc = outfile_append(&f->out, text, len, e);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

/* Closes the file of @f, and notes how it is left. */
static void file_leave(struct tracefile *f)
{
	off_t end = f->out.end;
	struct stat s;

	if (fstat(f->out.fd, &s) == 0) {
		f->device = s.st_dev;
		f->inode = s.st_ino;
	} else {
		end = 0;
	}
	outfile_close(&f->out);
	f->out.end = end;
}

void tracefile_close(struct tracefile *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&control);
	if (!--f->users) {
		file_leave(f);
		if (!f->resumes)
			file_free(f);
	}
	pthread_mutex_unlock(&control);
}
