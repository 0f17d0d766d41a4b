/* task.h - a benchmark task: a collective, its data, and the number of samples. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_TASK_H
#define BENCH_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/collectives.h"
#include "ringup.h"

enum task_what {
#define X(kind, word, activity, traits) TASK_##kind,
	COLLECTIVES(X)
#undef X
		TASK_SET, /* the gradients of a model, one allreduce each, in place */
};

enum { TASK_MEMBERS = 256, TASK_FORM = 64 };

struct task {
	enum task_what what;
	const struct gradset *set; /* of TASK_SET */
	enum ringup_dtype dtype;
	enum ringup_redop redop;
	bool in_place;
	bool uneven;    /* blocks differ in length                   */
	int ranks;      /* number that it was resized for; 0: unknown */
	uint64_t bytes; /* see task_resize()                         */
	uint64_t count; /* elements of a rank's block; uneven: of all blocks together */
	int members;    /* tensors that go together, all or none; 0 is 1 as well */
};

/* The number of samples.  A sample is one time: that of @calls calls in a row, divided. */
struct dose {
	int warm;    /* uncounted samples                      */
	int samples; /* counted samples                        */
	int calls;   /* calls per sample                       */
	bool check;  /* compare results, outside of the timing */
};

/*
 * task_find - set the task that @name names, "allreduce" or "resnet50"; false if none.
 *
 * task_name is the reverse; task_names lists all names: @i counts up, and NULL is the end.
 */
bool task_find(struct task *t, const char *name);
const char *task_name(const struct task *t);
const char *task_names(int i);

/* task_has_blocks - does its tensor consist of a block for each rank?  task_has_many - can
 * several tensors go together?  task_has_place - can the result replace the input, or one of
 * the two lie at this rank's block of the other? */
bool task_has_blocks(const struct task *t);
bool task_has_many(const struct task *t);
bool task_has_place(const struct task *t);

/* task_members - the number of tensors that go together. */
int task_members(const struct task *t);

/* task_form - the special form of the task, for a headline: "", ", uneven blocks" or ", 4
 * tensors together". */
void task_form(const struct task *t, char text[TASK_FORM]);

/*
 * task_resize - set count and bytes for about @bytes bytes.
 *
 * As in other benchmarks, a size is that of the whole tensor: in an allgather, a reducescatter
 * and an alltoall that of all blocks together, so that count is a share of it; and that of all
 * members.  At least one element each; a set has a fixed size.
 */
void task_resize(struct task *t, uint64_t bytes, int ranks);

/*
 * task_rows - the number of rows of equal length that are divided among @ranks ranks, the first
 * ones getting one more if there is a remainder, as in a reducescatter.
 *
 * Uneven, that is two rows for each rank of the first half and one for each other, or as many
 * rows as there are elements, if those are fewer: then the last ranks have none.
 *
 * task_block - the elements of rank @i's block.  Rank @i contributes it to an allgather and
 * gets it from a reducescatter; in an alltoall every rank has a block of this length for rank
 * @i.
 *
 * task_before - the elements of all blocks before rank @i's.
 */
uint64_t task_rows(const struct task *t, int ranks);
uint64_t task_block(const struct task *t, int ranks, int i);
uint64_t task_before(const struct task *t, int ranks, int i);

/* task_gives, task_takes - elements of a member in @rank's input and in its result, among
 * @ranks. */
uint64_t task_gives(const struct task *t, int ranks, int rank);
uint64_t task_takes(const struct task *t, int ranks, int rank);

/* task_combines - does the task compute, or only move data? */
bool task_combines(const struct task *t);

/* task_cannot - NULL, or the reason why it is impossible: "bool has no average". */
const char *task_cannot(const struct task *t);

/* task_share - the share of the bytes that the busiest rank has to send or receive with any
 * algorithm: busbw is algbw times this. */
double task_share(const struct task *t, int ranks);

/* task_dtype, task_redop - the value of that name, or -1. */
int task_dtype(const char *name);
int task_redop(const char *name);

#endif
