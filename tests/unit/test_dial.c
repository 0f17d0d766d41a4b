/* test_dial.c - connections are tried again where that can help, and only there. */
/* needs: waits */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/dial.h"
#include "wire/sock.h"

enum { LONG_MS = 60000 };

static struct secret secret, wrong;

/* How the other side treats those who call. */
enum manner { PROPER, HANGS_UP, ECHOES, BABBLES, WRONG_SECRET, WRONG_RANK, BUSY };

struct host {
	pthread_t thread;
	int fd, stop, calls;
	enum manner manner;
	int bad; /* so many calls meet the manner, then it is PROPER */
};

static void answer(struct host *h, int fd, enum manner manner)
{
	struct pollfd p = { fd, POLLIN, 0 };
	char bytes[256];
	struct shake s;
	int rc = SHAKE_MORE;
	ssize_t n;

	if (manner == HANGS_UP)
		return;
	if (manner == ECHOES || manner == BABBLES) {
		while (poll(&p, 1, LONG_MS) == 1 &&
		       (n = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
			if (manner == BABBLES)
				memset(bytes, 'b', (size_t)n);
			(void)!send(fd, bytes, (size_t)n, MSG_NOSIGNAL);
		}
		return;
	}
	shake_init(&s, SHAKE_SERVER, SHAKE_RING, manner == WRONG_RANK ? 9 : 1, SHAKE_NO_RANK,
		   manner == WRONG_SECRET ? &wrong : &secret);
	while (rc == SHAKE_MORE && poll(&p, 1, LONG_MS) == 1) {
		rc = shake_step(&s, fd, NULL);
		if (rc == SHAKE_PROVED) {
			shake_answer(&s, manner == BUSY ? RINGUP_EBUSY : 0);
			rc = shake_step(&s, fd, NULL);
		}
		p.events = s.events;
	}
	(void)h;
}

static void *be_host(void *arg)
{
	struct host *h = arg;
	struct sock_addr from;
	int fd;

	while (!__atomic_load_n(&h->stop, __ATOMIC_RELAXED)) {
		if (poll(&(struct pollfd){ h->fd, POLLIN, 0 }, 1, 20) != 1)
			continue;
		fd = sock_accept(h->fd, &from);
		if (fd < 0)
			continue;
		answer(h, fd,
		       __atomic_fetch_add(&h->calls, 1, __ATOMIC_RELAXED) < h->bad ? h->manner
										   : PROPER);
		close(fd);
	}
	return NULL;
}

/* dial_wait(), whose deadline comes when the host has been called @most times; 0: never. */
static int wait_for_calls(struct dial *d, struct host *h, int most, struct err *e)
{
	struct pollfd p;
	int64_t until;
	int rc = 0;

	while (!rc && (!most || __atomic_load_n(&h->calls, __ATOMIC_RELAXED) < most)) {
		until = clock_deadline(10);
		p = dial_poll(d, &until);
		(void)poll(&p, 1, clock_left_ms(until));
		rc = dial_step(d, e);
	}
	if (rc)
		return rc;
	d->deadline_ns = clock_ns();
	return dial_wait(d, e);
}

/* @most: see wait_for_calls(). */
static int call(enum manner manner, int bad, int most, int *calls, struct err *e)
{
	struct host h = { .manner = manner, .bad = bad };
	char where[SOCK_TEXT];
	struct dial d;
	int rc;

	h.fd = sock_listen("127.0.0.1", where, e);
	if (h.fd < 0)
		return h.fd;
	pthread_create(&h.thread, NULL, be_host, &h);
	rc = dial_open(&d, where, SHAKE_RING, 0, 1, &secret, clock_deadline(LONG_MS), e);
	if (!rc)
		rc = most ? wait_for_calls(&d, &h, most, e) : dial_wait(&d, e);
	if (rc == 1)
		close(dial_take(&d));
	dial_close(&d);
	__atomic_store_n(&h.stop, 1, __ATOMIC_RELAXED);
	pthread_join(h.thread, NULL);
	close(h.fd);
	*calls = h.calls;
	return rc;
}

static void test_manners(void)
{
	struct err e = { 0 };
	int n = 0;

	ok(call(PROPER, 0, 0, &n, &e) == 1 && n == 1, "a proper answer: %s", e.text);
	ok(call(HANGS_UP, 5, 0, &n, &e) == 1 && n == 6,
	   "it hangs up five times: try again (%d calls)", n);
	ok(call(BUSY, 2, 0, &n, &e) == 1 && n == 3,
	   "our old connection has not ended yet: try again");
	ok(call(BUSY, 1000, 0, &n, &e) == RINGUP_EBUSY && n > 1, "or it never does: %s",
	   e.text);
	ok(call(HANGS_UP, 1000, 3, &n, &e) == RINGUP_ETIMEDOUT && n > 1,
	   "it hangs up each time: %s", e.text);
	ok(call(ECHOES, 1, 0, &n, &e) == RINGUP_EAUTH && n == 1, "an echo: %s", e.text);
	ok(call(BABBLES, 1, 0, &n, &e) == RINGUP_EAUTH && n == 1, "another service: %s",
	   e.text);
	ok(call(WRONG_SECRET, 1, 0, &n, &e) == RINGUP_EAUTH && n == 1, "another secret: %s",
	   e.text);
	ok(call(WRONG_RANK, 1000, 3, &n, &e) == RINGUP_ETIMEDOUT && strstr(e.text, "rank 9"),
	   "another rank, until the deadline: %s", e.text);
}

/* Somebody who starts without a standard input gets descriptor 0. */
static void test_zero(void)
{
	int saved = fcntl(0, F_DUPFD_CLOEXEC, 10), n = 0;
	struct err e = { 0 };

	close(0);
	ok(call(HANGS_UP, 2, 0, &n, &e) == 1, "descriptor 0 is one like others: %s", e.text);
	ok(fcntl(0, F_GETFD) < 0, "and is closed in the end");
	if (saved >= 0) {
		dup2(saved, 0);
		close(saved);
	}
}

static void test_closed(void)
{
	struct dial d = { 0 };
	struct err e = { 0 };

	dial_close(&d);
	ok(fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0, "closing what was never opened");
	ok(dial_open(&d, "example:1", SHAKE_RING, 0, 1, &secret, 0, &e) == RINGUP_EINVAL,
	   "a name: %s", e.text);
	ok(dial_open(&d, "127.0.0.1:1", SHAKE_RING, 0, 1, &secret, clock_ns(), &e) == 0 &&
		   dial_wait(&d, &e) == RINGUP_ETIMEDOUT,
	   "no time: %s", e.text);
}

int main(void)
{
	struct err e = { 0 };

	ok(!secret_new(&secret, &e) && !secret_new(&wrong, &e), "two secrets");
	test_manners();
	test_zero();
	test_closed();
	return tap_done();
}
