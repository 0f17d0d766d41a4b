/* common.c - choose one network for all nodes of a job, and each node's interface in it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "ringup.h"

static const struct pick *chosen(const struct common_node *n)
{
	return n->own.roles[0].npicks ? &n->own.roles[0].picks[0] : NULL;
}

static int choose_one(struct common_node *nodes, int n, int me, struct own_node *others,
		      const struct common_ask *ask, struct err *e)
{
	struct own_hint h = { .interface = ask->interface,
			      .named_by = ask->named_by,
			      .network = ask->network,
			      .prefer = ask->prefer,
			      .decide = ask->decide,
			      .container_ip = nodes[me].container_ip,
			      .any = true,
			      .others = others };

	for (int i = 0; i < n; i++)
		if (i != me)
			others[h.nothers++] =
				(struct own_node){ nodes[i].name, nodes[i].address,
						   nodes[i].ifaces };
	return own_choose(nodes[me].ifaces, &h, &nodes[me].own, e);
}

/* Do the routes from each chosen interface lead to the other's chosen address? */
static int check_meeting(const struct common_node *a, const struct common_node *b,
			 const struct common_ask *ask, struct err *e)
{
	const struct pick *mine = chosen(a), *theirs = chosen(b);
	const struct iface *f = iface_find(a->ifaces, mine->interface);
	struct iface_ip ip;

	if (!f || !iface_parse(&ip, theirs->address) ||
	    own_leads_to(a->ifaces, (int)(f - a->ifaces->ifaces), &ip))
		return 0;
	return fail(e, RINGUP_EINVAL,
		    "%.64s would use %s and %.64s %s (%s), which are not connected; choose "
		    "with --network=CIDR or %sNAME",
		    a->name, mine->interface, b->name, theirs->interface, theirs->address,
		    ask->decide ? ask->decide : "RINGUP_INTERFACE=");
}

static int check_all(const struct common_node *nodes, int n, const struct common_ask *ask,
		     struct err *e)
{
	int rc = 0;

	for (int i = 0; i < n; i++)
		for (int k = 0; !rc && k < n; k++)
			if (i != k)
				rc = check_meeting(&nodes[i], &nodes[k], ask, e);
	return rc;
}

static int common_bits(const struct iface_ip *a, const struct iface_ip *b)
{
	int bits = 0, most = a->family == AF_INET ? 32 : 128;

	while (bits < most && iface_within(a, b, bits + 1))
		bits++;
	return bits;
}

/* The prefix length of @ip on that node; 0 if the node does not own it. */
static int own_prefix(const struct common_node *n, const struct iface_ip *ip)
{
	const struct iface_addr *a = iface_owner(n->ifaces, ip);

	return a ? a->prefix : 0;
}

/* Does another interface of a node have an address in @net, so that the CIDR names it, too? */
static bool is_shared(const struct common_node *nodes, int n, const struct iface_ip *net,
		      int prefix)
{
	for (int i = 0; i < n; i++)
		for (int k = 0; k < nodes[i].ifaces->naddrs; k++) {
			const struct iface_addr *a = &nodes[i].ifaces->addrs[k];

			if (iface_within(&a->ip, net, prefix) &&
			    strcmp(nodes[i].ifaces->ifaces[a->iface].name,
				   chosen(&nodes[i])->interface) != 0)
				return true;
		}
	return false;
}

/* The smallest network with all chosen addresses, by their own masks if those agree and else by
 * their bits: in some clouds every address is a /32. */
static void find_network(const struct common_node *nodes, int n, char out[COMMON_NETWORK])
{
	struct iface_ip first, ip;
	int bits, prefix, all = 128;

	if (!iface_parse(&first, chosen(&nodes[0])->address))
		return;
	prefix = own_prefix(&nodes[0], &first);
	for (int i = 1; i < n; i++) {
		if (!iface_parse(&ip, chosen(&nodes[i])->address) || ip.family != first.family)
			return;
		bits = common_bits(&first, &ip);
		all = bits < all ? bits : all;
		bits = own_prefix(&nodes[i], &ip);
		prefix = bits < prefix ? bits : prefix;
	}
	prefix = prefix < all ? prefix : all;
	if (prefix && !is_shared(nodes, n, &first, prefix))
		iface_net_text(&first, prefix, out);
}

static bool names_differ(const struct common_node *nodes, int n)
{
	for (int i = 1; i < n; i++)
		if (strcmp(chosen(&nodes[0])->interface, chosen(&nodes[i])->interface) != 0)
			return true;
	return false;
}

int common_choose(struct common_node *nodes, int n, const struct common_ask *ask,
		  char network[COMMON_NETWORK], struct err *e)
{
	struct own_node *others = calloc((size_t)n, sizeof(*others));
	int i, rc = others ? 0 : fail(e, RINGUP_ENOMEM, "no memory for %d nodes", n);

	*network = 0;
	for (i = 0; !rc && i < n; i++) {
		rc = choose_one(nodes, n, i, others, ask, e);
		if (!rc && !chosen(&nodes[i])) {
			rc = fail(e, RINGUP_EINVAL, "%s", nodes[i].own.roles[0].error);
			rc = n > 1 ? fail_in(e, "%.64s", nodes[i].name) : rc;
		}
	}
	free(others);
	/* An interface that the user names takes precedence. */
	if (!rc && !ask->interface)
		rc = check_all(nodes, n, ask, e);
	if (!rc && ask->network)
		snprintf(network, COMMON_NETWORK, "%s", ask->network);
	else if (!rc && names_differ(nodes, n))
		find_network(nodes, n, network);
	return rc;
}
