/* order.c - the protocol between `ringup run` and the rank daemons of its hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/order.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/build.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/chan.h"
#include "wire/pack.h"

enum { HEAD = 5, READ_BYTES = 65536, MOST_NUMBERS = 8 };

void order_open(struct order *o, int in, int out, bool greets)
{
	*o = (struct order){ .in = in, .out = out, .greets = greets };
	fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
	fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
}

void order_close(struct order *o)
{
	free(o->inbox);
	free(o->outbox);
	chan_release(o->chan);
	*o = (struct order){ .in = -1, .out = -1 };
}

static int room_make(unsigned char **p, size_t *room, size_t need, struct err *e)
{
	unsigned char *more;

	if (need <= *room)
		return 0;
	more = realloc(*p, 2 * need);
	if (!more)
		return fail(e, RINGUP_ENOMEM, "no memory for %zu bytes", need);
	*p = more;
	*room = 2 * need;
	return 0;
}

static int out_append(struct order *o, const void *data, size_t len, struct err *e)
{
	int rc;

	if (o->out_sent) {
		memmove(o->outbox, o->outbox + o->out_sent, o->out_len - o->out_sent);
		o->out_len -= o->out_sent;
		o->out_sent = 0;
	}
	if (o->out_len + len > ORDER_QUEUE)
		return fail(e, RINGUP_EPEER, "the other side reads nothing");
	rc = room_make(&o->outbox, &o->out_room, o->out_len + len, e);
	if (rc)
		return rc;
	if (len)
		memcpy(o->outbox + o->out_len, data, len);
	o->out_len += len;
	return 0;
}

int order_seal(struct order *o, const struct secret *key, enum shake_role role, struct err *e)
{
	struct shake_keys keys;
	int rc;

	shake_keys_from(&keys, key, role);
	rc = chan_open(o->in, &keys, &o->chan, e);
	sodium_memzero(&keys, sizeof(keys));
	if (!rc)
		chan_seal(o->chan);
	return rc;
}

int order_greet(struct order *o, struct err *e)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "\n%s%s\n", ORDER_GREETING, build_version());
	int rc = out_append(o, line, (size_t)n, e);

	return rc ? rc : order_flush(o, e);
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
	rc = out_append(o, head, HEAD + 4 * (size_t)n, e);
	if (!rc)
		rc = out_append(o, data, len, e);
	return rc ? rc : order_flush(o, e);
}

static int chan_lose(int rc, struct err *e)
{
	if (rc == RINGUP_EPEER)
		fail_in(e, "connection lost");
	else if (rc == RINGUP_EAUTH)
		fail_in(e, "the peer does not know the key, or its data were changed");
	return rc;
}

/* The channel gets no more than a frame beyond what its socket takes: the rest waits here. */
static int flush_chan(struct order *o, struct err *e)
{
	int rc = chan_flush(o->chan, e);
	size_t n;

	while (!rc && o->out_sent < o->out_len) {
		n = o->out_len - o->out_sent;
		n = n < CHAN_BYTES ? n : CHAN_BYTES;
		rc = chan_send(o->chan, o->outbox + o->out_sent, n, e);
		o->out_sent += n;
	}
	if (rc < 0)
		return chan_lose(rc, e);
	if (o->out_sent == o->out_len)
		o->out_len = o->out_sent = 0;
	o->chan_left = rc > 0;
	return rc;
}

int order_flush(struct order *o, struct err *e)
{
	if (o->chan)
		return flush_chan(o, e);
	while (o->out_sent < o->out_len) {
		ssize_t n = write(o->out, o->outbox + o->out_sent, o->out_len - o->out_sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n < 0)
			return fail(e, RINGUP_EPEER, "connection lost: %s", strerror(errno));
		o->out_sent += (size_t)n;
	}
	o->out_len = o->out_sent = 0;
	return 0;
}

short order_events(const struct order *o)
{
	return o->out_sent < o->out_len || o->chan_left ? POLLOUT : 0;
}

/* Takes the frames that have arrived, READ_BYTES or a little more.  An end behind them is found
 * by the next call. */
static int chan_read(struct order *o, struct err *e)
{
	size_t before = o->in_len;
	const void *data;
	int n, rc;

	while (o->in_len - before < READ_BYTES) {
		n = chan_recv(o->chan, &data, e);
		if (n == RINGUP_EPEER && o->in_len > before)
			return 0;
		if (n <= 0)
			return n ? chan_lose(n, e) : 0;
		rc = room_make(&o->inbox, &o->in_room, o->in_len + (size_t)n, e);
		if (rc)
			return rc;
		memcpy(o->inbox + o->in_len, data, (size_t)n);
		o->in_len += (size_t)n;
	}
	return 0;
}

int order_read(struct order *o, struct err *e)
{
	ssize_t n;
	int rc;

	if (o->in_used) {
		memmove(o->inbox, o->inbox + o->in_used, o->in_len - o->in_used);
		o->in_len -= o->in_used;
		o->in_used = 0;
	}
	if (o->chan)
		return chan_read(o, e);
	rc = room_make(&o->inbox, &o->in_room, o->in_len + READ_BYTES, e);
	if (rc)
		return rc;
	do
		n = read(o->in, o->inbox + o->in_len, READ_BYTES);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return fail(e, RINGUP_EPEER, "connection lost%s%s", n < 0 ? ": " : "",
			    n < 0 ? strerror(errno) : "");
	o->in_len += (size_t)n;
	return 0;
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
	size_t mark = strlen(ORDER_GREETING);

	while (o->in_len > o->in_used) {
		unsigned char *line = o->inbox + o->in_used, *end;
		size_t left = o->in_len - o->in_used, len;

		end = memchr(line, '\n', left);
		if (!end && left > READ_BYTES)
			return fail(e, RINGUP_EINVAL, "the peer is not a rank daemon");
		if (!end)
			return 0;
		len = (size_t)(end - line);
		o->in_used += len + 1;
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
	const unsigned char *p;
	size_t len;
	int rc;

	if (o->greets) {
		rc = greeting_next(o, e);
		if (rc <= 0)
			return rc;
	}
	if (o->in_len - o->in_used < HEAD) /* there may be no inbox yet */
		return 0;
	p = o->inbox + o->in_used;
	len = pack_get32(p);
	if (len > ORDER_BYTES || p[4] < ORDER_SETUP || p[4] > ORDER_BYE)
		return fail(e, RINGUP_EINVAL, "the peer violates the protocol");
	if (o->in_len - o->in_used < HEAD + len)
		return 0;
	*datap = p + HEAD;
	*lenp = len;
	o->in_used += HEAD + len;
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
