/* netfacts.h - read the machine facts for `ringup net`, live or from a snapshot. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_NETFACTS_H
#define DETECT_NETFACTS_H

#include <stdbool.h>

#include "host/snapshot.h"
#include "nicpick/own.h"

struct err;

/* The sources; NULL or "": not set. */
struct netfacts_from {
	const char *root; /* in front of every path */
	const char *file; /* a snapshot; else this machine                */
	const char *peer; /* numeric address, to ask the route to it      */
	const char *nics; /* the future --network-interface of horovodrun */
	bool resolve;     /* resolve the names that Gloo and NCCL resolve */
};

/* netfacts_names - all settings that any picker reads, NULL at the end; or NULL without memory.
 * For free(). */
const char **netfacts_names(void);

/* netfacts_read - a snapshot with all settings that any picker reads.  The caller frees it with
 * snapshot_free(), also on failure. */
int netfacts_read(struct snapshot *s, const struct netfacts_from *from, struct err *e);

/* netfacts_container_ip - the platform's setting for its own address, or NULL. */
const char *netfacts_container_ip(const struct snapshot *s);

/* netfacts_choose - ringup's own choice on that machine; see own_choose(), whose hint gets the
 * platform's address. */
int netfacts_choose(const struct snapshot *s, struct own_hint h, struct picked *p,
		    struct err *e);

#endif
