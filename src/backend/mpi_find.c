/* mpi_find.c - find this process's MPI library, and load the module that calls it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mpi_find.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/mpi_module.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/release.h"
#include "ringup.h"
#include "wire/mpi_state.h"

const char *mpi_find_kind(const char *summary)
{
	return strstr(summary, "Open MPI") ? "openmpi" : "mpich";
}

/* The value of the line of @text that begins with @key; its length. */
static int mpi_find_value_of(const char *text, const char *key, const char **value)
{
	const char *at = strstr(text, key);

	*value = at ? at + strlen(key) + strspn(at + strlen(key), " \t") : "";
	return (int)strcspn(*value, "\n");
}

void mpi_find_summary(const char *text, char out[MPI_FIND_SUMMARY])
{
	const char *version, *device;
	int v = mpi_find_value_of(text, "MPICH Version:", &version);
	int d = mpi_find_value_of(text, "MPICH Device:", &device);

	if (v)
		snprintf(out, MPI_FIND_SUMMARY, "MPICH %.*s (%.*s)", v, version, d, device);
	else
		snprintf(out, MPI_FIND_SUMMARY, "%.*s", (int)strcspn(text, ",\n"), text);
}

/* Summary of the MPI that is in this process; "" if none is. */
static void loaded_summary(char out[MPI_FIND_SUMMARY])
{
	int (*get)(char *text, int *len);
	char *text;
	int len = 0;

	*out = 0;
	*(void **)&get = mpi_state_function("MPI_Get_library_version");
	text = get ? calloc(1, MODULE_VERSION) : NULL;
	if (text && !get(text, &len))
		mpi_find_summary(text, out);
	free(text);
}

const char *mpi_find_launcher(int *size)
{
	static const struct {
		const char *variable, *kind;
	} launchers[] = {
		{ "OMPI_COMM_WORLD_SIZE", "openmpi" },
		{ "PMI_SIZE", "mpich" },
	};

	*size = 0;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const char *value = conf_env(launchers[i].variable);

		if (value) {
			*size = (int)strtol(value, NULL, 10);
			return launchers[i].kind;
		}
	}
	return "";
}

void mpi_find_version(const char *summary, char out[MPI_FIND_VERSION])
{
	const char *at = strpbrk(summary, "0123456789");

	snprintf(out, MPI_FIND_VERSION, "%.*s", at ? (int)strspn(at, "0123456789.") : 0,
		 at ? at : "");
}

void mpi_find_launcher_version(char out[MPI_FIND_VERSION])
{
	const char *version = conf_env("OMPI_VERSION");

	*out = 0;
	if (version)
		mpi_find_version(version, out);
	else if (conf_env("OMPI_MCA_orte_hnp_uri"))
		snprintf(out, MPI_FIND_VERSION, "4");
}

/* Is @name "ringup-mpi-@kind.so", or with "-VERSION", which goes to @version? */
static bool is_module(const char *name, const char *kind, char version[MPI_FIND_VERSION])
{
	size_t n = strlen(kind), len;

	*version = 0;
	if (strncmp(name, "ringup-mpi-", 11) || strncmp(name + 11, kind, n))
		return false;
	name += 11 + n;
	if (!strcmp(name, ".so"))
		return true;
	len = strlen(name);
	if (*name != '-' || len < 5 || len - 4 >= MPI_FIND_VERSION ||
	    strcmp(name + len - 3, ".so"))
		return false;
	snprintf(version, MPI_FIND_VERSION, "%.*s", (int)len - 4, name + 1);
	return true;
}

/* How well a module for @have serves @want; 0: not at all. */
static int fitness(const char *have, const char *want)
{
	size_t n = strcspn(want, ".");

	if (!*have)
		return *want ? 1 : 3;
	if (!*want)
		return 2;
	if (!strcmp(have, want))
		return 3;
	return strcspn(have, ".") == n && !strncmp(have, want, n) ? 2 : 0;
}

const char *mpi_find_best(const char *const *names, size_t n, const char *kind,
			  const char *version)
{
	char newest[MPI_FIND_VERSION] = "", have[MPI_FIND_VERSION];
	const char *best = NULL;
	int best_fits = 0;

	for (size_t i = 0; i < n; i++) {
		int fits = is_module(names[i], kind, have) ? fitness(have, version) : 0;

		if (!fits || fits < best_fits ||
		    (fits == best_fits && release_compare(have, newest) <= 0))
			continue;
		best = names[i];
		best_fits = fits;
		snprintf(newest, sizeof(newest), "%s", have);
	}
	return best;
}

const char *mpi_find_name(const char *loaded, const char *asked, const char *launcher,
			  struct err *e)
{
	const char *kind = *loaded ? mpi_find_kind(loaded) : "";

	if (strchr(asked, '/'))
		return asked;
	if (*asked && strcmp(asked, "openmpi") && strcmp(asked, "mpich")) {
		fail(e, RINGUP_EINVAL, "RINGUP_MPI=%.40s: openmpi, mpich or a path to a module",
		     asked);
		return NULL;
	}
	if (*kind && *asked && strcmp(kind, asked)) {
		fail(e, RINGUP_EINVAL, "RINGUP_MPI=%s, but this process uses %.80s", asked,
		     loaded);
		return NULL;
	}
	if (*kind || *asked || *launcher)
		return *kind ? kind : *asked ? asked : launcher;
	fail(e, RINGUP_ENOBACKEND,
	     "no MPI is loaded and no MPI launcher started this process; use mpirun");
	return NULL;
}

/* The folder of the library or command that this code is in, with links resolved, since the
 * modules lie beside the file itself. */
static void own_folder(char out[PATH_MAX])
{
	static const char here;
	char real[PATH_MAX];
	Dl_info me = { 0 };
	const char *slash;

	if (!dladdr(&here, &me) || !me.dli_fname || !strchr(me.dli_fname, '/'))
		me.dli_fname = "/proc/self/exe";
	slash = realpath(me.dli_fname, real) ? strrchr(real, '/') : NULL;
	snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - real) : 1, slash ? real : ".");
}

/* Loads @path; NULL on failure, with the reason in @why, which is left alone without a file. */
static void *load(const char *path, char why[MODULE_WHY])
{
	void *handle;

	if (access(path, R_OK))
		return NULL;
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		snprintf(why, MODULE_WHY, "%s", dlerror());
	return handle;
}

/* The best module in @dir, if there is any. */
static void *load_best(const char *dir, const char *kind, const char *version,
		       char why[MODULE_WHY])
{
	char pattern[PATH_MAX + 64];
	const char *best;
	void *handle = NULL;
	size_t at = strlen(dir) + 1, i;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/ringup-mpi-%s*.so", dir, kind);
	if (glob(pattern, 0, NULL, &found))
		return NULL;
	/* glob() returns paths that begin with @dir; the names follow. */
	for (i = 0; i < found.gl_pathc; i++)
		found.gl_pathv[i] += at;
	best = mpi_find_best((const char *const *)found.gl_pathv, found.gl_pathc, kind,
			     version);
	if (best)
		handle = load(best - at, why);
	for (i = 0; i < found.gl_pathc; i++)
		found.gl_pathv[i] -= at;
	globfree(&found);
	return handle;
}

/* Looks below this library as installed, beside it as built, and the same for the
 * command. */
static void *load_named(const char *name, const char *version, struct err *e)
{
	/* The last is for a library in the Python package of an environment. */
	static const char *const near[] = { "/ringup", "", "/" LIB_FROM_BIN "/ringup", "/.libs",
					    "/../../../ringup" };
	char dir[PATH_MAX], path[PATH_MAX], why[MODULE_WHY] = "";
	void *handle = NULL;

	if (strchr(name, '/')) {
		handle = load(name, why);
		if (!handle)
			fail(e, RINGUP_ENOBACKEND, "RINGUP_MPI=%.80s: %s", name,
			     *why ? why : "no such file");
		return handle;
	}
	own_folder(dir);
	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]) && !handle; i++) {
		if (snprintf(path, sizeof(path), "%s%s", dir, near[i]) < PATH_MAX)
			handle = load_best(path, name, version, why);
	}
	if (!handle && *why)
		fail(e, RINGUP_ENOBACKEND, "%s", why);
	else if (!handle)
		fail(e, RINGUP_ENOBACKEND,
		     "ringup has no module for this MPI (ringup-mpi-%s%s%s.so); with its "
		     "mpi.h, `ringup rebuild` builds one",
		     name, *version ? "-" : "", version);
	return handle;
}

/* Summary of the MPI that @mod is linked with. */
static void module_summary(const struct mpi_module *mod, char out[MPI_FIND_SUMMARY])
{
	char *text = calloc(1, MODULE_VERSION);

	*out = 0;
	if (text) {
		mod->version(text);
		mpi_find_summary(text, out);
	}
	free(text);
}

int mpi_find_module(const struct mpi_module **modp, char summary[MPI_FIND_SUMMARY],
		    struct err *e)
{
	char loaded[MPI_FIND_SUMMARY], version[MPI_FIND_VERSION];
	const char *asked = conf_env("RINGUP_MPI"), *name;
	const struct mpi_module *mod;
	void *handle;
	int size;

	loaded_summary(loaded);
	name = mpi_find_name(loaded, asked ? asked : "", mpi_find_launcher(&size), e);
	if (!name)
		return e->code;
	if (*loaded)
		mpi_find_version(loaded, version);
	else if (!strcmp(name, mpi_find_launcher(&size)))
		mpi_find_launcher_version(version);
	else
		*version = 0;
	handle = load_named(name, version, e);
	if (!handle)
		return e->code;
	mod = dlsym(handle, MODULE_SYMBOL);
	if (!mod || mod->abi != MODULE_ABI)
		return fail(e, RINGUP_ENOBACKEND,
			    "the module for %.80s belongs to another version of ringup", name);
	/* The program must use the MPI that the module is linked with. */
	module_summary(mod, summary);
	if (*loaded && strcmp(loaded, summary))
		return fail(e, RINGUP_ENOBACKEND, "this process uses %.60s, the module %.60s",
			    loaded, summary);
	*modp = mod;
	return 0;
}
