/* match.h - find where signatures may be, in one pass over any bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_MATCH_H
#define DIAGNOSE_MATCH_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct signature;

/*
 * The literal beginnings of all texts are one automaton (Aho and Corasick, 1975), in
 * which a blank stands for any run of blanks and line breaks.  While it is at its start,
 * which is nearly always, every fourth place is looked at, four bytes at once and then the
 * next four: whatever begins has some of its first bytes at such a place.  No byte goes through
 * the automaton twice, so what an adversary can reach is the automaton's own speed.
 *
 * A beginning is MATCH_DEEP bytes at most, which keeps the automaton in the processor's
 * cache and its building short.
 */
enum { MATCH_DEEP = 12 };
struct matcher;

/* match_open - all of signatures[]; *@mp is the caller's until match_close(). */
int match_open(struct matcher **mp, struct err *e);
void match_close(struct matcher *m);

/* match_reset - another log begins. */
void match_reset(struct matcher *m);

/*
 * match_scan - the next bytes: @data[from..to).
 *
 * @found is told of each beginning that ends there: the signature, the rest of the text
 * as in the table, and the position after it.  Several at one position come in the
 * order of their texts' literal lengths, then in the table's; a @found that returns nonzero is
 * spared those of the same length.  After a
 * run of blanks it is told once, and where @data ends within the run.
 */
typedef int match_found(void *ctx, const struct signature *s, const char *rest, size_t at);
void match_scan(struct matcher *m, const char *data, size_t from, size_t to, match_found *found,
		void *ctx);

#endif
