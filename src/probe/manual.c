/* manual.c - agents that the user starts manually, where the check cannot start them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/manual.h"

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/chan.h"
#include "wire/door.h"
#include "wire/session.h"

/* Connections that have proved the secret but not named their node: few, and not for long. */
enum { NAMELESS = 16, NAMELESS_MS = 5000, JOIN_MS = 10000 };

struct nameless {
	struct talk talk; /* chan is NULL in a free place */
	int64_t deadline_ns;
};

struct gathering {
	struct agents *agents;
	struct door door;
	struct nameless nameless[NAMELESS];
	struct pollfd poll[DOOR_FDS + NAMELESS];
};

static int manual_admit(void *ctx, const struct shake *h)
{
	(void)ctx;
	return h->peer.channel == SHAKE_AGENT ? 0 : RINGUP_EINVAL;
}

static void manual_enter(void *ctx, int fd, const struct shake *h)
{
	struct gathering *g = ctx;
	struct chan *c;
	int i;

	for (i = 0; i < NAMELESS && g->nameless[i].talk.chan; i++)
		;
	if (i == NAMELESS || chan_open(fd, &h->keys, &c, NULL)) {
		close(fd);
		return;
	}
	talk_open_chan(&g->nameless[i].talk, c);
	g->nameless[i].deadline_ns = clock_deadline(NAMELESS_MS);
}

/* "n1" also names the host "n1.example.org". */
static bool is_called(const char *node, const char *name)
{
	size_t len = strcspn(node, ".");

	return !strcmp(node, name) || (strcspn(name, ".") == len && !strncmp(node, name, len) &&
				       (!node[len] || !name[len]));
}

/* The member whose name the agent gives, or a negative code with the reason. */
static int find_member(const struct agents *a, const json_t *msg, struct err *e)
{
	const char *name = json_string_value(json_object_get(msg, "name"));
	int best = -1;

	if (!name)
		return fail(e, RINGUP_EINVAL, "an agent says who it is");
	for (int i = 0; i < a->n; i++)
		if (!strcmp(a->how->nodes->name[i], name))
			best = i;
		else if (best < 0 && is_called(a->how->nodes->name[i], name))
			best = i;
	if (best < 0)
		return fail(e, RINGUP_EINVAL,
			    "no node of this check is named %.80s; use --name=NODE", name);
	if (a->m[best].talks)
		return fail(e, RINGUP_EBUSY, "%.80s is here already",
			    a->how->nodes->name[best]);
	return best;
}

static void manual_hear(struct gathering *g, struct nameless *n)
{
	struct err e = { 0 };
	json_t *msg = NULL;
	int i, rc = talk_read(&n->talk, &e);

	if (!rc)
		rc = talk_next(&n->talk, &msg, &e);
	if (!rc)
		return;
	i = rc < 0 ? rc : find_member(g->agents, msg, &e);
	json_decref(msg);
	if (i < 0) {
		talk_say(&n->talk, json_pack("{ss ss}", "op", "error", "why", e.text), NULL);
		talk_close(&n->talk);
		return;
	}
	g->agents->m[i].talk = n->talk;
	g->agents->m[i].talks = true;
	talk_open(&n->talk, -1, -1);
}

static int count_here(const struct agents *a)
{
	int n = 0;

	for (int i = 0; i < a->n; i++)
		n += a->m[i].talks;
	return n;
}

static void wait_once(struct gathering *g, int64_t deadline)
{
	const struct door_owner owner = { manual_admit, manual_enter, g };
	int i, n = door_poll(&g->door, g->poll);
	int64_t until = door_until(&g->door);

	until = deadline < until ? deadline : until;
	for (i = 0; i < NAMELESS; i++) {
		const struct nameless *one = &g->nameless[i];

		g->poll[n + i] =
			(struct pollfd){ one->talk.chan ? talk_fd(&one->talk) : -1, POLLIN, 0 };
		if (one->talk.chan && one->deadline_ns < until)
			until = one->deadline_ns;
	}
	poll(g->poll, (nfds_t)(n + NAMELESS), clock_left_ms(until));
	for (i = 0; i < NAMELESS; i++) {
		if (g->poll[n + i].revents)
			manual_hear(g, &g->nameless[i]);
		else if (g->nameless[i].talk.chan && clock_ns() >= g->nameless[i].deadline_ns)
			talk_close(&g->nameless[i].talk);
	}
	door_serve(&g->door, g->poll, &owner);
}

int manual_gather(struct agents *a, const struct manual_options *how, const struct secret *s,
		  struct err *e)
{
	struct gathering g = { .agents = a };
	int seconds = how->seconds ? how->seconds : MANUAL_SECONDS, here, rc;
	int64_t deadline = clock_deadline(seconds * (int64_t)1000);
	char where[SOCK_TEXT], hex[MANUAL_HEX];

	rc = door_listen(&g.door, how->address, where, 0, s, e);
	if (rc)
		return rc;
	sodium_bin2hex(hex, sizeof(hex), s->key, SECRET_BYTES);
	how->invite(where, hex, seconds);
	sodium_memzero(hex, sizeof(hex));
	while ((here = count_here(a)) < a->n && clock_ns() < deadline) {
		agents_report(a, "agents have come", here, a->n);
		wait_once(&g, deadline);
	}
	for (int i = 0; i < NAMELESS; i++)
		if (g.nameless[i].talk.chan)
			talk_close(&g.nameless[i].talk);
	for (int i = 0; i < a->n; i++)
		if (!a->m[i].talks)
			agents_lose(a, i, "no agent was started there in time");
	door_close(&g.door);
	return 0;
}

int manual_read(struct secret *s, const char *text, struct err *e)
{
	static const char blanks[] = " \t\r\n";
	size_t len;
	const char *end;

	text += strspn(text, blanks);
	if (sodium_hex2bin(s->key, SECRET_BYTES, text, strcspn(text, blanks), NULL, &len,
			   &end) ||
	    len != SECRET_BYTES || end[strspn(end, blanks)])
		return fail(e, RINGUP_EINVAL,
			    "stdin: not the secret that `ringup net check` printed");
	return 0;
}

int manual_join(struct talk *t, const char *where, const char *name, const struct secret *s,
		struct err *e)
{
	struct chan *c;
	int rc = session_connect(&c, where, SHAKE_AGENT, 0, 0, s, clock_deadline(JOIN_MS), NULL,
				 e);

	if (rc)
		return rc;
	talk_open_chan(t, c);
	rc = talk_say(t, json_pack("{ss ss}", "op", "here", "name", name), e);
	return rc < 0 ? rc : 0;
}
