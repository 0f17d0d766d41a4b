/* ending.h - the phases in which a job ends, after a failure, a signal or the time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_ENDING_H
#define LAUNCH_ENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct output;

enum {
	ENDING_TIMEOUT_STATUS = 124,
	ENDING_MOURN_MS = 1000,     /* for the others to notice that a rank has failed   */
	ENDING_INTERRUPT_MS = 1000, /* from SIGINT to SIGTERM, and from there to SIGKILL */
	ENDING_STRAY_MS = 500,      /* for processes that the ranks have left behind     */
	ENDING_DEATH_MS = 2000,     /* for the kernel to carry SIGKILL out               */
};

/* The phases follow in this order, and some may be left out. */
enum ending_phase {
	ENDING_RUNNING,  /* the job does not end yet                                      */
	ENDING_MOURNING, /* a rank has failed; the others may report their failures       */
	ENDING_ASKED,    /* the ranks have got SIGINT                                     */
	ENDING_WARNED,   /* they have got SIGTERM, or the signal that the launcher got    */
	ENDING_KILLED,   /* they have got SIGKILL                                         */
	ENDING_OVER,     /* all have ended, or SIGKILL did not help: a rank hangs in the
			    kernel, or may not be killed                                  */
};

/* How an ending acts on ranks; each function acts on ranks that still run. */
struct ending_owner {
	/* A phase has begun, so no rank may start any more; may be NULL. */
	void (*begun)(void *ctx);
	/* Send @sig, with @all to every process in a rank's group. */
	void (*signal)(void *ctx, int sig, bool all);
	/* The ranks have got SIGTERM; handle stopped ones, which cannot react to it. */
	void (*stopped)(void *ctx);
	/* Say that each is killed now or, if @given_up, that it cannot be. */
	void (*name)(void *ctx, bool given_up);
	void *ctx;
};

struct ending {
	struct ending_owner owner;
	struct output *output; /* the owner's; set before the first message          */
	int64_t timeout_ms;    /* time limit of the job; 0: none                     */
	int64_t grace_ms;      /* between SIGTERM and SIGKILL                        */
	int64_t next_ns;       /* when the phase ends                                */
	int64_t deadline_ns;   /* the job's deadline                        */
	enum ending_phase phase;
	int status;    /* the launcher's exit status; 0: no failure so far           */
	int signal;    /* the first one that the launcher got; 0: none               */
	int signal_fd; /* readable when ending_signals() has something to do; or -1  */
};

/* ending_init - the time limit counts from now. */
void ending_init(struct ending *x, int64_t timeout_ms, int64_t grace_ms,
		 struct ending_owner owner);

/* ending_catch - from now on signals to this process are read from signal_fd. */
int ending_catch(struct ending *x, struct err *e);
void ending_fini(struct ending *x);

/*
 * The job has to end, with @status.
 *
 * ending_mourn - a rank has failed; after ENDING_MOURN_MS the others get SIGTERM.
 * ending_stop - all ranks get SIGTERM.
 */
void ending_mourn(struct ending *x, int status);
void ending_stop(struct ending *x, int status);

/* ending_kill - all ranks get SIGKILL. */
void ending_kill(struct ending *x);

/*
 * ending_signals - handle the signals that the launcher has got.
 *
 * SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on and end the job; a second one kills at
 * once.  SIGUSR1 and SIGUSR2 are passed on.  SIGTSTP stops the ranks and the launcher.
 * Returns whether SIGCHLD was among them.
 */
bool ending_signals(struct ending *x);

/* ending_until - when ending_turn() has something to do. */
int64_t ending_until(const struct ending *x);

/* ending_turn - begin the next phase if it is time; @running: ranks that have not ended. */
void ending_turn(struct ending *x, int running);

/* ending_flush - pass the last output on, even to a slow reader, until a signal comes. */
void ending_flush(struct ending *x);

/*
 * How a rank has ended, from the si_code and si_status of waitid(2).
 *
 * ending_status - as a shell gives it.
 * ending_describe - "exited with status 3", "was killed by signal 9 (Killed)".
 */
int ending_status(int code, int status);
void ending_describe(int code, int status, char *out, size_t size);

/* ending_stopped - the state of process @pid of this host as in ps(1) if it is stopped
 * (SIGSTOP, a debugger), and so handles no signal; else 0. */
char ending_stopped(pid_t pid);

/* ending_kill_stopped - send SIGKILL to the process group of @pid if that process is stopped.
 * Returns its state, as above, or 0.  ending_remark - what is said of its end. */
char ending_kill_stopped(pid_t pid);
void ending_remark(char state, char *out, size_t size);

#endif
