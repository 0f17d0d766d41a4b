/* elastic.h - the state machine of an elastic job: which ranks start, join and exit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_ELASTIC_H
#define LAUNCH_ELASTIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "launch/hostlist.h"
#include "wire/lobby.h"

/*
 * Pure: the caller tells it events and the time, and it answers with the next action.  It
 * starts no process, and reads no clock and no random number.
 *
 * A worker is one process, with a number that is never used again, in a slot of a host.  A
 * generation is a set of workers that have met.  It is broken when one of them ends or comes
 * back to the lobby; when each of its workers has done either, the next one is formed of all
 * workers in the lobby.  Rank 0 is always a worker of the generation before; workers keep their
 * order, and new ones come after.  New workers are announced to a running generation when all
 * that were started have come to the lobby or have failed, so that they join together; a slow
 * one keeps the others for start_ms.
 *
 * A worker that has the state of the job (what the ranks synchronize) is never ended while no
 * other one with a place has it.  If its host has failed or is no longer listed, it stays and
 * is in the next generation, so that others take the state over, and is ended after that.
 *
 * The rules are Horovod's, with one more difference: a host on which a rank fails is
 * blacklisted if the other hosts have slots enough for the job.  Otherwise it is used again
 * after a pause that doubles from failure to failure.
 */
struct elastic_options {
	int np;                  /* slots that must be there at the start          */
	int min_np, max_np;      /* ranks of a generation; max_np 0: no limit      */
	int reset_limit;         /* generations after the first; negative: any     */
	int64_t start_ms;        /* for a worker to enter the lobby after others */
	int64_t timeout_ms;      /* with too few slots; for a rank to come back    */
	int64_t cooldown_min_ms; /* a blacklisted host may come back after this;   */
	int64_t cooldown_max_ms; /* both 0: never                                  */
	bool discovers;          /* hosts may still be found                       */
};

enum {
	ELASTIC_STEADY_MS =
		60000,           /* a worker that lives this long clears its host's failures */
	ELASTIC_PAUSE_MS = 1000, /* before the second failing worker in a row is replaced     */
	ELASTIC_PAUSE_MAX_MS = 64000,
};

enum elastic_state {
	ELASTIC_STARTING, /* its process is on its way to the lobby, or is a wrapper's child */
	ELASTIC_WAITING,  /* in the lobby                                                    */
	ELASTIC_MEMBER,   /* of the generation                                               */
	ELASTIC_ENDING,   /* told to end; its exit status does not matter                    */
	ELASTIC_ENDED,
};

struct elastic_worker {
	enum elastic_state state;
	int host, slot;
	int rank;           /* in the last generation that it was in; -1: none */
	int64_t started_ns; /* when it was started, or last met the others     */
	int64_t ready_ns;   /* when it came to the lobby last                  */
	bool holds;         /* it has the state, as far as is known            */
};

struct elastic_host {
	struct hostlist_host spec;
	bool listed; /* it is among the hosts now, with spec.slots   */
	bool blacklisted;
	int failures;    /* in a row, of its workers                     */
	int64_t rest_ns; /* nothing is started there before this         */
	int spoiled;     /* workers that failed before the first meeting */
};

/* The next action. */
enum elastic_act {
	ELASTIC_NOTHING, /* until until_ns or the next event              */
	ELASTIC_START,   /* @worker on @host                              */
	ELASTIC_END,     /* @worker: for @why                             */
	ELASTIC_BREAK,   /* close the meeting point, if ranks still meet  */
	ELASTIC_FORM,    /* generation, of members[0 .. count - 1] by rank */
	ELASTIC_NOTICE,  /* @bits have changed for the generation         */
	ELASTIC_SAY,     /* @why to the user                              */
	ELASTIC_DONE,    /* the job ends with @status; @why if not empty  */
};

struct elastic_action {
	enum elastic_act act;
	int worker, host, count, status;
	unsigned bits;
	char why[256];
};

struct elastic {
	struct elastic_options how;
	struct elastic_host *hosts;
	int host_count;
	struct elastic_worker *workers;
	int worker_count;
	int *members;
	uint32_t generation; /* 0: none yet */
	int resets;
	bool broken;             /* the generation                             */
	bool to_break;           /* ELASTIC_BREAK is due                       */
	bool succeeded;          /* a worker has ended with 0: no more meetings */
	bool started;            /* slots for np ranks have been there          */
	bool kept;               /* a worker has come to the lobby with the state */
	int failed;              /* status of the first failure                */
	int final;               /* status of the first failure in this generation */
	int64_t short_ns;        /* since when slots are too few; 0: there are enough */
	int64_t waiting_ns;      /* since when a worker waits for others       */
	unsigned bits, reported; /* changes; those in the last ELASTIC_NOTICE  */
	bool over, out_of_memory;
	uint32_t random;
	char say[256];
};

/* elastic_init - @seed is for the random part of cooldowns. */
int elastic_init(struct elastic *x, const struct elastic_options *how, uint32_t seed,
		 struct err *e);
void elastic_fini(struct elastic *x);

/* elastic_hosts - set the present hosts. */
void elastic_hosts(struct elastic *x, const struct hostlist *l, int64_t now);

/* elastic_arrive, elastic_leave - a worker waits in the lobby; it has left it.  @state: whether
 * it has the job's state; one that has been in no generation has none. */
void elastic_arrive(struct elastic *x, int worker, enum lobby_state state, int64_t now);
void elastic_leave(struct elastic *x, int worker);

/* elastic_exit - a worker has ended, with an exit status as a shell gives it. */
void elastic_exit(struct elastic *x, int worker, int status, int64_t now);

/*
 * elastic_next - the next action, into *@a.  The caller does it and calls again, until it is
 * ELASTIC_NOTHING or ELASTIC_DONE.  *@until_ns: when to call even without an event.
 */
void elastic_next(struct elastic *x, int64_t now, struct elastic_action *a, int64_t *until_ns);

#endif
