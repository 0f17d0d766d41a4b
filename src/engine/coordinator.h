/* coordinator.h - counts the tensors that are ready on all hosts, and orders them. */
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
 * Hosts form a tree: the parent of host h is (h - 1) / fanout.  The leader of each host counts,
 * for each tensor, its own host and its children.  When all of these are ready, it tells its
 * parent: the first time with name and signature, later with the id alone, together with all
 * other tensors that have become ready meanwhile in one frame.  The root orders: the tensors
 * that are ready when a batch ends are the next batch.  It goes down the same tree, and each
 * leader publishes it on its host.  So a round takes twice the depth of the tree, and no leader
 * handles more than fanout + 1 frames each way.
 *
 * Ids are a host's own (its ledger's); each leader translates its children's.  Signatures are
 * compared on the way up, so the root knows the lowest rank that differs from the lowest rank
 * of all.
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
	/* Sends @len bytes to the leader at the other end of @link.  Reports no failure: the
	 * connection's reader detects a broken connection. */
	void (*send)(void *ctx, int link, const void *frame, size_t len);
	/* @rank has announced that it leaves or, with SEGMENT_ABORTED, aborts the group. */
	void (*left)(void *ctx, int rank);
	/* A leader has announced that the job is over. */
	void (*alarm)(void *ctx, int culprit, int code, const char *why);
	void *ctx;
	/* At the root, unless NULL: a leader's report. */
	void (*report)(void *ctx, const void *data, size_t len);
	/* Unless NULL: rank @from invites rank @to, of this host.  With an empty @where, an
	 * invitation by rank @to, of this host, cannot be delivered: @from has left. */
	void (*invite)(void *ctx, int from, int to, const char *where);
	/* Unless NULL: @ranks, of a child, have submitted @id, which the ledger holds, with
	 * signature @s. */
	void (*arrived)(void *ctx, uint32_t id, const struct op_signature *s, const int *ranks,
			int count);
};

/*
 * coordinator_open - for the leader of a host of @t, whose host queue is @s.
 *
 * A batch has at most @cap bytes.  Fails with RINGUP_ENOMEM, or RINGUP_EINVAL for
 * more than COORDINATOR_RANKS ranks.
 */
int coordinator_open(struct coordinator **tp, struct host_queue *s, const struct topo *t,
		     int fanout, uint64_t cap, const struct coordinator_events *ev,
		     struct err *e);
void coordinator_close(struct coordinator *c);

/* coordinator_links - the number of neighbours in the tree; coordinator_leader - the rank of
 * the leader at the other end of one link. */
int coordinator_links(const struct coordinator *c);
int coordinator_leader(const struct coordinator *c, int link);

/* coordinator_take - handle a frame that has arrived.  Negative if no leader sends such a
 * frame: the job has to end. */
int coordinator_take(struct coordinator *c, int link, const void *frame, size_t len,
		     struct err *e);

/* coordinator_turn - count, order and send, after coordinator_take() or when
 * host_queue_pending(). */
int coordinator_turn(struct coordinator *c, struct err *e);

/* coordinator_is_behind - has a rank of this host joined, or ended its join, since the last
 * turn?  Any thread. */
bool coordinator_is_behind(const struct coordinator *c);

/* coordinator_done - this host's leader has carried out a batch. */
void coordinator_done(struct coordinator *c);

/* coordinator_leave - announce that @rank, of this host, leaves; coordinator_alarm - announce
 * that the job is over.  Both act once: later calls do nothing. */
void coordinator_leave(struct coordinator *c, int rank);
void coordinator_alarm(struct coordinator *c, int culprit, int code, const char *why);

/* coordinator_report - send at most COORDINATOR_REPORT bytes to the root. */
void coordinator_report(struct coordinator *c, const void *data, size_t len);

/* coordinator_invite - route an invitation, or an answer to one, from rank @from to rank @to of
 * another host: @where it listens, in less than COORDINATOR_WHERE bytes. */
void coordinator_invite(struct coordinator *c, int from, int to, const char *where);

/* coordinator_is_invitation - false for a question ('?'), an answer ('!') and a refusal ("").
 */
static inline bool coordinator_is_invitation(const char *where)
{
	return *where && *where != '?' && *where != '!';
}

/* coordinator_ping - send an empty frame, as a sign of life, to all neighbours. */
void coordinator_ping(struct coordinator *c);

/* coordinator_goodbye - announce this leader's own end, which is then not taken for a death. */
void coordinator_goodbye(struct coordinator *c);

/* coordinator_gone - has the leader at the other end of @link said goodbye?
 * coordinator_link_closed - the connection has ended: invitations no longer go there. */
bool coordinator_gone(const struct coordinator *c, int link);
void coordinator_link_closed(struct coordinator *c, int link);

/* coordinator_has_invited - has an invitation come here?  coordinator_has_children - is a
 * leader below this one in the tree still connected? */
bool coordinator_has_invited(const struct coordinator *c);
bool coordinator_has_children(const struct coordinator *c);

#endif
