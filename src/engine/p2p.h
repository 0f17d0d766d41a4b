/* p2p.h - point-to-point messages between two ranks, with tags, apart from collectives. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_P2P_H
#define ENGINE_P2P_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct err;
struct comm;
struct p2p;
struct ringup_op;
struct secret;
struct topo;
struct tree;

/*
 * Each pair of ranks has a byte stream in each direction, which carries messages of all groups:
 * a ring in shared memory (p2p_ring.h), or between hosts a connection (p2p_far.c).
 * A receive matches the oldest message of its sender, group and tag; a message matches the
 * oldest such receive.
 *
 * A send of up to P2P_EAGER_BYTES travels with its envelope (eager) and is complete when it has
 * been written to the stream; the receiver keeps it until it is received.  So that a receiver
 * keeps P2P_CREDIT_BYTES of each sender at most, a send beyond that, like a larger one, only
 * offers its data (rendezvous): the receiver fetches it when it has matched, through the kernel
 * (CMA) if that is allowed and both ranks share a host, else in chunks through the stream.
 *
 * A rank that leaves takes no part in messages that are not complete: these fail on the other
 * side. Messages that are complete for it can still be received, and other messages go on.
 *
 * The matching state has a lock of its own, and any thread may make progress: the thread that
 * submits, the one that waits, and the progress thread.  None of them needs the baton.
 * The lock is taken inside comm->lock, never the other way round.
 */
enum { P2P_EAGER_BYTES = 64 << 10, P2P_CREDIT_BYTES = 1 << 20, P2P_ANY = -1 };

/* A caller's send or receive. */
struct p2p_request {
	bool is_send;
	void *data; /* of a send: read only */
	uint64_t count;
	int dtype;
	int peer; /* rank in the world; P2P_ANY: a receive from any rank of the group */
	int tag;
	int *source; /* receive: place for the sender's rank in the group; or NULL */
};

/* Parameters of p2p_open(). */
struct p2p_setup {
	struct engine *engine;
	const struct topo *topo; /* of the world; outlives the p2p */
	void *shared;            /* p2p_shared_bytes() of zeros that the host's ranks share */
	bool use_cma;
	/* For several hosts; used until p2p_close(). */
	struct tree *tree;           /* of the world, in the leader of a host; else NULL */
	const char *address;         /* of this host                                    */
	const struct secret *secret; /* for connections; need not be set yet            */
};

/* p2p_shared_bytes - bytes that it needs in the segment of a host with @ranks ranks. */
size_t p2p_shared_bytes(int ranks);

/* p2p_open - before the ranks have met; p2p_close() takes NULL and every result of p2p_open().
 * No thread is inside when it is closed. */
int p2p_open(struct p2p **xp, const struct p2p_setup *s, struct err *e);
void p2p_close(struct p2p *x);

/* p2p_begin - start @op, which is in flight in its communicator; @q as in struct ringup_op.  It
 * may be complete when this returns.  On failure it has not been started. */
int p2p_begin(struct p2p *x, struct ringup_op *op, struct err *e);

/* p2p_cancel - the caller has claimed @op, and will fail it: after this call no thread reads or
 * writes its data. */
void p2p_cancel(struct p2p *x, struct ringup_op *op);

/*
 * A rank leaves in four steps, all of which take NULL for @x.  p2p_flush - send what other
 * ranks still wait for.  p2p_bye - tell those of other hosts; messages that this rank has sent
 * can still be received.  p2p_relay - if other ranks reach each other through this one, pass
 * their invitations on until they have left, too, or the job has failed.  p2p_leave - this rank
 * has published that it has left: tell those of its host.
 */
void p2p_flush(struct p2p *x, int64_t deadline_ns);
void p2p_bye(struct p2p *x);
void p2p_relay(struct p2p *x, int64_t deadline_ns);
void p2p_leave(struct p2p *x);

/* p2p_left - a rank of the group of @c has left: a receive from any rank of it has to find out
 * which are still there.  @x may be NULL. */
void p2p_left(struct p2p *x, const struct comm *c);

/* p2p_purge - the group of number @serial ends: drop messages without a receive.
 * @x may be NULL. */
void p2p_purge(struct p2p *x, uint64_t serial);

/* p2p_is_ready - may p2p_step() find work?  Cheap; any thread.  @x may be NULL. */
bool p2p_is_ready(struct p2p *x);

/* p2p_step - make progress; returns whether anything was done.  Any thread; never blocks.  @x
 * may be NULL. */
bool p2p_step(struct p2p *x);

/* p2p_moved - bytes of the message @op that have moved so far. */
uint64_t p2p_moved(struct p2p *x, const struct ringup_op *op);

/* p2p_settle - returns when no thread is completing a message that it had begun to complete
 * before.  @x may be NULL. */
void p2p_settle(struct p2p *x);

/* p2p_is_used - has this rank sent or received any message yet?  @x may be NULL. */
bool p2p_is_used(const struct p2p *x);

/* p2p_invited - the tree has brought an invitation for a rank of this host; see p2p_far.c.  Any
 * thread, also with the tree's lock; @x may be NULL. */
void p2p_invited(struct p2p *x, int from, int to, const char *where);

/* The answer of a rank of another host to p2p_ask(). */
enum p2p_answer { P2P_SILENT, P2P_STARTED, P2P_NOT_STARTED };

/*
 * p2p_ask - ask the ranks of other hosts whether they have started the collective @op of @c.
 *
 * Writes each rank's answer to @answer, by its number in the world, after P2P_ASK_MS at most,
 * or when the job is over.  Returns false, without asking, if another thread is asking.
 */
enum { P2P_ASK_MS = 500 };
bool p2p_ask(struct p2p *x, struct comm *c, const struct ringup_op *op, unsigned char *answer);

#endif
