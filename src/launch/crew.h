/* crew.h - a job's ranks on this host: start, signal and reap them, and clean up after them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_CREW_H
#define LAUNCH_CREW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/oom.h"
#include "launch/order.h"
#include "launch/stray.h"
#include "wire/cause.h"

struct err;
struct secret;

/*
 * The ranks are children of this process: of the launcher if the job is on its host alone, else
 * of the host's rank daemon.  This process becomes the parent of what they leave behind, too.
 * Main thread of a process that has no other: the ranks die with the thread that starts them.
 */

/* Callbacks, from within crew_reap() and crew_notes(). */
struct crew_owner {
	/* A rank has ended, after all of its notes.  @code, @status: as in siginfo; @remark:
	 * what is known besides, or "". */
	void (*ended)(void *ctx, int id, int code, int status, const char *remark);
	void (*noted)(void *ctx, const struct cause_note *note, const char *why);
	void *ctx;
};

/* A rank to be started; the variables of descriptors, and a daemon's mark, are added to @env.
 */
struct crew_start {
	int id; /* the owner's, unique                                          */
	char *const *env;
	int fds[3]; /* its stdin, stdout and stderr; -1: /dev/null              */
	int report; /* RINGUP_REPORT_FD; 0: none                                */
	pid_t pid;  /* set by crew_start(); 0: it was not started               */
};

enum { CREW_VARS = 4, CREW_VAR = 96 };

/* Zero-initialise, then set the fields of the first part. */
struct crew {
	struct crew_owner owner;
	char *const *argv;   /* of all ranks; NULL-terminated                             */
	char mark[CREW_VAR]; /* "NAME=VALUE" in the environment of all ranks, and of no others;
				a daemon's is added, a launcher's is in env already        */
	int notice_fd;       /* RINGUP_NOTICE_FD; 0: none                                 */
	int keep;            /* one more descriptor that the ranks inherit; 0: none       */
	bool is_daemon;      /* the ranks stay in this process's session; else they get one */

	struct crew_rank *ranks; /* those that run: count */
	int count;
	struct cause_pipe cause;
	struct stray stray;
	struct oom oom; /* before any rank was there                                    */
	pid_t session;  /* of the ranks; its leader stays a zombie to the end; 0: none  */
	int *older;     /* children of this process that are not the job's; ends with 0 */
	int secret_fd;
	char vars[CREW_VARS][CREW_VAR];
	bool warned; /* by crew_sweep() */
};

/* crew_open - @secret: of the job.  Undone by crew_close(), also after a failure. */
int crew_open(struct crew *c, const struct secret *secret, struct err *e);
void crew_close(struct crew *c);

/* crew_start - start @n ranks; without is_daemon all at once, since they share a new session.
 * After a failure those whose pid is set run. */
int crew_start(struct crew *c, struct crew_start *ranks, int n, struct err *e);

/* crew_pid - of a rank that runs; else 0. */
pid_t crew_pid(const struct crew *c, int id);

/* crew_signal - send @sig to rank @id, or to all (-1), as @whom says. */
void crew_signal(struct crew *c, int id, int sig, enum order_whom whom);

/* crew_notes - pass on what ranks have noted about failures; when cause.in is readable. */
void crew_notes(struct crew *c);

/*
 * crew_reap - after SIGCHLD: ranks that have ended are told to the owner, and orphans of theirs
 * are reaped.  A daemon kills a failed rank's process group: it would disturb a successor.  On
 * one host nothing succeeds it, and another rank may have joined that group. Returns 1 if the
 * guard (launch/stray.h) was killed and there is another, a code if there is none, else 0.
 */
int crew_reap(struct crew *c, struct err *e);

/*
 * crew_sweep - once no rank runs: end what they have left behind, by SIGTERM at the first call
 * and by SIGKILL when @has_time is no more true.
 * Returns how many processes are left: call it until that is 0.
 */
int crew_sweep(struct crew *c, bool has_time);

/* crew_why_alive - write to @out why SIGKILL has not ended rank @id, as a clause: ": it hangs
 * in the kernel (state D, in nfs_wait)". */
void crew_why_alive(const struct crew *c, int id, char *out, size_t size);

#endif
