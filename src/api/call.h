/* call.h - code that all calls of ringup.h share: handles, arguments and errors. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_CALL_H
#define API_CALL_H

#include <stddef.h>

#include "base/err.h"
#include "base/kinds.h"
#include "engine/context.h"
#include "ringup.h"

struct ringup_group {
	struct ringup *ringup;
	struct group *group; /* the world's, or own */
	int id;
	struct ringup_group *next;
	struct group own;
};

struct ringup {
	struct context context;
	struct ringup_group *groups; /* newest first, the world last */
	struct ringup_group world;
	int ids;
};

/* call_fail - keep the sentence for ringup_error(), return the code.  call_keep - keep it
 * in a callback, where ringup_error() is about the operation of that callback. */
int call_fail(const struct err *e);
void call_keep(const struct err *why);

/* No struct of ringup.h is longer, in any version. */
enum { CALL_STRUCT_BYTES = 4096 };

/* The most elements of a buffer: of any type, they fit in memory. */
#define CALL_ELEMENTS ((uint64_t)PTRDIFF_MAX / 8)

/* call_null - an argument of @call, called @what, is NULL. */
int call_null(const char *call, const char *what) __attribute__((cold));

/* call_given - 0 if neither the handle nor the other argument is NULL. */
static inline int call_given(const char *call, const void *handle, const void *arguments)
{
	if (handle && arguments)
		return 0;
	return call_null(call, handle ? "what to do" : "the handle");
}

/*
 * call_fit - the description @given, which begins with its size, as this library knows it.
 *
 * @first: how much of it size 0 stands for; @whole: its size here, which @room has, too.
 * Returns @given if it has that size, else @room, with what the caller has, or NULL and EINVAL.
 */
const void *call_fit(const char *call, const void *given, size_t first, void *room,
		     size_t whole, struct err *e);

/* CALL_TAKE - the handle is no NULL, and call_fit() of @a, whose size 0 ends before @field;
 * NULL: RINGUP_EINVAL, which ringup_error() describes.  CALL_TAKE_TO - its size 0 ends behind
 * @last: the last field when programs were first compiled with it, whatever comes later. */
const void *call_take(const char *call, const void *handle, const void *given, size_t first,
		      void *room, size_t whole);
#define CALL_TAKE(call, handle, a, room, field) \
	call_take(call, handle, a, offsetof(__typeof__(*(room)), field), room, sizeof(*(room)))
#define CALL_TAKE_TO(call, handle, a, room, last)                                              \
	call_take(call, handle, a, offsetof(__typeof__(*(room)), last) + sizeof((room)->last), \
		  room, sizeof(*(room)))

/* call_check - check that @p has @count elements of @dtype, and that they fit in memory.
 * @call and @what name the function and its argument in the sentence. */
static inline int call_check(const char *call, const char *what, const void *p, uint64_t count,
			     int dtype, struct err *e)
{
	if (dtype < 0 || dtype >= DTYPE_COUNT)
		return fail(e, RINGUP_EINVAL,
			    "%s: dtype=%d is not a value of enum ringup_dtype", call, dtype);
	if (!p && count)
		return fail(e, RINGUP_EINVAL, "%s: %s is NULL, but count is %llu", call, what,
			    (unsigned long long)count);
	if (count > CALL_ELEMENTS)
		return fail(e, RINGUP_EINVAL, "%s: %llu elements do not fit in memory", call,
			    (unsigned long long)count);
	return 0;
}

/* call_late - as call_fail(), for an operation that goes on: ringup_explain() finds out why
 * it is not complete, so that waiting in short pieces costs nothing. */
int call_late(const struct err *e, struct ringup_op *op);

#endif
