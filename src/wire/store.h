/* store.h - broadcast of a short text from rank 0, through the launcher's key-value store. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_STORE_H
#define WIRE_STORE_H

#include <stdbool.h>
#include <stdint.h>

struct err;

enum { STORE_VALUE_BYTES = 512 /* with the NUL */ };

/*
 * store_name - the store that the launcher keeps for this rank of @size: "PMI", "PMIx", or
 * NULL if there is none.  Nothing is connected yet.
 */
const char *store_name(int rank, int size);

/*
 * store_share - rank 0's @mine, to @all of STORE_VALUE_BYTES on every rank.
 *
 * Every rank of the job calls it, equally often; it returns when all have, or with
 * RINGUP_ETIMEDOUT.  A call that timed out goes on in the background, and the next one waits
 * for it first, so that ranks which try again meet late ones.  @mine is letters,
 * digits and '-'; other ranks may pass NULL.
 *
 * The connection to the launcher is kept until the process exits, since to launchers a second
 * connection, or one that ends without a farewell, is a failure.  Threads: one at a time.
 */
int store_share(int rank, int size, const char *mine, char *all, int64_t deadline_ns,
		struct err *e);

#endif
