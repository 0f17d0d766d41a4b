/* linkwatch.c - notice changes to links, addresses and routes, through netlink. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/linkwatch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"

int linkwatch_open(struct err *e)
{
	struct sockaddr_nl all = { .nl_family = AF_NETLINK,
				   .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
						RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
						RTMGRP_IPV6_ROUTE };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&all, sizeof(all)))
		return fd;
	fail_os(e, "cannot watch the network");
	if (fd >= 0)
		close(fd);
	return -1;
}

void linkwatch_drain(int fd)
{
	char sink[32768];

	/* ENOBUFS, an overflow, ends the loop like an empty queue: more will come or is here.
	 */
	while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

/* The caller's callback and its data, passed on together. */
struct listener {
	linkwatch_said *on;
	void *data;
};

static void linkwatch_say(const struct listener *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void linkwatch_say(const struct listener *l, const char *fmt, ...)
{
	char text[LINKWATCH_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	l->on(l->data, text);
}

/* The same link in @l, found by index, which a renamed link keeps. */
static const struct iface *same_link(const struct iface_list *l, const struct iface *f)
{
	int at = iface_position(l, f->index);

	return at < 0 ? NULL : &l->ifaces[at];
}

static void compare_link(const struct iface *was, const struct iface *is,
			 const struct listener *to)
{
	if (strcmp(was->name, is->name) != 0)
		linkwatch_say(to, "%s is now called %s", was->name, is->name);
	if (strcmp(iface_state_text(was), iface_state_text(is)) != 0)
		linkwatch_say(to, "%s is %s, was %s", is->name, iface_state_text(is),
			      iface_state_text(was));
	if (was->mtu != is->mtu)
		linkwatch_say(to, "%s has mtu %d, had %d", is->name, is->mtu, was->mtu);
	if (strcmp(was->mac, is->mac) != 0)
		linkwatch_say(to, "%s has hardware address %s, had %s", is->name, is->mac,
			      was->mac);
	if (was->master != is->master)
		linkwatch_say(to, "%s %s a bridge or bond", is->name,
			      is->master ? "joined" : "left");
}

static void compare_links(const struct iface_list *before, const struct iface_list *after,
			  const struct listener *to)
{
	const struct iface *other;

	for (int i = 0; i < before->nifaces; i++)
		if (!same_link(after, &before->ifaces[i]))
			linkwatch_say(to, "%s is gone", before->ifaces[i].name);
	for (int i = 0; i < after->nifaces; i++) {
		other = same_link(before, &after->ifaces[i]);
		if (other)
			compare_link(other, &after->ifaces[i], to);
		else
			linkwatch_say(to, "%s is new, %s", after->ifaces[i].name,
				      iface_state_text(&after->ifaces[i]));
	}
}

static bool has_address(const struct iface_list *l, const struct iface_addr *a, int index)
{
	for (int i = 0; i < l->naddrs; i++)
		if (iface_same(&l->addrs[i].ip, &a->ip) && l->addrs[i].prefix == a->prefix &&
		    l->ifaces[l->addrs[i].iface].index == index)
			return true;
	return false;
}

static void compare_addresses(const struct iface_list *from, const struct iface_list *with,
			      const char *verb, const struct listener *to)
{
	char text[IFACE_TEXT];

	for (int i = 0; i < from->naddrs; i++) {
		const struct iface_addr *a = &from->addrs[i];
		const struct iface *f = &from->ifaces[a->iface];

		if (!has_address(with, a, f->index))
			linkwatch_say(to, "%s %s %s/%d", f->name, verb,
				      iface_text(&a->ip, text), a->prefix);
	}
}

static bool has_route(const struct iface_list *l, const struct iface_route *r, int index)
{
	const struct iface_route *o;

	for (int i = 0; i < l->nroutes; i++) {
		o = &l->routes[i];
		if (iface_same(&o->to, &r->to) && o->prefix == r->prefix &&
		    o->metric == r->metric && iface_same(&o->via, &r->via) &&
		    l->ifaces[o->iface].index == index)
			return true;
	}
	return false;
}

static void say_route(const struct iface_list *l, const struct iface_route *r, const char *verb,
		      const struct listener *to)
{
	char net[IFACE_TEXT], via[IFACE_TEXT] = "";
	bool has_via = r->via.family != 0;

	if (has_via)
		iface_text(&r->via, via);
	if (r->prefix)
		linkwatch_say(to, "the route to %s/%d by %s%s%s %s", iface_text(&r->to, net),
			      r->prefix, l->ifaces[r->iface].name, has_via ? " via " : "", via,
			      verb);
	else
		linkwatch_say(to, "the default route by %s%s%s %s", l->ifaces[r->iface].name,
			      has_via ? " via " : "", via, verb);
}

static void compare_routes(const struct iface_list *from, const struct iface_list *with,
			   const char *verb, const struct listener *to)
{
	for (int i = 0; i < from->nroutes; i++)
		if (!has_route(with, &from->routes[i],
			       from->ifaces[from->routes[i].iface].index))
			say_route(from, &from->routes[i], verb, to);
}

void linkwatch_compare(const struct iface_list *before, const struct iface_list *after,
		       linkwatch_said *on, void *data)
{
	struct listener to = { on, data };

	compare_links(before, after, &to);
	compare_addresses(before, after, "lost", &to);
	compare_addresses(after, before, "has", &to);
	compare_routes(before, after, "is gone", &to);
	compare_routes(after, before, "is new", &to);
}
