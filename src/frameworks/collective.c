/* collective.c - one collective on tensors of a framework, from its start to its result. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/collective.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frameworks/bridge.h"

/* Milliseconds between two checks of a waiting thread whether Python wants to leave the job. */
#define SLICE_MS 100

int collective_fail(struct collective_run *run, int status, const char *format, ...)
{
	va_list ap;

	run->status = status;
	va_start(ap, format);
	vsnprintf(run->text, sizeof(run->text), format, ap);
	va_end(ap);
	return status;
}

/* What messages call the collective. */
static const char *title(const struct collective_run *run)
{
	return run->plan.name[0] ? run->plan.name : collective_word(run->plan.kind);
}

/* Does a message of the library begin with the operation, "grouped allreduce 'x': ", or with
 * the name that it has here, "allreduce.x: "? */
static bool names_one(const char *text, const char *word, const char *name)
{
	size_t many = strlen("grouped "), len = strlen(name);

	if (!strncmp(text, name, len) && !strncmp(text + len, ": ", 2))
		return true;
	len = strlen(word);
	text += strncmp(text, "grouped ", many) ? 0 : many;
	return !strncmp(text, word, len) &&
	       (!strncmp(text + len, " '", 2) || !strncmp(text + len, " #", 2));
}

/* The library's own sentence for @status. */
static int library_failed(struct collective_run *run, int status)
{
	const char *text = ringup_explain();

	if (names_one(text, collective_word(run->plan.kind), title(run)))
		return collective_fail(run, status, "%s", text);
	return collective_fail(run, status, "%s: %s", title(run),
			       text[0] ? text : ringup_strerror(status));
}

int collective_prepare(struct collective_run *run, const struct collective_plan *plan,
		       int count)
{
	struct collective_tensor *more;

	run->plan = *plan;
	run->count = 0;
	run->op = NULL;
	run->splits = NULL;
	run->splits_count = 0;
	run->status = 0;
	run->text[0] = 0;
	if (count > run->room) {
		more = realloc(run->tensors, (size_t)count * sizeof(*more));
		if (!more)
			return collective_fail(run, RINGUP_ENOMEM, "no memory for %d tensors",
					       count);
		run->tensors = more;
		run->room = count;
	}
	run->count = count;
	if (count)
		memset(run->tensors, 0, (size_t)count * sizeof(*run->tensors));
	return 0;
}

int collective_group(struct collective_run *run, struct ringup *job)
{
	const struct collective_plan *p = &run->plan;

	run->job = job;
	run->group = ringup_group_get(job, p->group);
	if (!run->group)
		return collective_fail(run, RINGUP_EINVAL,
				       "%s: no process set %d; add it with hvd.init() or "
				       "hvd.add_process_set()",
				       title(run), p->group);
	if (ringup_rank(run->group) < 0)
		return collective_fail(run, RINGUP_EINVAL,
				       "%s: rank %d is not in process set %d", title(run),
				       ringup_rank(ringup_world(job)), p->group);
	return 0;
}

uint64_t collective_own_rows(const struct collective_run *run, uint64_t rows)
{
	uint64_t size = (uint64_t)ringup_size(run->group);

	return rows / size + ((uint64_t)ringup_rank(run->group) < rows % size);
}

/* The product of the dimensions of @t from @first on. */
static uint64_t elements(const struct collective_tensor *t, int first)
{
	uint64_t n = 1;

	for (int i = first; i < t->dims; i++)
		n *= t->shape[i];
	return n;
}

/* The number of dimensions of @t from @first on, as passed to the library.  A type whose
 * elements the library carries in parts has one more. */
static int dims_passed(struct collective_tensor *t, int first)
{
	int dims = t->dims - first;

	if (!dims || t->each == 1)
		return dims;
	t->shape[t->dims] = t->each;
	return dims + 1;
}

static const char *collective_name_of(const struct collective_run *run)
{
	return run->plan.name[0] ? run->plan.name : NULL;
}

static struct ringup_reduce reduce_of(const struct collective_run *run,
				      const struct collective_tensor *t)
{
	const struct collective_plan *p = &run->plan;

	return (struct ringup_reduce){ .bytes = sizeof(struct ringup_reduce),
				       .name = collective_name_of(run),
				       .in = t->in,
				       .out = t->out,
				       .count = elements(t, 0),
				       .dtype = t->dtype,
				       .redop = p->redop,
				       .pre = p->pre,
				       .post = p->post,
				       .shape = t->shape,
				       .dims = t->dims,
				       .memory = t->memory,
				       .stream = t->stream };
}

/* The caller's memory for a gathered result.  On a GPU the library allocates none, so even an
 * empty result has a place, for which the framework may have no address. */
static void *place_of_result(struct collective_tensor *t)
{
	if (t->out_bytes)
		return t->out;
	if (t->memory != RINGUP_CUDA)
		return NULL;
	return t->out ? t->out : &t->result;
}

static struct ringup_gather gather_of(const struct collective_run *run,
				      struct collective_tensor *t)
{
	return (struct ringup_gather){ .bytes = sizeof(struct ringup_gather),
				       .into = place_of_result(t),
				       .into_bytes = t->out_bytes,
				       .name = collective_name_of(run),
				       .in = t->in,
				       .rows = t->shape[0],
				       .row = elements(t, 1) * t->each,
				       .dtype = t->dtype,
				       .out = &t->result,
				       .counts = t->counts,
				       .shape = t->shape + 1,
				       .dims = dims_passed(t, 1),
				       .memory = t->memory,
				       .stream = t->stream };
}

static struct ringup_scatter scatter_of(const struct collective_run *run,
					const struct collective_tensor *t)
{
	const struct collective_plan *p = &run->plan;

	return (struct ringup_scatter){ .bytes = sizeof(struct ringup_scatter),
					.name = collective_name_of(run),
					.in = t->in,
					.rows = t->shape[0],
					.row = elements(t, 1),
					.out = t->out,
					.dtype = t->dtype,
					.redop = p->redop,
					.pre = p->pre,
					.post = p->post,
					.shape = t->shape + 1,
					.dims = t->dims - 1,
					.memory = t->memory,
					.stream = t->stream };
}

/* Room for the rows that come from each rank, for each tensor. */
static int make_counts(struct collective_run *run)
{
	uint64_t size = (uint64_t)ringup_size(run->group), want = size * (uint64_t)run->count;
	uint64_t *more;

	if (want > run->counts_room) {
		more = realloc(run->counts, want * sizeof(*more));
		if (!more)
			return RINGUP_ENOMEM;
		run->counts = more;
		run->counts_room = want;
	}
	for (int i = 0; i < run->count; i++)
		run->tensors[i].counts = run->counts + (uint64_t)i * size;
	return 0;
}

/* The collectives of one tensor, or of several that complete together: X(word, type, maker). */
#define STARTS(X)                              \
	X(allreduce, ringup_reduce, reduce_of) \
	X(allgather, ringup_gather, gather_of) \
	X(reducescatter, ringup_scatter, scatter_of)

#define X(word, type, of)                                                         \
	static int start_##word(struct collective_run *run)                       \
	{                                                                         \
		struct type one, *all;                                            \
		int rc;                                                           \
                                                                                  \
		if (!run->plan.many) {                                            \
			one = of(run, run->tensors);                              \
			return ringup_##word(run->group, &one, &run->op);         \
		}                                                                 \
		all = malloc((size_t)run->count * sizeof(*all));                  \
		if (!all)                                                         \
			return RINGUP_ENOMEM;                                     \
		for (int i = 0; i < run->count; i++)                              \
			all[i] = of(run, &run->tensors[i]);                       \
		rc = ringup_##word##_many(run->group, all, run->count, &run->op); \
		free(all);                                                        \
		return rc;                                                        \
	}
STARTS(X)
#undef X

/* The group's rank of the root, which is given as a rank of the job; -1: not in the group. */
static int place_of_root(const struct collective_run *run)
{
	int i, n = ringup_size(run->group);

	if (run->plan.group == 0)
		return run->plan.root < n ? run->plan.root : -1;
	for (i = 0; i < n; i++)
		if (ringup_group_member(run->group, i) == run->plan.root)
			return i;
	return -1;
}

static int start_broadcast(struct collective_run *run)
{
	struct collective_tensor *t = run->tensors;
	struct ringup_bcast b = { .bytes = sizeof(struct ringup_bcast),
				  .name = collective_name_of(run),
				  .in = t->in,
				  .out = t->out,
				  .count = elements(t, 0) * t->each,
				  .dtype = t->dtype,
				  .root = place_of_root(run),
				  .shape = t->shape,
				  .dims = dims_passed(t, 0),
				  .memory = t->memory,
				  .stream = t->stream };

	if (b.root < 0)
		return collective_fail(run, RINGUP_EINVAL,
				       "broadcast: the root, rank %d, is not in process set %d",
				       run->plan.root, run->plan.group);
	return ringup_broadcast(run->group, &b, &run->op);
}

/* Check the splits of an alltoall of @rows rows, and write them to @to; RINGUP_EINVAL, with
 * run->text, if they make no sense. */
static int take_splits(struct collective_run *run, uint64_t rows, uint64_t *to, uint64_t *sum)
{
	int i, n = ringup_size(run->group);

	if (run->splits_count != n)
		return collective_fail(run, RINGUP_EINVAL, "alltoall: %d splits for %d ranks",
				       run->splits_count, n);
	*sum = 0;
	for (i = 0; i < n; i++) {
		if (run->splits[i] < 0)
			return collective_fail(run, RINGUP_EINVAL,
					       "alltoall: splits[%d]=%d is negative", i,
					       run->splits[i]);
		to[i] = (uint64_t)run->splits[i];
		*sum += to[i];
	}
	if (*sum > rows)
		return collective_fail(
			run, RINGUP_EINVAL,
			"alltoall: the splits add up to %llu rows, the tensor has %llu",
			(unsigned long long)*sum, (unsigned long long)rows);
	return 0;
}

static int start_alltoall(struct collective_run *run)
{
	struct collective_tensor *t = run->tensors;
	int n = ringup_size(run->group), rc = 0;
	struct ringup_exchange x = { .bytes = sizeof(struct ringup_exchange),
				     .into = place_of_result(t),
				     .into_bytes = t->out_bytes,
				     .name = collective_name_of(run),
				     .in = t->in,
				     .rows = t->shape[0],
				     .row = elements(t, 1) * t->each,
				     .dtype = t->dtype,
				     .out = &t->result,
				     .counts = t->counts,
				     .shape = t->shape + 1,
				     .dims = dims_passed(t, 1),
				     .memory = t->memory,
				     .stream = t->stream };
	uint64_t *splits = NULL;

	if (run->splits) {
		splits = malloc((size_t)n * sizeof(*splits));
		if (!splits)
			return RINGUP_ENOMEM;
		rc = take_splits(run, t->shape[0], splits, &x.rows);
		x.splits = splits;
	} else if (t->shape[0] % (uint64_t)n) {
		rc = collective_fail(run, RINGUP_EINVAL,
				     "alltoall: %llu rows cannot be split evenly among %d "
				     "ranks; pass splits",
				     (unsigned long long)t->shape[0], n);
	}
	if (!rc)
		rc = ringup_alltoall(run->group, &x, &run->op);
	free(splits);
	return rc;
}

static int start_barrier(struct collective_run *run)
{
	return ringup_barrier(run->group, collective_name_of(run), &run->op);
}

static int start_join(struct collective_run *run)
{
	return ringup_join(run->group, &run->last, &run->op);
}

static int check_tensors(struct collective_run *run)
{
	const struct collective_plan *p = &run->plan;
	bool reduces = collective_is(p->kind, COLLECTIVE_REDUCES);
	bool rows = collective_is(p->kind, COLLECTIVE_ROWS);

	if (!p->many && run->count > 1)
		return collective_fail(run, RINGUP_EINVAL, "%s: %d tensors are not a group",
				       collective_word(p->kind), run->count);
	for (int i = 0; i < run->count; i++) {
		/* A tensor without dimensions has no rows. */
		if (rows && !run->tensors[i].dims)
			return collective_fail(run, RINGUP_EINVAL,
					       "%s needs a tensor with at least one dimension; "
					       "reshape it to [1]",
					       collective_word(p->kind));
		if (reduces && run->tensors[i].each != 1)
			return collective_fail(run, RINGUP_EINVAL,
					       "%s: elements of this type cannot be reduced",
					       collective_word(p->kind));
	}
	return 0;
}

int collective_start(struct collective_run *run)
{
	static int (*const starts[])(struct collective_run * run) = {
#define X(kind, word, activity, traits) start_##word,
		COLLECTIVES(X)
#undef X
			start_join,
	};
	int rc = check_tensors(run);

	if (rc < 0)
		return rc;
	if (collective_is(run->plan.kind, COLLECTIVE_GROWS))
		rc = make_counts(run);
	if (!rc)
		rc = starts[run->plan.kind](run);
	return rc < 0 && !run->status ? library_failed(run, rc) : rc;
}

/* Sums the received rows of each tensor. */
static void count_rows(struct collective_run *run)
{
	int i, j, n = ringup_size(run->group);

	for (i = 0; i < run->count; i++)
		for (j = 0; j < n && run->tensors[i].counts; j++)
			run->tensors[i].rows += run->tensors[i].counts[j];
}

int collective_wait(struct collective_run *run, int ms)
{
	int rc = ringup_wait_on(run->op, ms);

	if (rc == RINGUP_ETIMEDOUT)
		return rc;
	run->op = NULL;
	if (rc < 0)
		return library_failed(run, rc);
	count_rows(run);
	return 0;
}

int collective_finish(struct collective_run *run)
{
	int rc;

	do {
		if (bridge_is_closing())
			return collective_fail(run, RINGUP_ESHUTDOWN,
					       "%s: this process is leaving the job",
					       collective_word(run->plan.kind));
		rc = collective_wait(run, SLICE_MS);
	} while (rc == RINGUP_ETIMEDOUT);
	return rc;
}

int collective_carry_out(struct collective_run *run)
{
	struct ringup_reduce one;
	int rc;

	if (run->plan.kind != COLLECTIVE_ALLREDUCE || run->plan.many) {
		rc = collective_start(run);
		return rc < 0 ? rc : collective_finish(run);
	}
	rc = check_tensors(run);
	if (rc < 0)
		return rc;
	one = reduce_of(run, run->tensors);
	rc = ringup_allreduce_within(run->group, &one, SLICE_MS, &run->op);
	if (rc == RINGUP_ETIMEDOUT)
		return collective_finish(run);
	return rc < 0 ? library_failed(run, rc) : 0;
}

void collective_free(struct collective_run *run)
{
	free(run->tensors);
	free(run->counts);
	memset(run, 0, sizeof(*run));
}
