/* own.h - the interface that ringup itself uses between hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NICPICK_OWN_H
#define NICPICK_OWN_H

#include <stdbool.h>
#include <stddef.h>

#include "nicpick/picker.h"

struct conf;
struct err;

/* Another node of the job, as recorded. */
struct own_node {
	const char *name;
	const char *address; /* numeric, which the name resolves to here; NULL: unknown */
	const struct iface_list *ifaces;
};

/* The preference among interfaces that reach all nodes. */
enum own_prefer { OWN_ROUTE, OWN_SPEED, OWN_INFINIBAND };

/* Facts besides the interfaces; NULL or "": unknown. */
struct own_hint {
	const char *interface;    /* RINGUP_INTERFACE: a name or an address of this host */
	const char *named_by;     /* the setting, for messages; NULL: RINGUP_INTERFACE      */
	const char *container_ip; /* DB_CONTAINER_IP: the platform's, used if local      */
	const char *peer;         /* numeric address of a node to reach                  */
	bool one_host;            /* all ranks are on this host                          */
	bool any;                 /* the loopback will do without a network: a report */
	const char *network;      /* "10.0.0.0/24": the address has to be in it */
	const struct own_node *others;
	int nothers;
	enum own_prefer prefer;
	const char *decide; /* prefix of the name in the advice on a tie; NULL:
			     * RINGUP_INTERFACE= */
};

/*
 * own_choose - the one interface and address, or a refusal with advice.
 *
 * In this order: the loopback if all ranks are on one host; the user's interface, which must
 * exist in any case; the platform's address; the route to the peer; else, among running
 * interfaces with an address beyond link scope, the one on the way to all other nodes, else the
 * one with the default route, else hardware, else a virtual link.  Bridges and tunnels without
 * the default route are never guessed: their address is the same on every node.  Nor are two
 * networks that tie.  Facts about other nodes exclude an interface whose address one of them
 * has, or that does not lead to each.  A container's own eth0 is a veth, which is why kinds are
 * an order of preference and hardly a veto.
 *
 * The answer is role 0 of @p: one pick and a note why, or an error.  The fates say why the
 * others were not taken.  Free with picker_free(), also on failure.  Fails only without memory.
 */
int own_choose(const struct iface_list *l, const struct own_hint *h, struct picked *p,
	       struct err *e);

/* own_network - parse "10.0.0.0/24" into address and length; false if it is malformed. */
bool own_network(const char *text, struct iface_ip *ip, int *prefix);

/* own_leads_to - would a packet to @to leave through interface @i?  A recording may lack the
 * routes of subnets. */
bool own_leads_to(const struct iface_list *l, int i, const struct iface_ip *to);

/*
 * own_address - the numeric address that this process should listen on.
 *
 * Reads the live machine and takes RINGUP_INTERFACE and RINGUP_MEET from @c.
 *
 * Threads:  any.
 * Blocking: a few netlink round trips to the kernel, nothing else.
 * Returns 0, or RINGUP_EINVAL with a sentence that says how to decide.
 */
int own_address(const struct conf *c, bool one_host, char *out, size_t size, struct err *e);

#endif
