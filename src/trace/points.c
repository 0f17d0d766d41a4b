/* points.c - the times at which operations reached their trace points, read from records. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/points.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct search {
	uint64_t first, count;
	int64_t ahead_ns;
	struct ringup_points *out;
	uint32_t *latest; /* by label: 1 + the place in out of its operation; 0: none    */
	uint32_t labels;
};

/* The place of a number in out, or count. */
static uint64_t place_of(const struct search *s, int32_t number)
{
	uint32_t at = (uint32_t)number - (uint32_t)s->first;

	return at < s->count ? at : s->count;
}

/* The operation that a record without a number is about, or NULL. */
static struct ringup_points *by_label(const struct search *s, const struct trace_record *r)
{
	uint32_t at = r->label < s->labels ? s->latest[r->label] : 0;

	return at ? &s->out[at - 1] : NULL;
}

static struct ringup_points *by_number(const struct search *s, const struct trace_record *r)
{
	uint64_t at = place_of(s, r->rank[3]);

	return at < s->count ? &s->out[at] : NULL;
}

/* An operation of a tensor begins: an earlier one of that label is no longer in flight. */
static struct ringup_points *submit(struct search *s, const struct trace_record *r)
{
	uint64_t at = place_of(s, r->rank[3]);

	if (r->label < s->labels)
		s->latest[r->label] = at < s->count ? (uint32_t)at + 1 : 0;
	return at < s->count ? &s->out[at] : NULL;
}

static void set_once(int64_t *point, int64_t ns)
{
	if (!*point)
		*point = ns;
}

static void set_complete(struct ringup_points *p, const struct trace_record *r, int64_t ns)
{
	set_once(&p->complete, ns);
	p->failed = r->arg != 0;
}

/* Takes a record.  Only an operation's first record may name one that is not known yet. */
static void points_take(struct search *s, const struct trace_record *r)
{
	bool begins = r->what == TRACE_SUBMITTED || r->what == TRACE_MESSAGE;
	bool numbered = r->what == TRACE_MATCHED || r->what == TRACE_MOVED;
	struct ringup_points *p = r->what == TRACE_SUBMITTED ? submit(s, r)
				  : begins || numbered       ? by_number(s, r)
							     : by_label(s, r);
	int64_t ns = r->ns + s->ahead_ns;

	if (!p || (!begins && !p->submitted))
		return;
	switch ((enum trace_what)r->what) {
	case TRACE_SUBMITTED:
	case TRACE_MESSAGE:
		*p = (struct ringup_points){ .submitted = ns };
		break;
	case TRACE_READY:
		set_once(&p->ready, ns);
		break;
	case TRACE_BEGIN:
		set_once(&p->begun, ns);
		break;
	case TRACE_MATCHED:
		if (r->rank[0] >= 0)
			set_once(&p->ready, ns);
		if (!r->arg)
			set_once(&p->begun, ns);
		break;
	case TRACE_FINISHED:
		/* An operation without a coordinator has no other points. */
		if (!r->arg) {
			set_once(&p->ready, ns);
			set_once(&p->begun, ns);
		}
		set_complete(p, r, ns);
		break;
	case TRACE_COMPLETE:
	case TRACE_MOVED:
		set_complete(p, r, ns);
		break;
	case TRACE_SHAPE:
	case TRACE_ARRIVED:
	case TRACE_TICKS:
	case TRACE_END:
	case TRACE_CYCLE:
		break;
	}
}

int points_find(const struct trace_record *r, size_t n, uint64_t first, uint64_t count,
		int64_t ahead_ns, struct ringup_points *out)
{
	struct search s = { .first = first, .count = count, .ahead_ns = ahead_ns, .out = out };

	memset(out, 0, count * sizeof(*out));
	for (size_t i = 0; i < n; i++)
		if (r[i].label >= s.labels)
			s.labels = r[i].label + 1;
	s.latest = calloc(s.labels ? s.labels : 1, sizeof(*s.latest));
	if (!s.latest)
		return RINGUP_ENOMEM;
	for (size_t i = 0; i < n; i++)
		points_take(&s, &r[i]);
	free(s.latest);
	return 0;
}
