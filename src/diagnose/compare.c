/* compare.c - find lines of a log whose form never occurs in the log of a good run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/compare.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "diagnose/fields.h"
#include "diagnose/read.h"
#include "ringup.h"

enum { BLOCK = 64 << 10, LEAST = 1 << 12, MOST = 1 << 22 };

struct compare_shape {
	uint64_t hash; /* 0: free */
	int place;     /* 1 + the place in first[], of a new one that is kept */
};

/* What reads the lines: learning or looking. */
struct pass {
	struct compare *c;
	int file; /* < 0: learning */
	long line;
	struct err *e;
};

/* Hashes the letters beyond those of hexadecimal numbers; 0 if there are none. */
static uint64_t shape_of(const char *p, const char *end)
{
	uint64_t h = 0xcbf29ce484222325u;
	bool any = false;

	for (; p < end; p++)
		if ((*p | 0x20) > 'f' && (*p | 0x20) <= 'z') {
			h = (h ^ (unsigned char)*p) * 0x100000001b3u;
			any = true;
		}
	return any ? h | 1 : 0;
}

static struct compare_shape *compare_place(struct compare_shape *shape, size_t room,
					   uint64_t hash)
{
	size_t i = (size_t)(hash ^ hash >> 32) & (room - 1);

	while (shape[i].hash && shape[i].hash != hash)
		i = (i + 1) & (room - 1);
	return &shape[i];
}

static int compare_grow(struct compare *c, struct err *e)
{
	size_t room = c->room ? 2 * c->room : LEAST;
	struct compare_shape *shape = calloc(room, sizeof(*shape));

	if (!shape)
		return fail(e, RINGUP_ENOMEM, "no memory to compare logs");
	for (size_t i = 0; i < c->room; i++)
		if (c->shape[i].hash)
			*compare_place(shape, room, c->shape[i].hash) = c->shape[i];
	free(c->shape);
	c->shape = shape;
	c->room = room;
	return 0;
}

static void show(struct pass *p, struct compare_shape *s, const char *line, const char *end)
{
	struct compare_line *l;

	p->c->shapes++;
	if (p->c->shown == COMPARE_SHOWN)
		return;
	l = &p->c->first[p->c->shown++];
	s->place = p->c->shown;
	l->file = p->file;
	l->line = p->line;
	l->count = 1;
	fields_show(l->text, sizeof(l->text), line, (size_t)(end - line));
}

static int take(struct pass *p, const char *line, const char *end)
{
	uint64_t hash = shape_of(line, end);
	struct compare *c = p->c;
	struct compare_shape *s;

	if (2 * c->used >= c->room && c->room < MOST && compare_grow(c, p->e))
		return p->e->code;
	s = hash ? compare_place(c->shape, c->room, hash) : NULL;
	if (s && s->hash) {
		if (s->place && p->file >= 0)
			c->first[s->place - 1].count++;
	} else if (s && 4 * c->used < 3 * c->room) {
		s->hash = hash;
		c->used++;
		if (p->file >= 0)
			show(p, s, line, end);
	}
	return 0;
}

/* Calls take() for each line; of lines longer than a block, for each block of it. */
static int each_line(struct pass *p, struct reader *r)
{
	char *block = malloc(BLOCK);
	size_t len = 0, from;
	const char *nl;
	ssize_t n = 1;
	int rc = block ? 0 : fail(p->e, RINGUP_ENOMEM, "no memory to compare logs");

	for (p->line = 1; !rc && n > 0;) {
		n = read_some(r, block + len, BLOCK - len, p->e);
		rc = n < 0 ? (int)n : 0;
		len += n > 0 ? (size_t)n : 0;
		for (from = 0; !rc && (nl = memchr(block + from, '\n', len - from));
		     from = (size_t)(nl + 1 - block), p->line++)
			rc = take(p, block + from, nl);
		if (!rc && from < len && (!n || len - from == BLOCK)) {
			rc = take(p, block + from, block + len);
			from = len;
		}
		memmove(block, block + from, len - from);
		len -= from;
	}
	free(block);
	return rc ? rc : read_end(r, p->e);
}

int compare_learn(struct compare *c, struct reader *r, struct err *e)
{
	struct pass p = { .c = c, .file = -1, .e = e };
	int rc = c->room ? 0 : compare_grow(c, e);

	return rc ? rc : each_line(&p, r);
}

int compare_scan(struct compare *c, struct reader *r, int file, struct err *e)
{
	struct pass p = { .c = c, .file = file, .e = e };

	return each_line(&p, r);
}

void compare_free(struct compare *c)
{
	free(c->shape);
	memset(c, 0, sizeof(*c));
}
