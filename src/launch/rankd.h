/* rankd.h - the rank daemon: starts ranks here, for a launcher that may be on another host. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_RANKD_H
#define LAUNCH_RANKD_H

#include <stdbool.h>

struct err;
struct secret;

enum {
	RANKD_WINDOW_BYTES = 1 << 20, /* output that the launcher has not passed on, at most */
	RANKD_STDIN_FD = 3,           /* the launcher's standard input, if it gave it       */
	RANKD_PING_MS = 5000,
	/* A launcher that says nothing for so long is lost.  A task's is lost as soon as a host
	 * is to the other ranks (CHAN_SILENCE_MS), for nothing else tells that it has frozen.
	 */
	RANKD_SILENCE_MS = 60000,
	RANKD_TASK_SILENCE_MS = 15000,
};

/*
 * What a program that starts the daemon itself, a Spark task for instance, decides in the
 * launcher's place.  The ranks run @argv in the daemon's working directory, and get the
 * daemon's environment with the launcher's variables on top (rankenv_overlay()).  Each rank
 * has a pipe more, RINGUP_REPORT_FD; the bytes written there go to the launcher as stream 2.
 */
struct rankd_task {
	char *const *argv; /* NULL-terminated                                            */
	int lifeline;      /* the ranks are killed when this descriptor reaches its end  */
	const struct secret *key; /* of the connection to the launcher: see order_seal() */
	int keep;    /* a descriptor that the ranks inherit; -1: none              */
	bool copies; /* also write the output of the ranks to the daemon's stderr  */
};

/*
 * rankd_run - carry out the launcher's orders from @in, until ORDER_FINISH or the end of @in.
 *
 * The command, its environment and the job's secret come over the connection, and are in no
 * argument list.  When the connection ends, all ranks are killed, and the processes that they
 * have started.  @task: NULL if the launcher decides everything.  Call it from the main thread
 * of a process that has no other.
 */
int rankd_run(int in, int out, const struct rankd_task *task, struct err *e);

#endif
