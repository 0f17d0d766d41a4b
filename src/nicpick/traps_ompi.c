/* traps_ompi.c - checks for settings that Open MPI interprets differently than intended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nicpick/trap.h"

static const char btl_include[] = "OMPI_MCA_btl_tcp_if_include";
static const char btl_exclude[] = "OMPI_MCA_btl_tcp_if_exclude";
static const char oob_include[] = "OMPI_MCA_oob_tcp_if_include";
static const char oob_exclude[] = "OMPI_MCA_oob_tcp_if_exclude";

/* The list to include instead: the network, which is right on every node, or the name. */
static const char *instead(const struct trap_case *t, char out[IFACE_TEXT])
{
	if (*trap_net(t, out))
		return out;
	snprintf(out, IFACE_TEXT, "%s", t->good);
	return *out ? out : NULL;
}

/* Parses "10.0.0.0/24" and the like; false leaves @net and @prefix open. */
static bool is_net(const struct picker_item *x, struct iface_ip *net, int *prefix)
{
	char text[IFACE_TEXT], *slash, *end;

	if (x->len >= IFACE_TEXT)
		return false;
	snprintf(text, sizeof(text), "%.*s", x->len, x->text);
	slash = strchr(text, '/');
	if (!slash)
		return false;
	*slash = 0;
	*prefix = (int)strtol(slash + 1, &end, 10);
	/* Open MPI takes no IPv6 networks. */
	return end != slash + 1 && !*end && iface_parse(net, text) && net->family == AF_INET;
}

static bool net_has_any(const struct trap_case *t, const struct picker_item *x)
{
	const struct iface_list *l = &t->s->ifaces;
	struct iface_ip net;
	int prefix;

	if (!is_net(x, &net, &prefix))
		return false;
	for (int i = 0; i < l->naddrs; i++)
		if (iface_within(&l->addrs[i].ip, &net, prefix))
			return true;
	return false;
}

static void both(struct trap_case *t, const char *include, const char *exclude)
{
	struct trap_row *i = trap_get(t, include), *x = trap_get(t, exclude);

	if (!i || !x)
		return;
	trap_remove(t, x, "%s and %s are both set", x->meant, i->meant);
	x->broken = true;
}

void trap_ompi_both(struct trap_case *t)
{
	both(t, btl_include, btl_exclude);
	both(t, oob_include, oob_exclude);
}

/* The list without entries that Open MPI cannot parse; NULL if none is left. */
static char *plain_list(const char *list, const char *otherwise)
{
	char *out = malloc(strlen(list) + 1), *w = out;

	for (; out && *list; list++)
		if (!isspace((unsigned char)*list) && !strchr("^=", *list))
			*w++ = *list;
	if (!out)
		return NULL;
	*w = 0;
	if (*out)
		return out;
	free(out);
	return otherwise ? strdup(otherwise) : NULL;
}

/* True for "10.0.0.5/32", "10.0.0.0/", "0.0.0.0/0": a shift by 32 bits matches everything. */
static bool is_everything(const struct picker_item *x)
{
	const char *slash =
		picker_item_is_name(x) ? NULL : memchr(x->text, '/', (size_t)x->len);
	char text[IFACE_TEXT];
	struct iface_ip ip;

	if (!slash || slash - x->text >= IFACE_TEXT)
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)(slash - x->text), x->text);
	return iface_parse(&ip, text) && ip.family == AF_INET &&
	       !(strtol(slash + 1, NULL, 10) & 31);
}

static bool is_odd(const struct picker_item *x)
{
	struct iface_ip net;
	int prefix;

	return !picker_item_is_name(x) && !is_net(x, &net, &prefix) && !is_everything(x);
}

/* For a local address without /length, the network that it was meant for. */
static bool bare_address(const struct trap_case *t, const struct picker_item *x,
			 char out[IFACE_TEXT])
{
	const struct iface_addr *a;
	char text[IFACE_TEXT];
	struct iface_ip ip;

	if (x->len >= IFACE_TEXT)
		return false;
	snprintf(text, sizeof(text), "%.*s", x->len, x->text);
	if (!iface_parse(&ip, text) || ip.family != AF_INET)
		return false;
	a = iface_owner(&t->s->ifaces, &ip);
	if (!a)
		return false;
	/* A length of 32 would count as none. */
	snprintf(out, IFACE_TEXT, "%.50s/%d", text, a->prefix > 31 ? 31 : a->prefix);
	return true;
}

static void odd_entry(struct trap_case *t, struct trap_row *r, const struct picker_item *x,
		      bool include)
{
	char net[IFACE_TEXT], better[IFACE_TEXT];
	char *fix;

	if (bare_address(t, x, net))
		fix = strdup(net);
	else if (include && (*x->text == '^' || isdigit((unsigned char)*x->text)))
		fix = instead(t, better) ? strdup(better) : NULL;
	else
		fix = plain_list(r->value, include ? instead(t, better) : NULL);
	trap_found(t, r, NULL, fix, "'%.*s' is neither a name nor a network", x->len, x->text);
	free(fix);
	r->broken = true;
}

void trap_ompi_spec(struct trap_case *t)
{
	static const char *const names[] = { btl_include, btl_exclude };
	struct picker_item x;
	struct trap_row *r;
	const char *list;

	for (size_t i = 0; i < 2; i++) {
		r = trap_sound(t, names[i]);
		list = r ? r->value : "";
		while (picker_next(&list, &x))
			if (is_odd(&x)) {
				odd_entry(t, r, &x, i == 0);
				break;
			}
	}
}

static void everything(struct trap_case *t, struct trap_row *r, const struct picker_item *x)
{
	struct picker_item address = { x->text, (int)strcspn(x->text, "/") };
	char better[IFACE_TEXT];

	if (!bare_address(t, &address, better) && !instead(t, better))
		*better = 0;
	trap_found(t, r, NULL, *better ? better : NULL, "'%.*s' contains every address",
		   x->len < 80 ? x->len : 80, x->text);
	r->broken = true;
}

void trap_ompi_everything(struct trap_case *t)
{
	static const char *const names[] = { btl_include, btl_exclude, oob_include,
					     oob_exclude };
	struct picker_item x;
	struct trap_row *r;
	const char *list;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		r = trap_sound(t, names[i]);
		list = r ? r->value : "";
		while (picker_next(&list, &x))
			if (is_everything(&x)) {
				everything(t, r, &x);
				break;
			}
	}
}

void trap_ompi_nowhere(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, btl_include);
	const char *list = r ? r->value : "";
	char better[IFACE_TEXT];
	struct picker_item x, lost = { 0 };
	bool any = false;

	while (picker_next(&list, &x)) {
		any |= picker_item_is_name(&x) || net_has_any(t, &x);
		if (!picker_item_is_name(&x) && !net_has_any(t, &x))
			lost = x;
	}
	/* A list may name the networks of several kinds of node. */
	if (!lost.len || any || !t->s->ifaces.naddrs)
		return;
	trap_found(t, r, NULL, instead(t, better),
		   "no interface of this machine is in %.*s, so all are used", lost.len,
		   lost.text);
	r->broken = true;
}

static void traps_ompi_unknown(struct trap_case *t, struct trap_row *r,
			       const struct picker_item *x)
{
	const char *near = trap_near(t, x);
	char better[IFACE_TEXT];

	trap_found(t, r, NULL, near ? near : instead(t, better),
		   "no interface '%.*s' on this host%s%s", x->len < 80 ? x->len : 80, x->text,
		   near ? ", but " : "", near ? near : "");
	r->broken = true;
}

void trap_ompi_unknown(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, btl_include);
	const char *list = r ? r->value : "";
	struct picker_item x;

	while (t->s->ifaces.naddrs && picker_next(&list, &x))
		if (picker_item_is_name(&x) && !trap_label(t, &x)) {
			traps_ompi_unknown(t, r, &x);
			return;
		}
}

void trap_ompi_oob_unknown(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, oob_include);
	const char *list = r ? r->value : "";
	struct picker_item x;

	if (r && !trap_get(t, oob_exclude) && *t->ompi.roles[1].error && t->s->ifaces.naddrs &&
	    picker_next(&list, &x))
		traps_ompi_unknown(t, r, &x);
}

/* Does an exclude list have the loopback, as lo or as a network? */
static bool holds_loopback(const char *list, bool prefixes)
{
	struct iface_ip lo, net;
	struct picker_item x;
	int prefix;

	iface_parse(&lo, "127.0.0.1");
	while (picker_next(&list, &x))
		if (prefixes ? trap_begins("lo", &x) : trap_is(&x, "lo"))
			return true;
		else if (is_net(&x, &net, &prefix) && iface_within(&lo, &net, prefix))
			return true;
	return false;
}

void trap_ompi_excludes_not_lo(struct trap_case *t)
{
	struct trap_row *r = trap_get(t, btl_exclude);
	char better[IFACE_TEXT];

	if (!r || r->broken || holds_loopback(r->value, true) || !trap_has_network(t))
		return;
	trap_found(t, r, btl_include, instead(t, better), "'%.80s' does not exclude lo",
		   r->value);
	r->broken = true;
}

void trap_ompi_exclude_prefix(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, btl_exclude);
	const char *list = r ? r->value : "", *other;
	char better[IFACE_TEXT];
	struct picker_item x;

	while (picker_next(&list, &x)) {
		other = picker_item_is_name(&x) && trap_label(t, &x) ? trap_also(t, &x) : NULL;
		if (!other)
			continue;
		trap_found(t, r, btl_include, instead(t, better), "%.*s is also %s", x.len,
			   x.text, other);
		return;
	}
}

void trap_ompi_oob_exclude(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, oob_exclude);
	char better[IFACE_TEXT];

	if (r && !trap_get(t, oob_include) && !holds_loopback(r->value, false) &&
	    trap_has_network(t))
		trap_found(t, r, oob_include, instead(t, better), "'%.80s' includes lo",
			   r->value);
}

void trap_ompi_foreign(struct trap_case *t)
{
	const struct pick_role *r = &t->ompi.roles[0];
	const struct iface_addr *a;
	char better[IFACE_TEXT];

	if (trap_get(t, btl_include) || !instead(t, better))
		return;
	for (int i = 0; i < r->npicks; i++) {
		a = trap_address(t, &r->picks[i]);
		if (!a || !trap_is_foreign(t, a))
			continue;
		trap_machine(t, SOURCES_MCA, btl_include, better, "Open MPI uses %s, %s",
			     r->picks[i].interface, r->picks[i].address);
		return;
	}
}

/* Only a detected version 5 is exempt; an unknown version may be 4.1. */
static bool is_five(const struct trap_case *t)
{
	return *netconf_version(&t->s->settings, "openmpi") && picker_since(&t->ompi, "5");
}

static int ipv4_addresses(const struct trap_case *t, int iface)
{
	const struct iface_list *l = &t->s->ifaces;
	int n = 0;

	for (int i = 0; i < l->naddrs; i++)
		n += l->addrs[i].iface == iface && l->addrs[i].ip.family == AF_INET;
	return n;
}

void trap_ompi_two_addresses(struct trap_case *t)
{
	const struct pick_role *r = &t->ompi.roles[0];
	const struct iface_addr *a;
	int last = -1;

	if (is_five(t))
		return;
	for (int i = 0; i < r->npicks; i++) {
		a = trap_address(t, &r->picks[i]);
		if (!a || a->iface == last || a->ip.family != AF_INET ||
		    t->s->ifaces.ifaces[a->iface].flags & IFF_LOOPBACK ||
		    ipv4_addresses(t, a->iface) < 2)
			continue;
		last = a->iface;
		trap_machine(t, SOURCES_MCA, NULL, NULL,
			     "%s has %d IPv4 addresses; keep one, or use Open MPI 5",
			     t->s->ifaces.ifaces[a->iface].name, ipv4_addresses(t, a->iface));
	}
}

void trap_ompi5_two_names(struct trap_case *t)
{
	static const char *const names[] = {
		"PRTE_MCA_oob_tcp_if_include", "PRTE_MCA_oob_tcp_include",
		"PRTE_MCA_prte_if_include",    "PRTE_MCA_oob_tcp_if_exclude",
		"PRTE_MCA_oob_tcp_exclude",    "PRTE_MCA_prte_if_exclude",
	};
	enum { INCLUDES = 3, SEGFAULT = 139 };
	struct trap_row *r = NULL;
	size_t i;

	if (!is_five(t) || t->ompi.roles[1].result != SEGFAULT)
		return;
	for (i = 0; i < sizeof(names) / sizeof(names[0]) && !r; i++)
		r = trap_sound(t, names[i]);
	if (r && i <= INCLUDES)
		trap_found(t, r, NULL, *t->good ? t->good : NULL, "mpirun crashes on '%.80s'",
			   r->value);
	else if (r)
		trap_remove(t, r, "mpirun crashes on '%.80s'", r->value);
}

void trap_ompi5_oob(struct trap_case *t)
{
	static const char *const pairs[][2] = {
		{ oob_include, "PRTE_MCA_prte_if_include" },
		{ oob_exclude, "PRTE_MCA_prte_if_exclude" },
	};
	struct trap_row *r;

	for (int i = 0; i < 2 && is_five(t); i++) {
		r = trap_sound(t, pairs[i][0]);
		if (r && r->grammar == SOURCES_ENVIRONMENT && !trap_get(t, pairs[i][1]))
			trap_found(t, r, pairs[i][1], r->value, "it has no effect here");
	}
}

static bool holds(const char *list, const char *word)
{
	struct picker_item x;

	while (picker_next(&list, &x))
		if (trap_is(&x, word))
			return true;
	return false;
}

void trap_ompi_no_self(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, "OMPI_MCA_btl");
	char *fix;

	if (!r || *r->value == '^' || holds(r->value, "self"))
		return;
	if (asprintf(&fix, "%s,self", r->value) < 0)
		fix = NULL;
	trap_found(t, r, NULL, fix, "self is not in '%.80s'", r->value);
	free(fix);
}

void trap_ompi_mixed_list(struct trap_case *t)
{
	static const char *const names[] = { "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_mtl",
					     "OMPI_MCA_oob" };
	struct trap_row *r;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		r = trap_sound(t, names[i]);
		if (!r || !strchr(r->value, '^') || strrchr(r->value, '^') == r->value)
			continue;
		trap_found(t, r, NULL, NULL, "a '^' inside '%.80s'", r->value);
		r->broken = true;
	}
}

void trap_ompi_no_tcp(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, "OMPI_MCA_btl"), *pml = trap_get(t, "OMPI_MCA_pml");
	static const char *const wide[] = { "tcp", "openib", "uct", "usnic", "ofi" };
	bool has = false;
	char *fix;

	/* With another PML the BTLs carry little or nothing. */
	if (!r || *r->value == '^' || !pml || strcmp(pml->value, "ob1") != 0)
		return;
	for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
		has |= holds(r->value, wide[i]);
	if (has)
		return;
	if (asprintf(&fix, "tcp,%s", r->value) < 0)
		fix = NULL;
	trap_found(t, r, NULL, fix, "tcp is not in '%.80s'", r->value);
	free(fix);
}
