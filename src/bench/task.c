/* task.c - a benchmark task: a collective, its data, and the number of samples. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/task.h"

#include <stdio.h>
#include <string.h>

#include "base/kinds.h"
#include "bench/gradset.h"
#include "coll/reduce.h"

bool task_find(struct task *t, const char *name)
{
	int i;

	for (i = 0; i < TASK_SET; i++)
		if (!strcmp(name, collective_word((uint32_t)i)))
			break;
	t->what = (enum task_what)i;
	t->set = i == TASK_SET ? gradset_find(name) : NULL;
	return i < TASK_SET || t->set;
}

const char *task_name(const struct task *t)
{
	return t->what == TASK_SET ? t->set->name : collective_word(t->what);
}

const char *task_names(int i)
{
	return i < TASK_SET ? collective_word((uint32_t)i) : gradset_name(i - TASK_SET);
}

bool task_has_blocks(const struct task *t)
{
	return collective_is(t->what, COLLECTIVE_ROWS);
}

bool task_has_many(const struct task *t)
{
	return collective_is(t->what, COLLECTIVE_MANY);
}

bool task_has_place(const struct task *t)
{
	return collective_is(t->what, COLLECTIVE_PLACE) || t->what == TASK_SET;
}

int task_members(const struct task *t)
{
	return t->members ? t->members : 1;
}

void task_form(const struct task *t, char text[TASK_FORM])
{
	int n = snprintf(text, TASK_FORM, "%s", t->uneven ? ", uneven blocks" : "");

	if (task_members(t) > 1)
		snprintf(text + n, (size_t)(TASK_FORM - n), ", %d tensors together",
			 t->members);
}

uint64_t task_rows(const struct task *t, int ranks)
{
	uint64_t n = (uint64_t)ranks, most = n + n / 2;

	if (!t->uneven)
		return task_has_blocks(t) ? n : 1;
	return t->count < most ? t->count : most;
}

/* The elements of a row. */
static uint64_t row(const struct task *t, int ranks)
{
	return t->uneven ? t->count / task_rows(t, ranks) : t->count;
}

/* The elements of all blocks. */
static uint64_t whole(const struct task *t, int ranks)
{
	return task_rows(t, ranks) * row(t, ranks);
}

uint64_t task_block(const struct task *t, int ranks, int i)
{
	uint64_t rows = task_rows(t, ranks), n = (uint64_t)ranks;

	if (!task_has_blocks(t))
		return t->count;
	return (rows / n + ((uint64_t)i < rows % n)) * row(t, ranks);
}

uint64_t task_before(const struct task *t, int ranks, int i)
{
	uint64_t all = 0;

	while (i > 0)
		all += task_block(t, ranks, --i);
	return all;
}

uint64_t task_gives(const struct task *t, int ranks, int rank)
{
	return task_has_blocks(t) && !collective_is(t->what, COLLECTIVE_PARTS)
		       ? task_block(t, ranks, rank)
		       : whole(t, ranks);
}

uint64_t task_takes(const struct task *t, int ranks, int rank)
{
	if (!collective_is(t->what, COLLECTIVE_PARTS))
		return whole(t, ranks);
	return task_block(t, ranks, rank) *
	       (collective_is(t->what, COLLECTIVE_GROWS) ? (uint64_t)ranks : 1);
}

bool task_combines(const struct task *t)
{
	return collective_is(t->what, COLLECTIVE_REDUCES) || t->what == TASK_SET;
}

const char *task_cannot(const struct task *t)
{
	if (!task_combines(t))
		return NULL;
	if (t->redop == RINGUP_AVERAGE && t->dtype == RINGUP_BOOL)
		return "bool has no average";
	if (t->redop != RINGUP_ADASUM)
		return NULL;
	if (!reduce_is_floating(t->dtype))
		return "Adasum needs f16, bf16, f32 or f64";
	return t->what == TASK_REDUCESCATTER ? "Adasum has no reducescatter" : NULL;
}

void task_resize(struct task *t, uint64_t bytes, int ranks)
{
	uint64_t size = reduce_dtype_bytes(t->dtype) * (uint64_t)task_members(t);

	t->ranks = ranks;
	t->count = bytes / size / (t->uneven ? 1 : task_rows(t, ranks));
	if (!t->count)
		t->count = 1;
	if (t->uneven)
		t->count = whole(t, ranks);
	if (t->what == TASK_SET)
		t->count = t->set->elements;
	else if (t->what == TASK_BARRIER)
		t->count = 0;
	t->bytes = whole(t, ranks) * size;
}

double task_share(const struct task *t, int ranks)
{
	double n = ranks, all = (double)whole(t, ranks), received, others;

	switch (t->what) {
	case TASK_ALLREDUCE:
	case TASK_SET:
		return 2 * (n - 1) / n;
	case TASK_ALLGATHER:
	case TASK_REDUCESCATTER:
	case TASK_ALLTOALL:
		/* All data but the shortest block, or the first block of each other rank. */
		others = (all - (double)task_block(t, ranks, ranks - 1)) / all;
		received = (n - 1) * (double)task_block(t, ranks, 0) / all;
		return t->what == TASK_ALLTOALL && received > others ? received : others;
	case TASK_BROADCAST:
	case TASK_BARRIER:
		break;
	}
	return 1;
}

int task_dtype(const char *name)
{
	for (int i = 0; i < DTYPE_COUNT; i++)
		if (!strcmp(name, reduce_dtype_name((enum ringup_dtype)i)))
			return i;
	return -1;
}

int task_redop(const char *name)
{
	for (int i = 0; i < REDOP_COUNT; i++)
		if (!strcmp(name, reduce_redop_name((enum ringup_redop)i)))
			return i;
	return -1;
}
