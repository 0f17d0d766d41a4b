/* futex.h - sleep until a word changes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FUTEX_H
#define BASE_FUTEX_H

#include <stdint.h>

/*
 * futex_wait - sleep while *@word is @seen, until a wake, a signal or the
 * deadline (of clock_ns(); INT64_MAX: never).  May return early; the caller
 * checks its condition.  Works between processes that map the same memory.
 */
void futex_wait(const uint32_t *word, uint32_t seen, int64_t deadline_ns);

/* futex_wake - wake all threads that sleep on @word. */
void futex_wake(const uint32_t *word);

#endif
