/* member.c - this process as a rank: all between ringup_init() and ringup_fini(). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/mpi_early.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/horovod.h"
#include "base/log.h"
#include "engine/comms.h"
#include "engine/engine.h"
#include "engine/execute.h"
#include "engine/liveness.h"
#include "engine/notify.h"
#include "engine/op.h"
#include "engine/over.h"
#include "engine/p2p.h"
#include "engine/provider.h"
#include "engine/request.h"
#include "engine/timeline.h"
#include "nicpick/own.h"
#include "wire/chan.h"
#include "wire/discover.h"
#include "wire/lobby.h"
#include "wire/ranks.h"

enum { BYE_MS = 1000 /* the longest wait for other ranks when this one leaves */ };

/* State of the start, from the exchange of peer infos to a complete world. */
struct bringup {
	struct member *member;
	struct peer_info *infos; /* of every rank */
	struct segment_door door;
	struct bootstrap bootstrap;
	int64_t deadline;
	uint64_t groups; /* number of groups that this rank will add at once */
};

static int check_versions(const struct peer_info *infos, int size, struct err *e)
{
	int r;

	for (r = 0; r < size; r++)
		if (strncmp(infos[r].version, infos[0].version, sizeof(infos[r].version)))
			return fail(e, RINGUP_EMISMATCH,
				    "rank 0 runs ringup %.31s, rank %d runs %.31s",
				    infos[0].version, r, infos[r].version);
	return 0;
}

/* All ranks add the same number of groups: a rank with more would wait for the others. */
static int check_groups(const struct peer_info *infos, int size, struct err *e)
{
	int r;

	for (r = 1; r < size; r++)
		if (infos[r].digest != infos[0].digest)
			return fail(e, RINGUP_EMISMATCH,
				    "rank 0 asks for %lld groups, rank %d for %lld",
				    (long long)infos[0].digest, r, (long long)infos[r].digest);
	return 0;
}

/*
 * The order of local ranks.  In an elastic job it is that of the slots: a worker that takes a
 * free slot has a local rank, and so a device, that none of the others has taken before.
 */
static bool is_before(const struct peer_info *infos, int a, int b)
{
	return infos[a].slot < infos[b].slot || (infos[a].slot == infos[b].slot && a < b);
}

/* Sets the places that the user may ask for; ranks held "apart" are on one host here. */
static void locate(struct member *m, const struct peer_info *infos)
{
	int r, q, first = 0, n, hosts = 0;

	m->homogeneous = true;
	for (r = 0; r < m->size; r++) {
		int lowest = r;

		for (n = 0, q = 0; q < m->size; q++) {
			if (memcmp(infos[q].host, infos[r].host, IDENTITY_BYTES))
				continue;
			lowest = q < lowest ? q : lowest;
			if (r == m->rank && is_before(infos, q, r))
				m->local_rank++;
			n++;
		}
		first = r ? first : n;
		m->homogeneous &= n == first;
		if (lowest == r) {
			if (!memcmp(infos[r].host, infos[m->rank].host, IDENTITY_BYTES))
				m->host_rank = hosts;
			hosts++;
		}
		if (r == m->rank)
			m->local_size = n;
	}
	m->host_count = hosts;
}

static void tell_hosts(void *ctx, int culprit, int code, const char *why)
{
	tree_alarm(((struct member *)ctx)->world.tree, culprit, code, why);
}

static bool is_apart(const struct peer_info *infos)
{
	return !strncmp(infos[0].backend, "tcp", sizeof(infos[0].backend));
}

/* A rank without an address must tell the other ranks before they wait for it. */
static int find_address(struct bringup *b, char *address, size_t len, struct err *e)
{
	struct member *m = b->member;
	struct err why = { 0 };
	int rc = own_address(&m->conf, m->host_count == 1, address, len, &why);

	if (rc)
		*e = why;
	return bootstrap_agree(&b->bootstrap, rc, e);
}

/* Opens messages between two ranks.  Other ranks use the area as soon as all have agreed. */
static int open_p2p(struct member *m, struct err *e)
{
	struct p2p_setup s = { .engine = &m->engine,
			       .topo = &m->world.comm.topo,
			       .shared = group_p2p_area(&m->world),
			       .use_cma = m->conf.single_copy != 0,
			       .tree = m->world.tree,
			       .address = m->address,
			       .secret = &m->secret };

	return p2p_open(&m->engine.p2p, &s, e);
}

static int connect_world(struct bringup *b, struct tree_events *ev, struct err *e)
{
	struct member *m = b->member;
	struct group_site site = { .conf = &m->conf,
				   .engine = &m->engine,
				   .infos = b->infos,
				   .door = &b->door,
				   .bootstrap = &b->bootstrap,
				   .secret = &m->meeting.secret,
				   .events = ev,
				   .deadline = b->deadline };
	int rc = 0;

	if (m->world.comm.topo.hosts > 1)
		rc = find_address(b, m->address, sizeof(m->address), e);
	site.address = m->address;
	if (!rc)
		rc = group_share(&m->world, &site, e);
	if (!rc) {
		m->engine.waitset = m->world.comm.waitset;
		m->engine.progress = group_progress(&m->world);
		m->engine.liveness = group_liveness(&m->world);
		m->engine.alarm = &m->world.segment.head->alarm;
		rc = group_connect(&m->world, &site, e);
	}
	return rc ? rc : open_p2p(m, e);
}

/* The job's secret is wiped when all ranks have met; groups have one of their own. */
static void keep_secret(struct member *m)
{
	struct secret *s = &m->meeting.secret;

	if (m->world.comm.topo.hosts > 1)
		secret_hkdf(m->secret.key, sizeof(m->secret.key),
			    (struct secret_part){ s->key, sizeof(s->key) },
			    (struct secret_part){ "groups", 6 },
			    (struct secret_part[]){ { "ringup", 6 }, { NULL, 0 } });
}

static void describe(void *ctx, struct comm *l, const struct ringup_op *op, char *out,
		     size_t len)
{
	const struct member *m = ctx;

	stall_describe(&m->watch.stall, l, op, out, len);
}

static int start_threads(struct bringup *b, struct err *e)
{
	struct member *m = b->member;
	int r, rc;

	m->peers = calloc((size_t)m->size, sizeof(*m->peers));
	m->counts = calloc((size_t)m->size, sizeof(*m->counts));
	if (!m->peers || !m->counts)
		return fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", m->size);
	memcpy(m->host, b->infos[m->rank].name, sizeof(m->host) - 1);
	for (r = 0; r < m->size; r++) {
		m->peers[r].pid = b->infos[r].pid;
		memcpy(m->peers[r].host, b->infos[r].name, HEARTBEAT_HOST_BYTES - 1);
	}
	m->engine.cause = &m->cause;
	if (m->world.tree) {
		m->engine.on_alarm = tell_hosts;
		m->engine.on_alarm_ctx = m;
	}
	rc = comms_add(&m->engine, &m->world.comm, e);
	m->world.open = rc >= 0;
	if (rc >= 0)
		rc = engine_start(&m->engine, e);
	if (!rc)
		rc = watch_start(&m->watch, &m->world.comm.topo, m->world.tree, m->peers,
				 &b->infos[0].rules, e);
	if (!rc) {
		m->engine.describe_ctx = m;
		m->engine.describe = describe;
	}
	/* Here: no rank may begin an operation before all know the ranks with a timeline. */
	if (!rc)
		timeline_begin(&m->engine, &(struct timeline_rank){ m->rank, m->size, m->host },
			       &m->conf);
	return rc;
}

/* From the peer info on, every step ends with an agreement whether all ranks succeeded. */
static int bring_up(struct bringup *b, struct err *e)
{
	struct member *m = b->member;
	struct tree_events ev = { 0 };
	struct peer_info mine;
	int rc;

	rc = segment_door_open(&b->door, e);
	if (rc)
		return rc;
	group_peer_info(&mine, &m->conf, &b->door);
	mine.digest = b->groups;
	mine.slot = m->slot;
	rc = bootstrap_exchange(&b->bootstrap, &mine, sizeof(mine), b->infos, e);
	if (!rc)
		rc = check_versions(b->infos, m->size, e);
	if (!rc)
		rc = check_groups(b->infos, m->size, e);
	if (rc)
		return rc;
	locate(m, b->infos);
	m->world.rank = m->rank;
	m->world.size = m->size;
	rc = group_locate(&m->world, b->infos, is_apart(b->infos), e);
	if (!rc)
		watch_events(&m->watch, &m->engine, &ev);
	if (!rc)
		rc = connect_world(b, &ev, e);
	rc = bootstrap_agree(&b->bootstrap, rc, e);
	if (rc)
		return rc;
	keep_secret(m);
	segment_touch(&m->world.segment);
	return bootstrap_agree(&b->bootstrap, start_threads(b, e), e);
}

/*
 * The process that is a rank of an elastic job; 0: none yet.  To the launcher a second call
 * would be a rank that wants to meet the others again, and end the generation.
 */
static pid_t joined;

/* Meets the other ranks of an elastic job; the launcher gives rank and size. */
static int meet_generation(struct member *m, const struct discovery *d, struct err *e)
{
	struct lobby_place place = { 0 };
	int rc;

	if (__atomic_load_n(&joined, __ATOMIC_RELAXED) == getpid())
		return fail(e, RINGUP_EBUSY,
			    "this process is a rank of the elastic job already: call "
			    "ringup_fini() before it meets the others again");
	rc = rendezvous_await(&m->meeting, d, m->conf.start_timeout_ms, &place, e);

	m->generation = place.generation;
	if (rc)
		return rc;
	m->slot = place.slot;
	m->rank = (int)place.rank;
	m->size = (int)place.size;
	return d->notice_fd < 0 ? 0 : notice_map(&m->notice, d->notice_fd, e);
}

/* Maps the file for the reason of a failure, by the rank that the launcher has given.  Without
 * the file the launcher guesses which rank failed first, which is no reason to fail. */
static void open_cause(struct member *m, const struct discovery *d,
		       const struct ringup_init *how)
{
	struct err e = { 0 };

	if (d->cause_fd < 0 || (how && how->size))
		return;
	if (cause_map(&m->cause, d->cause_fd, d->rank, &e))
		log_warn("%s", e.text);
}

/* Meets the other ranks by the program's own exchange. */
static int adopt(struct member *m, const struct ringup_init *how, const struct conf *c,
		 struct err *e)
{
	struct rendezvous_caller caller = { .rank = m->rank,
					    .size = m->size,
					    .exchange = how->exchange,
					    .ctx = how->ctx,
					    .secret = c->secret };

	return rendezvous_adopt(&m->meeting, &caller, e);
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
			return adopt(m, how, c, e);
		if (how->size == 1)
			return 0;
	}
	rc = discover(&d, e);
	if (rc)
		return rc;
	if (d.worker >= 0 && !(how && (how->size || how->exchange)))
		return meet_generation(m, &d, e);
	if (how && how->size) {
		d.rank = how->rank;
		d.size = how->size;
	}
	m->rank = d.rank;
	m->size = d.size;
	open_cause(m, &d, how);
	if (d.size == 1)
		return 0;
	if (how && how->exchange)
		return adopt(m, how, c, e);
	/* A meeting place that is a directory is one that hosts share. */
	if (d.spans_hosts && !strcmp(c->backend, "mpi"))
		mpi_early_begin();
	if (d.spans_hosts || strchr(d.meet, '/'))
		rc = own_address(c, false, address, sizeof(address), e);
	return rc ? rc : rendezvous_open(&m->meeting, &d, address, deadline, e);
}

static void tear_down(struct member *m)
{
	/* The progress thread uses the watch, so it ends first. */
	engine_stop(&m->engine);
	watch_stop(&m->watch);
	timeline_close(&m->engine);
	p2p_close(m->engine.p2p);
	m->engine.p2p = NULL;
	m->world.open = false;
	group_close(&m->world);
	rendezvous_close(&m->meeting);
	free(m->peers);
	free(m->counts);
	secret_wipe(&m->secret);
	notice_close(&m->notice);
	cause_close(&m->cause);
	memset(m, 0, sizeof(*m));
}

/* Sets the operations of joined ranks: the user's setting, else the program's. */
static int choose_join(struct conf *c, const struct ringup_init *how, struct err *e)
{
	if (*c->join && strcmp(c->join, "sums") && strcmp(c->join, "all"))
		return fail(e, RINGUP_EINVAL, "RINGUP_JOIN=%s: it is neither sums nor all",
			    c->join);
	if (!*c->join && how && how->join_sums)
		c->join = "sums";
	return 0;
}

/* One attempt to become a rank of a job. */
static int member_attempt(struct member *m, const struct ringup_init *how, uint32_t *generation,
			  struct err *e)
{
	struct bringup b = { .member = m,
			     .door = { .fd = -1 },
			     .groups = how ? (uint64_t)how->group_count : 0 };
	int rc;

	memset(m, 0, sizeof(*m));
	rc = conf_load(&m->conf, CONF_WARN, e);
	if (!rc)
		rc = choose_join(&m->conf, how, e);
	if (rc)
		return rc;
	b.deadline = clock_deadline(m->conf.start_timeout_ms);
	rc = meet_others(m, how, &m->conf, b.deadline, e);
	*generation = m->generation;
	if (rc) {
		rendezvous_close(&m->meeting);
		notice_close(&m->notice);
		cause_close(&m->cause);
		return rc;
	}
	/* The wait for a generation has no deadline. */
	if (m->generation)
		b.deadline = clock_deadline(m->conf.start_timeout_ms);
	/* All ranks have the same environment, as a rule; rank 0 logs for all. */
	if (m->rank == 0)
		horovod_tell();
	b.bootstrap = (struct bootstrap){ m->rank, m->size, m->meeting.exchange, m->meeting.ctx,
					  &m->meeting.why };
	b.infos = calloc((size_t)m->size, sizeof(*b.infos));
	rc = b.infos ? bring_up(&b, e)
		     : fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", m->size);
	segment_door_close(&b.door);
	free(b.infos);
	if (rc)
		tear_down(m);
	return rc;
}

/*
 * A generation may lose a rank before all have met.  The other ranks return to the launcher,
 * which makes a new generation of them, or ends the job.
 */
static bool is_passing(uint32_t generation, int rc)
{
	return generation && (rc == RINGUP_EPEER || rc == RINGUP_ETIMEDOUT);
}

int member_open(struct member *m, const struct ringup_init *how, struct err *e)
{
	uint32_t generation;
	char who[32];
	int rc;

	do {
		generation = 0;
		rc = member_attempt(m, how, &generation, e);
		if (rc && is_passing(generation, rc))
			log_info("generation %u has not met: %s", generation, e->text);
	} while (rc && is_passing(generation, rc));
	if (rc)
		return rc;
	if (generation)
		__atomic_store_n(&joined, getpid(), __ATOMIC_RELAXED);
	cause_join(&m->cause);
	/* From here on no socket listens. */
	rendezvous_close(&m->meeting);
	snprintf(who, sizeof(who), "rank %d", m->rank);
	log_set_who(who);
	log_info("rank %d of %d, %d on this host, %d hosts, back end %s", m->rank, m->size,
		 m->local_size, m->host_count, provider_name(&m->world.comm));
	return 0;
}

/* ---- groups ---- */

/*
 * Ranks of a group exchange bytes by collectives of the world, in which all ranks take part:
 * those outside the group send nothing.  Each message begins with a byte that says whether its
 * sender has more; the exchange in which no rank has more is the last.
 */
struct crossing {
	struct member *member;
	const struct group *group;
	unsigned char *said; /* buffer for this rank's bytes */
	size_t room;
	bool over;
};

enum crossing_state { CROSS_MORE, CROSS_LAST, CROSS_FAILED };

/* Returns the bytes of all ranks, one after the other, with the lengths in m->counts; a failure
 * is kept for bootstrap_exchange(). */
static void *cross_world(struct member *m, const void *mine, size_t len)
{
	void *all = NULL;
	struct request q = { .name = "\x01group",
			     .in = mine,
			     .rows = len,
			     .outp = &all,
			     .counts = m->counts,
			     .signature = { .count = 1,
					    .pre = 1,
					    .post = 1,
					    .kind = PLAN_ALLGATHER,
					    .dtype = RINGUP_U8 } };

	m->why.code = 0;
	engine_submit(&m->world.comm, &q, INT64_MAX, NULL, &m->why);
	return all;
}

/* Checks that the @said bytes of @rank at @what are @len bytes, as from the other ranks. */
static int check_said(struct member *m, int rank, uint64_t said, size_t len, const void *what)
{
	if (said == len)
		return 0;
	if (bootstrap_heard(what, said, rank, &m->why))
		return m->why.code;
	/* A joined rank answers every operation, with nothing. */
	return fail(&m->why, RINGUP_EMISMATCH, "rank %d %s", rank,
		    said ? "says something else" : "has joined, and takes no part");
}

static int exchange_in_world(void *ctx, const void *mine, size_t len, void *all)
{
	struct member *m = ctx;
	const uint64_t *counts = m->counts;
	void *got = cross_world(m, mine, len);
	uint64_t at = 0;
	int r, rc = m->why.code;

	for (r = 0; r < m->size && !rc; at += counts[r++])
		rc = check_said(m, r, counts[r], len, (char *)got + at);
	if (!rc)
		memcpy(all, got, len * (size_t)m->size);
	free(got);
	return rc;
}

static struct bootstrap world_bootstrap(struct member *m)
{
	return (struct bootstrap){ m->rank, m->size, exchange_in_world, m, &m->why };
}

/* The message of this rank, behind the state byte; NULL without memory. */
static void *crossing_say(struct crossing *c, enum crossing_state state, const void *mine,
			  size_t len)
{
	unsigned char *more = len < c->room ? c->said : realloc(c->said, len + 1);

	if (!more)
		return NULL;
	c->said = more;
	c->room = len < c->room ? c->room : len + 1;
	more[0] = (unsigned char)state;
	if (len)
		memcpy(more + 1, mine, len);
	return more;
}

/* Checks the @said bytes at @what from @rank of the group, which should be @len bytes. */
static int check_crossing(struct member *m, int rank, const unsigned char *what, uint64_t said,
			  size_t len)
{
	if (said && *what == CROSS_FAILED)
		return fail(&m->why, RINGUP_EPEER, "rank %d: %.*s", rank, (int)said - 1,
			    what + 1);
	return check_said(m, rank, said ? said - 1 : 0, len, said ? what + 1 : what);
}

/* One exchange in the group; @len bytes of each rank go to @all, if it is not NULL. */
static int cross(struct crossing *c, enum crossing_state state, const void *mine, size_t len,
		 void *all)
{
	struct member *m = c->member;
	const uint64_t *counts = m->counts;
	bool is_in = c->group->rank >= 0;
	void *say = is_in ? crossing_say(c, state, mine, len) : NULL;
	unsigned char *got = cross_world(m, say, say ? len + 1 : 0);
	uint64_t at = 0;
	int r, i = 0, rc = m->why.code;

	/* Without an answer the job is over. */
	c->over = true;
	for (r = 0; r < m->size && got; at += counts[r++]) {
		if (i == c->group->size || c->group->ranks[i] != r)
			continue;
		c->over &= !counts[r] || got[at] != CROSS_MORE;
		if (!rc && state != CROSS_FAILED && is_in)
			rc = check_crossing(m, r, got + at, counts[r], len);
		if (all && !rc)
			memcpy((char *)all + len * (size_t)i, got + at + 1, len);
		i++;
	}
	free(got);
	if (is_in && !say && !rc)
		rc = fail(&m->why, RINGUP_ENOMEM, "no memory for what a group exchanges");
	return rc;
}

static int exchange_in_group(void *ctx, const void *mine, size_t len, void *all)
{
	return cross(ctx, CROSS_MORE, mine, len, all);
}

/* Takes part until no rank has more to send.  @rc is the outcome on this rank. */
static int crossing_end(struct crossing *c, int rc, struct err *e)
{
	const char *text = rc ? e->text : "";
	int last;

	do {
		last = cross(c, rc ? CROSS_FAILED : CROSS_LAST, text, strlen(text), NULL);
		if (last && !rc) {
			*e = c->member->why;
			rc = e->code;
			text = e->text;
		}
	} while (!c->over);
	free(c->said);
	return rc;
}

/* Writes the ranks of a list as text. */
static void group_text(const struct member *m, const int *ranks, uint64_t count, char *out)
{
	bool *in = calloc((size_t)m->size, sizeof(*in));
	uint64_t i;

	for (i = 0; in && i < count; i++)
		if (ranks[i] >= 0 && ranks[i] < m->size)
			in[ranks[i]] = true;
	*out = 0;
	if (in)
		ranks_text(out, in, m->size);
	free(in);
}

/* Ranks ask for different groups, @odd and rank 0 among them: all exchange their lists. */
static int groups_differ(struct member *m, const struct group *g, int odd, struct err *e)
{
	const uint64_t *counts = m->counts;
	uint64_t at = 0;
	int *got = cross_world(m, g->ranks, (size_t)g->size * sizeof(*g->ranks)), r;
	char first[RANKS_TEXT] = "", other[RANKS_TEXT] = "";

	if (m->why.code) {
		*e = m->why;
	} else {
		group_text(m, got, counts[0] / sizeof(*got), first);
		for (r = 0; r < odd; r++)
			at += counts[r] / sizeof(*got);
		group_text(m, got + at, counts[odd] / sizeof(*got), other);
		fail(e, RINGUP_EMISMATCH, "rank 0 asks for a group of %s, rank %d for %s",
		     first, odd, other);
	}
	free(got);
	return e->code;
}

static uint64_t digest_of(const int *ranks, int count)
{
	uint64_t digest = (uint64_t)count;
	int i;

	for (i = 0; i < count; i++)
		digest = (digest ^ (uint64_t)ranks[i]) * 0x100000001b3ULL;
	return digest;
}

/* All ranks have the shared memory: opens connections and back ends. */
static int open_comm(struct member *m, struct group *g, struct group_site *s,
		     struct crossing *c, struct err *e)
{
	int rc = g->rank >= 0 ? group_connect(g, s, e) : 0;

	rc = crossing_end(c, rc, e);
	if (rc || g->rank < 0)
		return rc;
	rc = comms_add(&m->engine, &g->comm, e);
	g->open = rc >= 0;
	if (g->open)
		timeline_join(&g->comm);
	return rc < 0 ? rc : 0;
}

static int open_group(struct member *m, struct group *g, struct peer_info *infos,
		      struct segment_door *door, struct err *e)
{
	struct bootstrap world = world_bootstrap(m);
	struct crossing crossing = { .member = m, .group = g };
	struct tree_events events;
	struct bootstrap bootstrap = { g->rank, g->size, exchange_in_group, &crossing,
				       &m->why };
	struct group_site site = { .conf = &m->conf,
				   .engine = &m->engine,
				   .infos = infos,
				   .door = door,
				   .bootstrap = &bootstrap,
				   .place_of = m->world.local_of,
				   .address = m->address,
				   .secret = &m->secret,
				   .events = &events,
				   .watch = &m->watch,
				   .deadline = clock_deadline(m->conf.start_timeout_ms) };
	struct peer_info mine;
	int i, r, rc;

	watch_group_events(&m->watch, &events);
	group_peer_info(&mine, &m->conf, door);
	g->comm.serial = m->groups + 1;
	mine.digest = digest_of(g->ranks, g->size);
	rc = bootstrap_exchange(&world, &mine, sizeof(mine), infos, e);
	for (r = 1; r < m->size && !rc; r++)
		if (infos[r].digest != infos[0].digest)
			rc = groups_differ(m, g, r, e);
	if (rc)
		return rc;
	m->groups++;
	for (i = 0; i < g->size; i++)
		infos[i] = infos[g->ranks[i]];
	rc = group_locate(g, infos, is_apart(infos), e);
	if (!rc && g->rank >= 0)
		rc = group_share(g, &site, e);
	rc = bootstrap_agree(&world, rc, e);
	if (!rc)
		rc = bootstrap_agree(&world, open_comm(m, g, &site, &crossing, e), e);
	if (!rc && g->rank >= 0)
		segment_touch(&g->segment);
	return rc;
}

/* Allocates what this rank needs, before the other ranks are asked. */
static int prepare(struct member *m, const int *ranks, int count, struct group *g,
		   struct peer_info **infosp, struct segment_door *door, struct err *e)
{
	int i;

	memset(g, 0, sizeof(*g));
	g->rank = -1;
	g->size = count;
	g->ranks = calloc((size_t)count, sizeof(int));
	*infosp = calloc((size_t)m->size, sizeof(**infosp));
	if (!*infosp || !g->ranks)
		return fail(e, RINGUP_ENOMEM, "no memory for a group of %d ranks", count);
	for (i = 0; i < count; i++) {
		g->ranks[i] = ranks[i];
		if (ranks[i] == m->rank)
			g->rank = i;
	}
	return segment_door_open(door, e);
}

int member_group_open(struct member *m, const int *ranks, int count, struct group *g,
		      struct err *e)
{
	struct bootstrap world = world_bootstrap(m);
	struct segment_door door = { .fd = -1 };
	struct peer_info *infos;
	int rc = prepare(m, ranks, count, g, &infos, &door, e);

	/* A rank that failed says so in place of its peer info, which the others wait for. */
	rc = rc ? bootstrap_agree(&world, rc, e) : open_group(m, g, infos, &door, e);
	segment_door_close(&door);
	free(infos);
	if (rc)
		group_close(g);
	return rc;
}

/* The exchange of ranks before they remove a group. */
struct removal {
	uint64_t serial;
	int64_t flying; /* this rank's operations in flight in it */
};

/* Checks that all ranks remove the same group, and that it is idle; alike on all ranks. */
static int may_remove(const struct removal *all, int size, struct err *e)
{
	int r;

	for (r = 1; r < size; r++)
		if (all[r].serial != all[0].serial)
			return fail(e, RINGUP_EMISMATCH,
				    "rank 0 removes the group that was added as number %llu, "
				    "rank %d number %llu",
				    (unsigned long long)all[0].serial, r,
				    (unsigned long long)all[r].serial);
	for (r = 0; r < size; r++)
		if (all[r].flying)
			return fail(e, RINGUP_EBUSY,
				    "%lld operations of rank %d are in flight in the group",
				    (long long)all[r].flying, r);
	return 0;
}

int member_group_close(struct member *m, struct group *g, struct err *e)
{
	struct bootstrap world = world_bootstrap(m);
	struct removal mine = { g->comm.serial, g->rank < 0 ? 0 : execute_flying(&g->comm) };
	struct removal *all = calloc((size_t)m->size, sizeof(*all));
	int rc = all ? 0 : fail(e, RINGUP_ENOMEM, "no memory");

	rc = rc ? bootstrap_agree(&world, rc, e)
		: bootstrap_exchange(&world, &mine, sizeof(mine), all, e);
	if (!rc)
		rc = may_remove(all, m->size, e);
	free(all);
	if (rc)
		return rc;
	if (g->rank >= 0)
		op_hand_over(&g->comm, &m->world.comm);
	group_close(g);
	return 0;
}

/* Leaves a communicator, and notifies its other ranks. */
static void leave_comm(struct comm *l, void *arg)
{
	(void)arg;
	/* This rank has no operation in flight, so its progress thread need not look. */
	__atomic_store_n(&l->over, true, __ATOMIC_RELAXED);
	over_leave(l->left, l->topo.rank);
	notify_ranks(l->engine, l->waitset);
}

bool member_leave(struct member *m)
{
	struct engine *g = &m->engine;
	int flying;
	char why[96];

	/* The job goes on in the parent; the shared memory is not mapped here. */
	if (!engine_is_mine(g))
		return false;
	/* First, so that later failures are not taken for the reason of an end. */
	cause_leave(&m->cause);
	flying = engine_flying(g);
	if (flying) {
		snprintf(why, sizeof(why), "rank %d left with %d operations in flight", m->rank,
			 flying);
		notify_alarm(g, m->rank, RINGUP_ESHUTDOWN, why);
	}
	/* A receiver without a processor is late, and is not lost before lost_ms. */
	p2p_flush(g->p2p, clock_deadline(m->conf.lost_ms > BYE_MS ? m->conf.lost_ms : BYE_MS));
	liveness_leave(&g->liveness[g->waitset->me]);
	p2p_leave(g->p2p);
	comms_visit(g, leave_comm, NULL);
	/* Unsent frames when the connections close would look like a death. */
	watch_goodbye(&m->watch, clock_deadline(BYE_MS));
	engine_settle(g);
	return true;
}

void member_close(struct member *m)
{
	if (m->generation)
		__atomic_store_n(&joined, 0, __ATOMIC_RELAXED);
	tear_down(m);
}
