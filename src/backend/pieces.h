/* pieces.h - the tensors of a plan as one long vector. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_PIECES_H
#define BACKEND_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

/* A place in the concatenation; zero is its beginning. */
struct pieces_at {
	int piece;
	uint64_t at; /* elements into the piece */
};

/* pieces_skip - moves @c on by @count elements. */
void pieces_skip(const struct plan *p, struct pieces_at *c, uint64_t count);

/* pieces_run - how many of the next @want elements (at least 1) lie in one piece; moves @c
 * past pieces that have ended. */
uint64_t pieces_run(const struct plan *p, struct pieces_at *c, uint64_t want);

/* pieces_put - the next @count elements to @dst, times the plan's pre; moves @c on.  By
 * copy_over(), since another rank reads them there. */
void pieces_put(const struct plan *p, struct pieces_at *c, void *dst, uint64_t count);

/* pieces_take - @count elements from @src to their pieces; moves @c on.  @streaming: by
 * streaming stores, except in place, where the lines have just been read. */
void pieces_take(const struct plan *p, struct pieces_at *c, const void *src, uint64_t count,
		 bool streaming);

/* pieces_are_streamed - does pieces_take() use streaming stores for @piece? */
static inline bool pieces_are_streamed(const struct plan *p, int piece, bool streaming)
{
	return streaming && p->piece[piece].in != p->piece[piece].out;
}

#endif
