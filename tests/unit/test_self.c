/* test_self.c - one rank: everything is copied, and scaled where asked. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"

extern const struct backend backend_self;

static void *self;
static struct err e;

/* Carry out @p; true if it took one step and went well. */
static bool carry_out(const struct plan *p)
{
	return backend_self.can(self, p) && backend_self.start(self, p, &e) == 0 &&
	       backend_self.step(self, p, &e) == 1;
}

int main(void)
{
	uint32_t quiet = 0;
	struct topo one = { .rank = 0, .size = 1, .hosts = 1, .abort = &quiet };
	float in[3] = { 1, 2, 3 }, out[3] = { 0 }, more[2] = { 5, 7 };
	int32_t n = 9, m = 0;
	uint64_t one_element = 1;
	struct piece two[] = { { .in = in, .out = out, .count = 3 },
			       { .in = more, .out = more, .count = 2 } };
	struct piece whole = { .in = &n, .out = &m, .count = 1 };
	struct plan p = {
		.kind = PLAN_ALLREDUCE,
		.dtype = RINGUP_F32,
		.redop = RINGUP_SUM,
		.pre = 2,
		.post = 0.25,
		.piece = two,
		.pieces = 2,
		.count = 5,
	};

	self = calloc(1, backend_self.size);
	if (!self)
		return 99;
	ok(backend_self.open(self, &one, &e) == 0, "it serves one rank");
	ok(carry_out(&p), "a sum of two tensors");
	ok(out[0] == 0.5f && out[1] == 1 && out[2] == 1.5f, "is scaled before and after");
	ok(more[0] == 2.5f && more[1] == 3.5f, "also in place");
	p.pre = p.post = 1;
	ok(carry_out(&p) && !memcmp(in, out, sizeof(in)), "without a scale it is copied");
	p.redop = RINGUP_AVERAGE;
	ok(carry_out(&p) && !memcmp(in, out, sizeof(in)), "an average of one is that one");
	p = (struct plan){
		.kind = PLAN_BROADCAST,
		.dtype = RINGUP_I32,
		.pre = 1,
		.post = 1,
		.piece = &whole,
		.pieces = 1,
		.count = 1,
	};
	ok(carry_out(&p) && m == 9, "a broadcast");
	whole.out = NULL;
	ok(carry_out(&p), "of which the root wants no copy");
	whole.out = &m;
	m = 0;
	p = (struct plan){
		.kind = PLAN_REDUCESCATTER,
		.dtype = RINGUP_I32,
		.redop = RINGUP_SUM,
		.pre = 3,
		.post = 2,
		.piece = &whole,
		.pieces = 1,
		.count = 1,
		.counts = &one_element,
		.matrix = &one_element,
	};
	ok(carry_out(&p) && m == 54, "a reduce-scatter, scaled");
	p.kind = PLAN_ALLTOALL;
	ok(carry_out(&p) && m == 9, "an all-to-all, which is not");
	p.kind = PLAN_ALLREDUCE;
	p.pre = p.post = 1;
	p.dtype = RINGUP_BOOL;
	*(unsigned char *)&n = 200;
	ok(carry_out(&p) && *(unsigned char *)&m == 1, "a bool comes out as 0 or 1");
	p = (struct plan){ .kind = PLAN_BARRIER, .pre = 1, .post = 1 };
	ok(carry_out(&p), "a barrier");
	backend_self.close(self);
	free(self);
	return tap_done();
}
