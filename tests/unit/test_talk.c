/* test_talk.c - messages come out of noise whole; nonsense is an error. */
/* tests: src/probe/talk.c src/wire/stream.c */
#include "probe/talk.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

/* What comes after @text: how many messages, or the error. */
static int messages(const char *text, size_t step, char noise[TALK_NOISE])
{
	struct err e = { 0 };
	size_t at, len = strlen(text), n;
	int count = 0, rc = 0;
	struct talk t;
	json_t *j;

	talk_open(&t, -1, -1);
	for (at = 0; rc >= 0 && at < len; at += n) {
		n = len - at < step ? len - at : step;
		rc = talk_feed(&t, text + at, n, &e);
		while (!rc && (rc = talk_next(&t, &j, &e)) > 0) {
			count++;
			rc = 0;
			json_decref(j);
		}
	}
	memcpy(noise, t.noise, TALK_NOISE);
	talk_close(&t);
	return rc < 0 ? rc : count;
}

static void test_feed(void)
{
	static const char two[] = "Welcome!\nringup-agent/1 {\"op\":1}\n\r\n"
				  "ringup-agent/1 {\"op\":2}\r\nBye\x1b[31m\nringup-agent/1 {";
	char noise[TALK_NOISE];
	size_t step;
	int right = 0;

	for (step = 1; step < sizeof(two); step++)
		right += messages(two, step, noise) == 2 && !strcmp(noise, "Bye?[31m");
	ok(right == sizeof(two) - 1, "two messages between noise, in pieces of any size");
	ok(messages("ringup-agent/1 {\n", 99, noise) == RINGUP_EINVAL, "half an object");
	ok(messages("ringup-agent/1 [1]\n", 99, noise) == RINGUP_EINVAL, "no object");
	ok(messages("ringup-agent/2 {}\n", 99, noise) == RINGUP_EMISMATCH, "another version");
	ok(messages("", 1, noise) == 0 && !*noise, "silence");
}

static void test_bound(void)
{
	static char block[1 << 20];
	struct err e = { 0 };
	struct talk t;
	json_t *j;
	int i, rc = 0;

	memset(block, 'x', sizeof(block));
	talk_open(&t, -1, -1);
	for (i = 0; !rc && i < 64; i++) {
		rc = talk_feed(&t, block, sizeof(block), &e);
		rc = rc ? rc : talk_next(&t, &j, &e);
	}
	ok(rc == RINGUP_EINVAL && i <= TALK_LINE / (int)sizeof(block) + 1,
	   "a line without an end has one");
	talk_close(&t);
}

static void test_sockets(void)
{
	struct err e = { 0 };
	struct talk a, b;
	int fd[2], rc = 0;
	json_t *j = NULL;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd))
		return;
	talk_open(&a, fd[0], fd[0]);
	talk_open(&b, fd[1], fd[1]);
	ok(!talk_say(&a, json_pack("{ss}", "op", "hello"), &e), "said");
	ok(!talk_read(&b, &e) && talk_next(&b, &j, &e) == 1 &&
		   !strcmp(json_string_value(json_object_get(j, "op")), "hello"),
	   "heard");
	json_decref(j);
	close(fd[0]);
	ok(talk_read(&b, &e) == RINGUP_EPEER, "the end is noticed");
	rc = talk_say(&b, json_object(), &e);
	ok(rc == RINGUP_EPEER, "and that nobody listens; no signal comes");
	close(fd[1]);
	talk_close(&a);
	talk_close(&b);
}

int main(void)
{
	test_feed();
	test_bound();
	test_sockets();
	return tap_done();
}
