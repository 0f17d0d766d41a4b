/* mail.h - messages of the tcp back end between hosts, over the sockets of a mesh. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_MAIL_H
#define BACKEND_MAIL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct mesh;

/*
 * Every message names its plan, so that ranks with different plans notice before
 * anything is added up; and its chunk and round, so that it may take any socket
 * of its link and overtake others.  Little-endian, as in memory.
 */
struct mail_head {
	uint32_t magic, sequence; /* of the plan, counted on each rank */
	uint8_t kind, dtype, redop, zero;
	int32_t root;
	uint64_t count;
	uint64_t digest; /* hash of everything else that ranks must agree on */
	/* The fields above are the plan's, and the same in all its messages. */
	uint64_t chunk, bytes; /* bytes: of the payload */
	uint32_t round, none;
};

/* A message on its way out; the caller's storage until *pending is counted down. */
struct mail_out {
	struct mail_head head;
	const void *data;
	uint64_t done; /* bytes sent, head included */
	int *pending;
	struct mail_out *next;
};

/* Where a message goes: @left bytes at @to; then *@due is counted down. */
struct mail_in {
	unsigned char *to;
	uint64_t left;
	int *due;
};

struct mail_socket {
	int fd, host, rank;
	struct mail_out *first, **last; /* to be sent */
	struct mail_head head;          /* of the incoming message */
	size_t head_done;
	bool head_known; /* head is whole, and in says where the payload goes */
	bool stalled;    /* head is whole, and there is no room for the payload yet */
	bool ended;      /* the other side has closed it, between two messages */
	struct mail_in in;
};

struct mail {
	int rank;
	struct mail_socket *socket;
	int sockets;
	int *first_of;   /* of each host: its first socket, or -1 */
	int *sockets_of; /* and how many                        */
	int ended;       /* sockets */
	struct mail_head plan;
	/* Finds the place of a message with this head: 1 and *in; 0 if there is no room
	 * for it yet; negative if no such message is due. */
	int (*place)(void *ctx, int host, const struct mail_head *h, struct mail_in *in,
		     struct err *e);
	void *ctx;
};

int mail_open(struct mail *m, const struct mesh *mesh, int hosts, struct err *e);
void mail_close(struct mail *m);

/* mail_begin - from now on messages are of the plan that @h describes; magic and
 * sequence are filled in.  All messages of the plan before have come and gone. */
void mail_begin(struct mail *m, const struct mail_head *h);

/* mail_post - send @o to @host as sockets allow; its head's plan is filled in. */
void mail_post(struct mail *m, int host, struct mail_out *o);

/* mail_step - send and receive without blocking: 1 if anything happened, 0 if not,
 * or RINGUP_EPEER (a connection broke) or RINGUP_EMISMATCH (the other rank runs
 * another plan), with the rank named. */
int mail_step(struct mail *m, struct err *e);

/* mail_check - @host still has to send: RINGUP_EPEER if it cannot any more.  A rank
 * that has done its part may leave before the others are through. */
int mail_check(const struct mail *m, int host, struct err *e);

/* mail_look - there is new room: stalled sockets try again. */
void mail_look(struct mail *m);

/* mail_poll - put the sockets to wait for into @p, of m->sockets; returns how many. */
int mail_poll(const struct mail *m, struct pollfd *p);

#endif
