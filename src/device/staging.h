/* staging.h - copies between a GPU and the host, through pinned memory that is kept. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEVICE_STAGING_H
#define DEVICE_STAGING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/driver.h"

/*
 * A copy from or to pageable memory keeps its caller until the GPU's stream has come to it.  So
 * the GPU copies from and to a few pinned slots, and the CPU between these and the caller's
 * memory, which may be of any kind.
 *
 * To pin memory takes longer than to copy it, and the driver may wait for the GPU then.  So a
 * GPU pins its slots when it is opened, and has no more.
 *
 * All functions need the GPU's context: see gpu_enter().
 */
enum { STAGING_SLOTS = 4, STAGING_BYTES = 1 << 20 };

/* One copy: the caller sets to_device, and zeroes the rest. */
struct staging_copy {
	bool to_device;
	uint64_t id; /* 0: it has not begun */
	size_t begun, done;
};

/* What the GPU reads or writes: bytes [first, first + bytes) of a copy. */
struct staging_slot {
	unsigned char *at;
	driver_handle event; /* behind it on the stream */
	uint64_t id;         /* of the copy; 0: the slot is free */
	size_t first, bytes;
	bool dropped; /* nobody waits for it */
};

struct staging {
	const struct driver *driver;
	driver_handle stream;
	bool pinned;
	uint64_t copies; /* so far */
	pthread_mutex_t lock;
	struct staging_slot slot[STAGING_SLOTS];
};

/* staging_close - takes one that is zeroed, or has failed to open, too; the GPU may use the
 * slots no longer. */
int staging_open(struct staging *s, const struct driver *d, int priority, struct err *e);
void staging_close(struct staging *s);

/* staging_is_idle - has all that was begun run? */
bool staging_is_idle(struct staging *s);

/* staging_move - goes on with @c, beside all that is queued on any stream: 1 when it is done,
 * 0: call again, negative on failure.  It waits for nothing.
 *
 * staging_drop - begins no more of @c: true when the GPU does not touch the caller's memory any
 * more.  Who does not wait for that may forget @c.  Threads: any. */
int staging_move(struct staging *s, void *to, const void *from, size_t bytes,
		 struct staging_copy *c, struct err *e);
bool staging_drop(struct staging *s, const struct staging_copy *c);

#endif
