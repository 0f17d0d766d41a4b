/* ends.c - ranks of which one fails in a given way, and may be seen late. */
/*
 * ends RANK HOW [THEN]: rank RANK (-1: none, and they say when they are ready) fails in the way
 * HOW, the others end in the way THEN when their operations fail.  With "late:" before HOW the
 * launcher, or the rank daemon, of that rank is stopped until all ranks here have ended, so
 * that the order of their ends tells it nothing.
 *
 * ENDS_EXCHANGE=DIR: the ranks meet by an exchange of this program, by files in DIR, and in the
 * opposite order, so that RANK, as the launcher counts, is not what the library calls the rank.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "asks.h"
#include "ringup.h"

enum { RANKS = 64 };

static struct ringup *job;
static struct ringup_group *world;
static double values[2000];
static int64_t pids[RANKS], my_pid;

static void pause_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static void no_core(void)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
}

/* Takes memory until the kernel ends this process, which has gone into a control group that has
 * little: ENDS_ROOM is the file for that. */
static void run_out_of_memory(void)
{
	const char *file = getenv("ENDS_ROOM");
	size_t step = 1 << 20;
	FILE *f = file ? fopen(file, "w") : NULL;
	char *p;

	if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f))
		exit(98);
	while ((p = malloc(step)))
		memset(p, 1, step);
	exit(97);
}

/* In the ways of programs: at once, by their end, or with a farewell. */
static void end_as(const char *how)
{
	int status = atoi(how + strcspn(how, "0123456789"));

	if (!strncmp(how, "_exit", 5))
		_exit(status);
	if (!strncmp(how, "exit", 4))
		exit(status);
	if (!strncmp(how, "abort", 5))
		abort();
	if (!strncmp(how, "signal", 6)) {
		signal(status, SIG_DFL);
		raise(status);
		pause();
	}
	if (!strcmp(how, "memory"))
		run_out_of_memory();
	if (!strncmp(how, "fini", 4)) {
		ringup_fini(job);
		exit(status);
	}
	if (!strncmp(how, "tell", 4)) {
		ringup_abort(job, "enough");
		ringup_fini(job);
		exit(status);
	}
	exit(99);
}

/* -- an exchange of its own ------------------------------------------------- */

static int my_place, places, round_;

static int file_exchange(void *ctx, const void *mine, size_t len, void *all)
{
	char path[256], part[300];
	int fd, place;

	snprintf(path, sizeof(path), "%s/%d.%d", (const char *)ctx, round_, my_place);
	snprintf(part, sizeof(part), "%s.part", path);
	fd = open(part, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || write(fd, mine, len) != (ssize_t)len || close(fd) || rename(part, path))
		return -1;
	for (place = 0; place < places; place++) {
		snprintf(path, sizeof(path), "%s/%d.%d", (const char *)ctx, round_, place);
		while ((fd = open(path, O_RDONLY)) < 0)
			pause_ms(1);
		if (read(fd, (char *)all + (size_t)place * len, len) != (ssize_t)len)
			return -1;
		close(fd);
	}
	round_++;
	return 0;
}

static int number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : 0;
}

static int meet(void)
{
	struct ringup_init how = { .exchange = file_exchange };

	how.ctx = getenv("ENDS_EXCHANGE");
	if (!how.ctx)
		return ringup_init(NULL, &job);
	places = how.size = number_of("RINGUP_SIZE");
	my_place = how.rank = places - 1 - number_of("RINGUP_RANK");
	return ringup_init(&how, &job);
}

/* The rank, as the launcher counts. */
static int launched(void)
{
	int rank = ringup_rank(world);

	return getenv("ENDS_EXCHANGE") ? ringup_size(world) - 1 - rank : rank;
}

static int has_ended(int64_t pid)
{
	char path[64], state = 'X';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (!f)
		return 1;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 'X';
	fclose(f);
	return state == 'Z' || state == 'X';
}

/* A process that wakes the launcher when all ranks of this host have ended. */
static void stop_launcher(void)
{
	pid_t launcher = getppid();
	int i, left, times;

	kill(launcher, SIGSTOP);
	if (fork())
		return;
	for (i = 0; i < 1024; i++)
		close(i);
	for (times = 0, left = 1; left && times < 20000; times++) {
		for (i = 0, left = 0; i < RANKS; i++)
			left += pids[i] && !has_ended(pids[i]);
		pause_ms(5);
	}
	kill(launcher, SIGCONT);
	_exit(0);
}

static int learn_pids(void)
{
	struct ringup_gather g =
		ASK_GATHER("pids", &my_pid, 1, 1, NULL, NULL, .dtype = RINGUP_I64);
	uint64_t counts[RANKS];
	void *all = NULL;
	int rc;

	my_pid = getpid();
	g.out = &all;
	g.counts = counts;
	rc = ringup_allgather(world, &g, NULL);
	if (!rc)
		memcpy(pids, all, (size_t)ringup_size(world) * sizeof(*pids));
	ringup_free(all);
	return rc;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "", *then = argc > 3 ? argv[3] : "exit1";
	int culprit = argc > 1 ? atoi(argv[1]) : 0, late, i, rc;

	no_core();
	if (meet()) {
		fprintf(stderr, "%s\n", ringup_error());
		return 90;
	}
	world = ringup_world(job);
	late = !strncmp(how, "late:", 5);
	how += late ? 5 : 0;
	if (ringup_size(world) > RANKS || learn_pids())
		return 91;
	for (i = 0;; i++) {
		struct ringup_reduce a =
			ASK_REDUCE("x", values, values, 2000, .dtype = RINGUP_F64);

		if (i == 20 && culprit < 0)
			fputs("ready\n", stderr);
		if (i == 20 && launched() == culprit) {
			if (late)
				stop_launcher();
			end_as(how);
		}
		rc = ringup_allreduce(world, &a, NULL);
		if (rc)
			break;
	}
	fprintf(stderr, "%s\n", ringup_error());
	end_as(then);
}
