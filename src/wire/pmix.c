/* pmix.c - the PMIx store of Open MPI, PRRTE and Slurm, through the launcher's libpmix. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/conf.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/ancestor.h"
#include "wire/kvs.h"
#include "wire/pmix_abi.h"

enum { GET_S = 30 /* seconds: ample, since a fence has collected the data */ };

static const char soname[] = "libpmix.so.2";

static struct {
	struct pmix_abi call;
	struct pmix_abi_proc self;
} pmix;

static bool pmix_is_here(int rank, int size)
{
	const char *space = conf_env("PMIX_NAMESPACE"), *text = conf_env("PMIX_RANK");
	char *end;

	(void)size;
	return space && *space && text && *text && strtol(text, &end, 10) == rank && !*end;
}

/* The path in @line of /proc/PID/maps, if it is the PMIx library; else NULL. */
static char *mapped_library(char *line)
{
	char *path = strchr(line, '/'), *base;

	if (!path)
		return NULL;
	path[strcspn(path, "\n")] = 0;
	base = strrchr(path, '/') + 1;
	return !strncmp(base, soname, sizeof(soname) - 1) ? path : NULL;
}

/*
 * Loads the library that the launcher itself has loaded, since its version is right.  NULL
 * under Slurm: its daemon is root's, and the maps cannot be read.
 */
static void *load_launchers(void)
{
	char name[64], line[PATH_MAX + 128], *path = NULL;
	struct pidstat p;
	pid_t pid = ancestor_launcher(&p);
	void *handle = NULL;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = pid ? fopen(name, "re") : NULL;
	if (!maps)
		return NULL;
	while (!path && fgets(line, sizeof(line), maps))
		path = mapped_library(line);
	if (path)
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	fclose(maps);
	return handle;
}

/* An MPI library in this process has loaded PMIx, or will, and the loader keeps one library
 * of a soname: so a loaded one comes first, then the launcher's. */
static int load(struct pmix_abi *a, struct err *e)
{
	const struct {
		const char *name;
		void **to;
	} calls[] = {
		{ "PMIx_Init", (void **)&a->Init },
		{ "PMIx_Finalize", (void **)&a->Finalize },
		{ "PMIx_Put", (void **)&a->Put },
		{ "PMIx_Commit", (void **)&a->Commit },
		{ "PMIx_Fence", (void **)&a->Fence },
		{ "PMIx_Get", (void **)&a->Get },
		{ "PMIx_Error_string", (void **)&a->Error_string },
	};
	void *handle = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);

	if (!handle)
		handle = load_launchers();
	if (!handle)
		handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return fail(e, RINGUP_ESYSTEM,
			    "the launcher's store uses PMIx, but this host has no %s: install "
			    "libpmix2, or name its folder in LD_LIBRARY_PATH",
			    soname);
	/* The library is never unloaded: it has threads. */
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		*calls[i].to = dlsym(handle, calls[i].name);
		if (!*calls[i].to)
			return fail(e, RINGUP_ESYSTEM, "%s has no %s", soname, calls[i].name);
	}
	return 0;
}

static int pmix_check(int status, const char *what, struct err *e)
{
	if (status == PMIX_ABI_SUCCESS)
		return 0;
	return fail(e, RINGUP_ESYSTEM, "the launcher's store: %s: %s", what,
		    pmix.call.Error_string(status));
}

static int pmix_open(int rank, struct err *e)
{
	int rc = load(&pmix.call, e);

	if (!rc)
		rc = pmix_check(pmix.call.Init(&pmix.self, NULL, 0), "PMIx_Init", e);
	if (!rc && pmix.self.rank != (uint32_t)rank)
		rc = fail(e, RINGUP_EINVAL, "rank %d is rank %u to PMIx", rank, pmix.self.rank);
	return rc;
}

static int pmix_put(const char *key, const char *value, struct err *e)
{
	struct pmix_abi_value v = { .type = PMIX_ABI_STRING };
	char copy[KVS_VALUE_BYTES];
	int rc;

	snprintf(copy, sizeof(copy), "%s", value);
	v.data.string = copy;
	rc = pmix_check(pmix.call.Put(PMIX_ABI_GLOBAL, key, &v), "PMIx_Put", e);
	explicit_bzero(copy, sizeof(copy));
	return rc ? rc : pmix_check(pmix.call.Commit(), "PMIx_Commit", e);
}

static int pmix_fence(struct err *e)
{
	struct pmix_abi_info all = { .key = PMIX_ABI_COLLECT,
				     .value = { .type = PMIX_ABI_BOOL } };

	all.value.data.flag = true;
	return pmix_check(pmix.call.Fence(NULL, 0, &all, 1), "PMIx_Fence", e);
}

static int pmix_get(const char *key, char *value, struct err *e)
{
	struct pmix_abi_info limit = { .key = PMIX_ABI_TIMEOUT,
				       .value = { .type = PMIX_ABI_INT } };
	struct pmix_abi_proc zero = pmix.self;
	struct pmix_abi_value *v = NULL;
	int rc;

	zero.rank = 0;
	limit.value.data.integer = GET_S;
	rc = pmix_check(pmix.call.Get(&zero, key, &limit, 1, &v), "PMIx_Get", e);
	if (rc)
		return rc;
	if (!v || v->type != PMIX_ABI_STRING || !v->data.string ||
	    strlen(v->data.string) >= KVS_VALUE_BYTES)
		return fail(e, RINGUP_EMISMATCH, "the launcher's store: %s is not text", key);
	snprintf(value, KVS_VALUE_BYTES, "%s", v->data.string);
	explicit_bzero(v->data.string, strlen(v->data.string));
	free(v->data.string);
	free(v);
	return 0;
}

/* PMIx counts PMIx_Init() calls: a connection that MPI also uses lives on until MPI ends it. */
static void pmix_close(void)
{
	pmix.call.Finalize(NULL, 0);
}

const struct kvs kvs_pmix = {
	.name = "PMIx",
	.is_here = pmix_is_here,
	.open = pmix_open,
	.put = pmix_put,
	.fence = pmix_fence,
	.get = pmix_get,
	.close = pmix_close,
};
