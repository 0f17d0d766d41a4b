/* tcp_sum.c - the sums of the back end `tcp`: over ranks of this host, and over hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/tcp_state.h"
#include "coll/copy.h"
#include "coll/reduce.h"

/* Hosts that take part in sums along one dimension, and elements widened at a time. */
enum { SOURCES = GRID_PRIME + 1, BLOCK = 1024 };

static struct reduce how_to(const struct tcp *h, bool last)
{
	const struct plan *p = h->plan;
	struct reduce how = {
		.dtype = h->cut.wide ? RINGUP_F32 : p->dtype,
		.redop = p->redop,
		.divisor = (uint32_t)h->topo->size,
		.post = last ? p->post : 1,
	};

	if (!last && how.redop == RINGUP_AVERAGE)
		how.redop = RINGUP_SUM;
	return how;
}

/* Adds up to SOURCES vectors of f32, to f32 (@partial) or rounded (@result). */
static void combine_wide(struct tcp *h, const struct reduce *how, const float *const *src,
			 int n, uint64_t count, float *partial, unsigned char *result)
{
	uint64_t k;

	for (uint64_t at = 0; at < count; at += k) {
		const void *from[SOURCES];
		float block[BLOCK];
		void *to = partial ? partial + at : block;

		k = count - at < BLOCK ? count - at : BLOCK;
		for (int i = 0; i < n; i++)
			from[i] = src[i] + at;
		reduce_many(how, &to, 1, from, n, k);
		if (result)
			reduce_narrow(h->plan->dtype, result + at * h->cut.bytes, block, k);
	}
}

/* Where local rank @local's summands of a run of elements lie. */
static const unsigned char *share(const struct tcp *h, const struct cut_walk *w, int local)
{
	if (local == h->me && h->plan->pre == 1)
		return w->in;
	return tcp_slot(h, local, w->chunk) + w->first * h->cut.bytes;
}

static bool is_late(const struct in_flight *f)
{
	return f->round == 1 && f->late.end;
}

/* Streaming stores for a sum?  Not in place, where a result's lines have just been read. */
static bool is_streamed(const struct tcp *h, const struct cut_walk *w)
{
	return h->streaming && w->in != w->out && copy_sums_stream();
}

/* Adds up run by run of this rank's buffers: the last sums go there, and also to the slot,
 * unless f->out is set.  If late, this host's ranks' summands come in front of @src. */
static void combine_runs(struct tcp *h, struct in_flight *f, const struct reduce *how,
			 const void *const *src, int n, const struct step *t, bool last)
{
	const void *from[TCP_LOCAL + SOURCES];
	int i, shares = is_late(f) ? h->here : 0;
	bool places = last && !f->out;
	uint64_t size = h->cut.bytes;
	struct cut_walk w;

	cut_walk(&h->cut, &w, f->chunk, true, t->first, t->first + t->count);
	while (cut_next(&w)) {
		void *to[2] = { f->result + w.first * size, w.out };
		int ndst = places ? 2 : 1;

		for (i = 0; i < shares; i++)
			from[i] = share(h, &w, i);
		for (i = 0; i < n; i++)
			from[shares + i] =
				(const unsigned char *)src[i] + (w.first - t->first) * size;
		reduce_streaming(how, last && !places ? to + 1 : to, ndst,
				 places && is_streamed(h, &w) ? 1 : ndst, from, shares + n,
				 w.count);
	}
	if (places)
		f->placed = (struct range){ t->first, t->first + t->count };
}

/* At the end of a round: adds up the hosts' summands, in the order of the hosts. */
void tcp_combine(struct tcp *h, struct in_flight *f)
{
	bool last = f->round == h->last_sum, mine = is_late(f);
	const void *src[SOURCES];
	const struct step *t = NULL;
	struct reduce how = how_to(h, last);
	uint64_t size = tcp_wire_bytes(h);
	int n = 0;

	for (int i = 0; i < f->steps; i++) {
		const struct step *s = &f->step[i];

		if (s->round != f->round || s->kind != STEP_RECV_REDUCE)
			continue;
		t = s;
		if (s->peer > h->topo->host && !mine) {
			src[n++] = tcp_sums(f, f->round) + t->first * size;
			mine = true;
		}
		src[n++] = f->stage + f->stage_at[i];
	}
	if (!t || !t->count)
		return;
	if (!mine)
		src[n++] = tcp_sums(f, f->round) + t->first * size;
	if (h->cut.wide)
		combine_wide(h, &how, (const float *const *)src, n, t->count,
			     last ? NULL : (float *)(void *)f->partial + t->first,
			     last ? f->result + t->first * h->cut.bytes : NULL);
	else if (!collective_is(h->plan->kind, COLLECTIVE_ROWS))
		combine_runs(h, f, &how, src, n, t, last);
	else
		reduce_many(&how, &(void *){ f->partial + t->first * size }, 1, src, n,
			    t->count);
}

static void gather_wide(struct tcp *h, struct in_flight *f, const struct cut_walk *w)
{
	struct reduce how = how_to(h, h->grid.hosts == 1);
	float *sum = (float *)(void *)f->partial + w->first, block[BLOCK];
	enum ringup_dtype dtype = h->plan->dtype;
	uint64_t k;

	for (uint64_t at = 0; at < w->count; at += k) {
		void *to = sum + at;
		const void *from[2] = { to, block };

		k = w->count - at < BLOCK ? w->count - at : BLOCK;
		for (int r = 0; r < h->here; r++) {
			bool last = r == h->here - 1;
			struct reduce now = how;

			if (!last) {
				now.post = 1;
				now.redop =
					now.redop == RINGUP_AVERAGE ? RINGUP_SUM : now.redop;
			}
			reduce_widen(dtype, r ? block : to, share(h, w, r) + at * h->cut.bytes,
				     k);
			if (r || h->grid.hosts == 1)
				reduce_many(&now, &to, 1, from, r ? 2 : 1, k);
		}
		if (h->grid.hosts == 1)
			reduce_narrow(dtype, f->result + (w->first + at) * h->cut.bytes, to, k);
	}
}

static void gather_run(struct tcp *h, struct in_flight *f, const struct cut_walk *w)
{
	struct reduce how = how_to(h, h->grid.hosts == 1);
	void *to = f->partial + w->first * h->cut.bytes;
	const void *src[TCP_LOCAL];

	if (h->here == 1 && h->grid.hosts > 1 && h->plan->pre == 1) {
		copy_bytes(to, w->in, w->count * h->cut.bytes);
		return;
	}
	for (int r = 0; r < h->here; r++)
		src[r] = share(h, w, r);
	reduce_many(&how, &to, 1, src, h->here, w->count);
}

void tcp_gather(struct tcp *h, struct in_flight *f, uint64_t first, uint64_t end)
{
	struct cut_walk w;

	if (!tcp_adds(h) || f->in)
		return;
	cut_walk(&h->cut, &w, f->chunk, false, first, end);
	while (cut_next(&w)) {
		if (h->cut.wide)
			gather_wide(h, f, &w);
		else
			gather_run(h, f, &w);
	}
}
