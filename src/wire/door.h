/* door.h - a listening socket, and its connections that have yet to pass the handshake. */
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
 * Strangers may connect, in any number, send anything and be as slow as they
 * like; ranks of the job are served as if they were alone.  A guest is a connection in
 * its handshake.  It has SHAKE_MS from first to last; there are at most DOOR_GUESTS,
 * and for one more, the oldest of the address with the most guests is closed.
 * A process that is out of descriptors stops accepting for a moment.
 */
enum { DOOR_GUESTS = 64, DOOR_FDS = DOOR_GUESTS + 1 };

struct door_guest;

/* The owner's callbacks, from within door_serve(). */
struct door_owner {
	/* May @h->peer, which has proved that it knows the secret, enter?  0 or the
	 * code for shake_answer(). */
	int (*admit)(void *ctx, const struct shake *h);
	/* The handshake is complete: @fd and the keys in @h are the owner's now. */
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

/* door_open - accept connections to @fd, which is from sock_listen(); takes it over,
 * unless it fails.  @s stays the caller's and must outlive the door. */
int door_open(struct door *d, int fd, uint32_t rank, const struct secret *s, struct err *e);

/* door_listen - accept connections to a port of the kernel's choice on @address, which is put
 * into
 * @where, of SOCK_TEXT bytes. */
int door_listen(struct door *d, const char *address, char *where, uint32_t rank,
		const struct secret *s, struct err *e);

/* door_poll - put the descriptors to wait for into @p, of DOOR_FDS; returns how many. */
int door_poll(const struct door *d, struct pollfd *p);

/* door_until - when door_serve() is to be called even if nothing happens. */
int64_t door_until(const struct door *d);

/* door_serve - after poll(2) on what door_poll() gave.  Never blocks, cannot fail. */
void door_serve(struct door *d, const struct pollfd *p, const struct door_owner *owner);

/* door_close - stop listening and close the guests' connections. */
void door_close(struct door *d);

#endif
