/* test_match.c - every beginning is found, however the log is cut, and nothing else. */
#include "diagnose/match.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/signature.h"
#include "tap.h"

enum { ROOM = 1 << 16, SEEN = 4096 };

static struct matcher *m;

/* What was found: pairs of the rest of the text and where. */
struct seen {
	const char *rest[SEEN];
	size_t at[SEEN];
	int n;
};

/* What the automaton knows of a text. */
static size_t beginning(const char *text)
{
	size_t n = strcspn(text, "{\n");

	return n < MATCH_DEEP ? n : MATCH_DEEP;
}

static int note(void *ctx, const struct signature *s, const char *rest, size_t at)
{
	struct seen *seen = ctx;

	(void)s;
	if (seen->n < SEEN) {
		seen->rest[seen->n] = rest;
		seen->at[seen->n++] = at;
	}
	return 0;
}

static bool has(const struct seen *seen, const char *rest, size_t at)
{
	int i;

	for (i = 0; i < seen->n; i++)
		if (seen->rest[i] == rest && seen->at[i] == at)
			return true;
	return false;
}

/* Each beginning at each of eight places, behind letters that could belong to it. */
static void find_each(void)
{
	char data[512];
	struct seen seen;
	const char *p;
	size_t n, before;
	int s, missed = 0, texts = 0;

	for (s = 0; s < signature_count; s++)
		for (p = signatures[s].texts; *p; p = strchr(p, '\n') + 1)
			for (before = 0; before < 8; before++) {
				n = beginning(p);
				memset(data, 'c', sizeof(data));
				memcpy(data + before, p, n);
				seen.n = 0;
				match_reset(m);
				match_scan(m, data, 0, sizeof(data), note, &seen);
				missed += !has(&seen, p + n, before + n);
				texts++;
			}
	ok(!missed, "%d beginnings are found (%d missed)", texts, missed);
}

/* The slow and simple way. */
static size_t fits(const char *p, const char *end, const char *text, size_t len)
{
	const char *start = p;
	size_t i;

	for (i = 0; i < len; i++) {
		if (p == end ||
		    (text[i] == ' ' ? !strchr(" \t\n\r\v\f", *p) || !*p : text[i] != *p))
			return 0;
		for (p++; text[i] == ' ' && p < end && *p && strchr(" \t\n\r\v\f", *p);)
			p++;
	}
	return (size_t)(p - start);
}

static int count_slowly(const char *data, size_t len, const struct seen *seen, int *missed)
{
	const char *p;
	size_t i, n, took;
	int s, count = 0;

	for (s = 0; s < signature_count; s++)
		for (p = signatures[s].texts; *p; p = strchr(p, '\n') + 1)
			for (i = 0, n = beginning(p); i < len; i++) {
				took = fits(data + i, data + len, p, n);
				if (!took)
					continue;
				count++;
				*missed += !has(seen, p + n, i + took);
			}
	return count;
}

/* Pieces of the texts, whole ones among them, with blanks stretched. */
static size_t mix(char *data, unsigned seed)
{
	size_t len = 0, n, i;
	const char *p;

	srand(seed);
	while (len < ROOM / 8) {
		const struct signature *s = &signatures[rand() % signature_count];

		p = s->texts;
		n = beginning(p);
		if (rand() % 2)
			n = (size_t)rand() % n;
		for (i = 0; i < n; i++) {
			data[len++] = p[i];
			while (i >= SIGNATURE_ANCHOR && p[i] == ' ' && i + 1 < n &&
			       rand() % 3 == 0)
				data[len++] = " \n\t"[rand() % 3];
		}
		if (rand() % 3 == 0)
			data[len++] = (char)rand();
	}
	return len;
}

/* Who writes nothing but blanks behind a beginning does not make us look at each. */
static void tell_once(void)
{
	static char data[ROOM];
	static struct seen seen;
	const char *text = signatures[0].texts;
	size_t n = beginning(text), at = 0;
	int s;

	for (s = 0; s < signature_count && (!n || text[n - 1] != ' '); s++) {
		text = signatures[s].texts;
		n = beginning(text);
	}
	memset(data, ' ', sizeof(data));
	memcpy(data, text, n);
	data[ROOM - 1] = 'x';
	seen.n = 0;
	match_reset(m);
	match_scan(m, data, 0, ROOM, note, &seen);
	for (s = 0; s < seen.n; s++)
		at += seen.rest[s] == text + n;
	ok(s < signature_count && at == 1, "a run of %d blanks is told once", ROOM);
}

static void compare_with_slow(void)
{
	static char data[ROOM];
	static struct seen whole, cut;
	size_t len, at, to;
	unsigned seed;
	int missed, count;

	for (seed = 1; seed <= 8; seed++) {
		len = mix(data, seed);
		missed = whole.n = cut.n = 0;
		match_reset(m);
		match_scan(m, data, 0, len, note, &whole);
		count = count_slowly(data, len, &whole, &missed);
		ok(!missed && count > 50 && whole.n == count,
		   "mixture %u: %d of %d found, %d told", seed, count - missed, count, whole.n);
		match_reset(m);
		for (at = 0; at < len; at = to) {
			to = at + 1 + (size_t)(rand() % 13);
			match_scan(m, data, at, to < len ? to : len, note, &cut);
		}
		/* In a run of blanks each cut tells once more. */
		for (at = 0, missed = 0; at < (size_t)whole.n; at++)
			missed += !has(&cut, whole.rest[at], whole.at[at]);
		ok(!missed && cut.n >= whole.n, "mixture %u: the same in pieces", seed);
	}
}

int main(void)
{
	ok(!match_open(&m, NULL), "the table becomes an automaton");
	find_each();
	tell_once();
	compare_with_slow();
	match_close(m);
	match_close(NULL);
	return tap_done();
}
