/* api_launcher.h - functions of the library for ringup's own launchers in Python. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_LAUNCHER_H
#define API_API_LAUNCHER_H

#include <stddef.h>
#include <stdint.h>

#include "ringup.h"

/*
 * Exported for compat/python/ringup/_c.py of the same version alone; not part of ringup.h's
 * interface, so any release may change it.  Failures are negative codes, with a sentence for
 * ringup_error().
 *
 * A task of Spark, or an actor of Ray, connects to the driver; both know a key of
 * RINGUP_KEY_BYTES and prove it (wire/session.h).  What they say is encrypted.
 */
enum { RINGUP_KEY_BYTES = 32, RINGUP_WHERE_BYTES = 80, RINGUP_IDENTITY_HEX = 65 };

struct session_door;
struct ringup_session;

/* ringup_door_open - listen on a numeric @address of this host; where goes to @where. */
RINGUP_API int ringup_door_open(const char *address, const unsigned char *key, char *where,
				struct session_door **dp);

/* ringup_door_wait - the next task.  RINGUP_EMISMATCH: one of another version came.
 * RINGUP_ESHUTDOWN: after ringup_door_shut(), which any thread may call. */
RINGUP_API int ringup_door_wait(struct session_door *d, struct ringup_session **sp);
RINGUP_EXPORT void ringup_door_shut(struct session_door *d);
RINGUP_EXPORT void ringup_door_close(struct session_door *d);

/* ringup_session_connect - to "ADDRESS:PORT", with new tries for @ms. */
RINGUP_API int ringup_session_connect(const char *where, const unsigned char *key, int64_t ms,
				      struct ringup_session **sp);
RINGUP_API int ringup_session_fd(const struct ringup_session *s);

/* ringup_session_send - 1 to CHAN_BYTES bytes, within @ms (negative: no limit). */
RINGUP_API int ringup_session_send(struct ringup_session *s, const void *data, size_t len,
				   int64_t ms);

/* ringup_session_receive - the length of the next message, in *@datap until the next call. */
RINGUP_API int ringup_session_receive(struct ringup_session *s, int64_t ms, const void **datap);

/* ringup_session_release - end the session, not the connection, whose descriptor is returned.
 * @next: a key for what the two sides say on it from now on. */
RINGUP_API int ringup_session_release(struct ringup_session *s, unsigned char *next);
RINGUP_EXPORT void ringup_session_close(struct ringup_session *s);

/* ringup_host_identity - the host of this process as ranks compare it, as hexadecimal digits;
 * @node is its RINGUP_NODE, or NULL. */
RINGUP_EXPORT void ringup_host_identity(const char *node, char *hex);

#endif
