/* matrix.c - print the paths of a check as a matrix: from each node to each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/matrix.h"

#include <stdio.h>
#include <string.h>

#include "cli/out.h"
#include "probe/facts.h"
#include "probe/pairs.h"

/* NUMBER: the width of "[16] " in front of a row. */
enum { CELL = 9, NAME = 16, NUMBER = 5, NUMBERED = 16, LEAST = 40 };

int matrix_width(void)
{
	int width = out_width();

	return width ? width : 80;
}

/* Words of failures, as in facts.h, shortened to fit a cell. */
static const struct {
	const char *word, *means;
} states[] = {
	[FACTS_OPEN] = { "open", "" },
	[FACTS_REFUSED] = { "refused", "connection reset" },
	[FACTS_FILTERED] = { "silent", "no answer" },
	[FACTS_PROHIBITED] = { "prohib", "prohibited by a firewall" },
	[FACTS_UNREACHABLE] = { "no way", "no route, or no such host" },
	[FACTS_IMPOSTOR] = { "impostor", "another node answers" },
};

/* Marks that cells have shown, for the legend. */
enum {
	SHOWN_SLOW = 1 << FACTS_STATE_COUNT,
	SHOWN_SOME = SHOWN_SLOW << 1,
	SHOWN_OK = SHOWN_SLOW << 2,
	SHOWN_NONE = SHOWN_SLOW << 3
};

/* The look of a pair, worst first. */
static enum out_look look_of(const struct pair *x, bool outlier)
{
	if (!x->tried)
		return OUT_DIM;
	if (pairs_is_dead(x))
		return OUT_BAD;
	return x->failed || x->lost || outlier ? OUT_WARN : OUT_GOOD;
}

/* Prints the number, then "!" for an outlier, "x" if some connections fail. */
static unsigned print_number(const struct pair *x, bool bandwidth)
{
	bool outlier = bandwidth ? x->weak : x->slow, some = x->failed || x->lost;
	double v = bandwidth ? x->mbs : x->us;
	enum out_look look = look_of(x, outlier);
	unsigned shown = 0;
	char text[32];

	if (pairs_is_dead(x)) {
		snprintf(text, sizeof(text), "%s", states[x->state].word);
		shown = 1u << x->state;
	} else if (v >= 0) {
		snprintf(text, sizeof(text), "%.*f%s%s", v < 10, v, outlier ? "!" : "",
			 some ? "x" : "");
		shown = (outlier ? SHOWN_SLOW : 0u) | (some ? SHOWN_SOME : 0u);
	} else if (x->tried) {
		snprintf(text, sizeof(text), "%s", some ? "x" : "ok");
		shown = some ? SHOWN_SOME : SHOWN_OK;
	} else {
		snprintf(text, sizeof(text), "-");
		shown = SHOWN_NONE;
	}
	out_look(look, "%*.*s", CELL, CELL - 1, text);
	return shown;
}

static void matrix_explain(const char **gap, const char *word, const char *means)
{
	out_look(OUT_DIM, "%s%s: %s", *gap, word, means);
	*gap = "; ";
}

/* Explains the words and marks that occur above. */
static void print_legend(unsigned shown)
{
	const char *gap = "";

	for (int i = 1; i < FACTS_STATE_COUNT; i++)
		if (shown >> i & 1)
			matrix_explain(&gap, states[i].word, states[i].means);
	if (shown & SHOWN_SOME)
		matrix_explain(&gap, "x", "some connections fail, or large packets are lost");
	if (shown & SHOWN_SLOW)
		matrix_explain(&gap, "!", "far from the others");
	if (shown & SHOWN_OK)
		matrix_explain(&gap, "ok", "works, not measured");
	if (shown & SHOWN_NONE)
		matrix_explain(&gap, "-", "not tried");
	if (*gap)
		out_text("\n");
}

/* Prints names of any length in a column.  Nodes differ at the end or the beginning, so a long
 * name loses its middle. */
static void print_name(const char *name, int width)
{
	int len = (int)strlen(name), head = (width - 2) / 2;

	if (len <= width)
		out_text("%-*s", width, name);
	else
		out_text("%.*s..%s", head, name, name + len - (width - 2 - head));
}

/* The width of the longest name, if there is enough room. */
static int name_width(const struct probe_facts *f, const struct pairs *p, int room)
{
	int n, most = 4;

	for (int i = 0; i < p->n; i++) {
		n = (int)strlen(f->nodes[p->node[i]].name);
		most = n > most ? n : most;
	}
	room = room < NAME ? NAME : room;
	return most < room ? most : room;
}

/* Do all names fit above their columns?  Else columns have the numbers of rows. */
static bool are_short(const struct probe_facts *f, const struct pairs *p)
{
	for (int i = 0; i < p->n; i++)
		if (strlen(f->nodes[p->node[i]].name) >= CELL)
			return false;
	return true;
}

static void print_heads(const struct probe_facts *f, const struct pairs *p, int width)
{
	bool short_names = are_short(f, p);
	char head[16];

	out_text("%*s", width + (short_names ? 0 : NUMBER), "");
	for (int b = 0; b < p->n; b++) {
		snprintf(head, sizeof(head), "[%d]", b + 1);
		out_look(OUT_BOLD, "%*s", CELL, short_names ? f->nodes[p->node[b]].name : head);
	}
	out_text("\n");
}

static unsigned print_numbers(const struct probe_facts *f, const struct pairs *p,
			      bool bandwidth, int width)
{
	bool short_names = are_short(f, p);
	unsigned shown = 0;

	out_look(OUT_BOLD, "\n%s\n",
		 bandwidth ? "bandwidth, MB/s (from, to)" : "round trip, us (from, to)");
	print_heads(f, p, width);
	for (int a = 0; a < p->n; a++) {
		if (!short_names)
			out_look(OUT_BOLD, "%*s[%d] ", a < 9, "", a + 1);
		print_name(f->nodes[p->node[a]].name, width);
		for (int b = 0; b < p->n; b++)
			if (a == b)
				out_look(OUT_DIM, "%*s", CELL, ".");
			else
				shown |= print_number(pairs_at(p, a, b), bandwidth);
		out_text("\n");
	}
	return shown;
}

static const char *sign_of(const struct pair *x)
{
	if (!x->tried)
		return "?";
	if (pairs_is_dead(x))
		return "X";
	if (x->failed || x->lost)
		return "x";
	return x->slow || x->weak ? "!" : "+";
}

static void print_signs(const struct probe_facts *f, const struct pairs *p)
{
	int a, b, width = name_width(f, p, NAME);

	out_look(OUT_BOLD, "\nfrom each node (row) to each other (column, same order)\n");
	for (a = 0; a < p->n; a++) {
		print_name(f->nodes[p->node[a]].name, width);
		out_text(" ");
		for (b = 0; b < p->n; b++) {
			const struct pair *x = pairs_at(p, a, b);

			if (a == b)
				out_look(OUT_DIM, ".");
			else
				out_look(look_of(x, x->slow || x->weak), "%s", sign_of(x));
		}
		out_text("\n");
	}
	out_look(OUT_DIM, "+: works; !: slow; x: some connections fail; X: connections that a "
			  "job would use fail; ?: not tried\n");
	if (p->n < f->nnodes)
		out_look(OUT_DIM, "%d of %d nodes; those with findings first\n", p->n,
			 f->nnodes);
}

static void print_both(const struct probe_facts *f, const struct pairs *p, int room)
{
	int width = name_width(f, p, room);
	unsigned shown = print_numbers(f, p, false, width);

	if (p->mbs[1] >= 0)
		shown |= print_numbers(f, p, true, width);
	print_legend(shown);
}

int matrix_print(const struct probe_facts *f, int width, struct err *e)
{
	struct pairs p;
	int rc, room, most = (width < LEAST ? LEAST : width) - NAME - 1;

	rc = pairs_make(&p, f, most, e);
	if (!rc && p.n > 1) {
		room = width - NUMBER - p.n * CELL;
		if (p.n <= NUMBERED && name_width(f, &p, NAME) <= room)
			print_both(f, &p, room);
		else
			print_signs(f, &p);
	}
	pairs_free(&p);
	return rc;
}
