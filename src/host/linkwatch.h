/* linkwatch.h - notice changes to links, addresses and routes, through netlink. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_LINKWATCH_H
#define HOST_LINKWATCH_H

#include "host/iface.h"

struct err;

enum { LINKWATCH_TEXT = 200 };

/* linkwatch_open - a socket that becomes readable after any change; -1 if there is none. */
int linkwatch_open(struct err *e);

/* linkwatch_drain - discard all messages; linkwatch_compare() finds the changes. */
void linkwatch_drain(int fd);

/*
 * linkwatch_compare - call @on with one sentence for each difference of two moments.
 *
 * Lists are compared rather than messages read, so nothing is missed when the kernel's
 * queue overflows, and a change that is undone at once is not reported.  Pure.
 */
typedef void linkwatch_said(void *data, const char *what);
void linkwatch_compare(const struct iface_list *before, const struct iface_list *after,
		       linkwatch_said *on, void *data);

#endif
