/* num.h - small questions about numbers and digits, which many files ask. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

/* num_least - the smaller one. */
static inline uint64_t num_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* num_is_digit - of a decimal number, in every locale? */
static inline bool num_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

#endif
