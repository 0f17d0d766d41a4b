/* node_begin.c - starts and restarts a plan of the back end `node`. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "backend/node_state.h"

static uint64_t sum(const uint64_t *counts, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += counts[i];
	return all;
}

/* Do the results of all ranks exceed the caches?  A sum in place does not count: its lines
 * have just been read. */
static bool is_streaming(const struct node *n)
{
	const struct plan *p = n->plan;
	enum copy_result what = COPY_ALONE;
	size_t size = (size_t)n->topo->size;
	uint64_t all = 0;

	switch (p->kind) {
	case PLAN_ALLREDUCE:
		if (n->phase == NODE_OFFER) {
			what = COPY_ZCOPY;
			all = p->piece->in != p->piece->out ? p->count * size : 0;
		} else {
			all = size > 1 ? p->count * size : 0;
		}
		break;
	case PLAN_BROADCAST:
		what = n->by_cma ? COPY_ALONE : COPY_SHARED;
		all = p->count * size;
		break;
	case PLAN_ALLGATHER:
		what = COPY_GATHERED;
		all = sum(p->counts, size) * size;
		break;
	case PLAN_ALLTOALL:
		all = sum(p->matrix, size * size);
		break;
	case PLAN_REDUCESCATTER:
	case PLAN_BARRIER:
		break;
	}
	return all * n->bytes >= copy_streaming_from(what);
}

void node_set_streaming(struct node *n)
{
	n->streaming = is_streaming(n) != (n->path == NODE_STREAM);
}

/* A broadcast by slots uses those of all ranks. */
void node_set_wide(struct node *n)
{
	if (n->wide == (n->stages == &node_broadcast && !n->by_cma))
		return;
	n->wide = !n->wide;
	n->fence = n->base;
}

void node_start_over(struct node *n)
{
	n->base += num_least(n->chunks, SEGMENT_SLOTS);
	node_publish(n, &node_counters(n, n->topo->rank)->out, n->base);
	n->may_share = n->by_cma = false;
	node_set_wide(n);
	n->phase = NODE_CHUNKS;
	node_set_streaming(n);
	n->filled = n->combined = n->taken = 0;
	memset(&n->put, 0, sizeof(n->put));
}
