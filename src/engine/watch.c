/* watch.c - failure detector: the thread that notices a rank's death, silence or departure. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/pidend.h"
#include "base/pidstat.h"
#include "base/thread.h"
#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/liveness.h"
#include "engine/notify.h"
#include "engine/observer.h"
#include "engine/p2p.h"
#include "engine/provider.h"
#include "engine/tree.h"
#include "host/nearend.h"
#include "ringup.h"
#include "wire/ancestor.h"
#include "wire/chan.h"
#include "wire/mesh.h"
#include "wire/quiesce.h"
#include "wire/ranks.h"
#include "wire/segment.h"

static void died(struct watch *w, int rank, const char *how)
{
	const struct heartbeat_peer *p = &w->peer[rank];
	char why[480];

	snprintf(why, sizeof(why), "rank %d (process %d on %s) %s", rank, p->pid, p->host, how);
	notify_alarm(w->engine, rank, RINGUP_EPEER, why);
}

/* ---- events of the trees ---- */

static void on_left(void *ctx, int rank)
{
	struct watch *w = ctx;

	(void)rank;
	notify_ranks(w->engine, w->engine->waitset);
}

/* Of another host, or because a neighbour's frames are no protocol: then the thread that makes
 * progress tells the other hosts. */
static void on_alarm(void *ctx, int culprit, int code, const char *why)
{
	struct watch *w = ctx;

	alarm_raise(w->engine->alarm, culprit, code, "%s", why);
	notify_ranks(w->engine, w->engine->waitset);
}

/* The kernel may give up before this library does, and this host may be the one cut off. */
static void on_lost(void *ctx, int rank, const struct err *why)
{
	struct watch *w = ctx;
	char how[192] = "died or was cut off";
	size_t len = strlen(how);

	if (why->code != RINGUP_EPEER) {
		notify_alarm(w->engine, -1, why->code, why->text);
		return;
	}
	nearend_look(chan_fd(w->topo->mesh->control[rank]), how + len, sizeof(how) - len);
	died(w, rank, how);
}

static bool over(void *ctx, int *culprit, struct err *why)
{
	const struct alarm *a = ((struct watch *)ctx)->engine->alarm;
	bool raised = alarm_get(a, why) != 0;

	*culprit = alarm_culprit(a);
	return raised;
}

static void on_report(void *ctx, const void *data, size_t len)
{
	struct watch *w = ctx;

	if (!deadlock_take(&w->deadlock, data, len))
		stall_take(&w->stall, data, len);
}

static void on_invite(void *ctx, int from, int to, const char *where)
{
	p2p_invited(((struct watch *)ctx)->engine->p2p, from, to, where);
}

void watch_events(struct watch *w, struct engine *g, struct tree_events *ev)
{
	w->engine = g;
	*ev = (struct tree_events){ .left = on_left,
				    .alarm = on_alarm,
				    .lost = on_lost,
				    .ctx = w,
				    .report = on_report,
				    .over = over,
				    .invite = on_invite };
}

static void on_group_lost(void *ctx, int rank, const struct err *why)
{
	struct watch *w = ctx;

	(void)rank;
	if (why->code != RINGUP_EPEER)
		notify_alarm(w->engine, -1, why->code, why->text);
}

void watch_group_events(struct watch *w, struct tree_events *ev)
{
	*ev = (struct tree_events){ .left = on_left,
				    .alarm = on_alarm,
				    .lost = on_group_lost,
				    .ctx = w,
				    .report = on_report,
				    .over = over };
}

/* ---- the tick ---- */

enum { MS = 1000000 };

/* Judges how long @rank has not been heard, and reports a change.  @i: its place in @h.
 * @speaks: this rank reports it for its host.  @because: NULL: the state of its process here.
 * @socket: the silent connection's, or -1. */
static void watch_judge(struct watch *w, struct heartbeats *h, int i, int rank, bool speaks,
			const char *verb, const char *because, int socket, int64_t now)
{
	int me = w->topo->rank;
	char text[512], end[160] = "", why[64];
	struct heartbeat_tale tale = {
		.rank = rank,
		.pid = w->peer[rank].pid,
		.host = w->peer[rank].host,
		.verb = verb,
		.silence_ns = heartbeat_silence_ns(h, i, now),
		.seen_by = h == &w->local ? -1 : me,
		.seen_on = w->peer[me].host,
		.because = because,
		.nearend = end,
	};
	enum heartbeat_change change = heartbeat_judge(h, i, now);

	if (change == HEARTBEAT_STEADY)
		return;
	if (change == HEARTBEAT_LOST || (change == HEARTBEAT_LATE && speaks))
		nearend_look(socket, end, sizeof(end));
	if (!because) {
		heartbeat_state(tale.pid, why, sizeof(why));
		tale.because = why;
	}
	heartbeat_tell(&tale, text, sizeof(text));
	if (change == HEARTBEAT_LOST)
		notify_lost(w->engine, rank, h == &w->local ? ALARM_FROZEN : ALARM_SILENT,
			    text);
	else if (change == HEARTBEAT_LATE && speaks)
		log_warn("%s", text);
	else if (change == HEARTBEAT_BACK && speaks)
		log_warn("rank %d (process %d on %s) is back", rank, tale.pid, tale.host);
}

/* Of the ranks that notice that rank @late of this host is late, the first reports it. */
static bool speaks(const struct watch *w, int late)
{
	const struct waitset *waitset = w->engine->waitset;

	for (int i = 0; i < waitset->me; i++)
		if (i != late && w->pidfd[i] >= 0 && !w->local.of[i].late &&
		    !liveness_has_left(&w->engine->liveness[i]))
			return false;
	return true;
}

/* Checks the counters of the ranks that share memory with this one. */
static void look_at_beats(struct watch *w, int64_t now)
{
	struct waitset *waitset = w->engine->waitset;

	heartbeats_look(&w->local, now);
	for (int i = 0; i < waitset->count; i++) {
		const struct liveness *s = &w->engine->liveness[i];

		if (w->pidfd[i] < 0 || liveness_has_left(s))
			continue;
		heartbeat_see(&w->local, i, liveness_beats(s), now);
		watch_judge(w, &w->local, i, w->rank[i], speaks(w, i), "has not moved", NULL,
			    -1, now);
	}
}

/* Checks for frames from leaders of other hosts.  Returns whether one is late, but not for
 * ever, or was late, so that its data connections may not have recovered yet. */
static bool look_at_silence(struct watch *w, int64_t now)
{
	/* A large frame that does not get through holds up all frames behind it. */
	static const char because[] = "its process or host is frozen, or the network between "
				      "is down or drops large packets (MTU)";
	int64_t pause = (int64_t)w->topo->mesh->pause_ms * MS;
	uint64_t heard;
	bool gone, late = false;
	int rank;

	heartbeats_look(&w->remote, now);
	for (int k = 0; k < tree_neighbours(w->world); k++) {
		heard = tree_heard(w->world, k, &rank, &gone);
		if (gone)
			continue;
		if (heard != w->heard[k])
			heartbeat_hear(&w->remote, rank, now);
		w->heard[k] = heard;
		watch_judge(w, &w->remote, rank, rank, true, "has been silent", because,
			    tree_socket(w->world, k), now);
		late |= w->remote.of[rank].late;
	}
	return heartbeats_echo(&w->remote, late && w->rules.lost_ms, pause, now);
}

/* A rank whose data are not confirmed is late only after they may have been sent again, and not
 * just once. */
static uint32_t data_warn_ms(const struct heartbeat_rules *r, const struct mesh *m)
{
	uint32_t twice = 2 * (uint32_t)m->pause_ms;

	if (r->lost_ms && twice > r->lost_ms / 2)
		twice = r->lost_ms / 2;
	return r->lost_warn_ms && r->lost_warn_ms < twice ? twice : r->lost_warn_ms;
}

/* A shorter time is no silence: a kernel need not confirm at once. */
enum { UNHEARD_MS = 500 };

struct data_look {
	struct watch *watch;
	bool silence;
	int64_t now;
};

/* Hosts that exchange data need not be neighbours in a tree, and a network may carry small
 * packets only.  While tree neighbours are silent, too, that is what is reported. */
static void look_at_data(struct comm *c, void *arg)
{
	static const char because[] = "its host is frozen, or the network between is down or "
				      "drops large packets (MTU)";
	const struct data_look *look = arg;
	struct watch *w = look->watch;
	const struct mesh *m = c->topo.mesh;
	struct heartbeats *h = &c->links;
	bool first = !h->of;
	struct err e;

	if (!m || !m->links)
		return;
	if (first &&
	    heartbeats_open(h, m->links, data_warn_ms(&w->rules, m), w->rules.lost_ms, &e))
		return;
	heartbeats_look(h, look->now);
	for (int i = 0; i < m->links; i++) {
		if (first || look->silence || !mesh_unheard(m, i, UNHEARD_MS))
			heartbeat_hear(h, i, look->now);
		watch_judge(w, h, i, ranks_in_world(c->ranks, m->link[i].rank),
			    !c->topo.local_rank, "has confirmed no data", because,
			    m->link[i].fd[0], look->now);
	}
}

/* While something is queued on a device, it is looked at more often than all else. */
enum { DEVICE_LOOK_MS = 20 };

static void look_soon(struct watch *w)
{
	int64_t soon = clock_deadline(DEVICE_LOOK_MS);

	__atomic_store_n(&w->engine->device_busy, true, __ATOMIC_SEQ_CST);
	if (soon < w->device_ns)
		w->device_ns = soon;
}

/* Looks at what @c has queued on a device: its operations may be complete already. */
static void look_at_device(struct comm *c, void *arg)
{
	struct watch *w = arg;
	struct err e = { 0 };
	void *self;
	const struct backend_device *d = provider_device(c, &self);
	int me = w->topo->rank, rc = d ? d->watch(self, &e) : 0;
	char why[480];

	if (rc > 0)
		look_soon(w);
	if (rc >= 0)
		return;
	snprintf(why, sizeof(why), "rank %d (process %d on %s): %s", me, w->peer[me].pid,
		 w->peer[me].host, e.text);
	notify_alarm(w->engine, me, e.code, why);
}

static bool is_over(const struct watch *w)
{
	return __atomic_load_n(&w->engine->alarm->word, __ATOMIC_RELAXED);
}

static void look_at_devices(struct watch *w)
{
	w->device_ns = INT64_MAX;
	/* First: what is queued from here on is told again. */
	__atomic_store_n(&w->engine->device_busy, false, __ATOMIC_SEQ_CST);
	if (!is_over(w))
		comms_visit(w->engine, look_at_device, w);
}

static void tick(struct watch *w, int64_t now)
{
	struct waitset *waitset = w->engine->waitset;
	uint32_t *silent = &w->topo->segment->head->silent;
	struct data_look data = { w, false, now };

	w->tick_ns = now + (int64_t)w->rules.tick_ms * MS;
	if (w->rules.freeze_ms || w->rules.freeze_warn_ms)
		liveness_beat(&w->engine->liveness[waitset->me]);
	if (w->world && (w->rules.lost_ms || w->rules.lost_warn_ms))
		tree_ping(w->world);
	if (is_over(w))
		return;
	/* Other ranks of this host may lead groups, and read this. */
	if (w->world)
		__atomic_store_n(silent, look_at_silence(w, now), __ATOMIC_RELAXED);
	look_at_beats(w, now);
	data.silence = __atomic_load_n(silent, __ATOMIC_RELAXED);
	if (w->rules.lost_ms || w->rules.lost_warn_ms)
		comms_visit(w->engine, look_at_data, &data);
	stall_look(&w->stall, w->engine, data.silence, now);
	deadlock_look(&w->deadlock, w->engine, w->rank, data.silence, now);
	if (w->observe)
		observer_look(w->observe, w->engine, &w->stall, now);
}

/* ---- the thread ---- */

static void look_at_process(struct watch *w, int i)
{
	const struct liveness *s = &w->engine->liveness[i];
	char how[256] = "died";

	/* Before the alarm, after which other ranks would wait for this process. */
	quiesce_gone(w->engine->waitset, i);
	if (!liveness_has_left(s)) {
		oom_since(&w->oom, "", how + 4, sizeof(how) - 4);
		died(w, w->rank[i], how);
	}
	close(w->pidfd[i]);
	w->pidfd[i] = -1;
}

/* Without the launcher there is no process to end this job in order, or to read its output. */
static void look_at_launcher(struct watch *w)
{
	char why[256];

	snprintf(why, sizeof(why),
		 "%s (process %d on %s), which had started this job's ranks there, died",
		 w->launcher_name, w->launcher_pid, w->peer[w->topo->rank].host);
	notify_alarm(w->engine, -1, RINGUP_EABORTED, why);
	close(w->launcher);
	w->launcher = -1;
}

/* Serves @t, unless it was dropped after poll(2). True if @t must be served again soon. */
static bool watch_serve(struct watch *w, struct tree *t)
{
	bool again = false;

	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < w->trees; i++)
		if (w->tree[i] == t) {
			again = tree_serve(t);
			break;
		}
	pthread_mutex_unlock(&w->lock);
	return again;
}

static int patience_ms(const struct watch *w, bool again)
{
	int64_t next = w->tick_ns < w->device_ns ? w->tick_ns : w->device_ns;
	int64_t client = ras_server_until(&w->ras);
	int left = clock_left_ms(next < client ? next : client);

	return again && (left < 0 || left > TREE_AGAIN_MS) ? TREE_AGAIN_MS : left;
}

enum { AT_WAKE, AT_LAUNCHER, AT_RAS };

/* Where the ranks of this host begin among the descriptors: behind those of RAS, if any. */
static int polls_at_ranks(const struct watch *w)
{
	return AT_RAS + (w->ras.port ? RAS_POLLS : 0);
}

/* Lists the descriptors to poll; trees come last. */
static int list_polls(struct watch *w, struct tree **trees)
{
	struct pollfd *p = w->polls;
	int n = polls_at_ranks(w);

	p[AT_WAKE] = (struct pollfd){ w->wake, POLLIN, 0 };
	p[AT_LAUNCHER] = (struct pollfd){ w->launcher, POLLIN, 0 };
	if (w->ras.port)
		ras_server_list(&w->ras, p + AT_RAS, clock_ns());
	for (int i = 0; i < w->topo->local_size; i++)
		p[n++] = (struct pollfd){ w->pidfd[i], POLLIN, 0 };
	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < w->trees; i++) {
		trees[i] = w->tree[i];
		p[n++] = (struct pollfd){ tree_fd(w->tree[i]), POLLIN, 0 };
	}
	pthread_mutex_unlock(&w->lock);
	return n;
}

/* Makes the descriptor of watch_alarm_fd() readable once the job has failed. */
static void tell_of_alarm(struct watch *w)
{
	uint64_t one = 1;

	if (!engine_is_alarmed(w->engine))
		return;
	pthread_mutex_lock(&w->lock);
	if (w->alarm_fd > 0 && !w->alarm_fd_set)
		w->alarm_fd_set = write(w->alarm_fd, &one, sizeof(one)) == sizeof(one);
	pthread_mutex_unlock(&w->lock);
}

static void *watch(void *arg)
{
	struct watch *w = arg;
	struct tree *trees[WATCH_TREES];
	struct pollfd *p = w->polls;
	int ranks = polls_at_ranks(w), first_tree = ranks + w->topo->local_size, i, n;
	bool again = false, was;
	uint64_t count;

	for (;;) {
		n = list_polls(w, trees);
		if (thread_poll(p, n, patience_ms(w, again)) < 0 && errno != EINTR) {
			notify_blind(w->engine, w->topo->rank, "cannot watch other ranks");
			return NULL;
		}
		if (__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE))
			return NULL;
		if (p[AT_LAUNCHER].revents)
			look_at_launcher(w);
		/* The frames of a rank come before its end. */
		was = again;
		for (i = first_tree, again = false; i < n; i++)
			if (p[i].revents || was)
				again |= watch_serve(w, trees[i - first_tree]);
		for (i = ranks; i < first_tree; i++)
			if (p[i].revents)
				look_at_process(w, i - ranks);
		/* A wake-up says that the list of descriptors has changed, or devices are busy.
		 */
		if (p[AT_WAKE].revents)
			(void)!read(w->wake, &count, sizeof(count));
		if (__atomic_load_n(&w->engine->device_busy, __ATOMIC_ACQUIRE))
			look_soon(w);
		if (w->tick_ns != INT64_MAX && clock_ns() >= w->tick_ns)
			tick(w, clock_ns());
		if (clock_ns() >= w->device_ns)
			look_at_devices(w);
		if (w->ras.port)
			ras_server_serve(&w->ras, p + AT_RAS, clock_ns());
		tell_of_alarm(w);
	}
}

static int watch_process(struct watch *w, int i, struct err *e)
{
	int pid = w->peer[w->rank[i]].pid;

	if (i == w->topo->local_rank || pid == getpid())
		return 0;
	w->pidfd[i] = pidend_open(pid);
	if (w->pidfd[i] < 0 && errno == ESRCH)
		return fail(e, RINGUP_EPEER, "rank %d (process %d) died", w->rank[i], pid);
	if (w->pidfd[i] < 0)
		return limits_fail(e, errno, "watch process %d of rank %d", pid, w->rank[i]);
	return 0;
}

/* A missing launcher, or one that may not be watched, is no failure. */
static void watch_launcher(struct watch *w)
{
	struct pidstat p;
	pid_t pid = w->rules.freeze_ms || w->rules.lost_ms ? ancestor_launcher(&p) : 0;

	w->launcher = pid ? pidend_open(pid) : -1;
	if (w->launcher < 0)
		return;
	w->launcher_pid = pid;
	snprintf(w->launcher_name, sizeof(w->launcher_name), "%s", p.name);
}

/* A job whose port another user has runs on. */
static void watch_open_ras(struct watch *w)
{
	struct err e;

	w->ras_job = (struct ras_job){ w->engine, w->peer, &w->local };
	if (w->ras_port &&
	    ras_server_open(&w->ras, w->ras_port, ras_report_make, &w->ras_job, &e))
		log_warn("RINGUP_RAS: this rank does not answer: %s", e.text);
}

static int spawn(struct watch *w, struct err *e)
{
	int rc = thread_start(&w->thread, watch, w);

	if (rc)
		return limits_fail(e, rc, "watch thread");
	w->has_thread = true;
	return 0;
}

/* A little longer than this library's own limit, which gives a better reason. */
static int kernel_patience_ms(const struct heartbeat_rules *r)
{
	return r->lost_ms ? (int)(r->lost_ms + 2 * r->tick_ms) : 0;
}

static int allocate(struct watch *w, struct err *e)
{
	const struct topo *t = w->topo;
	size_t local = (size_t)t->local_size;
	int n = 0;

	w->rank = calloc(local, sizeof(*w->rank));
	w->pidfd = calloc(local, sizeof(*w->pidfd));
	w->heard = calloc((size_t)t->hosts, sizeof(*w->heard));
	w->polls = calloc(AT_RAS + RAS_POLLS + local + WATCH_TREES, sizeof(*w->polls));
	for (int r = 0; w->pidfd && r < t->local_size; r++)
		w->pidfd[r] = -1;
	if (!w->rank || !w->pidfd || !w->heard || !w->polls)
		return fail(e, RINGUP_ENOMEM, "no memory to watch %d ranks", t->size);
	for (int r = 0; r < t->size; r++)
		if (t->host_of[r] == t->host)
			w->rank[n++] = r;
	return 0;
}

/* An open connection counts as heard; a counter has to move once. */
static void watch_neighbours(struct watch *w)
{
	int rank;
	bool gone;

	for (int k = 0; w->world && k < tree_neighbours(w->world); k++) {
		w->heard[k] = tree_heard(w->world, k, &rank, &gone);
		chan_watch(w->topo->mesh->control[rank], kernel_patience_ms(&w->rules));
		heartbeat_hear(&w->remote, rank, clock_ns());
	}
}

static void stir(struct watch *w)
{
	uint64_t one = 1;

	/* If the write fails, the counter is full of earlier wake-ups already. */
	(void)!write(w->wake, &one, sizeof(one));
}

/* A frame from a connection is noticed up to a tick later. */
static uint32_t watch_sooner(const struct heartbeat_rules *r, uint32_t limit_ms)
{
	return limit_ms > r->tick_ms ? limit_ms - r->tick_ms : limit_ms;
}

int watch_start(struct watch *w, const struct topo *t, struct tree *world,
		const struct heartbeat_peer *peer, const struct heartbeat_rules *rules,
		struct err *e)
{
	int rc;

	w->topo = t;
	w->world = world;
	w->peer = peer;
	w->rules = *rules;
	pthread_mutex_init(&w->lock, NULL);
	watch_launcher(w);
	oom_mark(&w->oom, "");
	rc = stall_open(&w->stall, rules, peer, t->size, e);
	if (!rc)
		rc = deadlock_open(&w->deadlock, rules, t->size, e);
	if (!rc)
		rc = heartbeats_open(&w->local, t->local_size, rules->freeze_warn_ms,
				     rules->freeze_ms, e);
	if (!rc)
		rc = heartbeats_open(&w->remote, t->size,
				     watch_sooner(rules, rules->lost_warn_ms),
				     watch_sooner(rules, rules->lost_ms), e);
	if (!rc)
		rc = allocate(w, e);
	if (rc)
		return rc;
	w->wake = file_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (w->wake < 0)
		return fail_os(e, "eventfd");
	__atomic_store_n(&w->engine->device_fd, w->wake, __ATOMIC_RELEASE);
	for (int i = 0; i < t->local_size && !rc; i++)
		rc = watch_process(w, i, e);
	watch_neighbours(w);
	if (world && !rc)
		rc = watch_add(w, world, e);
	w->tick_ns = w->device_ns = INT64_MAX;
	if (rules->tick_ms)
		tick(w, clock_ns());
	if (!rc)
		watch_open_ras(w);
	return rc ? rc : spawn(w, e);
}

int watch_add(struct watch *w, struct tree *t, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	if (w->trees < WATCH_TREES)
		w->tree[w->trees++] = t;
	else
		rc = fail(e, RINGUP_ENOMEM, "more than %d groups across hosts", WATCH_TREES);
	pthread_mutex_unlock(&w->lock);
	stir(w);
	return rc;
}

void watch_drop(struct watch *w, struct tree *t)
{
	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < w->trees; i++)
		if (w->tree[i] == t)
			w->tree[i--] = w->tree[--w->trees];
	pthread_mutex_unlock(&w->lock);
	stir(w);
}

int watch_alarm_fd(struct watch *w, struct err *e)
{
	int fd;

	if (!w->has_thread)
		return fail(e, RINGUP_EINVAL, "this job has no watch thread");
	pthread_mutex_lock(&w->lock);
	if (w->alarm_fd <= 0)
		w->alarm_fd = file_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	fd = w->alarm_fd;
	pthread_mutex_unlock(&w->lock);
	tell_of_alarm(w);
	return fd > 0 ? fd : fail_os(e, "eventfd");
}

void watch_goodbye(struct watch *w, int64_t deadline_ns)
{
	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < w->trees; i++)
		tree_goodbye(w->tree[i]);
	for (int i = 0; i < w->trees; i++)
		while (tree_is_unsent(w->tree[i]) && clock_ns() < deadline_ns)
			clock_sleep_ms(1);
	pthread_mutex_unlock(&w->lock);
}

void watch_stop(struct watch *w)
{
	if (w->has_thread) {
		__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
		stir(w);
		pthread_join(w->thread, NULL);
	}
	for (int i = 0; w->pidfd && i < w->topo->local_size; i++)
		if (w->pidfd[i] >= 0)
			close(w->pidfd[i]);
	if (w->wake > 0)
		close(w->wake);
	if (w->launcher > 0)
		close(w->launcher);
	if (w->alarm_fd > 0)
		close(w->alarm_fd);
	ras_server_close(&w->ras);
	stall_close(&w->stall);
	deadlock_close(&w->deadlock);
	heartbeats_close(&w->local);
	heartbeats_close(&w->remote);
	free(w->rank);
	free(w->pidfd);
	free(w->heard);
	free(w->polls);
	memset(w, 0, sizeof(*w));
}
