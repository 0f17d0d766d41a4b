/* frameworks.c - the list of frameworks, and the search for them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/framework.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/release.h"
#include "detect/elfinfo.h"
#include "detect/ldlibs.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "detect/text.h"

/* In the order of the output. */
#define FRAMEWORKS(X) \
	X(tensorflow) \
	X(torch)      \
	X(keras)      \
	X(jax)        \
	X(mxnet)

#define X(name) extern const struct framework framework_##name;
FRAMEWORKS(X)
#undef X

const struct framework *const frameworks[] = {
#define X(name) &framework_##name,
	FRAMEWORKS(X) NULL,
#undef X
};

enum { FILE_CAP = 1 << 20 };

/* "126" becomes 12.6, "12" stays 12, "92" becomes 9.2. */
static void cuda_dotted(const char *digits, char out[CUDA_TEXT])
{
	size_t n = strspn(digits, "0123456789");

	*out = 0;
	if (n == 2 && digits[0] == '1')
		snprintf(out, CUDA_TEXT, "%.2s", digits);
	else if (n == 2 || n == 3)
		snprintf(out, CUDA_TEXT, "%.*s.%c", (int)n - 1, digits, digits[n - 1]);
}

void frameworks_dist_cuda(const char *name, char out[CUDA_TEXT])
{
	const char *p = strstr(name, "cuda");

	*out = 0;
	if (p)
		p += 4;
	else if ((p = strstr(name, "-cu")))
		p += 3;
	if (p && isdigit((unsigned char)*p))
		cuda_dotted(p, out);
}

void frameworks_cuda(const struct package *p, char out[CUDA_TEXT])
{
	const char *cu = strstr(p->version, "+cu");
	const char *build = p->dist ? strstr(p->dist->build, "cuda") : NULL;

	*out = 0;
	if (cu && isdigit((unsigned char)cu[3])) {
		cuda_dotted(cu + 3, out);
	} else if (*p->meta.cuda_runtime) {
		snprintf(out, CUDA_TEXT, "%s", p->meta.cuda_runtime);
	} else if (build && isdigit((unsigned char)build[4])) {
		/* py3.11_cuda12.1_cudnn8.9.2_0 or cuda112py310h... */
		size_t n = strspn(build + 4, "0123456789.");

		if (memchr(build + 4, '.', n) && n < CUDA_TEXT)
			text_copy(out, CUDA_TEXT, build + 4, n);
		else
			cuda_dotted(build + 4, out);
	}
}

char *frameworks_read(struct rootfs *fs, const struct package *p, const char *file,
		      size_t *lenp)
{
	char path[PATH_MAX];

	return rootfs_join(path, p->location, file) ? rootfs_read(fs, path, FILE_CAP, lenp)
						    : NULL;
}

void frameworks_assigned(struct rootfs *fs, const struct package *p, const char *file,
			 const char *variable, char *out, size_t cap)
{
	size_t len;
	char *data = frameworks_read(fs, p, file, &len);

	if (!data || !text_assigned(data, len, variable, out, cap))
		*out = 0;
	free(data);
}

void frameworks_version(struct rootfs *fs, const struct package *p, char *out, size_t cap)
{
	const struct version_source *s;

	*out = 0;
	for (s = p->framework->versions; s->file && !*out; s++)
		frameworks_assigned(fs, p, s->file, s->variable, out, cap);
}

int frameworks_standard(const struct package *p)
{
	const struct standard_since *s;

	for (s = p->framework->standards; *p->version && s->from; s++)
		if (release_compare(p->version, s->from) >= 0)
			return s->standard;
	return 0;
}

/* The evidence of a library that several Pythons share is read once. */
struct seen {
	char path[PATH_MAX];
	struct elfinfo info;
};

struct hunt {
	struct rootfs *fs;
	const struct ldlibs *libs;
	json_t *found;
	struct seen last;
};

/* Reads the evidence of @path; false if it is missing or unusable. */
static bool library_examine(struct hunt *h, const struct package *p, const char *path,
			    struct elfinfo *info)
{
	char real[PATH_MAX];
	const char *below = NULL;
	struct err e = { 0 };
	size_t size, n = strlen(p->site);
	int fd, rc;

	if (!rootfs_is_file(h->fs, path) || !rootfs_real(h->fs, path, real))
		return false;
	if (!strcmp(real, h->last.path)) {
		*info = h->last.info;
		return true;
	}
	fd = rootfs_fd(h->fs, path, &size);
	if (fd < 0)
		return false;
	rc = elfinfo_read(fd, p->framework->spaces, info, &e);
	close(fd);
	if (!strncmp(path, p->site, n) && path[n] == '/')
		below = path + n + 1;
	if (p->dist && below)
		dist_check(h->fs, p->dist, below, size);
	if (rc) {
		rootfs_problem(h->fs, path, "%s", e.text);
		return false;
	}
	text_set(h->last.path, sizeof(h->last.path), real);
	h->last.info = *info;
	return true;
}

/* The first readable library; a distribution's package keeps them among the system's. */
static bool package_library(struct hunt *h, const struct package *p, char *path,
			    struct elfinfo *info)
{
	const char *const *lib, *base, *at;

	for (lib = p->framework->libs; *lib; lib++)
		if (rootfs_join(path, p->location, *lib) && library_examine(h, p, path, info))
			return true;
	if (strstr(p->site, "/dist-packages"))
		for (lib = p->framework->libs; *lib; lib++) {
			base = strrchr(*lib, '/') ? strrchr(*lib, '/') + 1 : *lib;
			for (size_t cursor = 0; (at = ldlibs_next(h->libs, base, &cursor));) {
				snprintf(path, PATH_MAX, "%s", at);
				if (library_examine(h, p, path, info))
					return true;
			}
		}
	*path = 0;
	return false;
}

static json_t *needs_json(const struct elfinfo *info)
{
	json_t *o = json_object();

	json_object_set_new(o, "glibc", text_json(info->glibc));
	json_object_set_new(o, "glibcxx", text_json(info->glibcxx));
	json_object_set_new(o, "cxxabi", text_json(info->cxxabi));
	return o;
}

static void package_describe(struct hunt *h, const struct python *y, const struct package *p)
{
	struct elfinfo info = { .cxx11_abi = -1 };
	char library[PATH_MAX], installer[64] = "none", cuda[CUDA_TEXT];
	int standard = frameworks_standard(p);
	json_t *o = json_object();

	package_library(h, p, library, &info);
	p->framework->cuda(h->fs, p, cuda);
	if (p->dist)
		dist_installer(h->fs, p->dist, installer, sizeof(installer));
	json_object_set_new(o, "name", text_json(p->folder));
	json_object_set_new(o, "version", text_json(p->version));
	json_object_set_new(o, "python", text_json(y->path));
	json_object_set_new(o, "location", text_json(p->location));
	json_object_set_new(o, "cxx11_abi",
			    info.cxx11_abi < 0 ? json_null() : json_integer(info.cxx11_abi));
	json_object_set_new(o, "compiler", text_json(info.compiler));
	json_object_set_new(o, "cxx_standard", standard ? json_integer(standard) : json_null());
	json_object_set_new(o, "cuda", text_json(cuda));
	json_object_set_new(o, "distribution", text_json(p->dist ? p->dist->name : NULL));
	json_object_set_new(o, "installer", text_json(installer));
	json_object_set_new(o, "library", text_json(library));
	json_object_set_new(o, "needs", needs_json(&info));
	json_array_append_new(h->found, o);
}

/* Is @other the conda record of the same installation as @d, or the reverse? */
static bool is_same_install(const struct dist *d, const struct dist *other)
{
	return !strcmp(d->site, other->site) && (*d->build || *other->build);
}

/* Are both the same version?  Files may show less than a distribution, "2.22.0" of
 * "2.22.0.dev20260101", or more, "2.13.0+cpu" of "2.13.0". */
static bool is_same_version(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), len = n < m ? n : m;
	const char *rest = n < m ? b + len : a + len;

	return !strncmp(a, b, len) && !isdigit((unsigned char)*rest) &&
	       (*rest != '.' || !isdigit((unsigned char)rest[1]));
}

/* Does @d have the version of the files of @p? */
static bool fits_files(struct hunt *h, const struct package *p, const struct dist *d)
{
	char own[64] = "";

	p->framework->version(h->fs, p, own, sizeof(own));
	return text_is_version(own) && is_same_version(own, d->version);
}

static const char *dist_folder(const struct framework *fw, const char *dist)
{
	const struct edition *ed;

	for (ed = fw->editions; ed->dist; ed++)
		if (!strcmp(ed->dist, dist))
			return ed->folder;
	return NULL;
}

/* Takes @d, which claims @folder of @p in @path, as the package's, or reports a problem. */
static void package_claim(struct hunt *h, struct package *p, const struct dist *d,
			  const char *path)
{
	if (!p->dist) {
		p->dist = d;
		p->site = *p->origin ? p->origin : d->site;
		text_set(p->location, sizeof(p->location), path);
	} else if (strcmp(d->site, p->dist->site)) {
		rootfs_problem(h->fs, path, "%s %s is hidden by the one in %s%s", d->name,
			       d->version, p->site,
			       strstr(p->site, "/.local/lib/python")
				       ? ", which this user installed: set "
					 "PYTHONNOUSERSITE=1, or uninstall it"
				       : "");
	} else if (!is_same_install(d, p->dist)) {
		rootfs_problem(h->fs, path, "both %s %s and %s %s claim to have installed it",
			       p->dist->name, p->dist->version, d->name, d->version);
		if (fits_files(h, p, d) && !fits_files(h, p, p->dist))
			p->dist = d;
	} else if (*p->dist->build && !*d->build) {
		p->dist = d; /* has more data than conda's record */
	}
}

/* Finds the distribution of @folder: the first whose folder really exists. */
static void package_find_claims(struct hunt *h, const struct python *y, const char *folder,
				struct package *p)
{
	char path[PATH_MAX], source[PATH_MAX];

	for (size_t i = 0; i < y->dists.count; i++) {
		const struct dist *d = &y->dists.at[i];
		const char *f = dist_folder(p->framework, d->name);

		if (!f || strcmp(f, folder) || !rootfs_join(path, d->site, folder))
			continue;
		if (rootfs_is_dir(h->fs, path)) {
			package_claim(h, p, d, path);
		} else if (dist_editable(h->fs, d, source) &&
			   rootfs_join(path, source, folder) && rootfs_is_dir(h->fs, path)) {
			if (!p->dist)
				text_set(p->origin, sizeof(p->origin), source);
			package_claim(h, p, d, path);
		} else if (!*d->build && rootfs_join(path, d->site, folder)) {
			/* Meta-packages of conda install no folder. */
			rootfs_problem(
				h->fs, path,
				"%s %s is listed as installed, but this folder is missing",
				d->name, d->version);
		}
	}
}

/* Finds a folder without a distribution: built in place, or copied there. */
static void package_find_bare(struct hunt *h, const struct python *y, const char *folder,
			      struct package *p)
{
	char init[PATH_MAX];

	for (int i = 0; i < y->site_count && !p->site; i++)
		if (rootfs_join(p->location, y->sites[i], folder) &&
		    rootfs_join(init, p->location, "__init__.py") &&
		    rootfs_is_file(h->fs, init))
			p->site = y->sites[i];
}

/* Finds the distribution of a folder that none with a known name claims. */
static void package_find_bringer(struct hunt *h, const struct python *y, struct package *p)
{
	for (size_t i = 0; i < y->dists.count && !p->dist; i++)
		if (!strcmp(y->dists.at[i].site, p->site) &&
		    dist_brings(h->fs, &y->dists.at[i], p->folder))
			p->dist = &y->dists.at[i];
}

/* The version in the files, as an import shows it; else the distribution's. */
static void package_find_version(struct hunt *h, struct package *p)
{
	char own[64] = "";

	if (p->dist) {
		snprintf(p->version, sizeof(p->version), "%s", p->dist->version);
		if (dist_metadata(h->fs, p->dist, &p->meta))
			text_set(p->version, sizeof(p->version), p->meta.version);
	}
	p->framework->version(h->fs, p, own, sizeof(own));
	if (!text_is_version(own) || !*own) {
		if (!text_is_version(p->version))
			*p->version = 0;
		return;
	}
	if (*p->version && !is_same_version(own, p->version))
		rootfs_problem(h->fs, p->location,
			       "its files belong to %s %s, but %s says %s: an interrupted "
			       "installation, or one on top of another; reinstall it",
			       p->folder, own, p->dist->folder, p->version);
	if (!*p->version || !is_same_version(own, p->version))
		text_set(p->version, sizeof(p->version), own);
}

/* Folders of PYTHONPATH come before all installed packages. */
static void package_find_shadow(struct hunt *h, struct package *p)
{
	const char *dirs = rootfs_is_live(h->fs) ? conf_env("PYTHONPATH") : NULL;
	char dir[PATH_MAX], path[PATH_MAX], init[PATH_MAX];

	for (; dirs && *dirs; dirs += strcspn(dirs, ":"), dirs += *dirs == ':') {
		size_t n = strcspn(dirs, ":");

		if (*dirs != '/' || n >= sizeof(dir))
			continue;
		text_copy(dir, sizeof(dir), dirs, n);
		if (!rootfs_join(path, dir, p->folder) ||
		    !rootfs_join(init, path, "__init__.py") || !rootfs_is_file(h->fs, init) ||
		    !strcmp(path, p->location))
			continue;
		if (p->site)
			rootfs_problem(h->fs, p->location,
				       "%s is hidden by the one in %s, which is in PYTHONPATH",
				       p->folder, dir);
		p->dist = NULL;
		text_set(p->origin, sizeof(p->origin), dir);
		p->site = p->origin;
		text_set(p->location, sizeof(p->location), path);
		return;
	}
}

static void package_find(struct hunt *h, const struct python *y, const struct framework *fw,
			 const char *folder)
{
	struct package p = { .framework = fw, .folder = folder };

	package_find_claims(h, y, folder, &p);
	if (!p.dist) {
		package_find_bare(h, y, folder, &p);
		if (p.site)
			package_find_bringer(h, y, &p);
	}
	package_find_shadow(h, &p);
	if (!p.site)
		return;
	package_find_version(h, &p);
	package_describe(h, y, &p);
}

json_t *frameworks_find(struct rootfs *fs, const struct pythons *py, const struct ldlibs *libs)
{
	struct hunt h = { .fs = fs, .libs = libs, .found = json_array() };
	const struct edition *ed, *prev;

	for (int f = 0; frameworks[f]; f++)
		for (int i = 0; i < py->count; i++)
			for (ed = frameworks[f]->editions; ed->dist; ed++) {
				/* Each folder once, at its first edition. */
				for (prev = frameworks[f]->editions;
				     strcmp(prev->folder, ed->folder); prev++)
					;
				if (prev == ed)
					package_find(&h, &py->at[i], frameworks[f], ed->folder);
			}
	return h.found;
}
