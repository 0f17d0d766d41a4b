/* test_lint.c - every trap is found where it is, with the line to write, and nowhere else. */
/* tests: src/nicpick */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "nicpick/lint.h"
#include "nicpick/trap.h"
#include "ringup.h"
#include "tap.h"

/* A machine in one line: NAME:TYPE:FLAGS:ADDRESS/PREFIX[,...] NAME:...; the first is lo,
 * the default route leaves by the interface with a '*'. */
static const char one[] = "eth0*:physical:UR:10.0.0.5/24";
static const char docker[] = "eth0*:physical:UR:10.0.0.5/24 docker0:bridge:U:172.17.0.1/16";
static const char running[] = "eth0*:physical:UR:10.0.0.5/24 docker0:bridge:UR:172.17.0.1/16";
static const char two[] = "eth0*:physical:UR:10.0.0.5/24 eth1:physical:UR:10.0.1.5/24";
static const char ten[] = "eth10:physical:UR:10.0.10.5/24 eth1*:physical:UR:10.0.1.5/24";
static const char custom[] = "br-9:bridge:UR:172.18.0.1/16 eth0*:physical:UR:10.0.0.5/24";
static const char idle[] = "eth0:physical:U:10.0.0.5/24 eth1*:physical:UR:10.0.1.5/24";
static const char bare[] = "eth0:physical:UR: eth1*:physical:UR:10.0.1.5/24";

static const char bare6[] =
	"eth0:physical:UR:fe80::5/64 eth1*:physical:UR:fd00::5/64,fe80::6/64";
static const char only6[] = "eth0*:physical:UR:fd00::5/64,fe80::5/64";

#define BOM "\xef\xbb\xbf"
#define N16 "x0,x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,x11,x12,x13,x14,x15"
#define A32 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A1K                                                                                 \
	A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 \
		A32 A32 A32 A32 A32 A32 A32 A32 A32 A32 A32

#define BLOCK(value) "# >>> ringup\nNCCL_SOCKET_IFNAME=" value "\n# <<< ringup\n"

static const struct trial {
	const char *codes; /* what is found, in order, with blanks between */
	const char *machine;
	const char *env, *nccl, *mca; /* what is set, a line each */
	const char *shell;            /* the same by a script */
	const char *fix;              /* of the first finding; NULL: there is none */
	const char *where;            /* of the first finding, if not NULL */
	const char *mpi;              /* the version of Open MPI; NULL: 4.1.8 */
	const char *hosts;            /* the address of the host name; NULL: not asked */
	/* The env plug-in libnccl-env.so: "ringup", "other" or "unfit"; NULL: there is none. */
	const char *plugin;
	bool no_rdma; /* UCX is installed, and no RDMA device */
} trials[] = {
	/* Whatever NCCL's settings say is moot; the others' is not. */
	{ "nccl-env-plugin", one, .env = "NCCL_SOCKET_IFNAME=^docker0\n", .plugin = "other",
	  .fix = "export NCCL_ENV_PLUGIN=none", .where = "this machine" },
	{ "nccl-env-plugin", one, .env = "NCCL_ENV_PLUGIN=\n", .plugin = "other",
	  .fix = "export NCCL_ENV_PLUGIN=none" },
	{ "nccl-env-plugin", one, .nccl = "NCCL_ENV_PLUGIN=./own.so\n",
	  .fix = "NCCL_ENV_PLUGIN=none", .where = "/etc/nccl.conf:1" },
	{ "nccl-env-beaten", one, .env = "NCCL_SOCKET_IFNAME=^docker0\n",
	  .nccl = BLOCK("=eth0"), .plugin = "ringup", .fix = "unset NCCL_SOCKET_IFNAME",
	  .where = "environment" },
	{ "nccl-excludes-not-lo", one, .env = "NCCL_SOCKET_IFNAME=^docker0\n",
	  .plugin = "unfit", .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-link-local", bare6, .env = "", .fix = "NCCL_SOCKET_IFNAME==eth1",
	  .where = "this machine" },
	{ "", bare6, .env = "NCCL_SOCKET_IFNAME==eth1\n" },
	{ "", only6, .env = "" },
	{ "nccl-env-missing", one, .env = "NCCL_ENV_PLUGIN=gone\n",
	  .fix = "unset NCCL_ENV_PLUGIN", .where = "environment" },
	{ "form-bom", one, .nccl = BOM "NCCL_SOCKET_IFNAME==eth0\n",
	  .fix = "NCCL_SOCKET_IFNAME==eth0", .where = "/etc/nccl.conf:1" },
	{ "form-bom", one, .mca = BOM "btl_tcp_if_include = eth0\n",
	  .fix = "btl_tcp_if_include = eth0",
	  .where = "/etc/openmpi/openmpi-mca-params.conf:1" },
	{ "form-export", one, .nccl = "#\n\nexport NCCL_SOCKET_IFNAME==eth0\n",
	  .fix = "NCCL_SOCKET_IFNAME==eth0", .where = "/etc/nccl.conf:3" },
	{ "form-export", one, .mca = "export btl_tcp_if_include = eth0\n",
	  .fix = "btl_tcp_if_include = eth0" },
	{ "form-export", one, .mca = "export OMPI_MCA_btl_tcp_if_include=eth0\n",
	  .fix = "btl_tcp_if_include = eth0" },
	{ "form-no-value", one, .nccl = "\nNCCL_SOCKET_FAMILY AF_INET\n",
	  .fix = "NCCL_SOCKET_FAMILY=AF_INET", .where = "/etc/nccl.conf:2" },
	{ "form-no-value", one, .mca = "btl_tcp_if_include: eth0\n",
	  .fix = "btl_tcp_if_include = eth0" },
	{ "form-blank", two, .nccl = "NCCL_SOCKET_IFNAME = eth1\n",
	  .fix = "NCCL_SOCKET_IFNAME=eth1" },
	{ "form-blank", two, .nccl = "NCCL_SOCKET_IFNAME=eth1 \n",
	  .fix = "NCCL_SOCKET_IFNAME=eth1" },
	{ "form-blank", two, .nccl = "  NCCL_SOCKET_IFNAME=eth1\n",
	  .fix = "NCCL_SOCKET_IFNAME=eth1" },
	{ "form-blank", two, .env = "GLOO_SOCKET_IFNAME= eth1",
	  .fix = "export GLOO_SOCKET_IFNAME=eth1", .where = "environment" },
	{ "form-quotes", two, .nccl = "NCCL_SOCKET_IFNAME=\"eth1\"\n",
	  .fix = "NCCL_SOCKET_IFNAME=eth1" },
	{ "form-quotes", two, .env = "NCCL_SOCKET_IFNAME='eth1'",
	  .fix = "export NCCL_SOCKET_IFNAME=eth1" },
	{ "form-quotes", two, .mca = "btl_tcp_if_include = \"eth1\"\n",
	  .fix = "btl_tcp_if_include = eth1" },
	{ "form-quotes", ten, .nccl = "NCCL_SOCKET_IFNAME=\"eth1\"\n",
	  .fix = "NCCL_SOCKET_IFNAME==eth1" },
	{ "form-cr", two, .nccl = "NCCL_SOCKET_IFNAME=eth1\r\n",
	  .fix = "NCCL_SOCKET_IFNAME=eth1" },
	{ "form-cr", two, .env = "GLOO_SOCKET_IFNAME=eth1\r",
	  .fix = "export GLOO_SOCKET_IFNAME=eth1" },
	{ "form-comment", two, .nccl = "NCCL_SOCKET_IFNAME=eth1 # the fast one\n",
	  .fix = "NCCL_SOCKET_IFNAME=eth1" },
	{ "form-comment", two, .mca = "btl_tcp_if_include = eth1 # fast\n",
	  .fix = "btl_tcp_if_include = eth1" },
	{ "form-long", one, .nccl = "NCCL_SOCKET_IFNAME=" A1K "\n" },
	{ "shell-unknown", one, .shell = "export NCCL_SOCKET_IFNAME=$(ls /sys/class/net)\n",
	  .where = "/etc/environment:1" },
	{ "shell-unknown", one, .shell = "GLOO_SOCKET_IFNAME=\"$NIC\"\n" },
	{ "nccl-prefix", ten, .shell = "#\n  export NCCL_SOCKET_IFNAME='eth1' # fast\n",
	  .fix = "export NCCL_SOCKET_IFNAME==eth1", .where = "/etc/environment:2" },
	{ "nccl-prefix", ten, .env = "NCCL_SOCKET_IFNAME=eth1",
	  .shell = "NCCL_SOCKET_IFNAME=eth10\nNCCL_SOCKET_IFNAME=\"eth1\"\n",
	  .fix = "export NCCL_SOCKET_IFNAME==eth1", .where = "/etc/environment:2" },
	{ "gloo-unknown", one, .shell = "export GLOO_SOCKET_IFNAME=et\\h\n",
	  .fix = "export GLOO_SOCKET_IFNAME=eth0", .where = "/etc/environment:1" },
	{ "unknown-name", one, .shell = "export NCCL_SOCKET_IFACE==eth0;\n",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "", one, .shell = "export NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME\n" },
	{ "", ten, .env = "NCCL_SOCKET_IFNAME==eth1", .shell = "NCCL_SOCKET_IFNAME==eth1\n" },
	{ "mca-prefix", one, .mca = "OMPI_MCA_btl_tcp_if_include = eth0\n",
	  .fix = "btl_tcp_if_include = eth0" },
	{ "wrong-file", one, .nccl = "GLOO_SOCKET_IFNAME=eth0\n",
	  .fix = "#GLOO_SOCKET_IFNAME=eth0" },
	{ "unknown-name", one, .env = "NCCL_SOCKET_IFACE==eth0",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "unknown-name", one, .env = "NCCL_SOCKET_IF_NAME==eth0",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "unknown-name", one, .env = "NCLL_SOCKET_IFNAME==eth0",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "unknown-name", one, .env = "GLOO_SOCKET_IFACE=eth0",
	  .fix = "export GLOO_SOCKET_IFNAME=eth0" },
	{ "unknown-name", one, .env = "UCX_NET_DEVICE=eth0",
	  .fix = "export UCX_NET_DEVICES=eth0" },
	{ "unknown-name", one, .nccl = "nccl_socket_ifname==eth0\n",
	  .fix = "NCCL_SOCKET_IFNAME==eth0" },
	{ "unknown-name", one, .mca = "btl_tcp_if_inlcude = eth0\n",
	  .fix = "btl_tcp_if_include = eth0" },
	{ "unknown-name", one, .env = "OMPI_MCA_btl_tcp_include=eth0",
	  .fix = "export OMPI_MCA_btl_tcp_if_include=eth0" },
	{ "duplicate-line", two, .nccl = "NCCL_SOCKET_IFNAME==eth0\nNCCL_SOCKET_IFNAME==eth1\n",
	  .fix = "#NCCL_SOCKET_IFNAME==eth1", .where = "/etc/nccl.conf:2" },
	{ "duplicate-line", two, .mca = "btl_tcp_if_include = eth0\nbtl_tcp_if_include=eth1\n",
	  .fix = "#btl_tcp_if_include = eth0",
	  .where = "/etc/openmpi/openmpi-mca-params.conf:1" },
	{ "empty-shadow", two,
	  .env = "NCCL_SOCKET_IFNAME=", .nccl = "NCCL_SOCKET_IFNAME==eth1\n",
	  .fix = "unset NCCL_SOCKET_IFNAME", .where = "environment" },
	{ "empty-shadow", two, .env = "OMPI_MCA_btl_tcp_if_include=",
	  .mca = "btl_tcp_if_include=eth1\n", .fix = "unset OMPI_MCA_btl_tcp_if_include" },
	{ "shadow", two, .env = "NCCL_SOCKET_IFNAME==eth0",
	  .nccl = "NCCL_SOCKET_IFNAME==eth1\n" },
	{ "nccl-long-name", one, .env = "NCCL_SOCKET_IFNAME=" A1K,
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-one-char", one, .env = "NCCL_SOCKET_IFNAME=e",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-eq-hat", two, .env = "NCCL_SOCKET_IFNAME==^lo,eth1",
	  .fix = "export NCCL_SOCKET_IFNAME=^=lo,eth1" },
	{ "nccl-empty-list", two,
	  .env = "NCCL_SOCKET_IFNAME=^=", .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-empty-list", two, .env = "NCCL_SOCKET_IFNAME=,,",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-too-many nccl-no-match", one, .env = "NCCL_SOCKET_IFNAME=" N16 ",eth0",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-blank-list", two, .env = "NCCL_SOCKET_IFNAME=eth5, eth0",
	  .fix = "export NCCL_SOCKET_IFNAME=eth5,eth0" },
	{ "nccl-inner-hat", two, .env = "NCCL_SOCKET_IFNAME=^lo,^eth1",
	  .fix = "export NCCL_SOCKET_IFNAME=^lo,eth1" },
	{ "nccl-glob", one, .env = "NCCL_SOCKET_IFNAME=eth*",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-no-address", two, .env = "NCCL_SOCKET_IFNAME=10.0.1.0/24",
	  .fix = "export NCCL_SOCKET_IFNAME==eth1" },
	{ "nccl-no-address", two, .env = "NCCL_SOCKET_IFNAME=10.0.1.5",
	  .fix = "export NCCL_SOCKET_IFNAME==eth1" },
	{ "nccl-port ompi-two-addresses",
	  "eth0*:physical:UR:10.0.0.5/24 eth0:1:alias:UR:10.0.7.5/24",
	  .env = "NCCL_SOCKET_IFNAME==eth0:1", .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-prefix", ten, .env = "NCCL_SOCKET_IFNAME=eth1",
	  .fix = "export NCCL_SOCKET_IFNAME==eth1" },
	{ "nccl-prefix", ten, .nccl = "NCCL_SOCKET_IFNAME=eth1\n",
	  .fix = "NCCL_SOCKET_IFNAME==eth1" },
	{ "nccl-prefix", ten, .env = "NCCL_SOCKET_IFNAME=^lo,eth1",
	  .fix = "export NCCL_SOCKET_IFNAME=^=lo,eth1" },
	{ "nccl-excludes-not-lo", one, .env = "NCCL_SOCKET_IFNAME=^docker0",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-excludes-not-lo", one, .nccl = "NCCL_SOCKET_IFNAME=^docker\n",
	  .fix = "NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-exclude ompi-foreign", running, .env = "NCCL_SOCKET_IFNAME=^lo",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-loopback", one, .env = "NCCL_SOCKET_IFNAME=lo",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-not-ready", idle, .env = "NCCL_SOCKET_IFNAME==eth0",
	  .fix = "export NCCL_SOCKET_IFNAME==eth1" },
	{ "nccl-not-ready", bare, .env = "NCCL_SOCKET_IFNAME==eth0",
	  .fix = "export NCCL_SOCKET_IFNAME==eth1" },
	{ "nccl-no-match", one, .env = "NCCL_SOCKET_IFNAME=ETH0",
	  .fix = "export NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-no-match", one, .nccl = "NCCL_SOCKET_IFNAME=ens5\n",
	  .fix = "NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-order", two, .env = "NCCL_SOCKET_IFNAME=eth1,eth0",
	  .fix = "export NCCL_SOCKET_IFNAME==eth1" },
	{ "nccl-family", one, .env = "NCCL_SOCKET_FAMILY=IPv6",
	  .fix = "export NCCL_SOCKET_FAMILY=AF_INET6" },
	{ "nccl-id-address", "eth0*:physical:UR:2001:db8::5/64",
	  .env = "NCCL_COMM_ID=2001:db8::9:5000",
	  .fix = "export NCCL_COMM_ID='[2001:db8::9]:5000'" },
	{ "nccl-id-subnet", one, .env = "NCCL_COMM_ID=10.99.0.9:5000" },
	{ "nccl-id-beats-ifname", two,
	  .env = "NCCL_COMM_ID=10.0.0.9:5000\nNCCL_SOCKET_IFNAME==eth1",
	  .fix = "unset NCCL_COMM_ID" },
	{ "nccl-id-for-all", one, .env = "NCCL_COMM_ID=10.0.0.9:5000",
	  .fix = "unset NCCL_COMM_ID" },
	{ "nccl-ib-first", "eth0*:physical:UR:10.0.0.5/24 ibmgmt:physical:UR:192.168.50.5/24",
	  .fix = "NCCL_SOCKET_IFNAME==eth0", .where = "this machine" },
	{ "nccl-foreign ompi-foreign", custom, .fix = "NCCL_SOCKET_IFNAME==eth0" },
	{ "nccl-hidden", "eth0:physical:UR:10.0.0.5/24 lowlat0*:physical:UR:10.0.1.5/24",
	  .fix = "NCCL_SOCKET_IFNAME==lowlat0" },
	{ "nccl-conf-file", one, .env = "NCCL_CONF_FILE=/nowhere/nccl.conf",
	  .fix = "unset NCCL_CONF_FILE" },
	{ "ompi-both", one, .env = "OMPI_MCA_btl_tcp_if_include=eth0",
	  .mca = "btl_tcp_if_exclude = docker0\n", .fix = "#btl_tcp_if_exclude = docker0" },
	{ "ompi-both", one,
	  .env = "OMPI_MCA_oob_tcp_if_include=eth0\nOMPI_MCA_oob_tcp_if_exclude=docker0,lo",
	  .fix = "unset OMPI_MCA_oob_tcp_if_exclude" },
	{ "ompi-spec", one, .env = "OMPI_MCA_btl_tcp_if_include==eth0",
	  .fix = "export OMPI_MCA_btl_tcp_if_include=eth0" },
	{ "ompi-spec", two, .env = "OMPI_MCA_btl_tcp_if_include=eth0, eth1",
	  .fix = "export OMPI_MCA_btl_tcp_if_include=eth0,eth1" },
	{ "ompi-spec", one, .env = "OMPI_MCA_btl_tcp_if_include=^docker0",
	  .fix = "export OMPI_MCA_btl_tcp_if_include=10.0.0.0/24" },
	{ "ompi-spec", one, .mca = "btl_tcp_if_include = 10.0.0.5\n",
	  .fix = "btl_tcp_if_include = 10.0.0.5/24" },
	{ "ompi-spec", one, .mca = "btl_tcp_if_include = 2001:db8::/64\n",
	  .fix = "btl_tcp_if_include = 10.0.0.0/24" },
	{ "ompi-everything", two, .mca = "btl_tcp_if_include = 10.0.0.5/32\n",
	  .fix = "btl_tcp_if_include = 10.0.0.5/24" },
	{ "ompi-everything", two, .mca = "btl_tcp_if_include = 10.0.0.0/\n",
	  .fix = "btl_tcp_if_include = 10.0.0.0/24" },
	{ "ompi-everything", .machine = "eth0*:physical:UR:10.0.0.5/32",
	  .env = "OMPI_MCA_btl_tcp_if_include=0.0.0.0/0",
	  .fix = "export OMPI_MCA_btl_tcp_if_include=eth0" },
	{ "ompi-nowhere", one, .mca = "btl_tcp_if_include = 10.9.0.0/24\n",
	  .fix = "btl_tcp_if_include = 10.0.0.0/24" },
	{ "ompi-unknown", one, .mca = "btl_tcp_if_include = eth0,ens5\n",
	  .fix = "btl_tcp_if_include = 10.0.0.0/24" },
	{ "ompi-unknown", one, .mca = "btl_tcp_if_include = eth\n",
	  .fix = "btl_tcp_if_include = eth0" },
	{ "ompi-oob-unknown", one, .mca = "oob_tcp_if_include = ens5\n",
	  .fix = "oob_tcp_if_include = 10.0.0.0/24" },
	{ "ompi-excludes-not-lo", one, .env = "OMPI_MCA_btl_tcp_if_exclude=docker0",
	  .fix = "export OMPI_MCA_btl_tcp_if_include=10.0.0.0/24" },
	{ "ompi-excludes-not-lo", one, .mca = "btl_tcp_if_exclude = docker0\n",
	  .fix = "btl_tcp_if_include = 10.0.0.0/24" },
	{ "ompi-exclude-prefix", ten, .env = "OMPI_MCA_btl_tcp_if_exclude=eth1,lo",
	  .fix = "export OMPI_MCA_btl_tcp_if_include=10.0.1.0/24" },
	{ "ompi-oob-exclude", one, .env = "OMPI_MCA_oob_tcp_if_exclude=docker0",
	  .fix = "export OMPI_MCA_oob_tcp_if_include=10.0.0.0/24" },
	{ "ompi-foreign", docker, .fix = "btl_tcp_if_include = 10.0.0.0/24",
	  .where = "this machine" },
	{ "ompi-two-addresses", .machine = "eth0*:physical:UR:10.0.0.5/24,10.0.7.5/24" },
	{ "ompi5-oob", one, .env = "OMPI_MCA_oob_tcp_if_include=eth0", .mpi = "5.0.8",
	  .fix = "export PRTE_MCA_prte_if_include=eth0" },
	{ "ompi5-two-names", two, .env = "PRTE_MCA_prte_if_include=eth0,eth1", .mpi = "5.0.8",
	  .fix = "export PRTE_MCA_prte_if_include=eth0", .where = "environment" },
	{ "ompi5-two-names", two, .env = "PRTE_MCA_oob_tcp_if_exclude=10.0.0.0/16",
	  .mpi = "5.0.8", .fix = "unset PRTE_MCA_oob_tcp_if_exclude" },
	{ "ompi-no-self", one, .env = "OMPI_MCA_btl=tcp",
	  .fix = "export OMPI_MCA_btl=tcp,self" },
	{ "ompi-mixed-list", one, .env = "OMPI_MCA_btl=tcp,self,^openib" },
	{ "ompi-no-tcp", one, .env = "OMPI_MCA_pml=ob1\nOMPI_MCA_btl=vader,self",
	  .fix = "export OMPI_MCA_btl=tcp,vader,self" },
	{ "gloo-syntax", one, .env = "GLOO_SOCKET_IFNAME==eth0",
	  .fix = "export GLOO_SOCKET_IFNAME=eth0" },
	{ "gloo-syntax", one, .env = "GLOO_SOCKET_IFNAME=^docker0",
	  .fix = "export GLOO_SOCKET_IFNAME=eth0" },
	{ "gloo-syntax", two, .env = "GLOO_SOCKET_IFNAME=eth1, eth0",
	  .fix = "export GLOO_SOCKET_IFNAME=eth0" },
	{ "gloo-unknown", one, .env = "GLOO_SOCKET_IFNAME=eth",
	  .fix = "export GLOO_SOCKET_IFNAME=eth0" },
	{ "gloo-one-char", one, .env = "GLOO_SOCKET_IFNAME=e",
	  .fix = "export GLOO_SOCKET_IFNAME=eth0" },
	{ "gloo-foreign", one, .env = "GLOO_SOCKET_IFNAME=lo",
	  .fix = "export GLOO_SOCKET_IFNAME=eth0" },
	{ "ompi-foreign gloo-foreign", docker, .env = "GLOO_SOCKET_IFNAME=docker0",
	  .fix = "btl_tcp_if_include = 10.0.0.0/24" },
	{ "gloo-hostname-loopback", one, .fix = "export GLOO_SOCKET_IFNAME=eth0",
	  .where = "this machine", .hosts = "127.0.1.1" },
	{ "ompi-foreign gloo-hostname-foreign", docker,
	  .fix = "btl_tcp_if_include = 10.0.0.0/24", .hosts = "172.17.0.1" },
	{ "gloo-hostname-unknown", one, .fix = "export GLOO_SOCKET_IFNAME=eth0",
	  .hosts = "10.99.0.5" },
	{ "gloo-hostname-unknown", one, .fix = "export GLOO_SOCKET_IFNAME=eth0", .hosts = "" },
	{ "horovod-iface", two, .env = "HOROVOD_GLOO_IFACE=eth1,eth0",
	  .fix = "export HOROVOD_GLOO_IFACE=eth1" },
	{ "horovod-iface", one, .env = "HOROVOD_GLOO_IFACE=ens5",
	  .fix = "export HOROVOD_GLOO_IFACE=eth0" },
	{ "tensorpipe-iface", one, .env = "TP_SOCKET_IFNAME=eth",
	  .fix = "export TP_SOCKET_IFNAME=eth0" },
	{ "ucx-devices", one, .env = "UCX_NET_DEVICES=eth",
	  .fix = "export UCX_NET_DEVICES=eth0" },
	{ "ucx-no-transport", one, .env = "UCX_TLS=knem,dc_x,rc", .no_rdma = true,
	  .fix = "unset UCX_TLS", .where = "environment" },
	{ "ucx-no-transport", one, .shell = "export UCX_TLS=rc_x", .no_rdma = true,
	  .fix = "#export UCX_TLS=rc_x" },
	{ "ucx-one-host", one, .env = "UCX_TLS=rc,self,sm", .no_rdma = true,
	  .fix = "unset UCX_TLS" },
	{ "ucx-one-host", one, .env = "UCX_TLS=^tcp", .no_rdma = true, .fix = "unset UCX_TLS" },
	{ "ucx-one-host", one, .env = "UCX_NET_DEVICES=mlx5_0:1", .no_rdma = true,
	  .fix = "unset UCX_NET_DEVICES" },
	{ "", one, .env = "UCX_NET_DEVICES=eth0\nUCX_TLS=tcp,rc", .no_rdma = true },
	{ "", one, .env = "UCX_TLS=knem,dc_x,rc" },
	{ "nccl-foreign ompi-foreign",
	  "enx1:veth:UR:169.254.3.1/24 eth0*:physical:UR:10.0.0.5/24",
	  .fix = "NCCL_SOCKET_IFNAME==eth0", .where = "this machine" },
	{ "", "eth0*:veth:UR:169.254.3.1/24", .env = "" },
	{ "libfabric-iface", one, .env = "FI_TCP_IFACE=eth",
	  .fix = "export FI_TCP_IFACE=eth0" },
	{ "one-subnet",
	  .machine = "eth0*:physical:UR:10.0.0.5/24 eth1:physical:UR:10.0.0.6/24" },

	/* Configurations that are in order. */
	{ "", .machine = "eth0*:physical:UR:10.0.0.5/24,10.0.7.5/24", .mpi = "5.0.8" },
	{ "", one, .env = "PRTE_MCA_prte_if_include=eth0", .mpi = "5.0.8" },
	{ "", one, .mca = "oob_tcp_if_include = eth0\n", .mpi = "5.0.8" },
	{ "", .machine = one },
	{ "", one, .env = "NCCL_SOCKET_IFNAME=eth0" },
	{ "", one, .env = "NCCL_SOCKET_IFNAME==eth0" },
	{ "", one, .env = "NCCL_SOCKET_IFNAME=eth" },
	{ "", one, .env = "NCCL_SOCKET_IFNAME=eth0,ens5" },
	{ "", docker,
	  .env = "NCCL_SOCKET_IFNAME=^docker0,lo\nOMPI_MCA_btl_tcp_if_include=eth0" },
	{ "", two, .env = "NCCL_SOCKET_IFNAME=eth0,eth1" },
	{ "", ten, .env = "NCCL_SOCKET_IFNAME==eth1\nGLOO_SOCKET_IFNAME=eth1" },
	{ "", one,
	  .nccl = "NCCL_SOCKET_IFNAME==eth0\nNCCL_DEBUG=WARN\n# NCCL_SOCKET_IFNAME=x\n" },
	{ "", docker, .nccl = "NCCL_SOCKET_IFNAME==eth0\n",
	  .mca = "# btl_tcp_if_exclude = lo\nbtl_tcp_if_include = 10.0.0.0/24\r\n"
		 "  oob_tcp_if_include=eth0\nbtl = ^openib,uct\npml = ^ucx\nosc = "
		 "^ucx,pt2pt\n" },
	{ "", one,
	  .env = "NCCL_IB_DISABLE=1\nNCCL_IB_HCA==mlx5_0:1\nNCCL_DEBUG=INFO\n"
		 "NCCL_VERSION=2.28.9\nNCCL_P2P_LEVEL=NVL\nNCCL_NEW_THING=1" },
	{ "", one,
	  .env = "OMPI_MCA_btl=tcp,self\nOMPI_MCA_btl_tcp_bandwidth_eth0=1000\n"
		 "OMPI_MCA_mtl_base_verbose=1\nOMPI_MCA_btl_tcp_links=2" },
	{ "", docker, .env = "OMPI_MCA_btl_tcp_if_exclude=lo,docker0" },
	{ "", docker, .env = "OMPI_MCA_btl_tcp_if_exclude=127.0.0.0/8,172.17.0.0/16" },
	{ "", one, .env = "UCX_NET_DEVICES=mlx5_0:1,mlx5_[1-3]:1\nUCX_TLS=rc,self,sm" },
	{ "", one, .env = "UCX_NET_DEVICES=all\nFI_PROVIDER=tcp\nFI_TCP_IFACE=eth0" },
	{ "", one,
	  .env = "HOROVOD_GLOO_IFACE=eth0\nTP_SOCKET_IFNAME=eth0\nMASTER_ADDR=10.0.0.5" },
	{ "", one, .hosts = "10.0.0.5" },
	{ "", "", .hosts = "127.0.0.1" },
	{ "", .machine = "eth0*:veth:UR:10.244.0.7/24" },
	{ "", .machine = "ib0*:infiniband:UR:10.1.0.5/24 eth0:physical:UR:10.0.0.5/24" },
	{ "", .machine = "eth0*:physical:UR:2001:db8::5/64,fe80::5/64" },
	{ "", "eth0*:physical:UR:10.0.0.5/32", .env = "NCCL_SOCKET_IFNAME==eth0" },
	{ "", .machine = "eth0:physical:U: eth1:physical:U: bond0*:bond:UR:10.0.0.5/24" },
};

static void add_addresses(struct iface_list *l, int at, char *list)
{
	char *text, *save = NULL, *slash;
	struct iface_addr *a;

	for (text = strtok_r(list, ",", &save); text; text = strtok_r(NULL, ",", &save)) {
		slash = strchr(text, '/');
		*slash = 0;
		a = iface_add_addr(l);
		a->iface = at;
		a->prefix = atoi(slash + 1);
		iface_parse(&a->ip, text);
		snprintf(a->label, sizeof(a->label), "%s", l->ifaces[at].name);
	}
}

/* "eth0:1:alias:..." is a label of the interface before. */
static void add_interface(struct iface_list *l, char *text)
{
	char *alias = strstr(text, ":alias:"), *name, *type, *flags, *save = NULL;
	struct iface_route *r;
	struct iface *f;

	if (alias) {
		*alias = 0;
		add_addresses(l, l->nifaces - 1, alias + strlen(":alias:UR:"));
		snprintf(l->addrs[l->naddrs - 1].label, IFACE_NAME, "%s", text);
		return;
	}
	name = strtok_r(text, ":", &save);
	type = strtok_r(NULL, ":", &save);
	flags = strtok_r(NULL, ":", &save);
	f = iface_add(l);
	f->index = l->nifaces;
	snprintf(f->name, sizeof(f->name), "%.*s", (int)strcspn(name, "*"), name);
	f->kind = iface_kind_find(type);
	f->flags = (strchr(flags, 'U') ? iface_flag("UP") : 0) |
		   (strchr(flags, 'R') ? iface_flag("RUNNING") : 0);
	if (strchr(name, '*')) {
		r = iface_add_route(l);
		r->iface = l->nifaces - 1;
		r->to.family = 2;
	}
	if (save && *save)
		add_addresses(l, l->nifaces - 1, save);
}

static void make_machine(struct snapshot *s, const struct trial *c)
{
	char text[512], lo[] = "lo:loopback:UR:127.0.0.1/8", *one_of, *save = NULL;
	struct netconf_host *h;

	snprintf(text, sizeof(text), "%s", c->machine);
	add_interface(&s->ifaces, lo);
	s->ifaces.ifaces[0].flags |= iface_flag("LOOPBACK");
	for (one_of = strtok_r(text, " ", &save); one_of; one_of = strtok_r(NULL, " ", &save))
		add_interface(&s->ifaces, one_of);
	if (!c->hosts)
		return;
	snprintf(s->settings.hostname, sizeof(s->settings.hostname), "me");
	h = netconf_host_add(&s->settings, "me");
	h->nips = iface_parse(&h->ips[0], c->hosts);
}

static const char *text_of(const char *given)
{
	return given ? given : "";
}

/* What the loader finds, and what ringup's plug-in would answer. */
static void add_plugin(struct snapshot *s, const struct trial *c)
{
	static const char *const names[] = { "NCCL_SOCKET_IFNAME", NULL };
	const char *kind = c->plugin ? c->plugin : "";
	struct netconf_plugin p = { .name = "libnccl-env.so", .loads = true };

	if (*kind)
		snprintf(p.path, sizeof(p.path), "/lib/libnccl-env.so");
	p.is_ours = !strcmp(kind, "ringup");
	p.takes = strcmp(kind, "unfit") ? NETCONF_ENV_V1 : 0;
	netconf_add_plugin(&s->settings, &p, NULL);
	snprintf(p.name, sizeof(p.name), "gone");
	*p.path = 0;
	netconf_add_plugin(&s->settings, &p, NULL);
	snprintf(p.name, sizeof(p.name), "libnccl-env-gone.so");
	netconf_add_plugin(&s->settings, &p, NULL);
	netconf_pins(&s->settings, text_of(c->nccl), names, NULL);
}

/* What the pickers listen to, from the same text. */
static void add_settings(struct snapshot *s, const struct trial *c)
{
	static const char *const names[] = {
		"NCCL_SOCKET_IFNAME",
		"NCCL_SOCKET_FAMILY",
		"NCCL_COMM_ID",
		"NCCL_ENV_PLUGIN",
		"OMPI_MCA_btl_tcp_if_include",
		"OMPI_MCA_btl_tcp_if_exclude",
		"OMPI_MCA_oob_tcp_if_include",
		"OMPI_MCA_oob_tcp_if_exclude",
		"PRTE_MCA_prte_if_include",
		"PRTE_MCA_oob_tcp_if_exclude",
		"GLOO_SOCKET_IFNAME",
		"UCX_TLS",
		"UCX_NET_DEVICES",
		NULL,
	};

	add_plugin(s, c);
	s->rdma = c->no_rdma ? -1 : 0;
	if (c->no_rdma)
		netconf_set_version(&s->settings, "ucx", "1.13.1", NULL);
	netconf_set_version(&s->settings, "openmpi", c->mpi ? c->mpi : "4.1.8", NULL);
	netconf_nccl(&s->settings, text_of(c->env), "environment", names, NULL);
	netconf_nccl(&s->settings, text_of(c->nccl), "/etc/nccl.conf", names, NULL);
	netconf_mca(&s->settings, text_of(c->mca), "mca", names, NULL);
	sources_add(&s->sources, SOURCES_ENVIRONMENT, "environment", text_of(c->env), NULL);
	sources_add(&s->sources, SOURCES_SHELL, "/etc/environment", text_of(c->shell), NULL);
	sources_add(&s->sources, SOURCES_NCCL, "/etc/nccl.conf", text_of(c->nccl), NULL);
	sources_add(&s->sources, SOURCES_MCA, "/etc/openmpi/openmpi-mca-params.conf",
		    text_of(c->mca), NULL);
}

static void same_text(const char *what, const char *got, const char *want)
{
	ok(!strcmp(got ? got : "-", want ? want : "-"), "%s: '%.60s', not '%.60s'", what,
	   want ? want : "-", got ? got : "-");
}

static unsigned char seen[256];

static void remember(const char *code)
{
	int i;

	for (i = 0; traps[i].code; i++)
		if (!strcmp(traps[i].code, code))
			seen[i] = 1;
}

static void try(const struct trial *c)
{
	struct lint_report r;
	struct snapshot s = { 0 };
	char got[512] = "", label[64];
	struct err e = { 0 };
	size_t len = 0;
	int i;

	snprintf(label, sizeof(label), "%.60s", *c->codes ? c->codes : "in order");
	make_machine(&s, c);
	add_settings(&s, c);
	ok(lint_run(&r, &s, &e) == 0, "%s: judged %s", label, e.text);
	for (i = 0; i < r.n; i++) {
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s", i ? " " : "",
					r.findings[i].code);
		remember(r.findings[i].code);
		ok(*r.findings[i].what && *r.findings[i].why && *r.findings[i].where,
		   "%s: says what, where and why", r.findings[i].code);
	}
	same_text(label, got, c->codes);
	if (r.n) {
		same_text("the line to write", r.findings[0].fix, c->fix);
		if (c->where)
			same_text("its place", r.findings[0].where, c->where);
	} else {
		ok(!r.bites, "nothing bites");
	}
	lint_free(&r);
	snapshot_free(&s);
}

/* The line to write has to be right itself. */
static void test_cures(void)
{
	static const struct trial cures[] = {
		{ "", ten, .env = "NCCL_SOCKET_IFNAME==eth1" },
		{ "", ten, .env = "OMPI_MCA_btl_tcp_if_include=10.0.1.0/24" },
		{ "", one, .env = "OMPI_MCA_btl_tcp_if_include=10.0.0.5/24" },
		{ "", one, .env = "OMPI_MCA_oob_tcp_if_include=10.0.0.0/24" },
	};
	size_t i;

	for (i = 0; i < sizeof(cures) / sizeof(cures[0]); i++)
		try(&cures[i]);
}

/* An older version's file: values, but no lines. */
static void test_settings_only(void)
{
	struct trial c = { "", one, .env = "" };
	struct lint_report r;
	struct snapshot s = { 0 };

	make_machine(&s, &c);
	netconf_add(&s.settings, "NCCL_SOCKET_IFNAME", "^docker0", "/etc/nccl.conf:7", NULL);
	netconf_add(&s.settings, "OMPI_MCA_btl_tcp_if_exclude", "docker0", "environment", NULL);
	ok(lint_run(&r, &s, NULL) == 0 && r.n == 2 && r.bites == 2, "values alone: %d", r.n);
	same_text("place", r.n ? r.findings[0].where : "", "/etc/nccl.conf:7");
	same_text("line", r.n ? r.findings[0].fix : "", "NCCL_SOCKET_IFNAME==eth0");
	lint_free(&r);
	snapshot_free(&s);
}

int main(void)
{
	size_t i;

	for (i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
		try(&trials[i]);
	test_cures();
	test_settings_only();
	for (i = 0; traps[i].code; i++)
		ok(seen[i], "%s is tried", traps[i].code);
	return tap_done();
}
