/* xla_site.h - number the calls of a compiled program that have the same name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAMEWORKS_XLA_SITE_H
#define FRAMEWORKS_XLA_SITE_H

#include "frameworks/xla_api.h"

/*
 * JAX lowers a function once and calls it wherever a program uses it: a jitted helper, the body
 * of a loop.  XLA copies the function's collectives to each of these places, so several calls
 * of one program have the same name, and run in any order.  XLA instantiates the calls of a
 * program one after the other, in the order of its schedule, which is the same on all ranks:
 * each call is numbered then, and finds its number again when it runs.
 */

/*
 * xla_site_instantiate - give the call of @f a number among the calls of @program, a number of
 * the caller's, that have the name @name: 0, 1, ...  It stays 0 if this XLA keeps no state for
 * a call.
 *
 * Threads:    any.
 * Blocking:   never.
 *
 * Returns NULL, or an error for XLA.
 */
struct xla_error *xla_site_instantiate(const struct xla_frame *f, int64_t program,
				       const char *name);

/* xla_site_number - the number of the call of @f, which runs. */
int xla_site_number(const struct xla_frame *f);

/* xla_site_end - a program has been compiled: the next one's calls are numbered from 0 again,
 * also if it is the same one. */
void xla_site_end(void);

#endif
