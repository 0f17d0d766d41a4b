/* places.c - check for variables that name a nonexistent file or folder. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "doctor/exam.h"

/* A variable, the file or folder that is below its value, and what happens without that. */
struct place {
	const char *variable, *below;
	enum exam_state state;
	const char *why;
};

static const char ca_why[] =
	"pip, curl and downloads of models and data fail with certificate errors";
static const char mpi_why[] =
	"Open MPI looks for all its files there: mpirun and MPI_Init fail "
	"(opal_init, startup:internal-failure)";

static const struct place places[] = {
	{ "OPAL_PREFIX", "share/openmpi", EXAM_BAD, mpi_why },
	{ "PRTE_PREFIX", "", EXAM_BAD, mpi_why },
	{ "PMIX_PREFIX", "", EXAM_BAD, mpi_why },
	{ "I_MPI_ROOT", "", EXAM_BAD, "Intel MPI looks for its files there" },
	{ "SPARK_HOME", "bin/spark-submit", EXAM_BAD, "pyspark starts that program" },
	{ "SSL_CERT_FILE", "", EXAM_BAD, ca_why },
	{ "REQUESTS_CA_BUNDLE", "", EXAM_BAD, ca_why },
	{ "CURL_CA_BUNDLE", "", EXAM_BAD, ca_why },
	{ "PIP_CERT", "", EXAM_BAD, "pip fails with certificate errors" },
	{ "CUDA_HOME", "", EXAM_NOTE, "extensions for CUDA cannot be compiled" },
	{ "CUDA_PATH", "", EXAM_NOTE, "extensions for CUDA cannot be compiled" },
};

/* Reports libraries of LD_PRELOAD that are not there; names without a folder are searched for.
 */
static void add_preload(struct exam *x)
{
	const char *list = conf_env("LD_PRELOAD");
	char path[PATH_MAX];

	for (; list && *list; list += strcspn(list, " :"), list += *list != 0) {
		int n = (int)strcspn(list, " :");

		if (*list != '/' || snprintf(path, sizeof(path), "%.*s", n, list) >= PATH_MAX ||
		    !access(path, F_OK))
			continue;
		exam_add(x, EXAM_NOTE, "LD_PRELOAD: %s does not exist", path);
		exam_why(x, "the dynamic loader ignores it, and every program prints an error",
			 "remove it from LD_PRELOAD");
	}
}

void exam_places(struct exam *x)
{
	char path[PATH_MAX], todo[64];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const struct place *p = &places[i];
		const char *value = conf_env(p->variable);

		if (!value || !*value)
			continue;
		if (snprintf(path, sizeof(path), "%s%s%s", value, *p->below ? "/" : "",
			     p->below) >= PATH_MAX ||
		    !access(path, F_OK))
			continue;
		exam_add(x, p->state, "%s=%s: %s does not exist", p->variable, value, path);
		snprintf(todo, sizeof(todo), "unset %s, or correct it", p->variable);
		exam_why(x, p->why, todo);
	}
	add_preload(x);
}
