/* prove.h - test an engine by training: two ranks, different data, averaged weights. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_PROVE_H
#define REBUILD_PROVE_H

#include <jansson.h>

#include "rebuild/job.h"

enum { PROVE_RANKS = 2, PROVE_LAUNCH = 24 };

/* Zero-initialise, then set what you need. */
struct prove_how {
	const char *framework;            /* torch, tensorflow, keras or jax        */
	const char *way;                  /* for the report: "gloo", "mpi", ...     */
	const char *launch[PROVE_LAUNCH]; /* prefix that starts a command in two ranks */
	const char *python;
	const json_t *env; /* job_env(), with the ranks' other variables            */
	const char *dir;   /* an empty folder that job_who can write to             */
	struct job_user user;
	int log_fd;
	int64_t limit_ms; /* 0: two minutes */
};

/* prove_exists - is there a proof for this framework? */
int prove_exists(const char *framework);

/*
 * prove_run - train; *@out is {framework, way, ranks, version, off, error}, where error is null
 * if all ranks have the same weights, those that averaging gives.
 *
 * An engine that fails is no failure of this function.
 */
int prove_run(const struct prove_how *how, json_t **out, struct err *e);

/* prove_judge - write the fault in @told, an array of the ranks' reports (prove.py), to @why;
 * 0: none. */
int prove_judge(const json_t *told, char *why, size_t size);

#endif
