/* outcome.c - check a plan: would each library take the interface that it is given? */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/outcome.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static bool is_of_plan(const struct fix *plan, const struct netconf_row *r)
{
	const struct fix_file *f = fix_file_of(plan, r->source);

	return f && f->after;
}

/* Does the plan set a variable of this library?  It sets none of UCX's if there is RDMA. */
static bool outcome_is_set(const struct picker *k, const struct fix *plan,
			   const struct netconf *c)
{
	for (int i = 0; k->settings[i]; i++)
		for (int n = 0; n < c->nrows; n++)
			if (!strcmp(c->rows[n].name, k->settings[i]) &&
			    is_of_plan(plan, &c->rows[n]))
				return true;
	return false;
}

/* The setting in force that the plan did not write: the culprit, if any. */
static const struct netconf_row *stranger(const struct picker *k, const struct fix *plan,
					  const struct netconf *c)
{
	for (int i = 0; k->settings[i]; i++) {
		const struct netconf_row *r = netconf_get(c, k->settings[i]);

		if (r && !is_of_plan(plan, r))
			return r;
	}
	return NULL;
}

static bool is_loopback(const struct iface_list *l, const char *name)
{
	const struct iface *f = iface_find(l, name);

	return f && f->flags & IFF_LOOPBACK;
}

/* Lists the names in order, each once; true if only @interface leads to other hosts. */
static bool list_takes(const struct pick_role *r, const struct iface_list *l,
		       const char *interface, char *out, size_t size)
{
	bool only = r->npicks > 0;
	size_t len = 0;

	*out = 0;
	for (int i = 0; i < r->npicks; i++) {
		const char *name = r->picks[i].interface;
		bool again = i && !strcmp(name, r->picks[i - 1].interface);

		/* libfabric keeps the loopback after the interface that it is given. */
		if (strcmp(name, interface) != 0 && (!i || !is_loopback(l, name)))
			only = false;
		if (!again && len < size)
			len += (size_t)snprintf(out + len, size - len, "%s%s", len ? " " : "",
						*name ? name : r->picks[i].address);
	}
	return only;
}

static void outcome_judge(struct outcome *o, const struct pick_role *r, const struct picker *k,
			  const struct snapshot *s, const char *interface,
			  const struct netconf_row *other)
{
	struct outcome_row *row = &o->row[o->n];

	if (o->n == OUTCOME_ROWS)
		return;
	memset(row, 0, sizeof(*row));
	row->library = k;
	row->role = r->name;
	row->agrees = list_takes(r, &s->ifaces, interface, row->takes, sizeof(row->takes)) &&
		      !*r->unknown;
	o->n++;
	if (row->agrees)
		return;
	o->strays++;
	if (*r->unknown) {
		*row->takes = 0;
		snprintf(row->why, sizeof(row->why), "%.200s", r->unknown);
	} else if (other)
		snprintf(row->why, sizeof(row->why), "%.80s: %.64s=%.64s overrides the setting",
			 other->source, other->name, other->value);
	else
		snprintf(row->why, sizeof(row->why), "%.200s", *r->error ? r->error : r->note);
}

static int ask_one(struct outcome *o, const struct picker *k, const struct fix *plan,
		   const struct snapshot *s, const char *interface, const struct netconf *then,
		   struct err *e)
{
	struct netconf heard;
	struct picked p = { 0 };
	int n, rc = picker_hear(k, then, &heard, e);

	if (!rc && outcome_is_set(k, plan, &heard)) {
		rc = picker_run(k, &s->ifaces, then, &p, e);
		for (n = 0; !rc && n < p.nroles; n++)
			outcome_judge(o, &p.roles[n], k, s, interface,
				      stranger(k, plan, &heard));
		picker_free(&p);
	}
	netconf_free(&heard);
	return rc;
}

int outcome_of(struct outcome *o, const struct fix *plan, const struct snapshot *s,
	       const char *interface, const char *const *names, struct err *e)
{
	struct netconf then;
	int rc;

	o->n = o->strays = 0;
	rc = fix_settings(plan, &s->settings, names, &then, e);
	for (int i = 0; !rc && pickers[i]; i++)
		rc = ask_one(o, pickers[i], plan, s, interface, &then, e);
	netconf_free(&then);
	return rc;
}
