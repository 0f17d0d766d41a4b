/* traps_others.c - checks of Gloo, Horovod, UCX and libfabric settings, and of the machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nicpick/trap.h"

static const char gloo[] = "GLOO_SOCKET_IFNAME";

static const char *good(const struct trap_case *t)
{
	return *t->good ? t->good : NULL;
}

void trap_gloo_syntax(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, gloo);
	char *end;

	if (!r || strlen(r->value) < 2 || !strpbrk(r->value, "=^*/ "))
		return;
	/* The name in "=eth0" is the intended one. */
	end = r->value + strspn(r->value, "= ");
	trap_found(t, r, NULL, strpbrk(end, "=^*/ ,") ? good(t) : end,
		   "'%.80s' is not an exact name", r->value);
	r->broken = true;
}

static void traps_others_unknown(struct trap_case *t, struct trap_row *r,
				 const struct picker_item *x)
{
	const char *near = trap_near(t, x);

	trap_found(t, r, NULL, near ? near : good(t),
		   "no interface '%.*s' with an address on this host%s%s",
		   x->len < 80 ? x->len : 80, x->text, near ? ", but " : "", near ? near : "");
	r->broken = true;
}

static bool has_address(const struct trap_case *t, const struct picker_item *x)
{
	const struct iface_list *l = &t->s->ifaces;

	for (int i = 0; i < l->naddrs; i++)
		if (trap_is(x, l->addrs[i].label))
			return true;
	return false;
}

void trap_gloo_unknown(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, gloo);
	const char *list = r && strlen(r->value) > 1 ? r->value : "";
	struct picker_item x;

	while (t->s->ifaces.naddrs && picker_next(&list, &x))
		if (!has_address(t, &x)) {
			traps_others_unknown(t, r, &x);
			return;
		}
}

void trap_gloo_one_char(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, gloo);

	if (r && strlen(r->value) < 2)
		trap_found(t, r, NULL, good(t), "'%s' is ignored", r->value);
}

/* The reason why no other host reaches the address; NULL: one does. */
static const char *dead_end(const struct trap_case *t, const struct iface_addr *a)
{
	unsigned flags = t->s->ifaces.ifaces[a->iface].flags;

	if (flags & IFF_LOOPBACK)
		return "a loopback";
	if (!(flags & IFF_UP))
		return "an interface that is down";
	return trap_is_foreign(t, a) ? "not a network of this job" : NULL;
}

void trap_gloo_foreign(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, gloo);
	const struct pick_role *role = &t->gloo.roles[0];
	const struct iface_addr *a;

	if (!r || strlen(r->value) < 2 || !trap_has_network(t))
		return;
	for (int i = 0; i < role->npicks; i++) {
		a = trap_address(t, &role->picks[i]);
		if (!a || !dead_end(t, a))
			continue;
		trap_found(t, r, NULL, good(t), "%s is %s", role->picks[i].interface,
			   dead_end(t, a));
		return;
	}
}

/* The first resolution of the host name, if known. */
static const struct netconf_host *host(const struct trap_case *t)
{
	const char *name = t->s->settings.hostname;

	return *name ? netconf_host_find(&t->s->settings, name) : NULL;
}

/* The first address of @h that Gloo could bind to, or NULL. */
static const struct iface_ip *first_local(const struct trap_case *t,
					  const struct netconf_host *h)
{
	for (int i = 0; i < h->nips; i++)
		if (iface_is_loopback(&h->ips[i]) || iface_owner(&t->s->ifaces, &h->ips[i]))
			return &h->ips[i];
	return NULL;
}

void trap_gloo_hostname_loopback(struct trap_case *t)
{
	const struct netconf_host *h = host(t);
	const struct iface_ip *ip = h ? first_local(t, h) : NULL;
	char text[IFACE_TEXT];

	if (ip && iface_is_loopback(ip) && !trap_names(t, gloo) && trap_has_network(t))
		trap_machine(t, SOURCES_ENVIRONMENT, gloo, good(t),
			     "the host name %.80s resolves to %s", h->name,
			     iface_text(ip, text));
}

void trap_gloo_hostname_foreign(struct trap_case *t)
{
	const struct netconf_host *h = host(t);
	const struct iface_ip *ip = h ? first_local(t, h) : NULL;
	const struct iface_addr *a = ip ? iface_owner(&t->s->ifaces, ip) : NULL;
	char text[IFACE_TEXT];

	if (a && trap_is_foreign(t, a) && !trap_names(t, gloo) && trap_has_network(t))
		trap_machine(t, SOURCES_ENVIRONMENT, gloo, good(t),
			     "the host name %.80s resolves to %s, which is %s", h->name,
			     iface_text(ip, text), a->label);
}

void trap_gloo_hostname_unknown(struct trap_case *t)
{
	const struct netconf_host *h = host(t);

	char text[IFACE_TEXT], by[64] = "";

	if (!h || first_local(t, h) || trap_names(t, gloo) || !trap_has_network(t))
		return;
	if (h->line)
		snprintf(by, sizeof(by), " (line %d of /etc/hosts)", h->line);
	trap_machine(t, SOURCES_ENVIRONMENT, gloo, good(t),
		     "the host name %.80s resolves to %s%s%s", h->name,
		     h->nips ? iface_text(&h->ips[0], text) : "nothing", by,
		     h->nips ? ", which is no address of this host" : "");
}

/* Reports a value that is not one exact name. */
static void exact_name(struct trap_case *t, const char *variable)
{
	struct trap_row *r = trap_sound(t, variable);
	struct picker_item x;
	const char *list;

	if (!r || !t->s->ifaces.naddrs)
		return;
	x = (struct picker_item){ r->value, (int)strlen(r->value) };
	if (has_address(t, &x))
		return;
	list = r->value;
	if (strchr(list, ',') && picker_next(&list, &x) && has_address(t, &x)) {
		char *fix = strndup(x.text, (size_t)x.len);

		trap_found(t, r, NULL, fix, "'%.80s' is a list", r->value);
		free(fix);
		r->broken = true;
		return;
	}
	x = (struct picker_item){ r->value, (int)strlen(r->value) };
	traps_others_unknown(t, r, &x);
}

void trap_horovod_iface(struct trap_case *t)
{
	exact_name(t, "HOROVOD_GLOO_IFACE");
}

void trap_tensorpipe_iface(struct trap_case *t)
{
	exact_name(t, "TP_SOCKET_IFNAME");
}

void trap_libfabric_iface(struct trap_case *t)
{
	exact_name(t, "FI_TCP_IFACE");
}

/* Devices such as mlx5_0:1 are hardware, which a snapshot does not contain. */
void trap_ucx_devices(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, "UCX_NET_DEVICES");
	const char *list = r ? r->value : "", *near;
	struct picker_item x;

	while (t->s->ifaces.naddrs && picker_next(&list, &x)) {
		near = memchr(x.text, ':', (size_t)x.len) || has_address(t, &x)
			       ? NULL
			       : trap_near(t, &x);
		if (*x.text == '=' || memchr(x.text, ' ', (size_t)x.len) ||
		    memchr(x.text, '/', (size_t)x.len))
			near = near ? near : good(t);
		if (!near)
			continue;
		trap_found(t, r, NULL, near, "'%.*s' is not a device", x.len, x.text);
		r->broken = true;
		return;
	}
}

/* Does UCX_TLS allow transports that connect the ranks of one host? */
static bool has_local_transport(const char *list)
{
	static const char *const local[] = { "all",  "sm",    "shm",  "mm",
					     "self", "posix", "sysv", "xpmem" };
	struct picker_item x;

	if (!list || *list == '^')
		return true;
	while (picker_next(&list, &x))
		for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
			if (trap_is(&x, local[i]))
				return true;
	return false;
}

/* Reports the setting that leaves UCX without tcp, where it has no RDMA device either. */
static void no_transport(struct trap_case *t, bool is_local_left)
{
	const char *error = t->ucx.roles[0].error;
	bool by_tls = !strncmp(error, "UCX_TLS=", 8);
	struct trap_row *r = trap_sound(t, by_tls ? "UCX_TLS" : "UCX_NET_DEVICES");
	struct trap_row *tls = trap_sound(t, "UCX_TLS");

	if (!r || !*error || t->s->rdma >= 0 || !*netconf_version(&t->s->settings, "ucx") ||
	    has_local_transport(tls ? tls->value : NULL) != is_local_left)
		return;
	trap_remove(t, r, "%s, and this node has no RDMA device%s", error,
		    is_local_left ? ", so UCX connects only ranks of one host"
				  : ", so UCX has no transport");
}

void trap_ucx_no_transport(struct trap_case *t)
{
	no_transport(t, false);
}

void trap_ucx_one_host(struct trap_case *t)
{
	no_transport(t, true);
}

/* Can a job's packets use this address? */
static bool carries(const struct trap_case *t, const struct iface_addr *a)
{
	const struct iface *f = &t->s->ifaces.ifaces[a->iface];

	return a->ip.family == AF_INET && a->prefix < 32 && iface_is_global(&a->ip) &&
	       f->flags & IFF_UP && f->flags & IFF_RUNNING && !trap_is_foreign(t, a);
}

static bool meet(const struct iface_addr *a, const struct iface_addr *b)
{
	return a->iface != b->iface && a->prefix == b->prefix &&
	       iface_within(&b->ip, &a->ip, a->prefix);
}

void trap_one_subnet(struct trap_case *t)
{
	const struct iface_list *l = &t->s->ifaces;
	const struct iface_addr **at = calloc((size_t)l->naddrs + 1, sizeof(*at));
	int k, n = 0;

	t->no_memory |= !at;
	/* Each address is judged once: there may be a thousand. */
	for (int i = 0; at && i < l->naddrs; i++)
		if (carries(t, &l->addrs[i]))
			at[n++] = &l->addrs[i];
	for (int i = 0; i < n; i++) {
		for (k = i + 1; k < n && !meet(at[i], at[k]); k++)
			;
		if (k == n)
			continue;
		trap_machine(t, SOURCES_ENVIRONMENT, NULL, NULL,
			     "%s and %s are in one subnet; give one of them another, or its "
			     "own routing table",
			     at[i]->label, at[k]->label);
		break;
	}
	free(at);
}
