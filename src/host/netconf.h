/* netconf.h - what the network libraries of this machine are told, and by whom. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_NETCONF_H
#define HOST_NETCONF_H

#include <stddef.h>

#include "host/iface.h"

struct err;

enum { NETCONF_SOURCE = 160, NETCONF_IPS = 16 };

/* One setting in one place.  A setting of an Open MPI file goes under the name
 * of the variable that would say the same: OMPI_MCA_btl_tcp_if_include. */
struct netconf_row {
	char *name, *value;
	char source[NETCONF_SOURCE]; /* "environment", "/etc/nccl.conf:3" */
};

/* What a host name resolves to, in getaddrinfo's order. */
struct netconf_host {
	char name[256];
	struct iface_ip ips[NETCONF_IPS];
	int nips; /* 0: it does not resolve */
};

struct netconf {
	struct netconf_row *rows; /* the first of a name is in force */
	int nrows;
	char hostname[256];
	struct netconf_host *hosts;
	int nhosts;
};

/*
 * netconf_read - settings called one of @names, strongest source first.
 *
 * The environment; $NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf;
 * ~/.openmpi/mca-params.conf, then the file of the installed Open MPI; all
 * files below @root.  A file that cannot be read says nothing: the libraries
 * pass over it as well.  @names ends with NULL.
 *
 * Ownership: the contents are the caller's until netconf_free(), also on failure.
 */
int netconf_read(struct netconf *c, const char *root, const char *const *names, struct err *e);
void netconf_free(struct netconf *c);

/* netconf_add - a weaker source for @name than all before. */
int netconf_add(struct netconf *c, const char *name, const char *value, const char *source,
		struct err *e);

/* netconf_get - the row in force, or NULL. */
const struct netconf_row *netconf_get(const struct netconf *c, const char *name);

/*
 * netconf_nccl, netconf_mca - the grammars of the two files, exactly.
 *
 * NCCL: NAME=VALUE from the first byte of a line to its end, nothing trimmed;
 * the first line of a name wins.  Open MPI: name = value, blanks and a final
 * CR trimmed, quotes and comments behind a value kept; the last line wins.
 */
int netconf_nccl(struct netconf *c, const char *text, const char *source,
		 const char *const *names, struct err *e);
int netconf_mca(struct netconf *c, const char *text, const char *source,
		const char *const *names, struct err *e);

/* netconf_mca_file - the system-wide file of the Open MPI that PATH finds
 * below @root, or where Debian's would be; PATH_MAX bytes at @out. */
void netconf_mca_file(char *out, const char *root);

/*
 * netconf_resolve - ask the resolver about @name and remember the answer.
 *
 * May block as long as the resolver likes: some name servers never answer.
 */
int netconf_resolve(struct netconf *c, const char *name, struct err *e);

/* netconf_host_add - a new host without addresses, or NULL without memory. */
struct netconf_host *netconf_host_add(struct netconf *c, const char *name);
const struct netconf_host *netconf_host_find(const struct netconf *c, const char *name);

#endif
