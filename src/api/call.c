/* call.c - each thread's last error, for ringup_error(). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/call.h"

#include "engine/engine.h"
#include "engine/op_state.h"

static _Thread_local struct err last;

/* The operation of the last error, if it is still in flight. */
static _Thread_local struct {
	struct engine *engine;
	struct ringup_op *op; /* or NULL */
	uint32_t forks;
} late;

int call_fail(const struct err *e)
{
	last = *e;
	late.op = NULL;
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
		late.op = op;
		late.forks = forks_seen();
	}
	return e->code;
}

void call_keep(const struct err *why)
{
	last = *why;
}

const char *ringup_error(void)
{
	struct ringup_op *op = late.op;

	late.op = NULL;
	if (op && late.forks == forks_seen())
		engine_describe(late.engine, op, last.text, sizeof(last.text));
	return last.text;
}
