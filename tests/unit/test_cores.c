/* test_cores.c - affinity and quotas, live and recorded. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "host/cores.h"
#include "tap.h"

static void put(const char *root, const char *path, const char *text)
{
	if (file_write(root, path, 0644, text, strlen(text), NULL))
		printf("# cannot write %s%s\n", root, path);
}

int main(void)
{
	unsigned char mask[CORES_MASK_BYTES], one[CORES_MASK_BYTES];
	char root[] = "/tmp/test_cores.XXXXXX", cmd[64];
	cpu_set_t set;
	int i;

	cores_mask(mask);
	sched_getaffinity(0, sizeof(set), &set);
	ok(cores_count(mask) == CPU_COUNT(&set), "as many as the kernel allows: %d",
	   cores_count(mask));
	for (i = 0; !CPU_ISSET(i, &set); i++)
		;
	CPU_ZERO(&set);
	CPU_SET(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
	cores_mask(one);
	ok(cores_count(one) == 1, "one after pinning");

	if (!mkdtemp(root))
		return 1;
	ok(cores_quota(root) == 0, "no control groups: no quota");
	put(root, "/proc/self/cgroup", "0::/a/b\n");
	put(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	put(root, "/sys/fs/cgroup/a/cpu.max", "max 100000\n");
	ok(cores_quota(root) == 0, "max is no quota");
	put(root, "/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
	ok(cores_quota(root) == 2, "one and a half are two");
	put(root, "/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
	ok(cores_quota(root) == 1, "the smallest up to the root counts");
	put(root, "/sys/fs/cgroup/a/b/cpu.max", "garbage\n");
	ok(cores_quota(root) == 2, "garbage is no quota");
	snprintf(cmd, sizeof(cmd), "rm -r %s", root);
	ok(system(cmd) == 0, "cleaned up");
	return tap_done();
}
