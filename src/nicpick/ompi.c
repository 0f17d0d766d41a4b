/* ompi.c - Open MPI 4.1 and 5: btl/tcp for data, oob/tcp for the control of the job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/release.h"
#include "host/netconf.h"
#include "nicpick/picker.h"

static const char btl_include[] = "OMPI_MCA_btl_tcp_if_include";
static const char btl_exclude[] = "OMPI_MCA_btl_tcp_if_exclude";
static const char oob_include[] = "OMPI_MCA_oob_tcp_if_include";
static const char oob_exclude[] = "OMPI_MCA_oob_tcp_if_exclude";
static const char no_family[] = "OMPI_MCA_btl_tcp_disable_family";
/* Open MPI 5 leaves control to PRRTE; the names with oob are its older ones. */
static const char prte_include[] = "PRTE_MCA_prte_if_include";
static const char prte_exclude[] = "PRTE_MCA_prte_if_exclude";
static const char prte_oob_include[] = "PRTE_MCA_oob_tcp_if_include";
static const char prte_oob_exclude[] = "PRTE_MCA_oob_tcp_if_exclude";

/* What mpirun exits with. */
enum { RANKS_APART_4 = 1, RANKS_APART_5 = 14, NO_CONTROL_4 = 1, NO_CONTROL_5 = 213 };

/* One piece of a comma-separated list; blanks belong to it. */
/*
 * Of several IPv4 addresses under one label Open MPI sees the first each time: it asks the
 * kernel for the address in a structure whose family the interface's index has overwritten
 * before.  Only index 2, which is AF_INET, lets it see each.
 */
static bool is_hidden(const struct iface_list *l, const struct iface_addr *a)
{
	const struct iface_addr *i;

	if ((l->ifaces[a->iface].index & 0xffff) == AF_INET)
		return false;
	for (i = l->addrs; i < a; i++)
		if (i->iface == a->iface && i->ip.family == AF_INET &&
		    !strcmp(i->label, a->label))
			return true;
	return false;
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
	return flags & IFF_UP && !(flags & IFF_SLAVE) && !is_hidden(l, a);
}

/* "10.0.0.0/24"; true if it is one. */
static bool parse_net(const struct picker_item *x, struct iface_ip *net, int *prefix)
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
static bool in_net(const struct iface_list *l, const char *label, const struct picker_item *x)
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

static bool is_name(const struct picker_item *x)
{
	return isalpha((unsigned char)*x->text);
}

static bool names_exactly(const struct picker_item *x, const char *label)
{
	return (int)strlen(label) == x->len && !strncmp(label, x->text, (size_t)x->len);
}

static bool has_label(const struct iface_list *l, const struct picker_item *x)
{
	int i;

	for (i = 0; i < l->naddrs; i++)
		if (is_known(l, &l->addrs[i]) && names_exactly(x, l->addrs[i].label))
			return true;
	return false;
}

static bool net_has_any(const struct iface_list *l, const struct picker_item *x)
{
	int i;

	for (i = 0; i < l->naddrs; i++)
		if (in_net(l, l->addrs[i].label, x))
			return true;
	return false;
}

/* The include list after Open MPI has sorted out what it does not understand. */
struct include {
	bool any;                   /* something is left          */
	struct picker_item missing; /* a name that does not exist */
	struct picker_item dropped; /* an entry it passes over    */
};

static struct include weigh(const struct iface_list *l, const char *list)
{
	struct include w = { 0 };
	struct picker_item x;

	while (picker_next(&list, &x)) {
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
	struct picker_item x;

	while (picker_next(&list, &x))
		if (is_name(&x) ? names_exactly(&x, label) : in_net(l, label, &x))
			return true;
	return false;
}

/* Does the net of @x, turned into names, name the beginning of @label? */
static bool begins_like_one_of(const struct iface_list *l, const char *label,
			       const struct picker_item *x)
{
	int i;

	for (i = 0; i < l->naddrs; i++) {
		const char *name = l->addrs[i].label;

		if (!strncmp(label, name, strlen(name)) && in_net(l, name, x))
			return true;
	}
	return false;
}

/* In the exclude list of btl/tcp names are prefixes, unlike anywhere else, and also those
 * that a net became: the default's 127.0.0.1/8 is lo, and takes lowlat0 along. */
static bool is_excluded(const struct iface_list *l, const char *list, const char *label)
{
	struct picker_item x;

	while (picker_next(&list, &x))
		if (is_name(&x) ? !strncmp(label, x.text, (size_t)x.len)
				: begins_like_one_of(l, label, &x))
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

static bool is_5(const struct picked *p)
{
	return picker_since(p, "5");
}

static void btl_refuse(struct picked *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The ranks start, and end when the first message finds no way. */
static void btl_refuse(struct picked *p, const char *fmt, ...)
{
	char why[PICKER_RULE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	picker_refuse(&p->roles[0], "%s", why);
	picker_result(&p->roles[0], is_5(p) ? RANKS_APART_5 : RANKS_APART_4,
		      "At least one pair of MPI processes are unable to reach each other for "
		      "MPI communications.");
}

static bool is_disabled(const struct netconf *c, const struct iface_addr *a)
{
	const char *family = value(c, no_family);

	return family && atoi(family) == (a->ip.family == AF_INET ? 4 : 6);
}

/* Does role @r hold an address of the interface of @a already? */
static bool has_iface(const struct pick_role *r, const struct iface_list *l,
		      const struct iface_addr *a)
{
	int n, i;

	for (n = 0; n < r->npicks; n++)
		for (i = 0; i < l->naddrs; i++)
			if (l->addrs[i].iface == a->iface &&
			    !strcmp(l->addrs[i].label, r->picks[n].interface))
				return true;
	return false;
}

/* Open MPI 4.1 publishes every address of an interface, 5 the first. */
static void add_btl(const struct iface_list *l, const struct netconf *c, struct picked *p,
		    bool by_include)
{
	const char *include = value(c, btl_include), *exclude = excluded(c);
	struct pick_role *r = &p->roles[0];
	int i, pass;

	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < l->naddrs; i++) {
			const struct iface_addr *a = &l->addrs[i];

			if (is_turn(a, pass) && is_known(l, a) && !is_disabled(c, a) &&
			    (by_include ? is_included(l, include, a->label)
					: !is_excluded(l, exclude, a->label)) &&
			    !(is_5(p) && has_iface(r, l, a)))
				picker_add(p, r, is_5(p) ? l->ifaces[a->iface].name : a->label,
					   &a->ip);
		}
}

/* Two IPv4 addresses on one interface: one is published, the other is bound. */
static void warn_two(const struct iface_list *l, struct picked *p)
{
	struct pick_role *r = &p->roles[0];
	int i, k, n;

	for (i = 0; !is_5(p) && i < l->nifaces; i++) {
		for (n = k = 0; k < l->naddrs; k++)
			n += l->addrs[k].iface == i && l->addrs[k].ip.family == AF_INET &&
			     is_known(l, &l->addrs[k]);
		if (n < 2 || l->ifaces[i].flags & IFF_LOOPBACK ||
		    !has_iface(r, l, &(struct iface_addr){ .iface = i }))
			continue;
		picker_note(r,
			    "beware: %s has %d IPv4 addresses, with which Open MPI 4.1 hangs",
			    l->ifaces[i].name, n);
	}
}

static void pick_btl(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	const char *include = value(c, btl_include);
	struct pick_role *r = &p->roles[0];
	struct include w = weigh(l, include ? include : "");

	if (netconf_get(c, btl_include) && netconf_get(c, btl_exclude)) {
		btl_refuse(p, "btl_tcp_if_include and btl_tcp_if_exclude are both set: the TCP "
			      "BTL closes itself");
		return;
	}
	if (w.missing.text) {
		btl_refuse(p,
			   "btl_tcp_if_include=%.60s: there is no %.*s, and one unknown name "
			   "ends the whole TCP BTL",
			   include, w.missing.len < 80 ? w.missing.len : 80, w.missing.text);
		return;
	}
	if (w.dropped.text)
		picker_note(r, "beware: '%.*s' of btl_tcp_if_include is passed over%s",
			    w.dropped.len < 80 ? w.dropped.len : 80, w.dropped.text,
			    w.any ? "" : ", so everything not excluded is used");
	add_btl(l, c, p, w.any);
	warn_two(l, p);
	if (!r->npicks)
		btl_refuse(p,
			   "no interface is left: ranks on other hosts cannot be reached "
			   "(btl/tcp excludes %.80s)",
			   excluded(c));
}

/* oob: nets become names, and a name stands for all addresses of its interface. */
static bool oob_matches(const struct iface_list *l, const char *list,
			const struct iface_addr *a)
{
	int i;

	for (i = 0; i < l->naddrs; i++)
		if (l->addrs[i].iface == a->iface && is_known(l, &l->addrs[i]) &&
		    is_included(l, list, l->addrs[i].label))
			return true;
	return is_included(l, list, l->ifaces[a->iface].name);
}

static bool is_loopback(const struct iface_addr *a)
{
	return a->ip.family == AF_INET && a->ip.bytes[0] == 127;
}

/* The setting that is in force for control: @name, or PRRTE's older @other. */
static const char *control(const struct netconf *c, const char *name, const char *other)
{
	const struct netconf_row *r = netconf_get(c, name);

	if (!r && other)
		r = netconf_get(c, other);
	return r ? r->value : NULL;
}

struct lists {
	const char *include, *exclude; /* NULL: not set */
};

static struct lists control_lists(const struct netconf *c, const struct picked *p)
{
	if (is_5(p))
		return (struct lists){ control(c, prte_include, prte_oob_include),
				       control(c, prte_exclude, prte_oob_exclude) };
	return (struct lists){ control(c, oob_include, NULL), control(c, oob_exclude, NULL) };
}

static void oob_refuse(struct picked *p, const char *why, const char *list)
{
	picker_refuse(&p->roles[1], "%s%.80s", why, list);
	picker_result(&p->roles[1], is_5(p) ? NO_CONTROL_5 : NO_CONTROL_4,
		      "No network interfaces were found for out-of-band communications.");
}

static bool is_control(const struct iface_list *l, const struct picked *p,
		       const struct lists *x, const struct iface_addr *a, bool only)
{
	if (!is_known(l, a) || !strncmp(a->label, "vir", 3))
		return false;
	if (is_loopback(a) && !only && (is_5(p) || (!x->include && !x->exclude)))
		return false;
	if (x->include)
		return oob_matches(l, x->include, a);
	return !x->exclude || !oob_matches(l, x->exclude, a);
}

/* A list is none if it is empty, or holds only nets where nothing is. */
static struct lists without_nothing(const struct iface_list *l, struct lists x)
{
	if (x.include && !weigh(l, x.include).any)
		x.include = NULL;
	if (x.exclude && !weigh(l, x.exclude).any)
		x.exclude = NULL;
	return x;
}

static void pick_oob(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	struct lists x = control_lists(c, p);
	const char *given = x.include && *x.include ? x.include : NULL;
	struct pick_role *r = &p->roles[1];
	int i, pass, known = 0;

	if (x.include && x.exclude) {
		oob_refuse(p, "an include and an exclude list are both set: ", x.include);
		p->roles[1].result = NO_CONTROL_4;
		return;
	}
	x = without_nothing(l, x);
	for (i = 0; i < l->naddrs; i++)
		known += is_known(l, &l->addrs[i]);
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < l->naddrs; i++)
			if (is_turn(&l->addrs[i], pass) &&
			    is_control(l, p, &x, &l->addrs[i], known < 2))
				picker_add(p, r, l->addrs[i].label, &l->addrs[i].ip);
	if (given && !x.include)
		picker_note(r, "beware: nothing is in %.80s, so it is passed over", given);
	if (!r->npicks)
		oob_refuse(p,
			   x.include ? "no interface is left for mpirun's own connections: "
				     : "no interface is left for mpirun's own connections",
			   x.include ? x.include : "");
	if (is_5(p) && control(c, oob_include, oob_exclude))
		picker_note(r, "OMPI_MCA_oob_* has no effect on Open MPI 5; "
			       "PRTE_MCA_prte_if_include has");
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
	struct lists x = without_nothing(l, control_lists(c, p));

	if (is_used(&p->roles[1], l, i))
		picker_rule(p, i, true, "oob: published");
	else if (*p->roles[1].error)
		picker_rule(p, i, false, "oob: nothing is left");
	else if (!strncmp(l->ifaces[i].name, "vir", 3))
		picker_rule(p, i, false, "oob: names that begin with vir are skipped");
	else if (x.include)
		picker_rule(p, i, false, "oob: the include list does not name it");
	else if (l->ifaces[i].flags & IFF_LOOPBACK)
		picker_rule(p, i, false,
			    "oob: loopback is dropped where there is something else");
	else
		picker_rule(p, i, false, "oob: the exclude list names it");
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
static const char *const listens[] = { btl_include,  btl_exclude,      no_family,
				       oob_include,  oob_exclude,      prte_include,
				       prte_exclude, prte_oob_include, prte_oob_exclude,
				       NULL };

/* 4.1 knows no PRRTE.  5 still shows what it is given for oob: a trap worth a note. */
static bool hears(const struct netconf *all, struct netconf_row *row, const char *version)
{
	(void)all;
	return release_compare(version, "5") >= 0 || strncmp(row->name, "PRTE_", 5);
}

const struct picker picker_ompi = {
	.name = "openmpi",
	.title = "Open MPI",
	.oldest = "4.1",
	.newest = "5.0.11",
	.hears = hears,
	.settings = listens,
	.roles = roles,
	.pick = pick,
};
