/* loader.c - find the file that the dynamic loader would take for a library's name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "detect/elflink.h"
#include "detect/ldcache.h"
#include "detect/rootfs.h"

enum { CACHE_CAP = 16 << 20 };

#if defined(__aarch64__)
static const char multiarch[] = "/usr/lib/aarch64-linux-gnu";
#else
static const char multiarch[] = "/usr/lib/x86_64-linux-gnu";
#endif

static bool is_there(struct rootfs *fs, const char *dir, size_t len, const char *name,
		     char out[PATH_MAX])
{
	char folder[PATH_MAX];

	*out = 0;
	if (len >= sizeof(folder))
		return false;
	snprintf(folder, sizeof(folder), "%.*s", (int)len, dir);
	return rootfs_join(out, folder, name) && rootfs_is_file(fs, out);
}

/* Replaces $ORIGIN, as in "$ORIGIN/../lib", by @origin; a relative path is then below @here. ""
 * if there is no such folder. */
static void expand(const char *dir, size_t len, const char *origin, const char *here,
		   char out[PATH_MAX])
{
	static const char *const words[] = { "$ORIGIN", "${ORIGIN}" };
	const char *before = "";
	size_t n, skip = 0;

	for (size_t i = 0; origin && i < sizeof(words) / sizeof(words[0]); i++) {
		n = strlen(words[i]);
		if (len >= n && !memcmp(dir, words[i], n)) {
			before = origin;
			skip = n;
		}
	}
	n = (size_t)snprintf(out, PATH_MAX, "%s%.*s", before, (int)(len - skip), dir + skip);
	if (n < PATH_MAX && *out != '/' && here)
		n = (size_t)snprintf(out, PATH_MAX, "%s/%.*s", here, (int)len, dir);
	if (n >= PATH_MAX || *out != '/')
		*out = 0;
}

bool loader_find_in(struct rootfs *fs, const char *list, const char *separators,
		    const char *origin, const char *here, const char *name, char out[PATH_MAX])
{
	char dir[PATH_MAX];
	size_t len;

	*out = 0;
	for (; list && *list; list += len + (list[len] != 0)) {
		len = strcspn(list, separators);
		expand(list, len, origin, here, dir);
		if (*dir && is_there(fs, dir, strlen(dir), name, out))
			return true;
	}
	return false;
}

static bool find_in_cache(struct rootfs *fs, const char *name, char out[PATH_MAX])
{
	const char *path;
	bool found = false;
	size_t len;
	char *data = rootfs_read(fs, LDCACHE_FILE, CACHE_CAP, &len);

	path = data ? ldcache_find(data, len, name) : NULL;
	if (path && snprintf(out, PATH_MAX, "%s", path) < PATH_MAX)
		found = rootfs_is_file(fs, out);
	free(data);
	return found;
}

/* Debian's loader searches the folders of its machine type, others lib64. */
static bool find_in_own(struct rootfs *fs, const char *name, char out[PATH_MAX])
{
	const char *const dirs[] = { multiarch + 4, multiarch, "/lib", "/usr/lib" };
	const char *const dirs64[] = { "/lib64", "/usr/lib64" };
	bool debian = rootfs_is_dir(fs, multiarch);
	size_t n = debian ? 4 : 2;

	for (size_t i = 0; i < n; i++) {
		const char *dir = debian ? dirs[i] : dirs64[i];

		if (is_there(fs, dir, strlen(dir), name, out))
			return true;
	}
	return false;
}

/* The link data of the library at @caller, and its folder; NULL if it is no library. */
static struct elflink *read_caller(struct rootfs *fs, const char *caller, char origin[PATH_MAX])
{
	const char *slash = caller ? strrchr(caller, '/') : NULL;
	struct elflink *l = NULL;
	int fd = slash ? rootfs_fd(fs, caller, NULL) : -1;

	if (fd < 0)
		return NULL;
	snprintf(origin, PATH_MAX, "%.*s", (int)(slash - caller), caller);
	if (elflink_open(fd, &l, NULL))
		l = NULL;
	close(fd);
	return l;
}

static bool loader_search(struct rootfs *fs, const char *given, const char *caller,
			  const char *name, char out[PATH_MAX])
{
	const char *here;
	char cwd[PATH_MAX], origin[PATH_MAX];
	struct elflink *l;
	bool found;

	*out = 0;
	if (strchr(name, '/')) {
		found = *name == '/' && strlen(name) < PATH_MAX && rootfs_is_file(fs, name);
		snprintf(out, PATH_MAX, "%s", found ? name : "");
		return found;
	}
	/* The calling process's folder is unknown: this process's replaces it. */
	here = rootfs_is_live(fs) ? getcwd(cwd, sizeof(cwd)) : NULL;
	l = read_caller(fs, caller, origin);
	found = (l && loader_find_in(fs, l->rpath, ":", origin, here, name, out)) ||
		loader_find_in(fs, given, ":;", NULL, here, name, out) ||
		(l && loader_find_in(fs, l->runpath, ":", origin, here, name, out)) ||
		find_in_cache(fs, name, out) || find_in_own(fs, name, out);
	free(l);
	if (!found)
		*out = 0;
	return found;
}

bool loader_find(struct rootfs *fs, const char *caller, const char *name, char out[PATH_MAX])
{
	return loader_search(fs, rootfs_is_live(fs) ? conf_env("LD_LIBRARY_PATH") : NULL,
			     caller, name, out);
}

bool loader_find_plain(struct rootfs *fs, const char *caller, const char *name,
		       char out[PATH_MAX])
{
	return loader_search(fs, NULL, caller, name, out);
}

bool loader_is_runtime(const char *name)
{
	static const char *const names[] = { "libc.so",       "libm.so",      "libdl.so",
					     "libpthread.so", "librt.so",     "libutil.so",
					     "libgcc_s.so",   "libstdc++.so", "ld-linux" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

bool loader_needs(struct rootfs *fs, const char *caller, const char *name)
{
	char origin[PATH_MAX];
	struct elflink *l = read_caller(fs, caller, origin);
	bool needs = false;

	for (int i = 0; l && i < l->needed_count; i++)
		needs |= !strcmp(l->needed[i], name);
	free(l);
	return needs;
}
