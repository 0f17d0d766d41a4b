/* misfits.c - find what breaks a framework's import, and packages incompatible with it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/misfits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "base/shell.h"
#include "detect/dist.h"
#include "detect/lookup.h"
#include "detect/override.h"
#include "detect/refused.h"
#include "detect/requires.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"
#include "rebuild/jsonrecord.h"
#include "rebuild/versions.h"

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

/* The distributions in the same site-packages as framework @f; dist_free() them. */
static struct dists beside(struct rootfs *fs, const json_t *f)
{
	const char *location = jsonio_string(f, "location");
	const char *slash = strrchr(location, '/');
	struct dists found = { 0 };
	char site[PATH_MAX];

	snprintf(site, sizeof(site), "%.*s", slash ? (int)(slash - location) : 0, location);
	if (*site)
		dist_scan_site(fs, site, &found);
	return found;
}

/* Reports a NumPy whose ABI differs from the one that framework @f was built with. */
static void add_numpy(struct exam *x, struct rootfs *fs, const struct versions *table,
		      const json_t *f)
{
	const char *name = jsonio_string(f, "name"), *version = jsonio_string(f, "version");
	const struct version_fact *fact = versions_ask(table, name, version, "numpy", NULL);
	const char *python = jsonio_string(f, "python");
	char todo[2 * PATH_MAX], word[PATH_MAX];
	struct dists found = { 0 };

	if (fact)
		found = beside(fs, f);
	for (size_t i = 0; i < found.count; i++) {
		const struct dist *d = &found.at[i];

		if (strcmp(d->name, "numpy") || !*d->version ||
		    versions_in(d->version, fact->value))
			continue;
		exam_add(x, EXAM_BAD,
			 "numpy %s of %s does not fit %s %s, which was built with numpy %s",
			 d->version, python, name, version, fact->value);
		snprintf(todo, sizeof(todo), "%s -m pip install 'numpy<2'",
			 shell_word(python, word, sizeof(word)));
		exam_why(x, fact->note, todo);
	}
	dist_free(&found);
}

/* The exact torch version that distribution @d requires, in @out; false if it requires none. */
static bool exact_torch(struct rootfs *fs, const struct dist *d, char out[64])
{
	char dir[PATH_MAX], path[PATH_MAX];
	size_t len;
	char *data = *d->folder && rootfs_join(dir, d->site, d->folder) &&
				     rootfs_join(path, dir, "METADATA")
			     ? rootfs_read(fs, path, 1 << 20, &len)
			     : NULL;
	const char *at = data ? strstr(data, "\nRequires-Dist: torch") : NULL;

	*out = 0;
	/* "torch==2.8.0", and "torch (==2.8.0)" of older tools; not "torchaudio" */
	if (at)
		at += strlen("\nRequires-Dist: torch");
	if (at && at[strspn(at, " (")] == '=')
		snprintf(out, 64, "%.*s", (int)strspn(at + strspn(at, " (="), "0123456789."),
			 at + strspn(at, " (="));
	free(data);
	return *out;
}

/* Reports packages built for another torch than @torch: torchvision, torchaudio. */
static void add_companions(struct exam *x, struct rootfs *fs, const json_t *torch)
{
	const char *version = jsonio_string(torch, "version"),
		   *python = jsonio_string(torch, "python");
	struct dists found = beside(fs, torch);
	char want[64], todo[2 * PATH_MAX], word[PATH_MAX];
	int plain = (int)strcspn(version, "+");

	for (size_t i = 0; i < found.count; i++) {
		const struct dist *d = &found.at[i];

		if (strncmp(d->name, "torch", 5) || !d->name[5] || !exact_torch(fs, d, want) ||
		    ((int)strlen(want) == plain && !strncmp(want, version, (size_t)plain)))
			continue;
		exam_add(x, EXAM_BAD, "%s %s of %s was built for torch %s, and this is %s",
			 d->name, d->version, python, want, version);
		snprintf(todo, sizeof(todo),
			 "%s -m pip install --upgrade --force-reinstall %s torch==%.*s",
			 shell_word(python, word, sizeof(word)), d->name, plain, version);
		exam_why(x,
			 "its operators are missing or crash (operator torchvision::nms does "
			 "not exist)",
			 todo);
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

/* The number that a plug-in of JAX below @jax has in its metadata, if another than jaxlib's. */
static void add_jax_plugins(struct exam *x, struct rootfs *fs, const json_t *jax)
{
	const char *version = jsonio_string(jax, "version");
	struct dists found = beside(fs, jax);

	for (size_t i = 0; i < found.count; i++) {
		const struct dist *d = &found.at[i];

		if (strncmp(d->name, "jax-", 4) || !*version || !*d->version ||
		    (!strstr(d->name, "-plugin") && !strstr(d->name, "-pjrt")) ||
		    !release_compare(d->version, version))
			continue;
		exam_add(x, EXAM_BAD, "%s %s of %s does not fit jaxlib %s", d->name, d->version,
			 jsonio_string(jax, "python"), version);
		exam_why(x, "JAX ignores a plug-in of another version, and computes on the CPU",
			 "install jax, jaxlib and the plug-ins in the same version");
	}
	dist_free(&found);
}

/* Reports a C or C++ library that is older than the framework @f needs. */
static void add_too_old(struct exam *x, struct rootfs *fs, const json_t *f)
{
	static const struct {
		const char *field, *library, *prefix;
	} all[] = { { "glibcxx", "libstdc++.so.6", "GLIBCXX_" },
		    { "glibc", "libc.so.6", "GLIBC_" } };
	const json_t *needs = json_object_get(f, "needs");
	const json_t *y = jsonrecord_find(json_object_get(x->facts, "pythons"), "path",
					  jsonio_string(f, "python"));
	char first[PATH_MAX] = "", has[64], path[PATH_MAX];

	/* conda's Python is linked so that its environment's libraries come first. */
	if (!strcmp(jsonio_string(y, "kind"), "conda"))
		(void)rootfs_join(first, jsonio_string(y, "prefix"), "lib");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *want = jsonio_string(needs, all[i].field);

		if (!*want ||
		    !override_newest(fs, jsonio_string(f, "library"), first, all[i].library,
				     all[i].prefix, has, path) ||
		    release_compare(has, want) >= 0)
			continue;
		exam_add(x, EXAM_BAD, "%s %s of %s cannot be imported: it needs %s%s",
			 jsonio_string(f, "name"), jsonio_string(f, "version"),
			 jsonio_string(f, "python"), all[i].prefix, want);
		snprintf(first, sizeof(first), "%.3000s only has symbols up to %s%s", path,
			 all[i].prefix, has);
		exam_why(x, first,
			 i ? "use a newer distribution or an older framework"
			   : "conda install -c conda-forge libstdcxx-ng, or use a newer "
			     "distribution");
		return;
	}
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

/* A framework whose requirements are looked at. */
struct asking {
	struct exam *x;
	struct rootfs *fs;
	const json_t *framework, *python;
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
	const char *dirs = exam_is_live(a->x) ? conf_env("PYTHONPATH") : NULL;
	char dir[PATH_MAX];
	json_t *site;
	size_t i, n;

	json_array_foreach(json_object_get(a->python, "sites"), i, site)
		if (is_module_in(a->fs, json_string_value(site), module))
			return true;
	for (; dirs && *dirs; dirs += n + (dirs[n] == ':')) {
		n = strcspn(dirs, ":");
		text_copy(dir, sizeof(dir), dirs, n);
		if (*dir == '/' && is_module_in(a->fs, dir, module))
			return true;
	}
	return false;
}

/* The version of the distribution @name that the framework's Python finds first; "": none. */
static void installed(const struct asking *a, const char *name, char version[64])
{
	json_t *site;
	size_t i;

	*version = 0;
	json_array_foreach(json_object_get(a->python, "sites"), i, site) {
		struct dists found = { 0 };

		if (*version)
			break;
		dist_scan_site(a->fs, json_string_value(site), &found);
		for (size_t k = 0; k < found.count; k++)
			if (!strcmp(found.at[k].name, name))
				text_set(version, 64, found.at[k].version);
		dist_free(&found);
	}
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
	char version[64], todo[2 * PATH_MAX], word[PATH_MAX];
	const char *why = "the framework imports that package at startup";

	if (!m)
		return true;
	installed(a, r->name, version);
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

/* Reports packages that framework @f imports and that are missing or of another version than it
 * requires. */
static void add_required(struct exam *x, struct rootfs *fs, const json_t *f)
{
	const char *python = jsonio_string(f, "python");
	struct asking a = {
		x, fs, f, jsonrecord_find(json_object_get(x->facts, "pythons"), "path", python)
	};
	struct dists found = beside(fs, f);
	char series[16] = "";

	snprintf(series, sizeof(series), "%s", jsonio_string(a.python, "version"));
	for (size_t i = 0; i < found.count; i++)
		if (!strcmp(found.at[i].name, jsonio_string(f, "distribution")))
			requires_each(fs, &found.at[i], series, see_requirement, &a);
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

int misfits_add(struct exam *x, const json_t *list, struct err *e)
{
	static const char *const below[] = { "lib", "", "python" };
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
		const char *name = jsonio_string(o, "name");
		char dir[PATH_MAX], why[OVERRIDE_WHY], todo[PATH_MAX + 128];
		bool by_path;

		if (!strcmp(name, "tensorflow"))
			add_keras(x, &table, o);
		if (!strcmp(name, "jaxlib"))
			add_jax_plugins(x, &fs, o);
		if (!strcmp(name, "jax"))
			add_jaxlib(x, o);
		if (!strcmp(name, "torch"))
			add_companions(x, &fs, o);
		if (!strcmp(name, "tensorflow") || !strcmp(name, "jaxlib"))
			add_avx(x, &fs, o);
		add_numpy(x, &fs, &table, o);
		add_required(x, &fs, o);
		add_too_old(x, &fs, o);
		for (size_t k = 0; k < sizeof(below) / sizeof(below[0]); k++) {
			if (!rootfs_join(dir, jsonio_string(o, "location"), below[k]))
				continue;
			if (add_refused(x, &fs, o, dir))
				break;
			if (override_judge(&fs, dir, why, &by_path))
				continue;
			exam_add(x, EXAM_BAD, "%s %s of %s cannot be imported", name,
				 jsonio_string(o, "version"), jsonio_string(o, "python"));
			snprintf(todo, sizeof(todo),
				 "%s -m pip install --force-reinstall %s==%s",
				 jsonio_string(o, "python"), name, jsonio_string(o, "version"));
			exam_why(
				x, why,
				by_path ? "unset LD_LIBRARY_PATH, or remove that folder from it"
					: todo);
			break;
		}
	}
	versions_free(&table);
	rootfs_close(&fs);
out:
	json_decref(problems);
	return rc;
}
