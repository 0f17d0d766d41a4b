/* coordinator_news.c - leave notices, alarms, pings, reports and invitations among leaders. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/coordinator_state.h"
#include "engine/host_queue.h"
#include "wire/discover.h"
#include "wire/segment.h"

static void pass_leave(struct coordinator *c, int rank, int except)
{
	if (c->left)
		return;
	c->left = true;
	frame_begin(&c->out, FRAME_LEAVE);
	frame_put(&c->out, (uint64_t)rank, 4);
	coordinator_flood(c, except, &c->out);
}

void coordinator_leave(struct coordinator *c, int rank)
{
	pass_leave(c, rank, -1);
}

void coordinator_goodbye(struct coordinator *c)
{
	c->left = true;
	frame_begin(&c->out, FRAME_LEAVE);
	frame_put(&c->out, (uint64_t)c->host_queue->rank[0], 4);
	coordinator_flood(c, -1, &c->out);
}

int coordinator_take_leave(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	uint64_t rank = frame_get(f, 4);

	if (f->bad || f->left || (rank & ~(uint64_t)SEGMENT_ABORTED) >= (uint64_t)c->size)
		return coordinator_malformed(c, link, "farewell", e);
	if ((int)rank == c->link[link].leader)
		c->link[link].gone = true;
	pass_leave(c, (int)rank, link);
	c->ev.left(c->ev.ctx, (int)rank);
	return 0;
}

static void pass_alarm(struct coordinator *c, int culprit, int code, const char *why,
		       int except)
{
	size_t len = strnlen(why, SENTENCE - 1);

	if (c->alarmed)
		return;
	c->alarmed = true;
	frame_begin(&c->out, FRAME_ALARM);
	frame_put(&c->out, (uint32_t)-code, 4);
	frame_put(&c->out, culprit < 0 ? 0 : (uint32_t)culprit + 1, 4);
	frame_add(&c->out, why, len);
	coordinator_flood(c, except, &c->out);
}

void coordinator_alarm(struct coordinator *c, int culprit, int code, const char *why)
{
	pass_alarm(c, culprit, code, why, -1);
}

int coordinator_take_alarm(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	uint64_t code = frame_get(f, 4), culprit = frame_get(f, 4);
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);
	char why[SENTENCE];

	if (!p || !code || code > 1000 || culprit > DISCOVER_RANKS || len >= sizeof(why))
		return coordinator_malformed(c, link, "alarm", e);
	memcpy(why, p, len);
	why[len] = 0;
	pass_alarm(c, (int)culprit - 1, -(int)code, why, link);
	c->ev.alarm(c->ev.ctx, (int)culprit - 1, -(int)code, why);
	return 0;
}

void coordinator_ping(struct coordinator *c)
{
	frame_begin(&c->out, FRAME_PING);
	coordinator_flood(c, -1, &c->out);
}

/* A ping has no content: its arrival is the sign of life. */
int coordinator_take_ping(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	return f->left ? coordinator_malformed(c, link, "ping", e) : 0;
}

void coordinator_report(struct coordinator *c, const void *data, size_t len)
{
	if (c->is_root) {
		if (c->ev.report)
			c->ev.report(c->ev.ctx, data, len);
		return;
	}
	frame_begin(&c->out, FRAME_REPORT);
	frame_add(&c->out, data, len);
	coordinator_send(c, 0, &c->out);
}

/* Passes a report on towards the root, which alone interprets it. */
int coordinator_take_report(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);

	if (!p || len > COORDINATOR_REPORT)
		return coordinator_malformed(c, link, "report", e);
	coordinator_report(c, p, len);
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
static int route(const struct coordinator *c, int rank)
{
	for (int k = 0; k < coordinator_children(c); k++)
		if (has_rank(coordinator_child(c, k)->ranks, coordinator_child(c, k)->count,
			     rank))
			return c->first_child + k;
	if (has_rank(c->ranks, c->count, rank))
		return -1;
	return c->is_root ? -2 : 0;
}

static void deliver_invite(struct coordinator *c, int from, int to, const char *where)
{
	if (c->ev.invite)
		c->ev.invite(c->ev.ctx, from, to, where);
}

void coordinator_invite(struct coordinator *c, int from, int to, const char *where)
{
	int link = route(c, to);
	bool is_invitation = coordinator_is_invitation(where);

	c->has_invited |= is_invitation;
	if (link == -1) {
		deliver_invite(c, from, to, where);
	} else if (link >= 0 && !c->link[link].closed) {
		frame_begin(&c->out, FRAME_INVITE);
		frame_put(&c->out, (uint64_t)from, 4);
		frame_put(&c->out, (uint64_t)to, 4);
		frame_add(&c->out, where, strnlen(where, COORDINATOR_WHERE - 1));
		coordinator_send(c, link, &c->out);
	} else if (is_invitation) {
		/* So that the inviter does not wait; an answer or a question needs none. */
		coordinator_invite(c, to, from, "");
	}
}

int coordinator_take_invite(struct coordinator *c, int link, struct frame_in *f, struct err *e)
{
	uint64_t from = frame_get(f, 4), to = frame_get(f, 4);
	size_t len = f->left;
	const unsigned char *p = frame_bytes(f, len);
	char where[COORDINATOR_WHERE];

	if (!p || len >= sizeof(where) || from >= (uint64_t)c->size ||
	    to >= (uint64_t)c->size || memchr(p, 0, len) || route(c, (int)to) == link)
		return coordinator_malformed(c, link, "invitation", e);
	memcpy(where, p, len);
	where[len] = 0;
	coordinator_invite(c, (int)from, (int)to, where);
	return 0;
}
