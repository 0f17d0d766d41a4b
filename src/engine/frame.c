/* frame.c - write numbers and bytes to frames, and read them with checks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/frame.h"

#include <string.h>

void frame_begin(struct frame_out *o, enum frame kind)
{
	o->data[0] = (unsigned char)kind;
	o->len = 1;
}

void frame_put(struct frame_out *o, uint64_t v, int bytes)
{
	while (bytes--) {
		o->data[o->len++] = (unsigned char)v;
		v >>= 8;
	}
}

void frame_add(struct frame_out *o, const void *data, size_t len)
{
	memcpy(o->data + o->len, data, len);
	o->len += len;
}

const unsigned char *frame_bytes(struct frame_in *f, size_t len)
{
	const unsigned char *p = f->at;

	if (f->bad || f->left < len) {
		f->bad = true;
		return NULL;
	}
	f->at += len;
	f->left -= len;
	return p;
}

uint64_t frame_get(struct frame_in *f, int bytes)
{
	const unsigned char *p = frame_bytes(f, (size_t)bytes);
	uint64_t v = 0;

	while (p && bytes--)
		v = v << 8 | p[bytes];
	return v;
}
