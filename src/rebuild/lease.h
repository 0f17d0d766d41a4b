/* lease.h - a lock that nodes share through a folder, and that the dead lose. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_LEASE_H
#define REBUILD_LEASE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/*
 * The lock is a folder, since mkdir(2) succeeds once whatever the file system is.  In it
 * stand owner.json (who holds it) and beat, which the holder writes again and again.  A lock
 * whose text has not changed for as long as its owner promised is dead; so is one whose
 * process is of this host, by the kernel's word, and has ended.  Clocks are never compared
 * between hosts: who waits measures how long nothing has changed.
 *
 * The lock saves work.  It is not what keeps an entry whole: a holder that was suspended for
 * longer than its lease may wake up and find another.
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

/*
 * lease_take - LEASE_TAKEN: it is the caller's until lease_give(), kept fresh by a thread;
 * LEASE_BUSY: it is somebody's; or RINGUP_ESYSTEM: the folder cannot be written.
 */
int lease_take(struct lease *l, const char *path, int64_t life_ms, struct err *e);

/* lease_give - end the thread and remove the lock if it is still ours; may be all zero. */
void lease_give(struct lease *l);

/* What somebody who waits has seen so far; begins as all zero. */
struct lease_watch {
	uint64_t seen;
	int64_t since_ns;
	char who[LEASE_WHO_BYTES]; /* "node-3, process 4711", for messages */
};

enum lease_state { LEASE_FREE, LEASE_HELD, LEASE_DEAD };

/* lease_look - how is it with the lock at @path? */
enum lease_state lease_look(struct lease_watch *w, const char *path);

/* lease_break - remove the lock if it is still the dead one that @w has seen; false: it cannot
 * be removed, the folder is read-only for instance. */
bool lease_break(struct lease_watch *w, const char *path);

/*
 * lease_guard - a moment alone with the locks of @path's folder, where the file system has
 * flock(2): for what looks and then renames.  Returns a descriptor to close, or -1.
 */
int lease_guard(const char *path);

#endif
