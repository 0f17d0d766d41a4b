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

#endif
