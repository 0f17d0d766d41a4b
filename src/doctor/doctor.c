/* doctor.c - examine the health of a node, for a one-page report. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "detect/find.h"
#include "doctor/ability.h"
#include "doctor/brief.h"
#include "doctor/exam.h"
#include "ringup.h"

static const struct {
	const char *section;
	int (*run)(struct exam *x, struct err *e);
} exams[] = {
#define X(name) { #name, exam_##name },
	EXAMS(X)
#undef X
};

int doctor_examine(const struct doctor_how *how, json_t **out, struct err *e)
{
	const struct find_how find = { .root = how->root,
				       .python = how->python,
				       .nccl = how->conf ? how->conf->nccl : NULL };
	struct exam x = { .root = how->root ? how->root : "",
			  .conf = how->conf,
			  .imports_too = how->imports,
			  .progress = how->progress };
	json_t *facts = NULL;
	int rc = find_all(&find, &facts, e);

	if (rc)
		return rc;
	if (!strcmp(x.root, "/"))
		x.root = "";
	x.facts = facts;
	x.findings = json_array();
	x.imports = json_array();
	for (size_t i = 0; !rc && i < sizeof(exams) / sizeof(exams[0]); i++) {
		x.section = exams[i].section;
		rc = exams[i].run(&x, e);
	}
	if (!rc) {
		*out = json_pack("{ss sb sO sO so so*}", "schema", "ringup.doctor/1", "healthy",
				 !x.bad, "findings", x.findings, "imports", x.imports,
				 "horovod", ability_of(x.root, facts), "brief",
				 how->brief ? brief_of(x.root, facts) : NULL);
		rc = *out ? 0 : fail(e, RINGUP_ENOMEM, "doctor");
	}
	json_decref(x.findings);
	json_decref(x.imports);
	json_decref(facts);
	return rc;
}
