/* bootstrap.h - bootstrap exchange: small messages between ranks, which all fail together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_BOOTSTRAP_H
#define ENGINE_BOOTSTRAP_H

#include <stddef.h>

struct err;

/* An allgather of small bytes; see struct ringup_init. */
struct bootstrap {
	int rank, size;
	int (*exchange)(void *ctx, const void *mine, size_t len, void *all);
	void *ctx;
	struct err *why; /* exchange() may write here why it failed */
};

int bootstrap_exchange(const struct bootstrap *c, const void *mine, size_t len, void *all,
		       struct err *e);

/* bootstrap_agree - all ranks exchange @rc, and fail with the error of the first failed one. */
int bootstrap_agree(const struct bootstrap *c, int rc, struct err *e);

/* bootstrap_heard - do the @bytes bytes of @rank report a failure, where other data were due?
 * Then returns it, in @e, too; else 0. */
int bootstrap_heard(const void *bytes, size_t len, int rank, struct err *e);

#endif
