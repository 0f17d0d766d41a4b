/* lobby.h - rendezvous of an elastic job: workers wait until the launcher gives them ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_LOBBY_H
#define WIRE_LOBBY_H

#include <stddef.h>
#include <stdint.h>

#include "wire/secret.h"
#include "wire/sock.h"

struct err;
struct pollfd;

/*
 * The launcher of an elastic job has one lobby for the whole job.  A worker is one process
 * that the launcher has started; its number is never used again.  A worker that calls
 * ringup_init() connects to the lobby, proves that it knows the job's secret, and waits until
 * the launcher has a place for it: a generation, a rank, a size, and the address of that
 * generation's meeting point.  Its secret is derived from the job's and the generation.
 *
 * The worker is the process that comes first: the one that was started, or a wrapper's child.
 * Another process that has inherited its number is refused as long as the worker lives.
 *
 * The server has no thread: the launcher's own loop polls and serves it.
 */
struct lobby;

enum { LOBBY_WORKERS = 1 << 20 };

/* Did the worker have the job's state in the generation that it comes from? */
enum lobby_state {
	LOBBY_STATE_UNKNOWN, /* the program does not say: it had if it was in one */
	LOBBY_STATE_NONE,
	LOBBY_STATE_HELD,
};

/* Callbacks to the launcher, from within lobby_serve(). */
struct lobby_owner {
	/* May worker @worker wait?  0 or a code for @e. */
	int (*admit)(void *ctx, uint32_t worker, struct err *e);
	/* arrive: the worker waits from now on; leave: it has left without an answer. */
	void (*arrive)(void *ctx, uint32_t worker, enum lobby_state state);
	void (*leave)(void *ctx, uint32_t worker);
	void *ctx;
};

/* A place in a generation. */
struct lobby_place {
	uint32_t generation, rank, size;
	uint32_t slot;         /* on its host: local ranks are in the order of slots      */
	char where[SOCK_TEXT]; /* the meeting point; "" if size is 1                      */
};

/*
 * lobby_open - listen on @address, as meet_serve() does.
 *
 * Ownership: @s is copied; *@lp is the caller's until lobby_close().
 */
int lobby_open(struct lobby **lp, const char *address, const struct secret *s,
	       struct lobby_owner owner, struct err *e);

/* lobby_where - the address, for lobby_join(). */
const char *lobby_where(const struct lobby *l);

/* lobby_poll - put the descriptors to wait for into @p, of lobby_poll_count(); returns how
 * many. lobby_until - when to serve even if nothing happens. lobby_serve - after poll(2) on
 * what lobby_poll() gave; never blocks, cannot fail. */
size_t lobby_poll_count(const struct lobby *l);
size_t lobby_poll(struct lobby *l, struct pollfd *p);
int64_t lobby_until(const struct lobby *l);
void lobby_serve(struct lobby *l, const struct pollfd *p);

/* lobby_assign, lobby_refuse - answer a waiting worker, which then counts as gone; they do
 * nothing if it does not wait. */
void lobby_assign(struct lobby *l, uint32_t worker, const struct lobby_place *place);
void lobby_refuse(struct lobby *l, uint32_t worker, const struct err *why);

/* lobby_close - @l may be NULL; workers that wait see RINGUP_EPEER. */
void lobby_close(struct lobby *l);

/*
 * lobby_join - the worker's side: wait for a place.
 *
 * The deadline is for the connection.  The wait for a place ends with the launcher's answer, or
 * with the connection if the launcher dies.
 *
 * Returns 0, or what meet_join() returns, or the code and sentence of the launcher:
 * RINGUP_ESHUTDOWN if the job goes on without this worker; RINGUP_EBUSY if another process is
 * the worker.
 */
int lobby_join(const char *where, uint32_t worker, enum lobby_state state,
	       const struct secret *s, int64_t deadline_ns, struct lobby_place *place,
	       struct err *e);

/* lobby_secret - the secret of @generation, derived from the job's. */
void lobby_secret(struct secret *out, const struct secret *job, uint32_t generation);

#endif
