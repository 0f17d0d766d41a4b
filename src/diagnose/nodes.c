/* nodes.c - find the node that owns an address, among recorded nodes or this machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/nodes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"

static struct snapshot *another(struct nodes *l, struct err *e)
{
	struct snapshot *more = realloc(l->node, sizeof(*more) * (size_t)(l->n + 1));

	if (!more) {
		fail(e, RINGUP_ENOMEM, "no memory for the nodes");
		return NULL;
	}
	l->node = more;
	memset(&more[l->n], 0, sizeof(*more));
	return &more[l->n++];
}

int nodes_add(struct nodes *l, const char *path, struct err *e)
{
	struct snapshot *s = another(l, e);

	return s ? snapshot_load(s, path, e) : e->code;
}

int nodes_here(struct nodes *l, const char *root, struct err *e)
{
	struct snapshot *s = another(l, e);

	if (!s)
		return e->code;
	l->live = true;
	gethostname(s->settings.hostname, sizeof(s->settings.hostname) - 1);
	return iface_read(&s->ifaces, root, NULL, e);
}

void nodes_free(struct nodes *l)
{
	for (int i = 0; i < l->n; i++)
		snapshot_free(&l->node[i]);
	free(l->node);
	memset(l, 0, sizeof(*l));
}

const char *nodes_name(const struct nodes *l, int i)
{
	return *l->node[i].settings.hostname ? l->node[i].settings.hostname : "a node";
}

/* A bridge gets the same address on every node from the software that makes it. */
static bool is_bridge(const struct iface_list *l, const struct iface_addr *a)
{
	return l->ifaces[a->iface].kind == IFACE_BRIDGE;
}

static void nodes_say(char *out, size_t size, size_t *at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void nodes_say(char *out, size_t size, size_t *at, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = *at < size ? vsnprintf(out + *at, size - *at, fmt, ap) : 0;
	va_end(ap);
	*at += n > 0 ? (size_t)n : 0;
}

static enum nodes_owner own_live(const struct nodes *l, const struct iface_ip *ip,
				 const char *text, char *out, size_t size)
{
	const struct iface_list *list = &l->node[0].ifaces;
	const struct iface_addr *a = iface_owner(list, ip);
	size_t at = 0;

	if (!a)
		return NODES_UNKNOWN;
	if (is_bridge(list, a)) {
		nodes_say(out, size, &at,
			  "%s is also this node's own %s; a bridge like that has the same "
			  "address on every node",
			  text, list->ifaces[a->iface].name);
		return NODES_SHARED;
	}
	nodes_say(out, size, &at, "%s is %s of this node", text, list->ifaces[a->iface].name);
	return NODES_ONE;
}

static enum nodes_owner own_recorded(const struct nodes *l, const struct iface_ip *ip,
				     const char *text, char *out, size_t size)
{
	int found = 0, shown = 0;
	bool bridge = false;
	size_t at = 0;

	for (int i = 0; i < l->n; i++) {
		const struct iface_list *list = &l->node[i].ifaces;
		const struct iface_addr *a = iface_owner(list, ip);

		if (!a)
			continue;
		bridge |= is_bridge(list, a);
		if (++found == 1)
			nodes_say(out, size, &at, "%s is %s of %s", text,
				  list->ifaces[a->iface].name, nodes_name(l, i));
		else if (shown++ < 3)
			nodes_say(out, size, &at, " and %s of %s", list->ifaces[a->iface].name,
				  nodes_name(l, i));
	}
	if (found > 4)
		nodes_say(out, size, &at, " and %d more", found - 4);
	if (found > 1 && found == l->n)
		nodes_say(out, size, &at, ": of every node");
	if (found == 1 && bridge)
		nodes_say(out, size, &at, ", a bridge");
	if (!found)
		nodes_say(out, size, &at, "%s is not an address of these nodes", text);
	return found > 1 || bridge ? NODES_SHARED : found ? NODES_ONE : NODES_UNKNOWN;
}

/* Recognises default addresses of bridges, the same on every node. */
static enum nodes_owner own_usual(const char *text, char *out, size_t size)
{
	static const char *const usual[][2] = {
		{ "172.17.0.1", "docker" },
		{ "172.18.0.1", "docker" },
		{ "192.168.122.1", "libvirt" },
		{ "10.88.0.1", "podman" },
	};

	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (!strcmp(text, usual[i][0])) {
			snprintf(out, size,
				 "%s is the default bridge address of %s on every node", text,
				 usual[i][1]);
			return NODES_SHARED;
		}
	return NODES_UNKNOWN;
}

enum nodes_owner nodes_own(const struct nodes *l, const char *address, char *out, size_t size)
{
	enum nodes_owner owner = NODES_UNKNOWN;
	struct iface_ip ip;

	*out = 0;
	if (!iface_parse(&ip, address))
		return NODES_UNKNOWN;
	if (iface_is_loopback(&ip)) {
		snprintf(out, size, "%s is the loopback: each node reaches itself", address);
		return NODES_LOOPBACK;
	}
	if (l->n)
		owner = l->live ? own_live(l, &ip, address, out, size)
				: own_recorded(l, &ip, address, out, size);
	return owner == NODES_UNKNOWN && (l->live || !l->n) ? own_usual(address, out, size)
							    : owner;
}

/* IPv4 link-local: the network between a node and its management controller. */
static bool is_link_local(const struct iface_ip *ip)
{
	return ip->family == AF_INET && ip->bytes[0] == 169 && ip->bytes[1] == 254;
}

enum nodes_owner nodes_shared(const struct nodes *l, char *out, size_t size)
{
	const struct iface_list *list;
	char text[IFACE_TEXT];
	enum nodes_owner owner;

	*out = 0;
	if (!l->n)
		return NODES_UNKNOWN;
	list = &l->node[0].ifaces;
	for (int i = 0; i < list->naddrs; i++) {
		const struct iface_ip *ip = &list->addrs[i].ip;

		if (!iface_is_global(ip) && !is_link_local(ip))
			continue;
		iface_text(ip, text);
		owner = nodes_own(l, text, out, size);
		if (owner == NODES_SHARED)
			return owner;
	}
	*out = 0;
	return NODES_UNKNOWN;
}
