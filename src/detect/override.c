/* override.c - find libraries that a framework would load and that do not fit it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/override.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/release.h"
#include "detect/elflink.h"
#include "detect/loader.h"
#include "detect/rootfs.h"

struct opened {
	int fd;
	struct elflink *link;
};

/* The library at @path; its link is NULL if it is none. */
static struct opened open_elf(struct rootfs *fs, const char *path)
{
	struct opened o = { .fd = rootfs_fd(fs, path, NULL) };
	struct err ignored;

	if (o.fd >= 0 && elflink_open(o.fd, &o.link, &ignored))
		o.link = NULL;
	return o;
}

static void close_elf(struct opened *o)
{
	free(o->link);
	if (o->fd >= 0)
		close(o->fd);
}

/* The file that LD_LIBRARY_PATH leads to, and the one without it. */
struct rivals {
	const struct elflink *taken, *own;
	char name[128];
};

static bool is_symbol_kept(void *arg, const char *name)
{
	struct rivals *r = arg;

	if (elflink_defines(r->taken, name) || !elflink_defines(r->own, name))
		return true;
	snprintf(r->name, sizeof(r->name), "%s", name);
	return false;
}

static bool gives(const struct elflink *l, const char *version)
{
	for (size_t i = 0; i < l->give_count; i++)
		if (!strcmp(l->gives[i], version))
			return true;
	return false;
}

/* Does @r->taken have all that @user, which needs it as @file, takes from @r->own? */
static bool fits(const struct elflink *user, const char *file, struct rivals *r)
{
	for (size_t i = 0; i < user->want_count; i++) {
		const struct elfwant *w = &user->wants[i];

		/* A file without any version satisfies the loader. */
		if (strcmp(w->file, file) || !r->taken->give_count ||
		    gives(r->taken, w->version) || !gives(r->own, w->version))
			continue;
		snprintf(r->name, sizeof(r->name), "%s", w->version);
		return false;
	}
	elflink_undefined(user, is_symbol_kept, r);
	return !*r->name;
}

static bool judge_needed(struct rootfs *fs, const char *path, const struct elflink *user,
			 const char *name, char *why)
{
	char taken[PATH_MAX], own[PATH_MAX];
	struct opened a, b;
	struct rivals r = { 0 };
	bool good;

	if (!loader_find(fs, path, name, taken) || !loader_find_plain(fs, path, name, own) ||
	    !strcmp(taken, own))
		return true;
	a = open_elf(fs, taken);
	b = open_elf(fs, own);
	r.taken = a.link;
	r.own = b.link;
	good = !a.link || !b.link || fits(user, name, &r);
	if (!good)
		snprintf(why, OVERRIDE_WHY,
			 "%.160s needs %.127s; LD_LIBRARY_PATH puts %.160s, which lacks it, "
			 "before %.160s, which has it",
			 strrchr(path, '/') + 1, r.name, taken, own);
	close_elf(&a);
	close_elf(&b);
	return good;
}

/* The library in question, and the symbols that are surely its own. */
struct owner {
	const struct elflink *link;
	const char *prefix;
	char name[128];
};

static bool is_own_there(void *arg, const char *name)
{
	struct owner *o = arg;

	if (strncmp(name, o->prefix, strlen(o->prefix)) || elflink_defines(o->link, name))
		return true;
	snprintf(o->name, sizeof(o->name), "%s", name);
	return false;
}

/* Has the library that @user at @path needs as @name all its symbols that @user takes?  Wheels
 * for two CUDAs write one file, and the last one that was installed stays. */
static bool judge_own(struct rootfs *fs, const char *path, const struct elflink *user,
		      const char *name, char *why)
{
	static const char *const owners[][2] = { { "libnccl.so.", "nccl" },
						 { "libcupti.so.", "cupti" },
						 { "libnvJitLink.so.", "__nvJitLink" } };
	char taken[PATH_MAX], real[PATH_MAX];

	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++) {
		struct owner o = { .prefix = owners[i][1] };
		struct opened lib;

		if (strncmp(name, owners[i][0], strlen(owners[i][0])) ||
		    !loader_find(fs, path, name, taken))
			continue;
		lib = open_elf(fs, taken);
		o.link = lib.link;
		if (lib.link)
			elflink_undefined(user, is_own_there, &o);
		close_elf(&lib);
		if (!*o.name)
			continue;
		rootfs_real(fs, taken, real);
		snprintf(why, OVERRIDE_WHY, "%.160s needs %.127s, which %.300s lacks",
			 strrchr(path, '/') + 1, o.name, real);
		return false;
	}
	return true;
}

/* Is the library of CUDA that a wheel of NVIDIA's brings where the one at @path looks, or where
 * torch's import does, in the packages beside it?  Other names are not judged. */
static bool judge_found(struct rootfs *fs, const char *path, const char *dir, const char *name,
			char *why)
{
	static const char *const brought[] = { "libcublas",   "libcudart",    "libcudnn",
					       "libcufft",    "libcufile",    "libcupti",
					       "libcurand",   "libcusolver",  "libcusparse",
					       "libnccl.so.", "libnvJitLink", "libnvrtc" };
	char top[PATH_MAX], lib[PATH_MAX], found[PATH_MAX];
	bool is_brought = false, good;
	struct names n;

	for (size_t i = 0; i < sizeof(brought) / sizeof(brought[0]); i++)
		is_brought |= !strncmp(name, brought[i], strlen(brought[i]));
	if (!is_brought || loader_find(fs, path, name, found))
		return true;
	good = !rootfs_join(top, dir, "../../nvidia");
	n = rootfs_names(fs, top, "");
	for (size_t i = 0; i < n.count && !good; i++)
		good = rootfs_join(lib, top, n.at[i]) && rootfs_join(found, lib, "lib") &&
		       rootfs_join(lib, found, name) && rootfs_is_file(fs, lib);
	rootfs_names_free(&n);
	if (!good)
		snprintf(why, OVERRIDE_WHY,
			 "%.160s needs %.127s, which is not where the loader looks",
			 strrchr(path, '/') + 1, name);
	return good;
}

bool override_judge(struct rootfs *fs, const char *dir, char why[OVERRIDE_WHY], bool *by_path)
{
	const char *set = rootfs_is_live(fs) ? conf_env("LD_LIBRARY_PATH") : NULL;
	char path[PATH_MAX];
	bool good = true;
	struct names n;

	*why = 0;
	*by_path = false;
	n = rootfs_names(fs, dir, "lib");
	for (size_t i = 0; i < n.count && good; i++) {
		struct opened o;

		if (!strstr(n.at[i], ".so") || !rootfs_join(path, dir, n.at[i]) ||
		    !rootfs_is_file(fs, path))
			continue;
		o = open_elf(fs, path);
		for (int k = 0; good && o.link && k < o.link->needed_count; k++) {
			const char *name = o.link->needed[k];

			if (set && *set)
				*by_path = !judge_needed(fs, path, o.link, name, why);
			good = !*by_path && judge_own(fs, path, o.link, name, why) &&
			       judge_found(fs, path, dir, name, why);
		}
		close_elf(&o);
	}
	rootfs_names_free(&n);
	return good;
}

bool override_newest(struct rootfs *fs, const char *caller, const char *first, const char *name,
		     const char *prefix, char out[64], char path[PATH_MAX])
{
	size_t n = strlen(prefix);
	struct opened o;

	*out = 0;
	if (!(*first && rootfs_join(path, first, name) && rootfs_is_file(fs, path)) &&
	    !loader_find(fs, caller, name, path))
		return false;
	o = open_elf(fs, path);
	for (size_t i = 0; o.link && i < o.link->give_count; i++) {
		const char *v = o.link->gives[i];

		if (!strncmp(v, prefix, n) && isdigit((unsigned char)v[n]) &&
		    (!*out || release_compare(v + n, out) > 0))
			snprintf(out, 64, "%.63s", v + n);
	}
	close_elf(&o);
	if (!*out)
		*path = 0;
	return *out;
}
