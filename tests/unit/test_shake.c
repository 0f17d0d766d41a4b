/* test_shake.c - only who knows the secret gets through, and nobody by repeating. */
/* proves: F21 F22 F23 of docs/RELIABILITY.md */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/shake.h"

static struct secret right, wrong;

/* Both sides of a conversation, and what was said, for those who listen. */
struct talk {
	struct shake client, server;
	unsigned char said[2][256]; /* by the client, by the server */
	size_t len[2];
	int client_rc, server_rc;
	struct err client_err, server_err;
};

/* Carry what one side has to say to the other, after @flip bit has been changed
 * in the stream; -1 changes nothing. */
static int carry(struct shake *from, struct shake *to, unsigned char *said, size_t *len,
		 int flip, struct err *e)
{
	unsigned char out[SHAKE_HELLO + SHAKE_PROOF];
	size_t n = shake_give(from, out), i, take;
	int rc = SHAKE_MORE;

	for (i = 0; i < n; i++)
		if (flip >= 0 && (size_t)flip / 8 == *len + i)
			out[i] ^= (unsigned char)(1 << flip % 8);
	memcpy(said + *len, out, n);
	*len += n;
	for (i = 0; i < n && rc == SHAKE_MORE; i += take) {
		take = shake_wants(to);
		if (take > n - i)
			take = n - i;
		if (!take)
			break;
		rc = shake_take(to, out + i, take, e);
	}
	return rc;
}

static void talk(struct talk *t, int verdict, int flip_client, int flip_server)
{
	int turn;

	t->client_rc = t->server_rc = SHAKE_MORE;
	t->len[0] = t->len[1] = 0;
	for (turn = 0; turn < 3; turn++) {
		if (t->server_rc == SHAKE_MORE)
			t->server_rc = carry(&t->client, &t->server, t->said[0], &t->len[0],
					     flip_client, &t->server_err);
		if (t->server_rc == SHAKE_PROVED)
			shake_answer(&t->server, verdict);
		if (t->client_rc == SHAKE_MORE)
			t->client_rc = carry(&t->server, &t->client, t->said[1], &t->len[1],
					     flip_server, &t->client_err);
	}
	if (t->server_rc == SHAKE_PROVED)
		t->server_rc = shake_take(&t->server, NULL, 0, &t->server_err);
}

static void start(struct talk *t, const struct secret *client, const struct secret *server)
{
	memset(t, 0, sizeof(*t));
	shake_init(&t->client, SHAKE_CLIENT, SHAKE_RING, 2, 3, client);
	shake_init(&t->server, SHAKE_SERVER, SHAKE_RING, 3, SHAKE_NO_RANK, server);
}

static void test_success(void)
{
	struct talk t, u;

	start(&t, &right, &right);
	talk(&t, 0, -1, -1);
	ok(t.client_rc == SHAKE_DONE && t.server_rc == SHAKE_DONE, "both succeed");
	ok(t.server.peer.rank == 2 && t.server.peer.channel == SHAKE_RING,
	   "the server knows who it is");
	ok(t.client.peer.rank == 3, "and the client");
	ok(!memcmp(t.client.keys.send, t.server.keys.recv, 32) &&
		   !memcmp(t.client.keys.recv, t.server.keys.send, 32),
	   "their keys fit");
	ok(memcmp(t.client.keys.send, t.client.keys.recv, 32), "each direction has its own");
	start(&u, &right, &right);
	talk(&u, 0, -1, -1);
	ok(memcmp(t.client.keys.send, u.client.keys.send, 32),
	   "the next connection has others");
	ok(t.len[0] == SHAKE_HELLO + SHAKE_PROOF &&
		   t.len[1] == SHAKE_HELLO + SHAKE_PROOF + SHAKE_VERDICT,
	   "it takes the bytes that it says");
}

static void test_secret(void)
{
	struct talk t;

	start(&t, &wrong, &right);
	talk(&t, 0, -1, -1);
	ok(t.client_rc == RINGUP_EAUTH, "a wrong secret: %s", t.client_err.text);
	ok(t.server_rc != SHAKE_DONE && t.server_rc != SHAKE_PROVED,
	   "the server sees no proof");
	/* Somebody who does not mind what the server proves, and goes on. */
	start(&t, &wrong, &right);
	memcpy(t.client.hello[0] + 32, t.server.hello[1] + 32, 16);
	talk(&t, 0, -1, -1);
	ok(t.client_rc == RINGUP_EAUTH, "a wrong secret with the right job: %s",
	   t.client_err.text);
}

/* One bit, at each place of each direction: never do both sides succeed. */
static void test_flips(void)
{
	int bit, passed = 0, crossed = 0;
	struct talk t;

	for (bit = 0; bit < (SHAKE_HELLO + SHAKE_PROOF) * 8; bit++) {
		start(&t, &right, &right);
		talk(&t, 0, bit, -1);
		passed += t.server_rc == SHAKE_DONE;
		crossed += t.client_rc == SHAKE_DONE;
	}
	ok(passed == 0 && crossed == 0, "a bit flipped on the way to the server is noticed");
	passed = 0;
	for (bit = 0; bit < (SHAKE_HELLO + SHAKE_PROOF + SHAKE_VERDICT) * 8; bit++) {
		start(&t, &right, &right);
		talk(&t, 0, -1, bit);
		passed += t.client_rc == SHAKE_DONE;
	}
	ok(passed == 0, "a bit flipped on the way to the client is noticed");
}

static int feed(struct shake *h, const unsigned char *said, size_t len, struct err *e)
{
	unsigned char out[SHAKE_HELLO + SHAKE_PROOF];
	int rc = SHAKE_MORE;
	size_t n;

	for (; len && rc == SHAKE_MORE; said += n, len -= n) {
		shake_give(h, out);
		n = shake_wants(h) < len ? shake_wants(h) : len;
		rc = shake_take(h, said, n, e);
	}
	return rc;
}

static void test_replay(void)
{
	unsigned char out[SHAKE_HELLO + SHAKE_PROOF];
	struct err e = { 0 };
	struct talk t;
	struct shake h;

	start(&t, &right, &right);
	talk(&t, 0, -1, -1);
	shake_init(&h, SHAKE_SERVER, SHAKE_RING, 3, SHAKE_NO_RANK, &right);
	ok(feed(&h, t.said[0], t.len[0], &e) == RINGUP_EAUTH,
	   "a client's words do not work twice: %s", e.text);
	shake_init(&h, SHAKE_CLIENT, SHAKE_RING, 2, 3, &right);
	ok(feed(&h, t.said[1], t.len[1], &e) == RINGUP_EAUTH, "nor a server's: %s", e.text);

	shake_init(&h, SHAKE_CLIENT, SHAKE_RING, 2, 2, &right);
	shake_give(&h, out);
	ok(feed(&h, out, SHAKE_HELLO, &e) == RINGUP_EAUTH, "an echo is not an answer: %s",
	   e.text);
	/* An echo that at least changes the role. */
	shake_init(&h, SHAKE_CLIENT, SHAKE_RING, 2, 2, &right);
	shake_give(&h, out);
	out[10] = SHAKE_SERVER;
	ok(feed(&h, out, SHAKE_HELLO, &e) == RINGUP_EAUTH, "nor with another role: %s", e.text);
	/* The server's own proof, sent back to it as the client's. */
	shake_init(&h, SHAKE_SERVER, SHAKE_RING, 3, SHAKE_NO_RANK, &right);
	ok(feed(&h, t.said[0], SHAKE_HELLO, &e) == SHAKE_MORE &&
		   shake_give(&h, out) == SHAKE_HELLO + SHAKE_PROOF &&
		   feed(&h, out + SHAKE_HELLO, SHAKE_PROOF, &e) == RINGUP_EAUTH,
	   "a server's proof is no client's: %s", e.text);
}

static void test_verdicts(void)
{
	struct talk t;

	start(&t, &right, &right);
	talk(&t, RINGUP_EBUSY, -1, -1);
	ok(t.client_rc == RINGUP_EBUSY && t.server_rc == RINGUP_EBUSY, "a second rank 2: %s",
	   t.client_err.text);
	start(&t, &right, &right);
	talk(&t, RINGUP_EINVAL, -1, -1);
	ok(t.client_rc == RINGUP_EINVAL, "a rank that has no business there: %s",
	   t.client_err.text);
	start(&t, &right, &right);
	t.server.me.rank = 4;
	talk(&t, 0, -1, -1);
	ok(t.client_rc == RINGUP_EPEER, "another rank answers: %s", t.client_err.text);
}

/* F23 */
static void test_versions(void)
{
	struct talk t;

	start(&t, &right, &right);
	strcpy(t.client.me.version, "9.8.7");
	talk(&t, 0, -1, -1);
	ok(t.client_rc == RINGUP_EMISMATCH && strstr(t.client_err.text, "9.8.7") &&
		   strstr(t.client_err.text, ringup_version()),
	   "versions are named: %s", t.client_err.text);
	ok(shake_agree(&t.server, &t.server_err) == RINGUP_EMISMATCH &&
		   strstr(t.server_err.text, "9.8.7"),
	   "on the server too: %s", t.server_err.text);
	start(&t, &right, &right);
	/* A later protocol: begin() has not run, so change it on the way. */
	talk(&t, 0, 8 * 8, -1);
	ok(t.server_rc == SHAKE_MORE &&
		   shake_take(&t.server, NULL, 0, &t.server_err) == RINGUP_EMISMATCH,
	   "a protocol that does not exist yet: %s", t.server_err.text);
	ok(t.len[1] == SHAKE_HELLO, "is told ours and nothing else");
	start(&t, &right, &right);
	talk(&t, 0, -1, 8 * 8);
	ok(t.client_rc == RINGUP_EMISMATCH && strstr(t.client_err.text, "protocol 3"),
	   "a server with another protocol: %s", t.client_err.text);
}

static void test_given_keys(void)
{
	struct shake_keys a, b, c;
	struct secret next_a, next_b;

	shake_keys_from(&a, &right, SHAKE_CLIENT);
	shake_keys_from(&b, &right, SHAKE_SERVER);
	shake_keys_from(&c, &wrong, SHAKE_SERVER);
	ok(!memcmp(a.send, b.recv, 32) && !memcmp(a.recv, b.send, 32) &&
		   memcmp(a.send, a.recv, 32),
	   "both sides make a key for each direction of one secret");
	ok(memcmp(a.send, c.recv, 32), "another secret makes others");
	shake_keys_next(&next_a, &a, SHAKE_CLIENT);
	shake_keys_next(&next_b, &b, SHAKE_SERVER);
	ok(!memcmp(&next_a, &next_b, sizeof(next_a)), "and agree on a secret for what follows");
	shake_keys_next(&next_b, &a, SHAKE_SERVER);
	ok(memcmp(&next_a, &next_b, sizeof(next_a)) && memcmp(next_a.key, a.send, 32),
	   "which is of the roles, and none of the keys");
}

static void test_socket(void)
{
	struct err e = { 0 };
	struct shake c, s;
	int fd[2], a = 0, b = 0, i;
	char byte;

	ok(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), "a socket");
	shake_init(&c, SHAKE_CLIENT, SHAKE_CONTROL, 1, 0, &right);
	shake_init(&s, SHAKE_SERVER, SHAKE_CONTROL, 0, SHAKE_NO_RANK, &right);
	for (i = 0; i < 8 && (a != SHAKE_DONE || b != SHAKE_DONE); i++) {
		if (a == SHAKE_MORE)
			a = shake_step(&c, fd[0], &e);
		if (b == SHAKE_MORE)
			b = shake_step(&s, fd[1], &e);
		if (b == SHAKE_PROVED) {
			shake_answer(&s, 0);
			b = shake_step(&s, fd[1], &e);
			ok(write(fd[1], "x", 1) == 1, "what follows at once");
		}
	}
	ok(a == SHAKE_DONE && b == SHAKE_DONE, "over a socket: %s", e.text);
	ok(read(fd[0], &byte, 1) == 1 && byte == 'x', "is left in the socket");

	shake_init(&s, SHAKE_SERVER, SHAKE_CONTROL, 0, SHAKE_NO_RANK, &right);
	close(fd[0]);
	ok(shake_step(&s, fd[1], &e) == RINGUP_EPEER, "the other side leaves: %s", e.text);
	close(fd[1]);
	shake_wipe(&s);
}

static void test_garbage(void)
{
	unsigned char junk[SHAKE_HELLO];
	struct err e = { 0 };
	struct shake h;
	int i, rc, odd = 0;

	srand(7);
	for (i = 0; i < 1000; i++) {
		size_t n;

		for (n = 0; n < sizeof(junk); n++)
			junk[n] = (unsigned char)rand();
		shake_init(&h, i % 2 ? SHAKE_CLIENT : SHAKE_SERVER, SHAKE_MEET, 0, 1, &right);
		rc = feed(&h, junk, sizeof(junk), &e);
		odd += rc != RINGUP_EAUTH;
	}
	ok(odd == 0, "garbage is refused");
	ok(shake_take(&h, junk, sizeof(junk) + 1, &e) == RINGUP_EINVAL, "too much at once: %s",
	   e.text);
}

int main(void)
{
	struct err e = { 0 };

	ok(!secret_new(&right, &e) && !secret_new(&wrong, &e), "two secrets");
	test_success();
	test_secret();
	test_flips();
	test_replay();
	test_verdicts();
	test_versions();
	test_given_keys();
	test_socket();
	test_garbage();
	return tap_done();
}
