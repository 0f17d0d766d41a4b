/* test_door.c - strangers are bounded in time, number and descriptors. */
/* proves: F17 F18 of docs/RELIABILITY.md */
/* needs: waits */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/door.h"
#include "wire/sock.h"

enum { PATIENCE_MS = 20000, REAL_MS = 60000 };

static int64_t now_ns = 1000000000;

/* libc's, for this program: time goes on when a test says so, however slow the machine is. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, t);
	*t = (struct timespec){ (time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000) };
	return 0;
}

static struct secret secret;
static struct door door;
static struct sock_addr where;
static int entered, asked, verdict;

static int admit(void *ctx, const struct shake *h)
{
	(void)ctx;
	asked = (int)h->peer.rank;
	return verdict;
}

static void enter(void *ctx, int fd, const struct shake *h)
{
	(void)ctx;
	(void)h;
	entered++;
	close(fd);
}

static const struct door_owner owner = { admit, enter, NULL };

static void open_door(void)
{
	char text[SOCK_TEXT];
	struct err e = { 0 };
	int fd = sock_listen("127.0.0.1", text, &e);

	entered = verdict = 0;
	asked = -1;
	ok(fd >= 0 && !door_open(&door, fd, 5, &secret, &e) && !sock_parse(text, &where, &e),
	   "a door is open %s", e.text);
}

/* Serve what comes; if nothing does, it is @ms later, or what the door has been waiting for. */
static void serve(int ms)
{
	struct pollfd p[DOOR_FDS];
	int64_t until = clock_deadline(ms);
	int n = door_poll(&door, p);

	if (door_until(&door) < until)
		until = door_until(&door);
	if (!poll(p, (nfds_t)n, 1))
		now_ns = until > now_ns ? until : now_ns;
	door_serve(&door, p, &owner);
}

/* Serve who is bound to come, at no time at all. */
static void attend(void)
{
	struct pollfd p[DOOR_FDS];
	int n = door_poll(&door, p);

	if (poll(p, (nfds_t)n, REAL_MS) > 0)
		door_serve(&door, p, &owner);
}

/* From one of this host's many addresses. */
static int knock(uint32_t from)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(from) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && (bind(fd, (struct sockaddr *)&in, sizeof(in)) ||
			connect(fd, (struct sockaddr *)&where.sa, where.len))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int is_open(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Has the other side closed it?  Which the kernel may tell a little later. */
static int is_shut(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, REAL_MS) == 1 && !is_open(fd);
}

/* A client that plays by the rules, while the door is served. */
static int come_in(struct err *e)
{
	struct pollfd p[DOOR_FDS + 1];
	struct shake h;
	int rc = SHAKE_MORE, fd = sock_connect(&where, e), n;

	shake_init(&h, SHAKE_CLIENT, SHAKE_CONTROL, 3, 5, &secret);
	while (rc == SHAKE_MORE) {
		n = door_poll(&door, p);
		p[n] = (struct pollfd){ fd, h.events, 0 };
		if (poll(p, (nfds_t)n + 1, REAL_MS) <= 0)
			break;
		door_serve(&door, p, &owner);
		rc = shake_step(&h, fd, e);
	}
	serve(0);
	close(fd);
	return rc;
}

static void test_guest(void)
{
	struct err e = { 0 };

	open_door();
	ok(come_in(&e) == SHAKE_DONE && entered == 1 && asked == 3, "a guest comes in: %s",
	   e.text);
	verdict = RINGUP_EBUSY;
	ok(come_in(&e) == RINGUP_EBUSY && entered == 1, "or is told why not: %s", e.text);
	ok(door.guests == 0, "and is no guest any more");
	door_close(&door);
	door_close(&door);
	ok(door_until(&door) == INT64_MAX, "a closed door waits for nothing");
}

/* One byte every 50 ms: each recv succeeds, yet two seconds are all there is. */
static void test_slow(void)
{
	int64_t began = clock_ns(), next = began, took;
	struct err e = { 0 };
	int fd, ms, late = 0;

	open_door();
	fd = knock(INADDR_LOOPBACK);
	attend();
	ok(fd >= 0 && door.guests == 1, "a slow one");
	while (door.guests && clock_ns() - began < (int64_t)PATIENCE_MS * 1000000) {
		if (clock_ns() >= next) {
			(void)!send(fd, "\xf5", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			next += 50000000;
		}
		serve(10);
		if (!late && clock_ns() - began > 500000000) {
			late = 1;
			ok(come_in(&e) == SHAKE_DONE, "does not keep others waiting: %s",
			   e.text);
		}
	}
	took = clock_ns() - began;
	ms = (int)(took / 1000000);
	ok(door.guests == 0 && is_shut(fd) && ms >= SHAKE_MS - 100 && ms <= SHAKE_MS + 100,
	   "is put out after %d ms", ms);
	close(fd);

	/* A silent one: door_until() brings the end about. */
	began = clock_ns();
	fd = knock(INADDR_LOOPBACK);
	attend();
	ok(door.guests == 1 && door_until(&door) <= clock_deadline(SHAKE_MS), "a silent one");
	while (door.guests && clock_ns() - began < (int64_t)PATIENCE_MS * 1000000)
		serve(PATIENCE_MS);
	ms = (int)((clock_ns() - began) / 1000000);
	ok(door.guests == 0 && ms >= SHAKE_MS - 100 && ms <= SHAKE_MS + 100,
	   "is put out after %d ms", ms);
	close(fd);
	door_close(&door);
}

static void test_crowd(void)
{
	int fd[200], i, open = 0, quiet;
	struct err e = { 0 };

	open_door();
	quiet = knock(INADDR_LOOPBACK + 1);
	attend();
	for (i = 0; i < 200; i++) {
		fd[i] = knock(INADDR_LOOPBACK);
		attend();
	}
	ok(door.guests == DOOR_GUESTS, "of 200 strangers %d are guests", door.guests);
	for (i = 0; i < 200; i++)
		open += i > 200 - DOOR_GUESTS ? is_open(fd[i]) : !is_shut(fd[i]);
	ok(open < DOOR_GUESTS && is_open(fd[199]) && !is_open(fd[0]), "the latest %d", open);
	ok(is_open(quiet), "and the one from another address");
	ok(come_in(&e) == SHAKE_DONE, "whoever belongs here comes in: %s", e.text);
	door_close(&door);
	ok(is_shut(fd[199]) && is_shut(quiet), "all leave when the door closes");
	for (i = 0; i < 200; i++)
		close(fd[i]);
	close(quiet);
}

static void test_exhausted(void)
{
	struct rlimit old, few;
	struct pollfd p[DOOR_FDS];
	struct err e = { 0 };
	int64_t began;
	int fd, i;

	open_door();
	fd = knock(INADDR_LOOPBACK);
	getrlimit(RLIMIT_NOFILE, &old);
	few = old;
	few.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &few);
	attend();
	door_poll(&door, p);
	ok(door.guests == 0 && p[0].fd == -1, "without descriptors nobody is accepted");
	ok(door_until(&door) <= clock_deadline(100), "for a moment");
	for (began = clock_ns(), i = 0; i < 3; i++)
		serve(PATIENCE_MS);
	ok(door.guests == 0 && clock_ns() - began > 150000000,
	   "and again, without turning in circles");
	setrlimit(RLIMIT_NOFILE, &old);
	for (i = 0; i < 10 && !door.guests; i++)
		serve(200);
	ok(door.guests == 1 && come_in(&e) == SHAKE_DONE, "then it goes on: %s", e.text);
	close(fd);
	door_close(&door);
}

static void test_noise(void)
{
	static const char *const said[] = { "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
					    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
					    "SSH-2.0-OpenSSH_9.2p1\r\n", "\xf5ringup" };
	static char much[1 << 16];
	struct err e = { 0 };
	int fd[5], i;

	open_door();
	memset(much, 'A', sizeof(much));
	for (i = 0; i < 4; i++) {
		fd[i] = knock(INADDR_LOOPBACK);
		(void)!send(fd[i], said[i], strlen(said[i]), MSG_NOSIGNAL);
	}
	fd[4] = knock(INADDR_LOOPBACK);
	(void)!send(fd[4], much, sizeof(much), MSG_NOSIGNAL | MSG_DONTWAIT);
	for (i = 0; i < 50; i++)
		serve(1);
	ok(entered == 0 && asked == -1, "other protocols get nowhere");
	ok(come_in(&e) == SHAKE_DONE, "and harm nobody: %s", e.text);
	for (i = 0; i < 5; i++)
		close(fd[i]);
	door_close(&door);
}

int main(void)
{
	struct err e = { 0 };

	ok(!secret_new(&secret, &e), "a secret");
	test_guest();
	test_slow();
	test_crowd();
	test_exhausted();
	test_noise();
	return tap_done();
}
