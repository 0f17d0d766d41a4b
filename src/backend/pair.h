/* pair.h - what two ranks of a host move, from one's buffers into the other's. */
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
	uint64_t *claimed; /* pieces of a broadcast that either is at: one number for both */
};

/* pair_bytes - what both ranks get of @p, if that is only moved; else 0. */
uint64_t pair_bytes(const struct plan *p, size_t element_bytes);

/* pair_pays - is @p one of those that are only moved, and large enough?  Both ranks say the
 * same. */
bool pair_pays(const struct plan *p, size_t element_bytes);

/* pair_lends - may the other be sent to what @rank has of @p: can its kernel find it? */
bool pair_lends(const struct plan *p, size_t element_bytes, int rank);

/*
 * pair_move - this rank's half of @p: writes what the other wants into its buffers, and takes
 * what of a broadcast it does not write itself; @streaming: past the caches what stays here.
 *
 * Both ranks have lent their buffers, and get them back when both are through.
 * Returns 1, or 0 if the job was aborted or the other has ended: then somebody will say so.
 * Negative if the kernel does not copy.
 */
int pair_move(const struct plan *p, const struct topo *t, const struct pair_other *other,
	      bool streaming, struct err *e);

#endif
