/* test_folder.c - folders are made, walked without following links, and removed whole. */
#include "base/folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static int seen_files, seen_links, seen_folders;

static int see(void *arg, const char *name, const struct stat *st, struct err *e)
{
	(void)e;
	if (!strcmp(name, (const char *)arg))
		return 7;
	seen_files += S_ISREG(st->st_mode);
	seen_links += S_ISLNK(st->st_mode);
	seen_folders += S_ISDIR(st->st_mode);
	return 0;
}

static void touch(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f || fclose(f))
		abort();
}

/* Leaves b out, or ends with the code that @arg points to. */
static int leave_out(void *arg, const char *name, const struct stat *st, struct err *e)
{
	seen_folders += S_ISDIR(st->st_mode);
	(void)e;
	return !strcmp(name, "b") ? *(int *)arg : 0;
}

static void test_prune(void)
{
	struct err e = { 0 };
	int prune = FOLDER_PRUNE, invalid = RINGUP_EINVAL;

	seen_folders = 0;
	ok(!folder_walk("a", leave_out, &prune, &e) && seen_folders == 1,
	   "a folder is left out with what is in it: %d", seen_folders);
	ok(folder_walk("a", leave_out, &invalid, &e) == RINGUP_EINVAL,
	   "which no code of an error means");
}

/* All of "a", with a folder that nobody may write to, an old file, and a link. */
static void test_copy(void)
{
	const struct timespec old[] = { { 77, 5 }, { 77, 5 } };
	struct err e = { 0 };
	struct stat st;
	char target[32];

	chmod("a/file", 0640);
	utimensat(AT_FDCWD, "a/file", old, 0);
	chmod("a/b/c", 0555);
	chmod("a/b", 0555);
	ok(!folder_copy("a", "copy", &e), "a folder is copied: %s", e.text);
	ok(!stat("copy/file", &st) && st.st_mode == (S_IFREG | 0640) &&
		   st.st_mtim.tv_sec == 77 && st.st_mtim.tv_nsec == 5,
	   "with modes and times");
	ok(!stat("copy/b/c", &st) && st.st_mode == (S_IFDIR | 0555),
	   "and those of a folder in one that nobody may write to");
	ok(readlink("copy/link", target, sizeof(target)) == 7 && !memcmp(target, "../away", 7),
	   "a link stays one");
	ok(folder_copy("a", "copy", &e) == RINGUP_ESYSTEM, "not over another: %s", e.text);
	ok(!folder_copy("a/file", "one", &e) && !stat("one", &st) && st.st_mtim.tv_sec == 77,
	   "a file is copied: %s", e.text);
	ok(folder_copy("none", "other", &e) == RINGUP_ESYSTEM, "there must be one: %s", e.text);
	ok(!mkfifo("away/pipe", 0600) && folder_copy("away", "pipes", &e) == RINGUP_EINVAL,
	   "nothing waits for a pipe: %s", e.text);
	unlink("away/pipe");
	chmod("copy/b", 0755);
	chmod("a/b", 0755);
}

int main(void)
{
	char top[] = "/tmp/test_folder.XXXXXX";
	struct err e = { 0 };

	if (!mkdtemp(top) || chdir(top))
		return 1;
	ok(!folder_make("a//b/c/", 0755, &e) && !folder_make("a/b/c", 0755, &e),
	   "folders are made, also a second time: %s", e.text);
	touch("a/file");
	ok(folder_make("a/file/x", 0755, &e) == RINGUP_ESYSTEM, "not below a file: %s", e.text);
	ok(folder_make("a/file", 0755, &e) == RINGUP_EINVAL, "nor in its place: %s", e.text);
	ok(folder_make("", 0755, &e) == RINGUP_EINVAL, "nor without a name");
	ok(folder_is_empty("a/b/c") && !folder_is_empty("a") && !folder_is_empty("a/file") &&
		   !folder_is_empty("none"),
	   "empty folders are told from others");

	folder_make("away", 0755, NULL);
	touch("away/kept");
	ok(!symlink("../away", "a/link"), "a link out of it");
	ok(!folder_walk("a", see, (void *)"", &e) && seen_files == 1 && seen_links == 1 &&
		   seen_folders == 2,
	   "a walk sees a link, not what is behind it: %d %d %d", seen_files, seen_links,
	   seen_folders);
	ok(folder_walk("a", see, (void *)"b/c", &e) == 7, "names are relative; a code ends it");
	test_prune();
	ok(folder_walk("none", see, (void *)"", &e) == RINGUP_ESYSTEM, "there must be one: %s",
	   e.text);

	test_copy();
	ok(!folder_remove("a", &e) && access("a", F_OK) && !access("away/kept", F_OK),
	   "removed, but not what a link leads to: %s", e.text);
	ok(!folder_remove("a", &e), "none is no error: %s", e.text);
	folder_remove(top, NULL);
	return tap_done();
}
