/* settled.c - print the results of `ringup net fix`, on this node or on many. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settled.h"

#include <string.h>

#include "cli/out.h"

static void print_patch(const char *patch)
{
	bool head = true;
	size_t len;

	for (; *patch; patch += len) {
		len = strcspn(patch, "\n") + 1;
		/* The head is the two lines before the first "@@". */
		head = head && *patch != '@';
		out_look(head            ? OUT_BOLD
			 : *patch == '@' ? OUT_DIM
			 : *patch == '-' ? OUT_BAD
			 : *patch == '+' ? OUT_GOOD
					 : OUT_PLAIN,
			 "%.*s\n", (int)len - 1, patch);
		if (!patch[len - 1])
			break;
	}
}

void settled_print_patches(const struct change *d)
{
	for (int i = 0; i < d->nfiles; i++)
		if (d->file[i].patch)
			print_patch(d->file[i].patch);
}

int settled_print_libraries(const struct change *d, struct err *e)
{
	static const char *const heads[] = { "LIBRARY", "ROLE", "WILL USE", NULL };
	struct out_table t;

	out_table_init(&t, heads);
	for (int i = 0; i < d->nrows; i++) {
		const struct change_row *r = &d->row[i];

		out_table_cell(&t, OUT_PLAIN, "%s", r->library->title);
		out_table_cell(&t, OUT_PLAIN, "%s", r->role);
		if (r->agrees)
			out_table_cell(&t, OUT_GOOD, "%s", r->takes);
		else
			out_table_cell(&t, OUT_BAD, "%s: %s", *r->takes ? r->takes : "nothing",
				       r->why);
	}
	return out_table_print(&t, e);
}

void settled_note_strays(const struct change *d, const char *node, const char *interface)
{
	for (int i = 0; i < d->nrows; i++)
		if (!d->row[i].agrees)
			out_note("ringup net fix: %s%s%s will not use %s in its current state: "
				 "%s\n",
				 node, *node ? ": " : "", d->row[i].library->title, interface,
				 d->row[i].why);
}

json_t *settled_fates_json(const struct iface_list *l, const struct picked *p)
{
	json_t *list = json_array();

	for (int i = 0; i < p->nfates && i < l->nifaces && !*p->roles[0].unknown; i++)
		json_array_append_new(list, json_pack("{so sb so}", "name",
						      out_string(l->ifaces[i].name), "used",
						      p->fates[i].used, "rule",
						      out_string(p->fates[i].rule)));
	return list;
}

/* Many nodes. */

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool settled_is_same(const struct settle_node *a, const struct settle_node *b)
{
	if (strcmp(a->interface, b->interface) != 0 || a->change.nfiles != b->change.nfiles ||
	    a->change.nrows != b->change.nrows || a->change.nconflicts ||
	    b->change.nconflicts || *a->error || *b->error)
		return false;
	for (int i = 0; i < a->change.nfiles; i++)
		if (!is_same_text(a->change.file[i].patch, b->change.file[i].patch))
			return false;
	for (int i = 0; i < a->change.nrows; i++)
		if (strcmp(a->change.row[i].takes, b->change.row[i].takes) != 0 ||
		    strcmp(a->change.row[i].why, b->change.row[i].why) != 0)
			return false;
	return true;
}

static bool settled_is_reported(const struct settle *s, int i)
{
	for (int k = 0; k < i; k++)
		if (s->node[k].asked && settled_is_same(&s->node[k], &s->node[i]))
			return true;
	return false;
}

/* Prints "n1, n3: eth0", and the changes there. */
static int print_group(const struct settle_options *how, const struct settle *s, int i,
		       struct err *e)
{
	const struct settle_node *n = &s->node[i];

	out_look(OUT_BOLD, "%s", how->agents.nodes->name[i]);
	for (int k = i + 1; k < s->n; k++)
		if (s->node[k].asked && settled_is_same(n, &s->node[k]))
			out_look(OUT_BOLD, ", %s", how->agents.nodes->name[k]);
	out_text("%s%s%s\n", *n->interface ? ": " : "", n->interface,
		 change_count(&n->change) ? "" : ": nothing to change");
	settled_print_patches(&n->change);
	return n->change.nrows ? settled_print_libraries(&n->change, e) : 0;
}

static int count_changed(const struct settle *s, bool kept)
{
	int n = 0;

	for (int i = 0; i < s->n; i++)
		n += change_count(&s->node[i].change) && (s->node[i].kept || !kept);
	return n;
}

static int count_kept(const struct settle *s)
{
	int n = 0;

	for (int i = 0; i < s->n; i++)
		n += s->node[i].kept;
	return n;
}

static void print_end(const struct settle_options *how, const struct settle *s)
{
	int kept = count_kept(s);

	if (*s->error || how->dry_run)
		return;
	if (how->undo)
		out_text("removed from %d of %d nodes\n", kept, s->n);
	else
		out_text("configured %d of %d nodes for NCCL, Open MPI, Gloo and Horovod\n",
			 kept, s->n);
}

static void note_trouble(const struct settle_options *how, const struct settle *s)
{
	for (int i = 0; i < s->n; i++) {
		const struct settle_node *n = &s->node[i];
		const char *name = how->agents.nodes->name[i];

		for (int k = 0; k < n->change.nconflicts; k++)
			out_note("ringup net fix: %s: %s\n", name, n->change.conflict[k]);
		settled_note_strays(&n->change, name, n->interface);
		if (*n->error)
			out_note("ringup net fix: %s: %s\n", name, n->error);
	}
}

int settled_print_nodes(const struct settle_options *how, const struct settle *s, struct err *e)
{
	int rc = 0;

	/* No output of a dry run on stdout means no change, which scripts test. */
	if (how->dry_run && !*s->error && !count_changed(s, false)) {
		out_note("nothing to change\n");
	} else {
		if (*s->network)
			out_text("%s for Open MPI: a network, since the interface has "
				 "different names on the nodes\n",
				 s->network);
		for (int i = 0; !rc && i < s->n; i++)
			if (s->node[i].asked && !settled_is_reported(s, i))
				rc = print_group(how, s, i, e);
		print_end(how, s);
	}
	note_trouble(how, s);
	return rc;
}

static json_t *node_json(const char *name, const struct settle_node *n)
{
	json_t *j = json_pack("{so so so sb so}", "name", out_string(name), "interface",
			      out_string_or_null(n->interface), "address",
			      out_string_or_null(n->address), "settled", n->kept, "error",
			      out_string_or_null(n->error));
	json_t *change = change_json(&n->change);

	json_object_update(j, change);
	json_decref(change);
	return j;
}

json_t *settled_nodes_json(const struct settle_options *how, const struct settle *s)
{
	json_t *nodes = json_array();

	for (int i = 0; i < s->n; i++)
		json_array_append_new(nodes,
				      node_json(how->agents.nodes->name[i], &s->node[i]));
	return json_pack("{ss so sb sb so so}", "schema", "ringup.net.fix-nodes/1", "network",
			 out_string_or_null(s->network), "dry_run", how->dry_run, "changed",
			 count_changed(s, true) > 0, "nodes", nodes, "error",
			 out_string_or_null(s->error));
}
