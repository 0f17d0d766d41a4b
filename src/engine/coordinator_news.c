/* coordinator_news.c - leaves, alarms, pings, reports and invitations between leaders. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/coordinator_state.h"
#include "engine/host_queue.h"
#include "wire/discover.h"

static void pass_leave(struct coordinator *t, int rank, int except)
{
	if (t->left)
		return;
	t->left = true;
	frame_begin(&t->out, FRAME_LEAVE);
	frame_put(&t->out, (uint64_t)rank, 4);
	coordinator_flood(t, except, &t->out);
}

void coordinator_leave(struct coordinator *t, int rank)
{
	pass_leave(t, rank, -1);
}

void coordinator_goodbye(struct coordinator *t)
{
	t->left = true;
	frame_begin(&t->out, FRAME_LEAVE);
	frame_put(&t->out, (uint64_t)t->host_queue->rank[0], 4);
	coordinator_flood(t, -1, &t->out);
}

int coordinator_take_leave(struct coordinator *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t rank = frame_get(f, 4);

	if (f->bad || f->left || rank >= (uint64_t)t->size)
		return coordinator_malformed(t, link, "farewell", e);
	if ((int)rank == t->link[link].leader)
		t->link[link].gone = true;
	pass_leave(t, (int)rank, link);
	t->ev.left(t->ev.ctx, (int)rank);
	return 0;
}

static void pass_alarm(struct coordinator *t, int culprit, int code, const char *why,
		       int except)
{
	size_t len = strnlen(why, SENTENCE - 1);

	if (t->alarmed)
		return;
	t->alarmed = true;
	frame_begin(&t->out, FRAME_ALARM);
	frame_put(&t->out, (uint32_t)-code, 4);
	frame_put(&t->out, culprit < 0 ? 0 : (uint32_t)culprit + 1, 4);
	frame_add(&t->out, why, len);
	coordinator_flood(t, except, &t->out);
}

void coordinator_alarm(struct coordinator *t, int culprit, int code, const char *why)
{
	pass_alarm(t, culprit, code, why, -1);
}

int coordinator_take_alarm(struct coordinator *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t code = frame_get(f, 4), culprit = frame_get(f, 4);
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);
	char why[SENTENCE];

	if (!p || !code || code > 1000 || culprit > DISCOVER_RANKS || len >= sizeof(why))
		return coordinator_malformed(t, link, "alarm", e);
	memcpy(why, p, len);
	why[len] = 0;
	pass_alarm(t, (int)culprit - 1, -(int)code, why, link);
	t->ev.alarm(t->ev.ctx, (int)culprit - 1, -(int)code, why);
	return 0;
}

void coordinator_ping(struct coordinator *t)
{
	frame_begin(&t->out, FRAME_PING);
	coordinator_flood(t, -1, &t->out);
}

/* A ping has no content: its arrival is the sign of life. */
int coordinator_take_ping(struct coordinator *t, int link, struct frame_in *f, struct err *e)
{
	return f->left ? coordinator_malformed(t, link, "ping", e) : 0;
}

void coordinator_report(struct coordinator *t, const void *data, size_t len)
{
	if (t->is_root) {
		if (t->ev.report)
			t->ev.report(t->ev.ctx, data, len);
		return;
	}
	frame_begin(&t->out, FRAME_REPORT);
	frame_add(&t->out, data, len);
	coordinator_send(t, 0, &t->out);
}

/* Passes a report on towards the root, which alone interprets it. */
int coordinator_take_report(struct coordinator *t, int link, struct frame_in *f, struct err *e)
{
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);

	if (!p || len > COORDINATOR_REPORT)
		return coordinator_malformed(t, link, "report", e);
	coordinator_report(t, p, len);
	return 0;
}

static bool has_rank(const int *ranks, int count, int rank)
{
	int first = 0, end = count, middle;

	while (first < end) {
		middle = first + (end - first) / 2;
		if (ranks[middle] == rank)
			return true;
		if (ranks[middle] < rank)
			first = middle + 1;
		else
			end = middle;
	}
	return false;
}

/* The link that leads to @rank; -1: @rank is of this host, -2: no link leads there. */
static int route(const struct coordinator *t, int rank)
{
	for (int k = 0; k < coordinator_children(t); k++)
		if (has_rank(coordinator_child(t, k)->ranks, coordinator_child(t, k)->count,
			     rank))
			return t->first_child + k;
	if (has_rank(t->ranks, t->count, rank))
		return -1;
	return t->is_root ? -2 : 0;
}

static void deliver_invite(struct coordinator *t, int from, int to, const char *where)
{
	if (t->ev.invite)
		t->ev.invite(t->ev.ctx, from, to, where);
}

void coordinator_invite(struct coordinator *t, int from, int to, const char *where)
{
	int link = route(t, to);

	if (link == -1) {
		deliver_invite(t, from, to, where);
	} else if (link >= 0 && !t->link[link].gone) {
		frame_begin(&t->out, FRAME_INVITE);
		frame_put(&t->out, (uint64_t)from, 4);
		frame_put(&t->out, (uint64_t)to, 4);
		frame_add(&t->out, where, strnlen(where, COORDINATOR_WHERE - 1));
		coordinator_send(t, link, &t->out);
	} else if (*where && *where != '?' && *where != '!') {
		/* So that the inviter does not wait; an answer or a question needs none. */
		coordinator_invite(t, to, from, "");
	}
}

int coordinator_take_invite(struct coordinator *t, int link, struct frame_in *f, struct err *e)
{
	uint64_t from = frame_get(f, 4), to = frame_get(f, 4);
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);
	char where[COORDINATOR_WHERE];

	if (!p || len >= sizeof(where) || from >= (uint64_t)t->size ||
	    to >= (uint64_t)t->size || memchr(p, 0, len) || route(t, (int)to) == link)
		return coordinator_malformed(t, link, "invitation", e);
	memcpy(where, p, len);
	where[len] = 0;
	coordinator_invite(t, (int)from, (int)to, where);
	return 0;
}
