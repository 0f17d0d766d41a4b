/* test_pythons.c - series out of names; what is no Python is not taken for one. */
#include <string.h>

#include "base/err.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "ringup.h"
#include "tap.h"

static void test_series(void)
{
	char out[16];

	ok(pythons_series("python3.11", out, 16) && !strcmp(out, "3.11"), "of a program");
	ok(pythons_series("3.11.7", out, 16) && !strcmp(out, "3.11"), "of a version");
	ok(pythons_series("python3.7m", out, 16) && !strcmp(out, "3.7"), "with a flag");
	ok(!pythons_series("python3", out, 16) && !pythons_series("python", out, 16) &&
		   !pythons_series("", out, 16) && !pythons_series("3.x", out, 16) &&
		   !pythons_series("3.11111111111111111", out, 16),
	   "none");
}

static void test_live(void)
{
	json_t *problems = json_array();
	struct pythons py;
	struct rootfs fs;
	struct err e = { 0 };
	int i, good = 1;

	if (rootfs_open(&fs, NULL, problems, &e))
		ok(0, "open: %s", e.text);
	ok(pythons_find(&fs, "/bin/sh", &py, &e) == RINGUP_EINVAL, "a shell is none: %s",
	   e.text);
	pythons_free(&py);
	ok(pythons_find(&fs, "no-such-python", &py, &e) == RINGUP_EINVAL, "nor is nothing");
	pythons_free(&py);
	ok(pythons_find(&fs, NULL, &py, &e) == 0, "all of this node: %d", py.count);
	for (i = 0; i < py.count; i++)
		good &= py.at[i].path[0] == '/' && py.at[i].prefix[0] == '/' &&
			!strncmp(py.at[i].series, "3.", 2) &&
			!strncmp(py.at[i].version, py.at[i].series, strlen(py.at[i].series));
	ok(good, "each has a path, a prefix and a version of its series");
	pythons_free(&py);
	rootfs_close(&fs);
	json_decref(problems);
}

int main(void)
{
	test_series();
	test_live();
	return tap_done();
}
