/* jobdir.h - rendezvous through a directory: rank 0 puts the meeting point's address there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_JOBDIR_H
#define WIRE_JOBDIR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file.h"
#include "wire/secret.h"

struct err;

enum { JOBDIR_WHERE_BYTES = 128 };

/*
 * The directory is this user's alone: $XDG_RUNTIME_DIR/ringup, else
 * /dev/shm/ringup-UID, else $TMPDIR/ringup-UID (/tmp); a directory that another
 * user owns or may write to is never used, and no symbolic link is followed.  Or
 * the user names one that all hosts share.
 *
 * An offer is one file of mode 0600, there wholly or not at all.  The process that made it
 * holds a lock on it: offers of ended processes are ignored and removed.
 */

/* An offer that this process has made. */
struct jobdir {
	char dir[PATH_MAX], name[80];
	struct file_identity id; /* of the offer            */
	bool is_made;            /* there is an offer                   */
	bool is_own;             /* the directory is removed when empty */
	int fd, file;            /* of the directory; of the offer      */
};

/*
 * jobdir_publish - offer @where and @s to the ranks of job @key.
 *
 * @dir: "" for this user's own directory.  @round tells apart the meetings of
 * one job; both sides count those that have taken place.
 * Returns 0; RINGUP_EBUSY if a living process has made this offer already;
 * RINGUP_ESYSTEM or RINGUP_EINVAL if no directory will do.
 */
int jobdir_publish(struct jobdir *j, const char *dir, const char *key, unsigned round,
		   const char *where, const struct secret *s, struct err *e);

/*
 * jobdir_find - wait for rank 0's offer of job @key.
 *
 * Writes JOBDIR_WHERE_BYTES to @where.  An offer may be out of date if another
 * host made it: a caller that finds no listener there should look again.
 * Returns 0, RINGUP_ETIMEDOUT, or RINGUP_EINVAL (the directory is unsafe).
 */
int jobdir_find(const char *dir, const char *key, unsigned round, int64_t deadline_ns,
		char *where, struct secret *s, struct err *e);

/* jobdir_remove - withdraw the offer; @j may be all zero, or done already. */
void jobdir_remove(struct jobdir *j);

#endif
