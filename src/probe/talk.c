/* talk.c - the message stream between a check and its agents: one JSON object a line. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/talk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "wire/chan.h"

static const char family[] = "ringup-agent/", mark[] = "ringup-agent/1 ";

void talk_open(struct talk *t, int in, int out)
{
	memset(t, 0, sizeof(*t));
	t->in = in;
	t->out = out;
}

void talk_open_chan(struct talk *t, struct chan *c)
{
	talk_open(t, -1, -1);
	t->chan = c;
}

void talk_close(struct talk *t)
{
	chan_close(t->chan);
	free(t->inbox);
	free(t->outbox);
	talk_open(t, -1, -1);
}

int talk_fd(const struct talk *t)
{
	return t->chan ? chan_fd(t->chan) : t->in;
}

short talk_events(const struct talk *t)
{
	return t->out_len || t->chan_left ? POLLIN | POLLOUT : POLLIN;
}

/* MSG_NOSIGNAL is for sockets only; SIGPIPE may end an agent whose pipe has no reader. */
static ssize_t talk_put(int fd, const char *data, size_t len)
{
	ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

	return n < 0 && errno == ENOTSOCK ? write(fd, data, len) : n;
}

static int flush_chan(struct talk *t, struct err *e)
{
	size_t n;
	int rc = 0;

	while (rc >= 0 && t->out_sent < t->out_len) {
		n = t->out_len - t->out_sent;
		n = n < CHAN_BYTES ? n : CHAN_BYTES;
		rc = chan_send(t->chan, t->outbox + t->out_sent, n, e);
		t->out_sent += n;
	}
	if (rc >= 0)
		t->out_len = t->out_sent = 0;
	rc = rc < 0 ? rc : chan_flush(t->chan, e);
	t->chan_left = rc > 0;
	return rc;
}

int talk_flush(struct talk *t, struct err *e)
{
	ssize_t n;

	if (t->chan)
		return flush_chan(t, e);
	while (t->out_sent < t->out_len) {
		n = talk_put(t->out, t->outbox + t->out_sent, t->out_len - t->out_sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n < 0) {
			t->out_len = t->out_sent = 0;
			return fail(e, RINGUP_EPEER, "nobody listens: %s", strerror(errno));
		}
		t->out_sent += (size_t)n;
	}
	t->out_len = t->out_sent = 0;
	return 0;
}

int talk_say(struct talk *t, json_t *msg, struct err *e)
{
	char *text = msg ? json_dumps(msg, JSON_COMPACT) : NULL, *box;
	size_t len = text ? strlen(text) : 0, head = sizeof(mark) - 1;

	json_decref(msg);
	box = text ? realloc(t->outbox, t->out_len + head + len + 1) : NULL;
	if (!box) {
		free(text);
		return fail(e, RINGUP_ENOMEM, "no memory for a message");
	}
	memcpy(box + t->out_len, mark, head);
	memcpy(box + t->out_len + head, text, len);
	box[t->out_len + head + len] = '\n';
	t->outbox = box;
	t->out_len += head + len + 1;
	free(text);
	return talk_flush(t, e);
}

int talk_feed(struct talk *t, const void *data, size_t len, struct err *e)
{
	size_t room = t->in_room ? t->in_room : 4096;
	char *box;

	if (t->in_used) {
		memmove(t->inbox, t->inbox + t->in_used, t->in_len - t->in_used);
		t->in_len -= t->in_used;
		t->in_seen -= t->in_used;
		t->in_used = 0;
	}
	if (len > TALK_LINE || t->in_len + len > TALK_LINE)
		return fail(e, RINGUP_EINVAL, "a line of more than %d bytes", TALK_LINE);
	while (room < t->in_len + len)
		room *= 2;
	if (room > t->in_room) {
		box = realloc(t->inbox, room);
		if (!box)
			return fail(e, RINGUP_ENOMEM, "no memory for a message");
		t->inbox = box;
		t->in_room = room;
	}
	memcpy(t->inbox + t->in_len, data, len);
	t->in_len += len;
	return 0;
}

int talk_read(struct talk *t, struct err *e)
{
	char buf[65536];
	const void *data = buf;
	ssize_t n;

	if (t->chan)
		n = chan_recv(t->chan, &data, e);
	else
		n = read(t->in, buf, sizeof(buf));
	if (t->chan && n < 0)
		return (int)n;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return fail(e, RINGUP_EPEER, "%s", strerror(errno));
	if (n == 0 && !t->chan)
		return fail(e, RINGUP_EPEER, "the connection has ended");
	return n > 0 ? talk_feed(t, data, (size_t)n, e) : 0;
}

void talk_clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = '?';
}

static void keep_noise(struct talk *t, const char *line, size_t len)
{
	while (len && (line[len - 1] == '\r' || line[len - 1] == ' '))
		len--;
	if (!len)
		return;
	snprintf(t->noise, sizeof(t->noise), "%.*s", (int)(len < 1000 ? len : 1000), line);
	talk_clean(t->noise);
}

static int talk_parse(const char *line, size_t len, json_t **msgp, struct err *e)
{
	size_t head = sizeof(mark) - 1;

	if (len < head || memcmp(line, mark, head))
		return fail(e, RINGUP_EMISMATCH, "the agent has another version");
	*msgp = json_loadb(line + head, len - head, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(*msgp))
		return 1;
	json_decref(*msgp);
	*msgp = NULL;
	return fail(e, RINGUP_EINVAL, "the agent sent an invalid message");
}

int talk_next(struct talk *t, json_t **msgp, struct err *e)
{
	const char *line, *end;
	size_t len;

	*msgp = NULL;
	while (t->inbox) {
		line = t->inbox + t->in_used;
		end = t->in_seen < t->in_len
			      ? memchr(t->inbox + t->in_seen, '\n', t->in_len - t->in_seen)
			      : NULL;
		if (!end) {
			t->in_seen = t->in_len;
			return 0;
		}
		len = (size_t)(end - line);
		t->in_used += len + 1;
		t->in_seen = t->in_used;
		if (len && line[len - 1] == '\r')
			len--; /* a terminal in between */
		if (len >= sizeof(family) - 1 && !memcmp(line, family, sizeof(family) - 1))
			return talk_parse(line, len, msgp, e);
		keep_noise(t, line, len);
	}
	return 0;
}
