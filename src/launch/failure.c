/* failure.c - the first failure of a job: which rank, if that is certain, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/failure.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "launch/output.h"
#include "ringup.h"

enum { FAILURE_WHO = 256, FAILURE_TEXT = 1024 };

int failure_grow(struct failure *f, int count, struct err *e)
{
	size_t n = (size_t)count;
	struct failure_rank *ranks = realloc(f->ranks, n * sizeof(*ranks));
	struct culprit_end *ends = realloc(f->ends, n * sizeof(*ends));

	if (ranks)
		f->ranks = ranks;
	if (ends)
		f->ends = ends;
	if (!ranks || !ends)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", count);
	for (; f->count < count; f->count++) {
		ranks[f->count] = (struct failure_rank){ 0 };
		ends[f->count] = (struct culprit_end){ 0 };
		cause_begin(&ends[f->count].cause);
	}
	return 0;
}

void failure_close(struct failure *f)
{
	for (int i = 0; i < f->count; i++) {
		free(f->ranks[i].remark);
		cause_forget(&f->ends[i].cause);
	}
	free(f->ranks);
	free(f->ends);
	*f = (struct failure){ 0 };
}

/* -- words ------------------------------------------------------------------- */

/* The best note about @rank by another rank: the most certain, then the first; NULL: none. */
static const struct cause_seen *witness_of(const struct failure *f, int rank)
{
	const struct cause_seen *best = NULL, *seen;

	for (int i = 0; i < f->count; i++) {
		seen = &f->ends[i].cause;
		if (seen->code && seen->why && seen->rank == rank &&
		    (!best || seen->stillness > best->stillness))
			best = seen;
	}
	return best;
}

/* The clause "has not moved for 10.0 s: ..." of the sentence "rank 3
 * (process 4711 on node-b) has not moved for ...": the launcher names the rank itself. */
static const char *predicate_of(const char *why)
{
	int n = 0;
	const char *end;

	if (sscanf(why, "rank %*d %n", &n) < 0 || !n)
		return why;
	why += n;
	end = *why == '(' ? strstr(why, ") ") : NULL;
	return end ? end + 2 : why;
}

/* What has failed on that rank, in "rank 3 (process 4711 on node-b): allreduce 'x': ..."; NULL:
 * the sentence is not of that form. */
static const char *reason_of(const char *why)
{
	int n = 0;

	if (sscanf(why, "rank %*d (process %*d on %*[^)]): %n", &n) < 0 || !n)
		return NULL;
	return why + n;
}

/* How it ended, with the other ranks' notes about it. */
static void describe_end(const struct failure *f, int rank, char *out, size_t size)
{
	const struct cause_seen *seen = witness_of(f, rank), *own = &f->ends[rank].cause;
	const char *remark = f->ranks[rank].remark ? f->ranks[rank].remark : "";
	const char *reason = seen && seen->why ? reason_of(seen->why) : NULL;
	char who[FAILURE_WHO], how[160];

	f->owner.describe(f->owner.ctx, rank, who, sizeof(who));
	culprit_describe(&f->ends[rank], how, sizeof(how));
	if (seen && seen->stillness != ALARM_MOVES)
		snprintf(out, size, "%s %s; it %s%s", who, predicate_of(seen->why), how,
			 remark);
	else if (reason)
		snprintf(out, size, "%s %s%s: %s", who, how, remark, reason);
	else if (seen && seen->code == RINGUP_EABORTED)
		snprintf(out, size, "%s %s%s: it %s", who, how, remark,
			 predicate_of(seen->why));
	else if (!seen && own->code && own->rank < 0 && own->why)
		snprintf(out, size, "%s %s%s: %s", who, how, remark, own->why);
	else
		snprintf(out, size, "%s %s%s", who, how, remark);
}

/* It still runs, but others failed because of it. */
static void name_running(struct failure *f, int rank)
{
	const struct cause_seen *seen = witness_of(f, rank);
	char who[FAILURE_WHO];

	if (f->ranks[rank].named)
		return;
	f->ranks[rank].named = true;
	f->owner.describe(f->owner.ctx, rank, who, sizeof(who));
	output_say(f->output, "%s %s", who, seen ? predicate_of(seen->why) : "does not answer");
}

/* -- notes and ends ---------------------------------------------------------- */

void failure_note(struct failure *f, const struct cause_note *note, const char *why)
{
	const struct cause_seen *seen;
	int blamed;

	if (note->number >= (uint32_t)f->count || f->ends[note->number].ended)
		return;
	seen = &f->ends[note->number].cause;
	cause_take(&f->ends[note->number].cause, note, why);
	blamed = seen->rank;
	if (note->kind != CAUSE_BLAME || blamed < 0 || blamed >= f->count ||
	    f->ends[blamed].ended || seen->stillness == ALARM_MOVES)
		return;
	if (seen->stillness == ALARM_FROZEN && !f->ranks[blamed].named) {
		name_running(f, blamed);
		f->owner.kill(f->owner.ctx, blamed, false);
	} else if (!f->ranks[blamed].asked) {
		f->owner.kill(f->owner.ctx, blamed, true);
	}
	f->ranks[blamed].asked = true;
}

void failure_ended(struct failure *f, int rank, pid_t pid, int code, int status,
		   const char *remark)
{
	struct culprit_end *x = &f->ends[rank];

	x->ended = true;
	x->pid = pid;
	x->code = code;
	x->status = status;
	x->order = ++f->ended;
	free(f->ranks[rank].remark);
	f->ranks[rank].remark = *remark ? strdup(remark) : NULL;
}

int64_t failure_awaits(const struct failure *f, int rank)
{
	struct culprit c = { .rank = rank, .awaited = f->ends[rank].cause.rank, .left = -1 };

	if (c.awaited < 0 || c.awaited >= f->count || f->ends[c.awaited].ended)
		return 0;
	c.stillness = f->ends[rank].cause.stillness;
	return culprit_patience_ms(&c, f->ends);
}

void failure_reason(const struct failure *f, int rank, char *out, size_t size)
{
	const struct cause_seen *seen = witness_of(f, rank);

	*out = 0;
	if (seen && seen->stillness == ALARM_FROZEN)
		snprintf(out, size, ", since it %s", predicate_of(seen->why));
}

static void say_end(struct failure *f, int rank)
{
	char text[FAILURE_TEXT];

	if (f->ranks[rank].named)
		return;
	f->ranks[rank].named = true;
	describe_end(f, rank, text, sizeof(text));
	output_say(f->output, "%s", text);
}

void failure_say(struct failure *f, int rank)
{
	int because = f->ends[rank].cause.rank;

	if (because >= 0 && because < f->count && culprit_has_died(&f->ends[because]))
		say_end(f, because);
	say_end(f, rank);
}

/* -- the culprit ------------------------------------------------------------- */

/* It has not ended although others have failed because of it. */
static int blame_running(struct failure *f, const struct culprit *c)
{
	char who[FAILURE_WHO], how[160], other[FAILURE_WHO];

	if (c->stillness != ALARM_MOVES) {
		name_running(f, c->awaited);
		f->owner.kill(f->owner.ctx, c->awaited, false);
		return 128 + SIGKILL;
	}
	f->owner.describe(f->owner.ctx, c->awaited, who, sizeof(who));
	f->owner.describe(f->owner.ctx, c->rank, other, sizeof(other));
	culprit_describe(&f->ends[c->rank], how, sizeof(how));
	output_say(f->output, "%s left the job and has not ended; %s %s because of that", who,
		   other, how);
	return culprit_status(&f->ends[c->rank]);
}

static int blame(struct failure *f, const struct culprit *c)
{
	char who[FAILURE_WHO], text[FAILURE_TEXT];

	if (c->awaited >= 0)
		return blame_running(f, c);
	if (c->left < 0) {
		say_end(f, c->rank);
		return culprit_status(&f->ends[c->rank]);
	}
	f->owner.describe(f->owner.ctx, c->left, who, sizeof(who));
	describe_end(f, c->rank, text, sizeof(text));
	output_say(f->output, "%s: %s had left the job before, with status 0", text, who);
	return culprit_status(&f->ends[c->rank]);
}

int failure_look(struct failure *f, int running)
{
	struct culprit c;

	if (!f->ended)
		return 0;
	c = culprit_find(f->ends, f->count);
	if (c.rank < 0)
		return 0;
	if (!f->failed_ns)
		f->failed_ns = clock_ns();
	/* A stopped rank that made others fail would never end. */
	if (c.awaited >= 0 && !f->ranks[c.awaited].asked) {
		f->ranks[c.awaited].asked = true;
		f->owner.kill(f->owner.ctx, c.awaited, true);
	}
	f->name_ns = f->failed_ns + culprit_patience_ms(&c, f->ends) * 1000000;
	return !running || clock_ns() >= f->name_ns ? blame(f, &c) : 0;
}

int64_t failure_until(const struct failure *f)
{
	return f->failed_ns ? f->name_ns : INT64_MAX;
}
