/* stall.c - stall inspector: tensors that some ranks have submitted and others have not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/stall.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/agree.h"
#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/coordinator.h"
#include "engine/eager.h"
#include "engine/engine_state.h"
#include "engine/heartbeat.h"
#include "engine/ledger.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/op_text.h"
#include "engine/over.h"
#include "engine/p2p.h"
#include "engine/tree.h"
#include "ringup.h"
#include "wire/observe.h"
#include "wire/ranks.h"

enum {
	MS = 1000000,
	SHOWN = 3, /* tensors named at a time; the rest are counted */
	TEXT = 896,
	REPORT_MS =
		2000, /* leaders tell the root what waits, for `ringup hang`, from then on */
	MOST_WARNINGS = 20, /* of doubling times: longer than any job */
};

/* The findings of one look: collected with the engine's lock, logged without. */
struct finding {
	char text[SHOWN][TEXT];
	int shown, more;
	bool fatal;
};

int stall_open(struct stall *s, const struct heartbeat_rules *r,
	       const struct heartbeat_peer *peer, int size, struct err *e)
{
	pthread_mutex_init(&s->lock, NULL);
	s->warn_ns = r->stall_warn_ms ? (int64_t)r->stall_warn_ms * MS : INT64_MAX;
	s->abort_ns = r->stall_abort_ms ? (int64_t)r->stall_abort_ms * MS : INT64_MAX;
	s->tick_ns = (int64_t)r->tick_ms * MS;
	s->peer = peer;
	s->size = size;
	for (int i = 0; i < STALL_BOARD; i++) {
		s->board[i].in = calloc((size_t)size, sizeof(bool));
		if (!s->board[i].in)
			return fail(e, RINGUP_ENOMEM, "no memory to look for stalls");
	}
	return 0;
}

void stall_close(struct stall *s)
{
	if (s->size)
		pthread_mutex_destroy(&s->lock);
	for (int i = 0; i < STALL_BOARD; i++)
		free(s->board[i].in);
	memset(s, 0, sizeof(*s));
}

/* "ranks 0, 1 of 3 wait for rank 2 (process 123 on node-b)" */
static void say_who(const struct stall *s, const bool *waiting, const bool *missing, char *out,
		    size_t size)
{
	char here[RANKS_TEXT], there[RANKS_TEXT];
	int count = 0, one = -1;

	for (int r = 0; r < s->size; r++) {
		count += missing[r];
		one = missing[r] ? r : one;
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
		snprintf(out, size, "all ranks have submitted it, but it does not complete");
}

/* Has @rank, of this host, submitted @op? */
static bool stall_is_in(const struct comm *c, const struct ringup_op *op, int rank)
{
	int local = c->topo.local_of ? c->topo.local_of[rank] : rank;

	return rank == c->topo.rank || (c->ledger && ledger_is_busy(c->ledger, op->id, local));
}

/* Finds the ranks of this host that have submitted @op; true if this rank is the first. */
static bool look_who(const struct comm *c, const struct ringup_op *op, bool *in)
{
	int first = -1;

	memset(in, 0, (size_t)c->topo.size * sizeof(*in));
	for (int r = c->topo.size - 1; r >= 0; r--) {
		in[r] = comm_is_here(c, r) && stall_is_in(c, op, r);
		first = in[r] ? r : first;
	}
	return first == c->topo.rank;
}

const char *stall_match(const char *name)
{
	return *name == '#'
		       ? "ranks match unnamed operations by number: start the same ones, or "
			 "name them"
		       : "ranks match operations by name: use one name on all ranks";
}

/* Ranks that wait for the same under two names wait for ever: says so to @out, which is empty
 * otherwise.  @mine and @theirs: a rank that waits, and one of those that it waits for. */
static void say_names(int mine, const char *name, int theirs, const char *other, char *out,
		      size_t size)
{
	snprintf(out, size, "; rank %d calls it %.64s, rank %d calls it %.64s: %s", mine, name,
		 theirs, other, stall_match(name));
}

/* Has a rank of this host that has not submitted @op submitted the same under another name,
 * which the ranks that wait, @in, have not?  Returns that rank, or -1. */
static int find_other_name(const struct comm *c, const struct ringup_op *op, const bool *in,
			   char *other, size_t size)
{
	uint32_t used = c->ledger ? ledger_used(c->ledger) : 0;
	struct op_signature s;
	int rank, local;

	for (uint32_t id = 0; id < used; id++) {
		rank = -1;
		for (int r = c->topo.size - 1; r >= 0 && id != op->id; r--) {
			local = c->topo.local_of ? c->topo.local_of[r] : r;
			if (!comm_is_here(c, r) || !ledger_is_busy(c->ledger, id, local))
				continue;
			if (in[r]) {
				rank = -1;
				break;
			}
			if (ledger_signature(c->ledger, id, local, &s) &&
			    op_signature_equal(&s, &op->ask.signature))
				rank = r;
		}
		if (rank >= 0 && ledger_tell(c->ledger, id, other, size))
			return rank;
	}
	return -1;
}

static void note(const struct stall *s, const struct comm *c, const struct ringup_op *op,
		 int64_t now_ns, struct finding *f)
{
	char who[320], what[OP_TEXT_WHAT], names[320] = "", other[STALL_NAME];
	int theirs;
	bool in[COORDINATOR_RANKS], waiting[COORDINATOR_RANKS] = { false },
				    missing[COORDINATOR_RANKS] = { false };

	if (!look_who(c, op, in))
		return;
	if (f->shown == SHOWN) {
		f->more++;
		return;
	}
	/* By their numbers in the world. */
	for (int r = 0; r < c->topo.size; r++) {
		waiting[ranks_in_world(c->ranks, r)] = in[r];
		missing[ranks_in_world(c->ranks, r)] = !in[r] && c->ledger;
	}
	say_who(s, waiting, missing, who, sizeof(who));
	theirs = find_other_name(c, op, in, other, sizeof(other));
	if (theirs >= 0)
		say_names(ranks_in_world(c->ranks, c->topo.rank), op_text_name(op),
			  ranks_in_world(c->ranks, theirs), other, names, sizeof(names));
	snprintf(f->text[f->shown++], TEXT, "%s has stalled for %.1f s: %s%s",
		 op_text_what(op->ask.signature.kind, op_text_name(op), what),
		 (double)(now_ns - op->since_ns) / 1e9, who, names);
}

/* Has a joined rank been called since the last look?  Then other ranks go on, and its join does
 * not wait in vain. */
static bool goes_on(struct comm *c, const struct ledger *of)
{
	uint64_t was = c->calls_looked;

	c->calls_looked = of ? ledger_calls(of) : 0;
	return c->calls_looked != was;
}

static void stall_look_at(const struct stall *s, const struct comm *c, struct ringup_op *op,
			  bool going_on, int64_t now_ns, struct finding *f)
{
	int64_t age = now_ns - op->since_ns;

	if (!op->since_ns || (going_on && op->ask.signature.kind == OP_JOIN)) {
		op->since_ns = now_ns;
		op->warnings = 0;
		return;
	}
	if (age >= s->abort_ns)
		f->fatal = true;
	else if (s->warn_ns > age >> op->warnings || op->warnings == MOST_WARNINGS)
		return;
	op->warnings++;
	note(s, c, op, now_ns, f);
}

/* ---- ranks that are waited for ---- */

/* The first rank of @set whose process is stopped, traced, in the kernel or dead; -1: there is
 * none.  Only processes of this host can be inspected. */
static int find_stopped(const struct stall *s, const struct comm *c, const bool *set,
			char *state, size_t len)
{
	int w;

	for (int r = 0; r < c->topo.size; r++) {
		w = ranks_in_world(c->ranks, r);
		if (!set[w] || !comm_is_here(c, r))
			continue;
		heartbeat_state(s->peer[w].pid, state, len);
		if (strstr(state, "(state T)") || strstr(state, "(state t)") ||
		    strstr(state, "(state D)") || strstr(state, "(state Z)"))
			return w;
	}
	return -1;
}

static void rank_text(const struct stall *s, int rank, char *out, size_t len)
{
	snprintf(out, len, "rank %d (process %d on %.60s)", rank, s->peer[rank].pid,
		 s->peer[rank].host);
}

static void describe_message(const struct stall *s, const struct comm *c,
			     const struct ringup_op *op, char *out, size_t len)
{
	bool peer[COORDINATOR_RANKS] = { false };
	char what[128], who[128] = "no rank", state[64] = "";

	op_text_message(&op->p2p, &op->ask.signature, what, sizeof(what));
	if (op->p2p.peer >= 0) {
		rank_text(s, op->p2p.peer, who, sizeof(who));
		peer[op->p2p.peer] = true;
		if (find_stopped(s, c, peer, state, sizeof(state)) < 0)
			state[0] = 0;
	}
	snprintf(out, len, "%s is not complete in time: %s has not %s it%s%s", what, who,
		 op->p2p.is_send ? "received" : "sent", *state ? ": " : "", state);
}

/* Finds the ranks that had not started the operation in time, and those of other hosts that do
 * not answer.  Returns false if the job has ended, so that other hosts cannot be asked. */
static bool find_missing(struct comm *c, const struct op_late *late, bool *missing,
			 bool *silent)
{
	unsigned char answer[COORDINATOR_RANKS];
	bool asks = c->topo.hosts > 1 && c->engine->p2p && !op_is_done(late->op);
	bool asked = asks && p2p_ask(c->engine->p2p, c, late->op, answer);
	int w;

	/* Ranks that have completed it meanwhile had started it. */
	asks &= !op_is_done(late->op);

	for (int r = 0; r < c->topo.size; r++) {
		w = ranks_in_world(c->ranks, r);
		missing[w] = comm_is_here(c, r) ? op_was_missing(late, r)
						: asks && asked && answer[w] == P2P_NOT_STARTED;
		silent[w] = !comm_is_here(c, r) && asks && (!asked || answer[w] == P2P_SILENT);
	}
	return c->topo.hosts == 1 || !over_comm(c, NULL) ||
	       (op_is_done(late->op) && !late->op->status);
}

/* "rank 1 (process 12 on node-b)", or "ranks 1, 2 of 4"; returns the number of ranks. */
static int set_text(const struct stall *s, const bool *set, char *out, size_t len)
{
	char many[RANKS_TEXT];
	int one = -1, count = 0;

	for (int r = 0; r < s->size; r++) {
		count += set[r];
		one = set[r] ? r : one;
	}
	if (count == 1)
		rank_text(s, one, out, len);
	else
		snprintf(out, len, "%s", ranks_text(many, set, s->size));
	return count;
}

/* The ranks that have not started the operation, as far as this rank knows. */
static void describe_missing(const struct stall *s, const struct comm *c,
			     const struct op_late *late, const bool *missing,
			     const bool *silent, char *out, size_t len)
{
	bool here[COORDINATOR_RANKS] = { false };
	char who[RANKS_TEXT], one[RANKS_TEXT], state[64];
	int r, count, mute = set_text(s, silent, who, sizeof(who));

	for (r = 0; r < c->topo.size; r++)
		here[ranks_in_world(c->ranks, r)] = comm_is_here(c, r) && r != c->topo.rank;
	if (mute) {
		count = set_text(s, missing, one, sizeof(one));
		snprintf(out, len, "%s do%s not answer%s%s", who, mute > 1 ? "" : "es",
			 count ? "; it was not started by " : "", count ? one : "");
		return;
	}
	count = set_text(s, missing, who, sizeof(who));
	r = find_stopped(s, c, count ? missing : here, state, sizeof(state));
	if (r >= 0)
		rank_text(s, r, one, sizeof(one));
	if (count == 1)
		snprintf(out, len, "%s has not started it%s%s", who, r < 0 ? "" : ": ",
			 r < 0 ? "" : state);
	else if (count && r >= 0)
		snprintf(out, len, "%s have not started it; of %s: %s", who, one, state);
	else if (count)
		snprintf(out, len, "%s have not started it", who);
	else if (r >= 0)
		snprintf(out, len, "%s has started it, and %s", one, state);
	else
		snprintf(out, len, "all ranks have started it, and it %s",
			 op_is_done(late->op) ? "has ended since" : "is being carried out");
}

void stall_describe(const struct stall *s, struct comm *c, const struct op_late *late,
		    char *out, size_t len)
{
	bool missing[COORDINATOR_RANKS] = { false }, silent[COORDINATOR_RANKS] = { false };
	const struct ringup_op *op = late->op;
	char what[OP_TEXT_WHAT];
	struct err why;
	int n;

	if (!op->entry) {
		describe_message(s, c, op, out, len);
		return;
	}
	op_text_what(op->ask.signature.kind, op_text_name(op), what);
	n = snprintf(out, len, "%.*s is not complete in time: ", STALL_NAME, what);
	out += n;
	len -= (size_t)n;
	if (find_missing(c, late, missing, silent))
		describe_missing(s, c, late, missing, silent, out, len);
	else if (over_comm(c, &why))
		snprintf(out, len, "%s", why.text);
}

/* ---- several hosts: reports of leaders ---- */

/* A report as sent over the wire: little-endian, no holes; pairs of first and last waiting
 * ranks follow, by their numbers in the world. */
struct report {
	uint64_t group;
	uint32_t age_ms, kind, pairs, like; /* like: a hash of the signature; 0: unknown */
	char name[STALL_NAME];
};
enum { PAIRS = (COORDINATOR_REPORT - sizeof(struct report)) / 8 };

/* A leader also holds ids for other hosts' tensors, so the ledger does not tell its own
 * operations.  The holder of the lock may be waiting for a frozen rank, which only this thread
 * would notice: so this does not wait for the lock, and the next look reports what this one
 * misses. */
static bool is_flying(struct comm *c, uint32_t id)
{
	struct ringup_op *op;
	bool found = false;

	if (!lock_try(&c->lock))
		return false;
	for (op = c->flying; op && !found; op = op->next)
		found = op->id == id && !op_is_done(op);
	lock_give(&c->lock);
	return found;
}

/* Lists this host's ranks that wait for @id, by world rank; returns the number of pairs. */
static uint32_t list_waiting(struct comm *c, const struct ledger *of, uint32_t id,
			     uint32_t (*pair)[2])
{
	uint32_t n = 0, w;
	bool in;

	for (int r = 0; r < c->topo.size; r++) {
		if (!comm_is_here(c, r))
			continue;
		in = r == c->topo.rank
			     ? is_flying(c, id)
			     : ledger_is_busy(of, id,
					      c->topo.local_of ? c->topo.local_of[r] : r);
		w = (uint32_t)ranks_in_world(c->ranks, r);
		if (in && n && pair[n - 1][1] + 1 == w) {
			pair[n - 1][1]++;
		} else if (in && n < PAIRS) {
			pair[n][0] = pair[n][1] = w;
			n++;
		}
	}
	return n;
}

static bool report(struct comm *c, uint32_t id, int64_t age_ns)
{
	struct {
		struct report head;
		uint32_t pair[PAIRS][2];
	} x = { .head = { .group = c->serial, .age_ms = (uint32_t)(age_ns / MS) } };
	const struct ledger *of = c->ledger;
	int local = c->topo.local_rank;
	struct op_signature s;

	x.head.pairs = list_waiting(c, of, id, x.pair);
	if (!x.head.pairs)
		return false;
	for (int r = c->topo.size - 1; r >= 0; r--)
		if (ranks_in_world(c->ranks, r) == (int)x.pair[0][0])
			local = c->topo.local_of[r];
	x.head.kind = ledger_kind(of, id, local);
	if (ledger_signature(of, id, local, &s))
		x.head.like = op_signature_hash(&s);
	/* As in is_flying(). */
	if (!ledger_tell(of, id, x.head.name, sizeof(x.head.name)))
		return false;
	tree_report(c->agree->tree, &x, sizeof(x.head) + x.head.pairs * sizeof(x.pair[0]));
	return true;
}

static bool is_join(const struct ledger *of, uint32_t id)
{
	for (int r = 0; r < of->ranks; r++)
		if (ledger_is_busy(of, id, r) && ledger_kind(of, id, r) == OP_JOIN)
			return true;
	return false;
}

/* Reports tensors that some ranks of this host have had in flight alone for too long. */
static void look_at_host(struct stall *s, struct comm *c, bool silence, int64_t now_ns)
{
	int64_t limit = s->warn_ns < s->abort_ns ? s->warn_ns : s->abort_ns;
	int64_t early = (int64_t)REPORT_MS * MS;
	const struct ledger *of = c->ledger;
	uint32_t id, used = ledger_used(of);
	bool going_on = goes_on(c, of);
	int reported = 0;

	/* Groups come and go; without memory for this group now, a later look may have some. */
	if (!c->seen)
		c->seen = calloc(LEDGER_IDS, sizeof(*c->seen));
	for (id = 0; c->seen && id < used && reported < STALL_BOARD; id++) {
		uint64_t arrived = ledger_arrived(of, id);
		struct stall_seen *x = &c->seen[id];

		if (arrived != x->arrived || !x->since_ns || silence ||
		    (going_on && is_join(of, id))) {
			*x = (struct stall_seen){ arrived, now_ns };
			continue;
		}
		if (now_ns - x->since_ns < (limit < early ? limit : early))
			continue;
		reported += report(c, id, now_ns - x->since_ns);
	}
}

/* A tensor that no leader reports any more is complete. */
static bool is_old(const struct stall *s, const struct stall_entry *t, int64_t now_ns)
{
	return now_ns - t->last_ns > 4 * s->tick_ns;
}

static struct stall_entry *stall_entry_of(struct stall *s, uint64_t group, const char *name,
					  int64_t now_ns)
{
	struct stall_entry *spare = NULL;

	for (int i = 0; i < STALL_BOARD; i++) {
		struct stall_entry *t = &s->board[i];

		if (t->first_ns && is_old(s, t, now_ns))
			t->first_ns = 0;
		if (!t->first_ns)
			spare = t;
		else if (t->group == group && !strncmp(t->name, name, STALL_NAME))
			return t;
	}
	return spare;
}

void stall_take(struct stall *s, const void *data, size_t len)
{
	struct stall_entry *t;
	struct report r;
	uint32_t pair[2], i;
	int64_t now = clock_ns();

	if (!s->size || len < sizeof(r))
		return;
	memcpy(&r, data, sizeof(r));
	r.name[STALL_NAME - 1] = 0;
	if (r.pairs > PAIRS || len != sizeof(r) + r.pairs * sizeof(pair))
		return;
	pthread_mutex_lock(&s->lock);
	t = stall_entry_of(s, r.group, r.name, now);
	if (t && !t->first_ns) {
		t->group = r.group;
		memcpy(t->name, r.name, sizeof(t->name));
		t->kind = r.kind;
		t->like = r.like;
		t->warnings = 0;
		t->first_ns = now;
		t->since_ns = now - (int64_t)r.age_ms * MS;
		memset(t->in, 0, (size_t)s->size * sizeof(*t->in));
	}
	for (i = 0; t && i < r.pairs; i++) {
		memcpy(pair, (const char *)data + sizeof(r) + i * sizeof(pair), sizeof(pair));
		for (; pair[0] <= pair[1] && pair[0] < (uint32_t)s->size; pair[0]++)
			t->in[pair[0]] = true;
	}
	if (t)
		t->last_ns = now;
	pthread_mutex_unlock(&s->lock);
}

/* Is a warning due?  Other leaders get two ticks to report the tensor, too. */
static bool is_due(const struct stall *s, struct stall_entry *t, int64_t now_ns)
{
	int64_t age = now_ns - t->since_ns;

	if (is_old(s, t, now_ns)) {
		t->first_ns = 0;
		return false;
	}
	if (now_ns - t->first_ns < 2 * s->tick_ns)
		return false;
	return age >= s->abort_ns ||
	       (s->warn_ns <= age >> t->warnings && t->warnings < MOST_WARNINGS);
}

static void forget_board(struct stall *s)
{
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < STALL_BOARD; i++)
		s->board[i].first_ns = 0;
	pthread_mutex_unlock(&s->lock);
}

static int first_in(const struct stall *s, const bool *in)
{
	int r = 0;

	while (r < s->size - 1 && !in[r])
		r++;
	return r;
}

/* At the root: says so if other ranks have submitted the same as @t under another name. */
static void say_other_name(const struct stall *s, const struct stall_entry *t, int64_t now_ns,
			   char *out, size_t size)
{
	const struct stall_entry *x;
	bool both;

	*out = 0;
	for (int i = 0; i < STALL_BOARD && t->like; i++) {
		x = &s->board[i];
		if (x == t || !x->first_ns || is_old(s, x, now_ns) || x->group != t->group ||
		    x->kind != t->kind || x->like != t->like)
			continue;
		both = false;
		for (int r = 0; r < s->size; r++)
			both |= x->in[r] && t->in[r];
		if (both)
			continue;
		say_names(first_in(s, t->in), t->name, first_in(s, x->in), x->name, out, size);
		return;
	}
}

/* At the root: finds the ranks that have not reported a tensor that other ranks wait for. */
static void look_at_board(struct stall *s, const struct comm *c, int64_t now_ns,
			  struct finding *f)
{
	char who[320], what[OP_TEXT_WHAT], names[320];
	bool missing[COORDINATOR_RANKS] = { false };

	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < STALL_BOARD && !f->fatal; i++) {
		struct stall_entry *t = &s->board[i];

		if (!t->first_ns || t->group != c->serial || !is_due(s, t, now_ns))
			continue;
		t->warnings++;
		f->fatal = now_ns - t->since_ns >= s->abort_ns;
		if (f->shown == SHOWN) {
			f->more++;
			f->shown -= f->fatal;
		}
		if (f->shown == SHOWN)
			continue;
		for (int r = 0; r < c->topo.size; r++)
			missing[ranks_in_world(c->ranks, r)] =
				!t->in[ranks_in_world(c->ranks, r)];
		say_who(s, t->in, missing, who, sizeof(who));
		say_other_name(s, t, now_ns, names, sizeof(names));
		snprintf(f->text[f->shown++], TEXT, "%s has stalled for %.1f s: %s%s",
			 op_text_what(t->kind, t->name, what),
			 (double)(now_ns - t->since_ns) / 1e9, who, names);
	}
	pthread_mutex_unlock(&s->lock);
}

int stall_reported(struct stall *s, const struct comm *c, int64_t now_ns,
		   struct observe_wait *out, int most)
{
	char what[OP_TEXT_WHAT];
	int n = 0, rank;

	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < STALL_BOARD && n < most; i++) {
		const struct stall_entry *t = &s->board[i];
		struct observe_wait *w = &out[n];

		if (!t->first_ns || t->group != c->serial || is_old(s, t, now_ns) ||
		    now_ns - t->first_ns < 2 * s->tick_ns)
			continue;
		*w = (struct observe_wait){ .comm = c->serial,
					    .since_ns = t->since_ns,
					    .flags = OBSERVE_ALL | OBSERVE_OTHERS,
					    .peer = -1,
					    .size = c->topo.size };
		snprintf(w->what, sizeof(w->what), "%s", op_text_what(t->kind, t->name, what));
		for (int r = 0; r < c->topo.size; r++) {
			rank = ranks_in_world(c->ranks, r);
			if (t->in[rank])
				w->waiting++;
			else if (w->missing++ < OBSERVE_MISSING)
				w->who[w->missing - 1] = rank;
		}
		n++;
	}
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* ---- one look at all communicators ---- */

struct look {
	struct stall *stall;
	struct finding found;
	bool silence;
	int64_t now_ns;
};

/* Each rank warns of its own messages. */
static void look_at_message(struct look *look, struct ringup_op *op)
{
	struct finding *f = &look->found;
	int64_t age = look->now_ns - op->since_ns;
	char what[128];

	if (!op->since_ns || look->silence) {
		op->since_ns = look->now_ns;
		op->warnings = 0;
		return;
	}
	if (age >= look->stall->abort_ns)
		f->fatal = true;
	else if (look->stall->warn_ns > age >> op->warnings || op->warnings == MOST_WARNINGS)
		return;
	op->warnings++;
	if (f->shown == SHOWN) {
		f->more++;
		return;
	}
	op_text_message(&op->p2p, &op->ask.signature, what, sizeof(what));
	snprintf(f->text[f->shown++], TEXT,
		 "%s has stalled for %.1f s: the other side has not "
		 "started its part",
		 what, (double)age / 1e9);
}

static bool is_flying_message(const struct ringup_op *op)
{
	return !op->entry && __atomic_load_n(&op->state, __ATOMIC_ACQUIRE) == OP_FLYING;
}

static void look_at_messages(struct look *look, struct comm *c)
{
	struct ringup_op *op;

	/* See is_flying(). */
	if (!p2p_is_used(c->engine->p2p) || !lock_try(&c->lock))
		return;
	for (op = c->flying; op && !look->found.fatal; op = op->next)
		if (is_flying_message(op))
			look_at_message(look, op);
	lock_give(&c->lock);
}

static void look_at_comm(struct comm *c, void *arg)
{
	struct look *look = arg;
	struct ringup_op *op;
	bool going_on, any = false;

	look_at_messages(look, c);
	if (c->topo.hosts > 1) {
		if (c->topo.local_rank == 0)
			look_at_host(look->stall, c, look->silence, look->now_ns);
		if (c->topo.rank == 0 && !look->silence)
			look_at_board(look->stall, c, look->now_ns, &look->found);
		return;
	}
	/* See is_flying(). */
	if (!lock_try(&c->lock))
		return;
	going_on = goes_on(c, c->ledger);
	for (op = c->flying; op && !look->found.fatal; op = op->next)
		if (!op->entry || op->proxy ||
		    __atomic_load_n(&op->state, __ATOMIC_ACQUIRE) != OP_FLYING)
			continue;
		else if (eager_look(c, op)) /* complete, but no thread had looked */
			any = true;
		else
			stall_look_at(look->stall, c, op, going_on, look->now_ns, &look->found);
	lock_give(&c->lock);
	if (any)
		notify_completed(c->engine);
}

void stall_look(struct stall *s, struct engine *g, bool silence, int64_t now_ns)
{
	struct look look = { .stall = s, .silence = silence, .now_ns = now_ns };
	struct finding *f = &look.found;

	if (silence)
		forget_board(s);
	comms_visit(g, look_at_comm, &look);
	if (f->fatal && f->shown) {
		/* Not ETIMEDOUT, which tells the caller that the operation goes on. */
		notify_alarm(g, -1, RINGUP_EABORTED, f->text[f->shown - 1]);
		return;
	}
	for (int i = 0; i < f->shown; i++)
		log_warn("%s", f->text[i]);
	if (f->more)
		log_warn("%d more tensors have stalled", f->more);
	/* An unattended job would wait without end. */
	if (f->shown && s->abort_ns == INT64_MAX && !s->hinted) {
		s->hinted = true;
		log_warn("nothing ends a stalled job: set RINGUP_STALL_ABORT_MS=600000 or "
			 "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=600 to end it after 10 minutes");
	}
}
