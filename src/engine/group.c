/* group.c - opens a communicator: shared memory, connections, an agreement, back ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/group.h"

#include "base/build.h"
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "coll/copy.h"
#include "engine/comms.h"
#include "engine/eager_slot.h"
#include "engine/engine_state.h"
#include "engine/execute.h"
#include "engine/ledger.h"
#include "engine/liveness.h"
#include "engine/p2p.h"
#include "engine/progress.h"
#include "engine/provider.h"
#include "engine/tracepoint.h"
#include "ringup.h"

enum {
	SPIN_US = 1000, /* before sleeping, with a processor for every rank: several times the
			 * time of waking a sleeper, or two ranks that once slept would send
			 * each other to sleep for ever */
	NO_SPIN = 20,   /* pauses, without a processor for every rank, or between hosts: a wait
			 * for sockets makes system calls anyway, so it may as well yield */
	HELD_MS = 5000, /* between hosts: the longest time for which a rank adds a name */
	AWAY_US = 2,    /* without a processor for every rank, for a rank on another processor:
			 * about as long as a change of ranks takes there */
};

enum { CROWDED = 4 }; /* times the eager limit for fewer processors than ranks, at least */

_Static_assert(sizeof(struct peer_info) == 408, "peer_info has no holes");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "infos are exchanged as they lie in memory: little-endian only"
#endif

void group_peer_info(struct peer_info *info, const struct conf *conf,
		     const struct segment_door *door)
{
	memset(info, 0, sizeof(*info));
	snprintf(info->version, sizeof(info->version), "%s", build_version());
	identity_get(info->host, conf->node);
	cores_mask(info->mask);
	memcpy(info->door, door->name, sizeof(info->door));
	if (gethostname(info->name, sizeof(info->name) - 1))
		snprintf(info->name, sizeof(info->name), "an unnamed host");
	snprintf(info->backend, sizeof(info->backend), "%s", conf->backend);
	info->eager_bytes = conf->eager_bytes;
	info->fusion_bytes = conf->fusion_bytes;
	info->sockets = (uint64_t)conf->sockets;
	heartbeat_rules_make(&info->rules, conf);
	info->pid = getpid();
	info->quota = cores_quota("");
	info->join_sums = !strcmp(conf->join, "sums");
	info->single_copy = conf->single_copy < 0 ? SINGLE_COPY_LEARNED
			    : conf->single_copy   ? SINGLE_COPY_ON
						  : SINGLE_COPY_OFF;
}

static int *make_list(int size)
{
	return calloc((size_t)size, sizeof(int));
}

/* The back end `tcp` treats each rank as a host of its own. */
static bool is_apart(const struct peer_info *infos)
{
	return backend_is_named(infos[0].backend, "tcp");
}

int group_locate(struct group *g, const struct peer_info *infos, struct err *e)
{
	struct topo *t = &g->comm.topo;
	bool apart = is_apart(infos);
	int hosts = 0;

	g->host_of = make_list(g->size);
	g->local_of = make_list(g->size);
	if (!g->host_of || !g->local_of)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", g->size);
	for (int r = 0; r < g->size; r++) {
		g->host_of[r] = -1;
		for (int q = r - 1; q >= 0 && !apart && g->host_of[r] < 0; q--)
			if (!memcmp(infos[q].host, infos[r].host, IDENTITY_BYTES)) {
				g->host_of[r] = g->host_of[q];
				g->local_of[r] = g->local_of[q] + 1;
			}
		if (g->host_of[r] < 0)
			g->host_of[r] = hosts++;
	}
	*t = (struct topo){ .rank = g->rank,
			    .size = g->size,
			    .host = g->rank < 0 ? -1 : g->host_of[g->rank],
			    .hosts = hosts,
			    .local_rank = g->rank < 0 ? -1 : g->local_of[g->rank],
			    .host_of = g->host_of,
			    .local_of = g->local_of };
	for (int r = 0; r < g->size; r++)
		t->local_size += g->host_of[r] == t->host;
	return 0;
}

/* Lists the ranks of this host, in order. */
static void list_local(const struct group *g, int *local)
{
	int n = 0;

	for (int r = 0; r < g->size; r++)
		if (g->host_of[r] == g->comm.topo.host)
			local[n++] = r;
}

/* Are there fewer processors than ranks on this host?  All its ranks find the same. */
static bool is_crowded(const struct group *g, const struct peer_info *infos, const int *local)
{
	unsigned char all[CORES_MASK_BYTES] = { 0 };
	int cores, quota, n = g->comm.topo.local_size;

	for (int i = 0; i < n; i++)
		for (int k = 0; k < CORES_MASK_BYTES; k++)
			all[k] |= infos[local[i]].mask[k];
	cores = cores_count(all);
	for (int i = 0; i < n; i++) {
		quota = infos[local[i]].quota;
		if (quota > 0 && quota < cores)
			cores = quota;
	}
	return n > cores;
}

static void set_pauses(const struct group *g, const struct peer_info *infos, const int *local)
{
	struct waitset *waitset = g->comm.waitset;
	bool crowded = is_crowded(g, infos, local), alone = g->comm.topo.hosts == 1;

	waitset->policy.pauses = alone && !crowded ? waitset_pauses_in(SPIN_US) : NO_SPIN;
	waitset->policy.away = alone && crowded ? waitset_pauses_in(AWAY_US) : 0;
}

/* The ranks of a group sleep on the waiters of the world, where they sleep anyway. */
static int take_waiters(struct group *g, const struct group_site *s, const int *local,
			struct err *e)
{
	const struct waitset *world = s->engine->waitset;
	int n = g->comm.topo.local_size;

	g->place_of = make_list(n);
	if (!g->place_of)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", n);
	for (int i = 0; i < n; i++)
		g->place_of[i] = s->place_of[g->ranks[local[i]]];
	g->segment.waitset = (struct waitset){ .waiters = world->waiters,
					       .sleepers = world->sleepers,
					       .count = n,
					       .me = g->comm.topo.local_rank,
					       .place_of = g->place_of,
					       .policy = { .pauses = world->policy.pauses,
							   .away = world->policy.away } };
	return 0;
}

/* Offset of the ranks' progress and liveness, behind the memory of the agreement. */
static size_t presence_offset(const struct topo *t)
{
	size_t used =
		ledger_bytes(t->local_size) + (t->hosts > 1 ? host_queue_bytes(t->size) : 0);

	return (used + 4095) / 4096 * 4096;
}

/* Offset of the area of messages, behind progress and liveness. */
static size_t p2p_offset(const struct topo *t)
{
	size_t each = sizeof(struct progress) + sizeof(struct liveness);

	return presence_offset(t) + ((size_t)t->local_size * each + 4095) / 4096 * 4096;
}

struct progress *group_progress(const struct group *g)
{
	unsigned char *extra = g->segment.extra;

	return (struct progress *)(void *)(extra + presence_offset(&g->comm.topo));
}

struct liveness *group_liveness(const struct group *g)
{
	return (struct liveness *)(void *)(group_progress(g) + g->comm.topo.local_size);
}

void *group_p2p_area(const struct group *g)
{
	return (unsigned char *)g->segment.extra + p2p_offset(&g->comm.topo);
}

int group_share(struct group *g, const struct group_site *s, struct err *e)
{
	struct topo *t = &g->comm.topo;
	size_t extra = s->place_of ? presence_offset(t)
				   : p2p_offset(t) + p2p_shared_bytes(t->local_size);
	size_t area = t->hosts == 1 ? SEGMENT_SLOT_AREA : SEGMENT_FAR_AREA;
	int *local = make_list(g->size), *pids = make_list(g->size);
	int *names = make_list(g->size), i, rc;
	struct segment_peers peers = { t->local_size, pids, names, s->engine->alarm };

	if (!local || !pids || !names) {
		rc = fail(e, RINGUP_ENOMEM, "no memory for %d ranks", g->size);
		goto out;
	}
	list_local(g, local);
	for (i = 0; i < t->local_size; i++) {
		pids[i] = s->infos[local[i]].pid;
		names[i] = g->ranks ? g->ranks[local[i]] : local[i];
	}
	if (t->local_rank == 0)
		rc = segment_make(&g->segment, s->door, &peers, area, extra, s->deadline, e);
	else
		rc = segment_join(&g->segment, s->infos[local[0]].door, pids[0], t->local_rank,
				  t->local_size, area, extra, s->deadline, e);
	if (rc == RINGUP_EPEER && t->local_rank)
		fail_in(e, "rank %d (process %d)", names[0], pids[0]);
	if (rc)
		goto out;
	t->segment = &g->segment;
	g->comm.waitset = &g->segment.waitset;
	g->comm.left = &g->segment.head->left;
	if (s->place_of)
		rc = take_waiters(g, s, local, e);
	else
		set_pauses(g, s->infos, local);
out:
	/* A rank that waits there for the memory is to fail at once. */
	if (rc && t->local_rank == 0)
		segment_door_close(s->door);
	free(local);
	free(pids);
	free(names);
	return rc;
}

/* Runs in a child of fork(): closes the connections, so that neighbours detect the death of
 * this rank even if a child, such as a data loader, lives on. */
static void let_go(void *mesh)
{
	mesh_forget(mesh);
}

/* For mesh_open(): an exchange that also keeps the reason of its failure. */
struct say_why {
	const struct bootstrap *bootstrap;
	struct err *e;
};

static int exchange_and_say(void *ctx, const void *mine, size_t len, void *all)
{
	const struct say_why *s = ctx;

	return bootstrap_exchange(s->bootstrap, mine, len, all, s->e);
}

/* The waiting thread may be a leader's watch, which the other hosts must hear meanwhile. */
static int held_ms(const struct heartbeat_rules *r)
{
	uint32_t ms = HELD_MS;

	if (r->freeze_ms && r->freeze_ms < ms)
		ms = r->freeze_ms;
	if (r->lost_ms && r->lost_ms / 2 < ms)
		ms = r->lost_ms / 2 + 1;
	return (int)ms;
}

/* Opens the connections between hosts, and over them their agreement. */
static int agree_hosts(struct group *g, const struct group_site *s, struct err *e)
{
	struct topo *t = &g->comm.topo;
	struct mesh_shape shape = { .rank = g->rank,
				    .size = g->size,
				    .host_of = g->host_of,
				    .local_of = g->local_of,
				    .sockets = (int)s->infos[0].sockets };
	struct say_why why = { s->bootstrap, e };
	struct tree_events events = *s->events;
	int rc = mesh_open(&g->mesh, &shape, s->address, s->secret, exchange_and_say, &why,
			   s->deadline, e);

	/* If the job is over, that is the reason, whatever this rank has seen. */
	if (rc)
		return alarm_get(s->engine->alarm, e) ? e->code : rc;
	mesh_patience(&g->mesh, (int)s->infos[0].rules.lost_ms);
	g->ledger.held_ms = held_ms(&s->infos[0].rules);
	g->fork = (struct forks_hook){ .fn = let_go, .arg = &g->mesh };
	forks_add(&g->fork);
	rc = host_queue_open(&g->host_queue, &g->ledger, s->engine->progress, t, e);
	if (rc)
		return rc;
	g->agree.host_queue = &g->host_queue;
	t->mesh = &g->mesh;
	if (t->local_rank)
		return 0;
	events.arrived = tracepoint_arrived;
	events.comm = &g->comm;
	rc = tree_open(&g->tree, &g->host_queue, t, MESH_FAN, g->comm.fusion_bytes, &events, e);
	g->agree.tree = g->tree;
	g->watch = s->watch;
	if (!rc && g->watch)
		rc = watch_add(g->watch, g->tree, e);
	return rc;
}

static int make_agreement(struct group *g, const struct group_site *s, struct err *e)
{
	int rc = ledger_open(&g->ledger, &g->segment, g->comm.eager_bytes, e);

	g->ledger.world = g->ranks;
	g->ledger.alarm = s->engine->alarm;
	g->agree = (struct agree){ .ledger = &g->ledger };
	g->comm.agree = &g->agree;
	g->comm.ledger = &g->ledger;
	if (g->comm.topo.hosts > 1 && !rc)
		rc = agree_hosts(g, s, e);
	return rc;
}

/*
 * An eager operation takes one meeting of the ranks, another one three and an agreement; but
 * every rank then reads all data, instead of its slice only.  With two ranks that is the same
 * amount, so eager pays until the slots exceed the nearest caches.  Ranks that share a
 * processor change places at every meeting, which outweighs more reading.
 */
static uint64_t eager_bytes(const struct comm *c, uint64_t asked)
{
	uint64_t times = (uint64_t)copy_eager_crowd() / (uint64_t)c->topo.size;

	/* Between hosts the data travel with the agreement, which carries little. */
	if (c->topo.hosts > 1)
		return asked * (c->waitset->policy.away ? CROWDED : 1);
	if (c->waitset->policy.away)
		return asked * (times > CROWDED ? times : CROWDED);
	if (c->topo.size != 2)
		return asked;
	return asked * (uint64_t)copy_eager_pair();
}

static enum comm_small small_way(const struct comm *c)
{
	if (c->topo.hosts > 1)
		return c->by_host ? SMALL_INLINE : SMALL_NONE;
	return c->topo.size <= EAGER_SLOT_RANKS ? SMALL_EAGER : SMALL_NONE;
}

/* The back ends that the setting names, but for those that cannot serve this group. */
static const char *wanted_backends(const struct group *g, const struct group_site *s)
{
	const char *list = s->infos[0].backend;
	bool nccl = backend_is_named(list, "nccl");

	/* A single rank is served by self, whichever existing back end the setting names; and
	 * MPI serves the world only. */
	if ((g->size == 1 && strcmp(list, "node") && (nccl || backend_find(list))) ||
	    (s->place_of && backend_is_named(list, "mpi")))
		return nccl ? "nccl" : "";
	return list;
}

int group_connect(struct group *g, const struct group_site *s, struct err *e)
{
	struct comm *c = &g->comm;
	const char *list = wanted_backends(g, s);
	int rc;

	c->engine = s->engine;
	c->ranks = g->ranks;
	c->topo.abort = &s->engine->alarm->word;
	c->join_sums = s->infos[0].join_sums;
	c->fusion_bytes = s->infos[0].fusion_bytes;
	c->eager_bytes = eager_bytes(c, s->infos[0].eager_bytes);
	rc = make_agreement(g, s, e);
	if (s->place_of || c->topo.hosts > 1 || backend_is_named(list, "mpi") ||
	    backend_is_named(list, "nccl")) {
		c->topo.exchange = s->bootstrap->exchange;
		c->topo.exchange_ctx = s->bootstrap->ctx;
		rc = bootstrap_agree(s->bootstrap, rc, e);
	}
	c->topo.nccl = s->conf->nccl;
	c->topo.start_ms = s->conf->start_timeout_ms;
	c->topo.device_ms = s->conf->device_ms;
	c->topo.serial = c->serial;
	c->topo.whole = !s->place_of;
	/* Ranks that share a processor gain nothing by single copies. */
	if (!c->waitset->policy.away)
		c->topo.single_copy = (enum single_copy)s->infos[0].single_copy;
	if (!rc)
		rc = providers_open(c, list, e);
	if (!rc)
		c->small = small_way(c);
	return rc ? rc : execute_open(c, e);
}

void group_close(struct group *g)
{
	static const struct err over = { .code = RINGUP_ESHUTDOWN, .text = "the job is over" };
	struct comm *c = &g->comm;
	struct provider providers[COMM_BACKENDS];
	int count = c->provider_count;

	if (g->open) {
		comms_remove(c->engine, c);
		p2p_purge(c->engine->p2p, c->serial);
		execute_fail(c, &over);
	}
	memcpy(providers, c->providers, sizeof(providers));
	execute_close(c);
	providers_close(providers, count);
	if (g->tree && g->watch)
		watch_drop(g->watch, g->tree);
	tree_close(g->tree);
	forks_remove(&g->fork);
	mesh_close(&g->mesh);
	host_queue_close(&g->host_queue);
	ledger_close(&g->ledger);
	segment_close(&g->segment);
	free(g->ranks);
	free(g->host_of);
	free(g->local_of);
	free(g->place_of);
	memset(g, 0, sizeof(*g));
}
