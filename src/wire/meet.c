/* meet.c - the meeting point (bootstrap allgather): its server thread and the ranks' side. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/meet.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/thread.h"
#include "ringup.h"
#include "wire/chan.h"
#include "wire/door.h"
#include "wire/pack.h"
#include "wire/ranks.h"
#include "wire/session.h"
#include "wire/sock.h"

/*
 * Frames, each with its kind in the first byte.  A rank sends HELLO (size, 4) and
 * gets WELCOME; sends GIVE (milliseconds that it will wait, 4; its bytes) and
 * gets PARTs (a part of all bytes, in order) or FAIL (status, 4; a sentence).
 */
enum kind { HELLO = 1, WELCOME, GIVE, PART, FAIL };

enum {
	HELLO_LEN = 5,
	GIVE_HEAD = 5,
	FAIL_HEAD = 5,
	PART_BYTES = 32768,
	MAX_SIZE = 65536,
	GRACE_MS = 1000, /* beyond a rank's deadline, for the server's answer */
};
#define NEVER_MS UINT32_MAX

/* The bytes of all ranks, while they come in and until all have got them. */
struct round {
	unsigned char *data;
	size_t len; /* of one rank */
	int given;  /* ranks that gave; once complete, ranks still to be served */
};

/* A rank, as the server sees it. */
struct guest {
	struct chan *chan; /* NULL: not connected                      */
	bool welcome;      /* it has sent HELLO                        */
	bool met;          /* it has been there for the last round     */
	bool given;        /* its bytes are in the current round       */
	uint32_t wait_ms;  /* how long it will wait, from its GIVE     */
	int64_t until_ns;  /* it wants an answer by then               */
	struct round *get; /* a complete round that it is being sent   */
	size_t sent;       /* bytes of that round                      */
	bool full;         /* the socket takes no more                 */
};

struct meet_server {
	pthread_t thread;
	int stop_fd, size;
	char where[SOCK_TEXT];
	struct secret *secret; /* in memory that is not dumped */
	struct door door;
	struct guest *guest;  /* size of them */
	struct pollfd *poll;  /* 1 + DOOR_FDS + size */
	bool *came;           /* to the current round, even if it has left */
	struct round *round;  /* the current one, or NULL before the first GIVE */
	struct err complaint; /* about rank @culprit, until it joins without fault */
	int culprit;
	int gone; /* the first rank that was in the last round and has left since, or -1 */
};

static void round_put(struct round *r)
{
	if (r && --r->given == 0) {
		free(r->data);
		free(r);
	}
}

/* Takes the bytes of @g out of the round that is not complete. */
static void withdraw(struct meet_server *s, struct guest *g)
{
	bool last = g->given && s->round->given == 1;

	if (!g->given)
		return;
	g->given = false;
	round_put(s->round);
	if (last)
		s->round = NULL;
}

static void meet_server_drop(struct meet_server *s, struct guest *g)
{
	withdraw(s, g);
	round_put(g->get);
	chan_close(g->chan);
	memset(g, 0, sizeof(*g));
}

static void depart(struct meet_server *s, struct guest *g);

/* A rank whose queue is full loses its connection: a rank that waits for an
 * answer reads. */
static void meet_server_say(struct meet_server *s, struct guest *g, const void *frame,
			    size_t len)
{
	int rc = chan_send(g->chan, frame, len, NULL);

	if (rc < 0)
		depart(s, g);
	else
		g->full = rc > 0;
}

/* Answers @g with FAIL and @why. */
static void meet_server_refuse(struct meet_server *s, struct guest *g, const struct err *why)
{
	unsigned char frame[FAIL_HEAD + sizeof(why->text)];
	size_t len = strlen(why->text);

	withdraw(s, g);
	g->until_ns = 0;
	frame[0] = FAIL;
	pack_put32(frame + 1, (uint32_t)why->code);
	memcpy(frame + FAIL_HEAD, why->text, len);
	meet_server_say(s, g, frame, FAIL_HEAD + len);
}

static void refuse_gone(struct meet_server *s, struct guest *g)
{
	struct err e = { 0 };

	fail(&e, RINGUP_EPEER, "rank %d has left", s->gone);
	s->came[g - s->guest] = false;
	meet_server_refuse(s, g, &e);
}

/* A rank has closed its connection, or is dead.  Ranks that were in the last round with it
 * would wait in vain: a rank that comes back begins anew. */
static void depart(struct meet_server *s, struct guest *g)
{
	bool met = g->met;

	meet_server_drop(s, g);
	if (!met || s->gone >= 0)
		return;
	s->gone = (int)(g - s->guest);
	for (int i = 0; i < s->size; i++)
		if (s->guest[i].given && s->guest[i].met)
			refuse_gone(s, &s->guest[i]);
}

/* Refuses every rank that waits in this round. */
static void refuse_all(struct meet_server *s, const struct err *why)
{
	for (int i = 0; i < s->size; i++)
		if (s->guest[i].given)
			meet_server_refuse(s, &s->guest[i], why);
	memset(s->came, 0, (size_t)s->size * sizeof(*s->came));
}

static void complain(struct meet_server *s, int rank, const struct err *why)
{
	s->complaint = *why;
	s->culprit = rank;
	refuse_all(s, why);
}

/* The rest of the round, as far as the socket takes it. */
static void send_parts(struct meet_server *s, struct guest *g)
{
	unsigned char frame[1 + PART_BYTES];
	size_t all = g->get->len * (size_t)s->size, n;

	frame[0] = PART;
	do {
		n = all - g->sent < PART_BYTES ? all - g->sent : PART_BYTES;
		if (n)
			memcpy(frame + 1, g->get->data + g->sent, n);
		g->sent += n;
		meet_server_say(s, g, frame, 1 + n);
		if (!g->chan)
			return;
	} while (g->sent < all && !g->full);
	if (g->sent == all) {
		round_put(g->get);
		g->get = NULL;
	}
}

static void complete(struct meet_server *s)
{
	struct round *r = s->round;

	s->round = NULL;
	s->gone = -1;
	memset(s->came, 0, (size_t)s->size * sizeof(*s->came));
	for (int i = 0; i < s->size; i++) {
		struct guest *g = &s->guest[i];

		g->met = true;
		g->given = false;
		g->until_ns = 0;
		g->get = r;
		g->sent = 0;
	}
	for (int i = 0; i < s->size; i++)
		send_parts(s, &s->guest[i]);
}

static int round_new(struct meet_server *s, size_t len)
{
	struct round *r = calloc(1, sizeof(*r));
	size_t all;

	/* Neither factor is a number from the wire: len counts received bytes. */
	if (!r || __builtin_mul_overflow(len, (size_t)s->size, &all)) {
		free(r);
		return -1;
	}
	r->len = len;
	r->data = calloc(1, all ? all : 1);
	if (!r->data) {
		free(r);
		return -1;
	}
	s->round = r;
	return 0;
}

static void take_bytes(struct meet_server *s, int rank, const unsigned char *data, size_t len)
{
	struct guest *g = &s->guest[rank];
	struct err e = { 0 };

	if (s->complaint.code) {
		meet_server_refuse(s, g, &s->complaint);
		return;
	}
	if (g->met && s->gone >= 0) {
		refuse_gone(s, g);
		return;
	}
	if (!s->round && round_new(s, len)) {
		fail(&e, RINGUP_ENOMEM, "the rendezvous is out of memory for %zu bytes", len);
		meet_server_refuse(s, g, &e);
		return;
	}
	g->given = true;
	s->came[rank] = true;
	s->round->given++;
	if (len != s->round->len) {
		fail(&e, RINGUP_EMISMATCH, "rank %d sends %zu bytes, others %zu", rank, len,
		     s->round->len);
		refuse_all(s, &e);
		return;
	}
	if (len)
		memcpy(s->round->data + (size_t)rank * len, data, len);
	if (s->round->given == s->size)
		complete(s);
}

/* Returns false if @g has broken the rules. */
static bool take_frame(struct meet_server *s, struct guest *g, const unsigned char *p,
		       size_t len)
{
	int rank = (int)(g - s->guest);
	struct err e = { 0 };

	if (p[0] == HELLO && len == HELLO_LEN && !g->welcome) {
		if (pack_get32(p + 1) != (uint32_t)s->size) {
			fail(&e, RINGUP_EMISMATCH,
			     "rank %d expects %u ranks, the rendezvous %d", rank,
			     pack_get32(p + 1), s->size);
			meet_server_refuse(s, g, &e);
			complain(s, rank, &e);
			return true;
		}
		g->welcome = true;
		if (s->culprit == rank)
			s->complaint.code = 0;
		meet_server_say(s, g, (unsigned char[]){ WELCOME }, 1);
		return true;
	}
	if (p[0] != GIVE || len < GIVE_HEAD || len - GIVE_HEAD > MEET_BYTES || !g->welcome ||
	    g->given || g->get)
		return false;
	g->wait_ms = pack_get32(p + 1);
	g->until_ns = g->wait_ms == NEVER_MS ? INT64_MAX : clock_deadline(g->wait_ms);
	take_bytes(s, rank, p + GIVE_HEAD, len - GIVE_HEAD);
	return true;
}

/* Reads and writes as far as possible without blocking. */
static void serve_guest(struct meet_server *s, struct guest *g)
{
	const void *data;
	int rc;

	if (g->full) {
		rc = chan_flush(g->chan, NULL);
		if (rc < 0) {
			depart(s, g);
			return;
		}
		g->full = rc > 0;
	}
	if (g->get && !g->full)
		send_parts(s, g);
	while (g->chan && (rc = chan_recv(g->chan, &data, NULL)) != 0) {
		if (rc < 0 || !take_frame(s, g, data, (size_t)rc))
			depart(s, g);
	}
}

static int meet_admit(void *ctx, const struct shake *h)
{
	struct meet_server *s = ctx;
	struct err e = { 0 };
	struct guest *g;

	if (h->peer.channel != SHAKE_MEET || h->peer.rank >= (uint32_t)s->size)
		return RINGUP_EINVAL;
	g = &s->guest[h->peer.rank];
	/* The rank may have left a moment ago: the end of the stream may be unread. */
	if (g->chan)
		serve_guest(s, g);
	if (g->chan)
		return RINGUP_EBUSY;
	if (shake_agree(h, NULL)) {
		fail(&e, RINGUP_EMISMATCH, "rank %u runs ringup %s, the rendezvous ringup %s",
		     h->peer.rank, h->peer.version, h->me.version);
		complain(s, (int)h->peer.rank, &e);
		return RINGUP_EMISMATCH;
	}
	return 0;
}

static void meet_enter(void *ctx, int fd, const struct shake *h)
{
	struct meet_server *s = ctx;
	struct guest *g = &s->guest[h->peer.rank];

	if (g->chan || chan_open(fd, &h->keys, &g->chan, NULL))
		close(fd);
}

/* "60 s", "0.5 s" */
static const char *duration(char *out, size_t room, uint32_t ms)
{
	uint64_t tenths = ((uint64_t)ms + 50) / 100;

	if (tenths % 10)
		snprintf(out, room, "%llu.%llu s", (unsigned long long)tenths / 10,
			 (unsigned long long)tenths % 10);
	else
		snprintf(out, room, "%llu s", (unsigned long long)tenths / 10);
	return out;
}

static void tell_missing(struct meet_server *s, struct guest *g)
{
	char absent[RANKS_TEXT], gone[RANKS_TEXT], time[24];
	bool *set = calloc((size_t)s->size, sizeof(*set));
	struct err e = { 0 };

	if (!set) {
		fail(&e, RINGUP_ETIMEDOUT, "not all ranks came");
		meet_server_refuse(s, g, &e);
		return;
	}
	for (int i = 0; i < s->size; i++)
		set[i] = !s->came[i];
	ranks_text(absent, set, s->size);
	for (int i = 0; i < s->size; i++)
		set[i] = s->came[i] && !s->guest[i].given;
	ranks_text(gone, set, s->size);
	free(set);
	duration(time, sizeof(time), g->wait_ms);
	if (*absent)
		fail(&e, RINGUP_ETIMEDOUT, "%s did not join within %s", absent, time);
	else
		fail(&e, RINGUP_ETIMEDOUT, "%s arrived and left again within %s", gone, time);
	meet_server_refuse(s, g, &e);
}

/* Answers the ranks whose deadline has passed; returns the next deadline. */
static int64_t serve_clock(struct meet_server *s)
{
	int64_t until = INT64_MAX, now = clock_ns();

	for (int i = 0; i < s->size; i++) {
		struct guest *g = &s->guest[i];

		if (!g->given)
			continue;
		if (g->until_ns <= now)
			tell_missing(s, g);
		else if (g->until_ns < until)
			until = g->until_ns;
	}
	return until;
}

static void serve_round(struct meet_server *s)
{
	const struct door_owner owner = { meet_admit, meet_enter, s };
	int64_t until = serve_clock(s);
	struct pollfd *p = s->poll;
	int doors;

	if (door_until(&s->door) < until)
		until = door_until(&s->door);
	p[0] = (struct pollfd){ s->stop_fd, POLLIN, 0 };
	doors = door_poll(&s->door, p + 1);
	p += 1 + doors;
	for (int i = 0; i < s->size; i++) {
		const struct guest *g = &s->guest[i];
		short events = (short)(g->full || g->get ? POLLIN | POLLOUT : POLLIN);

		p[i] = (struct pollfd){ g->chan ? chan_fd(g->chan) : -1, events, 0 };
	}
	if (poll(s->poll, (nfds_t)(1 + doors + s->size), clock_left_ms(until)) < 0)
		return;
	/* The ranks before the door: a rank that has left may be connecting again. */
	for (int i = 0; i < s->size; i++)
		if (p[i].revents && s->guest[i].chan)
			serve_guest(s, &s->guest[i]);
	door_serve(&s->door, s->poll + 1, &owner);
}

static void *meet_server_run(void *arg)
{
	struct meet_server *s = arg;
	struct pollfd stop = { s->stop_fd, POLLIN, 0 };

	while (poll(&stop, 1, 0) <= 0)
		serve_round(s);
	return NULL;
}

static int meet_server_start_thread(struct meet_server *s, struct err *e)
{
	int rc = thread_start(&s->thread, meet_server_run, s);

	return rc ? limits_fail(e, rc, "thread") : 0;
}

static void server_free(struct meet_server *s)
{
	for (int i = 0; s->guest && i < s->size; i++)
		if (s->guest[i].chan)
			meet_server_drop(s, &s->guest[i]);
	door_close(&s->door);
	if (s->stop_fd >= 0)
		close(s->stop_fd);
	sodium_free(s->secret);
	free(s->guest);
	free(s->poll);
	free(s->came);
	free(s);
}

static int server_open(struct meet_server *s, const char *address, const struct secret *secret,
		       struct err *e)
{
	size_t n = (size_t)s->size;
	int rc;

	s->stop_fd = -1;
	s->gone = -1;
	s->secret = sodium_malloc(sizeof(*s->secret));
	s->guest = calloc(n, sizeof(*s->guest));
	s->poll = calloc(1 + DOOR_FDS + n, sizeof(*s->poll));
	s->came = calloc(n, sizeof(*s->came));
	if (!s->secret || !s->guest || !s->poll || !s->came)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", s->size);
	*s->secret = *secret;
	s->stop_fd = file_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (s->stop_fd < 0)
		return fail_os(e, "eventfd");
	rc = door_listen(&s->door, address, s->where, SHAKE_NO_RANK, s->secret, e);
	return rc ? rc : meet_server_start_thread(s, e);
}

int meet_serve(const char *address, int size, const struct secret *s, struct meet_server **sp,
	       struct err *e)
{
	struct meet_server *m;
	int rc = secret_check(s, e);

	if (!rc && (size < 1 || size > MAX_SIZE))
		rc = fail(e, RINGUP_EINVAL, "%d ranks: not 1 to %d", size, MAX_SIZE);
	if (rc)
		return fail_in(e, "meeting point");
	m = calloc(1, sizeof(*m));
	if (!m)
		return fail(e, RINGUP_ENOMEM, "meeting point");
	m->size = size;
	rc = server_open(m, address, s, e);
	if (rc) {
		server_free(m);
		return fail_in(e, "meeting point");
	}
	*sp = m;
	return 0;
}

const char *meet_where(const struct meet_server *s)
{
	return s->where;
}

void meet_stop(struct meet_server *s)
{
	if (!s)
		return;
	eventfd_write(s->stop_fd, 1);
	pthread_join(s->thread, NULL);
	server_free(s);
}

struct meet {
	struct chan *chan;
	int rank, size;
	char where[SOCK_TEXT];
	struct err broken; /* why it can be used no more */
};

/* Ends the use of this connection: a late answer would be taken for the next one. */
static int lose(struct meet *m, int code, const char *why, struct err *e)
{
	fail(&m->broken, code, "%s", why);
	return fail(e, code, "%s", why);
}

/* The next frame from the server, of one kind or FAIL. */
static int meet_hear(struct meet *m, enum kind kind, const unsigned char **datap,
		     int64_t deadline, struct err *e)
{
	const unsigned char *p;
	const void *data;
	int rc = session_await(m->chan, &data, deadline, e);

	if (rc == RINGUP_ETIMEDOUT)
		return lose(m, rc, "it does not answer", e);
	if (rc < 0)
		return rc;
	p = data;
	if (p[0] == kind) {
		*datap = p + 1;
		return rc;
	}
	if (p[0] == FAIL && rc > FAIL_HEAD && p[FAIL_HEAD] && (int32_t)pack_get32(p + 1) < 0)
		return fail(e, (int32_t)pack_get32(p + 1), "%.*s", rc - FAIL_HEAD,
			    (const char *)p + FAIL_HEAD);
	return lose(m, RINGUP_EPEER, "it violates the protocol", e);
}

static int meet_hello(struct meet *m, int64_t deadline, struct err *e)
{
	unsigned char frame[HELLO_LEN] = { HELLO };
	const unsigned char *data;
	int rc;

	pack_put32(frame + 1, (uint32_t)m->size);
	rc = chan_send(m->chan, frame, sizeof(frame), e);
	if (rc >= 0)
		rc = meet_hear(m, WELCOME, &data, deadline, e);
	return rc < 0 ? rc : 0;
}

int meet_join(const char *where, int rank, int size, const struct secret *s,
	      int64_t deadline_ns, struct meet **mp, struct err *e)
{
	struct meet *m = NULL;
	int rc = 0;

	if (size < 1 || size > MAX_SIZE || rank < 0 || rank >= size)
		rc = fail(e, RINGUP_EINVAL, "rank %d of %d does not exist", rank, size);
	if (!rc) {
		m = calloc(1, sizeof(*m));
		rc = m ? 0 : fail(e, RINGUP_ENOMEM, "%s", where);
	}
	if (!rc) {
		m->rank = rank;
		m->size = size;
		snprintf(m->where, sizeof(m->where), "%s", where);
		rc = session_connect(&m->chan, where, SHAKE_MEET, (uint32_t)rank, SHAKE_NO_RANK,
				     s, deadline_ns, NULL, e);
	}
	if (!rc)
		rc = meet_hello(m, deadline_ns, e);
	if (rc) {
		meet_leave(m);
		return fail_in(e, "meeting point");
	}
	*mp = m;
	return 0;
}

static int meet_gather(struct meet *m, unsigned char *all, size_t total, int64_t deadline,
		       struct err *e)
{
	const unsigned char *data;
	size_t got = 0;
	int rc;

	do {
		rc = meet_hear(m, PART, &data, deadline, e);
		if (rc < 0)
			return rc;
		rc--;
		if ((size_t)rc > total - got || (rc == 0 && total))
			return lose(m, RINGUP_EPEER, "it violates the protocol", e);
		if (rc)
			memcpy(all + got, data, (size_t)rc);
		got += (size_t)rc;
	} while (got < total);
	return 0;
}

int meet_exchange(struct meet *m, const void *mine, size_t len, void *all, int64_t deadline_ns,
		  struct err *e)
{
	unsigned char frame[GIVE_HEAD + MEET_BYTES] = { GIVE };
	int left = clock_left_ms(deadline_ns), rc;
	int64_t deadline = deadline_ns;

	if (len > MEET_BYTES)
		return fail(e, RINGUP_EINVAL, "rendezvous: %zu bytes, at most %d", len,
			    MEET_BYTES);
	if (m->broken.code)
		return fail(e, m->broken.code, "meeting point: %s", m->broken.text);
	if (left >= 0)
		deadline = clock_deadline((int64_t)left + GRACE_MS);
	pack_put32(frame + 1, left < 0 ? NEVER_MS : (uint32_t)left);
	if (len)
		memcpy(frame + GIVE_HEAD, mine, len);
	rc = chan_send(m->chan, frame, GIVE_HEAD + len, e);
	if (rc >= 0)
		rc = meet_gather(m, all, len * (size_t)m->size, deadline, e);
	if (rc < 0)
		fail_in(e, "meeting point");
	return rc;
}

void meet_leave(struct meet *m)
{
	if (!m)
		return;
	chan_close(m->chan);
	free(m);
}
