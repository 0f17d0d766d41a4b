/* ancestor.h - the launcher among this process's ancestors. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_ANCESTOR_H
#define WIRE_ANCESTOR_H

#include "base/pidstat.h"

/*
 * ancestor_launcher - the launcher that started this rank and lives as long as the job:
 * mpirun or its daemon, Hydra's proxy, Slurm's step daemon, torchrun.
 *
 * Such a launcher, when killed, leaves ranks behind that are no MPI programs.  `ringup run`
 * needs no watching: the kernel kills its ranks with it.
 *
 * Returns its process, with *@p filled, or 0 if there is none among the next ancestors.
 */
pid_t ancestor_launcher(struct pidstat *p);

#endif
