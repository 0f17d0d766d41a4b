/* matrix.c - the paths of a check on the terminal: from each node to each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/matrix.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "cli/out.h"
#include "probe/facts.h"
#include "probe/pairs.h"

enum { CELL = 9, NAME = 16, NUMBERED = 16, LEAST = 40 };

int matrix_width(void)
{
	struct winsize w;

	return !ioctl(1, TIOCGWINSZ, &w) && w.ws_col ? w.ws_col : 80;
}

/* What fails is said in the words of facts.h, shortened to a cell. */
static const char *state_word(enum facts_state s)
{
	static const char *const words[] = { "open",   "refused", "silent",
					     "prohib", "no way",  "impostor" };

	return words[s];
}

/* The looks of a pair, worst first. */
static enum out_look look_of(const struct pair *x, bool outlier)
{
	if (!x->tried)
		return OUT_DIM;
	if (x->failed == x->tried)
		return OUT_BAD;
	return x->failed || x->lost || outlier ? OUT_WARN : OUT_GOOD;
}

static void print_number(const struct pair *x, bool bandwidth)
{
	bool outlier = bandwidth ? x->weak : x->slow;
	double v = bandwidth ? x->mbs : x->us;
	enum out_look look = look_of(x, outlier);
	char text[32] = "-";

	if (x->tried && x->failed == x->tried)
		snprintf(text, sizeof(text), "%s", state_word(x->state));
	else if (v >= 0)
		snprintf(text, sizeof(text), "%.*f%s", v < 10, v, outlier ? "!" : "");
	else if (x->tried)
		snprintf(text, sizeof(text), "%s", x->failed ? "some" : "ok");
	out_look(look, "%*.*s", CELL, CELL - 1, text);
}

/* Names of any length in a column; the same number of columns each. */
static void print_name(const char *name, int width)
{
	out_text("%-*.*s", width, width, name);
}

/* As much of a name as fits into a cell: nodes mostly differ at the end. */
static const char *name_end(const char *name)
{
	size_t len = strlen(name);

	return len < CELL ? name : name + len - (CELL - 1);
}

static int name_width(const struct probe_facts *f, const struct pairs *p)
{
	int i, n, most = 4;

	for (i = 0; i < p->n; i++) {
		n = (int)strlen(f->nodes[p->node[i]].name);
		most = n > most ? n : most;
	}
	return most < NAME ? most : NAME;
}

static void print_numbers(const struct probe_facts *f, const struct pairs *p, bool bandwidth)
{
	int a, b, width = name_width(f, p);

	out_look(OUT_BOLD, "\n%s\n",
		 bandwidth ? "bandwidth, MB/s (from, to)" : "round trip, us (from, to)");
	out_text("%*s", width, "");
	for (b = 0; b < p->n; b++)
		out_look(OUT_BOLD, "%*s", CELL, name_end(f->nodes[p->node[b]].name));
	out_text("\n");
	for (a = 0; a < p->n; a++) {
		print_name(f->nodes[p->node[a]].name, width);
		for (b = 0; b < p->n; b++)
			if (a == b)
				out_look(OUT_DIM, "%*s", CELL, ".");
			else
				print_number(pairs_at(p, a, b), bandwidth);
		out_text("\n");
	}
}

static const char *sign_of(const struct pair *x)
{
	if (!x->tried)
		return "?";
	if (x->failed == x->tried)
		return "X";
	if (x->failed || x->lost)
		return "x";
	return x->slow || x->weak ? "!" : "+";
}

static void print_signs(const struct probe_facts *f, const struct pairs *p)
{
	int a, b, width = name_width(f, p);

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
	out_look(OUT_DIM,
		 "+ works  ! slow  x some connections fail  X all fail  ? not tried\n");
	if (p->n < f->nnodes)
		out_look(OUT_DIM, "%d of %d nodes; those with findings first\n", p->n,
			 f->nnodes);
}

int matrix_print(const struct probe_facts *f, int width, struct err *e)
{
	struct pairs p;
	int rc, most = (width < LEAST ? LEAST : width) - NAME - 1;

	rc = pairs_make(&p, f, most, e);
	if (!rc && p.n > 1) {
		if (p.n <= NUMBERED && name_width(f, &p) + p.n * CELL <= width) {
			print_numbers(f, &p, false);
			if (p.mbs[1] >= 0)
				print_numbers(f, &p, true);
		} else {
			print_signs(f, &p);
		}
	}
	pairs_free(&p);
	return rc;
}
