/* provider.h - the back ends of a communicator: open, choose for each plan, close. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_PROVIDER_H
#define ENGINE_PROVIDER_H

#include "engine/comm.h"

struct err;

/*
 * providers_open - open those back ends that serve @c and take a kind of memory that none
 * before them takes.  With a @list that names some, commas between, only these may take the
 * kinds that they take, and the default ones the others; "" names none.
 *
 * One of them takes RINGUP_HOST; RINGUP_ENOBACKEND if there is none, RINGUP_EINVAL if there is
 * no such name.  After a failure, too, @c has the open ones.
 */
int providers_open(struct comm *c, const char *list, struct err *e);

/* providers_check - 0 if each name in @list is that of a back end, else RINGUP_EINVAL. */
int providers_check(const char *list, struct err *e);

/* provider_of_device - @c's back end for a device's memory; NULL: there is none.
 * provider_device - what it does besides, with *@self for its functions; or NULL. */
struct provider *provider_of_device(const struct comm *c);
const struct backend_device *provider_device(const struct comm *c, void **self);

/* provider_for - the first provider of @c that accepts @p, on all ranks alike, or NULL. */
struct provider *provider_for(struct comm *c, const struct plan *p);

/* provider_name - the name of the back end for host memory, or "none". */
const char *provider_name(const struct comm *c);

/* providers_abort - give up all plans in flight: afterwards none touches its buffers. @devices:
 * those of devices only, on which there may be more than is in flight. */
void providers_abort(struct comm *c, bool devices);

/* providers_close - close @count of them, and free them. */
void providers_close(struct provider *v, int count);

#endif
