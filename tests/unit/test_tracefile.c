/* test_tracefile.c - several recorders of a process, at a time and one after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/tracefile.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "nest.h"
#include "ringup.h"
#include "tap.h"
#include "trace/trace.h"

enum { JOBS = 4, EACH = 2000 };

static char dir[] = "/tmp/ringup-tracefile-XXXXXX";
static char path[64], moved[64];

/* ---- a job that records ---- */

static int begin(struct trace *t, const char *part, bool resumes)
{
	struct trace_origin from = { .size = 2,
				     .merges = true,
				     .host = "h",
				     .clock = "k",
				     .part = part,
				     .resumes = resumes };
	struct err e;
	int rc = trace_start(t, path, TRACE_ON, &from, &e);

	if (rc)
		printf("# %s\n", e.text);
	return rc;
}

static void operation(struct trace *t, const char *name)
{
	static const enum trace_what that[] = { TRACE_SUBMITTED, TRACE_READY, TRACE_COMPLETE };
	uint32_t label = trace_label(t, 0, name, strlen(name));

	for (int i = 0; i < 3; i++) {
		struct trace_record r = { .ns = clock_ns(),
					  .label = label,
					  .what = (uint8_t)that[i] };

		trace_put(t, &r);
	}
}

/* A job from its beginning to its end, with one operation called "x". */
static int record_job(const char *part, bool resumes)
{
	struct trace t = { 0 };
	int rc = begin(&t, part, resumes);

	if (!rc)
		operation(&t, "x");
	trace_close(&t);
	return rc;
}

/* How many operations the file has of a process of the trace; -1: it is not whole, or its
 * events do not nest. */
static int count(const char *name)
{
	int open = 0, n;
	json_t *j = nest_load(path, &open);
	long pid = j ? nest_pid(j, name) : -1;

	n = pid < 0 ? 0 : nest_count(j, "B", "ALLREDUCE", pid);
	n = !j || open ? -1 : n;
	json_decref(j);
	return n;
}

static int events(void)
{
	json_t *j = json_load_file(path, 0, NULL);
	int n = json_is_array(j) ? (int)json_array_size(j) : -1;

	json_decref(j);
	return n;
}

/* ---- one after the other ---- */

static void test_after(void)
{
	int bad = record_job(NULL, true);

	bad += record_job("tp", true) || record_job(NULL, true) || record_job("tp", true);
	ok(!bad && count("x") == 1 && count("x (tp)") == 1 && count("x (job 2)") == 1 &&
		   count("x (tp, job 2)") == 1,
	   "jobs one after the other are in one file, and told apart");
	bad = record_job(NULL, false);
	ok(!bad && count("x") == 1 && count("x (tp)") == 0 && count("x (job 2)") == 0,
	   "a recording that the program starts begins the file anew");
	bad = record_job(NULL, true);
	ok(!bad && count("x") == 1 && count("x (job 2)") == 1,
	   "and one of the setting goes on with what this process has written");
}

static void test_foreign(void)
{
	FILE *f;
	int bad = record_job(NULL, true) || rename(path, moved) || record_job("new", true);

	ok(!bad && count("x (new)") == 1 && count("x") == 0,
	   "a file that is gone is made anew");
	rename(moved, path);
	bad = record_job("newer", true);
	ok(!bad && count("x (newer)") == 1 && count("x") == 0,
	   "so is one that another has taken the place of");
	f = fopen(path, "w");
	fprintf(f, "[]");
	fclose(f);
	ok(!record_job(NULL, true) && count("x") == 1, "or that has been written to");
	ok(!unlink(path) && !mkdir(path, 0700), "a folder is in its place");
	ok(record_job(NULL, true), "a file that cannot be made");
	ok(!rmdir(path) && !record_job(NULL, true) && count("x") == 1, "can be made later");
}

/* ---- at the same time ---- */

static void *record_many(void *arg)
{
	struct trace *t = arg;

	for (int i = 0; i < EACH; i++)
		operation(t, "many");
	return NULL;
}

static void test_together(void)
{
	static const char *const parts[JOBS] = { NULL, "a", "b", "c" };
	struct trace t[JOBS] = { 0 };
	pthread_t thread[JOBS];
	char name[32];
	int i, bad = 0, n;

	unlink(path);
	for (i = 0; i < JOBS; i++)
		bad += begin(&t[i], parts[i], true) != 0;
	for (i = 0; i < JOBS; i++)
		bad += pthread_create(&thread[i], NULL, record_many, &t[i]) != 0;
	for (i = 0; i < JOBS; i++) {
		pthread_join(thread[i], NULL);
		bad += events() < 0;
		trace_close(&t[i]);
	}
	for (i = 0; i < JOBS; i++) {
		snprintf(name, sizeof(name), i ? "many (%s)" : "many", parts[i]);
		n = count(name);
		/* A ring has room for all records. */
		bad += n != EACH;
	}
	ok(!bad, "jobs at the same time are in one file, whole and told apart");
}

static void test_kept(void)
{
	struct trace first = { 0 }, second = { 0 };
	int bad = begin(&first, NULL, false) || begin(&second, "b", false);

	operation(&first, "x");
	trace_close(&first);
	operation(&second, "x");
	bad += record_job("c", false);
	trace_close(&second);
	ok(!bad && count("x") == 1 && count("x (b)") == 1 && count("x (c)") == 1,
	   "a file that is being written is not emptied");
}

/* ---- ranks of the larger job ---- */

static void test_ranks(void)
{
	static const int ranks[] = { 3, 5 };
	struct trace t = { .ranks = ranks };
	int open, bad = begin(&t, "g", false);
	json_t *j;

	operation(&t, "x");
	trace_close(&t);
	j = nest_load(path, &open);
	ok(!bad && nest_count(j, "X", "3", -1) == 1 && nest_count(j, "X", "0", -1) == 0 &&
		   json_integer_value(json_object_get(
			   json_object_get(json_array_get(j, 0), "args"), "rank")) == 3,
	   "ranks have their numbers in the larger job");
	json_decref(j);
}

/* ---- a child of fork() ---- */

static void test_child(void)
{
	struct trace t = { 0 };
	int bad = begin(&t, NULL, true), status = 1;
	pid_t child;

	operation(&t, "x");
	trace_stop(&t);
	child = fork();
	if (!child)
		_exit(record_job("child", true) ? 1 : 0);
	waitpid(child, &status, 0);
	ok(!bad && !status && count("x (child)") == 1 && count("x") == 0,
	   "a child of fork() does not go on with the file of its parent");
	trace_close(&t);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/t.json", dir);
	snprintf(moved, sizeof(moved), "%s/moved.json", dir);
	test_after();
	test_foreign();
	test_together();
	test_kept();
	test_ranks();
	test_child();
	unlink(path);
	rmdir(dir);
	return tap_done();
}
