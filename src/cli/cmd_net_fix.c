/* cmd_net_fix.c - `ringup net fix`: make all libraries use one interface. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "cli/settled.h"
#include "cli/targets.h"
#include "detect/netfacts.h"
#include "nicpick/common.h"
#include "nicpick/fix.h"
#include "nicpick/outcome.h"
#include "ringup.h"
#include "settle/pinlib.h"

static int dry_run, undo, force, pin, as_json;
static const char *interface, *root, *network, *prefer, *from;
static struct opt_list snapshots, nodes;
static struct targets targets;

static const struct opt opts[] = {
	{ OPT_FLAG, 'n', "dry-run", NULL, &dry_run, "print the changes without making them" },
	{ OPT_FLAG, 0, "force", NULL, &force,
	  "comment out conflicting lines; --undo restores them" },
	{ OPT_STR, 'f', "from", "FILE", &from,
	  "decide for a node that `ringup net snapshot` recorded" },
	{ OPT_STR, 'i', "interface", "NAME", &interface,
	  "use this interface instead of the best one" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_STR, 0, "network", "CIDR", &network,
	  "use the interface with an address in this network" },
	{ OPT_LIST, 'N', "nodes", "NODE", &nodes,
	  "change these nodes over ssh instead of this one; operands add more" },
	{ OPT_FLAG, 0, "pin", NULL, &pin,
	  "also install NCCL's env plug-in, so that variables cannot override the file" },
	{ OPT_STR, 0, "prefer", "WHAT", &prefer,
	  "speed or infiniband, if several interfaces reach all nodes" },
	{ OPT_STR, 'r', "root", "DIR", &root, "write below DIR instead of /" },
	{ OPT_LIST, 's', "snapshot", "FILE", &snapshots,
	  "another node that must be reachable; may be repeated" },
	{ OPT_FLAG, 'u', "undo", NULL, &undo, "remove the written lines" },
	TARGETS_OPTS(targets, "limit for agents to start (6)"),
	{ 0 },
};

static const char name_of_this[] = "this node";

static const char *where(void)
{
	return root ? root : cmd_conf()->root;
}

/* This node, which is configured, and the nodes that it must agree with. */
struct group {
	struct snapshot *node;
	struct common_node *common; /* as many as snapshots; the first is this node */
	int n;
	char network[COMMON_NETWORK];
};

/* All results for the report. */
struct report {
	const struct group *group;
	const struct pick *chosen; /* NULL: none, or undo */
	struct fix plan;
	struct outcome outcome;
	struct change change; /* the effects of plan and outcome */
	const char *error;    /* why nothing is changed, or NULL */
};

/* JSON. */

static int cmd_net_fix_print_json(const struct report *r, struct err *e)
{
	const struct group *g = r->group;
	bool done = !r->error && !dry_run;

	json_t *change = change_json(&r->change), *all;

	all = json_pack(
		"{ss so so so so so sb sb so}", "schema", "ringup.net.fix/1", "interface",
		out_string_or_null(r->chosen ? r->chosen->interface : NULL), "address",
		out_string_or_null(r->chosen ? r->chosen->address : NULL), "network",
		out_string_or_null(g->network), "note",
		out_string_or_null(g->n ? g->common[0].own.roles[0].note : NULL), "interfaces",
		g->n ? settled_fates_json(&g->node[0].ifaces, &g->common[0].own) : json_array(),
		"dry_run", dry_run, "changed", done && change_count(&r->change) > 0, "error",
		out_string_or_null(r->error));
	json_object_update(all, change);
	json_decref(change);
	return out_json(all, e);
}

/* Text. */

static int print_fates(const struct group *g, struct err *e)
{
	static const char *const heads[] = { "INTERFACE", "USED", "WHY", NULL };
	const struct picked *own = &g->common[0].own;
	struct out_table t;

	out_table_init(&t, heads);
	for (int i = 0; i < own->nfates && i < g->node[0].ifaces.nifaces; i++) {
		bool used = own->fates[i].used;

		out_table_cell(&t, OUT_BOLD, "%s", g->node[0].ifaces.ifaces[i].name);
		out_table_cell(&t, used ? OUT_GOOD : OUT_DIM, used ? "yes" : "no");
		out_table_cell(&t, OUT_PLAIN, "%s", own->fates[i].rule);
	}
	return out_table_print(&t, e);
}

/* Prints why Open MPI gets a network beside the name. */
static void print_network(const struct report *r)
{
	if (r->chosen && *r->group->network)
		out_text("%s for Open MPI: a network, since the interface has different names "
			 "on the nodes\n",
			 r->group->network);
}

static int cmd_net_fix_print_text(const struct report *r, struct err *e)
{
	int changes = change_count(&r->change), rc = 0;
	const char *name = r->chosen ? r->chosen->interface : NULL;

	/* No output of a dry run on stdout means no change, which scripts test. */
	if (!changes && dry_run) {
		out_note("nothing to change\n");
		return 0;
	}
	if (name)
		rc = print_fates(r->group, e);
	print_network(r);
	settled_print_patches(&r->change);
	if (!rc && name)
		rc = settled_print_libraries(&r->change, e);
	if (!changes)
		out_text("nothing to change%s%s\n", name ? ": settled already, " : "",
			 name ? name : "");
	else if (name && !dry_run)
		out_text("configured %s for NCCL, Open MPI, Gloo and Horovod\n", name);
	return rc;
}

static void print_trouble(const struct report *r)
{
	for (int i = 0; r->error && i < r->plan.nconflicts; i++)
		out_note("ringup net fix: %s%s\n", where(), r->plan.conflict[i]);
	if (r->chosen)
		settled_note_strays(&r->change, "", r->chosen->interface);
	if (r->error)
		out_note("ringup net fix: %s\n", r->error);
}

/* Prints the report; the answer is "no" if there is a fault. */
static int conclude(const struct report *r, struct err *e)
{
	int rc = 0;

	if (as_json)
		rc = cmd_net_fix_print_json(r, e);
	else if (!r->error)
		rc = cmd_net_fix_print_text(r, e);
	else if (r->group->n)
		rc = print_fates(r->group, e);
	if (!as_json)
		print_trouble(r);
	if (rc)
		return rc;
	return r->error || r->outcome.strays ? CMD_NO : CMD_YES;
}

/* Reading. */

/* The user may give the snapshots of all nodes to each node. */
static bool is_same_node(const struct snapshot *a, const struct snapshot *b)
{
	if (!*a->settings.hostname || strcmp(a->settings.hostname, b->settings.hostname) != 0 ||
	    a->ifaces.nifaces != b->ifaces.nifaces)
		return false;
	for (int i = 0; i < a->ifaces.nifaces; i++)
		if (a->ifaces.ifaces[i].index != b->ifaces.ifaces[i].index ||
		    strcmp(a->ifaces.ifaces[i].mac, b->ifaces.ifaces[i].mac) != 0)
			return false;
	return true;
}

static void add_node(struct group *g, const char *name)
{
	const struct snapshot *s = &g->node[g->n];

	g->common[g->n++] = (struct common_node){
		.name = *s->settings.hostname ? s->settings.hostname : name,
		.container_ip = netfacts_container_ip(s),
		.ifaces = &s->ifaces,
	};
}

static int read_group(struct group *g, struct err *e)
{
	struct netfacts_from here = { .root = where(), .file = from };
	int rc;

	g->node = calloc((size_t)snapshots.count + 1, sizeof(*g->node));
	g->common = calloc((size_t)snapshots.count + 1, sizeof(*g->common));
	if (!g->node || !g->common)
		return fail(e, RINGUP_ENOMEM, "no memory for %d nodes", snapshots.count + 1);
	rc = netfacts_read(&g->node[0], &here, e);
	if (!rc)
		add_node(g, name_of_this);
	for (int i = 0; !rc && i < snapshots.count; i++) {
		rc = snapshot_load(&g->node[g->n], snapshots.item[i], e);
		if (!rc && is_same_node(&g->node[0], &g->node[g->n]))
			snapshot_free(&g->node[g->n]);
		else if (!rc)
			add_node(g, snapshots.item[i]);
	}
	return rc;
}

static void group_free(struct group *g)
{
	for (int i = 0; g->node && g->common && i <= snapshots.count; i++) {
		picker_free(&g->common[i].own);
		snapshot_free(&g->node[i]);
	}
	free(g->node);
	free(g->common);
}

/* Deciding. */

static enum own_prefer preference(void)
{
	if (!prefer)
		return OWN_ROUTE;
	return strcmp(prefer, "speed") ? OWN_INFINIBAND : OWN_SPEED;
}

static struct common_ask choice(void)
{
	const char *always = cmd_conf()->interface;

	return (struct common_ask){
		.interface = interface ? interface : network || !*always ? NULL : always,
		.named_by = interface ? "--interface" : NULL,
		.network = network,
		.prefer = preference(),
		.decide = "--interface=",
	};
}

/* Sets @r to the interface to settle on; or r->error, with the text in @why. */
static int cmd_net_fix_choose(struct group *g, struct report *r, struct err *why, struct err *e)
{
	struct common_ask ask = choice();
	const struct pick *p;
	const struct iface *f;
	int rc = common_choose(g->common, g->n, &ask, g->network, why);

	if (rc == RINGUP_EINVAL) {
		r->error = why->text;
		return 0;
	}
	if (rc)
		return fail(e, rc, "%s", why->text);
	p = &g->common[0].own.roles[0].picks[0];
	f = iface_find(&g->node[0].ifaces, p->interface);
	if (!f || (f->flags & IFF_LOOPBACK && !ask.interface))
		r->error = "nothing to configure: this host has no network, and a single host "
			   "needs no settings";
	else
		r->chosen = p;
	return 0;
}

static int judge_outcome(struct report *r, struct err *e)
{
	const char **names = netfacts_names();
	int rc;

	if (!names)
		return fail(e, RINGUP_ENOMEM, "no memory for settings");
	rc = outcome_of(&r->outcome, &r->plan, &r->group->node[0], r->chosen->interface, names,
			e);
	free(names);
	return rc;
}

static int cmd_net_fix_settle(struct report *r, struct err *e)
{
	char path[PATH_MAX];
	struct fix_want want = { .interface = r->chosen ? r->chosen->interface : NULL,
				 .network = *r->group->network ? r->group->network : NULL,
				 .force = force };
	int rc = pin && r->chosen ? pinlib_find(where(), path, e) : 0;

	want.pin = pin && r->chosen ? path : NULL;
	if (!rc)
		rc = fix_plan(&r->plan, where(), &want, e);
	if (!rc && r->plan.nconflicts)
		r->error = "nothing was changed, since these other lines contradict the "
			   "choice; remove them, or use --force";
	else if (!rc && r->chosen)
		rc = judge_outcome(r, e);
	if (!rc)
		rc = change_make(&r->change, &r->plan, where(), &r->outcome, e);
	if (!rc && !r->error && !dry_run)
		rc = fix_apply(&r->plan, where(), e);
	return rc ? rc : conclude(r, e);
}

static int fix_this_node(struct err *e)
{
	struct group g = { 0 };
	struct report r = { .group = &g };
	struct err why = { 0 };
	int rc = undo ? 0 : read_group(&g, e);

	if (!rc && !undo)
		rc = cmd_net_fix_choose(&g, &r, &why, e);
	if (!rc)
		rc = r.error ? conclude(&r, e) : cmd_net_fix_settle(&r, e);
	change_free(&r.change);
	fix_free(&r.plan);
	group_free(&g);
	return rc;
}

/* Many nodes. */

/* Adds the values of --nodes, which may be lists with commas, then the operands. */
static int name_nodes(struct roster *r, int argc, char **argv, struct err *e)
{
	char name[ROSTER_NAME];
	const char *at;
	size_t len;
	int rc = 0;

	for (int i = 0; !rc && i < nodes.count; i++)
		for (at = nodes.item[i]; !rc && *at; at += len + (at[len] == ',')) {
			len = strcspn(at, ",");
			if (len >= sizeof(name))
				return cmd_misuse(e, "--nodes=%.80s: name too long", at);
			snprintf(name, sizeof(name), "%.*s", (int)len, at);
			rc = roster_add(r, name, e);
		}
	return rc ? rc : targets_find(&targets, argc, argv, 1, r, e);
}

static int conclude_nodes(const struct settle_options *how, const struct settle *s,
			  struct err *e)
{
	int i, rc = as_json ? out_json(settled_nodes_json(how, s), e)
			    : settled_print_nodes(how, s, e);

	if (rc)
		return rc;
	if (*s->error && s->failed)
		return fail(e, RINGUP_ESYSTEM, "%s", s->error);
	if (*s->error && !as_json)
		out_note("ringup net fix: %s\n", s->error);
	for (i = 0; i < s->n; i++)
		if (*s->error || *s->node[i].error || change_strays(&s->node[i].change))
			rc = CMD_NO;
	return rc;
}

static int fix_nodes(int argc, char **argv, struct err *e)
{
	struct roster r = { 0 };
	struct settle s = { 0 };
	struct settle_options how = {
		.ask = choice(),
		.undo = undo,
		.dry_run = dry_run,
		.force = force,
		.pin = pin,
	};
	int rc = name_nodes(&r, argc, argv, e);

	if (!rc)
		how.agents = targets_agents(&targets, &r);
	if (!rc)
		rc = settle_run(&how, &s, e);
	targets_end_progress();
	if (!rc)
		rc = conclude_nodes(&how, &s, e);
	settle_free(&s);
	roster_free(&r);
	return rc;
}

static bool is_for_nodes(void)
{
	return nodes.count || targets_are_given(&targets);
}

static int check_usage(struct err *e)
{
	struct iface_ip ip;
	int prefix;

	if (is_for_nodes() && (root || from || snapshots.count))
		return cmd_misuse(
			e, "--nodes works on running nodes: no --root, --from or --snapshot");
	if (undo && (interface || (force && !is_for_nodes()) || network || prefer || pin ||
		     snapshots.count || from))
		return cmd_misuse(e, "--undo removes everything; combine it only with "
				     "--dry-run, --json and --root");
	if (root && *root != '/')
		return cmd_misuse(e, "--root=%.80s: not an absolute path", root);
	if (network && !own_network(network, &ip, &prefix))
		return cmd_misuse(e, "--network=%.80s: not a network such as 10.0.0.0/24",
				  network);
	if (prefer && strcmp(prefer, "speed") != 0 && strcmp(prefer, "infiniband") != 0)
		return cmd_misuse(e, "--prefer=%.80s: speed or infiniband", prefer);
	return 0;
}

static int cmd_net_fix_run(int argc, char **argv, struct err *e)
{
	int rc = check_usage(e);

	if (!rc && argc && !is_for_nodes())
		rc = cmd_misuse(e, "%.80s: to configure other nodes, use --nodes %.80s",
				argv[0], argv[0]);
	if (rc)
		return rc;
	return is_for_nodes() ? fix_nodes(argc, argv, e) : fix_this_node(e);
}

const struct cmd cmd_net_fix = {
	.name = "fix",
	.operands = "[NODE]...",
	.summary = "make NCCL, Open MPI, Gloo and Horovod use one interface",
	.examples = "ringup net fix --dry-run\n"
		    "ringup net fix --interface eth0\n"
		    "ringup net fix --snapshot n2.json --snapshot n3.json\n"
		    "ringup net fix --nodes n1 n2 n3 --dry-run\n"
		    "ringup net fix --hostfile hosts\n"
		    "ringup net fix --pin\n"
		    "ringup net fix --undo",
	.opts = opts,
	.max = -1,
	.run = cmd_net_fix_run,
};
