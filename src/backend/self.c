/* self.c - the back end of a one-rank job: in to out, scaled. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"
#include "base/err.h"
#include "coll/copy.h"
#include "coll/reduce.h"

struct self {
	const struct plan *plan;
};

static int self_open(void *self, const struct topo *t, struct err *e)
{
	(void)self;
	return t->size == 1
		       ? 0
		       : fail(e, RINGUP_ENOBACKEND, "self serves one rank, not %d", t->size);
}

static bool self_can(const void *self, const struct plan *p)
{
	(void)self;
	(void)p;
	return true;
}

static int self_start(void *self, const struct plan *p, struct err *e)
{
	struct self *s = self;

	(void)e;
	s->plan = p;
	return 0;
}

static int self_step(void *self, struct err *e)
{
	const struct plan *p = ((struct self *)self)->plan;
	bool reduces = p->kind == PLAN_ALLREDUCE || p->kind == PLAN_REDUCESCATTER;
	double pre = reduces ? p->pre : 1, post = reduces ? p->post : 1;
	int i;

	(void)e;
	for (i = 0; i < p->pieces; i++) {
		const struct piece *t = &p->piece[i];

		/* Bools come out as 0 and 1 here, too. */
		if (pre != 1 || post != 1 || (reduces && p->dtype == RINGUP_BOOL))
			copy_scaled(p->dtype, t->out, t->in, t->count, pre);
		else if (t->out && t->out != t->in)
			copy_bytes(t->out, t->in, t->count * reduce_dtype_bytes(p->dtype));
		/* Apart, as where there are others: each time integers lose their fraction. */
		if (post != 1)
			copy_scaled(p->dtype, t->out, t->out, t->count, post);
	}
	return 1;
}

static void self_block(void *self, int64_t deadline_ns)
{
	(void)self;
	(void)deadline_ns;
}

static void self_close(void *self)
{
	(void)self;
}

const struct backend backend_self = {
	.name = "self",
	.summary = "one rank: nothing to combine",
	.size = sizeof(struct self),
	.seated = true,
	.open = self_open,
	.can = self_can,
	.start = self_start,
	.step = self_step,
	.block = self_block,
	.close = self_close,
};
