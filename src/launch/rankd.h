/* rankd.h - ranks of a job on this host, for a launcher that may be on another one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_RANKD_H
#define LAUNCH_RANKD_H

struct err;

enum {
	RANKD_WINDOW_BYTES = 1 << 20, /* output that the launcher has not passed on, at most */
	RANKD_STDIN_FD = 3,           /* what rank 0 reads, if the launcher gave it          */
	RANKD_PING_MS = 5000,
	RANKD_SILENCE_MS = 60000, /* a launcher that says nothing for so long is lost    */
};

/*
 * rankd_run - do what the launcher says on @in, until it says that it is enough.
 *
 * Order, environment and the job's secret come over the connection; nothing of it is in an
 * argument list.  When the connection ends, all ranks are killed, and what they have started.
 * Call it from the main thread of a process that has no other.
 */
int rankd_run(int in, int out, struct err *e);

#endif
