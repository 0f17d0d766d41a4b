/* ledger.h - agreement in shared memory: names, arrivals, order. */
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

/* One tensor that all ranks have submitted. */
struct item {
	uint32_t id;          /* as ledger_find() gave it                      */
	const char *bad;      /* the ranks disagree: a sentence; else NULL   */
	const uint64_t *rows; /* allgather: rows of every rank; else NULL  */
	const void *result;   /* what has come with the agreement, so that nothing
			       * is to be carried out; else NULL.  All three are
			       * valid until agree_done()                  */
};

/* How a rank that posts was found: there are others to come; it was the last of all, so that
 * there is another batch; or that, and all await the operation, so that no thread need be
 * notified.
 */
enum arrival { ARRIVED_EARLY, ARRIVED_LAST, ARRIVED_AWAITED };

/*
 * Two classes of operations.
 *
 * Stream: a counter per id.  The last arriver puts the id on the list; the
 * others need not be awake.
 *
 * Eager, for small allreduces whose signature was agreed before: submitting
 * writes data and round number into the id's own slot, waiting reads the
 * others' slots.  No agreement, no order, nobody drives.  Two slots per rank
 * and id would suffice, used in turn, for a name is not submitted again before it is
 * complete, and it is complete only when all have submitted it.  There are four:
 * so nobody looks at the slot of the next round any more when this one's has
 * been published, and it can be fetched while the others are waited for.  A rank
 * whose signature has changed marks its slot; the others then go the stream way
 * too, where the difference is found.
 */
enum { LEDGER_IDS = 8192, LEDGER_ROUNDS = 4 };
#define LEDGER_GATHER UINT64_MAX /* a size that is known only at the end */

struct ledger_entry {
	alignas(64) uint64_t arrived;
	uint32_t dirty;   /* the ranks' signatures have to be compared */
	uint32_t verdict; /* they differ: there is a sentence          */
	uint32_t age;     /* changes when the id is given to another name */
	uint32_t next;    /* 1 + the next id with the same hash, or 0     */
	uint32_t len;     /* of the name                                  */
	uint64_t hash;
	uint64_t slots;  /* eager: see ledger_slots_of(); 0: none; atomic */
	uint32_t called; /* the round for which another host calls those who have joined */
	struct op_signature called_signature;
};

struct ledger_record {
	alignas(64) struct op_signature
		signature; /* read after its rank has been seen to arrive */
	uint64_t rows[2];  /* by the parity of the round           */
	int64_t when[2];   /* it arrived, likewise; see ledger_asks(); atomic */
	uint32_t round;    /* of its last stream operation; atomic */
	uint32_t kind;     /* of the signature, for all others; atomic   */
};

struct ledger_shared {
	alignas(64) uint64_t tail; /* of the list                       */
	/* Where a batch ends, by its number.  A rank may be as far ahead of another one as
	 * there are operations in flight there, one a batch. */
	alignas(64) uint64_t batch[LEDGER_IDS];
	alignas(64) uint32_t joined; /* ranks that have no more to do: see join.c */
	uint64_t calls;              /* grows when one of them should look        */
	uint64_t joins;              /* how many have said so                     */
	uint32_t asking;             /* ranks with a timeline; atomic             */
	alignas(64) uint32_t lock;   /* of everything below, and of names; 1 + who has it */
	uint32_t used;               /* ids that ever had a name           */
	uint32_t hand;               /* where the search for another goes on */
	uint64_t arena;              /* bytes given away                   */
	uint32_t bucket[LEDGER_IDS]; /* 1 + the first id, or 0           */
};

struct ledger {
	struct segment *seg;
	const struct alarm *alarm; /* of the job; ledger_open() takes the segment's */
	int held_ms;               /* nobody may hold the lock for longer; 0: for any time */
	int rank, ranks;
	const int *world; /* what it calls the ranks of a group; NULL: this is it */
	/* Set by host_queue_open() if there are other hosts.  Then a slot takes what may travel
	 * with an announcement, and there is one more of them, for the result. */
	const int *of_group; /* what the group calls the ranks of this host */
	bool inlined;
	struct ledger_shared *shared;
	uint64_t *list;
	struct ledger_entry *entries;
	char *names;
	struct ledger_record *records;
	uint32_t *busy; /* by rank and id: operations in flight, and whether it is kept */
	char *verdicts;
	unsigned char *arena;
	/* This rank's own. */
	uint64_t head, batches, end;
	uint64_t eager_bytes;
	bool joined;
	uint32_t rounds[LEDGER_IDS]; /* how often this rank submitted the id; atomic */
	uint64_t sizes[LEDGER_IDS];  /* bytes of its last operation, LEDGER_GATHER; atomic */
	uint64_t *rows;              /* BATCH_ITEMS * ranks                  */
};

/* ledger_bytes - how much of the segment it takes. */
size_t ledger_bytes(int ranks);

int ledger_open(struct ledger *l, struct segment *s, uint64_t eager_bytes, struct err *e);
void ledger_close(struct ledger *l);

/*
 * Numbers stand for names.  There are more names than numbers: when they run out, that of a
 * name which nobody is using goes to another.  A rank holds a number while it has an operation
 * in flight on it.
 *
 * ledger_find - @name's number, held, and its @age.  At most a few microseconds; only the first
 * use of a name costs that.  Under the engine's lock.
 * ledger_hold - false if the number has another age by now: ledger_find() again.  Likewise.
 * ledger_drop - let go, once for each of them; any thread.
 */
int ledger_find(struct ledger *l, const char *name, size_t len, const struct op_signature *w,
		uint32_t *id, uint32_t *age, struct err *e);
bool ledger_hold(struct ledger *l, uint32_t id, uint32_t age);
void ledger_drop(struct ledger *l, uint32_t id);

/* ledger_post - this rank is ready for the round that it has begun; anything but ARRIVED_EARLY:
 * it was the last of this host.  As agree_post(). */
enum arrival ledger_post(struct ledger *l, uint32_t id, const struct op_signature *w,
			 uint64_t rows, bool changed, bool awaits);

/* ledger_order - there are no other hosts, and all ranks have posted @id: compare what they
 * signature if that has changed, and put it on the list; @alone: as a batch of its own. */
void ledger_order(struct ledger *l, uint32_t id, bool alone);

/* ledger_ready, ledger_next, ledger_done - as in agree.h; ledger_next() serves one host alone.
 */
bool ledger_ready(const struct ledger *l);
int ledger_next(struct ledger *l, uint64_t cap, struct item *items);
void ledger_done(struct ledger *l);

/* ledger_used - ids below this have had a name.  ledger_arrived - how often ranks of this
 * host have submitted @id so far. */
uint32_t ledger_used(const struct ledger *l);
uint64_t ledger_arrived(const struct ledger *l, uint32_t id);

/* ledger_is_busy - has @rank an operation in flight on @id? */
bool ledger_is_busy(const struct ledger *l, uint32_t id, int rank);

/* ledger_room - the bytes of a rank's slot for such operations, or 0 if they are
 * never eager, nor travel between hosts. */
uint64_t ledger_room(const struct ledger *l, const struct op_signature *w);

/* What a rank's slot says. */
enum eager_mark { SLOT_EMPTY, SLOT_DATA, SLOT_CHANGED };

/* ledger_begin - start another round of @id; returns its number.  Comes before agree_post() or
 * ledger_put(). */
static inline uint32_t ledger_begin(struct ledger *l, uint32_t id)
{
	/* Only this rank writes there, one thread at a time. */
	uint32_t round = __atomic_load_n(&l->rounds[id], __ATOMIC_RELAXED) + 1;

	__atomic_store_n(&l->rounds[id], round, __ATOMIC_RELAXED);
	return round;
}

/* ledger_round - how often this rank has submitted @id so far. */
static inline uint32_t ledger_round(const struct ledger *l, uint32_t id)
{
	return __atomic_load_n(&l->rounds[id], __ATOMIC_RELAXED);
}

/* ledger_keep - hold @id between operations too, so that they need not; false, like
 * hold(), if it has another age by now.  ledger_let_go - no longer.  ledger_use - hold it
 * for an operation while it is kept: then hold() could still fail, for as long as another
 * rank looks whether anybody does. */
bool ledger_keep(struct ledger *l, uint32_t id, uint32_t age);
void ledger_use(struct ledger *l, uint32_t id);
void ledger_let_go(struct ledger *l, uint32_t id);

/* The slots of all ranks in one round: a mark, a number of rows, and the data: beside
 * them if that takes one line of the cache, else from the next one on, where vectors
 * lie in one slot each. */
enum { SLOT_CACHE_LINE = 64, SLOT_HEADER = 16 };

struct eager_slots {
	unsigned char *first;
	uint64_t step; /* from rank to rank */
	uint64_t head; /* bytes before the data */
};

/* A round of an id. */
struct eager_round {
	uint32_t id, number;
	uint64_t bytes; /* that this rank puts into its slot */
	int64_t when;   /* it does, for timelines; 0: now    */
	struct eager_slots at;
};

/* ledger_holds - does a slot of @room bytes take @bytes?  ledger_fits - those of @id? */
static inline bool ledger_holds(uint64_t room, uint64_t bytes)
{
	return room >= bytes + (room > SLOT_CACHE_LINE ? SLOT_CACHE_LINE : SLOT_HEADER);
}

/* ledger_slots_of - where in the arena the slots of @id are, and how long each is; 0: there are
 * none.  Both stand in one word, since a joined rank reads ids whose names may change. */
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

/* ledger_rows - the number of rows there, for collectives in which that differs. */
static inline uint64_t *ledger_rows(const struct eager_slots *at, int rank)
{
	return ledger_mark(at, rank) + 1;
}

static inline void *ledger_data(const struct eager_slots *at, int rank)
{
	return at->first + (uint64_t)rank * at->step + at->head;
}

/* ledger_filled - what the mark of a slot is then.  ledger_look - has @rank filled its slot? */
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

/* ledger_put - say that @rank's slot is filled, or that it has changed its mind. */
static inline void ledger_put(const struct eager_slots *at, int rank, uint32_t round,
			      enum eager_mark what)
{
	__atomic_store_n(ledger_mark(at, rank), (uint64_t)round << 2 | (uint64_t)what,
			 __ATOMIC_RELEASE);
}

/*
 * ledger_asks - does a rank of this host want to know when the others are ready, for its
 * timeline? ledger_ask - this one does, or no longer.  ledger_tell_when - then say it, of a
 * slot that is about to be filled.  ledger_told - what @rank has said of it; what nobody has
 * said is anything. ledger_record_when - the same of what @rank has posted last of @id, on
 * which this rank has an operation in flight.
 *
 * It stands beside the mark: in the place of a gather's number of rows if there is no other.
 */
static inline bool ledger_asks(const struct ledger *l)
{
	return __builtin_expect(__atomic_load_n(&l->shared->asking, __ATOMIC_RELAXED) != 0, 0);
}
void ledger_ask(struct ledger *l, bool ask);
void ledger_tell_when(const struct eager_slots *at, int rank, bool gathers, int64_t when);
int64_t ledger_told(const struct eager_slots *at, int rank, bool gathers);
int64_t ledger_record_when(const struct ledger *l, uint32_t id, int rank);

/* ledger_join - this rank has no more to do, or has again. */
void ledger_join(struct ledger *l, bool joined);

/* ledger_join_number - from 1 on, one for each that says so. */
uint64_t ledger_join_number(struct ledger *l);

/* ledger_joined - has any rank joined?  ledger_call - then tell it to look. */
static inline bool ledger_joined(const struct ledger *l)
{
	return __atomic_load_n(&l->shared->joined, __ATOMIC_SEQ_CST);
}
void ledger_call(struct ledger *l);
uint64_t ledger_calls(const struct ledger *l);

/* ledger_call_for - another host calls for @id, of which a rank here may not have heard, after
 * the @taken rounds of it that the leader has seen complete; false if one has.  Only the leader
 * asks, and holds the id. */
bool ledger_call_for(struct ledger *l, uint32_t id, uint64_t taken,
		     const struct op_signature *w);

/* ledger_calling - ids that others have submitted and this rank has not: at most @most;
 * returns how many.  ledger_called - the name (NAME_BYTES + 1) and signature of one;
 * returns the length of the name. */
int ledger_calling(const struct ledger *l, uint32_t *ids, int most);
size_t ledger_called(const struct ledger *l, uint32_t id, char *name, struct op_signature *w);

/* ---- for whoever looks from outside ---- */

/* ledger_name - what @id, which somebody holds, stands for now. */
const char *ledger_name(const struct ledger *l, uint32_t id);

/* ledger_tell - the same into @out, for a thread that does not hold @id.  Returns false at once
 * while a rank adds a name. */
bool ledger_tell(const struct ledger *l, uint32_t id, char *out, size_t size);

/* ledger_record - what @rank has said of @id.  Its signature is complete, and stays, from when
 * the rank's arrival, its round or its slot has been seen until the operation is complete. */
struct ledger_record *ledger_record(const struct ledger *l, uint32_t id, int rank);

/* ledger_kind - the kind of what @rank has said last of @id, at any time. */
uint32_t ledger_kind(const struct ledger *l, uint32_t id, int rank);

/* ledger_rows_of - the rows that @rank has told with its operation in flight on @id,
 * on which this rank has one, too. */
uint64_t ledger_rows_of(const struct ledger *l, uint32_t id, int rank);

/* ledger_judge - @sentence is what all ranks hear of @id; NULL: they agree.  Comes
 * before it is on the list. */
void ledger_judge(struct ledger *l, uint32_t id, const char *sentence);

/* ledger_verdict - that sentence, or NULL. */
const char *ledger_verdict(const struct ledger *l, uint32_t id);

#endif
