/* tcp_in_flight.c - the steps of a chunk between hosts, on the rank that owns it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "backend/relay.h"
#include "backend/tcp_state.h"
#include "base/err.h"

bool tcp_slots_free(struct tcp *h, uint64_t k)
{
	uint64_t g = h->base + k;

	if (g < h->slot_count || h->free_seen > g - h->slot_count)
		return true;
	for (int r = 0; r < h->here; r++)
		if (!tcp_above(&h->counters[r].took, g - h->slot_count))
			return false;
	h->free_seen = g - h->slot_count + 1;
	return true;
}

static enum sweep_kind sweep_kind(const struct plan *p)
{
	switch (p->kind) {
	case PLAN_BROADCAST:
		return SWEEP_BROADCAST;
	case PLAN_ALLGATHER:
		return SWEEP_ALLGATHER;
	case PLAN_REDUCESCATTER:
		return SWEEP_REDUCESCATTER;
	case PLAN_ALLTOALL:
		return SWEEP_EXCHANGE;
	case PLAN_ALLREDUCE:
	case PLAN_BARRIER:
		break;
	}
	return SWEEP_ALLREDUCE;
}

static int root_host(const struct tcp *h)
{
	if (!collective_is(h->plan->kind, COLLECTIVE_ROOT) || !h->topo->host_of)
		return 0;
	return h->topo->host_of[h->plan->root];
}

/*
 * May the local ranks' summands for round 1 be added up only in that round, in front of the
 * other hosts' summands?  The sum is the same to the bit if this host is the first or the
 * second of them, since two summands may change places.
 */
static bool may_be_late(const struct tcp *h)
{
	return h->plan->kind == PLAN_ALLREDUCE && !h->cut.wide &&
	       h->grid.hosts == h->grid.cells && h->grid.hosts > 1 &&
	       grid_digit(&h->grid, h->topo->host, 0) <= 1 && h->plan->redop != RINGUP_MIN &&
	       h->plan->redop != RINGUP_MAX;
}

/* A rank that is alone on its host needs no slot if the chunk lies in one piece. */
static void find_own(struct tcp *h, struct in_flight *f)
{
	struct cut_walk w;

	f->in = f->out = NULL;
	if (h->here > 1 || h->plan->kind != PLAN_ALLREDUCE || h->cut.wide ||
	    h->plan->pre != 1 || h->grid.hosts > h->grid.cells || h->grid.hosts == 1)
		return;
	cut_walk(&h->cut, &w, f->chunk, true, 0, UINT64_MAX);
	if (!cut_next(&w) || w.count < cut_elements(&h->cut, f->chunk))
		return;
	f->in = w.in;
	f->out = w.out;
	f->placed.end = UINT64_MAX;
}

static bool is_relayed(const struct tcp *h)
{
	return collective_is(h->plan->kind, COLLECTIVE_SPLITS) && h->cut.relays;
}

static int steps_of(struct tcp *h, struct in_flight *f)
{
	struct sweep s = { .kind = sweep_kind(h->plan),
			   .whole = h->whole,
			   .root = root_host(h) };

	if (h->grid.hosts == 1)
		return 0;
	if (is_relayed(h))
		return relay_steps(&h->cut, f->chunk, f->step);
	s.start = cut_vector(&h->cut, f->chunk, &s.into);
	return sweep_steps(&h->grid, h->topo->host, &s, f->step);
}

static void make_steps(struct tcp *h, struct in_flight *f)
{
	uint64_t staged = 0;

	f->steps = steps_of(h, f);
	memset(f->due, 0, sizeof(f->due));
	f->late = f->placed = (struct range){ 0, 0 };
	find_own(h, f);
	for (int i = 0; i < f->steps; i++) {
		const struct step *t = &f->step[i];

		f->come[i] = false;
		if (t->kind != STEP_SEND)
			f->due[t->round]++;
		if (t->kind == STEP_RECV_REDUCE) {
			f->stage_at[i] = staged;
			staged += t->count * tcp_wire_bytes(h);
			if (t->round == 1 && !h->whole && !f->in && may_be_late(h))
				f->late = (struct range){ t->first, t->first + t->count };
		}
	}
}

static uint64_t chunk_of(const struct tcp *h, uint64_t nth)
{
	return nth * (uint64_t)h->rails + (uint64_t)h->me;
}

bool tcp_open_next(struct tcp *h)
{
	uint64_t k = chunk_of(h, h->next_open);
	struct in_flight *f = &h->in_flight[h->next_open % TCP_IN_FLIGHT];

	if (!h->owns || k >= h->cut.chunks || f->open || !tcp_slots_free(h, k))
		return false;
	f->open = true;
	f->gathered = f->done = false;
	f->chunk = k;
	f->round = -1;
	f->sending = 0;
	f->result = tcp_slot(h, h->me, k);
	f->partial = h->cut.wide ? f->wide : f->result;
	make_steps(h, f);
	h->next_open++;
	mail_look(&h->mail);
	return true;
}

int tcp_place(void *ctx, int host, const struct mail_head *m, struct mail_in *in, struct err *e)
{
	struct tcp *h = ctx;
	uint64_t nth = m->chunk / (uint64_t)h->rails;
	struct in_flight *f = &h->in_flight[nth % TCP_IN_FLIGHT];

	if (m->chunk >= h->cut.chunks || tcp_owner(h, m->chunk) != h->me || nth < h->next_out)
		return fail(e, RINGUP_EMISMATCH, "a message for chunk %llu",
			    (unsigned long long)m->chunk);
	if (nth >= h->next_open)
		return 0;
	for (int i = 0; i < f->steps; i++) {
		const struct step *t = &f->step[i];
		bool sum = t->kind == STEP_RECV_REDUCE;
		uint64_t size = sum ? tcp_wire_bytes(h) : h->cut.bytes;

		if (t->kind == STEP_SEND || t->peer != host || (uint32_t)t->round != m->round ||
		    f->come[i] || m->bytes != t->count * size)
			continue;
		f->come[i] = true;
		in->to = sum ? f->stage + f->stage_at[i]
			     : (f->out ? f->out : f->result) + t->first * size;
		in->left = m->bytes;
		in->due = &f->due[t->round];
		return 1;
	}
	return fail(e, RINGUP_EMISMATCH, "a message of %llu bytes in round %u",
		    (unsigned long long)m->bytes, m->round);
}

static void send_step(struct tcp *h, struct in_flight *f, int i)
{
	const struct step *t = &f->step[i];
	bool sum = tcp_adds(h) && t->round <= h->grid.dims;
	uint64_t size = sum ? tcp_wire_bytes(h) : h->cut.bytes;
	struct mail_out *o = &f->mail[i];

	o->data = (sum ? tcp_sums(f, t->round) : f->out ? f->out : f->result) + t->first * size;
	o->pending = &f->sending;
	o->head.chunk = f->chunk;
	o->head.bytes = t->count * size;
	o->head.round = (uint32_t)t->round;
	o->head.none = 0;
	f->sending++;
	mail_post(&h->mail, t->peer, o);
}

/* Have all ranks of this host contributed that should? */
static bool all_put(const struct tcp *h, uint64_t k)
{
	const struct topo *t = h->topo;

	if (collective_is(h->plan->kind, COLLECTIVE_ROOT) && t->host_of &&
	    t->host_of[h->plan->root] != t->host)
		return true;
	for (int r = 0; r < h->here; r++)
		if (!tcp_above(&h->counters[r].in, h->base + k))
			return false;
	return true;
}

static void begin_round(struct tcp *h, struct in_flight *f)
{
	f->round++;
	if (is_relayed(h))
		relay_fill(&h->cut, f->chunk, f->round, f->result);
	for (int i = 0; i < f->steps; i++)
		if (f->step[i].round == f->round && f->step[i].kind == STEP_SEND)
			send_step(h, f, i);
}

bool tcp_advance(struct tcp *h, struct in_flight *f)
{
	bool any = false;

	if (!f->open || f->done)
		return false;
	if (!f->gathered) {
		if (!all_put(h, f->chunk))
			return false;
		if (f->late.first)
			tcp_gather(h, f, 0, f->late.first);
		tcp_gather(h, f, f->late.end, UINT64_MAX);
		f->gathered = any = true;
		begin_round(h, f);
	}
	while (!f->sending && !f->due[f->round]) {
		any = true;
		if (tcp_adds(h))
			tcp_combine(h, f);
		if (f->round == 2 * h->grid.dims + 1) {
			f->done = true;
			break;
		}
		begin_round(h, f);
	}
	return any;
}

bool tcp_deliver(struct tcp *h)
{
	struct in_flight *f = &h->in_flight[h->next_out % TCP_IN_FLIGHT];

	if (h->next_out == h->next_open || !f->done)
		return false;
	f->open = false;
	h->next_out++;
	tcp_publish(h, &h->counters[h->me].out, h->base + f->chunk + 1);
	return true;
}
