/* reach.c - try many addresses and ports at once, and report how each attempt ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/reach.h"

#include <errno.h>
#include <limits.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "probe/echo.h"
#include "probe/mtu.h"
#include "probe/way.h"
#include "ringup.h"
#include "wire/pack.h"
#include "wire/sock.h"

enum { LEAST_BATCH = 8, MOST_BATCH = 4096 };

enum stage { DONE, CONNECTING, ASKED, BURSTING };

/* One path while it is tried. */
struct attempt {
	struct probe_path *path;
	enum stage stage;
	int fd;
	int family;
	int64_t deadline_ns;
	struct seal question;
	unsigned char in[SEAL_BYTES];
	size_t have, sent;
	struct mtu mtu;
	bool bursts, measures_mtu;
	int self; /* the node, if the address is this machine's own; else -1 */
};

void reach_errno(char out[FACTS_WORD], int number)
{
#define NAME(e) [e] = #e
	static const char *const names[] = {
		NAME(ECONNREFUSED), NAME(EHOSTUNREACH), NAME(ENETUNREACH), NAME(EACCES),
		NAME(EPERM),        NAME(ETIMEDOUT),    NAME(ECONNRESET),  NAME(EINVAL),
		NAME(ENETDOWN),     NAME(EHOSTDOWN),    NAME(EPIPE),       NAME(EADDRNOTAVAIL),
		NAME(EMFILE),       NAME(ENOPROTOOPT),  NAME(EADDRINUSE),  NAME(EAFNOSUPPORT),
		NAME(ENOBUFS),
	};
#undef NAME
	int known = number > 0 && number < (int)(sizeof(names) / sizeof(*names));

	if (known && names[number])
		snprintf(out, FACTS_WORD, "%s", names[number]);
	else
		snprintf(out, FACTS_WORD, "E%d", number);
}

enum facts_state reach_state(int number, int origin, int type, int code)
{
	bool by_icmp = origin == SO_EE_ORIGIN_ICMP && type == 3;
	bool by_icmp6 = origin == SO_EE_ORIGIN_ICMP6 && type == 1;

	/* Network, host and communication administratively prohibited; and port unreachable,
	 * which only a firewall sends for TCP, since a TCP stack resets. */
	if (by_icmp && (code == 9 || code == 10 || code == 13 || code == 3))
		return FACTS_PROHIBITED;
	if (by_icmp6 && (code == 1 || code == 4 || code == 5 || code == 6))
		return FACTS_PROHIBITED;
	switch (number) {
	case ECONNREFUSED:
		return FACTS_REFUSED;
	case EACCES:
	case EPERM:
		return FACTS_PROHIBITED;
	case ETIMEDOUT:
		return FACTS_FILTERED;
	}
	return FACTS_UNREACHABLE;
}

/* Reads the ICMP message that ended the attempt, if the kernel kept one. */
static void icmp_behind(int fd, int *origin, int *type, int *code)
{
	char control[512];
	struct sock_extended_err x;
	struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c;

	*origin = *type = *code = 0;
	if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if ((c->cmsg_level != SOL_IP || c->cmsg_type != IP_RECVERR) &&
		    (c->cmsg_level != SOL_IPV6 || c->cmsg_type != IPV6_RECVERR))
			continue;
		memcpy(&x, CMSG_DATA(c), sizeof(x));
		*origin = x.ee_origin;
		*type = x.ee_type;
		*code = x.ee_code;
	}
}

static void end(struct attempt *t, enum facts_state state, int number)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	t->stage = DONE;
	t->path->state = state;
	/* In any case this machine was tried, and not the intended one. */
	if (state != FACTS_OPEN && t->self >= 0 && t->self != t->path->to) {
		t->path->state = FACTS_IMPOSTOR;
		t->path->answered = t->self;
	}
	if (number)
		reach_errno(t->path->error, number);
}

static void end_by_errno(struct attempt *t, int number)
{
	int origin = 0, type = 0, code = 0;

	if (t->fd >= 0)
		icmp_behind(t->fd, &origin, &type, &code);
	end(t, reach_state(number, origin, type, code), number);
}

static void within(struct attempt *t, int64_t ms)
{
	t->deadline_ns = clock_deadline(ms);
}

/* Finds the interface and source address of this attempt's packets, and its MTU. */
static void look_up(struct attempt *t, const struct iface_ip *to, struct way *w)
{
	struct probe_path *p = t->path;

	way_find(w, to);
	snprintf(p->via, sizeof(p->via), "%s", w->via);
	if (w->source.family)
		iface_text(&w->source, p->source);
}

static void open_socket(struct attempt *t, const struct sock_addr *to)
{
	int yes = 1;

	t->family = to->sa.ss_family;
	t->fd = socket(t->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (t->fd < 0) {
		end(t, FACTS_UNREACHABLE, errno);
		return;
	}
	setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (t->family == AF_INET)
		setsockopt(t->fd, IPPROTO_IP, IP_RECVERR, &yes, sizeof(yes));
	else
		setsockopt(t->fd, IPPROTO_IPV6, IPV6_RECVERR, &yes, sizeof(yes));
	if (connect(t->fd, (const struct sockaddr *)&to->sa, to->len) && errno != EINPROGRESS)
		end_by_errno(t, errno);
}

static void reach_begin(struct attempt *t, const struct reach *r, struct probe_path *p)
{
	struct sock_addr to;
	struct iface_ip ip;
	struct way w;

	memset(t, 0, sizeof(*t));
	t->path = p;
	t->fd = t->self = -1;
	p->from = r->me;
	p->answered = -1;
	if (sock_parse_address(p->address, &to, NULL) || !iface_parse(&ip, p->address) ||
	    !p->port.number) {
		end(t, FACTS_UNREACHABLE, EINVAL);
		return;
	}
	sock_set_port(&to, p->port.number);
	look_up(t, &ip, &w);
	t->self = w.is_local ? r->me : -1;
	seal_ask(&t->question, r->me, p->to);
	t->stage = CONNECTING;
	within(t, REACH_CONNECT_MS);
	open_socket(t, &to);
	if (t->stage == DONE || w.is_local || strcmp(p->port.kind, "ephemeral") != 0)
		return;
	t->bursts = true;
	p->mtu.link = w.mtu;
	t->measures_mtu = mtu_open(&t->mtu, &to, w.mtu, &t->question, r->key);
}

static void on_connected(struct attempt *t, const struct reach *r)
{
	unsigned char out[SEAL_BYTES];
	socklen_t len = sizeof(int);
	int number = 0;

	if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &number, &len))
		number = errno;
	seal_write(out, &t->question, r->key);
	if (!number && send(t->fd, out, sizeof(out), MSG_NOSIGNAL) != sizeof(out))
		number = errno;
	if (number) {
		end_by_errno(t, number);
		return;
	}
	t->stage = ASKED;
	within(t, REACH_ANSWER_MS);
}

static void burst(struct attempt *t)
{
	static unsigned char data[ECHO_ORDER + REACH_BURST];
	ssize_t n;

	pack_put32(data, REACH_BURST);
	while (t->sent < sizeof(data)) {
		n = send(t->fd, data + t->sent, sizeof(data) - t->sent, MSG_NOSIGNAL);
		if (n <= 0)
			return;
		t->sent += (size_t)n;
	}
}

static void on_answer(struct attempt *t, const struct reach *r)
{
	struct seal a;
	int rc = sock_gather(t->fd, t->in, SEAL_BYTES, &t->have), number = rc < 0 ? errno : 0;

	if (!rc)
		return;
	if (rc < 0 || !seal_read(&a, SEAL_ANSWER, t->in, r->key) ||
	    !seal_answers(&a, &t->question)) {
		/* A process listens there, but it is no agent of this check. */
		end(t, FACTS_IMPOSTOR, number);
		return;
	}
	t->path->answered = a.from;
	if (a.size && t->family == AF_INET)
		snprintf(t->path->seen, sizeof(t->path->seen), "%u.%u.%u.%u", a.size >> 24,
			 a.size >> 16 & 255, a.size >> 8 & 255, a.size & 255);
	if (a.from != t->path->to) {
		end(t, FACTS_IMPOSTOR, 0);
	} else if (!t->bursts) {
		end(t, FACTS_OPEN, 0);
	} else {
		t->have = 0;
		t->stage = BURSTING;
		within(t, REACH_ANSWER_MS);
		burst(t);
	}
}

static void on_burst(struct attempt *t)
{
	int rc;

	burst(t);
	rc = sock_gather(t->fd, t->in, ECHO_ORDER, &t->have);
	if (!rc)
		return;
	t->path->mtu.segment = rc > 0;
	end(t, FACTS_OPEN, 0);
}

static void on_silence(struct attempt *t)
{
	if (t->stage == BURSTING) {
		t->path->mtu.segment = 0;
		end(t, FACTS_OPEN, 0);
	} else {
		end(t, FACTS_FILTERED, ETIMEDOUT);
	}
}

static void step(struct attempt *t, const struct reach *r, const struct pollfd p[2],
		 int64_t now)
{
	short events = p[0].revents;

	if (events && t->stage == CONNECTING)
		on_connected(t, r);
	else if (events && t->stage == ASKED)
		on_answer(t, r);
	else if (events && t->stage == BURSTING)
		on_burst(t);
	if (t->stage != DONE && now >= t->deadline_ns)
		on_silence(t);
	if (t->measures_mtu && (p[1].revents || now >= t->mtu.next_ns) &&
	    mtu_step(&t->mtu, now)) {
		t->path->mtu.df = t->mtu.answered;
		t->measures_mtu = false;
		mtu_close(&t->mtu);
	}
}

/* Sets what to poll for; a descriptor is -1 where there is nothing to wait for. */
static void await(const struct attempt *t, struct pollfd p[2], int64_t *until)
{
	p[0].fd = t->stage == DONE ? -1 : t->fd;
	p[0].events = t->stage == CONNECTING || (t->stage == BURSTING &&
						 t->sent < ECHO_ORDER + REACH_BURST)
			      ? POLLOUT | POLLIN
			      : POLLIN;
	p[1].fd = t->measures_mtu ? t->mtu.fd : -1;
	p[1].events = POLLIN;
	if (t->stage != DONE && t->deadline_ns < *until)
		*until = t->deadline_ns;
	if (t->measures_mtu && t->mtu.next_ns < *until)
		*until = t->mtu.next_ns;
}

/* The lifeline may also become readable, which can wait; only its end counts. */
static bool is_cut(const struct pollfd *p)
{
	return p->revents & (POLLHUP | POLLERR | POLLRDHUP);
}

static int run_batch(const struct reach *r, struct attempt *t, int n, struct pollfd *p)
{
	int64_t until, now;
	int busy;

	for (;;) {
		until = INT64_MAX;
		for (int i = busy = 0; i < n; i++) {
			await(&t[i], p + 2 + 2 * i, &until);
			busy |= t[i].stage != DONE || t[i].measures_mtu;
		}
		if (!busy)
			return 0;
		p[0] = (struct pollfd){ r->lifeline, POLLRDHUP, 0 };
		p[1] = (struct pollfd){ r->echo ? r->echo->epoll : -1, POLLIN, 0 };
		poll(p, (nfds_t)(2 + 2 * n), clock_left_ms(until));
		if (is_cut(&p[0]))
			return RINGUP_EPEER;
		if (r->echo)
			echo_serve(r->echo);
		now = clock_ns();
		for (int i = 0; i < n; i++)
			step(&t[i], r, p + 2 + 2 * i, now);
	}
}

int reach_descriptors(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l))
		return 1024;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	getrlimit(RLIMIT_NOFILE, &l);
	return l.rlim_cur < INT_MAX ? (int)l.rlim_cur : INT_MAX;
}

/* The number of concurrent attempts: two descriptors each, half of the limit. */
static int batch_size(int n)
{
	int most = reach_descriptors() / 4;

	most = most < LEAST_BATCH ? LEAST_BATCH : most > MOST_BATCH ? MOST_BATCH : most;
	return n < most ? n : most;
}

static void reach_drop(struct attempt *t, int n)
{
	for (int i = 0; i < n; i++) {
		if (t[i].stage != DONE)
			end(&t[i], FACTS_FILTERED, 0);
		if (t[i].measures_mtu)
			mtu_close(&t[i].mtu);
	}
}

int reach_run(const struct reach *r, struct probe_path *paths, int n, struct err *e)
{
	int size = batch_size(n), done, many, i, rc = 0;
	struct attempt *t = calloc((size_t)size + 1, sizeof(*t));
	struct pollfd *p = calloc((size_t)(2 + 2 * size), sizeof(*p));

	if (!t || !p)
		rc = fail(e, RINGUP_ENOMEM, "no memory for %d attempts", size);
	for (done = 0; !rc && done < n; done += many) {
		many = n - done < size ? n - done : size;
		for (i = 0; i < many; i++)
			reach_begin(&t[i], r, &paths[done + i]);
		if (run_batch(r, t, many, p))
			rc = fail(e, RINGUP_EPEER, "canceled");
		reach_drop(t, many);
	}
	free(t);
	free(p);
	return rc;
}
