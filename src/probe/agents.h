/* agents.h - a check's agents, one for each node of a roster: start, requests, answers. */
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
 * A member has one request under way at a time: it is sent, then its answer is awaited.  A
 * member that has no agent, dies, is silent or talks nonsense is lost with the reason, and the
 * others go on.
 */
enum { AGENTS_START_MS = 6000, AGENTS_END_MS = 1000, AGENTS_WHY = 256, AGENTS_SAID = 160 };

struct agents_how {
	const struct roster *nodes;
	struct starter_options start;
	int start_ms; /* how long agents may take to answer; 0: AGENTS_START_MS */
	void (*progress)(const char *what, int done, int all); /* or NULL     */
};

/* The caller that receives the answers. */
struct agents_owner {
	/* Takes member @i's answer, with the awaited "op"; a failure loses the member. */
	int (*take)(void *ctx, int i, const json_t *msg, struct err *e);
	void *ctx;
};

struct agents_member {
	struct starter starter;
	struct talk talk;
	const char *expect; /* the "op" of its answer; NULL: nothing is awaited */
	bool talks, lost;
	bool answered;               /* at least once                              */
	char last_line[AGENTS_SAID]; /* the last line of its starter's stderr      */
	char why[AGENTS_WHY];        /* why it is lost; foreign bytes, no controls */
};

/* Caller's storage; zeroed is closed. */
struct agents {
	const struct agents_how *how;
	struct agents_owner owner;
	struct agents_member *m;
	int n;
	struct pollfd *poll;
};

/* agents_open - allocate a member for each node, without agents; @how must outlive them. */
int agents_open(struct agents *c, const struct agents_how *how, struct agents_owner owner,
		struct err *e);

/* agents_start - start member @i's agent, which then takes requests; false: it is lost. */
bool agents_start(struct agents *c, int i);

/* agents_say - send @msg, taking over its reference, and await an answer with "op" @expect. */
void agents_say(struct agents *c, int i, json_t *msg, const char *expect);

/* agents_lose - give member @i up; of several reasons the first is kept. */
void agents_lose(struct agents *c, int i, const char *why);

/* agents_listen - wait for all members until one has written something or @deadline_ns. */
void agents_listen(struct agents *c, int64_t deadline_ns);

/* agents_await - wait until all members have answered; after @ms the silent ones are lost for
 * the reason @why.  @what is for the progress. */
void agents_await(struct agents *c, const char *what, int64_t ms, const char *why);

/* agents_await_start - the same for the first answers. */
void agents_await_start(struct agents *c);

/* agents_report - report progress. */
void agents_report(const struct agents *c, const char *what, int done, int all);

/* agents_close - end all starters' processes and close all connections. */
void agents_close(struct agents *c);

#endif
