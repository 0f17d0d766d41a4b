/* talk.c - the message stream between a check and its agents: one JSON object a line. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/talk.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"
#include "wire/chan.h"

static const char family[] = "ringup-agent/", mark[] = "ringup-agent/1 ";

void talk_open(struct talk *t, int in, int out)
{
	*t = (struct talk){ 0 };
	stream_open(&t->stream, in, out);
}

void talk_open_chan(struct talk *t, struct chan *c)
{
	talk_open(t, -1, -1);
	t->stream.chan = t->chan = c;
}

void talk_close(struct talk *t)
{
	chan_close(t->chan);
	stream_close(&t->stream);
	talk_open(t, -1, -1);
}

int talk_fd(const struct talk *t)
{
	return t->chan ? chan_fd(t->chan) : t->stream.in;
}

short talk_events(const struct talk *t)
{
	return (short)(POLLIN | stream_events(&t->stream));
}

int talk_flush(struct talk *t, struct err *e)
{
	return stream_flush(&t->stream, e);
}

int talk_say(struct talk *t, json_t *msg, struct err *e)
{
	char *text = msg ? json_dumps(msg, JSON_COMPACT) : NULL;
	int rc = text ? 0 : fail(e, RINGUP_ENOMEM, "no memory for a message");

	json_decref(msg);
	if (!rc)
		rc = stream_put(&t->stream, mark, sizeof(mark) - 1, e);
	if (!rc)
		rc = stream_put(&t->stream, text, strlen(text), e);
	if (!rc)
		rc = stream_put(&t->stream, "\n", 1, e);
	free(text);
	return rc ? rc : talk_flush(t, e);
}

static int check_line(const struct talk *t, struct err *e)
{
	return t->stream.inbox.len - t->stream.inbox.used <= TALK_LINE
		       ? 0
		       : fail(e, RINGUP_EINVAL, "a line of more than %d bytes", TALK_LINE);
}

int talk_feed(struct talk *t, const void *data, size_t len, struct err *e)
{
	int rc = stream_feed(&t->stream, data, len, e);

	return rc ? rc : check_line(t, e);
}

int talk_read(struct talk *t, struct err *e)
{
	int rc = stream_read(&t->stream, e);

	return rc ? rc : check_line(t, e);
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
	struct stream_box *s = &t->stream.inbox;
	const char *line, *end;
	size_t len, left;

	*msgp = NULL;
	while (s->used < s->len) {
		line = (const char *)s->data + s->used;
		left = s->len - s->used;
		end = memchr(line + t->seen, '\n', left - t->seen);
		t->seen = end ? 0 : left;
		if (!end)
			return 0;
		len = (size_t)(end - line);
		s->used += len + 1;
		if (len && line[len - 1] == '\r')
			len--; /* a terminal in between */
		if (len >= sizeof(family) - 1 && !memcmp(line, family, sizeof(family) - 1))
			return talk_parse(line, len, msgp, e);
		keep_noise(t, line, len);
	}
	return 0;
}
