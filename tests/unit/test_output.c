/* test_output.c - lines stay whole, bytes stay as they are, nothing blocks. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "launch/output.h"
#include "ringup.h"
#include "tap.h"

static char base[] = "/tmp/test_output.XXXXXX";
static int real_out, real_err;

/* stdout and stderr go to these for a while, since tests talk there. */
static void redirect(int out, int err)
{
	fflush(stdout);
	dup2(out, 1);
	dup2(err, 2);
}

static void restore(void)
{
	dup2(real_out, 1);
	dup2(real_err, 2);
}

static int make_file(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

/* The contents of a file below base, and away with it. */
static const char *contents(const char *name)
{
	static char text[8192];
	char *data;
	size_t len;
	struct err e;

	text[0] = 0;
	if (!file_read(base, name, 1 << 22, &data, &len, &e)) {
		snprintf(text, sizeof(text), "%s", data);
		free(data);
	}
	file_remove(base, name, &e);
	return text;
}

static int put(int fd, const char *text)
{
	return write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static void lines(void)
{
	int out = make_file("out"), err = make_file("err"), a[2] = { -1 }, b[2] = { -1 }, good;
	struct output *o = NULL;
	struct err e = { 0 };
	struct pollfd p[8];

	redirect(out, err);
	good = !output_open(&o, 2, true, NULL, &e) && !output_pipes(o, 0, &a[0], &a[1], &e) &&
	       !output_pipes(o, 1, &b[0], &b[1], &e);
	good = good && put(a[0], "half ") && put(b[0], "whole\nand ");
	output_move(o);
	good = good && put(a[0], "a line\n\n") && put(a[1], "complaint\n") && put(b[0], "last");
	output_move(o);
	output_say(o, "a word of %s", "its own");
	good = good && output_poll_count(o) <= 8 && output_poll(o, p) >= 4;
	/* The test holds the far ends, which stand for the ranks'. */
	output_finish(o);
	output_move(o);
	good = good && output_is_idle(o);
	output_close(o);
	restore();
	ok(good, "two ranks write %s", e.text);
	ok(!strcmp(contents("out"), "[1] whole\n[0] half a line\n[0] \n[1] and last\n"),
	   "their lines come whole, with their number");
	ok(!strcmp(contents("err"), "[0] complaint\nringup run: a word of its own\n"),
	   "stderr apart, and in order with the launcher's own");
	close(out);
	close(err);
}

static void unchanged(void)
{
	int out = make_file("out"), one = -1, two = -1, good;
	struct output *o = NULL;
	struct err e = { 0 };

	redirect(out, out);
	good = !output_open(&o, 1, false, NULL, &e) && !output_pipes(o, 0, &one, &two, &e) &&
	       put(one, "a\r\n\033[1mb") && put(two, "");
	output_move(o);
	output_finish(o);
	output_move(o);
	output_close(o);
	restore();
	ok(good && !strcmp(contents("out"), "a\r\n\033[1mb"),
	   "without prefixes bytes stay bytes");
	close(out);
}

static void files(void)
{
	int out = make_file("out"), one = -1, two = -1, good;
	struct output *o = NULL;
	struct err e = { 0 };
	char dir[256];

	snprintf(dir, sizeof(dir), "%s/a/b", base);
	redirect(out, out);
	good = !output_open(&o, 1, true, dir, &e) && !output_pipes(o, 0, &one, &two, &e) &&
	       put(one, "to a file") && put(two, "another\n");
	output_move(o);
	output_finish(o);
	output_close(o);
	restore();
	ok(good && !strcmp(contents("a/b/rank.0/stdout"), "to a file") &&
		   !strcmp(contents("a/b/rank.0/stderr"), "another\n"),
	   "files get every byte %s", e.text);
	contents("out");
	snprintf(dir, sizeof(dir), "%s/file/b", base);
	close(make_file("file"));
	ok(output_open(&o, 1, true, dir, &e) == RINGUP_ESYSTEM && strstr(e.text, "/file"),
	   "a directory that cannot be made is named: %s", e.text);
	contents("file");
	close(out);
}

/* As horovodrun has it: tags, the time, numbers that sort. */
static void tags(void)
{
	int out = make_file("out"), one = -1, two = -1, good;
	struct output *o = NULL;
	struct err e = { 0 };
	const char *text;
	char dir[256];
	int i;

	snprintf(dir, sizeof(dir), "%s/t", base);
	redirect(out, out);
	good = !output_open(&o, 11, OUTPUT_TAG, dir, &e) &&
	       !output_pipes(o, 10, &one, &two, &e) && put(one, "x") && put(two, "y\n");
	output_move(o);
	output_finish(o);
	output_move(o);
	output_close(o);
	good = good && !output_open(&o, 1, OUTPUT_TAG | OUTPUT_TIME, NULL, &e) &&
	       !output_pipes(o, 0, &one, &two, &e) && put(one, "z\n") && put(two, "");
	output_move(o);
	output_finish(o);
	output_move(o);
	output_close(o);
	restore();
	text = contents("out");
	ok(good && strstr(text, "[10]<stdout>:x\n") && strstr(text, "[10]<stderr>:y\n"),
	   "tags tell rank and stream");
	text = strstr(text, "[0]<stdout>:z\n");
	ok(text && text[-1] >= '0' && text[-1] <= '9', "the time stands in front of them");
	ok(!strcmp(contents("t/rank.10/stdout"), "x") &&
		   !strcmp(contents("t/rank.00/stdout"), ""),
	   "folders have numbers of equal length");
	for (i = 0; i < 11; i++) {
		snprintf(dir, sizeof(dir), "t/rank.%02d/stdout", i);
		contents(dir);
		snprintf(dir, sizeof(dir), "t/rank.%02d/stderr", i);
		contents(dir);
		snprintf(dir, sizeof(dir), "%s/t/rank.%02d", base, i);
		rmdir(dir);
	}
	close(out);
}

/* Is a rank's number coloured on a terminal with these variables? */
static int is_coloured(const char *term, const char *no_color)
{
	int one = -1, two = -1, terminal = posix_openpt(O_RDWR | O_NOCTTY), end = -1, good;
	struct output *o = NULL;
	struct err e = { 0 };
	char text[256] = "";

	if (terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal))
		end = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (end < 0)
		return -1;
	setenv("TERM", term, 1);
	if (!*term)
		unsetenv("TERM");
	if (no_color)
		setenv("NO_COLOR", no_color, 1);
	redirect(end, end);
	good = !output_open(&o, 1, OUTPUT_RANK, NULL, &e) &&
	       !output_pipes(o, 0, &one, &two, &e) && put(one, "x\n") && put(two, "");
	output_move(o);
	output_finish(o);
	output_move(o);
	output_close(o);
	restore();
	if (read(terminal, text, sizeof(text) - 1) < 0)
		good = 0;
	close(terminal);
	close(end);
	unsetenv("TERM");
	unsetenv("NO_COLOR");
	return good && strchr(text, 'x') ? strchr(text, '\033') != NULL : -1;
}

static void colours(void)
{
	ok(is_coloured("xterm", NULL) == 1, "a terminal shows colours");
	ok(is_coloured("xterm", "") == 1, "also if NO_COLOR is empty");
	ok(is_coloured("xterm", "1") == 0, "but not if it is set");
	ok(is_coloured("dumb", NULL) == 0, "nor on a dumb terminal");
	ok(is_coloured("", NULL) == 0, "nor on one without a name");
}

/* What @feed writes of rank 0, piece by piece, as it is passed on; "|" is where each write
 * ends. */
static const char *moved(unsigned prefix, const char *const *feed)
{
	int out = make_file("out"), one = -1, two = -1, good;
	struct output *o = NULL;
	static char text[512];
	struct err e = { 0 };
	size_t n = 0;

	redirect(out, out);
	good = !output_open(&o, 1, prefix, NULL, &e) && !output_pipes(o, 0, &one, &two, &e);
	for (; good && *feed; feed++) {
		good = put(one, *feed);
		output_move(o);
		n = (size_t)lseek(out, 0, SEEK_CUR);
		good = good && pwrite(out, "|", 1, (off_t)n) == 1;
		lseek(out, (off_t)n + 1, SEEK_SET);
	}
	output_finish(o);
	output_move(o);
	output_close(o);
	restore();
	close(out);
	snprintf(text, sizeof(text), "%s%s", good ? "" : "failed: ", contents("out"));
	return text;
}

static void pieces(void)
{
	const char *const bar[] = { "\r 0%", "\r50%\r", "99%\r", "100%\n", "done\n", NULL };
	const char *const crlf[] = { "a\r\n", "b\r", "\n", "\r\n", "\n", "c\r", "d", NULL };
	const char *const plain[] = { "\r\r1", "\r\n\r", NULL };
	const char *text = moved(OUTPUT_RANK, bar);

	ok(!strcmp(text, "|[0]  0%\r[0] 50%\r|[0] 99%\r|[0] 100%\n|[0] done\n|"),
	   "a progress bar moves");
	text = moved(OUTPUT_RANK, crlf);
	ok(!strcmp(text, "[0] a\r\n|[0] b\r|\n|[0] \r\n|[0] \n|[0] c\r||[0] d\n"),
	   "lines that end with both stay one");
	text = moved(0, plain);
	ok(!strcmp(text, "\r\r|1\r\n\r|"), "without prefixes all bytes come");
}

/* A daemon's log has both streams, line by line. */
static void logs(void)
{
	int out = make_file("out"), good;
	struct output *o = NULL;
	struct err e = { 0 };
	const char *text;

	good = !output_open_log(&o, out, &e) && !output_grow(o, 3, &e);
	if (good) {
		output_feed(o, 2, 0, "half", 4);
		output_feed(o, 0, 1, "whole\n", 6);
		output_feed(o, 2, 0, " a line\nand", 11);
	}
	output_finish(o);
	output_move(o);
	output_close(o);
	text = contents("out");
	ok(good && !strcmp(text,
			   "[0]<stderr>:whole\n[2]<stdout>:half a line\n[2]<stdout>:and\n"),
	   "a log tells ranks apart");
	close(out);
}

/* A line without an end must not grow for ever, nor one rank stop another. */
static void long_lines(void)
{
	int out = make_file("out"), one = -1, two = -1, i, good;
	static char chunk[4096];
	struct output *o = NULL;
	struct err e = { 0 };
	struct stat st;

	memset(chunk, 'x', sizeof(chunk));
	redirect(out, out);
	good = !output_open(&o, 1, true, NULL, &e) && !output_pipes(o, 0, &one, &two, &e);
	for (i = 0; good && i < 40; i++) {
		good = write(one, chunk, sizeof(chunk)) == sizeof(chunk);
		output_move(o);
	}
	output_finish(o);
	output_move(o);
	output_close(o);
	restore();
	fstat(out, &st);
	ok(good && st.st_size == 40 * 4096 + 3 * (4 + 1),
	   "a line of 160 KiB comes in three pieces: %lld bytes", (long long)st.st_size);
	contents("out");
	close(out);
}

static void slow_reader(void)
{
	int ends[2], one = -1, two = -1, i, good;
	static char chunk[4096];
	struct output *o = NULL;
	struct err e = { 0 };
	struct pollfd p[8];
	long taken = 0, n;

	memset(chunk, '\n', sizeof(chunk));
	good = !pipe(ends);
	redirect(ends[1], real_err);
	good = good && !output_open(&o, 1, true, NULL, &e) &&
	       !output_pipes(o, 0, &one, &two, &e);
	fcntl(one, F_SETFL, O_NONBLOCK);
	for (i = 0; good && i < 3000; i++) {
		n = write(one, chunk, sizeof(chunk));
		taken += n > 0 ? n : 0;
		output_move(o);
	}
	restore();
	ok(good && taken > 0 && taken < 1 << 21, "a slow reader holds up the ranks: %ld bytes",
	   taken);
	ok(!output_is_idle(o) && output_poll(o, p) == 2,
	   "and only it and stderr are waited for");
	close(ends[0]);
	close(ends[1]);
	signal(SIGPIPE, SIG_IGN);
	/* Descriptor 1 is the terminal's again, but the pipe's is what counts. */
	output_close(o);
}

static void no_reader(void)
{
	int ends[2], one = -1, two = -1, i, good;
	struct output *o = NULL;
	struct err e = { 0 };
	long taken = 0;

	good = !pipe(ends);
	close(ends[0]);
	redirect(ends[1], real_err);
	good = good && !output_open(&o, 1, true, NULL, &e) &&
	       !output_pipes(o, 0, &one, &two, &e);
	for (i = 0; good && i < 3000; i++) {
		good = put(one, "a line that nobody will read\n");
		taken += good;
		output_move(o);
	}
	restore();
	ok(good && taken == 3000, "a reader that has gone away holds up nobody");
	output_close(o);
	close(ends[1]);
}

int main(void)
{
	static const char *const dirs[] = { "a/b/rank.0", "a/b", "a", "t", "" };
	char path[256];
	size_t i;

	if (!mkdtemp(base))
		return 1;
	real_out = dup(1);
	real_err = dup(2);
	unsetenv("TERM");
	lines();
	unchanged();
	files();
	tags();
	colours();
	pieces();
	logs();
	long_lines();
	slow_reader();
	no_reader();
	output_close(NULL);
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", base, dirs[i]);
		ok(rmdir(path) == 0, "nothing is left in %s", dirs[i]);
	}
	return tap_done();
}
