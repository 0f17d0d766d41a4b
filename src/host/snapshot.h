/* snapshot.h - all inputs of the choice of an interface, as one JSON object. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_SNAPSHOT_H
#define HOST_SNAPSHOT_H

#include <jansson.h>

#include "host/iface.h"
#include "host/netconf.h"
#include "host/sources.h"

struct err;

/* A machine, live or recorded; the code that decides cannot tell which. */
struct snapshot {
	struct iface_list ifaces;
	struct netconf settings;
	struct sources sources; /* empty in snapshots of older versions */
	int rdma; /* 1: the kernel has an RDMA device, -1: it has none, 0: not recorded */
};

/* snapshot_json - the caller's reference, or NULL without memory. */
json_t *snapshot_json(const struct snapshot *s);

/*
 * snapshot_parse - the reverse; @json is not trusted.
 *
 * Absent lists are empty.  Unknown members are passed over, so that a newer
 * version's files can be read.  RINGUP_EINVAL names the fault and its place.
 *
 * Ownership: the contents are the caller's until snapshot_free(), also on failure.
 */
int snapshot_parse(struct snapshot *s, const json_t *json, struct err *e);

/* snapshot_load - snapshot_parse() of a file. */
int snapshot_load(struct snapshot *s, const char *path, struct err *e);
void snapshot_free(struct snapshot *s);

/* snapshot_host - the object of a name and its addresses; snapshot_host_ips - the reverse, for
 * the addresses of @j; false if they are not understood. */
json_t *snapshot_host(const struct netconf_host *h);
bool snapshot_host_ips(struct netconf_host *h, const json_t *j);

#endif
