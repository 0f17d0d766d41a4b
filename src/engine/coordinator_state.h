/* coordinator_state.h - a leader's record of the tensors and ranks in its subtree. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_COORDINATOR_STATE_H
#define ENGINE_COORDINATOR_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/coordinator.h"
#include "engine/frame.h"
#include "engine/inline.h"
#include "engine/ledger.h"
#include "engine/op_signature.h"
#include "ringup.h"

/* An id in a frame, and flags: rows, a verdict or data follow it. */
enum {
	ITEM_ROWS = 1 << 15,
	ITEM_BAD = 1 << 14,
	ITEM_DATA = 1 << 13,
	ITEM_ID = ITEM_DATA - 1,
	ITEM_MIXED =
		ITEM_BAD | ITEM_DATA, /* a verdict, and rows may follow: ledger_is_mixed() */
};
enum { NOT_HERE = 0xffff, SENTENCE = 400 }; /* no id; bytes of a verdict, with its final 0 */
_Static_assert((int)LEDGER_IDS - 1 <= (int)ITEM_ID, "an id fits below the marks");

/* The meaning of one of a child's ids. */
struct known {
	uint32_t id, age; /* this host's, as the ledger gave it */
	bool flying;
	struct op_signatures signatures;
	size_t len;
	char name[];
};

/* A neighbour in the tree; the parent, if there is one, is link 0. */
struct link {
	int leader;
	bool gone;   /* its leader has said goodbye; it may pass invitations on */
	bool closed; /* it takes no more frames                               */
	/* Set for a child only. */
	int *ranks, count; /* in its subtree, ascending */
	bool joined;       /* some of these ranks have joined */
	struct known **known;
};

/* The state of one tensor, by this host's id. */
struct name_state {
	int arrived;
	bool dirty;     /* signatures have to be compared, or were not equal */
	bool sent;      /* announced to the parent */
	bool own;       /* the ranks of this host have submitted it */
	bool called;    /* this host's joined ranks have been called, and the id is held */
	bool bare;      /* a host came without data                    */
	bool summed;    /* at least one host came with data            */
	bool travels;   /* all came with data: so does the answer     */
	uint64_t taken; /* complete rounds of this host's ranks so far */
	uint64_t bytes; /* of one host's sum; step: from one sum to the next */
	uint64_t step, room;
	unsigned char *sums;
	uint64_t *rows;
};

/* An early announcement: the root has sent its host's sum first, and waits for the answer; or
 * this leader, its child, has not answered yet. */
struct offer {
	bool open;
	uint32_t id;
	uint64_t bytes;
	unsigned char data[OP_SIGNATURE_INLINE_BYTES];
	int half;                    /* the root: tensors that only some hosts have announced */
	int skip, next_skip;         /* chances to pass over after a declined offer */
	uint16_t theirs[LEDGER_IDS]; /* the child's last id for each of this host's  */
};

struct coordinator {
	struct ledger *ledger;
	struct host_queue *host_queue;
	struct coordinator_events ev;
	int size, hosts, host, first_child, links;
	bool is_root, left, alarmed;
	bool has_invited;     /* an invitation has come here             */
	bool carries;         /* data may travel with the announcements */
	bool reported_joined; /* to the parent                           */
	uint32_t seen_joined; /* of this host, at the last turn; atomic */
	uint64_t cap;
	int *ranks, count; /* of this leader's subtree */
	struct link *link;
	struct name_state *names; /* LEDGER_IDS */
	uint16_t *theirs;         /* by id and child: the child's id, or NOT_HERE */
	struct frame_out ready, out;
	uint16_t batch[BATCH_ITEMS]; /* being received */
	int batch_count;
	int sent_count; /* announced to the parent, and not answered */
	struct offer offer;
	/* The root's only. */
	uint16_t due[LEDGER_IDS];
	uint64_t due_head, due_tail;
	int running; /* batches announced and not done */
};

/* coordinator_send - send a frame to a neighbour.  coordinator_flood - to all but @except. */
static inline void coordinator_send(struct coordinator *c, int link, const struct frame_out *o)
{
	c->ev.send(c->ev.ctx, link, o->data, o->len);
}

static inline void coordinator_flood(struct coordinator *c, int except,
				     const struct frame_out *o)
{
	for (int k = 0; k < c->links; k++)
		if (k != except)
			coordinator_send(c, k, o);
}

/* coordinator_malformed - fails: the data received over @link are not a @what. */
static inline int coordinator_malformed(const struct coordinator *c, int link, const char *what,
					struct err *e)
{
	return fail(e, RINGUP_EPEER, "rank %d sent a malformed %s", c->link[link].leader, what);
}

/* coordinator_child - the @k-th child, of coordinator_children(). */
static inline struct link *coordinator_child(const struct coordinator *c, int k)
{
	return &c->link[c->first_child + k];
}

static inline int coordinator_children(const struct coordinator *c)
{
	return c->links - c->first_child;
}

/* coordinator_their_id - the present id of child @k for this host's @id. */
static inline uint16_t *coordinator_their_id(const struct coordinator *c, uint32_t id, int k)
{
	return &c->theirs[(size_t)id * (size_t)coordinator_children(c) + (size_t)k];
}

/* coordinator_has_rows - has the tensor rows, whose number may differ between ranks? */
static inline bool coordinator_has_rows(const struct coordinator *c, uint32_t id)
{
	return op_signature_has_rows(&ledger_record(c->ledger, id, 0)->signature);
}

/* coordinator_sum_of - the place of the sum of @host. */
static inline unsigned char *coordinator_sum_of(const struct name_state *x, int host)
{
	return x->sums + (uint64_t)host * x->step;
}

/* ---- coordinator_count.c: readiness of each tensor ---- */

/* coordinator_gather_signatures - the signatures of @id in this subtree. */
void coordinator_gather_signatures(const struct coordinator *c, uint32_t id,
				   struct op_signatures *s);

/* coordinator_flush_ready - send the announcements gathered for the parent. */
void coordinator_flush_ready(struct coordinator *c);

/* coordinator_keep_own_sum - keep the sum of this host's ranks, if it may travel. */
void coordinator_keep_own_sum(struct coordinator *c, uint32_t id);

/* coordinator_may_travel - may data travel with a tensor that a child has defined so? */
bool coordinator_may_travel(const struct coordinator *c, const struct known *n);

/* coordinator_count - one more participant, a child or this host, is ready for @id. */
int coordinator_count(struct coordinator *c, uint32_t id, struct err *e);

/* ---- coordinator_join.c: ranks that have joined ---- */

/* coordinator_any_joined - has any rank of this subtree joined?  coordinator_tell_joined - tell
 * the parent, if that has changed, so that it calls joined ranks. */
bool coordinator_any_joined(const struct coordinator *c);
int coordinator_tell_joined(struct coordinator *c, struct err *e);

/* coordinator_call - call the joined ranks of this subtree that have not submitted @id yet.
 * coordinator_some_signature - the signature of a rank that has submitted @id. */
int coordinator_call(struct coordinator *c, uint32_t id, const struct op_signature *s,
		     struct err *e);
const struct op_signature *coordinator_some_signature(const struct coordinator *c, uint32_t id);

/* ---- coordinator_batch.c: batches of ready tensors, in order ---- */

/* coordinator_judge - at the root: make the verdict and result that all ranks receive for @id.
 * coordinator_announce - send the next batches that are due.  coordinator_finish - reset @id,
 * so that the children may submit it again. */
void coordinator_judge(struct coordinator *c, uint32_t id);
void coordinator_announce(struct coordinator *c);
void coordinator_finish(struct coordinator *c, uint32_t id);

/* ---- coordinator_offer.c: early announcement, with exactly two hosts ---- */

/* coordinator_may_offer, coordinator_send_offer - at the root, whose host is ready for @id.
 * coordinator_settle - at the root: the offer of @id is accepted. */
bool coordinator_may_offer(struct coordinator *c, uint32_t id);
void coordinator_send_offer(struct coordinator *c, uint32_t id);
void coordinator_settle(struct coordinator *c, uint32_t id);

/* coordinator_answers - at the child: does an announcement of @id accept the open offer?
 * coordinator_accept_offer - accept it, with the @data of the root's host.
 * coordinator_decline - decline it. */
bool coordinator_answers(const struct coordinator *c, uint32_t id);
void coordinator_accept_offer(struct coordinator *c, const unsigned char *data);
void coordinator_decline(struct coordinator *c);

/* ---- handlers of the frames that arrive over a link ---- */

int coordinator_take_define(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_ready(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_run(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_leave(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_alarm(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_ping(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_joined(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_call(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_report(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_offer(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_invite(struct coordinator *c, int link, struct frame_in *f, struct err *e);
int coordinator_take_decline(struct coordinator *c, int link, struct frame_in *f,
			     struct err *e);

#endif
