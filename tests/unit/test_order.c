/* test_order.c - orders arrive whole, after whatever a shell says, or are refused. */
/* tests: src/launch/order.c src/wire/stream.c */
#include "launch/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/build.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/chan.h"

static int ends[2];
static struct order a, b;
static struct err e;

static void connect_both(bool greets)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		perror("socketpair");
	order_open(&a, ends[0], ends[0], greets);
	order_open(&b, ends[1], ends[1], false);
}

static void part(void)
{
	order_close(&a);
	order_close(&b);
	close(ends[0]);
	close(ends[1]);
}

static int hear(const unsigned char **data, size_t *len)
{
	int rc = order_next(&a, data, len, &e);

	if (rc)
		return rc;
	rc = stream_read(&a.stream, &e);
	return rc ? rc : order_next(&a, data, len, &e);
}

static bool put(const char *bytes, size_t len)
{
	return write(ends[1], bytes, len) == (ssize_t)len;
}

static void test_whole(void)
{
	uint32_t number[3] = { 7, 8, UINT32_MAX }, got[3];
	const unsigned char *data;
	size_t len;

	connect_both(false);
	ok(!order_say(&b, ORDER_EXIT, number, 3, "why", 3, &e) &&
		   !order_say(&b, ORDER_BYE, NULL, 0, NULL, 0, &e),
	   "two are said");
	ok(hear(&data, &len) == ORDER_EXIT && order_numbers(&data, &len, got, 3) &&
		   !memcmp(number, got, sizeof(got)) && len == 3 && !memcmp(data, "why", 3),
	   "numbers and bytes");
	ok(!order_numbers(&data, &len, got, 1), "there are no more numbers");
	ok(hear(&data, &len) == ORDER_BYE && len == 0, "and the next one");
	ok(hear(&data, &len) == 0, "nothing more");
	shutdown(ends[1], SHUT_WR);
	ok(hear(&data, &len) == RINGUP_EPEER, "the end: %s", e.text);
	part();
}

static void test_greeting(void)
{
	const unsigned char *data;
	size_t len;

	connect_both(true);
	ok(put("Welcome to \033[1mnode\nmotd", 23) && hear(&data, &len) == 0, "noise");
	ok(!strncmp(a.noise, "Welcome to  [1mnode", 19), "is kept without controls: %s",
	   a.noise);
	ok(!order_greet(&b, &e) && !order_say(&b, ORDER_BYE, NULL, 0, NULL, 0, &e) &&
		   hear(&data, &len) == ORDER_BYE,
	   "then the greeting");
	ok(!strcmp(a.version, build_version()), "and the version: %s", a.version);
	part();
	connect_both(true);
	ok(put("ringup-rankd/3 9.9\n", 19) && hear(&data, &len) == RINGUP_EMISMATCH,
	   "another protocol: %s", e.text);
	part();
}

static void test_hostile(void)
{
	const unsigned char *data;
	char *text;
	size_t len;

	connect_both(false);
	ok(put("\xff\xff\xff\x7f\x01", 5) && hear(&data, &len) == RINGUP_EINVAL,
	   "a length that is too large: %s", e.text);
	part();
	connect_both(false);
	ok(put("\0\0\0\0\x63", 5) && hear(&data, &len) == RINGUP_EINVAL, "an unknown kind: %s",
	   e.text);
	part();
	connect_both(true);
	text = calloc(1, 200000);
	memset(text, 'x', 200000);
	while (!order_next(&a, &data, &len, &e) && put(text, 20000) &&
	       !stream_read(&a.stream, &e))
		;
	ok(e.code == RINGUP_EINVAL, "a greeting without an end: %s", e.text);
	free(text);
	part();
	connect_both(false);
	ok(order_say(&b, ORDER_OUTPUT, NULL, 0, "", (size_t)ORDER_BYTES + 1, &e) ==
		   RINGUP_EINVAL,
	   "nobody says so much");
	part();
}

static void connect_sealed(const struct secret *key_a, const struct secret *key_b)
{
	connect_both(true);
	ok(!order_seal(&a, key_a, SHAKE_CLIENT, &e) && !order_seal(&b, key_b, SHAKE_SERVER, &e),
	   "a connection with a key");
}

/* Whole frames, though they are longer than a frame of the channel, and come in parts. */
static void test_sealed(void)
{
	static const struct secret key = { { 1 } }, other = { { 2 } };
	static char text[3 * CHAN_BYTES];
	const unsigned char *data;
	char seen[64];
	size_t len;
	int rc = 0;

	memset(text, 'x', sizeof(text));
	connect_sealed(&key, &key);
	ok(!order_greet(&b, &e) &&
		   order_say(&b, ORDER_OUTPUT, NULL, 0, text, sizeof(text), &e) >= 0,
	   "an order of several frames is said");
	while (!rc && !(rc = order_next(&a, &data, &len, &e)))
		if ((rc = stream_flush(&b.stream, &e)) >= 0)
			rc = stream_read(&a.stream, &e);
	ok(rc == ORDER_OUTPUT && len == sizeof(text) && !memcmp(data, text, len),
	   "and arrives whole, behind the greeting of ringup %s", a.version);
	ok(!order_say(&a, ORDER_SETUP, NULL, 0, "the job's secret", 16, &e) &&
		   recv(ends[1], seen, sizeof(seen), 0) == 32 + 5 + 16 &&
		   !memmem(seen, sizeof(seen), "secret", 6),
	   "nobody in between can read it");
	part();

	connect_sealed(&key, &other);
	ok(!order_say(&b, ORDER_BYE, NULL, 0, NULL, 0, &e) && hear(&data, &len) == RINGUP_EAUTH,
	   "another key: %s", e.text);
	part();

	connect_both(false);
	ok(!order_seal(&a, &key, SHAKE_CLIENT, &e) &&
		   !order_say(&b, ORDER_BYE, NULL, 0, NULL, 0, &e) && put(text, 32) &&
		   hear(&data, &len) == RINGUP_EAUTH,
	   "what is not sealed is refused where the connection has a key: %s", e.text);
	part();
}

static void test_strings(void)
{
	const unsigned char bytes[] = "one\0\0three";
	char **list = order_strings(bytes, sizeof(bytes)), kept[11];

	ok(list && !strcmp(list[0], "one") && !*list[1] && !strcmp(list[2], "three") &&
		   !list[3],
	   "strings");
	free(list);
	ok(!order_strings(bytes, 2), "without an end");
	order_text(kept, sizeof(kept), "a\033[2Jb\177c and more", 17);
	ok(!strcmp(kept, "a [2Jb c a"), "text without controls, cut to its room: %s", kept);
	list = order_strings(bytes, 0);
	ok(list && !list[0], "none");
	free(list);
}

int main(void)
{
	test_whole();
	test_greeting();
	test_hostile();
	test_sealed();
	test_strings();
	return tap_done();
}
