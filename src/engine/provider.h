/* provider.h - the back ends of a communicator: open, choose for each plan, close. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_PROVIDER_H
#define ENGINE_PROVIDER_H

#include "engine/comm.h"

struct err;

/*
 * providers_open - open those back ends of the list that serve @c and take a kind of memory
 * that none before them takes; with an @only that is not "", the one of that name.
 *
 * One of them takes RINGUP_HOST; RINGUP_ENOBACKEND if there is none, RINGUP_EINVAL if there is
 * no such name.  After a failure, too, @c has the open ones.
 */
int providers_open(struct comm *c, const char *only, struct err *e);

/* provider_for - the first provider of @c that accepts @p, on all ranks alike, or NULL. */
struct provider *provider_for(struct comm *c, const struct plan *p);

/* provider_name - the name of the back end for host memory, or "none". */
const char *provider_name(const struct comm *c);

/* providers_abort - give up all plans in flight: afterwards none touches its buffers. */
void providers_abort(struct comm *c);

/* providers_close - close @count of them, and free them. */
void providers_close(struct provider *v, int count);

#endif
