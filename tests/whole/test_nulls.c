/* test_nulls.c - each function of ringup.h refuses NULL for its handle, and for what to do. */
/* tests: src/api */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kinds.h"
#include "ringup.h"
#include "tap.h"

static struct ringup *job;
static struct ringup_group *world;
static int good = 1, calls;

/* It says EINVAL, and which function was called. */
static void refuses(int rc, const char *name)
{
	calls++;
	if (rc == RINGUP_EINVAL && strstr(ringup_error(), name) &&
	    strstr(ringup_error(), "NULL"))
		return;
	printf("# %s: %d, %s\n", name, rc, ringup_error());
	good = 0;
}

/* Of a function of a group and a struct, with either of them NULL. */
#define BOTH(fn, type, ...)                                      \
	do {                                                     \
		struct type a = { .name = #fn };                 \
		refuses(fn(NULL, &a __VA_ARGS__, NULL), #fn);    \
		refuses(fn(world, NULL __VA_ARGS__, NULL), #fn); \
	} while (0)
#define COMMA_0 , 0
#define COMMA_1 , 1

static void collectives(void)
{
	struct ringup_reduce x = { .bytes = sizeof(struct ringup_reduce), .name = "x" };

	BOTH(ringup_allreduce, ringup_reduce, );
	BOTH(ringup_broadcast, ringup_bcast, );
	BOTH(ringup_allgather, ringup_gather, );
	BOTH(ringup_alltoall, ringup_exchange, );
	BOTH(ringup_reduce_to, ringup_reduce, COMMA_0);
	BOTH(ringup_gather_to, ringup_gather, COMMA_0);
	BOTH(ringup_scatter_from, ringup_exchange, COMMA_0);
	BOTH(ringup_reducescatter, ringup_scatter, );
	BOTH(ringup_allreduce_many, ringup_reduce, COMMA_1);
	BOTH(ringup_allgather_many, ringup_gather, COMMA_1);
	BOTH(ringup_reducescatter_many, ringup_scatter, COMMA_1);
	refuses(ringup_allreduce_within(NULL, &x, 0, NULL), "ringup_allreduce_within");
	refuses(ringup_allreduce_within(world, NULL, 0, NULL), "ringup_allreduce_within");
	refuses(ringup_join(NULL, NULL, NULL), "ringup_join");
	refuses(ringup_barrier(NULL, "x", NULL), "ringup_barrier");
}

static void messages(void)
{
	struct ringup_send s = { .to = 0 };
	struct ringup_recv r = { .from = 0 };

	refuses(ringup_send(NULL, &s, NULL), "ringup_send");
	refuses(ringup_send(world, NULL, NULL), "ringup_send");
	refuses(ringup_recv(NULL, &r, NULL), "ringup_recv");
	refuses(ringup_recv(world, NULL, NULL), "ringup_recv");
}

static void then(void *ctx, int status)
{
	(void)ctx;
	(void)status;
}

static void operations(void)
{
	struct ringup_op *op;

	refuses(ringup_poll(NULL), "ringup_poll");
	refuses(ringup_wait(NULL, 0), "ringup_wait");
	refuses(ringup_wait_on(NULL, 0), "ringup_wait_on");
	refuses(ringup_result_stream(NULL, &op), "ringup_result_stream");
	refuses(ringup_then(NULL, then, NULL), "ringup_then");
	if (!ringup_barrier(world, "then", &op))
		refuses(ringup_then(op, NULL, NULL), "ringup_then");
	ok(!ringup_wait(op, -1), "which does not hurt an operation");
}

static void questions(void)
{
	refuses(ringup_group_id(NULL), "ringup_group_id");
	refuses(ringup_group_member(NULL, 0), "ringup_group_member");
	refuses(ringup_rank(NULL), "ringup_rank");
	refuses(ringup_size(NULL), "ringup_size");
	refuses(ringup_local_rank(NULL), "ringup_local_rank");
	refuses(ringup_local_size(NULL), "ringup_local_size");
	refuses(ringup_host_rank(NULL), "ringup_host_rank");
	refuses(ringup_host_count(NULL), "ringup_host_count");
	refuses(ringup_is_homogeneous(NULL), "ringup_is_homogeneous");
	refuses(ringup_hosts_changed(NULL), "ringup_hosts_changed");
	refuses(ringup_generation(NULL), "ringup_generation");
	refuses(ringup_world(NULL) ? 0 : RINGUP_EINVAL, "ringup_world");
	refuses(ringup_group_get(NULL, 0) ? 0 : RINGUP_EINVAL, "ringup_group_get");
	ok(!strcmp(ringup_backend(NULL), "none"), "no group has no back end");
	ok(!ringup_accepts(NULL, RINGUP_HOST), "and takes no memory");
	ringup_state_synced(0); /* of the process, which has no job yet */
}

static void rest(void)
{
	struct ringup_group *g;
	struct ringup_points points;
	const uint64_t *numbers;
	int rank = 0;

	refuses(ringup_group_add(NULL, &rank, 1, &g), "ringup_group_add");
	refuses(ringup_group_add(job, NULL, 1, &g), "ringup_group_add");
	refuses(ringup_group_add(job, &rank, 1, NULL), "ringup_group_add");
	refuses(ringup_group_remove(NULL), "ringup_group_remove");
	refuses(ringup_group_abort(NULL), "ringup_group_abort");
	refuses(ringup_group_error(NULL), "ringup_group_error");
	refuses(ringup_timeline_start(NULL, "x", 0), "ringup_timeline_start");
	refuses(ringup_timeline_stop(NULL), "ringup_timeline_stop");
	refuses(ringup_points_keep(NULL, &numbers), "ringup_points_keep");
	refuses(ringup_points_keep(job, NULL), "ringup_points_keep");
	refuses(ringup_points_get(NULL, 1, 1, &points, sizeof(struct ringup_points)),
		"ringup_points_get");
	refuses(ringup_points_get(job, 1, 1, NULL, sizeof(struct ringup_points)),
		"ringup_points_get");
	refuses(ringup_alarm_fd(NULL), "ringup_alarm_fd");
	ringup_abort(NULL, NULL);
	ringup_fini(NULL);
	ringup_free(NULL);
}

/* Of a shape that is not that of what is there. */
static void shapes(void)
{
	static float v[6];
	uint64_t wrong[] = { 2, 2 }, right[] = { 2, 3 }, none[] = { UINT64_MAX, 0 };
	uint64_t huge[] = { 1ULL << 33, 1ULL << 31 };
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "s",
				   .in = v,
				   .out = v,
				   .count = 6,
				   .dims = 2 };

	a.shape = wrong;
	ok(ringup_allreduce(world, &a, NULL) == RINGUP_EINVAL &&
		   strstr(ringup_error(), "shape"),
	   "a shape of other elements: %s", ringup_error());
	a.shape = huge;
	a.count = 0;
	ok(ringup_allreduce(world, &a, NULL) == RINGUP_EINVAL, "one whose product wraps to 0");
	a.shape = none;
	ok(!ringup_allreduce(world, &a, NULL), "nothing has the shape of nothing");
	a.shape = right;
	a.count = 6;
	ok(!ringup_allreduce(world, &a, NULL), "the right one is taken");
}

/* What no back end of this release takes is refused before anything is read there. */
static void memories(void)
{
	void *nowhere = (void *)64, *out = NULL;
	uint64_t counts[1];
	struct ringup_reduce a = { .bytes = sizeof(struct ringup_reduce),
				   .name = "m",
				   .in = nowhere,
				   .out = nowhere,
				   .count = 6,
				   .dtype = RINGUP_F32,
				   .memory = RINGUP_CUDA };
	struct ringup_bcast b = { .bytes = sizeof(struct ringup_bcast),
				  .in = nowhere,
				  .out = nowhere,
				  .count = 6,
				  .memory = RINGUP_CUDA };
	struct ringup_gather g = { .bytes = sizeof(struct ringup_gather),
				   .in = nowhere,
				   .rows = 1,
				   .row = 1,
				   .out = &out,
				   .counts = counts,
				   .memory = RINGUP_CUDA };
	float here[6] = { 1 };

	ok(ringup_allreduce(world, &a, NULL) == RINGUP_ENOBACKEND &&
		   strstr(ringup_error(), "CUDA memory; copy"),
	   "a sum of CUDA memory: %s", ringup_error());
	ok(ringup_broadcast(world, &b, NULL) == RINGUP_ENOBACKEND, "a broadcast of it");
	ok(ringup_allgather(world, &g, NULL) == RINGUP_ENOBACKEND, "an allgather of it");
	ok(ringup_allreduce_many(world, &a, 1, NULL) == RINGUP_ENOBACKEND, "a group of it");
	a.memory = RINGUP_PINNED;
	a.in = a.out = here;
	ok(!ringup_allreduce(world, &a, NULL) && here[0] == 1, "pinned memory is the host's");
	a.stream = &a;
	ok(ringup_allreduce(world, &a, NULL) == RINGUP_EINVAL, "and has no stream: %s",
	   ringup_error());
	a.stream = NULL;
	a.memory = (enum ringup_memory)MEMORY_COUNT;
	ok(ringup_allreduce(world, &a, NULL) == RINGUP_EINVAL, "no such memory: %s",
	   ringup_error());
}

/* Is each function of the header called above? */
static void all_are_called(void)
{
	static const char *const others[] = { "ringup_init",    "ringup_error",
					      "ringup_explain", "ringup_strerror",
					      "ringup_version", "ringup_alloc" };
	const char *src = getenv("srcdir");
	char path[4096], header[4096], word[64], text[1 << 16] = "", line[512];
	int n = 0, missing = 0;
	size_t i, len;
	FILE *f, *h;

	snprintf(header, sizeof(header), "%s/src/ringup.h", src ? src : "..");
	snprintf(path, sizeof(path), "%s/tests/whole/test_nulls.c", src ? src : "..");
	f = fopen(path, "r");
	len = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	text[len] = 0;
	h = fopen(header, "r");
	while (h && fgets(line, sizeof(line), h)) {
		bool declares =
			!strncmp(line, "RINGUP_API", 10) || !strncmp(line, "RINGUP_EXPORT", 13);
		char *end = declares ? strchr(line, '(') : NULL, *at = end;

		while (at && at > line && (at[-1] == '_' || (at[-1] >= 'a' && at[-1] <= 'z')))
			at--;
		if (!at || at == end)
			continue;
		snprintf(word, sizeof(word) - 1, "%.*s", (int)(end - at), at);
		n++;
		for (i = 0; i < sizeof(others) / sizeof(*others) && strcmp(word, others[i]);)
			i++;
		strcat(word, i < sizeof(others) / sizeof(*others) ? "" : "(");
		if (word[strlen(word) - 1] == '(' && !strstr(text, word)) {
			word[strlen(word) - 1] = ',';
			if (strstr(text, word))
				continue;
			printf("# %s is not called\n", word);
			missing++;
		}
	}
	if (f)
		fclose(f);
	if (h)
		fclose(h);
	ok(n > 40 && !missing, "all %d functions are called", n);
}

int main(void)
{
	if (ringup_init(NULL, NULL) != RINGUP_EINVAL || ringup_init(NULL, &job))
		return 1;
	world = ringup_world(job);
	collectives();
	messages();
	operations();
	questions();
	rest();
	ok(good && calls > 50, "%d calls with NULL are refused", calls);
	shapes();
	memories();
	all_are_called();
	ringup_fini(job);
	return tap_done();
}
