/* test_collective.c - each collective on a framework's tensors, and its failures. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/collective.h"

#include "family.h"
#include "frameworks/bridge.h"
#include "tap.h"

static struct ringup *job;
static struct collective_run run;

static int join(void)
{
	if (family_join(&job))
		return 1;
	bridge_attach(job);
	return 0;
}

static int leave(int bad)
{
	bridge_attach(NULL);
	ringup_fini(job);
	collective_free(&run);
	if (bad)
		printf("# rank %d: %s\n", family_rank, run.text);
	return bad;
}

/* Prepare @run for @count vectors of @length floats at @in, whose results go to @out. */
static struct collective_tensor *prepare(const struct collective_plan *plan, int count,
					 int length, const float *in, float *out)
{
	int i;

	if (collective_prepare(&run, plan, count) || collective_group(&run, job))
		return NULL;
	for (i = 0; i < count; i++) {
		run.tensors[i].in = in + i * length;
		run.tensors[i].out = out ? out + i * length : NULL;
		run.tensors[i].dtype = RINGUP_F32;
		run.tensors[i].each = 1;
		run.tensors[i].dims = 1;
		run.tensors[i].shape[0] = (uint64_t)length;
	}
	return run.tensors;
}

static int reduces(void)
{
	struct collective_plan p = {
		.kind = COLLECTIVE_ALLREDUCE, .name = "x", .pre = 1, .post = 2
	};
	float in[4] = { 1, 2, 3, 4 }, out[4] = { 0 };
	int n = family->size, bad;

	if (join())
		return 1;
	bad = !prepare(&p, 1, 4, in, out) || collective_carry_out(&run) || out[3] != 8 * n;
	bad |= !prepare(&p, 1, 4, in, out) || collective_start(&run) || collective_finish(&run);
	bad |= out[0] != 2 * n;
	p.many = 1;
	bad |= !prepare(&p, 2, 2, in, out) || collective_carry_out(&run) || out[1] != 4 * n ||
	       out[2] != 6 * n;
	return leave(bad);
}

static int gathers(void)
{
	struct collective_plan p = { .kind = COLLECTIVE_ALLGATHER, .name = "x" };
	float in[4] = { 0, 1, 2, 3 }, *got;
	struct collective_tensor *t;
	int r = family_rank, n = family->size, i, bad;

	if (join())
		return 1;
	t = prepare(&p, 1, r, in,
		    NULL); /* as many rows as the rank's number: the first has none */
	bad = !t || collective_carry_out(&run) || t->rows != (uint64_t)(n * (n - 1) / 2);
	for (i = 0, got = t ? t->result : NULL; !bad && i < n; i++)
		bad |= t->counts[i] != (uint64_t)i;
	bad |= n > 1 && (!got || got[0] != 0 || got[n * (n - 1) / 2 - 1] != (float)(n - 2));
	if (t)
		ringup_free(t->result);
	p.many = 1;
	t = prepare(&p, 2, 2, in, NULL);
	bad |= !t || collective_carry_out(&run) || t[1].rows != (uint64_t)(2 * n);
	bad |= !bad && ((float *)t[1].result)[1] != 3;
	for (i = 0; t && i < 2; i++)
		ringup_free(t[i].result);
	return leave(bad);
}

static int exchanges(void)
{
	struct collective_plan p = { .kind = COLLECTIVE_ALLTOALL };
	float in[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	int n = family->size, r = family_rank, i, bad;
	int32_t splits[8];
	struct collective_tensor *t;

	if (join())
		return 1;
	t = prepare(&p, 1, n, in, NULL);
	bad = !t || collective_carry_out(&run) || t->rows != (uint64_t)n ||
	      ((float *)t->result)[n - 1] != (float)r;
	if (t)
		ringup_free(t->result);
	for (i = 0; i < n; i++)
		splits[i] = i == 0 ? 2 : 0; /* all to the first rank */
	t = prepare(&p, 1, 4, in, NULL);
	run.splits = splits;
	run.splits_count = n;
	bad |= !t || collective_carry_out(&run) || t->rows != (uint64_t)(r ? 0 : 2 * n);
	if (t)
		ringup_free(t->result);
	return leave(bad);
}

static int scatters(void)
{
	struct collective_plan p = { .kind = COLLECTIVE_REDUCESCATTER, .pre = 1, .post = 1 };
	struct collective_plan b = { .kind = COLLECTIVE_BROADCAST, .root = 1 };
	float in[5] = { 1, 2, 3, 4, 5 }, out[5] = { 0 };
	int n = family->size, bad, r = family_rank;

	if (join())
		return 1;
	bad = !prepare(&p, 1, 5, in, out) ||
	      collective_own_rows(&run, 5) != (uint64_t)(r ? 2 : 3) ||
	      collective_carry_out(&run) || out[1] != (r ? 5.f : 2.f) * (float)n;
	in[0] = (float)r;
	bad |= !prepare(&b, 1, 1, in, out) || collective_carry_out(&run) || out[0] != 1;
	return leave(bad);
}

/* The failures that a rank finds by itself: nothing is sent. */
static int refuses(void)
{
	struct collective_plan p = { .kind = COLLECTIVE_ALLGATHER, .name = "x", .group = 7 };
	float in[4] = { 0 }, out[4];
	int bad;

	if (join())
		return 1;
	bad = prepare(&p, 1, 4, in, out) || run.status != RINGUP_EINVAL ||
	      !strstr(run.text, "process set 7");
	p.group = 0;
	bad |= !prepare(&p, 1, 4, in, out);
	run.tensors[0].dims = 0;
	bad |= collective_start(&run) != RINGUP_EINVAL ||
	       !strstr(run.text, "at least one dimension");
	p.kind = COLLECTIVE_ALLREDUCE;
	bad |= !prepare(&p, 1, 4, in, out);
	run.tensors[0].each = 8;
	bad |= collective_start(&run) != RINGUP_EINVAL ||
	       !strstr(run.text, "cannot be reduced");
	bad |= !prepare(&p, 2, 2, in, out) || collective_start(&run) != RINGUP_EINVAL;
	p.kind = COLLECTIVE_BROADCAST;
	p.root = 9;
	bad |= !prepare(&p, 1, 4, in, out) || collective_start(&run) != RINGUP_EINVAL ||
	       !strstr(run.text, "rank 9");
	p.kind = COLLECTIVE_ALLTOALL;
	bad |= !prepare(&p, 1, 3, in, NULL) || collective_start(&run) != RINGUP_EINVAL ||
	       !strstr(run.text, "evenly");
	run.splits = (int32_t[]){ 3, -1 };
	run.splits_count = 2;
	run.status = 0;
	bad |= collective_start(&run) != RINGUP_EINVAL || !strstr(run.text, "is negative");
	return leave(bad);
}

/* The second rank takes part in nothing; the first one waits, and is called back. */
static void *attach_later(void *arg)
{
	struct timespec ms = { .tv_nsec = 20000000 };

	nanosleep(&ms, NULL);
	bridge_attach(NULL);
	return arg;
}

static int is_called_back(void)
{
	struct collective_plan p = { .kind = COLLECTIVE_BARRIER };
	pthread_t thread;
	int bad;

	if (join())
		return 1;
	if (family_rank == 0) {
		if (!bridge_enter() || pthread_create(&thread, NULL, attach_later, NULL))
			return 1;
		bad = collective_prepare(&run, &p, 0) || collective_group(&run, job) ||
		      collective_carry_out(&run) != RINGUP_ESHUTDOWN || !run.op;
		bridge_leave();
		pthread_join(thread, NULL);
	} else {
		bad = 0;
	}
	pthread_barrier_wait(&family->barrier);
	return leave(bad);
}

static void check(const char *what, int size, int (*body)(void))
{
	int status[FAMILY_MAX], r, bad = 0;

	family_run(size, body, status);
	for (r = 0; r < size; r++)
		bad |= status[r];
	family_end();
	ok(!bad, "%s, %d ranks", what, size);
}

int main(void)
{
	check("sums, one and several", 2, reduces);
	check("sums of one rank", 1, reduces);
	check("rows of all ranks, also of one that has none", 3, gathers);
	check("rows of one rank", 1, gathers);
	check("rows from each to each, and with splits", 3, exchanges);
	check("rows dealt out, and one rank's for all", 2, scatters);
	check("arguments that no rank could accept", 2, refuses);
	check("a rank that waits can be called back", 2, is_called_back);
	return tap_done();
}
