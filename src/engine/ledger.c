/* ledger.c - negotiation table in shared memory: names, arrivals, the order of operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ledger.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "ringup.h"
#include "wire/ranks.h"

enum {
	NAME_ROOM = NAME_BYTES + 1,
	VERDICT_ROOM = 512,
	ARENA_BYTES = 16 << 20,
	LONG_SLOT = 4096,   /* longer slots leave half of the arena to others */
	GATHER_MOST = 8192, /* a slot for data whose size is known only later */
	ALONE = 0x8000,     /* flag of a list entry: it is a batch of its own */
};

_Static_assert((int)LEDGER_IDS <= (int)ALONE, "an id fits below the mark");

/* In the count of arrivals: the number of ranks that await this round's operation.  The last
 * rank to arrive removes it, before any rank can arrive for the next round. */
#define AWAITS (UINT64_C(1) << 48)

/* In a rank's count of its operations on an id: the id is held between operations, too. */
#define KEPT (1U << 31)

static size_t ledger_take(size_t *at, size_t bytes)
{
	size_t was = *at;

	*at = (was + bytes + 4095) / 4096 * 4096;
	return was;
}

/* Assigns the parts of the segment; @l may be NULL to learn the size only. */
static size_t lay_out(struct ledger *l, unsigned char *base, int ranks)
{
	size_t at = 0, shared, list, entries, names, records, busy, verdicts, arena;

	shared = ledger_take(&at, sizeof(struct ledger_shared));
	list = ledger_take(&at, LEDGER_IDS * sizeof(uint64_t));
	entries = ledger_take(&at, LEDGER_IDS * sizeof(struct ledger_entry));
	names = ledger_take(&at, (size_t)LEDGER_IDS * NAME_ROOM);
	records = ledger_take(&at, (size_t)LEDGER_IDS * (size_t)ranks *
					   sizeof(struct ledger_record));
	busy = ledger_take(&at, (size_t)LEDGER_IDS * (size_t)ranks * sizeof(uint32_t));
	verdicts = ledger_take(&at, (size_t)LEDGER_IDS * VERDICT_ROOM);
	arena = ledger_take(&at, ARENA_BYTES);
	if (l) {
		l->shared = (void *)(base + shared);
		l->list = (void *)(base + list);
		l->entries = (void *)(base + entries);
		l->names = (void *)(base + names);
		l->records = (void *)(base + records);
		l->busy = (void *)(base + busy);
		l->verdicts = (void *)(base + verdicts);
		l->arena = base + arena;
	}
	return at;
}

size_t ledger_bytes(int ranks)
{
	return lay_out(NULL, NULL, ranks);
}

int ledger_open(struct ledger *l, struct segment *s, uint64_t eager_bytes, struct err *e)
{
	memset(l, 0, sizeof(*l));
	l->seg = s;
	l->alarm = &s->head->alarm;
	l->rank = s->rank;
	l->ranks = s->ranks;
	l->eager_bytes = eager_bytes;
	lay_out(l, s->extra, s->ranks);
	l->rows = calloc((size_t)BATCH_ITEMS * (size_t)s->ranks, sizeof(*l->rows));
	return l->rows ? 0 : fail(e, RINGUP_ENOMEM, "no memory for the ledger");
}

void ledger_close(struct ledger *l)
{
	free(l->rows);
	l->rows = NULL;
}

struct ledger_record *ledger_record(const struct ledger *l, uint32_t id, int rank)
{
	return &l->records[(size_t)id * (size_t)l->ranks + (size_t)rank];
}

static char *ledger_name_of(const struct ledger *l, uint32_t id)
{
	return l->names + (size_t)id * NAME_ROOM;
}

const char *ledger_name(const struct ledger *l, uint32_t id)
{
	return ledger_name_of(l, id);
}

uint32_t ledger_kind(const struct ledger *l, uint32_t id, int rank)
{
	return __atomic_load_n(&ledger_record(l, id, rank)->kind, __ATOMIC_RELAXED);
}

static uint32_t *busy(const struct ledger *l, uint32_t id, int rank)
{
	return &l->busy[(size_t)rank * LEDGER_IDS + id];
}

uint64_t ledger_room(const struct ledger *l, const struct op_signature *s)
{
	uint64_t numbers = (uint64_t)l->ranks * sizeof(uint64_t), bytes = 0;
	uint64_t unknown = l->eager_bytes < GATHER_MOST ? l->eager_bytes : GATHER_MOST;

	if (!l->eager_bytes || s->redop == RINGUP_ADASUM || !op_signature_is_of_host(s))
		return 0;
	if (l->inlined && !op_signature_can_inline(s))
		return 0;
	if (s->kind >= PLAN_KINDS && s->kind != OP_BUNDLE)
		return 0;
	bytes = collective_is(s->kind, COLLECTIVE_GROWS) ? unknown : op_signature_bytes(s);
	if (collective_is(s->kind, COLLECTIVE_SPLITS))
		bytes = numbers <= unknown ? numbers + unknown : UINT64_MAX;
	if (s->kind == OP_BUNDLE) /* it may contain such allgathers */
		bytes = s->count < unknown ? unknown : s->count;
	if (bytes > l->eager_bytes + (collective_is(s->kind, COLLECTIVE_SPLITS) ? numbers : 0))
		return 0;
	if (bytes <= SLOT_CACHE_LINE - SLOT_HEADER)
		return SLOT_CACHE_LINE;
	return SLOT_CACHE_LINE +
	       (bytes + SLOT_CACHE_LINE - 1) / SLOT_CACHE_LINE * SLOT_CACHE_LINE;
}

/* Allots one slot per rank and round, if such data may be eager; between hosts one more, for
 * the result. */
static void give_slots(struct ledger *l, struct ledger_entry *n, const struct op_signature *s)
{
	uint64_t bytes = ledger_room(l, s);
	uint64_t all = bytes * LEDGER_ROUNDS * ((uint64_t)l->ranks + l->inlined);
	uint64_t most = bytes > LONG_SLOT ? ARENA_BYTES / 2 : ARENA_BYTES;

	if (bytes <= (uint32_t)n->slots)
		return;
	if (all > most || l->shared->arena > most - all)
		return;
	__atomic_store_n(&n->slots, l->shared->arena << 32 | bytes, __ATOMIC_RELAXED);
	l->shared->arena += all;
}

/* Only names that are new to a rank come here, so the lock may be slow; its holder may have
 * died or be frozen.  Between hosts the watch's thread may wait here, and no other thread would
 * detect that; hence the limit. */
static int lock(struct ledger *l, struct err *e)
{
	int64_t enough = INT64_MAX;
	uint32_t no = 0, holder = 0;

	while (!__atomic_compare_exchange_n(&l->shared->lock, &no, (uint32_t)l->rank + 1, false,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		if (alarm_get(l->alarm, e))
			return e ? e->code : RINGUP_EPEER;
		if (l->held_ms && no != holder) {
			holder = no;
			enough = clock_deadline(l->held_ms);
		}
		if (enough != INT64_MAX && clock_ns() >= enough)
			return fail(e, RINGUP_EPEER,
				    "rank %d died, or has been frozen for %.1f s, while adding "
				    "a name",
				    ranks_in_world(l->world, l->of_group ? l->of_group[no - 1]
									 : (int)no - 1),
				    l->held_ms / 1e3);
		sched_yield();
		no = 0;
	}
	return 0;
}

static void unlock(const struct ledger *l)
{
	__atomic_store_n(&l->shared->lock, 0, __ATOMIC_RELEASE);
}

bool ledger_tell(const struct ledger *l, uint32_t id, char *out, size_t size)
{
	const char *name = ledger_name_of(l, id);
	uint32_t no = 0;

	if (!__atomic_compare_exchange_n(&l->shared->lock, &no, (uint32_t)l->rank + 1, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	/* An unnamed operation has a number behind a NUL. */
	snprintf(out, size, "%s", *name || l->entries[id].len < 2 ? name : name + 1);
	unlock(l);
	return true;
}

static void unlink_name(struct ledger *l, uint32_t id)
{
	uint32_t *p = &l->shared->bucket[l->entries[id].hash % LEDGER_IDS];

	while (*p != id + 1)
		p = &l->entries[*p - 1].next;
	*p = l->entries[id].next;
}

/* Takes the id from its name, unless a rank is using it.  Of a rank that begins to use it and
 * this one, at least one sees the other: both store and then load, in one order for all
 * ranks. */
static bool evict(struct ledger *l, uint32_t id)
{
	struct ledger_entry *n = &l->entries[id];

	__atomic_fetch_add(&n->age, 1, __ATOMIC_SEQ_CST);
	for (int r = 0; r < l->ranks; r++)
		if (__atomic_load_n(busy(l, id, r), __ATOMIC_SEQ_CST)) {
			__atomic_fetch_sub(&n->age, 1, __ATOMIC_SEQ_CST);
			return false;
		}
	unlink_name(l, id);
	return true;
}

/* An id for another name; LEDGER_IDS if all are in use. */
static uint32_t free_id(struct ledger *l)
{
	uint32_t id;

	if (l->shared->used < LEDGER_IDS)
		return __atomic_fetch_add(&l->shared->used, 1, __ATOMIC_ACQ_REL);
	for (uint32_t tries = 0; tries < LEDGER_IDS; tries++) {
		id = l->shared->hand++ % LEDGER_IDS;
		if (evict(l, id))
			return id;
	}
	return LEDGER_IDS;
}

static uint32_t look_up(const struct ledger *l, const char *name, size_t len, uint64_t hash)
{
	uint32_t at = l->shared->bucket[hash % LEDGER_IDS];

	while (at) {
		const struct ledger_entry *n = &l->entries[at - 1];

		if (n->hash == hash && n->len == len &&
		    !memcmp(ledger_name_of(l, at - 1), name, len))
			return at - 1;
		at = n->next;
	}
	return LEDGER_IDS;
}

static uint32_t give_name(struct ledger *l, const char *name, size_t len, uint64_t hash,
			  const struct op_signature *s)
{
	uint32_t id = free_id(l);
	struct ledger_entry *n;

	if (id == LEDGER_IDS)
		return id;
	n = &l->entries[id];
	n->hash = hash;
	n->len = (uint32_t)len;
	n->next = l->shared->bucket[hash % LEDGER_IDS];
	l->shared->bucket[hash % LEDGER_IDS] = id + 1;
	memcpy(ledger_name_of(l, id), name, len);
	ledger_name_of(l, id)[len] = 0;
	__atomic_store_n(&n->dirty, 1, __ATOMIC_RELAXED);
	give_slots(l, n, s);
	return id;
}

int ledger_find(struct ledger *l, const char *name, size_t len, const struct op_signature *s,
		uint32_t *idp, uint32_t *age, struct err *e)
{
	uint64_t hash = hash_bytes(name, len);
	uint32_t id;
	int rc = lock(l, e);

	if (rc)
		return rc;
	id = look_up(l, name, len, hash);
	if (id == LEDGER_IDS)
		id = give_name(l, name, len, hash, s);
	if (id < LEDGER_IDS) {
		__atomic_fetch_add(busy(l, id, l->rank), 1, __ATOMIC_SEQ_CST);
		*age = __atomic_load_n(&l->entries[id].age, __ATOMIC_RELAXED);
		*idp = id;
	}
	unlock(l);
	return id < LEDGER_IDS
		       ? 0
		       : fail(e, RINGUP_ENOMEM,
			      "%d names are already in flight: wait for some of them first",
			      LEDGER_IDS);
}

static bool hold(struct ledger *l, uint32_t id, uint32_t age, uint32_t how)
{
	__atomic_fetch_add(busy(l, id, l->rank), how, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&l->entries[id].age, __ATOMIC_SEQ_CST) == age)
		return true;
	__atomic_fetch_sub(busy(l, id, l->rank), how, __ATOMIC_RELEASE);
	return false;
}

bool ledger_hold(struct ledger *l, uint32_t id, uint32_t age)
{
	return hold(l, id, age, 1);
}

void ledger_drop(struct ledger *l, uint32_t id)
{
	__atomic_fetch_sub(busy(l, id, l->rank), 1, __ATOMIC_RELEASE);
}

uint32_t ledger_used(const struct ledger *l)
{
	return __atomic_load_n(&l->shared->used, __ATOMIC_ACQUIRE);
}

uint64_t ledger_arrived(const struct ledger *l, uint32_t id)
{
	return __atomic_load_n(&l->entries[id].arrived, __ATOMIC_RELAXED) % AWAITS;
}

bool ledger_is_busy(const struct ledger *l, uint32_t id, int rank)
{
	return __atomic_load_n(busy(l, id, rank), __ATOMIC_RELAXED) & ~KEPT;
}

bool ledger_has_begun(const struct ledger *l, uint32_t id, uint32_t round, int rank)
{
	uint32_t queued = __atomic_load_n(&ledger_record(l, id, rank)->round, __ATOMIC_ACQUIRE);
	struct eager_slots at = ledger_slots(l, id, round);

	/* The rank may have gone on to the next round. */
	return (int32_t)(queued - round) >= 0 ||
	       (at.step && ledger_look(&at, rank, round) != SLOT_EMPTY);
}

bool ledger_signature(const struct ledger *l, uint32_t id, int rank, struct op_signature *s)
{
	const struct ledger_record *x = ledger_record(l, id, rank);

	if (!ledger_is_busy(l, id, rank) || !__atomic_load_n(&x->round, __ATOMIC_ACQUIRE))
		return false;
	*s = x->signature;
	return true;
}

bool ledger_keep(struct ledger *l, uint32_t id, uint32_t age)
{
	return hold(l, id, age, KEPT);
}

void ledger_use(struct ledger *l, uint32_t id)
{
	__atomic_fetch_add(busy(l, id, l->rank), 1, __ATOMIC_SEQ_CST);
}

void ledger_let_go(struct ledger *l, uint32_t id)
{
	__atomic_fetch_sub(busy(l, id, l->rank), KEPT, __ATOMIC_RELEASE);
}

void ledger_judge(struct ledger *l, uint32_t id, const char *sentence, bool mixed)
{
	if (sentence)
		snprintf(l->verdicts + (size_t)id * VERDICT_ROOM, VERDICT_ROOM, "%s", sentence);
	l->entries[id].verdict = !sentence ? 0 : mixed ? 2 : 1;
}

bool ledger_is_mixed(const struct ledger *l, uint32_t id)
{
	return l->entries[id].verdict == 2;
}

const char *ledger_verdict(const struct ledger *l, uint32_t id)
{
	return l->entries[id].verdict ? l->verdicts + (size_t)id * VERDICT_ROOM : NULL;
}

/* Only the last rank to arrive reads the records:
 * all are complete, and none changes before the operation ends. */
static void ledger_compare(struct ledger *l, uint32_t id)
{
	struct ledger_entry *n = &l->entries[id];
	const struct op_signature *of[4096];
	char sentence[VERDICT_ROOM];
	bool same = true, mixed = true;

	for (int r = 0; r < l->ranks; r++) {
		of[r] = &ledger_record(l, id, r)->signature;
		if (op_signature_equal(of[0], of[r]))
			continue;
		same = false;
		mixed &= op_signature_is_mixed(of[0], of[r]);
	}
	if (same)
		__atomic_store_n(&n->dirty, 0, __ATOMIC_RELAXED);
	else
		op_signature_disagree(ledger_name_of(l, id), of, l->ranks, l->world, sentence,
				      sizeof(sentence));
	ledger_judge(l, id, same ? NULL : sentence, mixed);
}

/* A list entry is valid when it carries its own position, so old contents need not be cleared.
 * An id that is not yet complete on all ranks cannot be submitted again, so the list never
 * overflows. */
static void append(struct ledger *l, uint32_t id, bool alone)
{
	uint64_t at = __atomic_fetch_add(&l->shared->tail, 1, __ATOMIC_ACQ_REL);

	__atomic_store_n(&l->list[at % LEDGER_IDS], (at + 1) << 16 | (alone ? ALONE : 0) | id,
			 __ATOMIC_RELEASE);
}

static bool ledger_is_listed(const struct ledger *l, uint64_t at, uint32_t *id, bool *alone)
{
	uint64_t v = __atomic_load_n(&l->list[at % LEDGER_IDS], __ATOMIC_ACQUIRE);

	*id = (uint32_t)v & (ALONE - 1);
	*alone = v & ALONE;
	return v >> 16 == at + 1;
}

uint64_t ledger_rows_of(const struct ledger *l, uint32_t id, int rank)
{
	return __atomic_load_n(&ledger_record(l, id, rank)->rows[ledger_round(l, id) % 2],
			       __ATOMIC_RELAXED);
}

static uint64_t size_of(const struct ledger *l, uint32_t id)
{
	return __atomic_load_n(&l->sizes[id], __ATOMIC_RELAXED);
}

enum arrival ledger_post(struct ledger *l, uint32_t id, const struct op_signature *s,
			 uint64_t rows, bool changed, bool awaits)
{
	struct ledger_entry *n = &l->entries[id];
	struct ledger_record *mine = ledger_record(l, id, l->rank);
	uint64_t all, arrived, awaiting;

	if (changed) {
		mine->signature = *s;
		__atomic_store_n(&mine->kind, s->kind, __ATOMIC_RELAXED);
		__atomic_store_n(&n->dirty, 1, __ATOMIC_RELEASE);
	}
	if (ledger_asks(l))
		__atomic_store_n(&mine->when[ledger_round(l, id) % 2], clock_ns(),
				 __ATOMIC_RELAXED);
	if (op_signature_has_rows(s))
		__atomic_store_n(&mine->rows[ledger_round(l, id) % 2], rows, __ATOMIC_RELAXED);
	__atomic_store_n(&mine->round, ledger_round(l, id), __ATOMIC_RELEASE);
	__atomic_store_n(&l->sizes[id],
			 op_signature_has_rows(s) ? LEDGER_GATHER : op_signature_bytes(s),
			 __ATOMIC_RELAXED);
	all = __atomic_add_fetch(&n->arrived, awaits ? AWAITS + 1 : 1, __ATOMIC_SEQ_CST);
	arrived = all % AWAITS;
	awaiting = all / AWAITS;
	if (arrived % (uint64_t)l->ranks)
		return ARRIVED_EARLY;
	if (awaiting)
		__atomic_fetch_sub(&n->arrived, awaiting * AWAITS, __ATOMIC_RELAXED);
	return awaiting == (uint64_t)l->ranks ? ARRIVED_AWAITED : ARRIVED_LAST;
}

void ledger_order(struct ledger *l, uint32_t id, bool alone)
{
	if (__atomic_load_n(&l->entries[id].dirty, __ATOMIC_ACQUIRE))
		ledger_compare(l, id);
	append(l, id, alone);
}

bool ledger_ready(const struct ledger *l)
{
	uint32_t id;
	bool alone;

	return ledger_is_listed(l, __atomic_load_n(&l->head, __ATOMIC_RELAXED), &id, &alone);
}

/* The end of the next batch, as far as this rank sees the list.  Sets *@alone if the batch is
 * an entry with the mark ALONE, which all ranks see alike. */
static uint64_t seen_end(const struct ledger *l, uint64_t cap, bool *alone)
{
	uint64_t at, sum = 0;
	uint32_t id;
	bool is;

	for (at = l->head; at - l->head < BATCH_ITEMS && ledger_is_listed(l, at, &id, &is);
	     at++) {
		sum += size_of(l, id) == LEDGER_GATHER ? 0 : size_of(l, id);
		if (at > l->head && (is || sum > cap))
			break;
		if (is) {
			*alone = true;
			return at + 1;
		}
	}
	return at;
}

/* All ranks have to cut the list at the same place: the first rank's end counts. */
static uint64_t agreed_end(struct ledger *l, uint64_t mine)
{
	uint64_t *word = &l->shared->batch[l->batches % LEDGER_IDS];
	uint64_t v = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	/* An end of an earlier batch is not above the head. */
	while (v <= l->head)
		if (__atomic_compare_exchange_n(word, &v, mine, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return mine;
	return v;
}

int ledger_next(struct ledger *l, uint64_t cap, struct item *items)
{
	bool alone = false;
	uint64_t at;
	uint32_t id;
	int n;

	at = seen_end(l, cap, &alone);
	if (at == l->head)
		return 0;
	l->end = alone ? at : agreed_end(l, at);
	l->batches++;
	for (n = 0; l->head + (uint64_t)n < l->end; n++) {
		/* The rank that cut the list may have seen more of it. */
		while (!ledger_is_listed(l, l->head + (uint64_t)n, &id, &alone))
			if (__atomic_load_n(&l->alarm->word, __ATOMIC_RELAXED))
				return 0;
		items[n] = (struct item){ .id = id,
					  .bad = ledger_verdict(l, id),
					  .mixed = ledger_is_mixed(l, id) };
		if (size_of(l, id) == LEDGER_GATHER) {
			uint64_t *rows = l->rows + (size_t)n * (size_t)l->ranks;

			for (int r = 0; r < l->ranks; r++)
				rows[r] = ledger_rows_of(l, id, r);
			items[n].rows = rows;
		}
	}
	return n;
}

void ledger_done(struct ledger *l)
{
	__atomic_store_n(&l->head, l->end, __ATOMIC_RELAXED);
}

/* ---- for timelines ---- */

void ledger_ask(struct ledger *l, bool ask)
{
	__atomic_fetch_add(&l->shared->asking, ask ? 1U : UINT32_MAX, __ATOMIC_RELAXED);
}

/* The place of the time in @rank's slot; NULL if there is none. */
static int64_t *when_of(const struct eager_slots *at, int rank, bool gathers)
{
	int64_t *mark = (int64_t *)ledger_mark(at, rank);

	if (at->head > SLOT_HEADER)
		return mark + 2;
	return gathers ? NULL : mark + 1;
}

void ledger_tell_when(const struct eager_slots *at, int rank, bool gathers, int64_t when)
{
	int64_t *place = when_of(at, rank, gathers);

	if (place)
		__atomic_store_n(place, when, __ATOMIC_RELAXED);
}

int64_t ledger_published_when(const struct eager_slots *at, int rank, bool gathers)
{
	const int64_t *place = when_of(at, rank, gathers);

	return place ? __atomic_load_n(place, __ATOMIC_RELAXED) : 0;
}

int64_t ledger_record_when(const struct ledger *l, uint32_t id, int rank)
{
	return __atomic_load_n(&ledger_record(l, id, rank)->when[ledger_round(l, id) % 2],
			       __ATOMIC_RELAXED);
}

/* ---- ranks that have joined ---- */

void ledger_join(struct ledger *l, bool joined)
{
	if (l->joined != joined)
		__atomic_fetch_add(&l->shared->joined, joined ? 1U : UINT32_MAX,
				   __ATOMIC_SEQ_CST);
	l->joined = joined;
}

uint64_t ledger_join_number(struct ledger *l)
{
	return __atomic_add_fetch(&l->shared->joins, 1, __ATOMIC_RELAXED);
}

void ledger_call(struct ledger *l)
{
	__atomic_fetch_add(&l->shared->calls, 1, __ATOMIC_SEQ_CST);
}

uint64_t ledger_calls(const struct ledger *l)
{
	return __atomic_load_n(&l->shared->calls, __ATOMIC_SEQ_CST);
}

bool ledger_call_for(struct ledger *l, uint32_t id, uint64_t taken,
		     const struct op_signature *s)
{
	struct ledger_entry *n = &l->entries[id];
	uint64_t arrived = __atomic_load_n(&n->arrived, __ATOMIC_ACQUIRE) % AWAITS;

	/* The first rank here that submits has called the others; and if all have submitted,
	 * the leader has only not seen it yet. */
	if (arrived != taken * (uint64_t)l->ranks)
		return false;
	n->called_signature = *s;
	__atomic_store_n(&n->called, (uint32_t)(arrived / (uint64_t)l->ranks) + 1,
			 __ATOMIC_RELEASE);
	ledger_call(l);
	return true;
}

static bool is_called(const struct ledger *l, uint32_t id)
{
	uint32_t called = __atomic_load_n(&l->entries[id].called, __ATOMIC_ACQUIRE);

	return called && called == ledger_round(l, id) + 1;
}

/* A rank that has submitted @id once more than this one, or -1.  A rank with a changed
 * signature marks its slot before it publishes the signature, and calls only after that. */
static int caller(const struct ledger *l, uint32_t id)
{
	uint32_t next = ledger_round(l, id) + 1;
	struct eager_slots slots = ledger_slots(l, id, next);
	bool has_slots = slots.step;

	for (int r = 0; r < l->ranks; r++)
		if (__atomic_load_n(&ledger_record(l, id, r)->round, __ATOMIC_ACQUIRE) ==
			    next ||
		    (has_slots && ledger_look(&slots, r, next) == SLOT_DATA))
			return r;
	return -1;
}

int ledger_calling(const struct ledger *l, uint32_t *ids, int most)
{
	uint32_t id, used = __atomic_load_n(&l->shared->used, __ATOMIC_ACQUIRE);
	int n = 0;

	for (id = 0; id < used && n < most; id++)
		if (is_called(l, id) || caller(l, id) >= 0)
			ids[n++] = id;
	return n;
}

size_t ledger_called(const struct ledger *l, uint32_t id, char *name, struct op_signature *s)
{
	int r = caller(l, id);

	memcpy(name, ledger_name_of(l, id), l->entries[id].len);
	name[l->entries[id].len] = 0;
	*s = r < 0 ? l->entries[id].called_signature : ledger_record(l, id, r)->signature;
	return l->entries[id].len;
}
