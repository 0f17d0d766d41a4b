/* nearend.c - diagnose this host's end of a connection that has become silent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/nearend.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

bool nearend_fault(const struct iface_list *l, const struct iface_ip *ip, char *out,
		   size_t size)
{
	const struct iface_addr *a = iface_owner(l, ip);
	const struct iface *i = a ? &l->ifaces[a->iface] : NULL;
	char text[IFACE_TEXT];

	out[0] = 0;
	iface_text(ip, text);
	if (!i)
		snprintf(out, size, "; no interface of this host has %s any more", text);
	else if (!(i->flags & IFF_UP))
		snprintf(out, size, "; %s (%s) is down on this host", i->name, text);
	else if (!(i->flags & IFF_RUNNING))
		snprintf(out, size, "; %s (%s) has no link on this host", i->name, text);
	return out[0];
}

static const struct iface *loopback_of(const struct iface_list *l)
{
	for (int i = 0; i < l->nifaces; i++)
		if (l->ifaces[i].kind == IFACE_LOOPBACK || l->ifaces[i].flags & IFF_LOOPBACK)
			return &l->ifaces[i];
	return NULL;
}

bool nearend_self(const struct iface_list *l, const struct iface_ip *ip, char *out, size_t size)
{
	const struct iface *lo = loopback_of(l);
	bool owned = iface_owner(l, ip), local = iface_is_loopback(ip);
	/* lo with any address of 127.0.0.0/8 has all of it. */
	struct iface_ip first = *ip;
	char text[IFACE_TEXT];

	out[0] = 0;
	if (local && ip->family == AF_INET)
		iface_parse(&first, "127.0.0.1");
	iface_text(&first, text);
	if (!owned && !local)
		return false;
	if (!lo || !(lo->flags & IFF_UP))
		snprintf(out, size,
			 "the loopback interface of this host is down: ip link set lo up "
			 "(root)");
	else if (!owned && !iface_owner(l, &first))
		snprintf(out, size, "this host has no %s: ip addr add %s/%d dev lo (root)",
			 text, text, ip->family == AF_INET ? 8 : 128);
	return true;
}

static bool ip_of(const struct sockaddr_storage *a, struct iface_ip *ip)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;

	*ip = (struct iface_ip){ .family = a->ss_family };
	if (a->ss_family == AF_INET) {
		memcpy(ip->bytes, &v4->sin_addr, 4);
	} else if (a->ss_family == AF_INET6) {
		memcpy(ip->bytes, &v6->sin6_addr, 16);
		ip->scope_id = v6->sin6_scope_id;
	}
	return a->ss_family == AF_INET || a->ss_family == AF_INET6;
}

bool nearend_look(int fd, char *out, size_t size)
{
	struct sockaddr_storage a = { 0 };
	socklen_t len = sizeof(a);
	struct iface_list l;
	struct iface_ip ip;
	struct err e;

	out[0] = 0;
	if (getsockname(fd, (struct sockaddr *)&a, &len) || !ip_of(&a, &ip))
		return false;
	if (!iface_read(&l, NULL, NULL, &e))
		nearend_fault(&l, &ip, out, size);
	iface_free(&l);
	return out[0];
}

bool nearend_look_self(const struct sockaddr_storage *to, char *out, size_t size)
{
	struct iface_list l;
	struct iface_ip ip;
	bool own = false;
	struct err e;

	out[0] = 0;
	if (!ip_of(to, &ip))
		return false;
	if (!iface_read(&l, NULL, NULL, &e))
		own = nearend_self(&l, &ip, out, size);
	iface_free(&l);
	return own;
}
