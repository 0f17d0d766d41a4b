/* nearend.h - diagnose this host's end of a connection that has become silent. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_NEAREND_H
#define HOST_NEAREND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "host/iface.h"

/*
 * nearend_fault - true if no packet can reach @ip, by the state @l of this host.  Writes to
 * @out "; eth0 (10.0.0.5) is down on this host", or that nothing is plugged into it, or
 * that no interface has that address any more; else "".  Pure.
 */
bool nearend_fault(const struct iface_list *l, const struct iface_ip *ip, char *out,
		   size_t size);

/* nearend_look - the same for @fd, a connected socket or -1, now; "" if it is unknown.  Asks
 * the kernel for all interfaces, and allocates. */
bool nearend_look(int fd, char *out, size_t size);

/*
 * nearend_self - is @ip this host's own, by @l?  Writes to @out the fault that keeps the
 * host from reaching itself, and the cure: the loopback interface, which carries all
 * packets of a host to itself, is down or lacks @ip; else "".  Pure.
 */
bool nearend_self(const struct iface_list *l, const struct iface_ip *ip, char *out,
		  size_t size);

/* nearend_look_self - the same for @to, a socket's address, now; false if it is unknown.  Asks
 * the kernel for all interfaces, and allocates. */
bool nearend_look_self(const struct sockaddr_storage *to, char *out, size_t size);

#endif
