/* netconf.c - settings of this machine's network libraries, and the sources of each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/netconf.h"

#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/path.h"
#include "host/pins.h"
#include "ringup.h"

/* Limits: settings files have a few lines. */
enum { FILE_CAP = 1 << 20, MAX_ROWS = 4096, MAX_HOSTS = 64, MAX_PLUGINS = 64 };

static const char ompi_prefix[] = "OMPI_MCA_", prte_prefix[] = "PRTE_MCA_";
static const char debian_mca[] = "/etc/openmpi/openmpi-mca-params.conf";

static int netconf_no_memory(struct err *e)
{
	return fail(e, RINGUP_ENOMEM, "no memory for settings");
}

int netconf_add(struct netconf *c, const char *name, const char *value, const char *source,
		struct err *e)
{
	struct netconf_row *r;

	if (c->nrows == MAX_ROWS)
		return fail(e, RINGUP_EINVAL, "%s: more than %d settings", source, MAX_ROWS);
	r = array_room(&c->rows, c->nrows, sizeof(*r));
	if (!r)
		return netconf_no_memory(e);
	snprintf(r->source, sizeof(r->source), "%s", source);
	r->name = strdup(name);
	r->value = strdup(value);
	if (!r->name || !r->value) {
		free(r->name);
		free(r->value);
		return netconf_no_memory(e);
	}
	c->nrows++;
	return 0;
}

int netconf_add_row(struct netconf *c, const struct netconf_row *r, struct err *e)
{
	int rc = netconf_add(c, r->name, r->value, r->source, e);

	if (!rc)
		c->rows[c->nrows - 1].via = r->via;
	return rc;
}

static const char *const vias[] = {
#define X(name, text) text,
	NETCONF_VIAS(X)
#undef X
};

const char *netconf_via_text(enum netconf_via via)
{
	return vias[via];
}

enum netconf_via netconf_via_find(const char *text)
{
	for (size_t i = 0; i < sizeof(vias) / sizeof(vias[0]); i++)
		if (!strcmp(vias[i], text))
			return (enum netconf_via)i;
	return NETCONF_ANY;
}

const char *netconf_version(const struct netconf *c, const char *library)
{
	for (int i = c->nversions - 1; i >= 0; i--)
		if (!strcmp(c->versions[i].library, library))
			return c->versions[i].version;
	return "";
}

int netconf_set_version(struct netconf *c, const char *library, const char *version,
			struct err *e)
{
	struct netconf_version *v;

	if (c->nversions == MAX_HOSTS)
		return fail(e, RINGUP_EINVAL, "more than %d versions", MAX_HOSTS);
	v = array_more(&c->versions, &c->nversions, sizeof(*v));
	if (!v)
		return netconf_no_memory(e);
	snprintf(v->library, sizeof(v->library), "%s", library);
	snprintf(v->version, sizeof(v->version), "%s", version);
	return 0;
}

int netconf_add_plugin(struct netconf *c, const struct netconf_plugin *p, struct err *e)
{
	struct netconf_plugin *one;

	if (c->nplugins == MAX_PLUGINS)
		return fail(e, RINGUP_EINVAL, "more than %d plug-ins", MAX_PLUGINS);
	one = array_more(&c->plugins, &c->nplugins, sizeof(*one));
	if (!one)
		return netconf_no_memory(e);
	*one = *p;
	return 0;
}

int netconf_add_plugins(struct netconf *c, const struct netconf *other, struct err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < other->nplugins; i++)
		rc = netconf_add_plugin(c, &other->plugins[i], e);
	return rc;
}

const struct netconf_plugin *netconf_plugin_find(const struct netconf *c, const char *name)
{
	for (int i = 0; i < c->nplugins; i++)
		if (!strcmp(c->plugins[i].name, name))
			return &c->plugins[i];
	return NULL;
}

const struct netconf_row *netconf_get(const struct netconf *c, const char *name)
{
	for (int i = 0; i < c->nrows; i++)
		if (!strcmp(c->rows[i].name, name))
			return &c->rows[i];
	return NULL;
}

const char *netconf_value(const struct netconf *c, const char *name)
{
	const struct netconf_row *r = netconf_get(c, name);

	return r ? r->value : NULL;
}

void netconf_free(struct netconf *c)
{
	for (int i = 0; i < c->nrows; i++) {
		free(c->rows[i].name);
		free(c->rows[i].value);
	}
	free(c->rows);
	free(c->hosts);
	free(c->versions);
	free(c->plugins);
	memset(c, 0, sizeof(*c));
}

static bool is_wanted(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

/* A line of a file as it is: start, length, number. */
struct line {
	const char *text;
	size_t len;
	int number;
};

static bool next_line(const char **rest, struct line *l)
{
	if (!**rest)
		return false;
	l->text = *rest;
	l->len = strcspn(*rest, "\n");
	l->number++;
	*rest += l->len + ((*rest)[l->len] == '\n');
	return true;
}

/* "NAME" and "VALUE" of a line, cut at the first '='; false without one. */
static bool netconf_split(const struct line *l, char **name, char **value)
{
	const char *eq = memchr(l->text, '=', l->len);

	if (!eq)
		return false;
	*name = strndup(l->text, (size_t)(eq - l->text));
	*value = strndup(eq + 1, l->len - (size_t)(eq - l->text) - 1);
	return true;
}

int netconf_nccl(struct netconf *c, const char *text, const char *source,
		 const char *const *names, struct err *e)
{
	struct line l = { 0 };
	char where[NETCONF_SOURCE];
	char *name, *value;
	int rc = 0;

	while (!rc && next_line(&text, &l)) {
		if (!netconf_split(&l, &name, &value))
			continue;
		snprintf(where, sizeof(where), "%.140s:%d", source, l.number);
		if (!name || !value)
			rc = netconf_no_memory(e);
		else if (is_wanted(names, name))
			rc = netconf_add(c, name, value, where, e);
		free(name);
		free(value);
	}
	return rc;
}

int netconf_pins(struct netconf *c, const char *text, const char *const *names, struct err *e)
{
	char where[NETCONF_SOURCE];
	struct pins p;
	int rc = 0;

	pins_parse(&p, text, strlen(text));
	for (int i = 0; !rc && i < p.n; i++) {
		if (!is_wanted(names, p.at[i].name))
			continue;
		snprintf(where, sizeof(where), PINS_FILE ":%d by " PINS_PLUGIN, p.at[i].line);
		rc = netconf_add(c, p.at[i].name, p.at[i].value, where, e);
		if (!rc)
			c->rows[c->nrows - 1].via = NETCONF_PINNED;
	}
	return rc;
}

static char *trim(char *s)
{
	size_t len;

	s += strspn(s, " \t");
	len = strlen(s);
	while (len && strchr(" \t\r", s[len - 1]))
		s[--len] = 0;
	return s;
}

/* "name = value" of a file whose variables are called @prefix and the name. */
static int add_trimmed(struct netconf *c, const struct line *l, const char *source,
		       const char *prefix, const char *const *names, struct err *e)
{
	char where[NETCONF_SOURCE], variable[128];
	char *name, *value;
	int rc = 0;

	if (!netconf_split(l, &name, &value))
		return 0;
	snprintf(where, sizeof(where), "%.140s:%d", source, l->number);
	if (!name || !value) {
		rc = netconf_no_memory(e);
	} else if (strlen(trim(name)) < 64) {
		snprintf(variable, sizeof(variable), "%s%s", prefix, trim(name));
		if (is_wanted(names, variable))
			rc = netconf_add(c, variable, trim(value), where, e);
	}
	free(name);
	free(value);
	return rc;
}

/* In these files the last line of a name wins, in a list the first row. */
static void last_first(struct netconf *c, int first)
{
	int i, j;

	for (i = first, j = c->nrows - 1; i < j; i++, j--) {
		struct netconf_row swap = c->rows[i];

		c->rows[i] = c->rows[j];
		c->rows[j] = swap;
	}
}

static int read_mca(struct netconf *c, const char *text, const char *source, const char *prefix,
		    const char *const *names, struct err *e)
{
	struct line l = { 0 };
	int rc = 0, first = c->nrows;

	while (!rc && next_line(&text, &l))
		rc = add_trimmed(c, &l, source, prefix, names, e);
	last_first(c, first);
	return rc;
}

int netconf_mca(struct netconf *c, const char *text, const char *source,
		const char *const *names, struct err *e)
{
	return read_mca(c, text, source, ompi_prefix, names, e);
}

int netconf_prte(struct netconf *c, const char *text, const char *source,
		 const char *const *names, struct err *e)
{
	return read_mca(c, text, source, prte_prefix, names, e);
}

int netconf_ucx(struct netconf *c, const char *text, const char *source,
		const char *const *names, struct err *e)
{
	struct line l = { 0 };
	bool section = false;
	int rc = 0, first = c->nrows;

	while (!rc && next_line(&text, &l)) {
		size_t blanks = strspn(l.text, " \t");

		if (l.text[blanks] == '[')
			section = true;
		else if (!section && l.text[blanks] != '#' && l.text[blanks] != ';')
			rc = add_trimmed(c, &l, source, "", names, e);
	}
	last_first(c, first);
	return rc;
}

typedef int grammar(struct netconf *, const char *, const char *, const char *const *,
		    struct err *);

static int read_file(struct netconf *c, const char *root, const char *path, grammar *read,
		     enum netconf_via via, const char *const *names, struct err *e)
{
	int rc, first = c->nrows;
	char *text;
	size_t len;

	if (file_read(root, path, FILE_CAP, &text, &len, NULL))
		return 0;
	rc = read(c, text, path, names, e);
	free(text);
	for (; first < c->nrows; first++)
		c->rows[first].via = via;
	return rc;
}

/* The same of @name in the folder that the variable @home holds. */
static int read_below(struct netconf *c, const char *root, const char *home, const char *name,
		      grammar *read, enum netconf_via via, const char *const *names,
		      struct err *e)
{
	const char *dir = conf_env(home);
	char path[PATH_MAX];

	if (!dir || *dir != '/')
		return 0;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return read_file(c, root, path, read, via, names, e);
}

/* Reads all; NCCL's picker knows which files a version reads. */
static int read_nccl_files(struct netconf *c, const char *root, const char *const *names,
			   struct err *e)
{
	const char *given = conf_env("NCCL_CONF_FILE");
	const struct passwd *pw = getpwuid(getuid());
	char path[PATH_MAX];
	int rc = 0;

	if (given && *given)
		rc = read_file(c, root, given, netconf_nccl, NETCONF_GIVEN, names, e);
	if (pw)
		snprintf(path, sizeof(path), "%s/.nccl.conf", pw->pw_dir);
	if (!rc && pw)
		rc = read_file(c, root, path, netconf_nccl, NETCONF_PASSWD, names, e);
	if (!rc)
		rc = read_below(c, root, "HOME", ".nccl.conf", netconf_nccl, NETCONF_HOME,
				names, e);
	return rc ? rc
		  : read_file(c, root, "/etc/nccl.conf", netconf_nccl, NETCONF_FILE, names, e);
}

/* The strongest first; the folder of the library itself is not known here. */
static int read_ucx_files(struct netconf *c, const char *root, const char *const *names,
			  struct err *e)
{
	static const char *const dirs[] = { "PWD", "UCX_CONFIG_DIR", "HOME" };
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(dirs) / sizeof(dirs[0]); i++)
		rc = read_below(c, root, dirs[i], "ucx.conf", netconf_ucx, NETCONF_FILE, names,
				e);
	return rc ? rc
		  : read_file(c, root, "/etc/ucx/ucx.conf", netconf_ucx, NETCONF_FILE, names,
			      e);
}

void netconf_mca_file(char *out, const char *root)
{
	const char *list = conf_env("PATH");
	char dir[PATH_MAX], program[PATH_MAX + 16], full[PATH_MAX], real[PATH_MAX];
	char *slash;
	size_t len;

	snprintf(out, PATH_MAX, "%s", debian_mca);
	while (path_next(&list, dir)) {
		snprintf(program, sizeof(program), "%s/ompi_info", dir);
		if (*dir != '/' || file_path(full, root, program, NULL) ||
		    !realpath(full, real))
			continue;
		/* /opt/openmpi/bin/ompi_info: two names up is the prefix. */
		slash = strrchr(real, '/');
		*slash = 0;
		slash = strrchr(real, '/');
		if (!slash)
			return;
		*slash = 0;
		len = root ? strlen(root) : 0;
		while (len && root[len - 1] == '/')
			len--;
		if (len && !strncmp(real, root, len))
			memmove(real, real + len, strlen(real + len) + 1);
		if (strcmp(real, "/usr") && *real)
			snprintf(out, PATH_MAX, "%.4000s/etc/openmpi-mca-params.conf", real);
		return;
	}
}

static int read_mca_files(struct netconf *c, const char *root, const char *const *names,
			  struct err *e)
{
	char path[PATH_MAX];
	int rc = read_below(c, root, "HOME", ".openmpi/mca-params.conf", netconf_mca,
			    NETCONF_FILE, names, e);

	netconf_mca_file(path, root);
	return rc ? rc : read_file(c, root, path, netconf_mca, NETCONF_FILE, names, e);
}

/* PRRTE's file is next to Open MPI's. */
static int read_prte_files(struct netconf *c, const char *root, const char *const *names,
			   struct err *e)
{
	char path[PATH_MAX], *slash;
	int rc = read_below(c, root, "HOME", ".prte/mca-params.conf", netconf_prte,
			    NETCONF_FILE, names, e);

	netconf_mca_file(path, root);
	slash = strrchr(path, '/');
	if (rc || !slash)
		return rc;
	snprintf(slash, sizeof(path) - (size_t)(slash - path), "/prte-mca-params.conf");
	return read_file(c, root, path, netconf_prte, NETCONF_FILE, names, e);
}

/* A plug-in's answers are the strongest source. */
static int read_pins(struct netconf *c, const char *root, const char *const *names,
		     struct err *e)
{
	char *text;
	size_t len;
	int rc;

	if (file_read(root, PINS_FILE, FILE_CAP, &text, &len, NULL))
		return 0;
	rc = netconf_pins(c, text, names, e);
	free(text);
	return rc;
}

int netconf_read(struct netconf *c, const char *root, const char *const *names, struct err *e)
{
	const char *value;
	int rc;

	memset(c, 0, sizeof(*c));
	gethostname(c->hostname, sizeof(c->hostname) - 1);
	rc = read_pins(c, root, names, e);
	for (int i = 0; !rc && names[i]; i++) {
		value = conf_env(names[i]);
		if (value)
			rc = netconf_add(c, names[i], value, "environment", e);
	}
	if (!rc)
		rc = read_nccl_files(c, root, names, e);
	if (!rc)
		rc = read_mca_files(c, root, names, e);
	if (!rc)
		rc = read_prte_files(c, root, names, e);
	return rc ? rc : read_ucx_files(c, root, names, e);
}

struct netconf_host *netconf_host_add(struct netconf *c, const char *name)
{
	struct netconf_host *h =
		c->nhosts < MAX_HOSTS ? array_more(&c->hosts, &c->nhosts, sizeof(*h)) : NULL;

	if (h)
		snprintf(h->name, sizeof(h->name), "%s", name);
	return h;
}

const struct netconf_host *netconf_host_find(const struct netconf *c, const char *name)
{
	for (int i = 0; i < c->nhosts; i++)
		if (!strcmp(c->hosts[i].name, name))
			return &c->hosts[i];
	return NULL;
}

int netconf_add_hosts(struct netconf *c, const struct netconf *other, struct err *e)
{
	struct netconf_host *h;

	for (int i = 0; i < other->nhosts; i++) {
		h = netconf_host_add(c, other->hosts[i].name);
		if (!h)
			return netconf_no_memory(e);
		*h = other->hosts[i];
	}
	return 0;
}

static void netconf_take(struct netconf_host *h, const struct sockaddr *sa)
{
	struct iface_ip *ip = &h->ips[h->nips];

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;

		memcpy(ip->bytes, &in->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;

		memcpy(ip->bytes, &in6->sin6_addr, 16);
		ip->scope_id = in6->sin6_scope_id;
	} else {
		return;
	}
	ip->family = sa->sa_family;
	h->nips++;
}

/* Does the line of /etc/hosts @line have the address @ip and @name?  Cuts it into words. */
static bool is_hosts_line(char *line, const struct iface_ip *ip, const char *name)
{
	char text[IFACE_TEXT], *save = NULL, *word;

	line[strcspn(line, "#")] = 0;
	word = strtok_r(line, " \t\r", &save);
	if (!word || strcmp(word, iface_text(ip, text)) != 0)
		return false;
	while ((word = strtok_r(NULL, " \t\r", &save)) && strcasecmp(word, name) != 0)
		;
	return word;
}

/* Finds the line of /etc/hosts that gives @h its first address. */
static void find_hosts_line(struct netconf_host *h)
{
	char *data = NULL, *line, *rest;
	size_t len;
	int number = 0;

	if (!h->nips || file_read("", "/etc/hosts", FILE_CAP, &data, &len, NULL))
		return;
	rest = data;
	while (!h->line && (line = strsep(&rest, "\n"))) {
		number++;
		if (is_hosts_line(line, &h->ips[0], h->name))
			h->line = number;
	}
	free(data);
}

int netconf_resolve(struct netconf *c, const char *name, struct err *e)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all, *i;
	struct netconf_host *h = netconf_host_add(c, name);

	if (!h)
		return netconf_no_memory(e);
	if (getaddrinfo(name, NULL, &hints, &all))
		return 0;
	for (i = all; i && h->nips < NETCONF_IPS; i = i->ai_next)
		netconf_take(h, i->ai_addr);
	freeaddrinfo(all);
	find_hosts_line(h);
	return 0;
}

int netconf_copy(struct netconf *to, const struct netconf *from, struct err *e)
{
	int rc = 0;

	memcpy(to->hostname, from->hostname, sizeof(to->hostname));
	for (int i = 0; !rc && i < from->nrows; i++)
		rc = netconf_add_row(to, &from->rows[i], e);
	if (!rc)
		rc = netconf_add_hosts(to, from, e);
	for (int i = 0; !rc && i < from->nversions; i++)
		rc = netconf_set_version(to, from->versions[i].library,
					 from->versions[i].version, e);
	return rc ? rc : netconf_add_plugins(to, from, e);
}
