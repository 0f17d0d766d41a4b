/* fuzz_stall.c - what a leader reports to the root: tensors and ranks that wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/deadlock.h"
#include "engine/heartbeat.h"
#include "engine/op_signature.h"
#include "engine/stall.h"
#include "engine/watch.h"
#include "fuzz/fuzz.h"

enum { RANKS = 5 };

/* Several reports in a row: each is so long as the byte before it says, in eights. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct heartbeat_peer peer[RANKS] = { 0 };
	struct heartbeat_rules rules = { .stall_warn_ms = 1, .tick_ms = 1 };
	struct deadlock d = { 0 };
	struct stall s = { 0 };
	struct err e = { 0 };
	int64_t now;
	size_t n;
	int i;

	if (stall_open(&s, &rules, peer, RANKS, &e) || deadlock_open(&d, &rules, RANKS, &e))
		return 0;
	while (len) {
		n = (size_t)*data * 8;
		data++, len--;
		n = n < len ? n : len;
		if (!deadlock_take(&d, data, n))
			stall_take(&s, data, n);
		data += n, len -= n;
	}
	now = clock_ns();
	for (i = 0; i < STALL_BOARD; i++) {
		const struct stall_entry *t = &s.board[i];

		fuzz_require(memchr(t->name, 0, sizeof(t->name)) || !t->first_ns);
		fuzz_require(t->first_ns <= now && t->last_ns <= now && t->since_ns <= now);
		fuzz_require(!t->first_ns || t->first_ns <= t->last_ns);
	}
	for (i = 0; i < RANKS; i++)
		fuzz_require(d.where[i] < DEADLOCK_BOARD && d.heard_ns[i] <= now);
	for (i = 0; i < DEADLOCK_BOARD; i++)
		fuzz_require(memchr(d.board[i].name, 0, sizeof(d.board[i].name)) &&
			     d.board[i].kind <= OP_KINDS);
	deadlock_close(&d);
	stall_close(&s);
	return 0;
}
