/* watch.h - the thread that notices when a rank dies, leaves or speaks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_WATCH_H
#define ENGINE_WATCH_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>

#include "engine/engine_state.h"
#include "engine/heartbeat.h"
#include "engine/stall.h"
#include "host/oom.h"

struct tree;
struct tree_events;

enum { WATCH_TREES = ENGINE_COMMS };

/*
 * Ranks that share memory are watched by pidfd, other hosts by the connections
 * between leaders (tree.h), which pass on what they see.  The thread sleeps in poll(2) and
 * costs nothing until something happens, but for a tick each half a second: then it says that
 * this process moves (a counter in shared memory, a frame on each connection), looks whether
 * the others have, and for tensors that wait in vain.
 */
struct watch {
	struct engine *engine;
	const struct topo *topo;           /* of the world                 */
	const struct heartbeat_peer *peer; /* of every rank                */
	struct heartbeat_rules rules;
	struct heartbeats local;  /* of every rank of the host, by its place   */
	struct heartbeats remote; /* of every rank, by the connections         */
	struct stall stall;
	int64_t tick_ns; /* when the next one is due                     */
	int *rank;       /* of each rank of the host                     */
	int *pidfd;      /* of the same, -1: not watched                 */
	int launcher;    /* pidfd of who started us, or -1 */
	int launcher_pid;
	char launcher_name[16];
	struct oom oom; /* at the start */
	int wake;       /* eventfd                      */
	bool stop, has_thread;
	struct tree *world; /* or NULL */
	uint64_t *heard;    /* from each of its neighbours, at the last tick */
	pthread_mutex_t lock;
	struct tree *tree[WATCH_TREES]; /* all that are served, the world's, too */
	int trees;
	struct pollfd *polls;
	pthread_t thread;
};

/* watch_events - what to give to tree_open(), before watch_start(). */
void watch_events(struct watch *w, struct engine *g, struct tree_events *ev);

/* watch_group_events - the same for the tree of a group, whose connections may end
 * before the job does: when a rank dies, the world's tell. */
void watch_group_events(struct watch *w, struct tree_events *ev);

/* watch_start - the engine is started already; @t is the world's topology, @world its
 * tree if this rank is a leader. */
int watch_start(struct watch *w, const struct topo *t, struct tree *world,
		const struct heartbeat_peer *peer, const struct heartbeat_rules *rules,
		struct err *e);

/* watch_add - serve @t, too; watch_drop - no longer: after this it may be closed. */
int watch_add(struct watch *w, struct tree *t, struct err *e);
void watch_drop(struct watch *w, struct tree *t);

/* watch_goodbye - tell the neighbours in all trees that this rank ends in peace. */
void watch_goodbye(struct watch *w, int64_t deadline_ns);

/* watch_stop - end the thread; safe on a zeroed struct. */
void watch_stop(struct watch *w);

#endif
