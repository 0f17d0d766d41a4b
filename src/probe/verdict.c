/* verdict.c - derive findings and a verdict from the facts of a check. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "probe/judge.h"
#include "ringup.h"

/* In the order of causes; see struct judge_case. */
static void (*const judges[])(struct judge_case *) = {
	judge_silence, judge_duplicates, judge_names, judge_ways,
	judge_reach,   judge_sizes,      judge_nics,  judge_pace,
};

/* Does @a come before @b, which was found later? */
static bool is_first(const struct probe_finding *a, const struct probe_finding *b)
{
	if (a->severity != b->severity)
		return a->severity > b->severity;
	return a->stops >= b->stops;
}

/* The worst first: by severity, then by how many libraries it stops.  On a tie the order of
 * judges remains, which is that of causes. */
static void sort(struct judge_case *c)
{
	struct probe_finding *list = c->f->findings, x;
	int at;

	for (int i = 1; i < c->f->nfindings; i++) {
		x = list[i];
		for (at = i; at && !is_first(&list[at - 1], &x); at--)
			list[at] = list[at - 1];
		list[at] = x;
	}
}

static void count(const struct probe_facts *f, int *serious, int *notes)
{
	*serious = *notes = 0;
	for (int i = 0; i < f->nfindings; i++)
		++*(f->findings[i].severity > FACTS_NOTE ? serious : notes);
}

bool verdict_is_well(const struct probe_facts *f)
{
	int serious, notes;

	count(f, &serious, &notes);
	return !serious;
}

/* Makes one line of a text: foreign texts may hold line breaks. */
static void flatten(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ')
			*s = ' ';
}

static void verdict_say(struct judge_case *c)
{
	const struct probe_facts *f = c->f;
	int serious, notes;

	count(f, &serious, &notes);
	if (serious > 1)
		judge_say(c, &c->f->verdict, "%s (and %d more)", f->findings[0].what,
			  serious - 1);
	else if (serious)
		judge_say(c, &c->f->verdict, "%s", f->findings[0].what);
	else if (f->nnodes == 1)
		judge_say(c, &c->f->verdict, "no problems on %s, the only node%s%s",
			  f->nodes[0].name, notes ? "; note: " : "",
			  notes ? f->findings[0].what : "");
	else
		judge_say(c, &c->f->verdict, "no problems between %d nodes%s%s", f->nnodes,
			  notes ? "; note: " : "", notes ? f->findings[0].what : "");
	if (f->verdict)
		flatten(f->verdict);
}

/* Drops earlier findings and the earlier verdict. */
static void forget(struct probe_facts *f)
{
	struct probe_facts old = { .findings = f->findings,
				   .nfindings = f->nfindings,
				   .verdict = f->verdict };

	f->findings = NULL;
	f->nfindings = 0;
	f->verdict = NULL;
	facts_free(&old);
}

static void open_case(struct judge_case *c, struct probe_facts *f)
{
	memset(c, 0, sizeof(*c));
	c->f = f;
	c->explained = calloc((size_t)f->npaths + 1, sizeof(*c->explained));
	c->same_as = calloc((size_t)f->nnodes + 1, sizeof(*c->same_as));
	c->failed = !c->explained || !c->same_as;
	for (int i = 0; c->same_as && i < f->nnodes; i++)
		c->same_as[i] = i;
}

static int close_case(struct judge_case *c, struct err *e)
{
	free(c->explained);
	free(c->same_as);
	free(c->spare.nodes);
	free(c->spare.what);
	free(c->spare.why);
	free(c->spare.fix);
	free(c->spare.run);
	return c->failed ? fail(e, RINGUP_ENOMEM, "no memory for the verdict") : 0;
}

int verdict_find(struct probe_facts *f, struct err *e)
{
	struct judge_case c;

	forget(f);
	open_case(&c, f);
	for (size_t i = 0; !c.failed && i < sizeof(judges) / sizeof(judges[0]); i++)
		judges[i](&c);
	for (size_t i = 0; i < (size_t)f->nfindings; i++)
		c.failed |= !f->findings[i].what;
	if (!c.failed)
		sort(&c);
	if (!c.failed)
		verdict_say(&c);
	return close_case(&c, e);
}

int verdict_slow(struct probe_facts *f, struct err *e)
{
	struct judge_case c;
	int n = 0, rc;

	open_case(&c, f);
	if (!c.failed)
		n = judge_slow(&c);
	rc = close_case(&c, e);
	return rc ? rc : n;
}
