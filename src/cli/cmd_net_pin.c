/* cmd_net_pin.c - `ringup net pin`: settle one interface for all libraries. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/netfacts.h"
#include "cli/out.h"
#include "nicpick/pin.h"
#include "ringup.h"

static int dry_run, undo, force, as_json;
static const char *interface, *root;

static const struct opt opts[] = {
	{ OPT_FLAG, 'n', "dry-run", NULL, &dry_run,
	  "print what would change, and change nothing" },
	{ OPT_FLAG, 0, "force", NULL, &force,
	  "silence lines that say otherwise; undo restores them" },
	{ OPT_STR, 'i', "interface", "NAME", &interface,
	  "this one, instead of what explain says" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object" },
	{ OPT_STR, 'r', "root", "DIR", &root, "put DIR in front of every file's path" },
	{ OPT_FLAG, 'u', "undo", NULL, &undo, "take out what was pinned" },
	{ 0 },
};

static const char *where(void)
{
	return root ? root : cmd_conf()->root;
}

/* Lines, shared at both ends, between which two texts differ. */
struct span {
	int first, old_end, new_end; /* line numbers from 0; ends exclusive */
};

static int count_lines(const char *s)
{
	int n = 0;

	for (; *s; n++)
		s += strcspn(s, "\n") + (s[strcspn(s, "\n")] == '\n');
	return n;
}

/* Line @n of @s, with its end. */
static const char *line_at(const char *s, int n, size_t *len)
{
	for (; n > 0; n--)
		s += strcspn(s, "\n") + 1;
	*len = strcspn(s, "\n");
	*len += s[*len] == '\n';
	return s;
}

static bool same_line(const char *a, int i, const char *b, int k)
{
	size_t m, n;

	a = line_at(a, i, &m);
	b = line_at(b, k, &n);
	return m == n && !memcmp(a, b, m);
}

static struct span compare(const char *a, const char *b)
{
	struct span d = { 0, count_lines(a), count_lines(b) };

	while (d.first < d.old_end && d.first < d.new_end && same_line(a, d.first, b, d.first))
		d.first++;
	while (d.old_end > d.first && d.new_end > d.first &&
	       same_line(a, d.old_end - 1, b, d.new_end - 1)) {
		d.old_end--;
		d.new_end--;
	}
	return d;
}

static void print_lines(enum out_look look, char mark, const char *s, int from, int to)
{
	const char *line;
	size_t len;
	int i;

	for (i = from; i < to; i++) {
		line = line_at(s, i, &len);
		if (len && line[len - 1] == '\n')
			out_look(look, "%c%.*s\n", mark, (int)len - 1, line);
		else
			out_look(look, "%c%.*s\n\\ No newline at end of file\n", mark, (int)len,
				 line);
	}
}

/* One hunk is enough: our changes to a file are in one place, or --force's. */
static void print_diff(const struct pin_file *f)
{
	enum { CONTEXT = 3 };
	const char *a = f->before ? f->before : "", *b = f->after ? f->after : "";
	struct span d = compare(a, b);
	int from = d.first > CONTEXT ? d.first - CONTEXT : 0;
	int tail = count_lines(a) - d.old_end;
	int more = tail > CONTEXT ? CONTEXT : tail;
	int old = d.old_end - from + more, new = d.new_end - from + more;

	out_look(OUT_BOLD, "--- %s%s\n", f->before ? where() : "",
		 f->before ? f->path : "/dev/null");
	out_look(OUT_BOLD, "+++ %s%s\n", f->after ? where() : "",
		 f->after ? f->path : "/dev/null");
	out_look(OUT_DIM, "@@ -%d,%d +%d,%d @@\n", old ? from + 1 : 0, old, new ? from + 1 : 0,
		 new);
	print_lines(OUT_PLAIN, ' ', a, from, d.first);
	print_lines(OUT_BAD, '-', a, d.first, d.old_end);
	print_lines(OUT_GOOD, '+', b, d.first, d.new_end);
	print_lines(OUT_PLAIN, ' ', a, d.old_end, d.old_end + more);
}

static const char *change(const struct pin_file *f)
{
	if (!pin_changes(f))
		return "unchanged";
	if (!f->after)
		return "removed";
	return f->before ? "changed" : "made";
}

static int print_json(const struct pin *p, const char *name, struct err *e)
{
	json_t *files = json_array();
	int i, changes = 0;

	for (i = 0; i < p->n; i++) {
		changes += pin_changes(&p->file[i]);
		json_array_append_new(files,
				      json_pack("{so ss}", "path", out_string(p->file[i].path),
						"change", change(&p->file[i])));
	}
	return out_json(json_pack("{ss so sb sb so}", "schema", "ringup.net.pin/1", "interface",
				  name ? out_string(name) : json_null(), "changed", changes > 0,
				  "dry_run", dry_run, "files", files),
			e);
}

static int print_text(const struct pin *p, const char *name)
{
	int i, changes = 0;

	for (i = 0; i < p->n; i++) {
		if (!pin_changes(&p->file[i]))
			continue;
		changes++;
		if (dry_run)
			print_diff(&p->file[i]);
		else
			out_text("%s%s: %s\n", where(), p->file[i].path, change(&p->file[i]));
	}
	/* A dry run that prints nothing on stdout would change nothing: scripts ask. */
	if (!changes && dry_run)
		fprintf(stderr, "nothing to change\n");
	else if (!changes)
		out_text("nothing to change%s%s\n", name ? ": pinned already, " : "",
			 name ? name : "");
	else if (name && !dry_run)
		out_text("pinned %s for NCCL, Open MPI, Gloo and Horovod\n", name);
	return 0;
}

/* Did we just write (or find agreeing) the file this row comes from? */
static bool is_ours(const struct pin *p, const char *source)
{
	size_t len = strcspn(source, ":");
	int k;

	for (k = 0; k < p->n; k++)
		if (!strncmp(p->file[k].path, source, len) && !p->file[k].path[len])
			return true;
	return false;
}

/* What beats the files that are written here: variables, and files in $HOME. */
static void warn_stronger(const struct pin *p, const struct netconf *c, const char *name)
{
	static const char *const decide[] = {
		"NCCL_SOCKET_IFNAME",          "GLOO_SOCKET_IFNAME",
		"HOROVOD_GLOO_IFACE",          "OMPI_MCA_btl_tcp_if_include",
		"OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_include",
		"OMPI_MCA_oob_tcp_if_exclude", NULL
	};
	int i;

	for (i = 0; decide[i]; i++) {
		const struct netconf_row *r = netconf_get(c, decide[i]);

		if (r && !is_ours(p, r->source) && strcmp(r->value + (*r->value == '='), name))
			fprintf(stderr,
				"ringup net pin: %s: %s=%s beats what is written here\n",
				r->source, r->name, r->value);
	}
}

static int report_conflicts(const struct pin *p, struct err *e)
{
	int i;

	for (i = 0; i < p->nconflicts; i++)
		fprintf(stderr, "ringup net pin: %s%s\n", where(), p->conflict[i]);
	return fail(
		e, RINGUP_EINVAL,
		"%d line%s of somebody else say%s otherwise, so nothing was changed; remove "
		"%s, or use --force",
		p->nconflicts, p->nconflicts == 1 ? "" : "s", p->nconflicts == 1 ? "s" : "",
		p->nconflicts == 1 ? "it" : "them");
}

static int settle(const char *name, const struct netconf *c, struct err *e)
{
	struct pin p;
	int rc = pin_plan(&p, where(), name, force, e);

	if (!rc && p.nconflicts)
		rc = report_conflicts(&p, e);
	if (!rc && !dry_run)
		rc = pin_apply(&p, where(), e);
	if (!rc && name)
		warn_stronger(&p, c, name);
	if (!rc)
		rc = as_json ? print_json(&p, name, e) : print_text(&p, name);
	pin_free(&p);
	return rc;
}

/* The interface to pin, or why there is none. */
static int choose(const struct snapshot *s, char name[IFACE_NAME], struct err *e)
{
	struct own_hint h = { .interface = interface ? interface : cmd_conf()->interface,
			      .named_by = interface ? "--interface" : NULL,
			      .any = true };
	const struct pick_role *r;
	const struct iface *f;
	struct picked own;
	int rc = netfacts_choose(s, h, &own, e);

	if (rc) {
		picker_free(&own);
		return rc;
	}
	r = &own.roles[0];
	f = r->npicks ? iface_find(&s->ifaces, r->picks[0].interface) : NULL;
	if (!r->npicks) {
		rc = fail(e, RINGUP_EINVAL, "%s", r->error);
	} else if (!f || (f->flags & IFF_LOOPBACK && !*h.interface)) {
		fprintf(stderr,
			"ringup net pin: there is no network, so there is nothing to pin; "
			"one host needs no settings\n");
		rc = CMD_NO;
	} else {
		memcpy(name, f->name, IFACE_NAME);
	}
	picker_free(&own);
	return rc;
}

static int run(int argc, char **argv, struct err *e)
{
	struct netfacts_from from = { .root = where() };
	struct snapshot s = { 0 };
	char name[IFACE_NAME];
	int rc;

	(void)argc;
	(void)argv;
	if (undo && (interface || force))
		return cmd_misuse(e, "--undo goes with neither --interface nor --force");
	if (root && *root != '/')
		return cmd_misuse(e, "--root=%.80s: not an absolute path", root);
	if (undo)
		return settle(NULL, NULL, e);
	rc = netfacts_read(&s, &from, e);
	if (!rc)
		rc = choose(&s, name, e);
	if (!rc)
		rc = settle(name, &s.settings, e);
	snapshot_free(&s);
	return rc;
}

const struct cmd cmd_net_pin = {
	.name = "pin",
	.operands = "",
	.summary = "settle one interface for NCCL, Open MPI, Gloo and Horovod",
	.examples = "ringup net pin --dry-run\n"
		    "ringup net pin --interface eth0\n"
		    "ringup net pin --undo",
	.opts = opts,
	.run = run,
};
