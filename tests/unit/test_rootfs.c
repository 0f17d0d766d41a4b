/* test_rootfs.c - a tree is read below its root only, and what is broken is noted. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "detect/rootfs.h"
#include "tap.h"

static char dir[] = "/tmp/test_rootfs.XXXXXX";

static void make(void)
{
	char path[64];

	if (!mkdtemp(dir) || file_write(dir, "/a/file", 0644, "12345", 5, NULL) ||
	    file_write(dir, "/a/other", 0644, "", 0, NULL))
		abort();
	snprintf(path, sizeof(path), "%s/a/fifo", dir);
	if (mkfifo(path, 0600))
		abort();
	snprintf(path, sizeof(path), "%s/a/loop", dir);
	if (symlink("loop", path))
		abort();
	snprintf(path, sizeof(path), "%s/absolute", dir);
	if (symlink("/a/file", path))
		abort();
	snprintf(path, sizeof(path), "%s/up", dir);
	if (symlink("../../../../../../../../a", path))
		abort();
}

static void unmake(void)
{
	static const char *const files[] = { "a/file", "a/other",  "a/fifo",
					     "a/loop", "absolute", "up" };
	char path[64];
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		file_remove(dir, files[i], NULL);
	snprintf(path, sizeof(path), "%s/a", dir);
	rmdir(path);
	rmdir(dir);
}

static bool reads(struct rootfs *fs, const char *path, const char *want)
{
	size_t len;
	char *data = rootfs_read(fs, path, 100, &len);
	bool good = data && len == strlen(want) && !strcmp(data, want);

	free(data);
	return good;
}

static void test_tree(struct rootfs *fs)
{
	char real[PATH_MAX];
	struct names n;
	size_t len;

	ok(reads(fs, "/a/file", "12345") && reads(fs, "a/file", "12345"), "a file");
	ok(reads(fs, "/absolute", "12345"), "an absolute link stays in the tree");
	ok(reads(fs, "/up/file", "12345"), "and so does one that climbs");
	ok(reads(fs, "/../../a/file", "12345"), "and a path that does");
	ok(rootfs_real(fs, "/absolute", real) && !strcmp(real, "/a/file"), "real path: %s",
	   real);
	ok(rootfs_real(fs, "/", real) && !strcmp(real, "/"), "of the root, too: %s", real);
	ok(!rootfs_real(fs, "/none", real) && !strcmp(real, "/none"), "none is given back");
	ok(rootfs_is_dir(fs, "/up") && rootfs_is_file(fs, "/absolute") &&
		   !rootfs_is_file(fs, "/a") && !rootfs_is_dir(fs, "/none"),
	   "kinds");
	n = rootfs_names(fs, "/a", "f");
	ok(n.count == 2 && !strcmp(n.at[0], "fifo") && !strcmp(n.at[1], "file"),
	   "sorted names");
	rootfs_names_free(&n);
	ok(!rootfs_read(fs, "/none", 100, &len) && !rootfs_read(fs, "/a/file/x", 100, &len) &&
		   json_array_size(fs->problems) == 0,
	   "absence is silent");
	ok(!rootfs_read(fs, "/a/fifo", 100, &len) && json_array_size(fs->problems) == 1,
	   "a FIFO is noted");
	ok(!rootfs_read(fs, "/a", 100, &len) && json_array_size(fs->problems) == 2,
	   "a folder, too");
	ok(!rootfs_read(fs, "/a/loop", 100, &len) && json_array_size(fs->problems) == 3,
	   "and a loop");
	ok(!rootfs_read(fs, "/a/loop", 100, &len) && json_array_size(fs->problems) == 3,
	   "but once");
	ok(!rootfs_read(fs, "/a/file", 4, &len) && json_array_size(fs->problems) == 4,
	   "a file that is too large");
	ok(reads(fs, "/a/other", ""), "an empty file is a file");
}

static bool enough; /* atomic */

static void *rename_there_and_back(void *arg)
{
	char one[64], two[64];

	snprintf(one, sizeof(one), "%s/a/other", dir);
	snprintf(two, sizeof(two), "%s/a/another", dir);
	while (!__atomic_load_n(&enough, __ATOMIC_RELAXED))
		if (rename(one, two) || rename(two, one))
			abort();
	return arg;
}

/* Whoever renames, wherever that is, makes the kernel give up what climbs just then. */
static void test_busy(struct rootfs *fs)
{
	size_t before = json_array_size(fs->problems);
	pthread_t other;
	int i, bad = 0;

	if (pthread_create(&other, NULL, rename_there_and_back, NULL))
		abort();
	for (i = 0; i < 20000; i++)
		bad += !rootfs_is_dir(fs, "/up");
	__atomic_store_n(&enough, true, __ATOMIC_RELAXED);
	pthread_join(other, NULL);
	ok(!bad && json_array_size(fs->problems) == before,
	   "links that climb are found while others rename files: %d not", bad);
}

static void test_live(void)
{
	json_t *problems = json_array();
	char path[PATH_MAX], other[PATH_MAX];
	struct rootfs fs;
	struct err e = { 0 };
	size_t len;
	char *data;
	int i;

	ok(rootfs_open(&fs, "/", problems, &e) == 0 && rootfs_is_live(&fs), "the live node");
	data = rootfs_read(&fs, "/proc/self/status", 1 << 20, &len);
	ok(data && len > 0, "files of /proc, which have no size, are read");
	free(data);
	for (i = 0; i < 1000; i++)
		rootfs_problem(&fs, "/x", "number %d", i);
	ok(json_array_size(problems) == 256, "problems are bounded");
	memset(path, 'a', sizeof(path));
	path[PATH_MAX - 1] = 0;
	ok(!rootfs_join(other, path, "b") && !*other, "a path that is too long is none");
	ok(rootfs_join(other, "/", "b") && !strcmp(other, "/b"), "the root has one slash");
	rootfs_close(&fs);
	ok(rootfs_open(&fs, "/nowhere/at/all", problems, &e) < 0, "no root: %s", e.text);
	json_decref(problems);
}

int main(void)
{
	json_t *problems = json_array();
	struct rootfs fs;
	struct err e = { 0 };

	make();
	ok(rootfs_open(&fs, dir, problems, &e) == 0 && !rootfs_is_live(&fs), "a root: %s",
	   e.text);
	test_tree(&fs);
	test_busy(&fs);
	rootfs_close(&fs);
	json_decref(problems);
	unmake();
	test_live();
	return tap_done();
}
