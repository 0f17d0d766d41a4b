/* match.c - find possible signature matches in one pass over any bytes (Aho-Corasick). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/match.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "diagnose/signature.h"
#include "ringup.h"

enum {
	GRAM = 4,
	GRAM_BITS = 15,
	ANCHOR_BITS = 16,
	UNROLL = 8,
	FIRST = 0x0f,
	ALONE = 0x100,
	STRIDE = 16 /* bytes that it reads at least where it was left too early */
};

#define HIT 0x80000000u

/* A text's beginning ends in this state. */
struct ending {
	const struct signature *signature;
	const char *rest;
	size_t len; /* of the literal beginning */
	int next;   /* further endings of the state, or -1 */
};

struct matcher {
	unsigned char kind[256]; /* the column of a byte; 0: in no beginning */
	int kinds;
	int states;
	uint32_t shallow; /* the first row of a state of GRAM bytes */
	uint32_t *go; /* [state * kinds + kind]: the next state's row, HIT if texts end there */
	int *first;   /* of a state's own endings, or -1 */
	int *shorter; /* the state of the longest beginning that ends this one, or -1 */
	struct ending *endings;
	int nendings;
	uint32_t row; /* the automaton's current row */
	/* By hash of four bytes, bits 0 to 3: they may stand so far from the start of a text;
	 * bits 4 to 7: so far and four more; ALONE: the text is too short for a second test, or
	 * has a blank there. */
	uint16_t gram[1 << GRAM_BITS];
	/* A bit for each hash of the first SIGNATURE_ANCHOR bytes of a text. */
	uint64_t anchor[1 << (ANCHOR_BITS - 6)];
};

static uint32_t gram_at(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v * 0x9e3779b1u >> (32 - GRAM_BITS);
}

/* Hashes the first bytes from @p on; one byte more must be readable. */
static uint64_t anchor_at(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
		v <<= 8 * (sizeof(v) - SIGNATURE_ANCHOR);
	else
		v >>= 8 * (sizeof(v) - SIGNATURE_ANCHOR);
	return v * 0x9e3779b97f4a7c15u >> (64 - ANCHOR_BITS);
}

/* ---- building ---- */

/* The length of the literal beginning of @text. */
static size_t literal(const char *text)
{
	return strcspn(text, "{\n");
}

/* The length of the beginning in the automaton: few states stay in the cache. */
static size_t beginning(const char *text)
{
	size_t n = literal(text);

	return n < MATCH_DEEP ? n : MATCH_DEEP;
}

static void number_kinds(struct matcher *m)
{
	static const char blanks[] = " \t\n\r\v\f";
	const char *p;
	size_t n, i;

	m->kinds = 1;
	for (int s = 0; s < signature_count; s++)
		for (p = signatures[s].texts; *p; p = strchr(p, '\n') + 1)
			for (i = 0, n = beginning(p); i < n; i++)
				if (!m->kind[(unsigned char)p[i]])
					m->kind[(unsigned char)p[i]] =
						(unsigned char)m->kinds++;
	for (i = 0; i < sizeof(blanks) - 1; i++)
		m->kind[(unsigned char)blanks[i]] = m->kind[' '];
}

/* Allocates the largest possible number of states and endings. */
static int matcher_make_room(struct matcher *m, struct err *e)
{
	size_t states = 1, texts = 0;
	const char *p;

	for (int s = 0; s < signature_count; s++)
		for (p = signatures[s].texts; *p; p = strchr(p, '\n') + 1) {
			states += beginning(p);
			texts++;
		}
	m->go = calloc(states * (size_t)m->kinds, sizeof(*m->go));
	m->first = malloc(states * sizeof(*m->first));
	m->shorter = malloc(states * sizeof(*m->shorter));
	m->endings = malloc(texts * sizeof(*m->endings));
	if (!m->go || !m->first || !m->shorter || !m->endings)
		return fail(e, RINGUP_ENOMEM, "no memory for the signatures");
	memset(m->first, -1, states * sizeof(*m->first));
	memset(m->shorter, -1, states * sizeof(*m->shorter));
	m->states = 1;
	return 0;
}

/* Endings with the shortest literal come first; of equals, in the table's order. */
static void add_ending(struct matcher *m, int state, const struct signature *s,
		       const char *text)
{
	int *at = &m->first[state];
	size_t len = literal(text);

	while (*at >= 0 && m->endings[*at].len <= len)
		at = &m->endings[*at].next;
	m->endings[m->nendings] = (struct ending){ s, text + beginning(text), len, *at };
	*at = m->nendings++;
}

static void add_grams(struct matcher *m, const char *text)
{
	size_t n = literal(text), i, from;
	uint64_t hash = anchor_at(text);

	m->anchor[hash >> 6] |= (uint64_t)1 << (hash & 63);
	for (i = 0; i < GRAM; i++) {
		/* Up to there a blank is one blank. */
		from = i + GRAM > SIGNATURE_ANCHOR ? i + GRAM : SIGNATURE_ANCHOR;
		bool is_long =
			n >= i + 2 * GRAM && !memchr(text + from, ' ', i + 2 * GRAM - from);

		m->gram[gram_at(text + i)] |= (uint16_t)(is_long ? 1 << i : ALONE);
		if (is_long)
			m->gram[gram_at(text + i + GRAM)] |= (uint16_t)(1 << i << GRAM);
	}
}

/* Adds the state of the first @depth bytes; the state of one byte less exists. */
static void add_text(struct matcher *m, const struct signature *s, const char *text,
		     size_t depth)
{
	size_t n = beginning(text), i;
	uint32_t *next = NULL;
	int state = 0;

	if (depth > n)
		return;
	for (i = 0; i < depth; i++) {
		next = &m->go[(size_t)state * (size_t)m->kinds +
			      m->kind[(unsigned char)text[i]]];
		if (!*next)
			*next = (uint32_t)m->states++;
		state = (int)*next;
	}
	if (depth == n) {
		add_ending(m, state, s, text);
		add_grams(m, text);
	}
}

/* By length, so that states of few bytes come first. */
static void add_texts(struct matcher *m)
{
	const char *p;

	for (size_t depth = 1; depth <= MATCH_DEEP; depth++) {
		if (depth == GRAM)
			m->shallow = (uint32_t)(m->states * m->kinds);
		for (int s = 0; s < signature_count; s++)
			for (p = signatures[s].texts; *p; p = strchr(p, '\n') + 1)
				add_text(m, &signatures[s], p, depth);
	}
}

/*
 * Completes the tree: a missing transition goes where the longest proper suffix that begins a
 * text goes.  States are in the order of their lengths, so that state is complete already.
 * After a blank, further blanks change nothing.
 */
static int complete(struct matcher *m, struct err *e)
{
	size_t kinds = (size_t)m->kinds, k;
	int *fall = calloc((size_t)m->states, sizeof(*fall));
	int t;

	if (!fall)
		return fail(e, RINGUP_ENOMEM, "no memory for the signatures");
	for (int s = 0; s < m->states; s++)
		for (k = 0; k < kinds; k++) {
			uint32_t *next = &m->go[(size_t)s * kinds + k];
			uint32_t other = s ? m->go[(size_t)fall[s] * kinds + k] : 0;

			t = (int)*next;
			if (!t || t == s) {
				*next = t == s && s ? (uint32_t)s : other;
				continue;
			}
			fall[t] = (int)other;
			m->shorter[t] = m->first[other] >= 0 ? (int)other : m->shorter[other];
			if (k == m->kind[' '] && !m->go[(size_t)t * kinds + k])
				m->go[(size_t)t * kinds + k] = (uint32_t)t;
		}
	free(fall);
	return 0;
}

/* Replaces state numbers by rows, so that scanning needs no multiplication. */
static void number_rows(struct matcher *m)
{
	size_t i, n = (size_t)m->states * (size_t)m->kinds;

	for (i = 0; i < n; i++) {
		uint32_t state = m->go[i];
		bool hit = m->first[state] >= 0 || m->shorter[state] >= 0;

		m->go[i] = state * (uint32_t)m->kinds | (hit ? HIT : 0);
	}
}

int match_open(struct matcher **mp, struct err *e)
{
	struct matcher *m = calloc(1, sizeof(*m));
	int rc;

	*mp = m;
	if (!m)
		return fail(e, RINGUP_ENOMEM, "no memory for the signatures");
	number_kinds(m);
	rc = matcher_make_room(m, e);
	if (rc)
		return rc;
	add_texts(m);
	rc = complete(m, e);
	if (!rc)
		number_rows(m);
	return rc;
}

void match_close(struct matcher *m)
{
	if (!m)
		return;
	free(m->go);
	free(m->first);
	free(m->shorter);
	free(m->endings);
	free(m);
}

void match_reset(struct matcher *m)
{
	m->row = 0;
}

/* ---- scanning ---- */

static void matcher_tell(struct matcher *m, uint32_t row, size_t at, match_found *found,
			 void *ctx)
{
	int state = (int)(row / (uint32_t)m->kinds), i;
	size_t fit = 0;

	for (; state >= 0; state = m->shorter[state], fit = 0)
		for (i = m->first[state]; i >= 0; i = m->endings[i].next)
			if (m->endings[i].len != fit &&
			    found(ctx, m->endings[i].signature, m->endings[i].rest, at))
				fit = m->endings[i].len;
}

/* May a text begin at most three bytes before the place of @here? */
static unsigned match_is_known(unsigned here, unsigned next)
{
	return (here & next >> GRAM & FIRST) | (here & ALONE);
}

/* Does a text begin there indeed, not before @from? */
static bool is_anchored(const struct matcher *m, const char *data, size_t from, size_t p)
{
	uint64_t hash;

	for (size_t i = 0; i < GRAM && p - from >= i; i++) {
		hash = anchor_at(data + p - i);
		if (m->anchor[hash >> 6] >> (hash & 63) & 1)
			return true;
	}
	return false;
}

/* The first place from @p on where a text may begin, or where too few bytes are left. */
static size_t matcher_look(const struct matcher *m, const char *data, size_t from, size_t p,
			   size_t to)
{
	enum { STEP = GRAM * UNROLL };
	unsigned known, here, next;

	while (p + 2 * GRAM <= to) {
		for (; p + STEP + GRAM <= to; p += STEP) {
			known = 0;
			here = m->gram[gram_at(data + p)];
			for (int i = 1; i <= UNROLL; i++, here = next) {
				next = m->gram[gram_at(data + p + i * GRAM)];
				known |= match_is_known(here, next);
			}
			if (known)
				break;
		}
		for (int i = 0; i < UNROLL && p + 2 * GRAM <= to; i++, p += GRAM)
			if (match_is_known(m->gram[gram_at(data + p)],
					   m->gram[gram_at(data + p + GRAM)]) &&
			    is_anchored(m, data, from, p))
				return p;
	}
	return p;
}

/* Of a run of blanks only the last one ends a beginning. */
static bool stays(const struct matcher *m, uint32_t row, char next)
{
	return m->go[row + m->kind[(unsigned char)next]] == (row | HIT);
}

/* Feeds the automaton, up to @least at least and until its state is shallow. */
static size_t read_on(struct matcher *m, const char *data, size_t p, size_t least, size_t to,
		      match_found *found, void *ctx)
{
	const uint32_t *go = m->go, shallow = m->shallow;
	uint32_t row = m->row;

	do {
		row = go[row + m->kind[(unsigned char)data[p++]]];
		if (row & HIT) {
			row &= ~HIT;
			if (p == to || !stays(m, row, data[p]))
				matcher_tell(m, row, p, found, ctx);
		}
	} while (p < to && (row >= shallow || p <= least));
	m->row = row;
	return p;
}

void match_scan(struct matcher *m, const char *data, size_t from, size_t to, match_found *found,
		void *ctx)
{
	size_t p = from, least = from + STRIDE;

	while (p < to) {
		/* In such a state, any beginning started at most three bytes ago. */
		if (!m->row || p > least) {
			least = matcher_look(m, data, from, m->row ? p - (GRAM - 1) : p, to);
			if (least >= p + (GRAM - 1)) {
				p = least - (GRAM - 1);
				m->row = 0;
			} else {
				least = p + STRIDE;
			}
		}
		p = read_on(m, data, p, least, to, found, ctx);
	}
}
