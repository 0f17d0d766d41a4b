/* coordinator.h - count what is ready on all hosts, up a tree of hosts, and order it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_COORDINATOR_H
#define ENGINE_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct host_queue;
struct topo;
struct op_signature;

/*
 * Hosts form a tree: the parent of host h is (h - 1) / fanout.  The leader of each
 * host counts, for each tensor, its own host and its children; when all are in, it
 * tells its parent: once all about the tensor, and from then on its number, with all
 * else that has become ready meanwhile in one frame.  The root orders: whatever is
 * ready when a batch ends is the next batch.  It goes down the same tree, and each
 * leader publishes it on its host.  So a round takes twice the depth of the tree, and
 * no leader handles more than fanout + 1 frames each way.
 *
 * Numbers are a host's own (its ledger's ids); each leader translates its children's.
 * Signatures are compared on the way up, so the root knows the lowest rank that
 * differs from the lowest rank of all.
 *
 * This is the counting alone: frames come in by coordinator_take() and go out by send().
 * No locks: one thread at a time.
 */
struct coordinator;

enum {
	COORDINATOR_FANOUT = 8,
	COORDINATOR_RANKS = 8000,
	COORDINATOR_REPORT = 4096,
	COORDINATOR_WHERE = 80
};

struct coordinator_events {
	/* @len bytes for the leader at the other end of @link.  What cannot be sent,
	 * the connection's reader finds out. */
	void (*send)(void *ctx, int link, const void *frame, size_t len);
	/* A rank has said that it leaves. */
	void (*left)(void *ctx, int rank);
	/* A rank has said that the job is over. */
	void (*alarm)(void *ctx, int culprit, int code, const char *why);
	void *ctx;
	/* At the root, unless it is NULL: what a leader has reported. */
	void (*report)(void *ctx, const void *data, size_t len);
	/* Unless it is NULL: an invitation for a rank of this host; or, @where is empty, one of
	 * its ranks has sent one that cannot be delivered: @from has left. */
	void (*invite)(void *ctx, int from, int to, const char *where);
	/* Unless it is NULL: @ranks, of a child, are in for @id, which the ledger holds, and
	 * with signature @w. */
	void (*arrived)(void *ctx, uint32_t id, const struct op_signature *w, const int *ranks,
			int count);
};

/*
 * coordinator_open - for the leader of a host of @t, which has @s.
 *
 * A batch has at most @cap bytes.  Fails with RINGUP_ENOMEM, or RINGUP_EINVAL for
 * more than COORDINATOR_RANKS ranks.
 */
int coordinator_open(struct coordinator **tp, struct host_queue *s, const struct topo *t,
		     int fanout, uint64_t cap, const struct coordinator_events *ev,
		     struct err *e);
void coordinator_close(struct coordinator *t);

/* coordinator_links - how many neighbours it has; coordinator_leader - the rank that is the
 * leader at the other end of one. */
int coordinator_links(const struct coordinator *t);
int coordinator_leader(const struct coordinator *t, int link);

/* coordinator_take - a frame has come.  Negative if it cannot be what a leader sends: the
 * job has to end. */
int coordinator_take(struct coordinator *t, int link, const void *frame, size_t len,
		     struct err *e);

/* coordinator_turn - after some coordinator_take()s, or when host_queue_pending(): count,
 * order, send. */
int coordinator_turn(struct coordinator *t, struct err *e);

/* coordinator_is_behind - has a rank of this host joined, or has work again, since the last
 * turn?  Any thread. */
bool coordinator_is_behind(const struct coordinator *t);

/* coordinator_done - this host's leader has carried a batch out. */
void coordinator_done(struct coordinator *t);

/* coordinator_leave - @rank, of this host, leaves; coordinator_alarm - the job is over.  Both
 * are told once: later calls do nothing. */
void coordinator_leave(struct coordinator *t, int rank);
void coordinator_alarm(struct coordinator *t, int culprit, int code, const char *why);

/* coordinator_report - let the root know, in at most COORDINATOR_REPORT bytes. */
void coordinator_report(struct coordinator *t, const void *data, size_t len);

/* coordinator_invite - pass on, or answer, what rank @from has for rank @to of another host:
 * where it listens, in less than COORDINATOR_WHERE bytes. */
void coordinator_invite(struct coordinator *t, int from, int to, const char *where);

/* coordinator_ping - a frame that says nothing, to all neighbours. */
void coordinator_ping(struct coordinator *t);

/* coordinator_goodbye - a leader's own end: its neighbours shall not take it for a death. */
void coordinator_goodbye(struct coordinator *t);

/* coordinator_gone - has the leader at the other end of @link said goodbye? */
bool coordinator_gone(const struct coordinator *t, int link);

#endif
