/* test_verdict.c - with one fault among any number of nodes, the first line names it. */
#include "probe/verdict.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "checks.h"
#include "tap.h"

/* Put the fault in; @k is the node it is about, @j another. */
typedef void inject(struct probe_facts *f, int k, int j);

static void fail_path(struct probe_path *p, enum facts_state state, const char *error)
{
	p->state = state;
	p->latency_min_us = p->latency_median_us = p->bandwidth_mbs = -1;
	p->mtu = (struct probe_mtu){ 0, 0, -1 };
	p->answered = -1;
	snprintf(p->error, sizeof(p->error), "%s", error);
}

/* From @from to @to (-1: any) at ports of @kind ("": any)? */
static bool is_of(const struct probe_path *p, int from, int to, const char *kind)
{
	return (from < 0 || p->from == from) && (to < 0 || p->to == to) &&
	       (!*kind || !strcmp(p->port.kind, kind));
}

#define EACH(f, p, from, to, kind)                              \
	for (p = (f)->paths; p < (f)->paths + (f)->npaths; p++) \
		if (is_of(p, from, to, kind))

static struct iface_addr *address_of(struct probe_facts *f, int node, int iface)
{
	struct iface_list *l = &f->nodes[node].snapshot.ifaces;
	int i;

	for (i = 0; i < l->naddrs && l->addrs[i].iface != iface; i++)
		;
	return &l->addrs[i];
}

static void no_agent(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	snprintf(f->nodes[k].error, sizeof(f->nodes[k].error), "ssh: Connection timed out");
	f->nodes[k].has_snapshot = false;
	EACH(f, p, -1, k, "")
	fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
}

static void docker(struct probe_facts *f, int k, int j)
{
	int i;

	(void)k;
	(void)j;
	for (i = 0; i < f->nnodes; i++) {
		checks_iface(f, i, "docker0", IFACE_BRIDGE, "172.17.0.1", 16);
		checks_use(f, i, "openmpi", "btl", "docker0", "172.17.0.1");
	}
	for (i = 1; i < f->nnodes; i++) {
		struct probe_path *p = checks_path(f, i, 0, "docker0", "172.17.0.1",
						   "172.17.0.1", "ephemeral");

		fail_path(p, FACTS_IMPOSTOR, "");
		p->answered = i;
	}
}

static void same_address(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	address_of(f, k, 1)->ip = address_of(f, j, 1)->ip;
	EACH(f, p, -1, k, "")
	{
		snprintf(p->address, sizeof(p->address), "%s", f->paths[0].address);
		iface_text(&address_of(f, j, 1)->ip, p->address);
		p->state = p->from == j ? FACTS_IMPOSTOR : FACTS_FILTERED;
	}
}

static void same_mac(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	memcpy(f->nodes[k].snapshot.ifaces.ifaces[1].mac,
	       f->nodes[j].snapshot.ifaces.ifaces[1].mac, IFACE_MAC);
	EACH(f, p, -1, k, "store")
	fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
}

static void same_machine(struct probe_facts *f, int k, int j)
{
	memcpy(f->nodes[k].hostname, f->nodes[j].hostname, FACTS_NAME);
	memcpy(f->nodes[k].machine_id, f->nodes[j].machine_id, FACTS_ID);
	memcpy(f->nodes[k].snapshot.ifaces.ifaces, f->nodes[j].snapshot.ifaces.ifaces,
	       2 * sizeof(struct iface));
	memcpy(f->nodes[k].snapshot.ifaces.addrs, f->nodes[j].snapshot.ifaces.addrs,
	       2 * sizeof(struct iface_addr));
}

static void same_hostname(struct probe_facts *f, int k, int j)
{
	memcpy(f->nodes[k].hostname, f->nodes[j].hostname, FACTS_NAME);
}

static void same_id(struct probe_facts *f, int k, int j)
{
	memcpy(f->nodes[k].machine_id, f->nodes[j].machine_id, FACTS_ID);
}

static void loopback_name(struct probe_facts *f, int k, int j)
{
	(void)j;
	iface_parse(&f->nodes[k].resolves[k].ips[0], "127.0.1.1");
	snprintf(f->nodes[k].uses[3].address, IFACE_TEXT, "127.0.1.1");
}

static void wrong_name(struct probe_facts *f, int k, int j)
{
	iface_parse(&f->nodes[k].resolves[j].ips[0], "10.9.9.9");
}

static void loopback_pick(struct probe_facts *f, int k, int j)
{
	(void)j;
	snprintf(f->nodes[k].uses[0].interface, IFACE_NAME, "lo");
	snprintf(f->nodes[k].uses[0].address, IFACE_TEXT, "127.0.0.1");
}

static void drop_in(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	EACH(f, p, -1, k, "")
	fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
}

static void drop_in_by_rule(struct probe_facts *f, int k, int j)
{
	facts_add_rule(&f->nodes[k],
		       "nft: table inet filter chain input: tcp dport 1024-65535 drop");
	drop_in(f, k, j);
}

/* J's own rule against K; K's rule and another of J's are about others. */
static void drop_out_by_rule(struct probe_facts *f, int k, int j)
{
	char address[IFACE_TEXT], rule[128];
	struct probe_path *p;

	EACH(f, p, j, k, "")
	fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
	facts_add_rule(&f->nodes[k], "nft: table inet x chain c: ip saddr 192.0.2.0/24 drop");
	facts_add_rule(&f->nodes[j],
		       "nft: table inet x chain c (output): ip daddr 192.0.2.1 drop");
	snprintf(rule, sizeof(rule), "nft: table inet x chain c (output): ip daddr %s drop",
		 checks_address(k, address));
	facts_add_rule(&f->nodes[j], rule);
}

static void two_faults(struct probe_facts *f, int k, int j)
{
	docker(f, k, j);
	drop_in(f, k, j);
}

static void reset_port(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	EACH(f, p, -1, k, "store")
	fail_path(p, FACTS_REFUSED, "ECONNREFUSED");
}

static void no_route_out(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	EACH(f, p, k, -1, "")
	fail_path(p, FACTS_UNREACHABLE, "ENETUNREACH");
}

static void cut_off(struct probe_facts *f, int k, int j)
{
	drop_in(f, k, j);
	no_route_out(f, k, j);
}

static void one_direction(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	EACH(f, p, j, k, "")
	fail_path(p, FACTS_PROHIBITED, "EHOSTUNREACH");
}

static void no_pair(struct probe_facts *f, int k, int j)
{
	one_direction(f, k, j);
	one_direction(f, j, k);
}

static void security_group(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)k;
	(void)j;
	EACH(f, p, -1, -1, "ephemeral")
	fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
}

/* Each its own network, which leads nowhere. */
static void lone_bridges(struct probe_facts *f, int k, int j)
{
	char address[IFACE_TEXT];
	int a, b;

	(void)k;
	(void)j;
	for (a = 0; a < f->nnodes; a++) {
		snprintf(address, sizeof(address), "172.%d.0.1", 17 + a);
		checks_iface(f, a, "cni0", IFACE_BRIDGE, address, 16);
		checks_use(f, a, "openmpi", "btl", "cni0", address);
		for (b = 0; b < f->nnodes; b++)
			if (a != b)
				fail_path(
					checks_path(f, b, a, "cni0", address, "", "ephemeral"),
					FACTS_UNREACHABLE, "EHOSTUNREACH");
	}
}

static void split(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)k;
	(void)j;
	EACH(f, p, -1, -1, "")
	if (p->from % 2 != p->to % 2)
		fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
}

static void impostor(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	EACH(f, p, -1, k, "")
	fail_path(p, FACTS_IMPOSTOR, "");
}

static void translated(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	EACH(f, p, k, -1, "")
	snprintf(p->seen, sizeof(p->seen), "10.7.7.7");
	EACH(f, p, -1, k, "")
	fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
}

static void stale_neighbour(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	EACH(f, p, k, j, "")
	{
		fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
		snprintf(p->neighbour, sizeof(p->neighbour), "02:66:66:66:66:66");
	}
	EACH(f, p, j, k, "")
	fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
}

static void full_table(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	f->nodes[k].is_table_full = true;
	EACH(f, p, k, -1, "")
	fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
}

static void black_hole(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	EACH(f, p, j, k, "ephemeral")
	p->mtu = (struct probe_mtu){ 9000, 1472, 0 };
}

static void small_path(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	EACH(f, p, -1, k, "ephemeral")
	p->mtu = (struct probe_mtu){ 9000, 1472, 1 };
}

static void mtu_differs(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	f->nodes[k].snapshot.ifaces.ifaces[1].mtu = 1500;
	EACH(f, p, -1, k, "ephemeral")
	p->mtu = (struct probe_mtu){ 9000, 1472, 1 };
	EACH(f, p, k, -1, "ephemeral")
	p->mtu = (struct probe_mtu){ 1500, 1472, 1 };
}

static void shared_subnet(struct probe_facts *f, int k, int j)
{
	(void)j;
	checks_iface(f, k, "eth1", IFACE_PHYSICAL, "10.0.7.7", 16);
}

static void two_addresses(struct probe_facts *f, int k, int j)
{
	struct iface_addr *a;

	(void)j;
	a = iface_add_addr(&f->nodes[k].snapshot.ifaces);
	*a = *address_of(f, k, 1);
	iface_parse(&a->ip, "10.0.8.8");
	checks_use(f, k, "openmpi", "btl", "eth0", "10.0.8.8");
}

static void other_name(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	snprintf(f->nodes[k].snapshot.ifaces.ifaces[1].name, IFACE_NAME, "ens5");
	EACH(f, p, -1, k, "")
	snprintf(p->interface, IFACE_NAME, "ens5");
	EACH(f, p, k, -1, "")
	snprintf(p->via, IFACE_NAME, "ens5");
}

static void astray(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	checks_iface(f, k, "eth1", IFACE_PHYSICAL, "192.168.7.7", 24);
	EACH(f, p, k, -1, "")
	snprintf(p->via, IFACE_NAME, "eth1");
}

static void slow_link(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	f->nodes[k].snapshot.ifaces.ifaces[1].speed_mbps = 1000;
	EACH(f, p, -1, k, "ephemeral")
	p->bandwidth_mbs = 117;
	EACH(f, p, k, -1, "ephemeral")
	p->bandwidth_mbs = 117;
}

static void slow_direction(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	EACH(f, p, j, k, "ephemeral")
	p->bandwidth_mbs = 80;
}

static void slow_node(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	EACH(f, p, -1, k, "ephemeral")
	p->latency_median_us = 900;
	EACH(f, p, k, -1, "ephemeral")
	p->latency_median_us = 900;
}

/* Not all pairs of the node, so that no smaller scope than pairs explains them. */
static void slow_pairs(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;
	int done = 0;

	(void)j;
	for (int i = 0; i < f->nnodes && done < 2; i++) {
		if (i == k)
			continue;
		EACH(f, p, i, k, "ephemeral")
		p->latency_median_us = 900;
		EACH(f, p, k, i, "ephemeral")
		p->latency_median_us = 900;
		done++;
	}
}

static void throttled(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)k;
	(void)j;
	EACH(f, p, -1, -1, "ephemeral")
	p->bandwidth_mbs = 110 + p->from;
}

static const struct {
	inject *put;
	const char *code;
	/* What the first line says; K and J stand for the names of the two nodes. */
	const char *says[3];
	int least, most; /* nodes */
	bool note;
} faults[] = {
	{ no_agent, "no-agent", { "K did not answer", "timed out" }, 2, 16, false },
	{ docker, "duplicate-address", { "172.17.0.1 is docker0 of" }, 2, 16, false },
	{ same_address, "duplicate-address", { "is eth0 of", "K", "J" }, 2, 16, false },
	{ same_mac, "duplicate-mac", { "MAC 02:00", "K", "J" }, 2, 16, false },
	{ same_machine, "same-machine", { "the same machine", "K", "J" }, 2, 16, false },
	{ same_hostname, "duplicate-hostname", { "same host name", "K", "J" }, 2, 16, false },
	{ same_id, "duplicate-machine-id", { "same machine id", "K", "J" }, 2, 16, true },
	{ loopback_name,
	  "loopback-name",
	  { "on K, the host's own name resolves to 127.0.1.1" },
	  2,
	  16,
	  false },
	{ wrong_name, "wrong-name", { "on K, the name J resolves to 10.9.9.9" }, 2, 16, false },
	{ loopback_pick,
	  "loopback-pick",
	  { "NCCL would take the loopback", "on K" },
	  2,
	  16,
	  false },
	{ drop_in,
	  "no-way-in",
	  { "no node can reach K on any address", "K or its firewall" },
	  3,
	  16,
	  false },
	{ drop_in, "one-direction", { "J cannot reach K", "the reverse works" }, 2, 2, false },
	{ drop_out_by_rule,
	  "one-direction",
	  { "J cannot reach K", "firewall of J itself" },
	  2,
	  16,
	  false },
	{ drop_in_by_rule,
	  "no-way-in",
	  { "no node can reach K", "firewall of K itself" },
	  3,
	  16,
	  false },
	{ drop_in_by_rule,
	  "one-direction",
	  { "J cannot reach K", "firewall of K itself" },
	  2,
	  2,
	  false },
	{ reset_port,
	  "no-way-in",
	  { "no node can reach K", "29500", "refused" },
	  3,
	  16,
	  false },
	{ no_route_out,
	  "no-way-out",
	  { "K cannot reach any other node", "no route" },
	  3,
	  16,
	  false },
	{ cut_off, "cut-off", { "K is cut off" }, 3, 16, false },
	{ one_direction,
	  "one-direction",
	  { "J cannot reach K", "prohibited", "the reverse works" },
	  2,
	  16,
	  false },
	{ no_pair, "no-connection", { "cannot reach each other", "K", "J" }, 2, 16, false },
	{ security_group,
	  "blocked-port",
	  { "no node can reach another at ephemeral ports" },
	  3,
	  16,
	  false },
	{ security_group, "no-connection", { "each other at ephemeral ports" }, 2, 2, false },
	{ lone_bridges,
	  "wrong-interface",
	  { "cni0 reaches no other node", "Open MPI (btl)" },
	  3,
	  16,
	  false },
	{ lone_bridges, "no-connection", { "each other on cni0" }, 2, 2, false },
	{ split, "split", { "form 2 groups" }, 4, 16, false },
	{ impostor, "impostor", { "on K, but another node answers there" }, 2, 16, false },
	{ translated, "address-translation", { "K arrive from 10.7.7.7" }, 2, 16, false },
	{ stale_neighbour,
	  "wrong-neighbour",
	  { "K has a wrong neighbor entry" },
	  2,
	  16,
	  false },
	{ full_table, "neighbours-full", { "the neighbor table of K is full" }, 2, 16, false },
	{ black_hole,
	  "mtu-black-hole",
	  { "from J to K: 9000 bytes at both ends, 1500 in between" },
	  2,
	  16,
	  false },
	{ small_path, "path-mtu", { "only 1500 pass", "to K" }, 2, 16, false },
	{ mtu_differs,
	  "mtu-mismatch",
	  { "eth0 on K has MTU 1500", "have 9000" },
	  2,
	  16,
	  false },
	{ shared_subnet,
	  "shared-subnet",
	  { "eth0 and eth1 of K are both in 10.0.0.0/16" },
	  2,
	  16,
	  false },
	{ two_addresses,
	  "two-addresses",
	  { "eth0 on K has two IPv4 addresses" },
	  2,
	  16,
	  false },
	{ other_name, "names-differ", { "10.0.0.0/16 is named", "ens5" }, 2, 16, false },
	{ astray, "asymmetric-route", { "K sends to", "through eth1" }, 2, 16, false },
	{ slow_link,
	  "link-speed",
	  { "eth0 on K runs at 1 Gb/s", "others at 10" },
	  2,
	  16,
	  false },
	{ slow_direction, "slow-bandwidth", { "80 MB/s from J to K" }, 2, 16, false },
	{ slow_node, "slow-latency", { "to and from K takes 900 us" }, 3, 16, false },
	{ slow_pairs,
	  "slow-latency",
	  { "between K and each of", "takes 900 us" },
	  5,
	  16,
	  false },
	{ throttled, "link-slow", { "both links have at least 10 Gb/s" }, 2, 16, false },
};

/* Does @line hold @says, with K and J replaced? */
static bool says(const char *line, const char *want, const char *k, const char *j)
{
	char text[256];
	size_t len = 0;

	for (; *want; want++)
		if (*want == 'K' || *want == 'J')
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s",
						*want == 'K' ? k : j);
		else
			text[len++] = *want;
	text[len] = 0;
	return strstr(line, text) != NULL;
}

static void test_fault(size_t i, int n, int k, int j)
{
	struct probe_facts f;
	struct err e = { 0 };
	bool good;
	int s;

	checks_well(&f, n);
	faults[i].put(&f, k, j);
	good = !verdict_find(&f, &e) && f.nfindings &&
	       !strcmp(f.findings[0].code, faults[i].code);
	for (s = 0; good && s < 3 && faults[i].says[s]; s++)
		good = says(f.verdict, faults[i].says[s], f.nodes[k].name, f.nodes[j].name);
	if (!good)
		printf("# %d nodes, %d and %d: %s: %s %s\n", n, k + 1, j + 1,
		       f.nfindings ? f.findings[0].code : "-", f.verdict ? f.verdict : "-",
		       e.text);
	good = good && verdict_is_well(&f) == faults[i].note;
	for (s = 0; good && s < f.nfindings; s++)
		good = f.findings[s].what && f.findings[s].why && f.findings[s].fix;
	/* One cause, one finding of its severity. */
	for (s = 1; good && s < f.nfindings; s++)
		good = f.findings[s].severity < f.findings[0].severity;
	if (!good && f.nfindings > 1)
		printf("# and: %s\n", f.findings[1].what);
	ok(good, "%s among %d nodes: %s", faults[i].code, n, f.verdict ? f.verdict : "-");
	facts_free(&f);
}

static void test_faults(void)
{
	size_t i;
	int n;

	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		for (n = faults[i].least; n <= faults[i].most; n = n < 5 ? n + 1 : n + 11) {
			test_fault(i, n, n - 1, 0);
			test_fault(i, n, n / 2, n / 2 ? 0 : 1);
		}
}

static void test_well(void)
{
	struct probe_facts f;
	struct err e = { 0 };
	int n;

	for (n = 1; n <= 16; n++) {
		checks_well(&f, n);
		ok(!verdict_find(&f, &e) && !f.nfindings && verdict_is_well(&f) &&
			   !strncmp(f.verdict, "no problems", 11),
		   "%d nodes: %s", n, f.verdict);
		facts_free(&f);
	}
	memset(&f, 0, sizeof(f));
	ok(!verdict_find(&f, &e) && verdict_is_well(&f), "nobody: %s", f.verdict);
	facts_free(&f);
}

/* The command of the first finding has this, and not that. */
static void test_command(void (*put)(struct probe_facts *, int, int), const char *has,
			 const char * not )
{
	struct probe_facts f;
	struct err e = { 0 };
	const char *command;

	checks_well(&f, 4);
	put(&f, 2, 0);
	command = verdict_find(&f, &e) || !f.nfindings ? NULL : f.findings[0].run;
	ok(command && strstr(command, has) && !strstr(command, not ), "%s", command);
	facts_free(&f);
}

static void small_node(struct probe_facts *f, int k, int j)
{
	struct probe_path *p;

	(void)j;
	EACH(f, p, -1, k, "ephemeral")
	p->mtu = (struct probe_mtu){ 9000, 1472, 0 };
	EACH(f, p, k, -1, "ephemeral")
	p->mtu = (struct probe_mtu){ 9000, 1472, 0 };
}

/* Cures of sizes lower, and only what the black holes have in common. */
static void test_sizes(void)
{
	struct probe_facts f;
	char name[3][64];
	int i;

	checks_well(&f, 4);
	for (i = 0; i < 3; i++)
		snprintf(name[i], sizeof(name[i]), "%.60s", f.nodes[i].name);
	facts_free(&f);
	test_command(small_node, name[2], name[0]);
	test_command(small_node, "mtu 1500", "for n in");
	test_command(small_path, name[2], name[0]);
	test_command(black_hole, name[0], name[1]);
	test_command(black_hole, name[2], name[1]);
	test_command(mtu_differs, name[0], name[2]);
	test_command(mtu_differs, "mtu 1500", "9000");
}

/* What Horovod's probe drops it does not use, unless it is told to, or nothing is left. */
static void test_horovod(void)
{
	struct probe_facts f;
	struct err e = { 0 };
	char address[IFACE_TEXT];
	int i, k;

	for (k = 0; k < 3; k++) {
		checks_well(&f, 3);
		docker(&f, 0, 0);
		for (i = 0; i < 3; i++) {
			checks_use(&f, i, "horovod", "nic", "docker0", "172.17.0.1");
			if (k < 2)
				checks_use(&f, i, "horovod", "nic", "eth0",
					   checks_address(i, address));
			if (k == 1)
				netconf_add(&f.nodes[i].snapshot.settings, "HOROVOD_GLOO_IFACE",
					    "docker0", "environment", &e);
		}
		ok(!verdict_find(&f, &e) && !strstr(f.findings[0].why, "Horovod") == !k,
		   "%s: %s",
		   !k       ? "probed"
		   : k == 1 ? "told"
			    : "nothing else",
		   f.findings[0].why);
		facts_free(&f);
	}
}

/* docker0 stops Open MPI only, a wall before a node everybody: that comes first. */
static void test_order(void)
{
	struct probe_facts f;
	struct err e = { 0 };

	checks_well(&f, 6);
	two_faults(&f, 2, 0);
	ok(!verdict_find(&f, &e) && f.nfindings == 2 &&
		   !strcmp(f.findings[0].code, "no-way-in") &&
		   !strcmp(f.findings[1].code, "duplicate-address"),
	   "what stops most libraries comes first: %s", f.findings[0].what);
	facts_free(&f);
	checks_well(&f, 6);
	two_faults(&f, 2, 0);
	loopback_name(&f, 3, 0);
	ok(!verdict_find(&f, &e) && f.nfindings == 3 &&
		   !strcmp(f.findings[1].code, "duplicate-address") &&
		   !strcmp(f.findings[2].code, "loopback-name"),
	   "those that stop as many in the order of causes: %s", f.findings[1].what);
	facts_free(&f);
}

/* Judged twice, as when it is read again, it says the same. */
static void test_again(void)
{
	struct probe_facts f;
	struct err e = { 0 };
	char *first;

	checks_well(&f, 6);
	docker(&f, 0, 0);
	drop_in(&f, 2, 0);
	ok(!verdict_find(&f, &e) && f.nfindings == 2 && strstr(f.verdict, "(and 1 more)"),
	   "two faults: %s", f.verdict);
	first = strdup(f.verdict);
	ok(!verdict_find(&f, &e) && f.nfindings == 2 && !strcmp(f.verdict, first), "again");
	free(first);
	facts_free(&f);
}

/* What is doubted is what would be found slow, and what stands in the facts stays. */
static void test_slow(void)
{
	struct probe_facts f;
	struct err e = { 0 };

	checks_well(&f, 3);
	ok(verdict_slow(&f, &e) == 0, "none is slow");
	slow_node(&f, 2, 0);
	ok(verdict_slow(&f, &e) == 4 && !f.nfindings && !f.verdict, "four of six, late");
	slow_direction(&f, 1, 0);
	ok(verdict_slow(&f, &e) == 5, "and one that carries little");
	facts_free(&f);
	checks_well(&f, 2);
	throttled(&f, 0, 1);
	ok(verdict_slow(&f, &e) == 2, "links that do not keep what they promise");
	facts_free(&f);
}

/* Two nodes that reach each other over eth1 alone, in both directions or just one. */
static void test_other_way(void)
{
	struct probe_facts f;
	struct probe_path *p;
	struct err e = { 0 };
	char address[IFACE_TEXT];
	const char *fix;

	checks_well(&f, 4);
	for (int i = 0; i < 4; i++) {
		snprintf(address, sizeof(address), "10.9.0.%d", i + 1);
		checks_iface(&f, i, "eth1", IFACE_PHYSICAL, address, 16);
	}
	EACH(&f, p, -1, -1, "")
	if (p->from < 2 && p->to < 2)
		fail_path(p, FACTS_FILTERED, "ETIMEDOUT");
	checks_path(&f, 0, 1, "eth1", "10.9.0.2", "10.9.0.1", "ephemeral");
	checks_path(&f, 1, 0, "eth1", "10.9.0.1", "10.9.0.2", "ephemeral");
	verdict_find(&f, &e);
	fix = f.nfindings ? f.findings[0].fix : "";
	ok(fix && strstr(fix, "if jobs should use eth0, open it"), "over eth1: %s", fix);
	/* What was taken off the list's end is not looked at. */
	f.npaths--;
	verdict_find(&f, &e);
	fix = f.nfindings ? f.findings[0].fix : "";
	ok(fix && *fix && !strstr(fix, "if jobs"), "in one direction: %s", fix);
	facts_free(&f);
}

/* What others wrote stays one line, and one word of a shell. */
static void test_hostile(void)
{
	struct probe_facts f;
	struct err e = { 0 };

	checks_well(&f, 3);
	snprintf(f.nodes[2].name, FACTS_NAME, "a'; rm -rf\n/");
	no_agent(&f, 2, 0);
	ok(!verdict_find(&f, &e) && !strchr(f.verdict, '\n'), "one line");
	ok(strstr(f.findings[0].run, "'a'\\''; rm -rf\n/'") != NULL, "quoted: %s",
	   f.findings[0].code);
	facts_free(&f);
}

int main(void)
{
	test_well();
	test_faults();
	test_again();
	test_order();
	test_sizes();
	test_horovod();
	test_slow();
	test_other_way();
	test_hostile();
	return tap_done();
}
