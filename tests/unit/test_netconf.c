/* test_netconf.c - settings are found where the libraries look, in their order. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "host/netconf.h"
#include "tap.h"

static const char *const names[] = { "NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include",
				     "GLOO_SOCKET_IFNAME", NULL };

static const char *value(const struct netconf *c, const char *name)
{
	const struct netconf_row *r = netconf_get(c, name);

	return r ? r->value : "(unset)";
}

static void test_nccl(void)
{
	static const struct {
		const char *text, *value;
	} tests[] = {
		{ "NCCL_SOCKET_IFNAME=eth0\n", "eth0" },
		{ "NCCL_SOCKET_IFNAME==eth0\n", "=eth0" },
		{ "NCCL_SOCKET_IFNAME=eth0", "eth0" },
		{ "NCCL_SOCKET_IFNAME=eth0\nNCCL_SOCKET_IFNAME=eth1\n", "eth0" },
		{ "NCCL_SOCKET_IFNAME = eth0\n", "(unset)" },
		{ " NCCL_SOCKET_IFNAME=eth0\n", "(unset)" },
		{ "export NCCL_SOCKET_IFNAME=eth0\n", "(unset)" },
		{ "#NCCL_SOCKET_IFNAME=eth0\n", "(unset)" },
		{ "NCCL_SOCKET_IFNAME=\"eth0\"\n", "\"eth0\"" },
		{ "NCCL_SOCKET_IFNAME=eth0 # mine\n", "eth0 # mine" },
		{ "NCCL_SOCKET_IFNAME=eth0\r\n", "eth0\r" },
		{ "NCCL_SOCKET_IFNAME=\n", "" },
		{ "NCCL_SOCKET_IFNAME\n", "(unset)" },
		{ "=\n==\n\n\n", "(unset)" },
		{ "", "(unset)" },
	};
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		struct netconf c = { 0 };

		ok(netconf_nccl(&c, tests[i].text, "f", names, &e) == 0 &&
			   !strcmp(value(&c, names[0]), tests[i].value),
		   "nccl.conf line %zu: %s", i + 1, value(&c, names[0]));
		netconf_free(&c);
	}
}

static void test_mca(void)
{
	static const struct {
		const char *text, *value;
	} tests[] = {
		{ "btl_tcp_if_include = eth0\n", "eth0" },
		{ "  btl_tcp_if_include=eth0  \r\n", "eth0" },
		{ "btl_tcp_if_include=eth0\nbtl_tcp_if_include=eth1\n", "eth1" },
		{ "btl_tcp_if_include = \"eth0\"\n", "\"eth0\"" },
		{ "btl_tcp_if_include = eth0 # mine\n", "eth0 # mine" },
		{ "OMPI_MCA_btl_tcp_if_include = eth0\n", "(unset)" },
		{ "export btl_tcp_if_include = eth0\n", "(unset)" },
		{ "# btl_tcp_if_include = eth0\n", "(unset)" },
	};
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		struct netconf c = { 0 };

		ok(netconf_mca(&c, tests[i].text, "f", names, &e) == 0 &&
			   !strcmp(value(&c, names[1]), tests[i].value),
		   "mca-params.conf line %zu: %s", i + 1, value(&c, names[1]));
		netconf_free(&c);
	}
}

static void put(const char *root, const char *path, const char *text)
{
	struct err e = { 0 };

	ok(file_write(root, path, 0644, text, strlen(text), &e) == 0, "write %s%s", path,
	   e.text);
}

/* A file of NCCL's of so many lines. */
static void put_many(const char *root, const char *path, int lines)
{
	static const char line[] = "NCCL_SOCKET_IFNAME=eth7\n";
	size_t len = sizeof(line) - 1;
	char *text = malloc((size_t)lines * len + 1);

	for (int i = 0; text && i < lines; i++)
		memcpy(text + (size_t)i * len, line, len + 1);
	put(root, path, text ? text : "");
	free(text);
}

static void test_order(void)
{
	char root[] = "/tmp/test_netconf.XXXXXX", rm[64], file[PATH_MAX];
	struct netconf c;
	struct err e = { 0 };

	if (!mkdtemp(root)) {
		ok(0, "mkdtemp");
		return;
	}
	clearenv();
	setenv("HOME", "/users/me", 1);
	put(root, "/etc/nccl.conf", "# mine\nNCCL_SOCKET_IFNAME=eth2\n");
	put(root, "/etc/openmpi/openmpi-mca-params.conf", "btl_tcp_if_include = eth3\n");
	put(root, "/users/me/.openmpi/mca-params.conf", "btl_tcp_if_include = eth4\n");
	ok(netconf_read(&c, root, names, &e) == 0, "read: %s", e.text);
	ok(!strcmp(value(&c, names[0]), "eth2"), "NCCL's file");
	ok(!strcmp(netconf_get(&c, names[0])->source, "/etc/nccl.conf:2"), "file and line: %s",
	   netconf_get(&c, names[0])->source);
	ok(!strcmp(value(&c, names[1]), "eth4"), "one's own Open MPI file before the system's");
	ok(c.nrows == 3 && !netconf_get(&c, names[2]), "and nothing else");
	netconf_free(&c);

	put(root, "/my.conf", "NCCL_SOCKET_IFNAME=eth5\n");
	setenv("NCCL_CONF_FILE", "/my.conf", 1);
	setenv("GLOO_SOCKET_IFNAME", "eth6", 1);
	ok(netconf_read(&c, root, names, &e) == 0 && !strcmp(value(&c, names[0]), "eth5") &&
		   !strcmp(value(&c, names[2]), "eth6"),
	   "NCCL_CONF_FILE before /etc");
	netconf_free(&c);
	setenv("NCCL_SOCKET_IFNAME", "", 1);
	ok(netconf_read(&c, root, names, &e) == 0 && !strcmp(value(&c, names[0]), ""),
	   "the environment before all, even empty");
	netconf_free(&c);

	put_many(root, "/my.conf", 4096);
	unsetenv("NCCL_SOCKET_IFNAME");
	unsetenv("GLOO_SOCKET_IFNAME");
	ok(netconf_read(&c, root, names, &e) && strstr(e.text, "/etc/nccl.conf"),
	   "no room is left for the next file: %s", e.text);
	netconf_free(&c);
	put_many(root, "/my.conf", 4097);
	ok(netconf_read(&c, root, names, &e) && strstr(e.text, "/my.conf"),
	   "a file of too many settings is a failure: %s", e.text);
	netconf_free(&c);

	netconf_mca_file(file, root);
	ok(!strcmp(file, "/etc/openmpi/openmpi-mca-params.conf"), "Debian's file: %s", file);
	put(root, "/opt/mpi/bin/ompi_info", "");
	setenv("PATH", "/usr/bin:/opt/mpi/bin", 1);
	netconf_mca_file(file, root);
	ok(!strcmp(file, "/opt/mpi/etc/openmpi-mca-params.conf"), "a prefix's file: %s", file);
	snprintf(rm, sizeof(rm), "/bin/rm -rf %s", root);
	ok(system(rm) == 0, "clean up");
}

static void test_resolve(void)
{
	struct netconf c = { 0 };
	struct err e = { 0 };
	const struct netconf_host *h;

	ok(netconf_resolve(&c, "127.0.0.1", &e) == 0, "resolve");
	h = netconf_host_find(&c, "127.0.0.1");
	ok(h && h->nips == 1 && h->ips[0].bytes[0] == 127, "a number needs no resolver");
	ok(!netconf_host_find(&c, "elsewhere"), "what was not asked is not known");
	netconf_free(&c);
}

int main(void)
{
	test_nccl();
	test_mca();
	test_order();
	test_resolve();
	return tap_done();
}
