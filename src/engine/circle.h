/* circle.h - ranks that exchange small bytes, and fail together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_CIRCLE_H
#define ENGINE_CIRCLE_H

#include <stddef.h>

struct err;

/* Who exchanges small bytes with whom; see struct ringup_init. */
struct circle {
	int rank, size;
	int (*exchange)(void *ctx, const void *mine, size_t len, void *all);
	void *ctx;
	struct err *why; /* where exchange() may have said why it failed */
};

int circle_exchange(const struct circle *c, const void *mine, size_t len, void *all,
		    struct err *e);

/* circle_agree - everybody says how it went: the first rank that failed speaks for all. */
int circle_agree(const struct circle *c, int rc, struct err *e);

/* circle_heard - does @rank, of whom something else was expected, say by @said that it has
 * failed?  Then that is in @e, and returned; else 0. */
int circle_heard(const void *said, size_t len, int rank, struct err *e);

#endif
