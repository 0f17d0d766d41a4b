/* api_p2p.c - send and receive of ringup.h: check the arguments, api_p2p_start, wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/call.h"
#include "engine/engine.h"
#include "engine/p2p.h"

/* Turns @peer from a rank of the group into one of the world. */
static int check_peer(const char *call, const struct ringup_group *g, int *peer, struct err *e)
{
	if (ringup_rank(g) < 0)
		return fail(e, RINGUP_EINVAL, "%s: this rank is not in the group", call);
	if (*peer < 0 || *peer >= ringup_size(g))
		return fail(e, RINGUP_EINVAL, "%s: rank %d is not one of the %d ranks", call,
			    *peer, ringup_size(g));
	*peer = ringup_group_member(g, *peer);
	return 0;
}

static int api_p2p_start(const char *call, struct ringup_group *g, const struct p2p_request *q,
			 struct ringup_op **opp, struct err *e)
{
	int rc = engine_p2p(&g->group->comm, q, opp ? 0 : INT64_MAX, opp, e);

	return rc == RINGUP_EBUSY || rc == RINGUP_ENOMEM ? fail_in(e, "%s", call) : rc;
}

int ringup_send(struct ringup_group *g, const struct ringup_send *a, struct ringup_op **opp)
{
	static const char call[] = "ringup_send";
	struct p2p_request q;
	struct ringup_send room;
	struct err e;
	int rc;

	a = CALL_TAKE_TO(call, g, a, &room, tag);
	if (!a)
		return RINGUP_EINVAL;
	q = (struct p2p_request){ .is_send = true,
				  .data = (void *)(uintptr_t)a->in,
				  .count = a->count,
				  .dtype = (int)a->dtype,
				  .peer = a->to,
				  .tag = a->tag };
	fail_none(&e);
	rc = call_check(call, "in", a->in, a->count, (int)a->dtype, &e);
	if (!rc)
		rc = check_peer(call, g, &q.peer, &e);
	if (!rc)
		rc = api_p2p_start(call, g, &q, opp, &e);
	return rc ? call_fail(&e) : 0;
}

int ringup_recv(struct ringup_group *g, const struct ringup_recv *a, struct ringup_op **opp)
{
	static const char call[] = "ringup_recv";
	struct p2p_request q;
	struct ringup_recv room;
	int me = 0, rc;
	struct err e;

	a = CALL_TAKE_TO(call, g, a, &room, source);
	if (!a)
		return RINGUP_EINVAL;
	q = (struct p2p_request){ .data = a->out,
				  .count = a->count,
				  .dtype = (int)a->dtype,
				  .peer = a->from,
				  .tag = a->tag,
				  .source = a->source };
	fail_none(&e);
	rc = call_check(call, "out", a->out, a->count, (int)a->dtype, &e);
	if (!rc)
		rc = check_peer(call, g, a->from == RINGUP_ANY_SOURCE ? &me : &q.peer, &e);
	if (!rc)
		rc = api_p2p_start(call, g, &q, opp, &e);
	return rc ? call_fail(&e) : 0;
}
