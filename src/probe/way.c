/* way.c - this machine's route to an address: interface, source address, MTU. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/way.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int link_mtu(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;
	struct ifreq q = { 0 };

	if (fd < 0)
		return 0;
	snprintf(q.ifr_name, sizeof(q.ifr_name), "%s", name);
	rc = ioctl(fd, SIOCGIFMTU, &q);
	close(fd);
	return rc ? 0 : q.ifr_mtu;
}

static int keep_metric(const struct nlattr *a, void *data)
{
	if (mnl_attr_get_type(a) == RTAX_MTU && mnl_attr_get_payload_len(a) >= sizeof(uint32_t))
		*(int *)data = (int)mnl_attr_get_u32(a);
	return MNL_CB_OK;
}

static int way_keep(const struct nlattr *a, void *data)
{
	size_t len = mnl_attr_get_payload_len(a);
	struct way *w = data;
	char name[IF_NAMESIZE];

	switch (mnl_attr_get_type(a)) {
	case RTA_OIF:
		if (len >= sizeof(uint32_t) && if_indextoname(mnl_attr_get_u32(a), name))
			snprintf(w->via, sizeof(w->via), "%s", name);
		break;
	case RTA_PREFSRC:
		if (len == 4 || len == 16) {
			w->source.family = len == 4 ? AF_INET : AF_INET6;
			memcpy(w->source.bytes, mnl_attr_get_payload(a), len);
		}
		break;
	case RTA_METRICS:
		mnl_attr_parse_nested(a, keep_metric, &w->mtu);
		break;
	}
	return MNL_CB_OK;
}

static int on_route(const struct nlmsghdr *h, void *data)
{
	const struct rtmsg *m = mnl_nlmsg_get_payload(h);
	struct way *w = data;

	if (h->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(h) < sizeof(*m))
		return MNL_CB_OK;
	w->is_local = m->rtm_type == RTN_LOCAL;
	mnl_attr_parse(h, sizeof(*m), way_keep, w);
	return MNL_CB_OK;
}

static int way_ask(struct mnl_socket *s, struct way *w, const struct iface_ip *to)
{
	size_t len = to->family == AF_INET ? 4 : 16;
	char buf[8192] = { 0 };
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
	struct rtmsg *m;
	ssize_t n;
	int rc = MNL_CB_OK;

	h->nlmsg_type = RTM_GETROUTE;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	m = mnl_nlmsg_put_extra_header(h, sizeof(*m));
	m->rtm_family = (unsigned char)to->family;
	m->rtm_dst_len = (unsigned char)(len * 8);
	mnl_attr_put(h, RTA_DST, len, to->bytes);
	if (to->scope_id)
		mnl_attr_put_u32(h, RTA_OIF, to->scope_id);
	if (mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) ||
	    mnl_socket_sendto(s, h, h->nlmsg_len) < 0)
		return -1;
	while (rc == MNL_CB_OK) {
		n = mnl_socket_recvfrom(s, buf, sizeof(buf));
		rc = n < 0 ? -1 : mnl_cb_run(buf, (size_t)n, 0, 0, on_route, w);
	}
	return rc;
}

void way_find(struct way *w, const struct iface_ip *to)
{
	struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

	memset(w, 0, sizeof(*w));
	if (!s || way_ask(s, w, to) < 0)
		w->error = errno;
	if (s)
		mnl_socket_close(s);
	if (to->scope_id)
		w->source.scope_id = to->scope_id;
	if (*w->via && !w->mtu)
		w->mtu = link_mtu(w->via);
}
