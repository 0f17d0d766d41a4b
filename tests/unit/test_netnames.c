/* test_netnames.c - known names are known, misspelt ones are near, foreign ones are not. */
#include <string.h>

#include "host/netnames.h"
#include "tap.h"

static void is_near(const char *typed, const char *want)
{
	const char *got = netnames_near(typed);

	ok(want ? got && !strcmp(got, want) : !got, "%s: %s", typed, got ? got : "nothing");
}

int main(void)
{
	ok(netnames_find("NCCL_SOCKET_IFNAME") == NETNAMES_NETWORK,
	   "a variable of the network");
	ok(netnames_find("NCCL_ALGO") == NETNAMES_OTHER, "another of NCCL's");
	ok(netnames_find("PATH") == NETNAMES_UNKNOWN, "somebody else's");
	is_near("NCCL_SOCKET_IFNAME", NULL);
	is_near("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME");
	is_near("NCCL_SOCKET_IFACE", "NCCL_SOCKET_IFNAME");
	is_near("nccl_socket_ifname", "NCCL_SOCKET_IFNAME");
	is_near("NCCL_IB_GID_INDX", "NCCL_IB_GID_INDEX");
	is_near("OMPI_MCA_btl_tcp_if_inclued", "OMPI_MCA_btl_tcp_if_include");
	is_near("OMPI_MCA_btl_tpc_if_include", "OMPI_MCA_btl_tcp_if_include");
	/* True names of versions and plugins that are not in the table. */
	is_near("OMPI_MCA_osc", NULL);
	is_near("OMPI_MCA_mtl_base_verbose", NULL);
	is_near("OMPI_MCA_btl_tcp_bandwidth_eth0", NULL);
	is_near("NCCL_SOME_PLUGIN_MODE", NULL);
	is_near("HOROVOD_FUSION_THRESHOLD", NULL);
	is_near("UCX_LOG_LEVEL", NULL);
	is_near("PATH", NULL);
	is_near("", NULL);
	return tap_done();
}
