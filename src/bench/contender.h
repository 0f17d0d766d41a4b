/* contender.h - a player that consists of other processes: start, orders, end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_CONTENDER_H
#define BENCH_CONTENDER_H

#include <stdbool.h>

#include "bench/player.h"

struct err;
struct contender;

/* The socket to which contenders connect, in a directory of this user's. */
struct contender_door {
	char dir[80];
	char path[100];
	int fd;
};

/* contender_listen - make the directory and the socket; contender_hush() removes both, and all
 * files in the directory, as soon as all contenders have connected. */
int contender_listen(struct contender_door *d, struct err *e);
void contender_hush(struct contender_door *d);

/* The program to start.  Zero-initialise, then set what you need. */
struct contender_how {
	const char *name;
	char *const *argv; /* becomes @ranks processes that connect */
	int ranks;
	int timeout_ms; /* limit for all ranks to connect */
	bool pin;       /* rank r to the r-th processor, see bind.h */
	const struct contender_door *door;
	/* Watched together with the answers: when this descriptor becomes readable, the contest
	 * is aborted.  -1: none. */
	int stop_fd;
};

/*
 * contender_start - start a program and wait until all its ranks have said hello.
 *
 * Its stdout becomes our stderr.  Processes of other users are refused.
 *
 * Ownership: *@cp is the caller's, for contender_end().
 */
int contender_start(const struct contender_how *how, struct contender **cp, struct err *e);

/* contender_end - close the connections, which ends the ranks; ranks that do not end get a
 * signal, then SIGKILL.  @c may be NULL. */
void contender_end(struct contender *c);

/* contender_player - the player of these processes; valid until contender_end(). */
struct player contender_player(struct contender *c);

#endif
