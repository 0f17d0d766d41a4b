/* wake_fd.c - a descriptor that becomes readable to wake a rank that sleeps in poll(2). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wake_fd.h"

#include <pthread.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"

/* The socket from which this process notifies all others. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int sender = -1;

static void sender_open(void)
{
	sender = file_lift(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

static socklen_t wake_fd_address(struct sockaddr_un *a, const uint64_t name[2])
{
	static const char prefix[] = "\0ringup-wake-"; /* a leading NUL: no file */
	size_t n = sizeof(prefix) - 1;

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path, prefix, n);
	snprintf(a->sun_path + n, sizeof(a->sun_path) - n, "%016llx%016llx",
		 (unsigned long long)name[0], (unsigned long long)name[1]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 32);
}

int wake_fd_open(struct wake_fd *w, struct err *e)
{
	struct sockaddr_un a;
	socklen_t len;

	randombytes_buf(w->name, sizeof(w->name));
	len = wake_fd_address(&a, w->name);
	w->fd = file_lift(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (w->fd < 0)
		w->fd = 0;
	if (!w->fd || bind(w->fd, (struct sockaddr *)&a, len))
		return fail_os(e, "socket to wake a sleeper");
	return 0;
}

void wake_fd_close(struct wake_fd *w)
{
	if (w->fd > 0)
		close(w->fd);
	w->fd = 0;
}

void wake_fd_notify(const uint64_t name[2])
{
	struct sockaddr_un a;
	socklen_t len = wake_fd_address(&a, name);

	pthread_once(&once, sender_open);
	/* If the queue is full, its contents wake the owner. */
	(void)!sendto(sender, "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&a, len);
}

/* Bounded, since foreign processes may send; datagrams left over end the next sleep early. */
void wake_fd_drain(const struct wake_fd *w)
{
	char byte;

	for (int i = 0; i < 16 && recv(w->fd, &byte, 1, MSG_DONTWAIT) >= 0; i++)
		;
}
