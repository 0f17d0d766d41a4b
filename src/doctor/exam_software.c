/* exam_software.c - examine engine, frameworks, drift, and results of ringup-init. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "base/shell.h"
#include "config.h"
#include "detect/dist.h"
#include "detect/lookup.h"
#include "detect/override.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"
#include "rebuild/drift.h"
#include "rebuild/jsonrecord.h"
#include "rebuild/modules.h"
#include "rebuild/package.h"
#include "rebuild/versions.h"

enum { MAX_STATUS = 1 << 20 };

/* Adds a line such as "self, node, tcp; with RINGUP_BACKEND=mpi: Open MPI 4.1.4". */
static void add_backends(struct exam *x, const struct modules_state *states, int n)
{
	char line[512] = "", mpis[256] = "";
	size_t at = 0, in = 0;

	for (int i = 0; i < n && in <= sizeof(mpis) - 64; i++)
		if (!states[i].why)
			in += (size_t)snprintf(
				mpis + in, sizeof(mpis) - in, "%s%.20s %.30s", in ? ", " : "",
				lookup_mpi_title(states[i].flavour), states[i].version);
	for (int i = 0; backends[i]; i++)
		if (!backends[i]->named_only)
			at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%s",
					       at ? ", " : "", backends[i]->name);
	exam_add(x, EXAM_GOOD, "back ends: %s%s%s", line,
		 *mpis ? "; with RINGUP_BACKEND=mpi: " : "", mpis);
}

static void add_impossible(struct exam *x, const struct modules_state *states, int n,
			   const char *folder)
{
	for (int i = 0; i < n; i++) {
		if (states[i].fate == MODULES_MISSING && !file_exists(x->root, folder)) {
			exam_add(x, EXAM_NOTE, "%s %s has no ringup module",
				 lookup_mpi_title(states[i].flavour), states[i].version);
			exam_why(x, "only jobs with RINGUP_BACKEND=mpi need one",
				 "ringup rebuild --engine ringup");
		}
		if (states[i].fate != MODULES_IMPOSSIBLE)
			continue;
		exam_add(x, EXAM_NOTE, "the back end mpi cannot use %s %s",
			 lookup_mpi_title(states[i].flavour), states[i].version);
		exam_why(x, states[i].why, NULL);
	}
}

int exam_engine(struct exam *x, struct err *e)
{
	const json_t *library = lookup_entry(x->facts, "engines", "", "ringup");
	const char *version = jsonio_string(library, "version");
	struct modules_state *states;
	char folder[PATH_MAX], wheel[PATH_MAX] = "";
	int n, rc = modules_folder(folder, x->root, e);

	if (rc)
		return rc;
	if (exam_is_live(x))
		package_of_wheel(wheel);
	if (*wheel) {
		exam_add(x, EXAM_GOOD, "ringup " PACKAGE_VERSION ", %s", wheel);
	} else if (!library) {
		exam_add(x, EXAM_NOTE,
			 "this is ringup " PACKAGE_VERSION
			 "; the dynamic loader cannot find libringup.so.0");
		exam_why(
			x, "programs that link with -lringup do not start",
			"install it in a folder that /etc/ld.so.conf lists, then run ldconfig");
	} else if (*version && strcmp(version, PACKAGE_VERSION) && exam_is_live(x)) {
		exam_add(x, EXAM_BAD, "this is ringup " PACKAGE_VERSION ", but %s is %s",
			 jsonio_string(library, "library"), version);
		exam_why(x, "the command and the ranks of a job use different releases",
			 "install both from one release, then run ldconfig");
	} else {
		exam_add(x, EXAM_GOOD, "ringup %s, %s",
			 *version ? version : "of unknown version",
			 jsonio_string(library, "library"));
	}
	n = modules_states(x->root, folder, "", x->facts, &states);
	add_backends(x, states, n);
	add_impossible(x, states, n, folder);
	free(states);
	return 0;
}

static const char *version_of(const json_t *facts, const char *python)
{
	return jsonio_string(jsonrecord_find(json_object_get(facts, "pythons"), "path", python),
			     "version");
}

/* Adds the engine that serves the framework @f; having none may be intended. */
static void add_framework(struct exam *x, const json_t *f)
{
	const char *name = jsonio_string(f, "name"), *python = jsonio_string(f, "python");
	const json_t *ours = lookup_entry(x->facts, "engines", python, "ringup");
	const json_t *horovod = lookup_entry(x->facts, "engines", python, "horovod");
	const json_t *extension = lookup_extension(horovod, name);
	char todo[2 * PATH_MAX], word[PATH_MAX];

	bool is_served =
		!strcmp(name, "torch") || !strcmp(name, "tensorflow") || !strcmp(name, "jax");

	if (ours && !strcmp(name, "jax") &&
	    versions_in(jsonio_string(f, "version"), JAX_UNSERVED)) {
		snprintf(todo, sizeof(todo), "%s -m pip install --upgrade jax",
			 shell_word(python, word, sizeof(word)));
		exam_add(x, EXAM_NOTE, "%s %s of %s: ringup needs JAX 0.5 or later", name,
			 jsonio_string(f, "version"), python);
		exam_why(x, NULL, todo);
	} else if (is_served && package_too_old(version_of(x->facts, python))) {
		exam_add(x, EXAM_NOTE,
			 "%s %s of %s: Python %s is too old for ringup, which needs 3.8 or "
			 "later",
			 name, jsonio_string(f, "version"), python,
			 version_of(x->facts, python));
	} else if (ours && is_served) {
		exam_add(x, EXAM_GOOD, "%s %s of %s: works with ringup %s", name,
			 jsonio_string(f, "version"), python, jsonio_string(ours, "version"));
	} else if (extension && *jsonio_string(extension, "fault")) {
		drift_command(todo, sizeof(todo), x->root, jsonio_string(horovod, "location"),
			      python, name);
		exam_add(x, EXAM_BAD, "%s %s of %s: Horovod %s cannot be loaded", name,
			 jsonio_string(f, "version"), python,
			 jsonio_string(horovod, "version"));
		exam_why(x, jsonio_string(extension, "fault"), todo);
	} else if (extension) {
		exam_add(x, EXAM_GOOD, "%s %s of %s: works with Horovod %s", name,
			 jsonio_string(f, "version"), python,
			 jsonio_string(horovod, "version"));
	} else if (is_served) {
		snprintf(todo, sizeof(todo),
			 "ringup rebuild --engine ringup --for %s --python %s", name,
			 shell_word(python, word, sizeof(word)));
		exam_add(x, EXAM_NOTE, "%s %s of %s: no engine installed", name,
			 jsonio_string(f, "version"), python);
		exam_why(x, NULL, todo);
	} else {
		exam_add(x, EXAM_GOOD, "%s %s of %s", name, jsonio_string(f, "version"),
			 python);
	}
}

/* Adds a Keras that is not the one that this Python's TensorFlow was made for. */
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
			 "its operators are not found or crash (operator torchvision::nms does "
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
			exam_why(x, "it ends with: Illegal instruction (core dumped)",
				 "give the virtual machine the host's kind of processor, or "
				 "take another machine");
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

/* Adds a C or C++ library that is older than the framework @f needs. */
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

/* Adds what keeps the frameworks themselves from being imported. */
static int add_misfits(struct exam *x, const json_t *list, struct err *e)
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
		if (!strcmp(name, "torch"))
			add_companions(x, &fs, o);
		if (!strcmp(name, "tensorflow") || !strcmp(name, "jaxlib"))
			add_avx(x, &fs, o);
		add_numpy(x, &fs, &table, o);
		add_too_old(x, &fs, o);
		for (size_t k = 0; k < sizeof(below) / sizeof(below[0]); k++) {
			if (!rootfs_join(dir, jsonio_string(o, "location"), below[k]) ||
			    override_judge(&fs, dir, why, &by_path))
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

int exam_frameworks(struct exam *x, struct err *e)
{
	const json_t *list = json_object_get(x->facts, "frameworks");
	json_t *o;
	size_t i;
	int rc = add_misfits(x, list, e);

	const char *home = exam_is_live(x) ? conf_env("PYTHONHOME") : NULL;

	if (rc)
		return rc;
	if (home && *home) {
		exam_add(x, EXAM_NOTE,
			 "PYTHONHOME=%s: every Python looks for its standard library there",
			 home);
		exam_why(x, "a Python of another version does not start", "unset PYTHONHOME");
	}
	json_array_foreach(list, i, o)
		add_framework(x, o);
	if (!json_array_size(list)) {
		exam_add(x, EXAM_NOTE, "no Python environment with a framework found");
		exam_why(x, NULL,
			 "python3 -m venv /opt/venv; /opt/venv/bin/pip install torch; or name "
			 "the environment with --python");
	}
	json_array_foreach(json_object_get(x->facts, "problems"), i, o)
		/* add_framework() has already reported these as faults. */
		if (strncmp(jsonio_string(o, "reason"), "cannot be loaded:", 17))
			exam_add(x, EXAM_NOTE, "%s: %s", jsonio_string(o, "path"),
				 jsonio_string(o, "reason"));
	return 0;
}

int exam_drift(struct exam *x, struct err *e)
{
	json_t *list, *o;
	size_t i;
	int rc = drift_find(x->root, x->facts, &list, e);

	if (rc)
		return rc;
	json_array_foreach(list, i, o) {
		exam_add(x, EXAM_BAD, "%s", jsonio_string(o, "text"));
		exam_why(x, jsonio_string(o, "place"), jsonio_string(o, "command"));
	}
	if (!json_array_size(list))
		exam_add(x, EXAM_GOOD, "every build matches the installed software");
	json_decref(list);
	return 0;
}

/* A member of status.json, fit for display. */
static const char *told(const json_t *status, const char *key, char out[256])
{
	text_clean(out, 256, jsonio_string(status, key));
	return out;
}

int exam_init(struct exam *x, struct err *e)
{
	char result[256], cause[256], hint[256], when[256];
	json_t *status = NULL;
	struct err ignored;
	char *data = NULL;
	size_t len;

	(void)e;
	if (file_read(x->root, "/var/lib/ringup/status.json", MAX_STATUS, &data, &len,
		      &ignored)) {
		exam_add(x, EXAM_NOTE, "ringup-init has not run here");
		return 0;
	}
	status = json_loadb(data, len, 0, NULL);
	free(data);
	told(status, "result", result);
	told(status, "written", when);
	if (!json_is_object(status) || !*result) {
		exam_add(x, EXAM_BAD, "/var/lib/ringup/status.json is not a valid status");
		exam_why(x, "the result of ringup-init is unknown", "sudo ringup-init");
	} else if (!strcmp(result, "failed")) {
		exam_add(x, EXAM_BAD, "ringup-init failed at %s: %s", when,
			 told(status, "cause", cause));
		told(status, "hint", hint);
		exam_why(x, NULL, *hint ? hint : "sudo ringup-init");
	} else {
		exam_add(x, strcmp(result, "ok") ? EXAM_NOTE : EXAM_GOOD, "ringup-init: %s, %s",
			 result, when);
	}
	json_decref(status);
	return 0;
}
