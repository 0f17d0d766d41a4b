/* order.c - the protocol between `ringup run` and the rank daemons of its hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/order.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/build.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/chan.h"
#include "wire/pack.h"

enum { HEAD = 5, MOST_NUMBERS = 8 };

void order_open(struct order *o, int in, int out, bool greets)
{
	*o = (struct order){ .greets = greets };
	stream_open(&o->stream, in, out);
	fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
	fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
}

void order_close(struct order *o)
{
	chan_release(o->stream.chan);
	stream_close(&o->stream);
}

int order_seal(struct order *o, const struct secret *key, enum shake_role role, struct err *e)
{
	struct shake_keys keys;
	int rc;

	shake_keys_from(&keys, key, role);
	rc = chan_open(o->stream.in, &keys, &o->stream.chan, e);
	sodium_memzero(&keys, sizeof(keys));
	if (!rc)
		chan_seal(o->stream.chan);
	return rc;
}

int order_greet(struct order *o, struct err *e)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "\n%s%s\n", ORDER_GREETING, build_version());
	int rc = stream_put(&o->stream, line, (size_t)n, e);

	return rc ? rc : stream_flush(&o->stream, e);
}

int order_say(struct order *o, enum order_kind kind, const uint32_t *numbers, int n,
	      const void *data, size_t len, struct err *e)
{
	unsigned char head[HEAD + 4 * MOST_NUMBERS];
	int rc;

	if (n > MOST_NUMBERS || len > ORDER_BYTES - 4 * MOST_NUMBERS)
		return fail(e, RINGUP_EINVAL, "an order of %zu bytes is too long", len);
	pack_put32(head, (uint32_t)(4 * (size_t)n + len));
	head[4] = (unsigned char)kind;
	for (int i = 0; i < n; i++)
		pack_put32(head + HEAD + 4 * i, numbers[i]);
	rc = stream_put(&o->stream, head, HEAD + 4 * (size_t)n, e);
	if (!rc)
		rc = stream_put(&o->stream, data, len, e);
	return rc ? rc : stream_flush(&o->stream, e);
}

void order_text(char *to, size_t size, const void *text, size_t len)
{
	const unsigned char *from = text;
	size_t n = 0;

	for (size_t i = 0; i < len && n + 1 < size; i++)
		to[n++] = from[i] < ' ' || from[i] == 127 ? ' ' : (char)from[i];
	to[n] = 0;
}

/* Reads lines until the greeting; 1 when it has arrived. */
static int greeting_next(struct order *o, struct err *e)
{
	struct stream_box *s = &o->stream.inbox;
	size_t mark = strlen(ORDER_GREETING);

	while (s->len > s->used) {
		unsigned char *line = s->data + s->used, *end;
		size_t left = s->len - s->used, len;

		end = memchr(line, '\n', left);
		if (!end && left > STREAM_READ)
			return fail(e, RINGUP_EINVAL, "the peer is not a rank daemon");
		if (!end)
			return 0;
		len = (size_t)(end - line);
		s->used += len + 1;
		if (len > mark && !memcmp(line, ORDER_GREETING, mark)) {
			order_text(o->version, sizeof(o->version), line + mark, len - mark);
			o->greets = false;
			return 1;
		}
		if (len >= 13 && !memcmp(line, "ringup-rankd/", 13))
			return fail(e, RINGUP_EMISMATCH,
				    "the rank daemon has another version: ringup %s runs here",
				    build_version());
		if (len)
			order_text(o->noise, sizeof(o->noise), line, len);
	}
	return 0;
}

int order_next(struct order *o, const unsigned char **datap, size_t *lenp, struct err *e)
{
	struct stream_box *s = &o->stream.inbox;
	const unsigned char *p;
	size_t len;
	int rc;

	if (o->greets) {
		rc = greeting_next(o, e);
		if (rc <= 0)
			return rc;
	}
	if (s->len - s->used < HEAD) /* there may be no inbox yet */
		return 0;
	p = s->data + s->used;
	len = pack_get32(p);
	if (len > ORDER_BYTES || p[4] < ORDER_SETUP || p[4] > ORDER_BYE)
		return fail(e, RINGUP_EINVAL, "the peer violates the protocol");
	if (s->len - s->used < HEAD + len)
		return 0;
	*datap = p + HEAD;
	*lenp = len;
	s->used += HEAD + len;
	return p[4];
}

bool order_numbers(const unsigned char **datap, size_t *lenp, uint32_t *numbers, int n)
{
	if (*lenp < 4 * (size_t)n)
		return false;
	for (int i = 0; i < n; i++)
		numbers[i] = pack_get32(*datap + 4 * i);
	*datap += 4 * n;
	*lenp -= 4 * (size_t)n;
	return true;
}

char **order_strings(const unsigned char *data, size_t len)
{
	char **list;
	size_t i, n = 0;

	if (len && data[len - 1])
		return NULL;
	for (i = 0; i < len; i++)
		n += !data[i];
	list = calloc(n + 1, sizeof(*list));
	for (i = 0, n = 0; list && i < len; i++)
		if (!i || !data[i - 1])
			list[n++] = (char *)(uintptr_t)data + i;
	return list;
}
