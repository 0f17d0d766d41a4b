/* fuzz_tree.c - frames that a leader gets from its neighbours: hostile, or nearly right. */
#include "engine/coordinator.h"
#include "engine/ledger.h"
#include "fuzz/fuzz.h"
#include "hosts.h"
#include "wire/segment.h"

/* What is sent and told must be within bounds, too. */
static void on_send(void *ctx, int link, const void *frame, size_t len)
{
	(void)ctx;
	fuzz_require(link >= 0 && link < 3 && frame && len > 0 && len <= 65536);
}

static void on_left(void *ctx, int rank)
{
	(void)ctx;
	rank &= ~SEGMENT_ABORTED;
	fuzz_require(rank >= 0 && rank < hosts.ranks);
}

static void on_alarm(void *ctx, int culprit, int code, const char *why)
{
	(void)ctx;
	fuzz_require(culprit >= -1 && code < 0 && memchr(why, 0, 512));
}

/* The root is asked, or host 1, which has a parent and two children; or the same of two
 * hosts only, where data travel with what is said. */
static const int host_of[] = { 0, 0, 1, 1, 2, 3, 4 };
enum { RANKS = sizeof(host_of) / sizeof(host_of[0]), RANKS_OF_TWO = 4, FANOUT = 2 };

/* Both ranks of the host that is asked submit "n0" or so. */
static void submit(int first, int name, uint8_t kind)
{
	struct op_signature w = { .count = 10, .pre = 1, .post = 1, .kind = kind % OP_KINDS };
	struct err e;
	int r;

	for (r = first; r < first + 2; r++)
		hosts_post(r, name, &w, (uint64_t)r, true, &e);
}

/* What is complete comes again, with data. */
static void submit_again(int first, int name)
{
	struct op_signature w = { .count = 10, .pre = 1, .post = 1 };
	unsigned char data[80] = { 1, 2, 3 };
	struct err e;
	int r;

	for (r = first; r < first + 2; r++)
		hosts_put(r, name, &w, data, &e);
}

/* Returns one of the names, or -1. */
static int carry_out(struct coordinator *c, int first)
{
	struct item items[BATCH_ITEMS];
	int names[BATCH_ITEMS], r, n, name = -1;

	for (r = first + 1; r >= first; r--)
		while ((n = hosts_next(r, names, items))) {
			name = names[0];
			hosts_done(r, items, n);
			if (r == first)
				coordinator_done(c);
		}
	return name;
}

/* The input: which host is asked and of how many, the kind of what it submits, then link,
 * length and bytes of one frame after the other. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct coordinator_events ev = { .send = on_send, .left = on_left, .alarm = on_alarm };
	struct coordinator *c = NULL;
	struct rank *k;
	struct err e;
	int rc = 0, links, first, name;
	bool two;

	hosts.eager_bytes = 80;
	if (len < 2 || hosts_open(data[0] & 2 ? RANKS_OF_TWO : RANKS, host_of))
		return 0;
	first = data[0] & 1 ? 2 : 0;
	two = data[0] & 2;
	k = &hosts.rank[first];
	if (coordinator_open(&c, &k->host_queue, &k->topo, FANOUT, 1000, &ev, &e))
		abort();
	submit(first, 0, data[1]);
	if (!two)
		submit(first, 1, 0);
	links = coordinator_links(c);
	for (data += 2, len -= 2; len > 3 && !rc;) {
		size_t n = (size_t)data[1] | (size_t)data[2] << 8;

		n = n < len - 3 ? n : len - 3;
		rc = coordinator_take(c, data[0] % links, data + 3, n, &e);
		if (!rc)
			rc = coordinator_turn(c, &e);
		fuzz_require(rc <= 0);
		name = carry_out(c, first);
		if (two && !rc && name == 0)
			submit_again(first, name);
		if (two && !rc)
			rc = coordinator_turn(c, &e);
		data += 3 + n;
		len -= 3 + n;
	}
	coordinator_close(c);
	hosts_close();
	return 0;
}
