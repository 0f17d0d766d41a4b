/* losses.h - what a rebuild would take away of what is there, said before it begins. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_LOSSES_H
#define REBUILD_LOSSES_H

#include "rebuild/buildplan.h"

/*
 * losses_find - an array of sentences: what a Horovod of the Python of @plan can do, and what
 * comes in its place cannot.
 *
 * Judged from its extensions' libraries: NCCL, CUDA and MPI, and the frameworks that it serves;
 * and the release, where that is newer.  For the engine ringup, too, which puts a Horovod away.
 * Also why a plan for a framework on GPUs has none, whatever was there.  Reads, and runs
 * nothing; the caller's reference.
 */
json_t *losses_find(const json_t *facts, const struct buildplan *plan);

#endif
