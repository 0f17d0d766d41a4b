/* pickers.c - the list of libraries whose choice of interface is known, and how to run one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/release.h"
#include "host/netconf.h"
#include "nicpick/picker.h"

/*
 * In the order of reports.  To add one, write nicpick/NAME.c defining
 * picker_NAME, put NAME here, and record cases of the real library for it.
 */
#define PICKERS(X) \
	X(nccl)    \
	X(ompi)    \
	X(gloo)    \
	X(hvd)     \
	X(ucx)     \
	X(libfabric)

#define X(name) extern const struct picker picker_##name;
PICKERS(X)
#undef X

const struct picker *const pickers[] = {
#define X(name) &picker_##name,
	PICKERS(X) NULL,
#undef X
};

const struct picker *picker_find(const char *name)
{
	for (int i = 0; pickers[i]; i++)
		if (!strcmp(pickers[i]->name, name))
			return pickers[i];
	return NULL;
}

const char *picker_title(const char *name)
{
	const struct picker *k = picker_find(name);

	return k ? k->title : name;
}

const char *picker_version(const struct picker *k, const struct netconf *c)
{
	const char *found = netconf_version(c, k->name);

	return *found ? found : k->newest;
}

bool picker_since(const struct picked *p, const char *version)
{
	return release_compare(p->version, version) >= 0;
}

static bool is_listened_to(const struct picker *k, const char *name)
{
	for (int i = 0; k->settings[i]; i++)
		if (!strcmp(k->settings[i], name))
			return true;
	return false;
}

static void drop_last(struct netconf *heard)
{
	struct netconf_row *r = &heard->rows[--heard->nrows];

	free(r->name);
	free(r->value);
}

int picker_hear(const struct picker *k, const struct netconf *c, struct netconf *heard,
		struct err *e)
{
	const char *version = picker_version(k, c);
	int rc;

	memset(heard, 0, sizeof(*heard));
	memcpy(heard->hostname, c->hostname, sizeof(heard->hostname));
	rc = netconf_add_hosts(heard, c, e);
	if (!rc)
		rc = netconf_add_plugins(heard, c, e);
	for (int i = 0; !rc && i < c->nrows; i++) {
		if (!is_listened_to(k, c->rows[i].name))
			continue;
		rc = netconf_add_row(heard, &c->rows[i], e);
		if (!rc && k->hears && !k->hears(c, &heard->rows[heard->nrows - 1], version))
			drop_last(heard);
	}
	return rc;
}

int picker_run(const struct picker *k, const struct iface_list *l, const struct netconf *c,
	       struct picked *p, struct err *e)
{
	struct netconf heard;
	int rc = picker_init(p, l, k->roles, e);

	if (rc)
		return rc;
	snprintf(p->version, sizeof(p->version), "%s", picker_version(k, c));
	rc = picker_hear(k, c, &heard, e);
	if (!rc)
		k->pick(l, &heard, p);
	netconf_free(&heard);
	return rc;
}
