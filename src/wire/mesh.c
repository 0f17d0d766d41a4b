/* mesh.c - connect the ranks: exchange addresses, dial, accept, agree. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/mesh.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/chan.h"
#include "wire/dial.h"
#include "wire/door.h"
#include "wire/meet.h"
#include "wire/pack.h"
#include "wire/ranks.h"
#include "wire/sock.h"

/*
 * What a rank tells the others about itself, as bytes: protocol (2), version of
 * the library (16), random (16), where it listens (SOCK_TEXT).  Protocol and
 * version keep their places.
 */
enum {
	AT_PROTOCOL = 0,
	AT_VERSION = 2,
	AT_RANDOM = AT_VERSION + SHAKE_VERSION,
	AT_WHERE = AT_RANDOM + 16,
	CARD = AT_WHERE + SOCK_TEXT,
};

/*
 * Control frames of mesh_open(), the kind in the first byte: a rank that has
 * its connections says READY to rank 0, which says GO when all have.  Who fails
 * says FAIL (status, 4; a sentence), and rank 0 tells the others.
 */
enum kind { READY = 1, GO, FAIL };
enum { FAIL_HEAD = 5, LAST_WORD_MS = 1000 };

/* What exists only while a mesh is being opened. */
struct opening {
	struct mesh *m;
	struct secret secret; /* this mesh's own */
	struct door door;
	struct dial next, zero; /* the ring's next rank; rank 0's control channel */
	bool *ready;            /* on rank 0, who has said READY                  */
	bool said_ready, go;
	struct pollfd *poll; /* DOOR_FDS + 2 + size */
	struct err told;     /* what another rank says has gone wrong */
	struct err *callers; /* where exchange() may have said why     */
	int64_t began_ns, deadline_ns;
};

static int prev_of(const struct mesh *m)
{
	return (m->rank + m->size - 1) % m->size;
}

static int next_of(const struct mesh *m)
{
	return (m->rank + 1) % m->size;
}

static void make_card(unsigned char *card, const char *where)
{
	char version[SHAKE_VERSION + 1];

	memset(card, 0, CARD);
	shake_version(version);
	pack_put16(card + AT_PROTOCOL, SHAKE_PROTOCOL);
	memcpy(card + AT_VERSION, version, SHAKE_VERSION);
	randombytes_buf(card + AT_RANDOM, AT_WHERE - AT_RANDOM);
	snprintf((char *)card + AT_WHERE, SOCK_TEXT, "%s", where);
}

/* Is rank @from of our version?  Found on all ranks alike, since all see all cards. */
static int check_card(const unsigned char *cards, int from, struct err *e)
{
	const unsigned char *card = cards + (size_t)from * CARD;
	char theirs[SHAKE_VERSION + 1], zeros[SHAKE_VERSION + 1];

	shake_read_version(theirs, card + AT_VERSION);
	shake_read_version(zeros, cards + AT_VERSION);
	if (memcmp(card, cards, AT_RANDOM))
		return fail(e, RINGUP_EMISMATCH,
			    "rank %d runs ringup %s (protocol %u), rank 0 ringup %s "
			    "(protocol %u)",
			    from, theirs, pack_get16(card), zeros, pack_get16(cards));
	if (!memchr(card + AT_WHERE, 0, SOCK_TEXT))
		return fail(e, RINGUP_EMISMATCH, "rank %d does not say where it listens", from);
	return 0;
}

static void derive_secret(struct opening *o, const struct secret *s, const unsigned char *cards)
{
	static const char purpose[] = "ringup mesh";

	secret_hkdf(o->secret.key, sizeof(o->secret.key),
		    (struct secret_part){ s->key, sizeof(s->key) },
		    (struct secret_part){ "", 0 },
		    (struct secret_part[]){ { purpose, sizeof(purpose) },
					    { cards, (size_t)o->m->size * CARD },
					    { NULL, 0 } });
}

/* Without a time limit of its own: connect_all() has one, and names the ranks. */
static int start_dialling(struct opening *o, const unsigned char *cards, struct err *e)
{
	const struct mesh *m = o->m;
	const char *where = (const char *)cards + (size_t)next_of(m) * CARD + AT_WHERE;
	int rc;

	rc = dial_open(&o->next, where, SHAKE_RING, (uint32_t)m->rank, (uint32_t)next_of(m),
		       &o->secret, INT64_MAX, e);
	if (!rc && m->rank)
		rc = dial_open(&o->zero, (const char *)cards + AT_WHERE, SHAKE_CONTROL,
			       (uint32_t)m->rank, 0, &o->secret, INT64_MAX, e);
	return rc;
}

/* Listen, tell the others where, and learn where they do. */
static int meet_others(struct opening *o, const char *address, const struct secret *s,
		       int (*exchange)(void *ctx, const void *mine, size_t len, void *all),
		       void *ctx, struct err *e)
{
	struct mesh *m = o->m;
	unsigned char card[CARD], *cards;
	char where[SOCK_TEXT];
	int fd, rc, i;

	_Static_assert((int)CARD <= (int)MEET_BYTES, "a card fits through the meeting point");
	cards = calloc((size_t)m->size, CARD);
	if (!cards)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", m->size);
	fd = sock_listen(address, where, e);
	if (fd < 0) {
		free(cards);
		return fd;
	}
	make_card(card, where);
	if (o->callers)
		o->callers->code = 0;
	rc = exchange(ctx, card, CARD, cards);
	if (rc && o->callers && o->callers->code) {
		*e = *o->callers;
		rc = e->code;
	} else if (rc) {
		rc = fail(e, RINGUP_EPEER, "the exchange of addresses failed with %d", rc);
	}
	if (!rc && memcmp(cards + (size_t)m->rank * CARD, card, CARD))
		rc = fail(e, RINGUP_EPEER, "the exchange returned the ranks in another order");
	for (i = 0; i < m->size && !rc; i++)
		rc = check_card(cards, i, e);
	if (!rc) {
		derive_secret(o, s, cards);
		rc = start_dialling(o, cards, e);
	}
	if (!rc)
		rc = door_open(&o->door, fd, (uint32_t)m->rank, &o->secret, e);
	if (rc)
		close(fd);
	free(cards);
	return rc;
}

static int admit(void *ctx, const struct shake *h)
{
	const struct opening *o = ctx;
	const struct mesh *m = o->m;
	uint32_t rank = h->peer.rank;

	if (shake_agree(h, NULL))
		return RINGUP_EMISMATCH;
	if (h->peer.channel == SHAKE_RING && rank == (uint32_t)prev_of(m))
		return m->data_prev < 0 ? 0 : RINGUP_EBUSY;
	if (h->peer.channel == SHAKE_CONTROL && m->rank == 0 && rank > 0 &&
	    rank < (uint32_t)m->size)
		return m->control[rank] ? RINGUP_EBUSY : 0;
	return RINGUP_EINVAL;
}

static void enter(void *ctx, int fd, const struct shake *h)
{
	const struct opening *o = ctx;
	struct mesh *m = o->m;

	if (h->peer.channel == SHAKE_RING && m->data_prev < 0)
		m->data_prev = fd;
	else if (h->peer.channel != SHAKE_CONTROL || m->control[h->peer.rank] ||
		 chan_open(fd, &h->keys, &m->control[h->peer.rank], NULL))
		close(fd);
}

static int dial_others(struct opening *o, struct err *e)
{
	struct mesh *m = o->m;
	int rc;

	if (m->data_next < 0) {
		rc = dial_step(&o->next, e);
		if (rc < 0)
			return fail_in(e, "rank %d", next_of(m));
		if (rc)
			m->data_next = dial_take(&o->next);
	}
	if (m->rank && !m->control[0]) {
		rc = dial_step(&o->zero, e);
		if (rc < 0)
			return fail_in(e, "rank 0");
		if (rc) {
			int fd = dial_take(&o->zero);

			rc = chan_open(fd, &o->zero.shake.keys, &m->control[0], e);
			if (rc) {
				close(fd);
				return rc;
			}
		}
	}
	return 0;
}

static int hear_failure(struct opening *o, int from, const unsigned char *p, int len)
{
	fail(&o->told, (int32_t)pack_get32(p + 1), "%.*s", len - FAIL_HEAD,
	     (const char *)p + FAIL_HEAD);
	/* Rank 0 passes on what others have said, under their names. */
	return o->m->rank ? o->told.code : fail_in(&o->told, "rank %d", from);
}

static int take_frame(struct opening *o, int from, const unsigned char *p, int len,
		      struct err *e)
{
	if (len == 1 && p[0] == READY && o->m->rank == 0)
		o->ready[from] = true;
	else if (len == 1 && p[0] == GO && o->m->rank)
		o->go = true;
	else if (len >= FAIL_HEAD && p[0] == FAIL && (int32_t)pack_get32(p + 1) < 0)
		return hear_failure(o, from, p, len);
	else
		return fail(e, RINGUP_EPEER, "rank %d does not keep to the protocol", from);
	return 0;
}

/* What the control channels say.  Behind GO come the engine's own frames, which
 * are not ours to read; behind READY comes nothing until GO. */
static int listen_to_others(struct opening *o, struct err *e)
{
	const void *data;
	int i, rc;

	for (i = 0; i < o->m->size && !o->go; i++) {
		if (!o->m->control[i])
			continue;
		rc = chan_recv(o->m->control[i], &data, e);
		if (rc > 0)
			rc = take_frame(o, i, data, rc, e);
		else if (rc < 0)
			fail_in(e, "rank %d has left", i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int say(struct opening *o, int to, enum kind kind, struct err *e)
{
	unsigned char frame = (unsigned char)kind;
	int rc = chan_send(o->m->control[to], &frame, 1, e);

	return rc < 0 ? fail_in(e, "rank %d has left", to) : 0;
}

/* Are all connections there that this rank should have? */
static bool is_connected(const struct mesh *m)
{
	int i;

	if (m->data_prev < 0 || m->data_next < 0)
		return false;
	if (m->rank)
		return m->control[0] != NULL;
	for (i = 1; i < m->size; i++)
		if (!m->control[i])
			return false;
	return true;
}

static bool all_ready(const struct opening *o)
{
	int i;

	for (i = 1; i < o->m->size; i++)
		if (!o->ready[i])
			return false;
	return true;
}

/* Once connected: agree that everybody is.  Sets o->go. */
static int agree(struct opening *o, struct err *e)
{
	int i, rc = 0;

	door_close(&o->door);
	if (o->m->rank && !o->said_ready) {
		rc = say(o, 0, READY, e);
		o->said_ready = true;
	} else if (!o->m->rank && all_ready(o)) {
		for (i = 1; i < o->m->size && !rc; i++)
			rc = say(o, i, GO, e);
		o->go = !rc;
	}
	return rc;
}

static int fail_late(const struct opening *o, struct err *e)
{
	const struct mesh *m = o->m;
	bool *set = calloc((size_t)m->size, sizeof(*set));
	char names[RANKS_TEXT];
	int i;

	if (!set)
		return fail(e, RINGUP_ETIMEDOUT, "not all ranks connected in time");
	set[prev_of(m)] = m->data_prev < 0;
	set[next_of(m)] |= m->data_next < 0;
	for (i = 1; i < m->size && !m->rank; i++)
		set[i] |= !m->control[i];
	ranks_text(names, set, m->size);
	for (i = 1; i < m->size && !m->rank && !*names; i++)
		set[i] = !o->ready[i];
	if (!*names)
		ranks_text(names, set, m->size);
	free(set);
	return fail(e, RINGUP_ETIMEDOUT, "%s did not connect within %.1f s",
		    *names ? names : "some other rank",
		    (double)(clock_ns() - o->began_ns) / 1e9);
}

static void wait_for_something(struct opening *o)
{
	int64_t until = o->deadline_ns;
	struct mesh *m = o->m;
	struct pollfd *p = o->poll;
	int i, doors = door_poll(&o->door, p), n = doors;
	const struct door_owner owner = { admit, enter, o };

	if (door_until(&o->door) < until)
		until = door_until(&o->door);
	if (m->data_next < 0)
		p[n++] = dial_poll(&o->next, &until);
	if (m->rank && !m->control[0])
		p[n++] = dial_poll(&o->zero, &until);
	for (i = 0; i < m->size; i++)
		if (m->control[i])
			p[n++] = (struct pollfd){ chan_fd(m->control[i]), POLLIN, 0 };
	if (poll(p, (nfds_t)n, clock_left_ms(until)) >= 0 && doors)
		door_serve(&o->door, p, &owner);
}

/* GO is on its way, perhaps not yet in the sockets. */
static int flush_all(struct opening *o, struct err *e)
{
	struct mesh *m = o->m;
	int i, rc;

	for (i = 0; i < m->size; i++) {
		while (m->control[i] && (rc = chan_flush(m->control[i], e)) != 0) {
			if (rc < 0)
				return fail_in(e, "rank %d has left", i);
			if (clock_ns() >= o->deadline_ns)
				return fail_late(o, e);
			poll(&(struct pollfd){ chan_fd(m->control[i]), POLLOUT, 0 }, 1,
			     clock_left_ms(o->deadline_ns));
		}
	}
	return 0;
}

static int connect_all(struct opening *o, struct err *e)
{
	int rc;

	o->began_ns = clock_ns();
	for (;;) {
		rc = dial_others(o, e);
		if (!rc)
			rc = listen_to_others(o, e);
		if (!rc && is_connected(o->m) && !o->go)
			rc = agree(o, e);
		if (rc || o->go)
			break;
		if (clock_ns() >= o->deadline_ns)
			return fail_late(o, e);
		wait_for_something(o);
	}
	return rc ? rc : flush_all(o, e);
}

/* Whoever can be reached hears why; as well as it goes, for we have failed. */
static void tell_others(struct opening *o, const struct err *why)
{
	unsigned char frame[FAIL_HEAD + sizeof(why->text)] = { FAIL };
	int len, i;

	len = snprintf((char *)frame + FAIL_HEAD, sizeof(why->text), "%s", why->text);
	if (len > (int)sizeof(why->text) - 1)
		len = sizeof(why->text) - 1;
	pack_put32(frame + 1, (uint32_t)why->code);
	for (i = 0; i < o->m->size; i++)
		if (o->m->control[i])
			(void)!chan_send(o->m->control[i], frame, FAIL_HEAD + (size_t)len,
					 NULL);
}

/*
 * A rank fails because another has: it has seen a connection break, and the
 * reason may be on its way through rank 0.
 */
static void hear_reason(struct opening *o, struct err *e)
{
	int64_t until = clock_deadline(LAST_WORD_MS);
	const void *data;
	int rc;

	if (!o->m->rank || !o->m->control[0] || o->told.code)
		return;
	while ((rc = chan_recv(o->m->control[0], &data, NULL)) >= 0) {
		if (rc && take_frame(o, 0, data, rc, NULL) && o->told.code)
			break;
		if (clock_ns() >= until)
			break;
		if (!rc)
			poll(&(struct pollfd){ chan_fd(o->m->control[0]), POLLIN, 0 }, 1,
			     clock_left_ms(until));
	}
	if (o->told.code)
		*e = o->told;
}

static int opening_init(struct opening *o, struct err *e)
{
	struct mesh *m = o->m;
	size_t n = (size_t)m->size;

	m->control = calloc(n, sizeof(struct chan *));
	o->ready = calloc(n, sizeof(*o->ready));
	o->poll = calloc(DOOR_FDS + 2 + n, sizeof(*o->poll));
	if (!m->control || !o->ready || !o->poll)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", m->size);
	return 0;
}

static void opening_fini(struct opening *o)
{
	door_close(&o->door);
	dial_close(&o->next);
	dial_close(&o->zero);
	free(o->ready);
	free(o->poll);
	sodium_memzero(o, sizeof(*o));
}

int mesh_open(struct mesh *m, int rank, int size, const char *address, const struct secret *s,
	      int (*exchange)(void *ctx, const void *mine, size_t len, void *all), void *ctx,
	      int64_t deadline_ns, struct err *e)
{
	struct opening o = { .m = m, .deadline_ns = deadline_ns, .callers = e };
	struct err why = { 0 };
	int rc = 0;

	*m = (struct mesh){ .rank = rank, .size = size, .data_prev = -1, .data_next = -1 };
	if (size < 1 || rank < 0 || rank >= size)
		return fail(e, RINGUP_EINVAL, "mesh: there is no rank %d of %d", rank, size);
	if (size > 1)
		rc = secret_check(s, &why);
	if (!rc && sodium_init() < 0)
		rc = fail(&why, RINGUP_ESYSTEM, "libsodium finds no random numbers here");
	if (!rc)
		rc = opening_init(&o, &why);
	if (!rc && size > 1) {
		rc = meet_others(&o, address, s, exchange, ctx, &why);
		if (!rc)
			rc = connect_all(&o, &why);
		if (rc && o.told.code)
			why = o.told;
		if (rc)
			tell_others(&o, &why);
		if (rc == RINGUP_EPEER)
			hear_reason(&o, &why);
	}
	opening_fini(&o);
	if (!rc)
		return 0;
	mesh_close(m);
	if (e)
		*e = why;
	fail_in(e, "mesh");
	return why.code;
}

void mesh_close(struct mesh *m)
{
	int i;

	for (i = 0; m->control && i < m->size; i++)
		chan_close(m->control[i]);
	free(m->control);
	m->control = NULL;
	/* A zeroed mesh has no ranks, and 0 is somebody else's descriptor. */
	if (m->size && m->data_prev >= 0) {
		shutdown(m->data_prev, SHUT_RDWR);
		close(m->data_prev);
	}
	if (m->size && m->data_next >= 0) {
		shutdown(m->data_next, SHUT_RDWR);
		close(m->data_next);
	}
	m->data_prev = m->data_next = -1;
	m->size = 0;
}
