/* reach.h - try many addresses and ports at once, and report how each attempt ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_REACH_H
#define PROBE_REACH_H

#include "probe/facts.h"
#include "probe/seal.h"

struct echo;
struct err;

/*
 * A dropping firewall is known by silence; a missing host by the kernel's error after three ARP
 * requests a second apart, hence the first bound.  REACH_BURST is several segments even of
 * jumbo frames.
 */
enum { REACH_CONNECT_MS = 3300, REACH_ANSWER_MS = 2000, REACH_BURST = 65536 };

struct reach {
	int me;
	const struct seal_key *key;
	struct echo *echo; /* served meanwhile                       */
	int lifeline;      /* give up when this descriptor is closed; or -1 */
};

/*
 * reach_run - try @paths, whose to, address and port are set, and fill in the results.
 *
 * Ports of kind "ephemeral" are also sent a burst of full-size segments and packets that must
 * not be fragmented.  As many attempts run at once as descriptors permit.
 *
 * Returns 0, RINGUP_EPEER if the lifeline has ended, or RINGUP_ENOMEM.
 */
int reach_run(const struct reach *r, struct probe_path *paths, int n, struct err *e);

/* reach_descriptors - raise the limit of open files as far as possible; returns it. */
int reach_descriptors(void);

/* reach_errno - the name of an errno: "ECONNREFUSED". */
void reach_errno(char out[FACTS_WORD], int number);

/* reach_state - the meaning of an errno of connect(2), with its ICMP message: @origin, @type
 * and @code of struct sock_extended_err, or 0. */
enum facts_state reach_state(int number, int origin, int type, int code);

#endif
