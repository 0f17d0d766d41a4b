/* netconf.h - settings of this machine's network libraries, and the sources of each. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_NETCONF_H
#define HOST_NETCONF_H

#include <stdbool.h>
#include <stddef.h>

#include "host/iface.h"

struct err;

enum { NETCONF_SOURCE = 160, NETCONF_IPS = 16, NETCONF_PLUGIN = 512 };

/* How a library comes to a source, since not every version reads all of them; PINNED:
 * libnccl-env-ringup.so answers, if it is NCCL's env plug-in (host/pins.h). */
#define NETCONF_VIAS(X)          \
	X(ANY, "any")            \
	X(FILE, "file")          \
	X(GIVEN, "given")        \
	X(PASSWD, "passwd-home") \
	X(HOME, "home")          \
	X(PINNED, "pinned")

enum netconf_via {
#define X(name, text) NETCONF_##name,
	NETCONF_VIAS(X)
#undef X
};

/* One setting in one place.  A setting of an Open MPI file has the name of the
 * equivalent variable: OMPI_MCA_btl_tcp_if_include. */
struct netconf_row {
	char *name, *value;
	char source[NETCONF_SOURCE]; /* "environment", "/etc/nccl.conf:3" */
	enum netconf_via via;
};

/* The version of a library that is installed here. */
struct netconf_version {
	char library[16]; /* as a picker is called */
	char version[32];
};

/* What a host name resolves to, in getaddrinfo's order. */
struct netconf_host {
	char name[256];
	struct iface_ip ips[NETCONF_IPS];
	int nips; /* 0: it does not resolve */
	int line; /* of /etc/hosts with the name and the first address; 0: none */
};

/*
 * A name by which NCCL would load an env plug-in, and the file that the loader finds.
 *
 * Such a library answers NCCL's queries instead of the environment.  Only ringup's own
 * library is known to answer with the PINNED rows.
 */
enum { NETCONF_ENV_V1 = 1, NETCONF_ENV_V2 = 2 };

struct netconf_plugin {
	char name[NETCONF_PLUGIN];
	char path[NETCONF_PLUGIN]; /* "": the loader finds none   */
	bool loads;                /* it is a library of this kind of machine   */
	bool is_ours;
	unsigned takes; /* the interfaces that it has: NETCONF_ENV_V* */
};

struct netconf {
	struct netconf_row *rows; /* the first of a name is in force */
	int nrows;
	char hostname[256];
	struct netconf_host *hosts;
	int nhosts;
	struct netconf_version *versions;
	int nversions;
	struct netconf_plugin *plugins;
	int nplugins;
};

/*
 * netconf_read - settings called one of @names, strongest source first.
 *
 * What libnccl-env-ringup.so would answer; the environment; for NCCL $NCCL_CONF_FILE,
 * .nccl.conf of the home by passwd and of $HOME, /etc/nccl.conf, of which a version reads some
 * (see via); for Open MPI and its PRRTE the files of $HOME, then of the installation; for UCX
 * ucx.conf here, in $UCX_CONFIG_DIR, $HOME and /etc/ucx.  All files below @root.
 * A file that cannot be read is passed over, as the libraries do.
 * @names ends with NULL.
 *
 * Ownership: the contents are the caller's until netconf_free(), also on failure.
 */
int netconf_read(struct netconf *c, const char *root, const char *const *names, struct err *e);
void netconf_free(struct netconf *c);

/* netconf_copy - add to @to all that @from has, as weaker sources. */
int netconf_copy(struct netconf *to, const struct netconf *from, struct err *e);

/* netconf_add - a weaker source for @name than all before. */
int netconf_add(struct netconf *c, const char *name, const char *value, const char *source,
		struct err *e);

/* netconf_add_row, netconf_add_hosts - copy a row, or all host names, of another one. */
int netconf_add_row(struct netconf *c, const struct netconf_row *r, struct err *e);
int netconf_add_hosts(struct netconf *c, const struct netconf *other, struct err *e);

/* netconf_via_text, netconf_via_find - the way as a word; ANY if it is unknown. */
const char *netconf_via_text(enum netconf_via via);
enum netconf_via netconf_via_find(const char *text);

/* netconf_version, netconf_set_version - "" if it is not known; the last one set counts. */
const char *netconf_version(const struct netconf *c, const char *library);
int netconf_set_version(struct netconf *c, const char *library, const char *version,
			struct err *e);

/* netconf_add_plugin, netconf_add_plugins - one name that was looked for; all of @other. */
int netconf_add_plugin(struct netconf *c, const struct netconf_plugin *p, struct err *e);
int netconf_add_plugins(struct netconf *c, const struct netconf *other, struct err *e);
const struct netconf_plugin *netconf_plugin_find(const struct netconf *c, const char *name);

/* netconf_get - the row in force, or NULL; netconf_value - its value. */
const struct netconf_row *netconf_get(const struct netconf *c, const char *name);
const char *netconf_value(const struct netconf *c, const char *name);

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

/* netconf_pins - the answers of libnccl-env-ringup.so, with @text in its file. */
int netconf_pins(struct netconf *c, const char *text, const char *const *names, struct err *e);

/* netconf_prte, netconf_ucx - PRRTE's file, like Open MPI's; UCX's, an INI file
 * whose sections for some machines only are passed over. */
int netconf_prte(struct netconf *c, const char *text, const char *source,
		 const char *const *names, struct err *e);
int netconf_ucx(struct netconf *c, const char *text, const char *source,
		const char *const *names, struct err *e);

/* netconf_mca_file - the system-wide file of the Open MPI that PATH finds
 * below @root, or where Debian's would be; PATH_MAX bytes at @out. */
void netconf_mca_file(char *out, const char *root);

/*
 * netconf_resolve - ask the resolver about @name and remember the answer.
 *
 * May block for as long as the resolver does: some name servers never answer.
 */
int netconf_resolve(struct netconf *c, const char *name, struct err *e);

/* netconf_host_add - a new host without addresses, or NULL without memory. */
struct netconf_host *netconf_host_add(struct netconf *c, const char *name);
const struct netconf_host *netconf_host_find(const struct netconf *c, const char *name);

#endif
