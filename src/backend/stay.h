/* stay.h - what a rank keeps of what it sends: from one of its buffers to another. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_STAY_H
#define BACKEND_STAY_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/copy.h"

/* Copied bit by bit, beside what is sent; nobody has read @out. */
struct stay {
	unsigned char *out;
	const unsigned char *in;
	size_t left;
};

/* stay_of - @size bytes; none if they are there. */
static inline struct stay stay_of(unsigned char *out, const unsigned char *in, size_t size)
{
	return (struct stay){ out, in, out == in ? 0 : size };
}

/* stay_copy - @most bytes more, if so many are left; @past: past the caches. */
static inline void stay_copy(struct stay *s, size_t most, bool past)
{
	size_t size = s->left < most ? s->left : most;

	if (!size)
		return;
	(past ? copy_past : copy_over)(s->out, s->in, size);
	s->out += size;
	s->in += size;
	s->left -= size;
}

#endif
