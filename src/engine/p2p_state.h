/* p2p_state.h - the state of point-to-point messages, for the p2p_*.c files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_P2P_STATE_H
#define ENGINE_P2P_STATE_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "backend/backend.h"
#include "base/err.h"
#include "base/forks.h"
#include "coll/reduce.h"
#include "engine/op_state.h"
#include "engine/p2p.h"
#include "engine/p2p_ring.h"
#include "engine/tracepoint.h"
#include "wire/dial.h"
#include "wire/door.h"
#include "wire/sock.h"

enum p2p_kind {
	P2P_EAGER = 1, /* a message; its data follow                                */
	P2P_OFFER,     /* a message; its data wait at the sender                    */
	P2P_TAKE,      /* to the sender of an offer: send the data                  */
	P2P_DATA,      /* a part of them                                            */
	P2P_DONE,      /* to the sender of an offer: the data have been fetched     */
	P2P_REFUSE,    /* to the sender of an offer: count and dtype differ from the
			  receive's, which are in this frame                        */
	P2P_CREDIT,    /* to a sender: number of bytes of eager messages received */
	P2P_INVITE,    /* within a host: a struct p2p_invite on its way             */
	P2P_BYE,       /* between hosts: this rank leaves, and sends no more        */
	P2P_KINDS,
};

/* The head of a frame, sent as it lies in memory: little-endian, without holes. */
struct p2p_head {
	uint32_t magic;
	uint8_t kind, dtype;
	uint16_t zero;
	uint64_t group; /* serial of the communicator                                      */
	uint64_t id;    /* of the offer, counted by its sender                     */
	uint64_t count; /* elements of the message; P2P_CREDIT: bytes              */
	uint64_t bytes; /* that follow                                             */
	uint64_t at;    /* P2P_OFFER: address of the data, 0: not to be fetched there;
			   P2P_DATA: offset in the message                         */
	int32_t tag;
	uint32_t none;
};

/* p2p_head_check - NULL if a sender can have made this head; else what is wrong with it. */
const char *p2p_head_check(const struct p2p_head *h);

/* Rank @from asks rank @to to connect to it, so that it can send messages there; or asks if @to
 * has started an operation; or answers that. */
struct p2p_invite {
	int32_t from, to;
	/* The address at which @from listens; "": @from has left, or cannot be reached;
	 * "?GROUP:HASH" of an operation's name; "!STARTED:HASH", the answer. */
	char where[SOCK_TEXT];
};

struct p2p_letter {
	struct p2p_letter *next;
	struct p2p_invite invite;
};

/* Operations in order; each is in one queue at most. */
struct p2p_queue {
	struct ringup_op *first, *last;
};

/* A message that has arrived before its receive. */
struct p2p_message {
	struct p2p_head head;
	int source;           /* rank in the world */
	bool whole;           /* all data are here */
	struct ringup_op *op; /* the receive that matched it before it was whole */
	struct p2p_message *next;
	unsigned char data[];
};

/* A frame that is being written. */
struct p2p_out {
	struct p2p_head head;
	size_t head_done;
	const unsigned char *data;
	uint64_t left;
	struct ringup_op *op; /* the owner of the data, or NULL */
	void *own;            /* copy of a cancelled operation's data; freed at the end */
	bool busy;
};

/* A frame that is being read. */
struct p2p_in {
	struct p2p_head head;
	size_t head_done;
	unsigned char *to; /* NULL: the data are dropped */
	uint64_t left;
	struct ringup_op *op;        /* receives the data into its buffer   */
	struct p2p_message *message; /* or the message that keeps them             */
};

/* Another rank, or this one itself. */
struct p2p_peer {
	int rank;  /* in the world */
	int place; /* among the ranks of this host; -1: it is on another host */
	/* Outwards. */
	struct p2p_head *answer; /* to be sent before anything else */
	size_t answers, answer_at, answer_room;
	struct p2p_queue sends;   /* not begun yet                          */
	struct p2p_queue offered; /* offers, data not requested yet */
	struct p2p_queue streams; /* offers, data requested */
	struct p2p_out out;
	struct p2p_letter *letters; /* invitations to forward by its stream       */
	uint64_t credit; /* bytes of eager messages that it still accepts from this rank */
	uint64_t ids;
	/* Inwards. */
	struct p2p_in in;
	struct p2p_queue taken;   /* receives that wait for P2P_DATA of this peer */
	uint64_t held;            /* bytes of its eager messages kept here        */
	uint64_t owed;            /* bytes received since the last P2P_CREDIT     */
	bool cut;                 /* out of reach: perhaps a rank on the way left */
	bool gone;                /* it has left, and all that it had sent is here */
	struct p2p_invite invite; /* being read */
	/* For a rank of another host; see p2p_far.c. */
	int fd[2];           /* connections; -1: none                           */
	int output, input;   /* indices into fd, for each direction; -1: none yet */
	bool was_invited;    /* to connect to this rank                         */
	int64_t invited_ns;  /* time of the last invitation without a connection; 0: none */
	int64_t ended_ns;    /* a connection has ended without a farewell; 0: no */
	struct dial *dial;   /* connecting at its invitation; or NULL           */
	struct err dial_why; /* why that has failed; code 0: it has not         */
	bool polled;         /* the thread polls it                             */
	enum { CMA_UNKNOWN, CMA_WORKS, CMA_FAILS } cma;
	int32_t pid;
};

/* Connections to other hosts. */
struct p2p_far {
	struct tree *tree; /* of the world, in the leader of a host; else NULL */
	const char *address;
	const struct secret *secret;
	struct door door;
	char where[SOCK_TEXT]; /* the address of door */
	int guests;            /* entries of poll that belong to door */
	struct pollfd *poll;   /* the thread's */
	pthread_t thread;
	bool has_thread, poked;
	bool left; /* this rank has left: it passes invitations on, and accepts none */
	bool stop; /* atomic */
	int wake;  /* eventfd; 0: none */
	struct forks_hook fork;
	pthread_mutex_t lock; /* of all below; taken with a tree's lock held */
	struct p2p_letter *invite, **invites_end; /* invitations that came by the tree */
	int invites;
	bool pending; /* there are invitations; atomic */
	/* p2p_ask(): hash of the name, and an answer per rank; or NULL. */
	uint64_t asked;
	unsigned char *answer;
};

struct p2p {
	struct engine *engine;
	const struct topo *topo;
	pthread_mutex_t lock;
	struct p2p_rings rings;
	int *rank_of;           /* world rank of each rank of this host               */
	struct p2p_peer **peer; /* by world rank; NULL: no message yet                */
	struct p2p_queue posted;
	struct p2p_queue fetching; /* receives that read the sender's memory */
	struct p2p_message *unexpected, **unexpected_end;
	uint32_t news; /* p2p_rings_news() at the last look; atomic */
	bool fetches;  /* fetching is not empty; atomic      */
	bool used;     /* atomic                             */
	bool use_cma;
	struct p2p_far far;
	bool completed;     /* an operation is complete since the lock was taken      */
	struct err trouble; /* ends the job; reported when the lock is given          */
};

/* p2p_op_bytes - bytes of its data. */
static inline uint64_t p2p_op_bytes(const struct ringup_op *op)
{
	return op->ask.signature.count *
	       reduce_dtype_bytes((enum ringup_dtype)op->ask.signature.dtype);
}

/* p2p_message_charge - the credit that an eager message of @bytes takes. */
static inline uint64_t p2p_message_charge(uint64_t bytes)
{
	return bytes + sizeof(struct p2p_head);
}

/* p2p_is_self - is @p this rank itself, which needs no stream? */
static inline bool p2p_is_self(const struct p2p *x, const struct p2p_peer *p)
{
	return p->rank == x->topo->rank;
}

/* ---- p2p.c ---- */

/* All of this state is used with the lock.  p2p_unlock() wakes threads whose operation is
 * complete, and ends the job if a failure was noted. */
void p2p_lock(struct p2p *x);
void p2p_unlock(struct p2p *x);

/* p2p_fail - note a failure that ends the job: the first counts.  p2p_fail_memory - there is no
 * memory.  p2p_fail_peer - @p has sent a malformed frame. */
void p2p_fail(struct p2p *x, const struct err *e);
void p2p_fail_memory(struct p2p *x);
void p2p_fail_peer(struct p2p *x, const struct p2p_peer *p, const char *why);

/* p2p_peer_of - the peer of world rank @rank, made if it is new; NULL without memory. */
struct p2p_peer *p2p_peer_of(struct p2p *x, int rank);

/* p2p_op_end_left - fail @op, which is in no queue, because @rank has left. */
void p2p_op_end_left(struct p2p *x, struct ringup_op *op, int rank);

/* p2p_peer_end - @p has left, and all that it had sent is here: end operations with it. */
void p2p_peer_end(struct p2p *x, struct p2p_peer *p);

/* ---- p2p_match.c ---- */

void p2p_queue_push(struct p2p_queue *q, struct ringup_op *op);
/* Returns whether @op was in @q. */
bool p2p_queue_remove(struct p2p_queue *q, struct ringup_op *op);
struct ringup_op *p2p_queue_pop(struct p2p_queue *q);
/* Takes the operation with that offer out of @q; NULL if there is none. */
struct ringup_op *p2p_queue_take(struct p2p_queue *q, uint64_t id);

/* p2p_op_moves - record for a timeline that the data of @op begin to move by @way; @rank: the
 * other side, if that has matched, else -1. */
static inline void p2p_op_moves(const struct ringup_op *op, int rank, const char *way)
{
	if (tracepoint_on(op->comm))
		tracepoint_matched(op, rank, way);
}

/* p2p_peer_way - the name of the path of data through the stream of @p. */
static inline const char *p2p_peer_way(const struct p2p_peer *p)
{
	return p->place < 0 ? "tcp" : "node";
}

/* p2p_op_end, p2p_op_end_mismatch - complete @op, which is in no queue: with success; or with a
 * failure, because the other side, @rank, has @count elements of @dtype.  Afterwards @op may be
 * gone. */
void p2p_op_end(struct p2p *x, struct ringup_op *op);
void p2p_op_end_mismatch(struct p2p *x, struct ringup_op *op, int rank, uint64_t count,
			 int dtype);

/* p2p_op_agrees - are count and type of @op those of the message @h? */
bool p2p_op_agrees(const struct ringup_op *op, const struct p2p_head *h);

/* p2p_message_make - keep a message that no receive has matched; NULL if there is no memory.
 * p2p_message_find - the oldest one that @op matches, or NULL.  p2p_message_unlink - take one
 * out of the list; the caller frees it. */
struct p2p_message *p2p_message_make(struct p2p *x, const struct p2p_head *h, int source);
struct p2p_message *p2p_message_find(const struct p2p *x, const struct ringup_op *op);
void p2p_message_unlink(struct p2p *x, struct p2p_message *m);

/* p2p_posted_take - take the oldest matching receive out of the posted ones; or NULL. */
struct ringup_op *p2p_posted_take(struct p2p *x, const struct p2p_head *h, int source);

/* p2p_accept_offer - @op, which is in no queue, has matched the offer @h of @p.  p2p_deliver -
 * @op has matched the eager message @m, which is whole. */
void p2p_accept_offer(struct p2p *x, struct p2p_peer *p, const struct p2p_head *h,
		      struct ringup_op *op);
void p2p_deliver(struct p2p *x, struct p2p_peer *p, struct p2p_message *m,
		 struct ringup_op *op);

/* p2p_peer_release - an eager message of @bytes from @p has been received: return the credit to
 * its sender. */
void p2p_peer_release(struct p2p *x, struct p2p_peer *p, uint64_t bytes);

/* p2p_fetch_some - read a part of one sender's memory.  p2p_set_fetches - update x->fetches. */
void p2p_fetch_some(struct p2p *x);
void p2p_set_fetches(struct p2p *x);

/* ---- p2p_stream.c ---- */

/* p2p_head_of - a frame about @op. */
struct p2p_head p2p_head_of(const struct ringup_op *op, enum p2p_kind kind);

/* p2p_peer_answer - queue @h, ahead of all messages. */
void p2p_peer_answer(struct p2p *x, struct p2p_peer *p, const struct p2p_head *h);

/* p2p_peer_has_output - is there anything to be written to @p?  p2p_peer_write - write all that
 * its stream takes; p2p_peer_read - read all that has arrived, *@morep: there is more.  Both
 * return whether any bytes moved. */
bool p2p_peer_has_output(const struct p2p_peer *p);
bool p2p_peer_write(struct p2p *x, struct p2p_peer *p);
bool p2p_peer_read(struct p2p *x, struct p2p_peer *p, bool *morep);

/* ---- p2p_far.c ---- */

int p2p_far_open(struct p2p *x, const struct p2p_setup *s, struct err *e);

/* p2p_far_stop - end the thread, before peers are freed; p2p_far_free - free @p's part. */
void p2p_far_stop(struct p2p *x);
void p2p_far_free(struct p2p_peer *p);

/* p2p_far_connect - invite @p to connect to this rank, unless it is invited or has left. */
void p2p_far_connect(struct p2p *x, struct p2p_peer *p);

/* p2p_far_put, p2p_far_get - write or read without waiting; 0: nothing moved, or it ended. */
size_t p2p_far_put(struct p2p_peer *p, const struct iovec *v, int count);
size_t p2p_far_get(struct p2p_peer *p, void *data, size_t size);

/* p2p_far_poke - have the thread look for output. */
void p2p_far_poke(struct p2p *x);

/* p2p_far_take - handle an invitation for this rank, or forward it. */
void p2p_far_take(struct p2p *x, const struct p2p_invite *v);

/* p2p_far_is_pending - have invitations come by the tree?  p2p_far_step - handle them. */
bool p2p_far_is_pending(const struct p2p *x);
void p2p_far_step(struct p2p *x);

/* p2p_far_bye - tell ranks of other hosts that this one leaves. */
void p2p_far_bye(struct p2p *x);

#endif
