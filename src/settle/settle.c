/* settle.c - configure one network on all nodes of a job, or on none of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "settle/settle.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "probe/check.h"
#include "ringup.h"

/* Agents that write. */
struct work {
	const struct settle_options *how;
	struct settle *s;
	struct agents agents;
};

/* Sets the reason why nothing is written; the first reason is kept. */
static void settle_refuse(struct settle *s, bool failed, const char *node, const char *why,
			  const char *remedy)
{
	if (*s->error)
		return;
	s->failed = failed;
	snprintf(s->error, sizeof(s->error), "%.80s%s%.256s; nothing was written%s%s", node,
		 *node ? ": " : "", why, *remedy ? ": " : "", remedy);
}

/* Choosing. */

static bool is_outward(const struct iface_ip *ip)
{
	char text[IFACE_TEXT];

	iface_text(ip, text);
	return strncmp(text, "127.", 4) != 0 && strcmp(text, "::1") != 0;
}

/* The address of node @i's name on the other nodes; "" if they do not know it. */
static void node_address(const struct probe_facts *f, int i, char out[IFACE_TEXT])
{
	const char *name = f->nodes[i].name;
	struct iface_ip ip;

	*out = 0;
	if (iface_parse(&ip, name))
		iface_text(&ip, out);
	for (int k = 0; !*out && k < f->nnodes; k++)
		for (int h = 0; k != i && !*out && h < f->nodes[k].nresolves; h++) {
			const struct netconf_host *host = &f->nodes[k].resolves[h];

			if (!strcmp(host->name, name) && host->nips &&
			    is_outward(&host->ips[0]))
				iface_text(&host->ips[0], out);
		}
}

static void node_add(const struct probe_facts *f, int i, struct common_node *c,
		     char address[IFACE_TEXT])
{
	const struct probe_node *n = &f->nodes[i];
	const struct netconf_row *r = netconf_get(&n->snapshot.settings, "DB_CONTAINER_IP");

	node_address(f, i, address);
	*c = (struct common_node){ .name = n->name,
				   .address = *address ? address : NULL,
				   .container_ip = r ? r->value : NULL,
				   .ifaces = &n->snapshot.ifaces };
}

/* Did all tried paths from @from to the chosen address of @to fail?  False if none was
 * tried. */
static bool is_cut(const struct settle *s, int from, int to, enum facts_state *how)
{
	bool tried = false;

	for (int i = 0; i < s->facts.npaths; i++) {
		const struct probe_path *p = &s->facts.paths[i];

		if (p->from != from || p->to != to ||
		    strcmp(p->address, s->node[to].address) != 0)
			continue;
		if (p->state == FACTS_OPEN)
			return false;
		*how = p->state;
		tried = true;
	}
	return tried;
}

static void settle_check_reach(struct settle *s)
{
	enum facts_state how;
	char why[SETTLE_WHY];

	for (int i = 0; i < s->n; i++)
		for (int k = 0; k < s->n; k++) {
			if (i == k || !*s->node[i].address || !*s->node[k].address ||
			    !is_cut(s, i, k, &how))
				continue;
			snprintf(why, sizeof(why), "cannot reach %s of %.80s: %s",
				 s->node[k].address, s->facts.nodes[k].name,
				 facts_state_text(how));
			settle_refuse(
				s, false, s->facts.nodes[i].name, why,
				"run `ringup net check` to find the node at fault; choose "
				"another network with "
				"--network=CIDR or --interface=NAME, or --force to continue");
		}
}

static void settle_take_choice(const struct settle_options *how, struct settle *s,
			       const int *who, const struct common_node *c, int n)
{
	for (int i = 0; i < n; i++) {
		const struct pick *p = &c[i].own.roles[0].picks[0];
		const struct iface *f = iface_find(c[i].ifaces, p->interface);
		struct settle_node *node = &s->node[who[i]];

		if (!f || (f->flags & IFF_LOOPBACK && !how->ask.interface))
			settle_refuse(s, false, c[i].name, "it has no network", "");

		snprintf(node->interface, sizeof(node->interface), "%s", p->interface);
		snprintf(node->address, sizeof(node->address), "%s", p->address);
	}
}

static int settle_choose(const struct settle_options *how, struct settle *s, struct err *e)
{
	struct common_node *c = calloc((size_t)s->n + 1, sizeof(*c));
	char(*address)[IFACE_TEXT] = calloc((size_t)s->n + 1, sizeof(*address));
	int *who = calloc((size_t)s->n + 1, sizeof(*who)), i, n = 0, rc = 0;
	struct err why = { 0 };

	if (!c || !address || !who)
		rc = fail(e, RINGUP_ENOMEM, "no memory for %d nodes", s->n);
	for (i = 0; !rc && i < s->n; i++)
		if (facts_is_live(&s->facts, i) && s->facts.nodes[i].has_snapshot) {
			node_add(&s->facts, i, &c[n], address[n]);
			who[n++] = i;
		}
	if (!rc && n)
		rc = common_choose(c, n, &how->ask, s->network, &why);
	if (rc == RINGUP_EINVAL) {
		settle_refuse(s, false, "", why.text, "");
		rc = 0;
	} else if (!rc) {
		settle_take_choice(how, s, who, c, n);
		if (!how->force)
			settle_check_reach(s);
	} else if (why.code) {
		fail(e, rc, "%s", why.text);
	}
	for (i = 0; c && i < n; i++)
		picker_free(&c[i].own);
	free(c);
	free(address);
	free(who);
	return rc;
}

/* Gathering facts. */

static int settle_gather(const struct settle_options *how, struct settle *s, struct err *e)
{
	struct check_options check = { .agents = how->agents, .reach_only = true };
	int i, left = 0, rc = check_run(&check, &s->facts, e);

	for (i = 0; !rc && i < s->n; i++) {
		snprintf(s->node[i].error, sizeof(s->node[i].error), "%s",
			 s->facts.nodes[i].error);
		left += !*s->node[i].error;
		if (*s->node[i].error && !how->force)
			settle_refuse(s, false, s->facts.nodes[i].name, s->node[i].error,
				      "--force continues without it");
	}
	if (!rc && !left)
		settle_refuse(s, false, "", "no node answered", "");
	return rc;
}

/* Writing. */

static int reply_take(void *ctx, int i, const json_t *msg, struct err *e)
{
	struct work *w = ctx;
	struct settle_node *n = &w->s->node[i];
	const char *op = json_string_value(json_object_get(msg, "op"));

	if (!strcmp(op, "kept")) {
		n->kept = true;
		return 0;
	}
	n->asked = true;
	return change_parse(&n->change, json_object_get(msg, "change"), e);
}

/* A node that was lost meanwhile is a reason to write nothing, or is left out. */
static void nodes_note_lost(struct work *w, bool leave_out)
{
	for (int i = 0; i < w->s->n; i++) {
		struct settle_node *n = &w->s->node[i];

		if (!w->agents.m[i].lost || *n->error)
			continue;
		snprintf(n->error, sizeof(n->error), "%s", w->agents.m[i].why);
		if (!leave_out)
			settle_refuse(w->s, true, w->how->agents.nodes->name[i], n->error,
				      "--force continues without it");
	}
}

static void nodes_note_conflicts(struct work *w)
{
	for (int i = 0; i < w->s->n; i++)
		if (w->s->node[i].change.nconflicts)
			settle_refuse(w->s, false, w->how->agents.nodes->name[i],
				      "other lines contradict the choice",
				      "remove them, or use --force");
}

static json_t *json_or_null(const char *s)
{
	return *s ? json_string(s) : json_null();
}

static void nodes_stage(struct work *w)
{
	for (int i = 0; i < w->s->n; i++) {
		if (*w->s->node[i].error) {
			agents_lose(&w->agents, i, w->s->node[i].error);
			continue;
		}
		if (agents_start(&w->agents, i))
			agents_say(&w->agents, i,
				   json_pack("{ss so so sb sb sb}", "op", "stage", "interface",
					     json_or_null(w->s->node[i].interface), "network",
					     json_or_null(w->s->network), "force",
					     w->how->force, "pin", w->how->pin, "dry_run",
					     w->how->dry_run),
				   "staged");
		agents_listen(&w->agents, 0);
	}
	agents_await_start(&w->agents);
	nodes_note_lost(w, w->how->force);
	nodes_note_conflicts(w);
}

/* Sends the same order to all remaining nodes. */
static void nodes_tell(struct work *w, const char *op, const char *expect, const char *what)
{
	for (int i = 0; i < w->s->n; i++)
		if (!w->agents.m[i].lost)
			agents_say(&w->agents, i, json_pack("{ss}", "op", op), expect);
	agents_await(&w->agents, what, SETTLE_WRITE_MS,
		     "its agent did not answer after writing");
}

static int nodes_write(const struct settle_options *how, struct settle *s, struct err *e)
{
	struct work w = { .how = how, .s = s };
	int rc = agents_open(&w.agents, &how->agents, (struct agents_owner){ reply_take, &w },
			     e);

	if (!rc)
		nodes_stage(&w);
	if (!rc && !*s->error && !how->dry_run) {
		nodes_tell(&w, "commit", "committed", "nodes written");
		nodes_note_lost(&w, how->force);
	}
	if (!rc && !*s->error && !how->dry_run) {
		nodes_tell(&w, "keep", "kept", "nodes settled");
		nodes_note_lost(&w, true);
	}
	agents_close(&w.agents);
	return rc;
}

int settle_run(const struct settle_options *how, struct settle *s, struct err *e)
{
	int rc = 0;

	*s = (struct settle){ .n = how->agents.nodes->n };
	s->node = calloc((size_t)s->n + 1, sizeof(*s->node));
	if (!s->node)
		return fail(e, RINGUP_ENOMEM, "no memory for %d nodes", s->n);
	if (!how->undo)
		rc = settle_gather(how, s, e);
	if (!rc && !how->undo && !*s->error)
		rc = settle_choose(how, s, e);
	if (!rc && !*s->error)
		rc = nodes_write(how, s, e);
	return rc;
}

void settle_free(struct settle *s)
{
	for (int i = 0; s->node && i < s->n; i++)
		change_free(&s->node[i].change);
	free(s->node);
	facts_free(&s->facts);
	*s = (struct settle){ 0 };
}
