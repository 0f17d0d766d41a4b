/* speed.h - measure round-trip time and bandwidth to one agent. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_SPEED_H
#define PROBE_SPEED_H

struct err;
struct probe_path;
struct seal_key;

enum { SPEED_ROUNDS = 200, SPEED_CONNECT_MS = 1000, SPEED_PATIENCE_MS = 1000 };

/*
 * speed_measure - fill in latency and bandwidth of @p.
 *
 * SPEED_ROUNDS round trips of 8 bytes, for at most @latency_ms; then data for @bandwidth_ms (0:
 * none), on a slow link until its first chunk has arrived.  Blocks for at most SPEED_CONNECT_MS
 * and SPEED_PATIENCE_MS longer than that.
 */
int speed_measure(struct probe_path *p, const struct seal_key *key, int latency_ms,
		  int bandwidth_ms, struct err *e);

#endif
