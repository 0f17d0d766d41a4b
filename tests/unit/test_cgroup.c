/* test_cgroup.c - which control group, of which version, and up from there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/file.h"
#include "tap.h"

static char root[] = "/tmp/test_cgroup.XXXXXX";

static void put(const char *path, const char *text)
{
	if (file_write(root, path, 0644, text, strlen(text), NULL))
		printf("# cannot write %s%s\n", root, path);
}

static bool is_found(const char *text, const char *controller, int version, const char *path)
{
	struct cgroup g;

	put("/proc/self/cgroup", text);
	return cgroup_find(&g, root, controller) && g.version == version &&
	       !strcmp(g.path, path);
}

int main(void)
{
	char text[CGROUP_TEXT], line[CGROUP_PATH + 16], cmd[64];
	struct cgroup g;

	if (!mkdtemp(root))
		return 1;
	ok(!cgroup_find(&g, root, "cpu"), "no list, no group");
	ok(is_found("0::/a/b\n", "memory", 2, "/a/b"), "version 2");
	ok(is_found("0::/\n", "memory", 2, ""), "its root");
	ok(is_found("4:cpuacct,cpu:/a\n3:cpuset:/b\n0::/c\n", "cpu", 1, "/a"), "version 1");
	ok(is_found("0::/c\n3:cpuset:/b\n4:cpuacct,cpu:/a\n", "cpu", 1, "/a"),
	   "it comes first wherever it stands");
	ok(is_found("4:cpuacct:/a\n3:cpuset:/b\n0::/c\n", "cpu", 2, "/c"),
	   "names are compared whole");
	ok(is_found("5:name=x:/a:b\n0::/d:e\n", "cpu", 2, "/d:e"), "colons in paths");
	ok(!is_found("", "cpu", 0, "") && !is_found("0:\n::\n:\nx\n4:cpu:\n", "cpu", 0, ""),
	   "nonsense is no group");
	snprintf(line, sizeof(line), "0::/%0*d\n", CGROUP_PATH, 0);
	ok(!is_found(line, "cpu", 0, ""), "nor is a path without end");

	put("/sys/fs/cgroup/memory/a/b/limit", "12\n");
	put("/sys/fs/cgroup/a/limit", "34\n");
	ok(is_found("7:memory:/a/b\n", "memory", 1, "/a/b") &&
		   cgroup_find(&g, root, "memory") && cgroup_read(&g, root, "limit", text) &&
		   !strcmp(text, "12\n"),
	   "a file of version 1");
	ok(cgroup_up(&g) && !strcmp(g.path, "/a") && !cgroup_read(&g, root, "limit", text),
	   "up, where there is none");
	ok(cgroup_up(&g) && !*g.path && !cgroup_up(&g), "up to the root, and no further");
	put("/proc/self/cgroup", "0::/a\n");
	ok(cgroup_find(&g, root, "memory") && cgroup_read(&g, root, "limit", text) &&
		   !strcmp(text, "34\n"),
	   "a file of version 2");
	snprintf(cmd, sizeof(cmd), "rm -r %s", root);
	ok(system(cmd) == 0, "cleaned up");
	return tap_done();
}
