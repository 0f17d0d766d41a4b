/* door.h - a listener, and everybody who has not yet proved who he is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_DOOR_H
#define WIRE_DOOR_H

#include <poll.h>
#include <stdint.h>

#include "wire/secret.h"
#include "wire/shake.h"
#include "wire/sock.h"

struct err;

/*
 * Strangers may connect, in any number, say anything and be as slow as they
 * like; those who belong here are served as if they were alone.  Nobody has
 * more than SHAKE_MS from first to last; there are at most DOOR_GUESTS at a time,
 * and when one more comes, the oldest of the address with the most guests goes.
 * A process that is out of descriptors stops accepting for a moment.
 */
enum { DOOR_GUESTS = 64, DOOR_FDS = DOOR_GUESTS + 1 };

struct door_guest;

/* What the owner of a door decides. */
struct door_owner {
	/* May @h->peer, who has proved that he knows the secret, come in?  0 or the
	 * code that shake_answer() takes. */
	int (*admit)(void *ctx, const struct shake *h);
	/* He is in: @fd and the keys in @h are the owner's now. */
	void (*enter)(void *ctx, int fd, const struct shake *h);
	void *ctx;
};

/* Caller's storage; zeroed is closed. */
struct door {
	int fd;
	uint32_t rank;
	const struct secret *secret;
	int64_t pause_ns; /* no accepting before this time */
	int64_t told_ns;  /* when strangers were last mentioned in the log */
	unsigned strangers;
	struct door_guest *guest; /* the oldest first; NULL if closed */
	int guests;
};

/* door_open - to those who connect to @fd, from sock_listen(), which it takes
 * over, unless it fails; @s stays the caller's and must outlive the door. */
int door_open(struct door *d, int fd, uint32_t rank, const struct secret *s, struct err *e);

/* door_poll - what to wait for, into @p with room for DOOR_FDS; returns how many. */
int door_poll(const struct door *d, struct pollfd *p);

/* door_until - when door_serve() is to be called even if nothing happens. */
int64_t door_until(const struct door *d);

/* door_serve - after poll(2) on what door_poll() gave.  Never blocks, cannot fail. */
void door_serve(struct door *d, const struct pollfd *p, const struct door_owner *owner);

/* door_close - stop listening and send the guests away. */
void door_close(struct door *d);

#endif
