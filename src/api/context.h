/* context.h - the structs behind the handles of ringup.h, and each thread's last error. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H

#include "base/err.h"
#include "engine/member.h"
#include "ringup.h"

struct ringup_group {
	struct ringup *ringup;
	struct group *group; /* the world's, or own */
	int id;
	struct ringup_group *next;
	struct group own;
};

struct ringup {
	struct member member;
	struct ringup_group *groups; /* newest first, the world last */
	struct ringup_group world;
	int ids;
};

/* context_fail - keep the sentence for ringup_error(), return the code.  context_keep - keep it
 * in a callback, where ringup_error() is about the operation of that callback. */
int context_fail(const struct err *e);
void context_keep(const struct err *why);

/* The most elements of a buffer: of any type, they fit in memory. */
#define CONTEXT_ELEMENTS ((uint64_t)PTRDIFF_MAX / 8)

/* context_null - an argument of @call, called @what, is NULL. */
int context_null(const char *call, const char *what) __attribute__((cold));

/* context_given - 0 if neither the handle nor the other argument is NULL. */
static inline int context_given(const char *call, const void *handle, const void *arguments)
{
	if (handle && arguments)
		return 0;
	return context_null(call, handle ? "what to do" : "the handle");
}

/* context_check - check that @p has @count elements of @dtype, and that they fit in memory.
 * @call and @what name the function and its argument in the sentence. */
static inline int context_check(const char *call, const char *what, const void *p,
				uint64_t count, int dtype, struct err *e)
{
	if (dtype < 0 || dtype >= RINGUP_DTYPE_COUNT)
		return fail(e, RINGUP_EINVAL, "%s: no dtype has the number %d", call, dtype);
	if (!p && count)
		return fail(e, RINGUP_EINVAL, "%s: %s is NULL, but there are %llu elements",
			    call, what, (unsigned long long)count);
	if (count > CONTEXT_ELEMENTS)
		return fail(e, RINGUP_EINVAL, "%s: %llu elements do not fit in memory", call,
			    (unsigned long long)count);
	return 0;
}

/* context_late - as context_fail(), for an operation that goes on: ringup_error() finds out why
 * it is not complete, so that waiting in short pieces costs nothing. */
int context_late(const struct err *e, struct ringup_op *op);

#endif
