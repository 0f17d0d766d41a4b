/* call.c - each thread's last error, for ringup_error(). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/call.h"

#include "engine/engine.h"
#include "engine/op.h"

static _Thread_local struct err last;

/* The operation of the last error, if that had missed a deadline. */
static _Thread_local struct {
	struct engine *engine;
	uint32_t forks;
	struct op_late is; /* .op is NULL: there is none */
} late;

int call_fail(const struct err *e)
{
	last = *e;
	late.is.op = NULL;
	return e->code;
}

int call_null(const char *call, const char *what)
{
	struct err e;

	fail(&e, RINGUP_EINVAL, "%s: %s is NULL", call, what);
	return call_fail(&e);
}

int call_late(const struct err *e, struct ringup_op *op)
{
	call_fail(e);
	if (e->code == RINGUP_ETIMEDOUT && op) {
		late.engine = op->engine;
		late.forks = forks_seen();
		engine_note_late(op, &late.is);
	}
	return e->code;
}

void call_keep(const struct err *why)
{
	last = *why;
}

const char *ringup_error(void)
{
	bool is_late = late.is.op && late.forks == forks_seen();

	if (is_late)
		engine_describe(late.engine, &late.is, last.text, sizeof(last.text));
	late.is.op = NULL;
	return last.text;
}
