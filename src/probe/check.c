/* check.c - check the network between nodes: agents, all pairs, facts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/check.h"

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "probe/reach.h"
#include "probe/rounds.h"
#include "probe/talk.h"
#include "ringup.h"
#include "wire/secret.h"

enum { FIRST_PORT = 33000, PORTS = 20000, WHY = 160 };

/* What is expected of an agent. */
enum expect { NOTHING, FACTS, REACHED, MEASURED };

/* An agent, as seen from here. */
struct member {
	struct starter starter;
	struct talk talk;
	enum expect expect;
	bool talks, lost;
	char said[WHY]; /* the last line of its starter's stderr */
	json_t *listens;
	int first, npaths; /* its part of the facts' paths */
	bool tried;        /* it has told how they ended   */
	int measuring;     /* one of them, or -1 */
};

struct check {
	const struct check_how *how;
	struct probe_facts *f;
	struct member *m;
	int n;
	struct secret secret;
	struct pollfd *poll;
};

static void report(const struct check *c, const char *what, int done, int all)
{
	if (c->how->progress)
		c->how->progress(what, done, all);
}

/* Members. */

/* No more of this one; the first reason is the true one. */
static void lose(struct check *c, int i, const char *why)
{
	struct member *m = &c->m[i];
	struct probe_node *n = &c->f->nodes[i];
	const char *said = *m->said ? m->said : m->talk.noise;

	if (m->lost)
		return;
	m->lost = true;
	m->expect = NOTHING;
	snprintf(n->error, sizeof(n->error), "%.90s%s%.150s", why, *said ? ": " : "", said);
	starter_hang_up(&m->starter);
}

static void say(struct check *c, int i, json_t *msg, enum expect expect)
{
	/* Who does not listen will not answer either, and then says why. */
	c->m[i].expect = expect;
	talk_say(&c->m[i].talk, msg, NULL);
}

/* The last whole line that its starter has complained with. */
static void read_errors(struct member *m)
{
	char buf[4096], *line, *save = NULL;
	ssize_t n = read(m->starter.errors, buf, sizeof(buf) - 1);

	if (n <= 0) {
		if (n == 0) {
			close(m->starter.errors);
			m->starter.errors = -1;
		}
		return;
	}
	buf[n] = 0;
	for (line = strtok_r(buf, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save))
		if (*line)
			snprintf(m->said, sizeof(m->said), "%s", line);
	talk_clean(m->said);
}

/* What they say. */

static int take_facts(struct check *c, int i, const json_t *msg, struct err *e)
{
	struct probe_node *n = &c->f->nodes[i];
	json_t *listens = json_object_get(msg, "listens");
	struct probe_facts told = { 0 };
	int rc = facts_parse(&told, json_object_get(msg, "facts"), e);

	if (!rc && (told.nnodes != 1 || told.npaths || !json_is_array(listens)))
		rc = fail(e, RINGUP_EINVAL, "these are not a node's facts");
	if (!rc) {
		struct probe_node mine = *n;

		*n = told.nodes[0];
		told.nodes[0] = mine;
		memcpy(n->name, mine.name, sizeof(n->name));
		n->error[0] = 0;
		c->m[i].listens = json_incref(listens);
	}
	facts_free(&told);
	return rc;
}

/* The agent may say how attempts ended, not what was attempted. */
static int take_paths(struct check *c, int i, const json_t *msg, struct err *e)
{
	struct member *m = &c->m[i];
	struct probe_facts told = { 0 };
	struct probe_path *p, *q;
	int k, rc = facts_parse(&told, json_object_get(msg, "facts"), e);

	if (!rc && (told.npaths != m->npaths || told.nnodes != c->n))
		rc = fail(e, RINGUP_EINVAL, "these are not the paths to try");
	for (k = 0; !rc && k < m->npaths; k++) {
		p = &c->f->paths[m->first + k];
		q = &told.paths[k];
		memcpy(p->via, q->via, sizeof(p->via));
		memcpy(p->source, q->source, sizeof(p->source));
		memcpy(p->error, q->error, sizeof(p->error));
		p->state = q->state;
		p->answered = q->answered;
		p->mtu = q->mtu;
	}
	m->tried = !rc;
	facts_free(&told);
	return rc;
}

static double number(const json_t *msg, const char *key)
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
		return fail(e, RINGUP_EINVAL, "that was not to be measured");
	p = &c->f->paths[m->first + m->measuring];
	p->latency_min_us = number(msg, "latency_min_us");
	p->latency_median_us = number(msg, "latency_median_us");
	p->bandwidth_mbs = number(msg, "bandwidth_mbs");
	return 0;
}

static int take(struct check *c, int i, const json_t *msg, struct err *e)
{
	static const char *const words[] = { "", "facts", "reached", "measured" };
	const char *op = json_string_value(json_object_get(msg, "op"));
	const char *why = json_string_value(json_object_get(msg, "why"));
	enum expect expect = c->m[i].expect;

	c->m[i].expect = NOTHING;
	if (op && !strcmp(op, "error"))
		return fail(e, RINGUP_EPEER, "its agent says: %.120s", why ? why : "?");
	if (!op || expect == NOTHING || strcmp(op, words[expect]) != 0)
		return fail(e, RINGUP_EINVAL, "its agent says what nobody asked for");
	if (expect == FACTS)
		return take_facts(c, i, msg, e);
	return expect == REACHED ? take_paths(c, i, msg, e) : take_speed(c, i, msg, e);
}

static void hear(struct check *c, int i)
{
	struct member *m = &c->m[i];
	struct err end = { 0 }, e = { 0 };
	int ended = talk_read(&m->talk, &end), rc = 1;
	json_t *msg;

	while (rc > 0 && !m->lost) {
		rc = talk_next(&m->talk, &msg, &e);
		if (rc > 0 && take(c, i, msg, &e))
			rc = RINGUP_EINVAL;
		json_decref(msg);
	}
	if (rc < 0) {
		talk_clean(e.text);
		lose(c, i, e.text);
	} else if (ended == RINGUP_EPEER) {
		/* Its starter's last words may lie in the other pipe still. */
		if (m->starter.errors >= 0)
			read_errors(m);
		lose(c, i, m->listens ? "its agent has ended early" : "there is no agent");
	} else if (ended) {
		lose(c, i, end.text);
	}
}

/* Time passes. */

static int waiting(const struct check *c)
{
	int i, n = 0;

	for (i = 0; i < c->n; i++)
		n += c->m[i].expect != NOTHING;
	return n;
}

/* Listen to all until somebody has said something or it is @deadline_ns. */
static void listen_all(struct check *c, int64_t deadline_ns)
{
	struct pollfd *p = c->poll;
	int i;

	for (i = 0; i < c->n; i++) {
		struct member *m = &c->m[i];

		p[2 * i] = (struct pollfd){ m->lost || !m->talks ? -1 : talk_fd(&m->talk),
					    talk_events(&m->talk), 0 };
		p[2 * i + 1] = (struct pollfd){ m->starter.errors, POLLIN, 0 };
	}
	if (poll(p, (nfds_t)(2 * c->n), clock_left_ms(deadline_ns)) <= 0)
		return;
	for (i = 0; i < c->n; i++) {
		if (p[2 * i + 1].revents)
			read_errors(&c->m[i]);
		if (p[2 * i].revents & POLLOUT)
			talk_flush(&c->m[i].talk, NULL);
		if (p[2 * i].revents & ~POLLOUT)
			hear(c, i);
	}
}

/* Until everybody has answered; who has not by then is lost. */
static void await_all(struct check *c, const char *what, int64_t ms, const char *why)
{
	int64_t deadline = clock_deadline(ms);
	int i, all = waiting(c);

	while (waiting(c) && clock_ns() < deadline) {
		report(c, what, all - waiting(c), all);
		listen_all(c, deadline);
	}
	for (i = 0; i < c->n; i++)
		if (c->m[i].expect != NOTHING)
			lose(c, i, why);
	report(c, what, all, all);
}

/* The first part: agents. */

static json_t *names_json(const struct check *c)
{
	json_t *list = json_array();
	int i;

	for (i = 0; i < c->n; i++)
		json_array_append_new(list, json_string(c->f->nodes[i].name));
	return list;
}

static void greet(struct check *c, int i, int port)
{
	char hex[2 * SECRET_BYTES + 1];

	sodium_bin2hex(hex, sizeof(hex), c->secret.key, SECRET_BYTES);
	c->m[i].talks = true;
	say(c, i,
	    json_pack("{ss ss si so si}", "op", "hello", "secret", hex, "node", i, "names",
		      names_json(c), "port", port),
	    FACTS);
	sodium_memzero(hex, sizeof(hex));
}

static void start_all(struct check *c)
{
	/* The same everywhere where it is free: then an address that leads to the wrong
	 * node leads to somebody who can say who he is. */
	int port = FIRST_PORT + (int)randombytes_uniform(PORTS), i;
	struct err e = { 0 };

	for (i = 0; i < c->n; i++) {
		struct member *m = &c->m[i];

		if (starter_begin(&m->starter, &c->how->start, c->f->nodes[i].name, &e)) {
			lose(c, i, e.text);
			continue;
		}
		talk_open(&m->talk, m->starter.fd, m->starter.fd);
		greet(c, i, port);
		listen_all(c, 0);
	}
}

/* The second part: who reaches whom. */

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
	int to, rc = 0;
	size_t i;

	m->first = c->f->npaths;
	for (to = 0; to < c->n; to++) {
		if (to == from || c->m[to].lost)
			continue;
		json_array_foreach(c->m[to].listens, i, at)
		{
			rc = rc ? rc : plan_port(c, from, to, at, e);
		}
	}
	m->npaths = c->f->npaths - m->first;
	return rc;
}

/* Names of all nodes, and the paths of one of them. */
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
		j = json_pack("{ss so}", "op", "reach", "facts", facts_json(&part));
	part.paths = NULL;
	facts_free(&part);
	return j;
}

/* Paths that nobody has told anything about are no facts. */
static void drop_untried(struct check *c)
{
	struct probe_facts *f = c->f;
	int i, kept = 0;

	for (i = 0; i < c->n; i++) {
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
	int i, rc = 0;

	for (i = 0; !rc && i < c->n; i++)
		if (!c->m[i].lost)
			rc = plan_paths(c, i, e);
	for (i = 0; !rc && i < c->n; i++)
		if (!c->m[i].lost)
			say(c, i, plan_json(c, i), REACHED);
	if (!rc)
		await_all(c, "connections tried", CHECK_REACH_MS,
			  "its agent has not come back from trying connections");
	drop_untried(c);
	return rc;
}

/* The third part: how fast.  In each round a node meets one other. */

struct duel {
	int a, b;
	int *path, n, next; /* of both directions, one after the other */
};

static bool is_worth_it(const struct check *c, const struct probe_path *p)
{
	return p->state == FACTS_OPEN && p->mtu.segment == 1 && !c->m[p->from].lost &&
	       !c->m[p->to].lost;
}

/* The paths between two nodes that can be measured. */
static void fill(const struct check *c, struct duel *d, int from, int to)
{
	const struct member *m = &c->m[from];
	int k;

	for (k = m->first; k < m->first + m->npaths; k++)
		if (c->f->paths[k].to == to && is_worth_it(c, &c->f->paths[k]))
			d->path[d->n++] = k;
}

/* Has it nothing to wait for?  Begins with its next path where there is one. */
static bool go_on(struct check *c, struct duel *d, int ms)
{
	struct probe_path *p;
	int from, slot;

	if (c->m[d->a].expect != NOTHING || c->m[d->b].expect != NOTHING)
		return false;
	while (d->next < d->n) {
		p = &c->f->paths[d->path[d->next++]];
		from = p->from;
		slot = ms / d->n;
		if (!is_worth_it(c, p))
			continue;
		c->m[from].measuring = (int)(p - c->f->paths) - c->m[from].first;
		say(c, from,
		    json_pack("{ss si si si}", "op", "measure", "path", c->m[from].measuring,
			      "latency_ms", slot / 3 + 1, "bandwidth_ms",
			      c->how->quick ? 0 : slot - slot / 3),
		    MEASURED);
		return false;
	}
	return true;
}

static void play(struct check *c, struct duel *d, int n, int ms)
{
	int64_t deadline = clock_deadline(CHECK_ROUND_MS);
	int i, busy = 1;

	while (busy && clock_ns() < deadline) {
		for (i = busy = 0; i < n; i++)
			busy += !go_on(c, &d[i], ms);
		if (busy)
			listen_all(c, deadline);
	}
	for (i = 0; i < c->n; i++)
		if (c->m[i].expect != NOTHING)
			lose(c, i, "its agent has not come back from measuring");
}

static int measure_all(struct check *c, struct err *e)
{
	int rounds = rounds_count(c->n), seats = (c->n + 1) / 2, round, k, n, ms;
	struct duel *d = calloc((size_t)seats + 1, sizeof(*d));
	int *paths = calloc((size_t)c->f->npaths + 1, sizeof(*paths)), *room;

	if (!d || !paths) {
		free(d);
		free(paths);
		return fail(e, RINGUP_ENOMEM, "no memory for rounds");
	}
	ms = rounds ? CHECK_MEASURE_MS / rounds : 0;
	ms = ms < CHECK_PAIR_MS ? ms : CHECK_PAIR_MS;
	for (round = 0; round < rounds; round++) {
		report(c, "rounds measured", round, rounds);
		room = paths;
		for (k = n = 0; k < seats; k++) {
			d[n] = (struct duel){ .path = room };
			if (!rounds_pair(c->n, round, k, &d[n].a, &d[n].b))
				continue;
			fill(c, &d[n], d[n].a, d[n].b);
			fill(c, &d[n], d[n].b, d[n].a);
			room += d[n].n;
			n++;
		}
		play(c, d, n, ms);
	}
	report(c, "rounds measured", rounds, rounds);
	free(d);
	free(paths);
	return 0;
}

/* All parts. */

static int prepare(struct check *c, struct err *e)
{
	int i, rc = secret_new(&c->secret, e);

	c->m = calloc((size_t)c->n + 1, sizeof(*c->m));
	c->poll = calloc((size_t)c->n * 2 + 1, sizeof(*c->poll));
	if (rc || !c->m || !c->poll)
		return rc ? rc : fail(e, RINGUP_ENOMEM, "no memory for %d nodes", c->n);
	reach_descriptors();
	for (i = 0; i < c->n; i++) {
		c->m[i].starter = (struct starter){ .pidfd = -1, .fd = -1, .errors = -1 };
		talk_open(&c->m[i].talk, -1, -1);
		if (!facts_add_node(c->f, c->how->nodes->name[i]))
			return fail(e, RINGUP_ENOMEM, "no memory for %d nodes", c->n);
	}
	return 0;
}

static void clean_up(struct check *c)
{
	int64_t deadline = clock_deadline(CHECK_END_MS);
	int i;

	for (i = 0; c->m && i < c->n; i++)
		starter_hang_up(&c->m[i].starter);
	for (i = 0; c->m && i < c->n; i++) {
		starter_end(&c->m[i].starter, deadline);
		talk_close(&c->m[i].talk);
		json_decref(c->m[i].listens);
	}
	free(c->m);
	free(c->poll);
	secret_wipe(&c->secret);
}

int check_run(const struct check_how *how, struct probe_facts *f, struct err *e)
{
	struct check c = { .how = how, .f = f, .n = how->nodes->n };
	int64_t start = clock_ns();
	int rc;

	memset(f, 0, sizeof(*f));
	rc = prepare(&c, e);
	if (!rc) {
		start_all(&c);
		await_all(&c, "agents started", how->start_ms ? how->start_ms : CHECK_START_MS,
			  "its agent does not answer");
		rc = reach_all(&c, e);
	}
	if (!rc)
		rc = measure_all(&c, e);
	clean_up(&c);
	f->seconds = (double)(clock_ns() - start) / 1e9;
	return rc;
}
