/* test_timeline.c - what a timeline shows of a job: every kind of operation, as it was. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/wait.h>

#include "asks.h"
#include "backend/backend.h"
#include "base/err.h"
#include "engine/name_table.h"
#include "nest.h"
#include "ranks.h"
#include "rounds.h"
#include "tap.h"

enum { SIZE = 3, LARGE = 50000, ROUNDS = 4 };

static char dir[] = "/tmp/ringup-timeline-XXXXXX";
static char path[64];
static int failures;

static char *file(const char *name)
{
	static _Thread_local char names[8][160];
	static _Thread_local int at;
	char *s = names[at++ % 8];

	snprintf(s, sizeof(names[0]), "%s/%s", dir, name);
	return s;
}

static void went(int rc)
{
	if (rc) {
		__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
		printf("# %s\n", ringup_error());
	}
}

/* ---- what the ranks do ---- */

static void reduce(struct ringup_group *g, const char *name, float *x, uint64_t count)
{
	uint64_t shape[2] = { count / 2, 2 };
	struct ringup_reduce a =
		ASK_REDUCE(name, x, x, count, .dtype = RINGUP_F32, .shape = shape, .dims = 2);

	went(ringup_allreduce(g, &a, NULL));
}

static void gather(struct ringup_group *g, const char *name, const float *x, int rows)
{
	uint64_t counts[SIZE], row = 3;
	void *out = NULL;
	struct ringup_gather a = ASK_GATHER(name, x, (uint64_t)rows, row, &out, counts,
					    .dtype = RINGUP_F32, .shape = &row, .dims = 1);

	went(ringup_allgather(g, &a, NULL));
	ringup_free(out);
}

/* Several in flight at once, so that they may run as one. */
static void reduce_some(struct ringup_group *g, float *x)
{
	struct ringup_op *op[4];
	char name[4][16];
	int i;

	for (i = 0; i < 4; i++) {
		struct ringup_reduce a = ASK_REDUCE(name[i], x + i * 5000, x + i * 5000, 5000,
						    .dtype = RINGUP_F32);

		snprintf(name[i], sizeof(name[i]), "some.%d", i);
		went(ringup_allreduce(g, &a, &op[i]));
	}
	for (i = 0; i < 4; i++)
		went(ringup_wait(op[i], -1));
}

static void do_all(struct ringup *r, int rank)
{
	struct ringup_group *g = ringup_world(r);
	float *x = calloc(LARGE, sizeof(*x));
	uint64_t counts[SIZE], split[SIZE] = { 1, 1, 1 };
	void *out = NULL;
	struct ringup_bcast b = ASK_BCAST("bcast", x, x, 7, .dtype = RINGUP_I64, .root = 1);
	struct ringup_exchange t = ASK_EXCHANGE("alltoall", x, SIZE, 2, &out, counts,
						.dtype = RINGUP_U8, .splits = split);
	struct ringup_scatter s =
		ASK_SCATTER("scatter", x, 7, 2, x + 1000, .dtype = RINGUP_F64);
	struct ringup_reduce adasum =
		ASK_REDUCE("adasum", x, x, 10, .dtype = RINGUP_F32, .redop = RINGUP_ADASUM);
	struct ringup_reduce two[2] = {
		ASK_REDUCE("two", x, x, 100, .dtype = RINGUP_F32),
		ASK_REDUCE("two", x + 100, x + 100, 9, .dtype = RINGUP_I32),
	};
	int i;

	for (i = 0; i < ROUNDS; i++) {
		reduce(g, "small", x, 6);
		reduce(g, "large", x, LARGE);
		reduce(g, "changes", x, i & 1 ? 6 : LARGE);
		reduce_some(g, x);
		gather(g, "gather", x, rank + 1);
		went(ringup_broadcast(g, &b, NULL));
		went(ringup_alltoall(g, &t, NULL));
		ringup_free(out);
		went(ringup_reducescatter(g, &s, NULL));
		went(ringup_allreduce(g, &adasum, NULL));
		went(ringup_allreduce_many(g, two, 2, NULL));
		went(ringup_barrier(g, NULL, NULL));
	}
	free(x);
}

/* Operations without a name are numbered, from ROUNDS on here, and numbers come round: the last
 * operation has the number of the job's first one, which was a barrier. */
static void reduce_unnamed(struct ringup_group *g, float *x)
{
	struct ringup_reduce a[2] = {
		ASK_REDUCE(NULL, x, x, 2, .dtype = RINGUP_F32),
		ASK_REDUCE(NULL, x + 2, x + 2, 2, .dtype = RINGUP_F32),
	};
	int i;

	went(ringup_barrier(g, NULL, NULL));
	went(ringup_allreduce(g, a, NULL));
	went(ringup_allreduce_many(g, a, 2, NULL));
	for (i = ROUNDS + 3; i < NAME_TABLE_UNNAMED; i++)
		went(ringup_barrier(g, NULL, NULL));
	went(ringup_allreduce(g, a, NULL));
}

/* ---- messages ---- */

static void send_to(struct ringup_group *g, int to, int tag, const float *x, uint64_t count,
		    struct ringup_op **opp)
{
	struct ringup_send a = {
		.in = x, .count = count, .dtype = RINGUP_F32, .to = to, .tag = tag
	};

	went(ringup_send(g, &a, opp));
}

static int receive_from(struct ringup_group *g, int from, int tag, float *x, uint64_t count,
			struct ringup_op **opp)
{
	struct ringup_recv a = {
		.out = x, .count = count, .dtype = RINGUP_F32, .from = from, .tag = tag
	};

	return ringup_recv(g, &a, opp);
}

/* Rank 0 sends rank 1 a small message and, at the same time, two large ones; receives one from
 * any rank; sends itself one; and is sent one that is longer than it expects. */
static void send_some(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	struct ringup_op *op[2] = { NULL };
	float *x = calloc(2 * LARGE, sizeof(*x)), small[4] = { 0 };

	(void)size;
	went(ringup_timeline_start(r, path, 0));
	if (rank == 0) {
		send_to(g, 1, 1, small, 4, NULL);
		send_to(g, 1, 2, x, LARGE, &op[0]);
		send_to(g, 1, 2, x + LARGE, LARGE, &op[1]);
		went(ringup_barrier(g, "under way", NULL));
		went(ringup_wait(op[0], -1));
		went(ringup_wait(op[1], -1));
		went(receive_from(g, RINGUP_ANY_SOURCE, 3, small, 4, NULL));
		send_to(g, 0, 4, small, 4, NULL);
		went(receive_from(g, 0, 4, small, 4, NULL));
		went(receive_from(g, 1, 5, small, 2, NULL) != RINGUP_EMISMATCH);
	} else {
		went(ringup_barrier(g, "under way", NULL));
	}
	if (rank == 1) {
		went(receive_from(g, 0, 1, small, 4, NULL));
		went(receive_from(g, 0, 2, x, LARGE, NULL));
		went(receive_from(g, 0, 2, x, LARGE, NULL));
		send_to(g, 0, 3, small, 4, NULL);
		send_to(g, 0, 5, small, 4, NULL);
	}
	went(ringup_barrier(g, "done", NULL));
	went(ringup_timeline_stop(r));
	send_to(g, rank, 6, small, 4, NULL);
	went(receive_from(g, rank, 6, small, 4, NULL));
	free(x);
}

/* One message of rank 0: how often it waited for the other rank, and was carried by @way. */
static void ok_message(const json_t *j, const char *name, const char *kind, const char *way,
		       const char *shape)
{
	long pid = nest_pid(j, name);
	char negotiate[32], activity[32];

	snprintf(negotiate, sizeof(negotiate), "NEGOTIATE_%s", kind);
	snprintf(activity, sizeof(activity), "%s_%s", way, kind);
	ok(pid > 0 && nest_count(j, "B", negotiate, pid) == 1 &&
		   nest_count(j, "B", kind, pid) == 1 &&
		   (!*way || nest_count(j, "B", activity, pid) == 1) &&
		   !strcmp(nest_arg(j, pid, "shape"), shape),
	   "%s: %s %s", name, nest_arg(j, pid, "dtype"), nest_arg(j, pid, "shape"));
}

static void test_messages(const char *backend)
{
	bool far = !strcmp(backend, "tcp");
	json_t *j;
	int open = 0;

	setenv("RINGUP_BACKEND", backend, 1);
	failures = 0;
	ok(!ranks_run(SIZE, send_some) && !failures, "messages are recorded, over %s", backend);
	unsetenv("RINGUP_BACKEND");
	j = nest_load(path, &open);
	ok(j && !open, "the file is well formed, and all has ended: %d have not", open);
	ok_message(j, "send to rank 1, tag 1", "SEND", "EAGER", "[4]");
	/* Within a host the kernel copies, or shared memory where it may not. */
	ok_message(j, "send to rank 1, tag 2", "SEND", far ? "TCP" : "", "[50000]");
	ok_message(j, "send to rank 1, tag 2 (2)", "SEND", far ? "TCP" : "", "[50000]");
	ok_message(j, "receive from any rank, tag 3", "RECV", "EAGER", "[4]");
	ok(nest_count(j, "B", far ? "TCP_SEND" : "CMA_SEND", -1) +
			   nest_count(j, "B", far ? "" : "NODE_SEND", far ? 0 : -1) ==
		   2,
	   "large ones are carried by what lies between the two ranks");
	ok(nest_count(j, "X", "1", nest_pid(j, "receive from any rank, tag 3")) == 1,
	   "it tells which rank it was");
	ok_message(j, "send to rank 0, tag 4", "SEND", "EAGER", "[4]");
	ok_message(j, "receive from rank 0, tag 4", "RECV", "EAGER", "[4]");
	ok(nest_count(j, "B", "ERROR", nest_pid(j, "receive from rank 1, tag 5")) == 1,
	   "and where two ranks disagree");
	ok(nest_pid(j, "send to rank 0, tag 6") < 0, "what comes after the end is not in it");
	json_decref(j);
	unlink(path);
}

/* ---- points, without a file ---- */

static bool in_order(const struct ringup_points *p)
{
	return p->submitted > 1600000000000000000 && p->submitted <= p->ready &&
	       p->ready <= p->begun && p->begun <= p->complete && !p->failed;
}

/* Of the operations that rank 0 starts, the first ones are: a barrier, which carries nothing; a
 * large sum; small ones, of which the last goes the short way; a message that is received. */
static void look_at_points(struct ringup *r, const uint64_t *count, uint64_t first)
{
	struct ringup_points p[16];
	struct ringup_op *op = NULL;
	float x[2] = { 0 };
	int i, bad = 0;

	ok(*count == first + 6, "operations have numbers: %llu from %llu on",
	   (unsigned long long)*count, (unsigned long long)first);
	ok(!ringup_points_get(r, first + 1, 16, p, sizeof(struct ringup_points)) &&
		   in_order(&p[1]),
	   "a sum has its points");
	for (i = 2; i < 5; i++)
		bad += !in_order(&p[i]);
	ok(!bad && in_order(&p[5]), "small ones and a message, too: %d have not", bad);
	ok(p[0].submitted && p[0].complete && p[0].submitted <= p[1].submitted,
	   "and a barrier, before the sum");
	ok(!p[6].submitted && !p[15].complete, "what has not been started has none");
	went(receive_from(ringup_world(r), 1, 9, x, 2, &op));
	ok(!ringup_points_get(r, *count, 1, p, sizeof(struct ringup_points)) &&
		   p[0].submitted && !p[0].ready && !p[0].complete,
	   "what waits for another rank is not ready");
	went(ringup_barrier(ringup_world(r), "looked", NULL));
	went(ringup_wait(op, -1));
	ok(!ringup_points_get(r, *count - 1, 1, p, sizeof(struct ringup_points)) &&
		   in_order(&p[0]),
	   "and is in the end");
	ok(ringup_points_get(r, 0, 1, p, sizeof(struct ringup_points)) == RINGUP_EINVAL,
	   "there is no number 0: %s", ringup_error());
}

static void keep_points(struct ringup *r, int rank, int size)
{
	struct ringup_group *g = ringup_world(r);
	const uint64_t *count = NULL;
	float *x = calloc(LARGE, sizeof(*x));
	uint64_t first;
	int i;

	(void)size;
	reduce(g, "before", x, 2);
	went(ringup_points_keep(r, &count));
	first = *count;
	went(ringup_barrier(g, "begin", NULL));
	reduce(g, "large", x, LARGE);
	for (i = 0; i < 3; i++)
		reduce(g, "small", x, 6);
	if (rank == 1) {
		send_to(g, 0, 8, x, 2, NULL);
		went(ringup_barrier(g, "looked", NULL));
		send_to(g, 0, 9, x, 2, NULL);
	} else if (rank == 0) {
		went(receive_from(g, 1, 8, x, 2, NULL));
		look_at_points(r, count, first);
	} else {
		went(ringup_barrier(g, "looked", NULL));
	}
	free(x);
}

static void test_points(const char *backend)
{
	setenv("RINGUP_BACKEND", backend, 1);
	failures = 0;
	ok(!ranks_run(SIZE, keep_points) && !failures, "points are kept, over %s", backend);
	unsetenv("RINGUP_BACKEND");
}

/* ---- rank 0's file ---- */

static void record_one(struct ringup *r, int rank, int size)
{
	struct ringup_group *pair;
	float x[2] = { 1, 2 }, y[4] = { 1, 2, 3, 4 };

	(void)size;
	went(ringup_timeline_start(r, path, RINGUP_TIMELINE_CYCLES));
	went(ringup_barrier(ringup_world(r), "begin", NULL));
	do_all(r, rank);
	reduce_unnamed(ringup_world(r), y);
	went(ringup_group_add(r, (int[]){ 0, 2 }, 2, &pair));
	if (rank != 1)
		reduce(pair, "small", x, 2);
	went(ringup_join(ringup_world(r), NULL, NULL));
	went(ringup_timeline_stop(r));
	reduce(ringup_world(r), "after", x, 2);
}

/* Rounds of a tensor, and the ranks that were ready in all of them. */
static void ok_tensor(const json_t *j, const char *name, const char *kind, const char *shape)
{
	long pid = nest_pid(j, name);
	char negotiate[64], rank[8];
	int r, rounds, ticks = 0;

	snprintf(negotiate, sizeof(negotiate), "NEGOTIATE_%s", kind);
	rounds = nest_count(j, "B", negotiate, pid);
	for (r = 0; r < SIZE; r++) {
		snprintf(rank, sizeof(rank), "%d", r);
		ticks += nest_count(j, "X", rank, pid) == ROUNDS;
	}
	ok(pid > 0 && rounds == ROUNDS && nest_count(j, "B", kind, pid) == ROUNDS &&
		   ticks == SIZE && !strcmp(nest_arg(j, pid, "shape"), shape),
	   "%s: %d rounds, %d ranks ready in each, %s %s", name, rounds, ticks,
	   nest_arg(j, pid, "dtype"), nest_arg(j, pid, "shape"));
}

static void test_one(void)
{
	json_t *j;
	long pid;
	int open = 0;

	ok(!ranks_run(SIZE, record_one) && !failures, "all goes on while it is recorded");
	j = nest_load(path, &open);
	ok(j && !open, "rank 0's file is well formed, and all has ended: %d have not", open);
	ok_tensor(j, "small", "ALLREDUCE", "[3, 2]");
	ok_tensor(j, "large", "ALLREDUCE", "[25000, 2]");
	ok_tensor(j, "some.0", "ALLREDUCE", "[5000]");
	ok_tensor(j, "some.3", "ALLREDUCE", "[5000]");
	ok_tensor(j, "bcast", "BROADCAST", "[7]");
	ok_tensor(j, "scatter", "REDUCESCATTER", "[3, 2]");
	ok_tensor(j, "adasum", "ADASUM", "[10]");
	ok_tensor(j, "alltoall", "ALLTOALL", "[3, 2]");
	ok_tensor(j, "two", "ALLREDUCE", "");
	pid = nest_pid(j, "gather");
	ok(!strcmp(nest_arg(j, pid, "shape"), "[6, 3]") &&
		   nest_count(j, "B", "NEGOTIATE_ALLGATHER", pid) == ROUNDS,
	   "the rows of a gather are those of all ranks: %s", nest_arg(j, pid, "shape"));
	pid = nest_pid(j, "changes");
	ok(!strcmp(nest_arg(j, pid, "shape"), "[3, 2]") &&
		   nest_count(j, "B", "ALLREDUCE", pid) == ROUNDS,
	   "a shape that changes is the last one: %s", nest_arg(j, pid, "shape"));
	ok(nest_count(j, "B", "EAGER_ALLREDUCE", nest_pid(j, "small")) > 0 &&
		   nest_count(j, "B",
			      backend_find("device") ? "DEVICE_ALLREDUCE" : "NODE_ALLREDUCE",
			      nest_pid(j, "large")) == ROUNDS &&
		   nest_count(j, "B", "QUEUE", nest_pid(j, "large")) == ROUNDS,
	   "it says what carried it out");
	ok(nest_count(j, "B", "NEGOTIATE_BARRIER", -1) == NAME_TABLE_UNNAMED - 1 &&
		   !nest_count(j, "B", "BARRIER", -1),
	   "barriers are negotiated, and no more");
	ok(nest_count(j, "B", "NEGOTIATE_BARRIER", nest_pid(j, "barrier.noname.4")) == 1 &&
		   nest_count(j, "B", "ALLREDUCE", nest_pid(j, "allreduce.noname.5")) == 1 &&
		   nest_count(j, "B", "ALLREDUCE", nest_pid(j, "grouped.noname.6")) == 1,
	   "an operation without a name is called after its kind");
	ok(nest_count(j, "B", "NEGOTIATE_BARRIER", nest_pid(j, "barrier.noname.0")) == 1 &&
		   nest_count(j, "B", "ALLREDUCE", nest_pid(j, "allreduce.noname.0")) == 1,
	   "also if its number was another kind's before");
	ok(nest_count(j, "B", "NEGOTIATE_JOIN", nest_pid(j, "join.noname")) == 1, "a join too");
	ok(nest_count(j, "B", "ALLREDUCE", nest_pid(j, "small (process set 1)")) == 1,
	   "a group's tensor is another one");
	ok(nest_count(j, "i", "CYCLE_START", -1) > 0, "cycles are marked");
	ok(nest_pid(j, "after") < 0, "what comes after the end is not in it");
	json_decref(j);
	unlink(path);
}

/* ---- starting and stopping ---- */

static void start_and_stop(struct ringup *r, int rank, int size)
{
	char *name[2] = { file("a.json"), file("b.json") };
	float x[2] = { 1, 2 };
	json_t *j;
	int i, open = 0, bad = 0;

	(void)size;
	for (i = 0; i < 6; i++) {
		went(ringup_timeline_start(r, name[i % 2], i % 3 ? 0 : RINGUP_TIMELINE_CYCLES));
		if (i == 4)
			went(ringup_timeline_start(r, name[0], 0));
		reduce(ringup_world(r), "t", x, 2);
		went(ringup_timeline_stop(r));
		went(ringup_timeline_stop(r));
		if (rank == 0) {
			j = nest_load(name[i % 2], &open);
			bad += !j || open || nest_count(j, "B", "ALLREDUCE", -1) != 1;
			json_decref(j);
		}
		went(ringup_barrier(ringup_world(r), "looked", NULL));
	}
	if (rank)
		return;
	ok(!bad, "started and stopped again and again: %d files are wrong", bad);
	ok(ringup_timeline_start(r, NULL, 0) == RINGUP_EINVAL &&
		   ringup_timeline_start(r, "", 0) == RINGUP_EINVAL &&
		   ringup_timeline_start(r, path, 64) == RINGUP_EINVAL,
	   "what makes no sense is refused: %s", ringup_error());
	ok(ringup_timeline_start(r, "/nonexistent/t.json", 0) == RINGUP_ESYSTEM &&
		   strstr(ringup_error(), "/nonexistent/t.json"),
	   "a file that cannot be written is an error: %s", ringup_error());
	if (!ROUNDS_SANITIZED) {
		pid_t pid = fork();

		if (!pid)
			_exit(ringup_timeline_start(r, path, 0) != RINGUP_ESHUTDOWN ||
			      ringup_timeline_stop(r) != RINGUP_ESHUTDOWN);
		waitpid(pid, &open, 0);
		ok(WIFEXITED(open) && !WEXITSTATUS(open), "a forked child cannot");
	}
	unlink(name[0]);
	unlink(name[1]);
}

/* ---- every rank's ---- */

static void record_all(struct ringup *r, int rank, int size)
{
	(void)size;
	do_all(r, rank);
}

/* Each kind of group of ranks in its turn: of one host, and of several. */
static void test_all(const char *backend)
{
	char one[96];
	json_t *j;
	int r, open = 0, bad = 0, rounds = 0, rc;

	setenv("RINGUP_TIMELINE", file("all.%r.json"), 1);
	setenv("RINGUP_BACKEND", backend, 1);
	failures = 0;
	rc = ranks_run(SIZE, record_all);
	unsetenv("RINGUP_TIMELINE");
	unsetenv("RINGUP_BACKEND");
	ok(!rc && !failures, "every rank records as the setting says, over %s", backend);
	for (r = 0; r < SIZE; r++) {
		snprintf(one, sizeof(one), "all.%d.json", r);
		j = nest_load(file(one), &open);
		bad += !j || open;
		rounds += nest_count(j, "B", "NEGOTIATE_ALLREDUCE", nest_pid(j, "large"));
		json_decref(j);
	}
	ok(!bad && rounds == SIZE * ROUNDS, "their files are well formed: %d are not", bad);
	for (r = 0; r < SIZE; r++) {
		snprintf(one, sizeof(one), "all.%d.json", r);
		unlink(file(one));
	}
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/t.json", dir);
	test_one();
	failures = 0;
	ok(!ranks_run(SIZE, start_and_stop) && !failures, "nothing of that disturbs the job");
	test_all("node");
	test_all("tcp");
	test_messages("node");
	test_messages("tcp");
	test_points("node");
	test_points("tcp");
	rmdir(dir);
	return tap_done();
}
