/* proxy.c - the request by which a rank that has joined takes part in what others submit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/proxy.h"

#include <stdlib.h>

#include "base/err.h"
#include "coll/neutral.h"
#include "coll/reduce.h"
#include "engine/comm.h"
#include "engine/request.h"
#include "ringup.h"

/* May a rank that has joined take part in it? */
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
	/* Nobody else can give what this rank has to: that is an error for all. */
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
	/* A join, which is not what the others want, is how they hear that there is none. */
	if ((w->kind == PLAN_ALLREDUCE || w->kind == PLAN_REDUCESCATTER) &&
	    !neutral_fill(q->out, (enum ringup_dtype)w->dtype, (enum ringup_redop)w->redop,
			  w->pre, bytes / size))
		q->signature.kind = OP_JOIN;
	return 0;
}
