/* meet.h - the meeting point: an authenticated allgather of small bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_MEET_H
#define WIRE_MEET_H

#include <stddef.h>
#include <stdint.h>

#include "wire/secret.h"

struct err;

/* Longest contribution of one rank, in bytes. */
enum { MEET_BYTES = 4096 };

/*
 * The server: one thread, one poll loop, bounded in connections, in bytes and
 * in time for a connection that has not proved that it knows the secret.  Serves
 * any number of rounds, and ranks that leave and come back.  A rank that leaves
 * in the middle of a round takes its bytes with it; a rank that was in the round before
 * with it is refused instead of waiting.  The thread takes no signals.
 */
struct meet_server;

/*
 * meet_serve - listen on @address (a numeric IPv4 or IPv6 address of this host,
 * never a wildcard) for @size ranks, on a port that the kernel picks.
 *
 * Ownership: @s is copied; *@sp is the caller's until meet_stop().
 */
int meet_serve(const char *address, int size, const struct secret *s, struct meet_server **sp,
	       struct err *e);

/* meet_where - "10.0.0.5:41217" or "[::1]:41217", as meet_join() takes it. */
const char *meet_where(const struct meet_server *s);

/* meet_stop - close everything, at once; @s may be NULL.  Ranks that are still
 * connected see RINGUP_EPEER. */
void meet_stop(struct meet_server *s);

/* A rank's connection to the server. */
struct meet;

/*
 * meet_join - connect to @where; both sides prove that they know @s.
 *
 * Returns 0 and sets *@mp, or
 *   RINGUP_EAUTH      the other side does not know the secret
 *   RINGUP_EMISMATCH  it is another version of ringup, or serves another number
 *		       of ranks; both are named
 *   RINGUP_EBUSY      this rank is connected already, and was for two seconds
 *   RINGUP_EPEER      the address refuses connections
 *   RINGUP_ETIMEDOUT  no answer until the deadline
 */
int meet_join(const char *where, int rank, int size, const struct secret *s,
	      int64_t deadline_ns, struct meet **mp, struct err *e);

/*
 * meet_exchange - give @len <= MEET_BYTES bytes, get those of all ranks.
 *
 * Blocks until all ranks have called it, at most until the deadline.  All
 * ranks pass the same @len, which may be 0.  RINGUP_ETIMEDOUT names the ranks that
 * did not come; the server has a second beyond the deadline to tell their
 * names.  RINGUP_EMISMATCH on all ranks if they disagree about @len or
 * one of another version came.  RINGUP_EPEER: the server is gone, or a rank that
 * was in the round before has left.
 */
int meet_exchange(struct meet *m, const void *mine, size_t len, void *all, int64_t deadline_ns,
		  struct err *e);

/* meet_leave - disconnect; @m may be NULL. */
void meet_leave(struct meet *m);

#endif
