/* test_watch.c - a rank that is killed is named by all survivors. */
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
}

int main(void)
{
	all();
	printf("# the same between hosts\n");
	setenv("RINGUP_BACKEND", "tcp", 1);
	all();
	return tap_done();
}
