/* test_events.c - events out of files that others have written, and died over. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/events.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

/* How many events a text has, -1 for an error, which is in @e; *@cut: its end is missing. */
static int count(const char *text, bool *cut, struct err *e)
{
	struct events v;
	json_t *event;
	int n = 0, rc;

	if (events_of(&v, text, strlen(text), e))
		return -1;
	while ((rc = events_next(&v, &event, e)) > 0) {
		n++;
		json_decref(event);
	}
	*cut = v.cut;
	events_close(&v);
	return rc < 0 ? -1 : n;
}

static void test_texts(void)
{
	struct err e = { 0 };
	bool cut;

	ok(count("[]", &cut, &e) == 0 && !cut, "none");
	ok(count(" [\n{\"a\": 1},\n{\"b\": \"}]\\\"{\"}\n]\n", &cut, &e) == 2 && !cut, "two");
	ok(count("[{\"a\": {\"b\": [1, {}]}},{\"a\": 2}]", &cut, &e) == 2,
	   "on one line, nested");
	ok(count("[{\"a\": 1},{\"b\": 2}", &cut, &e) == 2 && cut, "not closed");
	ok(count("[{\"a\": 1},\n", &cut, &e) == 1 && cut, "with a comma at the end");
	ok(count("[{\"a\": 1},\n{\"b\": \"x", &cut, &e) == 1 && cut, "cut within an event");
	ok(count("", &cut, &e) == 0 && cut, "nothing at all");
	ok(count("{\"traceEvents\": []}", &cut, &e) < 0 && strstr(e.text, "not a timeline"),
	   "no array: %s", e.text);
	ok(count("[1, 2]", &cut, &e) < 0, "no objects: %s", e.text);
	ok(count("[{\"a\": 1}, {\"a\" 2}]", &cut, &e) < 0 && strstr(e.text, "event 2"),
	   "no JSON: %s", e.text);
}

static void test_files(void)
{
	char dir[] = "/tmp/ringup-events-XXXXXX", path[64], fifo[64];
	static char text[EVENTS_BYTES + 100];
	struct err e = { 0 };
	struct events v;
	json_t *event;
	int i, n = 0, rc, bad = 0;
	FILE *f;

	if (!mkdtemp(dir))
		exit(1);
	snprintf(path, sizeof(path), "%s/t.json", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	f = fopen(path, "w");
	for (i = 0; i < 60000; i++)
		fprintf(f, "%c\n{\"number\": %d, \"blanks\": \"%*s\"}", i ? ',' : '[', i,
			i % 70, "");
	fputs("\n]\n", f);
	fclose(f);
	if (events_open(&v, path, &e))
		exit(1);
	while ((rc = events_next(&v, &event, &e)) > 0) {
		bad += json_integer_value(json_object_get(event, "number")) != n++;
		json_decref(event);
	}
	ok(!rc && n == 60000 && !bad && !v.cut, "a file larger than what is read at once: %d",
	   n);
	events_close(&v);
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "[{\"a\": \"", 8);
	ok(count(text, &(bool){ 0 }, &e) < 0 && strstr(e.text, "longer than"),
	   "an event has an end: %s", e.text);
	ok(events_open(&v, "/nonexistent/t.json", &e) == RINGUP_ESYSTEM, "no file: %s", e.text);
	ok(events_open(&v, dir, &e) == RINGUP_EINVAL, "a folder: %s", e.text);
	mkfifo(fifo, 0600);
	ok(events_open(&v, fifo, &e) == RINGUP_EINVAL, "a FIFO, which nobody waits for: %s",
	   e.text);
	events_close(&v);
	unlink(fifo);
	unlink(path);
	rmdir(dir);
}

int main(void)
{
	test_texts();
	test_files();
	return tap_done();
}
