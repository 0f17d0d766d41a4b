/* ancestor.h - the launcher among this process's ancestors. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_ANCESTOR_H
#define WIRE_ANCESTOR_H

#include "base/pidstat.h"

/*
 * ancestor_launcher - who started this rank and will not outlive the job in peace:
 * mpirun or its daemon, Hydra's proxy, Slurm's step daemon, torchrun.
 *
 * Such a launcher that is killed leaves ranks behind that are no MPI programs.  Our
 * own needs no watching: the kernel kills its ranks with it.
 *
 * Returns its process, with *@p filled, or 0 if none is in sight.
 */
pid_t ancestor_launcher(struct pidstat *p);

#endif
