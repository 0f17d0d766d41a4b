/* dial.h - a connection to a rank, retried until it is open and authenticated. */
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
	int64_t refused_ns; /* since when the other side refuses, or says
			     * that this rank is connected already; 0: never */
	int tries;
	struct shake shake; /* with the keys, when done */
	char why[128];      /* why the last try failed  */
};

/*
 * dial_open - prepare to connect to @where as @rank and to talk to @peer.
 *
 * Only @where is examined: RINGUP_EINVAL.  @s must outlive the dialling.
 */
int dial_open(struct dial *d, const char *where, enum shake_channel channel, uint32_t rank,
	      uint32_t peer, const struct secret *s, int64_t deadline_ns, struct err *e);

/* dial_poll - the descriptor and events to wait for (fd may be -1); lowers *@until_ns
 * to the time of the next step. */
struct pollfd dial_poll(const struct dial *d, int64_t *until_ns);

/*
 * dial_step - as far as possible without blocking.
 *
 * Returns 1 when d->fd is connected and d->shake holds its keys; 0 when not yet;
 * or a negative code, with @where in the sentence.  A connection that breaks is tried
 * again until the deadline, then RINGUP_ETIMEDOUT; two seconds of refusals are
 * RINGUP_EPEER, since the listener was there before its address was known.
 * Another secret, version or verdict is final.
 */
int dial_step(struct dial *d, struct err *e);

/* dial_wait - dial_step() and poll(2) until it is done or has failed. */
int dial_wait(struct dial *d, struct err *e);

/* dial_silence - why there is no connection yet: how the last try failed, else a firewall,
 * or the state of the loopback if @where is this host's own; returns @out. */
const char *dial_silence(const struct dial *d, char out[DIAL_HINT]);

/* dial_take - the descriptor becomes the caller's. */
int dial_take(struct dial *d);

void dial_close(struct dial *d);

#endif
