/* pair.h - data movement between two ranks of a host with CMA, from buffer to buffer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_PAIR_H
#define BACKEND_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct plan;
struct topo;

/* The other rank's process, and where its buffers lie there. */
struct pair_other {
	int32_t pid;
	uint64_t in, out;
	uint64_t *claimed; /* pieces of a broadcast that the two have claimed; shared      */
};

/* pair_bytes - the bytes that both ranks get, if @p only moves data; else 0. */
uint64_t pair_bytes(const struct plan *p, size_t element_bytes);

/* pair_pays - does @p only move data, and enough of it?  The same on both ranks. */
bool pair_pays(const struct plan *p, size_t element_bytes);

/* pair_can - can the kernel copy from or to @rank's buffer of @p?  See cma_mine(). */
bool pair_can(const struct plan *p, size_t element_bytes, int rank);

/*
 * pair_move - this rank's half of @p: writes its data into the other's buffers, and reads its
 * share of a broadcast's pieces; @streaming: streaming stores for the rank's own block.
 *
 * The other rank accesses the buffers of @p until both are done.
 * Returns 1, or 0 if the job was aborted or the other process has ended: then the alarm
 * tells.  Negative if the kernel does not copy.
 */
int pair_move(const struct plan *p, const struct topo *t, const struct pair_other *other,
	      bool streaming, struct err *e);

#endif
