/* override.c - find libraries that a framework would load and that do not fit it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/override.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/release.h"
#include "detect/elflink.h"
#include "detect/loader.h"
#include "detect/origins.h"
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

/* A library that the process has loaded, and the first that needed it. */
struct loaded {
	char *name, *path, *plain; /* plain: its path without LD_LIBRARY_PATH           */
	char *rpath;               /* DT_RPATH; NULL: not read yet, or a DT_RUNPATH     */
	int user;                  /* -1: a file of the framework, or the extension     */
};

struct process {
	struct rootfs *fs;
	const char *location, *first;
	struct loaded *at;
	int count;
	bool lacks_runtime, lacks_other; /* libraries that are needed and not found */
	struct override *out;
};

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

/* Has the library @r->taken, which the one at @path loads as @name, what the user @user needs
 * of it? */
static bool judge_rivals(struct process *p, const char *path, const struct elflink *user,
			 const struct loaded *at, const struct elflink *taken,
			 const struct elflink *own)
{
	struct rivals r = { .taken = taken, .own = own };
	struct override *out = p->out;
	char plain[PATH_MAX];

	if (!own || fits(user, at->name, &r))
		return true;
	out->kind = OVERRIDE_PATH;
	snprintf(out->library, sizeof(out->library), "%s", at->path);
	rootfs_real(p->fs, at->plain, plain);
	snprintf(out->why, sizeof(out->why),
		 "%.160s needs %.127s; LD_LIBRARY_PATH puts %.300s, which lacks it, "
		 "before %.300s, which has it",
		 strrchr(path, '/') + 1, r.name, at->path, plain);
	return false;
}

/* The newest version of @l that begins as @want does up to its number: in @out; or "". */
static void newest_like(const struct elflink *l, const char *want, char out[64])
{
	size_t n = strcspn(want, "0123456789");

	*out = 0;
	for (size_t i = 0; i < l->give_count; i++) {
		const char *v = l->gives[i];

		if (!strncmp(v, want, n) && isdigit((unsigned char)v[n]) &&
		    (!*out || release_compare(v + n, out + n) > 0))
			snprintf(out, 64, "%s", v);
	}
}

/* Does the folder that comes first have the file of @name, but not the link of that name? */
static void find_target(struct process *p, const char *name)
{
	struct override *out = p->out;
	char mark[NAME_MAX + 1];
	struct names n = { 0 };

	snprintf(mark, sizeof(mark), "%.200s.", name);
	if (*p->first)
		n = rootfs_names(p->fs, p->first, mark);
	if (n.count && rootfs_join(out->link, p->first, name) &&
	    !rootfs_is_file(p->fs, out->link)) {
		size_t used = strlen(out->why);

		snprintf(out->target, sizeof(out->target), "%.200s", n.at[n.count - 1]);
		snprintf(out->why + used, sizeof(out->why) - used,
			 "; %.300s has %.80s, but not the link %.80s", p->first, out->target,
			 name);
	} else {
		*out->link = 0;
	}
	rootfs_names_free(&n);
}

/* Has @has, loaded as @at, each symbol version that @user at @path needs of it? */
static bool judge_versions(struct process *p, const char *path, const struct elflink *user,
			   const struct loaded *at, const struct elflink *has)
{
	char newest[64];

	/* A file without any version satisfies the loader. */
	for (size_t i = 0; i < user->want_count && has->give_count; i++) {
		const struct elfwant *w = &user->wants[i];

		if (strcmp(w->file, at->name) || gives(has, w->version) ||
		    has->give_count == ELFLINK_VERSIONS)
			continue;
		newest_like(has, w->version, newest);
		p->out->kind = OVERRIDE_OLD;
		snprintf(p->out->version, sizeof(p->out->version), "%s", w->version);
		snprintf(p->out->library, sizeof(p->out->library), "%s", at->path);
		snprintf(p->out->why, sizeof(p->out->why), "%.160s needs it, and %.300s %s%s",
			 strrchr(path, '/') + 1, at->path,
			 *newest ? "only has symbols up to " : "has no such symbols", newest);
		find_target(p, at->name);
		return false;
	}
	return true;
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

/* Has @has, loaded as @at, all its symbols that @user at @path takes?  Wheels for two CUDAs
 * write one file, and the last one that was installed stays. */
static bool judge_own(struct process *p, const char *path, const struct elflink *user,
		      const struct loaded *at, const struct elflink *has)
{
	const struct origin *from = origins_owned(at->name);
	struct owner o = { .prefix = from ? from->prefix : "", .link = has };

	if (from)
		elflink_undefined(user, is_own_there, &o);
	if (!*o.name)
		return true;
	p->out->kind = OVERRIDE_SYMBOL;
	rootfs_real(p->fs, at->path, p->out->library);
	snprintf(p->out->why, sizeof(p->out->why), "%.160s needs %.127s, which %.300s lacks",
		 strrchr(path, '/') + 1, o.name, p->out->library);
	return false;
}

/* Is the library of CUDA that a wheel of NVIDIA's brings, and that the loader does not find for
 * the one at @path, where torch's import looks, in the packages beside it?  Other names are not
 * judged, unless only a link is missing. */
static bool judge_unfound(struct process *p, const char *path, const char *name)
{
	static const char *const brought[] = { "libcublas",   "libcudart",    "libcudnn",
					       "libcufft",    "libcufile",    "libcupti",
					       "libcurand",   "libcusolver",  "libcusparse",
					       "libnccl.so.", "libnvJitLink", "libnvrtc" };
	char top[PATH_MAX], lib[PATH_MAX], found[PATH_MAX];
	bool is_brought = false, is_there;
	struct names n;

	for (size_t i = 0; i < sizeof(brought) / sizeof(brought[0]); i++)
		is_brought |= !strncmp(name, brought[i], strlen(brought[i]));
	is_there = !rootfs_join(top, p->location, "../nvidia");
	n = rootfs_names(p->fs, top, "");
	for (size_t i = 0; i < n.count && !is_there; i++)
		is_there = rootfs_join(lib, top, n.at[i]) && rootfs_join(found, lib, "lib") &&
			   rootfs_join(lib, found, name) && rootfs_is_file(p->fs, lib);
	rootfs_names_free(&n);
	if (is_there)
		return true;
	p->out->kind = OVERRIDE_GONE;
	snprintf(p->out->why, sizeof(p->out->why),
		 "%.160s needs %.127s, which is not where the loader looks",
		 strrchr(path, '/') + 1, name);
	find_target(p, name);
	return !is_brought && !*p->out->link;
}

static void free_loaded(struct loaded *at)
{
	free(at->name);
	free(at->path);
	free(at->plain);
	free(at->rpath);
}

/* Adds a library to the process; it is not read yet. */
static struct loaded *add_loaded(struct process *p, const char *name, const char *path,
				 const char *plain, int user)
{
	struct loaded new = { strdup(name), strdup(path), strdup(plain), NULL, user };
	struct loaded *at = new.name &&new.path &&new.plain
				    ? array_more(&p->at, &p->count, sizeof(*at))
				    : NULL;

	if (at)
		*at = new;
	else
		free_loaded(&new);
	return at;
}

/* Finds @name for the library @by, by the folders that come before LD_LIBRARY_PATH. */
static bool find_before(struct process *p, int number, bool has_runpath, const char *name,
			char out[PATH_MAX])
{
	char origin[PATH_MAX];

	if (*p->first && rootfs_join(out, p->first, name) && rootfs_is_file(p->fs, out))
		return true;
	while (!has_runpath && number >= 0) {
		const struct loaded *at = &p->at[number];

		snprintf(origin, sizeof(origin), "%.*s",
			 (int)(strrchr(at->path, '/') - at->path), at->path);
		if (loader_find_in(p->fs, at->rpath, ":", origin, NULL, name, out))
			return true;
		number = at->user;
	}
	return false;
}

/* The library that the one numbered @by, whose link data are @user, loads as @name; NULL: none
 * is found. */
static const struct loaded *find_loaded(struct process *p, int number,
					const struct elflink *user, const char *name)
{
	char path[PATH_MAX], plain[PATH_MAX];
	const char *caller = p->at[number].path;

	for (int i = 0; i < p->count; i++)
		if (!strcmp(p->at[i].name, name))
			return &p->at[i];
	if (find_before(p, number, *user->runpath, name, path))
		return add_loaded(p, name, path, path, number);
	if (!loader_find(p->fs, caller, name, path))
		return NULL;
	return add_loaded(p, name, path,
			  loader_find_plain(p->fs, caller, name, plain) ? plain : path, number);
}

/* Does the library that number @i loads as @name fit it? */
static bool judge_needed(struct process *p, int i, const struct elflink *user, const char *name)
{
	const struct loaded *at = find_loaded(p, i, user, name);
	const char *path = p->at[i].path;
	struct opened has, own = { -1, NULL };
	bool good;

	p->lacks_runtime |= !at && loader_is_runtime(name);
	p->lacks_other |= !at && !loader_is_runtime(name);
	if (!at)
		return p->at[i].user >= 0 || judge_unfound(p, path, name);
	has = open_elf(p->fs, at->path);
	if (strcmp(at->path, at->plain))
		own = open_elf(p->fs, at->plain);
	good = !has.link || (judge_rivals(p, path, user, at, has.link, own.link) &&
			     judge_versions(p, path, user, at, has.link) &&
			     judge_own(p, path, user, at, has.link));
	close_elf(&own);
	close_elf(&has);
	return good;
}

static bool judge_loaded(struct process *p, int i)
{
	struct opened o = open_elf(p->fs, p->at[i].path);
	bool good = true;

	if (o.link && *o.link->rpath)
		p->at[i].rpath = strdup(o.link->rpath);
	p->lacks_other |= !o.link || o.link->needed_count == ELFLINK_NEEDED;
	for (int k = 0; good && o.link && k < o.link->needed_count; k++)
		good = judge_needed(p, i, o.link, o.link->needed[k]);
	close_elf(&o);
	return good;
}

/* Symbols that some library has to define, each with the number of the library that needs it.
 */
struct undefined {
	struct need {
		char *name;
		int user;
	} * at;
	int count, user;
	bool known_only;
};

/* C's names are asked for: C++'s are mostly the framework's own, and the Python's program has
 * those of its interface. */
static bool keep_undefined(void *arg, const char *name)
{
	struct undefined *u = arg;
	struct need *n;

	if (!strncmp(name, "_Z", 2) || !strncmp(name, "Py", 2) || !strncmp(name, "_Py", 3) ||
	    (u->known_only && !origins_of(name)))
		return true;
	n = array_more(&u->at, &u->count, sizeof(*n));
	if (n)
		*n = (struct need){ strdup(name), u->user };
	return n && n->name;
}

static void drop_defined(struct undefined *u, const struct elflink *l)
{
	int kept = 0;

	for (int i = 0; i < u->count; i++) {
		if (!u->at[i].name || elflink_defines(l, u->at[i].name))
			free(u->at[i].name);
		else
			u->at[kept++] = u->at[i];
	}
	u->count = kept;
}

/* Does the framework's import surely load the file @name, with all that it needs? */
static bool is_main(const char *name)
{
	static const char *const all[] = {
		"libtorch_cpu.so",   "libtorch_cuda.so",
		"libtorch_hip.so",   "libtorch_python.so",
		"libtorch.so",       "libc10.so",
		"libc10_cuda.so",    "_pywrap_tensorflow_internal.so",
		"xla_extension.so",  "libjax_common.so",
		"libtensorflow_cc.", "libtensorflow_framework."
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strncmp(name, all[i], strlen(all[i])))
			return true;
	return false;
}

/* Does some library of the process define each of C's names that the framework needs?  Python
 * asks the loader to resolve all names at once. */
static bool judge_defined(struct process *p)
{
	const char *preload = rootfs_is_live(p->fs) ? conf_env("LD_PRELOAD") : NULL;
	/* Nothing is known of what an unrecorded library of the system defines. */
	struct undefined u = { .known_only = p->lacks_runtime };
	struct override *out = p->out;
	struct opened o;
	bool good;

	if (p->lacks_other || (preload && *preload))
		return true;
	for (u.user = 0; u.user < p->count; u.user++) {
		const struct loaded *root = &p->at[u.user];

		while (root->user >= 0)
			root = &p->at[root->user];
		if (!is_main(root->name) || loader_is_runtime(p->at[u.user].name))
			continue;
		o = open_elf(p->fs, p->at[u.user].path);
		if (o.link)
			elflink_undefined(o.link, keep_undefined, &u);
		close_elf(&o);
	}
	for (int i = 0; i < p->count && u.count; i++) {
		o = open_elf(p->fs, p->at[i].path);
		if (o.link)
			drop_defined(&u, o.link);
		close_elf(&o);
	}
	good = !u.count;
	if (!good) {
		const char *path = p->at[u.at[0].user].path;

		out->kind = OVERRIDE_UNDEFINED;
		snprintf(out->symbol, sizeof(out->symbol), "%s", u.at[0].name);
		snprintf(out->library, sizeof(out->library), "%s", path);
		snprintf(out->why, sizeof(out->why),
			 "%.160s needs %.127s, which no library that it loads defines",
			 strrchr(path, '/') + 1, out->symbol);
	}
	while (u.count)
		free(u.at[--u.count].name);
	free(u.at);
	return good;
}

/* Adds the libraries in the folder @dir whose names begin with @prefix. */
static void add_roots(struct process *p, const char *dir, const char *prefix)
{
	struct names n = rootfs_names(p->fs, dir, prefix);
	char path[PATH_MAX];

	for (size_t i = 0; i < n.count; i++) {
		const char *so = strstr(n.at[i], ".so");

		/* Not libx.so.debug, which nobody loads. */
		if (so && (!so[3] || (so[3] == '.' && isdigit((unsigned char)so[4]))) &&
		    rootfs_join(path, dir, n.at[i]) && rootfs_is_file(p->fs, path))
			add_loaded(p, n.at[i], path, path, -1);
	}
	rootfs_names_free(&n);
}

/* Adds the libraries of wheels that torch's import loads by their paths before its own: 2.5
 * does not, and libcusparse then takes the libnvJitLink of LD_LIBRARY_PATH; 2.7 does. */
static void add_preloaded(struct process *p)
{
	static const char *const all[][2] = { { "(\"nvjitlink\", \"libnvJitLink",
						"libnvJitLink." },
					      { "(\"cuda_nvrtc\", \"libnvrtc", "libnvrtc." } };
	char top[PATH_MAX], path[PATH_MAX], dir[PATH_MAX];
	char *data = rootfs_join(path, p->location, "__init__.py")
			     ? rootfs_read(p->fs, path, 1 << 20, &(size_t){ 0 })
			     : NULL;
	struct names n = { 0 };

	if (data && rootfs_join(top, p->location, "../nvidia"))
		n = rootfs_names(p->fs, top, "");
	for (size_t i = 0; i < n.count; i++)
		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			if (strstr(data, all[k][0]) && rootfs_join(path, top, n.at[i]) &&
			    rootfs_join(dir, path, "lib"))
				add_roots(p, dir, all[k][1]);
	rootfs_names_free(&n);
	free(data);
}

bool override_judge(struct rootfs *fs, const char *location, const char *first,
		    const char *extension, struct override *out)
{
	static const char *const below[] = { "lib", "", "python" };
	struct process all = { .fs = fs, .location = location, .first = first, .out = out },
		       *p = &all;
	int i, root = 0, own = -1;
	bool good = true;
	char dir[PATH_MAX];

	*out = (struct override){ 0 };
	for (i = 0; i < 3; i++)
		if (rootfs_join(dir, location, below[i]))
			add_roots(p, dir, "");
	add_preloaded(p);
	if (extension) {
		own = p->count;
		add_loaded(p, strrchr(extension, '/') + 1, extension, extension, -1);
	}
	for (i = 0; i < p->count && good; i++) {
		good = judge_loaded(p, i);
		for (root = i; p->at[root].user >= 0;)
			root = p->at[root].user;
	}
	out->is_extension = !good && root == own;
	good = good && judge_defined(p);
	for (i = 0; i < p->count; i++)
		free_loaded(&p->at[i]);
	free(p->at);
	return good;
}

bool override_newest(struct rootfs *fs, const char *caller, const char *name,
		     const char *prefix, char out[64])
{
	char path[PATH_MAX], newest[64];
	struct opened o;

	*out = 0;
	if (!loader_find(fs, caller, name, path))
		return false;
	o = open_elf(fs, path);
	if (o.link) {
		newest_like(o.link, prefix, newest);
		if (*newest)
			snprintf(out, 64, "%s", newest + strlen(prefix));
	}
	close_elf(&o);
	return *out;
}
