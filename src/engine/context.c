/* context.c - this process as a rank, from ringup_init() to ringup_fini(). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/context.h"

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/mpi_find.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/horovod.h"
#include "base/log.h"
#include "engine/comms.h"
#include "engine/engine.h"
#include "engine/liveness.h"
#include "engine/notify.h"
#include "engine/observer.h"
#include "engine/over.h"
#include "engine/p2p.h"
#include "engine/provider.h"
#include "nicpick/own.h"
#include "wire/discover.h"
#include "wire/lobby.h"

enum { BYE_MS = 1000 /* the longest wait for other ranks when this one leaves */ };

/* State of the start, from the exchange of peer infos to a complete world. */
struct bringup {
	struct context *context;
	struct peer_info *infos; /* of every rank */
	struct segment_door door;
	struct bootstrap bootstrap;
	int64_t deadline;
	uint64_t groups; /* number of groups that this rank will add at once */
};

static int check_versions(const struct peer_info *infos, int size, struct err *e)
{
	for (int r = 0; r < size; r++)
		if (strncmp(infos[r].version, infos[0].version, sizeof(infos[r].version)))
			return fail(e, RINGUP_EMISMATCH,
				    "rank 0 runs ringup %.31s, rank %d runs %.31s",
				    infos[0].version, r, infos[r].version);
	return 0;
}

/* All ranks add the same number of groups: a rank with more would wait for the others. */
static int check_groups(const struct peer_info *infos, int size, struct err *e)
{
	for (int r = 1; r < size; r++)
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
static void locate(struct context *c, const struct peer_info *infos)
{
	int q, first = 0, n, hosts = 0;

	c->homogeneous = true;
	for (int r = 0; r < c->size; r++) {
		int lowest = r;

		for (n = 0, q = 0; q < c->size; q++) {
			if (memcmp(infos[q].host, infos[r].host, IDENTITY_BYTES))
				continue;
			lowest = q < lowest ? q : lowest;
			if (r == c->rank && is_before(infos, q, r))
				c->local_rank++;
			n++;
		}
		first = r ? first : n;
		c->homogeneous &= n == first;
		if (lowest == r) {
			if (!memcmp(infos[r].host, infos[c->rank].host, IDENTITY_BYTES))
				c->host_rank = hosts;
			hosts++;
		}
		if (r == c->rank)
			c->local_size = n;
	}
	c->host_count = hosts;
}

static void tell_hosts(void *ctx, int culprit, int code, const char *why)
{
	tree_alarm(((struct context *)ctx)->world.tree, culprit, code, why);
}

/* A rank without an address must tell the other ranks before they wait for it. */
static int find_address(struct bringup *b, char *address, size_t len, struct err *e)
{
	struct context *c = b->context;
	struct err why = { 0 };
	int rc = own_address(&c->conf, c->host_count == 1, address, len, &why);

	if (rc)
		*e = why;
	return bootstrap_agree(&b->bootstrap, rc, e);
}

/* Opens messages between two ranks.  Other ranks use the area as soon as all have agreed. */
static int open_p2p(struct context *c, struct err *e)
{
	struct p2p_setup s = { .engine = &c->engine,
			       .topo = &c->world.comm.topo,
			       .shared = group_p2p_area(&c->world),
			       .use_cma = c->conf.single_copy != 0,
			       .tree = c->world.tree,
			       .address = c->address,
			       .secret = &c->secret };

	return p2p_open(&c->engine.p2p, &s, e);
}

static int connect_world(struct bringup *b, struct tree_events *ev, struct err *e)
{
	struct context *c = b->context;
	struct group_site site = { .conf = &c->conf,
				   .engine = &c->engine,
				   .infos = b->infos,
				   .door = &b->door,
				   .bootstrap = &b->bootstrap,
				   .secret = &c->meeting.secret,
				   .events = ev,
				   .deadline = b->deadline };
	int rc = 0;

	if (c->world.comm.topo.hosts > 1)
		rc = find_address(b, c->address, sizeof(c->address), e);
	site.address = c->address;
	if (!rc)
		rc = group_share(&c->world, &site, e);
	if (!rc) {
		c->engine.waitset = c->world.comm.waitset;
		c->engine.progress = group_progress(&c->world);
		c->engine.liveness = group_liveness(&c->world);
		c->engine.alarm = &c->world.segment.head->alarm;
		rc = group_connect(&c->world, &site, e);
	}
	return rc ? rc : open_p2p(c, e);
}

/* The job's secret is wiped when all ranks have met; groups have one of their own. */
static void keep_secret(struct context *c)
{
	struct secret *s = &c->meeting.secret;

	if (c->world.comm.topo.hosts > 1)
		secret_hkdf(c->secret.key, sizeof(c->secret.key),
			    (struct secret_part){ s->key, sizeof(s->key) },
			    (struct secret_part){ "groups", 6 },
			    (struct secret_part[]){ { "ringup", 6 }, { NULL, 0 } });
}

static void context_describe(void *ctx, struct comm *comm, const struct op_late *late,
			     char *out, size_t len)
{
	const struct context *c = ctx;

	stall_describe(&c->watch.stall, comm, late, out, len);
}

struct timeline_rank context_self(const struct context *c)
{
	return (struct timeline_rank){ c->rank, c->size, c->host, c->part };
}

static void begin_timeline(struct context *c)
{
	struct timeline_rank self = context_self(c);

	timeline_begin(&c->engine, &self, &c->conf);
}

static int start_threads(struct bringup *b, struct err *e)
{
	struct context *c = b->context;
	int rc;

	c->peers = calloc((size_t)c->size, sizeof(*c->peers));
	c->counts = calloc((size_t)c->size, sizeof(*c->counts));
	c->launched = calloc((size_t)c->size, sizeof(*c->launched));
	if (!c->peers || !c->counts || !c->launched)
		return fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", c->size);
	memcpy(c->host, b->infos[c->rank].name, sizeof(c->host) - 1);
	for (int r = 0; r < c->size; r++) {
		c->peers[r].pid = b->infos[r].pid;
		memcpy(c->peers[r].host, b->infos[r].name, HEARTBEAT_HOST_BYTES - 1);
	}
	for (int r = 0; r < c->size; r++)
		c->launched[r] = b->infos[r].launch == b->infos[c->rank].launch
					 ? (int)b->infos[r].launched
					 : -1;
	c->engine.cause = &c->cause;
	c->engine.launched = c->launched;
	c->engine.self = &c->peers[c->rank];
	c->engine.trace.ranks = c->part_ranks;
	if (c->world.tree) {
		c->engine.on_alarm = tell_hosts;
		c->engine.on_alarm_ctx = c;
	}
	rc = comms_add(&c->engine, &c->world.comm, e);
	c->world.open = rc >= 0;
	if (rc >= 0)
		observer_meet(&c->observe, &c->engine, c->peers, c->part_ranks);
	c->watch.observe = &c->observe;
	c->watch.ras_port = c->conf.ras == 1 ? RAS_PORT : (int)c->conf.ras;
	if (rc >= 0)
		rc = engine_start(&c->engine, e);
	if (!rc)
		rc = watch_start(&c->watch, &c->world.comm.topo, c->world.tree, c->peers,
				 &b->infos[0].rules, e);
	if (!rc) {
		c->engine.describe_ctx = c;
		c->engine.describe = context_describe;
	}
	/* Here: no rank may begin an operation before all know the ranks with a timeline. */
	if (!rc)
		begin_timeline(c);
	return rc;
}

/* Opens the pipe for the reason of a failure, whichever way the ranks meet.  Without it the
 * launcher guesses which rank failed first, which is no reason to fail. */
static void open_cause(struct context *c, struct peer_info *mine)
{
	struct err e = { 0 };
	int fd, number = discover_launched(&mine->launch, &fd);

	mine->launched = number;
	if (number < 0 || c->cause.fd)
		return;
	if (cause_open(&c->cause, fd, number, &e))
		log_warn("%s", e.text);
	c->cause.has_met_here = !c->met_elsewhere;
}

/* From the peer info on, every step ends with an agreement whether all ranks succeeded. */
static int bring_up(struct bringup *b, struct err *e)
{
	struct context *c = b->context;
	struct tree_events ev = { 0 };
	struct peer_info mine;
	int rc;

	rc = segment_door_open(&b->door, e);
	if (rc)
		return rc;
	group_peer_info(&mine, &c->conf, &b->door);
	mine.digest = b->groups;
	mine.slot = c->slot;
	open_cause(c, &mine);
	rc = bootstrap_exchange(&b->bootstrap, &mine, sizeof(mine), b->infos, e);
	if (!rc)
		rc = check_versions(b->infos, c->size, e);
	if (!rc)
		rc = check_groups(b->infos, c->size, e);
	if (rc)
		return rc;
	locate(c, b->infos);
	c->world.rank = c->rank;
	c->world.size = c->size;
	rc = group_locate(&c->world, b->infos, e);
	if (!rc)
		watch_events(&c->watch, &c->engine, &ev);
	if (!rc)
		rc = connect_world(b, &ev, e);
	rc = bootstrap_agree(&b->bootstrap, rc, e);
	if (rc)
		return rc;
	keep_secret(c);
	segment_touch(&c->world.segment);
	return bootstrap_agree(&b->bootstrap, start_threads(b, e), e);
}

/*
 * The process that is a rank of an elastic job; 0: none yet.  To the launcher a second call
 * would be a rank that wants to meet the others again, and end the generation.
 */
static pid_t joined;

/* Argument of the last ringup_state_synced() of this process; like the state, it outlives a
 * context.
 */
static enum lobby_state synced_state = LOBBY_STATE_UNKNOWN;

void context_state_synced(bool synced)
{
	__atomic_store_n(&synced_state, synced ? LOBBY_STATE_HELD : LOBBY_STATE_NONE,
			 __ATOMIC_RELAXED);
}

/* Meets the other ranks of an elastic job; the launcher gives rank and size. */
static int meet_generation(struct context *c, const struct discovery *d, struct err *e)
{
	struct lobby_place place = { 0 };
	int rc;

	if (__atomic_load_n(&joined, __ATOMIC_RELAXED) == getpid())
		return fail(e, RINGUP_EBUSY,
			    "this process already is a rank of the elastic job: call "
			    "ringup_fini() before it joins again");
	rc = rendezvous_await(&c->meeting, d, __atomic_load_n(&synced_state, __ATOMIC_RELAXED),
			      c->conf.start_timeout_ms, &place, e);

	c->generation = place.generation;
	if (rc)
		return rc;
	c->slot = place.slot;
	c->rank = (int)place.rank;
	c->size = (int)place.size;
	return d->notice_fd < 0 ? 0 : notice_map(&c->notice, d->notice_fd, e);
}

/* Tells the observation page what this rank is, as far as that is known before the ranks meet.
 */
static void observe_self(struct context *c)
{
	struct observe_page *p = c->observe.page;

	if (!p)
		return;
	observe_begin(&c->observe);
	p->rank = c->rank < OBSERVE_RANKS ? c->rank : -1;
	p->size = c->size < OBSERVE_RANKS ? c->size : 0;
	p->generation = c->generation;
	snprintf(p->release, sizeof(p->release), "%s", PACKAGE_VERSION);
	snprintf(p->part, sizeof(p->part), "%s", c->part ? c->part : "");
	observe_end(&c->observe);
}

/* Meets the other ranks by the program's own exchange. */
static int adopt(struct context *c, const struct ringup_init *how, const struct conf *conf,
		 struct err *e)
{
	struct rendezvous_caller caller = { .rank = c->rank,
					    .size = c->size,
					    .exchange = how->exchange,
					    .ctx = how->ctx,
					    .secret = conf->secret };

	return rendezvous_adopt(&c->meeting, &caller, e);
}

static int meet_others(struct context *c, const struct ringup_init *how,
		       const struct conf *conf, int64_t deadline, struct err *e)
{
	struct discovery d;
	char address[128] = "127.0.0.1";
	int rc;

	if (how && how->size) {
		if (how->size < 0 || how->rank < 0 || how->rank >= how->size)
			return fail(e, RINGUP_EINVAL, "rank %d is not below size %d", how->rank,
				    how->size);
		c->rank = how->rank;
		c->size = how->size;
		observe_self(c);
		c->met_elsewhere = true;
		if (how->exchange)
			return adopt(c, how, conf, e);
		if (how->size == 1)
			return 0;
	}
	rc = discover(&d, e);
	if (rc)
		return rc;
	if (d.worker >= 0 && !(how && (how->size || how->exchange)))
		return meet_generation(c, &d, e);
	if (how && how->size) {
		d.rank = how->rank;
		d.size = how->size;
	}
	c->rank = d.rank;
	c->size = d.size;
	observe_self(c);
	if (d.size == 1)
		return 0;
	if (how && how->exchange)
		return adopt(c, how, conf, e);
	/* A meeting place that is a directory is one that hosts share. */
	if (d.spans_hosts && backend_is_named(conf->backend, "mpi"))
		mpi_find_begin();
	if (d.spans_hosts || strchr(d.meet, '/'))
		rc = own_address(conf, false, address, sizeof(address), e);
	return rc ? rc : rendezvous_open(&c->meeting, &d, address, deadline, e);
}

static void part_free(struct context *c)
{
	free(c->part);
	free(c->part_ranks);
	c->part = NULL;
	c->part_ranks = NULL;
}

static int part_check(const struct ringup_init *how, struct err *e)
{
	if (!how || (!how->part && !how->part_ranks))
		return 0;
	if (!how->part || !how->part_ranks || !how->size)
		return fail(e, RINGUP_EINVAL,
			    "a job within another job needs a name, a size and ranks");
	for (int r = 0; r < how->size; r++)
		if (how->part_ranks[r] < 0)
			return fail(e, RINGUP_EINVAL, "rank %d of a job is %d in a larger one",
				    r, how->part_ranks[r]);
	return 0;
}

/*
 * Keeps what timelines show of a job that is a part of a larger one.  Each generation of an
 * elastic job is shown as a job of its own: its operations are counted from the beginning.
 */
static int part_keep(struct context *c, const struct ringup_init *how, struct err *e)
{
	const char *name = how ? how->part : NULL;
	const int *ranks = how ? how->part_ranks : NULL;
	size_t bytes = (size_t)c->size * sizeof(*ranks);
	char generation[24];

	if (!name && c->generation > 1) {
		snprintf(generation, sizeof(generation), "generation %u", c->generation);
		name = generation;
	}
	c->part = name ? strdup(name) : NULL;
	c->part_ranks = ranks ? malloc(bytes) : NULL;
	if ((name && !c->part) || (ranks && !c->part_ranks))
		return fail(e, RINGUP_ENOMEM, "no memory for the numbers of %d ranks", c->size);
	if (ranks)
		memcpy(c->part_ranks, ranks, bytes);
	return 0;
}

static void tear_down(struct context *c)
{
	/* The progress thread uses the watch, so it ends first. */
	engine_stop(&c->engine);
	watch_stop(&c->watch);
	timeline_close(&c->engine);
	p2p_close(c->engine.p2p);
	c->engine.p2p = NULL;
	c->world.open = false;
	group_close(&c->world);
	rendezvous_close(&c->meeting);
	free(c->peers);
	free(c->counts);
	free(c->launched);
	secret_wipe(&c->secret);
	notice_close(&c->notice);
	observe_close(&c->observe);
	part_free(c);
	memset(c, 0, sizeof(*c));
}

/* Sets the operations of joined ranks: the user's setting, else the program's. */
static int choose_join(struct conf *conf, const struct ringup_init *how, struct err *e)
{
	if (*conf->join && strcmp(conf->join, "sums") && strcmp(conf->join, "all"))
		return fail(e, RINGUP_EINVAL, "RINGUP_JOIN=%s: must be sums or all",
			    conf->join);
	if (!*conf->join && how && how->join_sums)
		conf->join = "sums";
	return 0;
}

static int check_ras(const struct conf *conf, struct err *e)
{
	if (conf->ras >= 0 && conf->ras <= 65535)
		return 0;
	return fail(e, RINGUP_EINVAL, "RINGUP_RAS=%lld: not a port; 1 stands for port %d",
		    (long long)conf->ras, RAS_PORT);
}

/* One attempt to become a rank of a job. */
static int context_attempt(struct context *c, const struct ringup_init *how,
			   uint32_t *generation, struct err *e)
{
	struct bringup b = { .context = c,
			     .door = { .fd = -1 },
			     .groups = how ? (uint64_t)how->group_count : 0 };
	int rc;

	memset(c, 0, sizeof(*c));
	rc = conf_load(&c->conf, CONF_WARN, e);
	if (!rc)
		rc = choose_join(&c->conf, how, e);
	if (!rc)
		rc = check_ras(&c->conf, e);
	if (!rc)
		rc = part_check(how, e);
	if (rc)
		return rc;
	observe_open(&c->observe);
	b.deadline = clock_deadline(c->conf.start_timeout_ms);
	rc = meet_others(c, how, &c->conf, b.deadline, e);
	*generation = c->generation;
	if (!rc)
		rc = part_keep(c, how, e);
	if (!rc)
		observe_self(c);
	if (rc) {
		observe_close(&c->observe);
		part_free(c);
		rendezvous_close(&c->meeting);
		notice_close(&c->notice);
		return rc;
	}
	/* The wait for a generation has no deadline. */
	if (c->generation)
		b.deadline = clock_deadline(c->conf.start_timeout_ms);
	/* All ranks have the same environment, as a rule; rank 0 logs for all. */
	if (c->rank == 0)
		horovod_tell();
	b.bootstrap = (struct bootstrap){ c->rank, c->size, c->meeting.exchange, c->meeting.ctx,
					  &c->meeting.why };
	b.infos = calloc((size_t)c->size, sizeof(*b.infos));
	rc = b.infos ? bring_up(&b, e)
		     : fail(e, RINGUP_ENOMEM, "no memory to start %d ranks", c->size);
	segment_door_close(&b.door);
	free(b.infos);
	if (rc)
		tear_down(c);
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

int context_open(struct context *c, const struct ringup_init *how, struct err *e)
{
	uint32_t generation;
	char who[32];
	int rc;

	do {
		generation = 0;
		rc = context_attempt(c, how, &generation, e);
		if (rc && is_passing(generation, rc))
			log_info("generation %u has not met: %s", generation, e->text);
	} while (rc && is_passing(generation, rc));
	if (rc)
		return rc;
	if (generation)
		__atomic_store_n(&joined, getpid(), __ATOMIC_RELAXED);
	cause_join(&c->cause);
	/* From here on no socket listens. */
	rendezvous_close(&c->meeting);
	snprintf(who, sizeof(who), "rank %d", c->rank);
	log_set_who(who);
	log_info("rank %d of %d, %d on this host, %d hosts, back end %s", c->rank, c->size,
		 c->local_size, c->host_count, provider_name(&c->world.comm));
	return 0;
}

/* Leaves a communicator, and notifies its other ranks. */
static void leave_comm(struct comm *c, void *arg)
{
	(void)arg;
	/* This rank has no operation in flight, so its progress thread need not look. */
	__atomic_store_n(&c->over, true, __ATOMIC_RELAXED);
	over_leave(c->left, c->topo.rank);
	notify_ranks(c->engine, c->waitset);
}

bool context_leave(struct context *c)
{
	struct engine *g = &c->engine;
	int64_t patience;
	int flying;
	char why[96];

	/* The job goes on in the parent; the shared memory is not mapped here. */
	if (!engine_is_mine(g))
		return false;
	/* First, so that later failures are not taken for the reason of an end. */
	cause_leave(&c->cause);
	observe_enter(&c->observe, OBSERVE_LEFT);
	flying = engine_flying(g);
	if (flying) {
		snprintf(why, sizeof(why), "rank %d left with %d operations in flight", c->rank,
			 flying);
		notify_alarm(g, c->rank, RINGUP_ESHUTDOWN, why);
	}
	/* A receiver without a processor is late, and is not lost before lost_ms. */
	patience = c->conf.lost_ms > BYE_MS ? c->conf.lost_ms : BYE_MS;
	p2p_flush(g->p2p, clock_deadline(patience));
	p2p_bye(g->p2p);
	comms_visit(g, leave_comm, NULL);
	/* Unsent frames when the connections close would look like a death. */
	watch_goodbye(&c->watch, clock_deadline(BYE_MS));
	p2p_relay(g->p2p, clock_deadline(patience));
	liveness_leave(&g->liveness[g->waitset->me]);
	p2p_leave(g->p2p);
	engine_settle(g);
	return true;
}

void context_close(struct context *c)
{
	if (c->generation)
		__atomic_store_n(&joined, 0, __ATOMIC_RELAXED);
	tear_down(c);
}
