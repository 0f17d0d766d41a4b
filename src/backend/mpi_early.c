/* mpi_early.c - initialise MPI before this library itself connects to the launcher. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mpi_early.h"

#include "backend/mpi_find.h"
#include "backend/mpi_module.h"
#include "base/err.h"
#include "base/log.h"

void mpi_early_begin(void)
{
	char summary[MPI_FIND_SUMMARY], why[MODULE_WHY] = "";
	const struct mpi_module *mod;
	struct mpi_world w = { 0 };
	struct err e = { 0 };

	if (mpi_find_module(&mod, summary, &e))
		return;
	mod->world(&w);
	if (!w.initialized && !w.finalized && mod->init(why))
		log_warn("%s", why);
}
