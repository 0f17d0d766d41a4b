/* exam_software.c - examine the engine, the frameworks, drift, and ringup-init's results. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "base/shell.h"
#include "config.h"
#include "detect/dist.h"
#include "detect/loader.h"
#include "detect/lookup.h"
#include "detect/mpilibs.h"
#include "detect/pythons.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"
#include "doctor/imports.h"
#include "doctor/misfits.h"
#include "engine/provider.h"
#include "rebuild/drift.h"
#include "rebuild/jsonrecord.h"
#include "rebuild/modules.h"
#include "rebuild/package.h"
#include "rebuild/versions.h"

enum { MAX_STATUS = 1 << 20 };

/* Reports a line such as "self, node, tcp; with RINGUP_BACKEND=mpi: Open MPI 4.1.4". */
static void add_backends(struct exam *x, const struct modules_state *states, int n)
{
	char line[512] = "", mpis[256] = "";
	struct err e = { 0 };
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
	if (x->conf && providers_check(x->conf->backend, &e)) {
		exam_add(x, EXAM_BAD, "%s", e.text);
		exam_why(x, "initialization fails", "correct it, or unset RINGUP_BACKEND");
	}
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
	if (exam_is_live(x)) {
		exam_places(x);
		exam_launcher(x);
	}
	free(states);
	return 0;
}

static const char *version_of(const json_t *facts, const char *python)
{
	return jsonio_string(jsonrecord_find(json_object_get(facts, "pythons"), "path", python),
			     "version");
}

/* The mpirun beside the library @mpi, or the node's of that flavour; "": unknown. */
static void mpirun_of(struct exam *x, struct rootfs *fs, const char *mpi, const char *flavour,
		      char out[PATH_MAX])
{
	char dir[PATH_MAX];
	const char *is;
	json_t *o;
	size_t i;

	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(mpi, '/') - mpi), mpi);
	dir[strrchr(dir, '/') ? strrchr(dir, '/') - dir : 0] = 0;
	is = rootfs_join(out, dir, "bin/mpirun") ? mpilibs_program(fs, out) : NULL;
	if (is && !strcmp(is, flavour))
		return;
	*out = 0;
	json_array_foreach(json_object_get(x->facts, "mpi"), i, o)
		if (!*out && !strcmp(jsonio_string(o, "flavour"), flavour))
			text_set(out, PATH_MAX, jsonio_string(o, "mpirun"));
}

/* Does the activation of the environment of @python put the program @path first in PATH? */
static bool is_beside(const char *path, const char *python)
{
	size_t n = (size_t)(strrchr(path, '/') - path);

	return !strncmp(path, python, n) && python[n] == '/' && !strchr(python + n + 1, '/');
}

/* Reports a first mpirun in PATH that belongs to another MPI than the library @extension of the
 * package @title, installed for @python, is linked with; true: it does.  A launcher of jobs
 * takes the first one, and such a job does not fail: each rank trains alone.  So it is bad,
 * unless the right one is where activating the environment would put it first. */
static bool add_mpirun(struct exam *x, struct rootfs *fs, const char *extension,
		       const char *title, const char *python)
{
	static const char *const links[][2] = { { "libmpi.so.40", "openmpi" },
						{ "libmpi.so.12", "mpich" } };
	char mpirun[PATH_MAX], found[PATH_MAX], mpi[PATH_MAX], right[PATH_MAX],
		todo[3 * PATH_MAX];

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		const char *is, *flavour = links[i][1], *name = lookup_mpi_title(flavour);

		if (!loader_needs(fs, extension, links[i][0]) ||
		    !loader_find(fs, extension, links[i][0], found) ||
		    !loader_find_in(fs, conf_env("PATH"), ":", NULL, NULL, "mpirun", mpirun))
			continue;
		is = mpilibs_program(fs, mpirun);
		if (!is || !strcmp(is, flavour))
			continue;
		rootfs_real(fs, found, mpi);
		mpirun_of(x, fs, mpi, flavour, right);
		exam_add(x, *right && is_beside(right, python) ? EXAM_NOTE : EXAM_BAD,
			 "mpirun in PATH, %.200s, is %s's, but %s of %.200s is linked with %s, "
			 "%.200s",
			 mpirun, lookup_mpi_title(is), title, python, name, mpi);
		if (!*right)
			snprintf(todo, sizeof(todo), "put the mpirun of %s first in PATH",
				 name);
		else if (strcmp(strrchr(right, '/'), "/mpirun") != 0)
			snprintf(todo, sizeof(todo), "start jobs with %s, the mpirun of %s",
				 right, name);
		else
			snprintf(todo, sizeof(todo),
				 "start jobs with %s, the mpirun of %s, or put %.*s first in "
				 "PATH",
				 right, name, (int)(strrchr(right, '/') - right), right);
		exam_why(x, "under it each process is rank 0 of 1 and trains alone", todo);
		return true;
	}
	return false;
}

/* Is it the name of mpi4py's module?  Its wheels have one for each MPI, MPI.mpich.cpython-...,
 * and load the right one themselves. */
static bool is_mpi4py(const char *name)
{
	return !strncmp(name, "MPI.cpython-", 12) || !strcmp(name, "MPI.abi3.so") ||
	       !strcmp(name, "MPI.so");
}

/* The same of mpi4py in the folders of @python. */
static void add_mpi4py(struct exam *x, struct rootfs *fs, const json_t *python)
{
	const char *name = jsonio_string(python, "path");
	char dir[PATH_MAX], path[PATH_MAX];
	bool is_found = false;
	json_t *site;
	size_t i;

	json_array_foreach(json_object_get(python, "sites"), i, site) {
		struct names n = { 0 };

		if (!is_found && rootfs_join(dir, json_string_value(site), "mpi4py"))
			n = rootfs_names(fs, dir, "MPI.");
		for (size_t k = 0; k < n.count && !is_found; k++)
			if (is_mpi4py(n.at[k]) && rootfs_join(path, dir, n.at[k])) {
				is_found = true;
				add_mpirun(x, fs, path, "mpi4py", name);
			}
		rootfs_names_free(&n);
	}
}

/* Reports an mpirun that is not of the MPI of Horovod, or of mpi4py, once for each Python. */
static void add_mpiruns(struct exam *x)
{
	json_t *problems = json_array(), *o;
	struct rootfs fs;
	char title[80];
	struct err e;
	size_t i;

	if (exam_is_live(x) && !rootfs_open(&fs, "", problems, &e)) {
		json_array_foreach(json_object_get(x->facts, "pythons"), i, o) {
			const char *python = jsonio_string(o, "path");
			const json_t *horovod =
				lookup_entry(x->facts, "engines", python, "horovod");
			const json_t *first =
				json_array_get(json_object_get(horovod, "extensions"), 0);

			snprintf(title, sizeof(title), "Horovod %.64s",
				 jsonio_string(horovod, "version"));
			if (!first ||
			    !add_mpirun(x, &fs, jsonio_string(first, "library"), title, python))
				add_mpi4py(x, &fs, o);
		}
		rootfs_close(&fs);
	}
	json_decref(problems);
}

/* Reports the engine that serves the framework @f; having none may be intended.  @is_broken: a
 * finding says that the framework itself cannot be used. */
static void add_framework(struct exam *x, const json_t *f, bool is_broken)
{
	const char *name = jsonio_string(f, "name"), *python = jsonio_string(f, "python");
	const json_t *ours = lookup_entry(x->facts, "engines", python, "ringup");
	const json_t *horovod = lookup_entry(x->facts, "engines", python, "horovod");
	const json_t *extension = lookup_extension(horovod, name);
	char todo[2 * PATH_MAX], word[PATH_MAX];

	bool is_served =
		!strcmp(name, "torch") || !strcmp(name, "tensorflow") || !strcmp(name, "jax");

	if (is_broken && !(extension && *jsonio_string(extension, "fault")))
		return;
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

/* Has the folder @home, of PYTHONHOME, the standard library of @python? */
static bool is_home_of(const struct exam *x, const char *home, const char *python)
{
	static const char *const parts[] = { "lib/python%s/os.py", "lib64/python%s/os.py" };
	char series[16], part[64], path[PATH_MAX];

	pythons_series(version_of(x->facts, python), series, sizeof(series));
	if (!*series)
		return true;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(part, sizeof(part), parts[i], series);
		if (rootfs_join(path, home, part) && !access(path, F_OK))
			return true;
	}
	return false;
}

/* Reports a PYTHONHOME, and the Pythons with frameworks that do not start with it. */
static void add_home(struct exam *x, const json_t *list, json_t *reported)
{
	const char *told = conf_env("PYTHONHOME"), *before = "";
	char home[PATH_MAX], why[PATH_MAX + 128];
	int bad = x->bad;
	json_t *o;
	size_t i;

	if (!told || !*told)
		return;
	text_copy(home, sizeof(home), told, strcspn(told, ":"));
	snprintf(why, sizeof(why),
		 "PYTHONHOME=%s: every Python looks for its standard library there, and that "
		 "of this version is not there",
		 home);
	json_array_foreach(list, i, o) {
		const char *python = jsonio_string(o, "python");

		if (is_home_of(x, home, python))
			continue;
		json_object_set_new(reported, jsonio_string(o, "location"), json_false());
		if (!strcmp(python, before))
			continue;
		exam_add(x, EXAM_BAD, "%s does not start: PYTHONHOME is of another Python",
			 python);
		exam_why(x, why, "unset PYTHONHOME");
		before = python;
	}
	if (x->bad > bad)
		return;
	exam_add(x, EXAM_NOTE,
		 "PYTHONHOME=%s: every Python looks for its standard library there", home);
	exam_why(x, "a Python of another version does not start", "unset PYTHONHOME");
}

int exam_frameworks(struct exam *x, struct err *e)
{
	const json_t *list = json_object_get(x->facts, "frameworks");
	json_t *reported = json_object(), *o;
	size_t i;
	int rc = misfits_add(x, list, reported, e);

	if (rc)
		goto out;
	if (exam_is_live(x))
		add_home(x, list, reported);
	if (x->imports_too && exam_is_live(x))
		rc = imports_add(x, list, reported, e);
	if (rc)
		goto out;
	json_array_foreach(list, i, o)
		add_framework(x, o, json_object_get(reported, jsonio_string(o, "location")));
	add_mpiruns(x);
	exam_java(x);
	if (exam_is_live(x))
		exam_extensions(x);
	if (!json_array_size(list)) {
		exam_add(x, EXAM_NOTE, "no Python environment with a framework found");
		exam_why(x, NULL,
			 "python3 -m venv /opt/venv; /opt/venv/bin/pip install torch; or name "
			 "the environment with --python");
	}
	json_array_foreach(json_object_get(x->facts, "problems"), i, o)
		/* Findings say so already: of faults, and of what misfits_add() explains. */
		if (strncmp(jsonio_string(o, "reason"), "cannot be loaded:", 17) &&
		    !json_is_true(json_object_get(reported, jsonio_string(o, "path"))))
			exam_add(x, EXAM_NOTE, "%s: %s", jsonio_string(o, "path"),
				 jsonio_string(o, "reason"));
out:
	json_decref(reported);
	return rc;
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
