/* test_outfile.c - an array in a file, whole after every write. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/outfile.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"

static char dir[] = "/tmp/ringup-outfile-XXXXXX";
static char path[64];

/* How many elements there are, or -1 if it is no JSON. */
static int elements(void)
{
	json_t *j = json_load_file(path, 0, NULL);
	int n = json_is_array(j) ? (int)json_array_size(j) : -1;

	json_decref(j);
	return n;
}

static int append(struct outfile *f, int number, size_t blanks, struct err *e)
{
	static char text[1 << 20];
	int n = snprintf(text, sizeof(text), "%s\n{\"a\": %d}", number ? "," : "[", number);

	memset(text + n, ' ', blanks);
	return outfile_append(f, text, (size_t)n + blanks, e);
}

static void test_whole(void)
{
	struct outfile f;
	struct err e;
	int i, bad = 0;

	ok(!outfile_open(&f, path, &e), "a file is opened");
	for (i = 0; i < 100; i++)
		bad += append(&f, i, (size_t)i * 997, &e) || elements() != i + 1;
	ok(!bad, "after each write it is whole, across any pages: %d are not", bad);
	outfile_close(&f);
	outfile_close(&f);
	ok(!outfile_open(&f, path, &e) && !append(&f, 0, 0, &e) && elements() == 1,
	   "opened again, it begins again");
	outfile_close(&f);
}

/* A process that dies by SIGKILL after so many writes, as they are counted. */
static void die_after(int writes)
{
	struct outfile f;
	struct err e;
	int i;

	if (outfile_open(&f, path, &e))
		_exit(1);
	for (i = 0; i < writes; i++)
		if (append(&f, i, (size_t)i * 1231 % 9000, &e))
			_exit(1);
	kill(getpid(), SIGKILL);
	_exit(1);
}

static void test_kill(void)
{
	int n, status, bad = 0;
	pid_t pid;

	for (n = 1; n <= 30; n++) {
		pid = fork();
		if (!pid)
			die_after(n);
		waitpid(pid, &status, 0);
		bad += !WIFSIGNALED(status) || elements() != n;
	}
	ok(!bad, "killed after any write, it leaves a whole array: %d do not", bad);
}

static void test_full(void)
{
	struct rlimit was, small;
	struct outfile f;
	struct err e = { 0 };
	int n = 0;

	getrlimit(RLIMIT_FSIZE, &was);
	signal(SIGXFSZ, SIG_IGN);
	small = was;
	small.rlim_cur = 10000;
	setrlimit(RLIMIT_FSIZE, &small);
	outfile_open(&f, path, &e);
	while (n < 100 && !append(&f, n, 700, &e))
		n++;
	ok(n > 9 && n < 14 && e.code, "a file that may grow no more says so: after %d: %s", n,
	   e.text);
	ok(elements() == n, "and is as it was before: %d", elements());
	ok(!append(&f, n, 0, &e) && elements() == n + 1, "what fits is written");
	outfile_close(&f);
	ok(!outfile_open(&f, path, &e) && append(&f, 0, 20000, &e) && elements() == -1,
	   "if not even the first fits");
	ok(!append(&f, 0, 0, &e) && elements() == 1, "it is empty, and can be tried again");
	outfile_close(&f);
	setrlimit(RLIMIT_FSIZE, &was);
}

static void test_no_files(void)
{
	char fifo[80];
	struct outfile f;
	struct err e;

	ok(outfile_open(&f, "/nonexistent/x", &e) && strstr(e.text, "No such file"),
	   "a folder that is not there: %s", e.text);
	ok(outfile_open(&f, dir, &e), "a folder: %s", e.text);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	mkfifo(fifo, 0600);
	ok(outfile_open(&f, fifo, &e) || append(&f, 0, 0, &e), "a FIFO: %s", e.text);
	outfile_close(&f);
	unlink(fifo);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/t.json", dir);
	test_whole();
	test_kill();
	test_full();
	test_no_files();
	unlink(path);
	rmdir(dir);
	return tap_done();
}
