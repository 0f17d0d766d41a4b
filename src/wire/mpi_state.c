/* mpi_state.c - the MPI library of this process, if it has one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/mpi_state.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* For dl_iterate_phdr(): the path of the first library with an MPI's name, to @arg. */
static int is_mpi(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *base = strrchr(info->dlpi_name, '/');
	char *path = arg;

	(void)size;
	base = base ? base + 1 : info->dlpi_name;
	if (strncmp(base, "libmpi.so", 9) && strncmp(base, "libmpich.so", 11))
		return 0;
	snprintf(path, PATH_MAX, "%s", info->dlpi_name);
	return 1;
}

/* Does this function of MPI, which may be called at any time, set its flag? */
static bool is_set(void *handle, const char *name)
{
	int (*ask)(int *flag);
	int flag = 0;

	*(void **)&ask = dlsym(handle ? handle : RTLD_DEFAULT, name);
	return ask && !ask(&flag) && flag;
}

enum mpi_state mpi_state(void)
{
	enum mpi_state state = MPI_STATE_NONE;
	char path[PATH_MAX] = "";
	void *handle = NULL;

	/* Python loads extensions with RTLD_LOCAL, so RTLD_DEFAULT lacks their libraries. */
	if (dl_iterate_phdr(is_mpi, path))
		handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (is_set(handle, "MPI_Finalized"))
		state = MPI_STATE_FINALIZED;
	else if (is_set(handle, "MPI_Initialized"))
		state = MPI_STATE_ACTIVE;
	if (handle)
		dlclose(handle);
	return state;
}
