/* test_contexts.c - several contexts in one process that come and go, and end one by one. */
#include <dirent.h>
#include <malloc.h>
#include <stdbool.h>

#include "rounds.h"

#include "ranks.h"

/*
 * Three ranks as threads, which are in two or three contexts each: "all" has all of them, "low"
 * the first two, "high" the last two.  Each context has an exchange function of its own.
 */
enum { SIZE = 3, CONTEXTS = 3, CYCLES = 20, LARGE = 50000, MORE_KIB = 4096 };

static const struct kind {
	const char *name;
	int first, size;
} kinds[CONTEXTS] = { { "all", 0, 3 }, { "low", 0, 2 }, { "high", 1, 2 } };

static struct room {
	pthread_barrier_t barrier;
	unsigned char all[SIZE * 8192];
} rooms[CONTEXTS];

static pthread_barrier_t meeting; /* of all ranks, beside the library */

struct place {
	struct room *room;
	int rank, size;
};

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	struct place *p = ctx;

	memcpy(p->room->all + len * (size_t)p->rank, mine, len);
	pthread_barrier_wait(&p->room->barrier);
	memcpy(all, p->room->all, len * (size_t)p->size);
	pthread_barrier_wait(&p->room->barrier);
	return 0;
}

static bool is_in(int kind, int rank)
{
	return rank >= kinds[kind].first && rank < kinds[kind].first + kinds[kind].size;
}

static struct ringup *join(int kind, int rank)
{
	struct place p = { &rooms[kind], rank - kinds[kind].first, kinds[kind].size };
	struct ringup_init how = {
		.rank = p.rank, .size = p.size, .exchange = exchange, .ctx = &p
	};
	struct ringup *r = NULL;

	check(!ringup_init(&how, &r), "join", rank);
	return r;
}

/* A sum of a small and of a large tensor, and a message to the next rank. */
static bool works(struct ringup *r, int kind)
{
	struct ringup_group *g = ringup_world(r);
	static float v[CONTEXTS][SIZE][LARGE];
	int me = ringup_rank(g), size = ringup_size(g), told = me, got = -1;
	float *x = v[kind][me];
	struct ringup_reduce a = {
		.name = "same name", .in = x, .out = x, .dtype = RINGUP_F32
	};
	struct ringup_send s = {
		.in = &told, .count = 1, .dtype = RINGUP_I32, .to = (me + 1) % size
	};
	struct ringup_recv b = {
		.out = &got, .count = 1, .dtype = RINGUP_I32, .from = (me + size - 1) % size
	};

	for (a.count = 1; a.count <= LARGE; a.count *= LARGE) {
		x[a.count - 1] = 1;
		if (ringup_allreduce(g, &a, NULL) || x[a.count - 1] != (float)size)
			return false;
	}
	return !ringup_send(g, &s, NULL) && !ringup_recv(g, &b, NULL) &&
	       got == (me + size - 1) % size;
}

static bool fails(struct ringup *r)
{
	return ringup_barrier(ringup_world(r), NULL, NULL) == RINGUP_EABORTED &&
	       strstr(ringup_error(), "only this one") != NULL;
}

/* Two contexts of a rank stay while the third is aborted, ends, and is made again. */
static void cycle(int rank, int number)
{
	struct ringup *r[CONTEXTS] = { NULL };
	int kind, again = number % CONTEXTS;

	for (kind = 0; kind < CONTEXTS; kind++)
		if (is_in(kind, rank))
			r[kind] = join(kind, rank);
	for (kind = CONTEXTS - 1; kind >= 0; kind--)
		check(!r[kind] || works(r[kind], kind), "all work", rank);
	/* Who is not through yet would see the abort. */
	pthread_barrier_wait(&meeting);
	if (r[again] && ringup_rank(ringup_world(r[again])) == number % 2)
		ringup_abort(r[again], "only this one");
	check(!r[again] || fails(r[again]), "one is aborted", rank);
	for (kind = 0; kind < CONTEXTS; kind++)
		check(!r[kind] || kind == again || works(r[kind], kind), "the others go on",
		      rank);
	ringup_fini(r[again]);
	for (kind = 0; kind < CONTEXTS; kind++)
		check(!r[kind] || kind == again || works(r[kind], kind), "after its end, too",
		      rank);
	r[again] = is_in(again, rank) ? join(again, rank) : NULL;
	for (kind = 0; kind < CONTEXTS; kind++)
		check(!r[kind] || works(r[kind], kind), "and once more", rank);
	for (kind = 0; kind < CONTEXTS; kind++)
		ringup_fini(r[kind]);
}

static int first_cycle, end_cycle;

static void *be_rank(void *arg)
{
	int rank = *(int *)arg, number;

	for (number = first_cycle; number < end_cycle; number++)
		cycle(rank, number);
	return NULL;
}

static void run_cycles(int first, int end)
{
	static int ranks[SIZE] = { 0, 1, 2 };
	pthread_t thread[SIZE];
	int i;

	first_cycle = first;
	end_cycle = end;
	for (i = 0; i < SIZE; i++)
		pthread_create(&thread[i], NULL, be_rank, &ranks[i]);
	for (i = 0; i < SIZE; i++)
		pthread_join(thread[i], NULL);
}

static int entries(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static long heap_kib(void)
{
	struct mallinfo2 m = mallinfo2();

	return (long)((m.uordblks + m.hblkhd) / 1024);
}

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	int n = 0, c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static void come_and_go(const char *where)
{
	int fds, tasks, maps, i;
	long heap;

	alarm(250);
	wrong = 0;
	pthread_barrier_init(&meeting, NULL, SIZE);
	for (i = 0; i < CONTEXTS; i++)
		pthread_barrier_init(&rooms[i].barrier, NULL, (unsigned)kinds[i].size);
	/* What the process keeps for good is there after the first. */
	run_cycles(0, 3);
	fds = entries("/proc/self/fd");
	tasks = entries("/proc/self/task");
	maps = mappings();
	heap = heap_kib();
	run_cycles(3, 3 + rounds_of(CYCLES));
	ok(!wrong, "%s: contexts work beside each other, and one is aborted alone", where);
	/* The socket that wakes sleepers comes when one first has to be woken, and stays. */
	ok(entries("/proc/self/fd") <= fds + 1, "%s: no descriptor is left", where);
	ok(entries("/proc/self/task") == tasks, "%s: no thread is left", where);
	ok(ROUNDS_SANITIZED || mappings() <= maps + CYCLES / 2, "%s: no mapping is left",
	   where);
	ok(ROUNDS_SANITIZED || heap_kib() < heap + MORE_KIB, "%s: no memory is left", where);
	printf("# %d descriptors, %d tasks, %d then %d mappings, %ld then %ld KiB\n", fds,
	       tasks, maps, mappings(), heap, heap_kib());
	pthread_barrier_destroy(&meeting);
	for (i = 0; i < CONTEXTS; i++)
		pthread_barrier_destroy(&rooms[i].barrier);
}

int main(void)
{
	come_and_go("one host");
	setenv("RINGUP_BACKEND", "tcp", 1);
	come_and_go("each rank a host of its own");
	return tap_done();
}
