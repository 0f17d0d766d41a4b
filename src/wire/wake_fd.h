/* wake_fd.h - a descriptor that becomes readable to wake a rank that sleeps in poll(2). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_WAKE_FD_H
#define WIRE_WAKE_FD_H

#include <stdint.h>

struct err;

/* A datagram socket with a random name; fd 0: there is none. */
struct wake_fd {
	int fd;
	uint64_t name[2];
};

/*
 * wake_fd_open   - make one.  Ranks of this host that know its name can wake its owner.
 *                  Foreign processes that find the name can wake it, too, and no more.
 * wake_fd_notify - make the one called @name readable; nothing happens if there is none.
 *                  Any thread.
 * wake_fd_drain  - discard notifications; a bounded number of system calls.
 */
int wake_fd_open(struct wake_fd *w, struct err *e);
void wake_fd_close(struct wake_fd *w);
void wake_fd_notify(const uint64_t name[2]);
void wake_fd_drain(const struct wake_fd *w);

#endif
