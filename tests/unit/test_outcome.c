/* test_outcome.c - after a fix every library agrees, or who keeps it from that is named. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "nicpick/outcome.h"
#include "nics.h"
#include "tap.h"

static char root[] = "/tmp/test_outcome.XXXXXX";

static const char *const names[] = { "NCCL_SOCKET_IFNAME",
				     "GLOO_SOCKET_IFNAME",
				     "HOROVOD_GLOO_IFACE",
				     "OMPI_MCA_btl_tcp_if_include",
				     "OMPI_MCA_oob_tcp_if_include",
				     "PRTE_MCA_prte_if_include",
				     NULL };

static const struct nic nics[NICS] = { { "docker0", IFACE_BRIDGE, 'r', "172.17.0.1", 16, -1,
					 0 },
				       { "eth0", IFACE_PHYSICAL, 'r', "10.0.0.5", 24, 0, 0 } };

static void ask(struct snapshot *s, struct outcome *o)
{
	const struct fix_want want = { .interface = "eth0" };
	struct err e = { 0 };
	struct fix p;

	ok(!fix_plan(&p, root, &want, &e) && !outcome_of(o, &p, s, "eth0", names, &e),
	   "asked: %s", e.text);
	ok(o->n > 4, "%d roles were asked", o->n);
	fix_free(&p);
}

int main(void)
{
	struct snapshot s = { 0 };
	struct outcome o;
	struct err e = { 0 };
	int i;

	if (!mkdtemp(root)) {
		ok(0, "mkdtemp");
		return tap_done();
	}
	nics_build(&s.ifaces, nics);
	ask(&s, &o);
	for (i = 0; i < o.n; i++)
		ok(o.row[i].agrees && !strcmp(o.row[i].takes, "eth0"), "%s %s: %s%s",
		   o.row[i].library->name, o.row[i].role, o.row[i].takes, o.row[i].why);
	ok(o.strays == 0, "all agree");
	netconf_add(&s.settings, "NCCL_SOCKET_IFNAME", "=docker0", "environment", &e);
	ask(&s, &o);
	for (i = 0; i < o.n; i++)
		ok(o.row[i].agrees == !!strcmp(o.row[i].library->name, "nccl"), "%s %s: %s",
		   o.row[i].library->name, o.row[i].role, o.row[i].why);
	ok(!strcmp(o.row[0].takes, "docker0") &&
		   strstr(o.row[0].why, "environment: NCCL_SOCKET_IFNAME==docker0 overrides"),
	   "and it is said why: %s", o.row[0].why);
	snapshot_free(&s);
	rmdir(root);
	return tap_done();
}
