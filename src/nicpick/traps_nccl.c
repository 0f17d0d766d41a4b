/* traps_nccl.c - checks for settings that NCCL interprets differently than intended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nicpick/trap.h"

static const char ifname[] = "NCCL_SOCKET_IFNAME", comm_id[] = "NCCL_COMM_ID";
static const char env_plugin[] = "NCCL_ENV_PLUGIN";

enum { MAX_NAMES = 16, NAME_BYTES = 64 };

/* NCCL_SOCKET_IFNAME, parsed as NCCL does it. */
struct spec {
	struct trap_row *row; /* NULL: not set, ignored, or already reported */
	bool negate, exact;
	const char *list;
};

static struct spec spec_of(struct trap_case *t)
{
	struct spec s = { .row = trap_sound(t, ifname) };

	if (!s.row || strlen(s.row->value) < 2) {
		s.row = NULL;
		return s;
	}
	s.list = s.row->value;
	s.negate = *s.list == '^';
	s.list += s.negate;
	s.exact = *s.list == '=';
	s.list += s.exact;
	return s;
}

/* The next name, without its colon and what follows. */
static bool next_name(const char **list, struct picker_item *x)
{
	do {
		if (!picker_next(list, x))
			return false;
		x->len = (int)strcspn(x->text, ",:");
	} while (!x->len);
	return true;
}

static bool matches(const struct spec *s, const char *label)
{
	const char *list = s->list;
	struct picker_item x;
	bool any = false, hit = false;

	while (next_name(&list, &x)) {
		any = true;
		hit |= s->exact ? trap_is(&x, label) : trap_begins(label, &x);
	}
	return (hit || !any) != s->negate;
}

/* "=eth0": the interface to name instead; NULL if unknown. */
static const char *instead(const struct trap_case *t, char out[IFACE_NAME + 1])
{
	if (!*t->good)
		return NULL;
	snprintf(out, IFACE_NAME + 1, "=%s", t->good);
	return out;
}

/* Ends the checks of this value. */
static void traps_nccl_settle(struct spec *s)
{
	s->row->broken = true;
}

void trap_nccl_long_name(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const char *list = s.list;
	char fix[IFACE_NAME + 1];
	struct picker_item x;

	while (s.row && next_name(&list, &x)) {
		if (x.len < NAME_BYTES)
			continue;
		trap_found(t, s.row, NULL, instead(t, fix),
			   "a name of %d bytes; interfaces have at most 15", x.len);
		traps_nccl_settle(&s);
		return;
	}
}

void trap_nccl_one_char(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, ifname);
	char fix[IFACE_NAME + 1];

	if (!r || strlen(r->value) > 1)
		return;
	trap_found(t, r, NULL, instead(t, fix), "'%s' is ignored", r->value);
	r->broken = true;
}

void trap_nccl_eq_hat(struct trap_case *t)
{
	struct spec s = spec_of(t);
	char *fix;

	if (!s.row || s.negate || !s.exact || *s.list != '^')
		return;
	if (asprintf(&fix, "^=%s", s.list + 1) < 0)
		fix = NULL;
	trap_found(t, s.row, NULL, fix, "'=^' looks for an interface called '%.40s'", s.list);
	free(fix);
	traps_nccl_settle(&s);
}

void trap_nccl_empty_list(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const char *list = s.list;
	char fix[IFACE_NAME + 1];
	struct picker_item x;

	if (!s.row || next_name(&list, &x))
		return;
	trap_found(t, s.row, NULL, instead(t, fix),
		   "'%.40s' contains no name, so it matches %s", s.row->value,
		   s.negate ? "nothing" : "everything");
	traps_nccl_settle(&s);
}

void trap_nccl_too_many(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const char *list = s.list;
	char fix[IFACE_NAME + 1];
	struct picker_item x;
	int n = 0;

	while (s.row && next_name(&list, &x))
		if (++n == MAX_NAMES + 1)
			trap_found(t, s.row, NULL, instead(t, fix),
				   "%.*s is name %d, which NCCL no longer reads", x.len, x.text,
				   n);
}

/* The list without blanks, and without '^' or '=' in front of inner names. */
static char *plain_list(const struct spec *s)
{
	char *out = malloc(strlen(s->row->value) + 1), *w = out;
	const char *r;

	for (r = s->row->value; out && *r; r++) {
		bool inner = r > s->row->value && r >= s->list && strchr("^=", *r);

		if (!isblank((unsigned char)*r) && !inner)
			*w++ = *r;
	}
	if (out)
		*w = 0;
	return out;
}

void trap_nccl_blank_list(struct trap_case *t)
{
	struct spec s = spec_of(t);
	char *fix;

	if (!s.row || !s.list[strcspn(s.list, " \t")])
		return;
	fix = plain_list(&s);
	trap_found(t, s.row, NULL, fix, "the list contains a space");
	free(fix);
	traps_nccl_settle(&s);
}

void trap_nccl_inner_hat(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const char *list = s.list;
	struct picker_item x;
	char *fix;

	while (s.row && next_name(&list, &x)) {
		if (*x.text != '^' && *x.text != '=')
			continue;
		fix = plain_list(&s);
		trap_found(t, s.row, NULL, fix, "'%.*s' is read as a name", x.len, x.text);
		free(fix);
		traps_nccl_settle(&s);
		return;
	}
}

void trap_nccl_glob(struct trap_case *t)
{
	struct spec s = spec_of(t);
	char fix[IFACE_NAME + 1];

	if (!s.row || !s.list[strcspn(s.list, "*?[")])
		return;
	trap_found(t, s.row, NULL, instead(t, fix), "'%.80s' is not a pattern for NCCL",
		   s.list);
	traps_nccl_settle(&s);
}

/* Parses "10.0.0.5", perhaps with a prefix length; without one @prefix is the whole address. */
static bool is_address(const struct picker_item *x, struct iface_ip *ip, int *prefix)
{
	char text[IFACE_TEXT], *slash;

	if (x->len >= IFACE_TEXT)
		return false;
	snprintf(text, sizeof(text), "%.*s", x->len, x->text);
	slash = strchr(text, '/');
	*prefix = slash ? atoi(slash + 1) : 128;
	text[strcspn(text, "/")] = 0;
	if (!iface_parse(ip, text))
		return false;
	if (ip->family == AF_INET && *prefix > 32)
		*prefix = 32;
	return true;
}

/* The interface with an address in that network. */
static const struct iface *owner_of(const struct trap_case *t, const struct iface_ip *ip,
				    int prefix)
{
	const struct iface_list *l = &t->s->ifaces;

	for (int i = 0; i < l->naddrs; i++)
		if (iface_within(&l->addrs[i].ip, ip, prefix))
			return &l->ifaces[l->addrs[i].iface];
	return NULL;
}

void trap_nccl_no_address(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const char *list = s.list;
	const struct iface *f;
	char fix[IFACE_NAME + 1];
	struct picker_item x;
	struct iface_ip ip;
	int prefix;

	/* Not next_name(): an IPv6 address is full of colons. */
	while (s.row && picker_next(&list, &x)) {
		if (!is_address(&x, &ip, &prefix))
			continue;
		f = owner_of(t, &ip, prefix);
		if (f)
			snprintf(fix, sizeof(fix), "=%s", f->name);
		trap_found(t, s.row, NULL, f ? fix : instead(t, fix), "%.*s is an address",
			   x.len, x.text);
		traps_nccl_settle(&s);
		return;
	}
}

void trap_nccl_port(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const char *list = s.list;
	struct picker_item x;
	const char *colon;
	char fix[IFACE_NAME + 1];

	while (s.row && picker_next(&list, &x)) {
		colon = memchr(x.text, ':', (size_t)x.len);
		if (!colon || !trap_label(t, &x))
			continue;
		snprintf(fix, sizeof(fix), "=%.*s", (int)(colon - x.text), x.text);
		trap_found(t, s.row, NULL, fix, "%.*s is an alias", x.len, x.text);
		traps_nccl_settle(&s);
		return;
	}
}

void trap_nccl_prefix(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const char *list = s.list, *other;
	struct picker_item x;
	char *fix;

	while (s.row && !s.exact && next_name(&list, &x)) {
		other = trap_label(t, &x) ? trap_also(t, &x) : NULL;
		if (!other)
			continue;
		if (asprintf(&fix, "%s=%s", s.negate ? "^" : "", s.list) < 0)
			fix = NULL;
		trap_found(t, s.row, NULL, fix, "%.*s is also %s", x.len, x.text, other);
		free(fix);
		traps_nccl_settle(&s);
		return;
	}
}

void trap_nccl_excludes_not_lo(struct trap_case *t)
{
	struct spec s = spec_of(t);
	char fix[IFACE_NAME + 1];

	if (!s.row || !s.negate || !matches(&s, "lo") || !trap_has_network(t))
		return;
	trap_found(t, s.row, NULL, instead(t, fix),
		   "'%.80s' does not exclude lo, so NCCL picks it", s.row->value);
	traps_nccl_settle(&s);
}

void trap_nccl_exclude(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const struct pick_role *r = &t->nccl.roles[1];
	const struct iface_addr *a;
	char fix[IFACE_NAME + 1];

	for (int i = 0; s.row && s.negate && i < r->npicks; i++) {
		a = trap_address(t, &r->picks[i]);
		if (!a || !trap_is_foreign(t, a))
			continue;
		trap_found(t, s.row, NULL, instead(t, fix), "'%.80s' does not exclude %s",
			   s.row->value, r->picks[i].interface);
		traps_nccl_settle(&s);
		return;
	}
}

void trap_nccl_loopback(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const struct pick_role *r = &t->nccl.roles[0];
	const struct iface_addr *a = r->npicks ? trap_address(t, &r->picks[0]) : NULL;
	char fix[IFACE_NAME + 1];

	if (!a || !(t->s->ifaces.ifaces[a->iface].flags & IFF_LOOPBACK) ||
	    !trap_has_network(t) || trap_get(t, comm_id))
		return;
	if (s.row)
		trap_found(t, s.row, NULL, instead(t, fix), "NCCL takes %s",
			   r->picks[0].interface);
	else if (!trap_get(t, ifname))
		trap_machine(t, SOURCES_NCCL, ifname, instead(t, fix),
			     "NCCL finds nothing better than %s", r->picks[0].interface);
}

/* The reason why a named interface will not do; NULL: it will. */
static const char *unfit(const struct trap_case *t, const struct picker_item *x)
{
	const struct iface_list *l = &t->s->ifaces;
	bool known = false;

	for (int i = 0; i < l->nifaces; i++)
		if (trap_is(x, l->ifaces[i].name)) {
			if (!(l->ifaces[i].flags & IFF_RUNNING))
				return "is not RUNNING";
			known = true;
		}
	for (int i = 0; known && i < l->naddrs; i++)
		if (trap_is(x, l->addrs[i].label))
			return NULL;
	return known ? "has no address" : NULL;
}

void trap_nccl_not_ready(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const char *list = s.list, *why;
	char fix[IFACE_NAME + 1];
	struct picker_item x;

	while (s.row && !s.negate && !t->nccl.roles[1].npicks && next_name(&list, &x)) {
		why = unfit(t, &x);
		if (!why)
			continue;
		trap_found(t, s.row, NULL, instead(t, fix), "%.*s %s", x.len, x.text, why);
		traps_nccl_settle(&s);
		return;
	}
}

void trap_nccl_no_match(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const char *list = s.list, *near;
	char fix[IFACE_NAME + 1];
	struct picker_item x = { "", 0 };

	if (!s.row || t->nccl.roles[1].npicks || !t->s->ifaces.naddrs)
		return;
	next_name(&list, &x);
	near = trap_near(t, &x);
	if (near)
		snprintf(fix, sizeof(fix), "=%.15s", near);
	trap_found(t, s.row, NULL, near ? fix : instead(t, fix),
		   "'%.80s' matches no interface of this machine", s.row->value);
	traps_nccl_settle(&s);
}

void trap_nccl_order(struct trap_case *t)
{
	struct spec s = spec_of(t);
	const struct pick_role *r = &t->nccl.roles[1];
	const char *list = s.list;
	char fix[IFACE_NAME + 1];
	struct picker_item x;

	if (!s.row || s.negate || r->npicks < 2 || !next_name(&list, &x) ||
	    !trap_label(t, &x) || unfit(t, &x) || trap_is(&x, r->picks[0].interface))
		return;
	snprintf(fix, sizeof(fix), "=%.*s", x.len, x.text);
	trap_found(t, s.row, NULL, fix, "%.*s is listed first, but NCCL picks %s", x.len,
		   x.text, r->picks[0].interface);
}

void trap_nccl_family(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, "NCCL_SOCKET_FAMILY");

	if (r && strcmp(r->value, "AF_INET") != 0 && strcmp(r->value, "AF_INET6") != 0)
		trap_found(t, r, NULL, strchr(r->value, '6') ? "AF_INET6" : "AF_INET",
			   "'%.40s' is not a family and is ignored", r->value);
}

/* Reports an address without brackets in place of host:port. */
void trap_nccl_id_address(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, comm_id);
	const char *last = r ? strrchr(r->value, ':') : NULL;
	char *fix;

	if (!last || *r->value == '[' || strchr(r->value, ':') == last)
		return;
	if (asprintf(&fix, "[%.*s]%s", (int)(last - r->value), r->value, last) < 0)
		fix = NULL;
	trap_found(t, r, NULL, fix,
		   "NCCL does not understand an IPv6 address without brackets");
	free(fix);
	r->broken = true;
}

void trap_nccl_id_subnet(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, comm_id);

	if (!r || !*t->nccl.roles[0].error || !t->s->ifaces.naddrs)
		return;
	trap_found(t, r, NULL, NULL, "no interface is in the subnet of %.80s", r->value);
	r->broken = true;
}

void trap_nccl_id_beats_ifname(struct trap_case *t)
{
	struct trap_row *id = trap_sound(t, comm_id);
	struct spec s = spec_of(t);
	const struct pick_role *r = &t->nccl.roles[0];

	if (!id || !s.row || !r->npicks || matches(&s, r->picks[0].interface))
		return;
	trap_remove(t, id, "the bootstrap uses %s, which %s=%.80s does not name",
		    r->picks[0].interface, ifname, s.row->value);
	id->broken = true;
}

void trap_nccl_id_for_all(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, comm_id);

	if (r)
		trap_remove(t, r, "every communicator would meet at %.80s", r->value);
}

void trap_nccl_ib_first(struct trap_case *t)
{
	const struct pick_role *r = &t->nccl.roles[0];
	const struct iface_addr *a = r->npicks ? trap_address(t, &r->picks[0]) : NULL;
	char fix[IFACE_NAME + 1];
	bool is_ib;

	if (!a || trap_names(t, ifname) || trap_get(t, comm_id) ||
	    strncmp(a->label, "ib", 2) != 0 || !*t->good || !strcmp(t->good, a->label))
		return;
	is_ib = t->s->ifaces.ifaces[a->iface].kind == IFACE_INFINIBAND;
	if (is_ib && iface_is_global(&a->ip))
		return;
	trap_machine(t, SOURCES_NCCL, ifname, instead(t, fix), "NCCL picks %s, %s", a->label,
		     is_ib ? "which has only a link-local address" : "which is not InfiniBand");
}

/* On a node without IPv4 a card with only fe80:: may come first, and its wire may lead nowhere.
 * Names that begin with ib have a check of their own. */
void trap_nccl_link_local(struct trap_case *t)
{
	const struct pick_role *r = &t->nccl.roles[0];
	const struct iface_addr *a = r->npicks ? trap_address(t, &r->picks[0]) : NULL;
	char fix[IFACE_NAME + 1];

	if (!a || trap_names(t, ifname) || trap_get(t, comm_id) || a->ip.family != AF_INET6 ||
	    iface_is_global(&a->ip) || iface_is_loopback(&a->ip) ||
	    !strncmp(a->label, "ib", 2) || !*t->good || !strcmp(t->good, a->label))
		return;
	trap_machine(t, SOURCES_NCCL, ifname, instead(t, fix),
		     "NCCL picks %s, which only has a link-local address, rather than %s",
		     a->label, t->good);
}

void trap_nccl_foreign(struct trap_case *t)
{
	const struct pick_role *r = &t->nccl.roles[1];
	const struct iface_addr *a;
	char fix[IFACE_NAME + 1];

	for (int i = 0; i < r->npicks && !trap_names(t, ifname) && *t->good; i++) {
		a = trap_address(t, &r->picks[i]);
		if (!a || !trap_is_foreign(t, a) || !strcmp(a->label, t->good))
			continue;
		trap_machine(t, SOURCES_NCCL, ifname, instead(t, fix), "NCCL takes %s%s%s",
			     a->label, i ? " as well as others for its data" : "",
			     trap_is_link_local(a) ? ", which has only a link-local address"
						   : "");
		return;
	}
}

void trap_nccl_hidden(struct trap_case *t)
{
	static const char *const last[] = { "docker", "lo", "virbr" };
	const struct pick_role *r = &t->nccl.roles[0];
	char fix[IFACE_NAME + 1];

	if (trap_names(t, ifname) || trap_get(t, comm_id) || !r->npicks ||
	    !strcmp(r->picks[0].interface, t->good) || !strcmp(t->good, "lo"))
		return;
	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++)
		if (!strncmp(t->good, last[i], strlen(last[i])))
			trap_machine(t, SOURCES_NCCL, ifname, instead(t, fix),
				     "NCCL picks %s rather than %s, whose name begins with %s",
				     r->picks[0].interface, t->good, last[i]);
}

void trap_nccl_conf_file(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, "NCCL_CONF_FILE");

	for (int i = 0; r && i < t->s->sources.nfiles; i++)
		if (!strcmp(t->s->sources.files[i].path, r->value))
			return;
	if (r && t->s->sources.nfiles)
		trap_remove(t, r, "%.120s cannot be read, and NCCL does not read ~/.nccl.conf",
			    r->value);
}

void trap_nccl_env_plugin(struct trap_case *t)
{
	struct trap_row *r = trap_get(t, env_plugin);

	if (t->plugin != ENVPLUGIN_UNKNOWN)
		return;
	if (r && *r->value)
		trap_found(t, r, NULL, "none", "%.160s overrides NCCL's settings",
			   t->plugin_what);
	else
		trap_machine(t, SOURCES_ENVIRONMENT, env_plugin, "none",
			     "NCCL loads %.160s, which overrides its settings", t->plugin_what);
}

/* Reports the row in force that contradicts the pin of its name. */
void trap_nccl_env_beaten(struct trap_case *t)
{
	const char *pin;

	for (int i = 0; i < t->nrows; i++) {
		struct trap_row *r = &t->rows[i];

		pin = r->in_force ? trap_pin(t, r->name) : NULL;
		if (!pin || !strcmp(r->value, pin))
			continue;
		trap_remove(t, r, "%.60s is pinned to %.60s", r->name, pin);
		/* Its meaning is moot. */
		r->broken = true;
	}
}

void trap_nccl_env_missing(struct trap_case *t)
{
	struct trap_row *r = trap_sound(t, env_plugin);

	if (r && t->plugin == ENVPLUGIN_MISSING)
		trap_remove(t, r, "%.160s cannot be loaded as a library", r->value);
	else if (r && t->plugin == ENVPLUGIN_UNFIT)
		trap_remove(t, r, "%.160s is not an env plug-in for this NCCL", t->plugin_what);
}
