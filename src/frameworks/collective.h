/* collective.h - one collective on tensors of a framework, from its start to its result. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAMEWORKS_COLLECTIVE_H
#define FRAMEWORKS_COLLECTIVE_H

#include <stdint.h>

#include "base/collectives.h"
#include "ringup.h"

#define COLLECTIVE_NAME 512 /* bytes of a name, with its NUL       */
#define COLLECTIVE_DIMS 32  /* dimensions that a tensor has at most */
#define COLLECTIVE_TEXT 640 /* bytes of a sentence, with its NUL   */

/* The parameters of a collective, the same each time that an operation of a graph runs. */
struct collective_plan {
	enum collective_kind kind;
	char name[COLLECTIVE_NAME]; /* under which ranks match it; "": by order */
	int group;                  /* number of the group; 0: all ranks        */
	enum ringup_redop redop;
	double pre, post; /* factors                              */
	int root;         /* of a broadcast: a rank of the job    */
	int many;         /* tensors complete together, or none does */
};

/*
 * A tensor.  The caller sets the first part.  Memory is the caller's until the collective has
 * completed; @result is to be given to ringup_free(), and NULL if it would be empty.
 */
struct collective_tensor {
	const void *in;
	void *out;          /* of allreduce, broadcast, reducescatter: room, may equal in */
	uint64_t out_bytes; /* of allgather, alltoall: room at out, if there is some */
	enum ringup_dtype dtype; /* of the library                                     */
	uint32_t each;           /* of these elements make one of the framework's      */
	int dims;
	uint64_t shape[COLLECTIVE_DIMS + 1]; /* the last place is for each       */
	enum ringup_memory memory;
	void *stream; /* of a GPU, as in struct ringup_reduce                   */

	void *result;     /* of allgather and alltoall: rows of all ranks       */
	uint64_t *counts; /* how many rows of each rank; belongs to the run     */
	uint64_t rows;    /* their sum                                          */
};

/* A collective that has been started, or is about to be. */
struct collective_run {
	struct collective_plan plan; /* a copy: a graph may go away before its operations end */
	struct ringup *job;
	struct ringup_group *group;
	struct ringup_op *op;
	int last; /* of a join: the rank that joined last         */
	int count, room;
	struct collective_tensor *tensors; /* count of room                 */
	uint64_t *counts, counts_room;     /* of all tensors, one after the other */
	const int32_t *splits;             /* of an alltoall, or NULL: even  */
	int splits_count;
	void *of_framework; /* the caller's own                      */

	int status;                 /* of the failure; 0: none                      */
	char text[COLLECTIVE_TEXT]; /* the sentence that belongs to it              */
};

/*
 * collective_prepare - make room for @count tensors in @run, which is zeroed or was used
 * before.
 *
 * Returns 0; or RINGUP_ENOMEM, with run->text.
 */
int collective_prepare(struct collective_run *run, const struct collective_plan *plan,
		       int count);

/* collective_group - set run->job and run->group by the plan's number; 0 or a failure with
 * run->text.  The caller has entered the bridge. */
int collective_group(struct collective_run *run, struct ringup *job);

/* collective_own_rows - the rows of a reducescatter of @rows that this rank receives. */
uint64_t collective_own_rows(const struct collective_run *run, uint64_t rows);

/*
 * collective_start - start @run, whose tensors and group are set.  Never blocks.
 *
 * Returns 0; or a status of the library's, with run->text.
 */
int collective_start(struct collective_run *run);

/*
 * collective_wait - wait for @run, for @ms milliseconds of a wait without end.
 *
 * Returns 0, and the results are there; RINGUP_ETIMEDOUT, and it goes on; or a status of the
 * library's, with run->text.
 */
int collective_wait(struct collective_run *run, int ms);

/*
 * collective_finish - wait until @run has completed.
 *
 * Returns 0, and the results are there; or a status of the library's, with run->text.
 * RINGUP_ESHUTDOWN: also if the bridge is closing; the collective may go on then, and its
 * memory is still in use.
 */
int collective_finish(struct collective_run *run);

/* collective_carry_out - start @run and wait until it has completed; as both of them. */
int collective_carry_out(struct collective_run *run);

/* collective_fail - note a failure, as vsnprintf() puts it; returns @status. */
int collective_fail(struct collective_run *run, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* collective_free - free the memory of collective_prepare(), and @run's results. */
void collective_free(struct collective_run *run);

#endif
