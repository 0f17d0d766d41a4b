/* missing.h - read which ranks Horovod's stall inspector misses, and what of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_MISSING_H
#define DIAGNOSE_MISSING_H

#include <stddef.h>

#include "diagnose/fields.h"

enum { MISSING_RANKS = 64 }; /* of a list that are looked at */

/*
 * missing_read - read the lines "3: [tensor, ...]" of the message at @at, up to @end.
 *
 * Sets the rank, and the value to a sentence.  If each rank misses something, the one that
 * misses other tensors than all others went its own way: the others wait for it.  Adds the
 * number of bytes read to *@looked.
 */
void missing_read(const char *at, const char *end, struct fields *f, size_t *looked);

#endif
