/* test_roster.c - nodes as people, schedulers and Spark write them down. */
#include "probe/roster.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

typedef int reader(struct roster *, const char *, struct err *);

/* What @read makes of @text, with blanks between; "!" for an error. */
static const char *read_as(reader *read, const char *text)
{
	static char out[1024];
	struct roster r = { 0 };
	struct err e = { 0 };
	int i, rc = read(&r, text, &e);

	snprintf(out, sizeof(out), "%s", rc ? "!" : "");
	for (i = 0; !rc && i < r.n; i++)
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%s", i ? " " : "",
			 r.name[i]);
	roster_free(&r);
	return out;
}

static void test_table(reader *read, const char *const (*t)[2], const char *kind)
{
	for (; (*t)[0]; t++)
		ok(!strcmp(read_as(read, (*t)[0]), (*t)[1]), "%s: '%s'", kind, (*t)[1]);
}

int main(void)
{
	static const char *const files[][2] = {
		{ "n1\nn2 slots=4\n\n# all\n  n3:2 # the last\nn1\r\n", "n1 n2 n3" },
		{ "10.0.0.1\nfd00::5\n", "10.0.0.1 fd00::5" },
		{ "-oProxyCommand=x\n", "!" },
		{ "n1;reboot\n", "!" },
		{ "", "" },
		{ NULL, NULL },
	};
	static const char *const slurm[][2] = {
		{ "gpu[01-03,7],login", "gpu01 gpu02 gpu03 gpu7 login" },
		{ "n[8-11]", "n8 n9 n10 n11" },
		{ "a[1-2]-ib", "a1-ib a2-ib" },
		{ "one", "one" },
		{ "n[1-", "!" },
		{ "n[5-1]", "!" },
		{ "n[1-99999999]", "!" },
		{ "n]1[", "!" },
		{ "n[x]", "!" },
		{ NULL, NULL },
	};
	static const char *const spark[][2] = {
		{ "[{\"id\":\"driver\",\"hostPort\":\"10.0.0.9:40123\"},"
		  "{\"id\":\"0\",\"hostPort\":\"10.0.0.1:7078\",\"isActive\":true},"
		  "{\"id\":\"1\",\"hostPort\":\"10.0.0.2:7078\",\"isActive\":false}]",
		  "10.0.0.9 10.0.0.1" },
		{ "[{\"hostPort\":\"[fd00::7]:7078\"}]", "fd00::7" },
		{ "{\"workers\":[{\"host\":\"w1\",\"port\":1,\"state\":\"ALIVE\"},"
		  "{\"host\":\"w2\",\"state\":\"DEAD\"},{\"host\":\"fd00::8\"}]}",
		  "w1 fd00::8" },
		{ "{}", "!" },
		{ "{\"workers\":7}", "!" },
		{ "<html>", "!" },
		{ "[{\"hostPort\":\"-x:1\"}]", "!" },
		{ NULL, NULL },
	};
	char name[400];

	test_table(roster_text, files, "hostfile");
	test_table(roster_slurm, slurm, "Slurm");
	test_table(roster_spark, spark, "Spark");
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	ok(!strcmp(read_as(roster_add, name), "!") && !strcmp(read_as(roster_text, name), "!"),
	   "a name of 399 bytes is none");
	return tap_done();
}
