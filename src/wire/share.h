/* share.h - an allocator of memory that other ranks of the host can map. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SHARE_H
#define WIRE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/*
 * Each process has one arena: a memfd as large as the machine's memory, mapped
 * once and empty until something is allocated.  So a place in it is one offset,
 * which stays valid in the mappings of other processes, and they need to know only
 * where the descriptor is: /proc/PID/fd, which the kernel opens to processes of the
 * same user.  Where it does not, nothing is shared, and collectives copy as they do
 * with other memory.
 *
 * The arena stays mapped until the process ends, other processes' arenas only as long as they
 * are in use here: a mapping keeps the memory of a process that has ended.  A child of fork()
 * sees the same memory, not a copy.
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

/* share_find - does the arena hold all @bytes at @p?  If so, *@offset.  Threads: any. */
bool share_find(const void *p, size_t bytes, uint64_t *offset);

/* share_self - the arena of this process; false if it has none yet.  Threads: any. */
bool share_self(struct share_arena *a);

/*
 * share_map   - map another process's arena, at once if it is mapped already; NULL on
 *               failure.
 * share_unmap - give back one share_map(); the last call for an arena unmaps it.  NULL and
 *               this process's own arena are left alone.
 *
 * Threads: any.
 */
unsigned char *share_map(const struct share_arena *a);
void share_unmap(unsigned char *base);

#endif
