/* mtu.h - find a path's MTU with datagrams that must not be fragmented. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_MTU_H
#define PROBE_MTU_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/seal.h"

struct sock_addr;

enum { MTU_SIZES = 12, MTU_VOLLEYS = 5, MTU_PAUSE_MS = 200 };

/*
 * Datagrams of several sizes at once, up to the interface's MTU, with "don't fragment" set and
 * regardless of the MTU that the kernel assumes for the path; those without an answer are sent
 * again.  Caller's storage; zeroed is closed.
 */
struct mtu {
	int fd;
	struct seal question;
	const struct seal_key *key;
	int size[MTU_SIZES], sizes; /* payloads, the largest first */
	int answered;               /* the largest that was answered, or 0 */
	int volleys;
	int64_t next_ns;
};

/* mtu_open - probe towards @to, by an interface whose MTU is @link; false if that fails. */
bool mtu_open(struct mtu *m, const struct sock_addr *to, int link, const struct seal *question,
	      const struct seal_key *key);

/* mtu_step - take answers, send what is due; true when done.  Poll m->fd for POLLIN and call
 * again at m->next_ns. */
bool mtu_step(struct mtu *m, int64_t now_ns);
void mtu_close(struct mtu *m);

#endif
