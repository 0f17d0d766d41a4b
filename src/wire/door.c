/* door.c - accept connections, and hand those that know the secret to the owner. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/door.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "ringup.h"

enum { PAUSE_MS = 100, BURST = 128 };

struct door_guest {
	int fd;
	int64_t deadline_ns;
	struct sock_addr from;
	struct shake shake;
};

int door_open(struct door *d, int fd, uint32_t rank, const struct secret *s, struct err *e)
{
	memset(d, 0, sizeof(*d));
	d->guest = calloc(DOOR_GUESTS, sizeof(*d->guest));
	if (!d->guest)
		return fail(e, RINGUP_ENOMEM, "listener");
	d->fd = fd;
	d->rank = rank;
	d->secret = s;
	return 0;
}

int door_listen(struct door *d, const char *address, char *where, uint32_t rank,
		const struct secret *s, struct err *e)
{
	int fd = sock_listen(address, where, e), rc;

	if (fd < 0)
		return fd;
	rc = door_open(d, fd, rank, s, e);
	if (rc)
		close(fd);
	return rc;
}

static void remove_guest(struct door *d, int i)
{
	shake_wipe(&d->guest[i].shake);
	d->guests--;
	memmove(&d->guest[i], &d->guest[i + 1], (size_t)(d->guests - i) * sizeof(*d->guest));
	memset(&d->guest[d->guests], 0, sizeof(*d->guest));
}

/* Logs one line a second at most, so that foreign connections cannot fill the disk. */
static void door_tell(struct door *d, const struct sock_addr *from, const char *why)
{
	int64_t now = clock_ns();
	char text[SOCK_TEXT];

	d->strangers++;
	if (d->told_ns && now - d->told_ns < 1000000000)
		return;
	log_info("sent away %u connection%s, the last from %s: %s", d->strangers,
		 d->strangers == 1 ? "" : "s", sock_text(from, text), why);
	d->told_ns = now;
	d->strangers = 0;
}

static void send_away(struct door *d, int i, const char *why)
{
	door_tell(d, &d->guest[i].from, why);
	close(d->guest[i].fd);
	remove_guest(d, i);
}

/* One step of the guest's handshake; false if it has ended, well or not. */
static bool serve_guest(struct door *d, int i, const struct door_owner *owner)
{
	struct door_guest *g = &d->guest[i];
	struct err e = { 0 };
	int rc;

	rc = shake_step(&g->shake, g->fd, &e);
	if (rc == SHAKE_PROVED) {
		shake_answer(&g->shake, owner->admit(owner->ctx, &g->shake));
		rc = shake_step(&g->shake, g->fd, &e);
	}
	if (rc == SHAKE_MORE)
		return true;
	if (rc == SHAKE_DONE) {
		owner->enter(owner->ctx, g->fd, &g->shake);
		remove_guest(d, i);
	} else {
		send_away(d, i, e.text);
	}
	return false;
}

/* The oldest guest of the address that has the most. */
static int find_pushiest(const struct door *d)
{
	int best = 0, most = 0;

	for (int i = 0; i < d->guests; i++) {
		int same = 0;

		for (int j = i; j < d->guests; j++)
			same += sock_same_host(&d->guest[i].from, &d->guest[j].from);
		if (same > most) {
			most = same;
			best = i;
		}
	}
	return best;
}

static void accept_guests(struct door *d)
{
	int fd;

	/* Bounded, so that a flood does not keep the guests waiting. */
	for (int i = 0; i < BURST; i++) {
		struct door_guest *g;
		struct sock_addr from;

		fd = sock_accept(d->fd, &from);
		if (fd == -2)
			d->pause_ns = clock_deadline(PAUSE_MS);
		if (fd < 0)
			return;
		if (d->guests == DOOR_GUESTS)
			send_away(d, find_pushiest(d), "too many at once");
		g = &d->guest[d->guests++];
		g->fd = fd;
		g->from = from;
		g->deadline_ns = clock_deadline(SHAKE_MS);
		shake_init(&g->shake, SHAKE_SERVER, SHAKE_MEET, d->rank, SHAKE_NO_RANK,
			   d->secret);
		g->shake.events = POLLIN;
	}
}

int door_poll(const struct door *d, struct pollfd *p)
{
	bool paused = d->pause_ns && clock_ns() < d->pause_ns;

	if (!d->guest)
		return 0;
	p[0] = (struct pollfd){ paused ? -1 : d->fd, POLLIN, 0 };
	for (int i = 0; i < d->guests; i++)
		p[1 + i] = (struct pollfd){ d->guest[i].fd, d->guest[i].shake.events, 0 };
	return 1 + d->guests;
}

int64_t door_until(const struct door *d)
{
	int64_t until = INT64_MAX;

	if (!d->guest)
		return until;
	/* All guests have the same time limit, so the oldest is the first to reach it. */
	if (d->guests)
		until = d->guest[0].deadline_ns;
	if (d->pause_ns > clock_ns() && d->pause_ns < until)
		until = d->pause_ns;
	return until;
}

void door_serve(struct door *d, const struct pollfd *p, const struct door_owner *owner)
{
	int64_t now = clock_ns();
	short knocking = p->revents;
	int i, n;

	if (!d->guest)
		return;
	/* @p has the guests as they were at door_poll(): handled ones leave d->guest[]. */
	for (i = 0, n = d->guests; n > 0; n--) {
		bool late = now >= d->guest[i].deadline_ns;

		p++;
		if (p->revents && !serve_guest(d, i, owner))
			continue;
		if (late)
			send_away(d, i, "too slow");
		else
			i++;
	}
	if (knocking)
		accept_guests(d);
}

void door_close(struct door *d)
{
	if (!d->guest)
		return;
	while (d->guests) {
		close(d->guest[d->guests - 1].fd);
		remove_guest(d, d->guests - 1);
	}
	free(d->guest);
	close(d->fd);
	memset(d, 0, sizeof(*d));
}
