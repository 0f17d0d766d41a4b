/* match.h - find possible signature matches in one pass over any bytes (Aho-Corasick). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_MATCH_H
#define DIAGNOSE_MATCH_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct signature;

/*
 * The literal beginnings of all texts are one automaton (Aho and Corasick, 1975), in which a
 * blank stands for any run of blanks and line breaks.  While it is at its start, which is
 * nearly always, only every fourth place is tested, by its four bytes and the next four: any
 * beginning has some of its first bytes at such a place.  No byte goes through the automaton
 * twice, so the worst case of any input is the automaton's own speed.
 *
 * A beginning is MATCH_DEEP bytes at most, which keeps the automaton in the processor's cache
 * and its construction short.
 */
enum { MATCH_DEEP = 12 };
struct matcher;

/* match_open - for all of signatures[]; *@mp is the caller's until match_close(). */
int match_open(struct matcher **mp, struct err *e);
void match_close(struct matcher *m);

/* match_reset - start another log. */
void match_reset(struct matcher *m);

/*
 * match_scan - scan the next bytes: @data[from..to).
 *
 * Calls @found for each beginning that ends there, with the signature, the rest of the text as
 * in the table, and the position after it.  Several at one position come in the order of their
 * literal lengths, then in the table's; after @found returns nonzero, others of the same length
 * are skipped.  A run of blanks counts once, and once more if @data ends within it.
 */
typedef int match_found(void *ctx, const struct signature *s, const char *rest, size_t at);
void match_scan(struct matcher *m, const char *data, size_t from, size_t to, match_found *found,
		void *ctx);

#endif
