/* ancestor.c - the launcher among this process's ancestors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ancestor.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Wrapper scripts may run between a launcher and its rank. */
enum { GENERATIONS = 6 };

static bool is_among(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(name, *names))
			return true;
	return false;
}

pid_t ancestor_launcher(struct pidstat *p)
{
	static const char *const launchers[] = {
		"mpirun",         "mpiexec",    "mpiexec.hydra", "orterun",
		"orted",          "prterun",    "prted",         "hydra_pmi_proxy",
		"hydra_bstrap_p", "slurmstepd", "torchrun",      NULL,
	};
	pid_t pid = getppid();

	for (int up = 0; up < GENERATIONS && pid > 1 && !pidstat_read(pid, p); up++) {
		if (!strcmp(p->name, "ringup"))
			return 0;
		if (is_among(p->name, launchers))
			return pid;
		pid = p->parent;
	}
	return 0;
}
