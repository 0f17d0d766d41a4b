/* test_merge.c - timelines of ranks whose clocks differ, on one clock again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/merge.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "nest.h"
#include "ringup.h"
#include "tap.h"

enum { FILES = 3, ROUNDS = 200, LATENCY = 30 };

static char dir[] = "/tmp/ringup-merge-XXXXXX";
static char path[FILES][64], merged[64];
static const char *const paths[FILES] = { path[0], path[1], path[2] };

/* One rank of an invented job: whose clock is ahead by so much, and which wall clock it has. */
struct rank {
	const char *clock;
	double ahead_us, epoch_us;
	bool rounds;
};

/* True times: in round i rank i % FILES is the last, and all know it LATENCY later. */
static double submitted_us(int rank, int i)
{
	return 1000.0 * i + (i % FILES == rank ? 300 : 10 * rank);
}

static void write_file(int rank, const struct rank *r, bool cut)
{
	double begins = 100 + 50 * rank; /* in true time */
	FILE *f = fopen(path[rank], "w");
	int i;

	fprintf(f,
		"[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": "
		"{\"start_time_since_epoch_in_micros\": %.0f",
		r->epoch_us + begins);
	if (*r->clock)
		fprintf(f,
			", \"rank\": %d, \"size\": %d, \"host\": \"host-%s\", \"clock\": "
			"\"%s\", "
			"\"start_ns\": %.0f",
			rank, FILES, r->clock, r->clock, (begins + r->ahead_us) * 1000);
	fprintf(f, "}},\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": "
		   "{\"name\": \"t\"}}");
	for (i = 1; i < ROUNDS; i++) {
		fprintf(f,
			",\n{\"ph\": \"B\", \"name\": \"NEGOTIATE_ALLREDUCE\", \"ts\": %.3f, "
			"\"pid\": 1",
			submitted_us(rank, i) - begins);
		if (r->rounds)
			fprintf(f, ", \"args\": {\"round\": %d}", i);
		fprintf(f,
			"},\n{\"ph\": \"X\", \"name\": \"%d\", \"ts\": %.3f, \"pid\": 1, "
			"\"dur\": 0}",
			rank, submitted_us(rank, i) - begins);
		fprintf(f, ",\n{\"ph\": \"E\", \"ts\": %.3f, \"pid\": 1}",
			submitted_us(i % FILES, i) + LATENCY - begins);
		fprintf(f,
			",\n{\"ph\": \"i\", \"name\": \"CYCLE_START\", \"ts\": %.3f, \"s\": "
			"\"g\"}",
			submitted_us(rank, i) - begins);
	}
	fputs(cut ? ",\n{\"ph\": \"B\", \"na" : "]", f);
	fclose(f);
}

static int merge(struct merge *m, struct err *e)
{
	int rc = merge_read(m, paths, FILES, e);

	return rc ? rc : merge_write(m, merged, e);
}

/* When that rank begins its first round, in the merged file. */
static double first_us(const json_t *j, int rank)
{
	const json_t *event;
	size_t i;

	json_array_foreach(j, i, event)
		if (*nest_string(event, "ph") == 'B' &&
		    json_integer_value(json_object_get(event, "tid")) == rank)
			return json_number_value(json_object_get(event, "ts"));
	return -1;
}

static void test_offsets(void)
{
	struct rank ranks[FILES] = { { "a", 5e9, 1e15, true },
				     { "b", 7e10, 1e15 + 4e6, true },
				     { "a", 5e9, 1e15, true } };
	struct err e = { 0 };
	struct merge m;
	json_t *j;
	int i, open = 0, rc;

	for (i = 0; i < FILES; i++)
		write_file(i, &ranks[i], i == 1);
	rc = merge(&m, &e);
	ok(!rc && m.file[0].how == MERGE_SAME && m.file[2].how == MERGE_SAME &&
		   m.file[1].how == MERGE_ROUNDS,
	   "one clock is one clock, another is settled by the rounds: %s", e.text);
	ok(!rc && fabs(m.file[1].ahead_us - 6.5e10) <= LATENCY && m.file[1].doubt_us <= LATENCY,
	   "within what a message takes, though its wall clock is 4 s off: %.3f +- %.3f",
	   m.file[1].ahead_us - 6.5e10, m.file[1].doubt_us);
	ok(!rc && m.file[1].cut && !m.file[0].cut, "a file whose end is missing is used");
	merge_free(&m);
	j = nest_load(merged, &open);
	ok(j && !open && nest_count(j, "B", "NEGOTIATE_ALLREDUCE", -1) == FILES * (ROUNDS - 1),
	   "the merged file is well formed, and whole");
	ok(fabs(first_us(j, 1) - first_us(j, 0) - (submitted_us(1, 1) - submitted_us(0, 1))) <=
			   LATENCY &&
		   fabs(first_us(j, 2) - first_us(j, 0) -
			(submitted_us(2, 1) - submitted_us(0, 1))) < 0.01,
	   "what happened at the same time stands at the same time");
	ok(nest_pid(j, "t") == 1 && nest_count(j, "M", "thread_name", 1) == FILES,
	   "each rank is a thread of the tensor");
	json_decref(j);
}

static void test_wall(void)
{
	struct rank ranks[FILES] = { { "a", 5e9, 1e15, false },
				     { "b", 7e10, 1e15, false },
				     { "", 0, 1e15, false } };
	struct err e = { 0 };
	struct merge m;
	int i, rc;

	for (i = 0; i < FILES; i++)
		write_file(i, &ranks[i], false);
	rc = merge(&m, &e);
	ok(!rc && m.file[1].how == MERGE_WALL && fabs(m.file[1].ahead_us - 6.5e10) < 2,
	   "without rounds the wall clocks have to do: %s %.3f", e.text,
	   m.file[1].ahead_us - 6.5e10);
	ok(!rc && m.file[2].how == MERGE_WALL && m.file[2].rank == 2,
	   "also Horovod's own file, which says nothing else");
	merge_free(&m);
	/* The ranks contradict each other. */
	for (i = 0; i < FILES; i++) {
		ranks[i].rounds = true;
		ranks[i].clock = i ? "b" : "a";
		write_file(i, &ranks[i], false);
	}
	ranks[1].ahead_us += 5000;
	write_file(1, &ranks[1], false);
	rc = merge(&m, &e);
	ok(!rc && m.file[1].how == MERGE_WALL, "nor do rounds help that contradict each other");
	merge_free(&m);
}

static void put_text(int i, const char *text)
{
	FILE *f = fopen(path[i], "w");

	fputs(text, f);
	fclose(f);
}

#define HEAD                                                                  \
	"[{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": " \
	"{\"start_time_since_epoch_in_micros\": 1, \"rank\": 0}}"

static void refuses(const char *text, const char *why)
{
	struct err e = { 0 };
	struct merge m;
	int rc;

	put_text(0, text);
	rc = merge_read(&m, paths, 1, &e);
	ok(rc == RINGUP_EINVAL && strstr(e.text, why), "%s", e.text);
	merge_free(&m);
}

static void test_refused(void)
{
	struct rank r = { "a", 0, 0, true };
	struct err e = { 0 };
	struct merge m;

	refuses("", "empty");
	refuses("hello", "does not begin with [");
	refuses("[{\"ph\": \"B\", \"ts\": 1}]", "when it began");
	refuses(HEAD ", {\"ph\": \"B\", \"name\": \"x\", \"pid\": 1}]", "no time");
	refuses(HEAD ", {\"name\": \"x\", \"pid\": 1, \"ts\": 1}]", "no phase");
	refuses(HEAD ", {\"ph\": \"E\", \"pid\": -4, \"ts\": 1}]", "no process");
	refuses(HEAD ", {\"ph\": \"E\", \"pid\": 99999999999, \"ts\": 1}]", "no process");
	write_file(0, &r, false);
	write_file(1, &r, false);
	put_text(1, HEAD "]");
	ok(merge_read(&m, paths, 2, &e) == RINGUP_EINVAL && strstr(e.text, "both of rank 0"),
	   "two of one rank: %s", e.text);
	merge_free(&m);
	ok(merge_read(&m, paths, 0, &e) == RINGUP_EINVAL, "none: %s", e.text);
	merge_free(&m);
	ok(!merge_read(&m, paths, 1, &e) && merge_write(&m, "/nonexistent/x", &e) &&
		   strstr(e.text, "/nonexistent/x"),
	   "nowhere to write to: %s", e.text);
	merge_free(&m);
}

int main(void)
{
	int i;

	if (!mkdtemp(dir))
		return 1;
	for (i = 0; i < FILES; i++)
		snprintf(path[i], sizeof(path[i]), "%s/%d.json", dir, i);
	snprintf(merged, sizeof(merged), "%s/merged.json", dir);
	test_offsets();
	test_wall();
	test_refused();
	for (i = 0; i < FILES; i++)
		unlink(path[i]);
	unlink(merged);
	ok(rmdir(dir) == 0, "nothing is left behind");
	return tap_done();
}
