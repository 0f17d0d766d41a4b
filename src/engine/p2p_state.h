/* p2p_state.h - the state of point-to-point messages, for p2p.c and its streams. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_P2P_STATE_H
#define ENGINE_P2P_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/p2p.h"
#include "engine/p2p_ring.h"
#include "engine/tensor.h"

enum p2p_kind {
	P2P_EAGER = 1, /* a message; its data follow                                */
	P2P_OFFER,     /* a message; its data wait at the sender                    */
	P2P_TAKE,      /* to the sender of an offer: send the data                  */
	P2P_DATA,      /* a part of them                                            */
	P2P_DONE,      /* to the sender of an offer: the data have been fetched     */
	P2P_REFUSE,    /* to the sender of an offer: count and dtype are not those of the
			  receive, which are in this frame                          */
	P2P_CREDIT,    /* to a sender: so many bytes of eager messages were received */
	P2P_KINDS,
};

/* The head of a frame, as it travels: little-endian, as it lies in memory, without holes. */
struct p2p_head {
	uint32_t magic;
	uint8_t kind, dtype;
	uint16_t zero;
	uint64_t group; /* serial of the lane                                      */
	uint64_t id;    /* of the offer, as its sender counts                      */
	uint64_t count; /* elements of the message; P2P_CREDIT: bytes              */
	uint64_t bytes; /* that follow                                             */
	uint64_t at;    /* P2P_OFFER: address of the data, 0: not to be fetched there;
			   P2P_DATA: where in the message they belong              */
	int32_t tag;
	uint32_t none;
};

/* p2p_head_check - can the other side have meant this?  NULL, or what is wrong with it. */
const char *p2p_head_check(const struct p2p_head *h);

/* Operations in order; each is in one queue at most. */
struct p2p_queue {
	struct ringup_op *first, *last;
};

/* A message that has arrived before its receive. */
struct p2p_message {
	struct p2p_head head;
	int source;           /* rank in the world */
	bool whole;           /* all data are here */
	struct ringup_op *op; /* the receive that has matched it before it was whole */
	struct p2p_message *next;
	unsigned char data[];
};

/* A frame that is being written. */
struct p2p_out {
	struct p2p_head head;
	size_t head_done;
	const unsigned char *data;
	uint64_t left;
	struct ringup_op *op; /* whose data these are, or NULL */
	void *own;            /* what is left of a cancelled operation's; freed at the end */
	bool busy;
};

/* A frame that is being read. */
struct p2p_in {
	struct p2p_head head;
	size_t head_done;
	unsigned char *to; /* NULL: the data are dropped */
	uint64_t left;
	struct ringup_op *op;        /* where the data go straight to its buffer   */
	struct p2p_message *message; /* or the message that keeps them             */
};

/* Another rank, or this one itself. */
struct p2p_peer {
	int rank; /* in the world */
	int seat; /* among the ranks of this host; -1: it is on another one */
	/* Outwards. */
	struct p2p_head *answer; /* to be sent before anything else */
	size_t answers, answer_at, answer_room;
	struct p2p_queue sends;   /* not begun yet                          */
	struct p2p_queue offered; /* their data have not been asked for yet */
	struct p2p_queue streams; /* they have                              */
	struct p2p_out out;
	uint64_t credit; /* bytes of eager messages that it still takes from this rank */
	uint64_t ids;
	/* Inwards. */
	struct p2p_in in;
	struct p2p_queue taken; /* receives that wait for P2P_DATA of this peer */
	uint64_t held;          /* bytes of eager messages that are kept here   */
	uint64_t owed;          /* received since the last P2P_CREDIT           */
	bool gone;              /* it has left, and all that it had sent is here */
	enum { CMA_UNKNOWN, CMA_WORKS, CMA_FAILS } cma;
	int32_t pid;
};

struct p2p {
	struct engine *engine;
	const struct team *team;
	pthread_mutex_t lock;
	struct p2p_rings rings;
	int *rank_of;           /* of each rank of this host, its number in the world */
	struct p2p_peer **peer; /* of each rank of the world; NULL: no message yet    */
	struct p2p_queue posted;
	struct p2p_queue fetching; /* receives that read the sender's memory */
	struct p2p_message *unexpected, **unexpected_end;
	uint32_t news; /* as it was at the last look; atomic */
	bool fetches;  /* fetching is not empty; atomic      */
	bool used;     /* atomic                             */
	bool use_cma;
	bool completed;     /* an operation, since the lock was taken                 */
	struct err trouble; /* what ends the job, to be told when the lock is given */
};

#endif
