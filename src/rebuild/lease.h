/* lease.h - a lock in a folder that nodes share; a dead holder loses it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_LEASE_H
#define REBUILD_LEASE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/*
 * The lock is a folder, since mkdir(2) succeeds once on any file system.  It holds owner.json
 * (the holder) and beat, which the holder rewrites again and again.  A lock is dead if its
 * texts have not changed for one and a half of its owner's lease; or if its process is of this
 * host and has ended, as the kernel tells.  Clocks are never compared between hosts: a waiting
 * process measures how long nothing has changed.
 *
 * The lock saves work, but does not keep an entry whole: a holder that was suspended for longer
 * than its lease may wake up and find another holder.
 */
enum { LEASE_MS = 30000, LEASE_TOKEN_BYTES = 33, LEASE_WHO_BYTES = 96 };

struct lease {
	char path[PATH_MAX];
	char token[LEASE_TOKEN_BYTES];
	int64_t life_ms;
	int beat; /* descriptor */
	bool is_held, has_thread;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool end;
};

enum lease_taken { LEASE_TAKEN = 0, LEASE_BUSY = 1 };

/* lease_take - LEASE_TAKEN: the lock is the caller's until lease_give(), kept fresh by a
 * thread; LEASE_BUSY: another process has it; or RINGUP_ESYSTEM: the folder cannot be
 * written. */
int lease_take(struct lease *l, const char *path, int64_t life_ms, struct err *e);

/* lease_give - end the thread and remove the lock if it is still ours; @l may be all zero. */
void lease_give(struct lease *l);

/* What a waiting process has seen so far; begins as all zero. */
struct lease_watch {
	uint64_t seen;
	int64_t since_ns;
	char who[LEASE_WHO_BYTES]; /* "node-3, process 4711", for messages */
};

enum lease_state { LEASE_FREE, LEASE_HELD, LEASE_DEAD };

/* lease_look - the state of the lock at @path. */
enum lease_state lease_look(struct lease_watch *w, const char *path);

/* lease_break - remove the lock if it is still the dead one that @w has seen; false: it cannot
 * be removed, for instance because the folder is read-only. */
bool lease_break(struct lease_watch *w, const char *path);

/* lease_guard - take a short exclusive lock on the locks of @path's folder, where the file
 * system has flock(2), to check and then rename.  Returns a descriptor to close, or -1. */
int lease_guard(const char *path);

#endif
