/* ompi.c - Open MPI 4.1: btl/tcp for data, oob/tcp for the control of the job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host/netconf.h"
#include "nicpick/picker.h"

static const char btl_include[] = "OMPI_MCA_btl_tcp_if_include";
static const char btl_exclude[] = "OMPI_MCA_btl_tcp_if_exclude";
static const char oob_include[] = "OMPI_MCA_oob_tcp_if_include";
static const char oob_exclude[] = "OMPI_MCA_oob_tcp_if_exclude";

/* One piece of a comma-separated list; blanks belong to it. */
struct entry {
	const char *text;
	int len;
};

static bool next_entry(const char **list, struct entry *x)
{
	while (**list == ',')
		++*list;
	if (!**list)
		return false;
	x->text = *list;
	x->len = (int)strcspn(*list, ",");
	*list += x->len;
	return true;
}

/*
 * Does Open MPI know this address at all?  IPv4 of any interface that is UP
 * (idle bridges too), IPv6 only if global.
 */
static bool is_known(const struct iface_list *l, const struct iface_addr *a)
{
	unsigned flags = l->ifaces[a->iface].flags;

	if (a->ip.family == AF_INET6)
		return a->scope == IFACE_GLOBAL && iface_is_global(&a->ip);
	return flags & IFF_UP && !(flags & IFF_SLAVE);
}

/* "10.0.0.0/24"; true if it is one. */
static bool parse_net(const struct entry *x, struct iface_ip *net, int *prefix)
{
	char text[IFACE_TEXT], *slash, *end;

	if (x->len >= (int)sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", x->len, x->text);
	slash = strchr(text, '/');
	if (!slash)
		return false;
	*slash = 0;
	*prefix = (int)strtol(slash + 1, &end, 10);
	return end != slash + 1 && !*end && iface_parse(net, text) && net->family == AF_INET;
}

/* Is the interface called @label one whose IPv4 address is in the net? */
static bool in_net(const struct iface_list *l, const char *label, const struct entry *x)
{
	struct iface_ip net;
	int prefix, i;

	if (!parse_net(x, &net, &prefix))
		return false;
	for (i = 0; i < l->naddrs; i++)
		if (!strcmp(l->addrs[i].label, label) && is_known(l, &l->addrs[i]) &&
		    iface_within(&l->addrs[i].ip, &net, prefix))
			return true;
	return false;
}

static bool is_name(const struct entry *x)
{
	return isalpha((unsigned char)*x->text);
}

static bool names_exactly(const struct entry *x, const char *label)
{
	return (int)strlen(label) == x->len && !strncmp(label, x->text, (size_t)x->len);
}

static bool has_label(const struct iface_list *l, const struct entry *x)
{
	int i;

	for (i = 0; i < l->naddrs; i++)
		if (is_known(l, &l->addrs[i]) && names_exactly(x, l->addrs[i].label))
			return true;
	return false;
}

static bool net_has_any(const struct iface_list *l, const struct entry *x)
{
	int i;

	for (i = 0; i < l->naddrs; i++)
		if (in_net(l, l->addrs[i].label, x))
			return true;
	return false;
}

/* The include list after Open MPI has sorted out what it does not understand. */
struct include {
	bool any;             /* something is left          */
	struct entry missing; /* a name that does not exist */
	struct entry dropped; /* an entry it passes over    */
};

static struct include weigh(const struct iface_list *l, const char *list)
{
	struct include w = { 0 };
	struct entry x;

	while (next_entry(&list, &x)) {
		if (!is_name(&x) && !net_has_any(l, &x)) {
			w.dropped = x;
			continue;
		}
		w.any = true;
		if (is_name(&x) && !has_label(l, &x) && !w.missing.text)
			w.missing = x;
	}
	return w;
}

static bool is_included(const struct iface_list *l, const char *list, const char *label)
{
	struct entry x;

	while (next_entry(&list, &x))
		if (is_name(&x) ? names_exactly(&x, label) : in_net(l, label, &x))
			return true;
	return false;
}

/* In the exclude list of btl/tcp names are prefixes, unlike anywhere else. */
static bool is_excluded(const struct iface_list *l, const char *list, const char *label)
{
	struct entry x;

	while (next_entry(&list, &x))
		if (is_name(&x) ? !strncmp(label, x.text, (size_t)x.len) : in_net(l, label, &x))
			return true;
	return false;
}

static const char *value(const struct netconf *c, const char *name)
{
	const struct netconf_row *r = netconf_get(c, name);

	return r && *r->value ? r->value : NULL;
}

/* The list in force; an empty one of the user's replaces the default as well. */
static const char *excluded(const struct netconf *c)
{
	const struct netconf_row *r = netconf_get(c, btl_exclude);

	return r ? r->value : "127.0.0.1/8,sppp";
}

/* Open MPI lists IPv6 before IPv4; @pass 0 is the one, 1 the other. */
static bool is_turn(const struct iface_addr *a, int pass)
{
	return (a->ip.family == AF_INET6) == (pass == 0);
}

static void pick_btl(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	const char *include = value(c, btl_include);
	const char *exclude = excluded(c);
	struct pick_role *r = &p->roles[0];
	struct include w = weigh(l, include ? include : "");
	int i, pass;

	if (netconf_get(c, btl_include) && netconf_get(c, btl_exclude)) {
		picker_refuse(r,
			      "btl_tcp_if_include and btl_tcp_if_exclude are both set: the TCP "
			      "BTL closes itself");
		return;
	}
	if (w.missing.text) {
		picker_refuse(
			r,
			"btl_tcp_if_include=%.60s: there is no %.*s, and one unknown name "
			"ends the whole TCP BTL",
			include, w.missing.len, w.missing.text);
		return;
	}
	if (w.dropped.text)
		picker_note(r, "'%.*s' of btl_tcp_if_include is passed over%s", w.dropped.len,
			    w.dropped.text,
			    w.any ? "" : ", so everything not excluded is used");
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < l->naddrs; i++) {
			const struct iface_addr *a = &l->addrs[i];

			if (is_turn(a, pass) && is_known(l, a) &&
			    (w.any ? is_included(l, include, a->label)
				   : !is_excluded(l, exclude, a->label)))
				picker_add(p, r, a->label, &a->ip);
		}
	if (!r->npicks)
		picker_refuse(r,
			      "no interface is left: ranks on other hosts cannot be reached "
			      "(btl/tcp excludes %.80s)",
			      exclude);
}

/* oob: an entry without letters is an address, a net, or the start of one. */
static bool oob_matches(const struct iface_list *l, const char *list,
			const struct iface_addr *a)
{
	struct entry x;

	while (next_entry(&list, &x)) {
		struct iface_ip net = { .family = AF_INET };
		char text[IFACE_TEXT], *s = text, *end;
		int octets = 0, prefix;
		size_t n;

		for (n = 0; (int)n < x.len && !isalpha((unsigned char)x.text[n]); n++)
			;
		if ((int)n < x.len) {
			/* The kernel's name, so an alias counts as its interface. */
			if (names_exactly(&x, l->ifaces[a->iface].name))
				return true;
			continue;
		}
		snprintf(text, sizeof(text), "%.*s", x.len, x.text);
		while (octets < 4 && isdigit((unsigned char)*s)) {
			net.bytes[octets++] = (unsigned char)strtol(s, &end, 10);
			s = end + (*end == '.');
		}
		prefix = *s == '/' ? atoi(s + 1) : 8 * octets;
		if (octets && iface_within(&a->ip, &net, prefix))
			return true;
	}
	return false;
}

static bool is_loopback(const struct iface_addr *a)
{
	return a->ip.family == AF_INET && a->ip.bytes[0] == 127;
}

static void pick_oob(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	const char *include = value(c, oob_include), *exclude = value(c, oob_exclude);
	struct pick_role *r = &p->roles[1];
	int i, pass, known = 0;

	if (netconf_get(c, oob_include) && netconf_get(c, oob_exclude)) {
		picker_refuse(r,
			      "oob_tcp_if_include and oob_tcp_if_exclude are both set: mpirun "
			      "cannot talk to its ranks");
		return;
	}
	for (i = 0; i < l->naddrs; i++)
		known += is_known(l, &l->addrs[i]);
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < l->naddrs; i++) {
			const struct iface_addr *a = &l->addrs[i];

			if (!is_turn(a, pass) || !is_known(l, a) ||
			    !strncmp(a->label, "vir", 3) ||
			    (include && !oob_matches(l, include, a)) ||
			    (!include && exclude && oob_matches(l, exclude, a)) ||
			    (!include && !exclude && is_loopback(a) && known > 1))
				continue;
			picker_add(p, r, a->label, &a->ip);
		}
	if (!r->npicks)
		picker_refuse(r, "no interface is left for mpirun's own connections%s%.80s",
			      include ? ": oob_tcp_if_include=" : "", include ? include : "");
}

static bool is_used(const struct pick_role *r, const struct iface_list *l, int i)
{
	int n, a;

	for (n = 0; n < r->npicks; n++)
		for (a = 0; a < l->naddrs; a++)
			if (l->addrs[a].iface == i && is_known(l, &l->addrs[a]) &&
			    !strcmp(l->addrs[a].label, r->picks[n].interface))
				return true;
	return false;
}

static bool knows_any(const struct iface_list *l, int i)
{
	int n;

	for (n = 0; n < l->naddrs; n++)
		if (l->addrs[n].iface == i && is_known(l, &l->addrs[n]))
			return true;
	return false;
}

static void explain_btl(struct picked *p, const struct iface_list *l, const struct netconf *c,
			int i)
{
	const char *include = value(c, btl_include), *user = value(c, btl_exclude);
	const char *exclude = excluded(c);

	if (is_used(&p->roles[0], l, i))
		picker_rule(p, i, true, "btl: %s%s",
			    include && weigh(l, include).any ? "btl_tcp_if_include names it"
							     : "up and not excluded",
			    l->ifaces[i].flags & IFF_RUNNING ? "" : ", though not running");
	else if (*p->roles[0].error)
		picker_rule(p, i, false, "btl: the TCP BTL has nothing left");
	else if (include && weigh(l, include).any)
		picker_rule(p, i, false, "btl: btl_tcp_if_include does not name it");
	else
		picker_rule(p, i, false, "btl: btl_tcp_if_exclude=%.60s%s", exclude,
			    user ? "" : ", the default");
}

static void explain_oob(struct picked *p, const struct iface_list *l, const struct netconf *c,
			int i)
{
	const char *include = value(c, oob_include), *exclude = value(c, oob_exclude);

	if (is_used(&p->roles[1], l, i))
		picker_rule(p, i, true, "oob: published");
	else if (*p->roles[1].error)
		picker_rule(p, i, false, "oob: nothing is left");
	else if (!strncmp(l->ifaces[i].name, "vir", 3))
		picker_rule(p, i, false, "oob: names that begin with vir are skipped");
	else if (include)
		picker_rule(p, i, false, "oob: oob_tcp_if_include does not name it");
	else if (exclude)
		picker_rule(p, i, false, "oob: oob_tcp_if_exclude names it");
	else
		picker_rule(p, i, false,
			    "oob: loopback is dropped where there is something else");
}

static void pick(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	int i;

	pick_btl(l, c, p);
	pick_oob(l, c, p);
	for (i = 0; i < l->nifaces; i++) {
		if (!knows_any(l, i)) {
			picker_rule(
				p, i, false, "%s",
				l->ifaces[i].flags & IFF_UP
					? "has no address but link-local ones"
					: "is down, and being up is what Open MPI asks for");
			continue;
		}
		explain_btl(p, l, c, i);
		explain_oob(p, l, c, i);
	}
}

static const char *const roles[] = { "btl", "oob", NULL };
static const char *const listens[] = { btl_include, btl_exclude, oob_include, oob_exclude,
				       NULL };

const struct picker picker_ompi = {
	.name = "openmpi",
	.title = "Open MPI",
	.version = "4.1",
	.settings = listens,
	.roles = roles,
	.pick = pick,
};
