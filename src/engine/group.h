/* group.h - opens a communicator: shared memory, connections, an agreement, back ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_GROUP_H
#define ENGINE_GROUP_H

#include "base/conf.h"
#include "base/forks.h"
#include "engine/agree.h"
#include "engine/bootstrap.h"
#include "engine/comm.h"
#include "engine/host_queue.h"
#include "engine/ledger.h"
#include "engine/tree.h"
#include "engine/watch.h"
#include "host/cores.h"
#include "host/identity.h"
#include "wire/mesh.h"
#include "wire/secret.h"
#include "wire/segment.h"

/*
 * A rank's own entry in the bootstrap exchange, as sent over the wire.
 * Fixed width, no holes, little-endian like every machine this runs on.
 */
struct peer_info {
	char version[32];
	unsigned char host[IDENTITY_BYTES];
	unsigned char mask[CORES_MASK_BYTES];
	unsigned char door[SEGMENT_SOCKET_BYTES];
	char name[HEARTBEAT_HOST_BYTES];
	char backend[32];
	uint64_t eager_bytes, fusion_bytes;
	uint64_t digest; /* equal on all ranks: of a group's ranks, or the number of groups
			    that are added at once */
	struct heartbeat_rules rules;
	int32_t pid, quota;
	uint32_t single_copy; /* enum single_copy */
	uint32_t join_sums;   /* 1: ranks that have joined take part in sums only */
	uint64_t sockets;     /* for data, to each host */
	uint64_t slot;        /* of an elastic worker on its host; else 0 */
	uint64_t launch;      /* hash of the job of ringup's launcher that it is in; or 0 */
	int64_t launched;     /* its number there                        */
};

/* One group of ranks, as seen by one of them. */
struct group {
	struct comm comm;
	struct segment segment;
	struct agree agree;
	struct ledger ledger;
	struct mesh mesh;
	struct forks_hook fork;       /* closes its connections in children */
	struct host_queue host_queue; /* with several hosts             */
	struct watch *watch; /* serves the tree; NULL for the world, which is added elsewhere */
	struct tree *tree;   /* if this rank is the leader of its host */
	int size, rank;      /* rank -1: this process is not in the group */
	int *ranks;          /* their world ranks                   */
	int *host_of, *local_of, *place_of;
	bool open; /* the engine drives it */
};

/* Parameters for opening a group. */
struct group_site {
	const struct conf *conf;
	struct engine *engine;
	const struct peer_info *infos; /* of the ranks of the group   */
	struct segment_door *door;
	const struct bootstrap *bootstrap; /* of the group: for the addresses */
	const char *address;               /* of this host, if there are several */
	const int *place_of; /* by world rank, the place of its waiter; NULL: this is
			       the world */
	const struct secret *secret;
	const struct tree_events *events;
	struct watch *watch; /* for the tree; NULL: this is the world */
	int64_t deadline;
};

/* group_peer_info - fill in this rank's peer info. */
void group_peer_info(struct peer_info *info, const struct conf *conf,
		     const struct segment_door *door);

/* group_locate - find which ranks share a host; sets topology, host_of and local_of.  Hosts are
 * numbered by their lowest rank.  For the back end `tcp` each rank is a host of its own. */
int group_locate(struct group *g, const struct peer_info *infos, struct err *e);

/* group_share - map the memory of this host's ranks, and set up its wait set. */
int group_share(struct group *g, const struct group_site *s, struct err *e);

/* group_connect - open connections if there are several hosts, agreement and back end.  The
 * engine may then drive g->comm.  It calls s->bootstrap->exchange once if hosts > 1. */
int group_connect(struct group *g, const struct group_site *s, struct err *e);

/* group_progress, group_liveness - shared state of this host's ranks, for progress and failure
 * detection; of the world only. */
struct progress *group_progress(const struct group *g);
struct liveness *group_liveness(const struct group *g);

/* group_p2p_area - memory that this host's ranks share for messages; of the world only. */
void *group_p2p_area(const struct group *g);

/* group_close - release everything; safe on a zeroed group, and after a failure. */
void group_close(struct group *g);

#endif
