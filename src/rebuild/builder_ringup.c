/* builder_ringup.c - the engine ringup: builds the modules for MPI and the Python package. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/jsonio.h"
#include "config.h"
#include "detect/lookup.h"
#include "rebuild/buildplan.h"
#include "rebuild/cache.h"
#include "rebuild/journal.h"
#include "rebuild/modules.h"
#include "rebuild/package.h"
#include "rebuild/prove.h"
#include "rebuild/rebuild.h"
#include "rebuild/stamp.h"
#include "rebuild/versions.h"
#include "ringup.h"

enum { MODULES_WAIT_MS = 600000, NEED_MB = 16 };

/*
 * Two places are served, each by a journal of its own: the folder of modules, which belongs to
 * the installer of ringup, and the site-packages of one Python.  Both are staged, proved in the
 * staging folder, and then renamed.
 */
struct work {
	const struct rebuild_how *how;
	const struct buildplan *plan;
	struct rebuild_said *said;
	const json_t *facts; /* of find_all(), for the plan's Python        */
	char dir[PATH_MAX];  /* of this user; locked, and removed on success */
	int lock;
	char home[PATH_MAX];   /* HOME and TMPDIR of child programs; removed  */
	char tool[PATH_MAX];   /* this program                                */
	char folder[PATH_MAX]; /* of the modules                              */
	char compiler[80];     /* "gcc 12.2.0"                                */
	struct modules_state *states;
	int state_count;
	int log_fd;
};

static void work_step(struct work *w, const char *what, const json_t *mpi)
{
	char line[160];

	snprintf(line, sizeof(line), "%s%s%.20s%s%.40s", what, mpi ? " " : "",
		 mpi ? jsonio_string(mpi, "flavour") : "", mpi ? " " : "",
		 mpi ? jsonio_string(mpi, "version") : "");
	rebuild_step(w->how, line, 0, 0);
}

/* Makes a folder of this user's, for one run for this Python at a time; removes a killed run's
 * contents. */
static int work_open_dir(struct work *w, struct err *e)
{
	struct stat python;

	/* Two names of one Python share its folder. */
	if (stat(w->plan->python.prefix, &python))
		python.st_ino = 0;
	snprintf(w->dir, sizeof(w->dir), "%.2000s/ringup-rebuild-%ld-own-%llu", rebuild_place(),
		 (long)geteuid(), (unsigned long long)python.st_ino);
	if (mkdir(w->dir, 0700) && errno != EEXIST)
		return fail_os(e, "%s", w->dir);
	if (rebuild_lock(w->said, w->dir, &w->lock, e))
		return e->code;
	snprintf(w->home, sizeof(w->home), "%.2100s/home", w->dir);
	return folder_remove(w->home, e) ? e->code : folder_make(w->home, 0700, e);
}

static int work_open(struct work *w, struct err *e)
{
	const struct buildplan_compiler *c = &w->plan->compiler;

	/* Modules, the package and the files of trial ranks take a few megabytes. */
	if (data_program(w->tool, e) || work_open_dir(w, e) ||
	    rebuild_check_space(w->said, w->dir, NEED_MB, ", or set TMPDIR", e))
		return e->code;
	snprintf(w->said->log, sizeof(w->said->log), "%.2100s/log", w->dir);
	w->log_fd =
		open(w->said->log, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->log_fd < 0)
		return fail_os(e, "%s", w->said->log);
	if (*c->family)
		snprintf(w->compiler, sizeof(w->compiler), "%.30s %.40s", c->family,
			 c->version);
	return modules_folder(w->folder, "", e);
}

/* On success the log is removed, since it has nothing to tell. */
static void work_close(struct work *w, bool good)
{
	struct err ignored;

	if (w->log_fd >= 0)
		close(w->log_fd);
	if (*w->home && folder_remove(good ? w->dir : w->home, &ignored))
		rebuild_note(w->said, "%s could not be removed: %s", w->dir, ignored.text);
	if (good || w->log_fd < 0)
		*w->said->log = 0;
	if (w->lock >= 0)
		close(w->lock);
}

/* Modules. */

struct making {
	const struct modules_how *how;
	const json_t *mpi;
};

static int make_module(void *arg, const char *into, struct err *e)
{
	const struct making *m = arg;

	return modules_build(m->how, m->mpi, into, e);
}

/* New modules, each with its proof. */
struct batch {
	int n;
	struct modules_trial *trials;
	struct module {
		char name[MODULES_NAME];
		bool is_cached;
	} * modules;
};

/* Puts the module of @mpi in @dir, from the cache or built. */
static int module_provide(struct work *w, const struct modules_how *how, const json_t *mpi,
			  const char *dir, struct batch *b, struct err *e)
{
	const struct cache_how none = { .dir = "" };
	struct making making = { how, mpi };
	struct cache_said from = { 0 };
	char key[MODULES_KEY], into[PATH_MAX + 8], path[2 * PATH_MAX];
	struct modules_trial *t = &b->trials[b->n];
	struct module *m = &b->modules[b->n++];
	int rc = modules_key(key, how, mpi, e);

	snprintf(into, sizeof(into), "%s/.one", dir);
	modules_name(m->name, mpi);
	t->mpi = mpi;
	work_step(w, "the module for", mpi);
	if (!rc)
		rc = cache_provide(w->how->cache ? w->how->cache : &none, key, into,
				   make_module, &making, &from, e);
	if (rc == RINGUP_ENOBACKEND || rc == RINGUP_ETIMEDOUT)
		return rebuild_blame(w->said, REASON_COMPILE, e);
	if (rc)
		return rc == RINGUP_EINVAL ? rebuild_blame(w->said, REASON_CACHE, e) : rc;
	m->is_cached = from.from == CACHE_HIT;
	snprintf(path, sizeof(path), "%s/%s", into, m->name);
	if (snprintf(t->path, PATH_MAX, "%s/%s", dir, m->name) >= PATH_MAX)
		return fail(e, RINGUP_EINVAL, "%.100s: too long", dir);
	if (rename(path, t->path) || chmod(t->path, 0755))
		return fail_os(e, "%s", m->name);
	return folder_remove(into, e);
}

/* Records the proofs' results, in the order of the modules; the first failure is the error. */
static int proofs_conclude(struct work *w, const struct batch *b, struct err *e)
{
	int rc = 0;

	for (int i = 0; i < b->n; i++) {
		const struct modules_trial *t = &b->trials[i];

		if (t->rc < 0 && !rc) {
			*e = t->why;
			rc = rebuild_blame(w->said, REASON_PROVE, e);
		} else if (t->rc < 0) {
			rebuild_note(w->said, "%s", t->why.text);
		} else if (t->rc == 1) {
			rebuild_note(w->said, "%s %s has no mpirun, so its module is untested",
				     jsonio_string(t->mpi, "flavour"),
				     jsonio_string(t->mpi, "version"));
		}
		if (t->rc >= 0)
			rebuild_note(w->said, "%s: %s, %s", b->modules[i].name,
				     b->modules[i].is_cached ? "from the cache" : "built",
				     t->rc ? "not tried" : "proved");
	}
	return rc;
}

static int modules_try(struct work *w, const struct modules_how *how, struct batch *b,
		       struct err *e)
{
	int rc;

	if (b->n == 1)
		work_step(w, "two ranks add up by", b->trials[0].mpi);
	else
		work_step(w, "two ranks add up by each MPI", NULL);
	rc = modules_prove(how, b->trials, b->n, e);
	return rc ? rc : proofs_conclude(w, b, e);
}

/* The stamp's entry for the module of @mpi. */
static json_t *stamp_entry(const json_t *mpi, const char *module, const char *source)
{
	json_t *o = json_deep_copy(mpi);

	json_object_set_new(o, "module", json_string(module));
	json_object_set_new(o, "source", json_string(source));
	return o;
}

/* Writes modules.json, as it will be after the switch, to @dir. */
static int stamp_modules(struct work *w, const json_t *have, const char *dir, struct err *e)
{
	const struct stamp_of of = { .engine = "ringup",
				     .version = PACKAGE_VERSION,
				     .mpi = have,
				     .compiler = *w->compiler ? w->compiler : NULL,
				     .built = time(NULL) };
	json_t *stamp = stamp_make(&of, w->facts);
	char path[PATH_MAX + 32];
	int rc;

	snprintf(path, sizeof(path), "%s/" STAMP_MODULES, dir);
	rc = stamp_write("", path, stamp, e);
	json_decref(stamp);
	return rc;
}

/* Handles stamped modules that are not in @have: a module's MPI may show in another Python's
 * facts only, and then the module stays, and is added to @have; a module whose library is gone
 * is removed by @moves. */
static void moves_add_others(const struct work *w, json_t *have, json_t *moves)
{
	char path[PATH_MAX], to[PATH_MAX + 256];
	json_t *stamp = NULL, *o, *k;
	struct err ignored;
	size_t i, j;

	snprintf(path, sizeof(path), "%.4000s/" STAMP_MODULES, w->folder);
	if (stamp_read("", path, &stamp, &ignored))
		return;
	json_array_foreach(json_object_get(stamp, "mpi"), i, o) {
		const char *module = jsonio_string(o, "module");
		bool is_known = strncmp(module, "ringup-mpi-", 11) || strchr(module, '/');

		json_array_foreach(have, j, k)
			is_known |= !strcmp(jsonio_string(k, "module"), module);
		snprintf(to, sizeof(to), "%.4000s/%.200s", w->folder, module);
		if (is_known || !file_exists("", to))
			continue;
		if (file_exists("", jsonio_string(o, "library")))
			json_array_append(have, o);
		else
			json_array_append_new(moves, json_pack("{ss}", "to", to));
	}
	json_decref(stamp);
}

static void moves_add(const struct work *w, const char *dir, const char *name, json_t *moves)
{
	char to[PATH_MAX + 256], new[PATH_MAX + 256];

	snprintf(to, sizeof(to), "%s/%.200s", w->folder, name);
	snprintf(new, sizeof(new), "%s/%.200s", dir, name);
	json_array_append_new(moves, json_pack("{ss ss}", "to", to, "new", new));
}

/* Builds the wanted modules into @dir, and adds the renames to @moves. */
static int modules_stage(struct work *w, const char *source, const char *dir, json_t *moves,
			 struct err *e)
{
	const struct modules_how how = { .cc = w->plan->compiler.cc,
					 .compiler = w->compiler,
					 .home = w->home,
					 .tool = w->tool,
					 .prove_ms = w->how->prove_ms,
					 .log_fd = w->log_fd };
	const size_t most = (size_t)w->state_count + 1;
	struct batch b = { .trials = calloc(most, sizeof(*b.trials)),
			   .modules = calloc(most, sizeof(*b.modules)) };
	json_t *have = json_array();
	int rc = 0;

	if (!b.trials || !b.modules)
		rc = fail(e, RINGUP_ENOMEM, "no memory for %zu modules", most);
	for (int i = 0; i < w->state_count; i++) {
		const struct modules_state *s = &w->states[i];

		if (!rc && modules_is_wanted(s)) {
			rc = module_provide(w, &how, s->mpi, dir, &b, e);
			moves_add(w, dir, s->module, moves);
		}
		if (modules_is_wanted(s) || s->fate == MODULES_BUILT)
			json_array_append_new(have, stamp_entry(s->mpi, s->module, source));
	}
	if (!rc)
		rc = modules_try(w, &how, &b, e);
	if (!rc) {
		moves_add_others(w, have, moves);
		moves_add(w, dir, STAMP_MODULES, moves);
		rc = stamp_modules(w, have, dir, e);
	}
	free(b.trials);
	free(b.modules);
	json_decref(have);
	return rc;
}

/* The folder belongs to the installer of ringup, while a Python may be a user's. */
static bool folder_may_write(const char *folder)
{
	return !access(folder, W_OK) || (errno == ENOENT && !geteuid());
}

/* Notes modules that cannot be built, or not by this user; returns how many are to be built. */
static int modules_count(struct work *w, bool is_mine)
{
	int n = 0;

	for (int i = 0; i < w->state_count; i++) {
		const struct modules_state *s = &w->states[i];

		n += modules_is_wanted(s);
		if (s->fate == MODULES_IMPOSSIBLE)
			rebuild_note(w->said, "no module for %s %s: %s", s->flavour, s->version,
				     s->why);
		else if (modules_is_wanted(s) && !is_mine)
			rebuild_note(
				w->said,
				"no module for %s %s: %s belongs to another user; `sudo ringup "
				"rebuild --engine ringup` builds it",
				s->flavour, s->version, w->folder);
	}
	return n;
}

/* The folder of modules serves all Pythons: a run for another one is waited for. */
static int modules_open(struct work *w, struct journal *j, struct err *e)
{
	int64_t until = clock_deadline(MODULES_WAIT_MS);
	int rc = journal_open(j, w->folder, e);

	if (rc == RINGUP_EBUSY)
		work_step(w, "wait for another ringup rebuild to make the modules", NULL);
	while (rc == RINGUP_EBUSY && clock_left_ms(until)) {
		clock_sleep_ms(50);
		rc = journal_open(j, w->folder, e);
	}
	if (!rc)
		fail_none(e);
	return rc;
}

/* Looks again: another run may have made them meanwhile. */
static bool modules_are_wanted(struct work *w, const char *source)
{
	int i;

	free(w->states);
	w->state_count = modules_states("", w->folder, source, w->facts, &w->states);
	for (i = 0; i < w->state_count && !modules_is_wanted(&w->states[i]); i++)
		;
	return i < w->state_count;
}

static int modules_put(struct work *w, const char *source, struct err *e)
{
	struct journal j = { .lock = -1 };
	json_t *moves = json_array();
	char dir[PATH_MAX];
	int rc = folder_make(w->folder, 0755, e);

	if (!rc)
		rc = modules_open(w, &j, e);
	if (!rc && !modules_are_wanted(w, source))
		goto out;
	if (!rc)
		rc = journal_stage(&j, dir, e);
	if (!rc)
		rc = modules_stage(w, source, dir, moves, e);
	if (!rc)
		rc = journal_switch(&j, moves, e);
out:
	journal_close(&j);
	json_decref(moves);
	return rc;
}

/* The Python package. */

static json_t *stamp_package(const struct work *w, const char *python)
{
	static const char *const frameworks[] = { "torch", "tensorflow", "jax", NULL };
	const struct stamp_of of = { .engine = "ringup",
				     .version = PACKAGE_VERSION,
				     .python = python,
				     .frameworks = frameworks,
				     .mpi = json_object_get(w->facts, "mpi"),
				     .compiler = *w->compiler ? w->compiler : NULL,
				     .built = time(NULL) };

	return stamp_make(&of, w->facts);
}

/* Is the installed package this release's, and stamped for the installed software? */
static bool is_package_good(const json_t *facts, const char *site, const char *python)
{
	char path[PATH_MAX];
	json_t *stamp = NULL, *diff;
	struct err ignored;
	bool good;

	if (strcmp(package_state("", site), "current") ||
	    snprintf(path, sizeof(path), "%s/" STAMP_PACKAGE, site) >= PATH_MAX ||
	    stamp_read("", path, &stamp, &ignored) || !stamp)
		return false;
	diff = stamp_diff(stamp, facts, python);
	good = diff && !json_array_size(diff);
	json_decref(diff);
	json_decref(stamp);
	return good;
}

/* Trains with @framework, in two ranks with the package in @dir. */
static int prove_framework(struct work *w, const struct package_how *p, const char *dir,
			   const char *framework, struct err *e)
{
	struct prove_how how = { .framework = framework,
				 .way = "ringup",
				 .launch = { w->tool, "run", "-np", "2", "--" },
				 .python = p->python,
				 .limit_ms = w->how->prove_ms,
				 .log_fd = w->log_fd };
	json_t *env, *proof = NULL;
	char empty[PATH_MAX], line[80];
	int rc;

	snprintf(empty, sizeof(empty), "%.4000s/proof", w->home);
	rc = folder_make(empty, 0755, e);
	if (rc)
		return rc;
	env = job_env(w->home, false);
	json_object_set_new(env, "PYTHONPATH", json_string(dir));
	json_object_set_new(env, "PYTHONDONTWRITEBYTECODE", json_string("1"));
	how.dir = empty;
	how.env = env;
	snprintf(line, sizeof(line), "two ranks train with %s", framework);
	work_step(w, line, NULL);
	rc = prove_run(&how, &proof, e);
	json_decref(env);
	if (rc)
		return rc;
	if (*jsonio_string(proof, "error"))
		rc = rebuild_refuse(w->said, REASON_PROVE, e,
				    "two ranks that train with %s: %.160s", framework,
				    jsonio_string(proof, "error"));
	if (!w->said->proofs)
		w->said->proofs = json_array();
	json_array_append_new(w->said->proofs, proof);
	return rc;
}

/* Trains with each framework that the package serves and that has a proof. */
static int prove_package(struct work *w, const struct package_how *p, const char *dir,
			 const json_t *stamp, struct err *e)
{
	static const struct {
		const char *framework, *proof;
		const char *without; /* versions that the package does not serve */
	} all[] = { { "torch", "torch", "" },
		    { "tensorflow", "tensorflow", "" }, /* a tape, in eager code    */
		    { "tensorflow", "keras", "" },      /* fit(), which makes graphs */
		    { "jax", "jax", JAX_UNSERVED } };
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(all) / sizeof(*all); i++) {
		const char *version =
			jsonio_string(json_object_get(stamp, "frameworks"), all[i].framework);

		if (!*version || !prove_exists(all[i].proof))
			continue;
		if (versions_in(version, all[i].without))
			rebuild_note(w->said, "%s %s is too old for ringup and was not tried",
				     all[i].framework, version);
		else
			rc = prove_framework(w, p, dir, all[i].proof, e);
	}
	return rc;
}

enum { BYTECODE_MS = 60000 };

/* Compiles bytecode beside the package, as pip does: importing users may not write there. Files
 * that do not compile do not fail this step. */
static int compile_package(const struct work *w, const struct package_how *p, const char *dir,
			   const char *site, struct err *e)
{
	const char *const argv[] = { p->python, "-I", "-m", "compileall", "-q",
				     "-d",      site, dir,  NULL };
	struct job job = {
		.argv = argv, .dir = w->home, .log_fd = w->log_fd, .limit_ms = BYTECODE_MS
	};
	json_t *env = job_env(w->home, false);
	int status, rc;

	job.env = env;
	rc = job_run(&job, &status, e);
	json_decref(env);
	return rc;
}

static int stage_package(struct work *w, struct journal *j, const struct package_how *p,
			 const char *site, struct err *e)
{
	json_t *stamp = stamp_package(w, p->python), *watch = NULL, *moves = NULL;
	char dir[PATH_MAX];
	int rc = stamp ? journal_stage(j, dir, e) : fail(e, RINGUP_ENOMEM, "a stamp");

	watch = rc ? NULL : package_watch(stamp, w->facts);
	if (!rc) {
		work_step(w, "write the Python package", NULL);
		rc = package_stage(p, dir, stamp, watch, e);
	}
	if (!rc)
		rc = prove_package(w, p, dir, stamp, e);
	if (!rc)
		rc = compile_package(w, p, dir, site, e);
	if (!rc)
		rc = package_moves(dir, site, w->plan->python.prefix, &moves, e);
	if (!rc)
		rc = journal_switch(j, moves, e);
	json_decref(moves);
	json_decref(watch);
	json_decref(stamp);
	return rc;
}

static int build_package(struct work *w, const char *site, struct err *e)
{
	const char *python = w->plan->python.path;
	struct package_how p = { .python = python, .home = w->home, .log_fd = w->log_fd };
	struct journal j = { .lock = -1 };
	char library[PATH_MAX];
	int rc;

	package_library(library, w->folder);
	p.library = *library ? library : NULL;
	rc = package_foreign(&p, site, e);
	if (rc) {
		w->said->reason = REASON_CONFLICT;
		return rc;
	}
	rc = journal_open(&j, site, e);
	if (!rc)
		rc = stage_package(w, &j, &p, site, e);
	journal_close(&j);
	if (!rc)
		snprintf(w->said->site, sizeof(w->said->site), "%s", site);
	return rc;
}

/* Does @python have a framework that ringup serves? */
static bool has_framework(const json_t *facts, const char *python)
{
	return lookup_entry(facts, "frameworks", python, "torch") ||
	       lookup_entry(facts, "frameworks", python, "tensorflow") ||
	       lookup_entry(facts, "frameworks", python, "jax");
}

/* Does the package have to be installed, and to which @site?  A Python that the user did not
 * name gets it only if it has a framework for it. */
static bool wants_package(const struct rebuild_how *how, const json_t *facts,
			  const struct buildplan *plan, char site[PATH_MAX])
{
	const char *python = plan->python.path;

	return *python && (how->python || has_framework(facts, python)) &&
	       package_site(site, facts, python) && !is_package_good(facts, site, python);
}

static int own_build(const struct rebuild_how *how, const json_t *facts,
		     const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	struct work w = {
		.how = how, .plan = plan, .said = said, .facts = facts, .lock = -1, .log_fd = -1
	};
	char source[MODULES_KEY], site[PATH_MAX] = "";
	bool is_package = wants_package(how, facts, plan, site), is_mine;
	int wanted = 0, rc = work_open(&w, e);

	if (!rc)
		rc = modules_source(source, e);
	if (rc)
		goto out;
	if (!how->without_mpi)
		w.state_count = modules_states("", w.folder, source, facts, &w.states);
	is_mine = folder_may_write(w.folder);
	wanted = modules_count(&w, is_mine);
	if (wanted && is_mine)
		rc = modules_put(&w, source, e);
	if (!rc && is_package)
		rc = build_package(&w, site, e);
	if (!rc && !wanted && !is_package)
		rebuild_note(said, "everything is up to date; nothing was built");
out:
	free(w.states);
	work_close(&w, !rc);
	return rc;
}

static int own_foresee(const struct rebuild_how *how, const json_t *facts,
		       const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	char site[PATH_MAX];

	if (!wants_package(how, facts, plan, site))
		return 0;
	if (package_too_old(plan->python.version))
		return rebuild_refuse(said, REASON_IMPOSSIBLE, e,
				      "%.200s is Python %.20s; ringup needs 3.8 or later",
				      plan->python.path, plan->python.version);
	return rebuild_may_write(said, site, e);
}

static int site_undo(const char *site, bool *any, struct err *e)
{
	struct journal j = { .lock = -1 };
	int rc;

	if (!*site || !file_exists(site, "/.ringup-rebuild"))
		return 0;
	rc = journal_open(&j, site, e);
	if (!rc) {
		rc = journal_undo(&j, e);
		*any |= !rc;
		rc = rc == 1 ? 0 : rc;
	}
	journal_close(&j);
	return rc;
}

static int own_undo(const struct rebuild_how *how, const json_t *facts,
		    const struct buildplan *plan, struct rebuild_said *said, struct err *e)
{
	const char *python = plan->python.path;
	char folder[PATH_MAX], site[PATH_MAX] = "";
	bool any = false;
	int rc = modules_folder(folder, "", e);

	(void)how;
	if (!rc && folder_may_write(folder))
		rc = site_undo(folder, &any, e);
	if (!rc && *python && package_site(site, facts, python))
		rc = site_undo(site, &any, e);
	snprintf(said->site, sizeof(said->site), "%s", *site ? site : folder);
	return rc ? rc : any ? 0 : 1;
}

const struct builder builder_ringup = {
	.name = "ringup",
	.summary = "ringup's own: modules for MPI, the Python package",
	.foresee = own_foresee,
	.build = own_build,
	.undo = own_undo,
};
