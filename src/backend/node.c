/* node.c - the back end of ranks that share memory: in place, in chunks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "backend/backend.h"
#include "backend/pair.h"
#include "backend/stay.h"
#include "base/err.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "wire/foreign.h"
#include "wire/segment.h"
#include "wire/share.h"

/*
 * Every rank has four slots of 64 KiB.  A plan is cut into chunks that fit a
 * slot; chunk g of all that ever ran here uses slot g mod 4.  Two counters per
 * rank, each written by that rank only:
 *
 *	in  > g   my slot holds what I contribute to chunk g
 *	out > g   I have done my work on the others' slots for chunk g
 *
 * Allreduce, in place: each rank owns a slice of the chunk.  It adds up its
 * slice in rank order, its own part from its own buffer and the others' from
 * their slots, and writes the sum to its buffer and back INTO their slots; then
 * everybody copies the foreign slices out of its own slot.  So each line
 * crosses twice, and nothing is invalidated that was not just read.
 *
 * Broadcast and allgather: who has data puts it into its slot, the others copy
 * it out of there.
 *
 * Reduce-scatter and all-to-all: a slot is divided into regions, one for each
 * rank that data goes to.  Its owner adds up the regions that are meant for it,
 * or copies them out.  What a rank keeps never sees a slot, unless it is scaled.
 * So each line crosses once.
 *
 * Its owner fills a line again at full speed either because a string move does so, or
 * because whoever is the last to read it claims it (see enum copy_refill).  Of what all
 * ranks read, a counter tells who that is.
 *
 * Allreduce between buffers that all ranks can map (see share.h) copies nothing:
 * each rank combines its slice of everything where it lies, and writes the result
 * to where everybody wants it.  A rank whose buffers are such puts an offer into
 * its slot instead of chunk 0: where they are.  All ranks see the same offers, so
 * all decide alike.  If one has not offered, the plan begins anew behind the four
 * chunks that may have been put by then, and nobody offers.
 *
 * Where the kernel's copies pay, two ranks move what is large and only moved from buffer to
 * buffer (see pair.h).  Such an offer both make, whatever their buffers are, and say in it
 * whether they can; so they refuse alike, too.
 *
 * A broadcast has all slots for itself, since only the root fills any: so it runs
 * far ahead of readers that come late.  When that begins or ends, all that went
 * before has to be over; when it begins, all ranks have to be there, for who has done
 * its work on the others' slots may still read its own.
 *
 * A slot is written again only when all ranks are through with the chunk that
 * was in it (out > g - 4).  The slots lie at the same place whatever the plan:
 * a stride that depended on it would overwrite what is still being read.
 *
 * Stages of neighbouring chunks overlap: put chunk k, combine chunk k-1, take
 * chunk k-2, or as the others allow.  Nothing here blocks but block().
 */
enum { NODE_RANKS = 4096, LEAST_CHUNK = 8192 };

/* How much of a result that goes past the caches is written at a time between other things: as
 * much as stays in the nearest cache. */
enum { BIT_BYTES = 4096 };

/* Where a plan is: it begins with OFFER or CHUNKS. */
enum phase { OFFER, MEET, LEAVE, CHUNKS };

/* From which length on offers pay; whose are in vain makes fewer. */
enum { SHARE_LEAST = 16384, SHARE_BLOCK = 65536, REFUSED_OFTEN = 3, REFUSED_TRIES = 64 };

/* Where a rank's buffers are, as it lies in its slot. */
struct offer {
	union {
		struct share_arena arena;
		struct foreign process;
	};
	uint64_t ready;   /* this rank has mapped all others', or can reach the other's */
	uint64_t claimed; /* of a broadcast of two ranks, see pair.h: rank 0's counts  */
	struct {
		uint64_t in, out; /* offsets into the arena; or addresses */
	} piece[];
};

enum { OFFER_PIECES = (SEGMENT_SLOT_BYTES - sizeof(struct offer)) / 16 };

struct cursor {
	int piece;
	uint64_t at; /* elements into the piece */
};

struct node {
	const struct team *team;
	struct segment *seg;
	const struct plan *plan;
	enum plan_kind kind;              /* as it is carried out */
	uint64_t base;                    /* chunks that all earlier plans took     */
	uint64_t chunks;                  /* of this plan                           */
	uint64_t filled, combined, taken; /* so many of them    */
	uint64_t chunk_count;             /* elements in a full chunk, or region */
	size_t bytes;                     /* of an element                     */
	bool past;                        /* results go past the caches        */
	struct cursor put, combine, take;
	/* What step() could not go on without. */
	int wait_rank;
	bool wait_out;
	uint64_t wait_above;
	bool wide;      /* as broadcasts use the slots            */
	uint64_t fence; /* the chunk at which that began or ended */
	enum phase phase;
	bool may_share;   /* the plan is one that arenas are offered for */
	bool ready;       /* all peers' arenas are mapped                */
	uint32_t refused; /* offers in a row that came to nothing        */
	bool reaches;     /* the plan is one that two ranks move by pair_move() */
	bool reached;     /* this rank can reach the other's memory      */
	uint32_t missed;  /* times in a row that it came to nothing, of both alike */
	uint64_t in_seen[NODE_RANKS], out_seen[NODE_RANKS]; /* their counters, at least */
	unsigned char *arena[NODE_RANKS];
	const void *src[NODE_RANKS];
	void *dst[NODE_RANKS];
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static struct seat *seat(const struct node *n, int rank)
{
	return &n->seg->seats[rank];
}

/* Has @rank's counter passed @g?  If not, remember that we wait for it.  While what has been
 * seen will do, nobody asks again: its owner would have to fetch the line back. */
static bool passed(struct node *n, int rank, bool out, uint64_t g)
{
	const uint64_t *word = out ? &seat(n, rank)->out : &seat(n, rank)->in;
	uint64_t *seen = out ? &n->out_seen[rank] : &n->in_seen[rank];

	if (*seen <= g)
		*seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	if (*seen > g)
		return true;
	n->wait_rank = rank;
	n->wait_out = out;
	n->wait_above = g;
	return false;
}

static void publish(struct node *n, uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	seat_ring(&n->seg->row, n->team->rank);
}

/* The elements of chunk @k, and those of it that @rank owns: whole lines, so
 * that two owners never share one. */
static uint64_t chunk_elements(const struct node *n, uint64_t k)
{
	return least(n->chunk_count, n->plan->count - k * n->chunk_count);
}

static void slice(const struct node *n, uint64_t elements, int rank, uint64_t *first,
		  uint64_t *end)
{
	uint64_t line = 64 / n->bytes;
	uint64_t lines = (elements + line - 1) / line;
	uint64_t ranks = (uint64_t)n->team->size;

	*first = least(lines * (uint64_t)rank / ranks * line, elements);
	*end = least(lines * (uint64_t)(rank + 1) / ranks * line, elements);
}

static void advance(const struct plan *p, struct cursor *c, uint64_t elements)
{
	while (c->piece < p->pieces) {
		uint64_t left = p->piece[c->piece].count - c->at;

		if (elements < left) {
			c->at += elements;
			return;
		}
		elements -= left;
		c->piece++;
		c->at = 0;
	}
}

/* The next run of elements inside one piece, at most @want. */
static uint64_t run_of(const struct plan *p, struct cursor *c, uint64_t want)
{
	while (p->piece[c->piece].count == c->at) {
		c->piece++;
		c->at = 0;
	}
	return least(want, p->piece[c->piece].count - c->at);
}

/* Of a sum, buffer to slot: elements [first, end) of a chunk that starts at @c. */
static void put_range(struct node *n, struct cursor c, unsigned char *slot, uint64_t first,
		      uint64_t end)
{
	const struct plan *p = n->plan;
	uint64_t m;

	advance(p, &c, first);
	for (; first < end; first += m) {
		const unsigned char *in;

		m = run_of(p, &c, end - first);
		in = (const unsigned char *)p->piece[c.piece].in + c.at * n->bytes;
		if (p->pre != 1)
			copy_scaled(p->dtype, slot + first * n->bytes, in, m, p->pre);
		else
			copy_over(slot + first * n->bytes, in, m * n->bytes);
		advance(p, &c, m);
	}
}

/* To a buffer, which nobody here reads again. */
static void store(const struct node *n, void *dst, const void *src, size_t size)
{
	if (n->past)
		copy_past(dst, src, size);
	else
		copy_bytes(dst, src, size);
}

/* Into a slot.  If what stays goes past the caches it comes along, bit by bit, for memory takes
 * it while the slot is filled; else it has time until the others know of the slot. */
static void put_bytes(const struct node *n, unsigned char *slot, const unsigned char *in,
		      size_t size, struct stay *s)
{
	size_t few = n->past && s->left ? BIT_BYTES : size, i, m;

	for (i = 0; i < size; i += m) {
		m = least(size - i, few);
		copy_over(slot + i, in + i, m);
		if (n->past)
			stay_copy(s, m, n->past);
	}
}

/* From a slot, by the only rank that reads it, or by one of several. */
static void take(const struct node *n, bool only, void *dst, void *src, size_t size)
{
	if (only)
		copy_taking(dst, src, size, n->past);
	else
		store(n, dst, src, size);
}

static bool is_pair(const struct node *n)
{
	return n->team->size == 2;
}

/* Of a sum: in place, the lines of a result have just been read. */
static bool goes_past(const struct node *n, int piece)
{
	const struct plan *p = n->plan;

	return n->past && p->piece[piece].in != p->piece[piece].out;
}

/* And the way back. */
static void take_range(struct node *n, struct cursor c, const unsigned char *slot,
		       uint64_t first, uint64_t end)
{
	const struct plan *p = n->plan;
	uint64_t m;

	advance(p, &c, first);
	for (; first < end; first += m) {
		unsigned char *out;

		m = run_of(p, &c, end - first);
		out = (unsigned char *)p->piece[c.piece].out + c.at * n->bytes;
		(goes_past(n, c.piece) ? copy_past : copy_bytes)(out, slot + first * n->bytes,
								 m * n->bytes);
		advance(p, &c, m);
	}
}

/* One of all ranks but the one that filled it has read @size bytes of a slot. */
static void leave_slot(struct node *n, int owner, uint64_t g, size_t size)
{
	uint32_t *readers = &seat(n, owner)->readers[g % SEGMENT_SLOTS];

	if (is_pair(n) || copy_refill() != COPY_CLAIMS)
		return;
	if ((int)__atomic_add_fetch(readers, 1, __ATOMIC_ACQ_REL) < n->team->size - 1)
		return;
	__atomic_store_n(readers, 0, __ATOMIC_RELAXED);
	copy_claim(segment_slot(n->seg, owner, g), size);
}

/* How many chunks have room at a time. */
static uint64_t places(const struct node *n)
{
	return SEGMENT_SLOTS * (uint64_t)(n->wide ? n->team->size : 1);
}

/* Are all ranks through with the chunks that were where chunk @g will be? */
static bool slots_free(struct node *n, uint64_t g)
{
	uint64_t done = g < places(n) ? 0 : g - places(n) + 1;
	int r;

	done = done > n->fence ? done : n->fence;
	for (r = 0; done && r < n->team->size; r++)
		if (!passed(n, r, true, done - 1))
			return false;
	return true;
}

/* Where a broadcast's chunk @g is: whose slot, by the root's use of all of them. */
static int place_of(const struct node *n, uint64_t g)
{
	return (int)(g / SEGMENT_SLOTS % (uint64_t)n->team->size);
}

/* Have all others' counters passed @g?  If not, whom to wait for is one who waits for our
 * processor, if there is such a one. */
static bool all_passed(struct node *n, bool out, uint64_t g)
{
	bool all = true;
	int r;

	for (r = 0; r < n->team->size; r++) {
		if (r == n->team->rank || passed(n, r, out, g))
			continue;
		all = false;
		if (seat_is_here(&n->seg->row, r))
			return false;
	}
	return all;
}

static bool all_in(struct node *n, uint64_t g)
{
	return all_passed(n, false, g);
}

static bool all_out(struct node *n, uint64_t g)
{
	return all_passed(n, true, g);
}

/* All ranks are in: is what @rank has in its slot an offer? */
static bool has_offered(const struct node *n, int rank)
{
	return seat(n, rank)->offers[n->base % SEGMENT_SLOTS] == n->base + 1;
}

static struct offer *offer_of(const struct node *n, int rank)
{
	return (struct offer *)(void *)segment_slot(n->seg, rank, n->base);
}

/* Is everything that this rank brings in its arena?  And is it worth a try? */
static bool can_offer(struct node *n)
{
	const struct plan *p = n->plan;
	uint64_t at;
	int i;

	for (i = 0; i < p->pieces; i++) {
		size_t size = p->piece[i].count * n->bytes;

		if (size && (!share_find(p->piece[i].in, size, &at) ||
			     !share_find(p->piece[i].out, size, &at)))
			return false;
	}
	return n->refused < REFUSED_OFTEN || n->refused++ % REFUSED_TRIES == 0;
}

static void offer_arena(const struct node *n, struct offer *o)
{
	const struct plan *p = n->plan;
	int i;

	share_self(&o->arena);
	o->ready = n->ready;
	for (i = 0; i < p->pieces; i++) {
		o->piece[i].in = o->piece[i].out = 0;
		share_find(p->piece[i].in, 0, &o->piece[i].in);
		share_find(p->piece[i].out, 0, &o->piece[i].out);
	}
}

static void offer_reach(const struct node *n, struct offer *o)
{
	const struct piece *p = n->plan->piece;

	o->ready = foreign_self(&o->process) && n->reached &&
		   pair_lends(n->plan, n->bytes, n->team->rank);
	o->claimed = 0;
	o->piece[0].in = (uint64_t)(uintptr_t)p->in;
	o->piece[0].out = (uint64_t)(uintptr_t)p->out;
}

static bool make_offer(struct node *n)
{
	int me = n->team->rank;

	if (!slots_free(n, n->base))
		return false;
	(n->reaches ? offer_reach : offer_arena)(n, offer_of(n, me));
	seat(n, me)->offers[n->base % SEGMENT_SLOTS] = n->base + 1;
	publish(n, &seat(n, me)->in, n->base + 1);
	return true;
}

static void map_arenas(struct node *n)
{
	int r;

	n->ready = true;
	for (r = 0; r < n->team->size; r++) {
		n->arena[r] = share_map(&offer_of(n, r)->arena);
		n->ready &= n->arena[r] != NULL;
	}
}

/* All ranks are in, and see the same: do all offer, and can all reach all? */
static bool all_offer(struct node *n)
{
	bool all = true, ready = true;
	int r;

	for (r = 0; r < n->team->size && all; r++)
		all = has_offered(n, r);
	for (r = 0; r < n->team->size && all; r++)
		ready &= offer_of(n, r)->ready == 1;
	if (all && !ready)
		map_arenas(n);
	n->refused = all && n->ready ? 0 : n->refused + 1;
	return all && ready;
}

/* Both are in: can both reach each other?  If not yet, find out. */
static bool both_reach(struct node *n)
{
	bool ready = offer_of(n, 0)->ready == 1 && offer_of(n, 1)->ready == 1;

	if (!n->reached)
		n->reached = foreign_try(&offer_of(n, 1 - n->team->rank)->process);
	n->missed = ready ? 0 : n->missed + 1;
	return ready;
}

static bool any_offers(const struct node *n)
{
	bool any = false;
	int r;

	for (r = 0; r < n->team->size; r++)
		any |= has_offered(n, r);
	return any;
}

static uint64_t sum(const uint64_t *counts, size_t n)
{
	uint64_t all = 0;
	size_t i;

	for (i = 0; i < n; i++)
		all += counts[i];
	return all;
}

/* Is it too much for the caches that all ranks will have?  Of a sum in place that does not
 * matter: its lines have just been read. */
static bool is_past(const struct node *n)
{
	const struct plan *p = n->plan;
	size_t size = (size_t)n->team->size, from = copy_past_from();
	uint64_t all = 0;

	switch (p->kind) {
	case PLAN_ALLREDUCE:
		if (n->phase == OFFER)
			from = COPY_PAST_BYTES;
		if (n->phase == OFFER ? size <= REDUCE_PAST && p->piece->in != p->piece->out
				      : size > 1)
			all = p->count * size;
		break;
	case PLAN_BROADCAST:
		if (!n->reaches)
			from = COPY_PAST_BYTES;
		all = p->count * size;
		break;
	case PLAN_ALLGATHER:
		all = sum(p->counts, size) * size;
		break;
	case PLAN_ALLTOALL:
		all = sum(p->matrix, size * size);
		break;
	default:
		break;
	}
	return all * n->bytes >= from;
}

/* A broadcast that goes through slots has all of them. */
static void set_wide(struct node *n)
{
	if (n->wide == (n->kind == PLAN_BROADCAST && !n->reaches))
		return;
	n->wide = !n->wide;
	n->fence = n->base;
}

/* Begin anew, behind what anybody can have put by now. */
static void start_over(struct node *n)
{
	n->base += least(n->chunks, SEGMENT_SLOTS);
	publish(n, &seat(n, n->team->rank)->out, n->base);
	n->may_share = n->reaches = false;
	set_wide(n);
	n->phase = CHUNKS;
	n->past = is_past(n);
	n->filled = n->combined = n->taken = 0;
	memset(&n->put, 0, sizeof(n->put));
}

/* My slice of everything, from where it lies to where it is wanted; false if the
 * job has been aborted: then the others' buffers are theirs again. */
static bool combine_shared(struct node *n)
{
	const struct plan *p = n->plan;
	struct reduce how = { p->dtype, p->redop, (uint32_t)n->team->size, p->post };
	struct cursor c = { 0 };
	uint64_t first, end, m;
	int r;

	slice(n, p->count, n->team->rank, &first, &end);
	advance(p, &c, first);
	for (; first < end; first += m) {
		if (!seat_go_abroad(&n->seg->row, n->team->abort))
			return false;
		m = run_of(p, &c, least(end - first, SHARE_BLOCK / n->bytes));
		for (r = 0; r < n->team->size; r++) {
			const struct offer *o = offer_of(n, r);

			n->src[r] = n->arena[r] + o->piece[c.piece].in + c.at * n->bytes;
			n->dst[r] = n->arena[r] + o->piece[c.piece].out + c.at * n->bytes;
		}
		if (n->past)
			reduce_past(&how, n->dst, n->team->size, n->team->rank, n->src,
				    n->team->size, m);
		else
			reduce_many(&how, n->dst, n->team->size, n->src, n->team->size, m);
		seat_come_home(&n->seg->row);
		advance(p, &c, m);
	}
	if (n->past)
		copy_settle();
	return true;
}

/* As pair_move(); what it did not do, somebody else will end. */
static int move_pair(struct node *n, struct err *e)
{
	int you = 1 - n->team->rank, rc;
	const struct offer *o = offer_of(n, you);
	struct pair_other other = { o->process.pid, o->piece[0].in, o->piece[0].out,
				    &offer_of(n, 0)->claimed };

	rc = pair_move(n->plan, n->team, &other, n->past, e);
	if (!rc)
		passed(n, you, true, n->base);
	return rc;
}

enum { NOT_ALL = 2 };

/* Without slots, if all offer: as step(), or NOT_ALL. */
static int share_step(struct node *n, struct err *e)
{
	int rc;

	if (n->phase == OFFER) {
		if (!make_offer(n))
			return 0;
		n->phase = MEET;
	}
	if (n->phase == MEET) {
		if (!all_in(n, n->base))
			return 0;
		if (!(n->reaches ? both_reach : all_offer)(n)) {
			start_over(n);
			return NOT_ALL;
		}
		rc = n->reaches ? move_pair(n, e) : combine_shared(n);
		if (rc <= 0)
			return rc;
		publish(n, &seat(n, n->team->rank)->out, n->base + 1);
		n->phase = LEAVE;
	}
	if (!all_out(n, n->base))
		return 0;
	n->base++;
	return 1;
}

static bool allreduce_put(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = chunk_elements(n, k), first, end;
	int me = n->team->rank;
	unsigned char *slot = segment_slot(n->seg, me, g);

	if (!slots_free(n, g))
		return false;
	if (n->plan->pre != 1) {
		put_range(n, n->put, slot, 0, m);
	} else {
		slice(n, m, me, &first, &end);
		put_range(n, n->put, slot, 0, first);
		put_range(n, n->put, slot, end, m);
	}
	advance(n->plan, &n->put, m);
	publish(n, &seat(n, me)->in, g + 1);
	return true;
}

static void combine_range(struct node *n, uint64_t g, uint64_t first, uint64_t end)
{
	const struct plan *p = n->plan;
	struct reduce how = { p->dtype, p->redop, (uint32_t)n->team->size, p->post };
	int me = n->team->rank, size = n->team->size, r, d;
	struct cursor c = n->combine;
	uint64_t m;

	advance(p, &c, first);
	for (; first < end; first += m) {
		unsigned char *out;

		m = run_of(p, &c, end - first);
		out = (unsigned char *)p->piece[c.piece].out + c.at * n->bytes;
		d = 0;
		n->dst[d++] = out;
		for (r = 0; r < size; r++) {
			unsigned char *theirs = segment_slot(n->seg, r, g) + first * n->bytes;

			n->src[r] = theirs;
			if (r != me)
				n->dst[d++] = theirs;
			else if (p->pre == 1)
				n->src[r] = (const unsigned char *)p->piece[c.piece].in +
					    c.at * n->bytes;
		}
		if (goes_past(n, c.piece) && copy_sums_past())
			reduce_beside(&how, out, n->dst + 1, d - 1, n->src, size, m);
		else
			reduce_many(&how, n->dst, d, n->src, size, m);
		advance(p, &c, m);
	}
}

static bool allreduce_combine(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = chunk_elements(n, k), first, end;
	int me = n->team->rank;

	slice(n, m, me, &first, &end);
	if ((first < end || (k == 0 && n->may_share)) && !all_in(n, g))
		return false;
	if (k == 0 && n->may_share && any_offers(n)) {
		start_over(n);
		return false;
	}
	if (first < end)
		combine_range(n, g, first, end);
	advance(n->plan, &n->combine, m);
	publish(n, &seat(n, me)->out, g + 1);
	return true;
}

static bool allreduce_take(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = chunk_elements(n, k), first, end;
	unsigned char *slot = segment_slot(n->seg, n->team->rank, g);
	int r;

	for (r = 0; r < n->team->size; r++) {
		slice(n, m, r, &first, &end);
		if (r != n->team->rank && first < end && !passed(n, r, true, g))
			return false;
	}
	slice(n, m, n->team->rank, &first, &end);
	take_range(n, n->take, slot, 0, first);
	take_range(n, n->take, slot, end, m);
	advance(n->plan, &n->take, m);
	return true;
}

/* Blocks of different length side by side: what chunk @k has of one of @count. */
static uint64_t part_of(const struct node *n, uint64_t count, uint64_t k)
{
	uint64_t first = k * n->chunk_count;

	return first < count ? least(n->chunk_count, count - first) : 0;
}

/* Chunk @k of a block that starts at element @before. */
static const unsigned char *chunk_in(const struct node *n, uint64_t before, uint64_t k)
{
	return (const unsigned char *)n->plan->piece->in +
	       (before + k * n->chunk_count) * n->bytes;
}

static unsigned char *chunk_out(const struct node *n, uint64_t before, uint64_t k)
{
	return (unsigned char *)n->plan->piece->out + (before + k * n->chunk_count) * n->bytes;
}

/* Broadcast: only the root puts, into everybody's slots; it may want a copy, too. */
static bool broadcast_put(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = chunk_elements(n, k);
	unsigned char *slot = segment_slot(n->seg, place_of(n, g), g);
	struct stay own = { 0 };
	int me = n->team->rank;

	if (me == n->plan->root) {
		if (!slots_free(n, g) || (g == n->fence && !all_in(n, g)))
			return false;
		if (n->plan->piece->out)
			own = stay_of(chunk_out(n, 0, k), chunk_in(n, 0, k), m * n->bytes);
		put_bytes(n, slot, chunk_in(n, 0, k), m * n->bytes, &own);
	}
	publish(n, &seat(n, me)->in, g + 1);
	stay_copy(&own, own.left, n->past);
	return true;
}

static bool broadcast_combine(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = chunk_elements(n, k);
	int me = n->team->rank, root = n->plan->root;

	if (me != root) {
		if (!passed(n, root, false, g))
			return false;
		take(n, is_pair(n), chunk_out(n, 0, k), segment_slot(n->seg, place_of(n, g), g),
		     m * n->bytes);
		leave_slot(n, place_of(n, g), g, m * n->bytes);
	}
	publish(n, &seat(n, me)->out, g + 1);
	return true;
}

static bool gather_put(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = part_of(n, n->plan->counts[n->team->rank], k), before = 0;
	struct stay own = { 0 };
	int me = n->team->rank, r;

	if (!slots_free(n, g))
		return false;
	if (m) {
		for (r = 0; r < me; r++)
			before += n->plan->counts[r];
		own = stay_of(chunk_out(n, before, k), chunk_in(n, 0, k), m * n->bytes);
		put_bytes(n, segment_slot(n->seg, me, g), own.in, m * n->bytes, &own);
	}
	publish(n, &seat(n, me)->in, g + 1);
	stay_copy(&own, own.left, n->past);
	return true;
}

static bool gather_combine(struct node *n, uint64_t k)
{
	const struct plan *p = n->plan;
	uint64_t g = n->base + k, before = 0, m;
	int r, me = n->team->rank;

	if (!all_in(n, g))
		return false;
	for (r = 0; r < n->team->size; r++) {
		m = part_of(n, p->counts[r], k);
		if (m && r != me) {
			take(n, is_pair(n), chunk_out(n, before, k), segment_slot(n->seg, r, g),
			     m * n->bytes);
			leave_slot(n, r, g, m * n->bytes);
		}
		before += p->counts[r];
	}
	publish(n, &seat(n, me)->out, g + 1);
	return true;
}

/* Reduce-scatter: a region for every rank but this one, which needs one only for
 * what it scales first. */
static int regions(const struct node *n)
{
	bool all = n->plan->kind == PLAN_REDUCESCATTER && n->plan->pre != 1;

	return n->team->size - (all || n->team->size == 1 ? 0 : 1);
}

/* Where @from puts what goes to @to. */
static unsigned char *region(const struct node *n, int from, int to, uint64_t g)
{
	int i = to > from && regions(n) < n->team->size ? to - 1 : to;

	return segment_slot(n->seg, from, g) + (size_t)i * n->chunk_count * n->bytes;
}

static bool scatter_put(struct node *n, uint64_t k)
{
	const struct plan *p = n->plan;
	uint64_t g = n->base + k, before = 0, m;
	int me = n->team->rank, r;

	if (!slots_free(n, g))
		return false;
	for (r = 0; r < n->team->size; before += p->counts[r++]) {
		m = part_of(n, p->counts[r], k);
		if (m && p->pre != 1)
			copy_scaled(p->dtype, region(n, me, r, g), chunk_in(n, before, k), m,
				    p->pre);
		else if (m && r != me)
			copy_over(region(n, me, r, g), chunk_in(n, before, k), m * n->bytes);
	}
	publish(n, &seat(n, me)->in, g + 1);
	return true;
}

/* What all have brought for this rank, which is their only reader. */
static void combine_regions(struct node *n, uint64_t g, const unsigned char *in,
			    unsigned char *out, uint64_t count)
{
	const struct plan *p = n->plan;
	struct reduce how = { p->dtype, p->redop, (uint32_t)n->team->size, p->post };
	uint64_t few = COPY_CLAIM_BYTES / n->bytes, first, m;
	/* What is scaled on its way into a slot is no copy_over(). */
	bool claims = p->pre != 1 || copy_refill() == COPY_CLAIMS;
	int me = n->team->rank, r;

	for (first = 0; first < count; first += m) {
		m = least(count - first, few);
		for (r = 0; r < n->team->size; r++)
			n->src[r] = region(n, r, me, g) + first * n->bytes;
		if (p->pre == 1)
			n->src[me] = in + first * n->bytes;
		n->dst[0] = out + first * n->bytes;
		reduce_many(&how, n->dst, 1, n->src, n->team->size, m);
		for (r = 0; claims && r < n->team->size; r++)
			if (r != me)
				copy_claim(region(n, r, me, g) + first * n->bytes,
					   m * n->bytes);
	}
}

static bool scatter_combine(struct node *n, uint64_t k)
{
	const struct plan *p = n->plan;
	int me = n->team->rank, r;
	uint64_t g = n->base + k, before = 0, m = part_of(n, p->counts[me], k);

	if (m && !all_in(n, g))
		return false;
	if (m) {
		for (r = 0; r < me; r++)
			before += p->counts[r];
		combine_regions(n, g, chunk_in(n, before, k), chunk_out(n, 0, k), m);
	}
	publish(n, &seat(n, me)->out, g + 1);
	return true;
}

static uint64_t goes(const struct node *n, int from, int to)
{
	return n->plan->matrix[(size_t)from * (size_t)n->team->size + (size_t)to];
}

/* What a rank sends to itself. */
static struct stay stays(const struct node *n, uint64_t k)
{
	uint64_t from = 0, to = 0, m = part_of(n, goes(n, n->team->rank, n->team->rank), k);
	int me = n->team->rank, r;

	for (r = 0; r < me; r++) {
		from += goes(n, me, r);
		to += goes(n, r, me);
	}
	return m ? stay_of(chunk_out(n, to, k), chunk_in(n, from, k), m * n->bytes)
		 : (struct stay){ 0 };
}

static bool exchange_put(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, before = 0, m;
	struct stay own;
	int me = n->team->rank, r;

	if (!slots_free(n, g))
		return false;
	own = stays(n, k);
	for (r = 0; r < n->team->size; before += goes(n, me, r++)) {
		m = part_of(n, goes(n, me, r), k);
		if (m && r != me)
			put_bytes(n, region(n, me, r, g), chunk_in(n, before, k), m * n->bytes,
				  &own);
	}
	publish(n, &seat(n, me)->in, g + 1);
	stay_copy(&own, own.left, n->past);
	return true;
}

static bool exchange_combine(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, before = 0, m;
	int me = n->team->rank, r;

	if (!all_in(n, g))
		return false;
	for (r = 0; r < n->team->size; before += goes(n, r++, me)) {
		m = r == me ? 0 : part_of(n, goes(n, r, me), k);
		if (m)
			take(n, true, chunk_out(n, before, k), region(n, r, me, g),
			     m * n->bytes);
	}
	publish(n, &seat(n, me)->out, g + 1);
	return true;
}

/* A barrier is a chunk of nothing that everybody has to have reached. */
static bool barrier_put(struct node *n, uint64_t k)
{
	publish(n, &seat(n, n->team->rank)->in, n->base + k + 1);
	return true;
}

static bool barrier_combine(struct node *n, uint64_t k)
{
	if (!all_in(n, n->base + k))
		return false;
	publish(n, &seat(n, n->team->rank)->out, n->base + k + 1);
	return true;
}

static bool nothing(struct node *n, uint64_t k)
{
	(void)n;
	(void)k;
	return true;
}

static const struct {
	bool (*put)(struct node *n, uint64_t k);
	bool (*combine)(struct node *n, uint64_t k);
	bool (*take)(struct node *n, uint64_t k);
} stages[] = {
	[PLAN_ALLREDUCE] = { allreduce_put, allreduce_combine, allreduce_take },
	[PLAN_BROADCAST] = { broadcast_put, broadcast_combine, nothing },
	[PLAN_ALLGATHER] = { gather_put, gather_combine, nothing },
	[PLAN_BARRIER] = { barrier_put, barrier_combine, nothing },
	[PLAN_REDUCESCATTER] = { scatter_put, scatter_combine, nothing },
	[PLAN_ALLTOALL] = { exchange_put, exchange_combine, nothing },
};

static int node_open(void *self, const struct team *t, struct err *e)
{
	struct node *n = self;

	if (!t->segment || t->segment->ranks != t->size)
		return fail(e, RINGUP_ENOBACKEND,
			    "the ranks are on %d hosts and share no memory", t->hosts);
	if (t->size > NODE_RANKS)
		return fail(e, RINGUP_ENOBACKEND, "node serves %d ranks at most, not %d",
			    NODE_RANKS, t->size);
	n->team = t;
	n->seg = t->segment;
	return 0;
}

static bool node_can(const void *self, const struct plan *p)
{
	(void)self;
	(void)p;
	return true;
}

static uint64_t longest(const uint64_t *counts, size_t n)
{
	uint64_t most = 0;
	size_t i;

	for (i = 0; i < n; i++)
		most = counts[i] > most ? counts[i] : most;
	return most;
}

/* Elements of a region: whole lines, as long as there are lines for all. */
static uint64_t region_count(const struct node *n)
{
	size_t room = SEGMENT_SLOT_BYTES / (size_t)regions(n);

	return (room < 64 ? room : room / 64 * 64) / n->bytes;
}

static uint64_t broadcast_chunk(const struct node *n)
{
	uint64_t chunk = n->plan->count * n->bytes / 8 / 64 * 64;

	return chunk < LEAST_CHUNK ? LEAST_CHUNK : least(chunk, SEGMENT_SLOT_BYTES);
}

static uint64_t longest_block(const struct plan *p, size_t size)
{
	switch (p->kind) {
	case PLAN_ALLREDUCE:
	case PLAN_BROADCAST:
		return p->count;
	case PLAN_ALLGATHER:
	case PLAN_REDUCESCATTER:
		return longest(p->counts, size);
	case PLAN_ALLTOALL:
		return longest(p->matrix, size * size);
	case PLAN_BARRIER:
	case PLAN_KINDS:
		break;
	}
	return 0;
}

/* Sets n->kind and how it is cut; the same on all ranks. */
static void cut(struct node *n)
{
	const struct plan *p = n->plan;
	uint64_t most = longest_block(p, (size_t)n->team->size);

	n->kind = p->kind;
	n->chunk_count = SEGMENT_SLOT_BYTES / n->bytes;
	/* The last reader of a broadcast starts a chunk later: the shorter, the sooner. */
	if (p->kind == PLAN_BROADCAST)
		n->chunk_count = broadcast_chunk(n) / n->bytes;
	else if (p->kind == PLAN_REDUCESCATTER || p->kind == PLAN_ALLTOALL)
		n->chunk_count = region_count(n);
	/* Even nothing is a meeting: a plan without elements runs as a barrier. */
	if (!most)
		n->kind = PLAN_BARRIER;
	n->chunks = most ? (most - 1) / n->chunk_count + 1 : 1;
	if (most)
		set_wide(n);
}

/* Are large vectors of this plan moved by the kernel?  Both ranks say the same. */
static bool can_reach(struct node *n)
{
	return n->team->single_copy && is_pair(n) && pair_pays(n->plan, n->bytes) &&
	       (n->missed < REFUSED_OFTEN || n->missed++ % REFUSED_TRIES == 0);
}

static int node_start(void *self, const struct plan *p, struct err *e)
{
	struct node *n = self;

	(void)e;
	n->plan = p;
	n->bytes = reduce_dtype_bytes(p->dtype);
	n->reaches = can_reach(n);
	cut(n);
	n->may_share = n->kind == PLAN_ALLREDUCE && n->team->size > 1 && p->pre == 1 &&
		       p->count * n->bytes >= SHARE_LEAST && p->pieces <= OFFER_PIECES;
	n->phase = n->reaches || (n->may_share && can_offer(n)) ? OFFER : CHUNKS;
	n->past = is_past(n);
	n->filled = n->combined = n->taken = 0;
	memset(&n->put, 0, sizeof(n->put));
	memset(&n->combine, 0, sizeof(n->combine));
	memset(&n->take, 0, sizeof(n->take));
	return 0;
}

static bool try_put(struct node *n, uint64_t end)
{
	if (n->filled >= least(n->chunks, end) || !stages[n->kind].put(n, n->filled))
		return false;
	n->filled++;
	return true;
}

static bool try_combine(struct node *n)
{
	if (n->combined == n->filled || !stages[n->kind].combine(n, n->combined))
		return false;
	n->combined++;
	return true;
}

static bool try_take(struct node *n)
{
	if (n->taken == n->combined || !stages[n->kind].take(n, n->taken))
		return false;
	n->taken++;
	return true;
}

/*
 * The next stage of some chunk, false if none can be carried out.  One apart is
 * best while the others keep pace.  If they do not, the next chunks are put as far
 * as slots are free: so ranks that share a processor change places less often.
 * The chunk to be combined comes last, for that is what block() has to wait for.
 */
static bool go_on(struct node *n)
{
	bool drained = n->combined == n->chunks;
	uint64_t room = n->taken + places(n); /* what is in a slot has to be taken first */

	if (try_put(n, least(n->combined + 2, room)) || (!drained && try_combine(n)))
		return true;
	if ((drained || n->taken + 1 < n->combined) && try_take(n))
		return true;
	return try_put(n, room) || try_take(n) || try_combine(n);
}

static int node_step(void *self, struct err *e)
{
	struct node *n = self;

	if (n->phase != CHUNKS) {
		int rc = share_step(n, e);

		if (rc != NOT_ALL)
			return rc;
	}
	while (n->taken < n->chunks)
		if (!go_on(n))
			return 0;
	n->base += n->chunks;
	if (n->past)
		copy_settle();
	return 1;
}

static bool may_go_on(void *self)
{
	struct node *n = self;

	return passed(n, n->wait_rank, n->wait_out, n->wait_above) ||
	       __atomic_load_n(n->team->abort, __ATOMIC_RELAXED);
}

static void node_block(void *self, int64_t deadline_ns)
{
	struct node *n = self;

	seat_wait(&n->seg->row, n->wait_rank, may_go_on, n, deadline_ns);
}

static void node_close(void *self)
{
	(void)self;
}

const struct backend backend_node = {
	.name = "node",
	.summary = "ranks of one host: shared memory, in place",
	.size = sizeof(struct node),
	.seated = true,
	.open = node_open,
	.can = node_can,
	.start = node_start,
	.step = node_step,
	.block = node_block,
	.close = node_close,
};
