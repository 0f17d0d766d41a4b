/* test_host_queue.c - what a host's ranks submit goes to the leader, what it says to all. */
#include "hosts.h"
#include "tap.h"

enum { RANKS = 3 };

static const int one_host[RANKS] = { 0, 0, 1 };

static struct op_signature sum(uint64_t count)
{
	return (struct op_signature){
		.count = count, .pre = 1, .post = 1, .dtype = RINGUP_F32
	};
}

int main(void)
{
	struct op_signature a = sum(10), b = sum(12);
	struct op_signature g = { .count = 1, .pre = 1, .post = 1, .kind = PLAN_ALLGATHER };
	struct item items[BATCH_ITEMS];
	struct host_queue *leader;
	struct op_signatures w = { 0 };
	const struct progress *first;
	uint64_t rows[RANKS] = { 0 };
	uint32_t id, other, notified;
	uint16_t batch[2];
	int names[BATCH_ITEMS], n;
	struct err e;

	ok(!hosts_open(RANKS, one_host), "two ranks of one host, and another host");
	leader = &hosts.rank[0].host_queue;
	first = &hosts.progress[0][0];
	ok(!host_queue_pending(leader) && !host_queue_take(leader, &id), "nothing at first");
	hosts_post(0, 1, &a, 0, true, &e);
	ok(!host_queue_pending(leader), "one of two is not enough");
	notified = first->word;
	hosts_post(1, 1, &a, 0, true, &e);
	ok(host_queue_pending(leader) && first->word == notified + 1,
	   "two are; the leader is called");
	hosts_post(0, 2, &a, 0, true, &e);
	hosts_post(1, 2, &b, 0, true, &e);
	ok(first->word == notified + 1, "but not again before it has looked");
	ok(host_queue_take(leader, &id) && !strcmp(ledger_name(leader->ledger, id), "n1"),
	   "it takes one");
	ok(host_queue_changed(leader, id) && !host_queue_changed(leader, id),
	   "that is new, once");
	ok(host_queue_take(leader, &other) && !strcmp(ledger_name(leader->ledger, other), "n2"),
	   "the next");
	host_queue_signatures(leader, other, &w);
	ok(w.count == 2 && w.rank[1] == 1 && w.signature[1].count == 12, "they differ");
	ok(!host_queue_take(leader, &id), "no more");
	hosts_post(1, 3, &g, 7, true, &e);
	hosts_post(0, 3, &g, 5, true, &e);
	ok(first->word == notified + 2, "now it is called again");
	ok(host_queue_take(leader, &id), "rows");
	host_queue_collect(leader, id, rows);
	ok(rows[0] == 5 && rows[1] == 7 && rows[2] == 0, "of this host's ranks");
	ok(!hosts_next(1, names, items), "nothing is ready yet");

	rows[2] = 9;
	memcpy(host_queue_rows(leader, id), rows, sizeof(rows));
	ledger_judge(leader->ledger, other, "they differ", false);
	batch[0] = (uint16_t)other;
	batch[1] = (uint16_t)id;
	notified = hosts.progress[0][1].word;
	host_queue_publish(leader, batch, 2);
	ok(hosts.progress[0][1].word == notified + 1, "all are called");
	batch[0] = (uint16_t)hosts.rank[0].id[1];
	host_queue_publish(leader, batch, 1);
	n = hosts_next(1, names, items);
	ok(n == 2 && names[0] == 2 && names[1] == 3, "the first batch, and no more");
	ok(n == 2 && items[0].bad && !strcmp(items[0].bad, "they differ"), "with its verdict");
	ok(n == 2 && items[1].rows && items[1].rows[2] == 9 && !items[0].rows, "and rows");
	hosts_done(1, items, n);
	n = hosts_next(1, names, items);
	ok(n == 1 && names[0] == 1 && !items[0].bad, "the second");
	hosts_done(1, items, n);
	ok(!hosts_next(1, names, items), "the end");
	hosts_close();
	return tap_done();
}
