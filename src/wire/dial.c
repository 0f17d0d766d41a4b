/* dial.c - connect, prove, and try again where that may help. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/dial.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "host/nearend.h"
#include "ringup.h"

enum { FIRST_PAUSE_MS = 5, LONGEST_PAUSE_MS = 200, REFUSED_MS = 2000 };
/* The first state is 0, so that zeroed storage counts as closed. */
enum state { RESTING, CONNECTING, SHAKING, DONE };

int dial_open(struct dial *d, const char *where, enum shake_channel channel, uint32_t rank,
	      uint32_t peer, const struct secret *s, int64_t deadline_ns, struct err *e)
{
	memset(d, 0, sizeof(*d));
	d->channel = channel;
	d->rank = rank;
	d->peer = peer;
	d->secret = s;
	d->deadline_ns = deadline_ns;
	snprintf(d->where, sizeof(d->where), "%s", where);
	return sock_parse(where, &d->to, e);
}

static void hang_up(struct dial *d)
{
	if (d->state != RESTING && d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	d->state = RESTING;
	shake_wipe(&d->shake);
}

/*
 * Refused for REFUSED_MS: the listener has ended, or another program answers.  Between hosts a
 * firewall may be in the way; a host's packets to itself go by its loopback.
 */
static int fail_refused(const struct dial *d, int code, struct err *e)
{
	struct err why = *e;
	char lo[DIAL_HINT];
	bool own;

	if (code == RINGUP_EBUSY)
		return fail(e, code, "%s: %.200s", d->where, why.text);
	own = nearend_look_self(&d->to.sa, lo, sizeof(lo));
	return fail(
		e, code, "%s: %.80s: %s", d->where, why.text,
		*lo   ? lo
		: own ? "nobody listens there any more, or rules of this host reject what it "
			"sends to itself: let lo pass in nft or iptables"
		      : "nobody listens there any more, or a firewall rejects");
}

const char *dial_silence(const struct dial *d, char out[DIAL_HINT])
{
	char lo[DIAL_HINT];

	if (*d->why)
		snprintf(out, DIAL_HINT, "the last try: %s", d->why);
	else if (!nearend_look_self(&d->to.sa, lo, sizeof(lo)))
		snprintf(out, DIAL_HINT, "is there a firewall?");
	else
		snprintf(out, DIAL_HINT, "%s",
			 *lo ? lo
			     : "rules of this host drop what it sends to itself: let lo pass "
			       "in nft "
			       "or iptables");
	return out;
}

/* This try has failed with @code; 0 if there will be another. */
static int try_again(struct dial *d, int code, struct err *e)
{
	bool refused = d->state == CONNECTING || code == RINGUP_EBUSY;
	int64_t now = clock_ns(), pause;

	hang_up(d);
	if (code != RINGUP_EPEER && code != RINGUP_EBUSY)
		return fail_in(e, "%s", d->where);
	if (!refused)
		d->refused_ns = 0;
	else if (!d->refused_ns)
		d->refused_ns = now;
	else if (now - d->refused_ns > REFUSED_MS * (int64_t)1000000)
		return fail_refused(d, code, e);
	snprintf(d->why, sizeof(d->why), "%.*s", (int)sizeof(d->why) - 1, e->text);
	pause = (int64_t)FIRST_PAUSE_MS << (d->tries < 6 ? d->tries : 6);
	if (pause > LONGEST_PAUSE_MS)
		pause = LONGEST_PAUSE_MS;
	/* Ranks that were refused together must not try again together. */
	pause = pause / 2 + randombytes_uniform((uint32_t)pause);
	d->tries++;
	d->retry_ns = clock_deadline(pause);
	return 0;
}

static int dial_begin(struct dial *d, struct err *e)
{
	d->state = CONNECTING;
	d->fd = sock_connect(&d->to, e);
	return d->fd < 0 ? d->fd : 0;
}

static int go_on(struct dial *d, struct err *e)
{
	struct pollfd p = { d->fd, POLLOUT, 0 };
	int rc;

	if (d->state == CONNECTING) {
		if (poll(&p, 1, 0) <= 0)
			return 0;
		rc = sock_connected(d->fd, e);
		if (rc)
			return rc;
		d->state = SHAKING;
		shake_init(&d->shake, SHAKE_CLIENT, d->channel, d->rank, d->peer, d->secret);
	}
	rc = shake_step(&d->shake, d->fd, e);
	if (rc == SHAKE_DONE)
		d->state = DONE;
	return rc;
}

int dial_step(struct dial *d, struct err *e)
{
	struct err why = { 0 };
	char hint[DIAL_HINT];
	int rc = 0;

	if (d->state == DONE)
		return 1;
	if (clock_ns() >= d->deadline_ns) {
		hang_up(d);
		return fail(e, RINGUP_ETIMEDOUT, "%s: no answer in time; %s", d->where,
			    dial_silence(d, hint));
	}
	if (d->state == RESTING) {
		if (clock_ns() < d->retry_ns)
			return 0;
		rc = dial_begin(d, &why);
	}
	if (!rc)
		rc = go_on(d, &why);
	if (rc < 0)
		rc = try_again(d, rc, &why);
	if (rc < 0 && e)
		*e = why;
	return rc;
}

struct pollfd dial_poll(const struct dial *d, int64_t *until_ns)
{
	int64_t until = d->deadline_ns;
	struct pollfd p = { -1, 0, 0 };

	if (d->state == RESTING && d->retry_ns < until)
		until = d->retry_ns;
	if (d->state != DONE && until < *until_ns)
		*until_ns = until;
	if (d->state == CONNECTING)
		p = (struct pollfd){ d->fd, POLLOUT, 0 };
	else if (d->state == SHAKING)
		p = (struct pollfd){ d->fd, d->shake.events, 0 };
	return p;
}

int dial_wait(struct dial *d, struct err *e)
{
	int rc;

	while ((rc = dial_step(d, e)) == 0) {
		int64_t until = INT64_MAX;
		struct pollfd p = dial_poll(d, &until);

		poll(&p, 1, clock_left_ms(until));
	}
	return rc;
}

int dial_take(struct dial *d)
{
	int fd = d->fd;

	d->fd = -1;
	return fd;
}

void dial_close(struct dial *d)
{
	hang_up(d);
}
