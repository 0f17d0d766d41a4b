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

void stall_init(struct stall *s, const struct pulse_rules *r, const struct watch_peer *peer)
{
	s->warn_ns = r->stall_warn_ms ? (int64_t)r->stall_warn_ms * MS : INT64_MAX;
	s->abort_ns = r->stall_abort_ms ? (int64_t)r->stall_abort_ms * MS : INT64_MAX;
	s->peer = peer;
}

static const char *kind_name(const struct ringup_op *op)
{
	static const char *const names[] = {
		[PLAN_ALLREDUCE] = "allreduce",         [PLAN_BROADCAST] = "broadcast",
		[PLAN_ALLGATHER] = "allgather",         [PLAN_BARRIER] = "barrier",
		[PLAN_REDUCESCATTER] = "reducescatter", [PLAN_ALLTOALL] = "alltoall",
	};

	return op->want.kind < sizeof(names) / sizeof(names[0]) ? names[op->want.kind]
								: "operation";
}

/* "ranks 0, 1 of 4 wait for rank 2 of 4 (process 123 on node-b)" */
static void say_who(const struct stall *s, const struct engine *g, const bool *in, char *out,
		    size_t size)
{
	char here[RANKS_TEXT], there[RANKS_TEXT];
	bool missing[4096];
	int r, count = 0, one = -1;

	for (r = 0; r < g->team.size; r++) {
		missing[r] = !in[r];
		count += missing[r];
		one = missing[r] ? r : one;
	}
	ranks_text(here, in, g->team.size);
	if (count == 1)
		snprintf(there, sizeof(there), "rank %d (process %d on %.60s)", one,
			 s->peer[one].pid, s->peer[one].host);
	else
		ranks_text(there, missing, g->team.size);
	if (count)
		snprintf(out, size, "%s wait%s for %s", here,
			 strncmp(here, "ranks", 5) ? "s" : "", there);
	else
		snprintf(out, size, "all ranks have submitted it, and it does not end");
}

/* Who has submitted it?  Returns whether it is up to this rank to tell. */
static bool look_who(const struct engine *g, const struct ringup_op *op, bool *in)
{
	int r, first = -1;

	memset(in, 0, (size_t)g->team.size * sizeof(*in));
	for (r = g->team.size - 1; r >= 0; r--) {
		in[r] = r == g->team.rank ||
			(g->ledger && ledger_is_busy(g->ledger, op->id, r));
		first = in[r] ? r : first;
	}
	return first == g->team.rank;
}

/* One without a name goes by its number, behind a NUL. */
static const char *name_of(const struct ringup_op *op)
{
	const char *name = op->tensor->name;

	return *name || op->tensor->len < 2 ? name : name + 1;
}

static void note(const struct stall *s, const struct engine *g, const struct ringup_op *op,
		 int64_t now_ns, struct finding *f)
{
	char who[320];
	bool in[4096];

	if (!look_who(g, op, in))
		return;
	if (f->shown == SHOWN) {
		f->more++;
		return;
	}
	say_who(s, g, in, who, sizeof(who));
	snprintf(f->text[f->shown++], TEXT, "%s %.*s has stalled for %.1f s: %s", kind_name(op),
		 NAME_SHOWN, name_of(op), (double)(now_ns - op->since_ns) / 1e9, who);
}

static void look_at(const struct stall *s, const struct engine *g, struct ringup_op *op,
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
	note(s, g, op, now_ns, f);
}

void stall_look(struct stall *s, struct engine *g, int64_t now_ns)
{
	struct finding f = { .shown = 0 };
	struct ringup_op *op;
	int i;

	pthread_mutex_lock(&g->lock);
	for (op = g->flying; op && !f.fatal; op = op->next)
		if (__atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == OP_FLYING)
			look_at(s, g, op, now_ns, &f);
	pthread_mutex_unlock(&g->lock);
	if (f.fatal && f.shown) {
		engine_alarm(g, RINGUP_ETIMEDOUT, f.text[f.shown - 1]);
		return;
	}
	for (i = 0; i < f.shown; i++)
		log_warn("%s", f.text[i]);
	if (f.more)
		log_warn("%d more tensors have stalled", f.more);
}
