/* launcher.c - examine whether Open MPI's mpirun finds what it starts processes with. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "detect/loader.h"
#include "detect/mpilibs.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"

enum { MAX_PARAMS = 1 << 20 };

static bool find_program(struct rootfs *fs, const char *name, char out[PATH_MAX])
{
	if (strchr(name, '/'))
		return rootfs_is_file(fs, name);
	return loader_find_in(fs, conf_env("PATH"), ":", NULL, NULL, name, out);
}

/* Is any program there of @agents, such as "ssh -q : rsh"? */
static bool has_agent(struct rootfs *fs, const char *agents)
{
	char name[256], path[PATH_MAX];

	while (*agents) {
		agents += strspn(agents, " :");
		text_copy(name, sizeof(name), agents, strcspn(agents, " :"));
		if (*name && find_program(fs, name, path))
			return true;
		agents += strcspn(agents, ":");
	}
	return false;
}

/* Does a file of Open MPI say how mpirun starts processes? */
static bool is_filed(void)
{
	const char *home = conf_env("HOME");
	char own[PATH_MAX];
	const char *files[] = { "/etc/openmpi/openmpi-mca-params.conf", own };
	bool is = false;
	char *data;
	size_t len;

	snprintf(own, sizeof(own), "%s/.openmpi/mca-params.conf", home ? home : "");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !is; i++) {
		if (file_read("", files[i], MAX_PARAMS, &data, &len, NULL))
			continue;
		is = !strncmp(data, "plm", 3) || strstr(data, "\nplm");
		free(data);
	}
	return is;
}

/* Does a resource manager start processes, or a variable name another way? */
static bool is_started_otherwise(void)
{
	static const char *const names[] = { "SLURM_JOB_ID", "PBS_JOBID",    "LSB_JOBID",
					     "JOB_ID",       "OMPI_MCA_plm", "PRTE_MCA_plm" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (conf_env(names[i]))
			return true;
	return is_filed();
}

/* Does the first mpirun in PATH, whose path is set in @out, belong to Open MPI, and find no
 * program of @agents? */
static bool lacks_agent(const char *agents, char out[PATH_MAX])
{
	json_t *problems = json_array();
	const char *flavour = NULL;
	struct rootfs fs;
	struct err ignored;
	bool is = false;

	if (!rootfs_open(&fs, "", problems, &ignored)) {
		if (!has_agent(&fs, agents) && find_program(&fs, "mpirun", out))
			flavour = mpilibs_program(&fs, out);
		is = flavour && !strcmp(flavour, "openmpi");
		rootfs_close(&fs);
	}
	json_decref(problems);
	return is;
}

void exam_launcher(struct exam *x)
{
	const char *agents = conf_env("OMPI_MCA_plm_rsh_agent");
	bool is_set = agents && *agents;
	char mpirun[PATH_MAX];

	if (!is_set)
		agents = "ssh : rsh";
	if (is_started_otherwise() || !lacks_agent(agents, mpirun))
		return;
	exam_add(x, EXAM_NOTE, "Open MPI's %s starts no job: %s%.200s%s", mpirun,
		 is_set ? "OMPI_MCA_plm_rsh_agent=" : "",
		 is_set ? agents : "ssh and rsh are missing", is_set ? " is not there" : "");
	exam_why(x,
		 "it looks for a remote shell even if all ranks are on this host: "
		 "\"plm_rsh_agent "
		 "was set to a path that could not be found\"",
		 is_set ? "unset OMPI_MCA_plm_rsh_agent"
			: "install openssh-client; for jobs on this host alone, export "
			  "OMPI_MCA_plm_rsh_agent=sh");
}
