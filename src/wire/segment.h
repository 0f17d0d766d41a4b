/* segment.h - the shared memory segment of the ranks of one host. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SEGMENT_H
#define WIRE_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "wire/alarm.h"
#include "wire/waitset.h"

struct err;

enum {
	SEGMENT_SLOTS = 4,
	SEGMENT_SLOT_BYTES = 65536,
	SEGMENT_SLOT_AREA = SEGMENT_SLOTS * SEGMENT_SLOT_BYTES,
	SEGMENT_FAR_AREA =
		1 << 20, /* of a rank with links to other hosts: more data is in flight */
	SEGMENT_COUNTER_BYTES = 512, /* of a rank, for the back end that serves the segment */
	SEGMENT_SOCKET_BYTES = 16,   /* of the random name of a socket */
	SEGMENT_ABORTED = 1 << 30,   /* a mark in segment_head's left, above all ranks */
};

/*
 * One memfd: no name in any file system, so nothing can be left behind.  Rank 0
 * of the host makes it and hands the descriptor to the others over a socket in
 * the abstract name space, to processes of the same user only.
 *
 *	head | waiters | counters | slots of rank 0, rank 1 ... | extra bytes for the engine
 */
struct segment_head {
	alignas(64) uint32_t sleepers; /* see struct waitset                   */
	alignas(64) uint32_t left;     /* 0, or 1 + the first rank that has left the job;
					* with SEGMENT_ABORTED, that has aborted the group */
	uint32_t silent; /* the first rank hears nothing of some other host: see watch.c */
	struct alarm alarm;
};

struct segment {
	int rank, ranks; /* of those that share it */
	size_t bytes;
	void *base;
	struct segment_head *head;
	struct waiter *waiters; /* of these ranks */
	void *counters;         /* of these ranks: what the back end counts, zero at first */
	struct waitset
		waitset; /* where they sleep: here, or (a group) on the waiters of the world */
	unsigned char *slots;
	size_t slot_area; /* bytes of each rank's slots, one behind the other */
	void *extra;
};

/* A socket that waits for the others; open it before its name is published. */
struct segment_door {
	int fd;
	unsigned char name[SEGMENT_SOCKET_BYTES];
};

/* The ranks that share it, the one that makes it first. */
struct segment_peers {
	int count;
	const int *pids, *names;   /* of each the process, and the rank as errors call it */
	const struct alarm *alarm; /* that ends the wait for them; NULL: there is none    */
};

int segment_door_open(struct segment_door *d, struct err *e);
void segment_door_close(struct segment_door *d);

/* segment_lay_out - set the pointers into a segment at @base, in the same layout on all ranks;
 * NULL: only its size. */
void segment_lay_out(struct segment *s, void *base, int rank, int ranks, size_t slot_area,
		     size_t extra_bytes);

/*
 * segment_make - the first rank's half: make it, hand it out to the peers.
 * segment_join - the others' half: get it from the door called @name, of @pid.
 *
 * Each rank gets @slot_area bytes for its slots.  Both map the segment and touch this rank's
 * slots.  They block until the deadline at most, and no longer than the other side lives.
 * segment_close() is safe after a failure, and on a zeroed struct.
 */
int segment_make(struct segment *s, const struct segment_door *d, const struct segment_peers *p,
		 size_t slot_area, size_t extra_bytes, int64_t deadline_ns, struct err *e);
int segment_join(struct segment *s, const unsigned char name[SEGMENT_SOCKET_BYTES], int pid,
		 int rank, int ranks, size_t slot_area, size_t extra_bytes, int64_t deadline_ns,
		 struct err *e);
void segment_close(struct segment *s);

/* segment_touch - make the peers' slots present in this mapping, since a first
 * access to each page costs more than the copy itself. */
void segment_touch(struct segment *s);

/* segment_slot - the memory of @rank's slot @index. */
static inline unsigned char *segment_slot(const struct segment *s, int rank, uint64_t index)
{
	return s->slots +
	       ((size_t)rank * SEGMENT_SLOTS + index % SEGMENT_SLOTS) * SEGMENT_SLOT_BYTES;
}

#endif
