/* star.h - agreement over connections: rank 0 counts, and announces batches. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_STAR_H
#define ENGINE_STAR_H

#include "engine/agree.h"

struct mesh;
struct alarm;

/*
 * Every rank tells rank 0 what it has submitted: all about a tensor the first
 * time and after a change, its number otherwise.  Rank 0 counts, compares, and
 * sends the ranks the list of what is ready whenever it has finished the batch
 * before.  A rank's numbers are its own; rank 0 translates.
 *
 * star_poll() reads the connections and must be called by one thread whenever
 * one of them is readable (watch.c does).  Everything else may be called by any.
 */
struct star;

extern const struct agree agree_star;

/* What star_poll() tells its caller about. */
struct star_events {
	/* Something is ready for next(), or a rank has left. */
	void (*news)(void *ctx);
	void (*left)(void *ctx, int rank);
	/* A rank says that the job is over. */
	void (*alarm)(void *ctx, int code, const char *why);
	void *ctx;
};

int star_open(struct star **sp, struct mesh *m, const struct star_events *ev, struct err *e);
void star_close(struct star *s);

/* star_poll - take in what @rank's connection brings, or send what was left over.
 * Negative: the connection is lost. */
int star_poll(struct star *s, int rank, struct err *e);

/* star_unsent - send to @rank what was left over; returns 1 if something still is,
 * negative if that connection is broken: either way poll for POLLOUT, too. */
int star_unsent(struct star *s, int rank);

/* star_leave - tell the others that this rank ends in peace. */
void star_leave(struct star *s);

/* star_ping - let the others know that this rank is there. */
void star_ping(struct star *s);

/* star_alarm - tell the others that the job is over. */
void star_alarm(struct star *s, int code, const char *why);

#endif
