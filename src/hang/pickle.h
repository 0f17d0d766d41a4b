/* pickle.h - reads flight-recorder pickles as JSON values; rejects any that would run code. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_PICKLE_H
#define HANG_PICKLE_H

#include <jansson.h>
#include <stddef.h>

struct err;

/*
 * pickle_load - the value of a pickle of dicts, lists, tuples, strings, numbers, None and
 * booleans.
 *
 * Every other opcode is refused: those that name a class or call a function among them, which
 * is what makes a pickle of others dangerous.  A tuple becomes a list, a key that is a number
 * its digits.  A container that was recalled from the memo is never changed, so that no value
 * contains itself.
 * Returns the caller's reference, or NULL with RINGUP_EINVAL.
 */
json_t *pickle_load(const void *data, size_t len, struct err *e);

#endif
