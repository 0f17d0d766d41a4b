/* test_jobdir.c - offers are private, whole, and those of the dead do not count. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/jobdir.h"

static char base[] = "/tmp/test_jobdir.XXXXXX";
static struct secret key = { "0123456789abcdef0123456789abcde" };

static int count(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static int find_in(const char *dir, const char *job, unsigned round, int ms, char *where,
		   struct err *e)
{
	struct secret s = { 0 };
	int rc = jobdir_find(dir, job, round, clock_deadline(ms), where, &s, e);

	return rc ? rc : memcmp(&s, &key, sizeof(s)) != 0;
}

/* A child that makes an offer and dies without withdrawing it. */
static void publish_and_die(const char *dir)
{
	pid_t child = fork();
	struct jobdir j;
	struct err e;

	if (child == 0)
		_exit(jobdir_publish(&j, dir, "job", 1, "127.0.0.1:1", &key, &e) ? 1 : 0);
	waitpid(child, NULL, 0);
}

static void own_directory(void)
{
	char where[JOBDIR_WHERE_BYTES], path[256], file[512];
	struct jobdir j = { 0 }, other = { 0 };
	struct err e = { 0 };
	struct stat st;
	int rc;

	rc = jobdir_publish(&j, "", "job", 1, "127.0.0.1:41217", &key, &e);
	ok(rc == 0, "rank 0 makes an offer %s", e.text);
	snprintf(path, sizeof(path), "%s/ringup", base);
	ok(stat(path, &st) == 0 && (st.st_mode & 07777) == 0700 && !strcmp(j.dir, path),
	   "in a directory of mode 0700");
	snprintf(file, sizeof(file), "%s/%s", path, j.name);
	ok(stat(file, &st) == 0 && (st.st_mode & 07777) == 0600, "as a file of mode 0600");
	ok(!strstr(j.name, "job"), "whose name does not tell the key: %s", j.name);
	ok(find_in("", "job", 1, 0, where, &e) == 0 && !strcmp(where, "127.0.0.1:41217"),
	   "another rank finds it");
	ok(find_in("", "job", 2, 0, where, &e) == RINGUP_ETIMEDOUT,
	   "not for the next round: %s", e.text);
	ok(find_in("", "jo", 1, 0, where, &e) == RINGUP_ETIMEDOUT, "nor for another job");
	ok(jobdir_publish(&other, "", "other", 1, "[::1]:2", &key, &e) == 0,
	   "a second job shares the directory");
	jobdir_remove(&j);
	jobdir_remove(&j);
	ok(count(path) == 1, "withdrawing removes the file, once");
	jobdir_remove(&other);
	ok(count(path) == -1, "and the last one the directory");
	/* An offer that has this one's name, and its number, too. */
	ok(jobdir_publish(&j, "", "job", 1, "127.0.0.1:4", &key, &e) == 0, "again %s", e.text);
	j.id.born_ns -= j.id.born_ns != 0;
	jobdir_remove(&j);
	ok(count(path) == (j.id.born_ns ? 1 : -1), "somebody else's offer stays");
	snprintf(file, sizeof(file), "%s/%s", path, j.name);
	unlink(file);
	rmdir(path);
}

static void waiting(void)
{
	char where[JOBDIR_WHERE_BYTES];
	struct jobdir j = { 0 };
	struct err e = { 0 };
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(find_in("", "job", 1, 20000, where, &e) ? 1 : 0);
	clock_sleep_ms(30);
	ok(jobdir_publish(&j, "", "job", 1, "127.0.0.1:9", &key, &e) == 0, "published late");
	waitpid(child, &status, 0);
	ok(status == 0, "a rank that came first waits for the offer");
	jobdir_remove(&j);
}

static void the_dead(void)
{
	char where[JOBDIR_WHERE_BYTES], path[256];
	struct jobdir j = { 0 };
	struct err e = { 0 };
	pid_t child;
	int up[2], status;
	char c;

	snprintf(path, sizeof(path), "%s/ringup", base);
	publish_and_die("");
	ok(count(path) == 1, "a rank 0 that was killed leaves its offer");
	ok(find_in("", "job", 1, 0, where, &e) == RINGUP_ETIMEDOUT, "which nobody believes");
	ok(jobdir_publish(&j, "", "another", 1, "127.0.0.1:9", &key, &e) == 0 &&
		   count(path) == 1,
	   "and the next job sweeps away");
	jobdir_remove(&j);

	status = pipe(up);
	child = fork();
	if (child == 0) {
		alarm(60);
		close(up[0]);
		if (jobdir_publish(&j, "", "job", 1, "127.0.0.1:1", &key, &e) ||
		    write(up[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	close(up[1]);
	ok(read(up[0], &c, 1) == 1, "while its maker lives");
	ok(jobdir_publish(&j, "", "job", 1, "127.0.0.1:2", &key, &e) == RINGUP_EBUSY,
	   "an offer is not taken over: %s", e.text);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(up[0]);
	ok(jobdir_publish(&j, "", "job", 1, "127.0.0.1:2", &key, &e) == 0, "afterwards it is");
	ok(find_in("", "job", 1, 0, where, &e) == 0 && !strcmp(where, "127.0.0.1:2"),
	   "and the new one counts");
	jobdir_remove(&j);
}

static void put(const char *dir, const char *name, const char *text, mode_t mode)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
	ok(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "a file of %zu bytes",
	   strlen(text));
	close(fd);
}

static void hostile(void)
{
	static const char *const junk[] = {
		"",
		"ringup offer 2\n",
		"ringup offer 2\nwhere x\nprocess 1\nsecret 00\n",
		"ringup offer 1\nwhere 127.0.0.1:1\n",
		"ringup offer 2\nwhere 127.0.0.1:1\nprocess 1111111111111111111111111\nsecret ",
	};
	char where[JOBDIR_WHERE_BYTES], dir[256], file[80], link[600];
	struct jobdir j = { 0 };
	struct err e = { 0 };
	size_t i;

	snprintf(dir, sizeof(dir), "%s/shared", base);
	ok(jobdir_publish(&j, dir, "job", 1, "10.0.0.1:2", &key, &e) == 0,
	   "a directory that the user names is made %s", e.text);
	snprintf(file, sizeof(file), "%s", j.name);
	jobdir_remove(&j);
	ok(count(dir) == 0, "and stays when it is empty");
	for (i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
		put(dir, file, junk[i], 0600);
		ok(find_in(dir, "job", 1, 0, where, &e) == RINGUP_ETIMEDOUT, "is no offer");
	}
	ok(jobdir_publish(&j, dir, "job", 1, "10.0.0.1:2", &key, &e) == 0 &&
		   find_in(dir, "job", 1, 0, where, &e) == 0,
	   "and is replaced by one");
	snprintf(link, sizeof(link), "%s/%s", dir, j.name);
	chmod(link, 0644);
	ok(find_in(dir, "job", 1, 0, where, &e) == RINGUP_ETIMEDOUT,
	   "an offer that everybody can read is none");
	chmod(link, 0600);
	jobdir_remove(&j);
	put(base, "elsewhere", "x", 0600);
	snprintf(where, sizeof(where), "%s/elsewhere", base);
	ok(symlink(where, link) == 0 &&
		   find_in(dir, "job", 1, 0, where, &e) == RINGUP_ETIMEDOUT,
	   "nor is a symbolic link");
	unlink(link);
	chmod(dir, 0777);
	ok(jobdir_publish(&j, dir, "job", 1, "10.0.0.1:2", &key, &e) == RINGUP_EINVAL,
	   "a directory that others may write to is refused: %s", e.text);
	ok(find_in(dir, "job", 1, 5000, where, &e) == RINGUP_EINVAL, "at once, to the others");
	ok(strstr(e.text, "mode 777") && strstr(e.text, "set RINGUP_MEET"), "with the cure");
	chmod(dir, 0755);
	snprintf(link, sizeof(link), "%s/link", base);
	ok(symlink(dir, link) == 0 &&
		   jobdir_publish(&j, link, "job", 1, "10.0.0.1:2", &key, &e) == RINGUP_ESYSTEM,
	   "a link to a directory, too: %s", e.text);
	unlink(link);
}

/* An unsafe $XDG_RUNTIME_DIR/ringup is passed over by everybody alike. */
static void second_choice(void)
{
	char where[JOBDIR_WHERE_BYTES], path[256];
	struct jobdir j = { 0 };
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/ringup", base);
	mkdir(path, 0700);
	chmod(path, 0777);
	ok(jobdir_publish(&j, "", "second-choice", 1, "127.0.0.1:3", &key, &e) == 0 &&
		   strcmp(j.dir, path),
	   "an unsafe runtime directory is passed over: %s", j.dir);
	ok(find_in("", "second-choice", 1, 0, where, &e) == 0, "by the others as well");
	jobdir_remove(&j);
	rmdir(path);
}

/* No file may have a byte: an error, and no end by SIGXFSZ. */
static void no_room(void)
{
	const struct rlimit none = { 0, 0 };
	struct jobdir j = { 0 };
	struct err e = { 0 };
	char path[256];
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		signal(SIGXFSZ, SIG_DFL);
		_exit(setrlimit(RLIMIT_FSIZE, &none) ||
		      jobdir_publish(&j, "", "job", 1, "127.0.0.1:3", &key, &e) !=
			      RINGUP_ESYSTEM ||
		      !strstr(e.text, "raise that limit"));
	}
	waitpid(child, &status, 0);
	ok(status == 0, "under a limit for files it cannot be written, as is said");
	snprintf(path, sizeof(path), "%s/ringup", base);
	ok(count(path) == -1, "and no directory stays behind");
}

int main(void)
{
	char path[256];

	if (!mkdtemp(base))
		return 1;
	setenv("XDG_RUNTIME_DIR", base, 1);
	own_directory();
	waiting();
	the_dead();
	hostile();
	second_choice();
	no_room();
	snprintf(path, sizeof(path), "%s/elsewhere", base);
	unlink(path);
	snprintf(path, sizeof(path), "%s/shared", base);
	rmdir(path);
	ok(count(base) == 0, "nothing is left behind");
	rmdir(base);
	return tap_done();
}
