/* test_wake_fd.c - a notification makes the descriptor readable, no more. */
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"
#include "wire/wake_fd.h"

static bool is_readable(const struct wake_fd *w)
{
	struct pollfd p = { w->fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

int main(void)
{
	struct wake_fd a = { 0 }, b = { 0 };
	struct err e = { 0 };
	uint64_t nobody[2];
	char long_one[4096] = { 0 };
	struct sockaddr_un to;
	socklen_t len = sizeof(to);
	int i, fd;

	ok(!wake_fd_open(&a, &e) && !wake_fd_open(&b, &e), "two of them: %s", e.text);
	ok(memcmp(a.name, b.name, sizeof(a.name)) != 0, "with different names");
	ok(!is_readable(&a), "nothing has come");
	wake_fd_notify(a.name);
	ok(is_readable(&a) && !is_readable(&b), "a notification wakes the one that is meant");
	wake_fd_drain(&a);
	ok(!is_readable(&a), "once");
	for (i = 0; i < 1000; i++)
		wake_fd_notify(a.name);
	ok(is_readable(&a), "a thousand of them block nobody");
	for (i = 0; i < 1000 && is_readable(&a); i++)
		wake_fd_drain(&a);
	ok(i > 0 && i < 1000 && !is_readable(&a), "and are forgotten in the end");
	getsockname(a.fd, (struct sockaddr *)&to, &len);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ok(sendto(fd, long_one, sizeof(long_one), 0, (struct sockaddr *)&to, len) ==
			   (ssize_t)sizeof(long_one) &&
		   is_readable(&a),
	   "a stranger's datagram wakes it, too");
	wake_fd_drain(&a);
	ok(!is_readable(&a), "and no more");
	memcpy(nobody, b.name, sizeof(nobody));
	wake_fd_close(&b);
	wake_fd_notify(nobody);
	ok(b.fd == 0 && !is_readable(&a), "one that is closed hears nothing");
	wake_fd_close(&a);
	wake_fd_close(&a);
	close(fd);
	return tap_done();
}
