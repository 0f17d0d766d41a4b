/* upstream.c - the engine horovod: upstream's sources, by a recipe, for what is installed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/jsonio.h"
#include "base/proc.h"
#include "base/release.h"
#include "host/cgroup.h"
#include "host/cores.h"
#include "rebuild/cache.h"
#include "rebuild/edit.h"
#include "rebuild/errand.h"
#include "rebuild/fetch.h"
#include "rebuild/journal.h"
#include "rebuild/prove.h"
#include "rebuild/rebuild.h"
#include "rebuild/recipe.h"
#include "rebuild/stamp.h"
#include "ringup.h"

enum {
	ASK_BYTES = 1 << 16,
	ASK_MS = 60000,
	PREPARE_MS = 600000,
	BUILD_MS = 3600000,
	BUILD_DISK_MB = 400,
	SITE_DISK_MB = 65,
	MB_BASE = 400,   /* pip, CMake and Python while others compile */
	MB_HEAVY = 1800, /* the largest compilation, of torch's headers */
	MB_JOB = 1500,
};

/* One build in the making. */
struct upstream {
	const struct rebuild_how *how;
	const json_t *facts, *plan;
	struct rebuild_said *said;
	struct recipe recipe;
	json_t *decided; /* recipe_decide() */
	json_t *told;    /* what Python says of itself */
	const char *python;
	char dir[PATH_MAX];   /* all that is made on the way */
	char out[PATH_MAX];   /* the wheels */
	char tools[PATH_MAX]; /* what is missing for a build, or "" */
	char home[PATH_MAX];  /* of who proves and installs */
	char nest[PATH_MAX];  /* of who builds */
	char cmake[PATH_MAX];
	struct errand_who builder;
	struct journal journal;
	char key[MANIFEST_KEY_BYTES];
	int lock, log_fd, jobs;
	char why[200]; /* the first line of the log that names an error */
};

static const char *framework_version(const json_t *plan, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(plan, "frameworks"), i, one)
		if (!strcmp(jsonio_string(one, "name"), name))
			return jsonio_string(one, "version");
	return NULL;
}

/* Asking Python. */

/* What a build depends on, told by the Python that is to be served. */
static const char ask_code[] =
	"import sys\n"
	"out = sys.stdout; sys.stdout = sys.stderr\n"
	"import importlib.util as u, json, os, sysconfig\n"
	"try:\n"
	"    from importlib.metadata import version\n"
	"except ImportError:\n"
	"    from importlib_metadata import version\n"
	"def v(n):\n"
	"    try:\n"
	"        return version(n)\n"
	"    except Exception:\n"
	"        return None\n"
	"p = sysconfig.get_paths()\n"
	"json.dump({'version': sysconfig.get_python_version(), 'full': "
	"sys.version.split()[0],\n"
	"  'site': p['platlib'], 'scripts': p['scripts'], 'prefix': p['data'],\n"
	"  'include': p['include'], 'soabi': sysconfig.get_config_var('SOABI') or '',\n"
	"  'header': os.path.exists(os.path.join(p['include'], 'Python.h')),\n"
	"  'packages': {n: v(n) for n in ('pip', 'setuptools', 'wheel', 'packaging', 'keras',\n"
	"      'horovod', 'ringup')},\n"
	"  'missing': [m for m in sys.argv[1:] if u.find_spec(m.split('=')[0]) is None]}, "
	"out)\n";

/* Run @code in the target's Python; its JSON object. */
static int ask_python(struct upstream *u, json_t **out, struct err *e)
{
	const char *argv[32] = { u->python, "-I", "-c", ask_code };
	char needs[256], *word, *save = NULL, *text = NULL;
	int n = 4, status = 0, rc;
	json_error_t why;

	snprintf(needs, sizeof(needs), "%s", u->recipe.needs ? u->recipe.needs : "");
	for (word = strtok_r(needs, " ", &save); word && n < 31;
	     word = strtok_r(NULL, " ", &save))
		argv[n++] = word;
	rc = proc_capture((char *const *)(uintptr_t)argv, ASK_BYTES, ASK_MS, &text, &status, e);
	if (rc)
		return rc;
	*out = status ? NULL : json_loads(text, 0, &why);
	free(text);
	if (!json_is_object(*out))
		return rebuild_refuse(u->said, e, "%s does not answer as a Python does",
				      u->python);
	return 0;
}

/* What @argv prints, on its first line. */
static void first_line(const char *const *argv, char *out, size_t size)
{
	struct err e = { 0 };
	char *text = NULL;
	int status = 0;

	*out = 0;
	if (proc_capture((char *const *)(uintptr_t)argv, ASK_BYTES, ASK_MS, &text, &status, &e))
		return;
	if (!status)
		snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
	free(text);
}

static void cmake_version(char *out, size_t size)
{
	const char *argv[] = { "cmake", "--version", NULL };
	char line[128];

	first_line(argv, line, sizeof(line));
	snprintf(out, size, "%s", !strncmp(line, "cmake version ", 14) ? line + 14 : "");
}

/* Deciding. */

static const json_t *mpi_of(const struct upstream *u)
{
	const json_t *one;
	size_t i;

	if (u->how->without_mpi)
		return NULL;
	json_array_foreach(json_object_get(u->plan, "mpi"), i, one)
		if (*jsonio_string(one, "mpicxx") &&
		    !(!strcmp(jsonio_string(one, "flavour"), "openmpi") &&
		      release_compare(jsonio_string(one, "version"), "5") >= 0))
			return one;
	return NULL;
}

static bool wants_gpu(const struct upstream *u)
{
	return *jsonio_string(json_object_get(u->plan, "env"), "HOROVOD_GPU_OPERATIONS") != 0;
}

static void set_version(json_t *world, const char *name, const char *version)
{
	if (version && *version)
		json_object_set_new(world, name, json_string(version));
}

static json_t *world_of(struct upstream *u)
{
	const json_t *plan = u->plan, *compiler = json_object_get(plan, "compiler"), *one;
	const json_t *abi = json_object_get(plan, "cxx11_abi");
	const json_t *packages = json_object_get(u->told, "packages");
	json_t *world = json_object();
	size_t i;

	json_array_foreach(json_object_get(plan, "frameworks"), i, one)
		set_version(world, jsonio_string(one, "name"), jsonio_string(one, "version"));
	/* Keras counts where TensorFlow is served, and then whichever there is. */
	if (framework_version(plan, "tensorflow"))
		set_version(world, "keras", jsonio_string(packages, "keras"));
	else
		json_object_del(world, "keras");
	set_version(world, "python", jsonio_string(u->told, "full"));
	set_version(world, jsonio_string(compiler, "family"),
		    jsonio_string(compiler, "version"));
	set_version(world, "cmake", u->cmake);
	json_object_set_new(world, "gpu", json_boolean(wants_gpu(u)));
	json_object_set_new(world, "mpi", json_boolean(mpi_of(u) != NULL));
	json_object_set_new(world, "abi0",
			    json_boolean(json_is_integer(abi) && !json_integer_value(abi)));
	json_object_set_new(
		world, "cxx20",
		json_boolean(json_integer_value(json_object_get(plan, "cxx_standard")) >= 20));
	return world;
}

static bool is_accepted(const struct rebuild_how *how, const char *id)
{
	int i;

	for (i = 0; i < how->accepted_count; i++)
		if (!strcasecmp(how->accepted[i], id))
			return true;
	return false;
}

static int decide(struct upstream *u, struct err *e)
{
	json_t *world = world_of(u);
	const json_t *one;
	size_t i;
	int rc = recipe_decide(&u->recipe, world, &u->decided, e);

	json_decref(world);
	if (rc)
		return rc;
	json_array_foreach(json_object_get(u->decided, "bad"), i, one)
		return rebuild_refuse(u->said, e, "%s: %s", jsonio_string(one, "why"),
				      jsonio_string(one, "instead"));
	json_array_foreach(json_object_get(u->decided, "advisories"), i, one)
		if (!is_accepted(u->how, jsonio_string(one, "id")))
			return rebuild_refuse(u->said, e,
					      "%s (%s): if you can live "
					      "with that, say --accept %s",
					      jsonio_string(one, "id"),
					      jsonio_string(one, "text"),
					      jsonio_string(one, "id"));
	return 0;
}

/* Checks: what would fail in an hour fails now. */

static long memory_mb(void)
{
	char line[128], text[CGROUP_TEXT];
	struct cgroup g;
	long mb = 0, limit;
	FILE *f = fopen("/proc/meminfo", "re");
	bool more;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %ld", &mb) == 1)
			break;
	if (f)
		fclose(f);
	mb /= 1024;
	for (more = cgroup_find(&g, "", "memory"); more; more = cgroup_up(&g))
		if (cgroup_read(&g, "", g.version == 2 ? "memory.max" : "memory.limit_in_bytes",
				text) &&
		    sscanf(text, "%ld", &limit) == 1 && limit / (1 << 20) < mb)
			mb = limit / (1 << 20);
	return mb;
}

static int check_memory(struct upstream *u, struct err *e)
{
	unsigned char mask[CORES_MASK_BYTES];
	long mb = memory_mb(), fit;
	int cores, quota = cores_quota("");

	cores_mask(mask);
	cores = cores_count(mask);
	if (quota && quota < cores)
		cores = quota;
	if (mb < MB_BASE + MB_HEAVY)
		return rebuild_refuse(
			u->said, e,
			"%ld MiB of memory are free, a build needs %d: end something, "
			"or build elsewhere and share it by --cache",
			mb, MB_BASE + MB_HEAVY);
	fit = 1 + (mb - MB_BASE - MB_HEAVY) / MB_JOB;
	u->jobs = u->how->jobs ? u->how->jobs : fit < cores ? (int)fit : cores;
	if (u->jobs > fit)
		rebuild_note(u->said,
			     "%d jobs may need more than the %ld MiB of memory there are",
			     u->jobs, mb);
	return 0;
}

static int check_disk(struct upstream *u, const char *path, long need, struct err *e)
{
	struct statvfs st;
	long long mb;

	if (statvfs(path, &st))
		return fail_os(e, "%s", path);
	mb = (long long)st.f_bavail * (long long)st.f_frsize >> 20;
	if (mb < need)
		return rebuild_refuse(
			u->said, e,
			"%.100s has %lld MiB free, which needs %ld: make room, or set "
			"TMPDIR",
			path, mb, need);
	return 0;
}

/* Horovod's CMake files read four lines that Python prints; one more and it finds nothing. */
static int check_noise(struct upstream *u, struct err *e)
{
	const char *argv[] = { u->python, "-c", "import tensorflow", NULL };
	char line[100];

	if (!framework_version(u->plan, "tensorflow"))
		return 0;
	first_line(argv, line, sizeof(line));
	if (*line)
		return rebuild_refuse(
			u->said, e,
			"`import tensorflow` prints \"%.60s\" to stdout, where "
			"Horovod's build reads: find who prints that (sitecustomize?)",
			line);
	return 0;
}

/* Some distributions have torch's headers in a package of their own. */
static int check_headers(struct upstream *u, struct err *e)
{
	static const char *const own[] = { "include/torch/extension.h",
					   "include/torch/csrc/api/include/torch/extension.h" };
	const json_t *one;
	char path[PATH_MAX];
	size_t i, k;

	json_array_foreach(json_object_get(u->plan, "frameworks"), i, one) {
		bool found = strcmp(jsonio_string(one, "name"), "torch") != 0 ||
			     file_exists(NULL, "/usr/include/torch/extension.h");

		for (k = 0; !found && k < sizeof(own) / sizeof(own[0]); k++)
			found = snprintf(path, sizeof(path), "%s/%s",
					 jsonio_string(one, "location"),
					 own[k]) < (int)sizeof(path) &&
				file_exists(NULL, path);
		if (!found)
			return rebuild_refuse(u->said, e,
					      "torch has no headers here, so nothing can be "
					      "compiled for it: install them (Debian: "
					      "libtorch-dev pybind11-dev)");
	}
	return 0;
}

static int check(struct upstream *u, struct err *e)
{
	const json_t *packages = json_object_get(u->told, "packages");
	const json_t *compiler = json_object_get(u->plan, "compiler");
	int rc;

	if (json_is_null(json_object_get(packages, "pip")))
		return rebuild_refuse(u->said, e, "%s has no pip: `%s -m ensurepip` adds it",
				      u->python, u->python);
	if (!json_is_true(json_object_get(u->told, "header")))
		return rebuild_refuse(
			u->said, e,
			"%s/Python.h is missing, so nothing can be compiled for this "
			"Python: install python%s-dev",
			jsonio_string(u->told, "include"), jsonio_string(u->told, "version"));
	if (!*jsonio_string(compiler, "cxx"))
		return rebuild_refuse(u->said, e, "there is no C++ compiler: install g++");
	if (access(jsonio_string(u->told, "site"), W_OK))
		return rebuild_refuse(
			u->said, e,
			"%s cannot be written: make a virtual environment, or be root",
			jsonio_string(u->told, "site"));
	rc = check_headers(u, e);
	if (!rc)
		rc = check_memory(u, e);
	if (!rc)
		rc = check_disk(u, u->dir, BUILD_DISK_MB, e);
	if (!rc)
		rc = check_disk(u, jsonio_string(u->told, "site"), SITE_DISK_MB, e);
	return rc ? rc : check_noise(u, e);
}

/* Working. */

static void note_why(struct upstream *u, const char *line)
{
	static const char *const marks[] = {
		"fatal error: ", " error: ", "CMake Error", "ERROR: ", "Error: ", "Killed", NULL
	};
	int i;

	for (i = 0; !*u->why && marks[i]; i++)
		if (strstr(line, marks[i]))
			snprintf(u->why, sizeof(u->why), "%.*s", (int)sizeof(u->why) - 1,
				 line + strspn(line, " "));
}

/* "[ 42%] Building CXX object dir/CMakeFiles/x.dir/y.cc.o" */
static void follow_build(void *arg, const char *line)
{
	struct upstream *u = arg;
	const char *object = strstr(line, "Building "),
		   *name = object ? strrchr(object, '/') : NULL;
	const char *at = line + strspn(line, " ");
	char what[128];
	int done;

	if (*at == '[' && sscanf(at, "[%d%%]", &done) == 1) {
		if (name)
			snprintf(what, sizeof(what), "compile %.*s",
				 (int)(strlen(name + 1) > 2 ? strlen(name + 1) - 2 : 0),
				 name + 1);
		else
			snprintf(what, sizeof(what), "%s",
				 strstr(line, "Linking") ? "link" : "compile");
		rebuild_step(u->how, what, done, 100);
	} else if (!strncmp(at, "-- ", 3)) {
		rebuild_step(u->how, "configure", 0, 0);
	}
	note_why(u, line);
}

static void follow(void *arg, const char *line)
{
	note_why(arg, line);
}

/* Run @argv, its words in the log; if it fails, @failed and why. */
static int work(struct upstream *u, const char *const *argv, const json_t *env,
		const struct errand_who *who, int64_t limit_ms, bool is_build,
		const char *failed, struct err *e)
{
	struct errand job = { .argv = argv,
			      .env = env,
			      .dir = u->dir,
			      .who = *who,
			      .log_fd = u->log_fd,
			      .limit_ms = limit_ms,
			      .line = is_build ? follow_build : follow,
			      .arg = u };
	int status, rc, i;

	for (i = 0; argv[i]; i++)
		dprintf(u->log_fd, "%s%s", i ? " " : "+ ", argv[i]);
	dprintf(u->log_fd, "\n");
	*u->why = 0;
	rc = errand_run(&job, &status, e);
	if (rc || !status)
		return rc;
	if (status == -1)
		return rebuild_refuse(u->said, e, "%s: not finished after %lld s", failed,
				      (long long)limit_ms / 1000);
	return rebuild_refuse(u->said, e, "%s%s%s", failed, *u->why ? ": " : "", u->why);
}

/* Packages that only the build needs, in a folder of its own. */
static int add_tools(struct upstream *u, struct err *e)
{
	const json_t *packages = json_object_get(u->told, "packages");
	const json_t *missing = json_object_get(u->told, "missing"), *one;
	const char *argv[32] = { u->python,        "-m",       "pip",   "install", "-q",
				 "--no-cache-dir", "--target", u->tools };
	const char *setuptools = jsonio_string(packages, "setuptools");
	const struct errand_who here = { 0 };
	int n = 8, first = n, rc;
	json_t *env;
	size_t i;

	if (!*setuptools)
		argv[n++] = "setuptools";
	if (!*jsonio_string(packages, "wheel") && release_compare(setuptools, "70.1") < 0)
		argv[n++] = "wheel";
	if (!*jsonio_string(packages, "packaging"))
		argv[n++] = "packaging";
	if (release_compare(u->cmake, "3.13") < 0)
		argv[n++] = "cmake";
	/* setup.py wants to see what Horovod needs at run time. */
	json_array_foreach(missing, i, one) {
		const char *word = json_string_value(one), *equals = strchr(word, '=');

		if (n < 31)
			argv[n++] = equals ? equals + 1 : word;
	}
	if (n == first)
		return 0;
	if (u->how->offline)
		return rebuild_refuse(
			u->said, e,
			"--offline, but the build needs %s, which %s lacks: install "
			"it, or build without --offline",
			argv[first], u->python);
	rebuild_step(u->how, "get build tools", 0, 0);
	snprintf(u->tools, sizeof(u->tools), "%.*s/tools", PATH_MAX - 16, u->dir);
	env = errand_env(u->home, true);
	rc = work(u, argv, env, &here, PREPARE_MS, false, "pip could not get the build tools",
		  e);
	json_decref(env);
	if (!rc && release_compare(u->cmake, "3.13") < 0)
		snprintf(u->cmake, sizeof(u->cmake), "4");
	return rc;
}

/* mpicxx of the MPI that is wanted, first in PATH, for CMake looks nowhere else. */
static int choose_mpi(struct upstream *u, const json_t *mpi, json_t *env, struct err *e)
{
	char path[PATH_MAX], text[2 * PATH_MAX];
	int rc;

	snprintf(path, sizeof(path), "%.*s/bin/mpicxx", PATH_MAX - 16, u->dir);
	snprintf(text, sizeof(text), "#!/bin/sh\nexec '%s' \"$@\"\n",
		 jsonio_string(mpi, "mpicxx"));
	if (strchr(jsonio_string(mpi, "mpicxx"), '\''))
		return fail(e, RINGUP_EINVAL, "%s: a strange name",
			    jsonio_string(mpi, "mpicxx"));
	rc = file_write(NULL, path, 0755, text, strlen(text), e);
	if (rc)
		return rc;
	snprintf(text, sizeof(text), "%s/bin:%s", u->dir, jsonio_string(env, "PATH"));
	json_object_set_new(env, "PATH", json_string(text));
	json_object_set_new(env, "HOROVOD_WITH_MPI", json_string("1"));
	return 0;
}

static void set_framework(const struct upstream *u, json_t *env, const char *name,
			  const char *variable)
{
	char key[64];

	snprintf(key, sizeof(key), "HOROVOD_%s_%s",
		 framework_version(u->plan, name) ? "WITH" : "WITHOUT", variable);
	json_object_set_new(env, key, json_string("1"));
}

static int build_env(struct upstream *u, json_t **envp, struct err *e)
{
	const json_t *compiler = json_object_get(u->plan, "compiler"), *mpi = mpi_of(u);
	json_t *env = errand_env(u->nest, false);
	char text[2 * PATH_MAX];
	int rc = 0;

	json_object_update(env, json_object_get(u->plan, "env"));
	json_object_update(env, json_object_get(u->decided, "env"));
	json_object_set(env, "CC", json_object_get(compiler, "cc"));
	json_object_set(env, "CXX", json_object_get(compiler, "cxx"));
	/* What does not compile does so thousands of times, for minutes. */
	snprintf(text, sizeof(text), "%s %s", jsonio_string(env, "CXXFLAGS"),
		 strcmp(jsonio_string(compiler, "family"), "clang") ? "-fmax-errors=5"
								    : "-ferror-limit=5");
	json_object_set_new(env, "CXXFLAGS", json_string(text));
	snprintf(text, sizeof(text), "-j%d", u->jobs);
	json_object_set_new(env, "MAKEFLAGS", json_string(text));
	set_framework(u, env, "torch", "PYTORCH");
	set_framework(u, env, "tensorflow", "TENSORFLOW");
	set_framework(u, env, "mxnet", "MXNET");
	if (u->how->cache)
		json_object_set_new(env, "HOROVOD_BUILD_ARCH_FLAGS",
				    json_string("-mtune=generic"));
	if (*u->tools) {
		json_object_set_new(env, "PYTHONPATH", json_string(u->tools));
		snprintf(text, sizeof(text), "%s/bin:%s", u->tools, jsonio_string(env, "PATH"));
		json_object_set_new(env, "PATH", json_string(text));
	}
	if (mpi)
		rc = choose_mpi(u, mpi, env, e);
	else
		json_object_set_new(env, "HOROVOD_WITHOUT_MPI", json_string("1"));
	*envp = env;
	return rc;
}

/* An edit that breaks Python shows now, not after the build. */
static int check_edits(struct upstream *u, struct err *e)
{
	static const char code[] = "import ast, sys\n"
				   "for name in sys.argv[1:]:\n"
				   "    with open(name, encoding='utf-8') as f:\n"
				   "        ast.parse(f.read(), name)\n";
	const char *argv[64] = { u->python, "-I", "-c", code };
	json_t *env = errand_env(u->nest, false);
	struct errand_who nobody = u->builder;
	char names[56][256];
	int i, n = 4, rc;

	for (i = 0; i < u->recipe.nedits && n < 60; i++) {
		const char *file = u->recipe.edits[i].file, *dot = strrchr(file, '.');

		if (!dot || strcmp(dot, ".py") != 0)
			continue;
		snprintf(names[n - 4], sizeof(names[0]), "src/%.250s", file);
		argv[n] = names[n - 4];
		n++;
	}
	rc = n == 4 ? 0
		    : work(u, argv, env, &nobody, PREPARE_MS, false,
			   "the recipe's edits do not fit these sources", e);
	json_decref(env);
	return rc;
}

/* The wheel, into the empty folder @into. */
static int compile(void *arg, const char *into, struct err *e)
{
	struct upstream *u = arg;
	struct fetch_how fetch = { .recipe = &u->recipe,
				   .source = u->how->source,
				   .python = u->python,
				   .tools = *u->tools ? u->tools : NULL,
				   .dir = u->dir,
				   .home = u->nest,
				   .who = u->builder,
				   .offline = u->how->offline,
				   .log_fd = u->log_fd };
	const char *argv[] = { u->python,
			       "-m",
			       "pip",
			       "wheel",
			       "--no-build-isolation",
			       "--no-deps",
			       "--no-cache-dir",
			       "--no-index",
			       "-v",
			       "-w",
			       into,
			       "./src",
			       NULL };
	char src[PATH_MAX];
	json_t *env = NULL;
	int rc = add_tools(u, e);

	if (rc)
		return rc;
	if (u->builder.changes && chown(into, u->builder.uid, u->builder.gid))
		return fail_os(e, "%s", into);
	rebuild_step(u->how, u->how->source ? "unpack sources" : "get sources", 0, 0);
	rc = fetch_sources(&fetch, e);
	if (rc) {
		u->said->has_failed = true;
		return rc;
	}
	snprintf(src, sizeof(src), "%.*s/src", PATH_MAX - 16, u->dir);
	rc = edit_apply(&u->recipe, u->decided, src, e);
	u->said->has_failed = rc != 0;
	if (!rc)
		rc = check_edits(u, e);
	if (!rc)
		rc = build_env(u, &env, e);
	if (!rc)
		rc = work(u, argv, env, &u->builder,
			  u->how->limit_ms ? u->how->limit_ms : BUILD_MS, true,
			  "the build failed", e);
	json_decref(env);
	if (!rc && u->builder.changes && chown(into, geteuid(), getegid()))
		rc = fail_os(e, "%s", into);
	return rc;
}

/* All that the wheel depends on: two that agree in it are the same. */
static void key_of(const struct upstream *u, char out[MANIFEST_KEY_BYTES])
{
	char *recipe = NULL, *text, glibc[64] = "";
	struct utsname node = { 0 };
	size_t len = 0;
	json_t *all;

	uname(&node);
	confstr(_CS_GNU_LIBC_VERSION, glibc, sizeof(glibc));
	file_read(NULL, u->recipe.path, 1 << 18, &recipe, &len, NULL);
	all = json_pack("{ss ss sO sO? sO? sO? sO? sO? ss ss ss ss ss*}", "engine", "horovod",
			"recipe", recipe ? recipe : "", "decided", u->decided, "frameworks",
			json_object_get(u->plan, "frameworks"), "compiler",
			json_object_get(u->plan, "compiler"), "mpi", mpi_of(u), "cuda",
			json_object_get(u->plan, "cuda"), "nccl",
			json_object_get(u->plan, "nccl"), "python",
			jsonio_string(u->told, "soabi"), "machine", node.machine, "glibc",
			glibc, "cmake", u->cmake, "source", u->how->source);
	text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	cache_key(out, text ? text : "");
	free(text);
	free(recipe);
	json_decref(all);
}

/* From the cache, or from whoever builds it now, or built here. */
static int get_wheel(struct upstream *u, struct err *e)
{
	const struct cache_how none = { 0 };
	struct cache_said said = { 0 };
	struct stat st;
	/* The key does not know what a folder of somebody's own sources holds. */
	bool is_folder = u->how->source && !stat(u->how->source, &st) && S_ISDIR(st.st_mode);
	int rc;

	rc = cache_provide(u->how->cache && !is_folder ? u->how->cache : &none, u->key, u->out,
			   compile, u, &said, e);
	u->said->is_from_cache = said.from == CACHE_HIT;
	if (*said.note)
		rebuild_note(u->said, "%s", said.note);
	return rc;
}

/* Wheels of what Horovod needs and Python lacks, beside its own. */
static int add_needs(struct upstream *u, struct err *e)
{
	const json_t *missing = json_object_get(u->told, "missing"), *one;
	const char *argv[32] = { u->python,
				 "-m",
				 "pip",
				 "download",
				 "-q",
				 "--no-deps",
				 "--only-binary",
				 ":all:",
				 "--no-cache-dir",
				 "-d",
				 u->out };
	const struct errand_who here = { 0 };
	int n = 11, rc;
	json_t *env;
	size_t i;

	json_array_foreach(missing, i, one) {
		const char *word = json_string_value(one), *equals = strchr(word, '=');

		if (n < 31)
			argv[n++] = equals ? equals + 1 : word;
	}
	if (n == 11)
		return 0;
	if (u->how->offline)
		return rebuild_refuse(
			u->said, e,
			"--offline, but Horovod needs %s, which %s lacks: install it, "
			"or build without --offline",
			argv[11], u->python);
	rebuild_step(u->how, "get what Horovod needs", 0, 0);
	env = errand_env(u->home, true);
	rc = work(u, argv, env, &here, PREPARE_MS, false,
		  "pip could not get what Horovod needs at run time", e);
	json_decref(env);
	return rc;
}

/* Installing. */

static char found_site[PATH_MAX];

static int see_site(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	const char *name = path + where->base;

	(void)st;
	if (kind != FTW_D || strncmp(name, "horovod-", 8) != 0 || !strstr(name, ".dist-info"))
		return 0;
	snprintf(found_site, sizeof(found_site), "%.*s", where->base - 1, path);
	return 1;
}

/* Where pip has put packages below @stage. */
static int staged_site(const char *stage, char out[PATH_MAX], struct err *e)
{
	*found_site = 0;
	nftw(stage, see_site, 16, FTW_PHYS);
	snprintf(out, PATH_MAX, "%s", found_site);
	return *out ? 0
		    : fail(e, RINGUP_ESYSTEM, "pip has not installed horovod into %s", stage);
}

/* Install the wheels below a prefix of their own, on the file system where they will be. */
static int stage(struct upstream *u, char prefix[PATH_MAX], char site[PATH_MAX], struct err *e)
{
	const char *argv[64] = { u->python,
				 "-m",
				 "pip",
				 "install",
				 "-q",
				 "--no-deps",
				 "--no-index",
				 "--no-cache-dir",
				 "--ignore-installed",
				 "--no-warn-script-location",
				 "--prefix",
				 prefix };
	const struct errand_who here = { 0 };
	char wheel[50][PATH_MAX];
	DIR *dir = opendir(u->out);
	struct dirent *d;
	int n = 12, rc, k = 0;
	json_t *env;

	while (dir && (d = readdir(dir)) && k < 50)
		if (strstr(d->d_name, ".whl")) {
			snprintf(wheel[k], PATH_MAX, "%.*s/%s", PATH_MAX - 300, u->out,
				 d->d_name);
			argv[n++] = wheel[k++];
		}
	if (dir)
		closedir(dir);
	if (!k)
		return rebuild_refuse(u->said, e, "the build has left no wheel in %s", u->out);
	rc = journal_stage(&u->journal, prefix, e);
	if (rc)
		return rc;
	env = errand_env(u->home, false);
	rc = work(u, argv, env, &here, PREPARE_MS, false, "pip could not install the wheel", e);
	json_decref(env);
	return rc ? rc : staged_site(prefix, site, e);
}

/* What it was built for, as one of its files: pip is to know of it. */
static int put_stamp(struct upstream *u, const char *site, struct err *e)
{
	static const char *const all[] = { "torch", "tensorflow", "mxnet" };
	const json_t *compiler = json_object_get(u->plan, "compiler"), *mpi = mpi_of(u);
	const char *names[4] = { NULL };
	json_t *mpis = mpi ? json_pack("[O]", mpi) : NULL, *stamp;
	struct stamp_of of = { .engine = "horovod",
			       .version = u->recipe.version,
			       .python = u->python,
			       .frameworks = names,
			       .mpi = mpis,
			       .key = u->key,
			       .built = time(NULL) };
	char text[128], record[PATH_MAX];
	size_t i, n = 0;
	int rc, fd;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (framework_version(u->plan, all[i]))
			names[n++] = all[i];
	snprintf(text, sizeof(text), "%s %s", jsonio_string(compiler, "family"),
		 jsonio_string(compiler, "version"));
	of.compiler = text;
	if (wants_gpu(u)) {
		of.cuda = jsonio_string(json_object_get(u->plan, "cuda"), "version");
		of.nccl = jsonio_string(json_object_get(u->plan, "nccl"), "version");
	}
	stamp = stamp_make(&of, u->facts);
	rc = stamp ? stamp_write(site, "/" STAMP_HOROVOD, stamp, e)
		   : fail(e, RINGUP_ENOMEM, "no memory for a stamp");
	json_decref(stamp);
	json_decref(mpis);
	if (rc)
		return rc;
	snprintf(record, sizeof(record), "%.*s/horovod-%s.dist-info/RECORD", PATH_MAX - 128,
		 site, u->recipe.version);
	fd = open(record, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0 || file_put(fd, STAMP_HOROVOD ",,\n", sizeof(STAMP_HOROVOD ",,\n") - 1))
		rc = fail_os(e, "%s", record);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Import it, in a Python that has just started, from @site or, if NULL, from where it is. */
static int verify(struct upstream *u, const char *site, struct err *e)
{
	static const char code[] =
		"import importlib, json, os, sys\n"
		"import horovod\n"
		"at = os.path.dirname(horovod.__file__)\n"
		"want = os.path.join(sys.argv[1], 'horovod')\n"
		"if os.path.realpath(at) != os.path.realpath(want):\n"
		"    sys.exit('Error: import horovod takes ' + at + ', not ' + want)\n"
		"with open(os.path.join(at, 'metadata.json')) as f:\n"
		"    built = json.load(f)\n"
		"for name in sys.argv[2:]:\n"
		"    if {'torch': 'pytorch'}.get(name, name) not in built:\n"
		"        sys.exit('Error: it was built without ' + name)\n"
		"    hvd = importlib.import_module('horovod.' + name)\n"
		"    if not hvd.gloo_built():\n"
		"        sys.exit('Error: it was built without Gloo')\n";
	const char *argv[8] = { u->python, "-c", code,
				site ? site : jsonio_string(u->told, "site") };
	const struct errand_who here = { 0 };
	json_t *env = errand_env(u->home, false);
	int n = 4, rc;

	if (framework_version(u->plan, "torch"))
		argv[n++] = "torch";
	if (framework_version(u->plan, "tensorflow"))
		argv[n++] = "tensorflow";
	if (site)
		json_object_set_new(env, "PYTHONPATH", json_string(site));
	rebuild_step(u->how, "import what was built", 0, 0);
	rc = work(u, argv, env, &here, PREPARE_MS, false, "what was built cannot be imported",
		  e);
	json_decref(env);
	return rc;
}

static int prove_one(struct upstream *u, const char *framework, const char *way,
		     const char *site, struct err *e)
{
	static const char run[] =
		"from horovod.runner.launch import run_commandline as run; run()";
	struct prove_how how = { .framework = framework,
				 .way = way,
				 .launch = { u->python, "-c", run, "-np", "2", "-H",
					     "localhost:2",
					     strcmp(way, "mpi") ? "--gloo" : "--mpi",
					     "--network-interfaces", "lo" },
				 .python = u->python,
				 .log_fd = u->log_fd };
	char dir[PATH_MAX], what[128], name[64];
	json_t *env = errand_env(u->home, false), *one = NULL;
	int rc;

	snprintf(name, sizeof(name), "proof-%s-%s", framework, way);
	snprintf(dir, sizeof(dir), "%.*s/%s", PATH_MAX - 80, u->dir, name);
	json_object_set_new(env, "PYTHONPATH", json_string(site));
	json_object_set_new(env, "OMP_NUM_THREADS", json_string("1"));
	how.env = env;
	how.dir = dir;
	snprintf(what, sizeof(what), "prove by training: %s over %s", framework, way);
	rebuild_step(u->how, what, 0, 0);
	rc = mkdir(dir, 0755) ? fail_os(e, "%s", dir) : prove_run(&how, &one, e);
	json_decref(env);
	if (rc)
		return rc;
	if (!u->said->proofs)
		u->said->proofs = json_array();
	json_array_append_new(u->said->proofs, one);
	if (*jsonio_string(one, "error"))
		return rebuild_refuse(u->said, e, "%s trained by two ranks over %s: %s",
				      framework, way, jsonio_string(one, "error"));
	return 0;
}

/* Every framework over Gloo; the first of them over MPI, too, if that was built in. */
static int prove(struct upstream *u, const char *site, struct err *e)
{
	static const char *const all[] = { "torch", "tensorflow", "keras" };
	const char *first = NULL;
	size_t i;
	int rc = 0;

	for (i = 0; !rc && i < sizeof(all) / sizeof(all[0]); i++) {
		bool is_keras = !strcmp(all[i], "keras");
		const json_t *packages = json_object_get(u->told, "packages");

		if (!framework_version(u->plan, is_keras ? "tensorflow" : all[i]) ||
		    (is_keras && !*jsonio_string(packages, "keras")))
			continue;
		first = first ? first : all[i];
		rc = prove_one(u, all[i], "gloo", site, e);
	}
	if (!rc && first && mpi_of(u))
		rc = prove_one(u, first, "mpi", site, e);
	return rc;
}

/* [{to, new}] of all in @from. */
static void moves_of(json_t *moves, const char *from, const char *to)
{
	DIR *dir = opendir(from);
	struct dirent *d;
	char a[2 * PATH_MAX], b[2 * PATH_MAX];

	while (dir && (d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") ||
		    !strcmp(d->d_name, "__pycache__"))
			continue;
		snprintf(a, sizeof(a), "%s/%s", from, d->d_name);
		snprintf(b, sizeof(b), "%s/%s", to, d->d_name);
		json_array_append_new(moves, json_pack("{ss ss}", "to", b, "new", a));
	}
	if (dir)
		closedir(dir);
}

static bool is_among(const json_t *moves, const char *to)
{
	const json_t *one;
	size_t i;

	json_array_foreach(moves, i, one)
		if (!strcmp(jsonio_string(one, "to"), to))
			return true;
	return false;
}

/* What the two distributions that have a package horovod own there, and do not get back. */
static int moves_out(struct upstream *u, json_t *moves, struct err *e)
{
	static const char *const names[] = { "horovod", "ringup" };
	const json_t *one;
	json_t *old;
	size_t i, k;
	int rc = 0;

	for (i = 0; !rc && i < sizeof(names) / sizeof(names[0]); i++) {
		rc = journal_entries(jsonio_string(u->told, "site"),
				     jsonio_string(u->told, "prefix"), names[i], &old, e);
		json_array_foreach(old, k, one)
			if (!rc && !is_among(moves, json_string_value(one)))
				json_array_append_new(moves, json_pack("{sO}", "to", one));
		if (json_array_size(old) && !strcmp(names[i], "ringup"))
			rebuild_note(u->said,
				     "the Python package ringup, whose horovod this one "
				     "replaces, was taken out; --undo brings it back");
		json_decref(old);
	}
	return rc;
}

static int put_in_place(struct upstream *u, const char *prefix, const char *site, struct err *e)
{
	static const char *const bins[] = { "bin", "local/bin" };
	json_t *moves = json_array(), *about;
	struct err undo = { 0 };
	char bin[PATH_MAX];
	size_t i;
	int rc;

	rebuild_step(u->how, "put in place", 0, 0);
	moves_of(moves, site, jsonio_string(u->told, "site"));
	for (i = 0; i < sizeof(bins) / sizeof(bins[0]); i++) {
		snprintf(bin, sizeof(bin), "%.*s/%s", PATH_MAX - 16, prefix, bins[i]);
		moves_of(moves, bin, jsonio_string(u->told, "scripts"));
	}
	about = json_pack("{ss ss}", "engine", "horovod", "version", u->recipe.version);
	rc = moves_out(u, moves, e);
	if (!rc)
		rc = journal_switch(&u->journal, moves, about, e);
	json_decref(moves);
	json_decref(about);
	if (rc)
		return rc;
	snprintf(u->said->site, sizeof(u->said->site), "%s", jsonio_string(u->told, "site"));
	rc = verify(u, NULL, e);
	if (rc && journal_undo(&u->journal, &undo))
		rebuild_note(u->said, "%s", undo.text);
	return rc;
}

/* Before and after. */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

/* A folder of this user's, for one build of this Python at a time; what a killed one has left
 * in it goes. */
static int open_dir(struct upstream *u, struct err *e)
{
	const char *tmp = conf_env("TMPDIR");
	struct stat st;

	snprintf(u->dir, sizeof(u->dir), "%.*s/ringup-rebuild-%ld-%08llx", PATH_MAX - 64,
		 tmp && *tmp == '/' ? tmp : "/tmp", (long)geteuid(),
		 (unsigned long long)hash_bytes(u->python, strlen(u->python)) & 0xffffffff);
	if (mkdir(u->dir, 0755) && errno != EEXIST)
		return fail_os(e, "%s", u->dir);
	u->lock = open(u->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (u->lock < 0 || fstat(u->lock, &st))
		return fail_os(e, "%s", u->dir);
	if (st.st_uid != geteuid())
		return fail(e, RINGUP_EINVAL, "%s belongs to somebody else; remove it", u->dir);
	if (flock(u->lock, LOCK_EX | LOCK_NB))
		return rebuild_refuse(u->said, e,
				      "another ringup rebuild for %s is at work; wait for it",
				      u->python);
	/* Empty, but still this folder: the lock is on it. */
	nftw(u->dir, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	if (mkdir(u->dir, 0755))
		return fail_os(e, "%s", u->dir);
	close(u->lock);
	u->lock = open(u->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (u->lock < 0 || flock(u->lock, LOCK_EX | LOCK_NB))
		return fail_os(e, "%s", u->dir);
	snprintf(u->home, sizeof(u->home), "%.*s/home", PATH_MAX - 64, u->dir);
	snprintf(u->nest, sizeof(u->nest), "%.*s/nest", PATH_MAX - 64, u->dir);
	snprintf(u->out, sizeof(u->out), "%.*s/out", PATH_MAX - 64, u->dir);
	/* What the builder can write, nobody else works in. */
	if (mkdir(u->home, 0700) || mkdir(u->nest, 0755) ||
	    (u->builder.changes && chown(u->nest, u->builder.uid, u->builder.gid)))
		return fail_os(e, "%s", u->nest);
	return 0;
}

static int open_log_in(struct upstream *u, const char *dir, struct err *e)
{
	char when[32];
	time_t now = time(NULL);
	struct tm tm;

	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	snprintf(u->said->log, sizeof(u->said->log), "%.*s/rebuild-%s-%d.log", PATH_MAX - 128,
		 dir, when, (int)getpid());
	if (file_write(NULL, u->said->log, 0644, "", 0, e))
		return e->code;
	u->log_fd = open(u->said->log, O_WRONLY | O_APPEND | O_CLOEXEC);
	return u->log_fd < 0 ? fail_os(e, "%s", u->said->log) : 0;
}

/* Where this user's logs are; if that cannot be written, beside where the build works. */
static int open_log(struct upstream *u, struct err *e)
{
	struct passwd *pw = getpwuid(geteuid());
	char dir[PATH_MAX];
	int rc = 1;

	snprintf(dir, sizeof(dir), "/var/log/ringup");
	if (geteuid() != 0)
		snprintf(dir, sizeof(dir), "%.*s/.local/state/ringup", PATH_MAX - 128,
			 pw ? pw->pw_dir : "/nonexistent");
	if (geteuid() == 0 || pw)
		rc = open_log_in(u, dir, e);
	if (!rc)
		return 0;
	snprintf(dir, sizeof(dir), "%.*s-log", PATH_MAX - 128, u->dir);
	return open_log_in(u, dir, e);
}

static void close_all(struct upstream *u)
{
	journal_close(&u->journal);
	if (u->lock >= 0) {
		nftw(u->dir, remove_one, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
		close(u->lock);
	}
	if (u->log_fd >= 0)
		close(u->log_fd);
	json_decref(u->decided);
	json_decref(u->told);
	recipe_free(&u->recipe);
}

static int open_all(struct upstream *u, const struct rebuild_how *how, const json_t *plan,
		    struct rebuild_said *said, struct err *e)
{
	int rc;

	*u = (struct upstream){ .how = how,
				.plan = plan,
				.said = said,
				.python =
					jsonio_string(json_object_get(plan, "python"), "path"),
				.journal = { .lock = -1 },
				.lock = -1,
				.log_fd = -1 };
	if (!*u->python)
		return rebuild_refuse(said, e,
				      "there is no Python to build for; name one by "
				      "--python");
	rc = recipe_find(&u->recipe, "horovod", jsonio_string(plan, "version"), e);
	return rc ? rc : ask_python(u, &u->told, e);
}

static int build(const struct rebuild_how *how, const json_t *facts, const json_t *plan,
		 struct rebuild_said *said, struct err *e)
{
	char prefix[PATH_MAX], site[PATH_MAX];
	struct upstream u;
	int rc = open_all(&u, how, plan, said, e);

	u.facts = facts;
	rebuild_step(how, "check", 0, 0);
	cmake_version(u.cmake, sizeof(u.cmake));
	if (!rc)
		rc = decide(&u, e);
	if (!rc) {
		u.builder = errand_builder(u.python);
		/* Open MPI's mpicxx complains where there is not even a loopback. */
		if (mpi_of(&u))
			u.builder.offline = false;
		if (!geteuid() && !u.builder.changes)
			rebuild_note(said, "built as root, for nobody else can run %s",
				     u.python);
		key_of(&u, u.key);
		rc = open_dir(&u, e);
	}
	if (!rc)
		rc = check(&u, e);
	if (!rc)
		rc = journal_open(&u.journal, jsonio_string(u.told, "site"), e);
	if (!rc && u.journal.was_unfinished)
		rebuild_note(said, "a rebuild that was killed has been undone");
	if (!rc)
		rc = open_log(&u, e);
	if (!rc)
		rc = get_wheel(&u, e);
	if (!rc)
		rc = add_needs(&u, e);
	if (!rc)
		rc = stage(&u, prefix, site, e);
	if (!rc)
		rc = put_stamp(&u, site, e);
	if (!rc)
		rc = verify(&u, site, e);
	if (!rc)
		rc = prove(&u, site, e);
	if (!rc)
		rc = put_in_place(&u, prefix, site, e);
	close_all(&u);
	return rc;
}

static int undo(const struct rebuild_how *how, const json_t *plan, struct rebuild_said *said,
		struct err *e)
{
	struct upstream u;
	int rc = open_all(&u, how, plan, said, e);

	if (!rc)
		rc = journal_open(&u.journal, jsonio_string(u.told, "site"), e);
	if (!rc)
		rc = u.journal.was_unfinished ? 0 : journal_undo(&u.journal, e);
	if (!rc)
		snprintf(said->site, sizeof(said->site), "%s", jsonio_string(u.told, "site"));
	close_all(&u);
	return rc;
}

const struct builder builder_horovod = {
	.name = "horovod",
	.summary = "upstream's, from its sources",
	.build = build,
	.undo = undo,
};
