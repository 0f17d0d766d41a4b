/* package.c - ringup's Python package in a Python's site-packages: state, install, moves. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/package.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "detect/lookup.h"
#include "rebuild/job.h"
#include "rebuild/journal.h"
#include "rebuild/jsonrecord.h"
#include "rebuild/stamp.h"
#include "ringup.h"

enum { MAX_FILE = 1 << 20, RUN_MS = 60000 };

static bool has_package(const char *site)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/ringup/_version.py", site) < PATH_MAX &&
	       file_exists("", path);
}

bool package_site(char out[PATH_MAX], const json_t *facts, const char *python)
{
	const json_t *y = jsonrecord_find(json_object_get(facts, "pythons"), "path", python);
	const char *first = NULL, *s;
	json_t *site;
	size_t i;

	json_array_foreach(json_object_get(y, "sites"), i, site) {
		s = json_string_value(site);
		if (!s || strlen(s) >= PATH_MAX)
			continue;
		first = first ? first : s;
		if (has_package(s)) {
			first = s;
			break;
		}
	}
	if (first)
		snprintf(out, PATH_MAX, "%s", first);
	return first != NULL;
}

bool package_too_old(const char *version)
{
	return *version && release_compare(version, "3.8") < 0;
}

/* The comparison of a site with the release. */
struct comparison {
	const char *root, *from, *site;
	int files, missing, different, unreadable;
	bool is_wheel; /* pip's, which has no horovod and no sparkdl in it */
};

/* Is the package in @site pip's, of a wheel?  Ours and that of compat/install have all parts.
 */
static bool is_wheel(const char *root, const char *site)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/ringup/libringup.so.0", site) < PATH_MAX &&
	       file_exists(root, path) &&
	       snprintf(path, sizeof(path), "%s/ringup/build.json", site) < PATH_MAX &&
	       !file_exists(root, path);
}

static int package_compare(void *arg, const char *name, const struct stat *st, struct err *e)
{
	struct comparison *c = arg;
	char ours[PATH_MAX], path[PATH_MAX];
	char *a = NULL, *b = NULL;
	size_t n = strlen(name), len, got;
	const char *last = strrchr(name, '/');
	struct err ignored = { 0 };

	/* Bytecode is no part of a release, and with root's umask 077 only root can read it. */
	if (S_ISDIR(st->st_mode)) {
		if (c->is_wheel && !strchr(name, '/') && strncmp(name, "ringup", 6) != 0)
			return FOLDER_PRUNE;
		return strcmp(last ? last + 1 : name, "__pycache__") ? 0 : FOLDER_PRUNE;
	}
	/* Leaves out the packages' build scripts, which lie beside them. */
	if (!S_ISREG(st->st_mode) || n < 4 || strcmp(name + n - 3, ".py") || !strchr(name, '/'))
		return 0;
	if (snprintf(ours, sizeof(ours), "%s/%s", c->from, name) >= PATH_MAX ||
	    snprintf(path, sizeof(path), "%s/%s", c->site, name) >= PATH_MAX)
		return fail(e, RINGUP_EINVAL, "%.100s: too long a name", name);
	c->files++;
	if (file_read("", ours, MAX_FILE, &a, &len, e))
		return e->code;
	if (file_read(c->root, path, MAX_FILE, &b, &got, &ignored))
		*(ignored.os == EACCES ? &c->unreadable : &c->missing) += 1;
	else if (len != got || memcmp(a, b, len))
		c->different++;
	free(a);
	free(b);
	return 0;
}

const char *package_state(const char *root, const char *site)
{
	struct comparison c = { .root = root, .site = site, .is_wheel = is_wheel(root, site) };
	char from[PATH_MAX];
	struct err e = { 0 };

	c.from = from;
	if (data_find(from, "compat/python", &e) || folder_walk(from, package_compare, &c, &e))
		return "missing";
	if (c.missing == c.files)
		return "missing";
	if (c.different || (c.missing && !c.unreadable))
		return "stale";
	/* In a folder that cannot be entered, missing files do not show. */
	return c.unreadable ? "unreadable" : "current";
}

/* Makes lines of "PATH<tab>SIZE<tab>WHAT", which Python parses in microseconds. */
static char *watch_text(const json_t *watch)
{
	char *all = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&all, &len);
	json_t *o;
	size_t i;

	if (!f)
		return NULL;
	json_array_foreach(watch, i, o) {
		/* Paths and names that would break a line are not watched. */
		if (strpbrk(jsonio_string(o, "path"), "\t\n") ||
		    strpbrk(jsonio_string(o, "what"), "\t\n"))
			continue;
		fprintf(f, "%s\t%lld\t%s\n", jsonio_string(o, "path"),
			(long long)json_integer_value(json_object_get(o, "size")),
			jsonio_string(o, "what"));
	}
	return fclose(f) ? (free(all), NULL) : all;
}

/* Runs Python with @argv; 0, or a failure that names @doing. */
static int package_run(const struct package_how *how, const char *const *argv,
		       const char *doing, struct err *e)
{
	json_t *env = job_env(how->home, false);
	struct job job = { .argv = argv,
			   .env = env,
			   .dir = how->home,
			   .log_fd = how->log_fd,
			   .limit_ms = RUN_MS };
	int status = 0, rc = job_run(&job, &status, e);

	json_decref(env);
	if (rc)
		return fail_in(e, "%s", doing);
	return status ? fail(e, RINGUP_ESYSTEM, "%s: %.100s ended with status %d", doing,
			     how->python, status)
		      : 0;
}

void package_of_wheel(char out[PATH_MAX])
{
	static const char *const looks[] = { "../lib*/python3*/*-packages/ringup",
					     "../ringup" }; /* pip install --target */
	char self[PATH_MAX], pattern[PATH_MAX + 64];
	char *slash;
	glob_t found;

	*out = 0;
	(void)data_program(self, NULL);
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && !*out && i < 2; i++) {
		snprintf(pattern, sizeof(pattern), "%.*s%s/libringup.so.0",
			 (int)(slash + 1 - self), self, looks[i]);
		if (glob(pattern, 0, NULL, &found))
			continue;
		if (!realpath(found.gl_pathv[0], out))
			*out = 0;
		globfree(&found);
	}
}

void package_library(char out[PATH_MAX], const char *folder)
{
	static const char *const looks[] = { "/opt/ringup/current/lib/libringup.so.0",
					     "/usr/local/lib/libringup.so.0" };
	const char *slash = strrchr(folder, '/');
	char ours[PATH_MAX] = "", theirs[PATH_MAX], path[PATH_MAX + 32];

	*out = 0;
	/* Beside the modules in a build tree, else above their folder, if any. */
	snprintf(path, sizeof(path), "%s/libringup.so.0", folder);
	if (!realpath(path, ours)) {
		snprintf(path, sizeof(path), "%.*s/libringup.so.0",
			 slash ? (int)(slash - folder) : 0, folder);
		if (!realpath(path, ours))
			package_of_wheel(ours);
	}
	for (size_t i = 0; i < 2; i++)
		if (realpath(looks[i], theirs) && !strcmp(ours, theirs))
			return;
	snprintf(out, PATH_MAX, "%s", ours);
}

/* Keeps the first sentence of foreign.py; a sitecustomize may print, too. */
static void keep_sentence(void *arg, const char *line)
{
	static const char mark[] = "ringup: ";

	if (!strncmp(line, mark, strlen(mark)))
		job_keep_first(arg, line + strlen(mark));
}

/* Does pip know of a Horovod in @site?  That one can be put away and brought back. */
static bool is_pips(const char *site)
{
	struct err ignored;
	json_t *entries = NULL;
	bool any;

	/* A RECORD that leads elsewhere is refused later, by the switch. */
	(void)!journal_entries(site, site, "horovod", &entries, &ignored);
	any = json_array_size(entries) > 0;
	json_decref(entries);
	return any;
}

int package_foreign(const struct package_how *how, const char *site, struct err *e)
{
	char script[PATH_MAX], first[JOB_LINE] = "";
	const char *argv[] = { how->python, script, NULL };
	json_t *env = job_env(how->home, false);
	struct job job = { .argv = argv,
			   .env = env,
			   .dir = how->home,
			   .log_fd = how->log_fd,
			   .limit_ms = RUN_MS,
			   .line = keep_sentence,
			   .arg = first };
	int status = 0, rc = data_find(script, "compat/python/ringup/foreign.py", e);

	if (!rc && is_pips(site)) {
		json_decref(env);
		return 0;
	}
	if (!rc)
		rc = job_run(&job, &status, e);
	json_decref(env);
	if (rc || !status)
		return rc;
	return fail(e, RINGUP_EBUSY, "%.230s", *first ? first : "its Python does not start");
}

int package_stage(const struct package_how *how, const char *into, const json_t *stamp,
		  const json_t *watch, struct err *e)
{
	char build[PATH_MAX], noted[PATH_MAX], watched[PATH_MAX];
	const char *argv[] = { how->python, "-I",  "-B",    build,        "--into",
			       into,        noted, watched, how->library, NULL };
	char *lines = watch_text(watch);
	int rc = lines ? 0 : fail(e, RINGUP_ENOMEM, "the Python package");

	if (!rc && (snprintf(noted, sizeof(noted), "%s/build.json", how->home) >= PATH_MAX ||
		    snprintf(watched, sizeof(watched), "%s/watch", how->home) >= PATH_MAX))
		rc = fail(e, RINGUP_EINVAL, "%.100s: too long a name", how->home);
	if (!rc)
		rc = data_find(build, "compat/python/build_ringup.py", e);
	if (!rc)
		rc = stamp_write("", noted, stamp, e);
	if (!rc)
		rc = file_write("", watched, 0644, lines, strlen(lines), e);
	free(lines);
	return rc ? rc : package_run(how, argv, "write the Python package", e);
}

/* Is this program one of the files of @old?  Then it came by that wheel, and so did its data.
 */
static bool has_this_program(const json_t *old)
{
	char self[PATH_MAX];
	const json_t *one;
	size_t i;

	(void)data_program(self, NULL);
	json_array_foreach(old, i, one)
		if (!strcmp(json_string_value(one), self))
			return true;
	return false;
}

/* Adds moves for the files of @name in @site that no new file replaces.  Program and data of
 * the wheel that is running stay, and build_ringup.py records them anew. */
static int add_old(json_t *moves, const char *site, const char *prefix, const char *name,
		   struct err *e)
{
	json_t *old = NULL, *one;
	size_t i, n = strlen(site);
	int rc = journal_entries(site, prefix, name, &old, e);
	bool is_ours = has_this_program(old);

	json_array_foreach(old, i, one)
		if (!jsonrecord_find(moves, "to", json_string_value(one)) &&
		    !(is_ours && (strncmp(json_string_value(one), site, n) != 0 ||
				  json_string_value(one)[n] != '/')))
			json_array_append_new(moves, json_pack("{sO}", "to", one));
	json_decref(old);
	return rc;
}

int package_moves(const char *from, const char *site, const char *prefix, json_t **moves,
		  struct err *e)
{
	int rc;

	*moves = json_array();
	if (!journal_moves(*moves, from, site))
		return fail_os(e, "%s", from);
	/* Two packages called horovod, or sparkdl, cannot coexist: the other one goes, and undo
	 * brings it back. */
	rc = add_old(*moves, site, prefix, "ringup", e);
	if (!rc)
		rc = add_old(*moves, site, prefix, "horovod", e);
	if (!rc)
		rc = add_old(*moves, site, prefix, "sparkdl", e);
	return rc;
}

static void watch_path(json_t *out, const char *path, bool sized, const char *name,
		       const char *version)
{
	char what[160];
	struct stat st;

	if (stat(path, &st))
		return;
	snprintf(what, sizeof(what), "%.60s %.60s", name, version);
	json_array_append_new(out,
			      json_pack("{ss sI ss}", "path", path, "size",
					sized && S_ISREG(st.st_mode) ? (json_int_t)st.st_size
								     : (json_int_t)-1,
					"what", what));
}

/* Watches the folder in which pip notes the version; without one, the size of a file that tells
 * the version. */
static void watch_framework(json_t *out, const json_t *f)
{
	static const char *const ends[] = { "dist-info", "egg-info" };
	char path[PATH_MAX], site[PATH_MAX], dist[80];
	size_t i, before = json_array_size(out);
	char *slash, *p;

	snprintf(site, sizeof(site), "%s", jsonio_string(f, "location"));
	slash = strrchr(site, '/');
	if (!slash)
		return;
	*slash = 0;
	snprintf(dist, sizeof(dist), "%s",
		 *jsonio_string(f, "distribution") ? jsonio_string(f, "distribution")
						   : jsonio_string(f, "name"));
	for (p = dist; *p; p++)
		*p = *p == '-' ? '_' : *p;
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (snprintf(path, sizeof(path), "%s/%s-%s.%s", site, dist,
			     jsonio_string(f, "version"), ends[i]) < PATH_MAX)
			watch_path(out, path, false, jsonio_string(f, "name"),
				   jsonio_string(f, "version"));
	if (json_array_size(out) == before && snprintf(path, sizeof(path), "%s/version.py",
						       jsonio_string(f, "location")) < PATH_MAX)
		watch_path(out, path, true, jsonio_string(f, "name"),
			   jsonio_string(f, "version"));
}

json_t *package_watch(const json_t *stamp, const json_t *facts)
{
	const json_t *frameworks = json_object_get(stamp, "frameworks");
	const char *python = jsonio_string(json_object_get(stamp, "python"), "path");
	json_t *out = json_array(), *o;
	size_t i;

	json_array_foreach(json_object_get(facts, "frameworks"), i, o)
		if (!strcmp(jsonio_string(o, "python"), python) &&
		    !strcmp(jsonio_string(frameworks, jsonio_string(o, "name")),
			    jsonio_string(o, "version")))
			watch_framework(out, o);
	json_array_foreach(json_object_get(stamp, "mpi"), i, o) {
		const char *title = lookup_mpi_title(jsonio_string(o, "flavour"));
		char real[PATH_MAX];

		if (realpath(jsonio_string(o, "library"), real))
			watch_path(out, real, true, title, jsonio_string(o, "version"));
		/* libmpi.so may be a script for the linker, the same for all versions. */
		if (*jsonio_string(o, "header"))
			watch_path(out, jsonio_string(o, "header"), true, title,
				   jsonio_string(o, "version"));
	}
	return out;
}
