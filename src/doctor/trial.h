/* trial.h - import frameworks as a job would, each in a child of its own, with a time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_TRIAL_H
#define DOCTOR_TRIAL_H

#include <jansson.h>
#include <stdbool.h>

struct err;

enum { TRIAL_SECONDS = 20, TRIAL_TEXT = 480 };

enum trial_result {
	TRIAL_WORKS,
	TRIAL_FAILS,   /* text: the exception                               */
	TRIAL_DOWN,    /* the Python itself does not start; text: its words */
	TRIAL_LATE,    /* it took more than TRIAL_SECONDS                   */
	TRIAL_UNSAFE,  /* text: what another user could change              */
	TRIAL_UNTRIED, /* no process could be started; text: why            */
};

struct trial {
	const char *python, *module; /* borrowed, as those below */
	const json_t *sites;         /* folders that the Python imports from */
	const char *location;        /* of the framework                     */
	enum trial_result result;
	char text[TRIAL_TEXT];
};

/*
 * trial_run - import each module of @all in its Python, and fill in the results.
 *
 * As many at once as this process has processors.  A child has no input, writes no bytecode,
 * and runs in a process group that ends with it.  Where this is root, it runs as the Python's
 * owner (job_owner()), and not at all if anyone else may change what it would run.
 * Returns 0, or RINGUP_EABORTED.
 */
int trial_run(struct trial *all, int n, struct err *e);

/* trial_is_safe - is this not root, or may no other user change the file @program, by its path
 * or its real path, and add to their folders? */
bool trial_is_safe(const char *program);

#endif
