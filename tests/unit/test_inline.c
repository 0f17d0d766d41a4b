/* test_inline.c - sums that travel are those of the back end, to the bit; the others do not. */
#include "backend/backend.h"
#include "coll/copy.h"
#include "coll/reduce.h"
#include "hosts.h"
#include "tap.h"

enum { RANKS = 5, HOSTS = 3, COUNT = 7, STEP = 64 };

/* Hosts of two, two and one. */
static const int host_of[RANKS] = { 0, 0, 1, 1, 2 };

static struct op_signature sum(uint64_t count)
{
	return (struct op_signature){
		.count = count, .pre = 1, .post = 1, .dtype = RINGUP_F32
	};
}

/* Whose sum depends on the order. */
static float share(int r, int i)
{
	return (float)(r % 2 ? 1 : -1) * (float)(1 << 4 * r) + (float)i / 7;
}

/* As tcp.c does it. */
static float expected(const struct op_signature *s, int i)
{
	struct reduce how = { .dtype = RINGUP_F32, .post = 1 };
	float host[HOSTS] = { 0 }, result, one, scaled;
	const void *src[HOSTS] = { &host[0], &host[1], &host[2] };
	int r;

	for (r = 0; r < RANKS; r++) {
		one = share(r, i);
		copy_scaled(RINGUP_F32, &scaled, &one, 1, s->pre);
		host[host_of[r]] = r % 2 ? host[host_of[r]] + scaled : scaled;
	}
	how.redop = (enum ringup_redop)s->redop;
	how.divisor = RANKS;
	how.post = s->post;
	reduce_many(&how, &(void *){ &result }, 1, src, HOSTS, 1);
	return result;
}

/* All submit @s as name @n; each leader adds up, and one of them everything. */
static bool travels(int n, const struct op_signature *s, float *result)
{
	static unsigned char sums[HOSTS * STEP];
	struct err e;
	float data[COUNT];
	uint32_t id = 0;
	bool all = true;
	int r, i, h;

	for (r = 0; r < RANKS; r++) {
		for (i = 0; i < COUNT; i++)
			data[i] = share(r, i);
		if (hosts_put(r, n, s, data, &e))
			return false;
	}
	for (h = 0; h < HOSTS; h++) {
		struct ledger *l = hosts.rank[hosts.leader[h]].ledger;

		id = hosts.rank[hosts.leader[h]].id[n];
		all &= inline_sum(l, RANKS, id, sums + (size_t)h * STEP);
	}
	if (!all)
		return false;
	id = hosts.rank[0].id[n];
	inline_finish(hosts.rank[0].ledger, RANKS, HOSTS, id, sums, STEP);
	/* The other rank of that host reads it, another host is sent it. */
	memcpy(result, inline_result(hosts.rank[1].ledger, id), COUNT * sizeof(*result));
	id = hosts.rank[2].id[n];
	if (inline_result(hosts.rank[3].ledger, id))
		return false;
	inline_take(hosts.rank[2].ledger, id, result);
	return !memcmp(inline_result(hosts.rank[3].ledger, id), result,
		       COUNT * sizeof(*result));
}

/* Numbers for the names, without data. */
static void introduce(int n, const struct op_signature *s)
{
	struct err e;
	int r;

	for (r = 0; r < RANKS; r++)
		hosts_post(r, n, s, 0, true, &e);
}

static void check(const char *what, int n, const struct op_signature *s)
{
	float result[COUNT] = { 0 };
	int i, k, good = 1;

	introduce(n, s);
	/* More often than there are lines in turn. */
	for (k = 0; k < 2 * LEDGER_ROUNDS; k++) {
		good &= travels(n, s, result);
		for (i = 0; i < COUNT; i++)
			good &= result[i] == expected(s, i);
	}
	ok(good, "%s", what);
}

int main(void)
{
	struct op_signature w = sum(COUNT), a = w, s = w, big = sum(64), half = w, group = w;
	struct op_signature gather = {
		.kind = PLAN_ALLGATHER, .count = 1, .pre = 1, .post = 1
	};
	float result[COUNT], one[COUNT] = { 0 };
	struct ledger *l;
	struct err e;

	hosts.eager_bytes = COUNT * sizeof(float);
	ok(!hosts_open(RANKS, host_of), "three hosts");
	l = hosts.rank[0].ledger;
	check("a sum: each host's ranks first, then the hosts", 0, &w);
	a.redop = RINGUP_AVERAGE;
	check("an average is divided at the end", 1, &a);
	s.pre = 0.3;
	s.post = 1.7;
	check("scaled before and after", 2, &s);
	introduce(3, &big);
	ok(!travels(3, &big, result), "what is larger does not travel");
	half.dtype = RINGUP_BF16;
	ok(!op_signature_can_inline(&half),
	   "nor half precision, whose sums are f32 on their way");
	group.kind = OP_BUNDLE;
	ok(!op_signature_can_inline(&group) && !op_signature_can_inline(&gather),
	   "nor groups, nor what is gathered");
	introduce(4, &w);
	ok(!inline_sum(l, RANKS, hosts.rank[0].id[4], one),
	   "nor what nobody has put into its line");
	hosts_put(0, 4, &w, one, &e);
	hosts_post(1, 4, &w, 0, false, &e);
	ok(!inline_sum(l, RANKS, hosts.rank[0].id[4], one), "nor if one has not");
	ok(!inline_result(l, hosts.rank[0].id[4]), "then there is no result");
	hosts_close();
	return tap_done();
}
