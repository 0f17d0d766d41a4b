/* agents.c - a check's agents, one for each node of a roster: start, requests, answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/agents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "probe/reach.h"
#include "ringup.h"

void agents_report(const struct agents *c, const char *what, int done, int all)
{
	if (c->how->progress)
		c->how->progress(what, done, all);
}

void agents_lose(struct agents *c, int i, const char *why)
{
	struct agents_member *m = &c->m[i];
	const char *last_line = *m->last_line ? m->last_line : m->talk.noise;

	if (m->lost)
		return;
	m->lost = true;
	m->expect = NULL;
	snprintf(m->why, sizeof(m->why), "%.90s%s%.150s", why, *last_line ? ": " : "",
		 last_line);
	starter_hang_up(&m->starter);
}

void agents_say(struct agents *c, int i, json_t *msg, const char *expect)
{
	/* A member that does not listen fails later, by a silence with a reason. */
	c->m[i].expect = expect;
	talk_say(&c->m[i].talk, msg, NULL);
}

/* Keeps the last whole line that the starter has written to its stderr. */
static void read_errors(struct agents_member *m)
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
			snprintf(m->last_line, sizeof(m->last_line), "%s", line);
	talk_clean(m->last_line);
}

static int agents_take(struct agents *c, int i, const json_t *msg, struct err *e)
{
	const char *op = json_string_value(json_object_get(msg, "op"));
	const char *why = json_string_value(json_object_get(msg, "why"));
	const char *expect = c->m[i].expect;

	c->m[i].expect = NULL;
	if (op && !strcmp(op, "error"))
		return fail(e, RINGUP_EPEER, "its agent says: %.120s", why ? why : "?");
	if (!op || !expect || strcmp(op, expect) != 0)
		return fail(e, RINGUP_EINVAL, "its agent sent an unexpected message");
	c->m[i].answered = true;
	return c->owner.take(c->owner.ctx, i, msg, e);
}

static void agents_hear(struct agents *c, int i)
{
	struct agents_member *m = &c->m[i];
	struct err end = { 0 }, e = { 0 };
	int ended = talk_read(&m->talk, &end), rc = 1;
	json_t *msg;

	while (rc > 0 && !m->lost) {
		rc = talk_next(&m->talk, &msg, &e);
		if (rc > 0 && agents_take(c, i, msg, &e))
			rc = RINGUP_EINVAL;
		json_decref(msg);
	}
	if (rc < 0) {
		talk_clean(e.text);
		agents_lose(c, i, e.text);
	} else if (ended == RINGUP_EPEER) {
		/* The starter's last words may still lie in the other pipe. */
		if (m->starter.errors >= 0)
			read_errors(m);
		agents_lose(c, i, m->answered ? "its agent ended early" : "no agent started");
	} else if (ended) {
		agents_lose(c, i, end.text);
	}
}

static int agents_waiting(const struct agents *c)
{
	int n = 0;

	for (int i = 0; i < c->n; i++)
		n += c->m[i].expect != NULL;
	return n;
}

void agents_listen(struct agents *c, int64_t deadline_ns)
{
	struct pollfd *p = c->poll;

	for (int i = 0; i < c->n; i++) {
		struct agents_member *m = &c->m[i];

		p[2 * i] = (struct pollfd){ m->lost || !m->talks ? -1 : talk_fd(&m->talk),
					    talk_events(&m->talk), 0 };
		p[2 * i + 1] = (struct pollfd){ m->starter.errors, POLLIN, 0 };
	}
	if (poll(p, (nfds_t)(2 * c->n), clock_left_ms(deadline_ns)) <= 0)
		return;
	for (int i = 0; i < c->n; i++) {
		if (p[2 * i + 1].revents)
			read_errors(&c->m[i]);
		if (p[2 * i].revents & POLLOUT)
			talk_flush(&c->m[i].talk, NULL);
		if (p[2 * i].revents & ~POLLOUT)
			agents_hear(c, i);
	}
}

void agents_await(struct agents *c, const char *what, int64_t ms, const char *why)
{
	int64_t deadline = clock_deadline(ms);
	int i, all = agents_waiting(c);

	while (agents_waiting(c) && clock_ns() < deadline) {
		agents_report(c, what, all - agents_waiting(c), all);
		agents_listen(c, deadline);
	}
	for (i = 0; i < c->n; i++)
		if (c->m[i].expect)
			agents_lose(c, i, why);
	agents_report(c, what, all, all);
}

void agents_await_start(struct agents *c)
{
	agents_await(c, "agents started", c->how->start_ms ? c->how->start_ms : AGENTS_START_MS,
		     "its agent does not answer");
}

bool agents_start(struct agents *c, int i)
{
	struct agents_member *m = &c->m[i];
	struct err e = { 0 };

	if (starter_begin(&m->starter, &c->how->start, c->how->nodes->name[i], &e)) {
		agents_lose(c, i, e.text);
		return false;
	}
	talk_open(&m->talk, m->starter.fd, m->starter.fd);
	m->talks = true;
	return true;
}

int agents_open(struct agents *c, const struct agents_how *how, struct agents_owner owner,
		struct err *e)
{
	*c = (struct agents){ .how = how, .owner = owner, .n = how->nodes->n };
	c->m = calloc((size_t)c->n + 1, sizeof(*c->m));
	c->poll = calloc((size_t)c->n * 2 + 1, sizeof(*c->poll));
	if (!c->m || !c->poll)
		return fail(e, RINGUP_ENOMEM, "no memory for %d nodes", c->n);
	for (int i = 0; i < c->n; i++) {
		c->m[i].starter = (struct starter){ .pidfd = -1, .fd = -1, .errors = -1 };
		talk_open(&c->m[i].talk, -1, -1);
	}
	reach_descriptors();
	return 0;
}

void agents_close(struct agents *c)
{
	int64_t deadline = clock_deadline(AGENTS_END_MS);

	for (int i = 0; c->m && i < c->n; i++)
		starter_hang_up(&c->m[i].starter);
	for (int i = 0; c->m && i < c->n; i++) {
		starter_end(&c->m[i].starter, deadline);
		talk_close(&c->m[i].talk);
	}
	free(c->m);
	free(c->poll);
	*c = (struct agents){ 0 };
}
