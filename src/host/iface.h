/* iface.h - this machine's interfaces, addresses and routes, live or recorded. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_IFACE_H
#define HOST_IFACE_H

#include <stdbool.h>
#include <stdint.h>

struct err;

enum { IFACE_NAME = 16, IFACE_TEXT = 64, IFACE_MAC = 64 };

/* The kind of an interface, as the kernel reports it, not by its name. */
#define IFACE_KINDS(X)              \
	X(OTHER, "other")           \
	X(PHYSICAL, "physical")     \
	X(LOOPBACK, "loopback")     \
	X(INFINIBAND, "infiniband") \
	X(BOND, "bond")             \
	X(VLAN, "vlan")             \
	X(MACVLAN, "macvlan")       \
	X(BRIDGE, "bridge")         \
	X(VETH, "veth")             \
	X(TUN, "tun")               \
	X(TUNNEL, "tunnel")         \
	X(VXLAN, "vxlan")           \
	X(DUMMY, "dummy")

enum iface_kind {
#define X(name, text) IFACE_##name,
	IFACE_KINDS(X)
#undef X
		IFACE_KIND_COUNT
};

enum iface_scope { IFACE_GLOBAL, IFACE_LINK, IFACE_HOST };

struct iface {
	int index;
	char name[IFACE_NAME];
	unsigned flags; /* IFF_UP, IFF_RUNNING, ... of <net/if.h>        */
	enum iface_kind kind;
	int mtu;
	int speed_mbps; /* -1: unknown                                     */
	int master;     /* index of the bridge or bond it belongs to, or 0 */
	char mac[IFACE_MAC];
};

/* A family and its 4 or 16 bytes in network order. */
struct iface_ip {
	int family; /* AF_INET, AF_INET6; 0: none */
	unsigned char bytes[16];
	uint32_t scope_id; /* IPv6 link-local: the interface's index, else 0 */
};

struct iface_addr {
	int iface;              /* position in ifaces[]                        */
	char label[IFACE_NAME]; /* getifaddrs' name: "eth0", or an alias "eth0:1" */
	struct iface_ip ip;
	int prefix;
	enum iface_scope scope;
	int turn; /* in SIOCGIFCONF or /proc/net/if_inet6, from 1; 0: unknown */
};

struct iface_route {
	struct iface_ip to;
	int prefix; /* 0: a default route */
	int iface;  /* position in ifaces[] */
	int64_t metric;
	struct iface_ip via; /* family 0: on the link */
};

/*
 * Everything about interfaces that a decision may rest on.  Decisions take
 * only this, so they are the same for a live machine and for a recorded one.
 * Both orders are the kernel's, because libraries depend on them: links by
 * index; addresses as getifaddrs(3) lists them, all of IPv4 before IPv6.  The
 * older interfaces list each family in another order: iface_addr's turn.
 */
struct iface_list {
	struct iface *ifaces;
	int nifaces;
	struct iface_addr *addrs;
	int naddrs;
	struct iface_route *routes; /* of the main table */
	int nroutes;
};

/*
 * iface_read - read all interfaces, addresses and routes from the kernel.
 *
 * @root stands in front of /sys (speeds and kinds).  @peer, if not NULL, is a
 * numeric address; the route to it is asked for by itself, so that policy
 * routing counts, and becomes a route of full length in the list.
 *
 * Ownership: the contents are the caller's until iface_free(), also on failure.
 */
int iface_read(struct iface_list *l, const char *root, const char *peer, struct err *e);
void iface_free(struct iface_list *l);

/* iface_sysfs - fill in from /sys below @root fields that netlink lacks: speed,
 * and the kind if it is still IFACE_OTHER.  A /sys that describes another
 * network namespace (other index under the same name) is not believed. */
void iface_sysfs(struct iface *i, const char *root);

/* iface_add, iface_add_addr, iface_add_route - append, when a list is not read
 * from the kernel; return the zeroed element, or NULL without memory. */
struct iface *iface_add(struct iface_list *l);
struct iface_addr *iface_add_addr(struct iface_list *l);
struct iface_route *iface_add_route(struct iface_list *l);

/* Lookups; NULL, or -1, if there is none. */
const struct iface *iface_find(const struct iface_list *l, const char *name);
int iface_position(const struct iface_list *l, int index);
const struct iface_addr *iface_owner(const struct iface_list *l, const struct iface_ip *ip);

/* iface_route - longest prefix, then lowest metric, then first. */
const struct iface_route *iface_route(const struct iface_list *l, const struct iface_ip *to);

/* iface_parse - "10.0.0.5", "fe80::1%eth0"; false if it is not numeric. */
bool iface_parse(struct iface_ip *ip, const char *text);

/* iface_parse_recorded - the same for another machine's address: a scope by name would mean
 * an interface of this machine, so it has to be a number. */
bool iface_parse_recorded(struct iface_ip *ip, const char *text);

/* iface_text - numeric, with %index for a scoped address; returns @out. */
const char *iface_text(const struct iface_ip *ip, char out[IFACE_TEXT]);

/* iface_net_text - the network of @prefix bits that @ip is in: "10.0.0.0/24"; returns @out. */
const char *iface_net_text(const struct iface_ip *ip, int prefix, char out[IFACE_TEXT]);

bool iface_same(const struct iface_ip *a, const struct iface_ip *b);
bool iface_within(const struct iface_ip *ip, const struct iface_ip *net, int prefix);

/* iface_is_loopback - in 127.0.0.0/8, or ::1. */
bool iface_is_loopback(const struct iface_ip *ip);

/* iface_is_global - usable between hosts: neither loopback nor link-local. */
bool iface_is_global(const struct iface_ip *ip);

/* iface_state_text - "down", "idle" (up, but nothing is plugged in) or "running". */
const char *iface_state_text(const struct iface *i);

const char *iface_kind_text(enum iface_kind k);
enum iface_kind iface_kind_find(const char *text); /* IFACE_OTHER if unknown */

/* iface_flag - bit for "RUNNING"; iface_flag_at lists them: NULL ends. */
unsigned iface_flag(const char *text);
const char *iface_flag_at(int n, unsigned *bit);

#endif
