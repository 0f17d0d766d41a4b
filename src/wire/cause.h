/* cause.h - root cause of a failure: each rank tells the launcher which rank it blames. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_CAUSE_H
#define WIRE_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

struct err;

/*
 * When a rank fails, the others fail because of it, and may end before it has. A launcher that
 * sees only how processes end cannot tell one from the other; the ranks can. Each notes in its
 * word of a memory file, before an operation returns, the rank because of which it fails. The
 * launcher creates the file, and ranks inherit its descriptor.
 */
struct cause {
	int fd;         /* the launcher's; 0: none       */
	uint32_t *word; /* one of each rank; NULL: none  */
	uint32_t *mine; /* a rank's own; NULL: none      */
};

/* What a rank has noted. */
struct cause_seen {
	bool joined; /* it has been in a job                             */
	bool left;   /* and has taken its leave: ringup_fini()           */
	int rank;    /* the rank that made it fail; -1: no other did     */
};

/* cause_create - the launcher's side, for any number of ranks up to DISCOVER_RANKS. */
int cause_create(struct cause *c, struct err *e);

/* cause_map - the side of rank @rank, of descriptor @fd, which stays open. */
int cause_map(struct cause *c, int fd, int rank, struct err *e);

/*
 * What a rank notes. @c may be all zero. Any thread.
 *
 * cause_join - it is in a job, and nothing has failed.
 * cause_blame - it fails because of rank @rank. The first counts; after cause_leave() none
 * does. cause_leave - it takes its leave of the others.
 */
void cause_join(struct cause *c);
void cause_blame(struct cause *c, int rank);
void cause_leave(struct cause *c);

/* cause_read - what rank @rank has noted; nothing if there is no such rank. */
struct cause_seen cause_read(const struct cause *c, int rank);

/* cause_pack, cause_unpack - what a rank has noted as a number, and back. */
uint32_t cause_pack(struct cause_seen seen);
struct cause_seen cause_unpack(uint32_t word);

/* cause_close - either side; @c may be all zero. */
void cause_close(struct cause *c);

#endif
