/* test_session.c - who knows the secret comes in beside all strangers: F17, F18. */
/* needs: waits */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/door.h"
#include "wire/session.h"

enum { PATIENCE_MS = 20000, STRANGERS = 2 * DOOR_GUESTS };

static const struct secret right = { { 1 } }, wrong = { { 2 } };
static struct session_door *door;
static char where[SOCK_TEXT];

/* What a client does in its thread. */
struct client {
	const struct secret *secret;
	enum shake_channel channel;
	int ms, rc;
	struct chan *chan;
	struct secret next;
	struct err e;
};

static void *run(void *arg)
{
	struct client *c = arg;

	c->rc = session_connect(&c->chan, where, c->channel, SHAKE_NO_RANK, SHAKE_NO_RANK,
				c->secret, clock_deadline(c->ms), &c->next, &c->e);
	return NULL;
}

static pthread_t client_start(struct client *c)
{
	pthread_t t;

	if (pthread_create(&t, NULL, run, c))
		exit(99);
	return t;
}

static void test_talk(void)
{
	struct client c = { .secret = &right, .channel = SHAKE_TASK, .ms = PATIENCE_MS };
	struct err e = { 0 };
	struct secret next;
	struct chan *s = NULL;
	const void *data;
	pthread_t t = client_start(&c);
	char seen[128];
	ssize_t n;
	int fd;

	ok(session_accept(door, &s, &next, clock_deadline(PATIENCE_MS), &e) == 1,
	   "one who knows the secret comes in %s", e.text);
	pthread_join(t, NULL);
	ok(!c.rc && !memcmp(&next, &c.next, sizeof(next)),
	   "both sides have a secret for what follows");
	ok(!chan_send(c.chan, "ask", 3, &e) &&
		   session_await(s, &data, clock_deadline(PATIENCE_MS), &e) == 3 &&
		   !memcmp(data, "ask", 3),
	   "a frame arrives");
	ok(session_await(s, &data, clock_deadline(20), &e) == RINGUP_ETIMEDOUT,
	   "the deadline is the caller's: %s", e.text);
	fd = dup(chan_fd(c.chan));
	ok(!chan_send(s, "plain words", 11, &e) && (n = recv(fd, seen, sizeof(seen), 0)) > 11 &&
		   !memmem(seen, (size_t)n, "plain", 5),
	   "what is said is encrypted");
	close(fd);
	chan_close(c.chan);
	ok(session_await(s, &data, INT64_MAX, &e) == RINGUP_EPEER, "and it ends: %s", e.text);
	chan_close(s);
}

static void test_refused(void)
{
	struct client c[] = { { .secret = &wrong, .channel = SHAKE_TASK, .ms = PATIENCE_MS },
			      { .secret = &right, .channel = SHAKE_MEET, .ms = PATIENCE_MS } };
	struct err e = { 0 };
	struct secret next;
	struct chan *s;
	pthread_t t;
	int came = 0;

	for (int i = 0; i < 2; i++) {
		t = client_start(&c[i]);
		came += session_accept(door, &s, &next, clock_deadline(300), &e) != 0;
		pthread_join(t, NULL);
	}
	ok(!came && c[0].rc == RINGUP_EAUTH, "another secret: %s", c[0].e.text);
	ok(c[1].rc == RINGUP_EINVAL, "another purpose: %s", c[1].e.text);
}

static void test_strangers(void)
{
	struct client c = { .secret = &right, .channel = SHAKE_TASK, .ms = PATIENCE_MS };
	struct err e = { 0 };
	struct secret next;
	struct sock_addr to;
	struct chan *s = NULL;
	int fd[STRANGERS], n = 0, rc = 0;
	pthread_t t;

	if (sock_parse(where, &to, &e))
		exit(99);
	for (int i = 0; i < STRANGERS; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		n += !connect(fd[i], (struct sockaddr *)&to.sa, to.len);
		if (i % 3 == 1)
			rc += (int)send(fd[i], "\xf5", 1, MSG_NOSIGNAL);
		if (i % 3 == 2)
			rc += (int)send(fd[i], "GET / HTTP/1.0\r\n", 16, MSG_NOSIGNAL);
		/* Otherwise the queue of the listener is full. */
		if (i % 32 == 31)
			session_accept(door, &s, &next, clock_deadline(20), &e);
	}
	ok(n == STRANGERS && rc > 0, "%d strangers are silent, begin, or say something else",
	   n);
	t = client_start(&c);
	rc = session_accept(door, &s, &next, clock_deadline(PATIENCE_MS), &e);
	pthread_join(t, NULL);
	ok(rc == 1 && !c.rc, "who knows the secret comes in beside them %s", c.e.text);
	for (int i = 0; i < STRANGERS; i++)
		close(fd[i]);
	chan_close(c.chan);
	chan_close(s);
}

static void *shut(void *arg)
{
	session_shut(arg);
	return NULL;
}

int main(void)
{
	struct client late = { .secret = &right, .channel = SHAKE_TASK, .ms = 50 };
	struct err e = { 0 };
	struct secret next;
	struct chan *s;
	pthread_t t;

	ok(session_listen(&door, "0.0.0.0", SHAKE_TASK, &right, where, &e) == RINGUP_EINVAL,
	   "never on all addresses: %s", e.text);
	ok(!session_listen(&door, "127.0.0.1", SHAKE_TASK, &right, where, &e), "on one: %s",
	   where);
	ok(!session_accept(door, &s, &next, clock_deadline(10), &e), "nobody has come");
	test_talk();
	test_refused();
	test_strangers();
	if (pthread_create(&t, NULL, shut, door))
		exit(99);
	ok(session_accept(door, &s, &next, INT64_MAX, &e) == RINGUP_ESHUTDOWN,
	   "another thread can end the wait: %s", e.text);
	pthread_join(t, NULL);
	session_close(door);
	run(&late);
	ok(late.rc == RINGUP_ETIMEDOUT && !late.chan, "nobody is there: %s", late.e.text);
	return tap_done();
}
