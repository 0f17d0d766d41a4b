/* self.c - the back end of a one-rank job: copies in to out, scaled. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"
#include "backend/wait.h"
#include "base/err.h"
#include "coll/copy.h"
#include "coll/reduce.h"

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
	(void)self;
	(void)p;
	(void)e;
	return 0;
}

static int self_step(void *self, const struct plan *p, struct err *e)
{
	bool reduces = collective_is(p->kind, COLLECTIVE_REDUCES);
	double pre = reduces ? p->pre : 1, post = reduces ? p->post : 1;

	(void)self;
	(void)e;
	for (int i = 0; i < p->pieces; i++) {
		const struct piece *t = &p->piece[i];

		/* Bools come out as 0 and 1 here, too. */
		if (pre != 1 || post != 1 || (reduces && p->dtype == RINGUP_BOOL))
			copy_scaled(p->dtype, t->out, t->in, t->count, pre);
		else if (t->out && t->out != t->in)
			copy_bytes(t->out, t->in, t->count * reduce_dtype_bytes(p->dtype));
		/* Apart from pre, as with several ranks: integers lose their fraction twice. */
		if (post != 1)
			copy_scaled(p->dtype, t->out, t->out, t->count, post);
	}
	return 1;
}

static bool self_wait(void *self, struct wait_on *w)
{
	(void)self;
	(void)w;
	return false;
}

static void self_abort(void *self)
{
	(void)self;
}

static void self_close(void *self)
{
	(void)self;
}

const struct backend backend_self = {
	.name = "self",
	.summary = "one rank: nothing to combine",
	.size = 1,
	.memory = MEMORY_OF_HOST,
	.slots = 1,
	.open = self_open,
	.can = self_can,
	.start = self_start,
	.step = self_step,
	.wait = self_wait,
	.abort = self_abort,
	.close = self_close,
};
