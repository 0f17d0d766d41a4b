/* doctor.h - examine the health of a node, for a one-page report. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>

struct conf;
struct err;

/* The request.  Zero-initialise, then set what you need. */
struct doctor_how {
	const char *root;   /* a recorded or mounted tree; NULL or "": this node */
	const char *python; /* only this one; NULL or "": all                    */
	const struct conf *conf;
	bool brief;   /* with what brief_of() tells, as "brief"              */
	bool imports; /* also import each framework, on this node */
	/* If not NULL, gets what takes time, and NULL when that has ended. */
	void (*progress)(const char *what);
};

/*
 * doctor_examine - {schema, healthy, findings: [{section, state, text, why, todo}], imports:
 * [{python, name, result, text}], horovod}.
 *
 * Runs no examined software, but for imports (doctor/trial.h).  horovod has the answers of
 * `horovodrun --check-build` for each Python: [{python, engine, frameworks: {PyTorch: true},
 * controllers: {MPI, Gloo}, operations: {NCCL, DDL, CCL, MPI, Gloo}}]; null: only running it
 * would tell.
 *
 * Ownership: *@out is the caller's to json_decref().
 * Returns 0, or as find_all().
 */
int doctor_examine(const struct doctor_how *how, json_t **out, struct err *e);

#endif
