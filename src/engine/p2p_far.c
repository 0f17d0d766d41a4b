/* p2p_far.c - connections for messages between hosts, made when two ranks first need one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/thread.h"
#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/coordinator.h"
#include "engine/engine_state.h"
#include "engine/liveness.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/over.h"
#include "engine/p2p.h"
#include "engine/p2p_state.h"
#include "engine/tree.h"
#include "ringup.h"
#include "wire/ranks.h"
#include "wire/shake.h"
#include "wire/waitset.h"

/*
 * No socket listens between ringup_init() and ringup_fini().  A rank that has a message for a
 * rank of another host listens for a moment, and sends that rank an invitation, which travels
 * through the control plane: by a ring to the leader of its host, from leader to leader, and by
 * a ring to the invited rank, which connects.
 *
 * If two ranks invite each other at once, they may have two connections.  Each writes its
 * frames to the connection that it had first, so that they stay in order, and reads the
 * connection that brings the other rank's frames.
 *
 * One thread of the rank waits for sockets.  A thread that has a frame to write tries to write
 * it at once.
 */
enum {
	AGAIN_MS = 1000,    /* between two invitations without a connection */
	LINGER_MS = 300,    /* a rank that leaves waits so long for the others to hang up, */
	DELIVER_MS = 20000, /* and so long for their kernels to take what it has sent */
	DELIVER_STEP_MS = 20,
	DIAL_MS = 20000,     /* until connecting to an inviter fails */
	VERDICT_MS = 500,    /* from the end of a connection: a death is reported until then */
	MOST_INVITES = 4096, /* invitations not handled yet */
	AT_WAKE = 0,
	AT_DOOR = 1,
};

/* Connections of a peer: made by the peer, which this rank has invited; made by this rank. */
enum { INVITED, FOLLOWED };

static const int64_t ms = 1000000;

/* ---- waking the thread ---- */

static void *far_thread(void *arg);

static int p2p_far_start_thread(struct p2p *x, struct err *e)
{
	struct p2p_far *f = &x->far;
	int rc;

	if (f->has_thread)
		return 0;
	f->wake = file_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (f->wake < 0) {
		f->wake = 0;
		return fail_os(e, "eventfd");
	}
	rc = thread_start(&f->thread, far_thread, x);
	if (rc)
		return limits_fail(e, rc, "thread for messages");
	f->has_thread = true;
	return 0;
}

void p2p_far_poke(struct p2p *x)
{
	uint64_t one = 1;

	if (!x->far.has_thread || x->far.poked)
		return;
	x->far.poked = true;
	/* If the write fails, the counter is full of earlier wake-ups. */
	(void)!write(x->far.wake, &one, sizeof(one));
}

/* ---- invitations ---- */

static bool is_local(const struct p2p *x, int rank)
{
	return !x->topo->host_of || x->topo->host_of[rank] == x->topo->host;
}

static bool has_left(const struct p2p *x, const struct p2p_peer *p)
{
	return liveness_has_left(&x->engine->liveness[p->place]);
}

/* The answer to @v; empty, it tells the sender that @v cannot be delivered. */
static struct p2p_invite bounce(const struct p2p_invite *v)
{
	return (struct p2p_invite){ .from = v->to, .to = v->from };
}

static void write_letter(struct p2p *x, struct p2p_peer *p, const struct p2p_invite *v)
{
	struct p2p_letter *l = calloc(1, sizeof(*l)), **end = &p->letters;

	if (!l) {
		p2p_fail_memory(x);
		return;
	}
	l->invite = *v;
	while (*end)
		end = &(*end)->next;
	*end = l;
	p2p_peer_write(x, p);
}

static int listen_for_peers(struct p2p *x, struct err *e)
{
	struct p2p_far *f = &x->far;

	return f->door.guest ? 0
			     : door_listen(&f->door, f->address, f->where,
					   (uint32_t)x->topo->rank, f->secret, e);
}

static void invite(struct p2p *x, struct p2p_peer *p)
{
	struct p2p_invite v = { .from = x->topo->rank, .to = p->rank };

	snprintf(v.where, sizeof(v.where), "%s", x->far.where);
	p->invited_ns = clock_ns();
	p->was_invited = true;
	p2p_far_take(x, &v);
}

void p2p_far_connect(struct p2p *x, struct p2p_peer *p)
{
	struct err e;
	int rc;

	if (p->invited_ns || p->ended_ns || p->gone || p->output >= 0)
		return;
	rc = listen_for_peers(x, &e);
	if (!rc)
		rc = p2p_far_start_thread(x, &e);
	if (rc) {
		fail_in(&e, "rank %d cannot be reached by rank %d", x->topo->rank, p->rank);
		p2p_fail(x, &e);
		return;
	}
	invite(x, p);
	p2p_far_poke(x);
}

/* A second invitation while this rank is connecting changes nothing.  One after a failed
 * attempt shows that the other rank still waits. */
static void p2p_far_follow(struct p2p *x, struct p2p_peer *p, const char *where)
{
	struct err e;
	int rc;

	if (p->output >= 0 || p->dial || p->gone)
		return;
	if (p->dial_why.code) {
		p2p_fail(x, &p->dial_why);
		return;
	}
	p->dial = calloc(1, sizeof(*p->dial));
	if (!p->dial) {
		p2p_fail_memory(x);
		return;
	}
	rc = dial_open(p->dial, where, SHAKE_P2P, (uint32_t)x->topo->rank, (uint32_t)p->rank,
		       x->far.secret, clock_deadline(DIAL_MS), &e);
	if (!rc)
		rc = p2p_far_start_thread(x, &e);
	if (rc)
		p2p_fail(x, &e);
	p2p_far_poke(x);
}

/* ---- questions ---- */

struct search {
	uint64_t group, hash;
	char found; /* '1', '0', or '?': it is not known now */
};

static void look_at_comm(struct comm *c, void *arg)
{
	struct search *s = arg;
	const struct ringup_op *op;

	if (c->serial != s->group)
		return;
	/* Locks are taken in the other order elsewhere: so this one is only tried. */
	s->found = '?';
	if (!lock_try(&c->lock))
		return;
	for (op = c->flying; op && s->found != '1'; op = op->next)
		if (!op_is_done(op) && op->entry && op->entry->hash == s->hash)
			s->found = '1';
	/* Operations that have failed with the job may have been started all the same. */
	if (s->found != '1' && !over_comm(c, NULL))
		s->found = '0';
	lock_give(&c->lock);
}

/* Answers whether this rank has started the operation; no answer if that is not known now. */
static void answer_question(struct p2p *x, const struct p2p_invite *v)
{
	struct p2p_invite a = bounce(v);
	struct search s = { .found = '0' };
	char *end;

	s.group = strtoull(v->where + 1, &end, 10);
	if (*end != ':')
		return;
	s.hash = strtoull(end + 1, NULL, 10);
	comms_visit(x->engine, look_at_comm, &s);
	if (s.found == '?')
		return;
	snprintf(a.where, sizeof(a.where), "!%c:%llu", s.found, (unsigned long long)s.hash);
	p2p_far_take(x, &a);
}

static void note_answer(struct p2p *x, const struct p2p_invite *v)
{
	struct p2p_far *f = &x->far;

	if (!f->answer || strlen(v->where) < 4 || v->where[2] != ':' ||
	    strtoull(v->where + 3, NULL, 10) != f->asked)
		return;
	f->answer[v->from] = v->where[1] == '1' ? P2P_STARTED : P2P_NOT_STARTED;
}

static bool has_silent(const struct p2p *x, const struct comm *c, const unsigned char *answer)
{
	int w;

	for (int r = 0; r < c->topo.size; r++) {
		w = ranks_in_world(c->ranks, r);
		if (!is_local(x, w) && answer[w] == P2P_SILENT)
			return true;
	}
	return false;
}

static void ask_all(struct p2p *x, const struct comm *c, uint64_t hash)
{
	struct p2p_invite v = { .from = x->topo->rank };

	snprintf(v.where, sizeof(v.where), "?%llu:%llu", (unsigned long long)c->serial,
		 (unsigned long long)hash);
	for (int r = 0; r < c->topo.size; r++) {
		v.to = ranks_in_world(c->ranks, r);
		if (!is_local(x, v.to))
			p2p_far_take(x, &v);
	}
}

bool p2p_ask(struct p2p *x, struct comm *c, const struct ringup_op *op, unsigned char *answer)
{
	int64_t enough = clock_deadline(P2P_ASK_MS);
	bool waits;

	p2p_lock(x);
	waits = !x->far.answer;
	if (waits) {
		memset(answer, P2P_SILENT, (size_t)x->topo->size);
		x->far.answer = answer;
		x->far.asked = op->entry->hash;
		ask_all(x, c, op->entry->hash);
	}
	p2p_unlock(x);
	if (!waits)
		return false;
	while (waits && clock_ns() < enough && !over_comm(c, NULL)) {
		if (!p2p_step(x))
			clock_sleep_ms(1);
		p2p_lock(x);
		waits = has_silent(x, c, answer);
		p2p_unlock(x);
	}
	p2p_lock(x);
	x->far.answer = NULL;
	p2p_unlock(x);
	return true;
}

/* ---- routes of invitations ---- */

static void take_own(struct p2p *x, const struct p2p_invite *v)
{
	struct p2p_invite back = bounce(v);
	struct p2p_peer *p;

	if (*v->where == '?')
		answer_question(x, v);
	else if (*v->where == '!')
		note_answer(x, v);
	else if (coordinator_is_invitation(v->where) && x->far.left)
		p2p_far_take(x, &back);
	if (*v->where == '?' || *v->where == '!' || x->far.left)
		return;
	p = p2p_peer_of(x, v->from);
	if (!p)
		p2p_fail_memory(x);
	else if (p->place >= 0)
		return;
	else if (*v->where)
		p2p_far_follow(x, p, v->where);
	/* Messages that it sent before it left may still come by its own invitation. */
	else if (p->output < 0 && !p->dial && !p->gone) {
		p->cut = true;
		p2p_peer_end(x, p);
	}
}

static void pass_to_local(struct p2p *x, const struct p2p_invite *v)
{
	struct p2p_peer *p = p2p_peer_of(x, v->to);
	struct p2p_invite back = bounce(v);

	if (!p)
		p2p_fail_memory(x);
	else if (!p->gone && !has_left(x, p))
		write_letter(x, p, v);
	else if (coordinator_is_invitation(v->where))
		p2p_far_take(x, &back);
}

/* Forwards to the first rank of this host; if that has left, no route leads to other hosts. */
static void pass_to_leader(struct p2p *x, const struct p2p_invite *v)
{
	struct p2p_peer *p = p2p_peer_of(x, x->rank_of[0]);
	struct p2p_invite back = bounce(v);

	if (!p)
		p2p_fail_memory(x);
	else if (!p->gone && !has_left(x, p))
		write_letter(x, p, v);
	else if (coordinator_is_invitation(v->where))
		take_own(x, &back);
}

void p2p_far_take(struct p2p *x, const struct p2p_invite *v)
{
	const int size = x->topo->size, me = x->topo->rank;

	if (v->from < 0 || v->from >= size || v->to < 0 || v->to >= size || v->from == v->to ||
	    !memchr(v->where, 0, sizeof(v->where)))
		return;
	if (v->to == me)
		take_own(x, v);
	else if (is_local(x, v->to))
		pass_to_local(x, v);
	else if (x->far.tree)
		tree_invite(x->far.tree, v->from, v->to, v->where);
	else if (x->rings.me)
		pass_to_leader(x, v);
}

void p2p_invited(struct p2p *x, int from, int to, const char *where)
{
	struct p2p_letter *l = x ? calloc(1, sizeof(*l)) : NULL;
	struct p2p_far *f;

	/* A lost invitation is sent again. */
	if (!l)
		return;
	f = &x->far;
	l->invite.from = from;
	l->invite.to = to;
	snprintf(l->invite.where, sizeof(l->invite.where), "%s", where);
	pthread_mutex_lock(&f->lock);
	if (f->invites < MOST_INVITES) {
		*f->invites_end = l;
		f->invites_end = &l->next;
		f->invites++;
		l = NULL;
		__atomic_store_n(&f->pending, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&f->lock);
	free(l);
	notify_news(x->engine);
}

bool p2p_far_is_pending(const struct p2p *x)
{
	return __atomic_load_n(&x->far.pending, __ATOMIC_ACQUIRE);
}

void p2p_far_step(struct p2p *x)
{
	struct p2p_far *f = &x->far;
	struct p2p_letter *l, *next;

	pthread_mutex_lock(&f->lock);
	l = f->invite;
	f->invite = NULL;
	f->invites_end = &f->invite;
	f->invites = 0;
	__atomic_store_n(&f->pending, false, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&f->lock);
	for (; l; l = next) {
		next = l->next;
		p2p_far_take(x, &l->invite);
		free(l);
	}
}

/* ---- connections ---- */

static void send_at_once(int fd)
{
	int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static int p2p_far_admit(void *ctx, const struct shake *h)
{
	struct p2p *x = ctx;
	struct p2p_peer *p;

	if (shake_agree(h, NULL))
		return RINGUP_EMISMATCH;
	if (h->peer.channel != SHAKE_P2P || h->peer.rank >= (uint32_t)x->topo->size)
		return RINGUP_EINVAL;
	p = x->peer[h->peer.rank];
	if (!p || !p->was_invited)
		return RINGUP_EINVAL;
	return p->fd[INVITED] < 0 && !p->ended_ns ? 0 : RINGUP_EBUSY;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void connected(struct p2p *x, struct p2p_peer *p, int which, int fd)
{
	if (p->fd[which] >= 0 || p->gone) {
		close(fd);
		return;
	}
	send_at_once(fd);
	p->fd[which] = fd;
	p->invited_ns = 0;
	if (p->output < 0)
		p->output = which;
	p2p_peer_write(x, p);
}

static void p2p_far_enter(void *ctx, int fd, const struct shake *h)
{
	struct p2p *x = ctx;

	connected(x, x->peer[h->peer.rank], INVITED, fd);
}

/* The other side has closed.  If its process has died, the job ends before this counts. */
static void end_connection(struct p2p_peer *p, int which)
{
	close_fd(&p->fd[which]);
	if (!p->ended_ns)
		p->ended_ns = clock_ns();
}

size_t p2p_far_put(struct p2p_peer *p, const struct iovec *v, int count)
{
	struct msghdr h = { .msg_iov = (struct iovec *)(uintptr_t)v,
			    .msg_iovlen = (size_t)count };
	ssize_t n;

	if (p->fd[p->output] < 0)
		return 0;
	do
		n = sendmsg(p->fd[p->output], &h, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	/* The thread detects a broken connection, after the frames that can still be read. */
	return n > 0 ? (size_t)n : 0;
}

/* Reads without waiting; 0 if there is nothing to read. */
static size_t get_from(struct p2p_peer *p, int which, void *data, size_t size)
{
	ssize_t n;

	do
		n = recv(p->fd[which], data, size, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		end_connection(p, which);
	return n > 0 ? (size_t)n : 0;
}

size_t p2p_far_get(struct p2p_peer *p, void *data, size_t size)
{
	unsigned char dropped[4096];
	size_t n;

	if (!data) {
		data = dropped;
		size = size < sizeof(dropped) ? size : sizeof(dropped);
	}
	for (int k = 0; k < 2 && size; k++) {
		if (p->fd[k] < 0 || (p->input >= 0 && p->input != k))
			continue;
		n = get_from(p, k, data, size);
		if (n) {
			p->input = k;
			return n;
		}
	}
	return 0;
}

static void step_dial(struct p2p *x, struct p2p_peer *p)
{
	struct err e;
	int rc = p->dial ? dial_step(p->dial, &e) : 0;

	if (!rc)
		return;
	/* If a connection exists by now, this one is not needed, and may be refused. */
	if (rc > 0) {
		connected(x, p, FOLLOWED, dial_take(p->dial));
	} else if (p->output < 0) {
		p->dial_why = e;
		fail_in(&p->dial_why, "rank %d cannot connect to rank %d", x->topo->rank,
			p->rank);
	}
	dial_close(p->dial);
	free(p->dial);
	p->dial = NULL;
}

/* ---- the thread ---- */

static bool is_far(const struct p2p_peer *p)
{
	return p && p->place < 0;
}

/* A connection that brings no frames is polled for its end only. */
static struct pollfd connection_poll(const struct p2p_peer *p, int which)
{
	short events = p->input < 0 || p->input == which ? POLLIN : POLLRDHUP;

	if (p->output == which && p2p_peer_has_output(p))
		events |= POLLOUT;
	return (struct pollfd){ p->fd[which], events, 0 };
}

/* Lists the descriptors: after wake-up and door, three for each peer of another host. */
static int list_polls(struct p2p *x, int64_t *until)
{
	struct p2p_far *f = &x->far;
	struct pollfd *p = f->poll;
	int n = AT_DOOR;

	*until = INT64_MAX;
	p[AT_WAKE] = (struct pollfd){ f->wake, POLLIN, 0 };
	/* After a failure nothing is left to do until p2p_far_stop(). */
	if (over_has_failed(x->engine, NULL))
		return AT_DOOR;
	*until = door_until(&f->door);
	f->guests = door_poll(&f->door, p + n);
	n += f->guests;
	for (int r = 0; r < x->topo->size; r++) {
		struct p2p_peer *q = x->peer[r];

		if (!is_far(q))
			continue;
		q->polled = true;
		p[n++] = connection_poll(q, INVITED);
		p[n++] = connection_poll(q, FOLLOWED);
		p[n++] = q->dial ? dial_poll(q->dial, until) : (struct pollfd){ -1, 0, 0 };
		if (q->invited_ns)
			clock_sooner(until, q->invited_ns + AGAIN_MS * ms);
		if (q->ended_ns && !q->gone)
			clock_sooner(until, q->ended_ns + VERDICT_MS * ms);
	}
	return n;
}

/* Has the peer left?  True if all its connections have ended without a report of its death. */
static bool is_at_end(const struct p2p_peer *p)
{
	return p->ended_ns && p->fd[INVITED] < 0 && p->fd[FOLLOWED] < 0 &&
	       clock_ns() - p->ended_ns >= VERDICT_MS * ms;
}

static void serve_peer(struct p2p *x, struct p2p_peer *p, const struct pollfd *polled)
{
	bool more = false;

	step_dial(x, p);
	if ((polled[INVITED].revents | polled[FOLLOWED].revents) & (POLLIN | POLLHUP | POLLERR))
		p2p_peer_read(x, p, &more);
	for (int k = 0; k < 2; k++)
		if (p->fd[k] >= 0 && p->fd[k] == polled[k].fd && p->input >= 0 &&
		    p->input != k && polled[k].revents & (POLLRDHUP | POLLHUP | POLLERR))
			end_connection(p, k);
	if (!p->gone && p2p_peer_has_output(p))
		p2p_peer_write(x, p);
	if (!p->gone && is_at_end(p))
		p2p_peer_end(x, p);
	if (p->gone) {
		close_fd(&p->fd[INVITED]);
		close_fd(&p->fd[FOLLOWED]);
		p->invited_ns = 0;
	} else if (p->invited_ns && clock_ns() - p->invited_ns >= AGAIN_MS * ms) {
		invite(x, p);
	}
}

static bool awaits_any(const struct p2p *x)
{
	for (int r = 0; r < x->topo->size; r++)
		if (is_far(x->peer[r]) && x->peer[r]->invited_ns)
			return true;
	return false;
}

/* Serves the @n polled entries; peers added since then are served the next time. */
static void p2p_far_serve(struct p2p *x, int n)
{
	const struct door_owner owner = { p2p_far_admit, p2p_far_enter, x };
	struct p2p_far *f = &x->far;
	int at = n > AT_DOOR ? AT_DOOR + f->guests : n;
	uint64_t count;

	if (f->poll[AT_WAKE].revents) {
		f->poked = false;
		(void)!read(f->wake, &count, sizeof(count));
	}
	if (n > AT_DOOR && f->guests)
		door_serve(&f->door, f->poll + AT_DOOR, &owner);
	for (int r = 0; r < x->topo->size && at < n; r++)
		if (is_far(x->peer[r]) && x->peer[r]->polled) {
			serve_peer(x, x->peer[r], f->poll + at);
			at += 3;
		}
	if (f->door.guest && !awaits_any(x))
		door_close(&f->door);
}

static void *far_thread(void *arg)
{
	struct p2p *x = arg;
	struct p2p_far *f = &x->far;
	int64_t until;
	int n;

	for (;;) {
		p2p_lock(x);
		n = list_polls(x, &until);
		p2p_unlock(x);
		if (thread_poll(f->poll, n, clock_left_ms(until)) < 0 && errno != EINTR) {
			notify_blind(x->engine, x->topo->rank, "cannot exchange messages");
			return NULL;
		}
		if (__atomic_load_n(&f->stop, __ATOMIC_ACQUIRE))
			return NULL;
		p2p_lock(x);
		p2p_far_serve(x, n);
		p2p_unlock(x);
	}
}

/* ---- life ---- */

void p2p_far_bye(struct p2p *x)
{
	struct p2p_head bye = { .kind = P2P_BYE };

	x->far.left = true;
	for (int r = 0; r < x->topo->size; r++) {
		struct p2p_peer *p = x->peer[r];

		if (!is_far(p) || p->gone || p->output < 0)
			continue;
		p2p_peer_answer(x, p, &bye);
		p2p_peer_write(x, p);
	}
}

/* Reads and drops bytes; closes ended connections, and returns the number of open ones.
 * *@unsent: the other side's kernel has yet to confirm bytes of one of them. */
static int drain(struct p2p *x, struct pollfd *p, bool *unsent)
{
	unsigned char dropped[4096];
	int n = 0, bytes;
	ssize_t got;

	*unsent = false;
	for (int r = 0; r < x->topo->size; r++)
		for (int k = 0; k < 2 && is_far(x->peer[r]); k++) {
			int *fd = &x->peer[r]->fd[k];

			if (*fd < 0)
				continue;
			got = recv(*fd, dropped, sizeof(dropped), MSG_DONTWAIT);
			if (!got || (got < 0 && errno != EAGAIN && errno != EINTR)) {
				close_fd(fd);
				continue;
			}
			p[n++] = (struct pollfd){ *fd, POLLIN, 0 };
			*unsent |= !ioctl(*fd, SIOCOUTQ, &bytes) && bytes > 0;
		}
	return n;
}

/* Closing a connection with unread bytes would lose the sent ones: so the other ranks may hang
 * up first.  One that has no processor, or a full buffer, gets more time. */
static void linger(struct p2p *x)
{
	int64_t enough = clock_deadline(LINGER_MS), most = clock_deadline(DELIVER_MS), until;
	bool unsent;
	int n;

	for (int r = 0; r < x->topo->size; r++)
		for (int k = 0; k < 2 && is_far(x->peer[r]); k++)
			if (x->peer[r]->fd[k] >= 0)
				shutdown(x->peer[r]->fd[k], SHUT_WR);
	while ((n = drain(x, x->far.poll, &unsent)) && clock_ns() < (unsent ? most : enough) &&
	       !over_has_failed(x->engine, NULL)) {
		until = clock_deadline(DELIVER_STEP_MS);
		until = unsent || until < enough ? until : enough;
		if (poll(x->far.poll, (nfds_t)n, clock_left_ms(until)) < 0 && errno != EINTR)
			break;
	}
}

/* In a child of fork(): other ranks have to detect the end of the parent when it comes. */
static void forget(void *arg)
{
	struct p2p *x = arg;

	for (int r = 0; r < x->topo->size; r++)
		if (is_far(x->peer[r])) {
			close_fd(&x->peer[r]->fd[INVITED]);
			close_fd(&x->peer[r]->fd[FOLLOWED]);
		}
}

int p2p_far_open(struct p2p *x, const struct p2p_setup *s, struct err *e)
{
	struct p2p_far *f = &x->far;
	size_t fds = AT_DOOR + DOOR_FDS + 3 * (size_t)s->topo->size;

	pthread_mutex_init(&f->lock, NULL);
	f->invites_end = &f->invite;
	f->tree = s->tree;
	f->address = s->address;
	f->secret = s->secret;
	if (s->topo->hosts == 1)
		return 0;
	f->poll = calloc(fds, sizeof(*f->poll));
	if (!f->poll)
		return fail(e, RINGUP_ENOMEM, "no memory for messages between hosts");
	f->fork = (struct forks_hook){ .fn = forget, .arg = x };
	forks_add(&f->fork);
	return 0;
}

void p2p_far_free(struct p2p_peer *p)
{
	struct p2p_letter *l;

	while ((l = p->letters)) {
		p->letters = l->next;
		free(l);
	}
	if (p->dial)
		dial_close(p->dial);
	free(p->dial);
	close_fd(&p->fd[INVITED]);
	close_fd(&p->fd[FOLLOWED]);
}

void p2p_far_stop(struct p2p *x)
{
	struct p2p_far *f = &x->far;
	struct p2p_letter *l;

	if (f->has_thread) {
		p2p_lock(x);
		__atomic_store_n(&f->stop, true, __ATOMIC_RELEASE);
		f->poked = false;
		p2p_far_poke(x);
		p2p_unlock(x);
		pthread_join(f->thread, NULL);
		if (!over_has_failed(x->engine, NULL))
			linger(x);
	}
	forks_remove(&f->fork);
	door_close(&f->door);
	if (f->wake > 0)
		close(f->wake);
	while ((l = f->invite)) {
		f->invite = l->next;
		free(l);
	}
	free(f->poll);
	pthread_mutex_destroy(&f->lock);
}
