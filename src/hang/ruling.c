/* ruling.c - decides from two samples whether a job hangs, and which rank is to blame. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/ruling.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/ranks.h"

enum {
	BUSY_BYTES =
		64 << 10, /* read or written between looks by a rank that is busy with that */
	IDLE_PERCENT = 5, /* of a processor, used by a rank that sleeps */
	LONG_MS = 60000,  /* a rank that computes for longer than this is late all the same */
};

/* ---- what two looks tell of a rank ---- */

struct case_ {
	const struct look *before, *now;
	int64_t elapsed_ms;
	struct ruling *r;
	/* The waits of the look before, by rank: 1 + the first, then 1 + the next; 0: no more.
	 */
	int first[ROWS_RANKS], *next;
};

static bool is_known_rank(int rank)
{
	return rank >= 0 && rank < ROWS_RANKS;
}

static void index_waits(struct case_ *c)
{
	int *first;

	c->next = calloc((size_t)c->before->waits + 1, sizeof(*c->next));
	for (int i = 0; c->next && i < c->before->waits; i++) {
		if (!is_known_rank(c->before->wait[i].rank))
			continue;
		first = &c->first[c->before->wait[i].rank];
		c->next[i] = *first;
		*first = i + 1;
	}
}

static const struct row_rank *was(const struct case_ *c, const struct row_rank *r)
{
	return look_find(c->before, r->rank);
}

static bool in_both(const struct case_ *c, const struct row_rank *r, enum row_state state)
{
	const struct row_rank *b = was(c, r);

	return r->state == state && b && b->state == state && b->pid == r->pid;
}

static bool stays(const struct case_ *c, const struct row_rank *r, enum row_phase phase)
{
	const struct row_rank *b = was(c, r);

	return r->phase == phase && b && b->phase == phase && b->pid == r->pid;
}

static bool has_advanced(const struct case_ *c, const struct row_rank *r)
{
	const struct row_rank *b = was(c, r);

	return b && ((b->counts && r->counts && b->progress != r->progress) ||
		     (b->print && r->print && b->print != r->print));
}

static bool same_stack(const struct row_rank *a, const struct row_rank *b)
{
	return *a->where && !strcmp(a->call, b->call) && !strcmp(a->where, b->where);
}

/* A loop that never ends has several lines.  A whole program may be in main(), so there only
 * the line counts. */
static bool same_function(const struct row_rank *a, const struct row_rank *b)
{
	return strcmp(a->frame, "main") != 0 && strcmp(a->frame, "<module>") != 0 &&
	       !strcmp(a->call, b->call) && !strcmp(a->frame, b->frame);
}

/* Does the rank do nothing that could end?  RUNS: it computes, or spins; no stack tells which.
 */
enum activity { STUCK, BUSY, RUNS };

static enum activity activity_of(const struct case_ *c, const struct row_rank *r)
{
	const struct row_rank *b = was(c, r);
	int64_t cpu;

	if (!b || r->state == ROW_UNSEEN || b->pid != r->pid)
		return r->state == ROW_UNSEEN ? RUNS : BUSY;
	if (r->io_bytes - b->io_bytes > BUSY_BYTES)
		return BUSY;
	cpu = (int64_t)(r->cpu_ms - b->cpu_ms);
	if (r->asleep && b->asleep && cpu * 100 < c->elapsed_ms * IDLE_PERCENT)
		return STUCK;
	if (!*r->where || !*b->where)
		return RUNS;
	return same_stack(b, r) || same_function(b, r) ? STUCK : BUSY;
}

static void ruling_blame(struct ruling *r, int rank)
{
	if (!is_known_rank(rank) || r->culprit[rank])
		return;
	r->culprit[rank] = true;
	r->culprits++;
}

static void rule(struct ruling *r, enum ruling_kind kind, int status, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void rule(struct ruling *r, enum ruling_kind kind, int status, const char *fmt, ...)
{
	va_list ap;

	r->kind = kind;
	r->status = status;
	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
	/* Suspects of a hang that may be none. */
	if (status != 1) {
		memset(r->culprit, 0, sizeof(r->culprit));
		r->culprits = 0;
	}
}

/* ---- waits ---- */

/* The same wait in the look before; NULL: it has begun since. */
static const struct row_wait *wait_before(const struct case_ *c, const struct row_wait *w)
{
	const struct row_wait *b;

	for (int i = is_known_rank(w->rank) ? c->first[w->rank] : 0; i; i = c->next[i - 1]) {
		b = &c->before->wait[i - 1];
		if (b->number == w->number && !strcmp(b->what, w->what) &&
		    !strcmp(b->group, w->group))
			return b;
	}
	return NULL;
}

static bool holds(const struct case_ *c, const struct row_wait *w)
{
	return (w->blocked || w->reported) && wait_before(c, w);
}

/* By rank: the oldest wait that both looks have; NULL: the rank is blocked in none. */
static const struct row_wait **list_waits(const struct case_ *c)
{
	const struct row_wait **of = calloc(ROWS_RANKS, sizeof(*of));

	for (int i = 0; of && i < c->now->waits; i++) {
		const struct row_wait *w = &c->now->wait[i];

		if (w->reported || !holds(c, w) || !is_known_rank(w->rank))
			continue;
		c->r->waiting[w->rank] = true;
		if (!of[w->rank] || of[w->rank]->since_ms < w->since_ms)
			of[w->rank] = w;
	}
	return of;
}

/* Calls @see for each rank that @w lacks. */
static void each_missing(const struct row_wait *w, void (*see)(void *arg, int rank), void *arg)
{
	if (w->message && w->peer >= 0)
		see(arg, w->peer);
	for (int i = 0; i < w->missing && i < ROWS_MISSING; i++)
		see(arg, w->who[i]);
}

struct wanted {
	bool rank[ROWS_RANKS];
	int n;
};

static void want(void *arg, int rank)
{
	struct wanted *x = arg;

	if (!is_known_rank(rank) || x->rank[rank])
		return;
	x->rank[rank] = true;
	x->n++;
}

static void name_wait(struct ruling *r, const struct row_wait *w)
{
	if (w->since_ms < r->waited_ms)
		return;
	memcpy(r->group, w->group, sizeof(r->group));
	memcpy(r->what, w->what, sizeof(r->what));
	r->waited_ms = w->since_ms;
}

/* "rank 2 on m3", "ranks 2, 3" */
static const char *unseen_ranks(const struct case_ *c, char text[RANKS_TEXT])
{
	bool *set = calloc(ROWS_RANKS, sizeof(*set));
	const struct row_rank *one = NULL;
	int n = 0;

	for (int i = 0; set && i < c->now->ranks; i++)
		if (c->now->rank[i].state == ROW_UNSEEN &&
		    is_known_rank(c->now->rank[i].rank)) {
			one = &c->now->rank[i];
			set[one->rank] = true;
			n++;
		}
	snprintf(text, RANKS_TEXT, "some ranks");
	if (n == 1 && *one->host)
		snprintf(text, RANKS_TEXT, "rank %d on %.40s", one->rank, one->host);
	else if (n)
		ranks_text(text, set, c->r->size);
	if (strstr(text, " of "))
		*strstr(text, " of ") = 0;
	free(set);
	return text;
}

/* Do ranks wait for others that wait, too?  Then the operations differ, or one wait is behind
 * another. */
static bool waits_differ(const struct wanted *x, const struct row_wait *const *of)
{
	for (int rank = 0; rank < ROWS_RANKS; rank++)
		if (x->rank[rank] && of[rank])
			return true;
	return false;
}

/* Of the ranks that others want and that do not wait themselves, those that do nothing. */
static bool rule_late(const struct case_ *c, const struct wanted *x,
		      const struct row_wait *const *of)
{
	bool differ = waits_differ(x, of), unseen = false;
	const struct row_rank *late = NULL;
	struct ruling *r = c->r;
	char text[RANKS_TEXT];
	enum activity a;
	int runs = 0;

	for (int rank = 0; rank < ROWS_RANKS; rank++) {
		const struct row_rank *row =
			x->rank[rank] && !of[rank] ? look_find(c->now, rank) : NULL;

		if (!x->rank[rank] || of[rank])
			continue;
		if (!row || row->state == ROW_UNSEEN) {
			/* The only one that can be late. */
			if (!differ)
				ruling_blame(r, rank);
			unseen = true;
			continue;
		}
		a = activity_of(c, row);
		if (a == STUCK || (a == RUNS && r->waited_ms >= LONG_MS))
			ruling_blame(r, rank);
		else
			late = row;
		runs += a == RUNS;
	}
	if (!r->culprits && !late && !unseen)
		return false;
	if (r->culprits)
		rule(r, RULING_LATE, 1, "%s", "");
	else if (!late)
		rule(r, RULING_UNSURE, 3,
		     "ranks wait in different operations; not sampled: %.60s",
		     unseen_ranks(c, text));
	else if (runs)
		rule(r, RULING_UNSURE, 3,
		     "rank %d is late: it computes or spins; only its stack can tell which",
		     late->rank);
	else
		rule(r, RULING_SLOW, 0, "other ranks wait for rank %d, which is busy%s%s",
		     late->rank, *late->where ? " in " : "", late->where);
	return true;
}

/* All ranks that are waited for wait themselves: in a circle, or in different operations. */
static void rule_circle(const struct case_ *c, const struct row_wait *const *of)
{
	int waiters = 0, messages = 0, most = 0, n, odd = -1, odds = 0;
	const struct row_wait *main_wait = NULL;

	for (int a = 0; a < ROWS_RANKS; a++) {
		if (!of[a])
			continue;
		waiters++;
		messages += of[a]->message;
		n = 0;
		for (int b = 0; b < ROWS_RANKS; b++)
			n += of[b] && !strcmp(of[a]->what, of[b]->what) &&
			     !strcmp(of[a]->group, of[b]->group);
		if (n > most) {
			most = n;
			main_wait = of[a];
		}
	}
	if (messages && messages == waiters) {
		for (int a = 0; a < ROWS_RANKS; a++)
			if (of[a])
				ruling_blame(c->r, a);
		rule(c->r, RULING_CIRCLE, 1, "%s", "");
		return;
	}
	if (!main_wait)
		return;
	for (int a = 0; a < ROWS_RANKS; a++)
		if (of[a] && (strcmp(main_wait->what, of[a]->what) != 0 ||
			      strcmp(main_wait->group, of[a]->group) != 0)) {
			odd = a;
			odds++;
		}
	name_wait(c->r, main_wait);
	memcpy(c->r->what, main_wait->what, sizeof(c->r->what));
	memcpy(c->r->group, main_wait->group, sizeof(c->r->group));
	if (odds == 1 && most > 1) {
		ruling_blame(c->r, odd);
		c->r->waiting[odd] = false;
		rule(c->r, RULING_ODD, 1, "it waits in %s", of[odd]->what);
	} else {
		rule(c->r, RULING_APART, 1, "%s", "");
	}
}

static bool rule_waits(const struct case_ *c)
{
	char text[RANKS_TEXT];
	const struct row_wait **of = list_waits(c);
	struct wanted *x = calloc(1, sizeof(*x));
	bool any = false, known = false, unseen = false;

	for (int i = 0; of && x && i < c->now->waits; i++) {
		const struct row_wait *w = &c->now->wait[i];

		if (!holds(c, w))
			continue;
		any = true;
		known |= w->missing > 0 || (w->message && w->peer >= 0);
		name_wait(c->r, w);
		each_missing(w, want, x);
	}
	for (int i = 0; i < c->now->ranks; i++)
		unseen |= c->now->rank[i].state == ROW_UNSEEN;
	if (any && !known && unseen)
		rule(c->r, RULING_UNSURE, 3,
		     "all ranks on the sampled hosts wait in %.80s; not sampled: %.60s",
		     c->r->what, unseen_ranks(c, text));
	else if (any && !known)
		rule(c->r, RULING_UNENDING, 3, "%s", "");
	else if (any && !rule_late(c, x, of))
		rule_circle(c, of);
	free(of);
	free(x);
	return any;
}

/* ---- processes ---- */

/* Does any other rank wait, as far as a source tells? */
static bool others_wait(const struct case_ *c, int but)
{
	for (int i = 0; i < c->now->ranks; i++) {
		const struct row_rank *r = &c->now->rank[i], *b = was(c, r);

		if (r->rank == but || r->state != ROW_ALIVE)
			continue;
		if (stays(c, r, ROW_BLOCKED) || stays(c, r, ROW_MEETING) ||
		    (b && *r->call && same_stack(b, r)))
			return true;
	}
	return false;
}

static bool rule_state(const struct case_ *c, enum row_state state, enum ruling_kind kind,
		       bool needs_waiters)
{
	for (int i = 0; i < c->now->ranks; i++) {
		const struct row_rank *r = &c->now->rank[i], *b = was(c, r);

		if (!in_both(c, r, state) || (needs_waiters && !others_wait(c, r->rank)))
			continue;
		if (state == ROW_DISK && (r->cpu_ms != b->cpu_ms || r->io_bytes != b->io_bytes))
			continue;
		ruling_blame(c->r, r->rank);
	}
	if (!c->r->culprits)
		return false;
	for (int i = 0; i < c->now->waits; i++)
		if (holds(c, &c->now->wait[i]))
			name_wait(c->r, &c->now->wait[i]);
	rule(c->r, kind, 1, "%s", "");
	return true;
}

static bool any_advances(const struct case_ *c)
{
	for (int i = 0; i < c->now->ranks; i++)
		if (has_advanced(c, &c->now->rank[i]))
			return true;
	return c->now->moved;
}

/* ---- the start ---- */

static bool rule_init(const struct case_ *c)
{
	int meeting = 0, before = 0, unknown = 0;
	const struct row_rank *busy = NULL;

	for (int i = 0; i < c->now->ranks; i++) {
		const struct row_rank *r = &c->now->rank[i];
		enum activity a;

		if (stays(c, r, ROW_MEETING)) {
			meeting++;
			c->r->waiting[r->rank] = true;
			if (r->since_ms > c->r->waited_ms)
				c->r->waited_ms = r->since_ms;
		} else if (stays(c, r, ROW_BEFORE)) {
			before++;
			a = activity_of(c, r);
			if (a == STUCK)
				ruling_blame(c->r, r->rank);
			else
				busy = r;
			unknown += a == RUNS;
		}
	}
	if (!meeting) {
		c->r->culprits = 0;
		memset(c->r->culprit, 0, sizeof(c->r->culprit));
		return false;
	}
	if (c->r->culprits)
		rule(c->r, RULING_INIT, 1, "%s", "");
	else if (busy && unknown)
		rule(c->r, RULING_UNSURE, 3,
		     "rank %d has not reached initialization: it computes or spins; only its "
		     "stack can tell which",
		     busy->rank);
	else if (busy)
		rule(c->r, RULING_SLOW, 0, "the job is starting: rank %d is busy%s%s",
		     busy->rank, *busy->where ? " in " : "", busy->where);
	else if (c->now->size && meeting + before < c->now->size)
		rule(c->r, RULING_UNSURE, 3,
		     "%d of %d ranks wait in initialization on this host; the others run "
		     "elsewhere",
		     meeting, c->now->size);
	else
		rule(c->r, RULING_UNSURE, 3, "all ranks wait for each other in initialization");
	return true;
}

/* ---- stacks ---- */

static bool is_receive(const char *call)
{
	return !strcmp(call, "MPI_Recv") || !strcmp(call, "MPI_Ssend") ||
	       !strcmp(call, "MPI_Sendrecv") || !strcmp(call, "MPI_Probe") ||
	       !strcmp(call, "recv");
}

/* All ranks are inside: in the same call, or the majority in one and a rank in another. */
static void rule_inside(const struct case_ *c)
{
	const struct row_rank *main_row = NULL, *odd = NULL;
	int n, most = 0, odds = 0, receives = 0, all = 0;

	for (int a = 0; a < c->now->ranks; a++) {
		const struct row_rank *r = &c->now->rank[a];

		if (!*r->call)
			continue;
		all++;
		receives += is_receive(r->call);
		n = 0;
		for (int b = 0; b < c->now->ranks; b++)
			n += !strcmp(r->call, c->now->rank[b].call) &&
			     !strcmp(r->where, c->now->rank[b].where);
		if (n > most) {
			most = n;
			main_row = r;
		}
	}
	for (int a = 0; a < c->now->ranks; a++) {
		const struct row_rank *r = &c->now->rank[a];

		if (!strcmp(r->call, main_row->call) && !strcmp(r->where, main_row->where)) {
			c->r->waiting[r->rank] = true;
		} else if (*r->call) {
			odd = r;
			odds++;
		}
	}
	snprintf(c->r->what, sizeof(c->r->what), "%s", main_row->call);
	if (receives == all && all > 1) {
		for (int a = 0; a < c->now->ranks; a++)
			ruling_blame(c->r, c->now->rank[a].rank);
		rule(c->r, RULING_CIRCLE, 1, "%s", "");
	} else if (!odds) {
		rule(c->r, RULING_UNENDING, 3, "%s", "");
	} else if (odds == 1 && most > 1) {
		ruling_blame(c->r, odd->rank);
		rule(c->r, RULING_ODD, 1, "it is in %s", odd->call);
	} else {
		rule(c->r, RULING_APART, 1, "%s", "");
	}
}

/* Does the rank look again and again by itself, busy or with short sleeps between, as
 * MPI_Init() of Open MPI?  Then it wakes whether anything has happened or not. */
static bool polls(const struct row_rank *r)
{
	return !r->asleep || strstr(r->doing, "nanosleep") || !strcmp(r->doing, "usleep");
}

/* Do ranks that poll in a call show that it is the same one in both looks?  Those that sleep do
 * by their switches. */
static bool calls_last(const struct case_ *c)
{
	bool any = false, some_poll = false;

	for (int i = 0; i < c->now->ranks; i++) {
		const struct row_rank *r = &c->now->rank[i], *b = was(c, r);

		if (!*r->call)
			continue;
		some_poll |= polls(r);
		any |= !polls(r) || (b && b->print && b->print == r->print);
	}
	return any || !some_poll;
}

static bool rule_stacks(const struct case_ *c)
{
	int inside = 0, outside = 0, changed = 0;
	const struct row_rank *busy = NULL;
	enum activity a;

	if (!c->now->has_stack || !c->before->has_stack)
		return false;
	for (int i = 0; i < c->now->ranks; i++) {
		const struct row_rank *r = &c->now->rank[i], *b = was(c, r);

		if (!*r->where)
			continue;
		inside += *r->call != 0;
		outside += !*r->call;
		/* A rank that spins has another innermost line at times. */
		changed +=
			!b || strcmp(b->call, r->call) != 0 || (*r->call && !same_stack(b, r));
		/* One that sleeps in its wait was woken since: the wait is another. */
		changed += b && *r->call && !polls(r) && !polls(b) &&
			   r->switches != b->switches && r->cpu_ms - b->cpu_ms > 50;
	}
	if (changed || !inside) {
		rule(c->r, changed ? RULING_MOVES : RULING_SLOW, 0, "%s",
		     changed ? "stacks changed between the two samples"
			     : "no rank waits for another");
		return inside + outside > 0;
	}
	if (!outside) {
		rule_inside(c);
		return true;
	}
	for (int i = 0; i < c->now->ranks; i++) {
		const struct row_rank *r = &c->now->rank[i];

		if (!*r->where)
			continue;
		if (*r->call) {
			c->r->waiting[r->rank] = true;
			snprintf(c->r->what, sizeof(c->r->what), "%s", r->call);
			continue;
		}
		a = activity_of(c, r);
		if (a == STUCK || (a == BUSY && !strcmp(was(c, r)->frame, r->frame) &&
				   r->io_bytes == was(c, r)->io_bytes))
			ruling_blame(c->r, r->rank);
		else
			busy = r;
	}
	if (c->r->culprits && !calls_last(c))
		rule(c->r, RULING_UNSURE, 3,
		     "ranks are in the same calls in both samples, but may have left them in "
		     "between");
	else if (c->r->culprits && c->r->culprits <= inside)
		rule(c->r, RULING_LATE, 1, "%s", "");
	else if (c->r->culprits)
		rule(c->r, RULING_UNSURE, 3,
		     "%d ranks are outside collectives and only %d wait: they may be slow",
		     c->r->culprits, inside);
	else
		rule(c->r, RULING_SLOW, 0, "other ranks wait for rank %d, which is busy in %s",
		     busy->rank, busy->where);
	return true;
}

/* ---- NCCL RAS ---- */

static const struct row_count *count_before(const struct case_ *c, const struct row_count *x)
{
	for (int i = 0; i < c->before->counts; i++) {
		const struct row_count *b = &c->before->count[i];

		if (b->rank == x->rank && !strcmp(b->group, x->group) &&
		    !strcmp(b->what, x->what))
			return b;
	}
	return NULL;
}

static bool is_one_comm(const struct row_count *a, const struct row_count *b)
{
	return !strcmp(a->group, b->group) && !strcmp(a->what, b->what);
}

/* Ranks that were in the initialisation of the communicator of @x in both looks, while more
 * others were not. */
static bool rule_starting(const struct case_ *c, const struct row_count *x)
{
	int starting = 0, running = 0;
	const struct look *l = c->now;
	const struct row_count *b;

	for (int i = 0; i < l->counts; i++)
		if (is_one_comm(&l->count[i], x)) {
			b = count_before(c, &l->count[i]);
			starting += l->count[i].starting && b && b->starting;
			running += !l->count[i].starting;
		}
	if (!starting || running <= starting)
		return false;
	for (int i = 0; i < l->counts; i++) {
		if (!is_one_comm(&l->count[i], x))
			continue;
		if (l->count[i].starting)
			ruling_blame(c->r, l->count[i].rank);
		else
			c->r->waiting[l->count[i].rank] = true;
	}
	memcpy(c->r->group, x->group, sizeof(c->r->group));
	rule(c->r, RULING_INIT, 1, "%s", "");
	return true;
}

/* Ranks that have launched less than most in the communicator of @x. */
static bool rule_behind(const struct case_ *c, const struct row_count *x)
{
	int behind = 0, level = 0;
	const struct look *l = c->now;
	uint64_t most = 0;

	for (int i = 0; i < l->counts; i++)
		if (is_one_comm(&l->count[i], x) && l->count[i].launched > most)
			most = l->count[i].launched;
	for (int i = 0; i < l->counts; i++)
		if (is_one_comm(&l->count[i], x)) {
			behind += l->count[i].launched < most;
			level += l->count[i].launched == most;
		}
	if (!behind || level <= behind)
		return false;
	for (int i = 0; i < l->counts; i++) {
		if (!is_one_comm(&l->count[i], x))
			continue;
		if (l->count[i].launched < most)
			ruling_blame(c->r, l->count[i].rank);
		else
			c->r->waiting[l->count[i].rank] = true;
	}
	memcpy(c->r->group, x->group, sizeof(c->r->group));
	snprintf(c->r->what, sizeof(c->r->what), "%s %llu", x->what, (unsigned long long)most);
	rule(c->r, RULING_BEHIND, 1, "%s", "");
	return true;
}

/* The first count of each communicator and kind of collective stands for all of them. */
static bool is_first(const struct look *l, int i)
{
	for (int k = 0; k < i; k++)
		if (is_one_comm(&l->count[k], &l->count[i]))
			return false;
	return true;
}

static bool rule_counts(const struct case_ *c)
{
	const struct look *l = c->now;
	bool moves = false;

	for (int i = 0; i < l->counts; i++) {
		const struct row_count *b = count_before(c, &l->count[i]);

		moves |= !b || b->launched != l->count[i].launched;
		if (is_first(l, i) && rule_starting(c, &l->count[i]))
			return true;
	}
	for (int i = 0; i < l->counts && !moves; i++)
		if (is_first(l, i) && rule_behind(c, &l->count[i]))
			return true;
	if (moves)
		rule(c->r, RULING_MOVES, 0, "%s", "");
	else if (l->counts)
		rule(c->r, RULING_UNSURE, 3,
		     "all ranks have launched the same number of collectives, and no rank "
		     "launches another");
	return l->counts > 0;
}

/* ---- all of it ---- */

static void ruling_judge(const struct case_ *c)
{
	const struct look *before = c->before, *now = c->now;
	struct ruling *r = c->r;
	bool here = false, was_here = false;

	memset(r, 0, sizeof(*r));
	r->waited_ms = -1;
	r->size = now->size;
	for (int i = 0; i < now->ranks; i++) {
		if (now->rank[i].rank >= r->size)
			r->size = now->rank[i].rank < ROWS_RANKS ? now->rank[i].rank + 1
								 : ROWS_RANKS;
		here |= now->rank[i].state == ROW_ALIVE;
	}
	for (int i = 0; i < before->ranks; i++)
		was_here |= before->rank[i].state == ROW_ALIVE;
	if (!here && was_here) {
		rule(r, RULING_MOVES, 0, "the job has ended");
		return;
	}
	if (any_advances(c) && !now->counts) {
		if (!rule_state(c, ROW_STOPPED, RULING_STOPPED, false))
			rule(r, RULING_MOVES, 0, "%s", "");
		return;
	}
	if (rule_state(c, ROW_GONE, RULING_DEAD, true) ||
	    rule_state(c, ROW_STOPPED, RULING_STOPPED, false) ||
	    rule_state(c, ROW_SILENT, RULING_SILENT, false) ||
	    rule_state(c, ROW_DISK, RULING_DISK, true) || rule_init(c) || rule_waits(c) ||
	    rule_counts(c))
		return;
	if (now->has_page)
		rule(r, RULING_SLOW, 0, "no rank waits for another");
	else if (!rule_stacks(c))
		rule(r, RULING_UNSURE, 3, "ringup cannot see what the ranks do");
}

void ruling_make(struct ruling *r, const struct look *before, const struct look *now,
		 int64_t elapsed_ms)
{
	struct case_ c = { .before = before,
			   .now = now,
			   .elapsed_ms = elapsed_ms > 0 ? elapsed_ms : 1,
			   .r = r };

	index_waits(&c);
	ruling_judge(&c);
	free(c.next);
}

const char *ruling_name(enum ruling_kind kind)
{
	static const char *const names[] = {
		[RULING_MOVES] = "advances",      [RULING_SLOW] = "slow",
		[RULING_UNSURE] = "unknown",      [RULING_UNENDING] = "unending",
		[RULING_DEAD] = "dead",           [RULING_STOPPED] = "stopped",
		[RULING_SILENT] = "silent",       [RULING_DISK] = "disk",
		[RULING_LATE] = "late",           [RULING_ODD] = "odd",
		[RULING_APART] = "apart",         [RULING_CIRCLE] = "circle",
		[RULING_INIT] = "initialisation", [RULING_BEHIND] = "behind",
	};

	return names[kind];
}
