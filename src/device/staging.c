/* staging.c - copies between a GPU and the host, through pinned memory that is kept. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "device/staging.h"

#include <sys/mman.h>

#include "base/err.h"
#include "base/log.h"
#include "coll/copy.h"
#include "ringup.h"

enum { ALL_BYTES = STAGING_SLOTS * STAGING_BYTES };

static driver_address address(const void *at)
{
	return (driver_address)(uintptr_t)at;
}

/* ---- life ---- */

/* A child of fork() must not share the pages: the GPU would go on with those that the parent
 * has lost when it writes. */
static int memory_open(struct staging *s, struct err *e)
{
	unsigned char *at = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct err why;
	int rc;

	if (at == MAP_FAILED)
		return fail(e, RINGUP_ENOMEM, "no memory for copies from and to a GPU");
	(void)madvise(at, ALL_BYTES, MADV_DONTFORK);
	for (int i = 0; i < STAGING_SLOTS; i++)
		s->slot[i].at = at + (size_t)i * STAGING_BYTES;
	rc = s->driver->host_pin(at, ALL_BYTES, 0);
	s->pinned = !rc;
	if (rc) {
		driver_failed(s->driver, rc, "cuMemHostRegister", &why);
		log_warn("%s; copies between the GPU and host memory will be slow", why.text);
	}
	return 0;
}

int staging_open(struct staging *s, const struct driver *d, int priority, struct err *e)
{
	int rc = d->stream_new(&s->stream, DRIVER_STREAM_APART, priority);

	s->driver = d;
	pthread_mutex_init(&s->lock, NULL);
	if (rc)
		return driver_failed(d, rc, "cuStreamCreate", e);
	for (int i = 0; i < STAGING_SLOTS && !rc; i++)
		rc = d->event_new(&s->slot[i].event, DRIVER_EVENT_PLAIN);
	return rc ? driver_failed(d, rc, "cuEventCreate", e) : memory_open(s, e);
}

void staging_close(struct staging *s)
{
	const struct driver *d = s->driver;

	if (!d)
		return;
	if (s->pinned)
		(void)d->host_unpin(s->slot[0].at);
	if (s->slot[0].at)
		munmap(s->slot[0].at, ALL_BYTES);
	for (int i = 0; i < STAGING_SLOTS; i++)
		if (s->slot[i].event)
			(void)d->event_free(s->slot[i].event);
	if (s->stream)
		(void)d->stream_free(s->stream);
	pthread_mutex_destroy(&s->lock);
}

bool staging_is_idle(struct staging *s)
{
	return !s->driver->stream_query(s->stream);
}

/* ---- slots, with the lock ---- */

/* 1 when the GPU has done with it, 0 before, negative for an error. */
static int slot_reached(const struct staging *s, const struct staging_slot *t, struct err *e)
{
	int rc = s->driver->event_query(t->event);

	if (rc == DRIVER_NOT_READY || rc == DRIVER_ENDED)
		return 0;
	return rc ? driver_failed(s->driver, rc, "a copy between the GPU and the host", e) : 1;
}

static struct staging_slot *slot_free(struct staging *s)
{
	struct err e;

	for (int i = 0; i < STAGING_SLOTS; i++) {
		struct staging_slot *t = &s->slot[i];

		if (!t->id || (t->dropped && slot_reached(s, t, &e) > 0))
			return t;
	}
	return NULL;
}

/* The oldest piece of @c that is under way. */
static struct staging_slot *slot_of(struct staging *s, const struct staging_copy *c)
{
	for (int i = 0; i < STAGING_SLOTS; i++)
		if (s->slot[i].id == c->id && s->slot[i].first == c->done)
			return &s->slot[i];
	return NULL;
}

static int slot_begin(struct staging *s, struct staging_slot *t, void *to, const void *from,
		      struct staging_copy *c, size_t bytes, struct err *e)
{
	const struct driver *d = s->driver;
	int rc;

	bytes = bytes < STAGING_BYTES ? bytes : STAGING_BYTES;
	if (c->to_device)
		copy_bytes(t->at, (const unsigned char *)from + c->begun, bytes);
	rc = d->copy(c->to_device ? address(to) + c->begun : address(t->at),
		     c->to_device ? address(t->at) : address(from) + c->begun, bytes,
		     s->stream);
	rc = rc ? rc : d->event_record(t->event, s->stream);
	if (rc)
		return driver_failed(d, rc, "cuMemcpyAsync", e);
	t->id = c->id;
	t->first = c->begun;
	t->bytes = bytes;
	t->dropped = false;
	c->begun += bytes;
	return 0;
}

/* ---- copies ---- */

/* Takes note of pieces that have been copied: 0, or an error. */
static int land(struct staging *s, void *to, struct staging_copy *c, struct err *e)
{
	struct staging_slot *t;
	int rc;

	while (c->done < c->begun && (t = slot_of(s, c))) {
		rc = slot_reached(s, t, e);
		if (rc <= 0)
			return rc;
		if (!c->to_device)
			copy_bytes((unsigned char *)to + t->first, t->at, t->bytes);
		c->done += t->bytes;
		t->id = 0;
	}
	return 0;
}

int staging_move(struct staging *s, void *to, const void *from, size_t bytes,
		 struct staging_copy *c, struct err *e)
{
	struct staging_slot *t;
	int rc;

	pthread_mutex_lock(&s->lock);
	if (!c->id)
		c->id = ++s->copies;
	rc = land(s, to, c, e);
	while (!rc && c->begun < bytes && (t = slot_free(s)))
		rc = slot_begin(s, t, to, from, c, bytes - c->begun, e);
	pthread_mutex_unlock(&s->lock);
	return rc ? rc : c->done == bytes;
}

bool staging_drop(struct staging *s, const struct staging_copy *c)
{
	bool over = true;
	struct err e;

	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < STAGING_SLOTS; i++) {
		struct staging_slot *t = &s->slot[i];

		if (!c->id || t->id != c->id)
			continue;
		t->dropped = true;
		over &= slot_reached(s, t, &e) != 0;
	}
	pthread_mutex_unlock(&s->lock);
	return over;
}
