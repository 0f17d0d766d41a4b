/* rankd.h - the rank daemon: starts a host's ranks for the launcher of the job. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_RANKD_H
#define LAUNCH_RANKD_H

#include <stdbool.h>

struct conf;
struct err;
struct secret;

enum {
	RANKD_WINDOW_BYTES = 1 << 20, /* output that the launcher has not passed on, at most */
	RANKD_STDIN_FD = 3,           /* the launcher's standard input, if it gave it       */
	RANKD_PING_MS = 5000,
	/* A launcher that is silent for so long is lost.  For a task the time is that of a lost
	 * host (CHAN_SILENCE_MS), since nothing else shows that the launcher is frozen.
	 */
	RANKD_SILENCE_MS = 60000,
	RANKD_TASK_SILENCE_MS = 15000,
};

/*
 * Settings of a program that starts the daemon itself, a Spark task for instance, in the
 * launcher's place.  The ranks run @argv in the daemon's working directory, and get the
 * daemon's environment with the launcher's variables on top (rankenv_overlay()).  Each rank
 * has one more pipe, RINGUP_REPORT_FD; bytes written there go to the launcher as stream 2.
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
 * have started.  @task: NULL if there is none.  @conf: this host's settings.  Call it from the
 * main thread of a process that has no other.
 */
int rankd_run(int in, int out, const struct rankd_task *task, const struct conf *conf,
	      struct err *e);

#endif
