/* losses.h - abilities of the installed Horovod that a rebuild would take away. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_LOSSES_H
#define REBUILD_LOSSES_H

#include "rebuild/buildplan.h"

/*
 * losses_find - an array of sentences: abilities of a Horovod in the Python of @plan that its
 * replacement lacks.
 *
 * Judged from its extensions' libraries: NCCL, CUDA and MPI, and the frameworks that it serves;
 * and from its release, where that is newer.  This includes the engine ringup, which replaces a
 * Horovod.  Also says why a plan for a GPU framework has no GPU support, even with no Horovod
 * there.  Reads files, runs nothing; the caller's reference.
 */
json_t *losses_find(const json_t *facts, const struct buildplan *plan);

#endif
