/* draft.h - a plan in the making, and the parts that add to it in the order of this file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_DRAFT_H
#define REBUILD_DRAFT_H

#include <jansson.h>
#include <stdbool.h>

#include "rebuild/buildplan.h"
#include "rebuild/choose.h"

struct version_fact;

enum { MOST_FRAMEWORKS = 8 };

/* A framework that the plan is for. */
struct target {
	const json_t *fact;
	const char *name, *version;
	char title[80]; /* "torch 2.13.0" */
	int abi;        /* -1: not known   */
	int standard;   /* 0: none         */
	char family[8], compiler[32];
	json_t *entry; /* in the plan; borrowed */
};

struct draft {
	const struct buildplan_how *how;
	const json_t *facts;
	const struct versions *table;
	json_t *plan;
	const json_t *python;
	char series[16]; /* "3.11" */
	struct target at[MOST_FRAMEWORKS];
	int count;
	bool horovod, gpu, possible;
	const json_t *mpi; /* Horovod's */
	struct choice compiler;
};

/* draft_set - a member of @o, null for "". */
void draft_set(json_t *o, const char *key, const char *value);

/* draft_add - append {@a: @value, @b: a sentence} to the list @key of the plan. */
void draft_add(struct draft *d, const char *key, const char *a, const char *value,
	       const char *b, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
#define draft_reject(d, what, ...) draft_add(d, "rejected", "what", what, "why", __VA_ARGS__)

/* draft_cannot - it cannot be; the first reason is the one that is told. */
void draft_cannot(struct draft *d, const char *nearest, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* draft_differ - what was probed is not what the table says. */
void draft_differ(struct draft *d, const char *about, const char *probe, const char *table);

/* draft_check - is there anything to build for those names? */
int draft_check(const struct buildplan_how *how, struct err *e);

/* draft_framework - that of @python, or NULL. */
const json_t *draft_framework(const struct draft *d, const json_t *python, const char *name);

/* draft_ask - the table's word about the framework @fact, or NULL. */
const struct version_fact *draft_ask(const struct draft *d, const json_t *fact,
				     const char *attr);

/* draft_choose_python, draft_find_targets - for which Python, and for what of it. */
void draft_choose_python(struct draft *d);
void draft_find_targets(struct draft *d);

/* draft_plan_mpi, draft_plan_cuda - with which MPI, CUDA and NCCL. */
void draft_plan_mpi(struct draft *d);
void draft_plan_cuda(struct draft *d);

/* draft_world - what a recipe decides by; the caller's reference.  draft_minds - would it
 * decide otherwise if @key were @other? */
json_t *draft_world(const struct draft *d);
bool draft_minds(const struct draft *d, const json_t *world, const char *key,
		 const char *other);

/* draft_check_abi, draft_plan_compiler - by which compiler, with one set of flags for all. */
void draft_check_abi(struct draft *d);
void draft_plan_compiler(struct draft *d);

#endif
