/* test_eager.c - which rank a small operation waits for, and what its lines add up to. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "coll/copy.h"
#include "engine/comm.h"
#include "engine/eager.h"
#include "engine/op_signature.h"
#include "engine/request.h"
#include "tap.h"

#include "nomemory.h"

enum { RANKS = 3, PAUSES = 1, MOST = 16384, GUARD = 64 };

static struct ledger ledger[RANKS];
static struct segment segment[RANKS];
static struct waiter waiters[RANKS];
static struct waitset set[RANKS];
static struct comm comm[RANKS];
static uint32_t sleepers;
static void *memory;

/* Three ranks in one process: the same memory, three views.  Rank 2 has rank 0's processor. */
static void open_all(void)
{
	size_t bytes = 4096 + ledger_bytes(RANKS);
	struct err e;
	int r;

	memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	memset(memory, 0, bytes);
	for (r = 0; r < RANKS; r++) {
		segment[r] = (struct segment){ .rank = r, .ranks = RANKS, .base = memory };
		segment[r].head = memory;
		segment[r].extra = (char *)memory + 4096;
		ok(!ledger_open(&ledger[r], &segment[r], MOST * sizeof(float), &e),
		   "rank %d opens", r);
		waiters[r].cpu = r == 1 ? 2 : 1;
		set[r] = (struct waitset){
			.waiters = waiters, .sleepers = &sleepers, .count = RANKS, .me = r
		};
		comm[r].ledger = &ledger[r];
		comm[r].small = SMALL_EAGER;
		comm[r].waitset = &set[r];
		comm[r].topo.rank = r;
		comm[r].topo.size = RANKS;
	}
}

static void set_crowded(bool crowded)
{
	int r;

	for (r = 0; r < RANKS; r++)
		set[r].policy.away = crowded ? PAUSES : 0;
}

static const struct op_signature sum_of_one = {
	.count = 1, .pre = 1, .post = 1, .dtype = RINGUP_F32
};

static uint32_t find(void)
{
	struct err e = { 0 };
	uint32_t id = 0, age;

	ok(!ledger_find(&ledger[0], "x", 1, &sum_of_one, &id, &age, &e), "a name");
	return id;
}

/* Rank @r comes to the next round. */
static void arrive(int r, uint32_t id, float *value, struct eager_round *t)
{
	struct request q = { .signature = sum_of_one, .in = value, .out = value };

	*value = (float)(r + 1);
	if (!eager_begin(&comm[r], id, &q, t)) {
		ok(false, "rank %d has a line", r);
		return;
	}
	eager_slot_write(&comm[r], t, &q);
	eager_slot_fetch(&comm[r], t, &q.signature);
}

static void who_is_missing(uint32_t id, bool crowded)
{
	int first = crowded ? 2 : 1, second = crowded ? 1 : 2;
	struct eager_round turn[RANKS];
	float value[RANKS];

	set_crowded(crowded);
	arrive(0, id, &value[0], &turn[0]);
	ok(eager_missing(&comm[0], id, turn[0].number) == first, "%s",
	   crowded ? "who waits for our processor is the one to wait for"
		   : "with a processor for each, it is the first");
	ok(eager_spin(&comm[0], &turn[0]) == first, "also after a moment");
	arrive(first, id, &value[first], &turn[first]);
	ok(eager_missing(&comm[0], id, turn[0].number) == second, "then the other");
	arrive(second, id, &value[second], &turn[second]);
	ok(eager_missing(&comm[0], id, turn[0].number) == -1, "then nobody");
}

static void adds_up(uint32_t id)
{
	struct request q = { .signature = sum_of_one };
	struct eager_round turn[RANKS];
	float value[RANKS], sum;
	struct err e;
	int r, good = 1;

	for (r = 0; r < RANKS; r++)
		arrive(r, id, &value[r], &turn[r]);
	for (r = 0; r < RANKS; r++) {
		q.in = &value[r];
		q.out = &sum;
		good &= !eager_slot_finish(&comm[r], &turn[r].at, &q, &e) && sum == 6;
	}
	ok(good, "all ranks have the sum");
}

/* One round of @count elements, of the first @size ranks; false if a sum is wrong, or more was
 * written than it. */
static int long_round(int size, uint32_t id, uint64_t count, int round, int pre)
{
	static float in[RANKS][MOST], out[MOST + GUARD];
	struct request q = { .signature = sum_of_one, .out = out };
	struct eager_round turn[RANKS];
	struct err e;
	int r, good = 1, ranks = size * (size - 1) / 2;
	uint64_t i;

	q.signature.count = count;
	q.signature.pre = pre;
	for (r = 0; r < size; r++) {
		for (i = 0; i < count; i++)
			in[r][i] = (float)((int)i % 1000 + 1000 * r + round);
		q.in = in[r];
		if (!eager_may(&comm[r], &q) || !eager_begin(&comm[r], id, &q, &turn[r]))
			return 0;
		eager_slot_write(&comm[r], &turn[r], &q);
		eager_slot_fetch(&comm[r], &turn[r], &q.signature);
	}
	for (r = 0; r < size; r++) {
		memset(out, 0, sizeof(out));
		q.in = in[r];
		good &= !eager_slot_finish(&comm[r], &turn[r].at, &q, &e);
		for (i = 0; i < count; i++)
			good &= out[i] ==
				(float)(pre * (size * ((int)i % 1000 + round) + 1000 * ranks));
		for (i = count; i < count + GUARD; i++)
			good &= out[i] == 0;
	}
	return good;
}

/* However lines are filled again, through all turns. */
static void long_lines(int size)
{
	static const uint64_t counts[] = { 1, 255, 256, 257, 1024, 2049, MOST };
	struct op_signature w = sum_of_one;
	struct err e = { 0 };
	enum copy_ownership how;
	uint32_t id, age;
	size_t i;
	int round, good, r;

	set_crowded(false);
	for (r = 0; r < size; r++)
		comm[r].topo.size = size;
	w.count = MOST;
	ok(!ledger_find(&ledger[0], size == 2 ? "two" : "all", 3, &w, &id, &age, &e),
	   "a long name");
	for (how = COPY_ASKS; how < COPY_OWNERSHIPS; how++) {
		copy_use_ownership(how);
		for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			good = 1;
			for (round = 0; round < 2 * LEDGER_ROUNDS + 1; round++)
				good &= long_round(size, id, counts[i], round, 1 + round % 2);
			ok(good, "refill %d: sums of %d elements, %d ranks", (int)how,
			   (int)counts[i], size);
		}
	}
	copy_use_ownership(COPY_OWNERSHIPS);
	for (r = 0; r < size; r++)
		comm[r].topo.size = RANKS;
}

/* A gathering, a sum and a gathering together; where the second has no memory, none is done. */
static void all_or_none(void)
{
	enum { GATHER, SUM, LAST, MEMBERS, ROWS = 2, LAST_ROWS_AT = 24 };
	static const uint64_t too_many = UINT64_C(1) << 58;
	uint64_t counts[MEMBERS][RANKS];
	float in[ROWS] = { 1, 2 }, sum = 0, into[RANKS * ROWS] = { 0 };
	void *out[MEMBERS] = { NULL };
	struct request member[MEMBERS], q = { .members = member };
	struct eager_round turn[RANKS];
	struct err e = { 0 };
	uint32_t id, age;
	int m, r, rc, round, good = 1;

	for (m = 0; m < MEMBERS; m++) {
		request_init(&member[m], NULL, in, &sum);
		op_signature_init(&member[m].signature,
				  m == SUM ? PLAN_ALLREDUCE : PLAN_ALLGATHER, RINGUP_F32, 1);
		member[m].rows = m == SUM ? 0 : ROWS;
		member[m].outp = &out[m];
		member[m].counts = counts[m];
	}
	q.signature = sum_of_one;
	q.signature.kind = OP_BUNDLE;
	q.signature.members = MEMBERS;
	ok(!ledger_find(&ledger[0], "several", 7, &q.signature, &id, &age, &e),
	   "a name for several");
	for (round = 0; round < 3; round++) {
		bool lies = round, own = round == 2;

		for (r = 0; r < RANKS; r++) {
			good &= eager_begin(&comm[r], id, &q, &turn[r]);
			eager_slot_write(&comm[r], &turn[r], &q);
		}
		if (lies)
			memcpy((char *)ledger_data(&turn[0].at, 1) + LAST_ROWS_AT, &too_many,
			       sizeof(too_many));
		member[GATHER].into = own ? into : NULL;
		member[GATHER].into_bytes = own ? sizeof(into) : 0;
		rc = eager_slot_finish(&comm[0], &turn[0].at, &q, &e);
		if (!lies) {
			const float *got = out[LAST];

			ok(good && !rc && sum == 3 && got[0] == 1 && got[2 * ROWS + 1] == 2,
			   "all of them are done");
			free(out[GATHER]);
			free(out[LAST]);
		} else {
			ok(good && rc == RINGUP_ENOMEM && !out[GATHER] && !out[LAST],
			   "or none, %s: %s", own ? "with memory of the caller's" : "with ours",
			   e.text);
		}
		out[GATHER] = out[LAST] = NULL;
	}
}

/* One rank that is elsewhere goes the long way. */
static void changed_mind(uint32_t id)
{
	struct eager_round turn[RANKS];
	struct eager_slots at;
	uint32_t round;
	float value[RANKS];

	set_crowded(true);
	arrive(0, id, &value[0], &turn[0]);
	round = ledger_begin(&ledger[1], id);
	at = ledger_slots(&ledger[1], id, round);
	ledger_put(&at, 1, round, SLOT_CHANGED);
	arrive(2, id, &value[2], &turn[2]);
	ok(eager_missing(&comm[0], id, turn[0].number) == -2,
	   "a mind changed elsewhere is seen");
	ok(eager_spin(&comm[0], &turn[0]) == -2, "by who looks for the first time, too");
}

/* What a rank has written into its line, its mark with it, it never needs again: whatever is
 * there by the time that it has all others'. */
static void own_line(enum plan_kind kind, const char *what)
{
	enum { ROWS = 2, IN = RANKS * ROWS };
	bool spreads = kind == PLAN_BROADCAST, exchanges = kind == PLAN_ALLTOALL;
	static const uint64_t splits[RANKS] = { ROWS, ROWS, ROWS };
	float in[RANKS][IN], out[IN] = { 0 };
	void *result = out;
	uint64_t counts[RANKS];
	struct request q[RANKS];
	struct eager_round turn[RANKS];
	struct err e = { 0 };
	uint32_t id, age;
	int r, i, size = spreads ? IN : IN / RANKS, good = 1;

	set_crowded(false);
	for (r = 0; r < RANKS; r++) {
		for (i = 0; i < IN; i++)
			in[r][i] = (float)(10 * r + i);
		request_init(&q[r], what, in[r], out);
		op_signature_init(&q[r].signature, kind, RINGUP_F32, spreads ? IN : 1);
		q[r].rows = exchanges ? IN : ROWS;
		q[r].splits = exchanges ? splits : NULL;
		q[r].outp = &result;
		q[r].counts = counts;
		q[r].into = out;
		q[r].into_bytes = sizeof(out);
	}
	good &= !ledger_find(&ledger[0], what, strlen(what), &q[0].signature, &id, &age, &e);
	for (r = 0; r < RANKS; r++) {
		good &= eager_begin(&comm[r], id, &q[r], &turn[r]);
		eager_slot_write(&comm[r], &turn[r], &q[r]);
	}
	memset(ledger_mark(&turn[0].at, 0), 0xee, turn[0].at.head + turn[0].bytes);
	good &= eager_missing(&comm[0], id, turn[0].number) == -1 &&
		eager_spin(&comm[0], &turn[0]) == -1 &&
		!eager_slot_finish(&comm[0], &turn[0].at, &q[0], &e) && result == out;
	for (r = 0; r < (spreads ? 1 : RANKS); r++)
		for (i = 0; i < size; i++)
			good &= out[r * size + i] == in[r][i];
	ok(good, "%s: what is its own a rank does not read from its line", what);
}

int main(void)
{
	uint32_t id;
	int r;

	open_all();
	id = find();
	who_is_missing(id, false);
	who_is_missing(id, true);
	adds_up(id);
	long_lines(2);
	long_lines(RANKS);
	changed_mind(id);
	own_line(PLAN_BROADCAST, "broadcast");
	own_line(PLAN_ALLGATHER, "allgather");
	own_line(PLAN_ALLTOALL, "alltoall");
	all_or_none();
	for (r = 0; r < RANKS; r++)
		ledger_close(&ledger[r]);
	free(memory);
	return tap_done();
}
