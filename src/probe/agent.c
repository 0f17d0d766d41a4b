/* agent.c - the agent on each node of a check: reports its node, answers and sends probes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/agent.h"

#include <linux/capability.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "detect/netfacts.h"
#include "nicpick/own.h"
#include "probe/echo.h"
#include "probe/facts.h"
#include "probe/names.h"
#include "probe/neigh.h"
#include "probe/reach.h"
#include "probe/rules.h"
#include "probe/speed.h"
#include "ringup.h"
#include "wire/sock.h"

enum { REGISTERED_TRIES = 64, SAMPLES = 6, SAMPLE_TRIES = 8 };

struct agent {
	struct talk *talk;
	struct snapshot *snapshot;
	const struct agent_orders *orders; /* NULL: there are none   */
	const struct secret *known;        /* it was started by hand */
	struct seal_key key;
	struct echo echo;
	struct probe_facts plan; /* what "reach" brought */
	json_t *names;
	int me;
	bool greeted, ordered;
};

/* Facts of this node. */

/* The machine's id is confidential; a hash of it tells machines apart as well. */
static void node_machine_id(char out[FACTS_ID])
{
	unsigned char sum[16];
	size_t len;
	char *text;

	*out = 0;
	if (file_read("", "/etc/machine-id", 256, &text, &len, NULL))
		return;
	crypto_generichash(sum, sizeof(sum), (unsigned char *)text, len, NULL, 0);
	if (len > 16)
		sodium_bin2hex(out, FACTS_ID, sum, sizeof(sum));
	free(text);
}

static int node_add_uses(struct probe_node *n, const char *library, const struct picked *p,
			 struct err *e)
{
	struct probe_use *u;

	for (int r = 0; r < p->nroles; r++)
		/* A use whose address is unknown is left out of the facts. */
		for (int i = 0; i < p->roles[r].npicks && !*p->roles[r].unknown; i++) {
			u = facts_add_use(n);
			if (!u)
				return fail(e, RINGUP_ENOMEM, "no memory for addresses");
			snprintf(u->library, sizeof(u->library), "%s", library);
			snprintf(u->role, sizeof(u->role), "%s", p->roles[r].name);
			snprintf(u->interface, sizeof(u->interface), "%s",
				 p->roles[r].picks[i].interface);
			snprintf(u->address, sizeof(u->address), "%s",
				 p->roles[r].picks[i].address);
		}
	return 0;
}

/* The addresses that each library would take here. */
static int node_find_uses(struct probe_node *n, const struct snapshot *s, struct err *e)
{
	struct own_hint hint = { 0 };
	struct picked p;
	int rc = 0;

	for (int i = 0; !rc && pickers[i]; i++) {
		rc = picker_run(pickers[i], &s->ifaces, &s->settings, &p, e);
		if (!rc)
			rc = node_add_uses(n, pickers[i]->name, &p, e);
		picker_free(&p);
	}
	if (!rc) {
		rc = own_choose(&s->ifaces, &hint, &p, e);
		if (!rc)
			rc = node_add_uses(n, "ringup", &p, e);
		picker_free(&p);
	}
	return rc;
}

/* Keeps the resolved addresses of this machine's own name, which Gloo and NCCL look up. */
static void host_remember(struct netconf *c, const struct netconf_host *h)
{
	struct netconf_host *own;

	if (strcmp(h->name, c->hostname) != 0 || netconf_host_find(c, h->name))
		return;
	own = netconf_host_add(c, h->name);
	if (own)
		*own = *h;
}

/* Resolves all nodes' names and this machine's own; libraries look these up. */
static int node_find_names(struct agent *a, struct probe_node *n, struct err *e)
{
	int count = (int)json_array_size(a->names) + 1, i;
	const char **list = calloc((size_t)count, sizeof(*list));

	n->resolves = calloc((size_t)count, sizeof(*n->resolves));
	if (!list || !n->resolves) {
		free(list);
		return fail(e, RINGUP_ENOMEM, "no memory for names");
	}
	list[0] = a->snapshot->settings.hostname;
	for (i = 1; i < count; i++)
		list[i] = json_string_value(json_array_get(a->names, (size_t)i - 1));
	n->nresolves = names_resolve(n->resolves, list, count, AGENT_NAMES_MS, e);
	free(list);
	if (n->nresolves < 0) {
		count = n->nresolves;
		n->nresolves = 0;
		return count;
	}
	for (i = 0; i < n->nresolves; i++)
		host_remember(&a->snapshot->settings, &n->resolves[i]);
	return 0;
}

/* Resolves what the other nodes call themselves, for the answer. */
static int find_hostnames(struct agent *a, const json_t *names, struct err *e)
{
	int n = (int)json_array_size(names), found;
	const char **list = calloc((size_t)n + 1, sizeof(*list));
	struct netconf_host *hosts = calloc((size_t)n + 1, sizeof(*hosts)), *h;
	int rc = list && hosts && n <= a->plan.nnodes
			 ? 0
			 : fail(e, RINGUP_EINVAL, "these are no names of hosts");

	for (int i = 0; !rc && i < n; i++)
		list[i] = json_string_value(json_array_get(names, (size_t)i));
	for (int i = 0; !rc && i < n; i++)
		rc = list[i] ? 0 : fail(e, RINGUP_EINVAL, "a name that is none");
	found = rc || !n ? rc : names_resolve(hosts, list, n, AGENT_NAMES_MS, e);
	for (int i = 0; i < found; i++) {
		h = facts_add_host(&a->plan.nodes[a->me], hosts[i].name);
		if (h)
			*h = hosts[i];
	}
	free(list);
	free(hosts);
	return found < 0 ? found : 0;
}

/* Drops all capabilities: a break-in gains nothing, and what needs root has been read. */
static int agent_shed_rights(struct err *e)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };

	for (int cap = 0; cap < 64; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capset, &head, none))
		return fail_os(e, "cannot give up rights");
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return 0;
}

static void port_note(json_t *listens, const struct probe_use *u, int port, const char *kind)
{
	if (port)
		json_array_append_new(listens, json_pack("{ss ss si ss}", "address", u->address,
							 "interface", u->interface, "port",
							 port, "kind", kind));
}

/* The range from which this machine's kernel takes ephemeral ports. */
static void read_range(int *low, int *high)
{
	char *text = NULL;
	size_t len;

	if (file_read("", "/proc/sys/net/ipv4/ip_local_port_range", 64, &text, &len, NULL) ||
	    sscanf(text, "%d %d", low, high) != 2 || *low < 1 || *high > 65535 ||
	    *low > *high) {
		*low = 32768;
		*high = 60999;
	}
	free(text);
}

/* Samples of the ephemeral ports, since a firewall may close them in part: from the lowest to
 * the highest, each a little off by the same random amount on all nodes; and torchrun's. */
static void listen_samples(struct agent *a, json_t *listens, const struct probe_use *u,
			   const struct sock_addr *at, int wish)
{
	char kind[FACTS_WORD];
	int low, high, off, port, tries;

	read_range(&low, &high);
	off = wish % ((high - low) / (4 * SAMPLES) + 1);
	for (int i = 0; i < SAMPLES; i++) {
		port = low + off + (high - low - 2 * off) / (SAMPLES - 1) * i;
		snprintf(kind, sizeof(kind), "sample %d", i + 1);
		for (tries = 0; tries < SAMPLE_TRIES; tries++)
			if (echo_listen(&a->echo, at, port + tries, 1))
				break;
		port = tries < SAMPLE_TRIES ? port + tries : 0;
		port_note(listens, u, port, kind);
	}
	port_note(listens, u, echo_listen(&a->echo, at, AGENT_RENDEZVOUS, 1), "rendezvous");
}

/* Listens on an ephemeral port like NCCL, Gloo and Horovod, on the first free one from 1024
 * like Open MPI, on torch's usual store port, and on samples of all ranges.  Nobody else can
 * reach a loopback address. */
static void use_listen(struct agent *a, json_t *listens, const struct probe_use *u, int wish)
{
	struct sock_addr at;
	struct iface_ip ip;
	int port;

	if (sock_parse_address(u->address, &at, NULL) || !iface_parse(&ip, u->address) ||
	    iface_is_loopback(&ip))
		return;
	port = echo_listen(&a->echo, &at, wish, 0);
	port_note(listens, u, port ? port : echo_listen(&a->echo, &at, 0, 0), "ephemeral");
	for (int i = port = 0; !port && i < REGISTERED_TRIES; i++)
		port = echo_listen(&a->echo, &at, AGENT_REGISTERED + i, 1);
	port_note(listens, u, port, "registered");
	port_note(listens, u, echo_listen(&a->echo, &at, AGENT_STORE, 1), "store");
	listen_samples(a, listens, u, &at, wish);
}

static json_t *node_listen(struct agent *a, const struct probe_node *n, int wish)
{
	json_t *listens = json_array();
	int k;

	for (int i = 0; i < n->nuses; i++) {
		for (k = 0; k < i && strcmp(n->uses[k].address, n->uses[i].address) != 0; k++)
			;
		if (k == i)
			use_listen(a, listens, &n->uses[i], wish);
	}
	return listens;
}

/* Handlers of requests. */

static int on_hello(struct agent *a, const json_t *msg, struct err *e)
{
	const char *hex = NULL;
	struct secret s = { { 0 } };
	json_t *names = NULL;
	const json_t *one;
	size_t len = 0, i;
	int port;

	if (a->known)
		s = *a->known;
	if (a->greeted ||
	    json_unpack((json_t *)(uintptr_t)msg, "{s?s si so si}", "secret", &hex, "node",
			&a->me, "names", &names, "port", &port) ||
	    (!a->known &&
	     (!hex || sodium_hex2bin(s.key, SECRET_BYTES, hex, strlen(hex), NULL, &len, NULL) ||
	      len != SECRET_BYTES)) ||
	    a->me < 0 || (size_t)a->me >= json_array_size(names) || port < 0 || port > 65535)
		return fail(e, RINGUP_EINVAL, "this is no greeting");
	json_array_foreach(names, i, one) {
		if (!json_is_string(one))
			return fail(e, RINGUP_EINVAL, "a name that is none");
	}
	a->greeted = true;
	alarm(AGENT_SECONDS);
	a->names = json_incref(names);
	seal_derive(&a->key, &s);
	secret_wipe(&s);
	return port;
}

static int agent_tell_facts(struct agent *a, int wish, struct err *e)
{
	const char *name = json_string_value(json_array_get(a->names, (size_t)a->me));
	struct probe_facts f = { 0 };
	struct probe_node *n = facts_add_node(&f, name ? name : "?");
	json_t *listens = NULL;
	int rc = n ? 0 : fail(e, RINGUP_ENOMEM, "no memory for a node");

	if (!rc)
		rc = rules_read(n, e);
	if (!rc)
		rc = agent_shed_rights(e);
	if (!rc)
		rc = node_find_names(a, n, e);
	if (!rc)
		rc = node_find_uses(n, a->snapshot, e);
	if (!rc)
		rc = echo_open(&a->echo, a->me, &a->key, e);
	if (!rc) {
		node_machine_id(n->machine_id);
		snprintf(n->hostname, sizeof(n->hostname), "%s",
			 a->snapshot->settings.hostname);
		listens = node_listen(a, n, wish);
		n->snapshot = *a->snapshot;
		n->has_snapshot = true;
		rc = talk_say(a->talk,
			      json_pack("{ss so so}", "op", "facts", "facts", facts_json(&f),
					"listens", listens),
			      e);
		memset(&n->snapshot, 0, sizeof(n->snapshot)); /* the caller's */
	}
	facts_free(&f);
	return rc < 0 ? rc : 0;
}

static int on_reach(struct agent *a, const json_t *msg, struct err *e)
{
	struct reach r = { a->me, &a->key, &a->echo, talk_fd(a->talk) };
	unsigned long overflows = neigh_count_overflows();
	int rc;

	facts_free(&a->plan);
	rc = facts_parse(&a->plan, json_object_get(msg, "facts"), e);
	for (int i = 0; !rc && i < a->plan.npaths; i++)
		if (a->plan.paths[i].from != a->me)
			rc = fail(e, RINGUP_EINVAL, "that is another node's path");
	if (!rc)
		rc = a->me < a->plan.nnodes
			     ? find_hostnames(a, json_object_get(msg, "hostnames"), e)
			     : fail(e, RINGUP_EINVAL, "the plan belongs to another check");
	if (!rc)
		rc = reach_run(&r, a->plan.paths, a->plan.npaths, e);
	if (rc)
		return rc;
	neigh_read(a->plan.paths, a->plan.npaths);
	rc = talk_say(a->talk,
		      json_pack("{ss so sb}", "op", "reached", "facts", facts_json(&a->plan),
				"table_full", neigh_count_overflows() > overflows),
		      e);
	return rc < 0 ? rc : 0;
}

static json_t *measured_json(double x)
{
	return x < 0 ? json_null() : json_real(x);
}

static int on_measure(struct agent *a, const json_t *msg, struct err *e)
{
	int at, latency_ms, bandwidth_ms, rc;
	struct probe_path p;

	if (json_unpack((json_t *)(uintptr_t)msg, "{si si si}", "path", &at, "latency_ms",
			&latency_ms, "bandwidth_ms", &bandwidth_ms) ||
	    at < 0 || at >= a->plan.npaths || latency_ms < 0 || latency_ms > 10000 ||
	    bandwidth_ms < 0 || bandwidth_ms > 10000)
		return fail(e, RINGUP_EINVAL, "this cannot be measured");
	p = a->plan.paths[at];
	/* A peer that no longer answers has no latency, which is a result as well. */
	speed_measure(&p, &a->key, latency_ms, bandwidth_ms, NULL);
	rc = talk_say(a->talk,
		      json_pack("{ss si so so so}", "op", "measured", "path", at,
				"latency_min_us", measured_json(p.latency_min_us),
				"latency_median_us", measured_json(p.latency_median_us),
				"bandwidth_mbs", measured_json(p.bandwidth_mbs)),
		      e);
	return rc < 0 ? rc : 0;
}

static int on_order(struct agent *a, const json_t *msg, struct err *e)
{
	json_t *reply = NULL;
	int rc = a->orders->obey(a->orders->self, msg, &reply, e);

	a->ordered = true;
	if (!rc)
		rc = talk_say(a->talk, reply, e);
	return rc < 0 ? rc : 0;
}

/* The check refuses an agent that was started by hand. */
static int on_refusal(const json_t *msg, struct err *e)
{
	const char *why = json_string_value(json_object_get(msg, "why"));

	fail(e, RINGUP_EINVAL, "%.200s", why ? why : "the check has refused");
	talk_clean(e->text);
	return e->code;
}

static int on_message(struct agent *a, const json_t *msg, struct err *e)
{
	const char *op = json_string_value(json_object_get(msg, "op"));
	int port;

	if (op && !a->ordered && !strcmp(op, "hello")) {
		port = on_hello(a, msg, e);
		return port < 0 ? port : agent_tell_facts(a, port, e);
	}
	if (op && a->greeted && !strcmp(op, "reach"))
		return on_reach(a, msg, e);
	if (op && a->greeted && !strcmp(op, "measure"))
		return on_measure(a, msg, e);
	/* An agent that has rights left does not listen to the network. */
	if (op && !a->greeted && a->orders && a->orders->knows(op))
		return on_order(a, msg, e);
	if (op && a->known && !strcmp(op, "error"))
		return on_refusal(msg, e);
	return fail(e, RINGUP_EINVAL, "unknown order \"%.40s\"", op ? op : "");
}

static int agent_hear(struct agent *a, struct err *e)
{
	json_t *msg;
	int rc;

	for (;;) {
		rc = talk_next(a->talk, &msg, e);
		if (rc <= 0)
			return rc;
		rc = on_message(a, msg, e);
		json_decref(msg);
		if (rc)
			return rc;
	}
}

static int agent_converse(struct agent *a, struct err *e)
{
	struct pollfd p[2];
	int rc = 0;

	while (!rc) {
		p[0] = (struct pollfd){ talk_fd(a->talk), talk_events(a->talk), 0 };
		p[1] = (struct pollfd){ a->greeted ? a->echo.epoll : -1, POLLIN, 0 };
		poll(p, 2, 1000);
		if (a->greeted)
			echo_serve(&a->echo);
		if (p[0].revents & POLLOUT)
			rc = talk_flush(a->talk, e);
		if (rc >= 0 && p[0].revents & ~POLLOUT)
			rc = talk_read(a->talk, e);
		rc = rc < 0 ? rc : agent_hear(a, e);
	}
	/* The other end has closed the conversation, which is how a check ends. */
	return rc == RINGUP_EPEER ? 0 : rc;
}

int agent_run(struct talk *t, const char *root, const struct secret *known,
	      const struct agent_orders *orders, struct err *e)
{
	/* The check asks for names later, with a time limit. */
	struct netfacts_from from = { .root = root };
	struct snapshot s;
	struct agent a = { .talk = t, .snapshot = &s, .orders = orders, .known = known };
	int rc = netfacts_read(&s, &from, e);

	alarm(known ? AGENT_WAIT_SECONDS : AGENT_SECONDS);
	if (!rc)
		rc = agent_converse(&a, e);
	if (rc)
		talk_say(t, json_pack("{ss ss}", "op", "error", "why", e->text), NULL);
	if (a.greeted)
		echo_close(&a.echo);
	facts_free(&a.plan);
	json_decref(a.names);
	sodium_memzero(&a.key, sizeof(a.key));
	snapshot_free(&s);
	return rc;
}
