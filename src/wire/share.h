/* share.h - memory of this process that other ranks of the host can map. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SHARE_H
#define WIRE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/*
 * Each process has one arena: a memfd as large as the machine's memory, mapped
 * once and empty until something is allocated.  So a place in it is one number,
 * whatever has been allocated since somebody else mapped it, and there is nothing
 * to tell the others but where to find the descriptor: /proc/PID/fd, which the
 * kernel opens to processes of the same user.  Where it does not, nothing is
 * shared, and collectives copy as they do with other memory.
 *
 * The arena stays until the process ends, but others only as long as they are in use here: a
 * mapping keeps the memory of a process that has ended.  A child of fork() sees the same
 * memory, not a copy of it.
 */
struct share_arena {
	int32_t pid, fd;
	uint64_t inode, bytes;
};

/*
 * share_alloc - @bytes of zeroes that others can map, aligned to 64; NULL and *@e.
 *               As with malloc(), pages come when they are first touched.
 * share_free  - give it back; false if @p is not from share_alloc().
 *
 * Threads: any.
 */
void *share_alloc(size_t bytes, struct err *e);
bool share_free(void *p);

/* share_find - does the arena hold all @bytes at @p?  Then where.  Threads: any. */
bool share_find(const void *p, size_t bytes, uint64_t *offset);

/* share_self - the arena of this process; false if it has none yet.  Threads: any. */
bool share_self(struct share_arena *a);

/*
 * share_map   - another process's arena, here; at once if it has been mapped before.
 *               NULL if it cannot be had.
 * share_unmap - what share_map() has returned is in use no longer; after as many calls as of
 *               share_map() it is gone.  NULL and this process's own arena are left alone.
 *
 * Threads: any.
 */
unsigned char *share_map(const struct share_arena *a);
void share_unmap(unsigned char *base);

#endif
