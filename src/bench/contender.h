/* contender.h - a player that is a set of other processes: started, asked, ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_CONTENDER_H
#define BENCH_CONTENDER_H

#include <stdbool.h>

#include "bench/player.h"

struct err;
struct contender;

/* The place where contenders connect: a socket in a directory of this user's. */
struct contender_door {
	char dir[80];
	char path[100];
	int fd;
};

/* contender_listen - make the directory and the socket; contender_hush() removes
 * both, and whatever else is in the directory, as early as all have connected. */
int contender_listen(struct contender_door *d, struct err *e);
void contender_hush(struct contender_door *d);

/* What to start.  Zero-initialise, then set what you need. */
struct contender_how {
	const char *name;
	char *const *argv; /* ends up as @ranks processes that connect */
	int ranks;
	int timeout_ms; /* for all of them to come */
	bool pin;       /* rank r to the r-th processor, see bind.h */
	const struct contender_door *door;
	/* Where answers are waited for, this descriptor is watched as well: when it
	 * can be read, the contest is off.  -1: none. */
	int stop_fd;
};

/*
 * contender_start - start a program and wait until all its ranks have said hello.
 *
 * Its stdout is our stderr.  Processes of other users are turned away.
 *
 * Ownership: *@cp is the caller's, for contender_end().
 */
int contender_start(const struct contender_how *how, struct contender **cp, struct err *e);

/* contender_end - close the connections, which ends the ranks; those that do not
 * end are told to, then killed.  @c may be NULL. */
void contender_end(struct contender *c);

/* contender_player - the way to play against it; valid until contender_end(). */
struct player contender_player(struct contender *c);

#endif
