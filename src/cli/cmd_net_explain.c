/* cmd_net_explain.c - `ringup net explain`: which interface each library takes, and why. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/near.h"
#include "cli/cmd.h"
#include "cli/netfacts.h"
#include "cli/out.h"

static int as_json;
static const char *lib, *file, *peer, *nics;

static const struct opt opts[] = {
	{ OPT_STR, 'f', "from", "FILE", &file,
	  "explain a machine that `ringup net record` wrote" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_STR, 'l', "lib", "LIB", &lib,
	  "only this library: nccl, openmpi, gloo or horovod" },
	{ OPT_STR, 0, "network-interface", "LIST", &nics,
	  "what horovodrun will be given by that name" },
	{ OPT_STR, 'p', "peer", "ADDRESS", &peer, "a host to reach, by its numeric address" },
	{ 0 },
};

static bool is_asked(const struct picker *k)
{
	return !lib || !strcmp(lib, k->name);
}

/* Text. */

static void row(struct out_table *t, const struct iface *f, const struct iface_addr *a)
{
	enum out_look look = f->flags & IFF_RUNNING ? OUT_GOOD : OUT_DIM;
	char text[IFACE_TEXT] = "-", speed[32] = "-";

	if (a)
		iface_text(&a->ip, text);
	if (f->speed_mbps >= 0)
		snprintf(speed, sizeof(speed), "%d Mb/s", f->speed_mbps);
	out_table_cell(t, OUT_PLAIN, "%d", f->index);
	out_table_cell(t, OUT_BOLD, "%s", a ? a->label : f->name);
	out_table_cell(t, OUT_PLAIN, "%s", iface_kind_text(f->kind));
	out_table_cell(t, look, "%s", iface_state_text(f));
	if (a)
		out_table_cell(t, OUT_PLAIN, "%s/%d", text, a->prefix);
	else
		out_table_cell(t, OUT_DIM, "none");
	out_table_cell(t, OUT_PLAIN, "%d", f->mtu);
	out_table_cell(t, OUT_PLAIN, "%s", speed);
}

static int print_interfaces(const struct iface_list *l, struct err *e)
{
	static const char *const heads[] = { "INDEX",   "INTERFACE", "TYPE",  "STATE",
					     "ADDRESS", "MTU",       "SPEED", NULL };
	struct out_table t;
	int i, n, found;

	out_table_init(&t, heads);
	t.right = 1 | 1 << 5;
	for (i = 0; i < l->nifaces; i++) {
		found = 0;
		for (n = 0; n < l->naddrs; n++)
			if (l->addrs[n].iface == i) {
				row(&t, &l->ifaces[i], &l->addrs[n]);
				found = 1;
			}
		if (!found)
			row(&t, &l->ifaces[i], NULL);
	}
	return out_table_print(&t, e);
}

static void print_role(const struct pick_role *r)
{
	int i;

	out_text("  %-10s", r->name);
	if (*r->error)
		out_look(OUT_BAD, " refuses: %s", r->error);
	for (i = 0; i < r->npicks; i++) {
		out_text("%s", i ? ", " : " ");
		out_look(OUT_GOOD, "%s", r->picks[i].interface);
		out_text(" %s", r->picks[i].address);
	}
	out_text("\n");
	if (*r->note)
		out_look(OUT_WARN, "  %-10s %s\n", "", r->note);
}

static void print_settings(const struct picker *k, const struct netconf *c)
{
	int i, n;

	for (i = 0; k->settings[i]; i++) {
		const struct netconf_row *first = netconf_get(c, k->settings[i]);

		for (n = 0; n < c->nrows; n++)
			if (!strcmp(c->rows[n].name, k->settings[i]))
				out_text("  %-10s %s=%s (%s%s)\n",
					 &c->rows[n] == first ? "set" : "shadowed",
					 c->rows[n].name, c->rows[n].value,
					 &c->rows[n] == first ? "" : "not in force: ",
					 c->rows[n].source);
	}
}

static int print_fates(const struct iface_list *l, const struct picked *p, struct err *e)
{
	static const char *const heads[] = { "  INTERFACE", "USED", "RULE", NULL };
	struct out_table t;
	int i;

	out_table_init(&t, heads);
	for (i = 0; i < p->nfates; i++) {
		out_table_cell(&t, OUT_PLAIN, "  %s", l->ifaces[i].name);
		out_table_cell(&t, p->fates[i].used ? OUT_GOOD : OUT_DIM, "%s",
			       p->fates[i].used ? "yes" : "no");
		out_table_cell(&t, OUT_PLAIN, "%s", p->fates[i].rule);
	}
	return out_table_print(&t, e);
}

static int print_library(const struct picker *k, const struct snapshot *s, struct err *e)
{
	struct picked p;
	int i, rc = picker_run(k, &s->ifaces, &s->settings, &p, e);

	if (!rc) {
		out_look(OUT_BOLD, "\n%s", k->title);
		out_text(" (rules of %s)\n", k->version);
		for (i = 0; i < p.nroles; i++)
			print_role(&p.roles[i]);
		print_settings(k, &s->settings);
		rc = print_fates(&s->ifaces, &p, e);
	}
	picker_free(&p);
	return rc;
}

static int print_text(const struct snapshot *s, const struct picked *own, struct err *e)
{
	int i, rc = print_interfaces(&s->ifaces, e);

	for (i = 0; !rc && pickers[i]; i++)
		if (is_asked(pickers[i]))
			rc = print_library(pickers[i], s, e);
	if (rc)
		return rc;
	out_look(OUT_BOLD, "\nringup\n");
	print_role(&own->roles[0]);
	return print_fates(&s->ifaces, own, e);
}

/* JSON. */

static json_t *or_null(const char *text)
{
	return *text ? out_string(text) : json_null();
}

static json_t *role_json(const struct pick_role *r)
{
	json_t *picks = json_array();
	int i;

	for (i = 0; i < r->npicks; i++)
		json_array_append_new(picks, json_pack("{so ss}", "interface",
						       out_string(r->picks[i].interface),
						       "address", r->picks[i].address));
	return json_pack("{ss so so so}", "role", r->name, "picks", picks, "error",
			 or_null(r->error), "note", or_null(r->note));
}

static json_t *fates_json(const struct iface_list *l, const struct picked *p)
{
	json_t *list = json_array();
	int i;

	for (i = 0; i < p->nfates; i++)
		json_array_append_new(list, json_pack("{so sb so}", "name",
						      out_string(l->ifaces[i].name), "used",
						      p->fates[i].used, "rule",
						      out_string(p->fates[i].rule)));
	return list;
}

static json_t *settings_json(const struct picker *k, const struct netconf *c)
{
	json_t *list = json_array();
	int i, n;

	for (i = 0; k->settings[i]; i++) {
		const struct netconf_row *first = netconf_get(c, k->settings[i]);
		json_t *shadows = json_array();

		for (n = 0; n < c->nrows; n++)
			if (!strcmp(c->rows[n].name, k->settings[i]) && &c->rows[n] != first)
				json_array_append_new(shadows,
						      json_pack("{so so}", "value",
								out_string(c->rows[n].value),
								"source",
								out_string(c->rows[n].source)));
		if (first)
			json_array_append_new(
				list,
				json_pack("{so so so sO}", "name", out_string(first->name),
					  "value", out_string(first->value), "source",
					  out_string(first->source), "shadows", shadows));
		json_decref(shadows);
	}
	return list;
}

static int add_library(json_t *list, const struct picker *k, const struct snapshot *s,
		       struct err *e)
{
	json_t *roles = json_array();
	struct picked p;
	int i, rc = picker_run(k, &s->ifaces, &s->settings, &p, e);

	for (i = 0; !rc && i < p.nroles; i++)
		json_array_append_new(roles, role_json(&p.roles[i]));
	if (!rc)
		json_array_append_new(list,
				      json_pack("{ss ss sO so so}", "library", k->name,
						"version", k->version, "roles", roles,
						"interfaces", fates_json(&s->ifaces, &p),
						"settings", settings_json(k, &s->settings)));
	json_decref(roles);
	picker_free(&p);
	return rc;
}

static json_t *choice_json(const struct iface_list *l, const struct picked *own)
{
	const struct pick_role *r = &own->roles[0];

	return json_pack("{so so so so so}", "interface",
			 r->npicks ? out_string(r->picks[0].interface) : json_null(), "address",
			 r->npicks ? out_string(r->picks[0].address) : json_null(), "reason",
			 or_null(r->note), "error", or_null(r->error), "interfaces",
			 fates_json(l, own));
}

static int print_json(const struct snapshot *s, const struct picked *own, struct err *e)
{
	json_t *ifaces = json_array(), *libraries = json_array();
	int i, rc = 0;

	for (i = 0; i < s->ifaces.nifaces; i++)
		json_array_append_new(ifaces, snapshot_iface(&s->ifaces, i));
	for (i = 0; !rc && pickers[i]; i++)
		if (is_asked(pickers[i]))
			rc = add_library(libraries, pickers[i], s, e);
	if (!rc)
		rc = out_json(json_pack("{ss sO sO so}", "schema", "ringup.net.explain/1",
					"interfaces", ifaces, "libraries", libraries, "choice",
					choice_json(&s->ifaces, own)),
			      e);
	json_decref(ifaces);
	json_decref(libraries);
	return rc;
}

static int check_lib(struct err *e)
{
	struct near n = { 0 };
	int i;

	if (!lib || picker_find(lib))
		return 0;
	for (i = 0; pickers[i]; i++)
		near_offer(&n, lib, pickers[i]->name);
	return cmd_misuse(e, "--lib=%.40s: not one of nccl, openmpi, gloo, horovod%s%s%s", lib,
			  n.best ? "; did you mean " : "", n.best ? n.best : "",
			  n.best ? "?" : "");
}

static int run(int argc, char **argv, struct err *e)
{
	struct netfacts_from from = { cmd_conf()->root, file, peer, nics, .resolve = true };
	struct own_hint h = { .interface = file ? "" : cmd_conf()->interface,
			      .peer = peer,
			      .any = true };
	struct snapshot s = { 0 };
	struct picked own = { 0 };
	int rc = check_lib(e);

	(void)argc;
	(void)argv;
	if (!rc)
		rc = netfacts_read(&s, &from, e);
	if (!rc)
		rc = netfacts_choose(&s, h, &own, e);
	if (!rc)
		rc = as_json ? print_json(&s, &own, e) : print_text(&s, &own, e);
	if (!rc && !own.roles[0].npicks)
		rc = CMD_NO;
	picker_free(&own);
	snapshot_free(&s);
	return rc;
}

const struct cmd cmd_net_explain = {
	.name = "explain",
	.operands = "",
	.summary = "say which interface each library takes, and by which rule",
	.examples = "ringup net explain\n"
		    "ringup net explain --lib nccl --json\n"
		    "ringup net explain --from node.json",
	.opts = opts,
	.run = run,
};
