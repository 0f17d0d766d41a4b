/* check.c - check the network between nodes: agents, all pairs, facts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/check.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "probe/rounds.h"
#include "probe/verdict.h"
#include "ringup.h"
#include "wire/secret.h"

enum { FIRST_PORT = 33000, PORTS = 20000 };

/* State of one agent, beside its facts. */
struct member {
	json_t *listens;
	int first, npaths; /* its part of the facts' paths */
	bool tried;        /* it has reported their states */
	int measuring;     /* position of the path under way */
};

struct check {
	const struct check_options *how;
	struct probe_facts *f;
	struct agents agents;
	struct member *m;
	int n;
	struct secret secret;
};

static bool is_lost(const struct check *c, int i)
{
	return c->agents.m[i].lost;
}

/* Answers of the agents. */

static int take_facts(struct check *c, int i, const json_t *msg, struct err *e)
{
	struct probe_node *n = &c->f->nodes[i];
	json_t *listens = json_object_get(msg, "listens");
	struct probe_facts answer = { 0 };
	int rc = facts_parse(&answer, json_object_get(msg, "facts"), e);

	if (!rc && (answer.nnodes != 1 || answer.npaths || !json_is_array(listens)))
		rc = fail(e, RINGUP_EINVAL, "not a node's facts");
	if (!rc) {
		struct probe_node mine = *n;

		*n = answer.nodes[0];
		answer.nodes[0] = mine;
		memcpy(n->name, mine.name, sizeof(n->name));
		n->error[0] = 0;
		c->m[i].listens = json_incref(listens);
	}
	facts_free(&answer);
	return rc;
}

/* Adds what the node's resolver says of the other nodes' own host names. */
static int take_names(struct probe_node *n, const struct probe_node *answer, struct err *e)
{
	for (int i = 0; i < answer->nresolves; i++) {
		struct netconf_host *h = facts_add_host(n, answer->resolves[i].name);

		if (!h)
			return fail(e, RINGUP_ENOMEM, "no memory for names");
		*h = answer->resolves[i];
	}
	return 0;
}

/* An agent may report how attempts ended, not which were made. */
static int take_paths(struct check *c, int i, const json_t *msg, struct err *e)
{
	struct member *m = &c->m[i];
	struct probe_facts answer = { 0 };
	struct probe_path *p, *q;
	int k, rc = facts_parse(&answer, json_object_get(msg, "facts"), e);

	if (!rc && (answer.npaths != m->npaths || answer.nnodes != c->n))
		rc = fail(e, RINGUP_EINVAL, "not the paths to try");
	for (k = 0; !rc && k < m->npaths; k++) {
		p = &c->f->paths[m->first + k];
		q = &answer.paths[k];
		memcpy(p->via, q->via, sizeof(p->via));
		memcpy(p->source, q->source, sizeof(p->source));
		memcpy(p->seen, q->seen, sizeof(p->seen));
		memcpy(p->neighbour, q->neighbour, sizeof(p->neighbour));
		memcpy(p->error, q->error, sizeof(p->error));
		p->state = q->state;
		p->answered = q->answered;
		p->mtu = q->mtu;
	}
	m->tried = !rc;
	c->f->nodes[i].is_table_full = json_is_true(json_object_get(msg, "table_full"));
	if (!rc)
		rc = take_names(&c->f->nodes[i], &answer.nodes[i], e);
	facts_free(&answer);
	return rc;
}

static double check_number_of(const json_t *msg, const char *key)
{
	const json_t *j = json_object_get(msg, key);

	return json_is_number(j) && json_number_value(j) >= 0 ? json_number_value(j) : -1;
}

static int take_speed(struct check *c, int i, const json_t *msg, struct err *e)
{
	struct member *m = &c->m[i];
	const json_t *at = json_object_get(msg, "path");
	struct probe_path *p;

	if (!json_is_integer(at) || json_integer_value(at) != m->measuring)
		return fail(e, RINGUP_EINVAL, "not a path to measure");
	p = &c->f->paths[m->first + m->measuring];
	p->latency_min_us = check_number_of(msg, "latency_min_us");
	p->latency_median_us = check_number_of(msg, "latency_median_us");
	p->bandwidth_mbs = check_number_of(msg, "bandwidth_mbs");
	return 0;
}

static int check_take(void *ctx, int i, const json_t *msg, struct err *e)
{
	const char *op = json_string_value(json_object_get(msg, "op"));

	if (!strcmp(op, "facts"))
		return take_facts(ctx, i, msg, e);
	return !strcmp(op, "reached") ? take_paths(ctx, i, msg, e) : take_speed(ctx, i, msg, e);
}

/* The first part: start the agents. */

static json_t *names_json(const struct check *c)
{
	json_t *list = json_array();

	for (int i = 0; i < c->n; i++)
		json_array_append_new(list, json_string(c->f->nodes[i].name));
	return list;
}

static void greet(struct check *c, int i, int port)
{
	char hex[MANUAL_HEX];

	sodium_bin2hex(hex, sizeof(hex), c->secret.key, SECRET_BYTES);
	agents_say(&c->agents, i,
		   /* Agents started by hand already have the secret, and no ssh. */
		   json_pack("{ss ss* si so si}", "op", "hello", "secret",
			     c->how->by_hand ? NULL : hex, "node", i, "names", names_json(c),
			     "port", port),
		   "facts");
	sodium_memzero(hex, sizeof(hex));
}

static int start_all(struct check *c, struct err *e)
{
	/* The same port on all nodes where it is free: an address that leads to the wrong node
	 * then reaches that node's agent, which can name itself. */
	int port = FIRST_PORT + (int)randombytes_uniform(PORTS), i, rc = 0;

	if (c->how->by_hand)
		rc = manual_gather(&c->agents, c->how->by_hand, &c->secret, e);
	for (i = 0; !rc && i < c->n; i++)
		if (c->how->by_hand ? !is_lost(c, i) : agents_start(&c->agents, i)) {
			greet(c, i, port);
			agents_listen(&c->agents, 0);
		}
	if (!rc)
		agents_await_start(&c->agents);
	return rc;
}

/* The second part: try every address of every node from every other node. */

/* Is this one of a few nodes after @from?  Beyond four nodes not all try the samples of
 * ranges of ports, so that their number does not grow with the square of the nodes. */
static bool is_near(const struct check *c, int from, int to)
{
	enum { NEAR = 4 };

	return c->n <= NEAR + 1 || (to - from + c->n) % c->n <= NEAR ||
	       (from - to + c->n) % c->n <= NEAR;
}

static int plan_port(struct check *c, int from, int to, const json_t *at, struct err *e)
{
	const char *address = json_string_value(json_object_get(at, "address"));
	const char *interface = json_string_value(json_object_get(at, "interface"));
	const char *kind = json_string_value(json_object_get(at, "kind"));
	json_int_t port = json_integer_value(json_object_get(at, "port"));
	struct probe_path *p;
	struct iface_ip ip;

	if (!address || !iface_parse(&ip, address) || !kind || port < 1 || port > 65535)
		return 0;
	if (!strncmp(kind, "sample ", 7) && !is_near(c, from, to))
		return 0;
	p = facts_add_path(c->f);
	if (!p)
		return fail(e, RINGUP_ENOMEM, "no memory for paths");
	p->from = from;
	p->to = to;
	p->state = FACTS_FILTERED;
	p->port.number = (int)port;
	snprintf(p->port.kind, sizeof(p->port.kind), "%s", kind);
	snprintf(p->address, sizeof(p->address), "%s", address);
	snprintf(p->interface, sizeof(p->interface), "%s", interface ? interface : "");
	return 0;
}

static int plan_paths(struct check *c, int from, struct err *e)
{
	struct member *m = &c->m[from];
	const json_t *at;
	int rc = 0;
	size_t i;

	m->first = c->f->npaths;
	for (int to = 0; to < c->n; to++) {
		if (to == from || is_lost(c, to))
			continue;
		json_array_foreach(c->m[to].listens, i, at) {
			rc = rc ? rc : plan_port(c, from, to, at, e);
		}
	}
	m->npaths = c->f->npaths - m->first;
	return rc;
}

/* The other nodes' own names, if they differ from the names given. */
static json_t *hostnames_json(const struct check *c, int from)
{
	json_t *list = json_array();

	for (int i = 0; i < c->n; i++) {
		const struct probe_node *n = &c->f->nodes[i];

		if (i != from && !is_lost(c, i) && *n->hostname &&
		    strcmp(n->hostname, n->name) != 0)
			json_array_append_new(list, json_string(n->hostname));
	}
	return list;
}

/* Names of all nodes, and the paths from @from. */
static json_t *plan_json(const struct check *c, int from)
{
	struct probe_facts part = { 0 };
	json_t *j = NULL;
	int i;

	for (i = 0; i < c->n; i++)
		if (!facts_add_node(&part, c->f->nodes[i].name))
			break;
	part.paths = c->f->paths + c->m[from].first;
	part.npaths = c->m[from].npaths;
	if (i == c->n)
		j = json_pack("{ss so so}", "op", "reach", "facts", facts_json(&part),
			      "hostnames", hostnames_json(c, from));
	part.paths = NULL;
	facts_free(&part);
	return j;
}

/* Paths without any result are no facts. */
static void drop_untried(struct check *c)
{
	struct probe_facts *f = c->f;
	int kept = 0;

	for (int i = 0; i < c->n; i++) {
		struct member *m = &c->m[i];

		m->npaths = m->tried ? m->npaths : 0;
		if (m->npaths)
			memmove(f->paths + kept, f->paths + m->first,
				(size_t)m->npaths * sizeof(*f->paths));
		m->first = kept;
		kept += m->npaths;
	}
	f->npaths = kept;
}

static int reach_all(struct check *c, struct err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < c->n; i++)
		if (!is_lost(c, i))
			rc = plan_paths(c, i, e);
	for (int i = 0; !rc && i < c->n; i++)
		if (!is_lost(c, i))
			agents_say(&c->agents, i, plan_json(c, i), "reached");
	if (!rc)
		agents_await(&c->agents, "connections tried", CHECK_REACH_MS,
			     "its agent did not answer after trying connections");
	drop_untried(c);
	return rc;
}

/* The third part: measure.  In each round a node is measured with one other. */

struct duel {
	int a, b;
	int *path, n, next; /* of both directions, one after the other */
};

static bool is_worth_it(const struct check *c, const struct probe_path *p)
{
	return p->state == FACTS_OPEN && p->mtu.segment == 1 && !is_lost(c, p->from) &&
	       !is_lost(c, p->to);
}

/* Collects the paths from @from to @to that can be measured. */
static void check_fill(const struct check *c, struct duel *d, int from, int to)
{
	const struct member *m = &c->m[from];

	for (int k = m->first; k < m->first + m->npaths; k++)
		if (c->f->paths[k].to == to && is_worth_it(c, &c->f->paths[k]))
			d->path[d->n++] = k;
}

/* True if this pair is done for the round.  Otherwise its next path is under way, or has just
 * been started; none starts when @late. */
static bool go_on(struct check *c, struct duel *d, int ms, bool late)
{
	struct probe_path *p;
	int from, slot;

	if (c->agents.m[d->a].expect || c->agents.m[d->b].expect)
		return false;
	while (d->next < d->n && !late) {
		p = &c->f->paths[d->path[d->next++]];
		from = p->from;
		slot = ms / d->n;
		if (!is_worth_it(c, p))
			continue;
		c->m[from].measuring = (int)(p - c->f->paths) - c->m[from].first;
		agents_say(&c->agents, from,
			   json_pack("{ss si si si}", "op", "measure", "path",
				     c->m[from].measuring, "latency_ms", slot / 3 + 1,
				     "bandwidth_ms", c->how->quick ? 0 : slot - slot / 3),
			   "measured");
		return false;
	}
	return true;
}

static void check_play(struct check *c, struct duel *d, int n, int ms)
{
	int64_t late = clock_deadline(CHECK_ROUND_MS);
	int64_t deadline = clock_deadline(CHECK_ROUND_MS + CHECK_PATH_MS);
	int busy = 1;

	while (busy && clock_ns() < deadline) {
		for (int i = busy = 0; i < n; i++)
			busy += !go_on(c, &d[i], ms, clock_ns() >= late);
		if (busy)
			agents_listen(&c->agents, deadline);
	}
	for (int i = 0; i < c->n; i++)
		if (c->agents.m[i].expect)
			agents_lose(&c->agents, i, "its agent did not answer after measuring");
}

/* Measures all pairs, in about @ms if agents answer fast; none begins after @deadline_ns. */
static int measure_all(struct check *c, int ms, int64_t deadline_ns, struct err *e)
{
	int rounds = rounds_count(c->n), seats = (c->n + 1) / 2, round, k, n;
	struct duel *d = calloc((size_t)seats + 1, sizeof(*d));
	int *paths = calloc((size_t)c->f->npaths + 1, sizeof(*paths)), *room;

	if (!d || !paths) {
		free(d);
		free(paths);
		return fail(e, RINGUP_ENOMEM, "no memory for rounds");
	}
	ms = rounds ? ms / rounds : 0;
	ms = ms < CHECK_PAIR_MS ? ms : CHECK_PAIR_MS;
	/* Where each round takes long, the later ones are left out rather than waited for. */
	for (round = 0; round < rounds && clock_ns() < deadline_ns; round++) {
		agents_report(&c->agents, "rounds measured", round, rounds);
		room = paths;
		for (k = n = 0; k < seats; k++) {
			d[n] = (struct duel){ .path = room };
			if (!rounds_pair(c->n, round, k, &d[n].a, &d[n].b))
				continue;
			check_fill(c, &d[n], d[n].a, d[n].b);
			check_fill(c, &d[n], d[n].b, d[n].a);
			room += d[n].n;
			n++;
		}
		check_play(c, d, n, ms);
	}
	agents_report(&c->agents, "rounds measured", rounds, rounds);
	free(d);
	free(paths);
	return 0;
}

/* Measured values of a path. */
struct pace {
	double min_us, median_us, mbs;
};

/* Takes the values out of @p, which is then unmeasured. */
static struct pace take_pace(struct probe_path *p)
{
	struct pace was = { p->latency_min_us, p->latency_median_us, p->bandwidth_mbs };

	p->latency_min_us = p->latency_median_us = p->bandwidth_mbs = -1;
	return was;
}

/* The smaller value, where both are known. */
static double shorter(double a, double b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void give_better(struct probe_path *p, const struct pace *was)
{
	p->latency_min_us = shorter(p->latency_min_us, was->min_us);
	p->latency_median_us = shorter(p->latency_median_us, was->median_us);
	p->bandwidth_mbs = p->bandwidth_mbs > was->mbs ? p->bandwidth_mbs : was->mbs;
}

/* If some paths are slow, all are measured again and the best value of each path counts: a real
 * fault shows each time. */
static int doubt(struct check *c, struct err *e)
{
	int64_t deadline = clock_deadline(CHECK_DOUBT_MS);
	struct pace *was = calloc((size_t)c->f->npaths + 1, sizeof(*was));
	int i, rc = was ? 0 : fail(e, RINGUP_ENOMEM, "no memory for doubts");
	int slow = rc ? 0 : verdict_slow(c->f, e);

	while (!rc && slow > 0 && clock_ns() < deadline) {
		for (i = 0; i < c->f->npaths; i++)
			was[i] = take_pace(&c->f->paths[i]);
		rc = measure_all(c, CHECK_AGAIN_MS, deadline, e);
		for (i = 0; i < c->f->npaths; i++)
			give_better(&c->f->paths[i], &was[i]);
		slow = verdict_slow(c->f, e);
	}
	free(was);
	return slow < 0 ? slow : rc;
}

/* All parts. */

static int check_prepare(struct check *c, struct err *e)
{
	int i, rc = secret_new(&c->secret, e);

	c->m = calloc((size_t)c->n + 1, sizeof(*c->m));
	if (!rc && !c->m)
		rc = fail(e, RINGUP_ENOMEM, "no memory for %d nodes", c->n);
	for (i = 0; !rc && i < c->n; i++)
		if (!facts_add_node(c->f, c->how->agents.nodes->name[i]))
			rc = fail(e, RINGUP_ENOMEM, "no memory for %d nodes", c->n);
	return rc ? rc
		  : agents_open(&c->agents, &c->how->agents,
				(struct agents_owner){ check_take, c }, e);
}

static void clean_up(struct check *c)
{
	for (int i = 0; i < c->agents.n && i < c->f->nnodes; i++)
		if (c->agents.m && is_lost(c, i))
			memcpy(c->f->nodes[i].error, c->agents.m[i].why,
			       sizeof(c->f->nodes[i].error));
	agents_close(&c->agents);
	for (int i = 0; c->m && i < c->n; i++)
		json_decref(c->m[i].listens);
	free(c->m);
	secret_wipe(&c->secret);
}

int check_run(const struct check_options *how, struct probe_facts *f, struct err *e)
{
	struct check c = { .how = how, .f = f, .n = how->agents.nodes->n };
	int64_t start = clock_ns();
	int rc;

	memset(f, 0, sizeof(*f));
	rc = check_prepare(&c, e);
	if (!rc)
		rc = start_all(&c, e);
	if (!rc)
		rc = reach_all(&c, e);
	if (!rc && !how->reach_only)
		rc = measure_all(&c, CHECK_MEASURE_MS, clock_deadline(CHECK_MEASURE_MOST_MS),
				 e);
	if (!rc && !how->reach_only)
		rc = doubt(&c, e);
	clean_up(&c);
	f->seconds = (double)(clock_ns() - start) / 1e9;
	return rc;
}
