/* nccllibs.c - find the copies of NCCL on a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/nccllibs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/nccl_lib.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "detect/cudalibs.h"
#include "detect/elflink.h"
#include "detect/ldlibs.h"
#include "detect/loader.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "detect/text.h"

enum { FLAW = 160 };

static void header_version(struct rootfs *fs, const char *header, char *out, size_t cap)
{
	char major[8], minor[8], patch[8];
	size_t len;
	char *data = rootfs_read(fs, header, 1 << 20, &len);

	*out = 0;
	if (data && text_defined(data, len, "NCCL_MAJOR", major, sizeof(major)) &&
	    text_defined(data, len, "NCCL_MINOR", minor, sizeof(minor)) &&
	    text_defined(data, len, "NCCL_PATCH", patch, sizeof(patch)))
		snprintf(out, cap, "%s.%s.%s", major, minor, patch);
	free(data);
}

static void nccllibs_add(json_t *all, const char *version, const char *library,
			 const char *header, const char *source)
{
	json_t *o = json_object();

	json_object_set_new(o, "version", text_json(version));
	json_object_set_new(o, "library", text_json(library));
	json_object_set_new(o, "header", text_json(header));
	json_object_set_new(o, "source", text_json(source));
	json_array_append_new(all, o);
}

static void add_system(struct rootfs *fs, const struct ldlibs *libs, json_t *all)
{
	static const char *const headers[] = { "/usr/include/nccl.h",
					       "/usr/local/include/nccl.h",
					       "/usr/local/cuda/include/nccl.h",
					       "/usr/local/nccl/include/nccl.h",
					       "/usr/local/nccl2/include/nccl.h",
					       "/opt/nccl/include/nccl.h",
					       NULL };
	char version[64] = "", told[64] = "";
	size_t cursor = 0;
	const char *library = ldlibs_next(libs, "libnccl.so", &cursor), *header = NULL;

	for (int i = 0; headers[i] && !header; i++)
		if (rootfs_is_file(fs, headers[i]))
			header = headers[i];
	if (library)
		ldlibs_version(fs, library, version, sizeof(version));
	if (header)
		header_version(fs, header, told, sizeof(told));
	if (strchr(version, '.') && *told && strcmp(version, told))
		rootfs_problem(fs, header, "this header is for NCCL %s, but %s is NCCL %s",
			       told, library, version);
	if (library || header)
		nccllibs_add(all, strchr(version, '.') ? version : told, library, header,
			     "system");
}

bool nccllibs_version(struct rootfs *fs, const char *library, char *out, char *cuda, size_t cap)
{
	static const char mark[] = "NCCL version ", built[] = "+cuda", digits[] = "0123456789.";
	enum { CHUNK = 1 << 20, KEEP = 64 };
	char *text = malloc(CHUNK + KEEP + 1), *at = NULL;
	size_t size, have = 0;
	ssize_t n;
	int fd = rootfs_fd(fs, library, &size);

	*out = 0;
	if (cuda)
		*cuda = 0;
	while (text && fd >= 0 && !at && (n = read(fd, text + have, CHUNK)) > 0) {
		have += (size_t)n;
		text[have] = 0;
		at = memmem(text, have, mark, sizeof(mark) - 1);
		/* A mark at the end goes on in the next piece. */
		if (at && have - (size_t)(at - text) < KEEP && n == CHUNK)
			at = NULL;
		if (!at && have > KEEP) {
			memmove(text, text + have - KEEP, KEEP);
			have = KEEP;
		}
	}
	if (at) {
		at += sizeof(mark) - 1;
		n = (ssize_t)strspn(at, digits);
		snprintf(out, cap, "%.*s", (int)n, at);
		at += n;
		if (cuda && !strncmp(at, built, sizeof(built) - 1)) {
			at += sizeof(built) - 1;
			snprintf(cuda, cap, "%.*s", (int)strspn(at, digits), at);
		}
	}
	if (fd >= 0)
		close(fd);
	free(text);
	return *out != 0;
}

/* Wheels for several CUDA versions install their library to one path, and the last one wins. Is
 * @library another wheel's already?  Then its entry tells the version that the file has. */
static bool is_twice(struct rootfs *fs, const struct python *y, const struct dist *d,
		     const char *library, const char *header, json_t *all)
{
	char version[64];
	json_t *o;
	size_t i;

	json_array_foreach(all, i, o) {
		if (strcmp(jsonio_string(o, "library"), library) != 0 ||
		    strcmp(jsonio_string(o, "source"), y->path) != 0)
			continue;
		if (!nccllibs_version(fs, library, version, NULL, sizeof(version)) && *header)
			header_version(fs, header, version, sizeof(version));
		rootfs_problem(
			fs, library,
			"both %s %s and another NCCL wheel installed this file, which is NCCL "
			"%s: uninstall both and install the one for torch's CUDA",
			d->name, d->version, *version ? version : "of unknown version");
		if (*version)
			json_object_set_new(o, "version", text_json(version));
		return true;
	}
	return false;
}

static void add_wheels(struct rootfs *fs, const struct python *y, json_t *all)
{
	char dir[PATH_MAX], library[PATH_MAX], header[PATH_MAX];

	for (size_t i = 0; i < y->dists.count; i++) {
		const struct dist *d = &y->dists.at[i];

		if (strncmp(d->name, "nvidia-nccl-cu", 14) ||
		    !rootfs_join(dir, d->site, "nvidia/nccl"))
			continue;
		if (!rootfs_join(library, dir, "lib/libnccl.so.2") ||
		    !rootfs_is_file(fs, library)) {
			rootfs_problem(fs, dir,
				       "%s %s is listed as installed, but has no library",
				       d->name, d->version);
			continue;
		}
		if (!rootfs_join(header, dir, "include/nccl.h") || !rootfs_is_file(fs, header))
			*header = 0;
		if (!is_twice(fs, y, d, library, header, all))
			nccllibs_add(all, d->version, library, header, y->path);
	}
}

json_t *nccllibs_find(struct rootfs *fs, const struct ldlibs *libs, const struct pythons *py)
{
	json_t *all = json_array();

	add_system(fs, libs, all);
	for (int i = 0; i < py->count; i++)
		add_wheels(fs, &py->at[i], all);
	return all;
}

static const char soname[] = "libnccl.so.2";

/* The file that dlopen() of @name opens. */
static bool find_named(struct rootfs *fs, const char *name, char out[PATH_MAX])
{
	if (!strchr(name, '/'))
		return loader_find(fs, NULL, name, out);
	text_set(out, PATH_MAX, name);
	return rootfs_is_file(fs, out);
}

/* The NCCL that LD_PRELOAD loads into every program. */
static bool find_preloaded(struct rootfs *fs, char out[PATH_MAX])
{
	const char *list = rootfs_is_live(fs) ? conf_env("LD_PRELOAD") : NULL, *base;
	char item[PATH_MAX];

	for (; list && *list; list += strcspn(list, " :"), list += *list != 0) {
		text_copy(item, sizeof(item), list, strcspn(list, " :"));
		base = strrchr(item, '/') ? strrchr(item, '/') + 1 : item;
		if (!strncmp(base, "libnccl.so", 10) && find_named(fs, item, out))
			return true;
	}
	return false;
}

/* The library of framework @f that its import loads, and that needs NCCL; false: none. */
static bool find_user(struct rootfs *fs, const json_t *f, char out[PATH_MAX])
{
	static const char *const all[][2] = { { "torch", "lib/libtorch_cuda.so" },
					      { "tensorflow", "libtensorflow_cc.so.2" },
					      { "jax", "../jaxlib/libjax_common.so" },
					      { "jax", "../jaxlib/xla_extension.so" } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(jsonio_string(f, "name"), all[i][0]) &&
		    rootfs_join(out, jsonio_string(f, "location"), all[i][1]) &&
		    loader_needs(fs, out, soname))
			return true;
	text_set(out, PATH_MAX, jsonio_string(f, "library"));
	return loader_needs(fs, out, soname);
}

static bool is_same_file(struct rootfs *fs, const char *a, const char *b)
{
	char real[PATH_MAX], other[PATH_MAX];

	rootfs_real(fs, a, real);
	rootfs_real(fs, b, other);
	return !strcmp(real, other);
}

/* Is it a torch for CUDA?  If it needs no libnccl.so.2, NCCL is linked into it, or left out. */
static bool is_cuda_torch(struct rootfs *fs, const json_t *f)
{
	char path[PATH_MAX];

	return !strcmp(jsonio_string(f, "name"), "torch") &&
	       rootfs_join(path, jsonio_string(f, "location"), "lib/libtorch_cuda.so") &&
	       rootfs_is_file(fs, path);
}

/* The NCCL beside a framework at @location, as backend/nccl_lib.c looks for it. */
static bool find_beside(struct rootfs *fs, const char *location, char path[PATH_MAX])
{
	for (int i = 0; nccl_lib_beside(location, i, path); i++)
		if (rootfs_is_file(fs, path))
			return true;
	return false;
}

/* What keeps a process from using the file; "": nothing that is known.  A recorded tree may
 * have only a part of it. */
static void find_flaw(struct rootfs *fs, const char *library, char flaw[FLAW])
{
	struct elflink *l = NULL;
	struct err e = { 0 };
	int fd = rootfs_is_live(fs) ? rootfs_fd(fs, library, NULL) : -1;

	*flaw = 0;
	if (fd < 0)
		return;
	if (elflink_open(fd, &l, &e))
		snprintf(flaw, FLAW, "%.150s", e.text);
	else if (elffile_is_cut(&l->file))
		snprintf(flaw, FLAW, "the end of the file is missing");
	else if (!elflink_defines(l, "ncclGetVersion"))
		snprintf(flaw, FLAW, "it has no ncclGetVersion");
	free(l);
	close(fd);
}

json_t *nccllibs_choose(struct rootfs *fs, const json_t *framework, const char *told)
{
	char library[PATH_MAX], own[PATH_MAX], user[PATH_MAX],
		why[PATH_MAX + 64] = "", version[64] = "", cuda[64] = "", flaw[FLAW] = "";
	bool is_user = framework && find_user(fs, framework, user), second = false;

	if (find_preloaded(fs, own)) {
		snprintf(why, sizeof(why), "LD_PRELOAD names it");
	} else if (is_user && loader_find(fs, user, soname, library)) {
		rootfs_real(fs, library, own);
		snprintf(why, sizeof(why), "%s needs it", strrchr(user, '/') + 1);
	} else {
		second = framework && !is_user && is_cuda_torch(fs, framework);
		if (!framework || !find_beside(fs, jsonio_string(framework, "location"), own))
			*own = 0;
		else
			snprintf(why, sizeof(why), "%s is beside the framework",
				 strstr(own, "/nvidia/") ? "its wheel" : "conda's");
	}
	text_set(library, sizeof(library), own);
	if (rootfs_is_live(fs) && told && *told) {
		if (find_named(fs, told, library)) {
			snprintf(why, sizeof(why), "RINGUP_NCCL names it");
		} else {
			snprintf(why, sizeof(why), "RINGUP_NCCL names %s, which %s", told,
				 access(told, F_OK) ? "does not exist"
						    : "is not a regular file");
			*library = 0;
		}
	} else if (!*library && loader_find(fs, NULL, soname, library)) {
		snprintf(why, sizeof(why), "the loader finds it");
	}
	if (*library) {
		nccllibs_version(fs, library, version, cuda, sizeof(version));
		find_flaw(fs, library, flaw);
	}
	second = *library && (second || (*own && !is_same_file(fs, own, library)));
	return json_pack("{so so so so so sb}", "library", text_json(library), "version",
			 text_json(version), "cuda", text_json(cuda), "why", text_json(why),
			 "flaw", text_json(flaw), "second", second);
}

enum nccllibs_fit nccllibs_judge(const json_t *chosen, const char *driver, char fault[PATH_MAX])
{
	const char *version = jsonio_string(chosen, "version"),
		   *cuda = jsonio_string(chosen, "cuda"), *why = jsonio_string(chosen, "why"),
		   *oldest = cudalibs_driver_for(cuda);
	char least[NCCL_NUMBER];

	*fault = 0;
	nccl_lib_number(NCCL_LEAST, least);
	if (!*jsonio_string(chosen, "library")) {
		text_set(fault, PATH_MAX, *why ? why : "there is no libnccl.so.2");
		return NCCLLIBS_NONE;
	}
	if (*jsonio_string(chosen, "flaw")) {
		snprintf(fault, PATH_MAX, "it does not load: %s",
			 jsonio_string(chosen, "flaw"));
		return NCCLLIBS_BROKEN;
	}
	if (*version && release_compare(version, least) < 0) {
		snprintf(fault, PATH_MAX, "RINGUP_BACKEND=nccl needs NCCL 2.18 or later");
		return NCCLLIBS_OLD;
	}
	if (!*driver || !*oldest || release_compare(driver, oldest) >= 0)
		return NCCLLIBS_FITS;
	snprintf(fault, PATH_MAX, "needs driver %s for CUDA %s; this node has %s", oldest, cuda,
		 driver);
	return NCCLLIBS_DRIVER;
}
