/* journal.c - replace one engine with another by journaled moves that can be undone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/journal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/jsonio.h"
#include "ringup.h"

enum { JOURNAL_BYTES = 1 << 20, RECORD_BYTES = 1 << 24 };

/* For tests: kills the process before the step that they name. */
static void boundary(void)
{
	static int steps;
	const char *stop = conf_env("RINGUP_TEST_KILL_AT");

	if (stop && ++steps == atoi(stop))
		raise(SIGKILL);
}

static void path_in(char out[PATH_MAX], const struct journal *j, const char *name)
{
	snprintf(out, PATH_MAX, "%.*s/%s", PATH_MAX - 64, j->dir, name);
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Writes the inode's number as text: JSON's integers are signed. */
static bool inode_of(const char *path, char out[32])
{
	struct file_identity id;

	*out = 0;
	if (!file_identity(AT_FDCWD, path, &id))
		return false;
	snprintf(out, 32, "%llu", (unsigned long long)id.inode);
	return true;
}

static bool is_inode(const char *path, const char *inode)
{
	char its[32];

	return path && inode && inode_of(path, its) && !strcmp(its, inode);
}

/*
 * Is the file at @path the one that the move put there?  Its number alone does not prove that:
 * if the file was removed, another may have got the number, so the birth time has to match as
 * well.  The old file's number is not free while that is kept.  (Its birth time would not help:
 * an overlay makes a file anew on its first rename.)
 */
static bool is_new(const char *path, const json_t *m)
{
	json_t *born = json_object_get(m, "new_born");
	struct file_identity id;

	return is_inode(path, text_of(m, "new_inode")) && file_identity(AT_FDCWD, path, &id) &&
	       (!born || !id.born_ns || json_integer_value(born) == id.born_ns);
}

/*
 * Renames; the journal is on disk by then.  1: this folder cannot be renamed.  So it is on an
 * overlay, as a container has it, for a folder of a lower layer, the image's.
 */
static int move(const char *from, const char *to, struct err *e)
{
	boundary();
	if (!rename(from, to))
		return 0;
	return errno == EXDEV ? 1 : fail_os(e, "%s to %s", from, to);
}

/* The same of what this run has made, which each file system can rename. */
static int move_own(const char *from, const char *to, struct err *e)
{
	int rc = move(from, to, e);

	errno = EXDEV;
	return rc > 0 ? fail_os(e, "%s to %s", from, to) : rc;
}

static void journal_settle(const struct journal *j)
{
	int fd = open(j->site, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		syncfs(fd);
		close(fd);
	}
}

/* Reads the journal to *@out, or NULL if there is none.  A damaged one is an error: old/ then
 * has the only copy of an engine. */
static int read_journal(const struct journal *j, json_t **out, struct err *e)
{
	char path[PATH_MAX];

	*out = NULL;
	path_in(path, j, "journal.json");
	if (!file_exists(NULL, path))
		return 0;
	*out = jsonio_read(path, JOURNAL_BYTES, e);
	if (*out && !json_is_array(json_object_get(*out, "moves"))) {
		json_decref(*out);
		*out = NULL;
		fail(e, RINGUP_EINVAL, "%s: no journal", path);
	}
	if (*out)
		return 0;
	return fail_in(e, "%.150s/old has the previous state; restore it, or remove it",
		       j->dir);
}

static int write_journal(const struct journal *j, const json_t *journal, struct err *e)
{
	char *text = json_dumps(journal, JSON_INDENT(1));
	char path[PATH_MAX];
	int rc;

	path_in(path, j, "journal.json");
	if (!text)
		return fail(e, RINGUP_ENOMEM, "%s: no memory", path);
	boundary();
	rc = file_write(NULL, path, 0644, text, strlen(text), e);
	free(text);
	return rc;
}

/* Removes a folder that could not be renamed.  Killed in between, the next run does it again.
 */
static int clear(const char *path, struct err *e)
{
	boundary();
	return folder_remove(path, e);
}

/*
 * Copies @from, the old files of @m, to @to.  Once the copy is on disk, the journal names it
 * instead of them, and the originals may go.
 */
static int keep_copy(const struct journal *j, const json_t *journal, json_t *m,
		     const char *from, const char *to, struct err *e)
{
	char inode[32];
	int rc;

	boundary();
	folder_remove(to, NULL); /* of a killed run */
	rc = folder_copy(from, to, e);
	if (rc)
		return rc;
	journal_settle(j);
	inode_of(to, inode);
	json_object_set_new(m, "copy", json_string(to));
	json_object_set_new(m, "copy_inode", json_string(inode));
	return write_journal(j, journal, e);
}

/* Takes away what is at `to` of the move, unless that is the old file; 1: it is. */
static int undo_new(const json_t *m, struct err *e)
{
	const char *to = text_of(m, "to"), *copy_inode = text_of(m, "copy_inode");
	char now[32];
	int rc;

	if (!inode_of(to, now))
		return 0;
	if (copy_inode ? is_inode(to, copy_inode) : is_inode(to, text_of(m, "old_inode")))
		return 1;
	if (copy_inode && is_inode(to, text_of(m, "old_inode")))
		return clear(to, e); /* the original, perhaps a part of it */
	if (!is_new(to, m))
		return fail(e, RINGUP_EBUSY,
			    "another program has replaced %s since; remove it, and undo again",
			    to);
	rc = move(to, text_of(m, "new"), e);
	return rc > 0 ? clear(to, e) : rc;
}

/* Brings the old file of one move back, from any state that killed runs left. */
static int undo_one(const struct journal *j, const json_t *journal, json_t *m, struct err *e)
{
	const char *to = text_of(m, "to"), *old_inode = text_of(m, "old_inode"),
		   *copy_inode = text_of(m, "copy_inode"),
		   *old = text_of(m, copy_inode ? "copy" : "old");
	char again[PATH_MAX + 8];
	int rc;

	if (!to || *to != '/')
		return fail(e, RINGUP_EINVAL, "the journal is damaged");
	rc = undo_new(m, e);
	if (rc || !old_inode)
		return rc < 0 ? rc : 0;
	if (!is_inode(old, copy_inode ? copy_inode : old_inode))
		return fail(e, RINGUP_EBUSY, "%s, which was %s, is gone", old, to);
	rc = move(old, to, e);
	if (rc <= 0)
		return rc;
	snprintf(again, sizeof(again), "%s.old", text_of(m, "new"));
	rc = keep_copy(j, journal, m, old, again, e);
	return rc ? rc : move_own(again, to, e);
}

static int undo_all(struct journal *j, const json_t *journal, struct err *e)
{
	const json_t *moves = json_object_get(journal, "moves");
	char back[PATH_MAX];
	int rc = 0;

	path_in(back, j, "back");
	if (mkdir(back, 0755) && errno != EEXIST)
		rc = fail_os(e, "%s", back);
	for (size_t i = json_array_size(moves); !rc && i > 0; i--)
		rc = undo_one(j, journal, json_array_get(moves, i - 1), e);
	if (rc)
		return fail_in(e, "%s/journal.json", j->dir);
	journal_settle(j);
	boundary();
	return file_remove(j->dir, "/journal.json", e);
}

static bool is_still_there(const struct journal *j)
{
	struct stat open, now;

	return !fstat(j->lock, &open) && !lstat(j->dir, &now) && open.st_dev == now.st_dev &&
	       open.st_ino == now.st_ino;
}

int journal_open(struct journal *j, const char *site, struct err *e)
{
	json_t *journal;
	int rc = 0;

	*j = (struct journal){ .lock = -1 };
	if (snprintf(j->site, sizeof(j->site), "%s", site) >= PATH_MAX - 64)
		return fail(e, RINGUP_EINVAL, "%s: too long a path", site);
	snprintf(j->dir, sizeof(j->dir), "%.*s/.ringup-rebuild", PATH_MAX - 64, site);
	if (mkdir(j->dir, 0755) && errno != EEXIST)
		return fail_os(e, "%s", j->dir);
	j->lock = open(j->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (j->lock < 0)
		return fail_os(e, "%s", j->dir);
	if (flock(j->lock, LOCK_EX | LOCK_NB) || !is_still_there(j)) {
		/* The folder belongs to the other process, or that has just removed it. */
		close(j->lock);
		j->lock = -1;
		return fail(e, RINGUP_EBUSY,
			    "another ringup rebuild is running in %s; wait for it", site);
	}
	rc = read_journal(j, &journal, e);
	if (journal && !text_of(journal, "done")) {
		rc = undo_all(j, journal, e);
		j->was_unfinished = !rc;
	}
	json_decref(journal);
	return rc;
}

int journal_stage(struct journal *j, char out[PATH_MAX], struct err *e)
{
	path_in(out, j, "next");
	folder_remove(out, NULL);
	return mkdir(out, 0755) ? fail_os(e, "%s", out) : 0;
}

/*
 * A file of an overlay's lower layer becomes another one, with another number, when it is first
 * changed or moved.  A new mode, though equal, makes that happen now, before the number is
 * taken.
 */
static void renew(const char *path)
{
	struct stat st;

	if (!lstat(path, &st) && S_ISREG(st.st_mode))
		(void)!chmod(path, st.st_mode & 07777);
}

/* The move @m with all that identifies its files, or NULL. */
static json_t *planned(const struct journal *j, const json_t *m, size_t i, struct err *e)
{
	const char *to = text_of(m, "to"), *new = text_of(m, "new");
	char new_inode[32], old_inode[32], old[PATH_MAX], gone[PATH_MAX], name[32];
	bool has_new = new &&inode_of(new, new_inode), has_old;
	struct file_identity id = { 0 };
	json_t *born;

	renew(to);
	has_old = inode_of(to, old_inode);
	snprintf(name, sizeof(name), "old/%zu", i);
	path_in(old, j, name);
	snprintf(name, sizeof(name), "back/%zu", i);
	path_in(gone, j, name);
	if (new && !has_new) {
		fail_os(e, "%s", new);
		return NULL;
	}
	born = new &&file_identity(AT_FDCWD, new, &id) && id.born_ns ? json_integer(id.born_ns)
								     : NULL;
	return json_pack("{ss ss* ss ss* so* ss ss*}", "to", to, "from", new, "new", gone,
			 "new_inode", has_new ? new_inode : NULL, "new_born", born, "old", old,
			 "old_inode", has_old ? old_inode : NULL);
}

static int make_dir(const struct journal *j, const char *name, struct err *e)
{
	char path[PATH_MAX];

	path_in(path, j, name);
	folder_remove(path, NULL);
	return mkdir(path, 0755) ? fail_os(e, "%s", path) : 0;
}

/* Moves an old file out; of a folder that cannot be renamed a copy is kept. */
static int carry_out_old(const struct journal *j, const json_t *journal, json_t *m,
			 struct err *e)
{
	const char *to = text_of(m, "to"), *old = text_of(m, "old");
	int rc = move(to, old, e);

	if (rc > 0) {
		rc = keep_copy(j, journal, m, to, old, e);
		if (!rc)
			rc = clear(to, e);
	}
	return rc;
}

/* Makes all moves: old files out, new files in. */
static int carry_out(const struct journal *j, const json_t *journal, struct err *e)
{
	json_t *m;
	size_t i;
	int rc = 0;

	json_array_foreach(json_object_get(journal, "moves"), i, m) {
		if (!rc && text_of(m, "old_inode"))
			rc = carry_out_old(j, journal, m, e);
		if (!rc && text_of(m, "from"))
			rc = move_own(text_of(m, "from"), text_of(m, "to"), e);
	}
	return rc;
}

int journal_switch(struct journal *j, const json_t *moves, struct err *e)
{
	json_t *list = json_array(), *journal, *one;
	struct err why = { 0 };
	const json_t *m;
	size_t i;
	int rc;

	/* From here on the previous switch can no longer be undone. */
	rc = file_remove(j->dir, "/journal.json", e);
	if (!rc)
		rc = make_dir(j, "old", e);
	if (!rc)
		rc = make_dir(j, "back", e);
	json_array_foreach(moves, i, m) {
		one = rc ? NULL : planned(j, m, i, e);
		if (!rc && !one)
			rc = RINGUP_ESYSTEM;
		else if (one)
			json_array_append_new(list, one);
	}
	journal = json_pack("{si so}", "schema", 1, "moves", list);
	if (!rc)
		rc = write_journal(j, journal, e);
	if (rc) {
		json_decref(journal);
		return rc;
	}
	rc = carry_out(j, journal, e);
	if (!rc) {
		journal_settle(j);
		json_object_set_new(journal, "done", json_string("yes"));
		rc = write_journal(j, journal, e);
	}
	if (rc && undo_all(j, journal, &why))
		fail_in(e, "%s; restoring the previous state failed, too", why.text);
	json_decref(journal);
	return rc;
}

bool journal_moves(json_t *moves, const char *from, const char *to)
{
	DIR *dir = opendir(from);
	struct dirent *d;
	char a[2 * PATH_MAX], b[2 * PATH_MAX];

	while (dir && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") ||
		    !strcmp(d->d_name, "__pycache__"))
			continue;
		snprintf(a, sizeof(a), "%s/%s", from, d->d_name);
		snprintf(b, sizeof(b), "%s/%s", to, d->d_name);
		json_array_append_new(moves, json_pack("{ss ss}", "to", b, "new", a));
	}
	return dir && !closedir(dir);
}

int journal_undo(struct journal *j, struct err *e)
{
	json_t *journal;
	int rc = read_journal(j, &journal, e);

	if (!journal)
		return rc ? rc : 1;
	/* From here on a kill leaves a switch to undo, not a finished one. */
	json_object_del(journal, "done");
	rc = write_journal(j, journal, e);
	if (!rc)
		rc = undo_all(j, journal, e);
	json_decref(journal);
	return rc;
}

void journal_close(struct journal *j)
{
	static const char *const always[] = { "next", "back" };
	char path[PATH_MAX];

	if (j->lock < 0 || !*j->dir)
		return;
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
		path_in(path, j, always[i]);
		folder_remove(path, NULL);
	}
	path_in(path, j, "journal.json");
	if (!file_exists(NULL, path)) {
		path_in(path, j, "old");
		folder_remove(path, NULL);
		rmdir(j->dir);
	}
	close(j->lock);
	j->lock = -1;
}

/* Distributions. */

/* Is @dir, such as "Some_Name-1.2.dist-info", the metadata of @name? */
static bool is_metadata_of(const char *dir, const char *name)
{
	size_t n = strlen(name), i;
	const char *dot = strrchr(dir, '.');

	if (!dot || (strcmp(dot, ".dist-info") != 0 && strcmp(dot, ".egg-info") != 0))
		return false;
	for (i = 0; i < n; i++) {
		int a = tolower((unsigned char)dir[i]), b = tolower((unsigned char)name[i]);

		if (a != b && !(strchr("-_.", a) && a && strchr("-_.", b)))
			return false;
	}
	return dir[n] == '-' || dir + n == dot;
}

static void add_entry(json_t *list, const char *path)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (!strcmp(json_string_value(one), path))
			return;
	json_array_append_new(list, json_string(path));
}

/* Takes each leading "../" off @path, and one component off @base for it. */
static const char *climb(const char *path, char *base)
{
	while (!strncmp(path, "../", 3)) {
		char *slash = strrchr(base, '/');

		if (slash)
			*slash = 0;
		path += 3;
	}
	return path;
}

/* Adds the owner of one line of RECORD: a folder of site-packages, or a file elsewhere. */
static int add_line(json_t *list, const char *site, const char *prefix, const char *line,
		    struct err *e)
{
	char base[PATH_MAX], path[2 * PATH_MAX];
	size_t n = strlen(prefix);
	const char *rest;

	snprintf(base, sizeof(base), "%s", site);
	rest = climb(line, base);
	if (!*rest || *rest == '/' || strstr(rest, "/../") || !strncmp(rest, "../", 3))
		return fail(e, RINGUP_EINVAL, "RECORD has %.80s, which is invalid", line);
	if (rest == line && strncmp(rest, "__pycache__/", 12) != 0)
		snprintf(path, sizeof(path), "%s/%.*s", base, (int)strcspn(rest, "/"), rest);
	else
		snprintf(path, sizeof(path), "%s/%s", base, rest);
	if (strncmp(path, prefix, n) != 0 || path[n] != '/')
		return fail(e, RINGUP_EINVAL, "RECORD has %.80s, which is outside %.80s", line,
			    prefix);
	if (file_exists(NULL, path))
		add_entry(list, path);
	return 0;
}

/* Adds the paths of RECORD: PATH,HASH,SIZE lines, with PATH in quotes if it has commas. */
static int add_record(json_t *list, const char *site, const char *prefix, char *text,
		      struct err *e)
{
	char *line, *end, *comma;
	int rc = 0;

	for (line = text; !rc && line && *line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = 0;
		if (*line == '"') {
			comma = strchr(++line, '"');
		} else {
			comma = strchr(line, ',');
		}
		if (comma)
			*comma = 0;
		if (*line)
			rc = add_line(list, site, prefix, line, e);
	}
	return rc;
}

int journal_entries(const char *site, const char *prefix, const char *name, json_t **out,
		    struct err *e)
{
	DIR *dir = opendir(site);
	char path[PATH_MAX], whole[2 * PATH_MAX];
	struct dirent *d;
	char *text;
	size_t len;
	int rc = 0;

	*out = json_array();
	while (!rc && dir && (d = readdir(dir))) {
		if (!is_metadata_of(d->d_name, name))
			continue;
		snprintf(whole, sizeof(whole), "%s/%s", site, d->d_name);
		add_entry(*out, whole);
		snprintf(path, sizeof(path), "/%s/RECORD", d->d_name);
		if (file_read(site, path, RECORD_BYTES, &text, &len, NULL))
			continue;
		rc = add_record(*out, site, prefix, text, e);
		free(text);
	}
	if (dir)
		closedir(dir);
	return rc;
}
