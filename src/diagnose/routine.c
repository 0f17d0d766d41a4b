/* routine.c - count the lines of a process that differ only in their numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/routine.h"

#include <stddef.h>
#include <string.h>

enum { LOOK = 160 };

uint64_t routine_shape(uint64_t process, const char *line, const char *end)
{
	uint64_t h = process | 1;

	if (end - line > LOOK)
		end = line + LOOK;
	/* Letters of hexadecimal numbers differ, too. */
	for (; line < end; line++)
		if ((*line | 0x20) > 'f' && (*line | 0x20) <= 'z')
			h = (h ^ (unsigned char)*line) * 0x100000001b3u;
	return h ? h : 1;
}

static struct routine_line *routine_slot(struct routine *r, uint64_t shape)
{
	for (uint64_t i = shape ^ shape >> 29;; i++) {
		struct routine_line *l = &r->line[i & (ROUTINE_SHAPES - 1)];

		if (l->shape == shape || !l->shape)
			return l;
	}
}

const struct routine_line *routine_find(const struct routine *r, uint64_t shape)
{
	const struct routine_line *l = routine_slot((struct routine *)r, shape);

	return l->shape ? l : NULL;
}

void routine_add(struct routine *r, uint64_t process, uint64_t shape, uint64_t at, bool is_calm)
{
	struct routine_line *l = routine_slot(r, shape);

	if (!l->shape) {
		if (r->n == ROUTINE_SHAPES / 2)
			return;
		r->n++;
		*l = (struct routine_line){
			.shape = shape, .process = process, .first = at, .is_calm = true
		};
	}
	l->count++;
	l->is_calm &= is_calm;
	l->first = at < l->first ? at : l->first;
	l->last = at > l->last ? at : l->last;
}

bool routine_resumed(const struct routine *r, uint64_t process, uint64_t at)
{
	for (int i = 0; i < ROUTINE_SHAPES; i++) {
		const struct routine_line *l = &r->line[i];

		if (l->shape && l->process == process && l->is_calm && l->first < at &&
		    l->last > at)
			return true;
	}
	return false;
}

bool routine_has_pair(const struct routine *r, const struct routine_line *l)
{
	for (int i = 0; i < ROUTINE_SHAPES; i++) {
		const struct routine_line *o = &r->line[i];

		if (o->shape && o->process == l->process && o->count == l->count - 1 &&
		    o->first > l->first && o->last < l->last)
			return true;
	}
	return false;
}

void routine_reset(struct routine *r)
{
	memset(r, 0, sizeof(*r));
}
