/* fleet.h - the rank daemons of a job's hosts, as the launcher starts and drives them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_FLEET_H
#define LAUNCH_FLEET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/crew.h"
#include "launch/hostlist.h"
#include "launch/order.h"
#include "launch/starter.h"
#include "wire/secret.h"

struct cause_note;
struct err;
struct parent;
struct pollfd;

/*
 * If this is the only host of a job that is not elastic, the launcher has the ranks itself
 * (launch/crew.h).  Else each host has a daemon.
 *
 * A daemon is a child of the launcher on this host, or behind ssh on another one, or was
 * started by another program, and the launcher's parent has a connection to it; in all cases
 * there is a socket to it.  When the connection ends, the daemon ends its ranks and itself.
 */
enum fleet_state {
	FLEET_IDLE,     /* no daemon has been asked for */
	FLEET_STARTING, /* it has not answered yet      */
	FLEET_UP,
	FLEET_LOST, /* with the reason; fleet_begin() tries again */
	FLEET_DONE, /* it has sent ORDER_BYE */
};

enum { FLEET_SAID = 200, FLEET_CLOCK_S = 300 };

struct fleet_options {
	struct starter_options start;
	int64_t start_ms; /* for a daemon to answer       */
	const char *cwd;
	const char *interface; /* the launcher's setting, or NULL   */
	char *const *argv;     /* the ranks' command           */
	const struct secret *secret;
	bool gives_stdin; /* the first local daemon gets the launcher's */
	bool is_here; /* the one host is this one, and its ranks are children of this process */
	const char *mark;      /* with is_here: "RINGUP_JOB=..."          */
	struct parent *parent; /* hands over connections to daemons; NULL: none */
};

/* Callbacks to the owner, from within fleet_serve() and, for lost(), any call that sends. */
struct fleet_owner {
	void (*up)(void *ctx, int host);
	void (*lost)(void *ctx, int host, const char *why);
	void (*started)(void *ctx, int worker, pid_t pid);
	void (*failed)(void *ctx, int worker, const struct err *why);
	/* @stream: 0 stdout, 1 stderr, and with a parent 2, the rank's report. */
	void (*output)(void *ctx, int worker, int stream, const char *data, size_t len);
	/* @code, @status: as in siginfo; @remark: what is known besides. */
	void (*ended)(void *ctx, int worker, int code, int status, const char *remark);
	void (*noted)(void *ctx, const struct cause_note *note, const char *why);
	/* With is_here: the stdout and stderr of @worker, which stay the owner's. */
	int (*pipes)(void *ctx, int worker, int *out, int *err, struct err *e);
	void *ctx;
};

struct fleet_host {
	char name[HOSTLIST_NAME]; /* from the user or the script       */
	char self[HOSTLIST_NAME]; /* the host's own name for itself    */
	char ip[64];              /* hint for messages; may be empty   */
	char address[64];         /* towards other hosts; "": unknown  */
	int port;                 /* free there, for rank 0            */
	enum fleet_state state;
	bool is_local, finishing;
	int cores;
	struct starter starter;
	struct order order;
	char last_line[FLEET_SAID]; /* the last line of its stderr */
	int64_t late_ns;
	uint32_t unread; /* bytes of output to be acknowledged */
};

struct fleet {
	const struct fleet_options *how;
	struct fleet_owner owner;
	struct fleet_host *host;
	int count;
	bool held; /* output is not acknowledged, see fleet_hold() */
	bool stdin_given;
	int64_t ping_ns;
	/* With is_here: the ranks, and those that fleet_launch() will start. */
	struct crew crew;
	struct crew_start *queue;
	int queued;
};

void fleet_open(struct fleet *f, const struct fleet_options *how, struct fleet_owner owner);

/* fleet_add - a host called @name; its number, or a negative code. */
int fleet_add(struct fleet *f, const char *name, struct err *e);

/* fleet_begin - start host @h's daemon, if it has none. */
int fleet_begin(struct fleet *f, int h, struct err *e);

/* fleet_start - start @worker on host @h, with this environment.  @reads: it reads the
 * launcher's standard input, if the daemon has that.  Ownership: @env is the fleet's from now
 * on, for rankenv_free().  fleet_launch - with is_here the workers start now, all at once. */
void fleet_start(struct fleet *f, int h, int worker, char **env, bool reads);
void fleet_launch(struct fleet *f);
void fleet_signal(struct fleet *f, int h, uint32_t worker, int sig, enum order_whom whom);
void fleet_signal_all(struct fleet *f, int sig, enum order_whom whom);
void fleet_notice(struct fleet *f, uint32_t generation, unsigned bits);

/* fleet_reap - after SIGCHLD: with is_here, as crew_reap() does. */
int fleet_reap(struct fleet *f, struct err *e);

/* fleet_hold - stop acknowledging output: daemons read no more of it when their window is full.
 */
void fleet_hold(struct fleet *f, bool held);

/* fleet_finish - tell all daemons to end their ranks and themselves.  fleet_is_done - have all
 * ended? */
void fleet_finish(struct fleet *f);
bool fleet_is_done(const struct fleet *f);

/* fleet_poll - put the descriptors to wait for into @p, of fleet_poll_count(); returns how
 * many. fleet_until - when to serve even if nothing happens.  fleet_serve - after poll(2). */
size_t fleet_poll_count(const struct fleet *f);
size_t fleet_poll(const struct fleet *f, struct pollfd *p);
int64_t fleet_until(const struct fleet *f);
void fleet_serve(struct fleet *f);

void fleet_close(struct fleet *f);

#endif
