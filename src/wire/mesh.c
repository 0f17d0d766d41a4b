/* mesh.c - connect the ranks: exchange addresses, dial, accept, agree. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/mesh.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sodium.h>
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
 * A rank's introduction to the others, as bytes: protocol (2), version of
 * the library (16), random (16), where it listens (SOCK_TEXT; empty if it
 * cannot).  Protocol and version keep their places.
 */
enum {
	AT_PROTOCOL = 0,
	AT_VERSION = 2,
	AT_RANDOM = AT_VERSION + SHAKE_VERSION,
	AT_WHERE = AT_RANDOM + 16,
	INTRO = AT_WHERE + SOCK_TEXT,
};

/* How a rank fared: status (4), enum insight (4), a sentence. */
enum { REPORT_HEAD = 8, REPORT = REPORT_HEAD + 248 };

/* How much a failed rank knows: nothing; that another rank is gone; which ranks do not come;
 * that one cannot be reached; why. */
enum insight { KNOWS_NOTHING, KNOWS_GONE, KNOWS_WHO, KNOWS_SILENCE, KNOWS_WHY };

/* Connecting stops this long before the deadline, for ranks to report which did not connect. */
enum { TELL_MS = 2000, TELL_PART = 8 };

/* One connection that this rank makes; the door accepts those that others make. */
struct call {
	struct dial dial;
	int rank;
	bool done;
};

/* The check that a rank which is to connect to this one still listens. */
struct probe {
	int fd; /* 0: none */
	int refused;
};

/* The time between two probes of a rank, and the refusals in a row that mean it is gone. */
enum { PROBE_MS = 700, PROBES = 2 };

/* State that only exists while a mesh is being opened. */
struct opening {
	struct mesh *m;
	const struct mesh_shape *shape;
	struct secret secret; /* this mesh's own */
	struct door door;
	struct call *call;
	int calls;
	struct probe *probe; /* of each rank */
	int64_t probe_ns;    /* when to look next */
	unsigned char *intros;
	struct pollfd *poll;
	struct err *callers; /* where exchange() may have put its error */
	bool met;            /* the first exchange has succeeded */
	int64_t began_ns, deadline_ns;
	enum insight insight; /* of this rank, if it has failed in connect_all() */
};

/* ---- which ranks are connected ---- */

static int shape_hosts(const struct mesh_shape *s)
{
	int most = 0;

	for (int r = 0; r < s->size; r++)
		most = s->host_of[r] > most ? s->host_of[r] : most;
	return most + 1;
}

/* The number of ranks of the smallest host; 0 without memory. */
int mesh_rails(const struct mesh_shape *s)
{
	int hosts = shape_hosts(s), r, h, least = INT_MAX;
	int *count = calloc((size_t)hosts, sizeof(*count));

	if (!count)
		return 0;
	for (r = 0; r < s->size; r++)
		count[s->host_of[r]]++;
	for (h = 0; h < hosts; h++)
		least = count[h] < least ? count[h] : least;
	free(count);
	return least;
}

bool mesh_has_control(const struct mesh_shape *s, int a, int b)
{
	if (a == b)
		return false;
	return !s->local_of[a] && !s->local_of[b] &&
	       (mesh_parent(s->host_of[a]) == s->host_of[b] ||
		mesh_parent(s->host_of[b]) == s->host_of[a]);
}

static bool has_data(const struct mesh_shape *s, const struct grid *g, int rails, int a, int b)
{
	return s->local_of[a] == s->local_of[b] && s->local_of[a] < rails &&
	       grid_linked(g, s->host_of[a], s->host_of[b]);
}

bool mesh_has_data(const struct mesh_shape *s, int a, int b)
{
	struct grid g;

	grid_init(&g, shape_hosts(s));
	return has_data(s, &g, mesh_rails(s), a, b);
}

static int by_host(const void *a, const void *b)
{
	return ((const struct mesh_link *)a)->host - ((const struct mesh_link *)b)->host;
}

static int make_links(struct opening *o, struct err *e)
{
	const struct mesh_shape *s = o->shape;
	struct mesh *m = o->m;
	struct grid g;

	grid_init(&g, shape_hosts(s));
	m->rails = mesh_rails(s);
	m->control = calloc((size_t)m->size, sizeof(struct chan *));
	m->link = calloc((size_t)m->size, sizeof(*m->link));
	if (!m->control || !m->link || !m->rails)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", m->size);
	for (int r = 0; r < m->size; r++)
		if (has_data(s, &g, m->rails, m->rank, r))
			m->link[m->links++] =
				(struct mesh_link){ .host = s->host_of[r], .rank = r };
	qsort(m->link, (size_t)m->links, sizeof(*m->link), by_host);
	return 0;
}

static struct mesh_link *link_to(const struct mesh *m, uint32_t rank)
{
	for (int i = 0; i < m->links; i++)
		if ((uint32_t)m->link[i].rank == rank)
			return &m->link[i];
	return NULL;
}

/* ---- introductions ---- */

static void make_intro(unsigned char *intro, const char *where)
{
	char version[SHAKE_VERSION + 1];

	memset(intro, 0, INTRO);
	shake_version(version);
	pack_put16(intro + AT_PROTOCOL, SHAKE_PROTOCOL);
	memcpy(intro + AT_VERSION, version, SHAKE_VERSION);
	randombytes_buf(intro + AT_RANDOM, AT_WHERE - AT_RANDOM);
	snprintf((char *)intro + AT_WHERE, SOCK_TEXT, "%s", where);
}

/* Compares the version of rank @from with rank 0's, so that all ranks find the same. */
static int check_intro(const unsigned char *intros, int from, struct err *e)
{
	const unsigned char *intro = intros + (size_t)from * INTRO;
	char theirs[SHAKE_VERSION + 1], zeros[SHAKE_VERSION + 1];

	shake_read_version(theirs, intro + AT_VERSION);
	shake_read_version(zeros, intros + AT_VERSION);
	if (memcmp(intro, intros, AT_RANDOM))
		return fail(e, RINGUP_EMISMATCH,
			    "rank %d runs ringup %s (protocol %u), rank 0 ringup %s "
			    "(protocol %u)",
			    from, theirs, pack_get16(intro), zeros, pack_get16(intros));
	if (!memchr(intro + AT_WHERE, 0, SOCK_TEXT))
		return fail(e, RINGUP_EMISMATCH, "rank %d does not say where it listens", from);
	if (!intro[AT_WHERE])
		return fail(e, RINGUP_EPEER, "rank %d cannot listen", from);
	return 0;
}

static void derive_secret(struct opening *o, const struct secret *s,
			  const unsigned char *intros)
{
	static const char purpose[] = "ringup mesh";

	secret_hkdf(o->secret.key, sizeof(o->secret.key),
		    (struct secret_part){ s->key, sizeof(s->key) },
		    (struct secret_part){ "", 0 },
		    (struct secret_part[]){ { purpose, sizeof(purpose) },
					    { intros, (size_t)o->m->size * INTRO },
					    { NULL, 0 } });
}

static int tell_all(struct opening *o, const void *mine, size_t len, void *all,
		    int (*exchange)(void *ctx, const void *mine, size_t len, void *all),
		    void *ctx, struct err *e)
{
	int rc;

	if (o->callers)
		o->callers->code = 0;
	rc = exchange(ctx, mine, len, all);
	if (rc && o->callers && o->callers->code) {
		*e = *o->callers;
		return e->code;
	}
	return rc ? fail(e, RINGUP_EPEER, "the exchange between ranks failed with %d", rc) : 0;
}

/* ---- connecting ---- */

/* Of two ranks the higher one dials.  A call has no time limit of its own: connect_all()
 * has one, and names the ranks. */
static int start_call(struct opening *o, const unsigned char *intros, int to,
		      enum shake_channel channel, struct err *e)
{
	const char *where = (const char *)intros + (size_t)to * INTRO + AT_WHERE;
	struct call *c = &o->call[o->calls];

	c->rank = to;
	o->calls++;
	return dial_open(&c->dial, where, channel, (uint32_t)o->m->rank, (uint32_t)to,
			 &o->secret, INT64_MAX, e);
}

static int start_calls(struct opening *o, const unsigned char *intros, struct err *e)
{
	struct mesh *m = o->m;
	int rc = 0;

	o->call = calloc((size_t)m->links * (size_t)o->shape->sockets + (size_t)m->rank + 1,
			 sizeof(*o->call));
	if (!o->call)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", m->size);
	for (int to = 0; to < m->rank && !rc; to++)
		if (mesh_has_control(o->shape, m->rank, to))
			rc = start_call(o, intros, to, SHAKE_CONTROL, e);
	for (int i = 0; i < m->links; i++)
		for (int k = 0; k < o->shape->sockets && m->link[i].rank < m->rank && !rc; k++)
			rc = start_call(o, intros, m->link[i].rank, SHAKE_RING, e);
	o->poll = calloc((size_t)(DOOR_FDS + o->calls + m->links * o->shape->sockets + m->size),
			 sizeof(*o->poll));
	o->probe = calloc((size_t)m->size, sizeof(*o->probe));
	return rc || (o->poll && o->probe)
		       ? rc
		       : fail(e, RINGUP_ENOMEM, "no memory for %d ranks", m->size);
}

/* Listens, tells the others where, and learns where they listen. */
static int meet_others(struct opening *o, const char *address, const struct secret *s,
		       int (*exchange)(void *ctx, const void *mine, size_t len, void *all),
		       void *ctx, struct err *e)
{
	struct mesh *m = o->m;
	unsigned char intro[INTRO], *intros;
	char where[SOCK_TEXT] = "";
	struct err deaf = { 0 };
	int fd, rc;

	_Static_assert((int)INTRO <= (int)MEET_BYTES,
		       "an introduction fits through the meeting point");
	intros = calloc((size_t)m->size, INTRO);
	if (!intros)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", m->size);
	/* A rank that cannot listen must tell the others before they wait for it. */
	fd = sock_listen(address, where, &deaf);
	make_intro(intro, fd < 0 ? "" : where);
	rc = tell_all(o, intro, INTRO, intros, exchange, ctx, e);
	o->met = !rc;
	if (!rc && memcmp(intros + (size_t)m->rank * INTRO, intro, INTRO))
		rc = fail(e, RINGUP_EPEER, "the exchange returned the ranks in another order");
	if (fd < 0) {
		*e = deaf;
		rc = deaf.code;
	}
	for (int i = 0; i < m->size && !rc; i++)
		rc = check_intro(intros, i, e);
	if (!rc) {
		derive_secret(o, s, intros);
		rc = start_calls(o, intros, e);
	}
	if (!rc)
		rc = door_open(&o->door, fd, (uint32_t)m->rank, &o->secret, e);
	if (rc && fd >= 0)
		close(fd);
	o->intros = intros;
	return rc;
}

static int mesh_admit(void *ctx, const struct shake *h)
{
	const struct opening *o = ctx;
	const struct mesh *m = o->m;
	uint32_t rank = h->peer.rank;
	const struct mesh_link *l = link_to(m, rank);

	if (shake_agree(h, NULL))
		return RINGUP_EMISMATCH;
	if (rank <= (uint32_t)m->rank || rank >= (uint32_t)m->size)
		return RINGUP_EINVAL;
	if (h->peer.channel == SHAKE_RING && l)
		return l->fds < o->shape->sockets ? 0 : RINGUP_EBUSY;
	if (h->peer.channel == SHAKE_CONTROL && mesh_has_control(o->shape, m->rank, (int)rank))
		return m->control[rank] ? RINGUP_EBUSY : 0;
	return RINGUP_EINVAL;
}

static void mesh_enter(void *ctx, int fd, const struct shake *h)
{
	const struct opening *o = ctx;
	struct mesh *m = o->m;
	uint32_t rank = h->peer.rank;

	if (h->peer.channel == SHAKE_RING) {
		struct mesh_link *l = link_to(m, rank);

		if (l->fds < o->shape->sockets)
			l->fd[l->fds++] = fd;
		else
			close(fd);
	} else if (m->control[rank] || chan_open(fd, &h->keys, &m->control[rank], NULL)) {
		close(fd);
	}
}

static int answer_call(struct opening *o, struct call *c, struct err *e)
{
	struct mesh_link *l = link_to(o->m, (uint32_t)c->rank);
	enum shake_channel channel = c->dial.channel;
	struct shake_keys keys = c->dial.shake.keys;
	int fd = dial_take(&c->dial), rc = 0;

	c->done = true;
	if (channel == SHAKE_RING)
		l->fd[l->fds++] = fd;
	else
		rc = chan_open(fd, &keys, &o->m->control[c->rank], e);
	if (rc)
		close(fd);
	sodium_memzero(&keys, sizeof(keys));
	return rc;
}

static int make_calls(struct opening *o, struct err *e)
{
	int rc;

	for (int i = 0; i < o->calls; i++) {
		struct call *c = &o->call[i];

		if (c->done)
			continue;
		rc = dial_step(&c->dial, e);
		if (rc > 0)
			rc = answer_call(o, c, e);
		if (rc == RINGUP_EPEER)
			o->insight = KNOWS_SILENCE;
		if (rc < 0)
			return fail_in(e, "rank %d", c->rank);
	}
	return 0;
}

/* Are all connections to @rank there? */
static bool has_rank(const struct opening *o, int rank)
{
	const struct mesh *m = o->m;
	const struct mesh_link *l = link_to(m, (uint32_t)rank);

	if (l && l->fds < o->shape->sockets)
		return false;
	return m->control[rank] || !mesh_has_control(o->shape, m->rank, rank);
}

static bool is_connected(const struct opening *o)
{
	for (int r = 0; r < o->m->size; r++)
		if (!has_rank(o, r))
			return false;
	return true;
}

/* The first call that has not come through, or NULL. */
static const struct call *open_call(const struct opening *o)
{
	for (int i = 0; i < o->calls; i++)
		if (!o->call[i].done)
			return &o->call[i];
	return NULL;
}

static int fail_late(struct opening *o, struct err *e)
{
	const struct mesh *m = o->m;
	const struct call *c = open_call(o);
	bool *set = calloc((size_t)m->size, sizeof(*set));
	char names[RANKS_TEXT] = "", call[SOCK_TEXT + DIAL_HINT] = "", hint[DIAL_HINT];

	o->insight = c ? KNOWS_SILENCE : KNOWS_WHO;
	if (c)
		snprintf(call, sizeof(call), "; at %.79s: no answer; %s", c->dial.where,
			 dial_silence(&c->dial, hint));
	for (int r = 0; set && r < m->size; r++)
		set[r] = !has_rank(o, r);
	if (set)
		ranks_text(names, set, m->size);
	free(set);
	return fail(e, RINGUP_ETIMEDOUT, "%s did not connect within %.1f s%s",
		    *names ? names : "some other rank",
		    (double)(clock_ns() - o->began_ns) / 1e9, call);
}

static int fail_gone(struct opening *o, int rank, struct err *e)
{
	o->insight = KNOWS_GONE;
	return fail(e, RINGUP_EPEER, "rank %d has left", rank);
}

/* A rank that has left closes its connections; no rank sends yet, so any event is the end. */
static int check_alive(struct opening *o, const struct pollfd *p, struct err *e)
{
	const struct mesh *m = o->m;

	for (int i = 0; i < m->links; i++)
		for (int k = 0; k < m->link[i].fds; k++, p++)
			if (p->revents)
				return fail_gone(o, m->link[i].rank, e);
	for (int i = 0; i < m->size; i++)
		if (m->control[i] && (p++)->revents)
			return fail_gone(o, i, e);
	return 0;
}

static int wait_for_something(struct opening *o, struct err *e)
{
	int64_t until = o->probe_ns < o->deadline_ns ? o->probe_ns : o->deadline_ns;
	struct mesh *m = o->m;
	struct pollfd *p = o->poll, *lines;
	int i, k, rc, doors = door_poll(&o->door, p), n = doors;
	const struct door_owner owner = { mesh_admit, mesh_enter, o };

	if (door_until(&o->door) < until)
		until = door_until(&o->door);
	for (i = 0; i < o->calls; i++)
		if (!o->call[i].done)
			p[n++] = dial_poll(&o->call[i].dial, &until);
	lines = p + n;
	for (i = 0; i < m->links; i++)
		for (k = 0; k < m->link[i].fds; k++)
			p[n++] = (struct pollfd){ m->link[i].fd[k], POLLRDHUP, 0 };
	for (i = 0; i < m->size; i++)
		if (m->control[i])
			p[n++] = (struct pollfd){ chan_fd(m->control[i]), POLLRDHUP, 0 };
	if (poll(p, (nfds_t)n, clock_left_ms(until)) < 0)
		return 0;
	rc = check_alive(o, lines, e);
	if (doors)
		door_serve(&o->door, p, &owner);
	return rc;
}

/*
 * A rank that waits for others to connect would not notice that they have died: so it
 * tries now and then to connect to them.  A rank that has closed its door has all
 * its connections, the one to this rank among them.
 */
static int probe_rank(struct opening *o, int rank, struct err *e)
{
	struct probe *p = &o->probe[rank];
	struct sock_addr to;
	int rc = 0;

	if (p->fd > 0) {
		rc = sock_connected(p->fd, NULL);
		close(p->fd);
		p->fd = 0;
	}
	p->refused = rc == RINGUP_EPEER ? p->refused + 1 : 0;
	if (p->refused >= PROBES)
		return fail_gone(o, rank, e);
	if (!sock_parse((const char *)o->intros + (size_t)rank * INTRO + AT_WHERE, &to, NULL))
		p->fd = sock_connect(&to, NULL);
	if (p->fd < 0) {
		p->refused += p->fd == RINGUP_EPEER;
		p->fd = 0;
	}
	return 0;
}

static int probe_ranks(struct opening *o, struct err *e)
{
	int rc = 0;

	if (clock_ns() < o->probe_ns)
		return 0;
	o->probe_ns = clock_deadline(PROBE_MS);
	for (int r = o->m->rank + 1; r < o->m->size && !rc; r++)
		if (!has_rank(o, r))
			rc = probe_rank(o, r, e);
	return rc;
}

static int connect_all(struct opening *o, struct err *e)
{
	int rc;

	o->began_ns = clock_ns();
	o->probe_ns = clock_deadline(PROBE_MS);
	for (;;) {
		rc = make_calls(o, e);
		if (!rc)
			rc = probe_ranks(o, e);
		if (rc || is_connected(o))
			return rc;
		if (clock_ns() >= o->deadline_ns)
			return fail_late(o, e);
		rc = wait_for_something(o, e);
		if (rc)
			return rc;
	}
}

/* ---- agreeing ---- */

static uint32_t insight_of(const unsigned char *report)
{
	uint32_t known = pack_get32(report + 4);

	if (!pack_get32(report))
		return KNOWS_NOTHING;
	return known ? known : KNOWS_GONE;
}

/* The rank whose report tells best what went wrong, or -1. */
static int find_culprit(const unsigned char *all, int size)
{
	uint32_t most = KNOWS_NOTHING, known;
	int best = -1;

	for (int r = 0; r < size; r++) {
		known = insight_of(all + (size_t)r * REPORT);
		if (known > most) {
			most = known;
			best = r;
		}
	}
	return best;
}

/* Exchanges the ranks' results; returns 0, or the failure that tells best what went wrong. */
static int agree(struct opening *o, int rc,
		 int (*exchange)(void *ctx, const void *mine, size_t len, void *all), void *ctx,
		 struct err *e)
{
	unsigned char mine[REPORT] = { 0 }, *all, *theirs;
	struct err told = { 0 };
	uint32_t known = KNOWS_NOTHING;
	int culprit, code;

	all = calloc((size_t)o->m->size, REPORT);
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", o->m->size);
	pack_put32(mine, (uint32_t)rc);
	pack_put32(mine + 4, rc ? o->insight : KNOWS_NOTHING);
	if (rc)
		snprintf((char *)mine + REPORT_HEAD, REPORT - REPORT_HEAD, "%.246s", e->text);
	code = tell_all(o, mine, REPORT, all, exchange, ctx, &told);
	if (code)
		known = code == RINGUP_EPEER       ? KNOWS_GONE
			: code == RINGUP_ETIMEDOUT ? KNOWS_WHO
						   : KNOWS_WHY;
	culprit = code ? -1 : find_culprit(all, o->m->size);
	if (culprit >= 0 && culprit != o->m->rank) {
		theirs = all + (size_t)culprit * REPORT;
		known = insight_of(theirs);
		code = (int32_t)pack_get32(theirs);
		fail(&told, code < 0 ? code : RINGUP_EPEER, "rank %d: %.*s", culprit,
		     REPORT - REPORT_HEAD - 1, (const char *)theirs + REPORT_HEAD);
	}
	/* This rank's own failure is reported, unless another rank knows more. */
	if (told.code && (!rc || known > o->insight)) {
		*e = told;
		rc = told.code;
	}
	free(all);
	return rc;
}

static void opening_fini(struct opening *o)
{
	door_close(&o->door);
	for (int i = 0; i < o->calls; i++)
		dial_close(&o->call[i].dial);
	if (o->call)
		sodium_memzero(o->call, (size_t)o->calls * sizeof(*o->call));
	for (int i = 0; o->probe && i < o->m->size; i++)
		if (o->probe[i].fd > 0)
			close(o->probe[i].fd);
	free(o->call);
	free(o->probe);
	free(o->intros);
	free(o->poll);
	sodium_memzero(o, sizeof(*o));
}

static int check_shape(const struct mesh_shape *s, struct err *e)
{
	if (s->size < 1 || s->rank < 0 || s->rank >= s->size)
		return fail(e, RINGUP_EINVAL, "mesh: rank %d of %d does not exist", s->rank,
			    s->size);
	if (s->sockets < 1 || s->sockets > MESH_SOCKETS)
		return fail(e, RINGUP_EINVAL, "mesh: 1 to %d sockets make a link, not %d",
			    MESH_SOCKETS, s->sockets);
	return 0;
}

static int64_t connect_until(int64_t deadline_ns)
{
	int left = clock_left_ms(deadline_ns), part = left / TELL_PART;

	if (left < 0)
		return deadline_ns;
	return deadline_ns - (part < TELL_MS ? part : TELL_MS) * (int64_t)1000000;
}

int mesh_open(struct mesh *m, const struct mesh_shape *s, const char *address,
	      const struct secret *secret,
	      int (*exchange)(void *ctx, const void *mine, size_t len, void *all), void *ctx,
	      int64_t deadline_ns, struct err *e)
{
	struct opening o = { .m = m,
			     .shape = s,
			     .deadline_ns = connect_until(deadline_ns),
			     .callers = e,
			     .insight = KNOWS_WHY };
	struct err why = { 0 };
	int rc;

	*m = (struct mesh){ .rank = s->rank, .size = s->size };
	rc = check_shape(s, e);
	if (rc)
		return rc;
	rc = s->size > 1 ? secret_check(secret, &why) : secret_ready(&why);
	if (!rc)
		rc = make_links(&o, &why);
	if (!rc && s->size > 1) {
		rc = meet_others(&o, address, secret, exchange, ctx, &why);
		if (!rc)
			rc = connect_all(&o, &why);
		door_close(&o.door);
		if (rc)
			mesh_close(m); /* the neighbours shall know now */
		m->size = s->size;
		if (o.met)
			rc = agree(&o, rc, exchange, ctx, &why);
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

static void be_patient(struct mesh *m, int fd, int silence_ms)
{
	int pause = sock_patience(fd, silence_ms);

	m->pause_ms = pause > m->pause_ms ? pause : m->pause_ms;
}

void mesh_patience(struct mesh *m, int silence_ms)
{
	m->pause_ms = 0;
	for (int i = 0; i < m->size; i++)
		if (m->control[i])
			be_patient(m, chan_fd(m->control[i]), silence_ms);
	for (int i = 0; i < m->links; i++)
		for (int k = 0; k < m->link[i].fds; k++)
			be_patient(m, m->link[i].fd[k], silence_ms);
}

bool mesh_unheard(const struct mesh *m, int i, uint32_t ms)
{
	for (int k = 0; k < m->link[i].fds; k++)
		if (sock_unheard(m->link[i].fd[k], ms))
			return true;
	return false;
}

static void close_links(struct mesh *m, bool forgetting)
{
	for (int i = 0; m->link && i < m->links; i++)
		for (int k = 0; k < m->link[i].fds; k++) {
			if (!forgetting)
				shutdown(m->link[i].fd[k], SHUT_RDWR);
			close(m->link[i].fd[k]);
		}
	m->links = 0;
}

void mesh_close(struct mesh *m)
{
	for (int i = 0; m->control && i < m->size; i++)
		chan_close(m->control[i]);
	free(m->control);
	close_links(m, false);
	free(m->link);
	m->control = NULL;
	m->link = NULL;
	m->size = 0;
}

void mesh_forget(struct mesh *m)
{
	for (int i = 0; m->control && i < m->size; i++)
		if (m->control[i])
			close(chan_fd(m->control[i]));
	close_links(m, true);
}
