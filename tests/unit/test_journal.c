/* test_journal.c - engines change places whole, whenever the one who does it is killed. */
#include "rebuild/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"
#include "tap.h"

static char base[] = "/tmp/ringup-journal.XXXXXX";
static char site[128], bin[128];
static enum { PLAIN, IMAGE, IMAGE_SWITCHED } where; /* what set_up() makes the site of */

static void sh(const char *format, const char *a)
{
	char command[512];

	snprintf(command, sizeof(command), format, a);
	if (system(command))
		ok(0, "set up: %s", command);
}

static int do_switch(struct err *e);

/* Makes what is in the folder the lower layer of an overlay at the same place. */
static bool mount_image(void)
{
	char options[512], top[64];

	sh("cd %s && mv top image && mkdir top upper work", base);
	snprintf(options, sizeof(options),
		 "lowerdir=%s/image,upperdir=%s/upper,workdir=%s/work", base, base, base);
	snprintf(top, sizeof(top), "%s/top", base);
	return !mount("overlay", top, "overlay", 0, options);
}

static void unmount_image(void)
{
	char top[64];

	snprintf(top, sizeof(top), "%s/top", base);
	umount2(top, MNT_DETACH);
}

/* A site with the old engine: two folders, a program, and one that the new does not have. */
static void set_up(void)
{
	struct err e = { 0 };

	unmount_image();
	sh("rm -rf %s/*", base);
	snprintf(site, sizeof(site), "%s/top/lib", base);
	snprintf(bin, sizeof(bin), "%s/top/bin", base);
	sh("mkdir %s/top", base);
	sh("cd %s/top && mkdir -p lib/hvd lib/hvd-1.dist-info lib/gone bin && echo old "
	   ">lib/hvd/a "
	   "&& "
	   "echo old >lib/hvd-1.dist-info/b && echo old >bin/run && echo old >lib/gone/c",
	   base);
	if (where == IMAGE_SWITCHED && do_switch(&e))
		ok(0, "set up: %s", e.text);
	if (where != PLAIN && !mount_image())
		ok(0, "set up: no overlay");
}

/* All of the old, or all of the new, or neither (0). */
static const char *state(void)
{
	char command[512], line[32] = "";
	FILE *f;

	snprintf(command, sizeof(command),
		 "cd %s/.. && cat lib/hvd/a bin/run lib/*.dist-info/b lib/gone/c 2>/dev/null | "
		 "tr "
		 "-d "
		 "'\\n'; ls lib | tr -d '\\n'",
		 site);
	f = popen(command, "r");
	if (!f || !fgets(line, sizeof(line), f))
		*line = 0;
	if (f)
		pclose(f);
	if (!strncmp(line, "oldoldoldoldgone", 16))
		return "old";
	if (!strncmp(line, "newnewnewhvd", 12))
		return "new";
	return "torn";
}

static json_t *moves(const char *stage)
{
	char a[4][256], to[4][256];
	static const char *const from[] = { "hvd", "hvd-2.dist-info", "run" };
	json_t *list = json_array();
	int i;

	for (i = 0; i < 3; i++) {
		snprintf(a[i], sizeof(a[i]), "%.200s/%s", stage, from[i]);
		snprintf(to[i], sizeof(to[i]), "%s/%s", i == 2 ? bin : site, from[i]);
		json_array_append_new(list, json_pack("{ss ss}", "to", to[i], "new", a[i]));
	}
	snprintf(to[0], sizeof(to[0]), "%s/gone", site);
	json_array_append_new(list, json_pack("{ss}", "to", to[0]));
	snprintf(to[0], sizeof(to[0]), "%s/hvd-1.dist-info", site);
	json_array_append_new(list, json_pack("{ss}", "to", to[0]));
	return list;
}

static int do_switch(struct err *e)
{
	char stage[PATH_MAX];
	struct journal j;
	json_t *m;
	int rc = journal_open(&j, site, e);

	if (!rc)
		rc = journal_stage(&j, stage, e);
	if (!rc) {
		sh("cd %s && mkdir hvd hvd-2.dist-info && echo new >hvd/a && echo new "
		   ">hvd-2.dist-info/b && echo new >run",
		   stage);
		m = moves(stage);
		rc = journal_switch(&j, m, e);
		json_decref(m);
	}
	journal_close(&j);
	return rc;
}

static int do_undo(struct err *e)
{
	struct journal j;
	int rc = journal_open(&j, site, e);

	if (!rc)
		rc = j.was_unfinished ? 0 : journal_undo(&j, e);
	journal_close(&j);
	return rc;
}

/* In a child that is killed before step @at; was it? */
static bool killed(int (*deed)(struct err *), int at)
{
	char text[16];
	struct err e = { 0 };
	int status;
	pid_t pid;

	snprintf(text, sizeof(text), "%d", at);
	pid = fork();
	if (!pid) {
		setenv("RINGUP_TEST_KILL_AT", text, 1);
		_exit(deed(&e) != 0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status);
}

static void check_killed_undo(void)
{
	struct err e = { 0 };
	int at;

	for (at = 1; at < 100; at++) {
		set_up();
		if (where != IMAGE_SWITCHED && do_switch(&e))
			ok(0, "set up: %s", e.text);
		if (!killed(do_undo, at))
			break;
		ok(!do_undo(&e), "killed before step %d of undo, undo goes on: %s", at, e.text);
		ok(!strcmp(state(), "old"), "and the old engine is whole: %s", state());
	}
	ok(at > 6, "an undo has %d steps", at - 1);
}

static void check_kills(void)
{
	struct err e = { 0 };
	int at;

	for (at = 1; at < 100; at++) {
		struct journal j;

		set_up();
		if (!killed(do_switch, at))
			break;
		/* As if the removal of the originals had begun, of which there is a copy. */
		sh("cd %s && if grep -qs copy_inode .ringup-rebuild/journal.json; then rm -f "
		   "hvd/a; fi",
		   site);
		ok(!journal_open(&j, site, &e), "killed before step %d, the next run opens: %s",
		   at, e.text);
		journal_close(&j);
		ok(!strcmp(state(), "old"), "and the old engine is whole: %s", state());
		ok(!do_switch(&e) && !strcmp(state(), "new"), "and can be replaced: %s",
		   e.text);
	}
	ok(at > 8, "a switch has %d steps", at - 1);
	check_killed_undo();
}

/* Below an overlay no folder that an image brought can be renamed. */
static void check_image(void)
{
	struct err e = { 0 };
	char from[256], to[256];

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    !(set_up(), mount_image())) {
		ok(1, "an image's folders are replaced # SKIP no root, or no overlay");
		return;
	}
	snprintf(from, sizeof(from), "%s/hvd", site);
	snprintf(to, sizeof(to), "%s/other", site);
	ok(rename(from, to) && errno == EXDEV, "the kernel renames no folder of an image");
	where = IMAGE;
	set_up();
	sh("cd %s && mkdir hvd/deep && ln -s ../a hvd/deep/link && chmod 700 hvd/deep && "
	   "touch -d @77 hvd/a",
	   site);
	ok(!do_switch(&e) && !strcmp(state(), "new"), "the new engine is in place: %s", e.text);
	ok(!do_undo(&e) && !strcmp(state(), "old"), "and out again: %s", e.text);
	sh("cd %s && test \"$(stat -c %%Y hvd/a) $(stat -c %%a hvd/deep) $(readlink "
	   "hvd/deep/link)\" = '77 700 ../a'",
	   site);
	check_kills();
	where = IMAGE_SWITCHED;
	set_up();
	ok(!do_undo(&e) && !strcmp(state(), "old"),
	   "what a lower layer switched comes back: %s", e.text);
	check_killed_undo();
	where = PLAIN;
	set_up();
}

static void check_plain(void)
{
	struct err e = { 0 };
	struct journal j, other;
	char path[PATH_MAX];

	set_up();
	ok(!do_switch(&e) && !strcmp(state(), "new"), "the new engine is in place: %s", e.text);
	ok(!do_undo(&e) && !strcmp(state(), "old"), "and out again: %s", e.text);
	ok(do_undo(&e) == 1, "there is one way back only");
	snprintf(path, sizeof(path), "%s/.ringup-rebuild", site);
	ok(access(path, F_OK) && errno == ENOENT, "nothing is left");
	do_switch(&e);
	do_switch(&e);
	ok(!do_undo(&e) && !strcmp(state(), "new"), "undo goes back one switch");
	set_up();
	do_switch(&e);
	/* Another number for sure: both are there for a while. */
	sh("cd %s && mkdir other && rm -rf hvd && mv other hvd", site);
	ok(do_undo(&e) && strstr(e.text, "another program"), "what others put there stays: %s",
	   e.text);
	(void)!journal_open(&j, site, &e); /* cannot undo either, and has the lock */
	ok(journal_open(&other, site, &e) && strstr(e.text, "another"), "and no second: %s",
	   e.text);
	journal_close(&other);
	journal_close(&j);
	set_up();
	ok(!journal_open(&j, site, &e) && !journal_stage(&j, path, &e), "staged: %s", e.text);
	ok(journal_open(&other, site, &e) == RINGUP_EBUSY, "who comes later is told: %s",
	   e.text);
	journal_close(&other);
	ok(!access(path, F_OK), "and takes nothing away");
	journal_close(&j);
	ok(j.lock == -1, "once closed it has no lock to close again");
}

/* The journal with @key's value in its first move replaced by @value; 0: without it. */
static void rewrite(const char *key, json_t *value)
{
	char path[PATH_MAX];
	json_t *journal, *move;

	snprintf(path, sizeof(path), "%s/.ringup-rebuild/journal.json", site);
	journal = json_load_file(path, 0, NULL);
	move = json_array_get(json_object_get(journal, "moves"), 0);
	if (value)
		json_object_set_new(move, key, value);
	else
		json_object_del(move, key);
	if (!move || json_dump_file(journal, path, 0))
		ok(0, "set up: %s", path);
	json_decref(journal);
}

/* Whoever makes a folder where the new one was may get its number; here it always does. */
static void check_number_used_again(void)
{
	struct file_identity ours, theirs;
	struct err e = { 0 };
	char path[256], number[32];

	set_up();
	do_switch(&e);
	snprintf(path, sizeof(path), "%s/hvd", site);
	file_identity(AT_FDCWD, path, &ours);
	if (!ours.born_ns) {
		ok(1, "what got the number of the new one stays # SKIP nothing here is known "
		      "by its birth");
		return;
	}
	/* The clock of births ticks some hundred times a second. */
	do {
		sh("cd %s && mkdir other && rm -rf hvd && mv other hvd", site);
		file_identity(AT_FDCWD, path, &theirs);
	} while (theirs.born_ns == ours.born_ns);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)theirs.inode);
	rewrite("new_inode", json_string(number));
	ok(do_undo(&e) && strstr(e.text, "another program") && !access(path, F_OK),
	   "what got the number of the new one stays: %s", e.text);
	/* Of a journal from before births were kept the number has to do. */
	set_up();
	do_switch(&e);
	rewrite("new_born", NULL);
	ok(!do_undo(&e) && !strcmp(state(), "old"), "a journal without births: %s", e.text);
}

/* What the disk has done to a journal is no reason to throw away what it is about. */
static void check_damage(void)
{
	static const char *const texts[] = { "", "{", "[]", "{}", "{\"done\": \"yes\"}" };
	char command[512], path[PATH_MAX];
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		set_up();
		do_switch(&e);
		snprintf(command, sizeof(command), "echo '%s' >%s/.ringup-rebuild/journal.json",
			 texts[i], site);
		sh("%s", command);
		snprintf(path, sizeof(path), "%s/.ringup-rebuild/old", site);
		ok(do_undo(&e) == RINGUP_EINVAL && strstr(e.text, path),
		   "no journal, and where the old engine is: %s", e.text);
		ok(do_switch(&e) == RINGUP_EINVAL && !strcmp(state(), "new"),
		   "nor is it replaced: %s", e.text);
		strcat(path, "/0/a");
		ok(!access(path, F_OK), "the old engine is kept");
	}
}

static void check_entries(void)
{
	struct err e = { 0 };
	json_t *list;

	set_up();
	sh("cd %s/top/lib/hvd-1.dist-info && printf "
	   "'hvd/a,sha256=x,3\\n../bin/run,,\\n\"hvd/b,c\",,\\n"
	   "hvd-1.dist-info/RECORD,,\\n__pycache__/x.pyc,,\\nmissing/y,,\\n' >RECORD",
	   base);
	ok(!journal_entries(site, base, "hvd", &list, &e) && json_array_size(list) == 3,
	   "a distribution's folders, metadata and programs: %zu %s", json_array_size(list),
	   e.text);
	json_decref(list);
	ok(!journal_entries(site, base, "hv", &list, &e) && !json_array_size(list),
	   "not those of one whose name begins alike");
	json_decref(list);
	sh("cd %s/top/lib/hvd-1.dist-info && printf '../../../../etc/passwd,,\\n' >RECORD",
	   base);
	ok(journal_entries(site, base, "hvd", &list, &e),
	   "a path out of the prefix is refused: %s", e.text);
	json_decref(list);
	sh("cd %s/top/lib/hvd-1.dist-info && printf 'a/../../../x,,\\n/etc/passwd,,\\n' "
	   ">RECORD",
	   base);
	ok(journal_entries(site, base, "hvd", &list, &e), "however it is written: %s", e.text);
	json_decref(list);
}

int main(void)
{
	if (!mkdtemp(base))
		return 99;
	check_plain();
	check_number_used_again();
	check_kills();
	check_damage();
	check_entries();
	check_image();
	sh("rm -rf %s", base);
	return tap_done();
}
