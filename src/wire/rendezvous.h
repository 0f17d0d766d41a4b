/* rendezvous.h - bring the ranks of a job together: a secret and an exchange. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_RENDEZVOUS_H
#define WIRE_RENDEZVOUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/jobdir.h"
#include "wire/lobby.h"
#include "wire/secret.h"

struct discovery;
struct meet;
struct meet_server;

/*
 * What the ranks need to find each other, under any launcher.
 *
 * `ringup run` hosts a meeting point and tells its address (RINGUP_MEET=ADDRESS:PORT,
 * RINGUP_SECRET_FD).  Under any other launcher rank 0 hosts one itself and
 * offers it in a directory: this user's own on this host, or one that all hosts
 * share (RINGUP_MEET=/shared/directory).
 */
struct rendezvous {
	/* For mesh_open() and the like; all zero in a job of one rank. */
	int (*exchange)(void *ctx, const void *mine, size_t len, void *all);
	void *ctx;
	struct secret secret;
	struct err why; /* of the last exchange that failed */

	/* Private to rendezvous.c. */
	int rank, size;
	int64_t deadline_ns;
	struct meet *meet;
	struct meet_server *server;
	struct jobdir offer;
};

/*
 * rendezvous_open - meet the other ranks of the job that @d describes.
 *
 * @address is this rank's numeric address on the interface between hosts; the
 * meeting point of a job on one host is on the loopback interface.  May be
 * called again after rendezvous_close(), by all ranks.  Blocks until all
 * ranks have come, or the deadline, which also ends every later exchange.
 *
 * @r stays where it is until rendezvous_close(), which is safe after a failure.
 * Threads: one at a time in a process.
 * Returns 0, RINGUP_EINVAL (there is no way to meet; says what to set),
 * RINGUP_EAUTH, RINGUP_ETIMEDOUT or RINGUP_ESYSTEM.
 */
int rendezvous_open(struct rendezvous *r, const struct discovery *d, const char *address,
		    int64_t deadline_ns, struct err *e);

/*
 * rendezvous_await - the same in an elastic job: wait until the launcher gives this worker a
 * place in a generation, in *@place, then meet its other ranks.
 *
 * The wait has no deadline of its own: see lobby_join().  Connecting to the launcher may take
 * @patience_ms, and so may the meeting that follows.  @state goes to the launcher.
 */
int rendezvous_await(struct rendezvous *r, const struct discovery *d, enum lobby_state state,
		     int64_t patience_ms, struct lobby_place *place, struct err *e);

enum { RENDEZVOUS_SECRET_LEAST = 32 }; /* characters */

/* The program's own description of its ranks, see ringup_init(). */
struct rendezvous_caller {
	int rank, size;
	int (*exchange)(void *ctx, const void *mine, size_t len, void *all);
	void *ctx;
	const char *secret; /* NULL or "": none */
};

/*
 * rendezvous_adopt - the same on top of the program's own exchange.
 *
 * With a secret, which all ranks were given another way, only nonces go through the exchange
 * and proofs that each rank knows it; RINGUP_EAUTH names one that does not.  Without a secret
 * rank 0's new key goes through, and a program that can read it can join the job.
 */
int rendezvous_adopt(struct rendezvous *r, const struct rendezvous_caller *c, struct err *e);

/* rendezvous_close - leave the meeting point; @r may be all zero.  Blocks up to a second,
 * so that every rank gets rank 0's last answers.  Wipes the secret. */
void rendezvous_close(struct rendezvous *r);

#endif
