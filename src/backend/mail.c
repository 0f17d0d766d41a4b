/* mail.c - messages of the tcp back end between hosts, over the sockets of a mesh. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mail.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "backend/backend.h"
#include "base/err.h"
#include "coll/reduce.h"
#include "wire/mesh.h"

#define MAIL_MAGIC 0x32554752U

enum { PLAN_BYTES = offsetof(struct mail_head, chunk) };

_Static_assert(sizeof(struct mail_head) == 56, "a head has no holes");

int mail_open(struct mail *m, const struct mesh *mesh, int hosts, struct err *e)
{
	int on = 1, sockets = 0;

	for (int i = 0; mesh && i < mesh->links; i++)
		sockets += mesh->link[i].fds;
	m->socket = calloc((size_t)sockets + 1, sizeof(*m->socket));
	m->first_of = calloc((size_t)hosts, sizeof(*m->first_of));
	m->sockets_of = calloc((size_t)hosts, sizeof(*m->sockets_of));
	if (!m->socket || !m->first_of || !m->sockets_of)
		return fail(e, RINGUP_ENOMEM, "no memory for %d connections", sockets);
	m->rank = mesh ? mesh->rank : 0;
	for (int i = 0; mesh && i < mesh->links; i++) {
		const struct mesh_link *l = &mesh->link[i];

		m->first_of[l->host] = m->sockets;
		m->sockets_of[l->host] = l->fds;
		for (int k = 0; k < l->fds; k++) {
			struct mail_socket *n = &m->socket[m->sockets++];

			*n = (struct mail_socket){ .fd = l->fd[k],
						   .host = l->host,
						   .rank = l->rank };
			n->last = &n->first;
			/* Small messages shall leave at once; other sockets than TCP's
			 * do so anyway. */
			(void)setsockopt(n->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		}
	}
	return 0;
}

void mail_close(struct mail *m)
{
	free(m->socket);
	free(m->first_of);
	free(m->sockets_of);
	memset(m, 0, sizeof(*m));
}

void mail_look(struct mail *m)
{
	for (int i = 0; i < m->sockets; i++)
		m->socket[i].stalled = false;
}

void mail_begin(struct mail *m, const struct mail_head *h)
{
	uint32_t sequence = m->plan.sequence + 1;

	m->plan = *h;
	m->plan.magic = MAIL_MAGIC;
	m->plan.sequence = sequence;
	mail_look(m);
}

void mail_post(struct mail *m, int host, struct mail_out *o)
{
	struct mail_socket *l =
		&m->socket[m->first_of[host] +
			   (int)(o->head.chunk % (uint64_t)m->sockets_of[host])];

	memcpy(&o->head, &m->plan, PLAN_BYTES);
	o->done = 0;
	o->next = NULL;
	*l->last = o;
	l->last = &o->next;
}

static int lost(const struct mail_socket *l, const char *why, struct err *e)
{
	return fail(e, RINGUP_EPEER, "rank %d: %s", l->rank, why);
}

static const char closed[] = "closed its connection";

int mail_check(const struct mail *m, int host, struct err *e)
{
	for (int i = 0; i < m->sockets_of[host]; i++)
		if (!m->socket[m->first_of[host] + i].ended)
			return 0;
	return lost(&m->socket[m->first_of[host]], closed, e);
}

static int send_some(struct mail_socket *l, struct err *e)
{
	struct mail_out *o = l->first;
	const uint64_t head = sizeof(o->head);
	struct iovec v[2];
	struct msghdr h = { .msg_iov = v };
	ssize_t sent;

	if (!o)
		return 0;
	if (o->done < head)
		v[h.msg_iovlen++] =
			(struct iovec){ (unsigned char *)&o->head + o->done, head - o->done };
	if (o->head.bytes) {
		uint64_t skip = o->done > head ? o->done - head : 0;

		v[h.msg_iovlen++] = (struct iovec){ (unsigned char *)(uintptr_t)o->data + skip,
						    o->head.bytes - skip };
	}
	sent = sendmsg(l->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (sent < 0)
		return lost(l, strerror(errno), e);
	o->done += (uint64_t)sent;
	if (o->done == head + o->head.bytes) {
		l->first = o->next;
		if (!l->first)
			l->last = &l->first;
		--*o->pending;
	}
	return 1;
}

static int check_head(const struct mail *m, const struct mail_socket *l, struct err *e)
{
	const struct mail_head *got = &l->head, *want = &m->plan;

	if (!memcmp(got, want, PLAN_BYTES))
		return 0;
	if (got->magic != MAIL_MAGIC)
		return fail(e, RINGUP_EMISMATCH, "rank %d sent an invalid message", l->rank);
	if (got->kind == want->kind && got->count == want->count && got->dtype == want->dtype &&
	    got->sequence == want->sequence)
		return fail(e, RINGUP_EMISMATCH,
			    "rank %d and rank %d run %s of %llu x %s with different "
			    "operations, roots, scales or blocks",
			    l->rank, m->rank, collective_word(got->kind),
			    (unsigned long long)got->count,
			    reduce_dtype_name((enum ringup_dtype)got->dtype));
	return fail(e, RINGUP_EMISMATCH,
		    "rank %d runs %s of %llu x %s as number %u, rank %d %s of %llu x %s as "
		    "number %u",
		    l->rank, collective_word(got->kind), (unsigned long long)got->count,
		    reduce_dtype_name((enum ringup_dtype)got->dtype), got->sequence, m->rank,
		    collective_word(want->kind), (unsigned long long)want->count,
		    reduce_dtype_name((enum ringup_dtype)want->dtype), want->sequence);
}

/* The head is whole: finds out where the payload goes. */
static int place(const struct mail *m, struct mail_socket *l, struct err *e)
{
	int rc;

	/* The other rank has finished this plan; its last messages to this rank, if any,
	 * come through other sockets. */
	if (l->head.magic == MAIL_MAGIC && (int32_t)(l->head.sequence - m->plan.sequence) > 0) {
		l->stalled = true;
		return 0;
	}
	rc = check_head(m, l, e);
	if (!rc)
		rc = m->place(m->ctx, l->host, &l->head, &l->in, e);
	if (rc < 0)
		return fail_in(e, "rank %d", l->rank);
	l->head_known = rc;
	l->stalled = !rc;
	return rc;
}

static void finish(struct mail_socket *l)
{
	--*l->in.due;
	l->head_known = false;
	l->head_done = 0;
}

/* One read: the rest of this message, and the head of the next one. */
static int mail_receive(struct mail *m, struct mail_socket *l, struct err *e)
{
	struct iovec v[2];
	struct msghdr h = { .msg_iov = v };
	size_t body = l->head_known ? l->in.left : 0;
	ssize_t got;

	if (body)
		v[h.msg_iovlen++] = (struct iovec){ l->in.to, body };
	v[h.msg_iovlen++] =
		(struct iovec){ (unsigned char *)&l->head + (l->head_known ? 0 : l->head_done),
				sizeof(l->head) - (l->head_known ? 0 : l->head_done) };
	do
		got = recvmsg(l->fd, &h, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN)
		return 0;
	if (got < 0)
		return lost(l, strerror(errno), e);
	if (got == 0 && (l->head_known || l->head_done))
		return lost(l, closed, e);
	if (got == 0) {
		l->ended = true;
		m->ended++;
		return 1;
	}
	if (l->head_known && (size_t)got < body) {
		l->in.to += got;
		l->in.left -= (size_t)got;
		return 1;
	}
	if (l->head_known)
		finish(l);
	l->head_done += (size_t)got - body;
	return 1;
}

static int receive_some(struct mail *m, struct mail_socket *l, struct err *e)
{
	int rc;

	if (l->stalled || l->ended)
		return 0;
	if (!l->head_known && l->head_done == sizeof(l->head)) {
		rc = place(m, l, e);
		if (rc > 0 && !l->in.left)
			finish(l);
		return rc;
	}
	return mail_receive(m, l, e);
}

int mail_step(struct mail *m, struct err *e)
{
	int rc, any = 0;

	for (int i = 0; i < m->sockets; i++) {
		rc = send_some(&m->socket[i], e);
		if (rc < 0)
			return rc;
		any |= rc;
		rc = receive_some(m, &m->socket[i], e);
		if (rc < 0)
			return rc;
		any |= rc;
	}
	return any;
}

int mail_poll(const struct mail *m, struct pollfd *p)
{
	int n = 0;

	for (int i = 0; i < m->sockets; i++) {
		const struct mail_socket *l = &m->socket[i];
		short events = (short)((l->stalled || l->ended ? 0 : POLLIN) |
				       (l->first ? POLLOUT : 0));

		if (events)
			p[n++] = (struct pollfd){ l->fd, events, 0 };
	}
	return n;
}
