/* test_parent.c - the launcher asks its parent for connections, and reports to it. */
#include "launch/parent.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/pack.h"

static int ends[2];
static struct parent parent;
static struct err e;

static void open_both(void)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		perror("socketpair");
	ok(!parent_open(&parent, ends[0], &e), "a socket is taken");
}

static void close_both(void)
{
	parent_close(&parent);
	close(ends[0]);
	if (ends[1] >= 0)
		close(ends[1]);
}

static ssize_t read_all(unsigned char *data, size_t size)
{
	return recv(ends[1], data, size, MSG_DONTWAIT);
}

/* As the parent does it: a key of @len bytes with a descriptor, or a byte without one. */
static void answer(int fd, size_t len)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char key[] = "01234567890123456789012345678901";
	struct iovec data = { key, len };
	struct msghdr m = { .msg_iov = &data, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (sendmsg(ends[1], &m, 0) != (ssize_t)len)
		perror("sendmsg");
}

static void test_connections(void)
{
	unsigned char data[64];
	int pair[2], fd;
	char text[8] = "";
	struct secret key;

	open_both();
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		perror("socketpair");
	answer(pair[0], SECRET_BYTES);
	fd = parent_connect(&parent, "node-b", &key, &e);
	ok(fd >= 0 && fd != pair[0] && !memcmp(key.key, "0123456789", 10),
	   "a connection is handed over, with its key");
	ok(read_all(data, sizeof(data)) == 11 && pack_get32(data) == 6 &&
		   data[4] == ORDER_CONNECT && !memcmp(data + 5, "node-b", 6),
	   "the host was asked for by its name");
	ok(write(pair[1], "hello", 5) == 5 && read(fd, text, sizeof(text)) == 5 &&
		   !strcmp(text, "hello"),
	   "the connection is the one that was handed over");
	close(fd);
	answer(pair[0], SECRET_BYTES - 1);
	ok(parent_connect(&parent, "node-b", &key, &e) == RINGUP_EPEER,
	   "a connection without its key is refused");
	ok(read_all(data, sizeof(data)) == 11, "it was asked for");
	close(pair[0]);
	ok(read(pair[1], text, sizeof(text)) == 0, "and is closed");
	close(pair[1]);

	answer(-1, 1);
	ok(parent_connect(&parent, "node-c", &key, &e) == RINGUP_EPEER &&
		   strstr(e.text, "has no connection"),
	   "a refusal is an error");
	close(ends[1]);
	ends[1] = -1;
	ok(parent_connect(&parent, "node-c", &key, &e) == RINGUP_EPEER,
	   "a parent that is gone is an error");
	close_both();
}

static void test_reports(void)
{
	struct parent_end end = { .worker = 3,
				  .rank = 2,
				  .pid = 77,
				  .code = 1,
				  .status = 9,
				  .phase = 1,
				  .host = "node-b",
				  .memory = "; no memory" };
	unsigned char data[128];
	size_t head = 5, len;

	open_both();
	parent_report(&parent, 3, 2, "result", 6);
	ok(read_all(data, sizeof(data)) == 19 && data[4] == ORDER_REPORT &&
		   pack_get32(data + head) == 3 && pack_get32(data + head + 4) == 2 &&
		   !memcmp(data + head + 8, "result", 6),
	   "a report is passed on");
	parent_ended(&parent, &end);
	len = (size_t)read_all(data, sizeof(data));
	ok(len == head + 24 + 7 + 11 && data[4] == ORDER_ENDED &&
		   pack_get32(data + head + 16) == 9 && pack_get32(data + head + 20) == 1 &&
		   !strcmp((char *)data + head + 24, "node-b") &&
		   !memcmp(data + head + 31, "; no memory", 11),
	   "an end is told with all that is known");
	ok(parent_serve(&parent) && !parent_is_full(&parent),
	   "a parent that is there is served");
	close(ends[1]);
	ends[1] = -1;
	ok(!parent_serve(&parent), "a parent that is gone is noticed");
	close_both();
}

/* What the parent does not read waits here, and is not lost. */
static void test_slow_parent(void)
{
	static unsigned char data[1 << 16];
	size_t sent = 0, got = 0;
	ssize_t n;

	open_both();
	while (!parent_is_full(&parent)) {
		parent_report(&parent, 0, 0, data, sizeof(data) - 13);
		sent += sizeof(data);
	}
	ok(parent_poll(&parent).events & POLLOUT, "what it does not read waits");
	while (got < sent) {
		n = read_all(data, sizeof(data));
		if (n <= 0 && !parent_serve(&parent))
			break;
		got += n > 0 ? (size_t)n : 0;
	}
	ok(got == sent && !parent_is_full(&parent), "and arrives whole");
	close_both();
}

int main(void)
{
	int pipes[2];

	/* As the launcher has it. */
	signal(SIGPIPE, SIG_IGN);
	if (pipe(pipes))
		perror("pipe");
	ok(parent_open(&parent, pipes[0], &e) == RINGUP_EINVAL && strstr(e.text, "AF_UNIX"),
	   "what is no socket is refused");
	close(pipes[0]);
	close(pipes[1]);
	test_connections();
	test_reports();
	test_slow_parent();
	return tap_done();
}
