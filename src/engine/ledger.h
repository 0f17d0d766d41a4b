/* ledger.h - negotiation table in shared memory: names, arrivals, the order of operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_LEDGER_H
#define ENGINE_LEDGER_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/op_signature.h"
#include "wire/segment.h"

struct err;

enum { NAME_BYTES = 511, BATCH_ITEMS = 256 };

/* An entry of a batch: one tensor that all ranks have submitted. */
struct item {
	uint32_t id;          /* as ledger_find() gave it */
	const char *bad;      /* a sentence, if the ranks' signatures disagree; else NULL */
	bool mixed;           /* they do so in the kind of memory only            */
	const uint64_t *rows; /* allgather: rows of every rank; else NULL */
	const void *result;   /* the result, if it came with the agreement, so that no plan is
			       * needed; else NULL.  All three are valid until agree_done() */
};

/* The outcome of a post: other ranks are still to come; this rank was the last, so that there
 * is another batch; or it was the last and all ranks await the operation, so that no thread
 * need be notified. */
enum arrival { ARRIVED_EARLY, ARRIVED_LAST, ARRIVED_AWAITED };

/*
 * Two classes of operations.
 *
 * Stream: a counter per id.  The last rank to arrive puts the id on the list; the other ranks
 * need not be awake.
 *
 * Eager, for small operations whose signature was agreed before: submitting writes data and
 * round number into the rank's slot of the id, waiting reads the other ranks' slots.  There is
 * no agreement, no order, and no holder of the baton.  Two slots per rank and id, used in turn,
 * would suffice: a name is not submitted again before it is complete, and it is complete only
 * when all ranks have submitted it.  There are four, so that no rank still looks at the slot
 * of the next round when this round's is published: that slot can be prefetched while
 * the rank waits.  A rank whose signature has changed marks its slot; the other ranks then
 * queue the operation as well, and the agreement finds the difference.
 */
enum { LEDGER_IDS = 8192, LEDGER_ROUNDS = 4, LEDGER_RECENT = 16 };
#define LEDGER_GATHER UINT64_MAX /* a size that only the agreement tells */

struct ledger_entry {
	alignas(64) uint64_t arrived;
	uint32_t dirty;   /* the ranks' signatures have to be compared */
	uint32_t verdict; /* they disagree: a sentence is in verdicts[]; 2: see
			     ledger_is_mixed() */
	uint32_t age;     /* changes when the id is given to another name */
	uint32_t next;    /* 1 + the next id with the same hash, or 0     */
	uint32_t len;     /* of the name, in bytes */
	uint64_t hash;
	uint64_t slots;  /* eager: see ledger_slots_of(); 0: none; atomic */
	uint32_t called; /* the round that another host calls joined ranks for; atomic */
	struct op_signature called_signature;
};

struct ledger_record {
	alignas(64) struct op_signature
		signature; /* valid for a reader that has seen the arrival */
	uint64_t rows[2];  /* by the parity of the round           */
	int64_t when[2];   /* time of arrival, likewise; see ledger_asks(); atomic */
	uint32_t round;    /* of the last stream operation; atomic */
	uint32_t kind;     /* the signature's, readable at any time; atomic */
};

struct ledger_shared {
	alignas(64) uint64_t tail; /* of the list                       */
	/* The end of each batch, by batch number.  A rank may be ahead of another by as many
	 * batches as that one has operations in flight. */
	alignas(64) uint64_t batch[LEDGER_IDS];
	alignas(64) uint32_t joined; /* ranks that have joined: see join.c */
	uint64_t calls;              /* grows when a joined rank should look */
	uint64_t joins;              /* joins published so far */
	uint32_t asking;             /* ranks with a timeline; atomic             */
	alignas(64) uint32_t lock;   /* of all below and of names; 1 + the rank that holds it */
	uint32_t used;               /* ids that ever had a name           */
	uint32_t hand;               /* where the search for an unused id continues */
	uint64_t arena;              /* bytes given away                   */
	uint32_t bucket[LEDGER_IDS]; /* 1 + the first id, or 0           */
};

struct ledger {
	struct segment *seg;
	const struct alarm *alarm; /* of the job; ledger_open() takes the segment's */
	int held_ms; /* a rank that holds the lock for longer is lost; 0: no limit */
	int rank, ranks;
	const int *world; /* world ranks of the group's ranks; NULL: the group is the world */
	/* Set by host_queue_open() if there are other hosts.  Slots then exist for data that
	 * may travel inline with an announcement, and there is one more slot, for the result.
	 */
	const int *of_group; /* group ranks of this host's ranks */
	bool inlined;
	struct ledger_shared *shared;
	uint64_t *list;
	struct ledger_entry *entries;
	char *names;
	struct ledger_record *records;
	uint32_t *busy; /* by rank and id: operations in flight, and a flag while it is kept */
	char *verdicts;
	unsigned char *arena;
	/* Private to this rank. */
	uint64_t head, batches, end;
	uint64_t eager_bytes;
	bool joined;
	uint32_t rounds[LEDGER_IDS];    /* how often this rank submitted the id; atomic */
	uint32_t recent[LEDGER_RECENT]; /* ids in the order of this rank's rounds; atomic */
	uint32_t recents;               /* rounds so far; atomic */
	uint64_t sizes[LEDGER_IDS];     /* bytes of its last operation, LEDGER_GATHER; atomic */
	uint64_t *rows;                 /* BATCH_ITEMS * ranks                  */
};

/* ledger_bytes - bytes of the segment that the ledger takes. */
size_t ledger_bytes(int ranks);

int ledger_open(struct ledger *l, struct segment *s, uint64_t eager_bytes, struct err *e);
void ledger_close(struct ledger *l);

/*
 * Ids stand for names.  There are more names than ids: when ids run out, a name that no rank
 * uses gives its id to another.  A rank holds an id while it has an operation in flight on it.
 *
 * ledger_find - the id of @name, held, and its @age.  Takes a few microseconds, on the first
 * use of a name only.  The engine's lock is held.
 * ledger_hold - hold the id again; false if its age has changed: use ledger_find().  Likewise.
 * ledger_drop - release one hold; any thread.
 */
int ledger_find(struct ledger *l, const char *name, size_t len, const struct op_signature *s,
		uint32_t *id, uint32_t *age, struct err *e);
bool ledger_hold(struct ledger *l, uint32_t id, uint32_t age);
void ledger_drop(struct ledger *l, uint32_t id);

/* ledger_post - this rank is ready for the round that it has begun.  Any result but
 * ARRIVED_EARLY means that it was the last of this host.  Otherwise as agree_post(). */
enum arrival ledger_post(struct ledger *l, uint32_t id, const struct op_signature *s,
			 uint64_t rows, bool changed, bool awaits);

/* ledger_order - all ranks have posted @id, and there are no other hosts: compare the
 * signatures if one has changed, and list the id; @alone: as a batch of its own. */
void ledger_order(struct ledger *l, uint32_t id, bool alone);

/* ledger_ready, ledger_next, ledger_done - as in agree.h; ledger_next() is for a single host.
 */
bool ledger_ready(const struct ledger *l);
int ledger_next(struct ledger *l, uint64_t cap, struct item *items);
void ledger_done(struct ledger *l);

/* ledger_used - ids below this one have had a name.  ledger_arrived - submissions of @id by the
 * ranks of this host so far. */
uint32_t ledger_used(const struct ledger *l);
uint64_t ledger_arrived(const struct ledger *l, uint32_t id);

/* ledger_is_busy - has @rank an operation in flight on @id? */
bool ledger_is_busy(const struct ledger *l, uint32_t id, int rank);

/* ledger_has_begun - has @rank begun @round of @id?  Remains true when the round is over, also
 * if the job has failed meanwhile. */
bool ledger_has_begun(const struct ledger *l, uint32_t id, uint32_t round, int rank);

/* ledger_signature - copy the signature of @rank's operation in flight on @id to *@s; false if
 * there is none, or if that is not known yet. */
bool ledger_signature(const struct ledger *l, uint32_t id, int rank, struct op_signature *s);

/* ledger_room - bytes of a rank's slot for operations of signature @s; 0 if these are neither
 * eager nor inline. */
uint64_t ledger_room(const struct ledger *l, const struct op_signature *s);

/* The state of a rank's slot; SLOT_CHANGED: the rank has queued the round. */
enum eager_mark { SLOT_EMPTY, SLOT_DATA, SLOT_CHANGED };

/* ledger_note - keep @id as that of this rank's last round, for the observation page: two
 * threads at once may lose one. */
static inline void ledger_note(struct ledger *l, uint32_t id)
{
	uint32_t n = __atomic_load_n(&l->recents, __ATOMIC_RELAXED);

	__atomic_store_n(&l->recent[n % LEDGER_RECENT], id, __ATOMIC_RELAXED);
	__atomic_store_n(&l->recents, n + 1, __ATOMIC_RELEASE);
}

/* ledger_begin - begin the next round of @id; returns its number.  Comes before agree_post() or
 * ledger_put(). */
static inline uint32_t ledger_begin(struct ledger *l, uint32_t id)
{
	/* Only this rank writes this counter, one thread at a time. */
	uint32_t round = __atomic_load_n(&l->rounds[id], __ATOMIC_RELAXED) + 1;

	__atomic_store_n(&l->rounds[id], round, __ATOMIC_RELAXED);
	ledger_note(l, id);
	return round;
}

/* ledger_round - rounds of @id that this rank has begun so far. */
static inline uint32_t ledger_round(const struct ledger *l, uint32_t id)
{
	return __atomic_load_n(&l->rounds[id], __ATOMIC_RELAXED);
}

/* ledger_keep - hold @id between operations too, which saves their holds; false, as
 * ledger_hold(), if it has another age.  ledger_let_go - end that.  ledger_use - hold a kept
 * @id for one operation: cannot fail, while ledger_hold() could, as long as another rank checks
 * whether the id is in use. */
bool ledger_keep(struct ledger *l, uint32_t id, uint32_t age);
void ledger_use(struct ledger *l, uint32_t id);
void ledger_let_go(struct ledger *l, uint32_t id);

/* The slots of all ranks in one round.  Each has a mark, a number of rows, and the data: in the
 * same cache line if they fit, else from the next line on, where vectors do not straddle
 * cache lines. */
enum { SLOT_CACHE_LINE = 64, SLOT_HEADER = 16 };

struct eager_slots {
	unsigned char *first;
	uint64_t step; /* bytes from rank to rank */
	uint64_t head; /* bytes before the data */
};

/* A round of an id. */
struct eager_round {
	uint32_t id, number;
	uint64_t bytes; /* that this rank puts into its slot */
	int64_t when;   /* time when the slot is filled, for timelines; 0: now */
	struct eager_slots at;
};

/* ledger_holds - does a slot of @room bytes take @bytes?  ledger_fits - does a slot of @id? */
static inline bool ledger_holds(uint64_t room, uint64_t bytes)
{
	return room >= bytes + (room > SLOT_CACHE_LINE ? SLOT_CACHE_LINE : SLOT_HEADER);
}

/* ledger_slots_of - the bytes of a slot of @id, and where its slots begin in the arena; 0: it
 * has none.  Both share one word, since a joined rank reads ids whose names may change. */
static inline uint64_t ledger_slots_of(const struct ledger *l, uint32_t id, uint64_t *at)
{
	uint64_t slots = __atomic_load_n(&l->entries[id].slots, __ATOMIC_RELAXED);

	*at = slots >> 32;
	return (uint32_t)slots;
}

static inline bool ledger_fits(const struct ledger *l, uint32_t id, uint64_t bytes)
{
	uint64_t at;

	return ledger_holds(ledger_slots_of(l, id, &at), bytes);
}

static inline struct eager_slots ledger_slots(const struct ledger *l, uint32_t id,
					      uint32_t round)
{
	uint64_t at, bytes = ledger_slots_of(l, id, &at);

	return (struct eager_slots){ l->arena + at + round % LEDGER_ROUNDS * bytes,
				     LEDGER_ROUNDS * bytes,
				     bytes > SLOT_CACHE_LINE ? SLOT_CACHE_LINE : SLOT_HEADER };
}

static inline uint64_t *ledger_mark(const struct eager_slots *at, int rank)
{
	return (void *)(at->first + (uint64_t)rank * at->step);
}

/* ledger_rows - @rank's number of rows, for collectives in which ranks differ in it. */
static inline uint64_t *ledger_rows(const struct eager_slots *at, int rank)
{
	return ledger_mark(at, rank) + 1;
}

static inline void *ledger_data(const struct eager_slots *at, int rank)
{
	return at->first + (uint64_t)rank * at->step + at->head;
}

/* ledger_filled - the mark of a filled slot.  ledger_look - the state of @rank's slot. */
static inline uint64_t ledger_filled(uint32_t round)
{
	return (uint64_t)round << 2 | (uint64_t)SLOT_DATA;
}

static inline enum eager_mark ledger_look(const struct eager_slots *at, int rank,
					  uint32_t round)
{
	uint64_t v = __atomic_load_n(ledger_mark(at, rank), __ATOMIC_ACQUIRE);

	return v >> 2 == round ? (enum eager_mark)(v & 3) : SLOT_EMPTY;
}

/* ledger_put - mark @rank's slot: filled, or the round is queued. */
static inline void ledger_put(const struct eager_slots *at, int rank, uint32_t round,
			      enum eager_mark what)
{
	__atomic_store_n(ledger_mark(at, rank), (uint64_t)round << 2 | (uint64_t)what,
			 __ATOMIC_RELEASE);
}

/*
 * ledger_asks - has a rank of this host a timeline, so that it wants the others' arrival times?
 * ledger_ask - this rank wants them, or no longer does.  ledger_tell_when - publish the time in
 * a slot that is about to be filled.  ledger_published_when - the time that @rank published
 * there, an arbitrary value if it published none.  ledger_record_when - the same for @rank's
 * last post of @id, on which this rank has an operation in flight.
 *
 * The time stands behind mark and rows; in a slot of one cache line it takes the place of the
 * rows, unless the operation has rows.
 */
static inline bool ledger_asks(const struct ledger *l)
{
	return __builtin_expect(__atomic_load_n(&l->shared->asking, __ATOMIC_RELAXED) != 0, 0);
}
void ledger_ask(struct ledger *l, bool ask);
void ledger_tell_when(const struct eager_slots *at, int rank, bool gathers, int64_t when);
int64_t ledger_published_when(const struct eager_slots *at, int rank, bool gathers);
int64_t ledger_record_when(const struct ledger *l, uint32_t id, int rank);

/* ledger_join - this rank has joined, or takes part again. */
void ledger_join(struct ledger *l, bool joined);

/* ledger_join_number - the number of a join, counted from 1. */
uint64_t ledger_join_number(struct ledger *l);

/* ledger_joined - has any rank joined?  ledger_call - tell joined ranks to look. */
static inline bool ledger_joined(const struct ledger *l)
{
	return __atomic_load_n(&l->shared->joined, __ATOMIC_SEQ_CST);
}
void ledger_call(struct ledger *l);
uint64_t ledger_calls(const struct ledger *l);

/* ledger_call_for - another host calls joined ranks for @id, of which the leader has seen
 * @taken rounds complete; false if a rank of this host has already submitted the next round.
 * Only the leader calls, and it holds the id. */
bool ledger_call_for(struct ledger *l, uint32_t id, uint64_t taken,
		     const struct op_signature *s);

/* ledger_calling - at most @most ids that other ranks have submitted and this rank has not;
 * returns how many.  ledger_called - name (NAME_BYTES + 1) and signature of one of these;
 * returns the length of the name. */
int ledger_calling(const struct ledger *l, uint32_t *ids, int most);
size_t ledger_called(const struct ledger *l, uint32_t id, char *name, struct op_signature *s);

/* ---- for diagnosis and other readers ---- */

/* ledger_name - the name of @id, which a rank holds. */
const char *ledger_name(const struct ledger *l, uint32_t id);

/* ledger_tell - copy the name of @id to @out, for a thread that does not hold @id.  Returns
 * false at once while a rank adds a name. */
bool ledger_tell(const struct ledger *l, uint32_t id, char *out, size_t size);

/* ledger_record - @rank's record of @id.  Its signature is complete and stable from the moment
 * the rank's arrival, round or slot is seen until the operation is complete. */
struct ledger_record *ledger_record(const struct ledger *l, uint32_t id, int rank);

/* ledger_kind - the kind of @rank's last operation on @id; readable at any time. */
uint32_t ledger_kind(const struct ledger *l, uint32_t id, int rank);

/* ledger_rows_of - the rows that @rank posted for its operation in flight on @id, on which this
 * rank has one, too. */
uint64_t ledger_rows_of(const struct ledger *l, uint32_t id, int rank);

/* ledger_judge - set the sentence that all ranks receive for @id; NULL: the ranks agree.
 * @mixed: they disagree about the kind of memory only.  Comes before @id is listed. */
void ledger_judge(struct ledger *l, uint32_t id, const char *sentence, bool mixed);

/* ledger_verdict - the sentence of ledger_judge(), or NULL; ledger_is_mixed - is it one about
 * the kind of memory only? */
const char *ledger_verdict(const struct ledger *l, uint32_t id);
bool ledger_is_mixed(const struct ledger *l, uint32_t id);

#endif
