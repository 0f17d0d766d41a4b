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
#include "detect/mpilibs.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"

enum { MAX_PARAMS = 1 << 20 };

/* Is the program @name in PATH, or a path of its own?  Its path in @out. */
static bool is_program(const char *name, char out[PATH_MAX])
{
	const char *path = conf_env("PATH");
	size_t n;

	snprintf(out, PATH_MAX, "%s", name);
	if (strchr(name, '/'))
		return !access(name, X_OK);
	for (; path && *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (snprintf(out, PATH_MAX, "%.*s/%s", (int)n, path, name) < PATH_MAX &&
		    !access(out, X_OK))
			return true;
	}
	return false;
}

/* Is any program there of @agents, such as "ssh -q : rsh"? */
static bool has_agent(const char *agents)
{
	char name[256], path[PATH_MAX];
	size_t n;

	for (; *agents; agents += n + (agents[n] == ':')) {
		n = strcspn(agents, ":");
		agents += strspn(agents, " ");
		n = strcspn(agents, ":");
		text_copy(name, sizeof(name), agents, strcspn(agents, " :"));
		if (*name && is_program(name, path))
			return true;
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

/* Is the first mpirun in PATH Open MPI's?  Its path in @out. */
static bool is_openmpi_first(char out[PATH_MAX])
{
	json_t *problems = json_array();
	const char *flavour = NULL;
	struct rootfs fs;
	struct err ignored;

	if (is_program("mpirun", out) && !rootfs_open(&fs, "", problems, &ignored)) {
		flavour = mpilibs_program(&fs, out);
		rootfs_close(&fs);
	}
	json_decref(problems);
	return flavour && !strcmp(flavour, "openmpi");
}

void exam_launcher(struct exam *x)
{
	const char *agents = conf_env("OMPI_MCA_plm_rsh_agent");
	bool is_told = agents && *agents;
	char mpirun[PATH_MAX];

	if (!is_told)
		agents = "ssh : rsh";
	if (is_started_otherwise() || has_agent(agents) || !is_openmpi_first(mpirun))
		return;
	exam_add(x, EXAM_NOTE, "Open MPI's %s starts no job: %s%.200s%s", mpirun,
		 is_told ? "OMPI_MCA_plm_rsh_agent=" : "",
		 is_told ? agents : "ssh and rsh are missing", is_told ? " is not there" : "");
	exam_why(x,
		 "it looks for a remote shell even if all ranks are on this host: "
		 "\"plm_rsh_agent "
		 "was set to a path that could not be found\"",
		 is_told ? "unset OMPI_MCA_plm_rsh_agent"
			 : "install openssh-client; for jobs on this host alone, export "
			   "OMPI_MCA_plm_rsh_agent=sh");
}
