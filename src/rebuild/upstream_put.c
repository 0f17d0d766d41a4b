/* upstream_put.c - install a Horovod wheel aside, import it, test it and put it in place. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/upstream.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "rebuild/prove.h"
#include "rebuild/stamp.h"
#include "ringup.h"

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

/* Finds the folder below @stage to which pip has installed. */
static int staged_site(const char *stage, char out[PATH_MAX], struct err *e)
{
	*found_site = 0;
	nftw(stage, see_site, 16, FTW_PHYS);
	snprintf(out, PATH_MAX, "%s", found_site);
	return *out ? 0
		    : fail(e, RINGUP_ESYSTEM, "pip has not installed horovod into %s", stage);
}

int upstream_stage(struct upstream *u, char prefix[PATH_MAX], char site[PATH_MAX],
		   struct err *e)
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
	char wheel[50][PATH_MAX];
	DIR *dir = opendir(u->out);
	struct dirent *d;
	int n = 12, rc, k = 0;

	while (dir && (d = readdir(dir)) && k < 50)
		if (strstr(d->d_name, ".whl")) {
			snprintf(wheel[k], PATH_MAX, "%.*s/%s", PATH_MAX - 300, u->out,
				 d->d_name);
			argv[n++] = wheel[k++];
		}
	if (dir)
		closedir(dir);
	if (!k)
		return rebuild_refuse(u->said, REASON_COMPILE, e,
				      "the build left no wheel in %s", u->out);
	rc = journal_stage(&u->journal, prefix, e);
	if (rc)
		return rc;
	rc = upstream_work(u, argv, NULL, NULL, 0, REASON_SYSTEM,
			   "pip could not install the wheel", e);
	return rc ? rc : staged_site(prefix, site, e);
}

int upstream_stamp(struct upstream *u, const char *site, struct err *e)
{
	static const char *const all[] = { "torch", "tensorflow", "mxnet" };
	const struct buildplan *p = u->plan;
	const struct buildplan_mpi *mpi = upstream_mpi(u);
	const char *names[5] = { NULL };
	json_t *mpis = mpi ? json_pack("[o]", buildplan_json_mpi(mpi)) : NULL, *stamp;
	struct stamp_of of = { .engine = "horovod",
			       .version = u->recipe.version,
			       .python = u->python,
			       .frameworks = names,
			       .mpi = mpis,
			       .key = u->key,
			       .advisories = &u->decided.advisories,
			       .built = time(NULL) };
	char text[128], record[PATH_MAX];
	size_t n = 0;
	int rc, fd;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (buildplan_framework(p, all[i]))
			names[n++] = all[i];
	/* The edits depend on Keras: unedited, Horovod averages nothing with Keras 3. */
	if (buildplan_framework(p, "tensorflow"))
		names[n++] = "keras";
	snprintf(text, sizeof(text), "%s %s", p->compiler.family, p->compiler.version);
	of.compiler = text;
	if (p->gpu) {
		of.cuda = p->cuda.version;
		of.nccl = p->nccl.version;
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

int upstream_verify(struct upstream *u, const char *site, struct err *e)
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
	const char *argv[8] = { u->python, "-c", code, site ? site : u->told.site };
	json_t *env = job_env(u->home, false);
	int n = 4, rc;

	if (buildplan_framework(u->plan, "torch"))
		argv[n++] = "torch";
	if (buildplan_framework(u->plan, "tensorflow"))
		argv[n++] = "tensorflow";
	if (site)
		json_object_set_new(env, "PYTHONPATH", json_string(site));
	rebuild_step(u->how, "import what was built", 0, 0);
	rc = upstream_work(u, argv, env, NULL, 0, REASON_PROVE,
			   "the new build cannot be imported", e);
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
				 .limit_ms = u->how->prove_ms,
				 .log_fd = u->log_fd };
	char dir[PATH_MAX], what[128], name[64];
	json_t *env = job_env(u->home, false), *one = NULL;
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
		return rebuild_refuse(u->said, REASON_PROVE, e,
				      "%s trained by two ranks over %s: %s", framework, way,
				      jsonio_string(one, "error"));
	return 0;
}

/* Every framework over Gloo; the first of them over MPI as well, if that is built in. */
int upstream_prove(struct upstream *u, const char *site, struct err *e)
{
	static const char *const all[] = { "torch", "tensorflow", "keras" };
	const char *first = NULL;
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(all) / sizeof(all[0]); i++) {
		bool is_keras = !strcmp(all[i], "keras");

		if (!buildplan_framework(u->plan, is_keras ? "tensorflow" : all[i]) ||
		    (is_keras && !*u->told.keras))
			continue;
		first = first ? first : all[i];
		rc = prove_one(u, all[i], "gloo", site, e);
	}
	if (!rc && first && upstream_mpi(u))
		rc = prove_one(u, first, "mpi", site, e);
	return rc;
}

/* Adds removals for the files of both distributions with a package horovod. */
static int moves_out(struct upstream *u, json_t *moves, struct err *e)
{
	static const char *const names[] = { "horovod", "ringup" };
	const json_t *one;
	json_t *old;
	size_t k;
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(names) / sizeof(names[0]); i++) {
		rc = journal_entries(u->told.site, u->told.prefix, names[i], &old, e);
		json_array_foreach(old, k, one)
			if (!rc && !jsonrecord_find(moves, "to", json_string_value(one)))
				json_array_append_new(moves, json_pack("{sO}", "to", one));
		if (json_array_size(old) && !strcmp(names[i], "ringup"))
			rebuild_note(u->said,
				     "the Python package ringup, whose horovod this one "
				     "replaces, was removed; --undo restores it");
		json_decref(old);
	}
	return rc;
}

int upstream_replace(struct upstream *u, const char *prefix, const char *site, struct err *e)
{
	static const char *const bins[] = { "bin", "local/bin" };
	json_t *moves = json_array();
	struct err undo = { 0 };
	char bin[PATH_MAX];
	int rc;

	rebuild_step(u->how, "put in place", 0, 0);
	journal_moves(moves, site, u->told.site);
	for (size_t i = 0; i < sizeof(bins) / sizeof(bins[0]); i++) {
		snprintf(bin, sizeof(bin), "%.*s/%s", PATH_MAX - 16, prefix, bins[i]);
		journal_moves(moves, bin, u->told.scripts);
	}
	rc = moves_out(u, moves, e);
	if (!rc)
		rc = journal_switch(&u->journal, moves, e);
	json_decref(moves);
	if (rc)
		return rc;
	snprintf(u->said->site, sizeof(u->said->site), "%s", u->told.site);
	rc = upstream_verify(u, NULL, e);
	if (rc && journal_undo(&u->journal, &undo))
		rebuild_note(u->said, "%s", undo.text);
	return rc;
}
