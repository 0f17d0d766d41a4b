/* test_file.c - files are whole or not there, whatever stands in the way. */
#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static char root[PATH_MAX];

static const char *in_root(const char *path)
{
	static char full[2 * PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", root, path);
	return full;
}

/* How many entries a folder has, "." and ".." aside. */
static int entries(const char *path)
{
	DIR *d = opendir(in_root(path));
	int n = -2;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void test_path(void)
{
	char out[PATH_MAX], longer[PATH_MAX + 8];

	ok(!file_path(out, "", "/etc/x", NULL) && !strcmp(out, "/etc/x"), "no root");
	ok(!file_path(out, NULL, "/etc/x", NULL) && !strcmp(out, "/etc/x"), "NULL root");
	ok(!file_path(out, "/", "/etc/x", NULL) && !strcmp(out, "/etc/x"), "/ as root");
	ok(!file_path(out, "/r//", "/etc/x", NULL) && !strcmp(out, "/r/etc/x"),
	   "slashes merge");
	ok(!file_path(out, "/r", "etc/x", NULL) && !strcmp(out, "/r/etc/x"), "or are added");
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	ok(file_path(out, "/", longer, NULL) == RINGUP_EINVAL, "a path may be too long");
}

static void test_write(void)
{
	struct err e = { 0 };
	struct stat st;
	char *data = NULL;
	size_t len = 0;

	ok(!file_write(root, "/a/b/c", 0640, "one", 3, &e), "folders are made: %s", e.text);
	ok(!stat(in_root("/a/b/c"), &st) && (st.st_mode & 07777) == 0640,
	   "with the mode asked");
	ok(!file_read(root, "/a/b/c", 100, &data, &len, &e) && len == 3 && !strcmp(data, "one"),
	   "and read back");
	free(data);
	ok(!file_write(root, "/a/b/c", 0600, "", 0, &e), "an empty file replaces it");
	ok(!file_read(root, "/a/b/c", 0, &data, &len, &e) && len == 0 && !*data, "wholly");
	free(data);
	ok(entries("/a/b") == 1, "no temporary file is left");
	if (symlink("/etc/passwd", in_root("/a/link")))
		return;
	ok(!file_write(root, "/a/link", 0644, "mine", 4, &e) &&
		   !lstat(in_root("/a/link"), &st) && S_ISREG(st.st_mode),
	   "a symbolic link is replaced, not followed");
	ok(file_write(root, "/a/link/x", 0644, "x", 1, &e) == RINGUP_ESYSTEM &&
		   strstr(e.text, "Not a directory"),
	   "a file in the way is told: %s", e.text);
	ok(file_write(root, "/a/b", 0644, "x", 1, &e) == RINGUP_ESYSTEM, "%s", e.text);
	ok(entries("/a") == 2, "and nothing is left of the attempt");
}

/* What somebody named as output stays what it is. */
static void test_save(void)
{
	struct err e = { 0 };
	struct stat st;
	char *data = NULL, got[8] = "";
	size_t len = 0;
	int fd;

	ok(!file_save(in_root("/s/new"), 0600, "one", 3, &e) && !stat(in_root("/s/new"), &st) &&
		   (st.st_mode & 07777) == 0600,
	   "a new file, its folder and its mode: %s", e.text);
	if (symlink("new", in_root("/s/link")) || symlink("made", in_root("/s/dangling")) ||
	    mkfifo(in_root("/s/fifo"), 0600))
		return;
	ok(!file_save(in_root("/s/link"), 0600, "two", 3, &e) &&
		   !lstat(in_root("/s/link"), &st) && S_ISLNK(st.st_mode) &&
		   !file_read(root, "/s/new", 100, &data, &len, &e) && !strcmp(data, "two"),
	   "a link stays, the file that it names is replaced: %s", e.text);
	free(data);
	ok(!file_save(in_root("/s/dangling"), 0600, "three", 5, &e) &&
		   !lstat(in_root("/s/dangling"), &st) && S_ISLNK(st.st_mode) &&
		   !file_read(root, "/s/made", 100, &data, &len, &e) && !strcmp(data, "three"),
	   "what a link to nothing names is made: %s", e.text);
	free(data);
	fd = open(in_root("/s/fifo"), O_RDWR | O_NONBLOCK | O_CLOEXEC);
	ok(!file_save(in_root("/s/fifo"), 0600, "four", 4, &e) &&
		   read(fd, got, sizeof(got)) == 4 && !memcmp(got, "four", 4) &&
		   !lstat(in_root("/s/fifo"), &st) && S_ISFIFO(st.st_mode),
	   "a FIFO stays one and is written to: %s", e.text);
	close(fd);
	ok(file_save(in_root("/s"), 0600, "x", 1, &e) == RINGUP_ESYSTEM, "%s", e.text);
	ok(entries("/s") == 5, "nothing else is left");
}

static void test_read(void)
{
	struct err e = { 0 };
	char *data = NULL;
	size_t len = 0;
	char big[10000];

	memset(big, 'z', sizeof(big));
	ok(!file_write(root, "/big", 0644, big, sizeof(big), &e), "10000 bytes");
	ok(file_read(root, "/big", 9999, &data, &len, &e) == RINGUP_EINVAL, "%s", e.text);
	ok(!file_read(root, "/big", 10000, &data, &len, &e) && len == 10000, "exactly fit");
	free(data);
	ok(file_read(root, "/a", 100, &data, &len, &e) == RINGUP_EINVAL, "%s", e.text);
	ok(file_read(root, "/none", 100, &data, &len, &e) == RINGUP_ESYSTEM, "%s", e.text);
	if (mkfifo(in_root("/fifo"), 0600) == 0)
		ok(file_read(root, "/fifo", 100, &data, &len, &e) == RINGUP_EINVAL,
		   "a FIFO does not hang: %s", e.text);
	ok(file_exists(root, "/fifo") && !file_exists(root, "/none"), "existence");
}

static void test_remove(void)
{
	struct err e = { 0 };

	ok(!file_remove(root, "/none", &e), "what is not there is removed already");
	ok(!file_remove(root, "/a/b/c", &e) && !file_exists(root, "/a/b/c"), "a file goes");
	ok(file_remove(root, "/a/b", &e) == RINGUP_ESYSTEM, "a folder does not: %s", e.text);
}

static void test_lift(void)
{
	int in = dup(0), fd = file_lift(in);

	ok(fd == in && file_lift(-1) == -1, "what is high stays there, nothing stays nothing");
	close(0);
	fd = file_lift(open("/dev/null", O_RDONLY));
	ok(fd > 2 && fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(0, F_GETFD) < 0,
	   "what is low goes up, and is not inherited");
	close(fd);
	dup2(in, 0);
	close(in);
}

static void test_identity(void)
{
	struct file_identity first, other, again;
	char moved[2 * PATH_MAX];
	struct err e = { 0 };
	int fd;

	strcpy(moved, in_root("/two"));
	file_write(root, "/one", 0600, "1", 1, &e);
	fd = open(in_root("/one"), O_RDONLY);
	ok(file_identity(AT_FDCWD, in_root("/one"), &first) && file_identity(fd, "", &again) &&
		   file_is_same(&first, &again),
	   "a file is the same by name and by descriptor");
	close(fd);
	ok(!rename(in_root("/one"), moved) && file_identity(AT_FDCWD, moved, &again) &&
		   file_is_same(&first, &again),
	   "and under another name");
	file_write(root, "/one", 0600, "1", 1, &e);
	ok(file_identity(AT_FDCWD, in_root("/one"), &other) && !file_is_same(&first, &other),
	   "what has its name is another");
	other = first;
	other.born_ns++;
	ok(file_is_same(&first, &other) == !first.born_ns,
	   "so is what has its number, where it is known when things are made");
	first.born_ns = 0;
	ok(file_is_same(&first, &other), "else the number has to do");
	ok(!file_identity(AT_FDCWD, in_root("/none"), &first) && !first.inode,
	   "what is not there is nothing");
	unlink(in_root("/one"));
	unlink(moved);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(root, sizeof(root), "%s/ringup-test-file.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(root))
		return 99;
	test_path();
	test_write();
	test_save();
	test_read();
	test_remove();
	test_lift();
	test_identity();
	unlink(in_root("/a/link"));
	unlink(in_root("/s/new"));
	unlink(in_root("/s/link"));
	unlink(in_root("/s/made"));
	unlink(in_root("/s/dangling"));
	unlink(in_root("/s/fifo"));
	rmdir(in_root("/s"));
	unlink(in_root("/big"));
	unlink(in_root("/fifo"));
	rmdir(in_root("/a/b"));
	rmdir(in_root("/a"));
	ok(!rmdir(root), "the test leaves nothing behind");
	return tap_done();
}
