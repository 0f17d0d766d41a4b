/* self_block.h - the block that a rank sends to itself: copied from one buffer to another. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_SELF_BLOCK_H
#define BACKEND_SELF_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/copy.h"

/* Copied bit by bit, between parts of blocks for other ranks. */
struct self_block {
	unsigned char *out;
	const unsigned char *in;
	size_t left;
};

/* self_block_of - @size bytes; none in place. */
static inline struct self_block self_block_of(unsigned char *out, const unsigned char *in,
					      size_t size)
{
	return (struct self_block){ out, in, out == in ? 0 : size };
}

/* self_block_copy - at most @most bytes more; @streaming: by streaming stores. */
static inline void self_block_copy(struct self_block *s, size_t most, bool streaming)
{
	size_t size = s->left < most ? s->left : most;

	if (!size)
		return;
	(streaming ? copy_streaming : copy_over)(s->out, s->in, size);
	s->out += size;
	s->in += size;
	s->left -= size;
}

#endif
