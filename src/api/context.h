/* context.h - what the handles of ringup.h point to. */
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

/* context_fail - keep the sentence for ringup_error(), return the code. */
int context_fail(const struct err *e);

/* context_late - the same of an operation that goes on: why it is not complete is found out
 * when ringup_error() is asked, so that waiting in short pieces costs nothing. */
int context_late(const struct err *e, struct ringup_op *op);

#endif
