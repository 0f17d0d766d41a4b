/* tree.h - control tree: the connections between leaders, over which hosts agree. */
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
 * All ranks of a host agree in its ledger and its host queue.  The leader adds a coordinator
 * and the connections to its neighbours.
 *
 * The thread that waits reads the connections: the holder of the baton repeats tree_poll()
 * between tree_attend(true) and tree_attend(false), so that it sees an answer at once.  When it
 * goes to sleep, or no thread waits, tree_fd() becomes readable, and the watch thread calls
 * tree_serve().  While a thread attends to the tree, tree_fd() is silent, so that no other
 * thread is woken for nothing.  In a series of small operations frames also arrive between two
 * of them, when no thread waits: tree_fd() then stays silent for a moment more, and the watch
 * thread looks again by itself.
 *
 * Any thread may call any of these, but tree_attend(), tree_poll(), tree_turn() and
 * tree_done() are for the holder of the baton.
 */
struct tree;

struct tree_events {
	/* A rank leaves.  The job is over: a rank says so, or a frame was malformed.  These two
	 * must not call the tree. */
	void (*left)(void *ctx, int rank);
	void (*alarm)(void *ctx, int culprit, int code, const char *why);
	/* The connection to @rank, another host's leader, is lost. */
	void (*lost)(void *ctx, int rank, const struct err *why);
	void *ctx;
	/* At the root, unless NULL: a leader's report.  Must not call the tree. */
	void (*report)(void *ctx, const void *data, size_t len);
	/* Unless NULL: is the job over, and why?  Called before neighbours hear that a rank
	 * leaves because of that: each hears the cause first, in whichever of several trees.
	 * Must not call the tree. */
	bool (*over)(void *ctx, int *culprit, struct err *why);
	/* Unless NULL: see struct coordinator_events.  Must not call the tree. */
	void (*invite)(void *ctx, int from, int to, const char *where);
	/* Unless NULL: see struct coordinator_events.  Must not call the tree. */
	void (*arrived)(void *comm, uint32_t id, const struct op_signature *s, const int *ranks,
			int count);
	void *comm;
};

/*
 * tree_open - for the first rank of a host of @t, whose host queue is @s.  Connections to its
 * parent and its children exist: t->mesh->control[].  @fanout, @cap: see coordinator_open().
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

/* tree_goodbye - tell the neighbours that this rank ends regularly; tree_is_unsent - has a
 * frame to a neighbour not left yet? */
void tree_goodbye(struct tree *t);
bool tree_is_unsent(struct tree *t);

/* tree_attend, tree_poll - as agree_attend() and agree_poll(). */
void tree_attend(struct tree *t, bool on);
void tree_poll(struct tree *t);

/* tree_is_behind - has this host news that it has not sent to other hosts? Cheap.
 * tree_turn - send the news. */
bool tree_is_behind(const struct tree *t);
void tree_turn(struct tree *t);

/* tree_done - this host's leader has carried out a batch. */
void tree_done(struct tree *t);

/* tree_report - send at most COORDINATOR_REPORT bytes to the root. */
void tree_report(struct tree *t, const void *data, size_t len);

/* tree_invite - see coordinator_invite(). */
void tree_invite(struct tree *t, int from, int to, const char *where);

/* tree_has_invited - see coordinator_has_invited(); *@has_children: coordinator_has_children().
 */
bool tree_has_invited(struct tree *t, bool *has_children);

/* tree_ping - send a sign of life to the neighbours. */
void tree_ping(struct tree *t);

/* tree_neighbours - the number of neighbours; tree_heard - frames that the @k-th has sent so
 * far, and its rank; *@gone: it has said goodbye, or is lost. */
int tree_neighbours(const struct tree *t);
uint64_t tree_heard(struct tree *t, int k, int *rank, bool *gone);

/* tree_socket - the socket to the @k-th neighbour, until tree_close(). */
int tree_socket(const struct tree *t, int k);

#endif
