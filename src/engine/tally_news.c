/* tally_news.c - what leaders tell each other but order: ends, signs of life, reports. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/span.h"
#include "engine/tally_state.h"

static void pass_leave(struct tally *t, int rank, int except)
{
	if (t->left)
		return;
	t->left = true;
	frame_begin(&t->out, FRAME_LEAVE);
	frame_put(&t->out, (uint64_t)rank, 4);
	tally_flood(t, except, &t->out);
}

void tally_leave(struct tally *t, int rank)
{
	pass_leave(t, rank, -1);
}

void tally_goodbye(struct tally *t)
{
	t->left = true;
	frame_begin(&t->out, FRAME_LEAVE);
	frame_put(&t->out, (uint64_t)t->ledger->span->rank[0], 4);
	tally_flood(t, -1, &t->out);
}

int tally_take_leave(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t rank = frame_get(f, 4);

	if (f->bad || f->left || rank >= (uint64_t)t->size)
		return tally_malformed(t, link, "farewell", e);
	if ((int)rank == t->link[link].leader)
		t->link[link].gone = true;
	pass_leave(t, (int)rank, link);
	t->ev.left(t->ev.ctx, (int)rank);
	return 0;
}

static void pass_alarm(struct tally *t, int code, const char *why, int except)
{
	size_t len = strnlen(why, SENTENCE - 1);

	if (t->alarmed)
		return;
	t->alarmed = true;
	frame_begin(&t->out, FRAME_ALARM);
	frame_put(&t->out, (uint32_t)-code, 4);
	frame_add(&t->out, why, len);
	tally_flood(t, except, &t->out);
}

void tally_alarm(struct tally *t, int code, const char *why)
{
	pass_alarm(t, code, why, -1);
}

int tally_take_alarm(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t code = frame_get(f, 4);
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);
	char why[SENTENCE];

	if (!p || !code || code > 1000 || len >= sizeof(why))
		return tally_malformed(t, link, "alarm", e);
	memcpy(why, p, len);
	why[len] = 0;
	pass_alarm(t, -(int)code, why, link);
	t->ev.alarm(t->ev.ctx, -(int)code, why);
	return 0;
}

void tally_ping(struct tally *t)
{
	frame_begin(&t->out, FRAME_PING);
	tally_flood(t, -1, &t->out);
}

/* That it came is all there is to it. */
int tally_take_ping(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	return f->left ? tally_malformed(t, link, "ping", e) : 0;
}

void tally_report(struct tally *t, const void *data, size_t len)
{
	if (t->is_root) {
		if (t->ev.report)
			t->ev.report(t->ev.ctx, data, len);
		return;
	}
	frame_begin(&t->out, FRAME_REPORT);
	frame_add(&t->out, data, len);
	tally_send(t, 0, &t->out);
}

/* Whose it is only the root has to know. */
int tally_take_report(struct tally *t, int link, struct frame_in *f, struct err *e)
{
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);

	if (!p || len > TALLY_REPORT)
		return tally_malformed(t, link, "report", e);
	tally_report(t, p, len);
	return 0;
}
