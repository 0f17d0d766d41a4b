/* modules.c - build and test the modules of the back end mpi, one for each MPI of a node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/modules.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backend/mpi_module.h"
#include "base/data.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/jsonio.h"
#include "base/proc.h"
#include "base/release.h"
#include "host/netconf.h"
#include "rebuild/cache.h"
#include "rebuild/job.h"
#include "rebuild/stamp.h"
#include "ringup.h"

enum {
	MAX_SOURCE = 256 * 1024,
	MAX_SAID = 64 * 1024,
	ASK_MS = 20000,
	PROOF_MS = 120000,
	BUILD_MS = 300000
};

#define SOURCE "modules/backend/mpi_module.c"
#define HEADER "modules/backend/mpi_module.h"

/* MVAPICH and Intel MPI have the binary interface of MPICH. */
static const char *kind_of(const json_t *mpi)
{
	return strcmp(jsonio_string(mpi, "flavour"), "openmpi") ? "mpich" : "openmpi";
}

static bool is_file(const char *root, const char *folder, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) &&
	       file_exists(root, path);
}

/* In a build tree beside the library, else in the folder of an installation. */
int modules_folder(char out[PATH_MAX], const char *root, struct err *e)
{
	static const struct {
		const char *library, *folder;
	} tries[] = { { ".libs/libringup.so.0", ".libs" },
		      { LIB_FROM_BIN "/libringup.so.0", LIB_FROM_BIN "/ringup" } };
	char self[PATH_MAX], path[PATH_MAX + 64];

	if (data_program(self, e))
		return e->code;
	*strrchr(self, '/') = 0;
	for (size_t i = 0; !*root && i < sizeof(tries) / sizeof(tries[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", self, tries[i].library);
		if (access(path, R_OK))
			continue;
		snprintf(path, sizeof(path), "%s/%s", self, tries[i].folder);
		/* The folder may not exist before the first build. */
		if (!realpath(path, out) && snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX)
			return fail(e, RINGUP_EINVAL, "%.100s: too long", path);
		return 0;
	}
	if (*root && file_exists(root, "/opt/ringup/current/lib/ringup"))
		snprintf(out, PATH_MAX, "/opt/ringup/current/lib/ringup");
	else if (*root)
		snprintf(out, PATH_MAX, "/usr/local/lib/ringup");
	else if (snprintf(path, sizeof(path), "%.4000s/" LIB_FROM_BIN, self) > 0 &&
		 realpath(path, self))
		snprintf(out, PATH_MAX, "%.4000s/ringup", self);
	else
		snprintf(out, PATH_MAX, "%.4000s/ringup", path);
	return 0;
}

void modules_name(char out[MODULES_NAME], const json_t *mpi)
{
	snprintf(out, MODULES_NAME, "ringup-mpi-%s-%.40s.so", kind_of(mpi),
		 jsonio_string(mpi, "version"));
}

/* Reads a file of this program's data, NUL-terminated and to be freed. */
static int read_data(const char *name, char **data, struct err *e)
{
	char path[PATH_MAX];
	size_t len;
	int rc = data_find(path, name, e);

	return rc ? rc : file_read("", path, MAX_SOURCE, data, &len, e);
}

int modules_source(char out[MODULES_KEY], struct err *e)
{
	char *c = NULL, *h = NULL, *both = NULL;
	int rc = read_data(SOURCE, &c, e);

	if (!rc)
		rc = read_data(HEADER, &h, e);
	if (!rc && asprintf(&both, "%s%c%s", c, '\f', h) < 0) {
		both = NULL;
		rc = fail(e, RINGUP_ENOMEM, SOURCE);
	}
	if (!rc)
		cache_key(out, both);
	free(both);
	free(h);
	free(c);
	return rc;
}

const char *modules_why_not(const json_t *mpi)
{
	bool is_open = !strcmp(kind_of(mpi), "openmpi");
	struct stat st;

	if (!*jsonio_string(mpi, "version"))
		return "neither mpi.h nor anything else tells its version";
	if (!*jsonio_string(mpi, "header"))
		return is_open ? "it has no mpi.h: install libopenmpi-dev, or what it is "
				 "called here"
			       : "it has no mpi.h: install libmpich-dev, or what it is called "
				 "here";
	if (!*jsonio_string(mpi, "mpicc"))
		return "it has no mpicc: install its development files";
	/* All users load root's modules, so these are made of root's files only. */
	if (geteuid() == 0 && !stat(jsonio_string(mpi, "mpicc"), &st) && st.st_uid)
		return "it belongs to another user, and root does not run it: rebuild as that "
		       "user";
	return NULL;
}

static const json_t *stamped(const json_t *stamp, const json_t *mpi)
{
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(stamp, "mpi"), i, o)
		if (!strcmp(jsonio_string(o, "flavour"), jsonio_string(mpi, "flavour")) &&
		    !strcmp(jsonio_string(o, "version"), jsonio_string(mpi, "version")))
			return o;
	return NULL;
}

/* Is @mpi the first of its kind in @list? */
static bool is_first(const json_t *list, const json_t *mpi)
{
	json_t *o;
	size_t i;

	json_array_foreach(list, i, o)
		if (!strcmp(kind_of(o), kind_of(mpi)))
			return o == mpi;
	return false;
}

/* The reason why the module of @noted is not the one for @mpi; or NULL. */
static const char *why_stale(const json_t *noted, const json_t *mpi, const char *source,
			     bool exists)
{
	if (!exists)
		return "the file is gone";
	if (*source && strcmp(jsonio_string(noted, "source"), source))
		return "it was built by another release of ringup";
	if (strcmp(jsonio_string(noted, "library"), jsonio_string(mpi, "library")))
		return "this MPI has moved since";
	return NULL;
}

static void state_find(struct modules_state *s, const char *root, const char *folder,
		       const char *source, const json_t *stamp, const json_t *all)
{
	const json_t *noted = stamped(stamp, s->mpi);
	char plain[MODULES_NAME];

	modules_name(s->module, s->mpi);
	snprintf(plain, sizeof(plain), "ringup-mpi-%s.so", kind_of(s->mpi));
	if (noted) {
		s->why = why_stale(noted, s->mpi, source, is_file(root, folder, s->module));
		s->fate = s->why ? MODULES_STALE : MODULES_BUILT;
	} else if (is_first(all, s->mpi) && is_file(root, folder, plain)) {
		s->fate = MODULES_INSTALLED;
		snprintf(s->module, sizeof(s->module), "%s", plain);
	} else {
		s->why = modules_why_not(s->mpi);
		s->fate = s->why ? MODULES_IMPOSSIBLE : MODULES_MISSING;
		s->why = s->why ? s->why : "it has not been built yet";
	}
}

bool modules_is_wanted(const struct modules_state *s)
{
	return s->fate == MODULES_MISSING || s->fate == MODULES_STALE;
}

int modules_states(const char *root, const char *folder, const char *source,
		   const json_t *facts, struct modules_state **statesp)
{
	const json_t *all = json_object_get(facts, "mpi");
	json_t *stamp = NULL, *mpi;
	char path[PATH_MAX];
	struct err e;
	size_t i;

	*statesp = calloc(json_array_size(all) + 1, sizeof(**statesp));
	if (!*statesp)
		return 0;
	/* An unreadable stamp counts as none: its modules are built again. */
	if (snprintf(path, sizeof(path), "%s/" STAMP_MODULES, folder) < (int)sizeof(path) &&
	    stamp_read(root, path, &stamp, &e))
		stamp = NULL;
	json_array_foreach(all, i, mpi) {
		struct modules_state *s = &(*statesp)[i];

		*s = (struct modules_state){ .mpi = mpi,
					     .flavour = jsonio_string(mpi, "flavour"),
					     .version = jsonio_string(mpi, "version") };
		state_find(s, root, folder, source, stamp, all);
	}
	json_decref(stamp);
	return (int)json_array_size(all);
}

/* The flags that mpicc adds, so that @key changes when they do. */
static char *flags_of(const json_t *mpi)
{
	const char *const words[2] = { !strcmp(kind_of(mpi), "openmpi") ? "--showme" : "-show",
				       NULL };
	const char *argv[] = { jsonio_string(mpi, "mpicc"), words[0], NULL };
	struct err e;
	char *out = NULL;
	int status;

	if (proc_capture((char *const *)(uintptr_t)argv, MAX_SAID, ASK_MS, &out, &status, &e))
		return strdup("");
	return out;
}

int modules_key(char out[MODULES_KEY], const struct modules_how *how, const json_t *mpi,
		struct err *e)
{
	char source[MODULES_KEY], real[PATH_MAX] = "", *flags, *canonical;
	struct utsname machine;
	json_t *all;
	int rc = modules_source(source, e);

	if (rc)
		return rc;
	flags = flags_of(mpi);
	if (uname(&machine))
		*machine.machine = 0;
	/* The library's real name may be the only sign of its build. */
	if (!realpath(jsonio_string(mpi, "library"), real))
		*real = 0;
	all = json_pack("{ss si ss ss ss ss ss ss ss so}", "what", "ringup-mpi", "abi",
			MODULE_ABI, "source", source, "flavour", jsonio_string(mpi, "flavour"),
			"version", jsonio_string(mpi, "version"), "library", real, "compiler",
			how->compiler ? how->compiler : "", "machine", machine.machine, "glibc",
			gnu_get_libc_version(), "flags", jsonio_text(flags));
	canonical = all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	if (canonical)
		cache_key(out, canonical);
	else
		rc = fail(e, RINGUP_ENOMEM, "key of a module");
	free(canonical);
	free(flags);
	json_decref(all);
	return rc;
}

/* The environment of compilers and ranks: this process's, without a job's variables. */
static json_t *make_env(const struct modules_how *how, const char *cc)
{
	json_t *env = job_env(how->home, false);

	if (cc && *cc) {
		json_object_set_new(env, "OMPI_CC", json_string(cc));
		json_object_set_new(env, "MPICH_CC", json_string(cc));
	}
	return env;
}

/* Turns the exit status of @program into 0, or a failure that names @doing. */
static int modules_judge(int status, int64_t limit_ms, const char *doing, const char *program,
			 struct err *e)
{
	if (status < 0)
		return fail(e, RINGUP_ETIMEDOUT, "%s: not done after %d s", doing,
			    (int)(limit_ms / 1000));
	return status ? fail(e, RINGUP_ENOBACKEND, "%s: %s ended with status %d", doing,
			     program, status)
		      : 0;
}

/* Runs @argv; 0, or a failure that names @doing. */
static int modules_run(const struct modules_how *how, const char *const *argv, json_t *env,
		       int64_t limit_ms, const char *doing, struct err *e)
{
	struct job job = { .argv = argv,
			   .env = env,
			   .dir = how->home,
			   .log_fd = how->log_fd,
			   .limit_ms = limit_ms };
	int status = 0, rc = job_run(&job, &status, e);

	json_decref(env);
	return rc ? fail_in(e, "%s", doing)
		  : modules_judge(status, limit_ms, doing, argv[0], e);
}

int modules_build(const struct modules_how *how, const json_t *mpi, const char *into,
		  struct err *e)
{
	char source[PATH_MAX], include[PATH_MAX + 8], rpath[PATH_MAX + 16], name[MODULES_NAME];
	char out[PATH_MAX + MODULES_NAME], doing[128], folder[PATH_MAX];
	const char *argv[] = { jsonio_string(mpi, "mpicc"),
			       "-O2",
			       "-fPIC",
			       "-shared",
			       "-fvisibility=hidden",
			       "-Wl,-z,relro,-z,now",
			       "-Wl,--enable-new-dtags",
			       rpath,
			       include,
			       source,
			       "-o",
			       out,
			       NULL };
	char *slash;
	int rc = data_find(source, SOURCE, e);

	if (rc)
		return rc;
	modules_name(name, mpi);
	snprintf(include, sizeof(include), "-I%.*s",
		 (int)(strlen(source) - strlen("/backend/mpi_module.c")), source);
	snprintf(out, sizeof(out), "%s/%s", into, name);
	/* Several MPIs have libraries of one name: this module loads its own. */
	snprintf(folder, sizeof(folder), "%s", jsonio_string(mpi, "library"));
	slash = strrchr(folder, '/');
	if (slash)
		*slash = 0;
	snprintf(rpath, sizeof(rpath), "-Wl,-rpath,%s", folder);
	if (!slash)
		snprintf(rpath, sizeof(rpath), "-O2");
	snprintf(doing, sizeof(doing), "compile the module for %.20s %.40s",
		 jsonio_string(mpi, "flavour"), jsonio_string(mpi, "version"));
	return modules_run(how, argv, make_env(how, how->cc), BUILD_MS, doing, e);
}

/* Does the installation's file for all users choose Open MPI's transports (BTLs)? */
static bool chooses_ways(const json_t *mpi)
{
	static const char *const names[] = { "OMPI_MCA_btl", NULL };
	char prefix[PATH_MAX], path[PATH_MAX], *text = NULL, *slash;
	struct netconf c = { 0 };
	struct err ignored;
	bool found = false;
	size_t len;

	snprintf(prefix, sizeof(prefix), "%.4000s", jsonio_string(mpi, "mpirun"));
	for (int up = 0; up < 2; up++) {
		slash = strrchr(prefix, '/');
		if (slash)
			*slash = 0;
	}
	if (!strcmp(prefix, "/usr"))
		snprintf(path, sizeof(path), "/etc/openmpi/openmpi-mca-params.conf");
	else
		snprintf(path, sizeof(path), "%.4000s/etc/openmpi-mca-params.conf", prefix);
	if (!file_read("", path, MAX_SOURCE, &text, &len, &ignored))
		found = netconf_mca(&c, text, path, names, &ignored) ||
			netconf_get(&c, names[0]);
	netconf_free(&c);
	free(text);
	return found;
}

/*
 * Open MPI 5 sleeps for a second in every rank if its OFI BTL finds no device.  That BTL is for
 * one-sided operations, which the module does not use, so it is left out; but not if the
 * administrator has chosen BTLs, since then that choice has to work.
 */
static void spare_second(json_t *env, const json_t *mpi)
{
	if (!strcmp(kind_of(mpi), "openmpi") &&
	    release_compare(jsonio_string(mpi, "version"), "5") >= 0 && !chooses_ways(mpi))
		json_object_set_new(env, "OMPI_MCA_btl", json_string("^ofi"));
}

/* The run of mpirun for one module. */
struct proof {
	const char *argv[16];
	char home[PATH_MAX + 16], doing[128];
	int said; /* all its output */
};

static int64_t proof_limit(const struct modules_how *how)
{
	return how->prove_ms ? how->prove_ms : PROOF_MS;
}

static int prepare_proof(struct proof *p, struct job *job, const struct modules_how *how,
			 const struct modules_trial *t, int number, struct err *e)
{
	json_t *env;
	int n = 0;

	snprintf(p->doing, sizeof(p->doing), "two ranks that add up by %.20s %.40s",
		 jsonio_string(t->mpi, "flavour"), jsonio_string(t->mpi, "version"));
	/* Each mpirun has its own TMPDIR, so that leftovers do not meet. */
	snprintf(p->home, sizeof(p->home), "%.4000s/%d", how->home, number);
	p->said = memfd_create("said", MFD_CLOEXEC);
	if (p->said < 0)
		return fail_os(e, "%s", p->doing);
	if (folder_make(p->home, 0700, e))
		return e->code;
	env = job_env(p->home, false);
	json_object_set_new(env, "RINGUP_BACKEND", json_string("mpi"));
	json_object_set_new(env, "RINGUP_MPI", json_string(t->path));
	spare_second(env, t->mpi);
	p->argv[n++] = jsonio_string(t->mpi, "mpirun");
	if (!strcmp(kind_of(t->mpi), "openmpi")) {
		if (geteuid() == 0)
			p->argv[n++] = "--allow-run-as-root";
		p->argv[n++] = "--oversubscribe";
	}
	p->argv[n++] = "-np";
	p->argv[n++] = "2";
	p->argv[n++] = how->tool;
	p->argv[n++] = "hello";
	p->argv[n++] = "--ranks";
	p->argv[n++] = "2";
	p->argv[n] = NULL;
	*job = (struct job){ .argv = p->argv,
			     .env = env,
			     .dir = p->home,
			     .log_fd = p->said,
			     .limit_ms = proof_limit(how) };
	return 0;
}

/* Copies the output of one proof to the log and sets its result. */
static void finish_proof(const struct proof *p, const struct modules_how *how, int status,
			 struct modules_trial *t)
{
	char part[4096];
	ssize_t n;
	off_t at;

	for (at = 0; how->log_fd >= 0 && (n = pread(p->said, part, sizeof(part), at)) > 0;
	     at += n)
		file_put(how->log_fd, part, (size_t)n);
	t->rc = modules_judge(status, proof_limit(how), p->doing, p->argv[0], &t->why);
}

static int prove_some(const struct modules_how *how, struct modules_trial *trials, int n,
		      struct err *e)
{
	struct proof *proofs = calloc((size_t)n + 1, sizeof(*proofs));
	struct job jobs[JOB_MOST];
	int status[JOB_MOST], of[JOB_MOST], count = 0, i, rc = 0;

	if (!proofs)
		return fail(e, RINGUP_ENOMEM, "no memory for %d proofs", n);
	for (i = 0; i < n && !rc; i++) {
		trials[i].rc = *jsonio_string(trials[i].mpi, "mpirun") ? 0 : 1;
		if (trials[i].rc)
			continue;
		of[count] = i;
		jobs[count] = (struct job){ 0 };
		rc = prepare_proof(&proofs[count], &jobs[count], how, &trials[i], i, e);
		count++;
	}
	if (!rc && count)
		rc = job_run_all(jobs, count, status, e);
	for (i = 0; i < count; i++) {
		if (!rc)
			finish_proof(&proofs[i], how, status[i], &trials[of[i]]);
		json_decref((json_t *)(uintptr_t)jobs[i].env);
		if (proofs[i].said >= 0)
			close(proofs[i].said);
	}
	free(proofs);
	return rc;
}

int modules_prove(const struct modules_how *how, struct modules_trial *trials, int n,
		  struct err *e)
{
	int rc = 0;

	for (int first = 0; first < n && !rc; first += JOB_MOST)
		rc = prove_some(how, trials + first,
				n - first < JOB_MOST ? n - first : JOB_MOST, e);
	return rc;
}
