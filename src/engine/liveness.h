/* liveness.h - a rank's state, which the ranks of its host watch: running or left. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_LIVENESS_H
#define ENGINE_LIVENESS_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

enum { LIVENESS_NAME = 96 };

/* The operation or message that a rank waits for. */
struct liveness_wait {
	uint64_t group;      /* serial of the communicator                          */
	uint32_t kind, like; /* kind of operation; a hash of its signature           */
	char name[LIVENESS_NAME];
};

/* In shared memory, one for each rank of the host; only that rank writes it, by atomics. */
struct liveness {
	alignas(64) uint32_t left; /* the rank has left: its end is no failure     */
	uint32_t beat;             /* changes while the process runs; 0: not yet  */
	/* How long the rank has been blocked (0: it is not), and on which operation or message.
	 */
	uint32_t still_ms;
	struct liveness_wait wait;
};

/* liveness_leave - this rank leaves; its earlier stores are visible with that. */
static inline void liveness_leave(struct liveness *l)
{
	__atomic_store_n(&l->left, 1, __ATOMIC_RELEASE);
}

static inline bool liveness_has_left(const struct liveness *l)
{
	return __atomic_load_n(&l->left, __ATOMIC_ACQUIRE);
}

/* liveness_beat - the process of this rank runs. */
static inline void liveness_beat(struct liveness *l)
{
	__atomic_fetch_add(&l->beat, 1, __ATOMIC_RELAXED);
}

static inline uint32_t liveness_beats(const struct liveness *l)
{
	return __atomic_load_n(&l->beat, __ATOMIC_RELAXED);
}

#endif
