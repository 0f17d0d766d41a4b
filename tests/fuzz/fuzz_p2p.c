/* fuzz_p2p.c - frames of messages from another rank: hostile, or nearly right. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/comm.h"
#include "engine/engine_state.h"
#include "engine/liveness.h"
#include "engine/op.h"
#include "engine/p2p_state.h"
#include "engine/progress.h"
#include "fuzz/fuzz.h"

enum { RANKS = 2, OPS = 8, COUNT = 20000, GUARD = 0x5a, PAGE = 4096 };

static struct waiter waiters[RANKS];
static struct progress progress[RANKS];
static struct liveness liveness[RANKS];
static uint32_t sleepers;
static uint32_t left;

struct one {
	struct ringup_op op;
	unsigned char data[COUNT + 1];
};

/* Receives from the other rank and from any, and sends to it, small and large. */
static void start(struct p2p *x, struct engine *g, struct comm *c, struct one *o, int i)
{
	struct err e;

	memset(o, 0, sizeof(*o));
	memset(o->data, GUARD, sizeof(o->data));
	o->op.engine = g;
	o->op.comm = c;
	o->op.ask.in = o->op.ask.out = o->data;
	op_signature_init(&o->op.ask.signature, PLAN_BARRIER, RINGUP_U8,
			  i % 3 ? (uint64_t)(i % 3) * 8 : COUNT);
	o->op.p2p = (struct p2p_op){ .is_send = i >= OPS / 2,
				     .peer = i == 0 ? P2P_ANY : 1,
				     .tag = i % 3,
				     .source = -1 };
	fuzz_require(!p2p_begin(x, &o->op, &e));
}

/* The input: how much is written at a time, then what the other rank writes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct one one[OPS];
	struct waitset set = { .waiters = waiters, .sleepers = &sleepers, .count = RANKS };
	struct alarm alarm = { 0 };
	struct engine *g = calloc(1, sizeof(*g));
	struct comm *c = aligned_alloc(64, (sizeof(*c) + 63) / 64 * 64);
	struct topo topo = { .size = RANKS, .hosts = 1, .local_size = RANKS };
	struct p2p_setup setup = { .engine = g, .topo = &topo };
	struct cma nobody = { 0 };
	struct p2p_rings other;
	struct p2p *x = NULL;
	struct err e;
	size_t step, n;
	int i;

	fuzz_require(g && c);
	memset(c, 0, sizeof(*c));
	setup.shared = aligned_alloc(PAGE, p2p_shared_bytes(RANKS));
	fuzz_require(setup.shared);
	memset(setup.shared, 0, p2p_shared_bytes(RANKS));
	g->waitset = &set;
	g->progress = progress;
	g->liveness = liveness;
	g->alarm = &alarm;
	c->topo = topo;
	c->left = &left;
	c->engine = g;
	fuzz_require(!p2p_open(&x, &setup, &e));
	p2p_rings_open(&other, setup.shared, RANKS, 1, &nobody);
	for (i = 0; i < OPS; i++)
		start(x, g, c, &one[i], i);
	step = len ? (size_t)data[0] * 4 + 1 : 1;
	for (data += len > 0, len -= len > 0; len && !alarm.word; data += n, len -= n) {
		n = p2p_ring_write(&other, 0, data, step < len ? step : len);
		p2p_rings_notify(&other, 0);
		while (p2p_step(x) && !alarm.word)
			;
		/* What is answered is read, or there would be no room for more. */
		while (p2p_ring_read(&other, 0, NULL, PAGE, &(bool){ false }))
			;
	}
	fuzz_require(!x->peer[1] || x->peer[1]->held + x->peer[1]->owed <= P2P_CREDIT_BYTES);
	for (i = 0; i < OPS; i++) {
		if (op_claim(&one[i].op))
			p2p_cancel(x, &one[i].op);
		fuzz_require(one[i].data[COUNT] == GUARD);
	}
	p2p_close(x);
	free(setup.shared);
	free(g);
	free(c);
	return 0;
}
