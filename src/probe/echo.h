/* echo.h - an agent's server for probes: seals answers, swallows bandwidth data. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_ECHO_H
#define PROBE_ECHO_H

#include <stdint.h>

#include "probe/seal.h"

struct err;
struct sock_addr;

/*
 * Over TCP: a sealed question, a sealed answer; then orders of ECHO_ORDER bytes, a length (4)
 * and a number (4), each followed by that many bytes, which are discarded, and answered with
 * the order itself.  Over UDP: a sealed question, padded to any length, and a sealed answer
 * that holds the length received.  A peer without the secret gets no answer.
 */
enum { ECHO_ORDER = 8, ECHO_GUESTS = 4096, ECHO_SILENCE_MS = 3000 };

struct echo_guest;

/* Caller's storage; zeroed is closed. */
struct echo {
	int epoll; /* readable when echo_serve() is due */
	int me;
	struct seal_key key;
	struct echo_guest *guest; /* listeners first */
	int guests;
	int64_t swept_ns;
};

int echo_open(struct echo *x, int me, const struct seal_key *key, struct err *e);

/*
 * echo_listen - listen for TCP and UDP at @at; with @port 0 the kernel chooses; @tcp_only
 * leaves UDP out.
 *
 * Returns the port, or 0 if that address and port cannot be had.
 */
int echo_listen(struct echo *x, const struct sock_addr *at, int port, int tcp_only);

/* echo_serve - do all that is due; never blocks, cannot fail. */
void echo_serve(struct echo *x);
void echo_close(struct echo *x);

#endif
