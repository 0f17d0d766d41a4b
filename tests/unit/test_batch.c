/* test_batch.c - several files at once, or none; nothing is left behind. */
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/batch.h"
#include "base/err.h"
#include "base/file.h"
#include "ringup.h"
#include "tap.h"

static char root[] = "/tmp/test_batch.XXXXXX";

static int says(const char *path, const char *text)
{
	char *data;
	size_t len;
	int same;

	if (file_read(root, path, 4096, &data, &len, NULL))
		return 0;
	same = !strcmp(data, text);
	free(data);
	return same;
}

/* Names in a folder, without . and .. */
static int entries(const char *path)
{
	char full[PATH_MAX];
	struct dirent *d;
	int n = 0;
	DIR *dir;

	if (file_path(full, root, path, NULL) || !(dir = opendir(full)))
		return -1;
	while ((d = readdir(dir)))
		n += strcmp(d->d_name, ".") && strcmp(d->d_name, "..");
	closedir(dir);
	return n;
}

static void put(const char *path, const char *text)
{
	struct err e = { 0 };

	ok(file_write(root, path, 0640, text, strlen(text), &e) == 0, "put %s%s", path, e.text);
}

static int stage(struct batch *b, const char *path, const char *text, struct err *e)
{
	return batch_write(b, root, path, 0644, text, strlen(text), e);
}

static void test_good(void)
{
	struct batch b = { 0 };
	struct err e = { 0 };
	char full[PATH_MAX];
	struct stat st;

	put("/a/old", "1");
	put("/a/gone", "2");
	ok(stage(&b, "/a/old", "one", &e) == 0, "stage a change");
	ok(stage(&b, "/a/new", "three", &e) == 0, "stage a file");
	ok(stage(&b, "/b/c/new", "four", &e) == 0, "stage a file in a new folder");
	ok(batch_remove(&b, root, "/a/gone", 0, &e) == 0, "stage a removal");
	ok(says("/a/old", "1") && says("/a/gone", "2") && !file_exists(root, "/a/new"),
	   "nothing is visible yet");
	ok(batch_commit(&b, &e) == 0, "commit: %s", e.text);
	batch_end(&b);
	ok(says("/a/old", "one") && says("/a/new", "three") && says("/b/c/new", "four") &&
		   !file_exists(root, "/a/gone"),
	   "all of it is there");
	ok(entries("/a") == 2 && entries("/b/c") == 1, "and nothing else");
	ok(!file_path(full, root, "/a/old", &e) && !stat(full, &st) &&
		   (st.st_mode & 07777) == 0640,
	   "the mode is kept");
	ok(batch_remove(&b, root, "/b/c/new", 2, &e) == 0 && batch_commit(&b, &e) == 0,
	   "remove with two folders");
	batch_end(&b);
	ok(!file_exists(root, "/b"), "they are gone");
	batch_end(&b);
}

static void test_abandoned(void)
{
	struct batch b = { 0 };
	struct err e = { 0 };

	ok(stage(&b, "/a/old", "other", &e) == 0 && stage(&b, "/d/e", "x", &e) == 0, "stage");
	batch_end(&b);
	ok(says("/a/old", "one") && entries("/a") == 2 && !file_exists(root, "/d"),
	   "what is not committed never was");
}

/* The third name turns out to be a folder when it is its turn. */
static void test_taken_back(void)
{
	struct batch b = { 0 };
	struct err e = { 0 };
	char full[PATH_MAX];

	ok(stage(&b, "/a/old", "other", &e) == 0 && stage(&b, "/f/g", "x", &e) == 0 &&
		   batch_remove(&b, root, "/a/new", 0, &e) == 0 &&
		   stage(&b, "/a/late", "x", &e) == 0,
	   "stage");
	ok(!file_path(full, root, "/a/late", &e) && !mkdir(full, 0755), "somebody is faster");
	ok(batch_commit(&b, &e) == RINGUP_ESYSTEM && strstr(e.text, "/a/late"), "fails: %s",
	   e.text);
	batch_end(&b);
	ok(says("/a/old", "one") && says("/a/new", "three") && !file_exists(root, "/f"),
	   "and everything is as before");
	ok(!rmdir(full) && entries("/a") == 2, "and nothing else is there");
}

static void test_links(void)
{
	struct batch b = { 0 };
	struct err e = { 0 };
	char full[PATH_MAX];

	ok(!file_path(full, root, "/a/link", &e) && !symlink("old", full), "a link inside");
	ok(stage(&b, "/a/link", "linked", &e) == 0 && batch_commit(&b, &e) == 0, "write it");
	batch_end(&b);
	ok(says("/a/old", "linked"), "what it points to is written");
	ok(!unlink(full) && !symlink("/etc/passwd", full), "a link out of the root");
	ok(stage(&b, "/a/link", "linked", &e) == RINGUP_EINVAL && strstr(e.text, "leads out"),
	   "is refused: %s", e.text);
	batch_end(&b);
	ok(!unlink(full) && !symlink("nothing", full), "a link to nothing");
	ok(stage(&b, "/a/link", "linked", &e) == RINGUP_ESYSTEM, "is refused: %s", e.text);
	batch_end(&b);
	ok(!unlink(full), "clean up");
}

static void test_refusals(void)
{
	struct batch b = { 0 };
	struct err e = { 0 };
	int i;

	ok(stage(&b, "/a", "x", &e) == RINGUP_EINVAL, "a folder: %s", e.text);
	batch_end(&b);
	ok(stage(&b, "/a/old/x", "x", &e) == RINGUP_ESYSTEM, "below a file: %s", e.text);
	batch_end(&b);
	for (i = 0; i < BATCH_FILES; i++)
		if (stage(&b, "/a/old", "x", &e))
			break;
	ok(i == BATCH_FILES && stage(&b, "/a/old", "x", &e) == RINGUP_EINVAL, "too many: %s",
	   e.text);
	batch_end(&b);
	ok(says("/a/old", "linked") && entries("/a") == 2, "nothing changed");
}

/* A disk that is full, in place of which a limit stands: no part of a file is committed. */
static void test_full(void)
{
	static char much[8192];
	struct rlimit had, little;
	struct batch b = { 0 };
	struct err e = { 0 };
	int rc;

	memset(much, 'x', sizeof(much) - 1);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &had);
	little = (struct rlimit){ 4096, had.rlim_max };
	setrlimit(RLIMIT_FSIZE, &little);
	rc = stage(&b, "/a/old", much, &e);
	ok(rc == RINGUP_ESYSTEM && strstr(e.text, "File too large"), "no room: %s", e.text);
	batch_end(&b);
	setrlimit(RLIMIT_FSIZE, &had);
	ok(says("/a/old", "linked") && entries("/a") == 2, "the file is as it was");
}

int main(void)
{
	char rm[64];

	if (!mkdtemp(root)) {
		ok(0, "mkdtemp");
		return tap_done();
	}
	test_good();
	test_abandoned();
	test_taken_back();
	test_links();
	test_refusals();
	test_full();
	snprintf(rm, sizeof(rm), "rm -rf %s", root);
	ok(system(rm) == 0, "clean up");
	return tap_done();
}
