/* num.h - the smaller of two numbers, and decimal digits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

/* num_least - the smaller of @a and @b. */
static inline uint64_t num_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* num_is_digit - is @c a decimal digit?  The locale does not matter. */
static inline bool num_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

#endif
