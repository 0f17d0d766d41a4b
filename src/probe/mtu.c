/* mtu.c - find a path's MTU with datagrams that must not be fragmented. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/mtu.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/sock.h"

/* Common MTUs: jumbo frames, Ethernet, PPPoE, tunnels, VPNs, the minimum. */
static const int common[] = { 9000, 8951, 4000, 1500, 1492, 1480, 1450, 1400, 1280, 576 };

static bool set_dont_fragment(int fd, int family)
{
	int probe = family == AF_INET ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE;

	if (family == AF_INET)
		return !setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
	return !setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof(probe));
}

static void plan(struct mtu *m, int link, int headers)
{
	/* The loopback's 65536 would not fit into a datagram; no real network has that. */
	link = link < 16384 ? link : 16384;
	m->size[m->sizes++] = link - headers;
	for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++)
		if (common[i] < link)
			m->size[m->sizes++] = common[i] - headers;
}

bool mtu_open(struct mtu *m, const struct sock_addr *to, int link, const struct seal *question,
	      const struct seal_key *key)
{
	int family = to->sa.ss_family;

	memset(m, 0, sizeof(*m));
	if (link < 576)
		return false;
	m->fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (m->fd < 0)
		return false;
	if (!set_dont_fragment(m->fd, family) ||
	    connect(m->fd, (const struct sockaddr *)&to->sa, to->len)) {
		mtu_close(m);
		return false;
	}
	m->question = *question;
	m->key = key;
	plan(m, link, family == AF_INET ? 28 : 48);
	return true;
}

static void volley(struct mtu *m)
{
	static unsigned char packet[65536];

	seal_write(packet, &m->question, m->key);
	/* The smallest goes last: it must not push the large ones out of a short queue.  The
	 * first try may only fetch an old ICMP error from the socket. */
	for (int i = 0; i < m->sizes && m->size[i] > m->answered; i++)
		if (send(m->fd, packet, (size_t)m->size[i], 0) < 0)
			send(m->fd, packet, (size_t)m->size[i], 0);
}

static void mtu_take(struct mtu *m)
{
	unsigned char in[SEAL_BYTES + 1];
	struct seal a;
	ssize_t n;

	for (int most = 4 * MTU_SIZES; most > 0; most--) {
		n = recv(m->fd, in, sizeof(in), 0);
		if (n == SEAL_BYTES && seal_read(&a, SEAL_ANSWER, in, m->key) &&
		    seal_answers(&a, &m->question) && (int)a.size > m->answered)
			m->answered = (int)a.size;
	}
}

bool mtu_step(struct mtu *m, int64_t now_ns)
{
	mtu_take(m);
	if (m->answered >= m->size[0])
		return true;
	if (now_ns < m->next_ns)
		return false;
	if (m->volleys >= MTU_VOLLEYS)
		return true;
	m->volleys++;
	m->next_ns = now_ns + MTU_PAUSE_MS * 1000000ll;
	volley(m);
	return false;
}

void mtu_close(struct mtu *m)
{
	if (m->key || m->fd > 0)
		close(m->fd);
	memset(m, 0, sizeof(*m));
}
