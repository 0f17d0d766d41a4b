/* iface.c - this machine's interfaces, addresses and routes, live or recorded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/iface.h"

/* Before the kernel's headers, which then leave out its definitions. */
#include <net/if.h>

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <limits.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

/* More interfaces than machines have, and routes for a choice: the rest is not kept. */
enum { MAX_IFACES = 65536, MAX_ROUTES = 4096 };

static const struct {
	const char *text;
	unsigned bit;
} flags[] = {
	{ "UP", IFF_UP },
	{ "BROADCAST", IFF_BROADCAST },
	{ "LOOPBACK", IFF_LOOPBACK },
	{ "POINTOPOINT", IFF_POINTOPOINT },
	{ "RUNNING", IFF_RUNNING },
	{ "NOARP", IFF_NOARP },
	{ "PROMISC", IFF_PROMISC },
	{ "ALLMULTI", IFF_ALLMULTI },
	{ "MASTER", IFF_MASTER },
	{ "SLAVE", IFF_SLAVE },
	{ "MULTICAST", IFF_MULTICAST },
	{ NULL, 0 },
};

/* The kernel's name for a driver's links, and its kind. */
static const struct {
	const char *kernel;
	enum iface_kind kind;
} kinds[] = {
	{ "bridge", IFACE_BRIDGE },  { "veth", IFACE_VETH },
	{ "netkit", IFACE_VETH },    { "vlan", IFACE_VLAN },
	{ "bond", IFACE_BOND },      { "team", IFACE_BOND },
	{ "tun", IFACE_TUN },        { "vxlan", IFACE_VXLAN },
	{ "geneve", IFACE_VXLAN },   { "macvlan", IFACE_MACVLAN },
	{ "ipvlan", IFACE_MACVLAN }, { "ipoib", IFACE_INFINIBAND },
	{ "dummy", IFACE_DUMMY },    { "wireguard", IFACE_TUNNEL },
	{ "gre", IFACE_TUNNEL },     { "gretap", IFACE_TUNNEL },
	{ "ipip", IFACE_TUNNEL },    { "sit", IFACE_TUNNEL },
	{ "ip6tnl", IFACE_TUNNEL },  { "ip6gre", IFACE_TUNNEL },
	{ "erspan", IFACE_TUNNEL },  { "vti", IFACE_TUNNEL },
	{ "xfrm", IFACE_TUNNEL },    { "ppp", IFACE_TUNNEL },
};

struct iface *iface_add(struct iface_list *l)
{
	struct iface *i = l->nifaces < MAX_IFACES
				  ? array_more(&l->ifaces, &l->nifaces, sizeof(*i))
				  : NULL;

	if (i)
		i->speed_mbps = -1;
	return i;
}

struct iface_addr *iface_add_addr(struct iface_list *l)
{
	return l->naddrs < MAX_IFACES ? array_more(&l->addrs, &l->naddrs, sizeof(*l->addrs))
				      : NULL;
}

struct iface_route *iface_add_route(struct iface_list *l)
{
	return l->nroutes < MAX_ROUTES ? array_more(&l->routes, &l->nroutes, sizeof(*l->routes))
				       : NULL;
}

void iface_free(struct iface_list *l)
{
	free(l->ifaces);
	free(l->addrs);
	free(l->routes);
	memset(l, 0, sizeof(*l));
}

/* Attributes of one message, by number; the length was checked by libmnl. */
struct attrs {
	const struct nlattr *at[64];
};

static int keep_attr(const struct nlattr *a, void *data)
{
	struct attrs *t = data;
	unsigned type = mnl_attr_get_type(a);

	if (type < sizeof(t->at) / sizeof(t->at[0]))
		t->at[type] = a;
	return MNL_CB_OK;
}

static void copy_text(char *out, size_t size, const struct nlattr *a)
{
	size_t len = a ? mnl_attr_get_payload_len(a) : 0;

	if (len >= size)
		len = size - 1;
	if (a)
		memcpy(out, mnl_attr_get_payload(a), len);
	out[len] = 0;
}

static int64_t iface_number(const struct nlattr *a, int64_t otherwise)
{
	if (!a || mnl_attr_get_payload_len(a) < sizeof(uint32_t))
		return otherwise;
	return mnl_attr_get_u32(a);
}

static bool read_ip(struct iface_ip *ip, int family, const struct nlattr *a)
{
	size_t size = family == AF_INET ? 4 : 16;

	memset(ip, 0, sizeof(*ip));
	if (!a || mnl_attr_get_payload_len(a) < size)
		return false;
	ip->family = family;
	memcpy(ip->bytes, mnl_attr_get_payload(a), size);
	return true;
}

static enum iface_kind driver_kind(const struct nlattr *info)
{
	struct attrs t = { { 0 } };
	char text[32];

	if (!info || mnl_attr_parse_nested(info, keep_attr, &t) < 0)
		return IFACE_OTHER;
	copy_text(text, sizeof(text), t.at[IFLA_INFO_KIND]);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		if (!strcmp(text, kinds[k].kernel))
			return kinds[k].kind;
	return IFACE_OTHER;
}

static void hex_mac(char out[IFACE_MAC], const struct nlattr *a)
{
	const unsigned char *p = a ? mnl_attr_get_payload(a) : NULL;
	size_t i, len = a ? mnl_attr_get_payload_len(a) : 0;

	*out = 0;
	for (i = 0; i < len && 3 * i + 3 <= IFACE_MAC; i++)
		snprintf(out + 3 * i - !!i, 4, i ? ":%02x" : "%02x", p[i]);
}

static int on_link(const struct nlmsghdr *h, void *data)
{
	struct iface_list *l = data;
	const struct ifinfomsg *m = mnl_nlmsg_get_payload(h);
	struct attrs t = { { 0 } };
	struct iface *i;

	if (h->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(h) < sizeof(*m))
		return MNL_CB_OK;
	mnl_attr_parse(h, sizeof(*m), keep_attr, &t);
	i = iface_add(l);
	if (!i) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	i->index = m->ifi_index;
	i->flags = m->ifi_flags;
	i->mtu = (int)iface_number(t.at[IFLA_MTU], 0);
	i->master = (int)iface_number(t.at[IFLA_MASTER], 0);
	copy_text(i->name, sizeof(i->name), t.at[IFLA_IFNAME]);
	hex_mac(i->mac, t.at[IFLA_ADDRESS]);
	if (m->ifi_type == ARPHRD_LOOPBACK)
		i->kind = IFACE_LOOPBACK;
	else if (m->ifi_type == ARPHRD_INFINIBAND)
		i->kind = IFACE_INFINIBAND;
	else if (m->ifi_type == ARPHRD_PPP)
		i->kind = IFACE_TUNNEL;
	else if (t.at[IFLA_LINKINFO])
		i->kind = driver_kind(t.at[IFLA_LINKINFO]);
	else if (m->ifi_type == ARPHRD_ETHER)
		/* Software links report their kind; a link without one is hardware. */
		i->kind = IFACE_PHYSICAL;
	return MNL_CB_OK;
}

static enum iface_scope scope_of(unsigned char scope)
{
	if (scope >= RT_SCOPE_HOST)
		return IFACE_HOST;
	return scope == RT_SCOPE_LINK ? IFACE_LINK : IFACE_GLOBAL;
}

static int on_addr(const struct nlmsghdr *h, void *data)
{
	struct iface_list *l = data;
	const struct ifaddrmsg *m = mnl_nlmsg_get_payload(h);
	struct attrs t = { { 0 } };
	struct iface_addr *a;
	struct iface_ip ip;
	int at;

	if (h->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(h) < sizeof(*m))
		return MNL_CB_OK;
	mnl_attr_parse(h, sizeof(*m), keep_attr, &t);
	at = iface_position(l, (int)m->ifa_index);
	/* On a point-to-point link IFA_ADDRESS is the other end. */
	if ((m->ifa_family != AF_INET && m->ifa_family != AF_INET6) || at < 0 ||
	    !read_ip(&ip, m->ifa_family, t.at[t.at[IFA_LOCAL] ? IFA_LOCAL : IFA_ADDRESS]))
		return MNL_CB_OK;
	a = iface_add_addr(l);
	if (!a) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	a->iface = at;
	a->ip = ip;
	a->prefix = m->ifa_prefixlen;
	a->scope = scope_of(m->ifa_scope);
	if (ip.family == AF_INET6 && a->scope == IFACE_LINK)
		a->ip.scope_id = m->ifa_index;
	if (t.at[IFA_LABEL])
		copy_text(a->label, sizeof(a->label), t.at[IFA_LABEL]);
	else
		memcpy(a->label, l->ifaces[at].name, sizeof(a->label));
	return MNL_CB_OK;
}

static void add_hop(struct iface_list *l, const struct iface_route *how, int index,
		    const struct iface_ip *via)
{
	int at = iface_position(l, index);
	struct iface_route *r = at < 0 ? NULL : iface_add_route(l);

	/* Beyond MAX_ROUTES nothing is kept: the default routes come first. */
	if (!r)
		return;
	*r = *how;
	r->iface = at;
	r->via = *via;
}

static void add_hops(struct iface_list *l, const struct iface_route *how,
		     const struct nlattr *list)
{
	const struct rtnexthop *n = mnl_attr_get_payload(list);
	int left = mnl_attr_get_payload_len(list);

	while (RTNH_OK(n, left)) {
		struct attrs t = { { 0 } };
		struct iface_ip via;

		mnl_attr_parse_payload(RTNH_DATA(n), n->rtnh_len - sizeof(*n), keep_attr, &t);
		read_ip(&via, how->to.family, t.at[RTA_GATEWAY]);
		add_hop(l, how, n->rtnh_ifindex, &via);
		left -= (int)RTNH_ALIGN(n->rtnh_len);
		n = RTNH_NEXT(n);
	}
}

static int on_route(const struct nlmsghdr *h, void *data)
{
	struct iface_list *l = data;
	const struct rtmsg *m = mnl_nlmsg_get_payload(h);
	struct iface_route how = { 0 };
	struct attrs t = { { 0 } };
	struct iface_ip via;

	if (h->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(h) < sizeof(*m))
		return MNL_CB_OK;
	mnl_attr_parse(h, sizeof(*m), keep_attr, &t);
	if ((m->rtm_family != AF_INET && m->rtm_family != AF_INET6) ||
	    m->rtm_type != RTN_UNICAST || m->rtm_flags & RTM_F_CLONED ||
	    iface_number(t.at[RTA_TABLE], m->rtm_table) != RT_TABLE_MAIN)
		return MNL_CB_OK;
	if (!read_ip(&how.to, m->rtm_family, t.at[RTA_DST]))
		how.to.family = m->rtm_family;
	how.prefix = m->rtm_dst_len;
	how.metric = iface_number(t.at[RTA_PRIORITY], 0);
	read_ip(&via, m->rtm_family, t.at[RTA_GATEWAY]);
	if (t.at[RTA_MULTIPATH])
		add_hops(l, &how, t.at[RTA_MULTIPATH]);
	else
		add_hop(l, &how, (int)iface_number(t.at[RTA_OIF], 0), &via);
	return MNL_CB_OK;
}

struct asked {
	struct iface_list *l;
	struct iface_ip peer;
};

static int on_answer(const struct nlmsghdr *h, void *data)
{
	struct asked *q = data;
	const struct rtmsg *m = mnl_nlmsg_get_payload(h);
	struct iface_route how = { .to = q->peer };
	struct attrs t = { { 0 } };
	struct iface_ip via;

	if (h->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(h) < sizeof(*m))
		return MNL_CB_OK;
	mnl_attr_parse(h, sizeof(*m), keep_attr, &t);
	/* A route to this host's own address is by lo, and not recorded. */
	if (m->rtm_type != RTN_UNICAST)
		return MNL_CB_OK;
	how.prefix = q->peer.family == AF_INET ? 32 : 128;
	read_ip(&via, m->rtm_family, t.at[RTA_GATEWAY]);
	add_hop(q->l, &how, (int)iface_number(t.at[RTA_OIF], 0), &via);
	return MNL_CB_OK;
}

/* Send one request and hand every message of the answer to @on. */
static int converse(struct mnl_socket *s, struct nlmsghdr *h, mnl_cb_t on, void *data)
{
	/* The kernel fills at most 32 KiB a message when given the room. */
	static const size_t room = 32768;
	char *buf = malloc(room);
	ssize_t n;
	int rc = -1;

	if (!buf)
		return -1;
	h->nlmsg_seq = 1;
	if (mnl_socket_sendto(s, h, h->nlmsg_len) >= 0) {
		do {
			n = mnl_socket_recvfrom(s, buf, room);
			rc = n < 0 ? -1 : mnl_cb_run(buf, (size_t)n, 1, 0, on, data);
		} while (rc > 0 && h->nlmsg_flags & (NLM_F_DUMP | NLM_F_ACK));
	}
	free(buf);
	return rc;
}

static int dump(struct iface_list *l, uint16_t type, size_t size, mnl_cb_t on)
{
	struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	char request[256] = { 0 };
	struct nlmsghdr *h = mnl_nlmsg_put_header(request);
	int saved, rc = -1;

	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	mnl_nlmsg_put_extra_header(h, size); /* family AF_UNSPEC: all */
	if (s && !mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID))
		rc = converse(s, h, on, l);
	saved = errno;
	if (s)
		mnl_socket_close(s);
	errno = saved;
	return rc < 0 ? -1 : 0;
}

/* A missing route to @peer is a result, so nothing fails here. */
static void ask_route(struct iface_list *l, const struct iface_ip *peer)
{
	struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	struct asked q = { l, *peer };
	char request[256] = { 0 };
	struct nlmsghdr *h = mnl_nlmsg_put_header(request);
	size_t bits = peer->family == AF_INET ? 32 : 128;
	struct rtmsg *m;

	h->nlmsg_type = RTM_GETROUTE;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	m = mnl_nlmsg_put_extra_header(h, sizeof(*m));
	m->rtm_family = (unsigned char)peer->family;
	m->rtm_dst_len = (unsigned char)bits;
	mnl_attr_put(h, RTA_DST, bits / 8, peer->bytes);
	if (peer->scope_id)
		mnl_attr_put_u32(h, RTA_OIF, peer->scope_id);
	if (s && !mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID))
		converse(s, h, on_answer, &q);
	if (s)
		mnl_socket_close(s);
}

/* Repeats a dump that fails with EINTR, since links changed meanwhile. */
static int dump_again(struct iface_list *l, int *n, uint16_t type, size_t size, mnl_cb_t on)
{
	int rc = -1;

	for (int tries = 0; rc && tries < 8; tries++) {
		*n = 0;
		rc = dump(l, type, size, on);
		if (rc && errno != EINTR)
			break;
	}
	return rc;
}

static void set_turn(struct iface_list *l, int index, const struct iface_ip *ip,
		     const char *label, int turn)
{
	for (int i = 0; i < l->naddrs; i++) {
		struct iface_addr *a = &l->addrs[i];

		if (a->ip.family == ip->family && (!label || !strcmp(a->label, label)) &&
		    (label || l->ifaces[a->iface].index == index) &&
		    !memcmp(a->ip.bytes, ip->bytes, sizeof(ip->bytes)))
			a->turn = turn;
	}
}

/* "fd000000000000000000000000000002 04 40 00 82     eth0" */
static bool iface_read_line(const char *line, struct iface_ip *ip, int *index)
{
	unsigned byte, at;

	*ip = (struct iface_ip){ .family = AF_INET6 };
	for (int i = 0; i < 16; i++) {
		if (sscanf(line + 2 * i, "%2x", &byte) != 1)
			return false;
		ip->bytes[i] = (unsigned char)byte;
	}
	if (sscanf(line + 32, " %x", &at) != 1 || at > INT_MAX)
		return false;
	*index = (int)at;
	return true;
}

/* The kernel lists IPv6 addresses there as they lie in its hash table. */
static void add_turns_v6(struct iface_list *l, const char *root)
{
	char *data, *line, *rest;
	struct iface_ip ip;
	int index, turn = 0;
	size_t len;

	if (file_read(root, "/proc/net/if_inet6", 1 << 24, &data, &len, NULL))
		return;
	for (line = strtok_r(data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		turn++;
		if (strlen(line) > 32 && iface_read_line(line, &ip, &index))
			set_turn(l, index, &ip, NULL, turn);
	}
	free(data);
}

/* SIOCGIFCONF lists IPv4 addresses in the order in which their interfaces arrived, which is
 * not that of their indexes where some came from other namespaces. */
static void add_turns_v4(struct iface_list *l)
{
	const struct sockaddr_in *sin;
	struct iface_ip ip = { .family = AF_INET };
	struct ifconf c = { .ifc_len = 0 };
	int i, s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s >= 0 && !ioctl(s, SIOCGIFCONF, &c))
		c.ifc_req = malloc((size_t)c.ifc_len + 1);
	if (c.ifc_req && !ioctl(s, SIOCGIFCONF, &c))
		for (i = 0; i < c.ifc_len / (int)sizeof(*c.ifc_req); i++) {
			sin = (const struct sockaddr_in *)&c.ifc_req[i].ifr_addr;
			memcpy(ip.bytes, &sin->sin_addr, 4);
			set_turn(l, 0, &ip, c.ifc_req[i].ifr_name, i + 1);
		}
	free(c.ifc_req);
	if (s >= 0)
		close(s);
}

int iface_read(struct iface_list *l, const char *root, const char *peer, struct err *e)
{
	struct iface_ip ip;

	memset(l, 0, sizeof(*l));
	if (peer && !iface_parse(&ip, peer))
		return fail(e, RINGUP_EINVAL, "%s is not a numeric address", peer);
	if (dump_again(l, &l->nifaces, RTM_GETLINK, sizeof(struct ifinfomsg), on_link))
		return fail_os(e, "cannot list the interfaces");
	if (dump_again(l, &l->naddrs, RTM_GETADDR, sizeof(struct ifaddrmsg), on_addr))
		return fail_os(e, "cannot list the addresses");
	if (dump_again(l, &l->nroutes, RTM_GETROUTE, sizeof(struct rtmsg), on_route))
		return fail_os(e, "cannot list the routes");
	if (peer)
		ask_route(l, &ip);
	for (int i = 0; i < l->nifaces; i++)
		iface_sysfs(&l->ifaces[i], root);
	add_turns_v4(l);
	add_turns_v6(l, root);
	return 0;
}

static bool sys_number(const char *root, const char *name, const char *what, long *out)
{
	char path[PATH_MAX], *data, *end;
	size_t len;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, what);
	if (file_read(root, path, 4096, &data, &len, NULL))
		return false;
	*out = strtol(data, &end, 0);
	len = (size_t)(end - data);
	free(data);
	return len > 0;
}

static bool sys_has(const char *root, const char *name, const char *what)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, what);
	return file_exists(root, path);
}

static enum iface_kind sys_kind(const char *root, const char *name)
{
	static const struct {
		const char *has;
		enum iface_kind kind;
	} marks[] = {
		{ "bridge", IFACE_BRIDGE },
		{ "bonding", IFACE_BOND },
		{ "tun_flags", IFACE_TUN },
		{ "device", IFACE_PHYSICAL },
	};
	long type;

	if (sys_number(root, name, "type", &type) && type == ARPHRD_INFINIBAND)
		return IFACE_INFINIBAND;
	for (size_t m = 0; m < sizeof(marks) / sizeof(marks[0]); m++)
		if (sys_has(root, name, marks[m].has))
			return marks[m].kind;
	return IFACE_OTHER;
}

void iface_sysfs(struct iface *i, const char *root)
{
	long value;

	/* A name with a slash cannot be the kernel's. */
	if (strchr(i->name, '/') || !sys_number(root, i->name, "ifindex", &value) ||
	    value != i->index)
		return;
	if (i->kind == IFACE_OTHER)
		i->kind = sys_kind(root, i->name);
	if (sys_number(root, i->name, "speed", &value) && value > 0 && value < INT_MAX)
		i->speed_mbps = (int)value;
}

const struct iface *iface_find(const struct iface_list *l, const char *name)
{
	for (int i = 0; i < l->nifaces; i++)
		if (!strcmp(l->ifaces[i].name, name))
			return &l->ifaces[i];
	return NULL;
}

int iface_position(const struct iface_list *l, int index)
{
	for (int i = 0; i < l->nifaces; i++)
		if (l->ifaces[i].index == index)
			return i;
	return -1;
}

const struct iface_addr *iface_owner(const struct iface_list *l, const struct iface_ip *ip)
{
	for (int i = 0; i < l->naddrs; i++)
		if (iface_same(&l->addrs[i].ip, ip))
			return &l->addrs[i];
	return NULL;
}

const struct iface_route *iface_route(const struct iface_list *l, const struct iface_ip *to)
{
	const struct iface_route *best = NULL, *r;

	for (int i = 0; i < l->nroutes; i++) {
		r = &l->routes[i];
		if (!iface_within(to, &r->to, r->prefix))
			continue;
		if (!best || r->prefix > best->prefix ||
		    (r->prefix == best->prefix && r->metric < best->metric))
			best = r;
	}
	return best;
}

bool iface_parse(struct iface_ip *ip, const char *text)
{
	char bare[IFACE_TEXT];
	const char *scope = strchr(text, '%');
	size_t len = scope ? (size_t)(scope - text) : strlen(text);
	char *end;

	memset(ip, 0, sizeof(*ip));
	if (len >= sizeof(bare))
		return false;
	memcpy(bare, text, len);
	bare[len] = 0;
	if (!scope && inet_pton(AF_INET, bare, ip->bytes) == 1)
		ip->family = AF_INET;
	else if (inet_pton(AF_INET6, bare, ip->bytes) == 1)
		ip->family = AF_INET6;
	if (scope && ip->family) {
		ip->scope_id = (uint32_t)strtoul(scope + 1, &end, 10);
		if (*end || end == scope + 1)
			ip->scope_id = if_nametoindex(scope + 1);
		if (!ip->scope_id)
			ip->family = 0;
	}
	return ip->family != 0;
}

bool iface_parse_recorded(struct iface_ip *ip, const char *text)
{
	const char *scope = strchr(text, '%');

	return (!scope || strspn(scope + 1, "0123456789") == strlen(scope + 1)) &&
	       iface_parse(ip, text);
}

const char *iface_text(const struct iface_ip *ip, char out[IFACE_TEXT])
{
	size_t len;

	if (!ip->family || !inet_ntop(ip->family, ip->bytes, out, IFACE_TEXT))
		*out = 0;
	len = strlen(out);
	if (ip->scope_id)
		snprintf(out + len, IFACE_TEXT - len, "%%%u", ip->scope_id);
	return out;
}

const char *iface_net_text(const struct iface_ip *ip, int prefix, char out[IFACE_TEXT])
{
	struct iface_ip net = *ip;
	size_t len;

	for (int bit = prefix; bit < (net.family == AF_INET ? 32 : 128); bit++)
		net.bytes[bit / 8] &= (unsigned char)~(0x80 >> bit % 8);
	net.scope_id = 0;
	len = strlen(iface_text(&net, out));
	snprintf(out + len, IFACE_TEXT - len, "/%d", prefix);
	return out;
}

bool iface_same(const struct iface_ip *a, const struct iface_ip *b)
{
	return a->family == b->family && a->scope_id == b->scope_id &&
	       !memcmp(a->bytes, b->bytes, a->family == AF_INET ? 4 : 16);
}

bool iface_within(const struct iface_ip *ip, const struct iface_ip *net, int prefix)
{
	int whole = prefix / 8, rest = prefix % 8;

	if (ip->family != net->family || prefix < 0 ||
	    prefix > (ip->family == AF_INET ? 32 : 128))
		return false;
	if (memcmp(ip->bytes, net->bytes, (size_t)whole))
		return false;
	return !rest || !((ip->bytes[whole] ^ net->bytes[whole]) >> (8 - rest));
}

bool iface_is_loopback(const struct iface_ip *ip)
{
	static const unsigned char v6[16] = { [15] = 1 };

	return ip->family == AF_INET ? ip->bytes[0] == 127
				     : ip->family == AF_INET6 && !memcmp(ip->bytes, v6, 16);
}

bool iface_is_global(const struct iface_ip *ip)
{
	static const struct {
		const char *net;
		int prefix;
	} not_global[] = { { "127.0.0.0", 8 },
			   { "169.254.0.0", 16 },
			   { "0.0.0.0", 8 },
			   { "::", 127 },
			   { "fe80::", 10 } };
	struct iface_ip net;

	for (size_t i = 0; i < sizeof(not_global) / sizeof(not_global[0]); i++)
		if (iface_parse(&net, not_global[i].net) &&
		    iface_within(ip, &net, not_global[i].prefix))
			return false;
	return ip->family != 0;
}

static const char *const kind_texts[] = {
#define X(name, text) text,
	IFACE_KINDS(X)
#undef X
};

const char *iface_state_text(const struct iface *i)
{
	if (!(i->flags & IFF_UP))
		return "down";
	return i->flags & IFF_RUNNING ? "running" : "idle";
}

const char *iface_kind_text(enum iface_kind k)
{
	return kind_texts[k];
}

enum iface_kind iface_kind_find(const char *text)
{
	for (int k = 0; k < IFACE_KIND_COUNT; k++)
		if (!strcmp(kind_texts[k], text))
			return (enum iface_kind)k;
	return IFACE_OTHER;
}

unsigned iface_flag(const char *text)
{
	for (int i = 0; flags[i].text; i++)
		if (!strcmp(flags[i].text, text))
			return flags[i].bit;
	return 0;
}

const char *iface_flag_at(int n, unsigned *bit)
{
	*bit = flags[n].bit;
	return flags[n].text;
}
