/* watch.h - the thread that notices when a rank dies, leaves or speaks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_WATCH_H
#define ENGINE_WATCH_H

#include <pthread.h>
#include <stdbool.h>

#include "engine/engine.h"
#include "engine/pulse.h"
#include "engine/stall.h"

struct mesh;
struct pollfd;
struct star;
struct star_events;

enum { WATCH_HOST_BYTES = 64 };

/* Another rank, as far as a sentence about its end needs it. */
struct watch_peer {
	int pid;
	char host[WATCH_HOST_BYTES];
};

/*
 * Ranks that share memory are watched by pidfd, others by the control
 * connections of the star (rank 0 sees all, the others see rank 0, which passes
 * on what it sees).  The thread sleeps in poll(2) and costs nothing until
 * something happens, but for a tick each half a second: then it says that this
 * process moves (a counter in its seat, a frame on each connection), looks whether
 * the others have, and for tensors that wait in vain.
 */
struct watch {
	struct engine *engine;
	const struct team *team;       /* of the world                 */
	struct star *star;             /* or NULL                      */
	struct mesh *mesh;             /* of the star                  */
	const struct watch_peer *peer; /* of every rank                */
	struct pulse_rules rules;
	struct pulses local;  /* of every rank, by the seats             */
	struct pulses remote; /* of every rank, by the connections       */
	struct stall stall;
	int64_t tick_ns; /* when the next one is due                     */
	int *pidfd;      /* of every rank, -1: not watched */
	int launcher;    /* pidfd of who started us, or -1 */
	char launcher_name[16];
	int wake; /* eventfd                      */
	bool stop, has_thread;
	bool *gone; /* of every rank: it has said that it leaves */
	bool *lost; /* of every rank: its connection is closed   */
	struct pollfd *polls;
	int *who; /* whose each of them is */
	pthread_t thread;
};

/* watch_events - what to give to star_open(), for a job of @size ranks, before
 * watch_start(). */
int watch_events(struct watch *w, struct engine *g, int size, struct star_events *ev,
		 struct err *e);

/* watch_start - the engine is started already; @s NULL means ranks that share memory. */
int watch_start(struct watch *w, const struct team *t, struct star *s, struct mesh *m,
		const struct watch_peer *peer, const struct pulse_rules *rules, struct err *e);

/* watch_stir - look at the connections again: something is left to be sent. */
void watch_stir(struct watch *w);

/* watch_stop - end the thread; safe on a zeroed struct. */
void watch_stop(struct watch *w);

#endif
