/* netfacts.c - read the machine facts for `ringup net`, live or from a snapshot. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/netfacts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "detect/commlibs.h"
#include "detect/rootfs.h"
#include "ringup.h"

/* No picker reads it, but it is recorded with the rest: the platform's address. */
static const char container_ip[] = "DB_CONTAINER_IP";

const char **netfacts_names(void)
{
	const char **names;
	int n = 2;

	for (int i = 0; pickers[i]; i++)
		for (int k = 0; pickers[i]->settings[k]; k++)
			n++;
	names = calloc((size_t)n, sizeof(*names));
	if (!names)
		return NULL;
	n = 0;
	names[n++] = container_ip;
	for (int i = 0; pickers[i]; i++)
		for (int k = 0; pickers[i]->settings[k]; k++)
			names[n++] = pickers[i]->settings[k];
	return names;
}

static int settings_resolve(struct netconf *c, struct err *e)
{
	const struct netconf_row *id = netconf_get(c, "NCCL_COMM_ID");
	struct iface_ip ip;
	char host[256];
	int rc = netconf_resolve(c, c->hostname, e);

	if (rc || !id)
		return rc;
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(id->value, ":"), id->value);
	return *host && *host != '[' && !iface_parse(&ip, host) ? netconf_resolve(c, host, e)
								: 0;
}

/* Does the kernel of the node have an RDMA device?  As in struct snapshot. */
static int find_rdma(const char *root)
{
	json_t *problems = json_array();
	struct names n = { 0 };
	struct rootfs fs;
	struct err ignored;
	int has = 0;

	if (!rootfs_open(&fs, root, problems, &ignored)) {
		n = rootfs_names(&fs, "/sys/class/infiniband", "");
		has = n.count ? 1 : rootfs_is_dir(&fs, "/sys/class/net") ? -1 : 0;
		rootfs_names_free(&n);
		rootfs_close(&fs);
	}
	json_decref(problems);
	return has;
}

int netfacts_read(struct snapshot *s, const struct netfacts_from *from, struct err *e)
{
	const char *peer = from->peer && *from->peer ? from->peer : NULL;
	const char **names = NULL;
	int rc;

	memset(s, 0, sizeof(*s));
	if (from->file) {
		rc = snapshot_load(s, from->file, e);
	} else {
		names = netfacts_names();
		rc = names ? 0 : fail(e, RINGUP_ENOMEM, "no memory for settings");
		if (!rc)
			rc = iface_read(&s->ifaces, from->root, peer, e);
		if (!rc)
			rc = netconf_read(&s->settings, from->root, names, e);
		if (!rc)
			rc = commlibs_find(&s->settings, from->root, e);
		if (!rc)
			rc = sources_read(&s->sources, from->root, e);
		s->rdma = find_rdma(from->root);
		if (!rc && from->resolve)
			rc = settings_resolve(&s->settings, e);
	}
	if (!rc && from->nics)
		rc = netconf_add(&s->settings, "--network-interface", from->nics,
				 "command line", e);
	free(names);
	return rc;
}

const char *netfacts_container_ip(const struct snapshot *s)
{
	return netconf_value(&s->settings, container_ip);
}

int netfacts_choose(const struct snapshot *s, struct own_hint h, struct picked *p,
		    struct err *e)
{
	h.container_ip = netfacts_container_ip(s);
	return own_choose(&s->ifaces, &h, p, e);
}
