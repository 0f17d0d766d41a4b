/* nearend.c - this host's end of a connection that has become silent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/nearend.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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
		snprintf(out, size, "; nothing is plugged into %s (%s) of this host", i->name,
			 text);
	return out[0];
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
