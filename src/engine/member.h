/* member.h - one rank of a job: everything between ringup_init() and ringup_fini(). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_MEMBER_H
#define ENGINE_MEMBER_H

#include "base/conf.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/watch.h"
#include "ringup.h"
#include "wire/cause.h"
#include "wire/notice.h"
#include "wire/rendezvous.h"
#include "wire/secret.h"

struct member {
	struct engine engine;
	struct watch watch;
	struct group world;
	struct rendezvous meeting;
	struct conf conf;
	/* Where everybody is. */
	int rank, size, local_rank, local_size, host_rank, host_count;
	bool homogeneous;
	/* In an elastic job; else 0, and nothing is mapped. */
	uint32_t generation, slot;
	struct notice notice;
	struct cause cause; /* all zero: no launcher asks */
	struct heartbeat_peer *peers;
	uint64_t groups;  /* that all ranks have asked for               */
	uint64_t *counts; /* what each rank has said in an exchange about groups */
	struct err why;   /* such an exchange has failed; code 0: it has not */
	/* For the connections of groups. */
	char address[128];
	struct secret secret;
	char host[HEARTBEAT_HOST_BYTES]; /* this one's name, for people */
};

/*
 * member_open - meet, share memory or connect, choose a back end, start.
 *
 * All ranks fail together: with the sentence of the rank that could not.
 * @how as in ringup_init(), or NULL.  member_close() is not called after a failure.
 */
int member_open(struct member *m, const struct ringup_init *how, struct err *e);

/* member_leave - take leave of the others; false in a child of fork(), which is no rank
 * and has nothing to close.  Groups are closed after it, and the member after them. */
bool member_leave(struct member *m);
void member_close(struct member *m);

/*
 * member_group_open - let @count ranks of the world be a group of their own.
 *
 * All ranks of the world call it, in the same order and with the same @ranks, which
 * are sorted and differ.  On those that are not among them the group has no communicator.
 * member_group_close() likewise; RINGUP_EBUSY if operations are in flight anywhere.
 */
int member_group_open(struct member *m, const int *ranks, int count, struct group *g,
		      struct err *e);
int member_group_close(struct member *m, struct group *g, struct err *e);

#endif
