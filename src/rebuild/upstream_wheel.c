/* upstream_wheel.c - edit Horovod's sources and compile them into a wheel. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/upstream.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "rebuild/fetch.h"
#include "ringup.h"

enum { BUILD_MS = 3600000 };

/* Installs packages that only the build needs in a separate folder. */
static int add_tools(struct upstream *u, struct err *e)
{
	const char *argv[32] = { u->python,        "-m",       "pip",   "install", "-q",
				 "--no-cache-dir", "--target", u->tools };
	const char *setuptools = u->told.setuptools;
	int n = 8, first = n, rc;

	if (!*setuptools)
		argv[n++] = "setuptools";
	if (!*u->told.wheel && release_compare(setuptools, "70.1") < 0)
		argv[n++] = "wheel";
	if (!*u->told.packaging)
		argv[n++] = "packaging";
	if (release_compare(u->cmake, "3.13") < 0)
		argv[n++] = "cmake";
	/* setup.py checks for Horovod's run-time needs. */
	for (int i = 0; i < u->missing.count && n < 31; i++)
		argv[n++] = u->missing.at[i].text;
	if (n == first)
		return 0;
	if (u->how->offline)
		return rebuild_refuse(
			u->said, REASON_NETWORK, e,
			"--offline, but the build needs %s, which %s lacks: install "
			"it, or build without --offline",
			argv[first], u->python);
	rebuild_step(u->how, "get build tools", 0, 0);
	snprintf(u->tools, sizeof(u->tools), "%.*s/tools", PATH_MAX - 16, u->dir);
	rc = upstream_work(
		u, argv, NULL, NULL, 0, REASON_NETWORK,
		"pip could not download the build tools; check HTTPS_PROXY and PIP_INDEX_URL",
		e);
	if (!rc && release_compare(u->cmake, "3.13") < 0)
		snprintf(u->cmake, sizeof(u->cmake), "4");
	return rc;
}

/* Puts the mpicxx of the wanted MPI first in PATH, since CMake looks nowhere else. */
static int choose_mpi(struct upstream *u, const char *mpicxx, json_t *env, struct err *e)
{
	char path[PATH_MAX], text[2 * PATH_MAX];
	int rc;

	snprintf(path, sizeof(path), "%.*s/bin/mpicxx", PATH_MAX - 16, u->dir);
	snprintf(text, sizeof(text), "#!/bin/sh\nexec '%s' \"$@\"\n", mpicxx);
	if (strchr(mpicxx, '\''))
		return rebuild_refuse(u->said, REASON_TOOLS, e, "%s: unexpected name", mpicxx);
	rc = file_write(NULL, path, 0755, text, strlen(text), e);
	if (rc)
		return rc;
	snprintf(text, sizeof(text), "%s/bin:%s", u->dir, jsonio_string(env, "PATH"));
	json_object_set_new(env, "PATH", json_string(text));
	json_object_set_new(env, "HOROVOD_WITH_MPI", json_string("1"));
	return 0;
}

/* pip's NCCL has no libnccl.so to link with, and no loader finds it: this adds both a link and
 * a run path.  @env has HOROVOD_NCCL_HOME, the folder of include and lib. */
static int link_nccl(struct upstream *u, json_t *env, struct err *e)
{
	const char *library = u->plan->nccl.library, *slash = strrchr(library, '/');
	const char *home = jsonio_string(env, "HOROVOD_NCCL_HOME");
	char path[PATH_MAX], text[2 * PATH_MAX];
	int rc;

	if (!slash || !*home || !strcmp(slash, "/libnccl.so"))
		return 0;
	snprintf(path, sizeof(path), "%.*s/libnccl.so", (int)(slash - library), library);
	if (!access(path, F_OK))
		return 0;
	snprintf(text, sizeof(text), "%s/include", home);
	snprintf(path, sizeof(path), "%.*s/nccl/lib", PATH_MAX - 32, u->dir);
	rc = folder_make(path, 0755, e);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "%.*s/nccl/include", PATH_MAX - 32, u->dir);
	if (symlink(text, path))
		return fail_os(e, "%s", path);
	snprintf(path, sizeof(path), "%.*s/nccl/lib/libnccl.so", PATH_MAX - 32, u->dir);
	if (symlink(library, path))
		return fail_os(e, "%s", path);
	snprintf(path, sizeof(path), "%.*s/nccl", PATH_MAX - 32, u->dir);
	json_object_set_new(env, "HOROVOD_NCCL_HOME", json_string(path));
	snprintf(text, sizeof(text), "%s -Wl,-rpath,%.*s", jsonio_string(env, "LDFLAGS"),
		 (int)(slash - library), library);
	/* For a path that make would split, torch's import loads NCCL. */
	if (!strpbrk(library, " \t,'\"\\$"))
		json_object_set_new(env, "LDFLAGS", json_string(text));
	return 0;
}

static void set_framework(const struct upstream *u, json_t *env, const char *name,
			  const char *variable)
{
	char key[64];

	snprintf(key, sizeof(key), "HOROVOD_%s_%s",
		 buildplan_framework(u->plan, name) ? "WITH" : "WITHOUT", variable);
	json_object_set_new(env, key, json_string("1"));
}

static void env_add(json_t *env, const struct textpairs *more)
{
	for (int i = 0; i < more->count; i++)
		json_object_set_new(env, more->at[i].name, jsonio_text(more->at[i].text));
}

static int build_env(struct upstream *u, json_t **envp, struct err *e)
{
	const struct buildplan_compiler *compiler = &u->plan->compiler;
	const struct buildplan_mpi *mpi = upstream_mpi(u);
	json_t *env = job_env(u->nest, false);
	char text[2 * PATH_MAX];
	int rc = 0;

	env_add(env, &u->plan->env);
	env_add(env, &u->decided.env);
	json_object_set_new(env, "CC", jsonio_text(compiler->cc));
	json_object_set_new(env, "CXX", jsonio_text(compiler->cxx));
	/* A file that fails has thousands of errors, which take minutes. */
	snprintf(text, sizeof(text), "%s %s", jsonio_string(env, "CXXFLAGS"),
		 strcmp(compiler->family, "clang") ? "-fmax-errors=5" : "-ferror-limit=5");
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
		rc = choose_mpi(u, mpi->mpicxx, env, e);
	else
		json_object_set_new(env, "HOROVOD_WITHOUT_MPI", json_string("1"));
	if (!rc)
		rc = link_nccl(u, env, e);
	*envp = env;
	return rc;
}

/* Has the builder make the edits: the sources are that user's.  The recipe is copied, since
 * that user may not be able to read it where it is installed. */
static int apply_recipe(struct upstream *u, struct err *e)
{
	const struct recipe_decision *d = &u->decided;
	char from[PATH_MAX], to[PATH_MAX], recipe[PATH_MAX];
	const char *argv[128] = { u->python, "-I", "recipe/apply.py", recipe, "src" };
	const char *slash = strrchr(u->recipe.path, '/');
	int n = 5, rc;

	snprintf(recipe, sizeof(recipe), "recipe/%.200s", slash ? slash + 1 : "");
	snprintf(from, sizeof(from), "%.*s/.", slash ? (int)(slash - u->recipe.path) : 0,
		 u->recipe.path);
	snprintf(to, sizeof(to), "%.*s/recipe", PATH_MAX - 16, u->dir);
	for (int i = 0; i < d->edits.count && n < 127; i++)
		argv[n++] = d->edits.at[i].name;
	for (int i = 0; i < d->adds.count && n < 127; i++)
		argv[n++] = d->adds.at[i].name;
	rc = folder_copy(from, to, e);
	return rc ? rc
		  : upstream_work(u, argv, NULL, &u->builder, 0, REASON_SOURCE,
				  "the recipe's edits do not fit these sources", e);
}

/* Compiles the wheel into the empty folder @into. */
static int compile(void *arg, const char *into, struct err *e)
{
	struct upstream *u = arg;
	struct fetch_how fetch = { .recipe = &u->recipe,
				   .source = u->how->source,
				   .python = u->python,
				   .dir = u->dir,
				   .home = u->nest,
				   .user = u->builder,
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
	json_t *env = NULL;
	bool is_wrong;
	int rc = add_tools(u, e);

	if (rc)
		return rc;
	fetch.tools = *u->tools ? u->tools : NULL;
	if (u->builder.changes && chown(into, u->builder.uid, u->builder.gid))
		return fail_os(e, "%s", into);
	rebuild_step(u->how, u->how->source ? "unpack sources" : "get sources", 0, 0);
	rc = fetch_sources(&fetch, e);
	if (rc) {
		/* A download that is refused is a wrong source, too. */
		is_wrong = u->how->source || (rc == RINGUP_EINVAL && !u->how->offline);
		return rebuild_blame(u->said, is_wrong ? REASON_SOURCE : REASON_NETWORK, e);
	}
	rc = apply_recipe(u, e);
	if (!rc)
		rc = build_env(u, &env, e);
	if (!rc)
		rc = upstream_work(u, argv, env, &u->builder,
				   u->how->limit_ms ? u->how->limit_ms : BUILD_MS,
				   REASON_COMPILE, "the build failed", e);
	json_decref(env);
	if (!rc && u->builder.changes && chown(into, geteuid(), getegid()))
		rc = fail_os(e, "%s", into);
	return rc;
}

void upstream_key(const struct upstream *u, char out[CACHE_KEY_BYTES])
{
	char *recipe = NULL, *text, glibc[64] = "";
	struct utsname node = { 0 };
	size_t len = 0;
	const struct buildplan_mpi *mpi = upstream_mpi(u);
	json_t *plan = buildplan_json(u->plan), *all;

	uname(&node);
	confstr(_CS_GNU_LIBC_VERSION, glibc, sizeof(glibc));
	file_read(NULL, u->recipe.path, 1 << 18, &recipe, &len, NULL);
	all = json_pack("{ss ss so sO sO so sO sO ss ss ss ss ss*}", "engine", "horovod",
			"recipe", recipe ? recipe : "", "decided", recipe_json(&u->decided),
			"frameworks", json_object_get(plan, "frameworks"), "compiler",
			json_object_get(plan, "compiler"), "mpi",
			mpi ? buildplan_json_mpi(mpi) : json_null(), "cuda",
			json_object_get(plan, "cuda"), "nccl", json_object_get(plan, "nccl"),
			"python", u->told.soabi, "machine", node.machine, "glibc", glibc,
			"cmake", u->cmake, "source", u->how->source);
	text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	cache_key(out, text ? text : "");
	free(text);
	free(recipe);
	json_decref(all);
	json_decref(plan);
}

int upstream_wheel(struct upstream *u, struct err *e)
{
	const struct cache_how none = { 0 };
	struct cache_said said = { 0 };
	struct stat st;
	/* The key does not cover the contents of a user's own source folder. */
	bool is_folder = u->how->source && !stat(u->how->source, &st) && S_ISDIR(st.st_mode);
	int rc;

	rc = cache_provide(u->how->cache && !is_folder ? u->how->cache : &none, u->key, u->out,
			   compile, u, &said, e);
	u->said->is_from_cache = said.from == CACHE_HIT;
	if (*said.note)
		rebuild_note(u->said, "%s", said.note);
	/* Errors of the build itself have their own reason. */
	return rc == RINGUP_EINVAL ? rebuild_blame(u->said, REASON_CACHE, e) : rc;
}

int upstream_needs(struct upstream *u, struct err *e)
{
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
	int n = 11;

	for (int i = 0; i < u->missing.count && n < 31; i++)
		argv[n++] = u->missing.at[i].text;
	if (n == 11)
		return 0;
	if (u->how->offline)
		return rebuild_refuse(
			u->said, REASON_NETWORK, e,
			"--offline, but Horovod needs %s, which %s lacks: install it, "
			"or build without --offline",
			argv[11], u->python);
	rebuild_step(u->how, "get what Horovod needs", 0, 0);
	return upstream_work(u, argv, NULL, NULL, 0, REASON_NETWORK,
			     "pip could not download Horovod's dependencies", e);
}
