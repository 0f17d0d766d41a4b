/* context.h - what the handles of ringup.h point to, and what ringup_error() tells. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_CONTEXT_H
#define API_CONTEXT_H

#include "base/err.h"
#include "engine/member.h"
#include "ringup.h"

struct ringup_group {
	struct ringup *ringup;
	struct group *group; /* of the world, or this one's own */
	int id;
	struct ringup_group *next;
	struct group own;
};

struct ringup {
	struct member member;
	struct ringup_group *groups; /* the world last: newest first */
	struct ringup_group world;
	int ids;
};

/* context_fail - keep the sentence for ringup_error(), return the code.  context_keep - the
 * same in a callback, where ringup_error() tells of its operation. */
int context_fail(const struct err *e);
void context_keep(const struct err *why);

/* Most elements of a buffer: of any type, they fit in memory then. */
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

/* context_check - are @count elements of @dtype at @p, and do they fit in memory?  @call and
 * @what name the function and its argument in the sentence. */
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

/* context_late - the same of an operation that goes on: why it is not complete is found out
 * when ringup_error() is asked, so that waiting in short pieces costs nothing. */
int context_late(const struct err *e, struct ringup_op *op);

#endif
