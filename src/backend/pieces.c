/* pieces.c - the tensors of a plan as one long vector. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/pieces.h"

#include "coll/copy.h"
#include "coll/reduce.h"

void pieces_skip(const struct plan *p, struct pieces_at *c, uint64_t count)
{
	while (c->piece < p->pieces) {
		uint64_t left = p->piece[c->piece].count - c->at;

		if (count < left) {
			c->at += count;
			return;
		}
		count -= left;
		c->piece++;
		c->at = 0;
	}
}

uint64_t pieces_run(const struct plan *p, struct pieces_at *c, uint64_t want)
{
	uint64_t left;

	while (p->piece[c->piece].count == c->at) {
		c->piece++;
		c->at = 0;
	}
	left = p->piece[c->piece].count - c->at;
	return left < want ? left : want;
}

void pieces_put(const struct plan *p, struct pieces_at *c, void *dst, uint64_t count)
{
	size_t bytes = reduce_dtype_bytes(p->dtype);
	unsigned char *to = dst;

	while (count) {
		uint64_t m = pieces_run(p, c, count);
		const unsigned char *from = p->piece[c->piece].in;

		from += c->at * bytes;
		if (p->pre != 1)
			copy_scaled(p->dtype, to, from, m, p->pre);
		else
			copy_over(to, from, m * bytes);
		to += m * bytes;
		pieces_skip(p, c, m);
		count -= m;
	}
}

void pieces_take(const struct plan *p, struct pieces_at *c, const void *src, uint64_t count,
		 bool streaming)
{
	size_t bytes = reduce_dtype_bytes(p->dtype);
	const unsigned char *from = src;

	while (count) {
		uint64_t m = pieces_run(p, c, count);
		bool here = pieces_are_streamed(p, c->piece, streaming);
		unsigned char *to = p->piece[c->piece].out;

		(here ? copy_streaming : copy_bytes)(to + c->at * bytes, from, m * bytes);
		from += m * bytes;
		pieces_skip(p, c, m);
		count -= m;
	}
}
