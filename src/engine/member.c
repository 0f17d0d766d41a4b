/* member.c - one rank of a job: everything between ringup_init() and ringup_fini(). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/member.h"

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/star.h"
#include "host/cores.h"
#include "host/identity.h"
#include "nicpick/own.h"
#include "wire/chan.h"
#include "wire/discover.h"

enum {
	SPIN = 6000,   /* pauses before giving way, with a processor for every rank:
			* longer than it takes to wake somebody who sleeps, or two
			* ranks that once slept would send each other to sleep for ever */
	NO_SPIN = 20,  /* and without */
	BYE_MS = 1000, /* member_close() waits for the others' sake at most */
};

/*
 * What each rank tells the others about itself, as it goes over the wire.
 * Fixed width, no holes, little-endian like every machine this runs on.
 */
struct card {
	char version[32];
	unsigned char host[IDENTITY_BYTES];
	unsigned char mask[CORES_MASK_BYTES];
	unsigned char door[SEGMENT_SOCKET_BYTES];
	char name[WATCH_HOST_BYTES];
	char backend[16];
	uint64_t eager_bytes, fusion_bytes;
	struct pulse_rules rules;
	int32_t pid, quota;
};
_Static_assert(sizeof(struct card) == 344, "a card has no holes");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "cards are exchanged as they lie in memory: little-endian only"
#endif

/* How a rank fared, so that all fail together. */
struct report {
	int32_t code;
	char text[252];
};

struct bringup {
	struct member *member;
	const struct conf *conf;
	struct card *cards; /* of every rank */
	int *local;         /* the ranks of this host */
	struct segment_door door;
	int64_t deadline;
};

static void fill_card(struct card *c, const struct bringup *b)
{
	memset(c, 0, sizeof(*c));
	snprintf(c->version, sizeof(c->version), "%s", PACKAGE_VERSION);
	identity_get(c->host);
	cores_mask(c->mask);
	memcpy(c->door, b->door.name, sizeof(c->door));
	if (gethostname(c->name, sizeof(c->name) - 1))
		snprintf(c->name, sizeof(c->name), "an unnamed host");
	snprintf(c->backend, sizeof(c->backend), "%s", b->conf->backend);
	c->eager_bytes = b->conf->eager_bytes;
	c->fusion_bytes = b->conf->fusion_bytes;
	pulse_rules_make(&c->rules, b->conf);
	c->pid = getpid();
	c->quota = cores_quota("");
}

static int exchange(struct member *m, const void *mine, size_t len, void *all, struct err *e)
{
	if (m->size == 1) {
		memcpy(all, mine, len);
		return 0;
	}
	if (!m->meeting.exchange(m->meeting.ctx, mine, len, all))
		return 0;
	if (m->meeting.why.code)
		*e = m->meeting.why;
	else
		fail(e, RINGUP_EPEER, "the exchange between ranks failed");
	return e->code;
}

/* Everybody says how it went: the first rank that failed speaks for all. */
static int agree_on(struct member *m, int rc, struct err *e)
{
	struct report mine = { 0 }, *all;
	struct err told;
	int r;

	if (m->size == 1)
		return rc;
	all = calloc((size_t)m->size, sizeof(*all));
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", m->size);
	mine.code = rc;
	if (rc)
		snprintf(mine.text, sizeof(mine.text), "%.*s", (int)sizeof(mine.text) - 1,
			 e->text);
	if (exchange(m, &mine, sizeof(mine), all, &told)) {
		free(all);
		if (!rc)
			*e = told;
		return e->code;
	}
	for (r = 0; r < m->size && !all[r].code; r++)
		;
	if (r < m->size && r == m->rank)
		rc = all[r].code;
	else if (r < m->size)
		rc = fail(e, all[r].code < 0 ? all[r].code : RINGUP_ESYSTEM, "rank %d: %.200s",
			  r, all[r].text);
	free(all);
	return rc;
}

static int check_versions(const struct bringup *b, struct err *e)
{
	int r;

	for (r = 0; r < b->member->size; r++)
		if (strncmp(b->cards[r].version, b->cards[0].version,
			    sizeof(b->cards[r].version)))
			return fail(e, RINGUP_EMISMATCH,
				    "rank 0 runs ringup %.31s, rank %d runs %.31s",
				    b->cards[0].version, r, b->cards[r].version);
	return 0;
}

static bool same_host(const struct bringup *b, int r, int q)
{
	return !memcmp(b->cards[r].host, b->cards[q].host, IDENTITY_BYTES);
}

static int first_on_host(const struct bringup *b, int r)
{
	int q;

	for (q = 0; !same_host(b, q, r); q++)
		;
	return q;
}

/* Hosts are numbered by their lowest rank, ranks of a host in order. */
static void locate(struct bringup *b)
{
	struct member *m = b->member;
	int r, n, first = 0;

	m->local_size = 0;
	m->host_count = 0;
	for (r = 0; r < m->size; r++) {
		if (r == m->rank)
			m->local_rank = m->local_size;
		if (same_host(b, r, m->rank))
			b->local[m->local_size++] = r;
		if (first_on_host(b, r) == r) {
			if (same_host(b, r, m->rank))
				m->host_rank = m->host_count;
			m->host_count++;
		}
	}
	m->homogeneous = true;
	for (r = 0; r < m->size; r++) {
		int q;

		for (n = 0, q = 0; q < m->size; q++)
			n += same_host(b, r, q);
		if (r == 0)
			first = n;
		m->homogeneous &= n == first;
	}
}

/* Is there a processor for every rank of this host? */
static int pauses_for(const struct bringup *b)
{
	unsigned char all[CORES_MASK_BYTES] = { 0 };
	int cores, i, k, quota;

	for (i = 0; i < b->member->local_size; i++)
		for (k = 0; k < CORES_MASK_BYTES; k++)
			all[k] |= b->cards[b->local[i]].mask[k];
	cores = cores_count(all);
	quota = b->cards[b->member->rank].quota;
	if (quota > 0 && quota < cores)
		cores = quota;
	return b->member->local_size <= cores ? SPIN : NO_SPIN;
}

/* A rank that shares memory with nobody has a seat all the same. */
static int sit_alone(struct member *m, struct err *e)
{
	m->seat = aligned_alloc(64, sizeof(*m->seat));
	if (!m->seat)
		return fail(e, RINGUP_ENOMEM, "no memory for the engine");
	memset(m->seat, 0, sizeof(*m->seat));
	m->row = (struct row){ .seats = m->seat, .sleepers = &m->sleepers, .count = 1 };
	m->engine.row = &m->row;
	m->engine.alarm = &m->alarm;
	m->engine.left = &m->left;
	return 0;
}

static int share_memory(struct bringup *b, struct err *e)
{
	struct member *m = b->member;
	size_t extra = ledger_bytes(m->size);
	int *pids, i, rc;

	pids = calloc((size_t)m->size, sizeof(*pids));
	if (!pids)
		return fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", m->size);
	for (i = 0; i < m->size; i++)
		pids[i] = b->cards[i].pid;
	if (m->rank == 0)
		rc = segment_make(&m->segment, &b->door, m->size, pids, extra, b->deadline, e);
	else
		rc = segment_join(&m->segment, b->cards[0].door, pids[0], m->rank, m->size,
				  extra, b->deadline, e);
	free(pids);
	if (!rc)
		rc = ledger_open(&m->ledger, &m->segment, b->cards[0].eager_bytes, e);
	if (rc)
		return rc;
	m->engine.row = &m->segment.row;
	m->engine.alarm = &m->segment.head->alarm;
	m->engine.left = &m->segment.head->left;
	m->engine.agree = &agree_ledger;
	m->engine.agreement = &m->ledger;
	m->engine.ledger = &m->ledger;
	return 0;
}

/* In a child: whoever hears nothing more from us shall know that we have died,
 * even if a data loader of ours lives on. */
static void let_go(void *arg)
{
	struct member *m = arg;
	int r;

	for (r = 0; r < m->size; r++)
		if (m->mesh.control[r])
			close(chan_fd(m->mesh.control[r]));
	close(m->mesh.data_prev);
	close(m->mesh.data_next);
}

static int connect_hosts(struct bringup *b, struct err *e)
{
	struct member *m = b->member;
	char address[128];
	struct err why = { 0 };
	int rc;

	rc = own_address(b->conf, m->host_count == 1, address, sizeof(address), &why);
	/* A rank without an address must tell the others before they wait for it. */
	if (rc)
		*e = why;
	rc = agree_on(m, rc, e);
	if (!rc)
		rc = mesh_open(&m->mesh, m->rank, m->size, address, &m->meeting.secret,
			       m->meeting.exchange, m->meeting.ctx, b->deadline, e);
	return rc ? rc : sit_alone(m, e);
}

static void tell_star(void *ctx, int code, const char *why)
{
	struct member *m = ctx;

	star_alarm(m->star, code, why);
	watch_stir(&m->watch);
}

static int agree_by_star(struct bringup *b, struct err *e)
{
	struct member *m = b->member;
	struct star_events ev;
	int rc;

	m->fork = (struct forks_hook){ .fn = let_go, .arg = m };
	forks_add(&m->fork);
	rc = watch_events(&m->watch, &m->engine, m->size, &ev, e);
	if (!rc)
		rc = star_open(&m->star, &m->mesh, &ev, e);
	if (rc)
		return rc;
	m->engine.agree = &agree_star;
	m->engine.agreement = m->star;
	m->engine.on_alarm = tell_star;
	m->engine.on_alarm_ctx = m;
	return 0;
}

/* The first of the list that serves this job; or the one that was asked for. */
static int choose_backend(struct bringup *b, struct err *e)
{
	struct engine *g = &b->member->engine;
	const char *only = b->cards[0].backend;
	struct err why = { 0 };
	int i;

	for (i = 0; backends[i]; i++) {
		if (*only && strncmp(only, backends[i]->name, sizeof(b->cards[0].backend)))
			continue;
		g->carrier = calloc(1, backends[i]->size);
		if (!g->carrier)
			return fail(e, RINGUP_ENOMEM, "no memory for the back end");
		if (!backends[i]->open(g->carrier, &g->team, &why)) {
			g->backend = backends[i];
			return 0;
		}
		backends[i]->close(g->carrier);
		free(g->carrier);
		g->carrier = NULL;
	}
	if (!why.code)
		return fail(e, RINGUP_EINVAL,
			    "RINGUP_BACKEND=%.15s: no such back end; self, node and tcp are",
			    only);
	return fail(e, RINGUP_ENOBACKEND, "no back end can serve this job: %.200s", why.text);
}

static int connect(struct bringup *b, struct err *e)
{
	struct member *m = b->member;
	bool tcp = !strncmp(b->cards[0].backend, "tcp", sizeof(b->cards[0].backend));
	int rc;

	if (m->size == 1 || (m->host_count == 1 && !tcp)) {
		rc = share_memory(b, e);
	} else {
		rc = connect_hosts(b, e);
		if (!rc)
			rc = agree_by_star(b, e);
	}
	if (rc)
		return rc;
	m->engine.team = (struct team){
		.rank = m->rank,
		.size = m->size,
		.hosts = m->host_count,
		.segment = m->segment.base ? &m->segment : NULL,
		.mesh = m->mesh.control ? &m->mesh : NULL,
		.abort = &m->engine.alarm->word,
	};
	m->engine.row->pauses = pauses_for(b);
	m->engine.eager_bytes = b->cards[0].eager_bytes;
	m->engine.fusion_bytes = b->cards[0].fusion_bytes;
	return choose_backend(b, e);
}

static int start_threads(struct bringup *b, struct err *e)
{
	struct member *m = b->member;
	int r, rc;

	m->peers = calloc((size_t)m->size, sizeof(*m->peers));
	if (!m->peers)
		return fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", m->size);
	for (r = 0; r < m->size; r++) {
		m->peers[r].pid = b->cards[r].pid;
		memcpy(m->peers[r].host, b->cards[r].name, WATCH_HOST_BYTES - 1);
	}
	rc = engine_start(&m->engine, e);
	if (!rc && !m->star)
		rc = watch_events(&m->watch, &m->engine, m->size, &(struct star_events){ 0 },
				  e);
	if (!rc)
		rc = watch_start(&m->watch, &m->engine, m->star, &m->mesh, m->peers,
				 &b->cards[0].rules, e);
	return rc;
}

/* From the card on, every step ends by agreeing whether it went well. */
static int bring_up(struct bringup *b, struct err *e)
{
	struct member *m = b->member;
	struct card mine;
	int rc;

	rc = segment_door_open(&b->door, e);
	if (rc)
		return rc;
	fill_card(&mine, b);
	rc = exchange(m, &mine, sizeof(mine), b->cards, e);
	if (!rc)
		rc = check_versions(b, e);
	if (rc)
		return rc;
	locate(b);
	rc = agree_on(m, connect(b, e), e);
	if (rc)
		return rc;
	if (m->segment.base)
		segment_touch(&m->segment);
	return agree_on(m, start_threads(b, e), e);
}

static int meet_others(struct member *m, const struct ringup_init *how, const struct conf *c,
		       int64_t deadline, struct err *e)
{
	struct discovery d;
	char address[128] = "127.0.0.1";
	int rc;

	if (how && how->size) {
		if (how->size < 0 || how->rank < 0 || how->rank >= how->size)
			return fail(e, RINGUP_EINVAL, "rank %d is not below size %d", how->rank,
				    how->size);
		m->rank = how->rank;
		m->size = how->size;
		if (how->exchange)
			return rendezvous_adopt(&m->meeting, m->rank, m->size, how->exchange,
						how->ctx, e);
		if (how->size == 1)
			return 0;
	}
	rc = discover(&d, e);
	if (rc)
		return rc;
	if (how && how->size) {
		d.rank = how->rank;
		d.size = how->size;
	}
	m->rank = d.rank;
	m->size = d.size;
	if (d.size == 1)
		return 0;
	if (how && how->exchange)
		return rendezvous_adopt(&m->meeting, m->rank, m->size, how->exchange, how->ctx,
					e);
	/* A directory is named because hosts share it. */
	if (d.spans_hosts || *d.meet == '/')
		rc = own_address(c, false, address, sizeof(address), e);
	return rc ? rc : rendezvous_open(&m->meeting, &d, address, deadline, e);
}

static void tear_down(struct member *m)
{
	struct engine *g = &m->engine;
	void *carrier = g->carrier;
	const struct backend *backend = g->backend;

	watch_stop(&m->watch);
	engine_stop(g);
	if (backend)
		backend->close(carrier);
	free(carrier);
	star_close(m->star);
	forks_remove(&m->fork);
	mesh_close(&m->mesh);
	ledger_close(&m->ledger);
	segment_close(&m->segment);
	rendezvous_close(&m->meeting);
	free(m->seat);
	free(m->peers);
	memset(m, 0, sizeof(*m));
}

int member_open(struct member *m, const struct ringup_init *how, struct err *e)
{
	struct bringup b = { .member = m, .door = { .fd = -1 } };
	struct conf conf;
	char who[32];
	int rc;

	memset(m, 0, sizeof(*m));
	rc = conf_load(&conf, CONF_WARN, e);
	if (rc)
		return rc;
	b.conf = &conf;
	b.deadline = clock_deadline(conf.start_timeout_ms);
	rc = meet_others(m, how, &conf, b.deadline, e);
	if (rc)
		return rc;
	b.cards = calloc((size_t)m->size, sizeof(*b.cards));
	b.local = calloc((size_t)m->size, sizeof(*b.local));
	rc = b.cards && b.local
		     ? bring_up(&b, e)
		     : fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", m->size);
	segment_door_close(&b.door);
	free(b.cards);
	free(b.local);
	if (rc) {
		tear_down(m);
		return rc;
	}
	/* Nothing listens from here on. */
	rendezvous_close(&m->meeting);
	snprintf(who, sizeof(who), "rank %d", m->rank);
	log_set_who(who);
	log_info("rank %d of %d, %d on this host, %d hosts, back end %s", m->rank, m->size,
		 m->local_size, m->host_count, m->engine.backend->name);
	return 0;
}

/* What is not sent when the connections close would look like a death. */
static void say_goodbye(struct member *m)
{
	int64_t until = clock_deadline(BYE_MS);
	bool left;
	int r;

	star_leave(m->star);
	do {
		left = false;
		for (r = 0; r < m->size; r++)
			left |= m->mesh.control[r] && star_unsent(m->star, r) > 0;
		if (left)
			clock_sleep_ms(1);
	} while (left && clock_ns() < until);
}

void member_close(struct member *m)
{
	struct engine *g = &m->engine;
	int flying, r;
	char why[96];

	/* The job goes on in the parent; what was mapped is not mapped here. */
	if (!engine_is_mine(g))
		return;
	flying = engine_flying(g);
	if (flying) {
		snprintf(why, sizeof(why), "rank %d left with %d operations in flight", m->rank,
			 flying);
		engine_alarm(g, RINGUP_ESHUTDOWN, why);
	}
	__atomic_store_n(&g->row->seats[g->row->me].left, 1, __ATOMIC_RELEASE);
	__atomic_store_n(g->left, (uint32_t)m->rank + 1, __ATOMIC_RELEASE);
	for (r = 0; r < g->row->count; r++) {
		seat_ring_one(g->row, r);
		seat_kick(g->row, r);
	}
	if (m->star)
		say_goodbye(m);
	tear_down(m);
}
