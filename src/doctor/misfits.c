/* misfits.c - find what breaks a framework's import, and packages incompatible with it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/misfits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "base/path.h"
#include "base/release.h"
#include "base/shell.h"
#include "detect/dist.h"
#include "detect/lookup.h"
#include "detect/origins.h"
#include "detect/override.h"
#include "detect/pythons.h"
#include "detect/refused.h"
#include "detect/requires.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/dangling.h"
#include "doctor/exam.h"
#include "rebuild/drift.h"
#include "rebuild/jsonrecord.h"
#include "rebuild/versions.h"

/* The folders of a framework that have libraries. */
static const char *const folders[] = { "lib", "", "python" };

/* Reports a Keras that is not the one that this Python's TensorFlow was made for. */
static void add_keras(struct exam *x, const struct versions *table, const json_t *tensorflow)
{
	const char *python = jsonio_string(tensorflow, "python");
	const json_t *keras = lookup_entry(x->facts, "frameworks", python, "keras");
	const char *version = jsonio_string(tensorflow, "version");
	const struct version_fact *f =
		versions_ask(table, "tensorflow", version, "keras", NULL);
	char todo[2 * PATH_MAX], word[PATH_MAX];

	if (!f || !keras || versions_in(jsonio_string(keras, "version"), f->value))
		return;
	exam_add(x, EXAM_BAD, "keras %s of %s does not fit TensorFlow %s, which needs keras %s",
		 jsonio_string(keras, "version"), python, version, f->value);
	snprintf(todo, sizeof(todo), "%s -m pip install 'keras==%.*s.*'",
		 shell_word(python, word, sizeof(word)), (int)strcspn(f->value, "-,"),
		 f->value);
	exam_why(x, "tf.keras imports the installed keras", todo);
}

/* The distributions in the same site-packages as framework @f, which is put in @site and
 * borrowed; dist_free() them. */
static struct dists beside(struct rootfs *fs, const json_t *f, char site[PATH_MAX])
{
	const char *location = jsonio_string(f, "location");
	const char *slash = strrchr(location, '/');
	struct dists found = { 0 };

	snprintf(site, PATH_MAX, "%.*s", slash ? (int)(slash - location) : 0, location);
	if (*site)
		dist_scan_site(fs, site, &found);
	return found;
}

/* A framework whose requirements are looked at. */
struct asking {
	struct exam *x;
	struct rootfs *fs;
	const json_t *framework, *python;
	json_t *path;    /* the folders that the Python imports from, the first one first */
	char series[16]; /* of the Python: "3.11" */
};

static const char *pythonpath(const struct exam *x)
{
	return exam_is_live(x) ? conf_env("PYTHONPATH") : NULL;
}

/* The distribution @name that the framework's Python finds first, after the first @skip folders
 * of its path; "" in its name: none.  Its site belongs to @a. */
static struct dist installed_after(const struct asking *a, const char *name, size_t skip)
{
	struct dist d = { 0 };

	for (size_t i = skip; i < json_array_size(a->path) && !*d.name; i++) {
		struct dists found = { 0 };

		dist_scan_site(a->fs, json_string_value(json_array_get(a->path, i)), &found);
		for (size_t k = 0; k < found.count; k++)
			if (!strcmp(found.at[k].name, name))
				d = found.at[k];
		dist_free(&found);
	}
	return d;
}

static struct dist installed(const struct asking *a, const char *name)
{
	return installed_after(a, name, 0);
}

/* All that is in the folders of its path, also what an earlier one hides. */
static struct dists installed_all(const struct asking *a)
{
	struct dists found = { 0 };
	json_t *dir;
	size_t i;

	json_array_foreach(a->path, i, dir)
		dist_scan_site(a->fs, json_string_value(dir), &found);
	return found;
}

/* Is the folder @dir in the Python's path only by a variable, or for this user?  Then @todo is
 * what takes it out. */
static bool is_put_before(const struct asking *a, const char *dir, char *todo, size_t cap)
{
	const char *dirs = pythonpath(a->x);
	const char *base = exam_is_live(a->x) ? conf_env("PYTHONUSERBASE") : NULL;
	char at[PATH_MAX];

	while (path_next(&dirs, at))
		if (!strcmp(at, dir)) {
			snprintf(todo, cap, "unset PYTHONPATH, or remove %s from it", dir);
			return true;
		}
	if (!strstr(dir, "/.local/lib/python") &&
	    (!base || !*base || strncmp(dir, base, strlen(base))))
		return false;
	snprintf(todo, cap, "export PYTHONNOUSERSITE=1, or remove it from %s", dir);
	return true;
}

/* Reports a NumPy whose ABI differs from the one that the framework was built with. */
static void add_numpy(const struct asking *a, const struct versions *table)
{
	const json_t *f = a->framework;
	const char *name = jsonio_string(f, "name"), *version = jsonio_string(f, "version");
	const struct version_fact *fact = versions_ask(table, name, version, "numpy", NULL);
	const char *python = jsonio_string(f, "python");
	char todo[2 * PATH_MAX], word[PATH_MAX];
	struct dist d = { 0 };

	if (fact)
		d = installed(a, "numpy");
	if (!*d.version || versions_in(d.version, fact->value))
		return;
	exam_add(a->x, EXAM_BAD,
		 "numpy %s of %s does not fit %s %s, which was built with numpy %s", d.version,
		 python, name, version, fact->value);
	if (!is_put_before(a, d.site, todo, sizeof(todo)))
		snprintf(todo, sizeof(todo), "%s -m pip install 'numpy<2'",
			 shell_word(python, word, sizeof(word)));
	exam_why(a->x, fact->note, todo);
}

/* Packages with libraries for one version of a framework, by how their names begin; only an
 * exact requirement is a promise of those for torch. */
static const struct companion {
	const char *framework, *begin, *why;
} companions[] = {
	{ "torch", "torch",
	  "its operators are missing or crash (operator torchvision::nms does not exist)" },
	{ "torch", "xformers",
	  "its operators cannot be loaded (xFormers can't load C++/CUDA)" },
	{ "torch", "vllm", "its import fails: undefined symbol" },
	{ "torch", "fbgemm-gpu", "its import fails: undefined symbol" },
	{ "tensorflow", "tensorflow-text", "its import fails: undefined symbol" },
};

static const struct companion *companion_of(const char *framework, const char *name)
{
	for (size_t i = 0; i < sizeof(companions) / sizeof(companions[0]); i++)
		if (!strcmp(framework, companions[i].framework) && strcmp(framework, name) &&
		    !strncmp(name, companions[i].begin, strlen(companions[i].begin)))
			return &companions[i];
	return NULL;
}

/* What a distribution requires of the framework @name; "" in its name: nothing exact. */
struct wanted {
	const char *name;
	struct requirement is;
};

static bool see_wanted(void *arg, const struct requirement *r)
{
	struct wanted *w = arg;
	bool is_it = !strcmp(r->name, w->name) &&
		     (strcmp(r->name, "torch") || !strncmp(r->versions, "==", 2));

	if (is_it)
		w->is = *r;
	return !is_it;
}

/* Adds why the companion @d does not fit: often another copy of the framework comes first. */
static void why_companion(const struct asking *a, const struct dist *d, const char *why,
			  json_t *reported)
{
	const char *name = jsonio_string(a->framework, "name");
	const char *location = jsonio_string(a->framework, "location");
	const char *by = jsonio_string(a->framework, "distribution"),
		   *python = jsonio_string(a->framework, "python");
	char todo[2 * PATH_MAX], word[PATH_MAX], site[PATH_MAX], path[PATH_MAX], more[1024];
	struct dist hidden = { 0 };
	size_t i, n = json_array_size(a->path);

	snprintf(site, sizeof(site), "%.*s", (int)(strrchr(location, '/') - location),
		 location);
	for (i = 0; i < n && strcmp(json_string_value(json_array_get(a->path, i)), site); i++)
		;
	if (i < n && is_put_before(a, site, todo, sizeof(todo)))
		hidden = installed_after(a, *by ? by : name, i + 1);
	if (*hidden.name) {
		snprintf(more, sizeof(more), "%.400s comes before %.400s, which has %s %s",
			 site, hidden.site, hidden.name, hidden.version);
		if (rootfs_join(path, hidden.site, name))
			json_object_set_new(reported, path, json_true());
		why = more;
	} else if (!is_put_before(a, d->site, todo, sizeof(todo))) {
		snprintf(todo, sizeof(todo),
			 "%s -m pip install --upgrade --force-reinstall %s %s==%.*s",
			 shell_word(python, word, sizeof(word)), d->name, name,
			 (int)strcspn(jsonio_string(a->framework, "version"), "+"),
			 jsonio_string(a->framework, "version"));
	}
	exam_why(a->x, why, todo);
}

/* Reports packages built for another version of the framework: torchvision, torchaudio. */
static void add_companions(const struct asking *a, json_t *reported)
{
	const char *name = jsonio_string(a->framework, "name"),
		   *version = jsonio_string(a->framework, "version"),
		   *python = jsonio_string(a->framework, "python");
	struct dists found = installed_all(a);

	for (size_t i = 0; i < found.count && *version; i++) {
		const struct dist *d = &found.at[i];
		const struct companion *c = companion_of(name, d->name);
		struct wanted w = { .name = name };

		if (!c || strcmp(installed(a, d->name).site, d->site))
			continue;
		requires_each(a->fs, d, a->series, see_wanted, &w);
		if (!*w.is.name || requires_compare(version, w.is.versions) == REQUIRES_FITS)
			continue;
		exam_add(a->x, EXAM_BAD, "%s %s of %s was built for %s %s, and this is %s",
			 d->name, d->version, python, name,
			 w.is.versions + strspn(w.is.versions, "="), version);
		why_companion(a, d, c->why, reported);
	}
	dist_free(&found);
}

/* Reports a processor without AVX, which framework @f needs. */
static void add_avx(struct exam *x, struct rootfs *fs, const json_t *f)
{
	size_t len;
	char *data = rootfs_read(fs, "/proc/cpuinfo", 1 << 24, &len);
	char *flags = data ? strstr(data, "\nflags") : NULL;

	if (flags) {
		flags[strcspn(flags + 1, "\n") + 1] = 0;
		if (!strstr(flags, " avx")) {
			exam_add(x, EXAM_BAD,
				 "%s %s of %s cannot be imported: this processor has no AVX",
				 jsonio_string(f, "name"), jsonio_string(f, "version"),
				 jsonio_string(f, "python"));
			exam_why(
				x, "the import fails with: Illegal instruction (core dumped)",
				"give the virtual machine the host's CPU model, or use another "
				"machine");
		}
	}
	free(data);
}

/* Reports plug-ins of JAX that have another version than this jaxlib. */
static void add_jax_plugins(const struct asking *a)
{
	const char *version = jsonio_string(a->framework, "version");
	struct dists found = installed_all(a);

	for (size_t i = 0; i < found.count; i++) {
		const struct dist *d = &found.at[i];

		if (strncmp(d->name, "jax-", 4) || !*version || !*d->version ||
		    (!strstr(d->name, "-plugin") && !strstr(d->name, "-pjrt")) ||
		    strcmp(installed(a, d->name).site, d->site) ||
		    !release_compare(d->version, version))
			continue;
		exam_add(a->x, EXAM_BAD, "%s %s of %s does not fit jaxlib %s", d->name,
			 d->version, jsonio_string(a->framework, "python"), version);
		exam_why(a->x,
			 "JAX ignores a plug-in of another version, and computes on the CPU",
			 "install jax, jaxlib and the plug-ins in the same version");
	}
	dist_free(&found);
}

/* Reports a jaxlib that is newer than this @jax; older ones require none in their metadata. */
static void add_jaxlib(struct exam *x, const json_t *jax)
{
	const char *python = jsonio_string(jax, "python"),
		   *version = jsonio_string(jax, "version");
	const json_t *jaxlib = lookup_entry(x->facts, "frameworks", python, "jaxlib");
	const char *has = jaxlib ? jsonio_string(jaxlib, "version") : "";
	char todo[2 * PATH_MAX], word[PATH_MAX];

	if (!*has || !*version || release_compare(has, version) <= 0)
		return;
	exam_add(x, EXAM_BAD, "jaxlib %s of %s is newer than jax %s", has, python, version);
	snprintf(todo, sizeof(todo), "%s -m pip install 'jaxlib==%.64s'",
		 shell_word(python, word, sizeof(word)), version);
	exam_why(x, "importing jax fails with: jaxlib is newer than and incompatible with jax",
		 todo);
}

/* Packages that a framework imports at once, and the module of each. */
static const struct imported {
	const char *framework, *package, *module;
} imports[] = {
	{ "torch", "typing-extensions", "typing_extensions" },
	{ "tensorflow", "absl-py", "absl" },
	{ "tensorflow", "astunparse", "astunparse" },
	{ "tensorflow", "flatbuffers", "flatbuffers" },
	{ "tensorflow", "gast", "gast" },
	{ "tensorflow", "h5py", "h5py" },
	{ "tensorflow", "ml-dtypes", "ml_dtypes" },
	{ "tensorflow", "numpy", "numpy" },
	{ "tensorflow", "opt-einsum", "opt_einsum" },
	{ "tensorflow", "packaging", "packaging" },
	{ "tensorflow", "protobuf", "google/protobuf" },
	{ "tensorflow", "six", "six" },
	{ "tensorflow", "termcolor", "termcolor" },
	{ "tensorflow", "typing-extensions", "typing_extensions" },
	{ "tensorflow", "wrapt", "wrapt" },
	{ "keras", "absl-py", "absl" },
	{ "keras", "ml-dtypes", "ml_dtypes" },
	{ "keras", "numpy", "numpy" },
	{ "keras", "optree", "optree" },
	{ "keras", "rich", "rich" },
	{ "jax", "jaxlib", "jaxlib" },
	{ "jax", "ml-dtypes", "ml_dtypes" },
	{ "jax", "numpy", "numpy" },
	{ "jax", "opt-einsum", "opt_einsum" },
};

static bool is_module_in(struct rootfs *fs, const char *dir, const char *module)
{
	char path[PATH_MAX], file[96];

	snprintf(file, sizeof(file), "%s.py", module);
	return (rootfs_join(path, dir, module) && rootfs_is_dir(fs, path)) ||
	       (rootfs_join(path, dir, file) && rootfs_is_file(fs, path));
}

/* Would the framework's Python find @module? */
static bool is_module_there(const struct asking *a, const char *module)
{
	json_t *dir;
	size_t i;

	json_array_foreach(a->path, i, dir)
		if (is_module_in(a->fs, json_string_value(dir), module))
			return true;
	return false;
}

/* The Python that the extensions of @d are for, if it is another one: "3.8" in @is. */
static bool is_of_other(const struct asking *a, const struct dist *d, char is[16])
{
	char tag[64];

	*is = 0;
	if (!*a->series || !dist_tag(a->fs, d, tag) || !pythons_tag(tag, is) ||
	    !strcmp(is, a->series))
		*is = 0;
	return *is;
}

/* The same of the framework itself: by names such as _C.cpython-38-x86_64-linux-gnu.so, or by
 * its distribution. */
static bool is_other(const struct asking *a, char is[16])
{
	static const char mark[] = ".cpython-";
	const char *at, *by = jsonio_string(a->framework, "distribution");
	struct dists found;
	char dir[PATH_MAX], site[PATH_MAX], tag[16];

	*is = 0;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && *a->series; i++) {
		struct names n = { 0 };
		bool is_own = false;

		if (rootfs_join(dir, jsonio_string(a->framework, "location"), folders[i]))
			n = rootfs_names(a->fs, dir, "");
		for (size_t k = 0; k < n.count; k++) {
			at = strstr(n.at[k], mark);
			if (!at || !pythons_tag(at + strlen(mark), tag))
				continue;
			is_own |= !strcmp(tag, a->series);
			text_set(is, 16, tag);
		}
		rootfs_names_free(&n);
		if (is_own)
			*is = 0;
		if (is_own || *is)
			return *is;
	}
	found = beside(a->fs, a->framework, site);
	for (size_t i = 0; i < found.count; i++) {
		const struct dist *d = &found.at[i];

		if (is_of_other(a, d, tag) &&
		    (*by ? !strcmp(d->name, by)
			 : dist_brings(a->fs, d, jsonio_string(a->framework, "name"))))
			text_set(is, 16, tag);
	}
	dist_free(&found);
	return *is;
}

/* Adds why @package in the folder @dir is found, and hides the one at @hidden or "", to a
 * finding about one for another Python. */
static void why_other(const struct asking *a, const char *package, const char *dir,
		      const char *hidden)
{
	const char *dirs = pythonpath(a->x), *python = jsonio_string(a->framework, "python");
	char why[3 * PATH_MAX], todo[3 * PATH_MAX], word[PATH_MAX];

	while (path_next(&dirs, word))
		if (!strcmp(word, dir)) {
			snprintf(
				why, sizeof(why),
				"PYTHONPATH puts %.3000s before the environment's packages%s%s",
				dir, *hidden ? ", and hides " : "", hidden);
			snprintf(todo, sizeof(todo), "unset PYTHONPATH, or remove %s from it",
				 dir);
			exam_why(a->x, why, todo);
			return;
		}
	snprintf(why, sizeof(why), "it is in %s", dir);
	if (!is_put_before(a, dir, todo, sizeof(todo)))
		snprintf(todo, sizeof(todo), "%s -m pip install --ignore-installed %s",
			 shell_word(python, word, sizeof(word)), package);
	exam_why(a->x, why, todo);
}

/* Reports a framework that was built for another Python; false: it was not. */
static bool add_other(const struct asking *a, json_t *reported)
{
	const char *name = jsonio_string(a->framework, "name");
	const char *location = jsonio_string(a->framework, "location");
	char is[16], dir[PATH_MAX], path[PATH_MAX], hidden[PATH_MAX] = "";
	json_t *site;
	size_t i;

	if (!is_other(a, is))
		return false;
	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(location, '/') - location), location);
	json_array_foreach(json_object_get(a->python, "sites"), i, site)
		if (!*hidden && rootfs_join(path, json_string_value(site), name) &&
		    rootfs_is_dir(a->fs, path) && strcmp(path, location))
			text_set(hidden, sizeof(hidden), path);
	exam_add(a->x, EXAM_BAD,
		 "%s %s of %s cannot be imported: it was built for Python %s, not for %s", name,
		 jsonio_string(a->framework, "version"), jsonio_string(a->framework, "python"),
		 is, a->series);
	why_other(a, name, dir, hidden);
	json_object_set_new(reported, hidden, json_true());
	return true;
}

/* Does a framework that requires @r fail with @version?  protobuf promises that code which an
 * older one generated works with the next major version, and no further. */
static bool is_fatal(const char *version, const struct requirement *r, enum requires_fit is)
{
	const char *below = strchr(r->versions, '<');
	int most = below ? atoi(below + 1 + (below[1] == '=')) : 0;

	if (is == REQUIRES_OLDER)
		return true;
	return is == REQUIRES_NEWER && !strcmp(r->name, "protobuf") && most &&
	       atoi(version) > most;
}

static const struct imported *imported_of(const char *framework, const char *package)
{
	for (size_t i = 0; i < sizeof(imports) / sizeof(imports[0]); i++)
		if (!strcmp(imports[i].framework, framework) &&
		    !strcmp(imports[i].package, package))
			return &imports[i];
	return NULL;
}

static bool see_requirement(void *arg, const struct requirement *r)
{
	const struct asking *a = arg;
	const char *name = jsonio_string(a->framework, "name");
	const char *python = jsonio_string(a->framework, "python");
	const struct imported *m = imported_of(name, r->name);
	enum requires_fit is = REQUIRES_FITS;
	char version[64], todo[2 * PATH_MAX], word[PATH_MAX], series[16];
	const char *why = "the framework imports that package at startup";
	struct dist d;

	if (!m)
		return true;
	d = installed(a, r->name);
	if (is_of_other(a, &d, series)) {
		exam_add(a->x, EXAM_BAD,
			 "%s %s of %s cannot be imported: %s %s was built for Python %s, not "
			 "for %s",
			 name, jsonio_string(a->framework, "version"), python, r->name,
			 d.version, series, a->series);
		why_other(a, r->name, d.site, "");
		return true;
	}
	text_set(version, sizeof(version), d.version);
	if (*version)
		is = requires_compare(version, r->versions);
	/* add_jaxlib() reports it, also where the metadata do not. */
	if (is == REQUIRES_NEWER && !strcmp(r->name, "jaxlib"))
		return true;
	if (!is_module_there(a, m->module)) {
		exam_add(a->x, EXAM_BAD, "%s %s of %s cannot be imported: %s is not installed",
			 name, jsonio_string(a->framework, "version"), python, r->name);
	} else if (is != REQUIRES_FITS) {
		bool fatal = is_fatal(version, r, is);

		why = !fatal ? "the framework's developers do not support this combination"
		      : is == REQUIRES_OLDER
			      ? "the framework uses names that this version lacks"
			      : "this version no longer supports the framework";
		exam_add(a->x, fatal ? EXAM_BAD : EXAM_NOTE,
			 "%s %s of %s does not fit %s %s, which requires %s%s", r->name,
			 version, python, name, jsonio_string(a->framework, "version"), r->name,
			 r->versions);
	} else {
		return true;
	}
	snprintf(todo, sizeof(todo), "%s -m pip install '%s%s'",
		 shell_word(python, word, sizeof(word)), r->name, r->versions);
	exam_why(a->x, why, todo);
	return true;
}

/* A package whose requirements on CUDA's libraries are looked at. */
struct on_cuda {
	const struct asking *a;
	const struct dist *by;
};

/* Reports a package of NVIDIA that is too old or too new.  A framework that requires exactly
 * one version works with newer ones, and what it lacks in older ones is a matter of symbols,
 * but for cuDNN, whose version the framework compares itself. */
static bool see_cuda(void *arg, const struct requirement *r)
{
	const struct on_cuda *c = arg;
	const char *python = jsonio_string(c->a->framework, "python");
	char todo[2 * PATH_MAX], word[PATH_MAX];
	bool is_cudnn = !strncmp(r->name, "nvidia-cudnn", 12),
	     is_range = !strchr(r->versions, '=') || strchr(r->versions, '>');
	enum requires_fit is;
	struct dist d;

	if (strncmp(r->name, "nvidia-", 7) || !*r->versions || (!is_cudnn && !is_range))
		return true;
	d = installed(c->a, r->name);
	is = *d.version ? requires_compare(d.version, r->versions) : REQUIRES_FITS;
	if (is != REQUIRES_OLDER && (is != REQUIRES_NEWER || !is_range))
		return true;
	exam_add(c->a->x, is == REQUIRES_OLDER ? EXAM_BAD : EXAM_NOTE,
		 "%s %s of %s is %s than %s %s needs (%s)", r->name, d.version, python,
		 is == REQUIRES_OLDER ? "older" : "newer", c->by->name, c->by->version,
		 r->versions);
	snprintf(todo, sizeof(todo), "%s -m pip install '%s%s'",
		 shell_word(python, word, sizeof(word)), r->name, r->versions);
	exam_why(c->a->x,
		 is == REQUIRES_OLDER
			 ? "it was built with a newer one, and fails when it first uses a GPU"
			 : "its developers do not support this combination",
		 todo);
	return true;
}

/* Reports packages of CUDA's libraries that do not fit the framework, or a plug-in of it. */
static void add_cuda_packages(const struct asking *a)
{
	const char *distribution = jsonio_string(a->framework, "distribution");
	bool is_jax = !strcmp(jsonio_string(a->framework, "name"), "jax");
	char site[PATH_MAX];
	struct dists found = beside(a->fs, a->framework, site);

	for (size_t i = 0; i < found.count; i++) {
		struct on_cuda c = { a, &found.at[i] };
		bool is_own = !strcmp(c.by->name, distribution) ||
			      (is_jax && !strncmp(c.by->name, "jax-cuda", 8));

		if (is_own)
			requires_each_extra(a->fs, c.by, a->series, see_cuda, &c);
	}
	dist_free(&found);
}

/* Reports packages that the framework imports and that are missing, or of another version than
 * it requires. */
static void add_required(struct asking *a)
{
	char site[PATH_MAX], version[32];
	struct dists found = beside(a->fs, a->framework, site);

	snprintf(version, sizeof(version), "%s", jsonio_string(a->python, "version"));
	for (size_t i = 0; i < found.count; i++)
		if (!strcmp(found.at[i].name, jsonio_string(a->framework, "distribution")))
			requires_each(a->fs, &found.at[i], version, see_requirement, a);
	dist_free(&found);
}

/* Reports a library of framework @f that the dynamic loader refuses. */
static bool add_refused(struct exam *x, struct rootfs *fs, const json_t *f, const char *dir)
{
	const char *name = jsonio_string(f, "name"), *version = jsonio_string(f, "version"),
		   *python = jsonio_string(f, "python");
	char todo[3 * PATH_MAX], word[PATH_MAX];
	struct refused r;

	if (refused_folder(fs, dir, &r))
		return false;
	exam_add(x, EXAM_BAD, "%s %s of %s cannot be imported: %s", name, version, python,
		 r.kind == REFUSED_MOUNT ? r.path : r.why);
	if (r.kind == REFUSED_STACK)
		snprintf(todo, sizeof(todo),
			 "install a newer %s, or run patchelf --clear-execstack %s", name,
			 shell_word(r.path, word, sizeof(word)));
	else if (r.kind == REFUSED_MOUNT)
		snprintf(todo, sizeof(todo),
			 "mount that file system with exec (mount -o remount,exec), or make "
			 "the environment elsewhere");
	else
		snprintf(todo, sizeof(todo),
			 "%s -m pip install --force-reinstall --no-cache-dir %s==%s",
			 shell_word(python, word, sizeof(word)),
			 *jsonio_string(f, "distribution") ? jsonio_string(f, "distribution")
							   : name,
			 version);
	exam_why(x,
		 r.kind == REFUSED_MOUNT     ? r.why
		 : r.kind == REFUSED_DAMAGED ? "an installation that ran out of space or was "
					       "killed leaves such files"
					     : r.path,
		 todo);
	return true;
}

/* Packages that all install one file, and the one of them that the framework requires. */
struct owners {
	const struct dists *all;
	const char *file; /* below the site */
	struct rootfs *fs;
	char names[256], wanted[320];
	int count;
};

static bool see_owner(void *arg, const struct requirement *r)
{
	struct owners *o = arg;

	for (size_t i = 0; i < o->all->count; i++)
		if (!strcmp(o->all->at[i].name, r->name) &&
		    dist_lists(o->fs, &o->all->at[i], o->file)) {
			snprintf(o->wanted, sizeof(o->wanted), "%s%s", r->name, r->versions);
			return false;
		}
	return true;
}

/* Sets @todo to the command that installs the library of @u again, and adds the packages to its
 * reason if several installed it. */
static void put_again(const struct asking *a, struct override *u, char *todo, size_t cap)
{
	const char *library = u->library;
	struct rootfs *fs = a->fs;
	const json_t *f = a->framework;
	const char *python = jsonio_string(f, "python");
	char word[PATH_MAX], site[PATH_MAX];
	struct dists found = beside(fs, f, site);
	struct owners o = { .all = &found, .fs = fs };
	size_t len = strlen(site);

	shell_word(python, word, sizeof(word));
	if (len && !strncmp(library, site, len) && library[len] == '/')
		o.file = library + len + 1;
	for (size_t i = 0; i < found.count && o.file; i++) {
		size_t at = strlen(o.names);

		if (dist_lists(fs, &found.at[i], o.file) && ++o.count)
			snprintf(o.names + at, sizeof(o.names) - at, " %s", found.at[i].name);
		if (!strcmp(found.at[i].name, jsonio_string(f, "distribution")))
			requires_each(fs, &found.at[i], a->series, see_owner, &o);
	}
	if (!*o.wanted)
		snprintf(todo, cap, "%s -m pip install --force-reinstall %s==%s", word,
			 jsonio_string(f, "name"), jsonio_string(f, "version"));
	else if (o.count > 1)
		snprintf(todo, cap,
			 "%s -m pip uninstall -y%s; %s -m pip install --no-deps '%s'", word,
			 o.names, word, o.wanted);
	else
		snprintf(todo, cap, "%s -m pip install --force-reinstall --no-deps '%s'", word,
			 o.wanted);
	if (o.count > 1)
		snprintf(u->why + strlen(u->why), sizeof(u->why) - strlen(u->why),
			 "; %d packages install that file:%s", o.count, o.names);
	dist_free(&found);
}

/* Reports the first library that the framework, or the Horovod for it, would load and that does
 * not fit. */
static void add_unfit(const struct asking *a, json_t *reported)
{
	struct exam *x = a->x;
	const json_t *f = a->framework;
	const char *name = jsonio_string(f, "name"), *python = jsonio_string(f, "python");
	const json_t *horovod = lookup_entry(x->facts, "engines", python, "horovod");
	const json_t *extension = lookup_extension(horovod, name);
	const char *base = jsonio_string(a->python, "base_prefix");
	char first[PATH_MAX], todo[3 * PATH_MAX], word[PATH_MAX];
	const struct origin *from;
	struct override o;

	/* conda's Python is linked so that its own libraries come first. */
	if (!rootfs_join(first, base, "conda-meta") || !rootfs_is_dir(a->fs, first) ||
	    !rootfs_join(first, base, "lib"))
		*first = 0;
	if (override_judge(a->fs, jsonio_string(f, "location"), first,
			   extension && !*jsonio_string(extension, "fault")
				   ? jsonio_string(extension, "library")
				   : NULL,
			   &o))
		return;
	exam_add(x, EXAM_BAD, "%s %s of %s%s%s cannot be %s%s%s", name,
		 jsonio_string(f, "version"), python, o.is_extension ? ": Horovod " : "",
		 o.is_extension ? jsonio_string(horovod, "version") : "",
		 o.is_extension ? "loaded" : "imported", *o.version ? ": it needs " : "",
		 o.version);
	from = o.kind == OVERRIDE_UNDEFINED ? origins_of(o.symbol) : NULL;
	if (from) {
		snprintf(todo, sizeof(todo), "%s", from->todo);
		snprintf(o.why + strlen(o.why), sizeof(o.why) - strlen(o.why), ": %s",
			 from->why);
	} else if (*o.link)
		snprintf(todo, sizeof(todo), "ln -s %s %s",
			 shell_word(o.target, word, sizeof(word)),
			 shell_word(o.link, first, sizeof(first)));
	else if (o.kind == OVERRIDE_PATH)
		snprintf(todo, sizeof(todo), "unset LD_LIBRARY_PATH, or remove %.*s from it",
			 (int)(strrchr(o.library, '/') - o.library), o.library);
	else if (!strncmp(o.version, "GLIBC_", 6))
		snprintf(todo, sizeof(todo), "use a newer distribution or an older framework");
	else if (strstr(o.library, "/libstdc++."))
		snprintf(todo, sizeof(todo),
			 "conda install -c conda-forge libstdcxx-ng, or use a newer "
			 "distribution");
	else if (o.is_extension)
		drift_command(todo, sizeof(todo), x->root, jsonio_string(horovod, "location"),
			      python, name);
	else
		put_again(a, &o, todo, sizeof(todo));
	exam_why(x, o.why, todo);
	json_object_set_new(reported, o.library, json_true());
}

/* Reports what does not fit framework @f alone, or the packages beside it. */
static void add_misfits(struct asking *a, const struct versions *table, json_t *reported)
{
	struct exam *x = a->x;
	const json_t *f = a->framework;
	const char *name = jsonio_string(f, "name");
	char dir[PATH_MAX];

	if (dangling_add(x, a->fs, f, reported) || add_other(a, reported))
		return;
	if (!strcmp(name, "tensorflow"))
		add_keras(x, table, f);
	if (!strcmp(name, "jaxlib"))
		add_jax_plugins(a);
	if (!strcmp(name, "jax"))
		add_jaxlib(x, f);
	add_companions(a, reported);
	if (!strcmp(name, "tensorflow") || !strcmp(name, "jaxlib"))
		add_avx(x, a->fs, f);
	add_numpy(a, table);
	add_required(a);
	if (strcmp(name, "jaxlib") != 0)
		add_cuda_packages(a);
	for (size_t k = 0; k < sizeof(folders) / sizeof(folders[0]); k++)
		if (rootfs_join(dir, jsonio_string(f, "location"), folders[k]) &&
		    add_refused(x, a->fs, f, dir))
			return;
	add_unfit(a, reported);
}

int misfits_add(struct exam *x, const json_t *list, json_t *reported, struct err *e)
{
	json_t *problems = json_array(), *o;
	struct versions table = { 0 };
	struct err ignored;
	struct rootfs fs;
	size_t i;
	int rc = rootfs_open(&fs, x->root, problems, e);

	if (rc)
		goto out;
	/* Without its table less is said. */
	(void)versions_load(&table, NULL, &ignored);
	json_array_foreach(list, i, o) {
		struct asking a = { x,
				    &fs,
				    o,
				    jsonrecord_find(json_object_get(x->facts, "pythons"),
						    "path", jsonio_string(o, "python")),
				    json_array(),
				    "" };
		const char *dirs = pythonpath(x);
		char dir[PATH_MAX];
		int before = x->bad;

		while (path_next(&dirs, dir))
			if (*dir == '/')
				json_array_append_new(a.path, json_string(dir));
		json_array_extend(a.path, json_object_get(a.python, "sites"));
		pythons_series(jsonio_string(a.python, "version"), a.series, sizeof(a.series));
		add_misfits(&a, &table, reported);
		json_decref(a.path);
		if (x->bad > before)
			json_object_set_new(reported, jsonio_string(o, "location"),
					    json_false());
	}
	versions_free(&table);
	rootfs_close(&fs);
out:
	json_decref(problems);
	return rc;
}
