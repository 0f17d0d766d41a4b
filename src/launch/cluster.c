/* cluster.c - run a job on one host or several, or an elastic one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/ending.h"
#include "launch/failure.h"
#include "launch/finder.h"
#include "launch/fleet.h"
#include "launch/output.h"
#include "launch/parent.h"
#include "launch/rankenv.h"
#include "nicpick/own.h"
#include "ringup.h"
#include "wire/lobby.h"
#include "wire/meet.h"
#include "wire/secret.h"

enum { LOST_STATUS = 255, ADDRESS = 128, REFUSED_MS = 1000 };

/* The steps of ending a worker, in order. */
enum stage {
	STAYS,
	REFUSED, /* the lobby has refused it; it may exit by itself   */
	TERMED,  /* SIGTERM was sent  */
	KILLED_ONE,
};

/* A process of the job; its place in the array is its number for daemons and lobby. */
struct worker {
	int host, slot, rank; /* rank -1: none yet                     */
	pid_t pid;            /* 0: not started                        */
	bool pending;         /* waiting for its host's daemon */
	bool running;         /* started, or starting                */
	enum stage stage;
	int64_t next_ns; /* when the stage ends */
	int64_t held_ns; /* until then, wait for the end of the rank that caused its failure */
	int status;      /* how it ended, while held; 0: not held    */
};

struct cluster {
	const struct cluster_options *how;
	struct fleet_options fleet_options;
	struct fleet fleet;
	struct elastic elastic;
	struct finder finder;
	struct lobby *lobby;
	struct meet_server *server;
	struct secret secret;
	struct output *output;
	struct worker *worker;
	struct failure failure;
	int count, running;
	char mark[RANKENV_MARK], cwd[PATH_MAX], address[ADDRESS];
	int port_fd, port;
	struct pollfd *polls;

	bool planned; /* static: all ranks have been started */
	struct ending ending;
	struct err why; /* the job could not be started; code 0: it was */
};

static bool is_ending(const struct cluster *c)
{
	return c->ending.phase != ENDING_RUNNING;
}

/* -- messages ---------------------------------------------------------------- */

static const char *host_name(const struct cluster *c, int worker)
{
	return c->fleet.host[c->worker[worker].host].self;
}

/* "rank 3 (pid 4711) on node-b"; a worker that has never met the others has no rank. */
static void cluster_describe(const struct cluster *c, int i, char *out, size_t size)
{
	const struct worker *w = &c->worker[i];

	if (w->rank >= 0)
		snprintf(out, size, "rank %d (pid %d) on %s", w->rank, (int)w->pid,
			 host_name(c, i));
	else
		snprintf(out, size, "a new rank (pid %d) on %s", (int)w->pid, host_name(c, i));
}

static void worker_describe(void *ctx, int i, char *out, size_t size)
{
	cluster_describe(ctx, i, out, size);
}

/* -- ending ------------------------------------------------------------------ */

/* The worker ended, or will not start. */
static void worker_gone(struct cluster *c, int i)
{
	struct worker *w = &c->worker[i];

	if (!w->running)
		return;
	w->running = w->pending = false;
	c->running--;
	output_end(c->output, i);
}

/* The job ends, so pending workers are not started. */
static void pending_drop(void *ctx)
{
	struct cluster *c = ctx;

	for (int i = 0; i < c->count; i++)
		if (c->worker[i].pending)
			worker_gone(c, i);
}

static void all_signal(void *ctx, int sig, bool all)
{
	fleet_signal_all(&((struct cluster *)ctx)->fleet, sig, all ? ORDER_GROUP : ORDER_RANK);
}

static void all_kill_stopped(void *ctx)
{
	fleet_signal_all(&((struct cluster *)ctx)->fleet, SIGKILL, ORDER_IF_STOPPED);
}

static void worker_kill(void *ctx, int i, bool if_stopped)
{
	struct cluster *c = ctx;

	if (c->worker[i].running)
		fleet_signal(&c->fleet, c->worker[i].host, (uint32_t)i, SIGKILL,
			     if_stopped ? ORDER_IF_STOPPED : ORDER_GROUP);
}

static void all_name(void *ctx, bool given_up)
{
	struct cluster *c = ctx;
	char text[256], why[192];

	for (int i = 0; i < c->count; i++) {
		if (!c->worker[i].running || !c->worker[i].pid)
			continue;
		cluster_describe(c, i, text, sizeof(text));
		crew_why_alive(&c->fleet.crew, given_up ? i : -1, why, sizeof(why));
		if (given_up)
			output_say(c->output, "%s cannot be killed%s; given up", text, why);
		else
			output_say(c->output, "%s did not end when told to and is killed",
				   text);
	}
}

/* A job of a static size is over when a rank has failed; the culprit may be known only
 * later. */
static void failure_seen(struct cluster *c)
{
	int status;

	if (c->how->is_elastic || is_ending(c))
		return;
	status = failure_look(&c->failure, c->running);
	if (status)
		ending_mourn(&c->ending, status);
}

/* The job cannot go on, or has succeeded: end all ranks that are left. */
static void job_end(struct cluster *c, int status)
{
	meet_stop(c->server);
	c->server = NULL;
	ending_stop(&c->ending, status);
}

/* The job cannot begin: @why is the error of cluster_run(). */
static void job_fail(struct cluster *c, const struct err *why)
{
	if (!c->why.code)
		c->why = *why;
	if (!is_ending(c))
		job_end(c, 1);
}

/* -- workers ----------------------------------------------------------------- */

static int worker_add(struct cluster *c, int host, int slot, int rank, struct err *e)
{
	struct worker *more = realloc(c->worker, (size_t)(c->count + 1) * sizeof(*more));
	int rc = output_grow(c->output, c->count + 1, e);

	if (more)
		c->worker = more;
	if (!more)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", c->count + 1);
	if (!rc)
		rc = failure_grow(&c->failure, c->count + 1, e);
	if (rc)
		return rc;
	more[c->count] = (struct worker){
		.host = host, .slot = slot, .rank = rank, .pending = true, .running = true
	};
	output_label(c->output, c->count, rank);
	c->running++;
	return c->count++;
}

static int host_threads(const struct cluster *c, int h, int local_size)
{
	int threads = c->fleet.host[h].cores / (local_size > 0 ? local_size : 1);

	return threads > 0 ? threads : 1;
}

/* Likely rank and size for the environment of an elastic job's worker: they are known only when
 * it has met the others. */
static void guess_place(const struct cluster *c, int i, struct rankenv *r, int *rank)
{
	const struct worker *w = &c->worker[i];
	int k, alive = 0, slots = c->elastic.hosts[w->host].spec.slots;

	for (k = 0; k < i; k++)
		alive += c->worker[k].running;
	*rank = w->rank >= 0 ? w->rank : alive;
	r->size = c->running > c->how->size ? c->running : c->how->size;
	if (r->size <= *rank)
		r->size = *rank + 1;
	r->local_rank = w->slot;
	r->local_size = slots > w->slot ? slots : w->slot + 1;
	r->elastic = true;
	r->worker = i;
	r->meet = lobby_where(c->lobby);
}

static void know_place(const struct cluster *c, int i, struct rankenv *r, int *rank)
{
	*rank = c->worker[i].rank;
	r->size = c->how->size;
	r->local_rank = c->worker[i].slot;
	for (int k = 0; k < c->count; k++)
		r->local_size += c->worker[k].host == c->worker[i].host;
	r->meet = c->server ? meet_where(c->server) : NULL;
}

/* The environment that ranks inherit from the launcher: empty if their daemons have one. */
static char *const *base_environ(const struct cluster *c)
{
	static char *const none[] = { NULL };

	return c->how->parent ? none : conf_environ();
}

/* Puts torch's store on the host of rank 0, which opens it.  A rank daemon that a task started
 * has its own setting, and the rank 0 of an elastic job is not known yet. */
static void master_find(const struct cluster *c, struct rankenv *r)
{
	const struct fleet_host *first = &c->fleet.host[c->worker[0].host];

	r->master = c->address;
	r->master_port = c->port;
	if (c->how->is_elastic || first->is_local || !first->port)
		return;
	r->master = *first->address ? first->address : first->name;
	r->master_port = first->port;
}

static void worker_start(struct cluster *c, int i)
{
	struct worker *w = &c->worker[i];
	struct rankenv r = {
		.host_rank = w->host,
		.host_count = c->fleet.count,
		.host = c->fleet.host[w->host].name,
		.job = strchr(c->mark, '=') + 1,
		.secret_fd = -1,
		.base = base_environ(c),
		.extra = c->how->extra,
	};
	struct err e = { 0 };
	char **env;
	int rank;

	w->pending = false;
	if (c->how->is_elastic)
		guess_place(c, i, &r, &rank);
	else
		know_place(c, i, &r, &rank);
	master_find(c, &r);
	r.threads = host_threads(c, w->host, r.local_size);
	if (rankenv_make(&r, rank, &env, &e)) {
		job_fail(c, &e);
		return;
	}
	fleet_start(&c->fleet, w->host, i, env, i == 0);
}

/* -- reports of the hosts ---------------------------------------------------- */

static bool all_are_up(const struct cluster *c)
{
	for (int h = 0; h < c->fleet.count; h++)
		if (c->fleet.host[h].state != FLEET_UP)
			return false;
	return true;
}

/* A static job starts its ranks when all hosts have answered: so if a host does not answer,
 * there are no ranks to end. */
static void take_up(void *ctx, int host)
{
	struct cluster *c = ctx;

	if (is_ending(c) || (!c->how->is_elastic && !all_are_up(c)))
		return;
	c->planned = true;
	for (int i = 0; i < c->count && !is_ending(c); i++)
		if (c->worker[i].pending && (!c->how->is_elastic || c->worker[i].host == host))
			worker_start(c, i);
	fleet_launch(&c->fleet);
}

static int take_pipes(void *ctx, int worker, int *out, int *err, struct err *e)
{
	return output_pipes(((struct cluster *)ctx)->output, worker, out, err, e);
}

static void take_lost(void *ctx, int host, const char *why)
{
	struct cluster *c = ctx;
	struct err e = { 0 };

	for (int i = 0; i < c->count; i++) {
		if (c->worker[i].host != host || !c->worker[i].running)
			continue;
		worker_gone(c, i);
		if (c->how->is_elastic)
			elastic_exit(&c->elastic, i, LOST_STATUS, clock_ns());
	}
	if (is_ending(c))
		return;
	fail(&e, RINGUP_ESYSTEM, "host %s: %s", c->fleet.host[host].name, why);
	if (c->how->is_elastic) {
		output_say(c->output, "%s", e.text);
	} else if (!c->planned) {
		job_fail(c, &e);
	} else {
		output_say(c->output, "%s", e.text);
		ending_mourn(&c->ending, LOST_STATUS);
	}
}

static void take_started(void *ctx, int worker, pid_t pid)
{
	struct cluster *c = ctx;

	if (worker < 0 || worker >= c->count)
		return;
	c->worker[worker].pid = pid;
	output_started(c->output, worker);
}

static void take_failed(void *ctx, int worker, const struct err *why)
{
	struct cluster *c = ctx;

	if (worker < 0 || worker >= c->count || !c->worker[worker].running)
		return;
	worker_gone(c, worker);
	output_started(c->output, worker);
	if (!c->how->is_elastic) {
		job_fail(c, why);
		return;
	}
	if (!c->why.code)
		c->why = *why;
	output_say(c->output, "a rank cannot be started: %s", why->text);
	elastic_exit(&c->elastic, worker, 127, clock_ns());
}

static void take_output(void *ctx, int worker, int stream, const char *data, size_t len)
{
	struct cluster *c = ctx;

	if (worker < 0 || worker >= c->count)
		return;
	if (stream == 2)
		parent_report(c->how->parent, worker, c->worker[worker].rank, data, len);
	else
		output_feed(c->output, worker, stream, data, len);
}

static void tell_parent(struct cluster *c, int worker, int code, int status, const char *remark)
{
	char reason[CAUSE_TEXT + 16];
	struct parent_end end = {
		.worker = worker,
		.rank = c->worker[worker].rank,
		.pid = c->worker[worker].pid,
		.code = code,
		.status = status,
		.phase = (int)c->ending.phase,
		.host = host_name(c, worker),
		.memory = *remark ? remark : reason,
	};

	failure_reason(&c->failure, worker, reason, sizeof(reason));
	parent_ended(c->how->parent, &end);
}

/* Judges a rank's failure in an elastic job, unless the failure of the
 * rank that caused it is not known yet. Returns when to check again. */
static int64_t end_judge(struct cluster *c, int i)
{
	struct worker *w = &c->worker[i];

	if (!w->status)
		return INT64_MAX;
	if (!is_ending(c) && failure_awaits(&c->failure, i) && clock_left_ms(w->held_ns))
		return w->held_ns;
	if (!is_ending(c))
		failure_say(&c->failure, i);
	elastic_exit(&c->elastic, i, w->status, clock_ns());
	w->status = 0;
	return INT64_MAX;
}

static int64_t ends_judge(struct cluster *c)
{
	int64_t until = INT64_MAX;

	for (int i = 0; i < c->count; i++)
		clock_sooner(&until, end_judge(c, i));
	return until;
}

static void take_ended(void *ctx, int worker, int code, int how, const char *remark)
{
	struct cluster *c = ctx;
	int status = ending_status(code, how);
	bool was_asked;

	if (worker < 0 || worker >= c->count || !c->worker[worker].running)
		return;
	output_drain(c->output, worker);
	if (c->how->parent)
		tell_parent(c, worker, code, how, remark);
	was_asked = c->worker[worker].stage != STAYS;
	worker_gone(c, worker);
	failure_ended(&c->failure, worker, c->worker[worker].pid, code, how, remark);
	if (!c->how->is_elastic)
		return;
	if (status && !was_asked && !is_ending(c)) {
		c->worker[worker].status = status;
		c->worker[worker].held_ns = clock_deadline(failure_awaits(&c->failure, worker));
		end_judge(c, worker);
	} else {
		elastic_exit(&c->elastic, worker, status, clock_ns());
	}
}

static void take_note(void *ctx, const struct cause_note *note, const char *why)
{
	struct cluster *c = ctx;

	if (!is_ending(c))
		failure_note(&c->failure, note, why);
}

/* -- the lobby --------------------------------------------------------------- */

static int lobby_admits(void *ctx, uint32_t worker, struct err *e)
{
	struct cluster *c = ctx;

	if (worker < (uint32_t)c->count && c->worker[worker].running && !is_ending(c) &&
	    c->worker[worker].stage == STAYS)
		return 0;
	return fail(e, RINGUP_ESHUTDOWN, "%s",
		    is_ending(c) ? "the job is over"
				 : "the job continues without this rank or its host");
}

static void lobby_arrives(void *ctx, uint32_t worker, enum lobby_state state)
{
	elastic_arrive(&((struct cluster *)ctx)->elastic, (int)worker, state, clock_ns());
}

static void lobby_leaves(void *ctx, uint32_t worker)
{
	elastic_leave(&((struct cluster *)ctx)->elastic, (int)worker);
}

/* -- actions of an elastic job ----------------------------------------------- */

static void act_start(struct cluster *c, const struct elastic_action *a)
{
	bool first = a->worker < c->how->size && !c->elastic.generation;
	struct fleet_host *h = &c->fleet.host[a->host];
	struct err e = { 0 };
	int i = worker_add(c, a->host, c->elastic.workers[a->worker].slot,
			   first ? a->worker : -1, &e);

	if (i >= 0 && h->state == FLEET_UP) {
		worker_start(c, i);
		return;
	}
	if (i >= 0 && fleet_begin(&c->fleet, a->host, &e)) {
		output_say(c->output, "%s", e.text);
		worker_gone(c, i);
		elastic_exit(&c->elastic, i, LOST_STATUS, clock_ns());
	} else if (i < 0) {
		job_fail(c, &e);
	}
}

static void act_end(struct cluster *c, const struct elastic_action *a)
{
	struct worker *w = &c->worker[a->worker];
	struct err e = { 0 };
	char text[256];

	cluster_describe(c, a->worker, text, sizeof(text));
	output_say(c->output, "%s is ended: %s", text, a->why);
	fail(&e, RINGUP_ESHUTDOWN, "%s", a->why);
	lobby_refuse(c->lobby, (uint32_t)a->worker, &e);
	w->stage = REFUSED;
	w->next_ns = clock_deadline(REFUSED_MS);
	if (!w->pid && w->pending) {
		worker_gone(c, a->worker);
		elastic_exit(&c->elastic, a->worker, 0, clock_ns());
	}
}

static int act_form(struct cluster *c, const struct elastic_action *a, struct err *e)
{
	struct lobby_place place = { .generation = c->elastic.generation,
				     .size = (uint32_t)a->count };
	struct secret s;
	int w, rc = 0;

	meet_stop(c->server);
	c->server = NULL;
	lobby_secret(&s, &c->secret, place.generation);
	if (a->count > 1)
		rc = meet_serve(c->address, a->count, &s, &c->server, e);
	secret_wipe(&s);
	if (rc)
		return rc;
	if (c->server)
		snprintf(place.where, sizeof(place.where), "%s", meet_where(c->server));
	if (c->elastic.resets)
		output_say(c->output, "generation %u: %d rank%s", place.generation, a->count,
			   a->count == 1 ? "" : "s");
	for (int i = 0; i < a->count; i++) {
		w = c->elastic.members[i];
		place.rank = (uint32_t)i;
		place.slot = (uint32_t)c->worker[w].slot;
		c->worker[w].rank = i;
		output_label(c->output, w, i);
		lobby_assign(c->lobby, (uint32_t)w, &place);
	}
	return 0;
}

static void act_done(struct cluster *c, const struct elastic_action *a)
{
	if (*a->why)
		output_say(c->output, "%s", a->why);
	/* If no rank could be started, the reason for that is the error of the job. */
	if (c->elastic.generation || c->why.code != RINGUP_ESYSTEM || !a->status)
		c->why.code = 0;
	job_end(c, a->status);
}

/* Acts until nothing is left to do; returns when to check again. */
static int64_t elastic_act(struct cluster *c)
{
	struct elastic_action a = { 0 };
	int64_t until = INT64_MAX;
	struct err e = { 0 };

	while (!is_ending(c)) {
		elastic_next(&c->elastic, clock_ns(), &a, &until);
		switch (a.act) {
		case ELASTIC_NOTHING:
			return until;
		case ELASTIC_START:
			act_start(c, &a);
			break;
		case ELASTIC_END:
			act_end(c, &a);
			break;
		case ELASTIC_BREAK:
			meet_stop(c->server);
			c->server = NULL;
			break;
		case ELASTIC_FORM:
			if (act_form(c, &a, &e))
				job_fail(c, &e);
			break;
		case ELASTIC_NOTICE:
			fleet_notice(&c->fleet, c->elastic.generation, a.bits);
			break;
		case ELASTIC_SAY:
			output_say(c->output, "%s", a.why);
			break;
		case ELASTIC_DONE:
			act_done(c, &a);
			break;
		}
	}
	return INT64_MAX;
}

static bool host_is_listed(const struct hostlist *l, const char *name)
{
	for (int i = 0; i < l->count; i++)
		if (!strcmp(l->host[i].name, name))
			return true;
	return false;
}

/* A known host that is not in @l under its own name, but is the same as @name; NULL: none. */
static const char *host_recognize(const struct cluster *c, const struct hostlist *l,
				  const char *name)
{
	const struct elastic *x = &c->elastic;

	for (int i = 0; i < x->host_count; i++)
		if (!strcmp(x->hosts[i].spec.name, name))
			return NULL;
	for (int i = 0; i < x->host_count; i++)
		if (!host_is_listed(l, x->hosts[i].spec.name) &&
		    hostlist_is_same(x->hosts[i].spec.name, name))
			return x->hosts[i].spec.name;
	return NULL;
}

/* A host keeps its first name if the script prints another name for it later. */
static void hosts_recognize(const struct cluster *c, struct hostlist *l)
{
	const char *known;

	for (int i = 0; i < l->count; i++) {
		known = host_recognize(c, l, l->host[i].name);
		if (known)
			snprintf(l->host[i].name, sizeof(l->host[i].name), "%s", known);
	}
}

static int hosts_take(struct cluster *c, const struct hostlist *l, struct err *e)
{
	int rc = 0;

	elastic_hosts(&c->elastic, l, clock_ns());
	while (c->fleet.count < c->elastic.host_count && rc >= 0)
		rc = fleet_add(&c->fleet, c->elastic.hosts[c->fleet.count].spec.name, e);
	return rc < 0 ? rc : 0;
}

/* A script that fails at its first run ends the job; a later failure leaves the hosts as they
 * are. */
static void ask_script(struct cluster *c)
{
	struct err e = { 0 };
	int rc = finder_serve(&c->finder, &e);

	if (rc > 0) {
		hosts_recognize(c, &c->finder.hosts);
		rc = hosts_take(c, &c->finder.hosts, &e);
	}
	if (rc >= 0)
		return;
	if (!c->fleet.count)
		job_fail(c, &e);
	else
		output_say(c->output, "%s; the job keeps the hosts that it has", e.text);
}

/* Signals workers that should have ended; returns when to check again. */
static int64_t workers_urge(struct cluster *c)
{
	int64_t until = INT64_MAX, now = clock_ns();

	for (int i = 0; i < c->count; i++) {
		struct worker *w = &c->worker[i];

		if (!w->running || w->stage == STAYS || w->stage == KILLED_ONE || !w->pid)
			continue;
		if (now >= w->next_ns) {
			bool first = w->stage == REFUSED;

			fleet_signal(&c->fleet, w->host, (uint32_t)i, first ? SIGTERM : SIGKILL,
				     first ? ORDER_RANK : ORDER_GROUP);
			w->stage = first ? TERMED : KILLED_ONE;
			w->next_ns = clock_deadline(c->how->grace_ms);
		}
		if (w->stage != KILLED_ONE && w->next_ns < until)
			until = w->next_ns;
	}
	return until;
}

/* -- a job of a fixed size --------------------------------------------------- */

/* Ranks go to the hosts in their order, as many as each has slots. */
static int plan(struct cluster *c, struct err *e)
{
	const struct hostlist *l = c->how->hosts;
	char here[HOSTLIST_NAME] = "";
	int h, rank = 0, rc;

	if (c->how->is_here && gethostname(here, sizeof(here) - 1))
		snprintf(here, sizeof(here), "this host");

	if (hostlist_slots(l) < c->how->size)
		return fail(e, RINGUP_EINVAL,
			    "%d ranks, but the hosts have %d slots: name more hosts, or "
			    "more slots (HOST:SLOTS)",
			    c->how->size, hostlist_slots(l));
	for (int i = 0; i < l->count && rank < c->how->size; i++) {
		if (!l->host[i].slots)
			continue;
		h = rc = fleet_add(&c->fleet, *here ? here : l->host[i].name, e);
		for (int k = 0; k < l->host[i].slots && rank < c->how->size && rc >= 0; k++)
			rc = worker_add(c, h, k, rank++, e);
		if (rc < 0)
			return rc;
	}
	for (h = 0, rc = 0; h < c->fleet.count && !rc; h++)
		rc = fleet_begin(&c->fleet, h, e);
	return rc;
}

/* -- the loop ---------------------------------------------------------------- */

static int wait_for_something(struct cluster *c, int64_t until, struct err *e)
{
	size_t room = output_poll_count(c->output) + fleet_poll_count(&c->fleet) + 4, n = 0;
	struct pollfd *p, *lobby;

	if (c->lobby)
		room += lobby_poll_count(c->lobby);
	p = realloc(c->polls, room * sizeof(*p));
	if (!p)
		return fail(e, RINGUP_ENOMEM, "no memory for %d hosts", c->fleet.count);
	c->polls = p;
	n = output_poll(c->output, p);
	n += fleet_poll(&c->fleet, p + n);
	n += finder_poll(&c->finder, p + n);
	p[n++] = (struct pollfd){ c->ending.signal_fd, POLLIN, 0 };
	if (c->how->parent)
		p[n++] = parent_poll(c->how->parent);
	lobby = p + n;
	if (c->lobby)
		n += lobby_poll(c->lobby, lobby);
	clock_sooner(&until, fleet_until(&c->fleet));
	clock_sooner(&until, finder_until(&c->finder));
	if (c->lobby)
		clock_sooner(&until, lobby_until(c->lobby));
	if (poll(p, n, clock_left_ms(until)) < 0) {
		if (errno != EINTR)
			return fail_os(e, "poll");
		return 0;
	}
	if (c->lobby)
		lobby_serve(c->lobby, lobby);
	return 0;
}

/* If the parent is gone, no process reads how ranks end, so they get SIGKILL at once. */
static void parent_look(struct cluster *c)
{
	if (!parent_serve(c->how->parent) && c->ending.phase < ENDING_KILLED)
		ending_kill(&c->ending);
}

/* Without the guard, children of the ranks would outlive a launcher that is killed. */
static void children_ended(struct cluster *c)
{
	struct err e = { 0 };
	int rc = fleet_reap(&c->fleet, &e);

	if (rc > 0)
		output_say(c->output, "the guard of this job was killed and has been replaced");
	else if (rc)
		output_say(c->output,
			   "the guard of this job was killed and could not be replaced: %s",
			   e.text);
}

/* After poll(2): handles input, and passes output on. */
static void cluster_serve(struct cluster *c)
{
	fleet_serve(&c->fleet);
	output_move(c->output);
	if (c->how->parent)
		parent_look(c);
	fleet_hold(&c->fleet, output_is_full(c->output) ||
				      (c->how->parent && parent_is_full(c->how->parent)));
	if (ending_signals(&c->ending))
		children_ended(c);
}

static int turn(struct cluster *c, struct err *e)
{
	int64_t until;
	int rc;

	until = ends_judge(c);
	if (c->how->is_elastic)
		clock_sooner(&until, elastic_act(c));
	clock_sooner(&until, workers_urge(c));
	clock_sooner(&until, ending_until(&c->ending));
	if (!c->how->is_elastic && !is_ending(c))
		clock_sooner(&until, failure_until(&c->failure));
	if (is_ending(c) && !c->running)
		return 0;
	rc = wait_for_something(c, until, e);
	if (rc)
		return rc;
	cluster_serve(c);
	if (c->how->script && !is_ending(c))
		ask_script(c);
	failure_seen(c);
	ending_turn(&c->ending, c->running);
	return 0;
}

static bool goes_on(const struct cluster *c)
{
	if (c->ending.phase == ENDING_OVER)
		return false;
	if (c->how->is_elastic && !is_ending(c))
		return true;
	return c->running > 0;
}

static int watch(struct cluster *c, struct err *e)
{
	int rc = 0;

	while (!rc && goes_on(c))
		rc = turn(c, e);
	return rc;
}

/* Ends processes that this process's ranks left behind. */
static void finish_here(struct cluster *c)
{
	const struct ending *x = &c->ending;
	bool has_time = x->signal && x->phase == ENDING_WARNED;
	int64_t patience = has_time ? x->next_ns : clock_deadline(ENDING_STRAY_MS);
	int64_t enough = clock_deadline(c->how->grace_ms + ENDING_DEATH_MS);

	while (crew_sweep(&c->fleet.crew,
			  clock_left_ms(patience) && x->phase != ENDING_KILLED) &&
	       clock_left_ms(enough)) {
		output_move(c->output);
		clock_sleep_ms(5);
	}
}

/* Waits until the daemons have ended the processes that ranks left behind. */
static void finish(struct cluster *c)
{
	int64_t enough = clock_deadline(c->how->grace_ms + 2 * ENDING_DEATH_MS);
	struct err e;

	if (c->how->is_here)
		finish_here(c);
	fleet_finish(&c->fleet);
	c->ending.phase = ENDING_OVER;
	while (!fleet_is_done(&c->fleet) && clock_left_ms(enough)) {
		if (wait_for_something(c, enough, &e))
			return;
		cluster_serve(c);
	}
}

/* -- before ------------------------------------------------------------------ */

static int name_job(struct cluster *c, struct err *e)
{
	if (!getcwd(c->cwd, sizeof(c->cwd)))
		return fail_os(e, "working directory");
	return rankenv_mark(c->mark, c->how->name, e);
}

/* The meeting point's address: on the interface between hosts, or loopback for one host. */
static int choose_address(struct cluster *c, struct err *e)
{
	const struct hostlist *l = c->how->hosts;
	bool here = !c->how->script && !c->how->parent;

	for (int i = 0; l && i < l->count; i++)
		here &= hostlist_is_local(l->host[i].name);
	snprintf(c->address, sizeof(c->address), "127.0.0.1");
	if (here)
		return 0;
	if (own_address(c->how->conf, false, c->address, sizeof(c->address), e))
		return fail_in(e, "where ranks of other hosts can meet");
	return 0;
}

static int open_meeting(struct cluster *c, struct err *e)
{
	struct lobby_owner owner = { lobby_admits, lobby_arrives, lobby_leaves, c };
	uint32_t seed;
	int rc = choose_address(c, e);

	prctl(PR_SET_DUMPABLE, 0);
	if (!rc)
		rc = secret_new(&c->secret, e);
	if (rc)
		return rc;
	if (!c->how->is_elastic)
		return c->how->size == 1 ? 0
					 : meet_serve(c->address, c->how->size, &c->secret,
						      &c->server, e);
	if (getentropy(&seed, sizeof(seed)))
		return fail_os(e, "random numbers");
	rc = elastic_init(&c->elastic, &c->how->elastic, seed, e);
	return rc ? rc : lobby_open(&c->lobby, c->address, &c->secret, owner, e);
}

/* Raises the limit of descriptors: each rank needs connections to lobby and meeting point, each
 * host two pipes; ranks of this process also need pipes and files. A limit that is too low is
 * an error before any rank starts. */
static int raise_limit(const struct cluster_options *j, struct err *e)
{
	rlim_t need = j->is_here ? (rlim_t)j->size * (j->output_dir ? 10 : 8) + 64
				 : 3 * (rlim_t)j->size + 1024;
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) || need <= l.rlim_cur)
		return 0;
	if (j->is_here && need > l.rlim_max)
		return fail(e, RINGUP_ESYSTEM,
			    "%d ranks need %llu open files and the limit is %llu; raise it "
			    "with `ulimit -n`, or start fewer",
			    j->size, (unsigned long long)need, (unsigned long long)l.rlim_max);
	l.rlim_cur = need < l.rlim_max ? need : l.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &l))
		log_warn("limit of open files: %s", strerror(errno));
	return 0;
}

static int cluster_prepare(struct cluster *c, struct err *e)
{
	const struct cluster_options *j = c->how;
	struct fleet_owner owner = {
		.up = take_up,
		.lost = take_lost,
		.started = take_started,
		.failed = take_failed,
		.output = take_output,
		.ended = take_ended,
		.noted = take_note,
		.pipes = take_pipes,
		.ctx = c,
	};
	int rc = raise_limit(j, e);

	if (!rc)
		rc = name_job(c, e);
	if (!rc)
		rc = ending_catch(&c->ending, e);
	if (!rc)
		rc = output_open(&c->output, j->size, j->prefix, j->output_dir, e);
	c->ending.output = c->failure.output = c->output;
	c->failure.owner = (struct failure_owner){ worker_describe, worker_kill, c };
	if (!rc)
		rc = open_meeting(c, e);
	if (!rc)
		rc = rankenv_port(&c->port_fd, &c->port, e);
	if (rc)
		return rc;
	c->fleet_options = (struct fleet_options){
		.start = j->start,
		.start_ms = j->start_ms,
		.cwd = c->cwd,
		.interface = j->conf->interface,
		.argv = j->argv,
		.secret = &c->secret,
		.parent = j->parent,
		.is_here = j->is_here,
		.mark = c->mark,
		/* A terminal stops a daemon outside its session. */
		.gives_stdin = !isatty(STDIN_FILENO) && fcntl(STDIN_FILENO, F_GETFL) >= 0,
	};
	fleet_open(&c->fleet, &c->fleet_options, owner);
	if (!j->is_elastic)
		return plan(c, e);
	if (j->script) {
		finder_open(&c->finder, j->script, j->slots, j->conf->discovery_ms);
		return 0;
	}
	return hosts_take(c, j->hosts, e);
}

static void cluster_close(struct cluster *c)
{
	fleet_close(&c->fleet);
	finder_close(&c->finder);
	output_close(c->output);
	meet_stop(c->server);
	lobby_close(c->lobby);
	elastic_fini(&c->elastic);
	secret_wipe(&c->secret);
	if (c->port_fd >= 0)
		close(c->port_fd);
	ending_fini(&c->ending);
	free(c->polls);
	free(c->worker);
	failure_close(&c->failure);
}

int cluster_run(const struct cluster_options *j, struct err *e)
{
	struct cluster c = {
		.how = j,
		.port_fd = -1,
	};
	int rc;

	ending_init(&c.ending, j->timeout_ms, j->grace_ms,
		    (struct ending_owner){
			    .begun = pending_drop,
			    .signal = all_signal,
			    .stopped = all_kill_stopped,
			    .name = all_name,
			    .ctx = &c,
		    });
	rc = cluster_prepare(&c, e);
	if (!rc)
		rc = watch(&c, e);
	if (c.output) {
		if (c.fleet.count)
			finish(&c);
		ending_flush(&c.ending);
	}
	if (!rc && !c.why.code && !c.ending.status)
		rc = output_check(c.output, e);
	cluster_close(&c);
	if (!rc && c.why.code) {
		*e = c.why;
		rc = c.why.code;
	}
	return rc ? rc : c.ending.status;
}
