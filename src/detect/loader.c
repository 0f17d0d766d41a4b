/* loader.c - the file that the dynamic loader would take for a library's name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "detect/elfinfo.h"
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

/* "$ORIGIN/../lib" with the folder of @caller; as it is if it has none. */
static void expand(const char *dir, size_t len, const char *caller, char out[PATH_MAX])
{
	static const char *const words[] = { "$ORIGIN", "${ORIGIN}" };
	const char *slash = caller ? strrchr(caller, '/') : NULL;
	size_t i, n;

	for (i = 0; slash && i < sizeof(words) / sizeof(words[0]); i++) {
		n = strlen(words[i]);
		if (len >= n && !memcmp(dir, words[i], n)) {
			if (snprintf(out, PATH_MAX, "%.*s%.*s", (int)(slash - caller), caller,
				     (int)(len - n), dir + n) >= PATH_MAX)
				*out = 0;
			return;
		}
	}
	if (snprintf(out, PATH_MAX, "%.*s", (int)len, dir) >= PATH_MAX)
		*out = 0;
}

/* One of the folders of @list, which may be NULL.  An empty one, and what is not absolute,
 * are of the process that asks: those of this one stand for it. */
static bool find_in(struct rootfs *fs, const char *list, const char *separators,
		    const char *caller, const char *name, char out[PATH_MAX])
{
	char dir[PATH_MAX], here[PATH_MAX];
	size_t len;

	*out = 0;
	for (; list && *list; list += len + (list[len] != 0)) {
		len = strcspn(list, separators);
		expand(list, len, caller, dir);
		if (*dir != '/') {
			if (!rootfs_is_live(fs) || !getcwd(here, sizeof(here)) ||
			    snprintf(dir, sizeof(dir), "%s/%.*s", here, (int)len, list) >=
				    (int)sizeof(dir))
				continue;
		}
		if (is_there(fs, dir, strlen(dir), name, out))
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

/* Debian's loader knows the folders of its kind of machine, others lib64. */
static bool find_in_own(struct rootfs *fs, const char *name, char out[PATH_MAX])
{
	const char *const dirs[] = { multiarch + 4, multiarch, "/lib", "/usr/lib" };
	const char *const dirs64[] = { "/lib64", "/usr/lib64" };
	bool debian = rootfs_is_dir(fs, multiarch);
	size_t i, n = debian ? 4 : 2;

	for (i = 0; i < n; i++) {
		const char *dir = debian ? dirs[i] : dirs64[i];

		if (is_there(fs, dir, strlen(dir), name, out))
			return true;
	}
	return false;
}

/* The folders that the library @caller has brought along, and whether they come first. */
static void read_paths(struct rootfs *fs, const char *caller, struct elfinfo *info)
{
	static const char *const none[] = { NULL };
	int fd = caller ? rootfs_fd(fs, caller, NULL) : -1;

	*info = (struct elfinfo){ 0 };
	if (fd < 0)
		return;
	if (elfinfo_read(fd, none, info, NULL))
		*info = (struct elfinfo){ 0 };
	close(fd);
}

bool loader_find(struct rootfs *fs, const char *caller, const char *name, char out[PATH_MAX])
{
	const char *given = rootfs_is_live(fs) ? conf_env("LD_LIBRARY_PATH") : NULL;
	struct elfinfo info;
	bool found;

	*out = 0;
	if (strchr(name, '/')) {
		found = *name == '/' && strlen(name) < PATH_MAX && rootfs_is_file(fs, name);
		snprintf(out, PATH_MAX, "%s", found ? name : "");
		return found;
	}
	read_paths(fs, caller, &info);
	found = (!info.has_runpath && find_in(fs, info.paths, ":", caller, name, out)) ||
		find_in(fs, given, ":;", NULL, name, out) ||
		(info.has_runpath && find_in(fs, info.paths, ":", caller, name, out)) ||
		find_in_cache(fs, name, out) || find_in_own(fs, name, out);
	if (!found)
		*out = 0;
	return found;
}
