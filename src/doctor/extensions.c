/* extensions.c - find locks of killed builds in torch's folders of compiled extensions. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch compiles an extension when a program first loads it (torch.utils.cpp_extension), in a
 * folder of the extension's name.  While one process compiles, a file "lock" is there, which it
 * keeps open; any other process waits until that file is gone, and a killed build leaves it.
 * The files that Triton, torch.compile and Hugging Face lock end with the process that has
 * locked them, so these may stay.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "base/pidstat.h"
#include "base/shell.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"

enum { MOST_LOCKS = 8, MOST_ENTRIES = 65536, OLD_SECONDS = 3600 };

/* A search, and how many locks and entries it has met. */
struct search {
	struct exam *x;
	struct rootfs *fs;
	int locks, entries;
};

/* Has process @pid the file @lock, whose state is @st, open? */
static bool has_open(pid_t pid, const struct stat *st)
{
	char dir[64], path[PATH_MAX], target[PATH_MAX];
	struct dirent *entry;
	struct stat other;
	bool is = false;
	ssize_t n;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%ld/fd", (long)pid);
	d = opendir(dir);
	while (d && !is && (entry = readdir(d))) {
		if (!rootfs_join(path, dir, entry->d_name))
			continue;
		n = readlinkat(dirfd(d), entry->d_name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		/* Only this name: to look at others could wait for their file systems. */
		is = n > 5 && !strcmp(target + n - 5, "/lock") && !stat(path, &other) &&
		     other.st_dev == st->st_dev && other.st_ino == st->st_ino;
	}
	if (d)
		closedir(d);
	return is;
}

/* The process of this host that has the file open; 0: none that this user can see. */
static pid_t find_holder(const struct stat *st)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;
	pid_t pid = 0;

	while (d && !pid && (entry = readdir(d))) {
		pid = (pid_t)atol(entry->d_name);
		if (pid > 0 && !has_open(pid, st))
			pid = 0;
	}
	if (d)
		closedir(d);
	return pid > 0 ? pid : 0;
}

/* Formats a time: "3 days". */
static const char *age_text(long long seconds, char out[32])
{
	long long minutes = seconds / 60, n = minutes;
	const char *unit = "minute";

	if (minutes >= 2 * 24 * 60) {
		n = minutes / (24 * 60);
		unit = "day";
	} else if (minutes >= 2 * 60) {
		n = minutes / 60;
		unit = "hour";
	}
	snprintf(out, 32, "%lld %s%s", n, unit, n == 1 ? "" : "s");
	return out;
}

/* Reports the lock @path, whose state is @st, of the extension in folder @dir. */
static void add_lock(struct exam *x, const char *dir, const char *path, const struct stat *st)
{
	char age[32], name[64], word[SHELL_ROOM(PATH_MAX)], todo[sizeof(word) + 64];
	time_t now = time(NULL), changed = st->st_mtime;
	pid_t holder = find_holder(st);
	struct pidstat p;
	struct stat folder;
	bool is_old;

	/* A compiler on another node writes files there. */
	if (!stat(dir, &folder) && folder.st_mtime > changed)
		changed = folder.st_mtime;
	is_old = now - changed >= OLD_SECONDS;
	age_text(now > st->st_mtime ? now - st->st_mtime : 0, age);
	if (holder) {
		text_clean(name, sizeof(name), pidstat_read(holder, &p) ? "" : p.name);
		exam_add(x, EXAM_NOTE, "process %ld (%s) has held %.700s for %s", (long)holder,
			 name, path, age);
		exam_why(x, "jobs that load this extension of torch wait until it is compiled",
			 NULL);
		return;
	}
	exam_add(x, is_old ? EXAM_BAD : EXAM_NOTE,
		 "%.700s is %s old, and no process here holds this lock", path, age);
	snprintf(todo, sizeof(todo), "rm %s%s", shell_word(path, word, sizeof(word)),
		 is_old ? "" : ", if no other node or container compiles it now");
	exam_why(x,
		 "every job that loads this extension of torch waits forever, without a "
		 "message, until the file is removed",
		 todo);
}

/* Reports the locks in folders below @dir, at most @depth deeper. */
static void search_locks(struct search *s, const char *dir, int depth)
{
	struct names n = rootfs_names(s->fs, dir, "");
	char below[PATH_MAX], lock[PATH_MAX], clean[PATH_MAX];
	struct stat st;

	for (size_t i = 0; i < n.count && s->locks < MOST_LOCKS; i++) {
		if (s->entries++ >= MOST_ENTRIES || !rootfs_join(below, dir, n.at[i]) ||
		    !rootfs_join(lock, below, "lock"))
			continue;
		text_clean(clean, sizeof(clean), lock);
		/* The command must name this file and no other. */
		if (strcmp(clean, lock) != 0)
			continue;
		if (!lstat(lock, &st) && S_ISREG(st.st_mode)) {
			s->locks++;
			add_lock(s->x, below, lock, &st);
		} else if (depth && rootfs_is_dir(s->fs, below)) {
			search_locks(s, below, depth - 1);
		}
	}
	rootfs_names_free(&n);
}

/* Sets @out to the folder of torch's extensions: TORCH_EXTENSIONS_DIR, or one of the user's
 * cache, which has a folder for each Python and CUDA; false: there is none. */
static bool find_folder(char out[PATH_MAX])
{
	const char *set = conf_env("TORCH_EXTENSIONS_DIR"), *cache = conf_env("XDG_CACHE_HOME"),
		   *home = conf_env("HOME");
	int n = 0;

	*out = 0;
	if (set && *set)
		n = snprintf(out, PATH_MAX, "%s", set);
	else if (cache && *cache)
		n = snprintf(out, PATH_MAX, "%s/torch_extensions", cache);
	else if (home && *home)
		n = snprintf(out, PATH_MAX, "%s/.cache/torch_extensions", home);
	return n > 0 && n < PATH_MAX;
}

void exam_extensions(struct exam *x)
{
	json_t *problems = json_array();
	struct search s = { .x = x };
	char dir[PATH_MAX];
	struct rootfs fs;
	struct err ignored;

	if (find_folder(dir) && !rootfs_open(&fs, "", problems, &ignored)) {
		s.fs = &fs;
		search_locks(&s, dir, 1);
		rootfs_close(&fs);
	}
	json_decref(problems);
}
