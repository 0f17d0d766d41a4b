/* cmd_net_explain.c - `ringup net explain`: the interface of each library, and the reason. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/near.h"
#include "base/release.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "cli/settled.h"
#include "detect/netfacts.h"

static int as_json;
static const char *lib, *version, *from, *peer, *nics;

static const struct opt opts[] = {
	{ OPT_STR, 'f', "from", "FILE", &from,
	  "explain a node that `ringup net snapshot` recorded" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_STR, 'l', "lib", "LIB", &lib,
	  "only this library: nccl, openmpi, gloo, horovod, ucx or libfabric" },
	{ OPT_STR, 0, "network-interface", "LIST", &nics,
	  "value of the horovodrun option of the same name" },
	{ OPT_STR, 'p', "peer", "ADDRESS", &peer, "numeric address of a host to reach" },
	{ OPT_STR, 0, "version", "V", &version,
	  "use the rules of this version of --lib, such as 2.27.7" },
	/* The former name of --from. */
	{ OPT_STR, 's', "snapshot", "FILE", &from, NULL },
	{ 0 },
};

static bool is_asked(const struct picker *k)
{
	return !lib || !strcmp(lib, k->name);
}

/* Text. */

/* Prints why the choice is unknown, and the choice if the environment counted. */
static void print_unknown(const struct pick_role *r, int width)
{
	out_text("  %-*s ", width, r->name);
	out_fold(OUT_WARN, width + 3, width + 3, "unknown: %s", r->unknown);
	if (!*r->error && !r->npicks)
		return;
	out_text("  %-*s otherwise, from the environment:", width, "");
	for (int i = 0; i < r->npicks; i++)
		out_text("%s%s %s", i ? ", " : " ", r->picks[i].interface, r->picks[i].address);
	out_text("%s\n", *r->error ? " a refusal" : "");
}

static void print_picks(const struct pick_role *r, int width)
{
	int at = width + 3;

	if (*r->unknown) {
		print_unknown(r, width);
		return;
	}
	out_text("  %-*s", width, r->name);
	if (*r->error && r->has_result)
		out_fold(OUT_BAD, width + 2, width + 3, " refuses (%d): %s", r->result,
			 r->error);
	else if (*r->error)
		out_fold(OUT_BAD, width + 2, width + 3, " refuses: %s", r->error);
	for (int i = 0; i < r->npicks; i++) {
		const struct pick *k = &r->picks[i];
		int len = (int)(strlen(k->interface) + strlen(k->address)) + 3;

		if (i && out_width() && at + len > out_width()) {
			out_text(",\n  %-*s ", width, "");
			at = width + 3;
		} else {
			out_text("%s", i ? ", " : " ");
		}
		at += len;
		if (*k->interface)
			out_look(OUT_GOOD, "%s ", k->interface);
		out_text("%s", k->address);
	}
	if (!*r->error)
		out_text("\n");
	if (*r->note) {
		out_text("  %-*s ", width, "");
		out_fold(OUT_WARN, width + 3, width + 3, "%s", r->note);
	}
}

/* Prints the value in force for @name, and the values that it overrides. */
static void print_setting(const struct netconf *heard, const char *name, int width)
{
	const struct netconf_row *first = netconf_get(heard, name);

	if (!first)
		return;
	out_text("  %-*s %s=%s", width, "set", name, first->value);
	out_look(OUT_DIM, "  from %s\n", first->source);
	for (int i = 0; i < heard->nrows; i++)
		if (&heard->rows[i] != first && !strcmp(heard->rows[i].name, name))
			out_look(OUT_DIM, "  %-*s %s=%s  from %s\n", width, "shadows", name,
				 heard->rows[i].value, heard->rows[i].source);
}

static void print_fates(const struct iface_list *l, const struct picked *p)
{
	int width = 0;

	/* If the choice is unknown, so is the rule. */
	if (p->nroles && *p->roles[0].unknown)
		return;
	for (int i = 0; i < p->nfates; i++)
		if ((int)strlen(l->ifaces[i].name) > width)
			width = (int)strlen(l->ifaces[i].name);
	for (int i = 0; i < p->nfates; i++) {
		enum out_look look = p->fates[i].used ? OUT_GOOD : OUT_DIM;

		out_look(look, "    %c %-*s  ", p->fates[i].used ? '+' : '-', width,
			 l->ifaces[i].name);
		out_fold(p->fates[i].used ? OUT_PLAIN : OUT_DIM, width + 8, width + 8, "%s",
			 p->fates[i].rule);
	}
}

static int role_width(const struct picked *p)
{
	int i, width = 7; /* "shadows" */

	for (i = 0; i < p->nroles; i++)
		if ((int)strlen(p->roles[i].name) > width)
			width = (int)strlen(p->roles[i].name);
	return width;
}

/* Is the version newer than those whose rules are known? */
static bool is_guess(const struct picker *k, const char *release)
{
	return release_compare(release, k->newest) > 0;
}

static int print_library(const struct picker *k, const struct snapshot *s, struct err *e)
{
	struct netconf heard = { 0 };
	struct picked p = { 0 };
	int i, width, rc = picker_hear(k, &s->settings, &heard, e);

	if (!rc)
		rc = picker_run(k, &s->ifaces, &s->settings, &p, e);
	if (!rc) {
		width = role_width(&p);
		out_look(OUT_BOLD, "%s %s", k->title, p.version);
		if (is_guess(k, p.version))
			out_text(", by the rules of %s, the newest known: a guess\n",
				 k->newest);
		else
			out_text("%s\n", *netconf_version(&s->settings, k->name)
						 ? ""
						 : " (newest known; none is installed)");
		for (i = 0; i < p.nroles; i++)
			print_picks(&p.roles[i], width);
		for (i = 0; k->settings[i]; i++)
			print_setting(&heard, k->settings[i], width);
		print_fates(&s->ifaces, &p);
	}
	picker_free(&p);
	netconf_free(&heard);
	return rc;
}

static int cmd_net_explain_print_text(const struct snapshot *s, const struct picked *own,
				      struct err *e)
{
	const char *gap = "";
	int rc = 0;

	for (int i = 0; !rc && pickers[i]; i++)
		if (is_asked(pickers[i])) {
			out_text("%s", gap);
			gap = "\n";
			rc = print_library(pickers[i], s, e);
		}
	if (rc || lib)
		return rc;
	out_look(OUT_BOLD, "\nringup\n");
	print_picks(&own->roles[0], role_width(own));
	print_fates(&s->ifaces, own);
	return 0;
}

/* JSON. */

/* The library's number and words, and their meaning. */
static json_t *error_json(const struct pick_role *r)
{
	if (!*r->error)
		return json_null();
	return json_pack("{so so so}", "result",
			 r->has_result ? json_integer(r->result) : json_null(), "message",
			 out_string(*r->message ? r->message : r->error), "why",
			 out_string(r->error));
}

/* Omits the scope of a link-local address, because the interface is printed next to it. */
static json_t *pick_json(const struct pick *k)
{
	return json_pack("{so ss%}", "interface", out_string_or_null(k->interface), "address",
			 k->address, strcspn(k->address, "%"));
}

static json_t *role_json(const struct pick_role *r)
{
	json_t *picks = json_array();

	for (int i = 0; i < r->npicks; i++)
		json_array_append_new(picks, pick_json(&r->picks[i]));
	/* An unknown interface is no pick; the pick without the plug-in is a separate one. */
	if (*r->unknown)
		return json_pack("{ss s[] sn so so so}", "role", r->name, "picks", "error",
				 "note", out_string_or_null(r->note), "unknown",
				 out_string(r->unknown), "otherwise", picks);
	return json_pack("{ss so so so so}", "role", r->name, "picks", picks, "error",
			 error_json(r), "note", out_string_or_null(r->note), "unknown",
			 json_null());
}

static json_t *settings_json(const struct picker *k, const struct netconf *c)
{
	json_t *list = json_array();

	for (int i = 0; k->settings[i]; i++) {
		const struct netconf_row *first = netconf_get(c, k->settings[i]);
		json_t *shadows = json_array();

		for (int n = 0; n < c->nrows; n++)
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
	struct netconf heard = { 0 };
	struct picked p = { 0 };
	int i, rc = picker_hear(k, &s->settings, &heard, e);

	if (!rc)
		rc = picker_run(k, &s->ifaces, &s->settings, &p, e);
	for (i = 0; !rc && i < p.nroles; i++)
		json_array_append_new(roles, role_json(&p.roles[i]));
	if (!rc)
		json_array_append_new(list, json_pack("{ss so sb sO so so}", "library", k->name,
						      "version", out_string(p.version), "guess",
						      is_guess(k, p.version), "roles", roles,
						      "interfaces",
						      settled_fates_json(&s->ifaces, &p),
						      "settings", settings_json(k, &heard)));
	json_decref(roles);
	picker_free(&p);
	netconf_free(&heard);
	return rc;
}

static json_t *choice_json(const struct iface_list *l, const struct picked *own)
{
	const struct pick_role *r = &own->roles[0];

	return json_pack("{so so so so so}", "interface",
			 r->npicks ? out_string(r->picks[0].interface) : json_null(), "address",
			 r->npicks ? out_string(r->picks[0].address) : json_null(), "reason",
			 out_string_or_null(r->note), "error", out_string_or_null(r->error),
			 "interfaces", settled_fates_json(l, own));
}

static int cmd_net_explain_print_json(const struct snapshot *s, const struct picked *own,
				      struct err *e)
{
	json_t *libraries = json_array(), *all;
	int rc = 0;

	for (int i = 0; !rc && pickers[i]; i++)
		if (is_asked(pickers[i]))
			rc = add_library(libraries, pickers[i], s, e);
	all = json_pack("{ss so}", "schema", "ringup.net.explain/1", "libraries", libraries);
	if (all && !lib)
		json_object_set_new(all, "choice", choice_json(&s->ifaces, own));
	if (!rc)
		return out_json(all, e);
	json_decref(all);
	return rc;
}

static int check_lib(struct err *e)
{
	char names[128] = "";
	struct near n = { 0 };
	size_t len = 0;

	if (version && !lib)
		return cmd_misuse(e, "--version needs --lib");
	if (!lib || picker_find(lib))
		return 0;
	for (int i = 0; pickers[i]; i++) {
		near_offer(&n, lib, pickers[i]->name);
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i ? ", " : "",
					pickers[i]->name);
	}
	return cmd_misuse(e, "--lib=%.40s: not one of %s%s%s%s", lib, names,
			  n.best ? "; did you mean " : "", n.best ? n.best : "",
			  n.best ? "?" : "");
}

/* Accepts only a version whose rules are known; others would be a guess. */
static int set_version(struct snapshot *s, struct err *e)
{
	const struct picker *k = lib ? picker_find(lib) : NULL;
	size_t len = version ? strlen(version) : 0;

	if (!version)
		return 0;
	if (!isdigit((unsigned char)*version) || len > 31 ||
	    release_compare(version, k->oldest) < 0)
		return cmd_misuse(e,
				  "--version=%.40s: %s versions from %s to %s are known; later "
				  "ones follow the rules of the last",
				  version, k->title, k->oldest, k->newest);
	return netconf_set_version(&s->settings, lib, version, e);
}

static int cmd_net_explain_run(int argc, char **argv, struct err *e)
{
	struct netfacts_from here = { cmd_conf()->root, from, peer, nics, .resolve = true };
	struct own_hint h = { .interface = from ? "" : cmd_conf()->interface,
			      .peer = peer,
			      .any = true };
	struct snapshot s = { 0 };
	struct picked own = { 0 };
	int rc = check_lib(e);

	(void)argc;
	(void)argv;
	if (!rc)
		rc = netfacts_read(&s, &here, e);
	if (!rc)
		rc = set_version(&s, e);
	if (!rc)
		rc = netfacts_choose(&s, h, &own, e);
	if (!rc)
		rc = as_json ? cmd_net_explain_print_json(&s, &own, e)
			     : cmd_net_explain_print_text(&s, &own, e);
	if (!rc && !lib && !own.roles[0].npicks)
		rc = CMD_NO;
	picker_free(&own);
	snapshot_free(&s);
	return rc;
}

const struct cmd cmd_net_explain = {
	.name = "explain",
	.operands = "",
	.summary = "predict which interface each library picks, and by which rule",
	.examples = "ringup net explain\n"
		    "ringup net explain --lib nccl --json\n"
		    "ringup net explain --lib nccl --version 2.27.7\n"
		    "ringup net explain --from node.json",
	.opts = opts,
	.run = cmd_net_explain_run,
};
