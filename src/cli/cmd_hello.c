/* cmd_hello.c - `ringup hello`: join this process's job, run a sum and check the result. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "ringup.h"

static int count = 1 << 16;
static int as_json;
static int ranks;

static const struct opt opts[] = {
	{ OPT_INT, 'c', "count", "N", &count, "sum N numbers (@)" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_INT, 'n', "ranks", "N", &ranks, "fail unless the job has N ranks" },
	{ 0 },
};

enum { LONGEST_S = 120 };

/* Rank r's contribution at i, then the sum of all ranks': whole numbers that a float holds,
 * different for each rank and place. */
static float cmd_hello_part(int r, int i)
{
	return (float)(r + 1 + i % 97);
}

static float whole(int size, int i)
{
	return (float)(size * (size + 1)) / 2 + (float)size * (float)(i % 97);
}

static int add_up(struct ringup_group *world, float *v, struct err *e)
{
	int rank = ringup_rank(world), size = ringup_size(world), i;
	const struct ringup_reduce sum = { .name = "hello",
					   .in = v,
					   .out = v,
					   .count = (uint64_t)count,
					   .dtype = RINGUP_F32,
					   .redop = RINGUP_SUM };
	int rc;

	if (ranks && size != ranks)
		return fail(e, RINGUP_EINVAL, "the job has %d rank%s, not %d", size,
			    size == 1 ? "" : "s", ranks);
	for (i = 0; i < count; i++)
		v[i] = cmd_hello_part(rank, i);
	rc = ringup_allreduce(world, &sum, NULL);
	if (rc)
		return fail(e, rc, "%s", ringup_error());
	for (i = 0; i < count; i++)
		if (v[i] != whole(size, i))
			return fail(e, RINGUP_ESYSTEM,
				    "rank %d: element %d of the sum is %g instead of %g", rank,
				    i, (double)v[i], (double)whole(size, i));
	return 0;
}

static int cmd_hello_tell(struct ringup *job, double ms, struct err *e)
{
	struct ringup_group *world = ringup_world(job);
	int size = ringup_size(world), hosts = ringup_host_count(job);

	if (ringup_rank(world))
		return 0;
	if (as_json)
		return out_json(json_pack("{ss si si ss si sf}", "schema", "ringup.hello/1",
					  "ranks", size, "hosts", hosts, "backend",
					  ringup_backend(world), "count", count, "ms", ms),
				e);
	out_text("%d rank%s on %d host%s, back end %s: the sum of %d number%s is correct (%.2f "
		 "ms)\n",
		 size, size == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s",
		 ringup_backend(world), count, count == 1 ? "" : "s", ms);
	return 0;
}

static int cmd_hello_run(int argc, char **argv, struct err *e)
{
	const struct ringup_init how = { .size = 0 };
	struct ringup *job = NULL;
	float *v = count > 0 ? calloc((size_t)count, sizeof(*v)) : NULL;
	int64_t start;
	int rc;

	(void)argc;
	(void)argv;
	if (count < 1 || count > 1 << 28)
		return cmd_misuse(e, "--count %d: from 1 to %d", count, 1 << 28);
	if (!v)
		return fail(e, RINGUP_ENOMEM, "%d numbers", count);
	/* The user wants an answer even if the job hangs. */
	alarm(LONGEST_S);
	rc = ringup_init(&how, &job);
	if (rc)
		rc = fail(e, rc, "%s", ringup_error());
	start = clock_ns();
	if (!rc)
		rc = add_up(ringup_world(job), v, e);
	if (!rc)
		rc = cmd_hello_tell(job, (double)(clock_ns() - start) / 1e6, e);
	if (rc && job)
		ringup_abort(job, e->text);
	ringup_fini(job);
	alarm(0);
	free(v);
	return rc;
}

const struct cmd cmd_hello = {
	.name = "hello",
	.operands = "",
	.summary = "check that launcher, network and library work together",
	.examples = "ringup run -np 4 -- ringup hello\n"
		    "mpirun -np 2 ringup hello",
	.opts = opts,
	.run = cmd_hello_run,
};
