/* lobby.c - rendezvous of an elastic job: the launcher's side and a worker's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/lobby.h"

#include <poll.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/pidstat.h"
#include "ringup.h"
#include "wire/chan.h"
#include "wire/door.h"
#include "wire/pack.h"
#include "wire/session.h"

/*
 * Frames, each with its kind in the first byte.  A worker sends WAIT (its own process, and one
 * that has ended, 12 each: number and start; enum lobby_state, 1) and gets PLACE (generation,
 * rank, size, slot, 4 each; the meeting point's address), REFUSAL (status, 4; a sentence) or
 * TAKEN (the process that the worker is, 12).  After TAKEN it may send WAIT again, if that
 * process has ended.
 */
enum kind { WAIT = 1, PLACE, REFUSAL, TAKEN };

enum { PROCESS_LEN = 12, PLACE_HEAD = 17, REFUSAL_HEAD = 5 };
enum { WAIT_STATE = 1 + 2 * PROCESS_LEN, WAIT_LEN = WAIT_STATE + 1 };
enum { TAKEN_LEN = 1 + PROCESS_LEN };
enum { TRIES = 8 }; /* of WAIT after TAKEN: a worker's processes may end one after another */

/* A process as its own host knows it. */
struct process {
	uint32_t pid;   /* 0: none                          */
	uint64_t start; /* clock ticks since boot; 0: unknown */
};

/* A worker's connection.  After the answer it stays until the worker closes it. */
struct guest {
	uint32_t worker;
	struct chan *chan;
	bool waits, answered, full;
};

struct lobby {
	struct secret *secret; /* in memory that is not dumped */
	struct door door;
	struct lobby_owner owner;
	char where[SOCK_TEXT];
	struct guest *guest;
	size_t count, room;
	struct process *process; /* the last one of each connected worker */
	size_t workers;
	size_t polled; /* guests that lobby_poll() has put after the door */
	size_t doors;  /* descriptors of the door in front of them       */
};

static void process_put(unsigned char *p, const struct process *who)
{
	pack_put32(p, who->pid);
	pack_put64(p + 4, who->start);
}

static struct process process_get(const unsigned char *p)
{
	return (struct process){ pack_get32(p), pack_get64(p + 4) };
}

static bool process_is(const struct process *a, const struct process *b)
{
	return a->pid == b->pid && a->start == b->start;
}

/* The connection of @worker that waits, or NULL. */
static struct guest *guest_find(struct lobby *l, uint32_t worker)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->guest[i].chan && l->guest[i].worker == worker && l->guest[i].waits &&
		    !l->guest[i].answered)
			return &l->guest[i];
	return NULL;
}

static void guest_drop(struct lobby *l, struct guest *g)
{
	bool waited = g->waits && !g->answered;

	chan_close(g->chan);
	g->chan = NULL;
	if (waited)
		l->owner.leave(l->owner.ctx, g->worker);
}

static void guest_send(struct lobby *l, struct guest *g, const void *frame, size_t len)
{
	int rc = chan_send(g->chan, frame, len, NULL);

	g->full = rc > 0;
	if (rc < 0)
		guest_drop(l, g);
}

static void guest_tell(struct lobby *l, struct guest *g, const void *frame, size_t len)
{
	g->answered = true;
	guest_send(l, g, frame, len);
}

static void guest_refuse(struct lobby *l, struct guest *g, const struct err *why)
{
	unsigned char frame[REFUSAL_HEAD + sizeof(why->text)] = { REFUSAL };
	size_t len = strlen(why->text);

	pack_put32(frame + 1, (uint32_t)why->code);
	memcpy(frame + REFUSAL_HEAD, why->text, len);
	guest_tell(l, g, frame, REFUSAL_HEAD + len);
}

/* The process that has last come as @worker, to read or set; NULL without memory. */
static struct process *process_of(struct lobby *l, uint32_t worker)
{
	size_t count = (size_t)worker + 1;
	struct process *more;

	if (count > l->workers) {
		more = realloc(l->process, count * sizeof(*more));
		if (!more)
			return NULL;
		memset(more + l->workers, 0, (count - l->workers) * sizeof(*more));
		l->process = more;
		l->workers = count;
	}
	return &l->process[worker];
}

/* Checks a WAIT: another process that came as this worker and may still live is *@taken. */
static int guest_check(struct lobby *l, const struct guest *g, const unsigned char *p,
		       const struct process **taken, struct err *e)
{
	struct process who = process_get(p + 1), gone = process_get(p + 1 + PROCESS_LEN), *is;
	int rc = l->owner.admit(l->owner.ctx, g->worker, e);

	*taken = NULL;
	if (rc)
		return rc;
	if (guest_find(l, g->worker))
		return fail(e, RINGUP_EBUSY, "worker %u waits already", g->worker);
	is = process_of(l, g->worker);
	if (!is)
		return fail(e, RINGUP_ENOMEM, "no memory for worker %u", g->worker);
	if (is->pid && !process_is(is, &who) && !process_is(is, &gone))
		*taken = is;
	else
		*is = who;
	return 0;
}

/* Returns false if the worker has broken the rules. */
static bool guest_take(struct lobby *l, struct guest *g, const unsigned char *p, size_t len)
{
	unsigned char frame[TAKEN_LEN] = { TAKEN };
	const struct process *taken;
	struct err e = { 0 };

	if (p[0] != WAIT || len != WAIT_LEN || p[WAIT_STATE] > LOBBY_STATE_HELD || g->waits ||
	    g->answered)
		return false;
	if (guest_check(l, g, p, &taken, &e)) {
		guest_refuse(l, g, &e);
	} else if (taken) {
		process_put(frame + 1, taken);
		guest_send(l, g, frame, sizeof(frame));
	} else {
		g->waits = true;
		l->owner.arrive(l->owner.ctx, g->worker, (enum lobby_state)p[WAIT_STATE]);
	}
	return true;
}

static void guest_serve(struct lobby *l, struct guest *g)
{
	const void *data;
	int rc;

	if (g->full) {
		rc = chan_flush(g->chan, NULL);
		g->full = rc > 0;
		if (rc < 0) {
			guest_drop(l, g);
			return;
		}
	}
	while (g->chan && (rc = chan_recv(g->chan, &data, NULL)) != 0) {
		if (rc < 0 || !guest_take(l, g, data, (size_t)rc))
			guest_drop(l, g);
	}
}

/* A worker with a connection may have left a moment ago: its end of stream is read first. */
static int lobby_admit(void *ctx, const struct shake *h)
{
	struct lobby *l = ctx;
	struct guest *g;

	if (h->peer.channel != SHAKE_LOBBY || h->peer.rank >= LOBBY_WORKERS)
		return RINGUP_EINVAL;
	g = guest_find(l, h->peer.rank);
	if (g)
		guest_serve(l, g);
	if (guest_find(l, h->peer.rank))
		return RINGUP_EBUSY;
	return shake_agree(h, NULL) ? RINGUP_EMISMATCH : 0;
}

static void lobby_enter(void *ctx, int fd, const struct shake *h)
{
	struct lobby *l = ctx;
	struct guest *g = NULL, *more;

	for (size_t i = 0; i < l->count && !g; i++)
		if (!l->guest[i].chan)
			g = &l->guest[i];
	if (!g && l->count == l->room) {
		more = realloc(l->guest, (2 * l->room + 16) * sizeof(*more));
		if (more) {
			l->guest = more;
			l->room = 2 * l->room + 16;
		}
	}
	if (!g && l->count < l->room)
		g = &l->guest[l->count++];
	if (!g) {
		close(fd);
		return;
	}
	*g = (struct guest){ .worker = h->peer.rank };
	if (chan_open(fd, &h->keys, &g->chan, NULL)) {
		g->chan = NULL;
		close(fd);
	}
}

int lobby_open(struct lobby **lp, const char *address, const struct secret *s,
	       struct lobby_owner owner, struct err *e)
{
	struct lobby *l = NULL;
	int rc = secret_check(s, e);

	if (rc)
		return rc;
	l = calloc(1, sizeof(*l));
	if (l)
		l->secret = sodium_malloc(sizeof(*l->secret));
	if (!l || !l->secret) {
		free(l);
		return fail(e, RINGUP_ENOMEM, "meeting point");
	}
	*l->secret = *s;
	l->owner = owner;
	rc = door_listen(&l->door, address, l->where, SHAKE_NO_RANK, l->secret, e);
	if (rc) {
		lobby_close(l);
		return fail_in(e, "meeting point");
	}
	*lp = l;
	return 0;
}

const char *lobby_where(const struct lobby *l)
{
	return l->where;
}

size_t lobby_poll_count(const struct lobby *l)
{
	/* Connections in their handshake may become guests before the next call. */
	return DOOR_FDS + l->count + DOOR_GUESTS;
}

size_t lobby_poll(struct lobby *l, struct pollfd *p)
{
	l->doors = (size_t)door_poll(&l->door, p);
	l->polled = l->count;
	for (size_t i = 0; i < l->count; i++) {
		const struct guest *g = &l->guest[i];
		short events = (short)(g->full ? POLLIN | POLLOUT : POLLIN);

		p[l->doors + i] = (struct pollfd){ g->chan ? chan_fd(g->chan) : -1, events, 0 };
	}
	return l->doors + l->count;
}

int64_t lobby_until(const struct lobby *l)
{
	return door_until(&l->door);
}

void lobby_serve(struct lobby *l, const struct pollfd *p)
{
	const struct door_owner owner = { lobby_admit, lobby_enter, l };

	/* Connections first, then the door: a worker that has left may be at the door again. */
	for (size_t i = 0; i < l->polled; i++)
		if (p[l->doors + i].revents && l->guest[i].chan)
			guest_serve(l, &l->guest[i]);
	door_serve(&l->door, p, &owner);
}

void lobby_assign(struct lobby *l, uint32_t worker, const struct lobby_place *place)
{
	struct guest *g = guest_find(l, worker);
	unsigned char frame[PLACE_HEAD + SOCK_TEXT] = { PLACE };
	size_t len = strlen(place->where);

	if (!g)
		return;
	pack_put32(frame + 1, place->generation);
	pack_put32(frame + 5, place->rank);
	pack_put32(frame + 9, place->size);
	pack_put32(frame + 13, place->slot);
	memcpy(frame + PLACE_HEAD, place->where, len);
	guest_tell(l, g, frame, PLACE_HEAD + len);
}

void lobby_refuse(struct lobby *l, uint32_t worker, const struct err *why)
{
	struct guest *g = guest_find(l, worker);

	if (g)
		guest_refuse(l, g, why);
}

void lobby_close(struct lobby *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->count; i++)
		chan_close(l->guest[i].chan);
	door_close(&l->door);
	sodium_free(l->secret);
	free(l->guest);
	free(l->process);
	free(l);
}

/* -- the worker's side ------------------------------------------------------- */

static int place_read(const unsigned char *p, size_t len, struct lobby_place *place,
		      struct err *e)
{
	struct sock_addr a;

	*place = (struct lobby_place){ 0 };
	if (len < PLACE_HEAD || len - PLACE_HEAD >= sizeof(place->where))
		return fail(e, RINGUP_EPEER, "it violates the protocol");
	place->generation = pack_get32(p + 1);
	place->rank = pack_get32(p + 5);
	place->size = pack_get32(p + 9);
	place->slot = pack_get32(p + 13);
	memcpy(place->where, p + PLACE_HEAD, len - PLACE_HEAD);
	if (!place->generation || place->generation > INT32_MAX || place->size < 1 ||
	    place->size > LOBBY_WORKERS || place->rank >= place->size ||
	    place->slot > INT32_MAX || (place->size > 1 && sock_parse(place->where, &a, NULL)))
		return fail(e, RINGUP_EPEER, "it violates the protocol");
	return 0;
}

static int refusal_read(const unsigned char *p, size_t len, struct err *e)
{
	int code = (int)pack_get32(p + 1);

	if (code >= 0)
		return fail(e, RINGUP_EPEER, "it violates the protocol");
	return fail(e, code, "%.*s", (int)(len - REFUSAL_HEAD), (const char *)p + REFUSAL_HEAD);
}

/* Sends WAIT; @gone: a process that was this worker, and has ended. */
static int wait_say(struct chan *c, const struct process *gone, enum lobby_state state,
		    struct err *e)
{
	unsigned char frame[WAIT_LEN] = { WAIT };
	struct process self = { .pid = (uint32_t)getpid() };
	struct pidstat stat;
	int rc;

	/* Without /proc the process number alone counts. */
	if (!pidstat_read(getpid(), &stat))
		self.start = stat.start;
	process_put(frame + 1, &self);
	process_put(frame + 1 + PROCESS_LEN, gone);
	frame[WAIT_STATE] = (unsigned char)state;
	rc = chan_send(c, frame, sizeof(frame), e);
	return rc < 0 ? rc : 0;
}

/* Fails if process @by, which is this worker, lives: one number is one process. */
static int taken_check(uint32_t worker, const struct process *by, struct err *e)
{
	if (!pidstat_is_alive((pid_t)by->pid, by->start))
		return 0;
	return fail(e, RINGUP_EBUSY,
		    "process %u is worker %u of the elastic job, and this is process %d: a "
		    "program that a rank starts is not a rank; start it without the launcher's "
		    "variables (RINGUP_*, HOROVOD_*) to let it be a job of its own",
		    by->pid, worker, (int)getpid());
}

static int place_await(struct chan *c, uint32_t worker, enum lobby_state state,
		       struct lobby_place *place, struct err *e)
{
	struct process by = { 0 };
	const unsigned char *p;
	const void *data = NULL;
	int rc, len;

	for (int tries = 0; tries < TRIES; tries++) {
		rc = wait_say(c, &by, state, e);
		/* No time limit: the launcher decides when there is a place. */
		len = rc ? rc : session_await(c, &data, INT64_MAX, e);
		if (len < 0)
			return len;
		p = data;
		if (p[0] == PLACE)
			return place_read(p, (size_t)len, place, e);
		if (p[0] == REFUSAL && len > REFUSAL_HEAD && p[REFUSAL_HEAD])
			return refusal_read(p, (size_t)len, e);
		if (p[0] != TAKEN || len != TAKEN_LEN)
			break;
		by = process_get(p + 1);
		rc = taken_check(worker, &by, e);
		if (rc)
			return rc;
	}
	return fail(e, RINGUP_EPEER, "it violates the protocol");
}

int lobby_join(const char *where, uint32_t worker, enum lobby_state state,
	       const struct secret *s, int64_t deadline_ns, struct lobby_place *place,
	       struct err *e)
{
	struct chan *c = NULL;
	int rc = session_connect(&c, where, SHAKE_LOBBY, worker, SHAKE_NO_RANK, s, deadline_ns,
				 NULL, e);

	if (!rc)
		rc = place_await(c, worker, state, place, e);
	chan_close(c);
	return rc ? fail_in(e, "meeting point") : 0;
}

void lobby_secret(struct secret *out, const struct secret *job, uint32_t generation)
{
	unsigned char number[4];

	pack_put32(number, generation);
	secret_hkdf(out->key, sizeof(out->key),
		    (struct secret_part){ job->key, sizeof(job->key) },
		    (struct secret_part){ "generation", 10 },
		    (struct secret_part[]){
			    { "ringup", 6 }, { number, sizeof(number) }, { NULL, 0 } });
}
