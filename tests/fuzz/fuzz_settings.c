/* fuzz_settings.c - any bytes as variables and as files of settings, read and judged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <string.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "nicpick/lint.h"

static const char *const names[] = {
	"NCCL_SOCKET_IFNAME",
	"NCCL_SOCKET_FAMILY",
	"NCCL_COMM_ID",
	"OMPI_MCA_btl_tcp_if_include",
	"OMPI_MCA_btl_tcp_if_exclude",
	"OMPI_MCA_oob_tcp_if_include",
	"OMPI_MCA_oob_tcp_if_exclude",
	"GLOO_SOCKET_IFNAME",
	"HOROVOD_GLOO_IFACE",
	"PRTE_MCA_oob_tcp_if_include",
	"UCX_NET_DEVICES",
	NULL,
};

static void add(struct iface_list *l, const char *name, const char *address, int prefix)
{
	struct iface *f = iface_add(l);
	struct iface_addr *a = iface_add_addr(l);

	fuzz_require(f && a);
	f->index = l->nifaces;
	f->flags = IFF_UP | IFF_RUNNING | (l->nifaces == 1 ? IFF_LOOPBACK : 0);
	snprintf(f->name, sizeof(f->name), "%s", name);
	snprintf(a->label, sizeof(a->label), "%s", name);
	a->iface = l->nifaces - 1;
	a->prefix = prefix;
	fuzz_require(iface_parse(&a->ip, address));
}

/* The readers get the same text: each has to bear what is meant for another. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = strndup((const char *)data, len);
	struct lint_report r;
	struct snapshot s = { 0 };
	struct err e;
	int i;

	fuzz_require(text);
	add(&s.ifaces, "lo", "127.0.0.1", 8);
	add(&s.ifaces, "eth10", "10.0.10.5", 24);
	add(&s.ifaces, "eth1", "10.0.1.5", 24);
	add(&s.ifaces, "docker0", "172.17.0.1", 16);
	/* A text of too many lines is refused; what was taken until then is judged. */
	netconf_nccl(&s.settings, text, "environment", names, &e);
	netconf_nccl(&s.settings, text, "/etc/nccl.conf", names, &e);
	netconf_mca(&s.settings, text, "mca", names, &e);
	netconf_prte(&s.settings, text, "prte", names, &e);
	netconf_ucx(&s.settings, text, "ucx.conf", names, &e);
	sources_add(&s.sources, SOURCES_ENVIRONMENT, "environment", text, &e);
	sources_add(&s.sources, SOURCES_NCCL, "/etc/nccl.conf", text, &e);
	sources_add(&s.sources, SOURCES_MCA, "mca", text, &e);
	fuzz_require(lint_run(&r, &s, &e) == 0);
	for (i = 0; i < r.n; i++)
		fuzz_require(!r.findings[i].fix || !strchr(r.findings[i].fix, '\n'));
	lint_free(&r);
	snapshot_free(&s);
	free(text);
	return 0;
}
