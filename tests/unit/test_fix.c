/* test_fix.c - settled once, settled twice, undone: every byte is accounted for. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "host/netconf.h"
#include "nicpick/fix.h"
#include "ringup.h"
#include "tap.h"

static char root[] = "/tmp/test_fix.XXXXXX";

static const char nccl[] = "/etc/nccl.conf";
static const char mca[] = "/etc/openmpi/openmpi-mca-params.conf";
static const char profile[] = "/etc/profile.d/ringup.sh";
static const char environment[] = "/etc/environment";
static const char spark[] = "/databricks/spark/conf/spark-env.sh";

static void put(const char *path, const char *text)
{
	struct err e = { 0 };

	if (file_write(root, path, 0644, text, strlen(text), &e))
		ok(0, "put %s: %s", path, e.text);
}

static char *get(const char *path)
{
	char *data = NULL;
	size_t len;

	return file_read(root, path, 65536, &data, &len, NULL) ? NULL : data;
}

static int has(const char *path, const char *text)
{
	char *data = get(path);
	int found = data && strstr(data, text);

	free(data);
	return found;
}

/* A sum over names, modes and contents of the whole tree; times aside. */
static unsigned long tree(void)
{
	char cmd[256], line[64] = "";
	FILE *f;

	snprintf(cmd, sizeof(cmd),
		 "cd %s && { find . -printf '%%p %%m %%y\\n' | sort; find . -type f | sort | "
		 "xargs -r cat; } | cksum",
		 root);
	f = popen(cmd, "r");
	if (!f || !fgets(line, sizeof(line), f))
		return 0;
	pclose(f);
	return strtoul(line, NULL, 10);
}

static void clear(void)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "rm -rf %s/* %s/.[!.]*", root, root);
	ok(system(cmd) == 0, "an empty tree");
}

/* Plan and apply; returns how many files changed, or a negative code. */
static int settle(const struct fix_want *want, int *conflicts, struct err *e)
{
	struct fix p;
	int i, n = 0, rc = fix_plan(&p, root, want, e);

	for (i = 0; i < p.n; i++)
		n += fixfile_changes(&p.file[i]);
	*conflicts = p.nconflicts;
	if (!rc && !p.nconflicts)
		rc = fix_apply(&p, root, e);
	fix_free(&p);
	return rc ? rc : n;
}

static int fix(const char *name, bool force, int *conflicts, struct err *e)
{
	return settle(&(struct fix_want){ .interface = name, .force = force }, conflicts, e);
}

/* There and back, with whatever is in the tree. */
static void round_trip(const char *what, bool force)
{
	unsigned long before = tree(), fixed;
	struct err e = { 0 };
	int conflicts, n;

	n = fix("eth0", force, &conflicts, &e);
	ok(n > 0 && !conflicts, "%s: fixed%s", what, e.text);
	fixed = tree();
	ok(fixed != before, "%s: something changed", what);
	ok(fix("eth0", force, &conflicts, &e) == 0 && tree() == fixed,
	   "%s: a second time changes nothing", what);
	ok(fix("ens5", force, &conflicts, &e) == n && has(nccl, "NCCL_SOCKET_IFNAME==ens5\n"),
	   "%s: another interface replaces the first", what);
	ok(fix("eth0", force, &conflicts, &e) == n && tree() == fixed, "%s: and back", what);
	ok(fix(NULL, false, &conflicts, &e) == n && tree() == before,
	   "%s: undo leaves every byte as it was", what);
	ok(fix(NULL, false, &conflicts, &e) == 0, "%s: undo again changes nothing", what);
}

static void test_round_trips(void)
{
	clear();
	round_trip("nothing is there", false);
	put("/etc/hostname", "x\n");
	round_trip("no Open MPI", false);
	put(mca, "# btl_tcp_if_include = eth9\nmpi_x = 1\n");
	put(nccl, "NCCL_DEBUG=INFO\n");
	put(spark, "#!/bin/bash\nexport A=b\n");
	round_trip("files with lines of their own", false);
	put(mca, "mpi_x = 1");
	put(nccl, "");
	put(profile, "\n\n");
	round_trip("no end of line, empty, and blank", false);
	put(nccl, "NCCL_SOCKET_IFNAME=eth1\nNCCL_DEBUG=INFO");
	put(mca, "a=1\n  btl_tcp_if_exclude = docker0\nb=2\n");
	put(spark, "export NCCL_SOCKET_IFNAME='eth1'\nGLOO_SOCKET_IFNAME=eth1\n");
	round_trip("lines that say otherwise, with force", true);
}

static void test_what(void)
{
	static const char *const names[] = { "NCCL_SOCKET_IFNAME",
					     "OMPI_MCA_btl_tcp_if_include", NULL };
	struct netconf c;
	struct err e = { 0 };
	int conflicts;

	clear();
	put(mca, "btl_tcp_if_include = eth0\n");
	put(nccl, "NCCL_DEBUG=INFO\n");
	put(spark, "");
	ok(fix("eth0", false, &conflicts, &e) == 5 && !conflicts, "fix five files: %s", e.text);
	ok(has(profile, "export GLOO_SOCKET_IFNAME=eth0\n") &&
		   has(profile, "export HOROVOD_GLOO_IFACE=eth0\n") &&
		   has(spark, "export GLOO_SOCKET_IFNAME=eth0\n") &&
		   has(environment, "\nGLOO_SOCKET_IFNAME=eth0\n"),
	   "Gloo and Horovod, also for services and executors");
	ok(has(profile, "export PRTE_MCA_prte_if_include=eth0\n") &&
		   has(profile, "export FI_TCP_IFACE=eth0\n") &&
		   has(profile, "export UCX_NET_DEVICES=eth0\n"),
	   "PRRTE, libfabric and UCX");
	ok(!has(profile, "OMPI_MCA"), "no variables for Open MPI where it has its file");
	ok(!has(mca, "exclude") && has(mca, "oob_tcp_if_include = eth0\n"),
	   "include lists only");
	setenv("HOME", "/root", 1);
	ok(netconf_read(&c, root, names, &e) == 0 && netconf_get(&c, names[0]) &&
		   !strcmp(netconf_get(&c, names[0])->value, "=eth0") &&
		   !strcmp(netconf_get(&c, names[1])->value, "eth0"),
	   "and it is read as it is meant");
	netconf_free(&c);
	clear();
	put("/etc/hostname", "x\n");
	ok(fix("eth0", false, &conflicts, &e) == 2 &&
		   has(profile, "export OMPI_MCA_btl_tcp_if_include=eth0\n"),
	   "variables for an Open MPI that is not there yet");
}

static void test_network(void)
{
	const struct fix_want want = { .interface = "ens5", .network = "10.0.0.0/24" };
	struct err e = { 0 };
	int conflicts;

	clear();
	put(mca, "btl_tcp_if_include = 10.0.0.0/24\n");
	put(environment, "LANG=C\n");
	ok(settle(&want, &conflicts, &e) == 4 && !conflicts, "names differ: %s", e.text);
	ok(has(nccl, "NCCL_SOCKET_IFNAME==ens5\n") &&
		   has(profile, "export GLOO_SOCKET_IFNAME=ens5\n"),
	   "a name for those that know only names");
	ok(has(mca, "oob_tcp_if_include = 10.0.0.0/24\n") &&
		   has(profile, "export PRTE_MCA_prte_if_include=10.0.0.0/24\n"),
	   "the network for Open MPI, 4.1 and 5");
	ok(has(environment, "LANG=C\n# >>> ringup\n"), "below what is there");
}

static void test_rdma(void)
{
	struct err e = { 0 };
	int conflicts;

	clear();
	put("/sys/class/infiniband/mlx5_0", "");
	put(spark, "export UCX_NET_DEVICES=mlx5_0:1\n");
	ok(fix("eth0", false, &conflicts, &e) == 4 && !conflicts, "with RDMA: %s", e.text);
	ok(!has(profile, "UCX_NET_DEVICES") && has(spark, "UCX_NET_DEVICES=mlx5_0:1\n"),
	   "UCX is not told of a name that would shut its device out");
}

/* What a new session hears: the plan's variables, then the environment, then files. */
static void test_settings(void)
{
	static const char *const names[] = { "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
					     "OMPI_MCA_btl_tcp_if_include", NULL };
	const struct fix_want want = { .interface = "eth0", .force = true };
	struct netconf now = { 0 }, then;
	struct err e = { 0 };
	struct fix p;

	clear();
	put(mca, "btl_tcp_if_include = eth9\n");
	netconf_add(&now, "GLOO_SOCKET_IFNAME", "lo", "environment", &e);
	netconf_add(&now, "NCCL_SOCKET_IFNAME", "^docker0", "environment", &e);
	netconf_add(&now, "OMPI_MCA_btl_tcp_if_include", "eth9",
		    "/etc/openmpi/openmpi-mca-params.conf:1", &e);
	ok(!fix_plan(&p, root, &want, &e) && !fix_settings(&p, &now, names, &then, &e),
	   "settings of a plan: %s", e.text);
	ok(!strcmp(netconf_get(&then, "GLOO_SOCKET_IFNAME")->value, "eth0"),
	   "a new session sets its own variables");
	ok(!strcmp(netconf_get(&then, "NCCL_SOCKET_IFNAME")->value, "^docker0"),
	   "and inherits the others, which beat files");
	ok(!strcmp(netconf_get(&then, "OMPI_MCA_btl_tcp_if_include")->value, "eth0"),
	   "a file is read as it will be");
	netconf_free(&then);
	netconf_free(&now);
	fix_free(&p);
}

/* A pin is a line for NCCL; what the plug-in answers then stands before the environment. */
static void test_pin(void)
{
	static const char *const names[] = { "NCCL_SOCKET_IFNAME", "NCCL_ENV_PLUGIN", NULL };
	static const char lib[] = "/opt/x/libnccl-env-ringup.so";
	struct fix_want want = { .interface = "eth0", .pin = lib };
	struct netconf now = { 0 }, then;
	struct err e = { 0 };
	struct fix p;

	clear();
	netconf_add(&now, "NCCL_SOCKET_IFNAME", "^docker0", "environment", &e);
	ok(!fix_plan(&p, root, &want, &e) && !fix_settings(&p, &now, names, &then, &e),
	   "settings of a pin: %s", e.text);
	ok(p.file[0].after && strstr(p.file[0].after, "\nNCCL_ENV_PLUGIN=/opt/x/lib"),
	   "NCCL's file names the plug-in");
	ok(!strcmp(netconf_get(&then, "NCCL_SOCKET_IFNAME")->value, "=eth0") &&
		   netconf_get(&then, "NCCL_SOCKET_IFNAME")->via == NETCONF_PINNED,
	   "and the pin comes first");
	ok(netconf_plugin_find(&then, lib) && netconf_plugin_find(&then, lib)->is_ours,
	   "the plug-in will be there");
	netconf_free(&then);
	netconf_free(&now);
	fix_free(&p);

	want.pin = "/opt/x y.so";
	ok(fix_plan(&p, root, &want, &e) == RINGUP_EINVAL, "no path with blanks: %s", e.text);
	fix_free(&p);
	memset(&e, 0, sizeof(e));
	put("/etc/nccl.conf", "NCCL_ENV_PLUGIN=other\n");
	want.pin = lib;
	ok(!fix_plan(&p, root, &want, &e) && p.nconflicts == 1,
	   "another plug-in is a conflict");
	fix_free(&p);
	want.pin = NULL;
	ok(!fix_plan(&p, root, &want, &e) && !p.nconflicts, "but only for a pin");
	fix_free(&p);
}

/* A line that only looks like one of those we comment out. */
static void test_not_ours(void)
{
	struct err e = { 0 };
	unsigned long before;
	int conflicts;

	clear();
	put(nccl, "#ringup: NCCL_SOCKET_IFNAME=eth7\n");
	before = tree();
	ok(fix(NULL, false, &conflicts, &e) == 0 && tree() == before,
	   "undo touches no file that holds nothing of ours");
}

static void expect_conflict(const char *path, const char *line, int want)
{
	struct err e = { 0 };
	unsigned long before;
	int conflicts;

	clear();
	put(mca, "");
	put(spark, "");
	put(path, line);
	before = tree();
	fix("eth0", false, &conflicts, &e);
	ok(conflicts == want, "%d conflict%s: %.*s", conflicts, want ? "" : " (none)",
	   (int)strcspn(line, "\n"), line);
	if (want)
		ok(tree() == before, "and nothing changed");
}

static void test_conflicts(void)
{
	expect_conflict(nccl, "NCCL_SOCKET_IFNAME=eth1\n", 1);
	expect_conflict(nccl, "NCCL_SOCKET_IFNAME=eth0\n", 0);
	expect_conflict(nccl, "NCCL_SOCKET_IFNAME==eth0", 0);
	expect_conflict(nccl, "#NCCL_SOCKET_IFNAME=eth1\n", 0);
	expect_conflict(nccl, "NCCL_SOCKET_IFNAME = eth1\n", 0);
	expect_conflict(mca, "btl_tcp_if_include = eth1\n", 1);
	expect_conflict(mca, "  oob_tcp_if_exclude=lo\nbtl_tcp_if_exclude = lo\n", 2);
	expect_conflict(mca, "btl_tcp_if_include=eth0\r\n", 0);
	expect_conflict(mca, "# btl_tcp_if_include=eth1\n", 0);
	expect_conflict(spark, "export NCCL_SOCKET_IFNAME=\"eth1\"\n", 1);
	expect_conflict(spark, "  export  GLOO_SOCKET_IFNAME='eth0'\n", 0);
	expect_conflict(spark, "GLOO_SOCKET_IFNAME=lo\n", 1);
	expect_conflict(spark, "export OMPI_MCA_btl_tcp_if_exclude=docker0\n", 1);
	expect_conflict(spark, "echo $GLOO_SOCKET_IFNAME=lo\n", 0);
}

static void test_users_lines(void)
{
	struct err e = { 0 };
	int conflicts;
	char *text;

	clear();
	put(mca, "x = 1");
	ok(fix("eth0", false, &conflicts, &e) > 0, "fix: %s", e.text);
	text = get(mca);
	if (text) {
		char more[4096];

		snprintf(more, sizeof(more), "%sy = 2\n", text);
		put(mca, more);
	}
	free(text);
	text = get(nccl);
	if (text) {
		char more[4096];

		snprintf(more, sizeof(more), "%sNCCL_DEBUG=INFO\n", text);
		put(nccl, more);
	}
	free(text);
	ok(fix(NULL, false, &conflicts, &e) > 0, "undo: %s", e.text);
	text = get(mca);
	ok(text && !strcmp(text, "x = 1\ny = 2\n"), "a line added later stays a line");
	free(text);
	text = get(nccl);
	ok(text && !strcmp(text, "NCCL_DEBUG=INFO\n"), "and keeps a file that we made");
	free(text);
}

static void test_bad(void)
{
	static const char *const names[] = {
		"",    "eth0;x", "a,b", "$(x)", "a b", "'", "=eth0", "a-name-that-is-too-long",
		"0eth"
	};
	static const char *const damaged[] = { "# >>> ringup\n", "# <<< ringup\n",
					       "# >>> ringup\n# >>> ringup\n# <<< ringup\n",
					       "# >>> ringup\n# <<< ringup\n# <<< ringup\n" };
	struct err e = { 0 };
	unsigned long before;
	int conflicts;
	size_t i;

	clear();
	before = tree();
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ok(fix(names[i], false, &conflicts, &e) == RINGUP_EINVAL, "refused: %s",
		   e.text);
	ok(tree() == before, "nothing was written");
	for (i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		put(nccl, damaged[i]);
		before = tree();
		ok(fix("eth0", true, &conflicts, &e) == RINGUP_EINVAL &&
			   fix(NULL, false, &conflicts, &e) == RINGUP_EINVAL &&
			   tree() == before,
		   "a damaged block: %s", e.text);
	}
}

int main(void)
{
	char rm[64];

	clearenv();
	setenv("PATH", "/usr/bin:/bin", 1);
	if (!mkdtemp(root)) {
		ok(0, "mkdtemp");
		return tap_done();
	}
	test_round_trips();
	test_what();
	test_network();
	test_rdma();
	test_settings();
	test_pin();
	test_not_ours();
	test_conflicts();
	test_users_lines();
	test_bad();
	snprintf(rm, sizeof(rm), "rm -rf %s", root);
	ok(system(rm) == 0, "clean up");
	return tap_done();
}
