/* shadow.h - let the explorer see what a source file does to shared memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_SHADOW_H
#define MODEL_SHADOW_H

/* Included before the source under test, and after every header of the system's
 * that declares one of these names. */
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "model/explore.h"

/* The type of what @p points to, without its qualifiers. */
#define SHADOW_OF(p) __typeof__(((void)0, *(p)))

#define __atomic_load_n(p, order) ((SHADOW_OF(p))explore_load((p), sizeof(*(p)), (order)))
#define __atomic_store_n(p, v, order) \
	explore_store((p), sizeof(*(p)), (uint64_t)(SHADOW_OF(p))(v), (order))
#define SHADOW_RMW(p, op, v, order)                                                            \
	({                                                                                     \
		SHADOW_OF(p)                                                                   \
		shadow_old = (SHADOW_OF(p))explore_rmw((p), sizeof(*(p)), (op), (uint64_t)(v), \
						       (order));                               \
		shadow_old;                                                                    \
	})
#define __atomic_fetch_add(p, v, order)  SHADOW_RMW(p, '+', v, order)
#define __atomic_fetch_sub(p, v, order)  SHADOW_RMW(p, '-', v, order)
#define __atomic_fetch_or(p, v, order)   SHADOW_RMW(p, '|', v, order)
#define __atomic_fetch_and(p, v, order)  SHADOW_RMW(p, '&', v, order)
#define __atomic_exchange_n(p, v, order) SHADOW_RMW(p, '=', v, order)
#define __atomic_add_fetch(p, v, order) \
	((SHADOW_OF(p))(SHADOW_RMW(p, '+', v, order) + (SHADOW_OF(p))(v)))
#define __atomic_sub_fetch(p, v, order) \
	((SHADOW_OF(p))(SHADOW_RMW(p, '-', v, order) - (SHADOW_OF(p))(v)))
#define __atomic_compare_exchange_n(p, expected, desired, weak, order, failed)          \
	({                                                                              \
		uint64_t shadow_was = (uint64_t) * (expected);                          \
		bool shadow_done = explore_cas((p), sizeof(*(p)), &shadow_was,          \
					       (uint64_t)(desired), (order), (failed)); \
		*(expected) = (SHADOW_OF(p))shadow_was;                                 \
		shadow_done;                                                            \
	})
#define __atomic_thread_fence(order) explore_fence(order)
#define futex_wait                   explore_futex_wait
#define futex_wake                   explore_futex_wake
#define sched_yield                  explore_yield
#define poll                         explore_poll
#define sendto(fd, data, len, how, to, to_len) \
	((void)(fd), (void)(to), (void)(to_len), explore_knock(), 1)
#define recv(fd, data, len, how) ((void)(fd), (void)(data), explore_unknock())
#define clock_ns                 explore_clock

#endif
