/* stall.c - tensors that some ranks have submitted and others have not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/stall.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/ledger.h"
#include "engine/pulse.h"
#include "engine/watch.h"
#include "ringup.h"
#include "wire/ranks.h"

enum {
	MS = 1000000,
	SHOWN = 3,       /* tensors named at a time; the others are counted */
	NAME_SHOWN = 96, /* bytes of a name                                 */
	TEXT = 512,
	MOST_WARNINGS = 20, /* of doubling times: longer than any job */
};

/* What one look has found, collected with the engine's lock, told without. */
struct finding {
	char text[SHOWN][TEXT];
	int shown, more;
	bool fatal;
};

void stall_init(struct stall *s, const struct pulse_rules *r, const struct watch_peer *peer,
		int size)
{
	s->warn_ns = r->stall_warn_ms ? (int64_t)r->stall_warn_ms * MS : INT64_MAX;
	s->abort_ns = r->stall_abort_ms ? (int64_t)r->stall_abort_ms * MS : INT64_MAX;
	s->peer = peer;
	s->size = size;
}

static const char *kind_name(const struct ringup_op *op)
{
	static const char *const names[] = {
		[PLAN_ALLREDUCE] = "allreduce",         [PLAN_BROADCAST] = "broadcast",
		[PLAN_ALLGATHER] = "allgather",         [PLAN_BARRIER] = "barrier",
		[PLAN_REDUCESCATTER] = "reducescatter", [PLAN_ALLTOALL] = "alltoall",
	};

	return op->ask.want.kind < sizeof(names) / sizeof(names[0]) ? names[op->ask.want.kind]
								    : "operation";
}

/* "ranks 0, 1 of 3 wait for rank 2 (process 123 on node-b)": as the world counts. */
static void say_who(const struct stall *s, const struct lane *l, const bool *in, char *out,
		    size_t size)
{
	char here[RANKS_TEXT], there[RANKS_TEXT];
	bool waiting[4096] = { false }, missing[4096] = { false };
	int r, count = 0, one = -1;

	for (r = 0; r < l->team.size; r++) {
		int in_world = l->ranks ? l->ranks[r] : r;

		(in[r] ? waiting : missing)[in_world] = true;
		count += !in[r];
		one = in[r] ? one : in_world;
	}
	ranks_text(here, waiting, s->size);
	if (count == 1)
		snprintf(there, sizeof(there), "rank %d (process %d on %.60s)", one,
			 s->peer[one].pid, s->peer[one].host);
	else
		ranks_text(there, missing, s->size);
	if (count)
		snprintf(out, size, "%s wait%s for %s", here,
			 strncmp(here, "ranks", 5) ? "s" : "", there);
	else
		snprintf(out, size, "all ranks have submitted it, and it does not end");
}

static bool is_here(const struct lane *l, int rank)
{
	return !l->team.host_of || l->team.host_of[rank] == l->team.host;
}

/* Has @rank, of this host, submitted it? */
static bool is_in(const struct lane *l, const struct ringup_op *op, int rank)
{
	int local = l->team.local_of ? l->team.local_of[rank] : rank;

	return rank == l->team.rank || (l->ledger && ledger_is_busy(l->ledger, op->id, local));
}

/* Who has submitted it?  Returns whether it is up to this rank to tell. */
static bool look_who(const struct lane *l, const struct ringup_op *op, bool *in)
{
	int r, first = -1;

	memset(in, 0, (size_t)l->team.size * sizeof(*in));
	for (r = l->team.size - 1; r >= 0; r--) {
		in[r] = is_here(l, r) && is_in(l, op, r);
		first = in[r] ? r : first;
	}
	return first == l->team.rank;
}

/* One without a name goes by its number, behind a NUL. */
static const char *name_of(const struct ringup_op *op)
{
	const char *name = op->tensor->name;

	return *name || op->tensor->len < 2 ? name : name + 1;
}

static void note(const struct stall *s, const struct lane *l, const struct ringup_op *op,
		 int64_t now_ns, struct finding *f)
{
	char who[320];
	bool in[4096];

	if (!look_who(l, op, in))
		return;
	if (f->shown == SHOWN) {
		f->more++;
		return;
	}
	say_who(s, l, in, who, sizeof(who));
	snprintf(f->text[f->shown++], TEXT, "%s %.*s has stalled for %.1f s: %s", kind_name(op),
		 NAME_SHOWN, name_of(op), (double)(now_ns - op->since_ns) / 1e9, who);
}

static void look_at(const struct stall *s, const struct lane *l, struct ringup_op *op,
		    int64_t now_ns, struct finding *f)
{
	int64_t age = now_ns - op->since_ns;

	if (!op->since_ns) {
		op->since_ns = now_ns;
		op->warnings = 0;
		return;
	}
	if (age >= s->abort_ns)
		f->fatal = true;
	else if (s->warn_ns > age >> op->warnings || op->warnings == MOST_WARNINGS)
		return;
	op->warnings++;
	note(s, l, op, now_ns, f);
}

struct look {
	struct stall *stall;
	struct finding found;
	int64_t now_ns;
};

static void look_at_lane(struct lane *l, void *arg)
{
	struct look *look = arg;
	struct ringup_op *op;

	pthread_mutex_lock(&l->lock);
	for (op = l->flying; op && !look->found.fatal; op = op->next)
		if (!op->ghost && __atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == OP_FLYING)
			look_at(look->stall, l, op, look->now_ns, &look->found);
	pthread_mutex_unlock(&l->lock);
}

void stall_look(struct stall *s, struct engine *g, int64_t now_ns)
{
	struct look look = { .stall = s, .now_ns = now_ns };
	struct finding *f = &look.found;
	int i;

	engine_visit(g, look_at_lane, &look);
	if (f->fatal && f->shown) {
		engine_alarm(g, RINGUP_ETIMEDOUT, f->text[f->shown - 1]);
		return;
	}
	for (i = 0; i < f->shown; i++)
		log_warn("%s", f->text[i]);
	if (f->more)
		log_warn("%d more tensors have stalled", f->more);
}
