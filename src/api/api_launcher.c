/* api_launcher.c - functions of the library for ringup's own launchers in Python. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_launcher.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "base/clock.h"
#include "host/identity.h"
#include "wire/session.h"

_Static_assert((int)RINGUP_KEY_BYTES == SECRET_BYTES && (int)RINGUP_WHERE_BYTES == SOCK_TEXT &&
		       (int)RINGUP_IDENTITY_HEX == 2 * IDENTITY_BYTES + 1,
	       "sizes that callers know");

struct ringup_session {
	struct chan *chan;
	struct secret next;
};

static struct secret key_read(const unsigned char *key)
{
	struct secret s;

	memcpy(s.key, key, SECRET_BYTES);
	return s;
}

static struct ringup_session *session_new(struct err *e)
{
	struct ringup_session *s = calloc(1, sizeof(*s));

	if (!s)
		fail(e, RINGUP_ENOMEM, "no memory for a connection");
	return s;
}

int ringup_door_open(const char *address, const unsigned char *key, char *where,
		     struct session_door **dp)
{
	struct secret s = key_read(key);
	struct err e = { 0 };
	int rc = session_listen(dp, address, SHAKE_TASK, &s, where, &e);

	secret_wipe(&s);
	return rc ? call_fail(&e) : 0;
}

int ringup_door_wait(struct session_door *d, struct ringup_session **sp)
{
	struct err e = { 0 };
	struct ringup_session *s = session_new(&e);
	int rc = s ? session_accept(d, &s->chan, &s->next, INT64_MAX, &e) : e.code;

	if (rc < 0) {
		free(s);
		return call_fail(&e);
	}
	*sp = s;
	return 0;
}

void ringup_door_shut(struct session_door *d)
{
	session_shut(d);
}

void ringup_door_close(struct session_door *d)
{
	session_close(d);
}

int ringup_session_connect(const char *where, const unsigned char *key, int64_t ms,
			   struct ringup_session **sp)
{
	struct secret secret = key_read(key);
	struct err e = { 0 };
	struct ringup_session *s = session_new(&e);
	int rc = s ? session_connect(&s->chan, where, SHAKE_TASK, SHAKE_NO_RANK, SHAKE_NO_RANK,
				     &secret, clock_deadline(ms), &s->next, &e)
		   : e.code;

	secret_wipe(&secret);
	if (rc) {
		free(s);
		return call_fail(&e);
	}
	*sp = s;
	return 0;
}

int ringup_session_fd(const struct ringup_session *s)
{
	return chan_fd(s->chan);
}

int ringup_session_send(struct ringup_session *s, const void *data, size_t len, int64_t ms)
{
	struct err e = { 0 };
	int rc = chan_send(s->chan, data, len, &e);

	if (rc > 0)
		rc = session_flush(s->chan, clock_deadline(ms), &e);
	return rc ? call_fail(&e) : 0;
}

int ringup_session_receive(struct ringup_session *s, int64_t ms, const void **datap)
{
	struct err e = { 0 };
	int rc = session_await(s->chan, datap, clock_deadline(ms), &e);

	return rc < 0 ? call_fail(&e) : rc;
}

static void session_free(struct ringup_session *s)
{
	secret_wipe(&s->next);
	free(s);
}

int ringup_session_release(struct ringup_session *s, unsigned char *next)
{
	int fd = chan_fd(s->chan);

	memcpy(next, s->next.key, SECRET_BYTES);
	chan_release(s->chan);
	session_free(s);
	return fd;
}

void ringup_session_close(struct ringup_session *s)
{
	chan_close(s->chan);
	session_free(s);
}

void ringup_host_identity(const char *node, char *hex)
{
	unsigned char id[IDENTITY_BYTES];

	identity_get(id, node);
	sodium_bin2hex(hex, RINGUP_IDENTITY_HEX, id, sizeof(id));
}
