/* watch.h - failure detector: the thread that notices a rank's death, silence or departure. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_WATCH_H
#define ENGINE_WATCH_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>

#include "engine/deadlock.h"
#include "engine/engine_state.h"
#include "engine/heartbeat.h"
#include "engine/ras_report.h"
#include "engine/stall.h"
#include "host/oom.h"

struct observe;
struct tree;
struct tree_events;

enum { WATCH_TREES = ENGINE_COMMS };

/*
 * The thread watches ranks that share memory by pidfd, and other hosts by the connections
 * between leaders (tree.h), which pass on what they see.  It sleeps in poll(2) and costs
 * nothing until something happens, except for a tick each half a second: it then publishes a
 * sign of life (a counter in shared memory, a frame on each connection), checks the other
 * ranks' signs, and looks for tensors that wait in vain.
 */
struct watch {
	struct engine *engine;
	const struct topo *topo;           /* of the world                 */
	const struct heartbeat_peer *peer; /* of every rank                */
	struct heartbeat_rules rules;
	struct heartbeats local;  /* of every rank of the host, by local index */
	struct heartbeats remote; /* of every rank, by the connections         */
	struct stall stall;
	struct deadlock deadlock;
	struct observe *observe; /* this rank's page; NULL: none; set before watch_start() */
	int ras_port;            /* 0: no RAS; likewise                          */
	struct ras_server ras;
	struct ras_job ras_job;
	int64_t tick_ns;   /* when the next tick is due                    */
	int64_t device_ns; /* when what is queued on devices is looked at  */
	int *rank;         /* of each rank of the host: its rank in the world */
	int *pidfd;        /* of each rank of the host, -1: not watched    */
	int launcher;      /* pidfd of the process that started this one, or -1 */
	int launcher_pid;
	char launcher_name[16];
	struct oom oom;    /* at the start */
	int wake;          /* eventfd                      */
	int alarm_fd;      /* watch_alarm_fd()'s eventfd; 0: none yet; by lock */
	bool alarm_fd_set; /* it is readable; by lock      */
	bool stop, has_thread;
	struct tree *world; /* or NULL */
	uint64_t *heard;    /* frames from each of its neighbours, at the last tick */
	pthread_mutex_t lock;
	struct tree *tree[WATCH_TREES]; /* all that are served, the world's included */
	int trees;
	struct pollfd *polls;
	pthread_t thread;
};

/* watch_events - the events to give to tree_open(), before watch_start(). */
void watch_events(struct watch *w, struct engine *g, struct tree_events *ev);

/* watch_group_events - the same for the tree of a group, whose connections may end before the
 * job does: the world's tree alone reports the death of a rank. */
void watch_group_events(struct watch *w, struct tree_events *ev);

/* watch_start - the engine is started already; @t is the world's topology, @world its
 * tree if this rank is a leader. */
int watch_start(struct watch *w, const struct topo *t, struct tree *world,
		const struct heartbeat_peer *peer, const struct heartbeat_rules *rules,
		struct err *e);

/* watch_add - serve @t, too; watch_drop - serve it no longer: then it may be closed. */
int watch_add(struct watch *w, struct tree *t, struct err *e);
void watch_drop(struct watch *w, struct tree *t);

/* watch_alarm_fd - a descriptor that can be read from once the job has failed: at once
 * if it has, else up to a tick later.  watch_stop() closes it.  Any thread. */
int watch_alarm_fd(struct watch *w, struct err *e);

/* watch_goodbye - tell the neighbours in all trees that this rank ends regularly. */
void watch_goodbye(struct watch *w, int64_t deadline_ns);

/* watch_stop - end the thread; safe on a zeroed struct. */
void watch_stop(struct watch *w);

#endif
