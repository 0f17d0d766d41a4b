/* dial.h - a connection to a rank, tried until it stands and is proved. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_DIAL_H
#define WIRE_DIAL_H

#include <poll.h>
#include <stdint.h>

#include "wire/secret.h"
#include "wire/shake.h"
#include "wire/sock.h"

struct err;

/* Room for a guess at why there is no connection. */
enum { DIAL_HINT = 160 };

/* Caller's storage; zeroed is closed. */
struct dial {
	int fd;
	int state;
	enum shake_channel channel;
	uint32_t rank, peer;
	const struct secret *secret;
	char where[SOCK_TEXT];
	struct sock_addr to;
	int64_t deadline_ns;
	int64_t retry_ns;   /* when to try again                        */
	int64_t refused_ns; /* since when nobody listens, or we are told
			     * that we are connected already; 0: not so */
	int tries;
	struct shake shake; /* with the keys, when done */
	char why[128];      /* the last try failed      */
};

/*
 * dial_open - prepare to connect to @where as @rank and to talk to @peer.
 *
 * Only @where is examined: RINGUP_EINVAL.  @s must outlive the dialling.
 */
int dial_open(struct dial *d, const char *where, enum shake_channel channel, uint32_t rank,
	      uint32_t peer, const struct secret *s, int64_t deadline_ns, struct err *e);

/* dial_poll - what to wait for (fd may be -1), and in *@until_ns, if that is
 * sooner, how long. */
struct pollfd dial_poll(const struct dial *d, int64_t *until_ns);

/*
 * dial_step - as far as possible without blocking.
 *
 * Returns 1 when d->fd is connected and d->shake holds its keys; 0 when not yet;
 * or a negative code that names @where.  A connection that breaks is tried again
 * until the deadline, then RINGUP_ETIMEDOUT; one that is refused for two
 * seconds is RINGUP_EPEER, since the listener was there before its address was known.
 * Another secret, version or verdict is final.
 */
int dial_step(struct dial *d, struct err *e);

/* dial_wait - dial_step() and poll(2) until it is done or has failed. */
int dial_wait(struct dial *d, struct err *e);

/* dial_silence - why there is no connection yet: what became of the last try, else a firewall
 * or, if @where is this host's own, what is wrong with its loopback; returns @out. */
const char *dial_silence(const struct dial *d, char out[DIAL_HINT]);

/* dial_take - the descriptor becomes the caller's. */
int dial_take(struct dial *d);

void dial_close(struct dial *d);

#endif
