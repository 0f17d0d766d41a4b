/* trap.c - shared code of the checks in traps.def: settings rows, machine facts, findings. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "nicpick/trap.h"

#include <ctype.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/array.h"
#include "base/err.h"
#include "base/near.h"
#include "base/shell.h"
#include "nicpick/own.h"
#include "ringup.h"

const struct trap traps[] = {
#define TRAP(id, code, severity, why) { code, LINT_##severity, trap_##id, why },
#include "nicpick/traps.def"
#undef TRAP
	{ 0 }
};

static const char mca_prefix[] = "OMPI_MCA_";

static struct trap_row *add_row(struct trap_case *t, enum sources_grammar g, const char *path,
				int number, const char *line)
{
	struct trap_row *r = array_more(&t->rows, &t->nrows, sizeof(*r));

	if (r)
		*r = (struct trap_row){
			.grammar = g, .path = path, .number = number, .line = line
		};
	t->no_memory |= !r;
	return r;
}

/* Open MPI strips blanks from both ends, and a CR. */
static char *trimmed(const char *text, size_t len)
{
	while (len && isblank((unsigned char)*text)) {
		text++;
		len--;
	}
	while (len && strchr(" \t\r", text[len - 1]))
		len--;
	return strndup(text, len);
}

static char *mca_name(const char *line, size_t len)
{
	char *bare = trimmed(line, len), *name = NULL;

	if (bare && asprintf(&name, "%s%s", mca_prefix, bare) < 0)
		name = NULL;
	free(bare);
	return name;
}

/* A line without '=' sets nothing, but its form may still be judged. */
static void trap_parse(struct trap_case *t, struct trap_row *r)
{
	size_t len = strlen(r->line);
	const char *eq = strchr(r->line, '=');
	size_t before = eq ? (size_t)(eq - r->line) : len;
	char meant[SOURCES_NAME];

	sources_meant(r->grammar, r->line, len, meant);
	r->meant = strdup(meant);
	if (r->grammar == SOURCES_SHELL) {
		r->name = strdup(meant);
		r->value = sources_shell_value(eq ? eq + 1 : "");
		r->unknown = !r->value;
		if (r->unknown)
			r->value = strdup("");
	} else if (r->grammar == SOURCES_MCA) {
		r->name = mca_name(r->line, before);
		r->value = eq ? trimmed(eq + 1, len - before - 1) : strdup("");
	} else {
		r->name = strndup(r->line, before);
		r->value = strdup(eq ? eq + 1 : "");
	}
	if (!r->meant || !r->name || !r->value)
		t->no_memory = true;
}

static void trap_add_file(struct trap_case *t, const struct sources_file *f)
{
	struct trap_row *r;

	for (int i = 0; i < f->nlines; i++) {
		r = add_row(t, f->grammar, f->path, f->lines[i].number, f->lines[i].text);
		if (r)
			trap_parse(t, r);
	}
}

/* A snapshot of an older version has values without their lines. */
static void add_setting(struct trap_case *t, const struct netconf_row *c)
{
	bool mca = !strncmp(c->name, mca_prefix, strlen(mca_prefix));
	enum sources_grammar g = SOURCES_ENVIRONMENT;
	struct trap_row *r;

	if (strcmp(c->source, "environment") != 0)
		g = mca ? SOURCES_MCA : SOURCES_NCCL;
	r = add_row(t, g, c->source, 0, NULL);
	if (!r)
		return;
	r->name = strdup(c->name);
	r->meant = strdup(c->name);
	r->value = strdup(c->value);
	t->no_memory |= !r->name || !r->meant || !r->value;
}

/* In a file of Open MPI and in scripts the last line of a name wins, everywhere else the first.
 * A script answers for a value that the environment has from it. */
static bool beats(const struct trap_row *other, const struct trap_row *r, bool after)
{
	bool script = r->grammar == SOURCES_SHELL, by_script = other->grammar == SOURCES_SHELL;

	if (script && by_script)
		return after;
	if ((script && other->grammar == SOURCES_ENVIRONMENT) ||
	    (by_script && r->grammar == SOURCES_ENVIRONMENT))
		return by_script == !strcmp(other->value, r->value);
	if (r->grammar == SOURCES_MCA && r->line && other->path == r->path)
		return after;
	return !after;
}

static bool is_last_script(const struct trap_case *t, int i)
{
	for (int n = i + 1; n < t->nrows; n++)
		if (t->rows[n].grammar == SOURCES_SHELL && !t->rows[n].unknown &&
		    !strcmp(t->rows[n].name, t->rows[i].name))
			return false;
	return true;
}

static bool is_beaten(const struct trap_case *t, int i)
{
	const struct trap_row *r = &t->rows[i], *other;

	for (int n = 0; n < t->nrows; n++) {
		other = &t->rows[n];
		if (other->grammar == SOURCES_SHELL && r->grammar != SOURCES_SHELL &&
		    !is_last_script(t, n))
			continue;
		if (n != i && !strcmp(other->name, r->name) && !other->unknown &&
		    (!other->line || strchr(other->line, '=')) && beats(other, r, n > i))
			return true;
	}
	return false;
}

static int choose_good(struct trap_case *t, struct err *e)
{
	struct own_hint h = { .interface = "" };
	struct picked own = { 0 };
	int rc = own_choose(&t->s->ifaces, &h, &own, e);

	if (!rc && own.roles[0].npicks)
		memcpy(t->good, own.roles[0].picks[0].interface, sizeof(t->good));
	picker_free(&own);
	return rc;
}

/* Sets the values that hold once the scripts have run. */
static int trap_settle(const struct trap_case *t, struct netconf *c, struct err *e)
{
	int rc = 0;

	memset(c, 0, sizeof(*c));
	for (int i = 0; !rc && i < t->nrows; i++) {
		const struct trap_row *r = &t->rows[i];

		if (r->grammar == SOURCES_SHELL && r->in_force)
			rc = netconf_add(c, r->name, r->value, r->path, e);
	}
	return rc ? rc : netconf_copy(c, &t->s->settings, e);
}

static int find_plugin(struct trap_case *t, const struct netconf *c, struct err *e)
{
	const struct picker *k = picker_find("nccl");
	struct envplugin x;
	struct netconf heard;
	int rc = picker_hear(k, c, &heard, e);

	if (!rc) {
		envplugin_find(&x, &heard, picker_version(k, c));
		t->plugin = x.kind;
		snprintf(t->plugin_what, sizeof(t->plugin_what), "%s", x.what ? x.what : "");
	}
	netconf_free(&heard);
	return rc;
}

static int ask_all(struct trap_case *t, struct err *e)
{
	const struct iface_list *l = &t->s->ifaces;
	struct netconf c;
	int rc = trap_settle(t, &c, e);

	if (!rc)
		rc = find_plugin(t, &c, e);
	if (!rc)
		rc = picker_run(picker_find("nccl"), l, &c, &t->nccl, e);
	if (!rc)
		rc = picker_run(picker_find("openmpi"), l, &c, &t->ompi, e);
	if (!rc)
		rc = picker_run(picker_find("gloo"), l, &c, &t->gloo, e);
	if (!rc)
		rc = picker_run(picker_find("ucx"), l, &c, &t->ucx, e);
	netconf_free(&c);
	return rc;
}

int trap_begin(struct trap_case *t, const struct snapshot *s, struct lint_report *r,
	       struct err *e)
{
	int rc;

	memset(t, 0, sizeof(*t));
	t->s = s;
	t->report = r;
	for (int i = 0; i < s->sources.nfiles; i++)
		trap_add_file(t, &s->sources.files[i]);
	for (int i = 0; !s->sources.nfiles && i < s->settings.nrows; i++)
		if (s->settings.rows[i].via != NETCONF_PINNED)
			add_setting(t, &s->settings.rows[i]);
	if (t->no_memory)
		return fail(e, RINGUP_ENOMEM, "no memory for the settings");
	for (int i = 0; i < t->nrows; i++)
		t->rows[i].in_force = (!t->rows[i].line || strchr(t->rows[i].line, '=')) &&
				      !t->rows[i].unknown && !is_beaten(t, i);
	rc = choose_good(t, e);
	return rc ? rc : ask_all(t, e);
}

void trap_end(struct trap_case *t)
{
	for (int i = 0; i < t->nrows; i++) {
		free(t->rows[i].name);
		free(t->rows[i].meant);
		free(t->rows[i].value);
	}
	free(t->rows);
	picker_free(&t->nccl);
	picker_free(&t->ompi);
	picker_free(&t->gloo);
	picker_free(&t->ucx);
}

struct trap_row *trap_get(struct trap_case *t, const char *name)
{
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].in_force && !strcmp(t->rows[i].name, name))
			return &t->rows[i];
	return NULL;
}

struct trap_row *trap_sound(struct trap_case *t, const char *name)
{
	struct trap_row *r = trap_get(t, name);

	return r && !r->broken && *r->value ? r : NULL;
}

const char *trap_pin(const struct trap_case *t, const char *name)
{
	const struct netconf *c = &t->s->settings;

	for (int i = 0; t->plugin == ENVPLUGIN_OURS && i < c->nrows; i++)
		if (c->rows[i].via == NETCONF_PINNED && !strcmp(c->rows[i].name, name))
			return c->rows[i].value;
	return NULL;
}

bool trap_names(struct trap_case *t, const char *name)
{
	struct trap_row *r = trap_get(t, name);

	return r && strlen(r->value) > 1;
}

static char *shell_line(const char *name, const char *value)
{
	size_t size = SHELL_ROOM(strlen(value));
	char *word = malloc(size), *out = NULL;

	if (word && asprintf(&out, "export %s=%s", name, shell_word(value, word, size)) < 0)
		out = NULL;
	free(word);
	return out;
}

/* NAME and value in the syntax of @g. */
static char *line_of(enum sources_grammar g, const char *name, const char *value)
{
	char *out;

	if (g == SOURCES_ENVIRONMENT || g == SOURCES_SHELL)
		return shell_line(name, value);
	if (g == SOURCES_MCA && !strncmp(name, mca_prefix, strlen(mca_prefix)))
		name += strlen(mca_prefix);
	if (asprintf(&out, g == SOURCES_MCA ? "%s = %s" : "%s=%s", name, value) < 0)
		return NULL;
	return out;
}

static char *removal_of(const struct trap_row *r)
{
	char *out;

	if (asprintf(&out, r->grammar == SOURCES_ENVIRONMENT ? "unset %s" : "#%s",
		     r->grammar == SOURCES_ENVIRONMENT ? r->name
		     : r->line                         ? r->line
						       : "") < 0)
		return NULL;
	return out;
}

static char *place_of(const struct trap_row *r)
{
	char *out;

	if (r->number ? asprintf(&out, "%s:%d", r->path, r->number) < 0
		      : asprintf(&out, "%s", r->path) < 0)
		return NULL;
	return out;
}

/* A finding with the common fields set, or NULL; takes @what over. */
static struct lint_finding *add_finding(struct trap_case *t, char *what, char *where)
{
	struct lint_report *r = t->report;
	struct lint_finding *more =
		what && where ? array_more(&r->findings, &r->n, sizeof(*more)) : NULL;

	if (!more) {
		free(what);
		free(where);
		t->no_memory = true;
		return NULL;
	}
	*more = (struct lint_finding){ .code = t->trap->code,
				       .severity = t->trap->severity,
				       .why = t->trap->why,
				       .what = what,
				       .where = where };
	r->bites += t->trap->severity > LINT_NOTE;
	return more;
}

static void trap_describe(struct trap_case *t, struct trap_row *row, char *what, char *fix)
{
	struct lint_finding *f = add_finding(t, what, place_of(row));

	if (!f) {
		free(fix);
		return;
	}
	f->setting = strdup(*row->meant ? row->meant : row->name);
	f->line = row->line ? strdup(row->line) : NULL;
	f->fix = fix;
}

static char *text_of(const char *fmt, va_list ap)
{
	char *out;

	return vasprintf(&out, fmt, ap) < 0 ? NULL : out;
}

void trap_found(struct trap_case *t, struct trap_row *row, const char *name, const char *fix,
		const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	trap_describe(t, row, text_of(fmt, ap),
		      fix ? line_of(row->grammar, name ? name : row->meant, fix) : NULL);
	va_end(ap);
}

void trap_remove(struct trap_case *t, struct trap_row *row, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	trap_describe(t, row, text_of(fmt, ap), removal_of(row));
	va_end(ap);
}

void trap_machine(struct trap_case *t, enum sources_grammar grammar, const char *name,
		  const char *fix, const char *fmt, ...)
{
	struct lint_finding *f;
	va_list ap;

	va_start(ap, fmt);
	f = add_finding(t, text_of(fmt, ap), strdup("this machine"));
	va_end(ap);
	if (!f)
		return;
	f->setting = name ? strdup(name) : NULL;
	f->fix = fix && *fix ? line_of(grammar, name, fix) : NULL;
}

bool trap_is(const struct picker_item *x, const char *text)
{
	return (int)strlen(text) == x->len && !memcmp(text, x->text, (size_t)x->len);
}

bool trap_begins(const char *text, const struct picker_item *x)
{
	return !strncmp(text, x->text, (size_t)x->len);
}

bool trap_label(const struct trap_case *t, const struct picker_item *x)
{
	const struct iface_list *l = &t->s->ifaces;

	for (int i = 0; i < l->naddrs; i++)
		if (trap_is(x, l->addrs[i].label))
			return true;
	for (int i = 0; i < l->nifaces; i++)
		if (trap_is(x, l->ifaces[i].name))
			return true;
	return false;
}

const char *trap_also(const struct trap_case *t, const struct picker_item *x)
{
	const struct iface_list *l = &t->s->ifaces;

	for (int i = 0; i < l->naddrs; i++)
		if (trap_begins(l->addrs[i].label, x) && !trap_is(x, l->addrs[i].label) &&
		    l->addrs[i].label[x->len] != ':')
			return l->addrs[i].label;
	return NULL;
}

const char *trap_near(const struct trap_case *t, const struct picker_item *x)
{
	const struct iface_list *l = &t->s->ifaces;
	char typed[64];
	struct near n = { 0 };

	if (x->len >= (int)sizeof(typed))
		return NULL;
	snprintf(typed, sizeof(typed), "%.*s", x->len, x->text);
	for (int i = 0; i < l->naddrs; i++)
		near_offer(&n, typed, l->addrs[i].label);
	return n.best;
}

static bool has_default_route(const struct iface_list *l, int iface)
{
	for (int i = 0; i < l->nroutes; i++)
		if (l->routes[i].iface == iface && !l->routes[i].prefix)
			return true;
	return false;
}

/* Judges by the name, for files without the kind of an interface. */
static bool sounds_virtual(const char *name)
{
	static const char *const begin[] = { "docker", "br-",   "virbr", "cni",  "flannel",
					     "podman", "lxcbr", "veth",  "vxlan" };

	for (size_t i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
		if (!strncmp(name, begin[i], strlen(begin[i])))
			return true;
	return false;
}

bool trap_is_link_local(const struct iface_addr *a)
{
	return a->ip.family == AF_INET && a->ip.bytes[0] == 169 && a->ip.bytes[1] == 254;
}

bool trap_is_foreign(const struct trap_case *t, const struct iface_addr *a)
{
	const struct iface_list *l = &t->s->ifaces;
	const struct iface *f = &l->ifaces[a->iface];

	if (f->flags & IFF_LOOPBACK || !strcmp(f->name, t->good) ||
	    has_default_route(l, a->iface))
		return false;
	switch (f->kind) {
	case IFACE_BRIDGE:
	case IFACE_TUN:
	case IFACE_TUNNEL:
	case IFACE_VXLAN:
		return true;
	case IFACE_VETH:
	case IFACE_OTHER:
		return sounds_virtual(f->name) || trap_is_link_local(a);
	default:
		return a->ip.family == AF_INET && !iface_is_global(&a->ip);
	}
}

bool trap_has_network(const struct trap_case *t)
{
	const struct iface_list *l = &t->s->ifaces;

	for (int i = 0; i < l->naddrs; i++)
		if (iface_is_global(&l->addrs[i].ip) && !trap_is_foreign(t, &l->addrs[i]) &&
		    l->ifaces[l->addrs[i].iface].flags & IFF_UP)
			return true;
	return false;
}

const struct iface_addr *trap_address(const struct trap_case *t, const struct pick *p)
{
	const struct iface_list *l = &t->s->ifaces;
	char text[IFACE_TEXT];

	for (int i = 0; i < l->naddrs; i++)
		if (!strcmp(l->addrs[i].label, p->interface) &&
		    !strcmp(iface_text(&l->addrs[i].ip, text), p->address))
			return &l->addrs[i];
	return NULL;
}

const char *trap_net(const struct trap_case *t, char out[IFACE_TEXT])
{
	const struct iface_list *l = &t->s->ifaces;

	*out = 0;
	for (int i = 0; i < l->naddrs; i++)
		/* A network of one address is better given by name: see ompi-everything. */
		if (l->addrs[i].ip.family == AF_INET && l->addrs[i].prefix != 32 &&
		    !strcmp(l->ifaces[l->addrs[i].iface].name, t->good))
			return iface_net_text(&l->addrs[i].ip, l->addrs[i].prefix, out);
	return out;
}
