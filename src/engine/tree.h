/* tree.h - agreement between hosts: their leaders, connected as a tree. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_TREE_H
#define ENGINE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/coordinator.h"

struct err;
struct host_queue;
struct topo;
struct op_signature;

/*
 * All ranks of a host agree on its ledger and its host queue.  What the leader adds is a
 * coordinator and the connections to its neighbours.
 *
 * Who reads them?  Whoever waits, looks: the holder of the baton asks tree_poll() again
 * and again between tree_attend(true) and tree_attend(false), so that an answer is seen as soon
 * as it is there.  When it goes to sleep, or nobody waits, tree_fd() becomes readable, and the
 * watch thread calls tree_serve().  While somebody attends to it, tree_fd() is silent, so
 * that no other thread is woken for nothing.  In a row of small operations frames also
 * come between two of them, where nobody waits: then it stays silent for a moment more,
 * and the watch thread looks again by itself.
 *
 * Any thread may call any of these, but tree_attend(), tree_poll(), tree_turn() and
 * tree_done(), which are for the holder of the baton.
 */
struct tree;

struct tree_events {
	/* A rank says that it leaves; that the job is over, or it is because one talks
	 * nonsense.  These two must not call the tree. */
	void (*left)(void *ctx, int rank);
	void (*alarm)(void *ctx, int culprit, int code, const char *why);
	/* The connection to @rank, another host's leader, is lost. */
	void (*lost)(void *ctx, int rank, const struct err *why);
	void *ctx;
	/* At the root, unless it is NULL: a leader has reported something.  Must not call
	 * the tree. */
	void (*report)(void *ctx, const void *data, size_t len);
	/* Unless it is NULL: is the job over, and why?  Asked before the neighbours hear that
	 * a rank leaves, for that is why it does: each hears the cause first, whichever of
	 * several trees is the quickest.  Must not call the tree. */
	bool (*over)(void *ctx, int *culprit, struct err *why);
	/* Unless it is NULL: see struct coordinator_events.  Must not call the tree. */
	void (*invite)(void *ctx, int from, int to, const char *where);
	/* Unless it is NULL: see struct coordinator_events.  Must not call the tree. */
	void (*arrived)(void *comm, uint32_t id, const struct op_signature *w, const int *ranks,
			int count);
	void *comm;
};

/*
 * tree_open - for the first rank of a host of @t, with @s, which has connections to its parent
 * and its children: t->mesh->control[].  @fanout and @cap as for coordinator_open().
 */
int tree_open(struct tree **tp, struct host_queue *s, const struct topo *t, int fanout,
	      uint64_t cap, const struct tree_events *ev, struct err *e);
void tree_close(struct tree *t);

/* tree_fd - poll for POLLIN, and then call tree_serve(); if that returns true, call it again
 * after TREE_AGAIN_MS, whatever tree_fd() says. */
enum { TREE_AGAIN_MS = 1 };
int tree_fd(const struct tree *t);
bool tree_serve(struct tree *t);

/* tree_alarm - tell the other hosts that the job is over, unless they know. */
void tree_alarm(struct tree *t, int culprit, int code, const char *why);

/* tree_goodbye - tell the neighbours that this rank ends in peace; tree_is_unsent -
 * is something of what they shall know still here? */
void tree_goodbye(struct tree *t);
bool tree_is_unsent(struct tree *t);

/* tree_attend, tree_poll - as agree_attend() and agree_poll(). */
void tree_attend(struct tree *t, bool on);
void tree_poll(struct tree *t);

/* tree_is_behind - has something happened on this host that the others have not been told?
 * Cheap. tree_turn - then tell them. */
bool tree_is_behind(const struct tree *t);
void tree_turn(struct tree *t);

/* tree_done - this host's leader has carried out a batch. */
void tree_done(struct tree *t);

/* tree_report - let the root know, in at most COORDINATOR_REPORT bytes. */
void tree_report(struct tree *t, const void *data, size_t len);

/* tree_invite - see coordinator_invite(). */
void tree_invite(struct tree *t, int from, int to, const char *where);

/* tree_ping - let the neighbours know that this rank lives. */
void tree_ping(struct tree *t);

/* tree_neighbours - how many there are; tree_heard - how many frames the @k-th has sent
 * so far, and which rank it is; *@gone: it has said goodbye, or is lost. */
int tree_neighbours(const struct tree *t);
uint64_t tree_heard(struct tree *t, int k, int *rank, bool *gone);

/* tree_socket - of the connection to the @k-th neighbour, until tree_close(). */
int tree_socket(const struct tree *t, int k);

#endif
