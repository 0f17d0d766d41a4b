/* test_pickers.c - what holds for every picker, whatever it is told. */
#include <net/if.h>
#include <string.h>

#include "base/err.h"
#include "host/netconf.h"
#include "nicpick/picker.h"
#include "tap.h"

/* Values that people, and people's enemies, put into such settings. */
static const char *const values[] = {
	"",
	"e",
	"eth0",
	"=eth0",
	"^",
	"^=",
	",",
	",,,",
	"=",
	"eth0,eth1",
	"eth0, eth1",
	"10.0.0.0/24",
	"10.0.0.0",
	"10.0.0.0/",
	"/24",
	"10.0.0.0/-1",
	"10.0.0.0/999999999999",
	"%s%n%d",
	"\xff\xfe",
	"[",
	"[::1",
	"[::1]:5",
	"::1:5",
	":",
	"localhost:",
	"eth0:1:2:3",
	"^^==,:,",
	"\n",
	"1.2.3.4.5.6",
};

static char huge[5000];

static int good(const struct picker *k, const struct iface_list *l, const struct netconf *c)
{
	struct picked p;
	struct err e = { 0 };
	int i, is_good = picker_run(k, l, c, &p, &e) == 0 && p.nfates == l->nifaces;

	for (i = 0; i < p.nroles; i++)
		is_good &= (p.roles[i].npicks > 0) != (*p.roles[i].error != 0);
	for (i = 0; i < p.nfates; i++)
		is_good &= *p.fates[i].rule != 0 &&
			   (p.fates[i].used || picker_which(&p.roles[0], l, i) < 0);
	picker_free(&p);
	return is_good;
}

static void add(struct iface_list *l, const char *name, unsigned flags, const char *address)
{
	struct iface *f = iface_add(l);
	struct iface_addr *a;

	f->index = l->nifaces;
	f->flags = flags;
	strncpy(f->name, name, sizeof(f->name) - 1);
	if (!address)
		return;
	a = iface_add_addr(l);
	a->iface = l->nifaces - 1;
	a->prefix = 24;
	iface_parse(&a->ip, address);
	memcpy(a->label, f->name, sizeof(a->label));
}

static void test_settings(const struct picker *k, const struct iface_list *l)
{
	struct err e = { 0 };
	size_t v;
	int s, all = 1;

	for (s = 0; k->settings[s]; s++) {
		for (v = 0; v <= sizeof(values) / sizeof(values[0]); v++) {
			const char *value =
				v < sizeof(values) / sizeof(values[0]) ? values[v] : huge;
			struct netconf c = { 0 };
			int fine;

			netconf_add(&c, k->settings[s], value, "test", &e);
			fine = good(k, l, &c);
			if (!fine)
				printf("# %s=%.40s\n", k->settings[s], value);
			all &= fine;
			netconf_free(&c);
		}
	}
	ok(all, "%s: answers or refuses, and tells every interface", k->name);
}

int main(void)
{
	struct iface_list none = { 0 }, some = { 0 };
	struct netconf c = { 0 };
	int i, n;

	memset(huge, 'x', sizeof(huge) - 1);
	add(&some, "lo", IFF_UP | IFF_RUNNING | IFF_LOOPBACK, "127.0.0.1");
	add(&some, "eth0", IFF_UP | IFF_RUNNING, "10.0.0.5");
	add(&some, "eth1", IFF_UP, "fe80::1");
	add(&some, "eth2", 0, NULL);
	for (i = 0; pickers[i]; i++) {
		const struct picker *k = pickers[i];

		ok(picker_find(k->name) == k && *k->title && *k->oldest && *k->newest,
		   "%s is found", k->name);
		for (n = 0; k->roles[n]; n++)
			;
		ok(n > 0 && n <= PICKER_ROLES, "%s has %d roles", k->name, n);
		ok(good(k, &none, &c), "%s: a machine without interfaces", k->name);
		test_settings(k, &some);
	}
	ok(i == 6 && !picker_find("mvapich"), "six libraries are known");
	iface_free(&some);
	return tap_done();
}
