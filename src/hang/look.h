/* look.h - one sample of a job's ranks: the input to the verdict. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_LOOK_H
#define HANG_LOOK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Every source (observation pages, /proc, stacks, NCCL RAS) fills the same rows, and the
 * verdict reads nothing else.  A look is complete in itself; the verdict compares two of them.
 */
enum {
	ROWS_RANKS = 8192,
	ROWS_WAITS = 65536,
	ROWS_MISSING = 24,
	ROWS_NAME = 64,
	ROWS_TEXT = 128,
};

/* The process of a rank. */
enum row_state {
	ROW_UNSEEN, /* on another host, or this user may not look: nothing is known */
	ROW_ALIVE,
	ROW_GONE,    /* there is no such process, or it is a zombie  */
	ROW_STOPPED, /* by a signal or a debugger                    */
	ROW_DISK,    /* in the kernel, uninterruptible               */
	ROW_SILENT,  /* it does not answer NCCL RAS                  */
};

/* What the rank does, as far as a source tells. */
enum row_phase {
	ROW_UNKNOWN,
	ROW_OUTSIDE, /* in no operation: it runs its own code          */
	ROW_BLOCKED, /* blocked in an operation                        */
	ROW_FLYING,  /* operations are in flight, and it does not wait */
	ROW_MEETING, /* waits in the initialisation for other ranks    */
	ROW_BEFORE,  /* has not reached the initialisation             */
	ROW_LEFT,    /* has left the job                               */
};

struct row_rank {
	int rank, pid;
	char host[ROWS_NAME];
	enum row_state state;
	enum row_phase phase;
	int64_t since_ms; /* age of the phase; -1: unknown */
	bool counts;      /* progress is known             */
	uint64_t progress;
	/* Since the process began; compared between looks. */
	uint64_t cpu_ms, io_bytes, switches; /* switches: voluntary ones of the main thread */
	bool asleep;                         /* state S */
	char wchan[ROWS_NAME];               /* where in the kernel; "" : unknown */
	/* Of the stack of its main thread; "": not looked at. */
	char call[ROWS_NAME]; /* the collective that it is in, e.g. "MPI_Allreduce"; "": none */
	char frame[ROWS_TEXT]; /* the program's innermost function: "load_batch" */
	char where[ROWS_TEXT]; /* with the line: "load_batch (train.py:21)"      */
	char doing[ROWS_NAME]; /* innermost function of all, "clock_nanosleep"   */
	uint64_t print;        /* of the program's frames, in a call; 0: unknown */
	char last[ROWS_TEXT];  /* the operation that it began last; "": unknown */
};

/* An operation that a rank has in flight. */
struct row_wait {
	int rank;
	char group[ROWS_NAME], what[ROWS_TEXT];
	uint64_t number;
	int64_t since_ms;
	bool blocked;  /* the rank does not go on before it is over         */
	bool reported; /* of other ranks, whose rows may be missing         */
	bool message;  /* a send or receive                                 */
	bool all_known;
	int peer;          /* of a message; -1: any rank, or no message */
	int size, waiting; /* of the group; ranks that have started it */
	int missing;       /* ranks that have not, of which the first are in who */
	int who[ROWS_MISSING];
};

/* A rank in a communicator of NCCL, which counts what was launched. */
struct row_count {
	int rank, size;
	char group[ROWS_NAME];
	uint64_t launched;
	char what[ROWS_NAME]; /* the kind of collective of which launched is told */
	bool starting;        /* the communicator is being initialised */
};

struct look {
	int size;       /* of the job; 0: unknown */
	bool has_page;  /* observation pages were read */
	bool has_stack; /* stacks were asked for, and there were tools for them */
	bool moved;     /* between this look and the one before, stacks were seen to change */
	struct row_rank *rank;
	int ranks;
	struct row_wait *wait;
	int waits;
	struct row_count *count;
	int counts;
	/* "": nothing.  What a source could not see, and why; what would show more: a change, a
	 * command. */
	char unseen[ROWS_TEXT], fix[ROWS_TEXT], run[ROWS_TEXT];
};

/* look_rank, look_wait, look_count - add a row, all zero; NULL without memory or
 * room, or if @rank is none of ROWS_RANKS.
 * look_find - the row of @rank, or NULL.  look_free - safe on a zeroed struct. */
struct row_rank *look_rank(struct look *l, int rank);
struct row_wait *look_wait(struct look *l, int rank);
struct row_count *look_count(struct look *l, int rank);
struct row_rank *look_find(const struct look *l, int rank);
void look_free(struct look *l);

/* look_advances - has any rank, of those whose progress is known in both, advanced since @l? */
bool look_advances(const struct look *l, const struct look *later);

/* look_find_before - ranks that have no page yet, while others do, have not reached the
 * initialisation. */
void look_find_before(struct look *l);

/*
 * look_compare - complete the phases and waits of a job whose ranks are on several hosts.
 *
 * A rank's page names the ranks of its own host that are missing.  For an operation of all
 * ranks the others' rows tell the rest: who has a page, and no such wait, is missing.
 */
void look_compare(struct look *l);

#endif
