/* ompi.c - the picker for Open MPI 4.1 and 5: btl/tcp for data, oob/tcp for control. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
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
/* Open MPI 5 delegates control to PRRTE. */
#define PRTE_NAMES(what) \
	"PRTE_MCA_prte_if_" what, "PRTE_MCA_oob_tcp_" what, "PRTE_MCA_oob_tcp_if_" what
static const char *const prte_include[] = { PRTE_NAMES("include") };
static const char *const prte_exclude[] = { PRTE_NAMES("exclude") };

/* mpirun's exit statuses. */
enum { RANKS_APART_4 = 1, RANKS_APART_5 = 14, NO_CONTROL_4 = 1, NO_CONTROL_5 = 213 };
enum { BOTH_SET = 1, SEGFAULT = 139 };

/* Since this version PRRTE crashes when it adds a second name to its own list. */
static const char bears_one_name[] = "5.0.8";

/*
 * The addresses as Open MPI lists them, in its order: IPv6 of global scope by
 * /proc/net/if_inet6, then IPv4 of interfaces that are UP (idle bridges too) by SIOCGIFCONF.
 *
 * Of several IPv4 addresses under one label it sees the first each time: it asks the kernel for
 * the address in a structure whose family the interface's index has overwritten before.  Only
 * with index 2, which is AF_INET, does it see each.
 */
struct known {
	const struct iface_list *l;
	const struct iface_addr **at;
	int n;
};

static bool is_site_local(const struct iface_ip *ip)
{
	return ip->bytes[0] == 0xfe && (ip->bytes[1] & 0xc0) == 0xc0;
}

static bool ompi_is_known(const struct iface_list *l, const struct iface_addr *a)
{
	unsigned flags = l->ifaces[a->iface].flags;

	if (a->ip.family == AF_INET6)
		return a->scope == IFACE_GLOBAL && !is_site_local(&a->ip);
	return flags & IFF_UP && !(flags & IFF_SLAVE);
}

static const struct iface_addr *seen_as(const struct known *k, const struct iface_addr *a)
{
	if (a->ip.family == AF_INET6 || (k->l->ifaces[a->iface].index & 0xffff) == AF_INET)
		return a;
	for (int i = 0; i < k->n; i++)
		if (k->at[i]->iface == a->iface && k->at[i]->ip.family == AF_INET &&
		    !strcmp(k->at[i]->label, a->label))
			return k->at[i];
	return a;
}

/* The next address of @family after turn @after. */
static const struct iface_addr *next_turn(const struct iface_list *l, int family,
					  const struct iface_addr *after)
{
	const struct iface_addr *a, *best = NULL;

	for (int i = 0; i < l->naddrs; i++) {
		a = &l->addrs[i];
		if (a->ip.family == family && ompi_is_known(l, a) &&
		    (!after || a->turn > after->turn ||
		     (a->turn == after->turn && a > after)) &&
		    (!best || a->turn < best->turn))
			best = a;
	}
	return best;
}

static bool known_init(struct known *k, const struct iface_list *l)
{
	const struct iface_addr *a;

	*k = (struct known){ .l = l, .at = calloc((size_t)l->naddrs + 1, sizeof(*k->at)) };
	if (!k->at)
		return false;
	for (a = NULL; (a = next_turn(l, AF_INET6, a));)
		k->at[k->n++] = a;
	for (a = NULL; (a = next_turn(l, AF_INET, a)); k->n++)
		k->at[k->n] = seen_as(k, a);
	return true;
}

/* The first address of an interface, by position or by name; NULL: none. */
static const struct iface_addr *first_of(const struct known *k, int iface)
{
	for (int i = 0; i < k->n; i++)
		if (k->at[i]->iface == iface)
			return k->at[i];
	return NULL;
}

static const struct iface_addr *first_called(const struct known *k,
					     const struct picker_item *name)
{
	for (int i = 0; i < k->n; i++)
		if ((int)strlen(k->at[i]->label) == name->len &&
		    !strncmp(k->at[i]->label, name->text, (size_t)name->len))
			return k->at[i];
	return NULL;
}

/* Parses "10.0.0.0/24", with any text after the number.  The mask is made by shifts that the
 * processor takes modulo 32: /32, like /0 or no number, matches everything. */
static bool parse_net(const struct picker_item *x, struct iface_ip *net, uint32_t *mask)
{
	const char *slash = memchr(x->text, '/', (size_t)x->len);
	char text[IFACE_TEXT];
	uint32_t prefix;

	if (!slash || slash - x->text >= (int)sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)(slash - x->text), x->text);
	prefix = (uint32_t)strtol(slash + 1, NULL, 10);
	*mask = ((UINT32_C(1) << (prefix & 31)) - 1) << (-prefix & 31);
	return iface_parse(net, text) && net->family == AF_INET;
}

static bool in_net(const struct iface_addr *a, const struct iface_ip *net, uint32_t mask)
{
	uint32_t x, y;

	memcpy(&x, a->ip.bytes, sizeof(x));
	memcpy(&y, net->bytes, sizeof(y));
	return a->ip.family == AF_INET && !((x ^ y) & htonl(mask));
}

enum { MOST_NAMES = 2048 };

/* A user's list after Open MPI has replaced nets by names. */
struct names {
	struct picker_item at[MOST_NAMES]; /* each once */
	int n;
	struct picker_item dropped; /* an entry that it ignores   */
	struct picker_item missing; /* a name that does not exist */
};

static void add_name(struct names *s, const struct picker_item *x)
{
	for (int i = 0; i < s->n; i++)
		if (s->at[i].len == x->len && !strncmp(s->at[i].text, x->text, (size_t)x->len))
			return;
	if (s->n < MOST_NAMES)
		s->at[s->n++] = *x;
}

/* PRRTE compares a net only with the first address of each interface. */
static bool add_net(struct names *s, const struct known *k, const struct picker_item *x,
		    bool only_first)
{
	struct iface_ip net;
	uint32_t mask;
	bool any = false;

	if (!parse_net(x, &net, &mask))
		return false;
	for (int i = 0; i < k->n; i++) {
		const struct iface_addr *a =
			only_first ? first_of(k, k->at[i]->iface) : k->at[i];

		if (!in_net(a, &net, mask))
			continue;
		any = true;
		add_name(s, &(struct picker_item){ a->label, (int)strlen(a->label) });
	}
	return any;
}

static void names_init(struct names *s, const struct known *k, const char *list,
		       bool only_first)
{
	struct picker_item x;

	memset(s, 0, sizeof(*s));
	while (list && s->n < MOST_NAMES && picker_next(&list, &x)) {
		if (picker_item_is_name(&x)) {
			add_name(s, &x);
			if (!first_called(k, &x) && !s->missing.text)
				s->missing = x;
		} else if (!add_net(s, k, &x, only_first) && !s->dropped.text) {
			s->dropped = x;
		}
	}
}

/* Only in btl/tcp's exclude list are names prefixes, also those that replaced a net: the
 * default's 127.0.0.1/8 becomes lo, and also excludes lowlat0. */
static bool begins_like_one_of(const struct names *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (!strncmp(name, s->at[i].text, (size_t)s->at[i].len))
			return true;
	return false;
}

static const char *value(const struct netconf *c, const char *name)
{
	const struct netconf_row *r = netconf_get(c, name);

	return r && *r->value ? r->value : NULL;
}

/* The list in force; a user's empty list replaces the default as well. */
static const char *excluded(const struct netconf *c)
{
	const struct netconf_row *r = netconf_get(c, btl_exclude);

	return r ? r->value : "127.0.0.1/8,sppp";
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

/* Adds a module for interface @iface, asked for as @name.  4.1 publishes all its addresses, 5
 * the first, and makes no module without one.  Returns whether there is one. */
static bool add_module(const struct known *k, const struct netconf *c, struct picked *p,
		       int iface, const char *name, int len)
{
	const char *family = value(c, no_family);
	char text[IFACE_NAME];
	bool any = !is_5(p);

	snprintf(text, sizeof(text), "%.*s", len, name);
	for (int i = 0; i < k->n; i++) {
		const struct iface_addr *a = k->at[i];

		if (a->iface != iface ||
		    (family && atoi(family) == (a->ip.family == AF_INET ? 4 : 6)))
			continue;
		picker_add_new(p, &p->roles[0], is_5(p) ? text : a->label, &a->ip);
		any = true;
		if (is_5(p))
			break;
	}
	return any;
}

static bool add_included(const struct known *k, const struct netconf *c, struct picked *p,
			 const struct names *include)
{
	bool any = false;

	for (int i = 0; i < include->n; i++)
		any |= add_module(k, c, p, first_called(k, &include->at[i])->iface,
				  include->at[i].text, include->at[i].len);
	return any;
}

static void add_others(const struct known *k, const struct netconf *c, struct picked *p)
{
	struct names exclude;

	names_init(&exclude, k, excluded(c), false);
	for (int i = 0; i < k->n; i++) {
		const struct iface_addr *a = k->at[i];

		if (first_of(k, a->iface) == a && !begins_like_one_of(&exclude, a->label))
			add_module(k, c, p, a->iface, a->label, (int)strlen(a->label));
	}
}

/* Does role @r hold an address of the interface at @iface? */
static bool has_iface(const struct pick_role *r, const struct known *k, int iface)
{
	for (int i = 0; i < k->n; i++)
		for (int n = 0; n < r->npicks && k->at[i]->iface == iface; n++)
			if (!strcmp(k->at[i]->label, r->picks[n].interface))
				return true;
	return false;
}

/* Two IPv4 addresses on one interface: one is published, the other is bound. */
static void warn_two(const struct known *k, struct picked *p)
{
	const struct iface_list *l = k->l;
	struct pick_role *r = &p->roles[0];
	int a, n;

	for (int i = 0; !is_5(p) && i < l->nifaces; i++) {
		for (n = a = 0; a < k->n; a++)
			n += k->at[a]->iface == i && k->at[a]->ip.family == AF_INET;
		if (n < 2 || l->ifaces[i].flags & IFF_LOOPBACK || !has_iface(r, k, i))
			continue;
		picker_note(r,
			    "beware: %s has %d IPv4 addresses, with which Open MPI 4.1 hangs",
			    l->ifaces[i].name, n);
	}
}

static int shown(const struct picker_item *x)
{
	return x->len < 80 ? x->len : 80;
}

/* Picks for btl/tcp; returns whether the include list decides. */
static bool pick_btl(const struct known *k, const struct netconf *c, struct picked *p)
{
	const char *include = value(c, btl_include);
	struct pick_role *r = &p->roles[0];
	bool decides = false;
	struct names s;

	names_init(&s, k, include, false);
	if (netconf_get(c, btl_include) && netconf_get(c, btl_exclude)) {
		btl_refuse(p, "btl_tcp_if_include and btl_tcp_if_exclude are both set: the TCP "
			      "BTL disables itself");
	} else if (s.missing.text) {
		btl_refuse(p,
			   "btl_tcp_if_include=%.60s: no interface %.*s, and one unknown name "
			   "disables the whole TCP BTL",
			   include, shown(&s.missing), s.missing.text);
	} else {
		decides = add_included(k, c, p, &s);
		if (!decides)
			add_others(k, c, p);
		if (s.dropped.text)
			picker_note(r, "beware: '%.*s' of btl_tcp_if_include is ignored%s",
				    shown(&s.dropped), s.dropped.text,
				    decides ? "" : ", so everything not excluded is used");
		warn_two(k, p);
		if (!r->npicks)
			btl_refuse(p,
				   "no interface is left: ranks on other hosts cannot be "
				   "reached (btl/tcp excludes %.80s)",
				   excluded(c));
	}
	return decides;
}

/* An IPv6 address never counts as loopback, since its flags are looked up too early. */
static bool is_loopback(const struct known *k, const struct iface_addr *a)
{
	return a->ip.family == AF_INET && k->l->ifaces[a->iface].flags & IFF_LOOPBACK;
}

/* The lists for control.  PRRTE has three names for each; the last one set counts, even if it
 * is empty. */
struct lists {
	const char *include, *exclude; /* NULL: not set */
};

static const char *last_set(const struct netconf *c, const char *const names[3])
{
	const char *found = NULL;

	for (int i = 0; i < 3; i++)
		if (netconf_get(c, names[i]))
			found = value(c, names[i]);
	return found;
}

static const char *row_value(const struct netconf *c, const char *name)
{
	const struct netconf_row *r = netconf_get(c, name);

	return r ? r->value : NULL;
}

static struct lists control_lists(const struct netconf *c, const struct picked *p)
{
	if (is_5(p))
		return (struct lists){ last_set(c, prte_include), last_set(c, prte_exclude) };
	return (struct lists){ row_value(c, oob_include), row_value(c, oob_exclude) };
}

static void oob_refuse(struct picked *p, const char *why, const char *list)
{
	picker_refuse(&p->roles[1], "%s%.80s", why, list);
	picker_result(&p->roles[1], is_5(p) ? NO_CONTROL_5 : NO_CONTROL_4,
		      "No network interfaces were found for out-of-band communications.");
}

/* A name means all addresses of its interface. */
static bool is_named(const struct known *k, const struct names *s, const struct iface_addr *a)
{
	const struct iface_addr *first;

	for (int i = 0; i < s->n; i++) {
		first = first_called(k, &s->at[i]);
		if (first && first->iface == a->iface)
			return true;
	}
	return false;
}

/* PRRTE keeps the loopback only if there is nothing else, 4.1 also if a list is left. */
static bool keeps_loopback(const struct known *k, const struct picked *p, const struct names *s)
{
	if (!is_5(p))
		return s->n || k->n < 2;
	for (int i = 0; i < k->n; i++)
		if (!is_loopback(k, k->at[i]))
			return false;
	return true;
}

static bool is_listed(const struct pick_role *r, const struct iface_ip *ip)
{
	char text[IFACE_TEXT];

	iface_text(ip, text);
	for (int i = 0; i < r->npicks; i++)
		if (!strcmp(r->picks[i].address, text))
			return true;
	return false;
}

/* The list is one of addresses: that of several interfaces counts once. */
static void add_control(const struct known *k, struct picked *p, const struct names *s,
			bool include)
{
	bool lo = keeps_loopback(k, p, s);

	for (int i = 0; i < k->n; i++) {
		const struct iface_addr *a = k->at[i];

		if (strncmp(a->label, "vir", 3) && (lo || !is_loopback(k, a)) &&
		    (!s->n || is_named(k, s, a) == include) && !is_listed(&p->roles[1], &a->ip))
			picker_add(p, &p->roles[1], a->label, &a->ip);
	}
}

/* The kind of list for control. */
struct control {
	bool include, any; /* is it an include list; does it have entries */
};

static struct control pick_oob(const struct known *k, const struct netconf *c, struct picked *p)
{
	struct lists x = control_lists(c, p);
	struct control done = { .include = x.include != NULL };
	struct pick_role *r = &p->roles[1];
	struct names s;

	names_init(&s, k, x.include ? x.include : x.exclude, is_5(p));
	done.any = s.n > 0;
	if (x.include && x.exclude) {
		oob_refuse(p, "an include and an exclude list are both set: ", x.include);
		r->result = BOTH_SET;
	} else if (is_5(p) && picker_since(p, bears_one_name) && s.n > 1) {
		picker_refuse(r,
			      "mpirun crashes on a list of more than one name, which %.80s is "
			      "or becomes",
			      x.include ? x.include : x.exclude);
		picker_result(r, SEGFAULT, "Segmentation fault");
	} else {
		add_control(k, p, &s, done.include);
		if (x.include && *x.include && !s.n)
			picker_note(r, "beware: no interface matches %.80s, so it is ignored",
				    x.include);
		if (!r->npicks)
			oob_refuse(
				p,
				x.include ? "no interface is left for mpirun's own "
					    "connections: "
					  : "no interface is left for mpirun's own connections",
				x.include ? x.include : "");
	}
	if (is_5(p) && (netconf_get(c, oob_include) || netconf_get(c, oob_exclude)))
		picker_note(r, "OMPI_MCA_oob_* has no effect on Open MPI 5; "
			       "PRTE_MCA_prte_if_include has");
	return done;
}

static void explain_btl(struct picked *p, const struct known *k, const struct netconf *c, int i,
			bool by_include)
{
	const struct iface *f = &k->l->ifaces[i];

	if (has_iface(&p->roles[0], k, i))
		picker_rule(p, i, true, "btl: %s%s",
			    by_include ? "btl_tcp_if_include names it" : "up and not excluded",
			    f->flags & IFF_RUNNING ? "" : ", though not running");
	else if (*p->roles[0].error)
		picker_rule(p, i, false, "btl: the TCP BTL has nothing left");
	else if (by_include)
		picker_rule(p, i, false, "btl: btl_tcp_if_include does not name it");
	else
		picker_rule(p, i, false, "btl: btl_tcp_if_exclude=%.60s%s", excluded(c),
			    value(c, btl_exclude) ? "" : ", the default");
}

static bool shares_listed(const struct pick_role *r, const struct known *k, int iface)
{
	for (int i = 0; i < k->n; i++)
		if (k->at[i]->iface == iface && is_listed(r, &k->at[i]->ip))
			return true;
	return false;
}

static void explain_oob(struct picked *p, const struct known *k, int i,
			const struct control *done)
{
	const struct iface *f = &k->l->ifaces[i];

	if (has_iface(&p->roles[1], k, i))
		picker_rule(p, i, true, "oob: published");
	else if (shares_listed(&p->roles[1], k, i))
		picker_rule(p, i, true,
			    "oob: another interface has its address, which is published");
	else if (*p->roles[1].error)
		picker_rule(p, i, false, "oob: nothing is left");
	else if (!strncmp(f->name, "vir", 3))
		picker_rule(p, i, false, "oob: names that begin with vir are skipped");
	else if (f->flags & IFF_LOOPBACK && !(done->include && done->any))
		picker_rule(p, i, false,
			    "oob: loopback is dropped if another interface exists");
	else
		picker_rule(p, i, false, "oob: the %s",
			    done->include ? "not in the include list"
					  : "exclude list names it");
}

/* Without 127.0.0.1 mpirun and its ranks cannot talk, and wait for each other forever. */
static bool is_speechless(const struct iface_list *l)
{
	for (int i = 0; i < l->nifaces; i++)
		if (l->ifaces[i].flags & IFF_LOOPBACK && !(l->ifaces[i].flags & IFF_UP))
			return true;
	return false;
}

static void refuse_speechless(struct picked *p)
{
	static const char why[] =
		"the loopback is down, and mpirun hangs before any rank starts";

	picker_refuse(&p->roles[0], "%s", why);
	if (!is_5(p))
		picker_refuse(&p->roles[1], "%s", why);
}

static void ompi_pick(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	struct control done;
	struct known k;
	bool by_include;

	if (!known_init(&k, l)) {
		picker_refuse(&p->roles[0], "no memory to sort %d addresses", l->naddrs);
		return;
	}
	by_include = pick_btl(&k, c, p);
	done = pick_oob(&k, c, p);
	if (is_speechless(l))
		refuse_speechless(p);
	for (int i = 0; i < l->nifaces; i++) {
		if (!first_of(&k, i)) {
			picker_rule(p, i, false, "%s",
				    l->ifaces[i].flags & IFF_UP
					    ? "has only link-local addresses"
					    : "is down, and Open MPI uses only interfaces that "
					      "are up");
			continue;
		}
		explain_btl(p, &k, c, i, by_include);
		explain_oob(p, &k, i, &done);
	}
	free(k.at);
}

static const char *const roles[] = { "btl", "oob", NULL };
static const char *const listens[] = {
	btl_include,           btl_exclude,           no_family, oob_include, oob_exclude,
	PRTE_NAMES("include"), PRTE_NAMES("exclude"), NULL,
};

/* 4.1 ignores PRRTE's names.  5 still reads oob's, which a note warns of. */
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
	.pick = ompi_pick,
};
