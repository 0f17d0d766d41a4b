/* loads.c - predict whether the loader would load a framework's extension into its Python. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/loads.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/release.h"
#include "detect/elfinfo.h"
#include "detect/elflink.h"
#include "detect/ldlibs.h"
#include "detect/loader.h"
#include "detect/pythons.h"
#include "detect/refused.h"
#include "detect/rootfs.h"
#include "detect/text.h"

enum { MAX_LIBRARIES = 96, MAX_FOLDERS = 64 };

/* A library in the order in which the loader meets it. */
struct library {
	char name[256], path[PATH_MAX];
	bool is_package; /* in a Python package, whose maker answers for it */
};

struct hunt {
	const struct loads_case *c;
	char *why;
	char *folders[MAX_FOLDERS]; /* of packages with libraries loaded before */
	size_t folder_count;
	char python_rpath[1024], python_dir[PATH_MAX];
	int machine; /* of the Python; 0: unknown */
	struct library at[MAX_LIBRARIES];
	size_t count;
	bool has_libc;
};

/* The link data of the library at @path; NULL if it is no ELF file. */
static struct elflink *open_library(struct hunt *h, const char *path, int *fd)
{
	struct elflink *l = NULL;
	struct err ignored = { 0 };

	*fd = rootfs_fd(h->c->fs, path, NULL);
	if (*fd >= 0 && elflink_open(*fd, &l, &ignored)) {
		close(*fd);
		*fd = -1;
	}
	return l;
}

static void close_library(struct elflink *l, int fd)
{
	free(l);
	if (fd >= 0)
		close(fd);
}

static void add_folder(struct hunt *h, const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (h->folder_count < MAX_FOLDERS && rootfs_join(path, dir, name) &&
	    rootfs_is_dir(h->c->fs, path)) {
		h->folders[h->folder_count] = strdup(path);
		h->folder_count += !!h->folders[h->folder_count];
	}
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), t = strlen(tail);

	return n >= t && !strcmp(s + n - t, tail);
}

/* Adds the folders of wheels' libraries, which the framework's import loads before. */
static void add_folders(struct hunt *h)
{
	static const char *const below[] = { "lib", "", "python", "lib64" };
	char dir[PATH_MAX], path[PATH_MAX];
	struct names n;

	for (size_t i = 0; h->c->location && i < sizeof(below) / sizeof(below[0]); i++)
		add_folder(h, h->c->location, below[i]);
	n = rootfs_names(h->c->fs, h->c->site, "");
	for (size_t i = 0; i < n.count; i++)
		if (ends_with(n.at[i], ".libs"))
			add_folder(h, h->c->site, n.at[i]);
	rootfs_names_free(&n);
	if (!rootfs_join(dir, h->c->site, "nvidia"))
		return;
	n = rootfs_names(h->c->fs, dir, "");
	for (size_t i = 0; i < n.count; i++)
		if (rootfs_join(path, dir, n.at[i]))
			add_folder(h, path, "lib");
	rootfs_names_free(&n);
}

/* Reads the Python itself: its machine, and its folders for the search. */
static void look_at_python(struct hunt *h)
{
	char real[PATH_MAX];
	struct elflink *l;
	int fd;

	rootfs_real(h->c->fs, h->c->python->path, real);
	l = open_library(h, real, &fd);
	if (l) {
		h->machine = l->file.head.e_machine;
		text_set(h->python_rpath, sizeof(h->python_rpath),
			 *l->rpath ? l->rpath : l->runpath);
	}
	snprintf(h->python_dir, sizeof(h->python_dir), "%.*s", (int)(strrchr(real, '/') - real),
		 real);
	close_library(l, fd);
}

static bool find_in_list(struct hunt *h, const char *list, const char *origin, const char *name,
			 char *out)
{
	return loader_find_in(h->c->fs, list, ":", origin, NULL, name, out);
}

static bool find_in(struct hunt *h, const char *prefix, const char *name, char *out)
{
	char dir[PATH_MAX];

	return rootfs_join(dir, prefix, "lib") && rootfs_join(out, dir, name) &&
	       rootfs_is_file(h->c->fs, out);
}

/* Finds the library @name that @l, whose folder is @origin, would load; false: none. */
static bool find_library(struct hunt *h, const struct elflink *l, const char *origin,
			 const char *name, struct library *out)
{
	const struct python *y = h->c->python;
	char *path = out->path;

	text_set(out->name, sizeof(out->name), name);
	out->is_package = false;
	if (*name == '/')
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX &&
		       rootfs_is_file(h->c->fs, path);
	for (size_t i = 0; i < h->folder_count; i++)
		if (rootfs_join(path, h->folders[i], name) && rootfs_is_file(h->c->fs, path))
			return out->is_package = true;
	/* conda's Python is linked so that its environment's libraries come first. */
	return find_in_list(h, h->python_rpath, h->python_dir, name, path) ||
	       (!strcmp(y->kind, "conda") && find_in(h, y->prefix, name, path)) ||
	       find_in_list(h, l->rpath, origin, name, path) ||
	       find_in_list(h, l->runpath, origin, name, path) ||
	       ldlibs_find(h->c->fs, h->c->libs, name, path) ||
	       find_in(h, y->prefix, name, path) || find_in(h, y->base, name, path);
}

/* "it", or the library on the way to it. */
static const char *subject(const struct library *of, char out[128])
{
	if (of)
		snprintf(out, 128, "it needs %.100s, which", of->name);
	return of ? out : "it";
}

/* Finds the newest version in @l of the same kind as @want: GLIBCXX_3.4.21 for GLIBCXX_3.4.30.
 */
static bool newest_like(const struct elflink *l, const char *want, char out[64])
{
	size_t n = strcspn(want, "0123456789"), i;

	*out = 0;
	for (i = 0; i < l->give_count; i++)
		if (!strncmp(l->gives[i], want, n) && isdigit((unsigned char)l->gives[i][n]) &&
		    (!*out || release_compare(l->gives[i] + n, out + n) > 0))
			text_set(out, 64, l->gives[i]);
	return *out;
}

/* Does the library @give have the version @want?  One without versions satisfies the loader. */
static bool has_version(struct hunt *h, const struct library *of, const struct elfwant *want,
			const struct library *give)
{
	char newest[64], who[128];
	struct elflink *l;
	bool has;
	int fd;

	l = open_library(h, give->path, &fd);
	has = !l || !l->give_count;
	for (size_t i = 0; l && i < l->give_count && !has; i++)
		has = !strcmp(l->gives[i], want->version);
	if (!has)
		snprintf(h->why, LOADS_WHY, "%s needs %s, but %.150s %s%s", subject(of, who),
			 want->version, give->path,
			 newest_like(l, want->version, newest) ? "only has versions up to "
							       : "has no versions",
			 newest);
	close_library(l, fd);
	return has;
}

static struct library *known(struct hunt *h, const char *name)
{
	for (size_t i = 0; i < h->count; i++)
		if (!strcmp(h->at[i].name, name))
			return &h->at[i];
	return NULL;
}

/* Finds and adds the libraries that @l needs, and checks versions; NULL @of: the extension. */
static bool judge_links(struct hunt *h, const struct elflink *l, const char *path,
			const struct library *of)
{
	char origin[PATH_MAX], who[128];
	struct library *to;

	rootfs_real(h->c->fs, path, origin);
	*strrchr(origin, '/') = 0;
	for (int i = 0; i < l->needed_count; i++) {
		const char *name = l->needed[i];

		if (known(h, name) || h->count == MAX_LIBRARIES)
			continue;
		if (find_library(h, l, origin, name, &h->at[h->count])) {
			h->count++;
		} else if (!(of && of->is_package) &&
			   (h->has_libc || !loader_is_runtime(name))) {
			snprintf(h->why, LOADS_WHY,
				 "%s needs %.200s, which the loader cannot find",
				 subject(of, who), name);
			return false;
		}
	}
	for (size_t v = 0; v < l->want_count && !(of && of->is_package); v++) {
		to = known(h, l->wants[v].file);
		if (to && !has_version(h, of, &l->wants[v], to))
			return false;
	}
	return true;
}

/* "mpi_lib_v2.cpython-38-x86_64-linux-gnu.so" is for 3.8. */
static bool judge_name(struct hunt *h, const char *path)
{
	static const char mark[] = ".cpython-";
	const char *tag = strstr(strrchr(path, '/'), mark), *series = h->c->python->series;
	char is[16];

	if (!tag || !pythons_tag(tag + strlen(mark), is) || !strcmp(is, series))
		return true;
	tag += strlen(mark);
	snprintf(h->why, LOADS_WHY, "it was built for Python %s (cpython-%.*s), not for %s", is,
		 (int)strspn(tag, "0123456789"), tag, series);
	return false;
}

static bool judge_machine(struct hunt *h, const struct elflink *l)
{
	if (!h->machine || h->machine == l->file.head.e_machine)
		return true;
	snprintf(h->why, LOADS_WHY,
		 "it was built for another type of processor than its Python");
	return false;
}

static bool judge_abi(struct hunt *h, int fd)
{
	static const char *const names[] = { "old", "new" };
	const struct loads_case *c = h->c;
	struct elfinfo info;
	struct err ignored = { 0 };

	if (c->cxx11_abi < 0 || elfinfo_read(fd, c->spaces, &info, &ignored) ||
	    info.cxx11_abi < 0 || info.cxx11_abi == c->cxx11_abi)
		return true;
	snprintf(h->why, LOADS_WHY,
		 "it was compiled with the %s C++ ABI (_GLIBCXX_USE_CXX11_ABI=%d), and %s with "
		 "the %s one, so its symbols are undefined",
		 names[info.cxx11_abi], info.cxx11_abi, c->title, names[c->cxx11_abi]);
	return false;
}

/* All libraries that it loads, opened for symbol look-ups. */
struct symbols {
	struct hunt *h;
	struct elflink *at[MAX_LIBRARIES];
	int fd[MAX_LIBRARIES];
	size_t count;
	bool is_good;
};

static bool is_symbol_there(void *arg, const char *name)
{
	struct symbols *s = arg;

	if (!elfinfo_is_own(name, strlen(name), s->h->c->spaces))
		return true;
	for (size_t i = 0; i < s->count; i++)
		if (elflink_defines(s->at[i], name))
			return true;
	snprintf(s->h->why, LOADS_WHY, "%s does not define %.200s, which it needs",
		 s->h->c->title, name);
	return s->is_good = false;
}

/* Is each of the framework's names that it uses defined in a library that it links with? */
static bool judge_symbols(struct hunt *h, const struct elflink *l)
{
	struct symbols *s = calloc(1, sizeof(*s));
	bool good, is_linked = false;

	if (!s)
		return true;
	s->h = h;
	s->is_good = true;
	for (size_t i = 0; i < h->count; i++) {
		s->at[s->count] = open_library(h, h->at[i].path, &s->fd[s->count]);
		s->count += s->at[s->count] != NULL;
		is_linked |= h->at[i].is_package;
	}
	/* If not all libraries could be kept, a name may be in one of the rest. */
	if (is_linked && h->count < MAX_LIBRARIES)
		elflink_undefined(l, is_symbol_there, s);
	while (s->count--)
		close_library(s->at[s->count], s->fd[s->count]);
	good = s->is_good;
	free(s);
	return good;
}

/* Judges the extension @l, open at @fd, and then each library that it loads. */
static bool loads_judge_file(struct hunt *h, const struct elflink *l, int fd, const char *path)
{
	if (!judge_machine(h, l) || !judge_abi(h, fd) || !judge_links(h, l, path, NULL))
		return false;
	for (size_t i = 0; i < h->count; i++) {
		int lib;
		struct elflink *of = open_library(h, h->at[i].path, &lib);
		bool good = !of || judge_links(h, of, h->at[i].path, &h->at[i]);

		close_library(of, lib);
		if (!good)
			return false;
	}
	return judge_symbols(h, l);
}

/* Is the file at @path no evidence, since the tree records only its name? */
static bool is_placeholder(const struct loads_case *c, const char *path)
{
	size_t size = 1;
	int fd = rootfs_is_live(c->fs) ? -1 : rootfs_fd(c->fs, path, &size);

	if (fd >= 0)
		close(fd);
	return !size;
}

bool loads_judge(const struct loads_case *c, const char *path, char why[LOADS_WHY])
{
	struct hunt *h = calloc(1, sizeof(*h));
	char libc[PATH_MAX];
	struct elflink *l = NULL;
	struct err e = { 0 };
	struct refused refused;
	bool good;
	int fd;

	*why = 0;
	if (!h)
		return true;
	h->c = c;
	h->why = why;
	good = judge_name(h, path);
	if (!good || is_placeholder(c, path))
		goto out;
	fd = rootfs_fd(c->fs, path, NULL);
	if (fd < 0)
		goto out;
	if (!refused_file(c->fs, path, &refused)) {
		snprintf(why, LOADS_WHY, "%.399s", refused.why);
		good = false;
		close(fd);
		goto out;
	}
	h->has_libc = ldlibs_find(c->fs, c->libs, "libc.so.6", libc);
	add_folders(h);
	look_at_python(h);
	good = !elflink_open(fd, &l, &e);
	if (!good)
		snprintf(why, LOADS_WHY, "it is not a library: %.300s", e.text);
	else
		good = loads_judge_file(h, l, fd, path);
	close_library(l, fd);
	while (h->folder_count)
		free(h->folders[--h->folder_count]);
out:
	free(h);
	return good;
}
