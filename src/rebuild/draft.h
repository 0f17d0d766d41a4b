/* draft.h - a plan under construction, and its parts in the order of their calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_DRAFT_H
#define REBUILD_DRAFT_H

#include <jansson.h>
#include <stdbool.h>

#include "rebuild/buildplan.h"
#include "rebuild/choose.h"

struct version_fact;

/* A framework that the plan is for. */
struct target {
	const json_t *fact;
	struct buildplan_framework *plan; /* the plan's entry for it         */
	char title[80];                   /* "torch 2.13.0"                  */
	char family[8], compiler[32];     /* its own compiler, family and version */
};

struct draft {
	const struct buildplan_how *how;
	const json_t *facts;
	const struct versions *table;
	struct buildplan *plan;
	const json_t *python;
	char series[16]; /* "3.11" */
	struct target at[BUILDPLAN_FRAMEWORKS];
	int count;
	bool horovod;
	struct choice compiler;
};

/* draft_keep - a copy of @text that the plan owns. */
const char *draft_keep(struct draft *d, const char *text);

/* draft_add - append @name and a sentence to @list, which is one of the plan's. */
void draft_add(struct draft *d, struct textpairs *list, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
#define draft_reject(d, what, ...) draft_add(d, &(d)->plan->rejected, what, __VA_ARGS__)

/* draft_cannot - the plan is impossible; the first reason is kept. */
void draft_cannot(struct draft *d, const char *nearest, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* draft_differ - note that a probe contradicts the table. */
void draft_differ(struct draft *d, const char *about, const char *probe, const char *table);

/* draft_framework - the framework @name of @python, or NULL. */
const json_t *draft_framework(const struct draft *d, const json_t *python, const char *name);

/* draft_ask - the table's fact about the framework @fact, or NULL. */
const struct version_fact *draft_ask(const struct draft *d, const json_t *fact,
				     const char *attr);

/* draft_choose_python, draft_find_targets - choose the Python, and its frameworks. */
void draft_choose_python(struct draft *d);
void draft_find_targets(struct draft *d);

/* draft_plan_mpi, draft_plan_cuda - choose MPI, CUDA and NCCL. */
void draft_plan_mpi(struct draft *d);
void draft_plan_cuda(struct draft *d);

/* draft_world - buildplan_world() of the plan so far, and its MPI.
 * draft_minds - would the recipe decide otherwise if @name had the version @other? */
struct textpairs draft_world(struct draft *d);
bool draft_minds(const struct draft *d, const struct textpairs *world, const char *name,
		 const char *other);

/* draft_check_abi, draft_plan_compiler - choose the compiler, with one set of flags for all. */
void draft_check_abi(struct draft *d);
void draft_plan_compiler(struct draft *d);

#endif
