/* facts.h - the facts of a network check: nodes, paths, findings; to and from JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_FACTS_H
#define PROBE_FACTS_H

#include <jansson.h>

#include "host/iface.h"
#include "host/snapshot.h"

struct err;

/*
 * `ringup net check --json` and these structures hold the same; facts.c converts one into the
 * other.  A check fills in nodes and paths only; verdict.c reads these and adds findings and
 * the verdict.  Nodes are referred to by position.
 *
 * All pointers are owned by the struct probe_facts, which facts_free() empties.  Texts come
 * from other machines: they may hold any character but NUL.
 */
enum { FACTS_ALL = 1000 };
enum { FACTS_NAME = 256, FACTS_WORD = 24, FACTS_TEXT = 256, FACTS_ID = 40 };

/* How an attempt to connect ended. */
#define FACTS_STATES(X)               \
	X(OPEN, "open")               \
	X(REFUSED, "refused")         \
	X(FILTERED, "filtered")       \
	X(PROHIBITED, "prohibited")   \
	X(UNREACHABLE, "unreachable") \
	X(IMPOSTOR, "impostor")

enum facts_state {
#define X(name, text) FACTS_##name,
	FACTS_STATES(X)
#undef X
		FACTS_STATE_COUNT
};

enum facts_severity { FACTS_NOTE, FACTS_WARNING, FACTS_ERROR };

/* An address that a library would use on its node, or would announce. */
struct probe_use {
	char library[FACTS_WORD], role[FACTS_WORD]; /* as picker.h calls them */
	char interface[IFACE_NAME];                 /* "": of no interface */
	char address[IFACE_TEXT];
};

struct probe_node {
	char name[FACTS_NAME];     /* as the user called it                  */
	char hostname[FACTS_NAME]; /* as it calls itself; "" if not known    */
	char error[FACTS_TEXT];    /* why it reported nothing; "": it did    */
	char machine_id[FACTS_ID]; /* "" if it has none                      */
	bool has_snapshot;
	struct snapshot snapshot;
	struct probe_use *uses;
	int nuses;
	struct netconf_host *resolves; /* the nodes' names as this node resolves them */
	int nresolves;
	char **firewall; /* rules that may block connections, one line each */
	int nfirewall;
	bool is_table_full; /* its table of neighbours overflowed meanwhile */
};

struct probe_port {
	int number;            /* 1..65535 */
	char kind[FACTS_WORD]; /* "ephemeral", "registered" (1024 and up), "store" (29500),
				* "rendezvous" (29400), "sample 1" and so on: ephemeral */
};

/* Sizes in bytes, all headers included for link; payload of UDP for df. */
struct probe_mtu {
	int link;    /* of the interface the packets leave by; 0: nothing was measured */
	int df;      /* the largest that arrived unbroken; 0: none was answered */
	int segment; /* did full-size TCP segments arrive?  1, 0, or -1: not tried */
};

/* One address of @to, tried from @from, on one port. */
struct probe_path {
	int from, to;
	char address[IFACE_TEXT];
	char interface[IFACE_NAME]; /* of @to                                     */
	char via[IFACE_NAME];       /* of @from, by its routes; "" if there is no way */
	char source[IFACE_TEXT];    /* of @from, likewise                         */
	char seen[IFACE_TEXT];      /* the source address that @to saw; "": not known */
	char neighbour[FACTS_WORD]; /* the MAC that @from has for the address; "": none */
	struct probe_port port;
	enum facts_state state;
	char error[FACTS_WORD]; /* "ECONNREFUSED"; "" if nothing failed */
	int answered;           /* the node that really answered; -1: no known one */
	struct probe_mtu mtu;
	double latency_min_us, latency_median_us; /* a round trip; < 0: not measured   */
	double bandwidth_mbs;                     /* 10^6 bytes a second; < 0: likewise */
};

struct probe_finding {
	char code[48]; /* "duplicate-address" */
	enum facts_severity severity;
	int *nodes; /* those at fault first */
	int nnodes;
	char interface[IFACE_NAME], address[IFACE_TEXT]; /* "" if there is none */
	int from, to;                                    /* -1 if there is none */
	int stops;                    /* libraries that are affected; FACTS_ALL: any */
	char *what, *why, *fix, *run; /* sentences; NULL if there is none */
};

struct probe_facts {
	double seconds; /* duration of the check */
	struct probe_node *nodes;
	int nnodes;
	struct probe_path *paths;
	int npaths;
	struct probe_finding *findings; /* the worst first */
	int nfindings;
	char *verdict; /* one line; NULL before verdict_find() */
};

/*
 * facts_add_node, ... - append; the new element is zeroed, except that fields with a value for
 * "not known" (answered, latency, from, ...) have that.
 *
 * Returns NULL without memory.  Pointers to elements last until the next one is added.
 */
struct probe_node *facts_add_node(struct probe_facts *f, const char *name);
struct probe_use *facts_add_use(struct probe_node *n);
struct netconf_host *facts_add_host(struct probe_node *n, const char *name);
int facts_add_rule(struct probe_node *n, const char *rule); /* 0, or RINGUP_ENOMEM */
struct probe_path *facts_add_path(struct probe_facts *f);
struct probe_finding *facts_add_finding(struct probe_facts *f);

const char *facts_state_text(enum facts_state s);
const char *facts_severity_text(enum facts_severity s);

/* facts_is_live - has this node reported its facts? */
bool facts_is_live(const struct probe_facts *f, int node);

/* facts_unmeasured - count the paths between live nodes that carry data but have no round trip;
 * *@ofp: all such paths, measured or not. */
int facts_unmeasured(const struct probe_facts *f, int *ofp);

/* facts_owner - the address of @node that equals the text @address, or NULL. */
const struct iface_addr *facts_owner(const struct probe_facts *f, int node,
				     const char *address);

/*
 * facts_net - the network of an address of @node: "10.0.0.0/24"; "" if the node lacks it.
 *
 * Where the prefix tells nothing, as /32 in some clouds, the interface's name; returns @out.
 */
const char *facts_net(const struct probe_facts *f, int node, const char *address,
		      char out[IFACE_TEXT]);

/* facts_json - `ringup.net.check/1`, findings and verdict included; the caller owns the
 * reference; NULL without memory. */
json_t *facts_json(const struct probe_facts *f);

/*
 * facts_parse - the reverse, so that a check can be judged and shown elsewhere.
 *
 * @json is untrusted.  Unknown members are ignored; so are findings and verdict, which
 * verdict_find() makes anew.  The text of RINGUP_EINVAL says which member is wrong.
 *
 * Ownership: the contents are the caller's until facts_free(), also on failure.
 */
int facts_parse(struct probe_facts *f, const json_t *json, struct err *e);

/* facts_load - facts_parse() of a file. */
int facts_load(struct probe_facts *f, const char *path, struct err *e);

void facts_free(struct probe_facts *f);

#endif
