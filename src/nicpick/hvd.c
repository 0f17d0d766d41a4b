/* hvd.c - the picker for Horovod 0.28: the interfaces of horovodrun's probe or of Gloo. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "host/netconf.h"
#include "nicpick/picker.h"

static const char given[] = "--network-interface"; /* of horovodrun */
static const char gloo_iface[] = "HOROVOD_GLOO_IFACE";

/* The first IPv4 address of that name, in the order of Python's psutil. */
static const struct iface_addr *first_address(const struct iface_list *l, const char *name,
					      size_t len, bool v4_only)
{
	for (int i = 0; i < l->naddrs; i++)
		if (strlen(l->addrs[i].label) == len &&
		    !strncmp(l->addrs[i].label, name, len) &&
		    (!v4_only || l->addrs[i].ip.family == AF_INET))
			return &l->addrs[i];
	return NULL;
}

static void pick_list(const struct iface_list *l, const char *list, struct picked *p)
{
	struct pick_role *r = &p->roles[0];
	const struct iface_addr *a;
	int len;

	for (;; list += len + 1) {
		len = (int)strcspn(list, ",");
		a = first_address(l, list, (size_t)len, true);
		if (!a) {
			picker_refuse(r,
				      "KeyError: '%.*s': horovodrun does not check the names",
				      len < 80 ? len : 80, list);
			return;
		}
		picker_add(p, r, a->label, &a->ip);
		if (!list[len])
			return;
	}
}

static void pick_named(const struct iface_list *l, const char *name, struct picked *p)
{
	const struct iface_addr *a = first_address(l, name, strlen(name), false);

	if (a)
		picker_add(p, &p->roles[0], a->label, &a->ip);
	else
		picker_refuse(&p->roles[0],
			      "unable to find address for: '%.80s' (one exact name)", name);
	picker_note(&p->roles[0], "horovodrun would override it with its probes' result");
}

/* Picks the candidates of the probe between hosts; one host cannot know its result. */
static void pick_probed(const struct iface_list *l, struct picked *p)
{
	struct pick_role *r = &p->roles[0];
	int n;

	for (int i = 0; i < l->naddrs; i++) {
		const struct iface_addr *a = &l->addrs[i];

		for (n = 0; n < r->npicks; n++)
			if (!strcmp(r->picks[n].interface, a->label))
				break;
		if (a->ip.family == AF_INET && n == r->npicks &&
		    !(l->ifaces[a->iface].flags & IFF_LOOPBACK))
			picker_add(p, r, a->label, &a->ip);
	}
	if (!r->npicks)
		picker_refuse(r, "only the loopback interface has an IPv4 address, so no "
				 "network is shared with other hosts");
	else if (r->npicks > 1)
		picker_note(
			r,
			"a random one of those that the next host reaches under the same name");
	picker_note(r, "a job that runs only on this host uses lo");
}

static void hvd_pick(const struct iface_list *l, const struct netconf *c, struct picked *p)
{
	const struct netconf_row *list = netconf_get(c, given),
				 *one = netconf_get(c, gloo_iface);
	bool probed = false;

	if (list && *list->value) {
		pick_list(l, list->value, p);
	} else if (one && *one->value) {
		pick_named(l, one->value, p);
		list = one;
	} else {
		pick_probed(l, p);
		probed = true;
	}
	for (int i = 0; i < l->nifaces; i++) {
		bool used = picker_which(&p->roles[0], l, i) >= 0;

		if (!probed)
			picker_rule(p, i, used, "%s %s it", list->name,
				    used ? "names" : "does not name");
		else if (used)
			picker_rule(p, i, true,
				    "probed: kept if the next host reaches it under "
				    "this name");
		else
			picker_rule(
				p, i, false, "%s",
				l->ifaces[i].flags & IFF_LOOPBACK
					? "a probe over loopback reaches the prober's own host"
					: "has no IPv4 address");
	}
}

static const char *const roles[] = { "nic", NULL };
static const char *const listens[] = { given, gloo_iface, NULL };

const struct picker picker_hvd = {
	.name = "horovod",
	.title = "Horovod",
	.oldest = "0.28",
	.newest = "0.28.1",
	.settings = listens,
	.roles = roles,
	.pick = hvd_pick,
};
