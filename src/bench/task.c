/* task.c - what is measured: a collective, its data, and how often. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/task.h"

#include <stdarg.h>
#include <stdio.h>
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

uint64_t task_gives(const struct task *t, int ranks)
{
	return t->what == TASK_REDUCESCATTER || t->what == TASK_ALLTOALL ? (uint64_t)ranks : 1;
}

uint64_t task_takes(const struct task *t, int ranks)
{
	return t->what == TASK_ALLGATHER || t->what == TASK_ALLTOALL ? (uint64_t)ranks : 1;
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

/* Into how many blocks the bytes are divided. */
static uint64_t blocks(const struct task *t, int ranks)
{
	uint64_t gives = task_gives(t, ranks), takes = task_takes(t, ranks);

	return gives > takes ? gives : takes;
}

void task_resize(struct task *t, uint64_t bytes, int ranks)
{
	uint64_t size = reduce_dtype_bytes(t->dtype), n = blocks(t, ranks);

	if (t->what == TASK_SET)
		t->count = t->set->elements;
	else if (t->what == TASK_BARRIER)
		t->count = 0;
	else
		t->count = bytes / size / n ? bytes / size / n : 1;
	t->bytes = t->count * size * n;
}

double task_share(const struct task *t, int ranks)
{
	double n = ranks;

	switch (t->what) {
	case TASK_ALLREDUCE:
	case TASK_SET:
		return 2 * (n - 1) / n;
	case TASK_ALLGATHER:
	case TASK_REDUCESCATTER:
	case TASK_ALLTOALL:
		return (n - 1) / n;
	default:
		return 1;
	}
}

int task_dtype(const char *name)
{
	int i;

	for (i = 0; i < RINGUP_DTYPE_COUNT; i++)
		if (!strcmp(name, reduce_dtype_name((enum ringup_dtype)i)))
			return i;
	return -1;
}

int task_redop(const char *name)
{
	int i;

	for (i = 0; i < RINGUP_REDOP_COUNT; i++)
		if (!strcmp(name, reduce_redop_name((enum ringup_redop)i)))
			return i;
	return -1;
}

int task_write(const struct task *t, const struct dose *d, char line[TASK_LINE_BYTES],
	       struct err *e)
{
	int n, i, most = t->set ? t->set->count : 1;

	n = snprintf(line, TASK_LINE_BYTES, "do %s %s %s %d %d %d %d %d", task_name(t),
		     reduce_dtype_name(t->dtype), reduce_redop_name(t->redop), t->in_place,
		     d->warm, d->samples, d->calls, d->check);
	for (i = 0; i < most && n < TASK_LINE_BYTES - 24; i++)
		n += snprintf(
			line + n, (size_t)(TASK_LINE_BYTES - n), "%c%llu", i ? ',' : ' ',
			(unsigned long long)(t->set ? t->set->tensor[i].count : t->count));
	if (i < most)
		return fail(e, RINGUP_EINVAL, "%s: too many tensors for a line", task_name(t));
	line[n++] = '\n';
	line[n] = 0;
	return 0;
}

int task_read(struct task *t, struct dose *d, const char *line, struct err *e)
{
	char collective[32], dtype[16], redop[16];
	int in_place, check, what_type, what_op;
	unsigned long long count;

	memset(t, 0, sizeof(*t));
	if (sscanf(line, "do %31s %15s %15s %d %d %d %d %d %llu", collective, dtype, redop,
		   &in_place, &d->warm, &d->samples, &d->calls, &check, &count) != 9)
		return fail(e, RINGUP_EINVAL, "not an order: %.60s", line);
	what_type = task_dtype(dtype);
	what_op = task_redop(redop);
	if (!task_find(t, collective) || what_type < 0 || what_op < 0)
		return fail(e, RINGUP_EINVAL, "unknown words in an order: %.60s", line);
	if (d->warm < 0 || d->samples < 1 || d->calls < 1)
		return fail(e, RINGUP_EINVAL, "no sense in an order: %.60s", line);
	t->dtype = (enum ringup_dtype)what_type;
	t->redop = (enum ringup_redop)what_op;
	t->in_place = in_place;
	t->count = t->set ? t->set->elements : count;
	d->check = check;
	return 0;
}
