/* test_envplugin.c - which env plug-in NCCL would load, by version, and what is said of it. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "nicpick/envplugin.h"
#include "nicpick/picker.h"
#include "tap.h"

/* Those that the loader finds, and two that it does not. */
static const struct netconf_plugin known[] = {
	{ "libnccl-env.so", "/lib/libnccl-env.so", true, false, NETCONF_ENV_V1 },
	{ "pin", "", false, false, 0 },
	{ "libnccl-env-pin.so", "/lib/libnccl-env-pin.so", true, true,
	  NETCONF_ENV_V1 | NETCONF_ENV_V2 },
	{ "new", "", false, false, 0 },
	{ "libnccl-env-new.so", "/lib/libnccl-env-new.so", true, false, NETCONF_ENV_V2 },
	{ "none.so", "", false, false, 0 },
	{ "libnccl-env-none.so.so", "", false, false, 0 },
	{ "libbad.so", "/lib/libbad.so", false, false, 0 },
	{ "/x/libm.so", "/x/libm.so", true, false, 0 },
	{ "./x.so", "", false, false, 0 },
};

static const struct {
	const char *asked, *version;
	enum envplugin_kind kind;
} tests[] = {
	{ NULL, "2.28.3", ENVPLUGIN_NONE },
	{ NULL, "2.28.7", ENVPLUGIN_UNKNOWN },
	{ "", "2.28.9", ENVPLUGIN_UNKNOWN },
	{ "none", "2.28.9", ENVPLUGIN_NONE },
	{ "NONE", "2.28.9", ENVPLUGIN_NONE },
	{ "pin", "2.28.9", ENVPLUGIN_OURS },
	{ "pin", "2.27.7", ENVPLUGIN_NONE },
	{ "new", "2.30.4", ENVPLUGIN_UNFIT },
	{ "new", "2.30.7", ENVPLUGIN_UNKNOWN },
	{ "none.so", "2.28.9", ENVPLUGIN_MISSING },
	{ "libbad.so", "2.28.9", ENVPLUGIN_MISSING },
	{ "/x/libm.so", "2.28.9", ENVPLUGIN_UNFIT },
	{ "./x.so", "2.28.9", ENVPLUGIN_UNKNOWN },
	{ "static", "2.28.9", ENVPLUGIN_UNKNOWN },
	{ "unheard-of", "2.28.9", ENVPLUGIN_UNKNOWN },
};

static void set_up(struct netconf *c, const char *asked, bool with_usual)
{
	struct err e = { 0 };
	size_t i;

	memset(c, 0, sizeof(*c));
	if (asked && netconf_add(c, "NCCL_ENV_PLUGIN", asked, "environment", &e))
		abort();
	for (i = with_usual ? 0 : 1; i < sizeof(known) / sizeof(known[0]); i++)
		if (netconf_add_plugin(c, &known[i], &e))
			abort();
}

static void test_choice(void)
{
	struct envplugin x;
	struct netconf c;
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		set_up(&c, tests[i].asked, true);
		envplugin_find(&x, &c, tests[i].version);
		ok(x.kind == tests[i].kind, "%s with NCCL %s: %d",
		   tests[i].asked ? tests[i].asked : "(not set)", tests[i].version, x.kind);
		netconf_free(&c);
	}
}

static void add(struct iface_list *l, const char *name, const char *address)
{
	struct iface *f = iface_add(l);
	struct iface_addr *a = iface_add_addr(l);

	if (!f || !a || !iface_parse(&a->ip, address))
		abort();
	f->index = l->nifaces;
	f->flags = IFF_UP | IFF_RUNNING;
	snprintf(f->name, sizeof(f->name), "%s", name);
	snprintf(a->label, sizeof(a->label), "%s", name);
	a->iface = l->nifaces - 1;
	a->prefix = 24;
}

/* eth0 by the environment and eth1 by the pin: which of them, or neither? */
static void pick(const struct iface_list *l, const char *asked, const char *version,
		 const char *expect, bool with_usual)
{
	static const char *const names[] = { "NCCL_SOCKET_IFNAME", NULL };
	const struct picker *k = picker_find("nccl");
	struct err e = { 0 };
	struct netconf c, all = { 0 };
	struct picked p = { 0 };
	const struct pick_role *r = &p.roles[0];

	set_up(&c, asked, with_usual);
	if (netconf_pins(&all, "# >>> ringup\nNCCL_SOCKET_IFNAME==eth1\n# <<< ringup\n", names,
			 &e) ||
	    netconf_add(&all, "NCCL_SOCKET_IFNAME", "eth0", "environment", &e) ||
	    netconf_copy(&all, &c, &e) || netconf_set_version(&all, "nccl", version, &e) ||
	    picker_run(k, l, &all, &p, &e))
		abort();
	ok(!*r->unknown == (*expect != 0) && r->npicks &&
		   (!*expect || !strcmp(r->picks[0].interface, expect)),
	   "%s with NCCL %s: %s%s", asked ? asked : "(not set)", version, r->picks[0].interface,
	   *r->unknown ? ", not known" : "");
	picker_free(&p);
	netconf_free(&all);
	netconf_free(&c);
}

static void test_picks(void)
{
	struct iface_list l = { 0 };

	add(&l, "eth0", "10.0.0.1");
	add(&l, "eth1", "10.0.1.1");
	pick(&l, "pin", "2.28.9", "eth1", true);
	pick(&l, "pin", "2.32.3", "eth1", true);
	pick(&l, "pin", "2.27.7", "eth0", true);
	pick(&l, "none", "2.28.9", "eth0", true);
	pick(&l, NULL, "2.28.9", "", true);
	pick(&l, NULL, "2.28.9", "eth0", false);
	pick(&l, NULL, "2.28.3", "eth0", true);
	pick(&l, "none.so", "2.28.9", "eth0", true);
	iface_free(&l);
}

int main(void)
{
	test_choice();
	test_picks();
	return tap_done();
}
