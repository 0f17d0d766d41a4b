/* test_commlibs.c - the versions of a recorded tree's communication libraries. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "detect/commlibs.h"
#include "host/netconf.h"
#include "tap.h"

/* A folder below @root and all above it; @path is changed meanwhile. */
static void folder(const char *root, const char *path)
{
	char full[PATH_MAX];
	char *slash;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (slash = strchr(full + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(full, 0755);
		*slash = '/';
	}
	mkdir(full, 0755);
}

static void file(const char *root, const char *path, const char *text)
{
	char full[PATH_MAX];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	f = fopen(full, "w");
	ok(f && fputs(text, f) >= 0 && !fclose(f), "%s is there", path);
}

#define SITE "/usr/lib/python3/dist-packages"

/* Debian's UCX, whose library has no number: by dpkg's notes, or pkg-config's. */
static void test_ucx(const char *root)
{
	struct netconf c = { 0 }, d = { 0 };
	struct err e = { 0 };

	folder(root, "/usr/lib/x86_64-linux-gnu/pkgconfig");
	folder(root, "/var/lib/dpkg");
	file(root, "/usr/lib/x86_64-linux-gnu/libucp.so.0", "");
	file(root, "/var/lib/dpkg/status",
	     "Package: a\nVersion: 1\n\nPackage: libucx0\nStatus: install ok installed\n"
	     "Version: 1.13.1-1\n\nPackage: z\nVersion: 3\n");
	ok(!commlibs_find(&c, root, &e) && !strcmp(netconf_version(&c, "ucx"), "1.13.1"),
	   "dpkg: UCX %s", netconf_version(&c, "ucx"));
	netconf_free(&c);
	file(root, "/usr/lib/x86_64-linux-gnu/pkgconfig/ucx.pc",
	     "Name: ucx\nDescription: x\nVersion: 1.17.0\n");
	ok(!commlibs_find(&d, root, &e) && !strcmp(netconf_version(&d, "ucx"), "1.17.0"),
	   "pkg-config: UCX %s", netconf_version(&d, "ucx"));
	netconf_free(&d);
}

static void test_found(const char *root)
{
	struct netconf c = { 0 };
	struct err e = { 0 };

	folder(root, "/usr/bin");
	folder(root, "/usr/lib/python3.11");
	folder(root, SITE "/nvidia_nccl_cu12-2.27.7.dist-info");
	folder(root, SITE "/nvidia/nccl/lib");
	folder(root, SITE "/torch-2.8.0+cu126.dist-info");
	folder(root, "/usr/include");
	file(root, "/usr/bin/python3.11", "");
	file(root, SITE "/nvidia/nccl/lib/libnccl.so.2", "");
	file(root, "/usr/include/nccl.h",
	     "#define NCCL_MAJOR 2\n#define NCCL_MINOR 9\n#define NCCL_PATCH 6\n");
	ok(commlibs_find(&c, root, &e) == 0, "found %s", e.text);
	ok(!strcmp(netconf_version(&c, "nccl"), "2.27.7"), "NCCL: the newest, %s, not 2.9.6",
	   netconf_version(&c, "nccl"));
	ok(!*netconf_version(&c, "ucx"), "no UCX");
	ok(!strcmp(netconf_version(&c, "gloo"), "2.8.0+cu126"), "Gloo: torch's, %s",
	   netconf_version(&c, "gloo"));
	ok(!*netconf_version(&c, "openmpi"), "no Open MPI");
	netconf_free(&c);
}

int main(void)
{
	char root[] = "/tmp/ringup-commlibs-XXXXXX", empty[] = "/tmp/ringup-commlibs-XXXXXX";
	char rm[PATH_MAX];
	struct netconf c = { 0 };
	struct err e = { 0 };

	ok(mkdtemp(root) && mkdtemp(empty), "folders");
	ok(commlibs_find(&c, empty, &e) == 0 && c.nversions == 0, "nothing where nothing is");
	netconf_free(&c);
	test_found(root);
	test_ucx(root);
	snprintf(rm, sizeof(rm), "rm -rf %s %s", root, empty);
	ok(system(rm) == 0, "cleaned up");
	return tap_done();
}
