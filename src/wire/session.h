/* session.h - one call that connects two processes which share a secret. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SESSION_H
#define WIRE_SESSION_H

#include <stdint.h>

#include "wire/chan.h"
#include "wire/secret.h"
#include "wire/shake.h"
#include "wire/sock.h"

struct err;

/*
 * A session is a handshake (shake.h), then frames (chan.h).  These functions are for callers
 * that may block and name a deadline; those with a loop of their own use door.h, dial.h and
 * chan.h, which these are made of.
 */

/*
 * session_connect - dial.h's tries until @deadline_ns; then the channel is the caller's.
 *
 * @next: NULL, or a secret for what the two sides say after the channel's last frame.
 */
int session_connect(struct chan **cp, const char *where, enum shake_channel channel,
		    uint32_t rank, uint32_t peer, const struct secret *s, int64_t deadline_ns,
		    struct secret *next, struct err *e);

/* session_flush - send what chan_send() has left; RINGUP_ETIMEDOUT at the deadline. */
int session_flush(struct chan *c, int64_t deadline_ns, struct err *e);

/* session_await - the next frame, as from chan_recv(), or RINGUP_ETIMEDOUT at the deadline. */
int session_await(struct chan *c, const void **datap, int64_t deadline_ns, struct err *e);

/*
 * A listener for sealed sessions of one kind (door.h).  One thread serves it; any other may
 * call session_shut(), after which session_accept() returns RINGUP_ESHUTDOWN.
 */
struct session_door;

/* session_listen - on @address, as sock_listen(); writes where to @where, of SOCK_TEXT bytes.
 */
int session_listen(struct session_door **dp, const char *address, enum shake_channel channel,
		   const struct secret *s, char *where, struct err *e);

/*
 * session_accept - 1 and *@cp, the caller's, when a peer has proved that it knows the secret;
 * 0 at the deadline; RINGUP_EMISMATCH if a peer that knows it runs another version.
 */
int session_accept(struct session_door *d, struct chan **cp, struct secret *next,
		   int64_t deadline_ns, struct err *e);
void session_shut(struct session_door *d);
void session_close(struct session_door *d);

#endif
