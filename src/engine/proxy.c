/* proxy.c - the request by which a joined rank takes part in other ranks' operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/proxy.h"

#include <stdlib.h>

#include "base/err.h"
#include "coll/neutral.h"
#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/request.h"
#include "ringup.h"

/* May a joined rank take part in such an operation? */
static bool is_allowed(const struct comm *c, const struct op_signature *s)
{
	return !c->join_sums || s->kind == PLAN_ALLREDUCE || s->kind == PLAN_BARRIER ||
	       s->kind == OP_BUNDLE;
}

bool proxy_can(const struct comm *c, const struct op_signature *s)
{
	uint64_t element; /* of the widest type */

	if (!is_allowed(c, s))
		return false;
	return !collective_is(s->kind, COLLECTIVE_REDUCES) ||
	       neutral_fill(&element, (enum ringup_dtype)s->dtype, (enum ringup_redop)s->redop,
			    s->pre, s->count > 0);
}

static bool is_from_root(const struct op_signature *s)
{
	return collective_is(s->kind, COLLECTIVE_ROOT) ||
	       (collective_is(s->kind, COLLECTIVE_SPLITS) && s->digest == OP_FROM_ROOT);
}

int proxy_request(const struct comm *c, const struct op_signature *s, struct request *q,
		  void **own, struct err *e)
{
	size_t size = reduce_dtype_bytes((enum ringup_dtype)s->dtype), n = (size_t)c->topo.size;
	uint64_t bytes = op_signature_bytes(s);
	void *room;

	q->signature = *s;
	/* Data of this rank, which no other rank has, are missing: an error on all ranks. */
	if ((is_from_root(s) && s->root == c->topo.rank) || !is_allowed(c, s)) {
		op_signature_init(&q->signature, OP_JOIN, RINGUP_U8, 0);
		q->signature.redop = !is_allowed(c, s);
	}
	if (bytes > SIZE_MAX / 4)
		return fail(e, RINGUP_ENOMEM,
			    "out of memory for a joined rank's neutral elements");
	room = calloc(1, bytes + (n + 2) * sizeof(uint64_t));
	if (!room)
		return fail(e, RINGUP_ENOMEM,
			    "out of memory for a joined rank's neutral elements");
	*own = room;
	q->counts = room;
	q->splits = collective_is(s->kind, COLLECTIVE_SPLITS) ? room : NULL;
	q->outp = (void **)((uint64_t *)room + n);
	q->in = q->out = (uint64_t *)room + n + 2;
	/* Without neutral data, a join makes it an error on all ranks: signatures differ. */
	if (collective_is(s->kind, COLLECTIVE_REDUCES) &&
	    !neutral_fill(q->out, (enum ringup_dtype)s->dtype, (enum ringup_redop)s->redop,
			  s->pre, bytes / size))
		q->signature.kind = OP_JOIN;
	return 0;
}
