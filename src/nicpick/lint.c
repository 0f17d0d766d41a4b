/* lint.c - find faults in the network settings of a recorded machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/lint.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "nicpick/trap.h"
#include "ringup.h"

/* NCCL's settings are moot while a foreign plug-in answers for them; checks of the plug-in
 * itself and of the form of lines are not. */
static bool is_moot(const struct trap_case *t)
{
	static const char nccl[] = "nccl-", plugin[] = "nccl-env-";

	return t->plugin == ENVPLUGIN_UNKNOWN &&
	       !strncmp(t->trap->code, nccl, sizeof(nccl) - 1) &&
	       strncmp(t->trap->code, plugin, sizeof(plugin) - 1) != 0;
}

int lint_run(struct lint_report *r, const struct snapshot *s, struct err *e)
{
	struct trap_case t;
	int rc;

	memset(r, 0, sizeof(*r));
	rc = trap_begin(&t, s, r, e);
	for (t.trap = traps; !rc && t.trap->code; t.trap++)
		if (!is_moot(&t))
			t.trap->check(&t);
	if (!rc && t.no_memory)
		rc = fail(e, RINGUP_ENOMEM, "no memory for findings");
	trap_end(&t);
	return rc;
}

void lint_free(struct lint_report *r)
{
	for (int i = 0; i < r->n; i++) {
		free(r->findings[i].where);
		free(r->findings[i].setting);
		free(r->findings[i].line);
		free(r->findings[i].what);
		free(r->findings[i].fix);
	}
	free(r->findings);
	memset(r, 0, sizeof(*r));
}

const char *lint_severity_text(enum lint_severity s)
{
	static const char *const texts[] = { "note", "warning", "error" };

	return texts[s];
}
