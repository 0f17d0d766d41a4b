/* test_edges.c - one less than fits, just what fits, one more: right, or a clear error. */
/* tests: src/engine/submit.c src/engine/comms.c src/engine/callback.c src/engine/callers.c
 * src/engine/agree.c src/engine/op_signature.c src/api/api_coll.c src/api/api_group.c
 * src/engine/watch.c src/engine/tracepoint.c */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/callback.h"
#include "engine/callers.h"
#include "engine/comm.h"
#include "engine/engine_state.h"
#include "engine/ledger.h"
#include "engine/op_signature.h"
#include "engine/watch.h"
#include "ringup.h"
#include "tap.h"

#include "asks.h"
#include "ranks.h"

/* FEW_MEMBERS of api_coll.c: requests that take no memory. */
enum { FEW_MEMBERS = 32, MOST = BATCH_ITEMS + 2 };

static struct ringup_reduce sum_of(const char *name, float *v, uint64_t count)
{
	return (struct ringup_reduce)ASK_REDUCE(name, v, v, count, .dtype = RINGUP_F32);
}

/* ---- names and shapes ---- */

static void names(struct ringup *r, int rank, int size)
{
	char name[NAME_BYTES + 3];
	float v[4];

	(void)size;
	memset(name, 'n', sizeof(name));
	for (int len = NAME_BYTES - 1; len <= NAME_BYTES + 1; len++)
		for (int differ = 0; differ < 2; differ++) {
			struct ringup_reduce a = sum_of(name, v, differ && rank ? 3 : 4);
			int rc, wanted = len > NAME_BYTES ? RINGUP_EINVAL
					 : differ         ? RINGUP_EMISMATCH
							  : 0;

			v[0] = (float)rank;
			name[len] = 0;
			rc = ringup_allreduce(ringup_world(r), &a, NULL);
			check(rc == wanted, "a name", rank);
			check(rc || v[0] == (float)(size * (size - 1) / 2), "its sum", rank);
			name[len] = 'n';
		}
	/* A rank that has joined answers to the longest name, too. */
	name[NAME_BYTES] = 0;
	if (rank) {
		struct ringup_reduce a = sum_of(name, v, 4);

		check(!ringup_allreduce(ringup_world(r), &a, NULL), "beside a join", rank);
	}
	check(!ringup_join(ringup_world(r), NULL, NULL), "goes on", rank);
}

static void dims(struct ringup *r, int rank, int size)
{
	uint64_t shape[OP_SIGNATURE_DIMS + 2];
	float v[4];

	(void)size;
	for (int n = OP_SIGNATURE_DIMS - 1; n <= OP_SIGNATURE_DIMS + 1; n++)
		for (int differ = 0; differ < 2; differ++) {
			struct ringup_reduce a = sum_of("shape", v, 4);
			int rc;

			for (int i = 0; i < n; i++)
				shape[i] = i < 2 ? 2 : 1;
			/* As many elements, in another shape. */
			if (differ && rank) {
				shape[0] = 4;
				shape[1] = 1;
			}
			a.shape = shape;
			a.dims = n;
			rc = ringup_allreduce(ringup_world(r), &a, NULL);
			check(rc == (differ ? RINGUP_EMISMATCH : 0), "a shape", rank);
		}
}

/* ---- many at a time ---- */

static void members(struct ringup *r, int rank, int size)
{
	static const int counts[] = { FEW_MEMBERS - 1, FEW_MEMBERS, FEW_MEMBERS + 1,
				      BATCH_ITEMS - 1, BATCH_ITEMS, BATCH_ITEMS + 1 };
	struct ringup_reduce *a = calloc(MOST, sizeof(*a));
	float *v = calloc(MOST, sizeof(*v));

	for (size_t k = 0; k < sizeof(counts) / sizeof(*counts); k++) {
		int n = counts[k], bad = 0, i;

		for (i = 0; i < n; i++) {
			v[i] = (float)(rank + i);
			a[i] = sum_of("members", &v[i], 1);
		}
		check(!ringup_allreduce_many(ringup_world(r), a, n, NULL), "members", rank);
		for (i = 0; i < n; i++)
			bad += v[i] != (float)(size * (size - 1) / 2 + size * i);
		check(!bad, "each member", rank);
	}
	free(a);
	free(v);
}

/* Names that a rank keeps, and items of a batch: each operation twice, so that all is known. */
static void at_once(struct ringup *r, int rank, int size)
{
	static const int counts[] = { BATCH_ITEMS - 1, BATCH_ITEMS, BATCH_ITEMS + 1 };
	/* A small one goes its own way, a larger one by batches. */
	static const uint64_t elements[] = { 1, 2000 };
	struct ringup_op **op = calloc(MOST, sizeof(*op));
	char(*name)[40] = calloc(MOST, sizeof(*name));
	float *v = calloc(MOST * elements[1], sizeof(*v));

	for (size_t e = 0; e < 2; e++)
		for (size_t k = 0; k < 2 * sizeof(counts) / sizeof(*counts); k++) {
			int n = counts[k / 2], bad = 0, i;

			for (i = 0; i < n; i++) {
				struct ringup_reduce a = sum_of(
					name[i], &v[(size_t)i * elements[e]], elements[e]);

				v[(size_t)i * elements[e]] = (float)(rank + i);
				snprintf(name[i], sizeof(name[i]), "%d of %d, %d", i, n,
					 (int)e);
				bad += ringup_allreduce(ringup_world(r), &a, &op[i]) != 0;
			}
			for (i = 0; i < n; i++)
				bad += ringup_wait(op[i], -1) != 0 ||
				       v[(size_t)i * elements[e]] !=
					       (float)(size * (size - 1) / 2 + size * i);
			check(!bad, "many at once", rank);
		}
	free(op);
	free(name);
	free(v);
}

/* ---- groups ---- */

static void groups(struct ringup *r, int rank, int size)
{
	static struct ringup_group *g[RANKS_MAX][ENGINE_COMMS + 1];
	int all[RANKS_MAX], i, bad = 0;
	float v = 1;
	struct ringup_reduce a = sum_of("in a group", &v, 1);

	for (i = 0; i < size; i++)
		all[i] = i;
	/* The world is one of them. */
	for (i = 0; i < ENGINE_COMMS - 1; i++)
		bad += ringup_group_add(r, all, size, &g[rank][i]) != 0;
	check(!bad, "as many groups as there is room for", rank);
	check(ringup_group_add(r, all, size, &g[rank][i]) == RINGUP_ENOMEM &&
		      strstr(ringup_error(), "more than 256 groups"),
	      "one more", rank);
	check(!ringup_allreduce(g[rank][ENGINE_COMMS - 2], &a, NULL) && v == (float)size,
	      "a sum in the last", rank);
	check(!ringup_group_remove(g[rank][7]), "one is removed", rank);
	check(!ringup_group_add(r, all, size, &g[rank][7]), "and another takes its place",
	      rank);
	v = 1;
	check(!ringup_allreduce(g[rank][7], &a, NULL) && v == (float)size, "a sum in it", rank);
}

/* ---- threads ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t news;
	int running, most, done;
	bool open;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };

static void block(void *ctx, int status)
{
	(void)ctx;
	pthread_mutex_lock(&gate.lock);
	gate.running++;
	gate.most = gate.running > gate.most ? gate.running : gate.most;
	pthread_cond_broadcast(&gate.news);
	while (!gate.open)
		pthread_cond_wait(&gate.news, &gate.lock);
	gate.running--;
	gate.done += !status;
	pthread_cond_broadcast(&gate.news);
	pthread_mutex_unlock(&gate.lock);
}

/* Callbacks that block: each has a thread, up to the limit; the next one waits for one of
 * these. */
static void callbacks(struct ringup *r, int rank, int size)
{
	enum { EDGE = CALLBACK_THREADS };
	struct ringup_op *op[EDGE + 1];
	char name[40];
	float v[EDGE + 1];
	int n, i;

	(void)size;
	for (n = EDGE - 1; n <= EDGE + 1; n++) {
		gate.open = false;
		gate.most = gate.done = 0;
		for (i = 0; i < n; i++) {
			struct ringup_reduce a = sum_of(name, &v[i], 1);

			snprintf(name, sizeof(name), "then %d", i);
			check(!ringup_allreduce(ringup_world(r), &a, &op[i]) &&
				      !ringup_then(op[i], block, NULL),
			      "begins", rank);
		}
		pthread_mutex_lock(&gate.lock);
		while (gate.running < (n < EDGE ? n : EDGE))
			pthread_cond_wait(&gate.news, &gate.lock);
		pthread_mutex_unlock(&gate.lock);
		/* What is one too many shows late, if at all. */
		clock_sleep_ms(n > EDGE ? 20 : 0);
		pthread_mutex_lock(&gate.lock);
		gate.open = true;
		pthread_cond_broadcast(&gate.news);
		while (gate.done < n)
			pthread_cond_wait(&gate.news, &gate.lock);
		pthread_mutex_unlock(&gate.lock);
		check(gate.most == (n < EDGE ? n : EDGE), "threads", rank);
		for (i = 0; i < n; i++)
			check(!ringup_wait(op[i], -1), "ends", rank);
	}
}

struct waiting {
	struct ringup *ringup;
	int number, rank, size;
	pthread_t thread;
};

static void *wait_in_thread(void *arg)
{
	struct waiting *w = arg;
	char name[40];
	float v = (float)w->rank;
	struct ringup_reduce a = sum_of(name, &v, 1);

	snprintf(name, sizeof(name), "thread %d", w->number);
	/* Rank 1 comes late, so that all threads of the others wait. */
	clock_sleep_ms(w->rank == 1 ? 10 : 0);
	check(!ringup_allreduce(ringup_world(w->ringup), &a, NULL) &&
		      v == (float)(w->size * (w->size - 1) / 2),
	      "a thread's sum", w->rank);
	return NULL;
}

static void callers(struct ringup *r, int rank, int size)
{
	struct waiting w[CALLERS + 1];
	int n, i;

	for (n = CALLERS - 1; n <= CALLERS + 1; n++) {
		for (i = 0; i < n; i++) {
			w[i] = (struct waiting){ r, i, rank, size, 0 };
			pthread_create(&w[i].thread, NULL, wait_in_thread, &w[i]);
		}
		for (i = 0; i < n; i++)
			pthread_join(w[i].thread, NULL);
	}
}

int main(void)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		if (tcp)
			setenv("RINGUP_BACKEND", "tcp", 1);
		run("names", 2, names);
		run("dimensions", 2, dims);
		run("members", 2, members);
		run("many at once", 2, at_once);
		/* Each is a meeting of its own, which takes its time beside other work. */
		if (getenv("RINGUP_TEST_LONG"))
			run("groups", 2, groups);
		run("threads that wait", 2, callers);
	}
	unsetenv("RINGUP_BACKEND");
	run("threads of callbacks", 1, callbacks);
	_Static_assert((int)COMM_KEPT == (int)BATCH_ITEMS, "see at_once()");
	_Static_assert((int)WATCH_TREES == (int)ENGINE_COMMS, "see groups()");
	return tap_done();
}
