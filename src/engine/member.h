/* member.h - one rank of a job: everything between ringup_init() and ringup_fini(). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_MEMBER_H
#define ENGINE_MEMBER_H

#include "base/forks.h"
#include "engine/engine.h"
#include "engine/ledger.h"
#include "engine/watch.h"
#include "ringup.h"
#include "wire/mesh.h"
#include "wire/rendezvous.h"
#include "wire/segment.h"

struct star;

struct member {
	struct engine engine;
	struct watch watch;
	struct ledger ledger;
	struct star *star;
	struct segment segment;
	struct mesh mesh;
	struct rendezvous meeting;
	/* For a rank that shares no memory. */
	struct seat *seat;
	uint32_t sleepers, left;
	struct alarm alarm;
	struct row row;
	struct forks_hook fork; /* closes the connections in children */
	/* Where everybody is. */
	int rank, size, local_rank, local_size, host_rank, host_count;
	bool homogeneous;
	struct watch_peer *peers;
};

/*
 * member_open - meet, share memory or connect, choose a back end, start.
 *
 * All ranks fail together: with the sentence of the rank that could not.
 * @how as in ringup_init(), or NULL.  member_close() is not called after a failure.
 */
int member_open(struct member *m, const struct ringup_init *how, struct err *e);

void member_close(struct member *m);

#endif
