/* parent.c - the launcher's parent program, which has connections to the rank daemons. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"

int parent_open(struct parent *p, int fd, struct err *e)
{
	int family;
	socklen_t len = sizeof(family);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) || family != AF_UNIX)
		return fail(e, RINGUP_EINVAL,
			    "--parent %d: not the descriptor of an AF_UNIX socket", fd);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	*p = (struct parent){ .fd = fd };
	order_open(&p->order, fd, fd, false);
	return 0;
}

void parent_close(struct parent *p)
{
	struct pollfd out = { p->fd, POLLOUT, 0 };
	int64_t enough = clock_deadline(PARENT_ANSWER_MS);

	while (stream_events(&p->order.stream) && poll(&out, 1, clock_left_ms(enough)) > 0)
		if (stream_flush(&p->order.stream, NULL) < 0)
			break;
	order_close(&p->order);
}

static bool wait_until(struct parent *p, short events, int64_t deadline_ns)
{
	struct pollfd poll_fd = { p->fd, events, 0 };
	int n;

	do
		n = poll(&poll_fd, 1, clock_left_ms(deadline_ns));
	while (n < 0 && errno == EINTR);
	return n > 0;
}

/* Receive the key and the descriptor; -1 if there is none. */
static int descriptor_receive(struct parent *p, struct secret *key)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec data = { key->key, SECRET_BYTES };
	struct msghdr m = { .msg_iov = &data,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd = -1;
	ssize_t n = recvmsg(p->fd, &m, MSG_CMSG_CLOEXEC);

	c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (fd >= 0 && n != SECRET_BYTES) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int parent_connect(struct parent *p, const char *host, struct secret *key, struct err *e)
{
	int64_t enough = clock_deadline(PARENT_ANSWER_MS);
	int rc = order_say(&p->order, ORDER_CONNECT, NULL, 0, host, strlen(host), e), fd;

	while (rc > 0 && wait_until(p, POLLOUT, enough))
		rc = stream_flush(&p->order.stream, e);
	if (rc < 0)
		return rc;
	if (!wait_until(p, POLLIN, enough))
		return fail(e, RINGUP_EPEER, "the parent does not answer");
	fd = descriptor_receive(p, key);
	if (fd < 0)
		return fail(e, RINGUP_EPEER, "the parent has no connection to it");
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return fd;
}

/* Sends a frame; errors are ignored, since parent_serve() notices that the parent is gone. */
static void parent_say(struct parent *p, enum order_kind kind, const uint32_t *numbers, int n,
		       const void *data, size_t len)
{
	order_say(&p->order, kind, numbers, n, data, len, NULL);
}

void parent_report(struct parent *p, int worker, int rank, const void *data, size_t len)
{
	uint32_t numbers[] = { (uint32_t)worker, (uint32_t)rank };

	parent_say(p, ORDER_REPORT, numbers, 2, data, len);
}

void parent_ended(struct parent *p, const struct parent_end *end)
{
	uint32_t numbers[] = { (uint32_t)end->worker, (uint32_t)end->rank,
			       (uint32_t)end->pid,    (uint32_t)end->code,
			       (uint32_t)end->status, (uint32_t)end->phase };
	char text[512];
	size_t n = strnlen(end->host, 255), more = strnlen(end->memory, 255);

	memcpy(text, end->host, n);
	text[n++] = 0;
	memcpy(text + n, end->memory, more);
	parent_say(p, ORDER_ENDED, numbers, 6, text, n + more);
}

struct pollfd parent_poll(const struct parent *p)
{
	return (struct pollfd){ p->fd, (short)(POLLIN | stream_events(&p->order.stream)), 0 };
}

bool parent_serve(struct parent *p)
{
	char byte;
	ssize_t n;

	if (stream_events(&p->order.stream) && stream_flush(&p->order.stream, NULL) < 0)
		return false;
	n = recv(p->fd, &byte, 1, MSG_DONTWAIT);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

bool parent_is_full(const struct parent *p)
{
	return p->order.stream.outbox.len - p->order.stream.outbox.used > PARENT_FULL;
}
