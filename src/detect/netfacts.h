/* netfacts.h - the facts that the commands of `ringup net` start from. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_NETFACTS_H
#define DETECT_NETFACTS_H

#include <stdbool.h>

#include "host/snapshot.h"
#include "nicpick/own.h"

struct err;

/* Where from; NULL or "" where nothing is said. */
struct netfacts_from {
	const char *root; /* in front of every path */
	const char *file; /* a snapshot; otherwise this machine           */
	const char *peer; /* numeric address, to ask the route to it      */
	const char *nics; /* what horovodrun will get as --network-interface */
	bool resolve;     /* ask the resolver what Gloo and NCCL will ask */
};

/* netfacts_names - all settings that any picker listens to, NULL at the end; or NULL
 * without memory.  For free(). */
const char **netfacts_names(void);

/* netfacts_read - a snapshot with all settings that any picker listens to.
 * The caller frees it with snapshot_free(), also on failure. */
int netfacts_read(struct snapshot *s, const struct netfacts_from *from, struct err *e);

/* netfacts_container_ip - the platform's word about its own address, or NULL. */
const char *netfacts_container_ip(const struct snapshot *s);

/* netfacts_choose - ringup's own choice on that machine; see own_choose(), to whose
 * hint the platform's word is added. */
int netfacts_choose(const struct snapshot *s, struct own_hint h, struct picked *p,
		    struct err *e);

#endif
