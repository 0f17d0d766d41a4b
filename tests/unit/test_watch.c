/* test_watch.c - a rank that is killed, or cannot watch any more, is named by all survivors. */
/* tests: src/engine/heartbeat.c */
#include <sys/resource.h>

#include "base/clock.h"

#include "family.h"
#include "tap.h"

enum { VICTIM = 1 };

static uint64_t length;
static int asynchronous, with_child;

/* A data loader that outlives its rank until the others have noticed; they must
 * not notice because it ends. */
static void outlive(void)
{
	int tries;

	for (tries = 0; tries < 2400; tries++) {
		if (__atomic_load_n(&family->note[0], __ATOMIC_RELAXED))
			_exit(0);
		clock_sleep_ms(50);
	}
	__atomic_store_n(&family->note[1], 1, __ATOMIC_RELAXED);
	_exit(1);
}

/* Everybody reduces in a loop; one is killed somewhere in it. */
static int loop(void)
{
	struct ringup *r;
	float *v = calloc(length, sizeof(*v));
	struct ringup_reduce a = {
		.name = "x", .in = v, .out = v, .count = length, .dtype = RINGUP_F32
	};
	char named[64];
	int rc, k;

	if (family_join(&r))
		return 2;
	for (k = 0;; k++) {
		struct ringup_op *op;

		if (family_rank == VICTIM && k == 50) {
			if (with_child && fork() == 0)
				outlive();
			kill(getpid(), SIGKILL);
		}
		if (asynchronous) {
			rc = ringup_allreduce(ringup_world(r), &a, &op);
			while (!rc && !ringup_poll(op))
				clock_sleep_ms(1);
			if (!rc)
				rc = ringup_wait(op, -1);
		} else {
			rc = ringup_allreduce(ringup_world(r), &a, NULL);
		}
		if (rc)
			break;
	}
	snprintf(named, sizeof(named), "rank %d (process ", VICTIM);
	if (rc != RINGUP_EPEER || !strstr(ringup_error(), named) ||
	    !strstr(ringup_error(), ") died")) {
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
		return 3;
	}
	__atomic_store_n(&family->note[0], 1, __ATOMIC_RELAXED);
	/* From now on everything fails at once, and leaving works. */
	rc = ringup_barrier(ringup_world(r), NULL, NULL);
	ringup_fini(r);
	free(v);
	return rc == RINGUP_EPEER ? 0 : 4;
}

static void killed(const char *what, int size, uint64_t n, int async)
{
	int status[FAMILY_MAX], r, bad = 0;

	length = n;
	asynchronous = async;
	family_run(size, loop, status);
	for (r = 0; r < size; r++)
		if (r != VICTIM)
			bad |= status[r];
	bad |= !WIFSIGNALED(status[VICTIM]) || family->note[1];
	family_end();
	ok(!bad, "%s, %d processes, %llu elements", what, size, (unsigned long long)n);
}

/* Sends an element to the next rank, and receives one. */
static int pass_on(struct ringup_group *g)
{
	int next = (family_rank + 1) % family->size;
	int before = (family_rank + family->size - 1) % family->size;
	float in = 1, out = 0;
	struct ringup_send a = { .in = &in, .count = 1, .dtype = RINGUP_F32, .to = next };
	struct ringup_recv b = { .out = &out, .count = 1, .dtype = RINGUP_F32, .from = before };
	struct ringup_op *op;
	int rc = ringup_recv(g, &b, &op), sent;

	if (rc)
		return rc;
	sent = ringup_send(g, &a, NULL);
	rc = ringup_wait(op, -1);
	return sent ? sent : rc;
}

static int (*step)(struct ringup_group *g);
static rlim_t room;
static const char *complaint;

static int meet(struct ringup_group *g)
{
	return ringup_barrier(g, NULL, NULL);
}

/* One rank gets a limit of open files that its poll(2) is above. */
static int go_blind(void)
{
	struct rlimit l;
	struct ringup *r;
	int rc, k;

	if (family_join(&r))
		return 2;
	for (k = 0; !(rc = step(ringup_world(r))); k++)
		if (family_rank == VICTIM && k == 10) {
			getrlimit(RLIMIT_NOFILE, &l);
			l.rlim_cur = room;
			setrlimit(RLIMIT_NOFILE, &l);
		}
	if (rc != RINGUP_ESYSTEM || !strstr(ringup_error(), complaint)) {
		printf("# rank %d: %d: %s\n", family_rank, rc, ringup_error());
		return 3;
	}
	ringup_fini(r);
	return 0;
}

static void blind(const char *what, int (*does)(struct ringup_group *g), rlim_t files)
{
	int status[FAMILY_MAX], r, bad = 0;

	step = does;
	room = files;
	complaint = what;
	family_run(3, go_blind, status);
	for (r = 0; r < 3; r++)
		bad |= status[r];
	family_end();
	ok(!bad, "%s", what);
}

static void all(void)
{
	with_child = 1;
	killed("killed, but for a child of its own", 3, 1000, 0);
	with_child = 0;
	killed("killed", 2, 1, 0);
	killed("killed", 4, 1, 0);
	killed("killed", 4, 1000, 0);
	killed("killed", 4, 300000, 0);
	killed("killed while others poll", 3, 100, 1);
	killed("killed while others poll", 3, 100000, 1);
	blind("rank 1 cannot watch other ranks: poll: ", meet, 1);
}

int main(void)
{
	all();
	printf("# the same between hosts\n");
	setenv("RINGUP_BACKEND", "tcp", 1);
	all();
	/* Of which the watch has four, and messages with two ranks more. */
	blind("rank 1 cannot exchange messages: poll: ", pass_on, 5);
	return tap_done();
}
