/* nccl_lib.c - NCCL, libnccl.so.2, which is found when a job starts: the calls in use. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/nccl_lib.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "device/driver.h"
#include "ringup.h"

static const char soname[] = "libnccl.so.2";
static const char nccl_lib_in_wheel[] = "nvidia/nccl/lib/libnccl.so.2";
static const char nccl_lib_of_conda[] =
	"../../libnccl.so.2"; /* from lib/pythonX/site-packages */

static struct nccl_lib lib;
static bool is_open;

_Static_assert(offsetof(struct nccl_config, comm_name) == NCCL_CONFIG_BYTES, "as in nccl.h");
_Static_assert(sizeof(struct nccl_config) == NCCL_CONFIG_NAMED, "as in nccl.h");

void nccl_lib_number(int number, char *text)
{
	snprintf(text, NCCL_NUMBER, "%d.%d.%d", number / 10000, number / 100 % 100,
		 number % 100);
}

/* Where the file of an open library is, for messages. */
static void find_path(void *function, char *path, size_t len)
{
	Dl_info info;

	snprintf(path, len, "%s",
		 dladdr(function, &info) && info.dli_fname ? info.dli_fname : soname);
}

/* Where wheels are installed: a folder of this name is above each of their files. */
static const char *const packages[] = { "/site-packages/", "/dist-packages/" };

bool nccl_lib_beside(const char *file, int which, char path[PATH_MAX])
{
	static const char *const from_packages[] = { nccl_lib_in_wheel, nccl_lib_of_conda };

	if (which >= (int)(sizeof(from_packages) / sizeof(from_packages[0])))
		return false;
	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
		const char *at = strstr(file, packages[i]);
		int len = at ? (int)(at - file + (ptrdiff_t)strlen(packages[i])) : 0;

		if (len)
			return snprintf(path, PATH_MAX, "%.*s%s", len, file,
					from_packages[which]) < PATH_MAX;
	}
	return false;
}

/* Looks for the wheel of NCCL beside another library of the process that is in a Python's
 * packages, as a framework's is, or for conda's.  JAX and TensorFlow open NCCL when they first
 * use it. */
static int find_wheel(struct dl_phdr_info *mapped, size_t size, void *path)
{
	(void)size;
	for (int i = 0; nccl_lib_beside(mapped->dlpi_name, i, path); i++)
		if (!access(path, R_OK))
			return 1;
	return 0;
}

/* A framework that is linked with NCCL itself has its calls: no second NCCL beside it. */
static int find_static(struct dl_phdr_info *mapped, size_t size, void *found)
{
	void **at = found, *torch;

	(void)size;
	if (!strstr(mapped->dlpi_name, "libtorch_cuda"))
		return 0;
	torch = dlopen(mapped->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
	if (torch && dlsym(torch, "ncclCommInitRankConfig"))
		*at = torch;
	else if (torch)
		dlclose(torch);
	return *at != NULL;
}

/* A process should have one NCCL, and that is the framework's.  detect/nccllibs.c follows the
 * same order, for jobs that have not begun. */
static void *open_lib(const char *wanted)
{
	char path[PATH_MAX];
	void *at = *wanted ? dlopen(wanted, RTLD_NOW | RTLD_LOCAL)
			   : dlopen(soname, RTLD_NOW | RTLD_NOLOAD);

	if (!at && !*wanted && !dl_iterate_phdr(find_static, &at) &&
	    dl_iterate_phdr(find_wheel, path))
		at = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return at || *wanted ? at : dlopen(soname, RTLD_NOW | RTLD_LOCAL);
}

/* The loader would wait for what a pipe brings. */
static bool is_no_file(const char *path)
{
	struct stat s;

	return strchr(path, '/') && !stat(path, &s) && !S_ISREG(s.st_mode);
}

/* Paths are cut so that what is said about them fits into NCCL_WHY bytes. */
static int nccl_load(struct nccl_lib *l, const char *wanted, struct err *e)
{
	char number[NCCL_NUMBER];
	void *at;
	int rc;

	if (is_no_file(wanted))
		return fail(e, RINGUP_ENOBACKEND, "RINGUP_NCCL is not a regular file: %.160s",
			    wanted);
	at = open_lib(wanted);
	if (!at && *wanted)
		return fail(e, RINGUP_ENOBACKEND, "RINGUP_NCCL does not load: %.160s",
			    dlerror());
	if (!at)
		return fail(e, RINGUP_ENOBACKEND,
			    "NCCL does not load (%.100s); import its framework first, or set "
			    "RINGUP_NCCL",
			    dlerror());
#define X(type, name, symbol, params)                                         \
	*(void **)&l->name = dlsym(at, symbol);                               \
	if (!l->name)                                                         \
		return fail(e, RINGUP_ENOBACKEND,                             \
			    "%.130s has no %s; NCCL 2.18 or later is needed", \
			    *wanted ? wanted : soname, symbol);
	NCCL_CALLS(X)
#undef X
	find_path(*(void **)&l->version, l->path, sizeof(l->path));
	rc = l->version(&l->number);
	if (rc)
		return fail(e, RINGUP_ENOBACKEND, "ncclGetVersion of %.160s: %s", l->path,
			    l->text(rc));
	if (l->number >= NCCL_LEAST)
		return 0;
	nccl_lib_number(l->number, number);
	return fail(e, RINGUP_ENOBACKEND, "NCCL %s is too old, 2.18 or later is needed: %.140s",
		    number, l->path);
}

const struct nccl_lib *nccl_lib_get(const char *wanted, struct err *e)
{
	int rc = 0;

	driver_lock();
	if (!is_open) {
		rc = nccl_load(&lib, wanted, e);
		is_open = !rc;
	}
	driver_unlock();
	return rc ? NULL : &lib;
}
