/* parent.h - the launcher's parent program, which has connections to the rank daemons. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_PARENT_H
#define LAUNCH_PARENT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/order.h"
#include "wire/secret.h"

struct err;

/*
 * Where a scheduler starts processes (a Spark stage, for instance), its tasks start the rank
 * daemons, each with a connection to the program that has submitted the job.  That program
 * starts `ringup run --parent FD` and talks to it over a socket of the family AF_UNIX:
 *
 * - The launcher sends frames as in launch/order.h: ORDER_CONNECT asks for the connection to a
 *   host, ORDER_REPORT passes on what a rank has written to its RINGUP_REPORT_FD, ORDER_ENDED
 *   says how a rank has ended and in which phase of the job (enum ending_phase), after all of
 *   its reports.
 * - The parent answers ORDER_CONNECT by the key of the connection (32 bytes), which the daemon
 *   has as --seal, with the connection's descriptor as SCM_RIGHTS; by one byte without a
 *   descriptor it refuses.  It sends nothing else.
 *
 * When the parent closes its end, or ends itself, the job ends.
 */
struct parent {
	struct order order;
	int fd;
};

enum {
	PARENT_ANSWER_MS = 10000, /* limit for the answer to ORDER_CONNECT        */
	PARENT_FULL = 1 << 20,    /* unread bytes at which ranks have to wait     */
};

/* parent_open - @fd stays the caller's; RINGUP_EINVAL if it is no socket. */
int parent_open(struct parent *p, int fd, struct err *e);
void parent_close(struct parent *p);

/* parent_connect - the connection to @host's daemon, which is the caller's from now on, and its
 * key.  Blocking: until the parent answers.  RINGUP_EPEER: it has none, or is gone. */
int parent_connect(struct parent *p, const char *host, struct secret *key, struct err *e);

/* parent_report - bytes that a rank has written; they wait here while the parent is slow. */
void parent_report(struct parent *p, int worker, int rank, const void *data, size_t len);

/* How a rank has ended. */
struct parent_end {
	int worker, rank;
	pid_t pid;
	int code, status;   /* as in siginfo                              */
	int phase;          /* enum ending_phase, when it ended           */
	const char *host;   /* its own name for itself                    */
	const char *memory; /* a remark: memory ran out, it was frozen    */
};

/* parent_ended - a rank has ended; there are no reports of it afterwards. */
void parent_ended(struct parent *p, const struct parent_end *end);

/* parent_poll - for poll(2).  parent_serve - after poll(2); false if the parent is gone. */
struct pollfd parent_poll(const struct parent *p);
bool parent_serve(struct parent *p);

/* parent_is_full - must reports wait until the parent has read more? */
bool parent_is_full(const struct parent *p);

#endif
