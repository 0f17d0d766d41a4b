/* job.c - one rank of a job: everything between ringup_init() and ringup_fini(). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/job.h"

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
#include "wire/discover.h"

enum {
	SPIN = 1000,   /* pauses before giving way, with a processor for every rank */
	NO_SPIN = 20,  /* and without */
	BYE_MS = 1000, /* job_close() waits for the others' sake at most */
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
	int32_t pid, quota;
};
_Static_assert(sizeof(struct card) == 312, "a card has no holes");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "cards are exchanged as they lie in memory: little-endian only"
#endif

/* How a rank fared, so that all fail together. */
struct report {
	int32_t code;
	char text[252];
};

struct bringup {
	struct job *job;
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
	c->pid = getpid();
	c->quota = cores_quota("");
}

static int exchange(struct job *j, const void *mine, size_t len, void *all, struct err *e)
{
	if (j->size == 1) {
		memcpy(all, mine, len);
		return 0;
	}
	if (!j->meeting.exchange(j->meeting.ctx, mine, len, all))
		return 0;
	if (j->meeting.why.code)
		*e = j->meeting.why;
	else
		fail(e, RINGUP_EPEER, "the exchange between ranks failed");
	return e->code;
}

/* Everybody says how it went: the first rank that failed speaks for all. */
static int agree_on(struct job *j, int rc, struct err *e)
{
	struct report mine = { 0 }, *all;
	struct err told;
	int r;

	if (j->size == 1)
		return rc;
	all = calloc((size_t)j->size, sizeof(*all));
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", j->size);
	mine.code = rc;
	if (rc)
		snprintf(mine.text, sizeof(mine.text), "%.*s", (int)sizeof(mine.text) - 1,
			 e->text);
	if (exchange(j, &mine, sizeof(mine), all, &told)) {
		free(all);
		if (!rc)
			*e = told;
		return e->code;
	}
	for (r = 0; r < j->size && !all[r].code; r++)
		;
	if (r < j->size && r == j->rank)
		rc = all[r].code;
	else if (r < j->size)
		rc = fail(e, all[r].code < 0 ? all[r].code : RINGUP_ESYSTEM, "rank %d: %.200s",
			  r, all[r].text);
	free(all);
	return rc;
}

static int check_versions(const struct bringup *b, struct err *e)
{
	int r;

	for (r = 0; r < b->job->size; r++)
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
	struct job *j = b->job;
	int r, n, first = 0;

	j->local_size = 0;
	j->host_count = 0;
	for (r = 0; r < j->size; r++) {
		if (r == j->rank)
			j->local_rank = j->local_size;
		if (same_host(b, r, j->rank))
			b->local[j->local_size++] = r;
		if (first_on_host(b, r) == r) {
			if (same_host(b, r, j->rank))
				j->host_rank = j->host_count;
			j->host_count++;
		}
	}
	j->homogeneous = true;
	for (r = 0; r < j->size; r++) {
		int q;

		for (n = 0, q = 0; q < j->size; q++)
			n += same_host(b, r, q);
		if (r == 0)
			first = n;
		j->homogeneous &= n == first;
	}
}

/* Is there a processor for every rank of this host? */
static int pauses_for(const struct bringup *b)
{
	unsigned char all[CORES_MASK_BYTES] = { 0 };
	int cores, i, k, quota;

	for (i = 0; i < b->job->local_size; i++)
		for (k = 0; k < CORES_MASK_BYTES; k++)
			all[k] |= b->cards[b->local[i]].mask[k];
	cores = cores_count(all);
	quota = b->cards[b->job->rank].quota;
	if (quota > 0 && quota < cores)
		cores = quota;
	return b->job->local_size <= cores ? SPIN : NO_SPIN;
}

/* A rank that shares memory with nobody has a seat all the same. */
static int sit_alone(struct job *j, struct err *e)
{
	j->seat = aligned_alloc(64, sizeof(*j->seat));
	if (!j->seat)
		return fail(e, RINGUP_ENOMEM, "no memory for the engine");
	memset(j->seat, 0, sizeof(*j->seat));
	j->row = (struct row){ .seats = j->seat, .sleepers = &j->sleepers, .count = 1 };
	j->engine.row = &j->row;
	j->engine.alarm = &j->alarm;
	j->engine.left = &j->left;
	return 0;
}

static int share_memory(struct bringup *b, struct err *e)
{
	struct job *j = b->job;
	size_t extra = ledger_bytes(j->size);
	int *pids, i, rc;

	pids = calloc((size_t)j->size, sizeof(*pids));
	if (!pids)
		return fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", j->size);
	for (i = 0; i < j->size; i++)
		pids[i] = b->cards[i].pid;
	if (j->rank == 0)
		rc = segment_make(&j->segment, &b->door, j->size, pids, extra, b->deadline, e);
	else
		rc = segment_join(&j->segment, b->cards[0].door, pids[0], j->rank, j->size,
				  extra, b->deadline, e);
	free(pids);
	if (!rc)
		rc = ledger_open(&j->ledger, &j->segment, b->cards[0].eager_bytes, e);
	if (rc)
		return rc;
	j->engine.row = &j->segment.row;
	j->engine.alarm = &j->segment.head->alarm;
	j->engine.left = &j->segment.head->left;
	j->engine.agree = &agree_ledger;
	j->engine.agreement = &j->ledger;
	j->engine.ledger = &j->ledger;
	return 0;
}

static int connect_hosts(struct bringup *b, struct err *e)
{
	struct job *j = b->job;
	char address[128];
	struct err why = { 0 };
	int rc;

	rc = own_address(b->conf, j->host_count == 1, address, sizeof(address), &why);
	/* A rank without an address must tell the others before they wait for it. */
	if (rc)
		*e = why;
	rc = agree_on(j, rc, e);
	if (!rc)
		rc = mesh_open(&j->mesh, j->rank, j->size, address, &j->meeting.secret,
			       j->meeting.exchange, j->meeting.ctx, b->deadline, e);
	return rc ? rc : sit_alone(j, e);
}

static void tell_star(void *ctx, int code, const char *why)
{
	struct job *j = ctx;

	star_alarm(j->star, code, why);
	watch_stir(&j->watch);
}

static int agree_by_star(struct bringup *b, struct err *e)
{
	struct job *j = b->job;
	struct star_events ev;
	int rc;

	rc = watch_events(&j->watch, &j->engine, j->size, &ev, e);
	if (!rc)
		rc = star_open(&j->star, &j->mesh, &ev, e);
	if (rc)
		return rc;
	j->engine.agree = &agree_star;
	j->engine.agreement = j->star;
	j->engine.on_alarm = tell_star;
	j->engine.on_alarm_ctx = j;
	return 0;
}

/* The first of the list that serves this job; or the one that was asked for. */
static int choose_backend(struct bringup *b, struct err *e)
{
	struct engine *g = &b->job->engine;
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
	struct job *j = b->job;
	bool tcp = !strncmp(b->cards[0].backend, "tcp", sizeof(b->cards[0].backend));
	int rc;

	if (j->size == 1 || (j->host_count == 1 && !tcp)) {
		rc = share_memory(b, e);
	} else {
		rc = connect_hosts(b, e);
		if (!rc)
			rc = agree_by_star(b, e);
	}
	if (rc)
		return rc;
	j->engine.team = (struct team){
		.rank = j->rank,
		.size = j->size,
		.hosts = j->host_count,
		.segment = j->segment.base ? &j->segment : NULL,
		.mesh = j->mesh.control ? &j->mesh : NULL,
		.abort = &j->engine.alarm->word,
	};
	j->engine.row->pauses = pauses_for(b);
	j->engine.eager_bytes = b->cards[0].eager_bytes;
	j->engine.fusion_bytes = b->cards[0].fusion_bytes;
	return choose_backend(b, e);
}

static int start_threads(struct bringup *b, struct err *e)
{
	struct job *j = b->job;
	int r, rc;

	j->peers = calloc((size_t)j->size, sizeof(*j->peers));
	if (!j->peers)
		return fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", j->size);
	for (r = 0; r < j->size; r++) {
		j->peers[r].pid = b->cards[r].pid;
		memcpy(j->peers[r].host, b->cards[r].name, WATCH_HOST_BYTES - 1);
	}
	rc = engine_start(&j->engine, e);
	if (!rc && !j->star)
		rc = watch_events(&j->watch, &j->engine, j->size, &(struct star_events){ 0 },
				  e);
	if (!rc)
		rc = watch_start(&j->watch, &j->engine, j->star, &j->mesh, j->peers, e);
	return rc;
}

/* From the card on, every step ends by agreeing whether it went well. */
static int bring_up(struct bringup *b, struct err *e)
{
	struct job *j = b->job;
	struct card mine;
	int rc;

	rc = segment_door_open(&b->door, e);
	if (rc)
		return rc;
	fill_card(&mine, b);
	rc = exchange(j, &mine, sizeof(mine), b->cards, e);
	if (!rc)
		rc = check_versions(b, e);
	if (rc)
		return rc;
	locate(b);
	rc = agree_on(j, connect(b, e), e);
	if (rc)
		return rc;
	if (j->segment.base)
		segment_touch(&j->segment);
	return agree_on(j, start_threads(b, e), e);
}

static int meet_others(struct job *j, const struct ringup_init *how, const struct conf *c,
		       int64_t deadline, struct err *e)
{
	struct discovery d;
	char address[128] = "127.0.0.1";
	int rc;

	if (how && how->size) {
		if (how->size < 0 || how->rank < 0 || how->rank >= how->size)
			return fail(e, RINGUP_EINVAL, "rank %d is not below size %d", how->rank,
				    how->size);
		j->rank = how->rank;
		j->size = how->size;
		if (how->exchange)
			return rendezvous_adopt(&j->meeting, j->rank, j->size, how->exchange,
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
	j->rank = d.rank;
	j->size = d.size;
	if (d.size == 1)
		return 0;
	if (how && how->exchange)
		return rendezvous_adopt(&j->meeting, j->rank, j->size, how->exchange, how->ctx,
					e);
	if (d.spans_hosts)
		rc = own_address(c, false, address, sizeof(address), e);
	return rc ? rc : rendezvous_open(&j->meeting, &d, address, deadline, e);
}

static void tear_down(struct job *j)
{
	struct engine *g = &j->engine;
	void *carrier = g->carrier;
	const struct backend *backend = g->backend;

	watch_stop(&j->watch);
	engine_stop(g);
	if (backend)
		backend->close(carrier);
	free(carrier);
	star_close(j->star);
	mesh_close(&j->mesh);
	ledger_close(&j->ledger);
	segment_close(&j->segment);
	rendezvous_close(&j->meeting);
	free(j->seat);
	free(j->peers);
	memset(j, 0, sizeof(*j));
}

int job_open(struct job *j, const struct ringup_init *how, struct err *e)
{
	struct bringup b = { .job = j, .door = { .fd = -1 } };
	struct conf conf;
	char who[32];
	int rc;

	memset(j, 0, sizeof(*j));
	rc = conf_load(&conf, CONF_WARN, e);
	if (rc)
		return rc;
	b.conf = &conf;
	b.deadline = clock_deadline(conf.start_timeout_ms);
	rc = meet_others(j, how, &conf, b.deadline, e);
	if (rc)
		return rc;
	b.cards = calloc((size_t)j->size, sizeof(*b.cards));
	b.local = calloc((size_t)j->size, sizeof(*b.local));
	rc = b.cards && b.local
		     ? bring_up(&b, e)
		     : fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", j->size);
	segment_door_close(&b.door);
	free(b.cards);
	free(b.local);
	if (rc) {
		tear_down(j);
		return rc;
	}
	/* Nothing listens from here on. */
	rendezvous_close(&j->meeting);
	snprintf(who, sizeof(who), "rank %d", j->rank);
	log_set_who(who);
	log_info("rank %d of %d, %d on this host, %d hosts, back end %s", j->rank, j->size,
		 j->local_size, j->host_count, j->engine.backend->name);
	return 0;
}

/* What is not sent when the connections close would look like a death. */
static void say_goodbye(struct job *j)
{
	int64_t until = clock_deadline(BYE_MS);
	bool left;
	int r;

	star_leave(j->star);
	do {
		left = false;
		for (r = 0; r < j->size; r++)
			left |= j->mesh.control[r] && star_wants_out(j->star, r);
		if (left)
			clock_sleep_ms(1);
	} while (left && clock_ns() < until);
}

void job_close(struct job *j)
{
	struct engine *g = &j->engine;
	int flying = engine_flying(g), r;
	char why[96];

	if (flying) {
		snprintf(why, sizeof(why), "rank %d left with %d operations in flight", j->rank,
			 flying);
		engine_alarm(g, RINGUP_ESHUTDOWN, why);
	}
	__atomic_store_n(&g->row->seats[g->row->me].left, 1, __ATOMIC_RELEASE);
	__atomic_store_n(g->left, (uint32_t)j->rank + 1, __ATOMIC_RELEASE);
	for (r = 0; r < g->row->count; r++) {
		seat_ring_one(g->row, r);
		seat_kick(g->row, r);
	}
	if (j->star)
		say_goodbye(j);
	tear_down(j);
}
