/* tree.c - control tree: the connections between leaders, over which hosts agree. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tree.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "engine/comm.h"
#include "engine/host_queue.h"
#include "engine/ledger.h"
#include "engine/over.h"
#include "ringup.h"
#include "wire/chan.h"
#include "wire/mesh.h"
#include "wire/ranks.h"
#include "wire/segment.h"

enum {
	LOOK_EVERY = 8, /* calls of tree_poll() a look: a system call is longer than a pause */
	FEW_LINKS = 2,  /* up to this number of links, trying all is faster */
	MANY_EVENTS = 16,
	BRIEF_NS = 100000, /* a thread that was away no longer is expected back at once */
};

struct branch {
	struct chan *chan;
	bool unsent, lost;
	bool full;      /* too much is waiting to be sent        */
	bool confused;  /* the neighbour sent a malformed frame  */
	uint64_t heard; /* frames                                */
	struct err why; /* why sending failed; reported when the connection is lost */
};

struct tree {
	struct ledger *ledger;
	struct host_queue *host_queue;
	struct tree_events ev;
	uint32_t *left; /* shared by this host's ranks: 0, or 1 + the first that has left */
	pthread_mutex_t lock; /* of all below, and of the connections */
	struct coordinator *coordinator;
	struct branch *branch;
	int branches;
	int inner;          /* epoll: readable when a neighbour has sent a frame     */
	int outer;          /* epoll: the same, but silent while a thread attends    */
	bool armed;         /* outer reports the next event                          */
	bool attended;      /* the holder of the baton polls                         */
	bool brief;         /* it is away, but is expected back at once              */
	int64_t away_ns;    /* when it went away                                     */
	bool reported_left; /* the other hosts know that a rank has left; atomic     */
	uint32_t looks;     /* of the holder of the baton */
};

/* ---- connections ---- */

/* Asks epoll for frames to read, and for room if frames are unsent. */
static void expect(struct tree *t, int k, int op)
{
	struct branch *b = &t->branch[k];
	struct epoll_event ev = { .events = EPOLLIN | (b->unsent ? EPOLLOUT : 0),
				  .data.u32 = (uint32_t)k };

	epoll_ctl(t->inner, op, chan_fd(b->chan), &ev);
}

static void note_unsent(struct tree *t, int k, int rc)
{
	struct branch *b = &t->branch[k];

	if (b->unsent == (rc > 0))
		return;
	b->unsent = rc > 0;
	expect(t, k, EPOLL_CTL_MOD);
}

/* The connection is intact, but the neighbour reads nothing.  If it sends nothing either, no
 * event would follow: so the receiving side is shut down, which tree_look_at() then sees. */
static void give_up(struct branch *b)
{
	struct pollfd p = { .fd = chan_fd(b->chan) };

	b->full = poll(&p, 1, 0) == 0;
	if (b->full)
		shutdown(p.fd, SHUT_RD);
}

/* A lost connection is reported by tree_look_at(), after the frames that can still be read. */
static void on_send(void *ctx, int k, const void *frame, size_t len)
{
	struct tree *t = ctx;
	struct branch *b = &t->branch[k];

	if (b->lost || b->why.code)
		return;
	note_unsent(t, k, chan_send(b->chan, frame, len, &b->why));
	if (b->why.code)
		give_up(b);
}

static void on_left(void *ctx, int rank)
{
	struct tree *t = ctx;

	__atomic_store_n(&t->reported_left, true, __ATOMIC_RELAXED);
	over_leave(t->left, rank);
	t->ev.left(t->ev.ctx, rank);
}

static void on_alarm(void *ctx, int culprit, int code, const char *why)
{
	struct tree *t = ctx;

	t->ev.alarm(t->ev.ctx, culprit, code, why);
}

static void on_report(void *ctx, const void *data, size_t len)
{
	struct tree *t = ctx;

	if (t->ev.report)
		t->ev.report(t->ev.ctx, data, len);
}

static void on_invite(void *ctx, int from, int to, const char *where)
{
	struct tree *t = ctx;

	if (t->ev.invite)
		t->ev.invite(t->ev.ctx, from, to, where);
}

static void on_arrived(void *ctx, uint32_t id, const struct op_signature *s, const int *ranks,
		       int count)
{
	struct tree *t = ctx;

	if (t->ev.arrived)
		t->ev.arrived(t->ev.comm, id, s, ranks, count);
}

/* Reads what has arrived.  A neighbour that closes may have sent the reason before. */
static void tree_look_at(struct tree *t, int k, struct err *e)
{
	struct branch *b = &t->branch[k];
	const void *frame;
	int rc;

	if (b->lost)
		return;
	if (b->unsent)
		note_unsent(t, k, chan_flush(b->chan, &b->why));
	while ((rc = chan_recv(b->chan, &frame, e)) > 0) {
		b->heard++;
		rc = coordinator_take(t->coordinator, k, frame, (size_t)rc, e);
		b->confused = rc < 0;
		if (rc)
			break;
	}
	if (b->why.code && (!rc || (b->full && !b->confused))) {
		*e = b->why;
		rc = e->code;
	}
	if (!rc)
		return;
	b->lost = true;
	coordinator_link_closed(t->coordinator, k);
	epoll_ctl(t->inner, EPOLL_CTL_DEL, chan_fd(b->chan), NULL);
}

/* The first loss of a look, to be reported without the lock. */
struct losses {
	int rank;  /* or -1 */
	bool over; /* the protocol failed, not the connection */
	struct err why;
};

static void note_loss(struct tree *t, int k, struct losses *l)
{
	struct err e = { 0 };
	bool was = t->branch[k].lost;

	tree_look_at(t, k, &e);
	if (was || !t->branch[k].lost || coordinator_gone(t->coordinator, k) || l->rank >= 0)
		return;
	l->rank = coordinator_leader(t->coordinator, k);
	l->over = t->branch[k].confused;
	l->why = e;
}

static void tree_look(struct tree *t, struct losses *l)
{
	struct epoll_event ev[MANY_EVENTS];
	int n;

	l->rank = -1;
	l->over = false;
	if (t->branches <= FEW_LINKS) {
		for (int i = 0; i < t->branches; i++)
			note_loss(t, i, l);
		return;
	}
	n = epoll_wait(t->inner, ev, MANY_EVENTS, 0);
	for (int i = 0; i < n; i++)
		note_loss(t, (int)ev[i].data.u32, l);
}

/* Sends the reason for the end of the job, ahead of any farewell. */
static void say_why(struct tree *t)
{
	struct err why;
	int culprit;

	if (t->ev.over && t->ev.over(t->ev.ctx, &culprit, &why))
		coordinator_alarm(t->coordinator, culprit, why.code, why.text);
}

/* Runs the coordinator, and tells the other hosts that a rank of this host has left. */
static void turn(struct tree *t, struct losses *l)
{
	uint32_t left = __atomic_load_n(t->left, __ATOMIC_ACQUIRE);
	struct err e;

	if (coordinator_turn(t->coordinator, &e) && l->rank < 0) {
		l->rank = t->host_queue->rank[0];
		l->over = true;
		l->why = e;
	}
	if (left && !t->reported_left) {
		__atomic_store_n(&t->reported_left, true, __ATOMIC_RELAXED);
		say_why(t);
		coordinator_leave(t->coordinator, (int)left - 1);
	}
}

static void tree_tell(struct tree *t, const struct losses *l)
{
	if (l->rank >= 0 && l->over)
		t->ev.alarm(t->ev.ctx, ranks_in_world(t->ledger->world, l->rank), l->why.code,
			    l->why.text);
	else if (l->rank >= 0)
		t->ev.lost(t->ev.ctx, l->rank, &l->why);
}

static void arm(struct tree *t, bool on)
{
	struct epoll_event ev = { .events = on ? EPOLLIN | EPOLLONESHOT : 0 };

	if (t->armed == on)
		return;
	t->armed = on;
	epoll_ctl(t->outer, EPOLL_CTL_MOD, t->inner, &ev);
}

int tree_fd(const struct tree *t)
{
	return t->outer;
}

bool tree_serve(struct tree *t)
{
	struct epoll_event ev;
	struct losses l;
	bool brief;

	pthread_mutex_lock(&t->lock);
	/* A one-shot event disarms outer. */
	if (epoll_wait(t->outer, &ev, 1, 0) > 0)
		t->armed = false;
	tree_look(t, &l);
	turn(t, &l);
	brief = t->attended || clock_ns() - t->away_ns < BRIEF_NS;
	t->brief = brief;
	if (!brief)
		arm(t, true);
	pthread_mutex_unlock(&t->lock);
	tree_tell(t, &l);
	return brief;
}

/* ---- the holder of the baton ---- */

void tree_attend(struct tree *t, bool on)
{
	pthread_mutex_lock(&t->lock);
	t->attended = on;
	t->looks = 0;
	if (!on)
		t->away_ns = clock_ns();
	if (!t->brief)
		arm(t, !on);
	pthread_mutex_unlock(&t->lock);
}

static bool is_going_to_sleep(const struct tree *t)
{
	const struct waitset *waitset = &t->ledger->seg->waitset;

	return __atomic_load_n(&waitset_at(waitset, waitset->me)->asleep, __ATOMIC_RELAXED);
}

bool tree_is_behind(const struct tree *t)
{
	return host_queue_pending(t->host_queue) || coordinator_is_behind(t->coordinator) ||
	       (__atomic_load_n(t->left, __ATOMIC_RELAXED) &&
		!__atomic_load_n(&t->reported_left, __ATOMIC_RELAXED));
}

void tree_poll(struct tree *t)
{
	bool sleepy = is_going_to_sleep(t);
	struct losses l;

	if (t->looks++ % LOOK_EVERY && !sleepy && !tree_is_behind(t))
		return;
	if (sleepy)
		pthread_mutex_lock(&t->lock);
	else if (pthread_mutex_trylock(&t->lock))
		return;
	if (sleepy) {
		t->attended = t->brief = false;
		t->away_ns = 0;
		arm(t, true);
	}
	tree_look(t, &l);
	turn(t, &l);
	pthread_mutex_unlock(&t->lock);
	tree_tell(t, &l);
}

void tree_turn(struct tree *t)
{
	struct losses l = { .rank = -1 };

	pthread_mutex_lock(&t->lock);
	turn(t, &l);
	pthread_mutex_unlock(&t->lock);
	tree_tell(t, &l);
}

void tree_done(struct tree *t)
{
	pthread_mutex_lock(&t->lock);
	coordinator_done(t->coordinator);
	pthread_mutex_unlock(&t->lock);
}

/* ---- endings ---- */

void tree_alarm(struct tree *t, int culprit, int code, const char *why)
{
	pthread_mutex_lock(&t->lock);
	coordinator_alarm(t->coordinator, culprit, code, why);
	pthread_mutex_unlock(&t->lock);
}

void tree_goodbye(struct tree *t)
{
	pthread_mutex_lock(&t->lock);
	say_why(t);
	coordinator_goodbye(t->coordinator);
	pthread_mutex_unlock(&t->lock);
}

bool tree_is_unsent(struct tree *t)
{
	bool any = false;
	struct err e;

	pthread_mutex_lock(&t->lock);
	for (int k = 0; k < t->branches; k++)
		any |= !t->branch[k].lost && chan_flush(t->branch[k].chan, &e) > 0;
	pthread_mutex_unlock(&t->lock);
	return any;
}

void tree_ping(struct tree *t)
{
	pthread_mutex_lock(&t->lock);
	coordinator_ping(t->coordinator);
	pthread_mutex_unlock(&t->lock);
}

void tree_report(struct tree *t, const void *data, size_t len)
{
	pthread_mutex_lock(&t->lock);
	coordinator_report(t->coordinator, data, len);
	pthread_mutex_unlock(&t->lock);
}

void tree_invite(struct tree *t, int from, int to, const char *where)
{
	pthread_mutex_lock(&t->lock);
	coordinator_invite(t->coordinator, from, to, where);
	pthread_mutex_unlock(&t->lock);
}

bool tree_has_invited(struct tree *t, bool *has_children)
{
	bool has;

	pthread_mutex_lock(&t->lock);
	has = coordinator_has_invited(t->coordinator);
	*has_children = coordinator_has_children(t->coordinator);
	pthread_mutex_unlock(&t->lock);
	return has;
}

int tree_neighbours(const struct tree *t)
{
	return t->branches;
}

uint64_t tree_heard(struct tree *t, int k, int *rank, bool *gone)
{
	uint64_t heard;

	pthread_mutex_lock(&t->lock);
	heard = t->branch[k].heard;
	*rank = coordinator_leader(t->coordinator, k);
	*gone = t->branch[k].lost || coordinator_gone(t->coordinator, k);
	pthread_mutex_unlock(&t->lock);
	return heard;
}

int tree_socket(const struct tree *t, int k)
{
	return chan_fd(t->branch[k].chan);
}

/* ---- life ---- */

static int open_branches(struct tree *t, const struct mesh *m, struct err *e)
{
	struct epoll_event silent = { .events = 0 };
	int rank;

	t->inner = file_lift(epoll_create1(EPOLL_CLOEXEC));
	t->outer = file_lift(epoll_create1(EPOLL_CLOEXEC));
	if (t->inner < 0 || t->outer < 0 ||
	    epoll_ctl(t->outer, EPOLL_CTL_ADD, t->inner, &silent))
		return fail_os(e, "epoll");
	t->branch = calloc((size_t)coordinator_links(t->coordinator) + 1, sizeof(*t->branch));
	if (!t->branch)
		return fail(e, RINGUP_ENOMEM, "no memory for the control plane");
	for (int k = 0; k < coordinator_links(t->coordinator); k++) {
		rank = coordinator_leader(t->coordinator, k);
		t->branch[k].chan = m->control[rank];
		if (!m->control[rank])
			return fail(e, RINGUP_EINVAL, "no connection to rank %d", rank);
		t->branches++;
		expect(t, k, EPOLL_CTL_ADD);
	}
	arm(t, true);
	return 0;
}

int tree_open(struct tree **tp, struct host_queue *s, const struct topo *topo, int fanout,
	      uint64_t cap, const struct tree_events *ev, struct err *e)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct coordinator_events tev = { .send = on_send,
					  .left = on_left,
					  .alarm = on_alarm,
					  .ctx = t,
					  .report = on_report,
					  .invite = on_invite,
					  .arrived = on_arrived };
	int rc;

	if (!t)
		return fail(e, RINGUP_ENOMEM, "no memory for the control plane");
	t->ledger = s->ledger;
	t->host_queue = s;
	t->ev = *ev;
	t->left = &t->ledger->seg->head->left;
	t->inner = t->outer = -1;
	pthread_mutex_init(&t->lock, NULL);
	rc = coordinator_open(&t->coordinator, s, topo, fanout, cap, &tev, e);
	if (!rc)
		rc = open_branches(t, topo->mesh, e);
	if (rc)
		tree_close(t);
	else
		*tp = t;
	return rc;
}

void tree_close(struct tree *t)
{
	if (!t)
		return;
	if (t->outer >= 0)
		close(t->outer);
	if (t->inner >= 0)
		close(t->inner);
	free(t->branch);
	coordinator_close(t->coordinator);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
