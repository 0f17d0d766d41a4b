/* loop.c - a rank that combines tensors for ever and says how that ended, and when. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "asks.h"
#include "ringup.h"

/*
 * loop [-b BYTES] [-a] [-n TIMES] [-u FILE] [-s RANK] [-o RANK] [-g RANK,...] [-d RANK]
 *      [-m RANK] [-l RANK] [-p MS] [-w MS]
 *
 * -b  bytes of the float tensor (4)
 * -a  is gathered, not summed up
 * -n  so many turns, then leave in peace (0: until something fails)
 * -u  until rank 0 has seen FILE: the tensor of that turn tells the others
 * -s  RANK does not submit the tensor "skipped", which comes after the first ten
 * -o  RANK submits "other" instead of it
 * -g  of these ranks alone; the others rest meanwhile
 * -d  RANK wants another count of "differs", which comes after the first ten, too
 * -m  RANK takes all the memory that there is, after the first ten
 * -l  RANK leaves in peace after the first ten
 * -p  pause after each turn
 * -w  pause once, after the first ten
 *
 * Lines, each with rank, process and nanoseconds of CLOCK_MONOTONIC:
 *
 *	ready RANK PID NS
 *	done RANK PID NS TIMES CHECKSUM MEDIAN P99 LONGEST
 *	                                  all results were right, the checksum is equal on
 *	                                  all ranks; nanoseconds of a turn once ready
 *	error RANK PID NS CODE SENTENCE
 *	wrong RANK PID NS ELEMENT VALUE
 */
enum { WARM_UP = 10, SAMPLES = 1 << 20, LAST = 1 << 20 };

static struct ringup_group *world, *some; /* those of -g, or all */
static int rank, size;
static float *all;        /* ranks' tensors, with -a */
static const char *until; /* the file of -u */
static bool over;         /* all ranks know that rank 0 has seen it */
static uint64_t checksum = 14695981039346656037u;
static long long took[SAMPLES], longest; /* nanoseconds; of the last so many sums, and ever */

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void tell(const char *what, const char *more)
{
	printf("%s %d %d %lld%s%s\n", what, rank, (int)getpid(), now(), *more ? " " : "", more);
	fflush(stdout);
}

static int failed(int rc)
{
	char text[700];

	snprintf(text, sizeof(text), "%d %s", rc, ringup_error());
	tell("error", text);
	return rc;
}

static void rest(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	while (ms && nanosleep(&t, &t))
		;
}

static int sum(struct ringup_group *of, const char *name, float *v, uint64_t count)
{
	struct ringup_reduce r =
		ASK_REDUCE(name, v, v, count, .dtype = RINGUP_F32, .redop = RINGUP_SUM);

	return ringup_allreduce(of, &r, NULL);
}

static int gather(const char *name, const float *v, uint64_t count)
{
	uint64_t counts[64];
	void *out;
	struct ringup_gather a =
		ASK_GATHER(name, v, count, 1, &out, counts, .dtype = RINGUP_F32, .into = all,
			   .into_bytes = (uint64_t)size * count * sizeof(*all));

	return ringup_allgather(world, &a, NULL);
}

/* Element i of rank r: sums of small integers are exact. */
static float element(int r, uint64_t i, long turn)
{
	return (float)(r + (long)((i + (uint64_t)turn) % 64));
}

static void wrong(uint64_t i, float value)
{
	char text[64];

	snprintf(text, sizeof(text), "%llu %g", (unsigned long long)i, (double)value);
	tell("wrong", text);
	exit(4);
}

/* The first element may also say that this turn is the last. */
static bool is_right(uint64_t i, float value, float want)
{
	if (i == 0 && until && value == want + (float)LAST) {
		over = true;
		return true;
	}
	return value == want;
}

static void check_gathered(uint64_t count, long turn)
{
	uint64_t i;
	int r;

	for (r = 0; r < size; r++)
		for (i = 0; i < count; i++) {
			uint64_t at = (uint64_t)r * count + i;

			if (!is_right(at, all[at], element(r, i, turn)))
				wrong(at, all[at]);
		}
}

static int round_trip(float *v, uint64_t count, long turn)
{
	long long began; /* then how long it took */
	uint64_t i;
	int rc;

	for (i = 0; i < count; i++)
		v[i] = element(rank, i, turn);
	if (until && rank == 0 && turn > WARM_UP && !access(until, F_OK))
		v[0] += (float)LAST;
	began = now();
	rc = all ? gather("looped", v, count) : sum(world, "looped", v, count);
	began = now() - began;
	if (turn > WARM_UP) {
		took[(turn - WARM_UP - 1) % SAMPLES] = began;
		longest = began > longest ? began : longest;
	}
	if (!rc && all)
		check_gathered(count, turn);
	for (i = 0; !rc && !all && i < count; i++)
		if (!is_right(i, v[i],
			      (float)size * element(0, i, turn) +
				      (float)(size * (size - 1) / 2)))
			wrong(i, v[i]);
	if (!rc) {
		uint32_t bits;

		memcpy(&bits, all ? &all[turn % (long)count] : &v[turn % (long)count],
		       sizeof(bits));
		checksum = (checksum ^ bits) * 1099511628211u;
	}
	return rc;
}

static int gather_some(struct ringup *job, const char *list)
{
	int ranks[64], n = 0;
	char *end;

	for (; *list && n < 64; list = *end ? end + 1 : end)
		ranks[n++] = (int)strtol(list, &end, 10);
	return ringup_group_add(job, ranks, n, &some);
}

/* What the others submit, @who does not. */
static int skip(int who, float *v)
{
	if (rank != who && ringup_rank(some) >= 0)
		return sum(some, "skipped", v, 1);
	rest(60000);
	return 0;
}

/* What the others submit, @who submits under another name. */
static int rename_one(int who, float *v)
{
	if (ringup_rank(some) >= 0)
		return sum(some, rank == who ? "other" : "skipped", v, 1);
	rest(60000);
	return 0;
}

/* The count differs on one rank: an error on all, and then all goes on. */
static int differ(int who, float *v)
{
	int rc = sum(world, "differs", v, rank == who ? 2 : 1);

	if (rc != RINGUP_EMISMATCH)
		return rc ? rc : RINGUP_EINVAL;
	failed(rc);
	return 0;
}

static int by_length(const void *a, const void *b)
{
	const long long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* After @turns of them. */
static void tell_done(long turns)
{
	long n = turns - WARM_UP - 1;
	char text[128];

	n = n < 1 ? 1 : n < SAMPLES ? n : SAMPLES;
	qsort(took, (size_t)n, sizeof(*took), by_length);
	snprintf(text, sizeof(text), "%ld %016llx %lld %lld %lld", turns,
		 (unsigned long long)checksum, took[n / 2], took[n * 99 / 100], longest);
	tell("done", text);
}

/* Until the kernel has something against it. */
static void eat(void)
{
	const size_t more = 1 << 20;
	void *volatile p; /* or clang would see that nobody reads it, and allocate nothing */

	while ((p = malloc(more)))
		memset(p, 1, more);
}

int main(int argc, char **argv)
{
	long bytes = 4, times = 0, pause_ms = 0, wait_ms = 0, turn;
	int skips = -1, renames = -1, differs = -1, eats = -1, leaves = -1, c, rc;
	const char *list = NULL;
	struct ringup *job;
	bool gathers = false;
	float *v;

	while ((c = getopt(argc, argv, "ab:n:u:s:o:g:d:m:l:p:w:")) != -1) {
		long n = optarg ? atol(optarg) : 0;

		if (c == 'b')
			bytes = n;
		else if (c == 'a')
			gathers = true;
		else if (c == 'n')
			times = n;
		else if (c == 'u')
			until = optarg;
		else if (c == 's')
			skips = (int)n;
		else if (c == 'o')
			renames = (int)n;
		else if (c == 'g')
			list = optarg;
		else if (c == 'd')
			differs = (int)n;
		else if (c == 'm')
			eats = (int)n;
		else if (c == 'l')
			leaves = (int)n;
		else if (c == 'p')
			pause_ms = n;
		else if (c == 'w')
			wait_ms = n;
		else
			return 2;
	}
	v = malloc((size_t)(bytes < 8 ? 8 : bytes));
	if (!v)
		return 5;
	rank = -1;
	rc = ringup_init(NULL, &job);
	if (rc) {
		failed(rc);
		free(v);
		return 3;
	}
	world = ringup_world(job);
	rank = ringup_rank(world);
	size = ringup_size(world);
	some = world;
	all = gathers && size <= 64 ? malloc((size_t)size * (size_t)(bytes < 8 ? 8 : bytes))
				    : NULL;
	if (list)
		rc = gather_some(job, list);
	for (turn = 0; !rc && !over && (!times || turn < times); turn++) {
		rc = round_trip(v, (uint64_t)(bytes < 4 ? 1 : bytes / 4), turn);
		if (!rc && turn == WARM_UP) {
			tell("ready", "");
			if (leaves == rank)
				break;
			rest(wait_ms);
			if (skips >= 0)
				rc = skip(skips, v);
			if (!rc && renames >= 0)
				rc = rename_one(renames, v);
			if (!rc && differs >= 0)
				rc = differ(differs, v);
			if (eats == rank)
				eat();
		}
		rest(pause_ms);
	}
	if (rc)
		failed(rc);
	ringup_fini(job);
	if (!rc)
		tell_done(turn);
	free(all);
	free(v);
	return rc ? 3 : 0;
}
