/* node_move.c - moves data between ranks that share memory: broadcast, allgather, alltoall. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/node_state.h"

/*
 * Broadcast and allgather: a rank with data puts it into its slot, the others copy
 * it out of there.
 *
 * A broadcast uses the slots of all ranks, since only the root fills any: so it runs
 * far ahead of readers that come late.  When this use begins or ends, all earlier chunks
 * have to be finished; when it begins, all ranks have to be there, since a rank that has
 * finished its work on the others' slots may still read its own.
 *
 * All-to-all: a slot is divided into regions, one for each receiver, which copies it out.
 * The block to the rank itself uses no slot.  So each cache line crosses once.
 *
 * A large all-to-all of more than two ranks goes by rounds: in round i a rank fills whole
 * slots for the rank i places behind it, and empties those of the rank i places before it.
 * So it waits for these two and not for all, and reads contiguous memory.
 */

/* Bytes of streaming stores at a time, between other copies: as many as stay in the nearest
 * cache. */
enum { BIT_BYTES = 4096 };

/* Bytes of a block from which on an all-to-all goes by rounds: shorter blocks share slots. */
enum { LEAST_ROUND = 32768 };

/* Copies to a buffer of the caller, which this back end does not read again. */
static void store(const struct node *n, void *dst, const void *src, size_t size)
{
	if (n->streaming)
		copy_streaming(dst, src, size);
	else
		copy_bytes(dst, src, size);
}

/* Copies into a slot.  With streaming stores the own block @s comes along, bit by bit, since
 * memory takes it while the slot is filled; else it waits until the slot is published. */
static void put_bytes(const struct node *n, unsigned char *slot, const unsigned char *in,
		      size_t size, struct self_block *s)
{
	size_t few = n->streaming && s->left ? BIT_BYTES : size, m;

	for (size_t i = 0; i < size; i += m) {
		m = num_least(size - i, few);
		copy_over(slot + i, in + i, m);
		if (n->streaming)
			self_block_copy(s, m, n->streaming);
	}
}

/* Copies from a slot, of which this rank is the @only reader or one of several. */
static void node_take(const struct node *n, bool only, void *dst, void *src, size_t size)
{
	if (only && n->path != NODE_READ)
		copy_and_own(dst, src, size, n->streaming);
	else
		store(n, dst, src, size);
}

/* The rank whose slot has a broadcast's chunk @g, as the root uses all of them. */
static int place_of(const struct node *n, uint64_t g)
{
	return (int)(g / SEGMENT_SLOTS % (uint64_t)n->topo->size);
}

/* Broadcast: only the root puts, into all ranks' slots; it may want a copy, too. */
static bool broadcast_put(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = node_elements(n, k);
	unsigned char *slot = segment_slot(n->seg, place_of(n, g), g);
	struct self_block own = { 0 };
	int me = n->topo->rank;

	if (me == n->plan->root) {
		if (!node_slots_free(n, g) || (g == n->fence && !node_all_in(n, g)))
			return false;
		if (n->plan->piece->out)
			own = self_block_of(node_chunk_out(n, 0, k), node_chunk_in(n, 0, k),
					    m * n->bytes);
		put_bytes(n, slot, node_chunk_in(n, 0, k), m * n->bytes, &own);
	}
	node_publish(n, &node_counters(n, me)->in, g + 1);
	self_block_copy(&own, own.left, n->streaming);
	return true;
}

static bool broadcast_combine(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = node_elements(n, k);
	int me = n->topo->rank, root = n->plan->root;

	if (me != root) {
		if (!node_passed(n, root, false, g))
			return false;
		node_take(n, node_is_pair(n), node_chunk_out(n, 0, k),
			  segment_slot(n->seg, place_of(n, g), g), m * n->bytes);
		node_leave_slot(n, place_of(n, g), g, m * n->bytes);
	}
	node_publish(n, &node_counters(n, me)->out, g + 1);
	return true;
}

static bool gather_put(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, m = node_part(n, n->plan->counts[n->topo->rank], k),
		 before = 0;
	struct self_block own = { 0 };
	int me = n->topo->rank;

	if (!node_slots_free(n, g))
		return false;
	if (m) {
		for (int r = 0; r < me; r++)
			before += n->plan->counts[r];
		own = self_block_of(node_chunk_out(n, before, k), node_chunk_in(n, 0, k),
				    m * n->bytes);
		put_bytes(n, segment_slot(n->seg, me, g), own.in, m * n->bytes, &own);
	}
	node_publish(n, &node_counters(n, me)->in, g + 1);
	self_block_copy(&own, own.left, n->streaming);
	return true;
}

static bool gather_combine(struct node *n, uint64_t k)
{
	const struct plan *p = n->plan;
	uint64_t g = n->base + k, before = 0, m;
	int me = n->topo->rank;

	if (!node_all_in(n, g))
		return false;
	for (int r = 0; r < n->topo->size; r++) {
		m = node_part(n, p->counts[r], k);
		if (m && r != me) {
			node_take(n, node_is_pair(n), node_chunk_out(n, before, k),
				  segment_slot(n->seg, r, g), m * n->bytes);
			node_leave_slot(n, r, g, m * n->bytes);
		}
		before += p->counts[r];
	}
	node_publish(n, &node_counters(n, me)->out, g + 1);
	return true;
}

/* Elements before the block to @to in a sender's buffer; then, before @from's in a result. */
static uint64_t before_to(const struct node *n, int from, int to)
{
	uint64_t all = 0;

	for (int r = 0; r < to; r++)
		all += node_goes(n, from, r);
	return all;
}

static uint64_t before_from(const struct node *n, int from, int to)
{
	uint64_t all = 0;

	for (int r = 0; r < from; r++)
		all += node_goes(n, r, to);
	return all;
}

/* @count elements of this rank's block to itself, from chunk @k on. */
static struct self_block self_block_here(const struct node *n, uint64_t k, uint64_t count)
{
	int me = n->topo->rank;

	if (!count)
		return (struct self_block){ 0 };
	return self_block_of(node_chunk_out(n, before_from(n, me, me), k),
			     node_chunk_in(n, before_to(n, me, me), k), count * n->bytes);
}

static bool exchange_put(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, before = 0, m;
	struct self_block own;
	int me = n->topo->rank;

	if (!node_slots_free(n, g))
		return false;
	own = self_block_here(n, k, node_part(n, node_goes(n, me, me), k));
	for (int r = 0; r < n->topo->size; before += node_goes(n, me, r++)) {
		m = node_part(n, node_goes(n, me, r), k);
		if (m && r != me)
			put_bytes(n, node_region(n, me, r, g), node_chunk_in(n, before, k),
				  m * n->bytes, &own);
	}
	node_publish(n, &node_counters(n, me)->in, g + 1);
	self_block_copy(&own, own.left, n->streaming);
	return true;
}

static bool exchange_combine(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, before = 0, m;
	int me = n->topo->rank;

	if (!node_all_in(n, g))
		return false;
	for (int r = 0; r < n->topo->size; before += node_goes(n, r++, me)) {
		m = r == me ? 0 : node_part(n, node_goes(n, r, me), k);
		if (m)
			node_take(n, true, node_chunk_out(n, before, k),
				  node_region(n, r, me, g), m * n->bytes);
	}
	node_publish(n, &node_counters(n, me)->out, g + 1);
	return true;
}

/* The longest block of the round in which ranks send to those @apart places behind them. */
static uint64_t longest_of(const struct node *n, int apart)
{
	int size = n->topo->size;
	uint64_t most = 0, count;

	for (int r = 0; r < size; r++) {
		count = node_goes(n, r, (r + apart) % size);
		most = count > most ? count : most;
	}
	return most;
}

static uint64_t chunks_of(const struct node *n, uint64_t count)
{
	return count / n->chunk_count + (count % n->chunk_count != 0);
}

bool node_cut_rounds(struct node *n)
{
	uint64_t most = 0, count;
	int apart;

	for (apart = 1; n->topo->size > 2 && apart < n->topo->size; apart++) {
		count = longest_of(n, apart);
		most = count > most ? count : most;
	}
	if (most < LEAST_ROUND / n->bytes)
		return false;
	n->chunk_count = SEGMENT_SLOT_BYTES / n->bytes;
	for (n->chunks = 0, apart = 1; apart < n->topo->size; apart++)
		n->chunks += chunks_of(n, longest_of(n, apart));
	n->putting = n->taking = (struct node_round){ 0 };
	n->own = self_block_here(n, 0, node_goes(n, n->topo->rank, n->topo->rank));
	return true;
}

/* Moves on to the round of chunk @k; returns the chunk's number in that round. */
static uint64_t round_advance(const struct node *n, struct node_round *now, uint64_t k)
{
	while (k >= now->first + now->chunks) {
		now->first += now->chunks;
		now->chunks = chunks_of(n, longest_of(n, ++now->apart));
	}
	return k - now->first;
}

/* Is the slot for chunk @k free?  The first chunks wait for all: an earlier plan's readers. */
static bool is_free(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k;

	if (k < SEGMENT_SLOTS)
		return node_slots_free(n, g);
	return node_passed(n, n->reader[g % SEGMENT_SLOTS], true, g - SEGMENT_SLOTS);
}

static bool round_put(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, i;
	int me = n->topo->rank, to;
	size_t size;

	if (!is_free(n, k))
		return false;
	i = round_advance(n, &n->putting, k);
	to = (me + n->putting.apart) % n->topo->size;
	size = node_part(n, node_goes(n, me, to), i) * n->bytes;
	put_bytes(n, segment_slot(n->seg, me, g), node_chunk_in(n, before_to(n, me, to), i),
		  size, &n->own);
	n->reader[g % SEGMENT_SLOTS] = to;
	node_publish(n, &node_counters(n, me)->in, g + 1);
	if (k + 1 == n->chunks)
		size = n->own.left;
	else if (n->streaming)
		size = 0;
	self_block_copy(&n->own, size, n->streaming);
	return true;
}

static bool round_combine(struct node *n, uint64_t k)
{
	uint64_t g = n->base + k, i = round_advance(n, &n->taking, k);
	int me = n->topo->rank, from = (me - n->taking.apart + n->topo->size) % n->topo->size;
	size_t size = node_part(n, node_goes(n, from, me), i) * n->bytes;

	if (size && !node_passed(n, from, false, g))
		return false;
	if (size)
		node_take(n, true, node_chunk_out(n, before_from(n, from, me), i),
			  segment_slot(n->seg, from, g), size);
	node_publish(n, &node_counters(n, me)->out, g + 1);
	return true;
}

const struct node_stages node_broadcast = { broadcast_put, broadcast_combine, node_nothing };
const struct node_stages node_allgather = { gather_put, gather_combine, node_nothing };
const struct node_stages node_alltoall = { exchange_put, exchange_combine, node_nothing };
const struct node_stages node_rounds = { round_put, round_combine, node_nothing };
