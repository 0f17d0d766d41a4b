/* mpi_state.c - the MPI library of this process, if it has one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/mpi_state.h"

#include <dlfcn.h>
#include <link.h>
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

bool mpi_state_library(char path[PATH_MAX])
{
	return dl_iterate_phdr(is_mpi, path) != 0;
}

void *mpi_state_function(const char *name)
{
	char path[PATH_MAX] = "";
	void *handle = NULL, *found;

	/* Python loads extensions such that their libraries are in no common scope. */
	if (mpi_state_library(path))
		handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	found = dlsym(handle ? handle : RTLD_DEFAULT, name);
	if (handle)
		dlclose(handle);
	return found;
}

/* Does this function of MPI, which may be called at any time, set its flag? */
static bool is_set(const char *name)
{
	int (*ask)(int *flag);
	int flag = 0;

	*(void **)&ask = mpi_state_function(name);
	return ask && !ask(&flag) && flag;
}

enum mpi_state mpi_state(void)
{
	if (is_set("MPI_Finalized"))
		return MPI_STATE_FINALIZED;
	return is_set("MPI_Initialized") ? MPI_STATE_ACTIVE : MPI_STATE_NONE;
}
