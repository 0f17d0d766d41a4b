/* test_backend.c - every back end honours the contract of backend.h. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/err.h"
#include "block.h"
#include "tap.h"

static const uint32_t no_abort;

/* One rank: every kind of plan is a copy, scaled. */
static int completes(const struct backend *b, void *me, const struct plan *p)
{
	int64_t deadline = clock_deadline(10000);
	struct err e = { 0 };
	int rc;

	if (!b->can(me, p) || b->start(me, p, &e))
		return 0;
	while ((rc = b->step(me, p, &e)) == 0 && clock_ns() < deadline)
		backend_block(b, me, deadline);
	if (rc != 1)
		printf("# %s: %s\n", b->name, rc ? e.text : "not in time");
	return rc == 1;
}

static void alone(const struct backend *b, void *me)
{
	const float in[3] = { 1, 2, 3 };
	float out[3] = { 0 }, again[4] = { 0 };
	uint16_t half_in[2] = { 0x3c00, 0x4000 }, half_out[2] = { 0 };
	uint64_t counts[1] = { 3 };
	struct piece one = { .in = in, .out = out, .count = 3 },
		     two[2] = { { .in = in, .out = again, .count = 1 },
				{ .in = in, .out = again + 1, .count = 3 } };
	struct piece half = { .in = half_in, .out = half_out, .count = 2 },
		     none = { .in = NULL, .out = NULL, .count = 0 };
	struct plan p = { .kind = PLAN_ALLREDUCE,
			  .dtype = RINGUP_F32,
			  .pre = 1,
			  .post = 1,
			  .piece = &one,
			  .pieces = 1,
			  .count = 3 };

	ok(completes(b, me, &p) && !memcmp(in, out, sizeof(in)), "%s: a sum of one", b->name);
	p.piece = two;
	p.pieces = 2;
	p.count = 4;
	ok(completes(b, me, &p) && again[0] == 1 && again[3] == 3, "%s: two tensors", b->name);
	p = (struct plan){ .kind = PLAN_ALLREDUCE,
			   .dtype = RINGUP_F16,
			   .redop = RINGUP_AVERAGE,
			   .pre = 2,
			   .post = 2,
			   .piece = &half,
			   .pieces = 1,
			   .count = 2 };
	ok(completes(b, me, &p) && half_out[0] == 0x4400 && half_out[1] == 0x4800,
	   "%s: an average of one, scaled before and after", b->name);
	memset(out, 0, sizeof(out));
	p = (struct plan){ .kind = PLAN_BROADCAST,
			   .dtype = RINGUP_F32,
			   .pre = 1,
			   .post = 1,
			   .piece = &one,
			   .pieces = 1,
			   .count = 3 };
	ok(completes(b, me, &p) && !memcmp(in, out, sizeof(in)), "%s: broadcast", b->name);
	one.out = NULL;
	ok(completes(b, me, &p), "%s: broadcast from a root that wants no copy", b->name);
	one.out = out;
	memset(out, 0, sizeof(out));
	p = (struct plan){ .kind = PLAN_ALLGATHER,
			   .dtype = RINGUP_F32,
			   .pre = 1,
			   .post = 1,
			   .piece = &one,
			   .pieces = 1,
			   .count = 3,
			   .counts = counts };
	ok(completes(b, me, &p) && !memcmp(in, out, sizeof(in)), "%s: allgather", b->name);
	counts[0] = 0;
	p = (struct plan){ .kind = PLAN_ALLGATHER,
			   .dtype = RINGUP_F32,
			   .pre = 1,
			   .post = 1,
			   .piece = &none,
			   .pieces = 1,
			   .count = 0,
			   .counts = counts };
	ok(completes(b, me, &p), "%s: allgather of nothing", b->name);
	p = (struct plan){ .kind = PLAN_BARRIER, .pre = 1, .post = 1 };
	ok(completes(b, me, &p), "%s: barrier", b->name);
}

static void contract(const struct backend *b)
{
	struct topo one = { .size = 1, .hosts = 1, .local_size = 1, .abort = &no_abort },
		    two = { .size = 2, .hosts = 2, .local_size = 1, .abort = &no_abort };
	struct err e = { 0 };
	void *me = calloc(1, b->size);

	ok(b->open && b->can && b->start && b->step && b->wait && b->abort && b->close,
	   "%s: all seven functions", b->name);
	ok(*b->name && *b->summary && backend_find(b->name) == b,
	   "%s: has a name and a summary", b->name);
	b->close(me);
	ok(b->open(me, &two, &e) < 0 && e.text[0],
	   "%s: closed before open; two ranks without any connection are refused: %s", b->name,
	   e.text);
	b->close(me);
	memset(me, 0, b->size);
	e = (struct err){ 0 };
	if (b->open(me, &one, &e) == 0)
		alone(b, me);
	else
		ok(e.code && e.text[0], "%s: does not serve one rank, and says why: %s",
		   b->name, e.text);
	b->close(me);
	free(me);
}

int main(void)
{
	int i;

	for (i = 0; backends[i]; i++)
		contract(backends[i]);
	ok(!backend_find("no such"), "no back end of that name");
	return tap_done();
}
