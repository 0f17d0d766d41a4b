/* segment.c - the shared memory segment of the ranks of one host. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/pidend.h"
#include "ringup.h"
#include "wire/memory.h"

enum { LOOK_MS = 50 /* between two checks that ranks which are to come are alive */ };

static socklen_t abstract_name(struct sockaddr_un *a, const unsigned char *name)
{
	char hex[2 * SEGMENT_SOCKET_BYTES + 1];

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	sodium_bin2hex(hex, sizeof(hex), name, SEGMENT_SOCKET_BYTES);
	/* A leading NUL: no file. */
	memcpy(a->sun_path + 1, "ringup-", 7);
	memcpy(a->sun_path + 8, hex, sizeof(hex) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 8 + sizeof(hex) - 1);
}

int segment_door_open(struct segment_door *d, struct err *e)
{
	struct sockaddr_un a;
	socklen_t len;

	randombytes_buf(d->name, sizeof(d->name));
	d->fd = file_lift(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (d->fd < 0)
		return fail_os(e, "socket for shared memory");
	len = abstract_name(&a, d->name);
	if (bind(d->fd, (struct sockaddr *)&a, len) || listen(d->fd, 128)) {
		fail_os(e, "socket for shared memory");
		segment_door_close(d);
		return RINGUP_ESYSTEM;
	}
	return 0;
}

void segment_door_close(struct segment_door *d)
{
	if (d->fd > 0)
		close(d->fd);
	d->fd = -1;
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

void segment_lay_out(struct segment *s, void *base, int rank, int ranks, size_t slot_area,
		     size_t extra_bytes)
{
	size_t waiters = round_up(sizeof(struct segment_head), 4096);
	size_t counters = waiters + (size_t)ranks * sizeof(struct waiter);
	size_t slots = round_up(counters + (size_t)ranks * SEGMENT_COUNTER_BYTES, 4096);
	size_t extra = slots + (size_t)ranks * slot_area;

	s->rank = rank;
	s->ranks = ranks;
	s->bytes = round_up(extra + extra_bytes, 4096);
	s->base = base;
	if (!base)
		return;
	s->head = base;
	s->waiters = (struct waiter *)(void *)((unsigned char *)base + waiters);
	s->counters = (unsigned char *)base + counters;
	s->waitset.waiters = s->waiters;
	s->waitset.sleepers = &s->head->sleepers;
	s->waitset.count = ranks;
	s->waitset.me = rank;
	s->slots = (unsigned char *)base + slots;
	s->slot_area = slot_area;
	s->extra = (unsigned char *)base + extra;
}

/* Makes pages present without changing their contents. */
static void touch(void *p, size_t len)
{
#ifdef MADV_POPULATE_WRITE
	uintptr_t first = (uintptr_t)p & ~(uintptr_t)4095;

	/* An old kernel refuses; then the first writes fault, which is slower and right. */
	if (madvise((void *)first, len + ((uintptr_t)p - first), MADV_POPULATE_WRITE))
		errno = 0;
#else
	(void)p;
	(void)len;
#endif
}

static int map(struct segment *s, int fd, int rank, int ranks, size_t slot_area,
	       size_t extra_bytes, struct err *e)
{
	void *base;

	segment_lay_out(s, NULL, rank, ranks, slot_area, extra_bytes);
	base = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return fail_os(e, "map %zu bytes of shared memory", s->bytes);
	/* A child of fork() must not act as this rank. */
	madvise(base, s->bytes, MADV_DONTFORK);
	segment_lay_out(s, base, rank, ranks, slot_area, extra_bytes);
	touch(s->slots + (size_t)rank * slot_area, slot_area);
	return 0;
}

void segment_touch(struct segment *s)
{
	touch(s->base, (size_t)((unsigned char *)s->extra - (unsigned char *)s->base));
}

static int send_fd(int to, int fd, struct err *e)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 'S';
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct cmsghdr *c;

	m.msg_control = control.room;
	m.msg_controllen = sizeof(control.room);
	c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(to, &m, MSG_NOSIGNAL) == 1)
		return 0;
	if (errno == EPIPE || errno == ECONNRESET)
		return fail(e, RINGUP_EPEER, "hung up before it had the shared memory");
	return fail_os(e, "hand out shared memory");
}

static int recv_fd(int from, int *fd, struct err *e)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct cmsghdr *c;

	m.msg_control = control.room;
	m.msg_controllen = sizeof(control.room);
	if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) != 1)
		return fail(e, RINGUP_EPEER,
			    "hung up before it had handed out the shared memory");
	c = CMSG_FIRSTHDR(&m);
	if (m.msg_flags & MSG_CTRUNC)
		return fail(e, RINGUP_ESYSTEM,
			    "too many open files: none is left for the shared memory");
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int)))
		return fail(e, RINGUP_EPEER, "no descriptor came with the message");
	memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	*fd = file_lift(*fd);
	return *fd < 0 ? fail_os(e, "shared memory") : 0;
}

/* The index of the peer on connection @fd that still needs the segment; -1: another process. */
static int who_knocks(int fd, const struct segment_peers *p, const bool *served)
{
	struct ucred u;
	socklen_t len = sizeof(u);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &len) || u.uid != geteuid())
		return -1;
	for (int i = 1; i < p->count; i++)
		if (p->pids[i] == u.pid && !served[i])
			return i;
	return -1;
}

/* Fails if the alarm was raised, or a rank that is still to come has died. */
static int look_for_peers(const struct segment_peers *p, const bool *served, struct err *e)
{
	int i, rc = p->alarm ? alarm_get(p->alarm, e) : 0;

	for (i = 1; i < p->count && !rc; i++)
		if (!served[i] && pidend_has_ended(p->pids[i]))
			rc = fail(e, RINGUP_EPEER, "rank %d (process %d) died", p->names[i],
				  p->pids[i]);
	return rc;
}

/* Accepts a connection; returns 1 if it was a peer's, which now has the descriptor. */
static int answer(const struct segment_door *d, int memfd, const struct segment_peers *p,
		  bool *served, struct err *e)
{
	int fd = file_lift(accept4(d->fd, NULL, NULL, SOCK_CLOEXEC)), i, rc = 0;

	/* The connection would stay in the queue, and poll(2) would return at once. */
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return fail_os(e, "hand out shared memory");
	if (fd < 0)
		return 0;
	i = who_knocks(fd, p, served);
	if (i > 0) {
		served[i] = true;
		rc = send_fd(fd, memfd, e)
			     ? fail_in(e, "rank %d (process %d)", p->names[i], p->pids[i])
			     : 1;
	}
	close(fd);
	return rc;
}

static int hand_out(const struct segment_door *d, int memfd, const struct segment_peers *p,
		    int64_t deadline_ns, struct err *e)
{
	bool *served = calloc((size_t)p->count, sizeof(*served));
	int left = p->count - 1, ms, rc = 0;

	if (!served)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", p->count);
	while (left && rc >= 0) {
		struct pollfd knock = { d->fd, POLLIN, 0 };

		ms = clock_left_ms(deadline_ns);
		if (ms == 0) {
			rc = fail(e, RINGUP_ETIMEDOUT,
				  "%d of the host's %d ranks did not fetch the shared memory",
				  left, p->count);
			break;
		}
		if (poll(&knock, 1, ms < 0 || ms > LOOK_MS ? LOOK_MS : ms) > 0)
			rc = answer(d, memfd, p, served, e);
		else
			rc = 0;
		left -= rc > 0;
		/* Checked also after strangers' connections, which may come all the time. */
		if (!rc)
			rc = look_for_peers(p, served, e);
	}
	free(served);
	return rc < 0 ? rc : 0;
}

int segment_make(struct segment *s, const struct segment_door *d, const struct segment_peers *p,
		 size_t slot_area, size_t extra_bytes, int64_t deadline_ns, struct err *e)
{
	int fd, rc;

	memset(s, 0, sizeof(*s));
	segment_lay_out(s, NULL, 0, p->count, slot_area, extra_bytes);
	fd = file_lift(memfd_create("ringup", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return fail_os(e, "memfd_create");
	rc = memory_size(fd, s->bytes, e);
	if (!rc && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		rc = fail_os(e, "sealing %zu bytes of shared memory", s->bytes);
	if (!rc)
		rc = map(s, fd, 0, p->count, slot_area, extra_bytes, e);
	if (!rc)
		rc = hand_out(d, fd, p, deadline_ns, e);
	close(fd);
	return rc;
}

int segment_join(struct segment *s, const unsigned char name[SEGMENT_SOCKET_BYTES], int pid,
		 int rank, int ranks, size_t slot_area, size_t extra_bytes, int64_t deadline_ns,
		 struct err *e)
{
	struct sockaddr_un a;
	socklen_t len = abstract_name(&a, name);
	struct ucred u;
	socklen_t ulen = sizeof(u);
	struct pollfd p;
	int fd, memfd = -1, rc = 0;

	memset(s, 0, sizeof(*s));
	fd = file_lift(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return fail_os(e, "socket for shared memory");
	if (connect(fd, (struct sockaddr *)&a, len))
		rc = errno == ECONNREFUSED
			     ? fail(e, RINGUP_EPEER, "is gone, and with it the shared memory")
			     : fail_os(e, "fetch shared memory from process %d", pid);
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &ulen) || u.uid != geteuid())
		rc = fail(e, RINGUP_EAUTH, "shared memory offered by another user");
	p = (struct pollfd){ fd, POLLIN, 0 };
	while (!rc && poll(&p, 1, clock_left_ms(deadline_ns)) <= 0)
		if (clock_left_ms(deadline_ns) == 0)
			rc = fail(e, RINGUP_ETIMEDOUT,
				  "process %d did not hand out shared memory", pid);
	if (!rc)
		rc = recv_fd(fd, &memfd, e);
	close(fd);
	segment_lay_out(s, NULL, rank, ranks, slot_area, extra_bytes);
	if (!rc && lseek(memfd, 0, SEEK_END) != (off_t)s->bytes)
		rc = fail(e, RINGUP_EMISMATCH,
			  "the shared memory is not of the expected %zu bytes", s->bytes);
	if (!rc)
		rc = map(s, memfd, rank, ranks, slot_area, extra_bytes, e);
	if (memfd >= 0)
		close(memfd);
	return rc;
}

void segment_close(struct segment *s)
{
	if (s->base)
		munmap(s->base, s->bytes);
	memset(s, 0, sizeof(*s));
}
