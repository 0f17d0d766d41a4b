/* manual.h - agents that the user starts manually, where the check cannot start them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_BYHAND_H
#define PROBE_BYHAND_H

#include "probe/agents.h"
#include "wire/secret.h"

struct err;

enum { MANUAL_SECONDS = 300, MANUAL_HEX = 2 * SECRET_BYTES + 1 };

struct manual_options {
	const char *address; /* of this host, to listen on */
	int seconds;         /* how long; 0: MANUAL_SECONDS */
	/* Tells the user what to start; @hex is the secret, valid for this one check. */
	void (*invite)(const char *where, const char *hex, int seconds);
};

/*
 * manual_gather - wait for each node's agent, or until time is over; absent ones are lost.
 *
 * Agents prove that they know @s, then name their node.  Strangers cannot disturb that port;
 * see door.h.
 */
int manual_gather(struct agents *a, const struct manual_options *how, const struct secret *s,
		  struct err *e);

/* manual_read - parse the secret that the user pastes: hexadecimal, blanks around it. */
int manual_read(struct secret *s, const char *text, struct err *e);

/* manual_join - the agent's side: connect to @where, prove the secret, and send @name. */
int manual_join(struct talk *t, const char *where, const char *name, const struct secret *s,
		struct err *e);

#endif
