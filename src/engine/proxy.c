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
static bool is_allowed(const struct comm *l, const struct op_signature *w)
{
	return !l->join_sums || w->kind == PLAN_ALLREDUCE || w->kind == PLAN_BARRIER ||
	       w->kind == OP_BUNDLE;
}

bool proxy_can(const struct comm *l, const struct op_signature *w)
{
	uint64_t element; /* of the widest type */

	if (!is_allowed(l, w))
		return false;
	return (w->kind != PLAN_ALLREDUCE && w->kind != PLAN_REDUCESCATTER) ||
	       neutral_fill(&element, (enum ringup_dtype)w->dtype, (enum ringup_redop)w->redop,
			    w->pre, w->count > 0);
}

static bool is_from_root(const struct op_signature *w)
{
	return w->kind == PLAN_BROADCAST ||
	       (w->kind == PLAN_ALLTOALL && w->digest == OP_FROM_ROOT);
}

int proxy_request(const struct comm *l, const struct op_signature *w, struct request *q,
		  void **own, struct err *e)
{
	size_t size = reduce_dtype_bytes((enum ringup_dtype)w->dtype), n = (size_t)l->topo.size;
	uint64_t bytes = op_signature_bytes(w);
	void *room;

	q->signature = *w;
	/* Data of this rank, which no other rank has, are missing: an error on all ranks. */
	if ((is_from_root(w) && w->root == l->topo.rank) || !is_allowed(l, w)) {
		op_signature_init(&q->signature, OP_JOIN, RINGUP_U8, 0);
		q->signature.redop = !is_allowed(l, w);
	}
	if (bytes > SIZE_MAX / 4)
		return fail(e, RINGUP_ENOMEM, "no memory for what the others reduce");
	room = calloc(1, bytes + (n + 2) * sizeof(uint64_t));
	if (!room)
		return fail(e, RINGUP_ENOMEM, "no memory for what the others reduce");
	*own = room;
	q->counts = room;
	q->splits = w->kind == PLAN_ALLTOALL ? room : NULL;
	q->outp = (void **)((uint64_t *)room + n);
	q->in = q->out = (uint64_t *)room + n + 2;
	/* Without neutral data, a join makes it an error on all ranks: signatures differ. */
	if ((w->kind == PLAN_ALLREDUCE || w->kind == PLAN_REDUCESCATTER) &&
	    !neutral_fill(q->out, (enum ringup_dtype)w->dtype, (enum ringup_redop)w->redop,
			  w->pre, bytes / size))
		q->signature.kind = OP_JOIN;
	return 0;
}
