/* task.c - a benchmark task: a collective, its data, and the number of samples. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/task.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/gradset.h"
#include "coll/reduce.h"

static const char *const names[] = {
	[TASK_ALLREDUCE] = "allreduce", [TASK_BROADCAST] = "broadcast",
	[TASK_ALLGATHER] = "allgather", [TASK_REDUCESCATTER] = "reducescatter",
	[TASK_ALLTOALL] = "alltoall",   [TASK_BARRIER] = "barrier",
};

bool task_find(struct task *t, const char *name)
{
	int i;

	for (i = 0; i < TASK_SET; i++)
		if (!strcmp(name, names[i]))
			break;
	t->what = (enum task_what)i;
	t->set = i == TASK_SET ? gradset_find(name) : NULL;
	return i < TASK_SET || t->set;
}

const char *task_name(const struct task *t)
{
	return t->what == TASK_SET ? t->set->name : names[t->what];
}

const char *task_names(int i)
{
	return i < TASK_SET ? names[i] : gradset_name(i - TASK_SET);
}

bool task_has_blocks(const struct task *t)
{
	return t->what == TASK_ALLGATHER || t->what == TASK_REDUCESCATTER ||
	       t->what == TASK_ALLTOALL;
}

bool task_has_many(const struct task *t)
{
	return t->what == TASK_ALLREDUCE || t->what == TASK_ALLGATHER ||
	       t->what == TASK_REDUCESCATTER;
}

bool task_has_place(const struct task *t)
{
	return t->what != TASK_ALLTOALL && t->what != TASK_BARRIER;
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
	return t->what == TASK_ALLGATHER ? task_block(t, ranks, rank) : whole(t, ranks);
}

uint64_t task_takes(const struct task *t, int ranks, int rank)
{
	if (t->what == TASK_ALLTOALL)
		return (uint64_t)ranks * task_block(t, ranks, rank);
	return t->what == TASK_REDUCESCATTER ? task_block(t, ranks, rank) : whole(t, ranks);
}

bool task_combines(const struct task *t)
{
	return t->what == TASK_ALLREDUCE || t->what == TASK_REDUCESCATTER ||
	       t->what == TASK_SET;
}

const char *task_cannot(const struct task *t)
{
	if (!task_combines(t))
		return NULL;
	if (t->redop == RINGUP_AVERAGE && t->dtype == RINGUP_BOOL)
		return "there is no average of bool";
	if (t->redop != RINGUP_ADASUM)
		return NULL;
	if (!reduce_is_floating(t->dtype))
		return "Adasum is of f16, bf16, f32 or f64";
	return t->what == TASK_REDUCESCATTER ? "there is no part of an Adasum" : NULL;
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
	default:
		return 1;
	}
}

int task_dtype(const char *name)
{
	for (int i = 0; i < RINGUP_DTYPE_COUNT; i++)
		if (!strcmp(name, reduce_dtype_name((enum ringup_dtype)i)))
			return i;
	return -1;
}

int task_redop(const char *name)
{
	for (int i = 0; i < RINGUP_REDOP_COUNT; i++)
		if (!strcmp(name, reduce_redop_name((enum ringup_redop)i)))
			return i;
	return -1;
}

int task_write(const struct task *t, const struct dose *d, char line[TASK_LINE_BYTES],
	       struct err *e)
{
	int n, i, most = t->set ? t->set->count : t->uneven ? t->ranks : 1;

	n = snprintf(line, TASK_LINE_BYTES, "do %s %s %s %d %d %d %d %d %d %d", task_name(t),
		     reduce_dtype_name(t->dtype), reduce_redop_name(t->redop), t->in_place,
		     t->uneven, task_members(t), d->warm, d->samples, d->calls, d->check);
	for (i = 0; i < most && n < TASK_LINE_BYTES - 24; i++)
		n += snprintf(line + n, (size_t)(TASK_LINE_BYTES - n), "%c%llu", i ? ',' : ' ',
			      (unsigned long long)(t->set ? t->set->tensor[i].count
							  : task_block(t, t->ranks, i)));
	if (i < most)
		return fail(e, RINGUP_EINVAL, "%s: too many %s for a line", task_name(t),
			    t->set ? "tensors" : "blocks");
	line[n++] = '\n';
	line[n] = 0;
	return 0;
}

/* Counts the numbers in "4,2,1", with their sum in *@sum; or -1. */
static int read_counts(const char *text, uint64_t *sum)
{
	char *end;
	int n = 0;

	*sum = 0;
	do {
		if (*text < '0' || *text > '9')
			return -1;
		n++;
		if (__builtin_add_overflow(*sum, strtoull(text, &end, 10), sum))
			return -1;
		text = end + 1;
	} while (*end == ',');
	return !*end || *end == '\n' ? n : -1;
}

int task_read(struct task *t, struct dose *d, const char *line, struct err *e)
{
	char collective[32], dtype[16], redop[16];
	int in_place, uneven, check, what_type, what_op, counts, at = 0;

	memset(t, 0, sizeof(*t));
	if (sscanf(line, "do %31s %15s %15s %d %d %d %d %d %d %d %n", collective, dtype, redop,
		   &in_place, &uneven, &t->members, &d->warm, &d->samples, &d->calls, &check,
		   &at) < 10 ||
	    !at || (counts = read_counts(line + at, &t->count)) < 0)
		return fail(e, RINGUP_EINVAL, "not an order: %.60s", line);
	what_type = task_dtype(dtype);
	what_op = task_redop(redop);
	if (!task_find(t, collective) || what_type < 0 || what_op < 0)
		return fail(e, RINGUP_EINVAL, "unknown words in an order: %.60s", line);
	if (d->warm < 0 || d->samples < 1 || d->calls < 1 ||
	    (uneven && (!task_has_blocks(t) || !t->count)) || t->members < 1 ||
	    t->members > (task_has_many(t) ? TASK_MEMBERS : 1))
		return fail(e, RINGUP_EINVAL, "no sense in an order: %.60s", line);
	t->dtype = (enum ringup_dtype)what_type;
	t->redop = (enum ringup_redop)what_op;
	t->in_place = in_place;
	t->uneven = uneven;
	t->ranks = uneven ? counts : 0;
	if (t->set)
		t->count = t->set->elements;
	d->check = check;
	return 0;
}
