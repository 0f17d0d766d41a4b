/* dangling.c - find files of a framework that are links to files which are gone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/dangling.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/jsonio.h"
#include "base/shell.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"

/* The links that were found: how many, and the first. */
struct links {
	char path[PATH_MAX], target[PATH_MAX];
	int count;
};

static bool is_code(const char *name)
{
	size_t len = strlen(name);

	return strstr(name, ".so.") ||
	       (len > 3 && (!strcmp(name + len - 3, ".so") || !strcmp(name + len - 3, ".py")));
}

/* Reads the link @name in the folder @dir, whose real path is @real. */
static void see_link(struct links *l, const struct rootfs *fs, const char *dir,
		     const char *real, const char *name)
{
	char at[2 * PATH_MAX], target[PATH_MAX];
	ssize_t n;

	snprintf(at, sizeof(at), "%s%s/%s", fs->root, real, name);
	n = readlink(at, target, sizeof(target) - 1);
	if (n <= 0 || l->count++)
		return;
	target[n] = 0;
	text_clean(l->target, sizeof(l->target), target);
	rootfs_join(l->path, dir, name);
}

static void see_folder(struct links *l, struct rootfs *fs, const char *dir)
{
	struct names n = rootfs_names(fs, dir, "");
	char path[PATH_MAX], real[PATH_MAX];
	bool has_real = rootfs_real(fs, dir, real);

	for (size_t i = 0; i < n.count && has_real; i++)
		if (is_code(n.at[i]) && rootfs_join(path, dir, n.at[i]) &&
		    !rootfs_is_file(fs, path) && !rootfs_is_dir(fs, path))
			see_link(l, fs, dir, real, n.at[i]);
	rootfs_names_free(&n);
}

/* The notes of packages of this name are explained as well. */
static void mark_notes(struct rootfs *fs, const char *location, const char *name,
		       json_t *reported)
{
	char site[PATH_MAX], path[PATH_MAX], begin[80];
	const char *slash = strrchr(location, '/');
	struct names n;

	text_copy(site, sizeof(site), location, slash ? (size_t)(slash - location) : 0);
	snprintf(begin, sizeof(begin), "%.60s-", name);
	n = rootfs_names(fs, site, begin);
	for (size_t i = 0; i < n.count; i++)
		if (rootfs_join(path, site, n.at[i]))
			json_object_set_new(reported, path, json_true());
	rootfs_names_free(&n);
}

bool dangling_add(struct exam *x, struct rootfs *fs, const json_t *f, json_t *reported)
{
	static const char *const folders[] = { "", "lib", "python" };
	const char *name = jsonio_string(f, "name"), *location = jsonio_string(f, "location");
	const char *python = jsonio_string(f, "python"), *version = jsonio_string(f, "version");
	char dir[PATH_MAX], word[PATH_MAX], todo[2 * PATH_MAX];
	struct links l = { .count = 0 };
	bool is_uv;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (rootfs_join(dir, location, folders[i]))
			see_folder(&l, fs, dir);
	if (!l.count)
		return false;
	is_uv = strstr(l.target, "/archive-v") || strstr(l.target, "/uv/");
	exam_add(x, EXAM_BAD,
		 "%s %s of %s cannot be imported: %.400s is a link to %.400s, "
		 "which does not exist",
		 name, version, python, l.path, l.target);
	shell_word(python, word, sizeof(word));
	if (is_uv)
		snprintf(todo, sizeof(todo),
			 "uv pip install --python %s --reinstall --link-mode copy %s", word,
			 name);
	else
		snprintf(todo, sizeof(todo), "%s -m pip install --force-reinstall %s==%s", word,
			 name, version);
	exam_why(x,
		 is_uv ? "with UV_LINK_MODE=symlink an environment is links into uv's cache, "
			 "and "
			 "uv cache prune or clean removes what they lead to"
		       : "what they lead to was removed or moved, or is not mounted",
		 todo);
	mark_notes(fs, location, name, reported);
	return true;
}
