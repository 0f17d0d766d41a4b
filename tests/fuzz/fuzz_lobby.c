/* fuzz_lobby.c - what workers of an elastic job might say to the lobby, and it to them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/socket.h>

#include "fuzz/fuzz.h"

/* Both sides' own functions, without sockets of the network. */
#include "wire/lobby.c"

enum { WORKERS = 4, REFUSED = 3 }; /* the last one may not wait */

static int waiting[WORKERS]; /* arrivals less departures and answers */
static int far[WORKERS];

static int may_wait(void *ctx, uint32_t worker, struct err *e)
{
	(void)ctx;
	return worker == REFUSED ? fail(e, RINGUP_ESHUTDOWN, "not wanted") : 0;
}

static void has_come(void *ctx, uint32_t worker, enum lobby_state state)
{
	(void)ctx;
	fuzz_require(worker < REFUSED && state <= LOBBY_STATE_HELD);
	fuzz_require(++waiting[worker] == 1);
}

static void has_left(void *ctx, uint32_t worker)
{
	(void)ctx;
	fuzz_require(worker < REFUSED && --waiting[worker] == 0);
}

/* A connection as the door would hand it over. */
static void connect_worker(struct lobby *l, uint32_t worker)
{
	struct shake h = { .peer = { .channel = SHAKE_LOBBY, .rank = worker } };
	int fd[2];

	shake_version(h.me.version);
	shake_version(h.peer.version);
	fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
	if (far[worker] >= 0)
		close(far[worker]);
	far[worker] = fd[1];
	if (lobby_admit(l, &h))
		close(fd[0]);
	else
		lobby_enter(l, fd[0], &h);
}

static struct guest *latest(struct lobby *l, uint32_t worker)
{
	for (size_t i = l->count; i-- > 0;)
		if (l->guest[i].chan && l->guest[i].worker == worker)
			return &l->guest[i];
	return NULL;
}

/* The launcher answers: a place, or a refusal. */
static void answer(struct lobby *l, uint32_t worker, bool place)
{
	const struct lobby_place at = { 1, worker, WORKERS, 0, "127.0.0.1:1" };
	struct err why = { 0 };

	fail(&why, RINGUP_ESHUTDOWN, "the job goes on without it");
	waiting[worker] = 0;
	if (place)
		lobby_assign(l, worker, &at);
	else
		lobby_refuse(l, worker, &why);
}

/*
 * Again and again: a byte (bits 0 and 1: the worker; bit 2: it comes again; bit 3: it leaves;
 * bits 4 and 5: the launcher answers by a place, or a refusal), the length of a frame in a
 * byte, the frame.
 */
static void serve_workers(const uint8_t *data, size_t len)
{
	struct lobby l = { .owner = { may_wait, has_come, has_left, NULL } };
	size_t at = 0;

	memset(waiting, 0, sizeof(waiting));
	for (uint32_t i = 0; i < WORKERS; i++)
		far[i] = -1;
	while (len - at >= 2) {
		uint8_t what = data[at];
		uint32_t worker = what & 3;
		size_t n = data[at + 1];
		struct guest *g;

		at += 2;
		n = n < len - at ? n : len - at;
		if (what & 4 || !latest(&l, worker))
			connect_worker(&l, worker);
		g = latest(&l, worker);
		/* Frames have a byte at least: chan.c sees to that. */
		if (g && n && !guest_take(&l, g, data + at, n))
			guest_drop(&l, g);
		g = latest(&l, worker);
		if (g && what & 8)
			guest_drop(&l, g);
		if (what & 48)
			answer(&l, worker, what & 16);
		at += n;
	}
	for (size_t i = 0; i < l.count; i++)
		if (l.guest[i].chan)
			guest_drop(&l, &l.guest[i]);
	for (int i = 0; i < WORKERS; i++) {
		fuzz_require(!waiting[i]);
		if (far[i] >= 0)
			close(far[i]);
	}
	free(l.guest);
	free(l.process);
}

/* The frames that the lobby sends: the length of each in a byte, the frame. */
static void hear_lobby(const uint8_t *data, size_t len)
{
	static const struct shake_keys keys;
	struct lobby_place place = { 0 };
	struct chan *near, *lobby;
	struct sock_addr a;
	struct err e = { 0 };
	int fd[2], rc;

	fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
	fuzz_require(!chan_open(fd[0], &keys, &near, NULL) &&
		     !chan_open(fd[1], &keys, &lobby, NULL));
	for (size_t n; len; data += n, len -= n) {
		n = *data++;
		len--;
		n = n < len ? n : len;
		if (n)
			fuzz_require(chan_send(lobby, data, n, NULL) >= 0);
	}
	shutdown(fd[1], SHUT_WR);
	rc = place_await(near, 1, LOBBY_STATE_NONE, &place, &e);
	fuzz_require(rc <= 0 && !rc == !*e.text);
	if (!rc)
		fuzz_require(place.size && place.rank < place.size && place.generation &&
			     memchr(place.where, 0, sizeof(place.where)) &&
			     (place.size == 1 || !sock_parse(place.where, &a, NULL)));
	chan_close(near);
	chan_close(lobby);
}

/* The first byte says which side listens. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!len || len > 16384)
		return 0;
	if (data[0] & 1)
		hear_lobby(data + 1, len - 1);
	else
		serve_workers(data + 1, len - 1);
	return 0;
}
