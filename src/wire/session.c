/* session.c - one call that connects two processes which share a secret. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/session.h"

#include <poll.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/dial.h"
#include "wire/door.h"

/* A connected peer that was not fetched yet. */
struct arrival {
	struct chan *chan;
	struct secret next;
};

struct session_door {
	struct door door;
	struct secret secret;
	enum shake_channel channel;
	struct arrival arrival[DOOR_GUESTS]; /* the latest last */
	int arrivals;
	struct err refused; /* of a peer that knows the secret */
	int shut_fd;
};

/* The kinds of connections whose frames are encrypted. */
static bool is_sealed(enum shake_channel channel)
{
	return channel == SHAKE_TASK;
}

/* Takes @fd over, also when it fails. */
static int channel_begin(struct chan **cp, int fd, const struct shake *h, struct secret *next,
			 struct err *e)
{
	int rc = chan_open(fd, &h->keys, cp, e);

	if (rc) {
		close(fd);
		return rc;
	}
	if (is_sealed((enum shake_channel)h->me.channel))
		chan_seal(*cp);
	if (next)
		shake_keys_next(next, &h->keys, h->role);
	return 0;
}

int session_connect(struct chan **cp, const char *where, enum shake_channel channel,
		    uint32_t rank, uint32_t peer, const struct secret *s, int64_t deadline_ns,
		    struct secret *next, struct err *e)
{
	struct dial d = { 0 };
	int rc = secret_check(s, e);

	*cp = NULL;
	if (!rc)
		rc = dial_open(&d, where, channel, rank, peer, s, deadline_ns, e);
	if (!rc)
		rc = dial_wait(&d, e);
	if (rc > 0)
		rc = channel_begin(cp, dial_take(&d), &d.shake, next, e);
	dial_close(&d);
	return rc;
}

static int wait_for(struct chan *c, short events, int64_t deadline_ns, struct err *e)
{
	struct pollfd p = { chan_fd(c), events, 0 };
	int left = clock_left_ms(deadline_ns);

	if (!left)
		return fail(e, RINGUP_ETIMEDOUT, "it does not answer");
	poll(&p, 1, left);
	return 0;
}

int session_flush(struct chan *c, int64_t deadline_ns, struct err *e)
{
	int rc;

	while ((rc = chan_flush(c, e)) > 0) {
		rc = wait_for(c, POLLOUT, deadline_ns, e);
		if (rc)
			break;
	}
	return rc;
}

int session_await(struct chan *c, const void **datap, int64_t deadline_ns, struct err *e)
{
	int rc, pending;

	for (;;) {
		pending = chan_flush(c, e);
		rc = pending < 0 ? pending : chan_recv(c, datap, e);
		if (!rc)
			rc = wait_for(c, pending ? POLLIN | POLLOUT : POLLIN, deadline_ns, e);
		else
			return rc;
		if (rc)
			return rc;
	}
}

static int session_admit(void *ctx, const struct shake *h)
{
	struct session_door *d = ctx;

	if (h->peer.channel != d->channel)
		return RINGUP_EINVAL;
	return shake_agree(h, &d->refused) ? RINGUP_EMISMATCH : 0;
}

/* As many fit as one call of door_serve() can bring: session_accept() first gives all out. */
static void session_enter(void *ctx, int fd, const struct shake *h)
{
	struct session_door *d = ctx;
	struct arrival *a = &d->arrival[d->arrivals];

	if (!channel_begin(&a->chan, fd, h, &a->next, NULL))
		d->arrivals++;
}

int session_listen(struct session_door **dp, const char *address, enum shake_channel channel,
		   const struct secret *s, char *where, struct err *e)
{
	struct session_door *d;
	int rc = secret_check(s, e);

	if (rc)
		return rc;
	d = calloc(1, sizeof(*d));
	if (!d)
		return fail(e, RINGUP_ENOMEM, "no memory for a listener");
	d->secret = *s;
	d->channel = channel;
	rc = door_listen(&d->door, address, where, SHAKE_NO_RANK, &d->secret, e);
	d->shut_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rc >= 0 && d->shut_fd < 0)
		rc = fail_os(e, "eventfd");
	if (rc < 0) {
		session_close(d);
		return rc;
	}
	*dp = d;
	return 0;
}

/* Waits once, and serves what has arrived. */
static void door_turn(struct session_door *d, struct pollfd *p, int64_t deadline_ns)
{
	const struct door_owner owner = { session_admit, session_enter, d };
	int n = door_poll(&d->door, p);
	int64_t until = door_until(&d->door);

	p[n] = (struct pollfd){ d->shut_fd, POLLIN, 0 };
	until = deadline_ns < until ? deadline_ns : until;
	poll(p, (nfds_t)n + 1, clock_left_ms(until));
	door_serve(&d->door, p, &owner);
}

int session_accept(struct session_door *d, struct chan **cp, struct secret *next,
		   int64_t deadline_ns, struct err *e)
{
	struct pollfd p[DOOR_FDS + 1], shut = { d->shut_fd, POLLIN, 0 };
	struct arrival *a;

	for (;;) {
		if (poll(&shut, 1, 0) > 0)
			return fail(e, RINGUP_ESHUTDOWN, "the listener is closed");
		if (d->arrivals) {
			a = &d->arrival[--d->arrivals];
			*cp = a->chan;
			*next = a->next;
			secret_wipe(&a->next);
			return 1;
		}
		if (d->refused.code) {
			*e = d->refused;
			fail_none(&d->refused);
			return e->code;
		}
		if (clock_ns() >= deadline_ns)
			return 0;
		door_turn(d, p, deadline_ns);
	}
}

void session_shut(struct session_door *d)
{
	eventfd_write(d->shut_fd, 1);
}

void session_close(struct session_door *d)
{
	while (d->arrivals)
		chan_close(d->arrival[--d->arrivals].chan);
	door_close(&d->door);
	if (d->shut_fd >= 0)
		close(d->shut_fd);
	sodium_memzero(d, sizeof(*d));
	free(d);
}
