/* test_nccl_threads.c - several threads of each rank submit to three groups in any order. */
/* tests: src/backend src/device src/engine tests/fakegpu */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/orders.h"

#include "rounds.h"

enum { THREADS = 3, SOME = 8 };

struct submitter {
	struct ringup_group **groups; /* the world's is first */
	struct gpu_seat *seat;
	int rank, number, rounds;
	pthread_t thread;
};

static void shuffle(int *turn, int n, uint32_t *seed)
{
	for (int i = n - 1; i > 0; i--) {
		int k = (int)(draw(seed) % (uint32_t)(i + 1)), t = turn[i];

		turn[i] = turn[k];
		turn[k] = t;
	}
}

/* One sum in each group; the threads' are told apart by their names. */
static bool round_of(struct submitter *m, struct gpu_seat *s, void **at, uint32_t *seed)
{
	struct ringup_op *op[GROUPS + 1] = { NULL };
	int turn[GROUPS + 1] = { 0, 1, 2, 3 }, rc = 0;
	float host[SOME];
	char name[16];

	snprintf(name, sizeof(name), "thread %d", m->number);
	shuffle(turn, GROUPS + 1, seed);
	for (int i = 0; i <= GROUPS; i++) {
		struct ringup_group *g = m->groups[turn[i]];
		struct ringup_reduce a = { .bytes = sizeof(a),
					   .name = name,
					   .in = at[turn[i]],
					   .out = at[turn[i]],
					   .count = SOME,
					   .dtype = RINGUP_F32,
					   .memory = RINGUP_CUDA,
					   .stream = draw(seed) % 2 ? s->stream : NULL };

		if (ringup_rank(g) < 0)
			continue;
		for (int k = 0; k < SOME; k++)
			host[k] = (float)(turn[i] + 1 + m->number);
		gpu_put_bytes(s, at[turn[i]], host, sizeof(host));
		if (!gpu_sync(s, 20000) || (rc = ringup_allreduce(g, &a, &op[turn[i]])))
			return false;
	}
	shuffle(turn, GROUPS + 1, seed);
	for (int i = 0; i <= GROUPS; i++) {
		if (!op[turn[i]])
			continue;
		rc |= ringup_wait(op[turn[i]], -1);
		if (rc || !gpu_get_bytes(s, host, at[turn[i]], sizeof(host)) ||
		    host[SOME - 1] != (float)((turn[i] + 1 + m->number) *
					      ringup_size(m->groups[turn[i]])))
			return false;
	}
	return true;
}

static void *submit(void *arg)
{
	struct submitter *m = arg;
	uint32_t seed = 17 * (uint32_t)m->rank + 101 * (uint32_t)m->number + 1;
	void *at[GROUPS + 1];
	struct gpu_seat s;
	bool good = true;

	gpu_sit(&s, m->rank);
	for (int i = 0; i <= GROUPS; i++)
		at[i] = gpu_new(&s, SOME * sizeof(float));
	for (int round = 0; round < m->rounds && good; round++) {
		good = round_of(m, &s, at, &seed);
		check(good, "the sums of a thread", m->rank);
	}
	for (int i = 0; i <= GROUPS; i++)
		gpu_drop(&s, at[i]);
	gpu_stand(&s);
	return NULL;
}

static int thread_rounds;

static void submits(struct ringup *r, int rank, int size)
{
	struct ringup_group *g[GROUPS + 1] = { ringup_world(r) };
	struct submitter m[THREADS];

	for (int i = 0; i < GROUPS; i++) {
		int list[RANKS_MAX], n = 0;

		for (int k = 0; k < size; k++)
			if (k != i % size)
				list[n++] = k;
		check(!ringup_group_add(r, list, n, &g[i + 1]), "a group", rank);
	}
	for (int i = 0; i < THREADS; i++) {
		m[i] = (struct submitter){
			.groups = g, .rank = rank, .number = i, .rounds = thread_rounds
		};
		pthread_create(&m[i].thread, NULL, submit, &m[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(m[i].thread, NULL);
}

int main(int argc, char **argv)
{
	(void)argc;
	gpu_main(argv);
	setenv("RINGUP_DEVICE_MS", "20000", 1);
	thread_rounds = rounds_few(2000, 30);
	run("threads that submit to groups in any order", 3, submits);
	thread_rounds = rounds_few(1000, 10);
	run("the same", 4, submits);
	ok(gpu_nothing_left(), "nothing is left on the GPU");
	return tap_done();
}
