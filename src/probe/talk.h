/* talk.h - the message stream between a check and its agents: one JSON object a line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_TALK_H
#define PROBE_TALK_H

#include <jansson.h>
#include <stddef.h>

#include "wire/stream.h"

/*
 * A line is "ringup-agent/1 ", a JSON object and a newline.  Shells and launchers write to the
 * same stream: a line with another beginning is noise, and the last such line is kept, since it
 * may say why there is no agent.
 */
enum { TALK_LINE = 16 << 20, TALK_NOISE = 160 };

/* Caller's storage; talk_open() fills it. */
struct talk {
	struct stream stream; /* its descriptors are not closed here         */
	struct chan *chan;    /* replaces them, if not NULL; closed here     */
	size_t seen;          /* bytes of the next line without its end      */
	char noise[TALK_NOISE];
};

void talk_open(struct talk *t, int in, int out);
void talk_open_chan(struct talk *t, struct chan *c);
void talk_close(struct talk *t);

/* talk_fd, talk_events - for poll(2). */
int talk_fd(const struct talk *t);
short talk_events(const struct talk *t);

/*
 * talk_say - queue @msg, taking over its reference, and send as much as goes now.
 *
 * Returns 0, 1 if something is left (talk_flush() when poll(2) says so), RINGUP_EPEER if the
 * other end is closed, RINGUP_ENOMEM.
 */
int talk_say(struct talk *t, json_t *msg, struct err *e);
int talk_flush(struct talk *t, struct err *e);

/* talk_read - take in arrived bytes; RINGUP_EPEER at the end, RINGUP_EINVAL for a line that is
 * too long. */
int talk_read(struct talk *t, struct err *e);

/* talk_feed - the same without a descriptor. */
int talk_feed(struct talk *t, const void *data, size_t len, struct err *e);

/* talk_next - 1 and *@msgp, the caller's, if a whole message is there; 0 if none is;
 * RINGUP_EINVAL if it is malformed, RINGUP_EMISMATCH if it is another version's. */
int talk_next(struct talk *t, json_t **msgp, struct err *e);

/* talk_clean - replace control characters in a foreign text. */
void talk_clean(char *text);

#endif
