/* fix.c - write one interface into the settings of all libraries, and undo that. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/fix.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/batch.h"
#include "base/err.h"
#include "base/file.h"
#include "host/pins.h"
#include "ringup.h"

static const char nccl_conf[] = PINS_FILE;
static const char debian_mca[] = "/etc/openmpi/openmpi-mca-params.conf";
static const char profile[] = "/etc/profile.d/ringup.sh";
static const char environment[] = "/etc/environment";
static const char spark_conf[] = "/databricks/spark/conf";
static const char spark_env[] = "/databricks/spark/conf/spark-env.sh";

/* The form in which a library takes the interface. */
enum form { NAME, EXACT, NETWORK, PLUGIN, NOTHING };

/* When a setting is written.  A foreign line that differs is a conflict if the setting is
 * written, or always if the line would override ours. */
enum when { ALWAYS, WITHOUT_RDMA, WITHOUT_FILE, PINNED, NEVER };

static const struct setting {
	enum fix_grammar in; /* FIX_SHELL means both kinds of variables */
	const char *name;
	enum form form;
	enum when when;
} settings[] = {
	{ FIX_NCCL, "NCCL_SOCKET_IFNAME", EXACT, ALWAYS },
	/* NCCL reads its file before it looks for a plug-in. */
	{ FIX_NCCL, "NCCL_ENV_PLUGIN", PLUGIN, PINNED },
	{ FIX_MCA, "btl_tcp_if_include", NETWORK, ALWAYS },
	{ FIX_MCA, "oob_tcp_if_include", NETWORK, ALWAYS },
	/* An include and an exclude list together close the TCP transport. */
	{ FIX_MCA, "btl_tcp_if_exclude", NOTHING, NEVER },
	{ FIX_MCA, "oob_tcp_if_exclude", NOTHING, NEVER },
	{ FIX_SHELL, "GLOO_SOCKET_IFNAME", NAME, ALWAYS },
	{ FIX_SHELL, "TP_SOCKET_IFNAME", NAME, ALWAYS },
	{ FIX_SHELL, "HOROVOD_GLOO_IFACE", NAME, ALWAYS },
	{ FIX_SHELL, "FI_TCP_IFACE", NAME, ALWAYS },
	/* The list covers all devices: an interface's name in it excludes InfiniBand cards. */
	{ FIX_SHELL, "UCX_NET_DEVICES", NAME, WITHOUT_RDMA },
	{ FIX_SHELL, "PRTE_MCA_prte_if_include", NETWORK, ALWAYS },
	{ FIX_SHELL, "PRTE_MCA_prte_if_exclude", NOTHING, NEVER },
	{ FIX_SHELL, "PRTE_MCA_oob_tcp_if_include", NETWORK, NEVER },
	{ FIX_SHELL, "PRTE_MCA_oob_tcp_if_exclude", NOTHING, NEVER },
	{ FIX_SHELL, "OMPI_MCA_btl_tcp_if_include", NETWORK, WITHOUT_FILE },
	{ FIX_SHELL, "OMPI_MCA_oob_tcp_if_include", NETWORK, WITHOUT_FILE },
	{ FIX_SHELL, "OMPI_MCA_btl_tcp_if_exclude", NOTHING, NEVER },
	{ FIX_SHELL, "OMPI_MCA_oob_tcp_if_exclude", NOTHING, NEVER },
	{ FIX_SHELL, "NCCL_SOCKET_IFNAME", EXACT, NEVER },
};

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

/* The node that a plan is for. */
struct site {
	const char *root;
	const struct fix_want *want;
	char exact[24]; /* "=NAME" */
	char mca[PATH_MAX];
	bool has_mca, has_rdma, has_spark;
};

static bool has_entries(const char *root, const char *folder)
{
	char path[PATH_MAX];
	struct dirent *d;
	bool any = false;
	DIR *dir;

	if (file_path(path, root, folder, NULL))
		return false;
	dir = opendir(path);
	while (dir && !any && (d = readdir(dir)))
		any = *d->d_name != '.';
	if (dir)
		closedir(dir);
	return any;
}

static void survey(struct site *s, const char *root, const struct fix_want *want)
{
	s->root = root;
	s->want = want;
	snprintf(s->exact, sizeof(s->exact), "=%s", want->interface ? want->interface : "");
	netconf_mca_file(s->mca, root);
	s->has_mca = fixfile_folders(root, s->mca) == 0;
	s->has_rdma = has_entries(root, "/sys/class/infiniband");
	s->has_spark = file_exists(root, spark_conf);
}

static const char *fix_value_of(const struct site *s, enum form form)
{
	switch (form) {
	case NAME:
		return s->want->interface;
	case EXACT:
		return s->exact;
	case NETWORK:
		return s->want->network ? s->want->network : s->want->interface;
	case PLUGIN:
		return s->want->pin;
	case NOTHING:
		break;
	}
	return NULL;
}

static bool is_written(const struct site *s, const struct setting *set)
{
	return set->when == ALWAYS || (set->when == WITHOUT_RDMA && !s->has_rdma) ||
	       (set->when == WITHOUT_FILE && !s->has_mca) ||
	       (set->when == PINNED && s->want->pin);
}

/* Variables of Open MPI and NCCL override files, so each needs a rule; others are written. */
static void make_rules(const struct site *s, enum fix_grammar in, struct fix_rule *rules)
{
	int n = 0;

	for (int i = 0; i < SETTINGS; i++) {
		const struct setting *set = &settings[i];

		if (set->in != in || (set->when == WITHOUT_RDMA && s->has_rdma) ||
		    (set->when == PINNED && !s->want->pin))
			continue;
		rules[n].name = set->name;
		rules[n].accept[0] = fix_value_of(s, set->form);
		rules[n++].accept[1] = set->form == EXACT ? s->want->interface : NULL;
	}
	rules[n].name = NULL;
}

/* The lines of our block in a file of syntax @g, for free(). */
static char *make_lines(const struct site *s, enum fix_grammar g)
{
	enum fix_grammar in = g == FIX_ENVIRON ? FIX_SHELL : g;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (int i = 0; i < SETTINGS; i++)
		if (settings[i].in == in && is_written(s, &settings[i]))
			fprintf(f, "%s%s%s%s\n", g == FIX_SHELL ? "export " : "",
				settings[i].name, g == FIX_MCA ? " = " : "=",
				fix_value_of(s, settings[i].form));
	return fclose(f) ? NULL : text;
}

static void conflict(void *arg, const char *path, int number, const char *line)
{
	struct fix *p = arg;
	char text[FIX_TEXT];

	snprintf(text, sizeof(text), "%s:%d: %.*s", path, number, (int)strcspn(line, "\n"),
		 line);
	if (p->nconflicts < FIX_CONFLICTS)
		memcpy(p->conflict[p->nconflicts++], text, sizeof(text));
}

static int plan(struct fix *p, const struct site *s, const char *path, enum fix_grammar g,
		struct err *e)
{
	struct fix_file *file = &p->file[p->n];
	struct fix_rule rules[SETTINGS + 1] = { 0 };
	struct fix_ask ask = {
		.rules = rules, .force = s->want->force, .conflict = conflict, .arg = p
	};
	char *lines = NULL;
	int rc;

	memset(file, 0, sizeof(*file));
	if (strlen(path) >= sizeof(file->path))
		return fail(e, RINGUP_EINVAL, "%s: path too long", path);
	snprintf(file->path, sizeof(file->path), "%s", path);
	file->grammar = g;
	p->n++;
	if (s->want->interface) {
		make_rules(s, g == FIX_ENVIRON ? FIX_SHELL : g, rules);
		lines = make_lines(s, g);
		if (!lines)
			return fail(e, RINGUP_ENOMEM, "no memory for settings");
	}
	ask.settings = lines;
	rc = fixfile_plan(file, s->root, &ask, e);
	free(lines);
	return rc;
}

static int plan_fix(struct fix *p, const struct site *s, struct err *e)
{
	int rc = plan(p, s, nccl_conf, FIX_NCCL, e);

	if (!rc && s->has_mca)
		rc = plan(p, s, s->mca, FIX_MCA, e);
	if (!rc)
		rc = plan(p, s, profile, FIX_SHELL, e);
	if (!rc && (s->has_spark || file_exists(s->root, environment)))
		rc = plan(p, s, environment, FIX_ENVIRON, e);
	if (!rc && s->has_spark)
		rc = plan(p, s, spark_env, FIX_SHELL, e);
	return rc;
}

static int plan_undo(struct fix *p, const struct site *s, struct err *e)
{
	int rc = plan(p, s, nccl_conf, FIX_NCCL, e);

	if (!rc)
		rc = plan(p, s, debian_mca, FIX_MCA, e);
	if (!rc && strcmp(s->mca, debian_mca) != 0)
		rc = plan(p, s, s->mca, FIX_MCA, e);
	if (!rc)
		rc = plan(p, s, profile, FIX_SHELL, e);
	if (!rc)
		rc = plan(p, s, environment, FIX_ENVIRON, e);
	if (!rc)
		rc = plan(p, s, spark_env, FIX_SHELL, e);
	return rc;
}

/* Refuses values with a comma or a quote, which are special in these files. */
static int check_want(const struct fix_want *w, struct err *e)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._-@";
	static const char numeric[] = "0123456789abcdefABCDEF.:/";
	static const char path[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789._-@/+~";
	const char *name = w->interface, *net = w->network;

	if (!*name || strlen(name) >= 16 || name[strspn(name, plain)] ||
	    !isalpha((unsigned char)*name))
		return fail(e, RINGUP_EINVAL,
			    "'%.32s' cannot be written into settings: use a name of letters, "
			    "digits, . _ - and @ that begins with a letter",
			    name);
	if (net &&
	    (strlen(net) >= FIX_NETWORK || net[strspn(net, numeric)] || !strchr(net, '/')))
		return fail(e, RINGUP_EINVAL, "'%.64s' is not a network such as 10.0.0.0/24",
			    net);
	if (w->pin && (*w->pin != '/' || w->pin[strspn(w->pin, path)] ||
		       strlen(w->pin) >= sizeof(((struct fix *)0)->pin)))
		return fail(
			e, RINGUP_EINVAL,
			"'%.120s' cannot be written into settings: use a plain absolute path",
			w->pin);
	return 0;
}

int fix_plan(struct fix *p, const char *root, const struct fix_want *want, struct err *e)
{
	struct site s = { 0 };
	int rc;

	memset(p, 0, sizeof(*p));
	if (!want->interface) {
		survey(&s, root, want);
		return plan_undo(p, &s, e);
	}
	rc = check_want(want, e);
	if (rc)
		return rc;
	survey(&s, root, want);
	snprintf(p->pin, sizeof(p->pin), "%s", want->pin ? want->pin : "");
	return plan_fix(p, &s, e);
}

void fix_free(struct fix *p)
{
	for (int i = 0; i < p->n; i++)
		fixfile_free(&p->file[i]);
	memset(p, 0, sizeof(*p));
}

static int stage(struct batch *b, const char *root, const struct fix_file *f, const char *text,
		 struct err *e)
{
	int rc = text ? batch_write(b, root, f->path, 0644, text, strlen(text), e)
		      : batch_remove(b, root, f->path, f->folders, e);

	if (rc && geteuid() && (e->os == EACCES || e->os == EPERM))
		return fail(e, rc,
			    "only root may write %.100s%.60s: sudo, or --ssh 'ssh %%h sudo -n'",
			    root, f->path);
	return rc;
}

int fix_stage(const struct fix *p, const char *root, struct batch *b, struct err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < p->n; i++)
		if (fixfile_changes(&p->file[i]))
			rc = stage(b, root, &p->file[i], p->file[i].after, e);
	return rc;
}

int fix_stage_back(const struct fix *p, const char *root, struct batch *b, struct err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < p->n; i++)
		if (fixfile_changes(&p->file[i]))
			rc = stage(b, root, &p->file[i], p->file[i].before, e);
	return rc;
}

int fix_apply(const struct fix *p, const char *root, struct err *e)
{
	struct batch b = { 0 };
	int rc = fix_stage(p, root, &b, e);

	if (!rc)
		rc = batch_commit(&b, e);
	batch_end(&b);
	return rc;
}

const struct fix_file *fix_file_of(const struct fix *p, const char *source)
{
	size_t len = strcspn(source, ":");

	for (int i = 0; i < p->n; i++)
		if (strlen(p->file[i].path) == len && !strncmp(p->file[i].path, source, len))
			return &p->file[i];
	return NULL;
}

static int add_files(const struct fix *p, bool variables, const char *const *names,
		     struct netconf *then, struct err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < p->n; i++)
		if ((p->file[i].grammar >= FIX_SHELL) == variables)
			rc = fixfile_settings(&p->file[i], names, then, e);
	return rc;
}

/* Copies all facts but settings: host name, resolved names, versions and plug-ins. */
static int copy_facts(const struct netconf *now, struct netconf *then, struct err *e)
{
	int rc;

	memcpy(then->hostname, now->hostname, sizeof(then->hostname));
	rc = netconf_add_hosts(then, now, e);
	for (int i = 0; !rc && i < now->nversions; i++)
		rc = netconf_set_version(then, now->versions[i].library,
					 now->versions[i].version, e);
	return rc ? rc : netconf_add_plugins(then, now, e);
}

/* Adds the pins that ringup's plug-in will answer, and the plug-in if the plan loads it. */
static int add_pins(const struct fix *p, const char *const *names, struct netconf *then,
		    struct err *e)
{
	struct netconf_plugin x = { .loads = true,
				    .is_ours = true,
				    .takes = NETCONF_ENV_V1 | NETCONF_ENV_V2 };
	bool any = *p->pin != 0;
	int rc = 0;

	for (int i = 0; i < then->nplugins; i++)
		any |= then->plugins[i].is_ours && *then->plugins[i].path;
	for (int i = 0; !rc && any && i < p->n; i++)
		if (!strcmp(p->file[i].path, PINS_FILE) && p->file[i].after)
			rc = netconf_pins(then, p->file[i].after, names, e);
	if (rc || !*p->pin || netconf_plugin_find(then, p->pin))
		return rc;
	snprintf(x.name, sizeof(x.name), "%s", p->pin);
	snprintf(x.path, sizeof(x.path), "%s", p->pin);
	return netconf_add_plugin(then, &x, e);
}

int fix_settings(const struct fix *p, const struct netconf *now, const char *const *names,
		 struct netconf *then, struct err *e)
{
	int rc;

	memset(then, 0, sizeof(*then));
	rc = copy_facts(now, then, e);
	if (!rc)
		rc = add_pins(p, names, then, e);
	if (!rc)
		rc = add_files(p, true, names, then, e);
	for (int i = 0; !rc && i < now->nrows; i++)
		if (!fix_file_of(p, now->rows[i].source))
			rc = netconf_add_row(then, &now->rows[i], e);
	return rc ? rc : add_files(p, false, names, then, e);
}
