/* block.h - for tests: wait for what a back end waits for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BLOCK_H
#define TESTS_BLOCK_H

#include "backend/backend.h"
#include "backend/wait.h"

/* backend_block - step() said 0: wait until it may do more, or @deadline_ns; may return early.
 */
static inline void backend_block(const struct backend *b, void *self, int64_t deadline_ns)
{
	struct wait_on w = { .waitset = NULL };

	if (b->wait(self, &w))
		wait_news(&w, deadline_ns);
}

#endif
