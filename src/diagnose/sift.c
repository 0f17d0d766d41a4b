/* sift.c - read a log in one pass and turn known messages into evidence. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/sift.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "diagnose/bare.h"
#include "diagnose/match.h"
#include "diagnose/read.h"
#include "diagnose/unknown.h"
#include "ringup.h"

enum {
	BEHIND = 1024, /* of a line, before a match in it */
	AHEAD = 4096,  /* of a message, after its beginning */
	BLOCK = 256 << 10,
	SHOWN = 80,     /* of a long line, before a match in it */
	ALLOWANCE = 4,  /* bytes read again for each byte of the log, */
	SAVED = 1 << 20 /* and the allowance at the start */
};

/* The current place in a log. */
struct place {
	struct sieve *sieve;
	int file;
	size_t len;      /* bytes in the block */
	size_t counted;  /* of these, lines are counted up to here */
	uint64_t before; /* bytes of the log before the block */
	long line;
	int64_t allowed;
};

int sift_open(struct sieve *s, struct err *e)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rc = match_open(&s->matcher, e);
	if (!rc)
		rc = evidence_open(&s->evidence, e);
	if (!rc)
		rc = unknown_open(&s->unknown, e);
	s->block = rc ? NULL : malloc(BEHIND + BLOCK + AHEAD);
	if (!rc && !s->block)
		rc = fail(e, RINGUP_ENOMEM, "no memory to read logs");
	return rc;
}

void sift_close(struct sieve *s)
{
	match_close(s->matcher);
	evidence_close(&s->evidence);
	unknown_close(s->unknown);
	free(s->block);
	memset(s, 0, sizeof(*s));
}

static void count_to(struct place *at, size_t to)
{
	const char *block = at->sieve->block;

	if (to <= at->counted)
		return;
	at->line += read_lines(block + at->counted, block + to);
	at->counted = to;
}

/* Finds the line around @at, or the part of it within reach. */
static void find_line(const struct place *p, size_t at, const char **start, const char **stop)
{
	const char *block = p->sieve->block;
	size_t back = at < BEHIND ? at : BEHIND;
	const char *nl = memrchr(block + at - back, '\n', back);
	size_t room = p->len - at < EVIDENCE_PROOF ? p->len - at : EVIDENCE_PROOF;

	*start = nl ? nl + 1 : block + at - back;
	nl = memchr(block + at, '\n', room);
	*stop = nl ? nl : block + at + room;
}

/* The start of the displayed part: after the text that a terminal has overwritten, and in a
 * long line a little before the match. */
static const char *find_shown(const char *start, const char *at, const char *stop)
{
	const char *cr = memrchr(start, '\r', (size_t)(at - start));

	if (cr)
		start = cr + 1;
	return stop - start > EVIDENCE_PROOF && at - start > SHOWN ? at - SHOWN : start;
}

static int on_found(void *ctx, const struct signature *s, const char *rest, size_t at)
{
	struct place *p = ctx;
	const char *block = p->sieve->block, *end = block + p->len, *start, *stop;
	struct sighting seen = { .file = p->file, .at = p->before + at };
	size_t looked = 0;
	const char *behind;
	bool fits;

	if (p->allowed < 0) {
		p->sieve->unseen++;
		return 0;
	}
	if (end - (block + at) > AHEAD)
		end = block + at + AHEAD;
	behind = fields_literal(&rest, block + at, end, &looked);
	if (!behind) {
		p->allowed -= (int64_t)looked;
		return 0;
	}
	at = (size_t)(behind - block);
	seen.at = p->before + at;
	fields_init(&seen.fields);
	fits = fields_match(rest, block + at, end, &seen.fields, &looked);
	if (fits && s->flags & (SIGNATURE_BARE | SIGNATURE_SHELL)) {
		find_line(p, at, &start, &stop);
		looked += (size_t)(stop - start);
		fits = bare_fits(s, start, stop, *rest == '\n' ? block + at : NULL);
	}
	if (fits && s->flags & SIGNATURE_BOX)
		fields_box(block + at, end, &seen.fields, &looked);
	if (fits) {
		find_line(p, at, &start, &stop);
		origin_read(&seen.origin, start, (size_t)(stop - start));
		looked += (size_t)(stop - start);
		seen.text = start = find_shown(start, block + at, stop);
		seen.len = (size_t)(stop - start);
		count_to(p, at);
		seen.line = p->line;
		evidence_add(&p->sieve->evidence, s, &seen);
		unknown_cover(p->sieve->unknown, p->before + at - 1, s->kind);
	}
	p->allowed -= (int64_t)looked;
	return fits;
}

/* Scans up to @to, then keeps the bytes that may still be read. */
static void advance(struct place *p, size_t *from, size_t to, bool is_last)
{
	size_t keep = to < BEHIND ? to : BEHIND;
	char *block = p->sieve->block;
	struct piece piece = { block, *from, to, p->len, p->before };

	p->allowed += ALLOWANCE * (int64_t)(to - *from);
	if (p->allowed > SAVED + ALLOWANCE * BLOCK)
		p->allowed = SAVED + ALLOWANCE * BLOCK;
	unknown_read(p->sieve->unknown, &piece);
	match_scan(p->sieve->matcher, block, *from, to, on_found, p);
	unknown_settle(p->sieve->unknown, is_last ? UINT64_MAX : p->before + to,
		       &p->sieve->evidence);
	count_to(p, to);
	memmove(block, block + to - keep, p->len - (to - keep));
	p->before += to - keep;
	p->len -= to - keep;
	p->counted = *from = keep;
}

int sift_log(struct sieve *s, struct reader *r, int file, struct err *e)
{
	struct place p = { .sieve = s, .file = file, .line = 1, .allowed = SAVED };
	size_t from = 0;
	ssize_t n;

	match_reset(s->matcher);
	unknown_begin(s->unknown, file);
	do {
		n = read_some(r, s->block + p.len, BEHIND + BLOCK + AHEAD - p.len, e);
		if (n < 0)
			return (int)n;
		p.len += (size_t)n;
		s->bytes += (uint64_t)n;
		if (!n)
			advance(&p, &from, p.len, true);
		else if (p.len == BEHIND + BLOCK + AHEAD)
			advance(&p, &from, p.len - AHEAD, false);
	} while (n);
	s->lines += p.line - 1;
	return read_end(r, e);
}
