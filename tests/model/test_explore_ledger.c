/* test_explore_ledger.c - ranks agree in every interleaving of ledger.c; seeded bugs show. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "model/shadow.h"
#include "model/verdict.h"
#include "ringup.h"

/* The real code, seen through the shadow. */
#include "engine/ledger.c"

enum { RANKS = 2, NAMES = 2, LOG = 16 };

static const char *const name[NAMES] = { "a", "b" };
static const struct op_signature sum = { .count = 4, .pre = 1, .post = 1, .dtype = RINGUP_F32 };

static struct ledger ledger[RANKS];
static struct segment segment[RANKS];
static unsigned char *memory;
static size_t bytes;

/* What a rank carried out: ids in order, and 0x100 where a batch ends. */
static int done_of[RANKS][LOG], done_count[RANKS], ops_done[RANKS];
static int bad_of[RANKS];
static int rounds;
static bool differ;            /* rank 1 wants something else */
static unsigned awaits[RANKS]; /* bit i: this rank awaits name i */
static uint64_t cap;

/* All zeros again, where so few names leave anything. */
static void forget(void)
{
	const struct ledger *l = &ledger[0];
	int r;

	memset(memory, 0, 4096);
	if (!l->shared)
		return;
	memset(l->shared, 0, sizeof(*l->shared));
	memset(l->list, 0, 4096);
	memset(l->entries, 0, NAMES * sizeof(*l->entries));
	memset(l->names, 0, (size_t)NAMES * NAME_ROOM);
	memset(l->records, 0, (size_t)RANKS * NAMES * sizeof(*l->records));
	for (r = 0; r < RANKS; r++)
		memset(busy(l, 0, r), 0, NAMES * sizeof(*l->busy));
	memset(l->arena, 0, 4096);
}

static void reset(void)
{
	size_t head = 4096;
	struct err e;
	int r;

	if (!memory) {
		bytes = head + ledger_bytes(RANKS);
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	}
	forget();
	for (r = 0; r < RANKS; r++) {
		segment[r] = (struct segment){ .rank = r,
					       .ranks = RANKS,
					       .base = memory,
					       .head = (void *)memory,
					       .extra = memory + head };
		ledger_close(&ledger[r]);
		explore_require(!ledger_open(&ledger[r], &segment[r], 1024, &e), "it opens");
		done_count[r] = ops_done[r] = bad_of[r] = 0;
	}
	explore_name(&ledger[0].shared->tail, "tail");
	explore_name(&ledger[0].shared->batch[0], "batch 0");
	explore_name(&ledger[0].shared->batch[1], "batch 1");
	explore_name(&ledger[0].list[0], "list 0");
	explore_name(&ledger[0].list[1], "list 1");
	explore_name(&ledger[0].entries[0].arrived, "arrived 0");
	explore_name(&ledger[0].entries[1].arrived, "arrived 1");
	explore_name(&ledger[0].entries[0].dirty, "dirty 0");
	explore_name(&ledger[0].entries[1].dirty, "dirty 1");
}

/* Numbers for all names, as if they had been used before. */
static void reset_known(void)
{
	uint32_t id, age;
	struct err e;
	int r, i;

	reset();
	for (r = 0; r < RANKS; r++)
		for (i = 0; i < NAMES; i++)
			explore_require(
				!ledger_find(&ledger[r], name[i], 1, &sum, &id, &age, &e) &&
					id == (uint32_t)i,
				"names have numbers in order");
	for (i = 0; i < NAMES; i++) {
		ledger[0].entries[i].dirty = 0;
		for (r = 0; r < RANKS; r++)
			ledger_record(&ledger[0], (uint32_t)i, r)->signature = sum;
	}
}

/* As agree_post() on one host. */
static void post(int rank, uint32_t id, const struct op_signature *s, bool changed,
		 bool awaited)
{
	struct ledger *l = &ledger[rank];
	enum arrival as = ledger_post(l, id, s, 0, changed, awaited);

	if (as != ARRIVED_EARLY)
		ledger_order(l, id, as == ARRIVED_AWAITED);
}

static void submit(int rank, int i, bool changed)
{
	struct op_signature w = sum;

	if (differ && rank == 1)
		w.count = 5;
	ledger_begin(&ledger[rank], (uint32_t)i);
	post(rank, (uint32_t)i, &w, changed, awaits[rank] >> i & 1);
}

/* The holder of the baton: until @want operations are done. */
static void drive(int rank, int want)
{
	struct item items[BATCH_ITEMS];
	int n, i;

	while (ops_done[rank] < want) {
		if (!ledger_ready(&ledger[rank])) {
			explore_idle();
			continue;
		}
		n = ledger_next(&ledger[rank], cap, items);
		explore_require(n > 0 && n <= NAMES, "ready, and then nothing");
		for (i = 0; i < n; i++) {
			done_of[rank][done_count[rank]++] = (int)items[i].id;
			bad_of[rank] += items[i].bad != NULL;
		}
		done_of[rank][done_count[rank]++] = 0x100;
		ledger_done(&ledger[rank]);
		ops_done[rank] += n;
	}
}

/* Rank 0 submits a, b; rank 1 b, a; each then carries out what there is. */
static void in_turn(int rank)
{
	int round, i;

	for (round = 0; round < rounds; round++) {
		for (i = 0; i < NAMES; i++)
			submit(rank, rank ? NAMES - 1 - i : i, false);
		drive(rank, NAMES * (round + 1));
	}
}

/* Threads 0 and 1 submit; 2 and 3 carry out, at the same time. */
static void apart(int thread)
{
	int i, rank = thread % RANKS;

	if (thread < RANKS)
		for (i = 0; i < NAMES; i++)
			submit(rank, rank ? NAMES - 1 - i : i, false);
	else
		drive(rank, NAMES);
}

/* A name that all know; rank 1 now wants something else under it. */
static void change_of_mind(int rank)
{
	submit(rank, 0, rank == 1);
	drive(rank, 1);
}

static void same_everywhere(void)
{
	explore_require(
		done_count[0] == done_count[1] &&
			!memcmp(done_of[0], done_of[1], (size_t)done_count[0] * sizeof(int)),
		"the ranks carried out different batches");
	explore_require(bad_of[0] == bad_of[1] && bad_of[0] == (differ ? ops_done[0] : 0),
			"the ranks disagree about a disagreement");
}

/* The first use, with everything that goes with it; one name. */
static void first_use(int rank)
{
	uint32_t id, age;
	struct err e;
	int i, k;

	for (k = 0; k < NAMES; k++) {
		i = rank ? NAMES - 1 - k : k;
		explore_require(!ledger_find(&ledger[rank], name[i], 1, &sum, &id, &age, &e),
				"a number for a name");
		submit(rank, (int)id, true);
	}
	drive(rank, NAMES);
}

/* Small operations: data in lines, in turns; the next one is fetched in advance. */
static void eager(int rank)
{
	uint32_t round, *line;
	uint64_t *next;
	struct eager_slots at;
	int i;

	for (i = 1; i <= rounds; i++) {
		round = ledger_begin(&ledger[rank], 0);
		at = ledger_slots(&ledger[rank], 0, round + 1);
		next = ledger_mark(&at, rank);
		at = ledger_slots(&ledger[rank], 0, round);
		line = ledger_data(&at, rank);
		__atomic_store_n(line, (uint32_t)(10 * i + rank), __ATOMIC_RELAXED);
		ledger_put(&at, rank, round, SLOT_DATA);
		__atomic_store_n(next, 0, __ATOMIC_RELAXED);
		while (ledger_look(&at, 1 - rank, round) != SLOT_DATA)
			explore_idle();
		line = ledger_data(&at, 1 - rank);
		explore_require(__atomic_load_n(line, __ATOMIC_RELAXED) ==
					(uint32_t)(10 * i + 1 - rank),
				"a line's data are not its round's");
	}
}

/* All numbers are taken; the next new name takes that of "a", unless it is held. */
static uint32_t age_of_a;

static void reset_full(void)
{
	int r;

	differ = false;
	reset_known();
	for (r = 0; r < RANKS; r++) {
		ledger_drop(&ledger[r], 0);
		ledger_drop(&ledger[r], 1);
	}
	ledger[0].shared->used = LEDGER_IDS;
	age_of_a = ledger[0].entries[0].age;
}

static void recycle(int rank)
{
	uint32_t id, age;
	struct err e;

	if (rank == 1) {
		explore_require(!ledger_find(&ledger[1], "c", 1, &sum, &id, &age, &e) &&
					id < NAMES,
				"a number nobody holds");
		ledger_drop(&ledger[1], id);
		return;
	}
	if (!ledger_hold(&ledger[0], 0, age_of_a))
		return;
	/* What a submission does while it holds it. */
	explore_require(!strcmp(ledger_name_of(&ledger[0], 0), "a"),
			"a held number lost its name");
	submit(0, 0, false);
	explore_require(!strcmp(ledger_name_of(&ledger[0], 0), "a"),
			"a held number lost its name");
	ledger_drop(&ledger[0], 0);
}

/* Rank 1 has no more data and answers what it is called for; rank 0 uses "a" once more,
 * for what it was used before, or for something else. */
static bool other;

static void reset_join(void)
{
	struct eager_slots at;

	reset_known();
	at = ledger_slots(&ledger[0], 0, 1);
	explore_name(ledger_mark(&at, 0), "line");
	explore_name(&ledger[0].shared->joined, "joined");
	explore_name(&ledger[0].shared->calls, "calls");
}

/* As submit.c and engine.c do it. */
static void announce(int rank)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (ledger_joined(&ledger[rank]))
		ledger_call(&ledger[rank]);
}

static void use_once_more(void)
{
	struct op_signature w = sum;
	uint32_t round = ledger_begin(&ledger[0], 0);
	struct eager_slots at = ledger_slots(&ledger[0], 0, round);

	w.count += other;
	ledger_put(&at, 0, round, other ? SLOT_CHANGED : SLOT_DATA);
	/* Here the engine does something else. */
	explore_load(&other, sizeof(other), __ATOMIC_RELAXED);
	if (other) {
		post(0, 0, &w, true, false);
		announce(0);
	} else {
		announce(0);
		while (ledger_look(&at, 1, round) != SLOT_CHANGED)
			explore_idle();
		post(0, 0, &w, false, false);
	}
}

static void answer_once(void)
{
	uint64_t seen = ledger_calls(&ledger[1]) - 1, calls;
	uint32_t id, round;
	struct eager_slots at;
	struct op_signature w;
	char called[NAME_BYTES + 1];
	bool done = false;

	while (!done) {
		calls = ledger_calls(&ledger[1]);
		if (calls == seen) {
			explore_idle();
			continue;
		}
		seen = calls;
		while (ledger_calling(&ledger[1], &id, 1)) {
			ledger_called(&ledger[1], id, called, &w);
			explore_require(!id && !strcmp(called, name[0]), "called for a name");
			explore_require(w.count == sum.count + other,
					"called for what the caller does not want");
			round = ledger_begin(&ledger[1], id);
			at = ledger_slots(&ledger[1], id, round);
			ledger_put(&at, 1, round, SLOT_CHANGED);
			post(1, id, &w, true, false);
			done = true;
		}
	}
}

static void joined(int rank)
{
	if (rank == 0) {
		use_once_more();
	} else {
		ledger_join(&ledger[1], true);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		answer_once();
	}
	drive(rank, 1);
}

static void run(const char *what, int n, struct explore x, const char *bug)
{
	x.threads = n;
	explore_judge(what, &x, bug);
}

int main(void)
{
	struct explore x = { .reset = reset_known,
			     .body = in_turn,
			     .check = same_everywhere,
			     .preemptions = 2,
			     .stale = 1 },
		       good;
	/* With RINGUP_TEST_LONG=1 all of them are taken as far; else each kind once. */
	const char *text = getenv("RINGUP_TEST_LONG");
	bool is_long = text && !strcmp(text, "1");
	struct eager_slots at;

	rounds = 1;
	cap = 1 << 20;
	run("two names in two orders", RANKS, x, NULL);
	cap = 1;
	run("the same, a batch each", RANKS, x, NULL);
	cap = 1 << 20;
	rounds = 2;
	run("the same twice", RANKS, x, NULL);
	/* What all await is a batch of its own. */
	x.preemptions = is_long ? 2 : 1;
	awaits[0] = awaits[1] = 1;
	run("the same twice, all await one", RANKS, x, NULL);
	awaits[0] = 3;
	run("all await one, one awaits both", RANKS, x, NULL);
	awaits[1] = 3;
	run("all await both", RANKS, x, NULL);
	awaits[0] = awaits[1] = 0;
	rounds = 1;
	x.preemptions = 2;
	good = x;
	x.body = apart;
	x.preemptions = 1;
	x.stale = is_long;
	run("submitting and driving apart", 2 * RANKS, x, NULL);
	x = good;
	x.reset = reset;
	x.body = first_use;
	run("names that are new", RANKS, x, NULL);
	x = good;
	differ = true;
	x.reset = reset;
	x.body = first_use;
	run("names that are new, and a disagreement", RANKS, x, NULL);
	x = good;
	x.body = change_of_mind;
	run("a change of mind", RANKS, x, NULL);
	differ = false;
	rounds = LEDGER_ROUNDS + 2;
	good.body = eager;
	good.check = NULL;
	run("lines, more rounds than turns", RANKS, good, NULL);
	good.body = joined;
	good.reset = reset_join;
	good.check = same_everywhere;
	run("a rank joins while another goes eagerly", RANKS, good, NULL);
	other = true;
	run("a rank joins while another changes its mind", RANKS, good, NULL);
	good.check = NULL;
	good.body = recycle;
	good.reset = reset_full;
	run("a number is held, or given away", RANKS, good, NULL);

	reset_known();
	rounds = 1;
	x.reset = reset_known;
	x.body = in_turn;
	x.torn = &ledger[0].shared->tail;
	run("the end of the list, not counted in one piece", RANKS, x, "");
	x.torn = &ledger[0].entries[0].arrived;
	run("arrivals, not counted in one piece", RANKS, x, "");
	x.torn = &ledger[0].shared->batch[0];
	run("a batch that each rank cuts for itself", RANKS, x, "");
	x.torn = NULL;
	x.weak = &ledger[0].entries[0].arrived;
	differ = true;
	x.body = change_of_mind;
	run("arrivals that pass nothing on", RANKS, x, "about a disagreement");
	differ = false;
	rounds = 4;
	good.body = eager;
	good.reset = reset_known;
	at = ledger_slots(&ledger[0], 0, 1);
	good.weak = ledger_mark(&at, 0);
	run("a line without release", RANKS, good, "not its round's");
	good.weak = NULL;
	good.reset = reset_full;
	good.body = recycle;
	good.lost = &ledger[0].entries[0].age;
	run("a number whose age stands still", RANKS, good, "lost its name");
	good.lost = NULL;
	other = false;
	good.body = joined;
	good.reset = reset_join;
	good.no_fences = true;
	run("a rank joins, and no fence", RANKS, good, "never comes");
	good.no_fences = false;
	good.lost = &ledger[0].shared->calls;
	run("a rank joins, and is not called", RANKS, good, "never comes");
	return tap_done();
}
