/* agents.h - agents on all nodes of a roster, and what is said to them and by them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_AGENTS_H
#define PROBE_AGENTS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "launch/starter.h"
#include "probe/roster.h"
#include "probe/talk.h"

struct err;

/*
 * One question a time and member: it is said, and what comes back is awaited.  A member
 * that has no agent, dies, is silent or talks nonsense is lost with the reason, and the
 * others go on.
 */
enum { AGENTS_START_MS = 6000, AGENTS_END_MS = 1000, AGENTS_WHY = 256, AGENTS_SAID = 160 };

struct agents_how {
	const struct roster *nodes;
	struct starter_how start;
	int start_ms; /* how long agents may take to answer; 0: AGENTS_START_MS */
	void (*progress)(const char *what, int done, int all); /* or NULL     */
};

/* Whose they are. */
struct agents_owner {
	/* The answer of member @i, of the kind that was awaited; a failure loses it. */
	int (*take)(void *ctx, int i, const json_t *msg, struct err *e);
	void *ctx;
};

struct agents_member {
	struct starter starter;
	struct talk talk;
	const char *expect; /* the "op" of its answer; NULL: nothing is awaited */
	bool talks, lost;
	bool answered;          /* it has, at least once                      */
	char said[AGENTS_SAID]; /* the last line of its starter's stderr      */
	char why[AGENTS_WHY];   /* it is lost; foreign bytes without controls */
};

/* Caller's storage; zeroed is closed. */
struct agents {
	const struct agents_how *how;
	struct agents_owner owner;
	struct agents_member *m;
	int n;
	struct pollfd *poll;
};

/* agents_open - a member for each node, without agents; @how must outlive them. */
int agents_open(struct agents *c, const struct agents_how *how, struct agents_owner owner,
		struct err *e);

/* agents_start - member @i's agent, which may then be spoken to; false: it is lost. */
bool agents_start(struct agents *c, int i);

/* agents_say - @msg, whose reference it takes; an answer with "op" @expect is awaited. */
void agents_say(struct agents *c, int i, json_t *msg, const char *expect);

/* agents_lose - no more of this one; the first reason is the true one. */
void agents_lose(struct agents *c, int i, const char *why);

/* agents_listen - to all, until somebody has said something or it is @deadline_ns. */
void agents_listen(struct agents *c, int64_t deadline_ns);

/* agents_await - until everybody has answered; who has not after @ms is lost for @why.
 * @what is for the progress. */
void agents_await(struct agents *c, const char *what, int64_t ms, const char *why);

/* agents_await_start - the same for the first answers. */
void agents_await_start(struct agents *c);

/* agents_report - progress. */
void agents_report(const struct agents *c, const char *what, int done, int all);

/* agents_close - no process and no connection is left. */
void agents_close(struct agents *c);

#endif
