/* rankd.h - the rank daemon: starts ranks here, for a launcher that may be on another host. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_RANKD_H
#define LAUNCH_RANKD_H

struct err;

enum {
	RANKD_WINDOW_BYTES = 1 << 20, /* output that the launcher has not passed on, at most */
	RANKD_STDIN_FD = 3,           /* the launcher's standard input, if it gave it       */
	RANKD_PING_MS = 5000,
	RANKD_SILENCE_MS = 60000, /* a launcher that says nothing for so long is lost    */
};

/*
 * rankd_run - carry out the launcher's orders from @in, until ORDER_FINISH or the end of @in.
 *
 * The command, its environment and the job's secret come over the connection, and are in no
 * argument list.  When the connection ends, all ranks are killed, and the processes that they
 * have started.  Call it from the main thread of a process that has no other.
 */
int rankd_run(int in, int out, struct err *e);

#endif
