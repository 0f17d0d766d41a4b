/* byhand.h - agents that people start where nothing can be started from afar. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_BYHAND_H
#define PROBE_BYHAND_H

#include "probe/agents.h"
#include "wire/secret.h"

struct err;

enum { BYHAND_SECONDS = 300, BYHAND_HEX = 2 * SECRET_BYTES + 1 };

struct byhand_how {
	const char *address; /* of this host, to listen on */
	int seconds;         /* how long; 0: BYHAND_SECONDS */
	/* Tell people what to start; @hex is the secret, good for this one time. */
	void (*invite)(const char *where, const char *hex, int seconds);
};

/*
 * byhand_gather - wait until each node's agent has come, or time is over; who has not is lost.
 *
 * Agents prove that they know @s, then say which node they are.  Strangers may do at that port
 * whatever they like; see door.h.
 */
int byhand_gather(struct agents *a, const struct byhand_how *how, const struct secret *s,
		  struct err *e);

/* byhand_read - the secret out of what people paste: hexadecimal, blanks around it. */
int byhand_read(struct secret *s, const char *text, struct err *e);

/* byhand_join - the agent's side: a proved connection to @where, to say who it is with @name.
 */
int byhand_join(struct talk *t, const char *where, const char *name, const struct secret *s,
		struct err *e);

#endif
