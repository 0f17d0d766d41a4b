/* bootstrap.h - ranks that exchange small bytes, and fail together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_BOOTSTRAP_H
#define ENGINE_BOOTSTRAP_H

#include <stddef.h>

struct err;

/* Who exchanges small bytes with whom; see struct ringup_init. */
struct bootstrap {
	int rank, size;
	int (*exchange)(void *ctx, const void *mine, size_t len, void *all);
	void *ctx;
	struct err *why; /* where exchange() may have said why it failed */
};

int bootstrap_exchange(const struct bootstrap *c, const void *mine, size_t len, void *all,
		       struct err *e);

/* bootstrap_agree - everybody says how it went: the first rank that failed speaks for all. */
int bootstrap_agree(const struct bootstrap *c, int rc, struct err *e);

/* bootstrap_heard - does @rank, of whom something else was expected, say by @said that it has
 * failed?  Then that is in @e, and returned; else 0. */
int bootstrap_heard(const void *said, size_t len, int rank, struct err *e);

#endif
