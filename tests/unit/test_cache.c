/* test_cache.c - built once, used often, never believed without a check. */
/* needs: waits */
#include "rebuild/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "rebuild/signkey.h"
#include "ringup.h"
#include "tap.h"

static char key[CACHE_KEY_BYTES];
static struct cache_how how = { .dir = "./cache", .key = "./key", .trust = "./pub" };
static int made;

static void write_text(const char *path, const char *text)
{
	if (file_write(NULL, path, 0644, text, strlen(text), NULL))
		abort();
}

static bool holds(const char *path, const char *text)
{
	char *data;
	size_t len;
	bool same;

	if (file_read(NULL, path, 4096, &data, &len, NULL))
		return false;
	same = !strcmp(data, text);
	free(data);
	return same;
}

/* What is built: a program, a library with a link, a folder. */
static int make(void *arg, const char *into, struct err *e)
{
	char path[4200];

	made++;
	if (arg)
		return fail(e, RINGUP_ESYSTEM, "%s", (const char *)arg);
	snprintf(path, sizeof(path), "%s/bin/tool", into);
	write_text(path, "#!/bin/sh\n");
	chmod(path, 0755);
	snprintf(path, sizeof(path), "%s/lib/libx.so.1", into);
	write_text(path, "a library\n");
	snprintf(path, sizeof(path), "%s/lib/libx.so", into);
	return symlink("libx.so.1", path) ? fail_os(e, "%s", path) : 0;
}

static bool is_whole(const char *into)
{
	char path[4200], target[32] = "";
	struct stat st;
	bool good;

	snprintf(path, sizeof(path), "%s/bin/tool", into);
	good = holds(path, "#!/bin/sh\n") && !stat(path, &st) && (st.st_mode & 0777) == 0755;
	snprintf(path, sizeof(path), "%s/lib/libx.so", into);
	return good && holds(path, "a library\n") &&
	       readlink(path, target, sizeof(target) - 1) > 0 && !strcmp(target, "libx.so.1");
}

/* cache_provide() into a fresh folder; how many builds that took, -1: it is not whole. */
static int provide(struct cache_said *said)
{
	struct err e = { 0 };
	int before = made, rc;

	folder_remove("./out", NULL);
	rc = cache_provide(&how, key, "./out", make, NULL, said, &e);
	if (rc || !is_whole("./out")) {
		printf("# provide: %d %s\n", rc, e.text);
		return -1;
	}
	return made - before;
}

/* A path in the entry. */
static const char *entry(const char *rest)
{
	static char path[256];

	snprintf(path, sizeof(path), "./cache/%s%s", key, rest);
	return path;
}

/* How many entries of the cache folder have a name with @part in it. */
static int count(const char *dir, const char *part)
{
	DIR *d = opendir(dir);
	struct dirent *it;
	int n = 0;

	while (d && (it = readdir(d)))
		n += strstr(it->d_name, part) && *it->d_name != '.';
	if (d)
		closedir(d);
	return n;
}

static void test_once(void)
{
	struct cache_said said;
	struct err e = { 0 };

	ok(provide(&said) == 1 && said.from == CACHE_BUILT && said.is_published && !*said.note,
	   "built and published: %s", said.note);
	ok(provide(&said) == 0 && said.from == CACHE_HIT, "then taken: %s", said.note);
	ok(count("./cache", "") == 1, "nothing is left beside it");
	folder_remove("./out", NULL);
	ok(cache_get(&how, key, "./out", &said, &e) == 0 && is_whole("./out"), "got: %s",
	   e.text);
	ok(cache_get(&how, key, "./out", &said, &e) == RINGUP_EINVAL && is_whole("./out"),
	   "not over what is there: %s", e.text);
	cache_key(key, "something else");
	folder_remove("./out", NULL);
	ok(cache_get(&how, key, "./out", &said, &e) == 1 && *said.note && access("./out", F_OK),
	   "another key is not there: %s", said.note);
	ok(cache_provide(&how, key, "./out", make, (void *)"no compiler", &said, &e) ==
			   RINGUP_ESYSTEM &&
		   !strcmp(e.text, "no compiler") && access("./out", F_OK) &&
		   count("./cache", "") == 1,
	   "who cannot build says why and leaves nothing: %s", e.text);
	cache_key(key, "everything that matters");
}

/* The lines of @n new keys. */
static const char *many_keys(int n)
{
	static char list[16 * SIGNKEY_ID_BYTES];
	struct signkey_private k;
	struct signkey_public own;
	struct err e;
	char *at = list;

	for (int i = 0; i < n && !signkey_new(&k, &e); i++) {
		signkey_public_of(&k, &own);
		signkey_line(&own, at);
		at += strlen(at);
		*at++ = '\n';
	}
	*at = 0;
	return list;
}

static void test_without(void)
{
	struct cache_how was = how;
	struct cache_said said;
	struct err e = { 0 };

	how.dir = "";
	ok(provide(&said) == 1 && said.from == CACHE_BUILT && !said.is_published, "no cache");
	how = was;
	how.key = how.trust = "";
	folder_remove("./out", NULL);
	ok(cache_provide(&how, key, "./out", make, NULL, &said, &e) == RINGUP_EINVAL &&
		   strstr(e.text, "cache keygen"),
	   "no keys: refused: %s", e.text);
	how.trust = "./other.pub";
	ok(provide(&said) == 1 && strstr(said.note, "not trusted") && !said.is_published,
	   "signed by a stranger: built here: %s", said.note);
	how.trust = "./pub";
	ok(provide(&said) == 0, "and left where it is");
	how.trust = " ./other.pub  ./pub ";
	ok(provide(&said) == 0 && said.from == CACHE_HIT, "one of several keys will do");
	how.trust =
		"./other.pub,./other.pub\n./other.pub ./other.pub, ./other.pub\t./other.pub "
		"./other.pub\n./pub\n";
	folder_remove("./out", NULL);
	ok(provide(&said) == 0 && said.from == CACHE_HIT, "a key that comes again counts once");
	how.trust = many_keys(8);
	ok(cache_provide(&how, key, "./out", make, NULL, &said, &e) == RINGUP_EINVAL &&
		   strstr(e.text, "more than 7 different keys"),
	   "but there is a limit: %s", e.text);
	how = was;
	ok(cache_get(&how, "../../etc", "./out", &said, &e) == RINGUP_EINVAL,
	   "a key is no path: %s", e.text);
}

/* Damages byte @at of the entry, counted from its end if it is negative. */
static void flip(long at)
{
	FILE *f = fopen(entry(""), "r+");
	int c;

	if (!f || fseek(f, at, at < 0 ? SEEK_END : SEEK_SET) || (c = getc(f)) == EOF ||
	    fseek(f, -1, SEEK_CUR) || putc(c ^ 1, f) == EOF || fclose(f))
		abort();
}

/* The entry is damaged: it is built again, and that is published in its place. */
static void damaged(const char *how_so)
{
	struct cache_said said;

	ok(provide(&said) == 1 && said.is_published && strstr(said.note, "is damaged"),
	   "%s: %s", how_so, said.note);
	ok(provide(&said) == 0 && said.from == CACHE_HIT && count("./cache", "") == 1,
	   "the new one is used");
}

static void test_damage(void)
{
	struct cache_said said;
	char other[CACHE_KEY_BYTES], path[256];
	struct stat st;

	flip(-20);
	damaged("the end of the archive");
	flip(600);
	damaged("a file in it");
	flip(20);
	damaged("the key");
	flip(90);
	damaged("the sum");
	flip(220);
	damaged("the signature");
	if (stat(entry(""), &st) || truncate(entry(""), st.st_size - 512))
		abort();
	damaged("cut off");
	write_text(entry(""), "");
	damaged("empty");
	write_text(entry(""), "ringup-cache/2\n");
	damaged("no head");
	unlink(entry(""));
	ok(!symlink("/etc/passwd", entry("")), "a link in its place");
	damaged("a link");
	unlink(entry(""));
	ok(!mkfifo(entry(""), 0644), "a pipe in its place");
	damaged("a pipe");
	unlink(entry(""));
	ok(!mkdir(entry(""), 0755) && provide(&said) == 1 && !said.is_published,
	   "a folder in its place stays: %s", said.note);
	rmdir(entry(""));
	ok(provide(&said) == 1, "and is gone");

	/* A good entry under a wrong name. */
	snprintf(path, sizeof(path), "%s", entry(""));
	cache_key(other, "other");
	memcpy(key, other, sizeof(key));
	ok(!rename(path, entry("")) && provide(&said) == 1 && strstr(said.note, "another key"),
	   "the entry of another key: %s", said.note);
	cache_key(key, "everything that matters");
	ok(provide(&said) == 1, "again");
}

/* What a node left that was killed while it published. */
static void test_stale(void)
{
	struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
	struct cache_said said;

	write_text(entry(".new.0123456789abcdef"), "half");
	write_text(entry(".new.fedcba9876543210"), "half");
	if (utimensat(AT_FDCWD, entry(".new.0123456789abcdef"), old, 0))
		abort();
	unlink(entry(""));
	ok(provide(&said) == 1 && said.is_published &&
		   access(entry(".new.0123456789abcdef"), F_OK) &&
		   !access(entry(".new.fedcba9876543210"), F_OK),
	   "an old part is removed, one of today stays");
	unlink(entry(".new.fedcba9876543210"));
}

static pid_t start(int i)
{
	struct cache_said said;
	char into[32];
	pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(into, sizeof(into), "./out.%d", i);
	folder_remove(into, NULL);
	_exit(cache_provide(&how, key, into, make, NULL, &said, NULL) || !is_whole(into));
}

/* @n at once, of which each may build: all have it, and one whole entry is left. */
static void race(int n, int kills)
{
	struct cache_said said;
	int i, status, bad = 0;
	pid_t pid[64];

	folder_remove("./cache", NULL);
	for (i = 0; i < n; i++)
		pid[i] = start(i);
	for (i = 0; i < kills; i++) {
		clock_sleep_ms(1 + i * 3);
		kill(pid[i], SIGKILL);
	}
	for (i = 0; i < n; i++) {
		waitpid(pid[i], &status, 0);
		bad += WIFEXITED(status) && WEXITSTATUS(status);
	}
	ok(!bad && count("./cache", ".new") <= kills, "%d at once, %d killed: %d without", n,
	   kills, bad);
	ok(provide(&said) == 0 && said.from == CACHE_HIT, "what is there is whole");
}

/* Another node publishes while this one waits. */
static void test_waits(void)
{
	struct cache_how was = how;
	struct cache_said said;
	int status;
	pid_t pid;

	folder_remove("./cache", NULL);
	how.wait_ms = 120000;
	pid = fork();
	if (!pid) {
		how.key = "";
		_exit(provide(&said) || said.from != CACHE_HIT);
	}
	clock_sleep_ms(100);
	how.wait_ms = 0;
	if (mkdir("./built", 0755) || make(NULL, "./built", NULL) ||
	    cache_put(&how, key, "./built", &said, NULL))
		abort();
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && !WEXITSTATUS(status), "waited, and took it");
	folder_remove("./cache", NULL);
	how.key = "";
	how.wait_ms = 150;
	ok(provide(&said) == 1 && !said.is_published && said.waited_ms >= 100,
	   "waited %d ms in vain, then built", (int)said.waited_ms);
	ok(count("./cache", "") == 0, "and writes nothing");
	how = was;
}

/* As somebody who may not write there; root may write anywhere. */
static void test_read_only(void)
{
	struct cache_said said;
	struct err e = { 0 };
	pid_t pid;
	int status;

	folder_remove("./cache", NULL);
	if (provide(&said) != 1)
		abort();
	ok(!chmod("./cache", 0555), "no right to write");
	chmod("./key", 0644);
	chmod(".", 0777);
	folder_remove("./out", NULL);
	pid = fork();
	if (!pid) {
		if (!getuid() && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
			_exit(9);
		if (provide(&said) || said.from != CACHE_HIT)
			_exit(1);
		cache_key(key, "not there");
		if (provide(&said) != 1 || said.is_published || !*said.note)
			_exit(2);
		if (cache_put(&how, key, "./out", &said, &e) != RINGUP_ESYSTEM || !*e.text)
			_exit(3);
		folder_remove("./out", NULL);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && !WEXITSTATUS(status), "a hit, and a build of its own: %d",
	   WEXITSTATUS(status));

	/* Damaged, and nobody may replace it. */
	flip(600);
	pid = fork();
	if (!pid) {
		if (!getuid() && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
			_exit(9);
		if (provide(&said) != 1 || said.is_published)
			_exit(1);
		folder_remove("./out", NULL);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && !WEXITSTATUS(status), "damaged and read-only: built: %d",
	   WEXITSTATUS(status));
	chmod("./cache", 0755);
}

/* No folder at all. */
static void test_no_folder(void)
{
	struct cache_said said;
	int status = 0;
	pid_t pid;

	folder_remove("./cache", NULL);
	write_text("./cache", "a file\n");
	ok(provide(&said) == 1 && !said.is_published && *said.note, "a file: %s", said.note);
	unlink("./cache");
	mkdir("./cache", 0);
	folder_remove("./out", NULL);
	pid = fork();
	if (!pid) {
		if (!getuid() && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
			_exit(9);
		_exit(provide(&said) != 1 || said.is_published || !*said.note ||
		      folder_remove("./out", NULL));
	}
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && !WEXITSTATUS(status), "a folder that may not be entered: %d",
	   WEXITSTATUS(status));
	chmod("./cache", 0755);
}

/* A cache that has no room; needs root for the mount. */
static void test_full(void)
{
	struct cache_said said;
	int fd, n = 0;

	folder_remove("./cache", NULL);
	mkdir("./cache", 0755);
	/* In a space of our own, so that no mount outlives this, however it ends. */
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "./cache", "tmpfs", 0, "size=64k,nr_inodes=24")) {
		ok(1, "full # SKIP needs root to mount a small file system");
		return;
	}
	fd = open("./cache/other", O_WRONLY | O_CREAT, 0644);
	while (fd >= 0 && write(fd, "0123456789abcdef", 16) == 16)
		n++;
	ok(provide(&said) == 1 && said.from == CACHE_BUILT && !said.is_published &&
		   strstr(said.note, "No space"),
	   "a full cache costs nothing but the entry: %s", said.note);
	ok(count("./cache", ".new") == 0, "and no halves are left in it");
	unlink("./cache/other");
	close(fd);
	ok(provide(&said) == 1 && said.is_published, "with room again: %s", said.note);
	ok(!umount("./cache"), "unmounted");
}

int main(void)
{
	char top[] = "/tmp/test_cache.XXXXXX";
	struct signkey_private k;

	if (!mkdtemp(top) || chdir(top) || signkey_new(&k, NULL) ||
	    signkey_write(&k, "./key", "./pub", NULL) || signkey_new(&k, NULL) ||
	    signkey_write(&k, "./other", "./other.pub", NULL))
		return 1;
	cache_key(key, "everything that matters");
	test_once();
	test_without();
	test_damage();
	test_stale();
	race(8, 0);
	race(48, 0);
	for (int i = 1; i < 8; i++)
		race(8 + i, i);
	test_waits();
	test_read_only();
	test_no_folder();
	test_full();
	folder_remove(top, NULL);
	return tap_done();
}
