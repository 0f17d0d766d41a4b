/* fuzz_stall.c - what a leader reports of tensors that wait, to the root of a group. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/heartbeat.h"
#include "engine/stall.h"
#include "engine/watch.h"
#include "fuzz/fuzz.h"

enum { RANKS = 5 };

/* Several reports in a row: each is so long as the byte before it says, in eights. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct heartbeat_peer peer[RANKS] = { 0 };
	struct heartbeat_rules rules = { .stall_warn_ms = 1, .tick_ms = 1 };
	struct stall s = { 0 };
	struct err e = { 0 };
	int64_t now;
	size_t n;
	int i;

	if (stall_open(&s, &rules, peer, RANKS, &e))
		return 0;
	while (len) {
		n = (size_t)*data * 8;
		data++, len--;
		n = n < len ? n : len;
		stall_take(&s, data, n);
		data += n, len -= n;
	}
	now = clock_ns();
	for (i = 0; i < STALL_BOARD; i++) {
		const struct stall_topic *t = &s.board[i];

		fuzz_require(memchr(t->name, 0, sizeof(t->name)) || !t->first_ns);
		fuzz_require(t->first_ns <= now && t->last_ns <= now && t->since_ns <= now);
		fuzz_require(!t->first_ns || t->first_ns <= t->last_ns);
	}
	stall_close(&s);
	return 0;
}
