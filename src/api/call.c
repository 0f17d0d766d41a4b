/* call.c - code that all calls of ringup.h share: handles, arguments and errors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/call.h"

#include <string.h>

#include "engine/engine.h"
#include "engine/op.h"

static _Thread_local struct err last;

/* The operation of the last error, if that had missed a deadline. */
static _Thread_local struct {
	struct engine *engine;
	uint32_t forks;
	struct op_late op; /* .op is NULL: there is none */
} late;

int call_fail(const struct err *e)
{
	last = *e;
	late.op.op = NULL;
	return e->code;
}

int call_null(const char *call, const char *what)
{
	struct err e;

	fail(&e, RINGUP_EINVAL, "%s: %s is NULL", call, what);
	return call_fail(&e);
}

const void *call_fit(const char *call, const void *given, size_t first, void *room,
		     size_t whole, struct err *e)
{
	const unsigned char *at = given;
	size_t size, known;

	memcpy(&size, at, sizeof(size));
	if (size == whole)
		return given;
	size = size ? size : first;
	known = size < whole ? size : whole;
	if (size < first || size > CALL_STRUCT_BYTES) {
		fail(e, RINGUP_EINVAL,
		     "%s: bytes=%zu is not the size of its struct; set it to sizeof, or to 0",
		     call, size);
		return NULL;
	}
	for (size_t i = known; i < size; i++)
		if (at[i]) {
			fail(e, RINGUP_EINVAL,
			     "%s: it sets a field that ringup %s does not know; install the "
			     "ringup that the program was compiled for",
			     call, ringup_version());
			return NULL;
		}
	memset(room, 0, whole);
	memcpy(room, given, known);
	memcpy(room, &whole, sizeof(whole));
	return room;
}

const void *call_take(const char *call, const void *handle, const void *given, size_t first,
		      void *room, size_t whole)
{
	const void *is;
	struct err e;

	if (call_given(call, handle, given))
		return NULL;
	is = call_fit(call, given, first, room, whole, &e);
	if (!is)
		call_fail(&e);
	return is;
}

int call_late(const struct err *e, struct ringup_op *op)
{
	call_fail(e);
	if (e->code == RINGUP_ETIMEDOUT && op) {
		late.engine = op->engine;
		late.forks = forks_seen();
		engine_note_late(op, &late.op);
	}
	return e->code;
}

void call_keep(const struct err *why)
{
	last = *why;
}

const char *ringup_error(void)
{
	return last.text;
}

const char *ringup_explain(void)
{
	bool is_late = late.op.op && late.forks == forks_seen();

	if (is_late)
		engine_describe(late.engine, &late.op, last.text, sizeof(last.text));
	late.op.op = NULL;
	return last.text;
}
