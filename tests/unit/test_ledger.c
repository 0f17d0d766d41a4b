/* test_ledger.c - all ranks see one order and the same batches; disagreement is found. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/ledger.h"
#include "tap.h"

enum { RANKS = 3, NAMES = 40, EAGER = 32768 };

static struct ledger ledger[RANKS];
static struct segment segment[RANKS];
static void *memory;

/* Three ranks in one process, without a socket: the same memory, three views. */
static void open_all(void)
{
	size_t head = 4096,
	       bytes = head + RANKS * sizeof(struct waiter) + 64 + ledger_bytes(RANKS);
	struct err e;
	int r;

	memory = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
	memset(memory, 0, bytes);
	for (r = 0; r < RANKS; r++) {
		segment[r] = (struct segment){ .rank = r, .ranks = RANKS, .base = memory };
		segment[r].head = memory;
		segment[r].extra = (char *)memory + head;
		ok(!ledger_open(&ledger[r], &segment[r], EAGER, &e), "rank %d opens", r);
	}
}

static uint32_t post(int rank, const char *name, struct op_signature w, bool changed,
		     uint64_t rows, bool *last)
{
	struct err e = { 0 };
	enum arrival as;
	uint32_t id = 0, age;

	if (ledger_find(&ledger[rank], name, strlen(name), &w, &id, &age, &e))
		printf("# %s\n", e.text);
	ledger_begin(&ledger[rank], id);
	as = ledger_post(&ledger[rank], id, &w, rows, changed, false);
	if (as != ARRIVED_EARLY)
		ledger_order(&ledger[rank], id, as == ARRIVED_AWAITED);
	*last = as != ARRIVED_EARLY;
	ledger_drop(&ledger[rank], id);
	return id;
}

/* Each rank submits all names, in an order of its own. */
static int submit_all(int rank, int round, struct op_signature w)
{
	static const int steps[RANKS] = { 1, 7, 11 }; /* no factor in common with NAMES */
	char name[16];
	bool last;
	int i, lasts = 0;

	for (i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "n%d", (i * steps[rank] + round) % NAMES);
		post(rank, name, w, round == 0, 0, &last);
		lasts += last;
	}
	return lasts;
}

static void order(void)
{
	struct op_signature w = { .count = 100, .pre = 1, .post = 1, .dtype = RINGUP_F32 };
	struct item items[RANKS][BATCH_ITEMS];
	int r, i, n[RANKS], good = 1, total, round, batches = 0;

	for (round = 0; round < 50; round++) {
		good &= submit_all(0, round, w) == 0 && submit_all(1, round, w) == 0;
		good &= !ledger_ready(&ledger[0]);
		good &= submit_all(2, round, w) == NAMES;
		for (total = 0; total < NAMES && good; total += n[0], batches++) {
			/* Whoever comes first, each with a cap of its own, decides for all. */
			for (i = 0; i < RANKS; i++) {
				r = (i + batches) % RANKS;
				n[r] = ledger_next(&ledger[r], 4000 + (uint64_t)r * 2000,
						   items[r]);
			}
			good &= n[0] > 0 && n[1] == n[0] && n[2] == n[0];
			for (i = 0; i < n[0] && good; i++)
				good &= items[0][i].id == items[1][i].id &&
					items[0][i].id == items[2][i].id && !items[0][i].bad;
			for (r = 0; r < RANKS; r++)
				ledger_done(&ledger[r]);
		}
		good &= total == NAMES;
	}
	ok(good, "one order, the same batches, nothing lost");
	ok(batches > 50, "the cap cuts them: %d", batches);
}

/* A rank is far ahead, and where it has cut the list the others do, too. */
static void ahead(void)
{
	enum { AHEAD = 2000 };
	struct op_signature w = { .count = 100, .pre = 1, .post = 1, .dtype = RINGUP_F32 };
	struct item items[RANKS][BATCH_ITEMS];
	uint32_t id[AHEAD];
	char name[16];
	bool last;
	int i, r, bad = 0;

	for (i = 0; i < AHEAD; i++) {
		snprintf(name, sizeof(name), "ahead%d", i);
		for (r = 0; r < RANKS; r++)
			id[i] = post(r, name, w, true, 0, &last);
		bad += ledger_next(&ledger[0], 1, items[0]) != 1 || items[0][0].id != id[i];
		ledger_done(&ledger[0]);
	}
	for (i = 0; i < AHEAD && !bad; i++)
		for (r = 1; r < RANKS; r++) {
			bad += ledger_next(&ledger[r], 1 << 20, items[r]) != 1 ||
			       items[r][0].id != id[i];
			ledger_done(&ledger[r]);
		}
	ok(!bad, "a rank may be %d batches ahead", AHEAD);
}

static void disagreement(void)
{
	struct op_signature a = { .count = 10, .pre = 1, .post = 1, .dtype = RINGUP_F32 },
			    b = a;
	struct item items[BATCH_ITEMS];
	bool last;
	int r, k, bad;

	b.count = 11;
	for (k = 0; k < 2; k++) {
		for (bad = 0, r = 0; r < RANKS; r++)
			post(r, "odd", r == 1 ? b : a, k == 0, 0, &last);
		for (r = 0; r < RANKS; r++) {
			bad += ledger_next(&ledger[r], 1, items) == 1 && items[0].bad &&
			       strstr(items[0].bad, "rank 1 an allreduce (sum) of 11 f32");
			ledger_done(&ledger[r]);
		}
		ok(bad == RANKS, "all ranks hear of it, time %d", k + 1);
	}
	for (bad = 0, r = 0; r < RANKS; r++)
		post(r, "odd", a, r == 1, 0, &last);
	for (r = 0; r < RANKS; r++) {
		bad += ledger_next(&ledger[r], 1, items) != 1 || items[0].bad;
		ledger_done(&ledger[r]);
	}
	ok(!bad, "once they agree, it works");
}

static void gathering(void)
{
	struct op_signature w = { .count = 3, .pre = 1, .post = 1, .kind = PLAN_ALLGATHER };
	struct item items[BATCH_ITEMS];
	bool last;
	int r, k, bad = 0;

	for (k = 0; k < 3; k++) {
		for (r = 0; r < RANKS; r++)
			post(r, "rows", w, k == 0, (uint64_t)(10 * k + r), &last);
		for (r = 0; r < RANKS; r++) {
			bad += ledger_next(&ledger[r], 1, items) != 1 || !items[0].rows ||
			       items[0].rows[2] != (uint64_t)(10 * k + 2);
			ledger_done(&ledger[r]);
		}
	}
	ok(!bad, "every rank learns every rank's rows");
}

static void lines(void)
{
	struct op_signature w = { .count = 10, .pre = 1, .post = 1, .dtype = RINGUP_F32 };
	bool last;
	uint32_t id = post(0, "eager", w, true, 0, &last), round;
	struct eager_slots mine, theirs;

	ok(ledger_fits(&ledger[0], id, 40) && !ledger_fits(&ledger[0], id, 4000),
	   "room for 40 bytes");
	round = ledger_begin(&ledger[0], id);
	mine = ledger_slots(&ledger[0], id, round);
	theirs = ledger_slots(&ledger[1], id, round);
	ok(ledger_look(&theirs, 0, round) == SLOT_EMPTY, "an empty line");
	memset(ledger_data(&mine, 0), 7, 40);
	ledger_put(&mine, 0, round, SLOT_DATA);
	ok(ledger_look(&theirs, 0, round) == SLOT_DATA && *(char *)ledger_data(&theirs, 0) == 7,
	   "a full one");
	theirs = ledger_slots(&ledger[1], id, round + LEDGER_ROUNDS);
	ok(ledger_look(&theirs, 0, round + LEDGER_ROUNDS) == SLOT_EMPTY,
	   "is empty for the round that has it next");
	mine = ledger_slots(&ledger[0], id, round + 1);
	theirs = ledger_slots(&ledger[2], id, round + 1);
	ledger_put(&mine, 0, round + 1, SLOT_CHANGED);
	ok(ledger_look(&theirs, 0, round + 1) == SLOT_CHANGED, "a mind that has changed");
}

/* Long lines leave room for short ones, however many there are. */
static void long_ones(void)
{
	struct op_signature w = {
		.count = EAGER / 4, .pre = 1, .post = 1, .dtype = RINGUP_F32
	};
	char name[32];
	bool last;
	uint32_t id = 0;
	int i, with = 0;

	for (i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "long %d", i);
		id = post(0, name, w, true, 0, &last);
		with += ledger_fits(&ledger[0], id, EAGER);
	}
	ok(with > 10 && with < 200, "%d of 200 long names have lines", with);
	ok(!ledger_fits(&ledger[0], id, 1), "the last has none");
	w.count = 10;
	id = post(0, "short", w, true, 0, &last);
	ok(ledger_fits(&ledger[0], id, 40), "a short one still has");
	w.kind = PLAN_ALLGATHER;
	ok(ledger_room(&ledger[0], &w) < EAGER, "what may be anything has no long one");
}

static int find(int rank, int number, uint32_t *id, uint32_t *age)
{
	struct op_signature w = { .count = 1, .pre = 1, .post = 1 };
	struct err e = { 0 };
	char name[32];
	int rc;

	snprintf(name, sizeof(name), "fill %d", number);
	rc = ledger_find(&ledger[rank], name, strlen(name), &w, id, age, &e);
	if (rc && !strstr(e.text, "names are in flight"))
		printf("# %s\n", e.text);
	return rc;
}

/* More names than numbers: those that nobody holds make room. */
static void recycling(void)
{
	uint32_t held, age, id, other, again;
	int i, good = 1;

	good &= !find(1, -1, &held, &age);
	for (i = 0; i < 5 * LEDGER_IDS; i++) {
		uint32_t a;

		good &= !find(i % RANKS, i, &id, &a) && id != held;
		ledger_drop(&ledger[i % RANKS], id);
	}
	ok(good, "five times as many names as numbers");
	ok(ledger_is_busy(&ledger[0], held, 1) && !ledger_is_busy(&ledger[0], held, 0),
	   "others see who uses it");
	ok(ledger_keep(&ledger[1], held, age), "it can be kept");
	ledger_drop(&ledger[1], held);
	ok(!ledger_is_busy(&ledger[0], held, 1), "what is kept is not in use");
	for (i = 0; i < 2 * LEDGER_IDS; i++) {
		good &= !find(2, 50000 + i, &id, &other) && id != held;
		ledger_drop(&ledger[2], id);
	}
	ok(good, "nor given away");
	ledger_hold(&ledger[1], held, age);
	ledger_let_go(&ledger[1], held);
	ok(ledger_hold(&ledger[1], held, age), "a held number keeps its name");
	ledger_drop(&ledger[1], held);
	ledger_drop(&ledger[1], held);
	good = !find(2, 0, &id, &age);
	ledger_drop(&ledger[2], id);
	for (i = 0; i < 2 * LEDGER_IDS; i++) {
		good &= !find(0, 100000 + i, &other, &again);
		ledger_drop(&ledger[0], other);
	}
	ok(good && !ledger_hold(&ledger[2], id, age), "a number that has gone is refused");
	for (i = 0; i < LEDGER_IDS; i++)
		good &= !find(0, 200000 + i, &id, &age);
	ok(good && find(1, -2, &id, &age) == RINGUP_ENOMEM, "all in flight: no more");
}

/* What a thread that only looks sees, while the same rank adds names and posts. */
static struct {
	uint32_t id; /* the last one that was posted; atomic */
	int stop;    /* atomic */
	int looks;   /* atomic */
	int kinds, names;
} outside;

static void *look_from_outside(void *arg)
{
	static const enum plan_kind kinds[] = { PLAN_ALLREDUCE, PLAN_ALLGATHER };
	uint32_t id, ids[8], kind;
	char name[32];

	(void)arg;
	while (!__atomic_load_n(&outside.stop, __ATOMIC_RELAXED)) {
		id = __atomic_load_n(&outside.id, __ATOMIC_RELAXED);
		kind = ledger_kind(&ledger[0], id, 0);
		outside.kinds += kind == kinds[0] || kind == kinds[1];
		/* While a name is being added, not at all; else all of one. */
		outside.names += !ledger_tell(&ledger[0], id, name, sizeof(name)) || !*name ||
				 !strncmp(name, "fill ", 5);
		ledger_calling(&ledger[1], ids, 8);
		__atomic_fetch_add(&outside.looks, 1, __ATOMIC_RELAXED);
		sched_yield();
	}
	return NULL;
}

static void beside(void)
{
	enum { POSTS = 3 * LEDGER_IDS };
	struct op_signature w = { .count = 1, .pre = 1, .post = 1, .dtype = RINGUP_F32 };
	char name[32];
	pthread_t thread;
	uint32_t id;
	bool last;
	int i;

	pthread_create(&thread, NULL, look_from_outside, NULL);
	/* Each time round the ids, names take longer lines. */
	for (i = 0; i < POSTS || !__atomic_load_n(&outside.looks, __ATOMIC_RELAXED); i++) {
		w.count = i / LEDGER_IDS ? 20 : 1;
		w.kind = i % 2 ? PLAN_ALLGATHER : PLAN_ALLREDUCE;
		snprintf(name, sizeof(name), "fill %d", i);
		id = post(0, name, w, true, 0, &last);
		__atomic_store_n(&outside.id, id, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&outside.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	ok(outside.kinds == outside.looks && outside.names == outside.looks,
	   "who looks from outside sees whole names and kinds: %d looks", outside.looks);
}

static void close_all(void)
{
	int r;

	for (r = 0; r < RANKS; r++)
		ledger_close(&ledger[r]);
	free(memory);
}

int main(void)
{
	open_all();
	order();
	disagreement();
	gathering();
	lines();
	long_ones();
	recycling();
	close_all();
	open_all();
	ahead();
	close_all();
	open_all();
	beside();
	close_all();
	return tap_done();
}
